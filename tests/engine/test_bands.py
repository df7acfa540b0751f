"""Sums of products, windows of their results and sums of these, band by band: when, and the
numbers, against NumPy."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ricci
from ricci.api import Model
from ricci.backends.llvm.nest_group import choose_chain, write_group
from ricci.backends.llvm.schedule import Chain
from ricci.dtypes import DType, Types
from ricci.ir.loops import Group, Program, Reduce, expressions_of
from ricci.ir.nodes import Access, Binary, Index, Skip, Subscript, Tensor, integer
from ricci.ir.rewrite import accesses
from ricci.ir.text_loops import format_program
from ricci.passes import bands
from ricci.passes.bands import Reach, ranges_of, reach_of
from ricci.passes.machine import Machine
from ricci.passes.pipeline import lower

from .. import ahead
from .running import HOST, runnable_targets

MACHINE = Machine(cache=8 << 20, threads=2, near=1 << 20)


class Case(NamedTuple):
    """Channels outside and inside of a block, a map, a window, and how many blocks there are."""

    shape: tuple[int, int, int, int]
    inside: int
    size: int = 3
    stride: int = 1
    pad: int = 1
    blocks: int = 1
    stem: bool = False
    """Whether the first sums are over windows, too, with a border."""


def weights(case: Case) -> dict[str, np.ndarray]:
    c, e, rng = case.shape[1], case.inside, np.random.default_rng(0)
    first = (c, c, 3, 3) if case.stem else (c, c, 1, 1)
    shapes: dict[str, tuple[int, ...]] = {"w0": first, "last": (c, c, 1, 1)}
    for n in range(case.blocks):
        shapes |= {f"wide{n}": (e, c, 1, 1), f"bias{n}": (e,), f"narrow{n}": (c, e, 1, 1)}
        shapes[f"window{n}"] = (e, 1, case.size, case.size)
    return {
        name: rng.standard_normal(s, np.float32) / np.float32(np.prod(s[1:]) ** 0.5)
        for name, s in shapes.items()
    }


def text_of(case: Case, real: str = "real") -> str:
    """Blocks one after the other, each added to what it is given if the map keeps its size."""
    (b, c, h, w), e, k = case.shape, case.inside, case.size
    listed = " ".join(
        f"{name}: {real}[{', '.join(map(str, a.shape))}];" for name, a in weights(case).items()
    )
    steps = [f"a = nn.conv{{padding={int(case.stem)}}}(x, w0);", "v0 = nn.relu(a);"]
    for n in range(case.blocks):
        steps += [
            f"e{n} = nn.conv{{padding=0}}(v{n}, wide{n}, bias{n});",
            f"f{n} = nn.relu{{max=6.0}}(e{n});",
            f"d{n} = nn.conv{{groups={e}, stride={case.stride}, padding={case.pad}}}"
            f"(f{n}, window{n});",
            f"g{n} = nn.relu(d{n});",
            f"z{n} = nn.conv{{padding=0}}(g{n}, narrow{n});",
            f"v{n + 1} = math.add(z{n}, v{n});" if keeps(case) else f"v{n + 1} = nn.relu(z{n});",
        ]
    steps += [f"p = nn.conv{{padding=0}}(v{case.blocks}, last);", "y = nn.relu(p);"]
    oh, ow = h, w
    for _ in range(case.blocks):
        oh, ow = ((n + 2 * case.pad - k) // case.stride + 1 for n in (oh, ow))
    return f"""import nn, math; graph main {{
        @input {{ x: {real}[{b}, {c}, {h}, {w}]; }}
        @output {{ y: {real}[{b}, {c}, {oh}, {ow}]; }}
        @variable {{ {listed} }}
        @compose {{ {" ".join(steps)} }}
    }}"""


def keeps(case: Case) -> bool:
    return case.stride == 1 and case.size == 2 * case.pad + 1


def model_of(case: Case, real: str = "real") -> Model:
    model = ricci.parse(text_of(case, real), "skriptnd")
    for name, value in weights(case).items():
        model.variables[f"main.main.{name}"] = value
    return model


def input_of(case: Case) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(case.shape, np.float32)


def windows(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    """A window for each result, `[b, c, h, w, p, q]`."""
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]


def expected(case: Case) -> np.ndarray:
    w = {name: a.astype(np.float64) for name, a in weights(case).items()}
    x = windows(input_of(case).astype(np.float64), w["w0"], 1, int(case.stem))
    v = np.maximum(np.einsum("bkhwpq,mkpq->bmhw", x, w["w0"]), 0)
    for n in range(case.blocks):
        e = np.einsum("bkhw,mk->bmhw", v, w[f"wide{n}"][:, :, 0, 0])
        e = np.clip(e + w[f"bias{n}"][:, None, None], 0, 6)
        window = w[f"window{n}"]
        d = np.einsum("bchwpq,cpq->bchw", windows(e, window, case.stride, case.pad), window[:, 0])
        z = np.einsum("bkhw,mk->bmhw", np.maximum(d, 0), w[f"narrow{n}"][:, :, 0, 0])
        v = z + v if keeps(case) else np.maximum(z, 0)
    return np.asarray(np.maximum(np.einsum("bkhw,mk->bmhw", v, w["last"][:, :, 0, 0]), 0))


def lowered(case: Case, machine: Machine = MACHINE) -> Program:
    types = Types(DType.FLOAT32, DType.INT64)
    return lower(model_of(case).graph, {}, types, machine=machine)


def groups(program: Program) -> list[Group]:
    return [k for k in program.kernels if isinstance(k, Group) and k.bands is not None]


# ------------------------------------------------------------------------ what rows are needed


def test_rows_that_are_read_are_those_of_all_terms() -> None:
    y, p = Index("y", integer(9)), Index("p", integer(4))
    tensor = Tensor("t", DType.FLOAT32, (integer(20),))
    for step, by, start in itertools.product((1, 2, 3), (-2, 1, 3), (-3, 0, 4)):
        place = Binary("add", Binary("mul", y, integer(step)), Binary("mul", p, integer(by)))
        access = Access(tensor, (Subscript(Binary("add", place, integer(start)), Skip()),))
        reach = reach_of(access, 0, y)
        assert reach is not None
        for rows in (range(9), range(3, 5), range(8, 9)):
            read = [step * r + by * k + start for r in rows for k in range(4)]
            low, high = min(max(min(read), 0), 20), min(max(read) + 1, 20)
            assert reach.of(rows) == range(low, max(low, high))


def test_rows_of_a_band_are_those_that_all_readers_need() -> None:
    """The first kernel is read by both others, each at rows of its own."""
    reaches = {(1, 0): Reach(1, -1, 1, 10), (2, 1): Reach(1, 0, 0, 10), (2, 0): Reach(1, 2, 3, 10)}
    assert ranges_of(0, 4, 3, reaches) == [range(7), range(4), range(4)]
    assert ranges_of(4, 8, 3, reaches) == [range(3, 10), range(4, 8), range(4, 8)]
    assert ranges_of(9, 10, 3, reaches) == [range(8, 10), range(9, 10), range(9, 10)]


# ------------------------------------------------------------------------------------ when


LARGE = Case((1, 24, 56, 56), 144)


def test_a_block_is_one_group_that_keeps_what_is_between_its_kernels() -> None:
    (group,) = groups(lowered(LARGE))
    assert [len(k.reduced) for k in group.kernels] == [1, 2, 1]
    assert len(group.local) == 2 and not group.shared
    assert group.bands is not None
    assert [i.name for i in group.bands.rows] == ["i_1", "i_1", "i_1"]
    height = group.bands.height
    assert (height + 2 + height) * 56 * 144 * 4 <= 0.6 * MACHINE.near
    assert -(-56 // height) % MACHINE.threads == 0
    # neither of the two maps between the kernels takes memory
    assert lowered(LARGE).arena < lowered(LARGE, Machine(threads=2)).arena - 56 * 56 * 144 * 4


def test_bands_are_as_many_as_threads_share_evenly() -> None:
    for threads in (2, 3, 4, 7):
        machine = Machine(threads=threads, near=4 << 20)
        (group,) = groups(lowered(LARGE, machine))
        assert group.bands is not None
        count = -(-56 // group.bands.height)
        assert count % threads == 0


@pytest.mark.parametrize(
    ("case", "machine"),
    [
        (Case((1, 24, 14, 14), 144), MACHINE),  # few bytes
        (Case((1, 24, 56, 56), 144), Machine(threads=2)),  # nobody knows what a core keeps
        (Case((1, 24, 56, 56), 144), Machine(threads=2, near=64 << 10)),  # bands of a row or two
        (Case((1, 24, 56, 56), 144), Machine(threads=40, near=1 << 20)),  # the same
        (Case((1, 24, 28, 28), 144), Machine(threads=1, near=1 << 20)),  # one core keeps all
        (Case((1, 160, 56, 56), 144), MACHINE),  # many terms
        (Case((1, 24, 700, 5), 144), MACHINE),  # short rows
        (Case((1, 4, 200, 200), 6), MACHINE),  # channels that no vectors lie along
    ],
)
def test_other_blocks_are_kernels_by_themselves(case: Case, machine: Machine) -> None:
    assert not groups(lowered(case, machine))


def test_windows_of_what_is_needed_elsewhere_are_not_in_bands() -> None:
    text = text_of(LARGE).replace("@output {", "@output { s: real[1, 1, 1, 1];")
    text = text.replace(
        "y = nn.relu(p);", "y = nn.relu(p); s = math.sum_reduce{axes=[1, 2, 3]}(f0);"
    )
    program = lower(ricci.parse(text, "skriptnd").graph, {}, Types(), machine=MACHINE)
    assert not groups(program)


def test_sums_over_windows_are_not_behind_windows() -> None:
    """They have better code of their own; the first two kernels are together all the same."""
    text = text_of(LARGE).replace("padding=0}(g0, narrow0)", "padding=1}(g0, narrow0)")
    text = text.replace("narrow0: real[24, 144, 1, 1]", "narrow0: real[24, 144, 3, 3]")
    program = lower(
        ricci.parse(text, "skriptnd").graph, {}, Types(), machine=replace(MACHINE, near=8 << 20)
    )
    (group,) = groups(program)
    assert len(group.kernels) == 2


def test_a_thread_keeps_rows_of_one_image() -> None:
    (group,) = groups(lowered(LARGE._replace(shape=(4, 24, 56, 56))))
    code = write_group(group, {}, HOST, frozenset())
    assert code.scratch < 1.5 * 0.6 * MACHINE.near


def test_rows_are_those_furthest_apart_in_memory() -> None:
    """Channels come first in the program, and last in memory: rows are whole."""
    for group in groups(lowered(Case((2, 24, 40, 30), 96))):
        assert group.bands is not None
        assert [i.name for i in group.bands.rows] == ["i_1"] * len(group.kernels)
        assert len(group.shared) == 1


def test_kernels_of_constants_between_them_come_first() -> None:
    """The windows' filter is made of a variable after the first sums are."""
    text = text_of(LARGE)
    scaled = "t0 = math.mul(window0, window0); d0 = "
    text = text.replace(", window0);", ", t0);").replace("d0 = ", scaled, 1)
    graph = ricci.parse(text, "skriptnd").graph
    (group,) = groups(lower(graph, {}, Types(), machine=MACHINE))
    assert len(group.kernels) == 3


