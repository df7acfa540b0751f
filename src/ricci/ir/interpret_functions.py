"""The built-in functions on NumPy arrays. What NumPy has not is computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from . import special

Array = np.ndarray[Any, np.dtype[Any]]


class _Arrays:
    """The arithmetic of `special` on arrays of float64."""

    def where(self, test: Any, then: Any, otherwise: Any) -> Any:
        return np.where(test, then, otherwise)

    def call(self, name: str, *arguments: Any) -> Any:
        return np.power(*arguments) if name == "pow" else FUNCTIONS[name](*arguments)

    def polynomial(self, x: Any, coefficients: Sequence[float]) -> Any:
        total = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = total * x + c
        return total


def _in_float64(function: Callable[..., Any]) -> Callable[..., Array]:
    def value(*arguments: Array) -> Array:
        wide = [np.asarray(a, np.float64) for a in arguments]
        return np.asarray(function(*wide)).astype(arguments[0].dtype)

    return value


def _special(name: str) -> Callable[..., Array]:
    function, arithmetic = special.SPECIAL[name], cast(special.Arithmetic, _Arrays())
    return _in_float64(lambda *arguments: function(arithmetic, *arguments))


def _each(function: Callable[..., float]) -> Callable[..., Array]:
    """A function of floats on all elements."""
    return _in_float64(np.vectorize(function, otypes=[np.float64]))


def _round(x: Array) -> Array:
    """The nearest integer, halves away from zero."""
    whole = np.trunc(x)
    up = np.abs(x - whole) >= 0.5
    return np.where(up, whole + np.copysign(x.dtype.type(1), x), whole)


def _fma(x: float, y: float, z: float) -> float:
    """`x * y + z`, rounded once."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return z if math.isinf(z) and math.isfinite(x) and math.isfinite(y) else x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else x * y + z
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fdim(x: Array, y: Array) -> Array:
    return np.where(x <= y, x.dtype.type(0), x - y)


def _logb(x: Array) -> Array:
    exponent = (np.frexp(x)[1] - 1).astype(x.dtype)
    ends = np.where(x == 0, -np.inf, np.abs(x))
    return np.where((x == 0) | ~np.isfinite(x), ends, exponent).astype(x.dtype)


def _turns(x: Array) -> tuple[Array, Array, Array]:
    """The number of quarter turns in an angle of x half turns, and sine and cosine of the rest."""
    part = x - 2.0 * np.rint(x * 0.5)
    quarters = np.rint(part * 2.0)
    rest = (part - quarters * 0.5) * math.pi
    return np.mod(quarters, 4.0), np.sin(rest), np.cos(rest)


def _sinpi(x: Array) -> Array:
    quarter, sine, cosine = _turns(x)
    value = np.where(quarter % 2 == 1, cosine, sine)
    value = np.where(quarter >= 2, -value, value)
    return np.where(value == 0, np.copysign(0.0, x), value)


def _cospi(x: Array) -> Array:
    quarter, sine, cosine = _turns(x)
    value = np.where(quarter % 2 == 1, sine, cosine)
    return np.where((quarter == 1) | (quarter == 2), -value, value) + 0.0


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "cbrt": np.cbrt, "hypot": np.hypot,
    "exp": np.exp, "exp2": np.exp2, "exp10": _in_float64(lambda x: np.power(10.0, x)),
    "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinpi": _in_float64(_sinpi), "cospi": _in_float64(_cospi),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": _each(math.erf), "round": _round, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "frac": lambda x: x - np.trunc(x),
    "fma": _each(_fma), "fdim": _fdim, "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod,
    "copysign": np.copysign, "nextafter": np.nextafter, "logb": _logb,
    **{name: _special(name) for name in special.SPECIAL},
}  # fmt: skip
"""The functions on arrays of one dtype; the result has it too."""
