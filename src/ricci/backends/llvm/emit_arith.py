"""Arithmetic on emitted values: every operator and conversion of the IR, scalar or vector."""

from __future__ import annotations

import math

import numpy as np

from ...dtypes import BFLOAT16, DType, from_bfloat16
from . import mathlib, mathlib_exp
from .builder import Builder
from .emit_types import (
    is_signed,
    limits,
    literal,
    scalar_type,
    splat,
    tag,
    vector_type,
    width,
    with_lanes,
)

_REAL = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul"}
_LOGICAL = {"and": "and", "or": "or", "xor": "xor"}
_REAL_TESTS = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_TESTS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def unary(b: Builder, op: str, a: str, dtype: DType, type: str) -> str:
    """`neg` or `not` of a value of an LLVM type."""
    if op == "not":
        lanes = _lanes(type)
        return b.pure(f"xor {type} {a}, {splat('true', 'i1', lanes)}", a)
    if dtype is DType.BFLOAT16:
        return b.pure(f"xor {type} {a}, {splat('-32768', 'i16', _lanes(type))}", a)
    if dtype.is_real:
        return b.pure(f"fneg {type} {a}", a)
    return b.pure(f"sub {type} {'0' if type[0] == 'i' else 'zeroinitializer'}, {a}", a)


def _lanes(type: str) -> int:
    return 1 if type[0] != "<" else int(type[1:].split(maxsplit=1)[0])