def test_what_is_added_to_the_sums_has_bytes_of_its_own() -> None:
    """A block reads around what it replaces: its results cannot be in the same place, and those of
    the next block not in that of the first."""
    program = lowered(LARGE._replace(blocks=3))
    found = groups(program)
    assert len(found) == 3
    places = {}
    for group in found:
        written = group.kernels[-1].targets[0].tensor
        read = {t for k in group.kernels for t in _read(k)} - {*group.local}
        for tensor in read - {written}:
            assert program.buffers[tensor] != program.buffers[written]
        places[written] = program.buffers[written]
        assert program.strides[written][1] == 1  # channels last, as before
    assert len(places) == 3


def _read(kernel: Reduce) -> set[Tensor]:
    return {a.tensor for a in accesses(*expressions_of(kernel))}


def test_loops_are_shown_with_the_rows_of_a_band() -> None:
    text = format_program(lowered(Case((1, 24, 56, 40), 144)))
    (group,) = groups(lowered(Case((1, 24, 56, 40), 144)))
    assert group.bands is not None
    assert f"  together in bands of {group.bands.height} i_1 of the last:" in text
    assert "    of main.main.f0, main.main.g0 one band each\n" in text
    batch = format_program(lowered(Case((2, 24, 56, 40), 144)))
    assert re.search(r"  together for \w+ < 2 in bands of \d+ i_1 of the last:", batch)


