"""The built-in functions of scalars as LLVM instructions, scalar or vector.

Polynomials are in `mathlib_tables`; the reductions of the argument are the usual ones (W. J. Cody
and W. Waite, Software Manual for the Elementary Functions, 1980; J.-M. Muller, Elementary
Functions, 2016). The logarithm follows the published scheme of fdlibm. Functions of float32 that
are not worth a version of their own are computed in float64, those of float16 in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...dtypes import DType
from . import mathlib_tables as tables
from .builder import Builder
from .mathlib_core import Reals

_LARGEST_ANGLE = 2.0**19
"""Above it the argument of a circular function is given to the C library, lane by lane."""


def function(b: Builder, name: str, x: str, dtype: DType, lanes: int) -> str:
    """The value of a built-in function of one argument."""
    if dtype.is_int:
        return _of_integer(b, name, x, dtype, lanes)
    reals = Reals(b, dtype, lanes)
    direct = _DIRECT.get(name)
    if direct is not None:
        return direct(reals, x)
    if dtype is DType.FLOAT16:
        return _through(reals, DType.FLOAT32, name, x)
    if dtype is DType.FLOAT32 and name not in _SINGLE:
        return _through(reals, DType.FLOAT64, name, x)
    return _FUNCTIONS[name](reals, x)


def _through(reals: Reals, dtype: DType, name: str, x: str) -> str:
    wide = Reals(reals.b, dtype, reals.lanes)
    return wide.converted(
        function(reals.b, name, reals.converted(x, wide), dtype, reals.lanes), reals
    )


def _of_integer(b: Builder, name: str, x: str, dtype: DType, lanes: int) -> str:
    """`abs`, `sign`, and the roundings, which leave an integer as it is."""
    from .emit_types import is_signed, scalar_type, splat, tag, vector_type, with_lanes

    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    zero = splat("0", scalar_type(dtype), lanes)
    if name == "abs" and is_signed(dtype):
        arguments = f"{type} {x}, i1 false"
        called = f"llvm.abs.{tag(scalar_type(dtype), lanes)}"
        b.declare(f"declare {type} @{called}({type}, i1)")
        return b.pure(f"call {type} @{called}({arguments})", x)
    if name == "sign":
        test = "sgt" if is_signed(dtype) else "ugt"
        positive = b.pure(f"icmp {test} {type} {x}, {zero}", x)
        up = b.pure(f"zext {bits} {positive} to {type}", positive)
        if not is_signed(dtype):
            return up
        negative = b.pure(f"icmp slt {type} {x}, {zero}", x)
        down = b.pure(f"zext {bits} {negative} to {type}", negative)
        return b.pure(f"sub {type} {up}, {down}", up, down)
    assert name in ("abs", "round", "floor", "ceil"), f"{name} of integers"
    return x


# ------------------------------------------------------------------- rounding


def rounded(b: Builder, name: str, x: str, dtype: DType, lanes: int) -> str:
    """`floor`, `ceil` or `trunc`."""
    return Reals(b, dtype, lanes).intrinsic(name, x)


def _round(r: Reals, x: str) -> str:
    """Half away from zero: the truncated value, and one more if half or more was cut off."""
    whole = r.intrinsic("trunc", x)
    rest = r.abs(r.sub(x, whole))
    more = r.with_sign(r.const(1.0), x)
    moved = r.add(whole, more)
    return r.select(r.test("oge", rest, r.const(0.5)), moved, whole)


def _frac(r: Reals, x: str) -> str:
    return r.sub(x, r.intrinsic("trunc", x))


def _sign(r: Reals, x: str) -> str:
    """-1, 0 or 1; zeros and NaN stay."""
    zero = r.const(0.0)
    up = r.select(r.test("ogt", x, zero), r.const(1.0), x)
    return r.select(r.test("olt", x, zero), r.const(-1.0), up)


# ---------------------------------------------------------------- exponential


def _reduced(r: Reals, x: str) -> tuple[str, str]:
    """`k` and `t` with `x = k ln 2 + t` and `|t| <= ln 2 / 2`, in Cody and Waite's two steps."""
    high, low = tables.LN2_32 if r.bits == 32 else tables.LN2_64
    whole, k = r.nearest(r.mul(x, r.const(1 / math.log(2))))
    t = r.fma(whole, r.const(-high), x)
    return k, r.fma(whole, r.const(-low), t)


def _taylor(r: Reals, first: int) -> list[float]:
    """Coefficients of `exp(t)` from power `first`: enough for `|t| <= ln 2 / 2`."""
    return [1 / math.factorial(n) for n in range(first, 8 if r.bits == 32 else 14)]


