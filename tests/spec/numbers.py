"""Numbers while a graph runs: the operators and functions of 2.4 on elements of tensors.

Both executors must agree with NumPy in the corners too: infinities, NaN, signs, overflow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .programs import formula

Array = NDArray[np.float64]

REALS = np.array([0.0, 1.5, -1.5, 2.5, -2.5, 0.5, -0.5, 3.0, -7.25, np.inf, -np.inf, np.nan])
INTS = np.array([0, 1, -1, 2, -2, 3, -3, 7, -7, 2**62, -(2**62), 2**63 - 1, -(2**63)])
_PAIRS = np.stack(np.meshgrid(REALS, REALS), -1).reshape(-1, 2)
_INT_PAIRS = np.stack(np.meshgrid(INTS, INTS), -1).reshape(-1, 2)


def _unary(expression: str, expected: Callable[[Array], object], result: str = "real") -> Case:
    """An expression of one real `a`."""
    text = formula(f"a = x[i,], y[i,] = {expression}, i < n;", "x: real[n];", f"y: {result}[n];",
                   f"x: real[{len(REALS)}];", f"y: {result};")  # fmt: skip
    return Case("2.4", f"real, while running: {expression}", text, (REALS,), expected, "NumPy")


def _binary(expression: str, expected: Callable[[Array, Array], object], result: str = "real",
            operands: str = "real") -> Case:  # fmt: skip
    """An expression of two numbers `a` and `b`."""
    pairs = _PAIRS if operands == "real" else _INT_PAIRS
    text = formula(
        f"a = x[i,0], b = x[i,1], y[i,] = {expression}, i < n;",
        f"x: {operands}[n,2];",
        f"y: {result}[n];",
        f"x: {operands}[{len(pairs)},2];",
        f"y: {result};",
    )
    name = f"{operands}, while running: {expression}"
    return Case("2.4", name, text, (pairs,), lambda x: expected(x[:, 0], x[:, 1]), "NumPy")


def _halves_away(x: Array) -> Array:
    return np.where(np.isinf(x), x, np.sign(x) * np.floor(np.abs(x) + 0.5))


def _saturated(x: Array) -> NDArray[np.int64]:
    small = np.nan_to_num(np.clip(np.trunc(x), -(2.0**62), 2.0**62)).astype(np.int64)
    small = np.where(x == np.inf, 2**63 - 1, small)
    return np.where(x == -np.inf, -(2**63), small)


def _power(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Powers in Python, wrapped; a negative exponent gives 0, save of 1 and -1."""
    found = [_one_power(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    return np.array([(v + 2**63) % 2**64 - 2**63 for v in found])


def _one_power(x: int, y: int) -> int:
    if y >= 0:
        return pow(x, y, 2**64)
    return {1: 1, -1: -1 if y % 2 else 1}.get(x, 0)


def _wrapped(function: Callable[[int, int], int]) -> Callable[..., NDArray[np.int64]]:
    """A function of Python's integers, wrapped to 64 bits."""

    def compute(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        found = [function(int(x), int(y)) for x, y in zip(a, b, strict=True)]
        return np.array([(v + 2**63) % 2**64 - 2**63 for v in found])

    return compute


UNARY = [
    _unary("-a", np.negative),
    _unary("`abs`(a)", np.abs),
    _unary("`sign`(a)", np.sign),
    _unary("`sqrt`(a)", np.sqrt),
    _unary("`exp`(a)", np.exp),
    _unary("`log`(a)", np.log),
    _unary("`sin`(a)", np.sin),
    _unary("`cos`(a)", np.cos),
    _unary("`tan`(a)", np.tan),
    _unary("`asin`(a)", np.arcsin),
    _unary("`acos`(a)", np.arccos),
    _unary("`atan`(a)", np.arctan),
    _unary("`sinh`(a)", np.sinh),
    _unary("`cosh`(a)", np.cosh),
    _unary("`tanh`(a)", np.tanh),
    _unary("`asinh`(a)", np.arcsinh),
    _unary("`acosh`(a)", np.arccosh),
    _unary("`atanh`(a)", np.arctanh),
    _unary("`floor`(a)", np.floor),
    _unary("`ceil`(a)", np.ceil),
    _unary("`round`(a)", _halves_away),
    _unary("a == a", lambda a: a == a, "bool"),
    _unary("bool(a)", lambda a: a != 0, "bool"),
    _unary("int(a)", _saturated, "int"),
    _unary("real(a > 1.0)", lambda a: (a > 1).astype(float)),
    _unary("a > 0.0 ? a : -0.5", lambda a: np.where(a > 0, a, -0.5)),
]

BINARY = [
    _binary("a + b", np.add),
    _binary("a - b", np.subtract),
    _binary("a * b", np.multiply),
    _binary("a / b", np.divide),
    _binary("a \\ b", lambda a, b: np.ceil(a / b)),
    _binary("a << b", np.minimum),
    _binary("a >> b", np.maximum),
    _binary("a < b", np.less, "bool"),
    _binary("a <= b", np.less_equal, "bool"),
    _binary("a > b", np.greater, "bool"),
    _binary("a >= b", np.greater_equal, "bool"),
    _binary("a == b", np.equal, "bool"),
    _binary("a != b", np.not_equal, "bool"),
    _binary("a ** b", np.power),
]

INTEGERS = [
    _binary("a + b", np.add, "int", "int"),
    _binary("a - b", np.subtract, "int", "int"),
    _binary("a * b", np.multiply, "int", "int"),
    _binary("a << b", np.minimum, "int", "int"),
    _binary("a >> b", np.maximum, "int", "int"),
    _binary("a ** (b % 8)", lambda a, b: _power(a, b % 8), "int", "int"),
    _binary("a ** b", _power, "int", "int"),
    _binary("b == 0 ? 0 : a / b", _wrapped(lambda a, b: a // b if b else 0), "int", "int"),
    _binary("b == 0 ? 0 : a \\ b", _wrapped(lambda a, b: -(-a // b) if b else 0), "int", "int"),
    _binary("b == 0 ? 0 : a % b", _wrapped(lambda a, b: a % b if b else 0), "int", "int"),
    _binary("a < b", np.less, "bool", "int"),
    _binary("a == b", np.equal, "bool", "int"),
    _binary("`abs`(a)", lambda a, b: np.abs(a), "int", "int"),
    _binary("`sign`(a) * `sign`(b)", lambda a, b: np.sign(a) * np.sign(b), "int", "int"),
    _binary("-a", lambda a, b: -a, "int", "int"),
]

CASES = [*UNARY, *BINARY, *INTEGERS]