# ------------------------------------------------------------------------------------ numbers


CASES = [
    LARGE,
    Case((1, 24, 40, 40), 96, stride=2),
    Case((2, 16, 29, 37), 100, blocks=3),
    Case((3, 24, 30, 41), 64, size=5, stride=2, pad=2, blocks=2),
    Case((1, 17, 33, 28), 80, size=5, pad=2, blocks=2),
    Case((1, 8, 50, 20), 72, size=2, stride=3, pad=0),
    Case((1, 16, 40, 64), 64, size=4, stride=1, pad=2),
    Case((1, 3, 64, 48), 64, blocks=2, stem=True),
]


@pytest.fixture
def anything(monkeypatch: pytest.MonkeyPatch) -> list[Group]:
    """The groups that there are, whatever their size; code is neither kept nor made elsewhere."""
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    monkeypatch.setenv("RICCI_COMPILER_PROCESS", "0")
    monkeypatch.setattr(bands, "LEAST_BYTES", 1)
    monkeypatch.setattr(bands, "_ALONE", 0.0)
    monkeypatch.setattr(bands, "_MORE", 10.0)
    monkeypatch.setattr(bands, "_ROOM", 10.0)
    found: list[Group] = []
    made = bands._Joined.group

    def group(self: bands._Joined) -> Group | None:
        result = made(self)
        found.extend([] if result is None else [result])
        return result

    monkeypatch.setattr(bands._Joined, "group", group)
    return found


