"""Exponential, logarithmic and hyperbolic functions, powers and roots as LLVM instructions.

The reductions of the argument are the usual ones (W. J. Cody and W. Waite, Software Manual for the
Elementary Functions, 1980; J.-M. Muller, Elementary Functions, 2016). The logarithm follows the
published scheme of fdlibm.
"""

from __future__ import annotations

import math

from ...dtypes import DType
from . import mathlib_picked as picked
from . import mathlib_tables as tables
from .builder import Builder
from .mathlib_core import Reals

# ---------------------------------------------------------------- exponential


def _reduced(r: Reals, x: str) -> tuple[str, str, str]:
    """`k`, as a real and as an integer, and `t` with `x = k ln 2 + t` and `|t| <= ln 2 / 2`, in
    Cody and Waite's two steps."""
    high, low = tables.LN2_32 if r.bits == 32 else tables.LN2_64
    whole, k = r.nearest(x, 1 / math.log(2))
    t = r.fma(whole, r.const(-high), x)
    return whole, k, r.fma(whole, r.const(-low), t)


def _taylor(r: Reals, first: int) -> list[float]:
    """Coefficients of `exp(t)` from power `first`: enough for `|t| <= ln 2 / 2`."""
    return [1 / math.factorial(n) for n in range(first, 8 if r.bits == 32 else 14)]


def _scaled(r: Reals, x: str, whole: str, k: str) -> str:
    """`x * 2**k`: in one instruction or, so that results at the ends of the range are right, in
    two steps."""
    scaled = r.scaled(x, whole)
    if scaled is not None:
        return scaled
    half = r.bitwise("ashr", k, r.whole(1))
    rest = r.bitwise("sub", k, half)
    return r.mul(r.mul(x, r.power_of_two(half)), r.power_of_two(rest))


def exp(r: Reals, x: str) -> str:
    low, high = (-104.0, 89.0) if r.bits == 32 else (-746.0, 710.0)
    if r.picks:
        return picked.exp(r, x, low, high)
    if r.bits == 32:
        return _exp_by_squares(r, x, high)
    # where one instruction scales, `k` may be anything below 0 for what is zero
    whole, k, t = _reduced(r, r.at_most(x, high) if r.scales else r.clamp(x, low, high))
    # a product that is too small for a number takes processors ten times as long as another
    near = r.select(r.test("olt", x, r.const(low)), r.const(0.0), _near_one(r, t))
    return _scaled(r, near, whole, k)


def _exp_by_squares(r: Reals, x: str, high: float) -> str:
    """`4**j * exp(t)` with `|t| <= ln 2`: `2**j` is a normal number whatever the result, and so
    needs no more than a shift; the polynomial for it is one term longer. `j` is -75 at least where
    the result is not 0, and the power for -76, the least `j`, is 0: a product that is too small for
    a number takes processors ten times as long as another."""
    shift = r.bias - 76
    within = r.clamp(x, -76 * math.log(4), high)
    j, scale = r.nearest_power(within, 1 / math.log(4), shift)
    first, second = tables.LN2_32
    t = r.fma(j, r.const(-2 * first), within)
    terms = [c * 4.0**shift for c in (1.0, 1.0, *tables.EXP32_WIDE)]
    p = r.polynomial(r.fma(j, r.const(-2 * second), t), terms)
    return r.mul(r.mul(p, scale), scale)


def exp_below(r: Reals, x: str) -> str:
    """`exp(x)` for `x` at most 0: `2**k * exp(t)` with `|t| <= ln 2 / 2`. What is multiplied with
    `2**k` has a part of it beforehand, so that the rest is a normal number for all `k` but the
    least, where it is 0."""
    if r.picks or r.bits != 32:
        return exp(r, x)
    least, (first, second) = -151, tables.LN2_32
    shift = least + r.bias
    low = r.const(least * math.log(2))
    within = r.select(r.test("olt", x, low), low, x)  # NaN stays
    k, scale = r.nearest_power(within, 1 / math.log(2), shift)
    t = r.fma(k, r.const(-second), r.fma(k, r.const(-first), within))
    terms = [c * 2.0**shift for c in (1.0, 1.0, *tables.EXP32)]
    return r.mul(r.polynomial(t, terms), scale)


def _near_one(r: Reals, t: str) -> str:
    """`exp(t)` for `|t| <= ln 2 / 2`."""
    return r.polynomial(t, [1.0, 1.0, *(tables.EXP32 if r.bits == 32 else tables.EXP64)])


