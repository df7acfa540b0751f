"""How results of sums of products are stored: past the caches if no cache holds them and they are
whole vectors that lie as they should; together where tiles end within vectors. They are what NumPy
gives in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import contraction_results, contraction_storing
from ricci.backends.llvm.contraction import follow, form_of
from ricci.backends.llvm.contraction_schedule import scheduled_plan
from ricci.backends.llvm.nest_stream import FENCE
from ricci.backends.llvm.schedule import Contraction, Schedule, Window, Winograd
from ricci.backends.llvm.target import Target, host

from .cases import Case, convolution
from .native import Native
from .oracle import reduce
from .test_random import narrow
from .test_window import of_images

HOST = host()
TARGETS = {"host": HOST, "32 bytes": narrow(HOST, 32), "16 bytes": narrow(HOST, 16)}

POINTWISE = Contraction("left", "packed", "packed", 5, 2, 20, 32, (0,), 0, 16, 2)
TILES = Window("right", 3, 1, 1, 7, 2)
COPIES = Window("left", 1, 3, 3, 3, 1)
PRODUCTS = Winograd("right", 3, 1, 2, 0, 0)

CASES: dict[str, tuple[Case, Schedule, bool]] = {
    "planes of whole vectors": (convolution(2, (5, 20), (8, 8), 1, bias=True), POINTWISE, True),
    "planes that are not": (convolution(2, (5, 20), (7, 7), 1, bias=True), POINTWISE, False),
    "squares of half a line": (
        convolution(2, (5, 20), (8, 8), 1, bias=True),
        replace(POINTWISE, vector="right", rows=8, vectors=1, row_block=24),
        False,
    ),
    "rows of whole vectors": (convolution(2, (3, 20), (9, 68), 7, stride=2, pad=1), TILES, True),
    "rows that are not": (convolution(2, (3, 20), (9, 61), 7, stride=2, pad=1), TILES, False),
    "tiles of whole vectors": (convolution(2, (16, 24), (6, 32), 3, pad=1), PRODUCTS, True),
    "tiles that are not": (convolution(2, (16, 24), (6, 35), 3, pad=1), PRODUCTS, False),
    "planes of whole vectors, but not rows": (
        convolution(2, (16, 24), (8, 22), 3, pad=1),
        PRODUCTS,
        False,
    ),
    "tiles that begin anywhere": (of_images(2, 6, 5, 6, 31), COPIES, False),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_whole_vectors_go_past_the_caches(
    monkeypatch: pytest.MonkeyPatch, name: str, target: Target
) -> None:
    case, schedule, past = CASES[name]
    assert not _streams(case, schedule, target), "caches hold so few results"
    monkeypatch.setattr(contraction_results, "_FAR", 0)
    if schedule is TILES:  # a part of a line that a tile writes alone takes as long as all of it
        past = past and target.vector_bytes == 64
    assert _streams(case, schedule, target) == past


LEAVING = """
import nn;
graph Main {{
    @input {{ x: real[1,16,64,64]; }}
    @variable {{ w: real[{channels},16,1,1]; v: real[8,{channels},1,1]; }}
    @output {{ {outputs} }}
    @compose {{ c = nn.conv(x, w); y = nn.relu(c); {more} }}
}}
"""
Y, Z = "y: real[1,{channels},64,64];", "z: real[1,8,64,64];"


@pytest.mark.parametrize(
    ("channels", "outputs", "more", "past"),
    [
        (1024, Y, "", True),
        (1008, Y, "", False),  # less than 16 MB
        (1024, Y + Z, "z = nn.conv(y, v);", False),  # which the program reads again
        (1024, Z, "z = nn.conv(y, v);", False),
        (2048, Y + Z, "z = nn.conv(y, v);", True),  # 32 MB: no matter who reads them
    ],
)
def test_large_results_that_leave_the_program(
    channels: int, outputs: str, more: str, past: bool
) -> None:
    text = LEAVING.format(channels=channels, outputs=outputs.format(channels=channels), more=more)
    code = ricci.parse(text, "skriptnd").show("llvm", target="x86-64-v4", kernel="0")
    assert ("!nontemporal" in code) == past


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("rows", [3, 5, 9])
@pytest.mark.parametrize("row_block", [45, 90, 1000])
@pytest.mark.parametrize("size", [(11, 9), (12, 12)])
def test_results_of_several_tiles_are_stored_together(
    rows: int, row_block: int, size: tuple[int, int], target: Target
) -> None:
    """Where there are fewer vectors of results than tiles; a chunk may end within both."""
    case = convolution(1, (50, 70), size, 1, bias=True)
    schedule = Contraction("right", "direct", "packed", rows, 2, row_block, 64, (0,), 0, 20, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    assert contraction_storing.gathers(plan, {}) == (4 * rows <= 3 * plan.lanes)
    assert not _streams(case, schedule, target)


def _streams(case: Case, schedule: Schedule, target: Target) -> bool:
    """Whether the code of a schedule, whose results are checked, has stores past the caches, and
    waits for them."""
    text = checked(case, schedule, target)
    streams = "!nontemporal" in text
    assert streams == (FENCE in text)
    return streams


def checked(case: Case, schedule: Schedule, target: Target) -> str:
    """The code of a schedule, whose results are checked."""
    code = follow(case.kernel, schedule, {}, target, case.constant)
    arrays = case.arrays(0)
    native = Native(code, arrays, target)
    native.run(2)
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()
    return code.text


@pytest.mark.parametrize(
    ("real", "short"),
    [("float", "int8"), ("float", "int16"), ("double", "int8"), ("double", "int16")],
)
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 15, 17, 25, 33, 49, 65, 73])
@pytest.mark.parametrize("rows", [1, 5, 28])
def test_short_integers_left_over_leave_what_follows(
    real: str, short: str, columns: int, rows: int
) -> None:
    """One lane left over: LLVM stored it as the longer number that it had been."""
    f = ricci.parse(
        f"""
        def f({real}({rows}, 16) a, {real}({columns}, 16) b) -> (y) {{
            s(j, i) +=! b(i, k) * a(j, k)
            y(j, i) = {short}(round(s(j, i)))
        }}
        """,
        "tc",
    )
    rng = np.random.default_rng(columns)
    kind = np.float32 if real == "float" else np.float64
    a, b = (rng.uniform(-9, 9, (n, 16)).astype(kind) for n in (rows, columns))
    assert np.array_equal(f.compile()(a, b), f.compile("interpreter")(a, b))


def test_masked_stores_of_short_integers_fill_half_a_register_at_most() -> None:
    """Lanes that are always off keep LLVM from putting a conversion and a store together."""
    f = ricci.parse(
        """
        def f(float(28, 16) a, float(49, 16) b) -> (y) {
            s(j, i) +=! b(i, k) * a(j, k)
            y(j, i) = int8(round(s(j, i)))
        }
        """,
        "tc",
    )
    text = f.show("llvm", target="x86-64-v4")
    stores = [line for line in text.splitlines() if "call void @llvm.masked.store" in line]
    bytes_of = [line for line in stores if "i8>" in line]
    assert bytes_of
    assert all("<32 x i8>" in line for line in bytes_of)
