"""Functions of mathematical physics in float64, written once for NumPy arrays and machine code.

Each is computed on all of its intervals, and the right one is chosen. The polynomials are in
`special_tables` and `special_bessel`. For `erfcx` see M. M. Shepherd and J. G. Laframboise,
Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x (1981); for `erfinv` M. Giles, Approximating the
erfinv Function (2010); for the others the expansions of the NIST Digital Library of Mathematical
Functions, chapters 5 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from . import special_bessel as bessel
from . import special_tables as tables


class Test(Protocol):
    """What a comparison gives."""

    def __and__(self, other: Test, /) -> Test: ...


class Real(Protocol):
    """A float64, or many, with Python's operators."""

    def __add__(self, other: Real | float, /) -> Real: ...
    def __radd__(self, other: float, /) -> Real: ...
    def __sub__(self, other: Real | float, /) -> Real: ...
    def __rsub__(self, other: float, /) -> Real: ...
    def __mul__(self, other: Real | float, /) -> Real: ...
    def __rmul__(self, other: float, /) -> Real: ...
    def __truediv__(self, other: Real | float, /) -> Real: ...
    def __rtruediv__(self, other: float, /) -> Real: ...
    def __neg__(self) -> Real: ...
    def __lt__(self, other: Real | float, /) -> Test: ...
    def __le__(self, other: Real | float, /) -> Test: ...
    def __gt__(self, other: Real | float, /) -> Test: ...
    def __ge__(self, other: Real | float, /) -> Test: ...


class Arithmetic(Protocol):
    """What is needed besides the operators."""

    def where(self, test: Test, then: Real | float, otherwise: Real | float) -> Real: ...

    def call(self, name: str, *arguments: Real | float) -> Real:
        """The value of another built-in function, or of `pow`."""

    def polynomial(self, x: Real, coefficients: Sequence[float]) -> Real: ...


def _at_most(m: Arithmetic, x: Real, limit: float) -> Real:
    return m.where(x < limit, x, limit)


# ----------------------------------------------------------------- error function


def _square(x: Real) -> tuple[Real, Real]:
    """`x * x` and its rounding error (T. J. Dekker, 1971)."""
    split = x * 134217729.0
    high = split - (split - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2.0 * (high * low)) + low * low


def _scaled(m: Arithmetic, x: Real) -> Real:
    """`exp(x * x) * erfc(x)` for `x >= 0`."""
    return m.polynomial(1.0 - 7.5 / (x + 3.75), tables.ERFCX) / (1.0 + 2.0 * x)