def exp2(r: Reals, x: str) -> str:
    x = r.clamp(x, -151.0, 129.0) if r.bits == 32 else r.clamp(x, -1076.0, 1025.0)
    whole, k = r.nearest(x)
    return _scaled(r, _near_one(r, r.mul(r.sub(x, whole), r.const(math.log(2)))), whole, k)


def exp10(r: Reals, x: str) -> str:
    x = r.clamp(x, -46.0, 39.0) if r.bits == 32 else r.clamp(x, -324.0, 309.0)
    high, low = tables.LOG2_32 if r.bits == 32 else tables.LOG2_64
    whole, k = r.nearest(x, math.log2(10))
    t = r.fma(whole, r.const(-low), r.fma(whole, r.const(-high), x))
    return _scaled(r, _near_one(r, r.mul(t, r.const(math.log(10)))), whole, k)


def expm1(r: Reals, x: str) -> str:
    """Twice `exp(x) / 2 - 1 / 2`, so that the largest results are right too."""
    _, k, t = _reduced(r, r.clamp(x, -60.0, 89.0 if r.bits == 32 else 710.0))
    p = r.fma(r.mul(t, t), r.polynomial(t, _taylor(r, 2)), t)
    scale = r.power_of_two(r.bitwise("sub", k, r.whole(1)))
    half = r.fma(scale, p, r.sub(scale, r.const(0.5)))
    tiny = r.test("olt", r.abs(x), r.const(2.0**-r.precision))
    return r.select(tiny, x, r.add(half, half))


def _expm1(r: Reals, x: str) -> str:
    """`exp(x) - 1` for x at most 700 (88), accurate at 0."""
    _, k, t = _reduced(r, r.clamp(x, -60.0, 88.0 if r.bits == 32 else 700.0))
    p = r.fma(r.mul(t, t), r.polynomial(t, _taylor(r, 2)), t)
    scale = r.power_of_two(k)
    return r.fma(scale, p, r.sub(scale, r.const(1.0)))


def tanh(r: Reals, x: str) -> str:
    """`-m / (m + 2)` with `m = expm1(-2 |x|)`."""
    if r.picks:
        return r.with_sign(picked.tanh(r, r.abs(x)), x)
    if r.bits == 32:
        return _tanh32(r, x)
    m = _expm1(r, r.mul(r.abs(x), r.const(-2.0)))
    return r.with_sign(r.div(r.neg(m), r.add(m, r.const(2.0))), x)


def _tanh32(r: Reals, x: str) -> str:
    """`m / (m + 2)` with `m = exp(2 x) - 1`: `2**k * exp(2 t) - 1` is accurate at 0, as `k` is 0
    there; and where it is not, `m` needs fewer bits of `t`. Nothing is done to signs: `x` need not
    be kept, and zeros keep theirs, as `1 - 2**k` is subtracted."""
    within = r.clamp(x, -10.0, 10.0)
    k, scale = r.nearest_power(within, 2 / math.log(2))
    t = r.fma(k, r.const(-math.log(2) / 2), within)
    doubled = [c * 2.0**n for n, c in enumerate(tables.EXPM1_32, 2)]
    p = r.mul(t, r.polynomial(t, [2.0, *doubled]))
    m = r.fma(scale, p, r.neg(r.sub(r.const(1.0), scale)))
    return r.div(m, r.add(m, r.const(2.0)))


def sinh(r: Reals, x: str) -> str:
    size = r.abs(x)
    m = _expm1(r, size)
    small = r.add(m, r.div(m, r.add(m, r.const(1.0))))
    half = exp(r, r.mul(size, r.const(0.5)))
    large = r.mul(r.mul(half, r.const(0.5)), half)
    near = r.test("olt", size, r.const(20.0))
    return r.with_sign(r.select(near, r.mul(small, r.const(0.5)), large), x)


def cosh(r: Reals, x: str) -> str:
    half = exp(r, r.mul(r.abs(x), r.const(0.5)))
    large = r.mul(r.mul(half, r.const(0.5)), half)
    return r.add(large, r.div(r.div(r.const(0.5), half), half))


# ------------------------------------------------------------------ logarithm


