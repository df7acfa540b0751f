"""The value of a scalar expression without accesses, in plain Python."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from ..dtypes import DType
from .nodes import (
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Function,
    Index,
    Local,
    Select,
    Symbol,
    Unary,
)

Value = bool | int | float


def evaluate(expr: Expr, env: Mapping[Any, int]) -> int:
    """The value of an expression of integers (or bools) given those of its symbols, indices
    and, where they are not to be computed, locals.

    Integers are exact; reals in between are float64. Raises `KeyError` for what `env` lacks,
    `ZeroDivisionError`, and `OverflowError` or `ValueError` for reals that have no value.
    """
    if isinstance(expr, Const):
        return cast(int, expr.value)
    done: dict[int, Value] = {}
    stack: list[Expr] = [expr]
    while stack:
        node = stack[-1]
        pending = [part for part in _needed(node, done, env) if id(part) not in done]
        if pending:
            stack += pending
        else:
            stack.pop()
            done[id(node)] = _value(node, done, env)
    return cast(int, done[id(expr)])


def _needed(node: Expr, done: Mapping[int, Value], env: Mapping[Any, int]) -> tuple[Expr, ...]:
    """The parts to be computed before a node; of a `Select` only the side taken."""
    match node:
        case Binary():
            return node.lhs, node.rhs
        case Unary() | Cast():
            return (node.operand,)
        case Apply():
            return node.arguments
        case Local():
            return () if node in env else (node.value,)
        case Select():
            if id(node.condition) not in done:
                return (node.condition,)
            return (node.then if done[id(node.condition)] else node.otherwise,)
        case _:
            return ()


def _value(node: Expr, done: Mapping[int, Value], env: Mapping[Any, int]) -> Value:
    match node:
        case Const():
            return cast(Value, node.value)
        case Symbol() | Index():
            return env[node]
        case Local():
            return env[node] if node in env else done[id(node.value)]
        case Binary():
            return _BINARY[node.op](done[id(node.lhs)], done[id(node.rhs)])
        case Unary():
            operand = done[id(node.operand)]
            return not operand if node.op == "not" else -operand
        case Select():
            return done[id(node.then if done[id(node.condition)] else node.otherwise)]
        case Cast():
            return _cast(done[id(node.operand)], node.dtype)
        case Apply():
            return _apply(node.function, [done[id(x)] for x in node.arguments])
        case _:
            raise KeyError(node)


def _apply(function: Function, arguments: list[Value]) -> Value:
    known = _FUNCTIONS.get(function)
    if known is not None:
        return known(*arguments)
    from .interpret_functions import FUNCTIONS  # few expressions need them, and they take time

    with np.errstate(all="ignore"):
        return float(FUNCTIONS[function](*[np.float64(x) for x in arguments]))


def integer_power(a: Value, b: Value) -> Value:
    """`a ** b`; of integers with a negative exponent 0, save for the powers of 1 and -1."""
    if isinstance(a, float) or isinstance(b, float):
        return cast(Value, float(a) ** b)
    if abs(a) <= 1:
        return a ** (2 - b % 2) if a or b < 0 else int(b == 0)
    if b > 1024:
        raise OverflowError("a power of integers that is too large")
    return cast(Value, a**b) if b >= 0 else 0


def _cast(value: Value, dtype: DType) -> Value:
    if dtype is DType.BOOL:
        return value != 0
    if dtype.is_real:
        return float(value)
    if isinstance(value, float) and math.isnan(value):
        return 0
    if isinstance(value, float) and math.isinf(value):
        return 2**63 - 1 if value > 0 else -(2**63)
    return int(value)


def _ceildiv(a: Value, b: Value) -> Value:
    return -(-a // b)


def _round(x: Value) -> Value:
    return math.copysign(math.floor(abs(x) + 0.5), x) if abs(x) < 2**52 else x


def _sign(x: Value) -> Value:
    return x if x != x else type(x)((x > 0) - (x < 0))


_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "ceildiv": _ceildiv, "mod": operator.mod,
    "pow": integer_power, "min": min, "max": max,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "abs": abs, "sign": _sign, "round": _round,
    "floor": lambda x: float(math.floor(x)), "ceil": lambda x: float(math.ceil(x)),
    "frac": lambda x: x - math.trunc(x),
    **{
        name: getattr(math, name)
        for name in (
            "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan",
            "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        )
    },
}  # fmt: skip
"""Those that raise errors outside their domain, or that integers stay integers in."""