WAYS = itertools.cycle([(1, 3), (4, 4), (5, 2)])
"""Rows of a band, and threads."""


@pytest.mark.parametrize(
    ("case", "way", "target"),
    [
        *((case, way, "cpu") for case, way in zip(CASES, WAYS, strict=False)),
        *((CASES[3], way, name) for name, way in zip(runnable_targets()[1:], WAYS, strict=False)),
    ],
)
def test_numbers(
    case: Case,
    way: tuple[int, int],
    target: str,
    anything: list[Group],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    height, threads = way
    monkeypatch.setattr(bands._Joined, "_height", lambda _: height)
    got, want = (
        model_of(case).compile(threads=threads, target=target)(input_of(case)),
        expected(case),
    )
    assert len(anything) >= case.blocks
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


@pytest.mark.parametrize("real", ["float64", "float16", "bfloat16"])
def test_numbers_of_other_types(real: str, anything: list[Group]) -> None:
    case = Case((1, 24, 40, 40), 96, stride=2)
    want = expected(case)
    x = input_of(case)
    got = model_of(case).compile(threads=2, real=real)(x)
    assert anything
    error = {"float64": 1e-12, "float16": 1e-2, "bfloat16": 6e-2}[real]
    assert np.abs(got.astype(np.float64) - want).max() <= error * np.abs(want).max()


@pytest.mark.parametrize("target", runnable_targets())
def test_pairs_of_several_images(target: str, anything: list[Group]) -> None:
    """A thread keeps rows of one image, whose strides are none along others."""
    case = Case((3, 24, 40, 40), 96, stride=2)
    want = expected(case)
    got = model_of(case).compile(threads=2, real="bfloat16", target=target)(input_of(case))
    assert anything
    assert np.abs(got.astype(np.float64) - want).max() <= 3e-2 * np.abs(want).max()


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("x86-64-v4-amx", r"@k\w+\.part0\.matrices\.16\.\d+x2"),
        ("x86-64-v4-bf16", r"avx512bf16\.dpbf16ps\.512"),
    ],
)
@pytest.mark.parametrize("items", [1, 3])
def test_products_of_pairs(target: str, pattern: str, items: int, anything: list[Group]) -> None:
    """Whose columns are the channels, however many images there are."""
    model = model_of(Case((items, 32, 40, 40), 96))
    text = model.show("llvm", target=target, real="bfloat16")
    assert anything
    assert re.search(pattern, text)
    assert "part0.pack.columns" not in text


