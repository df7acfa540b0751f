"""Divides many values by the same one: by its reciprocal, and a correction.

    r = 1 / d,  q = x * r,  x / d = q + (x - q * d) * r

The remainder `x - q * d` is exact in a fused multiply-add, and the result rounded as that of a
division (P. Markstein, IBM J. Res. Dev. 34, 1990), save where `x` is near the least normal number:
there it may be a neighbour. A tiny divisor and what it divides are scaled alike first, so that its
reciprocal is finite. Where an infinity makes the correction NaN, the quotient needs none.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir.nodes import Const, Expr
from .builder import Builder
from .mathlib_core import Reals

QUOTIENTS = (DType.FLOAT32, DType.FLOAT64)
"""Types of which quotients are made so."""
_TINY = {32: (2.0**-100, 2.0**64), 64: (2.0**-900, 2.0**512)}
"""Divisors below are scaled, and by how much."""


def quotients(
    b: Builder,
    x: str,
    divisor: str,
    given: Expr,
    lanes: int,
    is_share: bool = False,
    is_small: bool = False,
) -> str:
    """A vector divided by a scalar, what depends on the scalar alone being computed once.

    If the quotients are said to be small, none is infinite, and zeros may have any sign. Of shares
    the divisor is at least 1, or zero as they all are, or NaN; and none is negative.
    """
    dtype = given.dtype
    one, all = Reals(b, dtype, 1), Reals(b, dtype, lanes)
    least, factor = _TINY[one.bits]
    if not (is_share or (isinstance(given, Const) and _is_at_least(given, least))):
        tiny = one.test("olt", one.abs(divisor), one.const(least))
        scale = one.select(tiny, one.const(factor), one.const(1.0))
        divisor = one.mul(divisor, scale)
        x = all.mul(x, _in_all_lanes(all, scale))
    reciprocal = one.div(one.const(1.0), divisor)
    d, r = _in_all_lanes(all, divisor), _in_all_lanes(all, reciprocal)
    q = all.mul(x, r)
    rest = all.exact_fma(all.neg(q), d, x)
    better = all.exact_fma(rest, r, q)
    return better if is_small or is_share else _where_needed(all, better, q)


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
