"""Numbers of Tensor Comprehensions in plain Python: types, their promotion, and operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Number = bool | int | float

UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
SIGNED = ["int8", "int16", "int32", "int64"]
REALS = ["float32", "float64"]
TYPES = ["bool", *UNSIGNED, *SIGNED, *REALS]


class Fault(Exception):
    """What must be an error: an index out of range, a division by zero."""


def width(dtype: str) -> int:
    return 1 if dtype == "bool" else int(dtype.lstrip("uintfloa"))


def promote(a: str, b: str) -> str:
    """The type in which two values meet."""
    if a == b:
        return a
    reals = [t for t in (a, b) if t in REALS]
    if reals:
        return max(reals, key=width)
    kind = "int" if a in SIGNED or b in SIGNED else "uint"
    return f"{kind}{max(8, width(a), width(b))}"


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest number of an integer type."""
    bits = width(dtype)
    return (0, 2**bits - 1) if dtype in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrap(value: Number, dtype: str) -> Number:
    """The result of an operation in its type."""
    if dtype == "bool" or dtype in REALS:
        return value
    low, high = limits(dtype)
    return (int(value) - low) % (high - low + 1) + low


def convert(value: Number, dtype: str) -> Number:
    if dtype == "bool":
        return value != 0
    if dtype in REALS:
        return _real(value, dtype)
    if not isinstance(value, float):
        return wrap(value, dtype)
    if math.isnan(value):
        return 0
    low, high = limits(dtype)
    return low if value <= low else high if value >= high else math.trunc(value)


def _real(value: Number, dtype: str) -> float:
    """Rounded once, whatever it is."""
    with np.errstate(over="ignore"):
        if isinstance(value, float):
            return float(np.float32(value)) if dtype == "float32" else value
        kind = "uint64" if value >= 0 else "int64"
        return float(np.array(value, kind).astype(dtype))


def divide(x: Number, y: Number) -> Number:
    """The quotient, of integers rounded down."""
    if isinstance(x, float):
        if y != 0:
            return x / y
        sign = math.copysign(1.0, x) * math.copysign(1.0, y)
        return math.nan if x == 0 or math.isnan(x) else sign * math.inf
    if y == 0:
        raise Fault("division by zero")
    return x // int(y)


def remainder(x: Number, y: Number) -> Number:
    if isinstance(x, float):
        return x % y if y != 0 and math.isfinite(x) else math.nan
    if y == 0:
        raise Fault("division by zero")
    return x % int(y)


ARITHMETIC: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": divide,
    "%": remainder,
}
COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}


def smaller(x: Number, y: Number) -> Number:
    return math.nan if x != x or y != y else min(x, y)


def larger(x: Number, y: Number) -> Number:
    return math.nan if x != x or y != y else max(x, y)


REDUCTIONS: dict[str, Callable[[Number, Number], Number]] = {
    "+=": lambda x, y: x + y,
    "*=": lambda x, y: x * y,
    "min=": smaller,
    "max=": larger,
}


def identity(operator: str, dtype: str) -> Number:
    """What a reduction starts from."""
    if operator in ("+=", "*="):
        return convert(int(operator == "*="), dtype)
    if dtype == "bool":
        return operator == "min="
    if dtype in REALS:
        return math.inf if operator == "min=" else -math.inf
    low, high = limits(dtype)
    return high if operator == "min=" else low
