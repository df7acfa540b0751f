"""Bounds of the values of formulas, for each item of the constants that they read.

Requires: expressions of one kernel. Ensures: what an expression gives keeps the bounds, if it is a
number: in exact arithmetic, where bounds that agree are the value, or, if asked, in that of its
type. Does not: look into tensors that are no constants.

Bounds are arrays with an axis for each index of the kernel, as long as the index where a constant
is subscripted by it, else 1: `min(max(x, low[c]), high[c]) - low[c]` has other bounds for each `c`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from functools import partial
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
from ..records import dataclass

Array = np.ndarray[Any, np.dtype[np.float64]]
Range = tuple[Array, Array]
Fact = tuple[Expr, Range]
Facts = tuple[Fact, ...]

_MOST = 1 << 16
"""Items of a constant that are looked at."""
_DEEP = 4
"""How deep within the arms of a choice what its condition says is used."""
_INFINITE = np.array(np.inf)
EVERYTHING: Range = (-_INFINITE, _INFINITE)

_MONOTONE: dict[str, Callable[[Array], Array]] = {
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
}
_BELOW, _ABOVE = ("lt", "le"), ("gt", "ge")
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
    unknown: Container[Local] = ()
    """Locals that do not keep the value that they begin with."""
    rounds: bool = False
    """Whether operations round. Conditions may be those of NaN then, so none is known."""
    _done: dict[int, tuple[Expr, Range]] = field(default_factory=dict)

    def of(self, expr: Expr) -> Range:
        """The least and the greatest value, for each item of what constants are subscripted by."""
        if id(expr) not in self._done:
            self._done[id(expr)] = expr, self._found(expr, (), 0)
        return self._done[id(expr)][1]

    def _found(self, expr: Expr, facts: Facts, deep: int) -> Range:
        with np.errstate(all="ignore"):
            found = _of_type(expr.dtype, self._find(expr, facts, deep))
            return _rounded(expr, found) if self.rounds else found

    def _part(self, expr: Expr, facts: Facts, deep: int) -> Range:
        """The same of a part of an expression, where comparisons with numbers tell facts."""
        for tested, bounds in facts:
            if tested is expr or (isinstance(expr, Access) and tested == expr):
                return bounds
        return self._found(expr, facts, deep - 1) if facts and deep else self.of(expr)

    def value(self, expr: Expr) -> Array | None:
        """The values of an expression of constants alone."""
        low, high = self.of(expr)
        return low if np.array_equal(low, high) and np.isfinite(low).all() else None

    def _find(self, expr: Expr, facts: Facts, deep: int) -> Range:
        of = partial(self._part, facts=facts, deep=deep)
        match expr:
            case Const(value=bool() | int() | float() as value):
                return np.array(float(value)), np.array(float(value))
            case Local(value=inner):
                return EVERYTHING if expr in self.unknown else self.of(inner)
            case Cast(dtype=dtype, operand=operand) if dtype.is_real or not operand.dtype.is_real:
                return of(operand)
            case Access():
                return self._element(expr)
            case Unary(op="neg", operand=operand):
                low, high = of(operand)
                return -high, -low
            case Select():
                return self._select(expr, facts, deep)
            case Binary():
                return _binary(expr.op, of(expr.lhs), of(expr.rhs))
            case Apply(function="fmin", arguments=(x, Const(value=int() | float() as limit))):
                if not math.isnan(limit):  # the result is the limit for what is no number
                    return np.minimum(of(x)[0], limit), np.array(float(limit))
            case Apply(function="fmax", arguments=(x, Const(value=int() | float() as limit))):
                if not math.isnan(limit):
                    return np.array(float(limit)), np.maximum(of(x)[1], limit)
            case Apply(function=name, arguments=(argument,)) if name in _MONOTONE:
                low, high = of(argument)
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

    def _select(self, expr: Select, facts: Facts, deep: int) -> Range:
        told = self._told(expr.condition, facts, deep)
        deep = deep if facts else _DEEP
        (a, b), (c, d) = (
            self._part(x, (fact, *facts) if fact else facts, deep)
            for x, fact in zip((expr.then, expr.otherwise), told, strict=True)
        )
        test = self.value(expr.condition)
        if test is not None and not self.rounds:
            return np.where(test, a, c), np.where(test, b, d)
        return np.minimum(a, c), np.maximum(b, d)

    def _told(self, condition: Expr, facts: Facts, deep: int) -> tuple[Fact | None, Fact | None]:
        """What it says of an expression that a comparison with a number holds, and that it does
        not."""
        match condition:
            case Binary(op=op, lhs=tested, rhs=Const(value=int() | float()) as limit):
                is_below = op in _BELOW
            case Binary(op=op, lhs=Const(value=int() | float()) as limit, rhs=tested):
                is_below = op in _ABOVE
            case _:
                return None, None
        least, most = self.of(limit)
        if op not in (*_BELOW, *_ABOVE) or np.isnan(least):
            return None, None
        low, high = self._part(tested, facts, deep)
        below = tested, (low, np.minimum(high, most))
        above = tested, (np.maximum(low, least), high)
        return (below, above) if is_below else (above, below)


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


def _rounded(expr: Expr, found: Range) -> Range:
    """The bounds of what an operation on reals gives, rounded to the type that they have."""
    dtype = expr.dtype
    if not dtype.is_real:
        return found
    if dtype not in (DType.FLOAT32, DType.FLOAT64):
        return EVERYTHING
    real = dtype.numpy().type
    if isinstance(expr, Const):
        return np.array(float(real(found[0]))), np.array(float(real(found[1])))
    if isinstance(expr, (Select, Local)) or (
        isinstance(expr, Binary) and expr.op in ("min", "max")
    ):
        return found
    low, high = (x.astype(real) for x in found)
    return (
        np.nextafter(low, real(-np.inf)).astype(np.float64),
        np.nextafter(high, real(np.inf)).astype(np.float64),
    )


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
