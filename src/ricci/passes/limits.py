"""Positive factors behind limits, moved before them.

Requires: an expression of reals, and a part of it. Ensures: where the part goes into limits alone,
which are multiplied by a positive number, or divided by it, the part and the limits are instead:
`(x < 0 ? 0 : min(x, 6)) / s` is `(x / s < 0 ? 0 : min(x / s, 6 / s))`. That is the same number,
since neither operation changes an order, but for the sign of a zero. Does not: move what is not a
number of usual size, or what is behind a choice that jumps where the part is zero, since the part
is rounded otherwise then.

Example: the step of a quantised tensor behind a rectifier.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dtypes import DType
from ..ir.nodes import Binary, Const, Expr, Select
from ..ir.rewrite import rebuild
from .scaled import is_zero

_LEAST, _MOST = 1e-6, 1e6
"""Factors of usual size: hardly anything that they are put together with is too large or small."""
_ORDERS = ("lt", "le", "gt", "ge")


def before_limits(result: Expr, part: Expr) -> Expr:
    """The result with factors of a part's limits moved to the part; itself if there are none."""
    if part.dtype not in (DType.FLOAT32, DType.FLOAT64):
        return result

    def moved(node: Expr) -> Expr:
        if not isinstance(node, Binary) or node.op not in ("mul", "div"):
            return node
        limits, by = node.lhs, node.rhs
        if node.op == "mul" and isinstance(limits, Const):
            limits, by = by, limits
        if not isinstance(by, Const) or not _LEAST < float(by.value) < _MOST:
            return node
        if limits is part or _at_zero(limits, part) is None:
            return node
        fresh = {id(part): Binary(node.op, part, by)}
        return _scaled(limits, node.op, by, fresh)

    return rebuild(result, moved)


def _at_zero(expr: Expr, part: Expr) -> float | None:
    """What an expression is where a part of it is zero, if it is the part, a number, or one of them
    by their order, and nowhere jumps; else None."""
    if expr is part:
        return 0.0
    match expr:
        case Const(value=int() | float() as value):
            return float(value)
        case Binary(op="min" | "max" as op, lhs=lhs, rhs=rhs):
            a, b = _at_zero(lhs, part), _at_zero(rhs, part)
            if a is None or b is None:
                return None
            return min(a, b) if op == "min" else max(a, b)
        case Select(condition=Binary(op=op, lhs=lhs, rhs=rhs), then=then, otherwise=otherwise):
            sign = (lhs is part and is_zero(rhs)) or (rhs is part and is_zero(lhs))
            a, b = _at_zero(then, part), _at_zero(otherwise, part)
            return a if op in _ORDERS and sign and a == b else None
    return None


def _scaled(expr: Expr, op: str, by: Const, done: Mapping[int, Expr]) -> Expr:
    """Limits with all numbers scaled, and the part."""

    def of(node: Expr) -> Expr:
        return _scaled(node, op, by, done)

    match expr:
        case _ if id(expr) in done:
            return done[id(expr)]
        case Binary(lhs=lhs, rhs=rhs):
            return Binary(expr.op, of(lhs), of(rhs))
        case Select(condition=Binary() as order, then=then, otherwise=otherwise):
            condition = Binary(order.op, of(order.lhs), of(order.rhs))
            return Select(condition, of(then), of(otherwise))
    assert isinstance(expr, Const)
    a, b = (np.asarray(float(x.value), expr.dtype.numpy()) for x in (expr, by))
    with np.errstate(all="ignore"):
        return Const(float(a * b if op == "mul" else a / b), expr.dtype)