def binary(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    """An operator on two values of one dtype; divisors of integers are not zero."""
    if dtype is DType.BFLOAT16 and op in ("min", "max"):
        return _extreme_bfloat16(b, op, x, y, lanes)
    if dtype is DType.BFLOAT16:
        x, y = (cast(b, a, dtype, DType.FLOAT32, lanes) for a in (x, y))
        value = binary(b, op, x, y, DType.FLOAT32, lanes)
        is_test = op in _REAL_TESTS
        return value if is_test else cast(b, value, DType.FLOAT32, dtype, lanes)
    type = vector_type(dtype, lanes)
    if op in _LOGICAL:
        return b.pure(f"{_LOGICAL[op]} {with_lanes('i1', lanes)} {x}, {y}", x, y)
    if op in _REAL_TESTS:
        return b.pure(f"{comparison(op, dtype)} {type} {x}, {y}", x, y)
    if op in ("min", "max"):
        return extreme(b, op, x, y, dtype, lanes)
    if op == "pow":
        return power(b, x, y, dtype, lanes)
    if dtype.is_real:
        return real(b, op, x, y, dtype, lanes)
    if op in _INTEGER:
        return b.pure(f"{_INTEGER[op]} {type} {x}, {y}", x, y)
    return divide(b, op, x, y, dtype, lanes)


def real(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    type = vector_type(dtype, lanes)
    if op in _REAL:
        return b.pure(f"{_REAL[op]} {type} {x}, {y}", x, y)
    if op in ("floordiv", "ceildiv"):
        quotient = b.pure(f"fdiv {type} {x}, {y}", x, y)
        return mathlib.rounded(b, "floor" if op == "floordiv" else "ceil", quotient, dtype, lanes)
    assert op == "mod", op
    # the sign of frem is the dividend's; the remainder of floordiv takes the divisor's
    rest = b.pure(f"frem {type} {x}, {y}", x, y)
    zero = splat(literal(0.0, dtype), scalar_type(dtype), lanes)
    bits = with_lanes("i1", lanes)
    uneven = b.pure(f"fcmp une {type} {rest}, {zero}", rest)
    below = b.pure(f"fcmp olt {type} {rest}, {zero}", rest)
    negative = b.pure(f"fcmp olt {type} {y}, {zero}", y)
    differ = b.pure(f"xor {bits} {below}, {negative}", below, negative)
    wrong = b.pure(f"and {bits} {uneven}, {differ}", uneven, differ)
    moved = b.pure(f"fadd {type} {rest}, {y}", rest, y)
    return b.pure(f"select {bits} {wrong}, {type} {moved}, {type} {rest}", wrong, moved, rest)


def comparison(op: str, dtype: DType) -> str:
    """The instruction of a comparison."""
    if dtype.is_real:
        return f"fcmp {_REAL_TESTS[op]}"
    if op in ("eq", "ne"):
        return f"icmp {op}"
    return f"icmp {'s' if is_signed(dtype) and dtype is not DType.BOOL else 'u'}{_TESTS[op]}"


def extreme(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    """The smaller or larger value; of reals, NaN if one is NaN."""
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    if not dtype.is_real:
        name = f"llvm.{'s' if is_signed(dtype) else 'u'}{op}.{tag(scalar_type(dtype), lanes)}"
        return b.call(type, name, f"{type} {x}", f"{type} {y}")
    if not x.startswith(("%", "0xH7E", "0x7FF8", "splat")) or (
        x.startswith("splat") and "0x7FF8" not in x
    ):
        x, y = y, x  # a literal goes second: it is not NaN, and one instruction is enough
    test = b.pure(f"fcmp {'olt' if op == 'max' else 'ogt'} {type} {x}, {y}", x, y)
    best = b.pure(f"select {bits} {test}, {type} {y}, {type} {x}", test, x, y)
    if not y.startswith("%"):
        return best
    lost = b.pure(f"fcmp uno {type} {y}, {y}", y)
    return b.pure(f"select {bits} {lost}, {type} {y}, {type} {best}", lost, y, best)


def _extreme_bfloat16(b: Builder, op: str, x: str, y: str, lanes: int) -> str:
    """The smaller or larger value, or NaN if one is NaN: one of both, so nothing is rounded."""
    single, short = (vector_type(d, lanes) for d in (DType.FLOAT32, DType.BFLOAT16))
    bits = with_lanes("i1", lanes)
    if not x.startswith("%"):
        x, y = y, x  # as in `extreme`
    wide = [cast(b, a, DType.BFLOAT16, DType.FLOAT32, lanes) for a in (x, y)]
    test = b.pure(f"fcmp {'olt' if op == 'max' else 'ogt'} {single} {', '.join(wide)}", *wide)
    best = b.pure(f"select {bits} {test}, {short} {y}, {short} {x}", test, x, y)
    if not y.startswith("%") and not math.isnan(_number_of(y)):
        return best
    lost = b.pure(f"fcmp uno {single} {wide[1]}, {wide[1]}", wide[1])
    return b.pure(f"select {bits} {lost}, {short} {y}, {short} {best}", lost, y, best)


def extreme_number(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    """The smaller or larger of two values of which the second is a number: of NaN, that."""
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    test = b.pure(f"fcmp {'ogt' if op == 'max' else 'olt'} {type} {x}, {y}", x, y)
    return b.pure(f"select {bits} {test}, {type} {x}, {type} {y}", test, x, y)


def divide(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    """Integer division toward minus or plus infinity, or the remainder of the former."""
    type = vector_type(dtype, lanes)
    if is_signed(dtype):
        return _divide_signed(b, op, x, y, dtype, lanes)
    if op == "mod":
        return b.pure(f"urem {type} {x}, {y}", x, y)
    quotient = b.pure(f"udiv {type} {x}, {y}", x, y)
    if op == "floordiv":
        return quotient
    rest = b.pure(f"urem {type} {x}, {y}", x, y)
    return _add_if(b, quotient, "add", _differs(b, rest, dtype, lanes), dtype, lanes)


def divide_small(b: Builder, op: str, x: str, y: int, lanes: int) -> str:
    """The same of 64 bits, if both fit in 32, of which processors multiply all lanes at once: what
    multiplies numbers of 64 bits takes them one by one."""
    large, small = with_lanes("i64", lanes), with_lanes("i32", lanes)
    x = b.pure(f"trunc {large} {x} to {small}", x)
    result = _divide_signed(b, op, x, splat(str(y), "i32", lanes), DType.INT32, lanes)
    return b.pure(f"sext {small} {result} to {large}", result)


def _divide_signed(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    constant = _literal_value(y)
    if constant is not None and constant > 0 and constant & (constant - 1) == 0 and op != "ceildiv":
        if op == "mod":
            mask = splat(str(constant - 1), scalar_type(dtype), lanes)
            return b.pure(f"and {type} {x}, {mask}", x)
        shift = splat(str(constant.bit_length() - 1), scalar_type(dtype), lanes)
        return b.pure(f"ashr {type} {x}, {shift}", x)
    y, x, least = _without_overflow(b, x, y, dtype, lanes) if constant is None else (y, x, None)
    quotient = b.pure(f"sdiv {type} {x}, {y}", x, y)
    back = b.pure(f"mul {type} {quotient}, {y}", quotient, y)
    rest = b.pure(f"sub {type} {x}, {back}", x, back)
    uneven = _differs(b, rest, dtype, lanes)
    signs = b.pure(f"xor {type} {rest}, {y}", rest, y)
    zero = splat("0", scalar_type(dtype), lanes)
    opposite = b.pure(f"icmp slt {type} {signs}, {zero}", signs)
    if op == "ceildiv":
        same = b.pure(f"xor {bits} {opposite}, {splat('true', 'i1', lanes)}", opposite)
        up = b.pure(f"and {bits} {uneven}, {same}", uneven, same)
        result = _add_if(b, quotient, "add", up, dtype, lanes)
    else:
        down = b.pure(f"and {bits} {uneven}, {opposite}", uneven, opposite)
        if op == "mod":
            moved = b.pure(f"add {type} {rest}, {y}", rest, y)
            return b.pure(f"select {bits} {down}, {type} {moved}, {type} {rest}", down, moved, rest)
        result = _add_if(b, quotient, "sub", down, dtype, lanes)
    if least is None:
        return result
    wrapped = b.pure(f"sub {type} {zero}, {x}", x)
    return b.pure(
        f"select {bits} {least}, {type} {wrapped}, {type} {result}", least, wrapped, result
    )


def _without_overflow(
    b: Builder, x: str, y: str, dtype: DType, lanes: int
) -> tuple[str, str, str | None]:
    """Division by -1 is done by negation, because the least value divided by -1 traps."""
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    minus = splat("-1", scalar_type(dtype), lanes)
    one = splat("1", scalar_type(dtype), lanes)
    test = b.pure(f"icmp eq {type} {y}, {minus}", y)
    return b.pure(f"select {bits} {test}, {type} {one}, {type} {y}", test, y), x, test


def _literal_value(text: str) -> int | None:
    if text.startswith("splat"):
        text = text[:-1].rsplit(maxsplit=1)[-1]
    try:
        return int(text)
    except ValueError:
        return None


def _differs(b: Builder, x: str, dtype: DType, lanes: int) -> str:
    zero = splat("0", scalar_type(dtype), lanes)
    return b.pure(f"icmp ne {vector_type(dtype, lanes)} {x}, {zero}", x)


def _add_if(b: Builder, x: str, op: str, condition: str, dtype: DType, lanes: int) -> str:
    type = vector_type(dtype, lanes)
    one = b.pure(f"zext {with_lanes('i1', lanes)} {condition} to {type}", condition)
    return b.pure(f"{op} {type} {x}, {one}", x, one)


def power(b: Builder, x: str, y: str, dtype: DType, lanes: int) -> str:
    """`x ** y`; of integers modulo the type's range, and 0 for a negative exponent (1 / x rounded
    toward zero, so 1 and -1 keep their powers)."""
    if dtype.is_real:
        return mathlib_exp.power(b, x, y, dtype, lanes)
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    scalar = scalar_type(dtype)
    one, zero = splat("1", scalar, lanes), splat("0", scalar, lanes)
    result, base, rest = one, x, y
    count = _literal_value(y)
    steps = 8 * width(dtype) if count is None else max(count.bit_length(), 1)
    with b.loop(0, steps, 1, [(type, one), (type, base), (type, rest)]) as loop:
        result, base, rest = loop.values
        low = b.pure(f"and {type} {rest}, {one}", rest)
        odd = b.pure(f"icmp ne {type} {low}, {zero}", low)
        product = b.pure(f"mul {type} {result}, {base}", result, base)
        following = b.pure(
            f"select {bits} {odd}, {type} {product}, {type} {result}", odd, product, result
        )
        square = b.pure(f"mul {type} {base}, {base}", base)
        half = b.pure(f"lshr {type} {rest}, {one}", rest)
        loop.carry([following, square, half])
    result = loop.results[0]
    if not is_signed(dtype) or (count is not None and count >= 0):
        return result
    return _negative_power(b, x, y, result, dtype, lanes)


def _negative_power(b: Builder, x: str, y: str, positive: str, dtype: DType, lanes: int) -> str:
    """The power where the exponent is negative: x itself or 1 if x is 1 or -1, else 0."""
    type, bits = vector_type(dtype, lanes), with_lanes("i1", lanes)
    scalar = scalar_type(dtype)
    one, zero = splat("1", scalar, lanes), splat("0", scalar, lanes)
    minus = splat("-1", scalar, lanes)
    low = b.pure(f"and {type} {y}, {one}", y)
    odd = b.pure(f"icmp ne {type} {low}, {zero}", low)
    flip = b.pure(f"select {bits} {odd}, {type} {minus}, {type} {one}", odd)
    is_one = b.pure(f"icmp eq {type} {x}, {one}", x)
    is_minus = b.pure(f"icmp eq {type} {x}, {minus}", x)
    inner = b.pure(f"select {bits} {is_minus}, {type} {flip}, {type} {zero}", is_minus, flip)
    inverse = b.pure(f"select {bits} {is_one}, {type} {one}, {type} {inner}", is_one, inner)
    negative = b.pure(f"icmp slt {type} {y}, {zero}", y)
    return b.pure(
        f"select {bits} {negative}, {type} {inverse}, {type} {positive}",
        negative,
        inverse,
        positive,
    )


def cast(
    b: Builder,
    a: str,
    source: DType,
    target: DType,
    lanes: int,
    bounds: tuple[float, float] | None = None,
) -> str:
    """A conversion: real to integer truncates and saturates, and NaN gives 0; numbers are within
    the bounds."""
    old, new = vector_type(source, lanes), vector_type(target, lanes)
    if source is target or (old == new and source.is_int and target.is_int):
        return a
    if DType.BFLOAT16 in (source, target):
        return _cast_bfloat16(b, a, source, target, lanes)
    if target is DType.BOOL:
        zero = splat(literal(0, source), scalar_type(source), lanes)
        return b.pure(f"{'fcmp une' if source.is_real else 'icmp ne'} {old} {a}, {zero}", a)
    if source is DType.BOOL:
        return b.pure(f"{'uitofp' if target.is_real else 'zext'} {old} {a} to {new}", a)
    if source is DType.FLOAT64 and target is DType.FLOAT16:
        return cast(b, _to_odd_single(b, a, lanes), DType.FLOAT32, target, lanes)
    if source.is_real and target.is_real:
        return b.pure(
            f"{'fpext' if width(target) > width(source) else 'fptrunc'} {old} {a} to {new}", a
        )
    if source is DType.FLOAT16:  # LLVM makes something else of NaN where it widens it itself
        single = cast(b, a, source, DType.FLOAT32, lanes)
        return cast(b, single, DType.FLOAT32, target, lanes)
    if source.is_real and width(target) < 4 and lanes > 1:
        return _saturated(b, a, source, target, lanes, bounds)
    if source.is_real:
        kind = "s" if is_signed(target) else "u"
        types = f"{tag(scalar_type(target), lanes)}.{tag(scalar_type(source), lanes)}"
        name = f"llvm.fpto{kind}i.sat.{types}"
        return b.call(new, name, f"{old} {a}")
    if target.is_real:
        return b.pure(f"{'sitofp' if is_signed(source) else 'uitofp'} {old} {a} to {new}", a)
    if not a.startswith("%") and not a.startswith("splat"):
        low, high = limits(target)
        return str((int(a) - low) % (high - low + 1) + low)
    if width(target) < width(source):
        return b.pure(f"trunc {old} {a} to {new}", a)
    return b.pure(f"{'sext' if is_signed(source) else 'zext'} {old} {a} to {new}", a)


def _saturated(
    b: Builder, a: str, source: DType, target: DType, lanes: int, bounds: tuple[float, float] | None
) -> str:
    """Reals to integers of less than 32 bits, limited as reals, which vectors have for it."""
    old, bits = vector_type(source, lanes), with_lanes("i1", lanes)
    least, most = limits(target)
    low, high = (
        splat(literal(float(x), source), scalar_type(source), lanes) for x in (least, most)
    )
    if least:  # else the lower limit is what becomes of NaN
        zero = splat(literal(0.0, source), scalar_type(source), lanes)
        ordered = b.pure(f"fcmp ord {old} {a}, {a}", a)
        a = b.pure(f"select {bits} {ordered}, {old} {a}, {old} {zero}", ordered, a)
    if not least or bounds is None or not bounds[0] > least - 1:
        above = b.pure(f"fcmp ogt {old} {a}, {low}", a)
        a = b.pure(f"select {bits} {above}, {old} {a}, {old} {low}", above, a)
    if bounds is None or not bounds[1] < most + 1:
        below = b.pure(f"fcmp olt {old} {a}, {high}", a)
        a = b.pure(f"select {bits} {below}, {old} {a}, {old} {high}", below, a)
    return truncated(b, a, source, target, lanes)


def truncated(b: Builder, a: str, source: DType, target: DType, lanes: int) -> str:
    """Reals that are within the limits of an integer type of less than 32 bits."""
    wide = with_lanes("i32", lanes)
    number = b.pure(f"fptosi {vector_type(source, lanes)} {a} to {wide}", a)
    return b.pure(f"trunc {wide} {number} to {vector_type(target, lanes)}", number)


def _number_of(text: str) -> float:
    """The number of bfloat16 that a literal is, of a value or of a vector."""
    bits = int(text.removeprefix("splat (i16 ").removesuffix(")")) & 0xFFFF
    return float(from_bfloat16(np.array(bits, np.uint16).view(BFLOAT16)))


_ROUNDED = (8, 16)
"""The lengths of vectors that instructions round."""


def _cast_bfloat16(b: Builder, a: str, source: DType, target: DType, lanes: int) -> str:
    """From or to the upper half of a float32; what is added rounds to the nearest, or even, one."""
    single = vector_type(DType.FLOAT32, lanes)
    word, short = with_lanes("i32", lanes), with_lanes("i16", lanes)

    def whole(value: int) -> str:
        return splat(str(value), "i32", lanes)

    if source is DType.BFLOAT16 and not a.startswith("%"):
        text = splat(literal(_number_of(a), DType.FLOAT32), "float", lanes)
        return cast(b, text, DType.FLOAT32, target, lanes)
    if source is DType.BFLOAT16:
        wide = b.pure(f"zext {short} {a} to {word}", a)
        bits = b.pure(f"shl {word} {wide}, {whole(16)}", wide)
        value = b.pure(f"bitcast {word} {bits} to {single}", bits)
        return cast(b, value, DType.FLOAT32, target, lanes)
    if source is DType.FLOAT64:
        a = _to_odd_single(b, a, lanes)
    elif source.is_int and width(source) > 2:
        return cast(b, cast(b, a, source, DType.FLOAT64, lanes), DType.FLOAT64, target, lanes)
    else:
        a = cast(b, a, source, DType.FLOAT32, lanes)
    if b.rounds and lanes in _ROUNDED:
        brief = with_lanes("bfloat", lanes)
        name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}"
        rounded = b.call(brief, name, f"{single} {a}")
        return b.pure(f"bitcast {brief} {rounded} to {short}", rounded)
    bits = b.pure(f"bitcast {single} {a} to {word}", a)
    top = b.pure(f"lshr {word} {bits}, {whole(16)}", bits)
    last = b.pure(f"and {word} {top}, {whole(1)}", top)
    most = b.pure(f"add {word} {bits}, {whole(0x7FFF)}", bits)
    sum_ = b.pure(f"add {word} {most}, {last}", most, last)
    rounded = b.pure(f"lshr {word} {sum_}, {whole(16)}", sum_)
    is_nan = b.pure(f"fcmp uno {single} {a}, {a}", a)
    chosen = b.pure(
        f"select {with_lanes('i1', lanes)} {is_nan}, {word} {whole(0x7FC0)}, {word} {rounded}",
        is_nan,
        rounded,
    )
    return b.pure(f"trunc {word} {chosen} to {short}", chosen)


def _to_odd_single(b: Builder, a: str, lanes: int) -> str:
    """float64 in float32, cut off, with an odd last bit where something was lost.

    Rounding that to float16 equals rounding at once, for which few processors have an instruction.
    """
    wide, single = vector_type(DType.FLOAT64, lanes), vector_type(DType.FLOAT32, lanes)
    whole, bits = with_lanes("i32", lanes), with_lanes("i1", lanes)
    near = b.pure(f"fptrunc {wide} {a} to {single}", a)
    back = b.pure(f"fpext {single} {near} to {wide}", near)
    inexact = b.pure(f"fcmp one {wide} {back}, {a}", back, a)
    sizes = [
        b.call(wide, f"llvm.fabs.{tag('double', lanes)}", f"{wide} {value}") for value in (back, a)
    ]
    away = b.pure(f"fcmp ogt {wide} {sizes[0]}, {sizes[1]}", *sizes)
    minus = b.pure(f"sext {bits} {away} to {whole}", away)
    last = b.pure(f"zext {bits} {inexact} to {whole}", inexact)
    word = b.pure(f"bitcast {single} {near} to {whole}", near)
    cut = b.pure(f"add {whole} {word}, {minus}", word, minus)
    odd = b.pure(f"or {whole} {cut}, {last}", cut, last)
    return b.pure(f"bitcast {whole} {odd} to {single}", odd)


def to_memory(b: Builder, a: str, dtype: DType, lanes: int) -> str:
    """A value as it is stored: bools become bytes."""
    if dtype is not DType.BOOL:
        return a
    return b.pure(f"zext {with_lanes('i1', lanes)} {a} to {with_lanes('i8', lanes)}", a)


def combine(b: Builder, op: str, x: str, y: str, dtype: DType, lanes: int) -> str:
    """One step of a reduction."""
    return y if op in ("set", "update") else binary(b, op, x, y, dtype, lanes)


def neutral(op: str, dtype: DType) -> str:
    """The literal that a reduction leaves as it is."""
    match op:
        case "mul":
            return literal(1, dtype)
        case "and":
            return "true"
        case "or":
            return "false"
        case "min":
            return literal(float("inf"), dtype)
        case "max":
            if dtype.is_int:
                return str(limits(dtype)[0])
            return literal(float("-inf"), dtype)
    return literal(0, dtype)
