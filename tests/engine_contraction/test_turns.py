"""Results of a product that take turns in memory, as those of `y[2 * i + j] = x[i] * w[j]`: they
are interleaved as they are stored. They are what NumPy gives in float64."""

from __future__ import annotations

import pytest

import ricci
from ricci.backends.llvm import contraction_results
from ricci.backends.llvm.contraction import form_of
from ricci.backends.llvm.contraction_schedule import scheduled_plan
from ricci.backends.llvm.contraction_storing import turns_of
from ricci.backends.llvm.schedule import Contraction, Side
from ricci.backends.llvm.target import Target
from ricci.dtypes import DType

from .cases import Case, at, binary, index, summed, tensor
from .test_results import HOST, TARGETS, checked


def spread(
    channels: int, size: tuple[int, int], steps: tuple[int, int], bias: bool, dtype: DType
) -> Case:
    """`y[c, s i + p, t j + q] = sum over k of x[k, i, j] * w[k, c, p, q]`."""
    c, i, j, k = index("c", channels), index("i", size[0]), index("j", size[1]), index("k", 19)
    p, q = index("p", steps[0]), index("q", steps[1])
    x = tensor("x", 19, *size, dtype=dtype)
    w = tensor("w", 19, channels, *steps, dtype=dtype)
    b = tensor("b", channels, steps[1], dtype=dtype)
    y = tensor("y", channels, size[0], steps[0], size[1], steps[1], dtype=dtype)
    value = binary("mul", at(x, k, i, j), at(w, k, c, p, q))
    rest = [at(b, c, q)] if bias else None
    kernel = summed(at(y, c, i, p, j, q), (c, i, p, j, q), (k,), value, None, rest)
    return Case(kernel, (x, w, b), frozenset([w]))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("rows", "vectors"), [(6, 2), (12, 1), (5, 2)])
@pytest.mark.parametrize("steps", [(2, 2), (1, 3), (2, 4), (3, 5), (2, 1)])
@pytest.mark.parametrize(
    ("size", "dtype"),
    [
        ((5, 7), DType.FLOAT32),
        ((3, 16), DType.FLOAT32),
        ((2, 37), DType.FLOAT32),
        ((2, 37), DType.FLOAT64),
    ],
)
def test_interleaved(
    dtype: DType,
    size: tuple[int, int],
    steps: tuple[int, int],
    rows: int,
    vectors: int,
    side: Side,
    target: Target,
) -> None:
    """Of both sides, by tiles that hold whole turns and by others."""
    case = spread(9, size, steps, rows == 6, dtype)
    schedule = Contraction(side, "packed", "packed", rows, vectors, 24, 64, (0,), 0, 7, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    lanes, turn = target.lanes(dtype), steps[1]
    length = rows if side == "left" else vectors * lanes
    near = 1 < turn <= 4 and turn < lanes
    assert turns_of(plan, {}) == (turn if near and length % turn == 0 else 1)
    if near:
        assert plan.across == (side == "right")
    text = checked(case, schedule, target)
    if target is HOST and near and length % turn == 0:
        assert "scatter" not in text


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("size", "past"), [((4, 32), True), ((4, 33), False)])
def test_past_the_caches(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], past: bool, side: Side
) -> None:
    monkeypatch.setattr(contraction_results, "_FAR", 0)
    rows = 8 if side == "left" else HOST.lanes(DType.FLOAT32)
    schedule = Contraction(side, "packed", "packed", rows, 1, 64, 64, (0,), 0, 7, 1)
    text = checked(spread(9, size, (2, 2), True, DType.FLOAT32), schedule, HOST)
    assert ("!nontemporal" in text) == past


@pytest.mark.parametrize("window", [2, 4])
def test_deconvolutions_have_no_scattered_stores(window: int) -> None:
    """Vectors lie along rows of the image, whether a kernel writes each second pixel or all."""
    pad = window // 2 - 1
    model = ricci.parse(f"""
import nn;
graph G {{
    @input {{ x: real[1,32,16,16]; }}
    @variable {{ w: real[32,16,{window},{window}]; }}
    @output {{ y: real[1,16,32,32]; }}
    @compose {{ y = nn.deconv{{stride=2, padding={pad}}}(x, w); }}
}}""")
    assert "scatter" not in model.show("llvm", target="x86-64-v4")
