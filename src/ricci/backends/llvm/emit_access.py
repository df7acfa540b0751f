"""What the subscripts of accesses are made of: linear forms and ranges.

Everything here is about concrete programs: extents are integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...dtypes import DType
from ...ir.nodes import (
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Remap,
    Select,
    Skip,
    Subscript,
    Unary,
)
from ...ir.rewrite import walk

Range = tuple[float, float]
Ranges = Mapping[Index, tuple[int, int]]
"""Least and greatest value of indices, where narrower than their extent."""


@dataclass(slots=True)
class Linear:
    """`constant` plus a sum of coefficients times indices, and times other expressions."""

    constant: int = 0
    indices: dict[Index, int] = field(default_factory=dict)
    others: dict[int, tuple[Expr, int]] = field(default_factory=dict)
    """By identity of the expression."""

    def plus(self, other: Linear, factor: int) -> None:
        """Add `factor * other`."""
        self.constant += factor * other.constant
        for index, coefficient in other.indices.items():
            total = self.indices.get(index, 0) + factor * coefficient
            if total:
                self.indices[index] = total
            else:
                self.indices.pop(index, None)
        for key, (expr, coefficient) in other.others.items():
            total = self.others.get(key, (expr, 0))[1] + factor * coefficient
            if total:
                self.others[key] = (expr, total)
            else:
                self.others.pop(key, None)


def linear(expr: Expr) -> Linear:
    """The linear form of an integer expression; what is not linear stands in `others`."""
    match expr:
        case Const(value=int(value)):
            return Linear(int(value))
        case Index():
            if extent_of(expr) == 1:
                return Linear()
            return Linear(0, {expr: 1})
        case Local():
            inner = linear(expr.value)
            return inner if not inner.others else Linear(0, {}, {id(expr): (expr, 1)})
        case Cast(operand=operand) if _is_index_type(expr.dtype) and _is_index_type(operand.dtype):
            return linear(operand)
        case Unary(op="neg", operand=operand):
            return _sum(Linear(), linear(operand), -1)
        case Binary(op="add" | "sub" as op, lhs=lhs, rhs=rhs):
            return _sum(linear(lhs), linear(rhs), 1 if op == "add" else -1)
        case Binary(op="mul", lhs=lhs, rhs=rhs):
            left, right = linear(lhs), linear(rhs)
            if not right.indices and not right.others:
                return _sum(Linear(), left, right.constant)
            if not left.indices and not left.others:
                return _sum(Linear(), right, left.constant)
    return Linear(0, {}, {id(expr): (expr, 1)})


def _is_index_type(dtype: DType) -> bool:
    return dtype is DType.INT or dtype is DType.INT64


def _sum(left: Linear, right: Linear, factor: int) -> Linear:
    left.plus(right, factor)
    return left


def extent_of(index: Index) -> int:
    """The extent of an index of a concrete program."""
    assert isinstance(index.extent, Const), f"the extent of `{index.name}` is not known"
    return int(index.extent.value)


def shape_of(tensor_shape: tuple[Expr, ...]) -> tuple[int, ...]:
    """A shape of a concrete program."""
    return tuple(_as_int(e) for e in tensor_shape)


def _as_int(expr: Expr) -> int:
    assert isinstance(expr, Const), "an extent is not known"
    return int(expr.value)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return tuple(strides)


# --------------------------------------------------------------------- ranges

NO_RANGES: Ranges = {}


def bounds(expr: Expr, ranges: Ranges = NO_RANGES) -> Range:
    """Least and greatest value that an integer expression can take."""
    form = linear(expr)
    low: float = form.constant
    high: float = form.constant
    for index, factor in form.indices.items():
        a, b = ranges.get(index) or (0, extent_of(index) - 1)
        low += factor * (a if factor > 0 else b)
        high += factor * (b if factor > 0 else a)
    for other, factor in form.others.values():
        span = _bounds_of(other, ranges)
        low += _times(factor, span[0] if factor > 0 else span[1])
        high += _times(factor, span[1] if factor > 0 else span[0])
    return low, high


def _bounds_of(expr: Expr, ranges: Ranges) -> Range:
    match expr:
        case Local():
            return bounds(expr.value, ranges)
        case Cast(operand=operand) if operand.dtype is DType.BOOL:
            return 0, 1
        case Cast(operand=operand) if operand.dtype.is_int and _is_index_type(expr.dtype):
            return bounds(operand, ranges)
        case Select():
            a, b = bounds(expr.then, ranges), bounds(expr.otherwise, ranges)
            return min(a[0], b[0]), max(a[1], b[1])
        case Binary(op=op, lhs=lhs, rhs=rhs) if expr.dtype.is_int:
            return _bounds_of_binary(op, bounds(lhs, ranges), bounds(rhs, ranges))
    return -math.inf, math.inf


def _bounds_of_binary(op: str, a: Range, b: Range) -> Range:
    match op:
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "mul":
            corners = [_times(x, y) for x in a for y in b]
            return min(corners), max(corners)
        case "floordiv" if b[0] > 0:
            corners = [_floor(x, y) for x in a for y in b]
            return min(corners), max(corners)
        case "ceildiv" if b[0] > 0:
            corners = [-_floor(-x, y) for x in a for y in b]
            return min(corners), max(corners)
        case "mod" if b[0] > 0:
            if b[0] == b[1] and math.isfinite(b[0]) and math.isfinite(a[0]) and math.isfinite(a[1]):
                if _floor(a[0], b[0]) == _floor(a[1], b[0]):
                    return a[0] % b[0], a[1] % b[0]
            top = b[1] - 1
            return 0, min(top, a[1]) if a[0] >= 0 else top
    return -math.inf, math.inf


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _floor(x: float, y: float) -> float:
    if math.isinf(y):
        return 0 if x >= 0 else -1
    return x if math.isinf(x) else x // y


def is_within(expr: Expr, extent: int, ranges: Ranges = NO_RANGES) -> bool:
    """Whether a subscript is proved to be in `0 <= expr < extent`."""
    low, high = bounds(expr, ranges)
    return low >= 0 and high < extent


def needs_check(access: Access, ranges: Ranges = NO_RANGES) -> bool:
    """Whether some subscript may be out of range, guards aside."""
    return any(
        not isinstance(s.rule, Skip) and not subscript_is_safe(s, extent, ranges)
        for s, extent in zip(access.subscripts, shape_of(access.tensor.shape), strict=True)
    )


def subscript_is_safe(subscript: Subscript, extent: int, ranges: Ranges = NO_RANGES) -> bool:
    """Whether a subscript, after its remapping, is proved to be in range."""
    if is_within(subscript.index, extent, ranges):
        return True
    rule = subscript.rule
    if not isinstance(rule, Remap):
        return False
    low, high = bounds(subscript.index, ranges)
    return (low >= 0 or is_within(rule.below, extent, ranges)) and (
        high < extent or is_within(rule.above, extent, ranges)
    )


def has_effect(expr: Expr, ranges: Ranges) -> bool:
    """Whether evaluating an expression where it is not wanted may touch or report something."""
    for node in walk(expr):
        if isinstance(node, Access) and (needs_check(node, ranges) or _is_guarded(node, ranges)):
            return True
        if isinstance(node, Binary) and node.op in ("floordiv", "ceildiv", "mod"):
            if node.dtype.is_int and not (isinstance(node.rhs, Const) and int(node.rhs.value) != 0):
                return True
        if isinstance(node, Local) and has_effect(node.value, ranges):
            return True
    return False


def _is_guarded(access: Access, ranges: Ranges) -> bool:
    shape = shape_of(access.tensor.shape)
    return any(
        isinstance(s.rule, Skip) and not is_within(s.index, n, ranges)
        for s, n in zip(access.subscripts, shape, strict=True)
    )
