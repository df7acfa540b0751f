"""Conversions; and, where reals become integers, what conversions make of them anyway left out.

A conversion to integers truncates and saturates. So what is rounded first need not be truncated,
and of a number whose bounds are known neither the sign nor the limits matter that it keeps. In

    uint8(round((x < 0 ? 0 : min(x, 6)) / 0.025))

the quotient is between 0 and 240: half is added to it without a look at its sign, the upper limit
of the type is kept, and no quotient is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.nodes import Apply, Binary, Cast, Const, Expr, Index
from ...passes.ranges import Ranges
from . import emit_arith
from .emit_parts import Value
from .emit_quotient import QUOTIENTS, quotients
from .mathlib_bits import half_away
from .mathlib_core import Reals

if TYPE_CHECKING:
    from .emit import Point

_FINITE = 2.0**64
"""Quotients up to which there is no doubt that they are finite, nor what makes them."""


def cast(point: Point, expr: Cast) -> Value:
    """The value of a conversion."""
    operand, to = expr.operand, expr.dtype
    if isinstance(operand, Index) and to is DType.INT32:
        return point.index(operand, to)
    if to.is_int and isinstance(operand, Apply) and operand.function in ("round", "trunc"):
        if operand.dtype in QUOTIENTS:
            return _whole(point, operand, to)
    a = point.value(operand)
    lanes = point.lanes if a.vector else 1
    return Value(emit_arith.cast(point.b, a.text, a.dtype, to, lanes), to, a.vector)


def _whole(point: Point, rounded: Apply, to: DType) -> Value:
    """A real that is rounded and converted."""
    (real,) = rounded.arguments
    ranges = Ranges((), unknown=point.values, rounds=True)
    low, high = _bounds(ranges, real)
    a = _quotient(point, real, ranges) or point.value(real)
    lanes, text = point.lanes if a.vector else 1, a.text
    if rounded.function == "round":
        text = half_away(Reals(point.b, a.dtype, lanes), text, is_positive=low > -0.25)
        low, high = low - 1, high + 0.75
    return Value(emit_arith.cast(point.b, text, a.dtype, to, lanes, (low, high)), to, a.vector)


def _bounds(ranges: Ranges, real: Expr) -> tuple[float, float]:
    """The least and the greatest that a real can be, if it is a number."""
    low, high = ranges.of(real)
    return float(low.min()), float(high.max())


def _quotient(point: Point, real: Expr, ranges: Ranges) -> Value | None:
    """A quotient of what is too small for infinities; the sign of a zero does not matter."""
    if not isinstance(real, Binary) or real.op != "div" or real.dtype not in point.frame.divides:
        return None
    if not isinstance(real.rhs, Const) or isinstance(real.rhs.value, str) or not real.rhs.value:
        return None
    least = abs(real.rhs.value)
    if not max(map(abs, _bounds(ranges, real.lhs))) <= _FINITE * least <= _FINITE**2:
        return None
    a = point.value(real.lhs)
    if not a.vector:
        return None
    d = point.value(real.rhs)
    text = quotients(point.b, a.text, d.text, real.rhs, point.lanes, is_small=True)
    return Value(text, a.dtype, True)