def _split(r: Reals, x: str) -> tuple[str, str]:
    """`e` (a real) and `m` with `x = 2**e * m`, `m` between sqrt(1/2) and sqrt(2), for x > 0."""
    shift = r.precision - 1
    smallest = 2.0 ** (2 - (1 << (r.bits - r.precision - 1)))
    tiny = r.test("olt", x, r.const(smallest))
    x = r.select(tiny, r.mul(x, r.const(2.0**r.precision)), x)
    raw = r.to_bits(x)
    root = r.to_bits_of(math.sqrt(0.5))
    moved = r.bitwise("sub", raw, root)  # its exponent field is that of x over sqrt(1/2)
    e = r.bitwise("ashr", moved, r.whole(shift))
    m = r.from_bits(r.bitwise("sub", raw, r.bitwise("shl", e, r.whole(shift))))
    real = r.from_integer(e)
    return r.select(tiny, r.sub(real, r.const(float(r.precision))), real), m


def _series(r: Reals) -> list[float]:
    """Coefficients in s*s of `log((1 + s) / (1 - s)) / s - 2`, divided by s*s; `|s| < 0.172`."""
    return [2 / (2 * n + 1) for n in range(1, 6 if r.bits == 32 else 12)]


def _ends(r: Reals, x: str, result: str) -> str:
    """The logarithm at 0, below 0 and at infinity."""
    zero, infinity = r.const(0.0), r.const(math.inf)
    result = r.select(r.test("oeq", x, infinity), infinity, result)
    result = r.select(r.test("oeq", x, zero), r.const(-math.inf), result)
    wrong = r.test("ult", x, zero)
    return r.select(wrong, r.const(math.nan), result)


def _log_near(r: Reals, m: str, more: str) -> str:
    """`log(m) + more` for m between sqrt(1/2) and sqrt(2), and a small number."""
    f = r.sub(m, r.const(1.0))
    s = r.div(f, r.add(f, r.const(2.0)))
    z = r.mul(s, s)
    tail = r.mul(z, r.polynomial(z, _series(r)))
    half = r.mul(r.mul(f, f), r.const(0.5))
    return r.sub(f, r.sub(half, r.fma(s, r.add(half, tail), more)))


def log(r: Reals, x: str) -> str:
    e, m = _split(r, x)
    high, low = tables.LN2_32 if r.bits == 32 else tables.LN2_64
    near = _log_near(r, m, r.mul(e, r.const(low)))
    return _ends(r, x, r.fma(e, r.const(high), near))


def log2(r: Reals, x: str) -> str:
    e, m = _split(r, x)
    near = _log_near(r, m, r.const(0.0))
    return _ends(r, x, r.fma(near, r.const(1 / math.log(2)), e))


def log10(r: Reals, x: str) -> str:
    """Of float64, from a logarithm in two parts: powers of ten give whole numbers."""
    high, low = _long_log(r, x)
    factor, rest = tables.LOG_E
    total = r.mul(high, r.const(factor))
    lost = r.exact_fma(high, r.const(factor), r.neg(total))
    lost = r.fma(high, r.const(rest), r.fma(low, r.const(factor), lost))
    finite = r.test("olt", r.abs(total), r.const(math.inf))
    return r.select(finite, r.add(total, lost), total)


def log1p(r: Reals, x: str) -> str:
    """What `1 + x` loses is given back."""
    whole = r.add(x, r.const(1.0))
    lost = r.sub(x, r.sub(whole, r.const(1.0)))
    value = log(r, whole)
    fixed = r.add(value, r.div(lost, whole))
    finite = r.test("olt", r.abs(value), r.const(math.inf))
    tiny = r.test("olt", r.abs(x), r.const(2.0**-r.precision))
    return r.select(tiny, x, r.select(finite, fixed, value))


def asinh(r: Reals, x: str) -> str:
    size = r.abs(x)
    square = r.mul(size, size)
    root = r.sqrt(r.add(square, r.const(1.0)))
    small = log1p(r, r.add(size, r.div(square, r.add(root, r.const(1.0)))))
    large = r.add(log(r, size), r.const(math.log(2)))
    return r.with_sign(r.select(r.test("ogt", size, r.const(2.0**28)), large, small), x)


def acosh(r: Reals, x: str) -> str:
    t = r.sub(x, r.const(1.0))
    root = r.sqrt(r.mul(t, r.add(t, r.const(2.0))))
    small = log1p(r, r.add(t, root))
    large = r.add(log(r, x), r.const(math.log(2)))
    value = r.select(r.test("ogt", x, r.const(2.0**28)), large, small)
    return r.select(r.test("olt", x, r.const(1.0)), r.const(math.nan), value)


