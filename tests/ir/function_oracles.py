"""What the built-in functions of `ir.functions` give, by NumPy and SciPy, and where to try them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ricci.dtypes import DType
from ricci.ir.nodes import (
    Access,
    Assignment,
    Expr,
    Graph,
    Index,
    Operation,
    Port,
    Subscript,
    Tensor,
    integer,
)

special = pytest.importorskip("scipy.special")

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Oracle:
    """A function of float64 or longer, and an interval for each of its arguments."""

    function: Callable[..., Any]
    domains: tuple[tuple[float, float], ...]
    absolute: bool = False
    """Whether its errors are absolute: it has zeros that are no numbers of float64."""

    def points(self, count: int, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        return [rng.uniform(low, high, count) for low, high in self.domains]


def _one(function: Callable[..., Any], low: float, high: float, absolute: bool = False) -> Oracle:
    return Oracle(function, ((low, high),), absolute)


def _two(function: Callable[..., Any], low: float = -5, high: float = 5) -> Oracle:
    return Oracle(function, ((low, high),) * 2)


def _half_turns(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of angles in half turns, of which whole turns are taken away exactly."""
    return lambda x: function(np.fmod(x, 2.0) * (np.longdouble(4) * np.arctan(np.longdouble(1))))


def _rounded(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _logb(x: Array) -> Array:
    return np.floor(np.log2(np.abs(x)))


_remainder = np.vectorize(math.remainder, otypes=[np.float64])

ORACLES: dict[str, Oracle] = {
    "abs": _one(np.abs, -5, 5), "sign": _one(np.sign, -5, 5),
    "sqrt": _one(np.sqrt, 0, 50), "cbrt": _one(np.cbrt, -50, 50),
    "exp": _one(np.exp, -50, 50), "exp2": _one(np.exp2, -50, 50),
    "exp10": _one(lambda x: np.power(x.dtype.type(10), x), -30, 30),
    "expm1": _one(np.expm1, -2, 5),
    "log": _one(np.log, 0.01, 50), "log2": _one(np.log2, 0.01, 50),
    "log10": _one(np.log10, 0.01, 50), "log1p": _one(np.log1p, -0.9, 5),
    "sin": _one(np.sin, -9, 9), "cos": _one(np.cos, -9, 9), "tan": _one(np.tan, -1.5, 1.5),
    "sinpi": _one(_half_turns(np.sin), -9, 9), "cospi": _one(_half_turns(np.cos), -9, 9),
    "asin": _one(np.arcsin, -0.99, 0.99), "acos": _one(np.arccos, -0.99, 0.99),
    "atan": _one(np.arctan, -9, 9), "atan2": _two(np.arctan2), "hypot": _two(np.hypot),
    "sinh": _one(np.sinh, -9, 9), "cosh": _one(np.cosh, -9, 9), "tanh": _one(np.tanh, -3, 3),
    "asinh": _one(np.arcsinh, -9, 9), "acosh": _one(np.arccosh, 1.01, 9),
    "atanh": _one(np.arctanh, -0.99, 0.99),
    "erf": _one(special.erf, -3, 3), "erfc": _one(special.erfc, -3, 26),
    "erfcx": _one(special.erfcx, -5, 50), "erfinv": _one(special.erfinv, -1, 1),
    "erfcinv": _one(special.erfcinv, 0, 2), "normcdf": _one(special.ndtr, -20, 5),
    "tgamma": _one(special.gamma, 0.01, 30), "lgamma": _one(special.gammaln, 2.1, 90),
    "digamma": _one(special.digamma, 1.6, 90),
    "trigamma": _one(lambda x: special.zeta(2.0, x), 0.01, 90),
    "j0": _one(special.j0, -60, 60, True), "j1": _one(special.j1, -60, 60, True),
    "y0": _one(special.y0, 0.01, 60, True), "y1": _one(special.y1, 0.5, 60, True),
    "i0": _one(special.i0, -60, 60), "i1": _one(special.i1, -60, 60),
    "round": _one(_rounded, -9, 9), "floor": _one(np.floor, -9, 9), "ceil": _one(np.ceil, -9, 9),
    "trunc": _one(np.trunc, -9, 9), "frac": _one(lambda x: x - np.trunc(x), -9, 9),
    "logb": _one(_logb, 0.001, 99),
    "fma": Oracle(lambda x, y, z: x * y + z, ((0, 5),) * 3),
    "fdim": _two(lambda x, y: np.maximum(x - y, 0)), "fmax": _two(np.fmax), "fmin": _two(np.fmin),
    "fmod": _two(np.fmod), "remainder": _two(_remainder), "copysign": _two(np.copysign),
    "nextafter": _two(np.nextafter),
}  # fmt: skip

SPECIAL_VALUES = np.array(
    [
        0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, 2, -2, 2.5, -2.5, 3, 8, -8, 40, 1e-30, -1e-30,
        1e30, -1e30, np.inf, -np.inf, np.nan,
    ]
)  # fmt: skip


def agrees(got: Any, wanted: Any, relative: float, absolute: float = 0.0) -> None:
    """Equal up to a tolerance; infinities, NaN and the signs of zeros the same."""
    np.testing.assert_allclose(got, wanted, relative, absolute)
    zero = (np.asarray(wanted) == 0) & (np.asarray(got) == 0)
    np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(wanted)[zero])


def element_wise(compute: Callable[[Sequence[Expr]], Expr], arguments: int, count: int) -> Graph:
    """A graph that computes an expression of elements of its inputs `a`, `b`, ..."""
    inputs = [Tensor(name, DType.REAL, (integer(count),)) for name in "abcd"[:arguments]]
    y = Tensor("y", DType.REAL, (integer(count),))
    i = Index("i", integer(count))
    place = (Subscript(i),)
    value = compute([Access(t, place) for t in inputs])
    line = Assignment((Access(y, place),), "set", (value,), (i,))
    operation = Operation("f", (y,), (line,), tuple(inputs))
    ports = tuple(Port(t.name, (t,)) for t in inputs)
    return Graph("g", ports, (Port("y", (y,)),), (operation,))