@pytest.mark.parametrize("target", runnable_targets())
def test_products_of_bytes(target: str, anything: list[Group]) -> None:
    """Exact, as scales are powers of two."""
    rng = np.random.default_rng(5)
    shapes = {"w": (96, 24, 1, 1), "d": (96, 1, 3, 3), "v": (40, 96, 1, 1)}
    plain = "quant.zero_point_linear_quantize{zero_point=0, scale="
    model = ricci.parse(
        f"""import nn, quant;
        graph G {{
            @input {{ x: real[2, 24, 19, 22]; }}
            @output {{ y: real[2, 40, 10, 11]; }}
            @variable {{ {" ".join(f"{n}: real{list(s)};" for n, s in shapes.items())} }}
            @compose {{
                a0 = nn.conv{{padding=0}}(x, w); a = nn.relu(a0);
                b0 = nn.conv{{stride=2, padding=1, groups=96}}(a, d); b = nn.relu(b0);
                y = nn.conv{{padding=0}}(b, v);
            }}
            @quantize {{
                x: {plain}0.03125, bits=8}};
                a: {plain}0.0625, bits=8, signed=false}};
                b: {plain}0.0625, bits=8, signed=false}};
                w: {plain}0.015625, bits=8, symmetric=true}};
                d: {plain}0.015625, bits=8, symmetric=true}};
                v: {plain}0.015625, bits=8, symmetric=true}};
            }}
        }}""",
        "skriptnd",
    )
    for name, shape in shapes.items():
        model.variables[f"main.G.{name}"] = rng.uniform(-1, 1, shape).astype(np.float32)
    x = rng.uniform(-3, 3, (2, 24, 19, 22)).astype(np.float32)
    got = model.compile(threads=2, target=target, quantize=True)(x)
    assert anything
    want = model.compile("interpreter", quantize=True)(x)
    np.testing.assert_array_equal(got, want)


def test_what_is_not_a_number_stays_where_it_is_read(anything: list[Group]) -> None:
    case = Case((1, 16, 16, 12), 64)
    x = input_of(case)
    x[0, 3, 11, 7], x[0, 5, 2, 2] = np.nan, np.inf
    got = model_of(case).compile(threads=2)(x)
    whole = model_of(case).compile(target="interpreter")(x)
    assert anything
    np.testing.assert_array_equal(np.isnan(got), np.isnan(whole))


def test_ahead_of_time(anything: list[Group], tmp_path: Path) -> None:
    """What a model is compiled for ahead of time is known to all that decides how."""
    case = CASES[1]
    built = ahead.Model(model_of(case).build(tmp_path, threads=2), threads=2)
    assert anything
    (got,) = built.run([input_of(case)])
    built.destroy()
    want = expected(case)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-6 * np.abs(want).max())


STATE = """
import nn, math;
graph main {
    @input { x: real[1, 16, 24, 20]; }
    @output { y: real[1, 16, 24, 20]; }
    @variable {
        s: real[1, 16, 24, 20];
        wide: real[64, 16, 1, 1]; window: real[64, 1, 3, 3]; narrow: real[16, 64, 1, 1];
    }
    @compose {
        y = math.add(x, s);
        e = nn.conv{padding=0}(s, wide);
        d = nn.conv{groups=64, padding=1}(e, window);
        z = nn.conv{padding=0}(d, narrow);
        t = math.add(z, s);
    }
    @update { s = t; }
}
"""