def atanh(r: Reals, x: str) -> str:
    size = r.abs(x)
    ratio = r.div(r.add(size, size), r.sub(r.const(1.0), size))
    value = r.mul(r.const(0.5), log1p(r, ratio))
    value = r.select(r.test("ogt", size, r.const(1.0)), r.const(math.nan), value)
    return r.with_sign(value, x)


# ---------------------------------------------------------------------- roots


def cbrt(r: Reals, x: str) -> str:
    """`exp(log(x) / 3)`, and a step of Newton's method."""
    size = r.abs(x)
    tiny = r.test("olt", size, r.const(2.0 ** (1 - r.bias)))
    normal = r.select(tiny, r.mul(size, r.const(2.0 ** (3 * r.precision))), size)
    root = exp(r, r.div(log(r, normal), r.const(3.0)))
    wrong = r.sub(root, r.div(normal, r.mul(root, root)))
    root = r.sub(root, r.div(wrong, r.const(3.0)))
    root = r.select(tiny, r.mul(root, r.const(2.0**-r.precision)), root)
    ends = r.either(r.test("oeq", size, r.const(0.0)), r.test("oeq", size, r.const(math.inf)))
    return r.select(ends, x, r.with_sign(root, x))


def hypot(r: Reals, x: str, y: str) -> str:
    """Of float32 in float64, whose range is enough."""
    if r.bits == 32:
        wide = Reals(r.b, DType.FLOAT64, r.lanes)
        x, y = r.converted(x, wide), r.converted(y, wide)
        length = wide.sqrt(wide.add(wide.mul(x, x), wide.mul(y, y)))
        return wide.converted(_hypot_ends(wide, x, y, length), r)
    a, b = r.abs(x), r.abs(y)
    more = r.test("ogt", b, a)
    large, small = r.select(more, b, a), r.select(more, a, b)
    ratio = r.div(small, large)
    length = r.mul(large, r.sqrt(r.fma(ratio, ratio, r.const(1.0))))
    length = r.select(r.test("oeq", large, small), r.mul(large, r.const(math.sqrt(2))), length)
    return _hypot_ends(r, x, y, length)


def _hypot_ends(r: Reals, x: str, y: str, length: str) -> str:
    infinity = r.const(math.inf)
    endless = r.either(r.test("oeq", r.abs(x), infinity), r.test("oeq", r.abs(y), infinity))
    return r.select(endless, infinity, length)


# ---------------------------------------------------------------------- power


def power(b: Builder, x: str, y: str, dtype: DType, lanes: int) -> str:
    """`x ** y` of reals, with the conventions of C."""
    r = Reals(b, dtype, lanes)
    known = {r.const(v): v for v in (0.5, 1.0, 2.0, 3.0, -1.0)}.get(y)
    if known is not None:
        return _fixed_power(r, x, known)
    if dtype is DType.FLOAT64:
        return _power(r, x, y)
    wide = Reals(b, DType.FLOAT64, lanes)
    long_x, long_y = r.converted(x, wide), r.converted(y, wide)
    value = _narrow_power(wide, wide.abs(long_x), long_y)
    if dtype is not DType.FLOAT32:
        return wide.converted(_narrow_ends(wide, long_x, long_y, value), r)
    return _narrow_ends(r, x, y, wide.converted(value, r))


def _fixed_power(r: Reals, x: str, exponent: float) -> str:
    if exponent == 0.5:
        root = r.sqrt(r.add(x, r.const(0.0)))
        lowest = r.test("oeq", x, r.const(-math.inf))
        return r.select(lowest, r.const(math.inf), root)
    if exponent == -1.0:
        return r.div(r.const(1.0), x)
    result = x
    for _ in range(int(exponent) - 1):
        result = r.mul(result, x)
    return result


def _power(r: Reals, x: str, y: str) -> str:
    """`exp(y * log |x|)` with the logarithm in two parts."""
    size = r.abs(x)
    high, low = _long_log(r, size)
    top = r.mul(y, high)
    rest = r.fma(y, low, r.exact_fma(y, high, r.neg(top)))
    finite = r.test("olt", r.abs(top), r.const(1000.0))
    rest = r.select(finite, rest, r.const(0.0))
    base = exp(r, top)
    value = r.fma(base, rest, base)
    value = r.select(r.test("olt", base, r.const(math.inf)), value, base)
    return _power_ends(r, x, y, size, value)


