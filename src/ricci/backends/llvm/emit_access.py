"""What the subscripts of accesses are made of: linear forms and ranges."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, MutableMapping
from dataclasses import field
from weakref import WeakKeyDictionary

from ...dtypes import DType
from ...ir import shapes
from ...ir.nodes import (
    ONE,
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
    Symbol,
    Unary,
)
from ...ir.rewrite import accesses, children, free_indices, is_division, walk
from ...records import dataclass
from .sizes import Size, expression, limits, lower, minus, plus, size_of, sizes_of, times

Range = tuple[float, float]
Ranges = Mapping[Index, tuple[Size, Size]]
"""Least and greatest value of indices, where narrower than their extent."""


_FAR = (1 << 20) + 1
SMALL = 1 << 29
"""Sums of a few numbers below this have 32 bits."""


@dataclass(slots=True)
class Linear:
    """`constant` plus a sum of coefficients times indices, and times other expressions."""

    constant: Size = 0
    indices: dict[Index, Size] = field(default_factory=dict)
    others: dict[int, tuple[Expr, Size]] = field(default_factory=dict)
    """By identity of the expression."""

    @property
    def steps(self) -> dict[Index, int]:
        """The coefficients of indices; what stands for one that is not known is large and odd."""
        return {i: c if isinstance(c, int) else _FAR for i, c in self.indices.items()}

    def plus(self, other: Linear, factor: Size) -> None:
        """Add `factor * other`."""
        self.constant = plus(self.constant, times(factor, other.constant))
        for index, coefficient in other.indices.items():
            total = plus(self.indices.get(index, 0), times(factor, coefficient))
            if total != 0:
                self.indices[index] = total
            else:
                self.indices.pop(index, None)
        for key, (expr, coefficient) in other.others.items():
            total = plus(self.others.get(key, (expr, 0))[1], times(factor, coefficient))
            if total != 0:
                self.others[key] = (expr, total)
            else:
                self.others.pop(key, None)


def linear(expr: Expr) -> Linear:
    """The linear form of an integer expression; what is not linear stands in `others`."""
    if isinstance(expr, Index):
        return Linear() if expr.extent == ONE else Linear(0, {expr: 1})
    if isinstance(expr, Const):
        if isinstance(expr.value, int):
            return Linear(int(expr.value))
    elif isinstance(expr, Binary):
        found = _linear_binary(expr)
        if found is not None:
            return found
    elif isinstance(expr, Symbol):
        return Linear(expr)
    elif isinstance(expr, Local):
        inner = linear(expr.value)
        return inner if not inner.others else Linear(0, {}, {id(expr): (expr, 1)})
    elif isinstance(expr, Cast):
        if _is_index_type(expr.dtype) and _is_index_type(expr.operand.dtype):
            return linear(expr.operand)
    elif isinstance(expr, Unary) and expr.op == "neg":
        return _sum(Linear(), linear(expr.operand), -1)
    if _is_size(expr):
        return Linear(size_of(shapes.simplify(expr)))
    return Linear(0, {}, {id(expr): (expr, 1)})


def _linear_binary(expr: Binary) -> Linear | None:
    """The form of a sum or of a multiple."""
    if expr.op not in ("add", "sub", "mul"):
        return None
    left, right = linear(expr.lhs), linear(expr.rhs)
    if expr.op != "mul":
        return _sum(left, right, 1 if expr.op == "add" else -1)
    if not right.indices and not right.others:
        return _sum(Linear(), left, right.constant)
    if not left.indices and not left.others:
        return _sum(Linear(), right, left.constant)
    return None


def _is_size(expr: Expr) -> bool:
    """Whether an integer depends on symbols alone, and always has a value."""
    if expr.dtype is not DType.INT:
        return False
    nodes = list(walk(expr))
    if not any(isinstance(x, Symbol) for x in nodes):
        return False
    return all(isinstance(x, (Const, Symbol, Unary, Binary)) for x in nodes) and not any(
        isinstance(x, Binary) and is_division(x) and lower(size_of(x.rhs)) <= 0 for x in nodes
    )


def _is_index_type(dtype: DType) -> bool:
    return dtype is DType.INT or dtype is DType.INT64


def _sum(left: Linear, right: Linear, factor: Size) -> Linear:
    left.plus(right, factor)
    return left


def extent_of(index: Index) -> int:
    """The extent of an index, in a program without symbols."""
    assert isinstance(index.extent, Const), f"the extent of `{index.name}` is not known"
    return int(index.extent.value)


def shape_of(tensor_shape: tuple[Expr, ...]) -> tuple[int, ...]:
    """A shape, in a program without symbols."""
    return tuple(_as_int(e) for e in tensor_shape)


def _as_int(expr: Expr) -> int:
    assert isinstance(expr, Const), "an extent is not known"
    return int(expr.value)


# --------------------------------------------------------------------- ranges

NO_RANGES: Ranges = {}

_LOCALS: WeakKeyDictionary[Local, Range] = WeakKeyDictionary()
"""Bounds of locals where nothing more is known; locals stand on others, in long chains."""


def bounds(
    expr: Expr, ranges: Ranges = NO_RANGES, known: dict[Local, Range] | None = None
) -> Range:
    """Least and greatest value that an integer expression can take; of locals, once found, they
    are `known`."""
    return _bounds_of_linear(linear(expr), ranges, {} if known is None else known)


def _bounds_of_linear(form: Linear, ranges: Ranges, known: dict[Local, Range]) -> Range:
    low, high = _bounds_of_form(form, ranges)
    for other, factor in form.others.values():
        part = _bounds_of_binary("mul", limits(factor), _bounds_of(other, ranges, known))
        low, high = low + part[0], high + part[1]
    return low, high


def _bounds_of_form(form: Linear, ranges: Ranges) -> Range:
    """Those of what indices make of a linear form."""
    low, high = limits(form.constant)
    for index, factor in form.indices.items():
        a, b = range_of(index, ranges)
        span = limits(a)[0], limits(b)[1]
        part = _bounds_of_binary("mul", limits(factor), span)
        low, high = low + part[0], high + part[1]
    return low, high


def range_of(index: Index, ranges: Ranges) -> tuple[Size, Size]:
    """The least and the greatest value of an index."""
    return ranges.get(index) or (0, minus(size_of(index.extent), 1))


def _bounds_of(expr: Expr, ranges: Ranges, known: dict[Local, Range]) -> Range:
    match expr:
        case Local():
            found: MutableMapping[Local, Range] = known if ranges else _LOCALS
            if expr not in found:
                found[expr] = bounds(expr.value, ranges, known)
            return found[expr]
        case Cast(operand=operand) if operand.dtype is DType.BOOL:
            return 0, 1
        case Cast(operand=operand) if operand.dtype.is_int and _is_index_type(expr.dtype):
            return bounds(operand, ranges, known)
        case Select():
            a, b = bounds(expr.then, ranges, known), bounds(expr.otherwise, ranges, known)
            return min(a[0], b[0]), max(a[1], b[1])
        case Binary(op=op, lhs=lhs, rhs=rhs) if expr.dtype.is_int:
            return _bounds_of_binary(op, bounds(lhs, ranges, known), bounds(rhs, ranges, known))
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


def compared(test: Binary) -> Linear | None:
    """The form that is not negative where a comparison of indices holds, and nowhere else; None if
    it is no such comparison."""
    if test.op not in ("lt", "le", "gt", "ge") or not _is_index_type(test.lhs.dtype):
        return None
    larger, smaller = test.lhs, test.rhs
    if test.op in ("lt", "le"):
        larger, smaller = smaller, larger
    form = _sum(linear(larger), linear(smaller), -1)
    if test.op in ("lt", "gt"):
        form.constant = minus(form.constant, 1)
    return None if form.others else form


def is_decided(test: Binary, ranges: Ranges = NO_RANGES) -> bool | None:
    """Whether a comparison of indices holds, if it is the same for all values that they have."""
    form = compared(test)
    if form is not None:
        low, high = _bounds_of_form(form, ranges)
        return True if low >= 0 else False if high < 0 else None
    if test.op not in ("eq", "ne") or not _is_index_type(test.lhs.dtype):
        return None
    form = _sum(linear(test.lhs), linear(test.rhs), -1)
    low, high = _bounds_of_form(form, ranges)
    if form.others or ((low, high) != (0, 0) and low <= 0 <= high):
        return None
    return (low == high == 0) == (test.op == "eq")


def is_within(expr: Expr, extent: Size, ranges: Ranges = NO_RANGES) -> bool:
    """Whether a subscript is proved to be in `0 <= expr < extent`."""
    form = linear(expr)
    low, high = _bounds_of_linear(form, ranges, {})
    if low >= 0 and high < lower(extent):
        return True
    if isinstance(extent, int) and not _has_symbols(form, ranges):
        return False
    return _is_within_always(expr, form, extent, ranges)


def _has_symbols(form: Linear, ranges: Ranges) -> bool:
    sizes = [form.constant, *form.indices.values()]
    sizes += [x for index in form.indices for x in range_of(index, ranges)]
    return bool(form.others) or not all(isinstance(x, int) for x in sizes)


def _is_within_always(expr: Expr, form: Linear, extent: Size, ranges: Ranges) -> bool:
    """The same, for all values of the symbols."""
    least = greatest = form.constant
    for index, factor in form.indices.items():
        ends = range_of(index, ranges)
        if lower(factor) < 0:
            if limits(factor)[1] > 0:
                return False
            ends = ends[1], ends[0]
        least = plus(least, times(factor, ends[0]))
        greatest = plus(greatest, times(factor, ends[1]))
    if not form.others:
        return lower(least) >= 0 and lower(minus(extent, greatest)) >= 1
    if ranges or any(isinstance(x, Access) for x in walk(expr)):
        return False
    return shapes.interval(expr)[0] >= 0 and shapes.less(expr, expression(extent))


def needs_check(access: Access, ranges: Ranges = NO_RANGES) -> bool:
    """Whether some subscript may be out of range, guards aside."""
    return any(
        not isinstance(s.rule, Skip) and not subscript_is_safe(s, extent, ranges)
        for s, extent in zip(access.subscripts, sizes_of(access.tensor.shape), strict=True)
    )


def subscript_is_safe(subscript: Subscript, extent: Size, ranges: Ranges = NO_RANGES) -> bool:
    """Whether a subscript, after its remapping, is proved to be in range."""
    if is_within(subscript.index, extent, ranges):
        return True
    rule = subscript.rule
    if not isinstance(rule, Remap):
        return False
    low, high = bounds(subscript.index, ranges)
    return (low >= 0 or _is_safe_end(rule.below, extent, subscript, ranges)) and (
        high < lower(extent) or _is_safe_end(rule.above, extent, subscript, ranges)
    )


def _is_safe_end(expr: Expr, extent: Size, subscript: Subscript, ranges: Ranges) -> bool:
    """Whether a replacement is proved to be in range, given that the subscript's indices have
    values: their extents are not zero."""
    if is_within(expr, extent, ranges):
        return True
    extents = [i.extent for i in free_indices(subscript.index)]
    known: dict[Expr, Range] = {e: (1, limits(e)[1]) for e in extents if isinstance(e, Symbol)}
    if not known or free_indices(expr) or accesses(expr):
        return False
    room = shapes.sub(expression(extent), shapes.simplify(expr))
    return shapes.interval(expr, known)[0] >= 0 and shapes.interval(room, known)[0] >= 1


def has_effect(expr: Expr, ranges: Ranges, known: Container[int] = ()) -> bool:
    """Whether evaluating an expression where it is not wanted may touch or report something;
    the nodes whose identities are `known` have been evaluated."""
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen or id(node) in known:
            continue
        seen.add(id(node))
        if _may_fail(node, ranges):
            return True
        stack += [node.value] if isinstance(node, Local) else children(node)
    return False


def _may_fail(node: Expr, ranges: Ranges) -> bool:
    """The same of a node without its parts."""
    if isinstance(node, Access):
        return needs_check(node, ranges) or _is_guarded(node, ranges)
    return isinstance(node, Binary) and is_division(node) and may_be_zero(node.rhs)


def may_be_zero(divisor: Expr) -> bool:
    """Whether a divisor is not proved to differ from zero."""
    if isinstance(divisor, Const):
        return divisor.value == 0
    return not _is_size(divisor) or lower(divisor) <= 0


def _is_guarded(access: Access, ranges: Ranges) -> bool:
    shape = sizes_of(access.tensor.shape)
    return any(
        isinstance(s.rule, Skip) and not is_within(s.index, n, ranges)
        for s, n in zip(access.subscripts, shape, strict=True)
    )