def test_new_values_of_variables_are_in_the_right_place(anything: list[Group]) -> None:
    shapes = {"s": (1, 16, 24, 20), "wide": (64, 16, 1, 1)}
    shapes |= {"window": (64, 1, 3, 3), "narrow": (16, 64, 1, 1)}
    found = []
    for target in ("cpu", "interpreter"):
        run = ricci.parse(STATE, "skriptnd").compile(threads=2, target=target)
        rng = np.random.default_rng(0)
        for name, shape in shapes.items():
            run.variables[f"main.main.{name}"] = rng.standard_normal(shape, np.float32) / 8
        x = np.ones(shapes["s"], np.float32)
        found.append([run(x) for _ in range(3)] + [run.variables["main.main.s"]])
    assert anything
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_bands_follow_no_schedule() -> None:
    (group,) = groups(lowered(LARGE))
    chain = Chain(8, (2, 2), 8, 4)
    with pytest.raises(ricci.Error, match=r"E0807.*bands"):
        write_group(group, {}, HOST, frozenset(), chain)
    assert choose_chain(group, {}, HOST, frozenset()) is None


def built(steps: str) -> tuple[list[np.ndarray], ...]:
    """What steps after `b`, 64 channels made of 16 of `x`, give, and what they mean."""
    shapes = {"wide": (64, 16, 1, 1), "window": (64, 1, 3, 3), "narrow": (16, 64, 1, 1)}
    shapes["large"] = (64, 1, 5, 5)
    listed = " ".join(f"{n}: real[{', '.join(map(str, s))}];" for n, s in shapes.items())
    text = f"""import nn, math, layout; graph main {{
        @input {{ v: real[2, 16, 21, 17]; }}
        @output {{ y: real[2, 16, 21, 17]; s: real[2, 16, 1, 1]; }}
        @variable {{ first: real[16, 16, 1, 1]; {listed} }}
        @compose {{
            v0 = nn.conv{{padding=0}}(v, first); x = nn.relu(v0);
            t = layout.reshape{{shape=[2, 16, 357, 1]}}(x);
            s = math.sum_reduce{{axes=[2, 3]}}(t);
            a = nn.conv{{padding=0}}(x, wide); b = nn.relu(a); {steps}
            z0 = nn.conv{{padding=0}}(z, first); y = nn.relu(z0);
        }}
    }}"""
    model, rng = ricci.parse(text, "skriptnd"), np.random.default_rng(0)
    for name, shape in {"first": (16, 16, 1, 1), **shapes}.items():
        model.variables[f"main.main.{name}"] = rng.standard_normal(shape, np.float32) / 4
    v = rng.standard_normal((2, 16, 21, 17), np.float32)
    found, meant = (
        [*model.compile(threads=2, target=target)(v)] for target in ("cpu", "interpreter")
    )
    return found, meant


WINDOW = "nn.conv{groups=64, padding=1}"
NARROW = "nn.conv{padding=0}"


def check_steps(steps: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands._Joined, "_height", lambda _: 4)
    for got, want in zip(*built(steps), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_rows_that_windows_are_over_and_that_multiply_them(
    anything: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_steps(
        f"c = {WINDOW}(b, window); d = math.mul(c, b); e = {NARROW}(d, narrow); "
        "z = math.add(e, x);",
        monkeypatch,
    )
    assert anything


def test_windows_over_the_same_map_that_are_added(
    anything: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one reads more of the map; its sums were in the place of the first one's."""
    check_steps(
        f"d = nn.conv{{groups=64, padding=2}}(b, large); p = {WINDOW}(b, window); "
        f"g = math.add(d, p); h = nn.relu(g); e = {NARROW}(h, narrow); z = nn.relu(e);",
        monkeypatch,
    )
    assert any(len(group.kernels) == 4 for group in anything)


def test_kernels_between_them_that_write_what_has_been_read(
    anything: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums in the place of what the first kernel reads cannot come before it."""
    check_steps(
        f"k = {NARROW}(v, first); x1 = math.add(k, x); c = {WINDOW}(b, window); d = nn.relu(c); "
        f"e = {NARROW}(d, narrow); z = math.add(e, x1);",
        monkeypatch,
    )
    assert not anything