def _scaled(r: Reals, x: str, k: str) -> str:
    """`x * 2**k` in two steps, so that results at the ends of the range are right."""
    half = r.bitwise("ashr", k, r.whole(1))
    rest = r.bitwise("sub", k, half)
    return r.mul(r.mul(x, r.power_of_two(half)), r.power_of_two(rest))


def _exp(r: Reals, x: str) -> str:
    x = r.clamp(x, -104.0, 89.0) if r.bits == 32 else r.clamp(x, -746.0, 710.0)
    k, t = _reduced(r, x)
    tail = r.mul(r.mul(t, t), r.polynomial(t, _taylor(r, 2)))
    return _scaled(r, r.add(r.add(tail, t), r.const(1.0)), k)


def _expm1(r: Reals, x: str) -> str:
    """`exp(x) - 1` for x at most 700 (88), accurate at 0."""
    k, t = _reduced(r, r.clamp(x, -60.0, 88.0 if r.bits == 32 else 700.0))
    p = r.fma(r.mul(t, t), r.polynomial(t, _taylor(r, 2)), t)
    scale = r.power_of_two(k)
    return r.fma(scale, p, r.sub(scale, r.const(1.0)))


def _tanh(r: Reals, x: str) -> str:
    """`-m / (m + 2)` with `m = expm1(-2 |x|)`."""
    m = _expm1(r, r.mul(r.abs(x), r.const(-2.0)))
    return r.with_sign(r.div(r.neg(m), r.add(m, r.const(2.0))), x)


def _sinh(r: Reals, x: str) -> str:
    size = r.abs(x)
    m = _expm1(r, size)
    small = r.add(m, r.div(m, r.add(m, r.const(1.0))))
    half = _exp(r, r.mul(size, r.const(0.5)))
    large = r.mul(r.mul(half, r.const(0.5)), half)
    near = r.test("olt", size, r.const(20.0))
    return r.with_sign(r.select(near, r.mul(small, r.const(0.5)), large), x)


def _cosh(r: Reals, x: str) -> str:
    half = _exp(r, r.mul(r.abs(x), r.const(0.5)))
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


def _log(r: Reals, x: str) -> str:
    e, m = _split(r, x)
    f = r.sub(m, r.const(1.0))
    s = r.div(f, r.add(f, r.const(2.0)))
    z = r.mul(s, s)
    tail = r.mul(z, r.polynomial(z, _series(r)))
    half = r.mul(r.mul(f, f), r.const(0.5))
    high, low = tables.LN2_32 if r.bits == 32 else tables.LN2_64
    inner = r.fma(s, r.add(half, tail), r.mul(e, r.const(low)))
    result = r.fma(e, r.const(high), r.sub(f, r.sub(half, inner)))
    return _ends(r, x, result)


def _log1p(r: Reals, x: str) -> str:
    """`log(1 + x)` for x >= 0: what `1 + x` loses is given back."""
    whole = r.add(x, r.const(1.0))
    lost = r.sub(x, r.sub(whole, r.const(1.0)))
    fixed = r.add(_log(r, whole), r.div(lost, whole))
    return r.select(r.test("oeq", whole, r.const(math.inf)), whole, fixed)


def _asinh(r: Reals, x: str) -> str:
    size = r.abs(x)
    square = r.mul(size, size)
    root = r.sqrt(r.add(square, r.const(1.0)))
    small = _log1p(r, r.add(size, r.div(square, r.add(root, r.const(1.0)))))
    large = r.add(_log(r, size), r.const(math.log(2)))
    return r.with_sign(r.select(r.test("ogt", size, r.const(2.0**28)), large, small), x)


def _acosh(r: Reals, x: str) -> str:
    t = r.sub(x, r.const(1.0))
    root = r.sqrt(r.mul(t, r.add(t, r.const(2.0))))
    small = _log1p(r, r.add(t, root))
    large = r.add(_log(r, x), r.const(math.log(2)))
    value = r.select(r.test("ogt", x, r.const(2.0**28)), large, small)
    return r.select(r.test("olt", x, r.const(1.0)), r.const(math.nan), value)


def _atanh(r: Reals, x: str) -> str:
    size = r.abs(x)
    ratio = r.div(r.add(size, size), r.sub(r.const(1.0), size))
    value = r.mul(r.const(0.5), _log1p(r, ratio))
    value = r.select(r.test("ogt", size, r.const(1.0)), r.const(math.nan), value)
    return r.with_sign(value, x)


