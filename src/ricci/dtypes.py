"""Element types of tensors and scalars.

`REAL` and `INT` are abstract: a mathematical real or integer whose representation is
chosen when a model is compiled (`real="float32"`, `int="int64"`). The concrete types name
a representation. `STR` occurs in compile-time values and in the definition of layout
operators only; no executor holds tensors of strings.
"""

from __future__ import annotations

from enum import Enum

import numpy as np


class DType(Enum):
    """An element type; the value is its name in the text form of the IR."""

    REAL = "real"
    INT = "int"
    BOOL = "bool"
    STR = "str"
    FLOAT16 = "float16"
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


_REALS = frozenset({DType.REAL, DType.FLOAT16, DType.FLOAT32, DType.FLOAT64})
_INTS = frozenset(d for d in DType if "int" in d.value)
_NUMPY: dict[DType, np.dtype[np.generic]] = {
    d: np.dtype(d.value) for d in DType if d not in (DType.REAL, DType.INT, DType.STR)
}
_FROM_NUMPY = {v: k for k, v in _NUMPY.items()}
