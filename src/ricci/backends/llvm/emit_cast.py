"""Conversions; and, where reals become integers, what conversions make of them anyway left out.

A conversion to integers truncates and saturates. So what is rounded first need not be truncated,
and of a number whose bounds are known neither the sign nor the limits matter that it keeps. In

    uint8(round((x < 0 ? 0 : min(x, 6)) / 0.025))

the quotient is between 0 and 240: half is added to it without a look at its sign, the upper limit
of the type is kept, and no quotient is infinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...dtypes import DType
from ...ir.nodes import Apply, Binary, Cast, Const, Expr, Index, Select
from ...passes.ranges import Ranges
from ...passes.scaled import limited_part
from . import emit_arith
from .emit_parts import Value
from .emit_quotient import QUOTIENTS, Known, quotients
from .emit_types import limits, width
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
    if to.is_int and operand.dtype in QUOTIENTS:
        value = _limited(point, operand, to) or _whole(point, operand, to)
        if value is not None:
            return value
    a = point.value(operand)
    lanes = point.lanes if a.vector else 1
    return Value(emit_arith.cast(point.b, a.text, a.dtype, to, lanes), to, a.vector)


def _limited(point: Point, operand: Expr, to: DType) -> Value | None:
    """A real that is rounded, limited and converted to few bits, in vectors: the limits are those
    of what is rounded, and of what is divided before."""
    rounded, least, most = _limits(operand, to)
    if not (isinstance(rounded, Apply) and rounded.function == "round" and width(to) < 4):
        return None
    (real,) = rounded.arguments
    low, high = _bounds(Ranges((), unknown=point.values, rounds=True), real)
    divisor = _divisor(point, real)
    if divisor is not None:
        assert isinstance(real, Binary)
        real = real.lhs
    if not least and isinstance(real, Select):
        real = limited_part(real) or real
    if point.lanes == 1 or not (a := point.value(real)).vector:
        return None
    r, text = Reals(point.b, a.dtype, point.lanes), a.text
    zero, step = r.const(0.0), 1.0 if divisor is None else float(divisor.value)
    if least:  # else the lower limit is what becomes of NaN
        text = r.select(r.test("ord", text, text), text, zero)
    if not least or not low > least - 0.25:
        limit = r.const(_product(least, step, a.dtype))
        text = r.select(r.test("ogt", text, limit), text, limit)
    if not high < most + 0.25:
        limit = r.const(_product(most, step, a.dtype))
        text = r.select(r.test("olt", text, limit), text, limit)
    if divisor is not None:
        d = point.value(divisor).text
        text = quotients(point.b, text, d, divisor, point.lanes, known=Known.SMALL)
    text = half_away(r, text, is_positive=not least or low > -0.25)
    return Value(emit_arith.truncated(point.b, text, a.dtype, to, point.lanes), to, True)


def _limits(operand: Expr, to: DType) -> tuple[Expr, int, int]:
    """What is limited, and the least and the greatest that is converted; zero is between them,
    since it is what NaN becomes."""
    least, most = limits(to)
    while isinstance(operand, Binary) and operand.op in ("min", "max"):
        sides = (operand.lhs, operand.rhs)
        known = [x.value for x in sides if isinstance(x, Const)]
        if len(known) != 1 or not isinstance(known[0], int | float) or known[0] % 1:
            break
        limit = int(known[0])
        if operand.op == "min":
            most = max(least, min(most, limit))
        else:
            least = min(most, max(least, limit))
        if not least <= 0 <= most:
            break
        operand = sides[0] if isinstance(sides[1], Const) else sides[1]
    return operand, least, most


def _divisor(point: Point, real: Expr) -> Const | None:
    """The positive number that divides a real, neither tiny nor huge."""
    if not isinstance(real, Binary) or real.op != "div" or real.dtype not in point.frame.divides:
        return None
    if not isinstance(real.rhs, Const) or isinstance(real.rhs.value, str):
        return None
    return real.rhs if 1 / _FINITE <= real.rhs.value <= _FINITE else None


def _product(limit: int, step: float, dtype: DType) -> float:
    """The limit of what is divided by a step. It is rounded, which is far less than half a step."""
    return float(np.multiply(limit, step, dtype=dtype.numpy()))


def _whole(point: Point, operand: Expr, to: DType) -> Value | None:
    """A real that is rounded and converted."""
    if not isinstance(operand, Apply) or operand.function not in ("round", "trunc"):
        return None
    (real,) = operand.arguments
    ranges = Ranges((), unknown=point.values, rounds=True)
    low, high = _bounds(ranges, real)
    a = _quotient(point, real, ranges) or point.value(real)
    lanes, text = point.lanes if a.vector else 1, a.text
    if operand.function == "round":
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
    text = quotients(point.b, a.text, d.text, real.rhs, point.lanes, known=Known.SMALL)
    return Value(text, a.dtype, True)