# --------------------------------------------------------------------- angles


def _circular(cosine: bool) -> Callable[[Reals, str], str]:
    return lambda r, x: _large_angles(r, "cos" if cosine else "sin", x, _sine_of)


def _sine_of(r: Reals, x: str, name: str) -> str:
    quarter, s, c = _quadrant(r, x)
    if name == "cos":
        quarter = r.bitwise("add", quarter, r.whole(1))
    odd = _is_bit_set(r, quarter, 1)
    value = r.select(odd, c, s)
    flip = r.bitwise("shl", r.bitwise("and", quarter, r.whole(2)), r.whole(r.bits - 2))
    return r.from_bits(r.bitwise("xor", r.to_bits(value), flip))


def _tan(r: Reals, x: str) -> str:
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
    whole, k = r.nearest(r.mul(x, r.const(2 / math.pi)))
    t = x
    for part in tables.HALF_PI:
        t = r.fma(whole, r.const(-part), t)
    z = r.mul(t, t)
    s = r.fma(r.mul(t, z), r.polynomial(z, tables.SIN[1:]), t)
    c = r.polynomial(z, tables.COS)
    return k, s, c


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


def _asin(r: Reals, x: str) -> str:
    large, core = _asin_core(r, r.abs(x))
    far = r.sub(r.const(math.pi / 2), r.add(core, core))
    return r.with_sign(r.select(large, far, core), x)


def _acos(r: Reals, x: str) -> str:
    large, core = _asin_core(r, r.abs(x))
    twice = r.add(core, core)
    negative = r.test("olt", x, r.const(0.0))
    far = r.select(negative, r.sub(r.const(math.pi), twice), twice)
    return r.select(large, far, r.sub(r.const(math.pi / 2), r.with_sign(core, x)))


def _atan(r: Reals, x: str) -> str:
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


_ATAN_LOW = 6.123233995736766e-17
"""What pi / 2 is above its nearest float64."""


def _erf(r: Reals, x: str) -> str:
    single = r.bits == 32
    size = r.abs(x)
    z = r.mul(size, size)
    near = r.mul(size, r.polynomial(z, tables.ERF32 if single else tables.ERF64))
    far_size = r.clamp(size, 1.0, 4.0 if single else 6.0)
    scale, shift = tables.ERFC32_MAP if single else tables.ERFC64_MAP
    t = r.div(r.const(scale), r.add(far_size, r.const(2.0 if single else 3.0)))
    u = r.add(t, r.const(shift))
    tail = r.polynomial(u, tables.ERFC32 if single else tables.ERFC64)
    far = r.sub(r.const(1.0), r.mul(_exp(r, r.neg(r.mul(far_size, far_size))), tail))
    return r.with_sign(r.select(r.test("olt", size, r.const(1.0)), near, far), x)


# ---------------------------------------------------------------------- power


def power(b: Builder, x: str, y: str, dtype: DType, lanes: int) -> str:
    """`x ** y` of reals, with the conventions of C."""
    r = Reals(b, dtype, lanes)
    known = {r.const(v): v for v in (0.5, 1.0, 2.0, 3.0, -1.0)}.get(y)
    if known is not None:
        return _fixed_power(r, x, known)
    if dtype is not DType.FLOAT64:
        wide = Reals(b, DType.FLOAT64, lanes)
        value = power(b, r.converted(x, wide), _widened(r, y, wide), DType.FLOAT64, lanes)
        return wide.converted(value, r)
    return _power(r, x, y)


def _widened(r: Reals, y: str, wide: Reals) -> str:
    return r.converted(y, wide)


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
    base = _exp(r, top)
    value = r.fma(base, rest, base)
    value = r.select(r.test("olt", base, r.const(math.inf)), value, base)
    return _power_ends(r, x, y, size, value)


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


_DIRECT: dict[str, Callable[[Reals, str], str]] = {
    "abs": Reals.abs,
    "sqrt": Reals.sqrt,
    "sign": _sign,
    "round": _round,
    "frac": _frac,
    "floor": lambda r, x: r.intrinsic("floor", x),
    "ceil": lambda r, x: r.intrinsic("ceil", x),
}
"""Right in every type as they stand."""

_SINGLE = frozenset({"exp", "log", "tanh", "erf"})
"""Functions with a version in single precision."""

_FUNCTIONS: dict[str, Callable[[Reals, str], str]] = {
    "exp": _exp,
    "log": _log,
    "sin": _circular(False),
    "cos": _circular(True),
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "erf": _erf,
}