def _narrow_power(r: Reals, size: str, y: str) -> str:
    """`size ** y` in float64 for sizes and results of narrower types, of which none is subnormal
    here: to about 35 bits, for sizes that are neither 0 nor infinite."""
    raw = r.to_bits(size)
    moved = r.bitwise("sub", raw, r.to_bits_of(math.sqrt(0.5)))
    e = r.bitwise("ashr", moved, r.whole(52))
    m = r.from_bits(r.bitwise("sub", raw, r.bitwise("shl", e, r.whole(52))))
    one = r.const(1.0)
    s = r.div(r.sub(m, one), r.add(m, one))
    z = r.mul(s, s)
    series = [2 / math.log(2) / (2 * n + 1) for n in range(7)]
    logarithm = r.fma(s, r.split_polynomial(z, series), r.from_integer(e))
    # a power of two beyond what the narrower type has, but not beyond this one
    exponent = r.clamp(r.mul(y, logarithm), -300.0, 300.0)
    whole, k = r.nearest(exponent)
    taylor = [math.log(2) ** n / math.factorial(n) for n in range(9)]
    near = r.split_polynomial(r.sub(exponent, whole), taylor)
    return r.mul(near, r.power_of_two(k))


def _narrow_ends(r: Reals, x: str, y: str, value: str) -> str:
    """The same for all sizes and signs."""
    size, zero, infinity = r.abs(x), r.const(0.0), r.const(math.inf)
    grows = r.select(
        r.test("ogt", y, zero), size, r.select(r.test("oeq", size, zero), infinity, zero)
    )
    end = r.either(r.test("oeq", size, zero), r.test("oeq", size, infinity))
    return _power_ends(r, x, y, size, r.select(end, grows, value))


def _long_log(r: Reals, x: str) -> tuple[str, str]:
    """log(x) as a sum of two values, to about 68 bits; x >= 0."""
    e, m = _split(r, x)
    f, two = r.sub(m, r.const(1.0)), r.const(2.0)
    base = r.add(f, two)
    lost = r.sub(f, r.sub(base, two))  # of base = f + 2
    s = r.div(f, base)
    wrong = r.exact_fma(r.neg(s), base, f)
    wrong = r.exact_fma(r.neg(s), lost, wrong)
    s_low = r.div(wrong, base)
    z = r.mul(s, s)
    tail = r.mul(r.mul(s, z), r.polynomial(z, _series(r)))
    ln2, ln2_low = tables.LN2_64
    top = r.mul(e, r.const(ln2))  # exact
    twice = r.add(s, s)
    high, error = _two_sum(r, top, twice)
    low = r.add(error, r.fma(e, r.const(ln2_low), r.add(r.add(s_low, s_low), tail)))
    total, rest = _two_sum(r, high, low)
    return _ends(r, x, total), rest


def _two_sum(r: Reals, a: str, b: str) -> tuple[str, str]:
    """A sum and its rounding error (D. E. Knuth, TAOCP 2, 4.2.2)."""
    total = r.add(a, b)
    part = r.sub(total, a)
    return total, r.add(r.sub(a, r.sub(total, part)), r.sub(b, part))


def _power_ends(r: Reals, x: str, y: str, size: str, value: str) -> str:
    """Signs of negative bases, and the exceptions of C."""
    one, zero, infinity = r.const(1.0), r.const(0.0), r.const(math.inf)
    whole = r.test("oeq", r.intrinsic("trunc", y), y)
    half = r.mul(y, r.const(0.5))
    odd = r.both(whole, r.test("une", r.intrinsic("trunc", half), half))
    value = r.select(odd, r.with_sign(value, x), value)
    negative = r.both(r.test("olt", x, zero), r.test("ogt", x, r.const(-math.inf)))
    fraction = r.b.pure(f"xor {r.bools} {whole}, {_all_true(r)}", whole)
    value = r.select(r.both(negative, fraction), r.const(math.nan), value)
    value = r.select(
        r.both(r.test("oeq", size, one), r.test("oeq", r.abs(y), infinity)), one, value
    )
    value = r.select(r.either(r.test("uno", x, x), r.test("uno", y, y)), r.const(math.nan), value)
    return r.select(r.either(r.test("oeq", y, zero), r.test("oeq", x, one)), one, value)


def _all_true(r: Reals) -> str:
    return "true" if r.lanes == 1 else "splat (i1 true)"