def _erfc(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    square, rest = _square(_at_most(m, size, 28.0))
    tail = _scaled(m, size) * m.call("exp", -square) * (1.0 - rest)
    far = m.where(x < 0.0, 2.0 - tail, tail)
    return m.where(size < 0.5, 1.0 - m.call("erf", x), far)


def _erfcx(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    square, rest = _square(_at_most(m, size, 28.0))
    bell = m.call("exp", square)
    scaled = _scaled(m, size)
    return m.where(
        x < 0.0, 2.0 * (bell + m.where(bell < math.inf, bell * rest, 0.0)) - scaled, scaled
    )


def _normcdf(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    square, rest = _square(_at_most(m, size, 40.0))
    bell = m.call("exp", square * -0.5) * (1.0 - 0.5 * rest)
    tail = 0.5 * _scaled(m, size * math.sqrt(0.5)) * bell
    return m.where(x < 0.0, tail, 1.0 - tail)


def _inverse(m: Arithmetic, x: Real, rest: Real) -> Real:
    """`erfinv(x)`, where `rest` is `1 - x * x`."""
    w = -m.call("log", rest)
    s = m.call("sqrt", w)
    near = m.polynomial(w * 0.32 - 1.0, tables.ERFINV_NEAR)
    mid = m.polynomial((s - 3.25) / 0.75, tables.ERFINV_MID)
    far = m.polynomial(s * 0.5 - 3.0, tables.ERFINV_FAR)
    scale, shift = tables.ERFINV_END_MAP
    end = s * m.polynomial(scale / s + shift, tables.ERFINV_END)
    outer = m.where(s < 4.0, mid, m.where(s < 8.0, far, end))
    return x * m.where(w < 6.25, near, outer)


def _erfinv(m: Arithmetic, x: Real) -> Real:
    return _inverse(m, x, (1.0 - x) * (1.0 + x))


def _erfcinv(m: Arithmetic, x: Real) -> Real:
    return _inverse(m, 1.0 - x, x * (2.0 - x))


# --------------------------------------------------------------------------- gamma


def _near_two(m: Arithmetic, x: Real) -> tuple[Real, Real | float, Real]:
    """`t`, `up` and `down` with `gamma(x) = gamma(2 + t) * up / down` and `|t| <= 1/2`, for x from
    -1/2 to 8; either `up` or `down` is 1."""
    y: Real = x
    up: Real | float = 1.0
    for _ in range(6):
        large = y >= 2.5
        y = m.where(large, y - 1.0, y)
        up = m.where(large, up * y, up)
    t = m.where(x < 0.5, x, m.where(x < 1.5, x - 1.0, y - 2.0))
    down = m.where(x < 0.5, x * (x + 1.0), m.where(x < 1.5, x, 1.0))
    return t, up, down


def _tgamma(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    turned = x <= -0.5
    y = m.where(turned, size, x)
    t, up, down = _near_two(m, y)
    near = m.polynomial(t * 2.0, tables.GAMMA) * up / down
    large = _at_most(m, y, 200.0)
    half = m.call("pow", large, large * 0.5 - 0.25)
    first = half * m.call("exp", -large) * m.polynomial(16.0 / y - 1.0, tables.GAMMA_FAR)
    first = m.where(y < 8.0, near, first * math.sqrt(2 * math.pi))
    second = m.where(y < 8.0, 1.0, half)
    reflected = -math.pi / (x * m.call("sinpi", x)) / first / second
    return _without_poles(m, x, m.where(turned, reflected, first * second))


def _lgamma(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    turned = x <= -0.5
    y = m.where(turned, size, x)
    t, up, down = _near_two(m, y)
    shift = m.call("log", m.call("abs", m.where(y < 2.5, down, up)))
    near = t * m.polynomial(t * 2.0, tables.LGAMMA) + m.where(y < 2.5, -shift, shift)
    tail = m.polynomial(128.0 / (y * y) - 1.0, tables.STIRLING) / y
    far = (y - 0.5) * (m.call("log", y) - 1.0) + (math.log(2 * math.pi) / 2 - 0.5 + tail)
    value = m.where(y < 8.0, near, far)
    sine = m.call("abs", x * m.call("sinpi", x))
    value = m.where(turned, m.call("log", math.pi / sine) - value, value)
    return m.where(size >= math.inf, math.inf, value)


def _shifted(m: Arithmetic, x: Real) -> tuple[Real, Callable[[int], Real]]:
    """`y` from 1 to 2, a whole number away from x, for x from 0 to 8; and the sum of the powers
    `(-n)` of what is between: above y positive, below it negative."""
    ys = [m.where(x < 1.0, x + 1.0, x)]
    for _ in range(6):
        ys.append(m.where(ys[-1] >= 2.0, ys[-1] - 1.0, ys[-1]))

    def between(n: int) -> Real:
        total = m.where(x < 1.0, -1.0 / (x if n == 1 else x * x), 0.0)
        for before, y in pairwise(ys):
            total = total + m.where(before >= 2.0, 1.0 / (y if n == 1 else y * y), 0.0)
        return total

    return ys[-1], between


def _digamma(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    y, between = _shifted(m, size)
    high, low = tables.DIGAMMA_ROOT
    near = ((y - high) - low) * m.polynomial(y * 2.0 - 3.0, tables.DIGAMMA) + between(1)
    square = size * size
    tail = 0.5 / size + m.polynomial(128.0 / square - 1.0, tables.DIGAMMA_FAR) / square
    value = m.where(size < 8.0, near, m.call("log", size) - tail)
    turn = math.pi * m.call("cospi", x) / m.call("sinpi", x)
    value = m.where(x < 0.0, value - 1.0 / x - turn, value)
    return _without_poles(m, x, m.where(size < 1e-100, -1.0 / x, value))


def _trigamma(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    y, between = _shifted(m, size)
    near = m.polynomial(y * 2.0 - 3.0, tables.TRIGAMMA) - between(2)
    square = size * size
    tail = m.polynomial(128.0 / square - 1.0, tables.TRIGAMMA_FAR) / (square * size)
    value = m.where(size < 8.0, near, 1.0 / size + 0.5 / square + tail)
    sine = m.call("sinpi", x)
    turned = (math.pi / sine) * (math.pi / sine) - (value - 1.0 / square)
    return m.where(size < 1e-100, 1.0 / square, m.where(x < 0.0, turned, value))


def _without_poles(m: Arithmetic, x: Real, value: Real) -> Real:
    """NaN at the integers below zero, whose two sides have different signs."""
    return m.where((x < 0.0) & (m.call("floor", x) >= x), math.nan, value)


# -------------------------------------------------------------------------- Bessel


def _waves(m: Arithmetic, x: Real) -> tuple[Real, Real]:
    """`sin(x) - cos(x)` and `sin(x) + cos(x)`, over `sqrt(pi x)`."""
    sine, cosine, scale = m.call("sin", x), m.call("cos", x), m.call("sqrt", x * math.pi)
    return (sine - cosine) / scale, (sine + cosine) / scale


def _far(m: Arithmetic, x: Real, p: Sequence[float], q: Sequence[float]) -> tuple[Real, Real]:
    u = 128.0 / (x * x) - 1.0
    return m.polynomial(u, p), m.polynomial(u, q) / x


def _ranges(m: Arithmetic, x: Real, near: Real, mid: Real, far: Real) -> Real:
    value = m.where(x < 4.0, near, m.where(x < 8.0, mid, far))
    return m.where(x >= math.inf, 0.0, value)


def _j0_near(m: Arithmetic, x: Real) -> Real:
    return m.polynomial(x * x * 0.125 - 1.0, bessel.J0_NEAR)


def _j1_near(m: Arithmetic, x: Real) -> Real:
    return x * m.polynomial(x * x * 0.125 - 1.0, bessel.J1_NEAR)


def _j0(m: Arithmetic, x: Real) -> Real:
    x = m.call("abs", x)
    low, high = _waves(m, x)
    p, q = _far(m, x, bessel.P0, bessel.Q0)
    mid = m.polynomial(x * 0.5 - 3.0, bessel.J0_MID)
    return _ranges(m, x, _j0_near(m, x), mid, p * high - q * low)


def _j1(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    low, high = _waves(m, size)
    p, q = _far(m, size, bessel.P1, bessel.Q1)
    mid = m.polynomial(size * 0.5 - 3.0, bessel.J1_MID)
    value = _ranges(m, size, _j1_near(m, size), mid, p * low + q * high)
    return value * m.call("copysign", 1.0, x)


def _y0(m: Arithmetic, x: Real) -> Real:
    low, high = _waves(m, x)
    p, q = _far(m, x, bessel.P0, bessel.Q0)
    mid = m.polynomial(x * 0.5 - 3.0, bessel.Y0_MID)
    rest = m.polynomial(x * x * 0.125 - 1.0, bessel.Y0_NEAR)
    near = (2 / math.pi) * (m.call("log", x) * _j0_near(m, x)) + rest
    return _ranges(m, x, near, mid, p * low + q * high)


def _y1(m: Arithmetic, x: Real) -> Real:
    low, high = _waves(m, x)
    p, q = _far(m, x, bessel.P1, bessel.Q1)
    mid = m.polynomial(x * 0.5 - 3.0, bessel.Y1_MID)
    rest = x * m.polynomial(x * x * 0.125 - 1.0, bessel.Y1_NEAR)
    near = (2 / math.pi) * (m.call("log", x) * _j1_near(m, x) - 1.0 / x) + rest
    value = _ranges(m, x, near, mid, q * low - p * high)
    return m.where((x >= 0.0) & (x <= 0.0), -math.inf, value)


def _i0(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    near = m.polynomial(size * 0.25 - 1.0, bessel.I0_NEAR) * m.call("exp", size)
    return _growing(m, size, near, bessel.I0_FAR)


def _i1(m: Arithmetic, x: Real) -> Real:
    size = m.call("abs", x)
    near = size * m.polynomial(size * 0.25 - 1.0, bessel.I1_NEAR) * m.call("exp", size)
    return m.call("copysign", _growing(m, size, near, bessel.I1_FAR), x)


def _growing(m: Arithmetic, x: Real, near: Real, table: Sequence[float]) -> Real:
    half = m.call("exp", x * 0.5)
    far = m.polynomial(16.0 / x - 1.0, table) / m.call("sqrt", x) * half * half
    return m.where(x >= math.inf, math.inf, m.where(x < 8.0, near, far))


# ----------------------------------------------------------------------- remainder


def _remainder(m: Arithmetic, x: Real, y: Real) -> Real:
    """The rest that the nearest multiple leaves; of two, the even one. All steps are exact."""
    step = m.call("abs", y)
    rest = m.call("fmod", m.call("abs", x), step + step)
    more = rest + rest > step
    rest = m.where(more, rest - step, rest)
    twice = more & (rest + rest >= step)
    return m.call("copysign", 1.0, x) * m.where(twice, rest - step, rest)


SPECIAL: dict[str, Callable[..., Real]] = {
    "erfc": _erfc, "erfcx": _erfcx, "erfinv": _erfinv, "erfcinv": _erfcinv, "normcdf": _normcdf,
    "tgamma": _tgamma, "lgamma": _lgamma, "digamma": _digamma, "trigamma": _trigamma,
    "j0": _j0, "j1": _j1, "y0": _y0, "y1": _y1, "i0": _i0, "i1": _i1, "remainder": _remainder,
}  # fmt: skip
"""The functions, given an `Arithmetic` and the arguments."""
