"""Functions of float32 by short polynomials about many places, where one instruction picks the
coefficients of each lane from a table (AVX-512).

They take a half to a third of the instructions of what has no tables. Polynomials are Taylor series
of which the last terms, written as Chebyshev's polynomials, are left out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from . import mathlib_tables as tables
from .mathlib_core import Reals

_STEP = 0.12713558971881866
"""Distance of the places of `erf`: a number of float32 at whose multiples the function is close to
such numbers, too (the best of all from 0.1268 to 0.1278)."""
_FIRST, _LAST = 1 / 8, 10.0
"""Where the first polynomial of `tanh` ends, and about what the last one is: 1 in float32."""


def exp(r: Reals, x: str, low: float, high: float) -> str:
    """`2**k * exp(t)` with the nearest k of which 16 are a whole number: the instruction that
    scales leaves out the part of k that is in the table."""
    x = r.at_most(x, high)
    sixteenths = r.const(1.5 * 2.0**19)  # added, leaves whole ones in the low bits
    moved = r.fma(x, r.const(1 / math.log(2)), sixteenths)
    k = r.sub(moved, sixteenths)
    first, second = tables.LN2_32
    t = r.fma(k, r.const(-second), r.fma(k, r.const(-first), x))
    root = r.picked([2.0 ** (n / 16) for n in range(16)], r.to_bits(moved))
    near = r.fma(r.mul(root, t), r.polynomial(t, [1.0, 1 / 2, 1 / 6]), root)
    # a product that is too small for a number takes processors ten times as long as another
    result = r.scaled(r.select(r.test("olt", x, r.const(low)), r.const(0.0), near), k)
    assert result is not None
    return result


def erf(r: Reals, size: str) -> str:
    """From 4 on, where the last polynomial ends, the nearest number to the result is 1."""
    least = r.at_most(size, 4.0)
    whole = r.const(1.5 * 2.0**23)  # added, leaves whole numbers in the low bits
    moved = r.fma(least, r.const(1 / _STEP), whole)
    t = r.fma(r.sub(moved, whole), r.const(-_STEP), least)
    return _polynomial(r, t, _erf_rows(), r.to_bits(moved))


def tanh(r: Reals, size: str) -> str:
    """Four polynomials for each power of two: the low bits of an exponent and the first two of the
    fraction tell which."""
    least = r.at_most(size, 9.5)
    far = r.select(r.test("olt", least, r.const(_FIRST / 2)), r.const(_FIRST / 2), least)
    index = r.bitwise("lshr", r.to_bits(far), r.whole(21))
    places, *rows = _tanh_rows()
    return _polynomial(r, r.sub(least, r.picked(places, index)), rows, index)


def _polynomial(r: Reals, t: str, rows: Sequence[Sequence[float]], index: str) -> str:
    *others, last = rows
    total = r.picked(last, index)
    for row in reversed(others):
        total = r.fma(total, t, r.picked(row, index))
    return total


@functools.cache
def _erf_rows() -> list[tuple[float, ...]]:
    """Coefficients of `erf(n * step + t)` for `|t| <= step / 2` and n from 0 to 31: a row for each
    power of t up to the fourth."""
    reach = 0.501 * _STEP
    columns = []
    for n in range(32):
        a = n * _STEP
        hermite = [1.0, 2 * a]
        for k in range(1, 8):
            hermite.append(2 * a * hermite[k] - 2 * k * hermite[k - 1])
        slope = 2 / math.sqrt(math.pi) * math.exp(-a * a)
        series = [(-1) ** k * slope * x / math.factorial(k + 1) for k, x in enumerate(hermite)]
        series = [math.erf(a), *series]
        columns.append(_shortened(series, 5, reach) if n else _from_zero(series, 5, reach))
    return list(zip(*columns, strict=True))


@functools.cache
def _tanh_rows() -> list[tuple[float, ...]]:
    """The places, and coefficients for each power of t up to the fifth."""
    columns: list[list[float]] = [[]] * 32
    for exponent in range(-4, 4):
        for quarter in range(4):
            low, width = 2.0**exponent * (1 + quarter / 4), 2.0**exponent / 4
            at = low + width / 2
            if exponent == -4:
                column = [0.0, *_from_zero(_tanh_series(0.0), 6, _FIRST)]
            elif exponent == 3:  # the first of these is the last; the others are not used
                column = [_LAST, 1.0, *_shortened(_tanh_series(_LAST), 6, 2.0)[1:]]
            else:
                column = [at, *_shortened(_tanh_series(at), 6, width / 2)]
            columns[(4 * (exponent + 127) + quarter) % 32] = column
    return list(zip(*columns, strict=True))


def _tanh_series(a: float) -> list[float]:
    """Taylor coefficients of tanh about a: its derivative is `1 - tanh**2`."""
    out = [math.tanh(a)]
    for k in range(13):
        square = sum(out[n] * out[k - n] for n in range(k + 1))
        out.append(((k == 0) - square) / (k + 1))
    return out


def _from_zero(series: Sequence[float], terms: int, reach: float) -> list[float]:
    """A polynomial without a constant term that is close to a series from zero to `reach`, with a
    relative error as small as that of the others: what follows its variable is one of the
    variable's root."""
    even = [x for c in series[1:] for x in (c, 0.0)][:-1]
    return [0.0, *_shortened(even, 2 * terms - 3, math.sqrt(reach))[::2]]


def _shortened(series: Sequence[float], terms: int, reach: float) -> list[float]:
    """A polynomial of fewer terms that is close to another up to `reach` on both sides of zero:
    the last of Chebyshev's polynomials in it are left out."""
    chebyshev = [[1.0], [0.0, 1.0]]
    while len(chebyshev) < len(series):
        last, before = chebyshev[-1], [*chebyshev[-2], 0.0, 0.0]
        chebyshev.append([2 * x - y for x, y in zip([0.0, *last], before, strict=True)])
    out = list(series)
    while len(out) > terms:
        polynomial = chebyshev[len(out) - 1]
        share = out.pop() / polynomial[-1]
        for k in range(len(out)):
            out[k] -= share * polynomial[k] * reach ** (len(out) - k)
    return out
