"""Arithmetic of index expressions at a configuration: their components, ranges and extents.

Everything is per component and in the integers; dims may be numbers or open sizes. The extent of an
expression is its true exclusive bound: one more than its largest value, and never below 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

from ...diagnostics import error
from ...ir import nodes as ir
from ...ir import shapes
from ...records import dataclass
from . import syntax as s
from .program import Array
from .uses import variables, walk

_T = TypeVar("_T")
Components = tuple[ir.Expr, ...]
Range = tuple[ir.Expr, ir.Expr]
"""The smallest and the largest value."""

_MINUS_ONE = ir.integer(-1)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Evaluates index expressions; `arrays` give the signatures of what slices are taken from.

    `read` gives the components of a slice, `stored` the ranges of what a slice stores: both are
    asked only where a slice occurs.
    """

    dims: Mapping[str, Components]
    arrays: Mapping[str, Array]
    read: Callable[[s.Slice], Components]
    stored: Callable[[s.Slice], tuple[Range, ...]]

    # -------------------------------------------------------------------- ranks

    def rank(self, expr: s.IndexExpr) -> int:
        """How many components an expression has, standing alone."""
        match expr:
            case s.Eintup(name):
                return len(self.dims[name])
            case s.Dims(items):
                return sum(map(self.rank, items))
            case s.Slice():
                return self._slice_rank(expr)
            case s.IndexBinary(_, lhs, rhs):
                return self.rank(rhs if is_scalar(lhs) else lhs)
            case _:
                return 1

    def _slice_rank(self, expr: s.Slice) -> int:
        slot = self.arrays[expr.array.name].signature[expr.items.index(None)]
        count = [shapes.as_int(e) for e in self.extents(slot)]
        if len(count) != 1 or count[0] is None:
            raise error("E0507", "the number of components of this slice is not known", expr.span)
        return count[0]

    # ------------------------------------------------------------------- values

    def values(self, expr: s.IndexExpr, places: Mapping[str, Components]) -> Components:
        """The components of an expression where eintups have the values `places`."""
        match expr:
            case s.Eintup(name):
                return places[name]
            case s.Whole(value):
                return (ir.integer(value),)
            case s.Rank(items):
                return (ir.integer(sum(map(self.rank, items))),)
            case s.Dims(items):
                return self.all_extents(items)
            case s.Flat():
                return (self._flat(expr, places),)
            case s.Slice():
                return self.read(expr)
            case s.IndexBinary():
                lhs, rhs = self.values(expr.lhs, places), self.values(expr.rhs, places)
                lhs, rhs = broadcast(expr, lhs, rhs)
                return tuple(_apply(expr, a, b) for a, b in zip(lhs, rhs, strict=True))

    def _flat(self, expr: s.Flat, places: Mapping[str, Components]) -> ir.Expr:
        linear: ir.Expr = ir.ZERO
        inside: ir.Expr = ir.TRUE
        for item in expr.items:
            pairs = zip(self.values(item, places), self.extents(item), strict=True)
            for value, extent in pairs:
                linear = shapes.add(shapes.mul(linear, extent), value)
                inside = shapes.logical_and(inside, in_range(value, extent))
        return shapes.select(inside, linear, _MINUS_ONE)

    # -------------------------------------------------------------------- ranges

    def extents(self, expr: s.IndexExpr) -> Components:
        """The exclusive bounds of an expression that stands alone."""
        if isinstance(expr, s.Eintup):
            return self.dims[expr.name]
        return tuple(_extent(high) for _, high in self.ranges(expr))

    def all_extents(self, items: tuple[s.IndexExpr, ...]) -> Components:
        """The exclusive bounds of a list, one after another."""
        return tuple(e for item in items for e in self.extents(item))

    def ranges(self, expr: s.IndexExpr) -> tuple[Range, ...]:
        """The smallest and largest value of each component."""
        match expr:
            case s.Eintup(name):
                return tuple((ir.ZERO, shapes.sub(d, ir.ONE)) for d in self.dims[name])
            case s.Slice():
                return self.stored(expr)
            case s.Flat() if variables(expr):
                return (self._flat_range(expr),)
            case s.IndexBinary() if not is_static(expr):
                lhs, rhs = self.ranges(expr.lhs), self.ranges(expr.rhs)
                lhs, rhs = broadcast(expr, lhs, rhs)
                return tuple(_apply_range(expr, a, b) for a, b in zip(lhs, rhs, strict=True))
            case _:
                return tuple((v, v) for v in self.values(expr, {}))

    def _flat_range(self, expr: s.Flat) -> Range:
        ranges = [r for item in expr.items for r in self.ranges(item)]
        size = shapes.product(*[_extent(high) for _, high in ranges])
        sure = all(shapes.less_equal(ir.ZERO, low) for low, _ in ranges)
        return (ir.ZERO if sure else _MINUS_ONE), shapes.sub(size, ir.ONE)


def arithmetic(dims: Mapping[str, Components], arrays: Mapping[str, Array] = {}) -> Arithmetic:
    """The arithmetic of expressions whose values and extents depend on no data."""
    return Arithmetic(dims, arrays, _unknown, _unknown)


def _unknown(expr: s.Slice) -> NoReturn:
    raise error(
        "E0507",
        f"what `{expr.array.name}` stores is data: no extent can depend on it here",
        expr.span,
    )


