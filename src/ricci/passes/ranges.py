"""Bounds of the values of formulas, for each item of the constants that they read.

Requires: expressions of one kernel. Ensures: what an expression gives keeps the bounds, in exact
arithmetic; where they agree the value is known. Does not: look into tensors that are no constants,
or use what a comparison says about its operands.

Bounds are arrays with an axis for each index of the kernel, as long as the index where a constant
is subscripted by it, else 1: `min(max(x, low[c]), high[c]) - low[c]` has other bounds for each `c`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DType
from ..ir.nodes import (
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Tensor,
    Unary,
)
from ..ir.shapes import as_int

Array = np.ndarray[Any, np.dtype[np.float64]]
Range = tuple[Array, Array]

_MOST = 1 << 16
"""Items of a constant that are looked at."""
_INFINITE = np.array(np.inf)
EVERYTHING: Range = (-_INFINITE, _INFINITE)

_MONOTONE: dict[str, Callable[[Array], Array]] = {
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
}
_COMPARE: dict[str, Callable[[Array, Array], Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


@dataclass(slots=True)
class Ranges:
    """Computes bounds of the expressions of a kernel with some indices, each node once.

    `known` are the bounds of the elements of tensors.
    """

    indices: Sequence[Index]
    known: Mapping[Tensor, tuple[int, int]] = field(default_factory=dict)
    _done: dict[int, tuple[Expr, Range]] = field(default_factory=dict)

    def of(self, expr: Expr) -> Range:
        """The least and the greatest value, for each item of what constants are subscripted by."""
        if id(expr) not in self._done:
            with np.errstate(all="ignore"):
                self._done[id(expr)] = expr, _of_type(expr.dtype, self._find(expr))
        return self._done[id(expr)][1]

    def value(self, expr: Expr) -> Array | None:
        """The values of an expression of constants alone."""
        low, high = self.of(expr)
        return low if np.array_equal(low, high) and np.isfinite(low).all() else None

    def _find(self, expr: Expr) -> Range:
        match expr:
            case Const(value=bool() | int() | float() as value):
                return np.array(float(value)), np.array(float(value))
            case Local(value=inner):
                return self.of(inner)
            case Cast(dtype=dtype, operand=operand) if dtype.is_real or not operand.dtype.is_real:
                return self.of(operand)
            case Access():
                return self._element(expr)
            case Unary(op="neg", operand=operand):
                low, high = self.of(operand)
                return -high, -low
            case Select():
                return self._select(expr)
            case Binary():
                return _binary(expr.op, self.of(expr.lhs), self.of(expr.rhs))
            case Apply(function=name, arguments=(argument,)) if name in _MONOTONE:
                low, high = self.of(argument)
                return _MONOTONE[name](low), _MONOTONE[name](high)
        return EVERYTHING

    def _element(self, access: Access) -> Range:
        if access.tensor in self.known:
            low, high = self.known[access.tensor]
            return np.array(float(low)), np.array(float(high))
        values = self._items(access)
        return EVERYTHING if values is None else (values, values)

    def _items(self, access: Access) -> Array | None:
        """The items of a constant along the indices that it is subscripted by."""
        shape = [as_int(e) for e in access.tensor.shape]
        places = [s.index for s in access.subscripts]
        data = access.tensor.data
        plain = all(isinstance(p, (Index, Const)) for p in places)
        if data is None or not plain or any(s.rule is not None for s in access.subscripts):
            return None
        if isinstance(data, tuple):
            if not len(data) <= _MOST or any(isinstance(x, str) for x in data):
                return None
            items = np.array(data, np.float64).reshape([n or 0 for n in shape])
        else:
            return None if isinstance(data, str) else np.array(float(data))
        along = [p for p in places if isinstance(p, Index)]
        if len({*along}) < len(along) or any(i not in self.indices for i in along):
            return None
        items = np.asarray(items[tuple(_item(p) for p in places)])
        order = sorted(range(len(along)), key=lambda d: self.indices.index(along[d]))
        axes = [n if i in along else 1 for i, n in self._extents(along, items)]
        return np.asarray(items.transpose(order).reshape(axes))

    def _extents(self, along: Sequence[Index], items: Array) -> list[tuple[Index, int]]:
        return [(i, items.shape[along.index(i)] if i in along else 1) for i in self.indices]

    def _select(self, expr: Select) -> Range:
        (a, b), (c, d) = self.of(expr.then), self.of(expr.otherwise)
        test = self.value(expr.condition)
        if test is not None:
            return np.where(test, a, c), np.where(test, b, d)
        return np.minimum(a, c), np.maximum(b, d)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of a concrete type."""
    found = np.iinfo(dtype.value)
    return int(found.min), int(found.max)


def _of_type(dtype: DType, found: Range) -> Range:
    """The bounds of a type where what was found does not keep them: integers wrap."""
    if dtype.is_real or dtype.is_abstract or not dtype.is_numeric:
        return found
    least, greatest = limits(dtype)
    if (found[0] >= least).all() and (found[1] <= greatest).all():
        return found
    return np.array(float(least)), np.array(float(greatest))


def _item(place: Expr) -> Any:
    return int(place.value) if isinstance(place, Const) else slice(None)


def _binary(op: str, a: Range, b: Range) -> Range:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "min":
            return np.minimum(a[0], b[0]), np.minimum(a[1], b[1])
        case "max":
            return np.maximum(a[0], b[0]), np.maximum(a[1], b[1])
        case "mul":
            return _corners([x * y for x in a for y in b])
        case "div" if ((b[0] > 0) | (b[1] < 0)).all():
            return _corners([x / y for x in a for y in b])
    if op in _COMPARE and np.array_equal(a[0], a[1]) and np.array_equal(b[0], b[1]):
        truth = np.asarray(_COMPARE[op](a[0], b[0]), np.float64)
        return truth, truth
    if op in _COMPARE:
        return np.array(0.0), np.array(1.0)
    return EVERYTHING


def _corners(values: Sequence[Array]) -> Range:
    """The bounds of products or quotients; of zero times infinity, zero."""
    values = [np.where(np.isnan(v), 0.0, v) for v in values]
    low, high = values[0], values[0]
    for v in values[1:]:
        low, high = np.minimum(low, v), np.maximum(high, v)
    return low, high
