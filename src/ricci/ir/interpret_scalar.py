"""The scalar operations on NumPy arrays: the numeric meaning of `docs/ir.md`.

Operands of one operation have one dtype, and so has the result. Integers wrap (two's
complement); reals follow IEEE 754; nothing here warns if the caller holds
`np.errstate(all="ignore")`. Integer division needs non-zero divisors: the caller checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def ceildiv(a: Array, b: Array) -> Array:
    """Rounded toward plus infinity, without the overflow of `-(-a // b)`."""
    if np.issubdtype(a.dtype, np.floating):
        return np.asarray(np.ceil(a / b))
    quotient = np.floor_divide(a, b)
    return np.asarray(quotient + (a != quotient * b).astype(quotient.dtype))


def power(a: Array, b: Array) -> Array:
    """Of integers with a negative exponent: 0, save for the powers of 1 and -1."""
    if np.issubdtype(a.dtype, np.floating):
        return np.power(a, b)
    result = np.power(a, np.maximum(b, 0))
    odd = np.where(b % 2 == 0, np.abs(a), a)
    return np.where(b >= 0, result, np.where(np.abs(a) == 1, odd, 0)).astype(a.dtype)


def convert(x: Array, dtype: np.dtype[Any]) -> Array:
    """A cast: real to integer truncates and saturates, NaN gives 0; wider integers wrap."""
    if dtype == np.bool_:
        return np.asarray(x != 0)
    if np.issubdtype(x.dtype, np.floating) and np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        whole = np.trunc(x.astype(np.float64))
        above, below = whole >= float(info.max) + 1.0, whole < float(info.min)
        inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(dtype)
        return np.where(above, info.max, np.where(below, info.min, inside)).astype(dtype)
    return x.astype(dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "floordiv": np.floor_divide, "ceildiv": ceildiv, "mod": np.mod, "pow": power,
    "min": np.minimum, "max": np.maximum,  # NaN if either is
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip

REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def neutral(op: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction can be combined with without effect."""
    if op in ("min", "max"):
        if dtype == np.bool_:
            return op == "min"
        if np.issubdtype(dtype, np.floating):
            return dtype.type(math.inf if op == "min" else -math.inf)
        info = np.iinfo(dtype)
        return dtype.type(info.max if op == "min" else info.min)
    return dtype.type({"add": 0, "mul": 1, "and": True, "or": False}[op])
