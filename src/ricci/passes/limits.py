"""Positive factors behind limits, moved before them.

Requires: an expression of reals, and a part of it. Ensures: where the part goes into limits alone,
which are multiplied by a positive number, or divided by it, the part and the limits are instead:
`(x < 0 ? 0 : min(x, 6)) / s` is `(x / s < 0 ? 0 : min(x / s, 6 / s))`. That is the same number,
since neither operation changes an order, but for the sign of a zero. Does not: move what is not a
number of usual size.

Example: the step of a quantised tensor behind a rectifier.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..dtypes import DType
from ..ir.nodes import Binary, Const, Expr, Select
from ..ir.rewrite import rebuild

_LEAST, _MOST = 1e-18, 1e18
"""Factors of usual size: nothing that they are put together with is too large or too small."""
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
        if limits is part or not _are_limits(limits, part):
            return node
        fresh = {id(part): Binary(node.op, part, by)}
        return _scaled(limits, node.op, by, fresh)

    return rebuild(result, moved)


def _are_limits(expr: Expr, part: Expr) -> bool:
    """Whether an expression is a part, a number, or one of them by their order."""
    match expr:
        case Const():
            return True
        case Binary(op="min" | "max", lhs=lhs, rhs=rhs):
            return _are_limits(lhs, part) and _are_limits(rhs, part)
        case Select(condition=Binary(op=op, lhs=lhs, rhs=rhs), then=then, otherwise=otherwise):
            sign = (lhs is part and _is_zero(rhs)) or (rhs is part and _is_zero(lhs))
            return op in _ORDERS and sign and all(_are_limits(x, part) for x in (then, otherwise))
    return expr is part


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


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and float(expr.value) == 0.0
