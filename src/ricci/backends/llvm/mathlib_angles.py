"""Circular functions and their inverses as LLVM instructions."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import mathlib_tables as tables
from .mathlib_core import Reals

_LARGEST_ANGLE = 2.0**19
"""Above it the argument of a circular function is given to the C library, lane by lane."""


def circular(cosine: bool) -> Callable[[Reals, str], str]:
    return lambda r, x: _large_angles(r, "cos" if cosine else "sin", x, _sine_of)


def _sine_of(r: Reals, x: str, name: str) -> str:
    quarter, s, c = _quadrant(r, x)
    if name == "cos":
        quarter = r.bitwise("add", quarter, r.whole(1))
    return _turned(r, quarter, s, c)


def _turned(r: Reals, quarter: str, s: str, c: str) -> str:
    """The sine of an angle with a number of quarter turns, given sine and cosine of the rest."""
    value = r.select(_is_bit_set(r, quarter, 1), c, s)
    flip = r.bitwise("shl", r.bitwise("and", quarter, r.whole(2)), r.whole(r.bits - 2))
    return r.from_bits(r.bitwise("xor", r.to_bits(value), flip))


def tan(r: Reals, x: str) -> str:
    return _large_angles(r, "tan", x, _tangent_of)


def _tangent_of(r: Reals, x: str, name: str) -> str:
    quarter, s, c = _quadrant(r, x)
    odd = _is_bit_set(r, quarter, 1)
    return r.div(r.select(odd, c, s), r.select(odd, r.neg(s), c))


def _is_bit_set(r: Reals, x: str, bit: int) -> str:
    low = r.bitwise("and", x, r.whole(bit))
    return r.b.pure(f"icmp ne {r.integers} {low}, {r.whole(0)}", low)


def _quadrant(r: Reals, x: str) -> tuple[str, str, str]:
    """The number of quarter turns, and sine and cosine of the rest, for |x| <= 2**19."""
    whole, k = r.nearest(x, 2 / math.pi)
    t = x
    for part in tables.HALF_PI:
        t = r.fma(whole, r.const(-part), t)
    return k, *_sine_and_cosine(r, t)


def _sine_and_cosine(r: Reals, t: str) -> tuple[str, str]:
    """Of an angle up to an eighth of a turn."""
    z = r.mul(t, t)
    return r.fma(r.mul(t, z), r.polynomial(z, tables.SIN[1:]), t), r.polynomial(z, tables.COS)


def _turns(r: Reals, x: str) -> tuple[str, str]:
    """An angle of x half turns: the number of its quarter turns, and the rest."""
    full = r.intrinsic("roundeven", r.mul(x, r.const(0.5)))
    part = r.sub(x, r.add(full, full))
    whole, k = r.nearest(part, 2.0)
    return k, r.mul(r.sub(part, r.mul(whole, r.const(0.5))), r.const(math.pi))


def sinpi(r: Reals, x: str) -> str:
    k, t = _turns(r, x)
    value = _turned(r, k, *_sine_and_cosine(r, t))
    zero = r.const(0.0)
    return r.select(r.test("oeq", value, zero), r.with_sign(zero, x), value)


def cospi(r: Reals, x: str) -> str:
    k, t = _turns(r, x)
    value = _turned(r, r.bitwise("add", k, r.whole(1)), *_sine_and_cosine(r, t))
    return r.add(value, r.const(0.0))


def _large_angles(r: Reals, name: str, x: str, near: Callable[[Reals, str, str], str]) -> str:
    """The function by its reduction, or by the C library if some lane is beyond its range."""
    far = r.test("ogt", r.abs(x), r.const(_LARGEST_ANGLE))
    b = r.b
    if r.lanes > 1:
        far = b.call("i1", f"llvm.vector.reduce.or.v{r.lanes}i1", f"{r.bools} {far}")
    value = near(r, x, name)
    arms = b.branches(far)
    with arms.then():
        arms.give([_each_lane(r, name, x)])
    with arms.other():
        arms.give([value])
    return arms.merge([r.type])[0]


def _each_lane(r: Reals, name: str, x: str) -> str:
    if r.lanes == 1:
        r.b.declare(f"declare double @{name}(double)")
        return r.b.op(f"call double @{name}(double {x})")
    total = "poison"
    r.b.declare(f"declare double @{name}(double)")
    for lane in range(r.lanes):
        one = r.b.op(f"extractelement {r.type} {x}, i64 {lane}")
        got = r.b.op(f"call double @{name}(double {one})")
        total = r.b.op(f"insertelement {r.type} {total}, double {got}, i64 {lane}")
    return total


def _asin_core(r: Reals, size: str) -> tuple[str, str]:
    """Whether `size` is above 1/2, and asin of it or of sqrt((1 - size) / 2)."""
    large = r.test("ogt", size, r.const(0.5))
    z = r.select(large, r.mul(r.sub(r.const(1.0), size), r.const(0.5)), r.mul(size, size))
    root = r.select(large, r.sqrt(z), size)
    return large, r.fma(r.mul(root, z), r.polynomial(z, tables.ASIN[1:]), root)


def asin(r: Reals, x: str) -> str:
    large, core = _asin_core(r, r.abs(x))
    far = r.sub(r.const(math.pi / 2), r.add(core, core))
    return r.with_sign(r.select(large, far, core), x)


def acos(r: Reals, x: str) -> str:
    large, core = _asin_core(r, r.abs(x))
    twice = r.add(core, core)
    negative = r.test("olt", x, r.const(0.0))
    far = r.select(negative, r.sub(r.const(math.pi), twice), twice)
    return r.select(large, far, r.sub(r.const(math.pi / 2), r.with_sign(core, x)))


def atan(r: Reals, x: str) -> str:
    """By 1/x above tan(3 pi/8), by (x - 1) / (x + 1) above tan(pi/8)."""
    size, one = r.abs(x), r.const(1.0)
    far = r.test("ogt", size, r.const(math.tan(3 * math.pi / 8)))
    mid = r.test("ogt", size, r.const(math.tan(math.pi / 8)))
    top = r.select(far, r.const(-1.0), r.select(mid, r.sub(size, one), size))
    bottom = r.select(far, size, r.select(mid, r.add(size, one), one))
    t = r.div(top, bottom)
    z = r.mul(t, t)
    tail = r.mul(r.mul(t, z), r.polynomial(z, tables.ATAN[1:]))
    offset = r.select(far, r.const(math.pi / 2), r.select(mid, r.const(math.pi / 4), r.const(0.0)))
    rest = r.select(far, r.const(_ATAN_LOW), r.select(mid, r.const(_ATAN_LOW / 2), r.const(0.0)))
    return r.with_sign(r.add(offset, r.add(r.add(tail, rest), t)), x)


def atan2(r: Reals, y: str, x: str) -> str:
    """The angle of a point, from its smaller coordinate over its larger one."""
    a, b, zero = r.abs(x), r.abs(y), r.const(0.0)
    steep = r.test("ogt", b, a)
    top, bottom = r.select(steep, a, b), r.select(steep, b, a)
    ratio = r.div(top, bottom)
    even = r.select(r.test("oeq", bottom, zero), zero, r.const(1.0))  # also of two infinities
    angle = atan(r, r.select(r.test("oeq", top, bottom), even, ratio))
    angle = r.select(steep, _from(r, math.pi / 2, _ATAN_LOW, angle), angle)
    behind = r.b.pure(f"icmp slt {r.integers} {r.to_bits(x)}, {r.whole(0)}", r.to_bits(x))
    angle = r.select(behind, _from(r, math.pi, 2 * _ATAN_LOW, angle), angle)
    nan = r.test("uno", x, y)
    return r.select(nan, r.const(math.nan), r.with_sign(angle, y))


def _from(r: Reals, high: float, low: float, x: str) -> str:
    return r.add(r.sub(r.const(high), x), r.const(low))


_ATAN_LOW = 6.123233995736766e-17
"""What pi / 2 is above its nearest float64."""