def extents_of(
    expr: s.IndexExpr, dims: Mapping[str, Components], arrays: Mapping[str, Array] = {}
) -> Components:
    """The true exclusive bounds of an index expression; numbers if the dims are."""
    return arithmetic(dims, arrays).extents(expr)


def shape_of(
    array: Array, dims: Mapping[str, Components], arrays: Mapping[str, Array] = {}
) -> Components:
    """The shape of an array: the extents of its first mention."""
    return arithmetic(dims, arrays).all_extents(array.signature)


def is_scalar(expr: s.IndexExpr) -> bool:
    """Whether an expression goes with every component of what it is combined with."""
    if isinstance(expr, s.IndexBinary):
        return is_scalar(expr.lhs) and is_scalar(expr.rhs)
    return isinstance(expr, s.Whole | s.Rank)


def is_static(expr: s.IndexExpr) -> bool:
    """Whether an expression is the same for all combinations."""
    return not variables(expr) and not has_slice(expr)


def has_slice(expr: s.IndexExpr) -> bool:
    """Whether an expression depends on what an array stores."""
    return any(isinstance(node, s.Slice) for node in walk(expr))


def in_range(value: ir.Expr, extent: ir.Expr) -> ir.Expr:
    """The condition that an index is in range, as far as it is not proved."""
    above = shapes.compare("ge", value, ir.ZERO)
    return shapes.logical_and(above, shapes.compare("lt", value, extent))


def broadcast(
    expr: s.IndexBinary, lhs: tuple[_T, ...], rhs: tuple[_T, ...]
) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
    """The operands' components, as many on both sides."""
    if is_scalar(expr.lhs) and not is_scalar(expr.rhs):
        return lhs * len(rhs), rhs
    if is_scalar(expr.rhs) and not is_scalar(expr.lhs):
        return lhs, rhs * len(lhs)
    if len(lhs) != len(rhs):
        message = f"{len(lhs)} components on the left and {len(rhs)} on the right"
        raise error("E0411", message, expr.span)
    return lhs, rhs


# ----------------------------------------------------------------- one component

_OPERATORS: dict[s.IndexOperator, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "+": shapes.add, "-": shapes.sub, "*": shapes.mul,
    "//": shapes.floordiv, "//^": shapes.ceildiv, "%": shapes.mod,
}  # fmt: skip


def _apply(expr: s.IndexBinary, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    try:
        return _OPERATORS[expr.operator](a, b)
    except ZeroDivisionError:
        raise error("E0502", f"`{expr.operator}` divides by zero", expr.rhs.span) from None


def _apply_range(expr: s.IndexBinary, a: Range, b: Range) -> Range:
    """The range of a result, from those of operands."""
    match expr.operator:
        case "+":
            return shapes.add(a[0], b[0]), shapes.add(a[1], b[1])
        case "-":
            return shapes.sub(a[0], b[1]), shapes.sub(a[1], b[0])
        case "*":
            return _product(a, b)
        case "%":
            return _remainder(expr, a, b)
        case _:
            ends = _apply(expr, a[0], b[0]), _apply(expr, a[1], b[0])
            return _ordered(ends, b[0])


def _product(a: Range, b: Range) -> Range:
    """By the signs of static factors; of two factors that vary, the products of their smallest and
    largest values if none is negative, else the smallest and largest product of ends."""
    if a[0] == a[1] and b[0] != b[1]:
        a, b = b, a
    if b[0] == b[1]:
        return _ordered((shapes.mul(a[0], b[0]), shapes.mul(a[1], b[0])), b[0])
    corners = [shapes.mul(x, y) for x in a for y in b]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = shapes.minimum(low, corner), shapes.maximum(high, corner)
    natural = shapes.logical_and(*[shapes.compare("ge", r[0], ir.ZERO) for r in (a, b)])
    return shapes.select(natural, corners[0], low), shapes.select(natural, corners[3], high)


def _ordered(ends: Range, factor: ir.Expr) -> Range:
    """The two results for the ends of a range, which a negative factor or divisor turns round."""
    if shapes.less_equal(ir.ZERO, factor):
        return ends
    if shapes.less_equal(factor, ir.ZERO):
        return ends[1], ends[0]
    # not the smaller and the larger: the ends of an empty range stand the other way round
    same = shapes.compare("ge", factor, ir.ZERO)
    return shapes.select(same, *ends), shapes.select(same, ends[1], ends[0])


def _remainder(expr: s.IndexBinary, a: Range, b: Range) -> Range:
    """Below a positive divisor, and no larger than what is divided if that is not negative."""
    divisor = b[0]
    if shapes.as_int(divisor) == 0:
        raise error("E0502", "`%` divides by zero", expr.rhs.span)
    negative = shapes.compare("lt", divisor, ir.ZERO)
    most = shapes.sub(divisor, ir.ONE)
    small = shapes.select(shapes.compare("ge", a[0], ir.ZERO), shapes.minimum(a[1], most), most)
    low = shapes.select(negative, shapes.add(divisor, ir.ONE), ir.ZERO)
    return low, shapes.select(negative, ir.ZERO, small)


def _extent(high: ir.Expr) -> ir.Expr:
    return shapes.maximum(shapes.add(high, ir.ONE), ir.ZERO)
