"""Cases of the element-wise operators of the module math; oracles are NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from .case import Array, Case, Family
from .draw import (
    Rng,
    anything,
    bools,
    choice,
    coin,
    integer,
    ints,
    numbers,
    reals,
    shape,
    whole,
)

# ------------------------------------------------------------- one argument 4.2.1

Function = Callable[[Array], Array]


def _torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    def apply(x: Array) -> Array:
        result: Array = function(torch.from_numpy(x.copy())).numpy()
        return result

    return apply


def _halves(x: Array) -> Array:
    """The nearest integer; of two, the one further from zero."""
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


_UNARY: dict[str, tuple[Function, str, tuple[float, float], str]] = {
    "iden": (np.copy, "any", (-9, 9), "NumPy"),
    "neg": (np.negative, "num", (-9, 9), "NumPy"),
    "rcp": (_torch(torch.reciprocal), "real", (0.1, 9), "PyTorch"),
    "sqr": (_torch(torch.square), "num", (-9, 9), "PyTorch"),
    "sqrt": (_torch(torch.sqrt), "real", (0, 9), "PyTorch"),
    "rsqr": (lambda x: x**-2.0, "real", (0.3, 9), "NumPy"),
    "rsqrt": (_torch(torch.rsqrt), "real", (0.1, 9), "PyTorch"),
    "exp": (_torch(torch.exp), "real", (-9, 9), "PyTorch"),
    "log": (_torch(torch.log), "real", (1e-3, 9), "PyTorch"),
    "log2": (_torch(torch.log2), "real", (1e-3, 9), "PyTorch"),
    "sin": (_torch(torch.sin), "real", (-40, 40), "PyTorch"),
    "cos": (_torch(torch.cos), "real", (-40, 40), "PyTorch"),
    "tan": (_torch(torch.tan), "real", (-1.3, 1.3), "PyTorch"),
    "sinh": (_torch(torch.sinh), "real", (-4, 4), "PyTorch"),
    "cosh": (_torch(torch.cosh), "real", (-4, 4), "PyTorch"),
    "tanh": (_torch(torch.tanh), "real", (-12, 12), "PyTorch"),
    "asin": (_torch(torch.asin), "real", (-1, 1), "PyTorch"),
    "acos": (_torch(torch.acos), "real", (-1, 1), "PyTorch"),
    "atan": (_torch(torch.atan), "real", (-20, 20), "PyTorch"),
    "asinh": (_torch(torch.asinh), "real", (-20, 20), "PyTorch"),
    "acosh": (_torch(torch.acosh), "real", (1, 20), "PyTorch"),
    "atanh": (_torch(torch.atanh), "real", (-0.98, 0.98), "PyTorch"),
    "abs": (np.abs, "num", (-9, 9), "NumPy"),
    "sign": (np.sign, "num", (-3, 3), "NumPy"),
    "not": (np.logical_not, "bool", (0, 1), "NumPy"),
    "floor": (np.floor, "real", (-9, 9), "NumPy"),
    "ceil": (np.ceil, "real", (-9, 9), "NumPy"),
    "round": (_halves, "real", (-9, 9), "NumPy"),
}
_EDGES: dict[str, Sequence[float]] = {
    "floor": (-2.0, -0.5, 0.5, 3.0),
    "ceil": (-2.0, -0.5, 0.5, 3.0),
    "round": (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 7.0),
    "exp": (-200.0, 200.0, np.inf, -np.inf, 0.0),
    "tanh": (-300.0, 300.0, np.inf, -np.inf, 1e-20),
    "log": (0.0, np.inf, 1.0, 1e-30),
    "sqrt": (0.0, np.inf, 1e30),
    "sign": (0.0, np.inf, -np.inf),
    "abs": (0.0, np.inf, -np.inf),
    "sin": (0.0, 1e-20, 300.0),
    "cos": (0.0, 1e-20, 300.0),
    "atan": (np.inf, -np.inf, 0.0, 1e20),
    "asin": (-1.0, 1.0, 0.0),
    "acos": (-1.0, 1.0, 0.0),
    "acosh": (1.0, 1e10),
    "asinh": (0.0, 1e10, -1e10),
}


def _unary(name: str, rng: Rng) -> Case:
    function, kind, (low, high), _ = _UNARY[name]
    extents = shape(rng)
    x: Array
    if kind == "any":
        x = anything(rng, extents)
    elif kind == "num":
        x = numbers(rng, extents, int(low), int(high))
    elif kind == "bool":
        x = bools(rng, extents)
    else:
        x = reals(rng, extents, low, high)
    if name in _EDGES and x.dtype.kind == "f":
        edge = rng.choice(np.array(_EDGES[name], dtype=np.float32), extents)
        x = np.where(rng.random(extents) < 0.3, edge.astype(np.float64), x)
    with np.errstate(all="ignore"):
        expected = function(np.asarray(x))
        if name == "exp":  # what single precision cannot hold is infinite there
            expected = np.where(expected > 3.4e38, np.inf, expected)
    large = _overflows(name, x)
    return Case(f"math.{name}", {}, (np.where(large, 1.0, x) if large.any() else x,),
                (np.where(large, np.e, expected) if large.any() else expected,))  # fmt: skip


def _overflows(name: str, x: Array) -> Array:
    """Where the result fits doubles and not singles."""
    return (x > 88) & np.isfinite(x) if name == "exp" else np.zeros(x.shape, dtype=bool)


# ----------------------------------------------------------- placing arguments 4.2.2


def place(extents: Sequence[int], align: int | None, rank: int) -> list[int]:
    """The shape of an argument among `rank` dimensions, as 4.2.2 words it: pad by the
    alignment, then fill up on the other side (in front, when there is none)."""
    padded = list(extents)
    if align is not None and align >= 0:
        padded = [1] * align + padded
        return padded + [1] * (rank - len(padded))
    padded = padded + [1] * -(align or 0)
    return [1] * (rank - len(padded)) + padded


def placed(rng: Rng, count: int) -> tuple[list[list[int]], list[int | None], list[list[int]]]:
    """Shapes that broadcast together, their alignments, and the same shapes as placed."""
    rank = integer(rng, 0, 4)
    full = shape(rng, rank, high=4)
    shapes: list[list[int]] = []
    aligns: list[int | None] = []
    for k in range(count):
        front = integer(rng, 0, rank) if k or coin(rng, 0.3) else 0
        back = integer(rng, front, rank) if k or coin(rng, 0.3) else rank
        own = [1 if coin(rng, 0.2) else n for n in full[front:back]]
        options: list[int | None] = [front]
        if back < rank:
            options.append(back - rank)
        if back == rank:
            options += [None, None]
        shapes.append(own)
        aligns.append(choice(rng, options))
    # The rank of the result is the largest that an argument takes up.
    top = max(len(s) + abs(a or 0) for s, a in zip(shapes, aligns, strict=True))
    places = [place(s, a, top) for s, a in zip(shapes, aligns, strict=True)]
    return shapes, aligns, places


def _consistent(places: Sequence[Sequence[int]]) -> bool:
    try:
        np.broadcast_shapes(*(tuple(p) for p in places))
    except ValueError:
        return False
    return True


def broadcastable(
    rng: Rng, count: int
) -> tuple[list[list[int]], list[int | None], list[list[int]]]:
    """As `placed`, again until the shapes fit; arguments that all are small may not."""
    while True:
        shapes, aligns, places = placed(rng, count)
        if _consistent(places):
            return shapes, aligns, places


def _given(names: Sequence[str], aligns: Sequence[int | None]) -> dict[str, object]:
    return {n: a for n, a in zip(names, aligns, strict=True) if a is not None}


# ----------------------------------------------------------- two arguments 4.2.2


def _floor_divide(x: Array, y: Array) -> Array:
    return np.floor_divide(x, y) if x.dtype.kind == "i" else np.true_divide(x, y)


_BINARY: dict[str, tuple[Callable[[Array, Array], Array], str]] = {
    "add": (np.add, "num"),
    "sub": (np.subtract, "num"),
    "mul": (np.multiply, "num"),
    "div": (_floor_divide, "divisor"),
    "mod": (np.mod, "divisor"),
    "pow": (np.power, "power"),
    "min": (np.minimum, "num"),
    "max": (np.maximum, "num"),
    "lt": (np.less, "num"),
    "gt": (np.greater, "num"),
    "le": (np.less_equal, "num"),
    "ge": (np.greater_equal, "num"),
    "eq": (np.equal, "any"),
    "ne": (np.not_equal, "any"),
    "and": (np.logical_and, "bool"),
    "or": (np.logical_or, "bool"),
    "xor": (np.logical_xor, "bool"),
}


def _operands(rng: Rng, kind: str, sx: list[int], sy: list[int]) -> tuple[Array, Array]:
    if kind == "bool" or (kind == "any" and coin(rng, 0.3)):
        return bools(rng, sx), bools(rng, sy)
    real = coin(rng)
    if kind == "divisor":
        sign = rng.choice([-1, 1], sy)
        if real:
            return reals(rng, sx, -9, 9), reals(rng, sy, 0.5, 4) * sign
        return ints(rng, sx), ints(rng, sy, 1, 5) * sign
    if kind == "power":
        if real:
            return reals(rng, sx, 0.25, 3), reals(rng, sy, -3, 3)
        return ints(rng, sx, -4, 4), ints(rng, sy, 0, 5)
    if not real:
        return ints(rng, sx), ints(rng, sy)
    if coin(rng):
        return whole(rng, sx, -3, 3), whole(rng, sy, -3, 3)
    return reals(rng, sx, -9, 9), reals(rng, sy, -9, 9)


def _binary(name: str, rng: Rng) -> Case:
    function, kind = _BINARY[name]
    (sx, sy), aligns, (px, py) = broadcastable(rng, 2)
    x, y = _operands(rng, kind, sx, sy)
    expected = np.asarray(function(x.reshape(px), y.reshape(py)))
    if name == "mod" and x.dtype.kind == "f":  # near a multiple, rounding decides
        steady = np.abs(np.asarray(x.reshape(px) / y.reshape(py) % 1.0) - 0.5) < 0.499
        expected = np.where(steady, expected, np.mod(x.reshape(px), y.reshape(py)))
    return Case(f"math.{name}", _given(("lhs_align", "rhs_align"), aligns), (x, y), (expected,))


# ----------------------------------------------------------------- selection 4.2.3


def select(rng: Rng) -> Case:
    shapes, aligns, (pc, px, py) = broadcastable(rng, 3)
    c, x, y = bools(rng, shapes[0]), anything(rng, shapes[1]), anything(rng, shapes[2])
    if y.dtype != x.dtype:
        y = x.reshape(-1)[rng.integers(0, x.size, y.shape)] if x.size else y.astype(x.dtype)
    expected = np.where(c.reshape(pc), x.reshape(px), y.reshape(py))
    given = _given(("cond_align", "lhs_align", "rhs_align"), aligns)
    return Case("math.select", given, (c, x, y), (expected,))


# ------------------------------------------ any number of arguments of one shape 4.2.4

_NARY: dict[str, tuple[Callable[..., Array], str]] = {
    "sum_n": (np.sum, "num"),
    "prod_n": (np.prod, "num"),
    "min_n": (np.min, "num"),
    "max_n": (np.max, "num"),
    "argmin_n": (np.argmin, "num"),
    "argmax_n": (np.argmax, "num"),
    "any_n": (np.any, "bool"),
    "all_n": (np.all, "bool"),
}


def _nary(name: str, rng: Rng) -> Case:
    function, kind = _NARY[name]
    count, extents = integer(rng, 1, 5), shape(rng)
    full = [count, *extents]
    x = bools(rng, full) if kind == "bool" else numbers(rng, full, -4, 4)
    expected = np.asarray(function(x, axis=0))
    return Case(f"math.{name}", {}, (list(x),), (expected,))


# -------------------------------------------------- other element-wise operators 4.2.5


def axpb(rng: Rng) -> Case:
    shapes, aligns, places = broadcastable(rng, 3)
    a, x, b = (reals(rng, s) for s in shapes)
    pa, px, pb = (v.reshape(p) for v, p in zip((a, x, b), places, strict=True))
    given = _given(("a_align", "x_align", "b_align"), aligns)
    return Case("math.axpb", given, (a, x, b), (np.asarray(pa * px + pb),))


def axpby(rng: Rng) -> Case:
    shapes, aligns, places = broadcastable(rng, 4)
    a, x, b, y = (reals(rng, s) for s in shapes)
    pa, px, pb, py = (v.reshape(p) for v, p in zip((a, x, b, y), places, strict=True))
    given = _given(("a_align", "x_align", "b_align", "y_align"), aligns)
    return Case("math.axpby", given, (a, x, b, y), (np.asarray(pa * px + pb * py),))


def clamp(rng: Rng) -> Case:
    shapes, aligns, places = broadcastable(rng, 3)
    draw = ints if coin(rng, 0.4) else reals
    arrays = [draw(rng, s, -5, 5) for s in shapes]
    x, a, b = (v.reshape(p) for v, p in zip(arrays, places, strict=True))
    # Where the bounds cross, the lower one counts only for what is less.
    expected = np.where(x < a, a, np.where(x > b, b, x))
    given = _given(("val_align", "min_align", "max_align"), aligns)
    return Case("math.clamp", given, arrays, (np.asarray(expected),))


FAMILIES = [
    *(Family(f"math.{n}", partial(_unary, n), oracle) for n, (*_, oracle) in _UNARY.items()),
    *(Family(f"math.{n}", partial(_binary, n), "NumPy") for n in _BINARY),
    Family("math.select", select, "NumPy"),
    *(Family(f"math.{n}", partial(_nary, n), "NumPy") for n in _NARY),
    Family("math.axpb", axpb, "NumPy"),
    Family("math.axpby", axpby, "NumPy"),
    Family("math.clamp", clamp, "NumPy"),
]
