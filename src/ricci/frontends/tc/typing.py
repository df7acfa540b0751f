"""Types of values: promotion, literals, and conversions, which are written out.

Spec: a bool is an unsigned number of one bit. Ricci: of two bools, `+ - * / %` and the order are
those of the `uint8` numbers 0 and 1; `min`, `max`, `==` and `!=` stay bools, and a bool cannot be
summed or multiplied up.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from ...dtypes import DType, from_bfloat16, to_bfloat16
from ...source import Span
from . import program as p
from . import syntax as s


def promote(a: DType, b: DType) -> DType:
    """The type in which two values meet.

    Real with integer gives the real type, two real or two unsigned types the wider, float16 with
    bfloat16 float32, anything with a signed type the signed type of the wider width.
    """
    if a is b:
        return a
    if a.is_real or b.is_real:
        if not (a.is_real and b.is_real):
            return a if a.is_real else b
        return DType.FLOAT32 if _width(a) == _width(b) else max(a, b, key=_width)
    kind = "int" if _is_signed(a) or _is_signed(b) else "uint"
    return DType(f"{kind}{max(_width(a), _width(b), 8)}")


def promote_all(first: DType, *others: DType) -> DType:
    for other in others:
        first = promote(first, other)
    return first


def fits(value: DType, target: DType) -> bool:
    """Whether a value may be assigned without an explicit conversion."""
    return promote(value, target) is target


def _is_signed(dtype: DType) -> bool:
    return dtype.is_int and not dtype.value.startswith("u")


def _width(dtype: DType) -> int:
    return 1 if dtype is DType.BOOL else int("".join(filter(str.isdigit, dtype.value)))


# ------------------------------------------------------------------- literals


def literal(number: s.Number, dtype: DType, sign: int = 1) -> p.Constant | None:
    """A literal as a number of a type; none if it is too large for it."""
    return _constant(sign * number.value, dtype, number.span)


def _constant(value: bool | int | float, dtype: DType, span: Span) -> p.Constant | None:
    """A number of another type, if the type has it or, of real types, one near to it."""
    if dtype.is_real:
        rounded = _round(value, dtype)
        return None if rounded is None else p.Constant(rounded, dtype, span)
    if not isinstance(value, int) or dtype is DType.BOOL:
        return None
    info = np.iinfo(dtype.value)
    return p.Constant(value, dtype, span) if info.min <= value <= info.max else None


def _round(value: int | float, dtype: DType) -> float | None:
    """The nearest number of a real type; none beyond its largest."""
    form = _FORMATS.get(dtype, "<f")
    if dtype is DType.BFLOAT16:
        rounded = float(from_bfloat16(to_bfloat16(np.array(float(value)))))
        return rounded if math.isfinite(rounded) else None
    try:
        return float(struct.unpack(form, struct.pack(form, float(value)))[0])
    except OverflowError:
        return None


_FORMATS = {DType.FLOAT16: "<e", DType.FLOAT64: "<d"}


# ---------------------------------------------------------------- conversions


def convert(value: p.Expr, dtype: DType, span: Span | None = None) -> p.Expr:
    """A value in a type; a number becomes a number of the type."""
    if value.dtype is dtype:
        return value
    span = span or place(value)
    known = _constant(value.value, dtype, span) if isinstance(value, p.Constant) else None
    return known or p.Convert(dtype, value, span)


def place(value: p.Expr) -> Span:
    while isinstance(value, p.Let):
        value = value.value
    return value.span
