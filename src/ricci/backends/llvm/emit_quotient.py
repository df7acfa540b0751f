"""Divides many values by the same one: by its reciprocal, and a correction.

    r = 1 / d,  q = x * r,  x / d = q + (x - q * d) * r

The remainder `x - q * d` is exact in a fused multiply-add, and the result rounded as that of a
division (P. Markstein, IBM J. Res. Dev. 34, 1990), save where `x` is near the least normal number:
there it may be a neighbour. A tiny divisor and what it divides are scaled alike first, so that its
reciprocal is finite. Where an infinity makes the correction NaN, the quotient needs none.
"""

from __future__ import annotations

import math
from enum import Enum

from ...dtypes import DType
from ...ir.nodes import Const, Expr
from .builder import Builder
from .mathlib_core import Reals

QUOTIENTS = (DType.FLOAT32, DType.FLOAT64)
"""Types of which quotients are made so."""
_TINY = {32: (2.0**-100, 2.0**64), 64: (2.0**-900, 2.0**512)}
"""Divisors below are scaled, and by how much."""


class Known(Enum):
    """What is known of quotients."""

    NOTHING = 0
    SMALL = 1
    """None is infinite, and zeros may have any sign."""
    SHARE = 2
    """None is negative; the divisor is at least 1, or zero as they all are, or NaN."""
    OF_SPREAD = 3
    """The divisor is positive, and not tiny, or NaN; it is infinite where what is divided is, and
    else no quotient is."""


def quotients(
    b: Builder, x: str, divisor: str, given: Expr, lanes: int, known: Known = Known.NOTHING
) -> str:
    """A vector divided by a scalar, what depends on the scalar alone being computed once."""
    dtype = given.dtype
    one, all = Reals(b, dtype, 1), Reals(b, dtype, lanes)
    if known is Known.OF_SPREAD:
        return _of_spread(one, all, x, divisor)
    least, factor = _TINY[one.bits]
    is_large = isinstance(given, Const) and _is_at_least(given, least)
    if not is_large and known is not Known.SHARE:
        tiny = one.test("olt", one.abs(divisor), one.const(least))
        scale = one.select(tiny, one.const(factor), one.const(1.0))
        divisor = one.mul(divisor, scale)
        x = all.mul(x, _in_all_lanes(all, scale))
    reciprocal = one.div(one.const(1.0), divisor)
    d, r = _in_all_lanes(all, divisor), _in_all_lanes(all, reciprocal)
    q = all.mul(x, r)
    rest = all.exact_fma(all.neg(q), d, x)
    better = all.exact_fma(rest, r, q)
    return _where_needed(all, better, q) if known is Known.NOTHING else better


def _of_spread(one: Reals, all: Reals, x: str, divisor: str) -> str:
    """Zeros keep their signs if the remainder is that of what is too much. What an infinite divisor
    leaves of a number is zero: as of a product with zero, by any divisor."""
    reciprocal = one.div(one.const(1.0), divisor)
    infinite = one.test("oeq", divisor, one.const(math.inf))
    d = _in_all_lanes(all, one.select(infinite, one.const(1.0), divisor))
    r = _in_all_lanes(all, reciprocal)
    q = all.mul(x, r)
    more = all.exact_fma(q, d, all.neg(x))
    return all.exact_fma(all.neg(more), r, q)


def _is_at_least(divisor: Const, least: float) -> bool:
    assert not isinstance(divisor.value, str)
    return abs(divisor.value) >= least


def _where_needed(r: Reals, better: str, q: str) -> str:
    """The better quotient, but where that has lost an infinity or the sign of a zero."""
    mended = r.unless_infinite_or_zero(better, q)
    if mended is not None:
        return mended
    return r.select(r.test("one", better, r.const(0.0)), better, q)  # NaN is not "one"


def _in_all_lanes(r: Reals, value: str) -> str:
    first = r.b.pure(f"insertelement {r.type} poison, {r.element} {value}, i64 0", value)
    zeros = f"<{r.lanes} x i32> zeroinitializer"
    return r.b.pure(f"shufflevector {r.type} {first}, {r.type} poison, {zeros}", first)
