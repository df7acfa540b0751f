"""Rounding, and what looks at the parts of a number, as LLVM instructions."""

from __future__ import annotations

import math

from .mathlib_core import Reals


def round_half_away(r: Reals, x: str) -> str:
    """Half away from zero: truncated after the largest number below a half is added to the size.

    Of 0.5 - 2 ** -25 and 0.5 the sum is 1 - 2 ** -25, which becomes 1; below, it stays below 1.
    """
    return r.intrinsic("trunc", half_away(r, x))


def half_away(r: Reals, x: str, is_positive: bool = False) -> str:
    """The same before it is truncated."""
    most = r.const(0.5 - 2.0 ** -(r.precision + 1))
    return r.add(x, most if is_positive else r.with_sign(most, x))


def frac(r: Reals, x: str) -> str:
    return r.sub(x, r.intrinsic("trunc", x))


def sign(r: Reals, x: str) -> str:
    """-1, 0 or 1; zeros and NaN stay."""
    zero = r.const(0.0)
    up = r.select(r.test("ogt", x, zero), r.const(1.0), x)
    return r.select(r.test("olt", x, zero), r.const(-1.0), up)


def nextafter(r: Reals, x: str, y: str) -> str:
    """The neighbour of x on the side of y: with a sign and a size, bits are ordered as numbers."""
    zero = r.const(0.0)
    bits = r.to_bits(x)
    rises, falls = r.test("olt", x, y), r.test("ogt", x, y)
    positive, negative = r.test("ogt", x, zero), r.test("olt", x, zero)
    away = r.either(r.both(rises, positive), r.both(falls, negative))
    step = r.choose(away, r.whole(1), r.whole(-1))
    moved = r.from_bits(r.bitwise("add", bits, step))
    least = r.with_sign(r.from_bits(r.whole(1)), y)
    moved = r.select(r.test("oeq", x, zero), least, moved)
    moved = r.select(r.test("oeq", x, y), y, moved)
    return r.select(r.test("uno", x, y), r.const(math.nan), moved)


def beyond(r: Reals, x: str, near: str) -> str:
    """What bfloat16 has next to x on the side where float32 has `near`."""
    bits = r.to_bits(near)
    up = r.bitwise("add", bits, r.whole(0xFFFF))
    moved = r.choose(r.test("ogt", r.abs(near), r.abs(x)), up, bits)
    moved = r.from_bits(r.bitwise("and", moved, r.whole(-0x10000)))
    return r.select(r.test("uno", near, near), near, moved)


def logb(r: Reals, x: str) -> str:
    """The exponent of x as a number of the same type."""
    shift = r.precision - 1
    size = r.abs(x)
    tiny = r.test("olt", size, r.const(2.0 ** (1 - r.bias)))
    normal = r.select(tiny, r.mul(size, r.const(2.0**shift)), size)
    exponent = r.bitwise("lshr", r.to_bits(normal), r.whole(shift))
    real = r.from_integer(r.bitwise("sub", exponent, r.whole(r.bias)))
    real = r.select(tiny, r.sub(real, r.const(float(shift))), real)
    real = r.select(r.test("oeq", size, r.const(0.0)), r.const(-math.inf), real)
    return r.select(r.test("ult", size, r.const(math.inf)), _unless_nan(r, size, real), size)


def _unless_nan(r: Reals, x: str, value: str) -> str:
    return r.select(r.test("uno", x, x), x, value)


def fmax(r: Reals, x: str, y: str) -> str:
    """The larger one; if one is NaN the other."""
    second = r.either(r.test("olt", x, y), r.test("uno", x, x))
    return r.select(second, y, x)


def fmin(r: Reals, x: str, y: str) -> str:
    second = r.either(r.test("ogt", x, y), r.test("uno", x, x))
    return r.select(second, y, x)


def fdim(r: Reals, x: str, y: str) -> str:
    return r.select(r.test("ole", x, y), r.const(0.0), r.sub(x, y))


def fmod(r: Reals, x: str, y: str) -> str:
    return r.b.pure(f"frem {r.type} {x}, {y}", x, y)
