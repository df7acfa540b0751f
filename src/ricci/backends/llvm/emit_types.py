"""LLVM's spelling of element types and literals."""

from __future__ import annotations

import math
import struct

import numpy as np

from ...dtypes import DType, to_bfloat16

_VALUES = {
    DType.BOOL: "i1",
    DType.INT: "i64",
    DType.FLOAT16: "half",
    DType.BFLOAT16: "i16",  # its bits: it is computed in float32, see `emit_arith`
    DType.FLOAT32: "float",
    DType.FLOAT64: "double",
}
_SIZES = {DType.BOOL: 1, DType.INT: 8, DType.REAL: 4} | {
    d: d.numpy().itemsize for d in DType if not d.is_abstract and d is not DType.STR
}
_TAGS = {"half": "f16", "float": "f32", "double": "f64"}
_MANTISSA = {DType.FLOAT16: 11, DType.FLOAT32: 24, DType.FLOAT64: 53}


def width(dtype: DType) -> int:
    """Bytes of an element in memory."""
    return _SIZES[dtype]


def scalar_type(dtype: DType) -> str:
    """The type of a value in a register; `INT` is the type of indices."""
    return _VALUES.get(dtype) or f"i{8 * width(dtype)}"


def memory_type(dtype: DType) -> str:
    """The type of an element in memory: a bool takes a byte."""
    return "i8" if dtype is DType.BOOL else scalar_type(dtype)


def vector_type(dtype: DType, lanes: int) -> str:
    """A vector of values; one lane is a scalar."""
    return with_lanes(scalar_type(dtype), lanes)


def with_lanes(type: str, lanes: int) -> str:
    return type if lanes == 1 else f"<{lanes} x {type}>"


def tag(type: str, lanes: int) -> str:
    """The suffix of an overloaded intrinsic: `v16f32`, `i64`."""
    element = _TAGS.get(type, type)
    return element if lanes == 1 else f"v{lanes}{element}"


def is_signed(dtype: DType) -> bool:
    return not dtype.value.startswith("uint")


def limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bits = 8 * width(dtype)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def literal(value: bool | int | float, dtype: DType) -> str:
    """A scalar literal."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_int:
        if isinstance(value, float) and math.isinf(value):
            return str(limits(dtype)[value > 0])
        low, high = limits(dtype)
        span = high - low + 1
        return str((int(value) - low) % span + low)
    return real_literal(float(value), dtype)


def real_literal(value: float, dtype: DType) -> str:
    if dtype is DType.FLOAT16:
        bits = struct.unpack("<H", struct.pack("<e", _round(value, "e", 65504.0)))[0]
        return f"0xH{bits:04X}"
    if dtype is DType.BFLOAT16:
        return str(int(to_bfloat16(np.array(value)).view(np.uint16)))
    if dtype is DType.FLOAT32:
        value = _round(value, "f", 3.4028234663852886e38)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _round(value: float, code: str, largest: float) -> float:
    """The nearest value of a smaller type; beyond its range an infinity."""
    try:
        return float(struct.unpack(f"<{code}", struct.pack(f"<{code}", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value) if abs(value) > largest else value


def splat(text: str, type: str, lanes: int) -> str:
    """A vector literal with equal lanes."""
    return text if lanes == 1 else f"splat ({type} {text})"


def mantissa(dtype: DType) -> int:
    """Bits of precision of a real type."""
    return _MANTISSA[dtype]


def with_zeros(scalar: str, lanes: int, value: str, count: int) -> str:
    """The instruction that makes a vector of `count` lanes a longer one, whose others are zeros."""
    first = with_lanes(scalar, count)
    if count == 1:
        full = with_lanes(scalar, lanes)
        return f"insertelement {full} zeroinitializer, {first} {value}, i64 0"
    picks = ", ".join(f"i32 {min(k, count)}" for k in range(lanes))
    return f"shufflevector {first} {value}, {first} zeroinitializer, <{lanes} x i32> <{picks}>"


def some_lanes(scalar: str, lanes: int, value: str, first: int, count: int) -> str:
    """The instruction that takes some neighbouring lanes of a vector."""
    full = with_lanes(scalar, lanes)
    if count == 1:
        return f"extractelement {full} {value}, i64 {first}"
    picks = ", ".join(f"i32 {first + k}" for k in range(count))
    return f"shufflevector {full} {value}, {full} poison, <{count} x i32> <{picks}>"
