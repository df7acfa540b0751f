"""Element types of tensors and scalars.

`REAL` and `INT` are abstract: a mathematical real or integer whose representation is
chosen when a model is compiled (`real="float32"`, `int="int64"`). The concrete types name
a representation. `STR` occurs in compile-time values and in the definition of layout
operators only; no executor holds tensors of strings.

NumPy has no bfloat16: arrays of it have the dtype `BFLOAT16` of their bits.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from .records import dataclass

BFLOAT16: np.dtype[Any] = np.dtype([("bfloat16", np.uint16)])
"""The upper halves of float32 numbers; another dtype than that of unsigned integers."""


class DType(Enum):
    """An element type; the value is its name in the text form of the IR."""

    REAL = "real"
    INT = "int"
    BOOL = "bool"
    STR = "str"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"

    __hash__ = object.__hash__  # each is one object, and most dictionaries have them as keys

    @property
    def is_real(self) -> bool:
        return self in _REALS

    @property
    def is_int(self) -> bool:
        return self in _INTS

    @property
    def is_numeric(self) -> bool:
        return self in _REALS or self in _INTS

    @property
    def is_abstract(self) -> bool:
        return self is DType.REAL or self is DType.INT

    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype of a concrete type; `KeyError` for `REAL`, `INT` and `STR`."""
        return _NUMPY[self]

    @staticmethod
    def of(dtype: np.dtype[np.generic]) -> DType:
        """The type of a NumPy array's elements; `KeyError` if there is none."""
        return _FROM_NUMPY[dtype]

    def __str__(self) -> str:
        return self.value


NARROW = (DType.FLOAT16, DType.BFLOAT16)
"""Reals that programs compute with in float32, and store rounded."""

_REALS = frozenset({DType.REAL, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64})
_INTS = frozenset(d for d in DType if "int" in d.value)
_NUMPY: dict[DType, np.dtype[np.generic]] = {
    d: BFLOAT16 if d is DType.BFLOAT16 else np.dtype(d.value)
    for d in DType
    if d not in (DType.REAL, DType.INT, DType.STR)
}
_FROM_NUMPY = {v: k for k, v in _NUMPY.items()}

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Types:
    """The dtypes that stand for the abstract ones."""

    real: DType = DType.FLOAT32
    int: DType = DType.INT64

    def of(self, dtype: DType) -> DType:
        return {DType.REAL: self.real, DType.INT: self.int}.get(dtype, dtype)


def to_bfloat16(values: Array) -> Array:
    """The nearest numbers of bfloat16, the even one of two, as an array of `BFLOAT16`.

    Rounded once: what float32 loses leaves an odd bit behind, which decides ties.
    """
    with np.errstate(all="ignore"):
        near = np.asarray(values.astype(np.float32, copy=False))
        bits = near.view(np.uint32)
        if values.dtype.itemsize > 2 and values.dtype != np.float32:
            wide, back = np.abs(values.astype(np.float64)), np.abs(near.astype(np.float64))
            bits = np.where((back < wide) | (back > wide), (bits - (back > wide)) | 1, bits)
        rounded = bits >> 16
        rounded &= 1
        rounded += bits
        rounded += 0x7FFF
        rounded >>= 16
        found = rounded.astype(np.uint16)
        unknown = np.isnan(near)
        if unknown.any():
            found = np.where(unknown, np.uint16(0x7FC0), found)
    return np.asarray(found).view(BFLOAT16)


def from_bfloat16(array: Array) -> Array:
    """The numbers of an array of `BFLOAT16` in float32."""
    bits = array.view(np.uint16).astype(np.uint32) << 16
    return np.asarray(bits, np.uint32).view(np.float32)


def to_dtype(values: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in the dtype of arrays that programs work on: `astype`, for bfloat16 too.

    What is too large for the dtype becomes infinite.
    """
    with np.errstate(over="ignore"):
        return to_bfloat16(values) if dtype == BFLOAT16 else values.astype(dtype)


def name_of(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, for people."""
    return DType.BFLOAT16.value if dtype == BFLOAT16 else dtype.name
