"""Shapes and pack lengths that a declaration of known symbols gives (specification 2.6)."""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import Span
from . import syntax as s
from .evaluate import Evaluator
from .evaluate_packs import require_int
from .values import Budget, DynamicPack, Item, Pack, Value, fail, is_expr, show


def evaluate_shape(evaluator: Evaluator, type: s.Type, item: int | None) -> tuple[nodes.Expr, ...]:
    """The shape that a declaration of known symbols gives; `item` counts in a pack.

    Null extents are left out. Raises E0416 for extents that are negative or not integers.
    """
    result: list[nodes.Expr] = []
    for extent in type.shape or ():
        value = evaluate_extent(evaluator, extent, item)
        for size in value:
            result.append(check_extent(size, extent))
    return tuple(result)


def evaluate_extent(evaluator: Evaluator, extent: s.Extent, item: int | None) -> Pack:
    """The extents that one item of a shape stands for."""
    value = _value(evaluator, extent)
    if value is None:
        return ()
    if extent.distinct:
        assert item is not None
        if not isinstance(value, tuple) or item >= len(value):
            raise fail("E0413", "one extent for every tensor is needed", extent.span, show(value))
        return (value[item],)
    if extent.pack is None or isinstance(value, tuple):
        if extent.pack is None and isinstance(value, tuple):
            raise fail("E0416", "a pack of extents must be expanded by `..`", extent.span)
        _check_count(evaluator, extent, value)
        return value if isinstance(value, tuple) else (value,)
    if extent.pack.length is None:
        raise fail("E0413", "one extent needs a count to be repeated", extent.span)
    count = evaluator.evaluate(extent.pack.length)
    if count is None or isinstance(count, bool):
        return (value,) * bool(count)
    return (value,) * number_of_dimensions(count, extent.pack.length.span)


def number_of_dimensions(count: Value, span: Span) -> int:
    """How often an extent is repeated. Raises E0901 for more than any tensor has."""
    times = require_int(count, span, "a number of dimensions")
    if times > _MOST_REPEATED:
        raise fail("E0901", "a tensor with too many dimensions", span, f"it has {times}")
    return times


_MOST_REPEATED = 1 << 12


def _value(evaluator: Evaluator, extent: s.Extent) -> Value:
    """What an extent is; of a pack of dynamic length all that the items may have."""
    value = evaluator.evaluate_any(extent.size) if extent.distinct else None
    if isinstance(value, DynamicPack):
        return value.items
    return evaluator.evaluate(extent.size) if value is None else value


def _check_count(evaluator: Evaluator, extent: s.Extent, value: Value) -> None:
    """A pack of extents is as long as it is declared."""
    length = None if extent.pack is None else extent.pack.length
    if length is None or not isinstance(value, tuple):
        return
    count = evaluator.evaluate(length)
    if type(count) is int and count != len(value):
        message = f"{len(value)} extents where {count} are declared"
        raise fail("E0413", message, extent.span, show(value))


def check_extent(size: Item, extent: s.Extent) -> nodes.Expr:
    """A computed extent as an expression. Raises E0416 unless it is an integer >= 0."""
    if type(size) is int:
        if size < 0:
            raise fail("E0416", "an extent must not be negative", extent.span, f"it is {size}")
        return nodes.integer(size)
    if not is_expr(size) or size.dtype is not DType.INT:
        raise fail("E0416", "an extent must be an integer", extent.span, f"it is {show(size)}")
    if isinstance(size, nodes.Const):  # `int(inf)`
        raise fail("E0416", "an extent must be finite", extent.span, "it is inf")
    if shapes.interval(size)[1] < 0:
        raise fail("E0416", "an extent must not be negative", extent.span, f"it is {show(size)}")
    return size


def pack_length(evaluator: Evaluator, type: s.Type, budget: Budget) -> int | None:
    """The number of tensors that a declaration stands for; None for a single one."""
    if type.pack is None:
        return None
    if type.pack.length is None:
        raise fail("E0413", "the length of this pack must be given", type.span)
    value = evaluator.evaluate(type.pack.length)
    count = require_int(value, type.pack.length.span, "the length of a pack")
    if count < 0:
        raise fail("E0413", "the length of a pack is negative", type.pack.length.span, str(count))
    budget.spend(count, type.span)
    check_number(count, type.span)
    return count


def dynamic_length(evaluator: Evaluator, type: s.Type) -> nodes.Expr | None:
    """The length of a pack where it is known only at run time."""
    if type.pack is None or type.pack.length is None:
        return None
    value = evaluator.evaluate(type.pack.length)
    return value if is_expr(value) and not isinstance(value, nodes.Const) else None


def most_items(length: nodes.Expr, span: Span) -> int:
    """How many tensors a pack has at most. Raises E0903 where nothing bounds it, or too many."""
    most = shapes.interval(length)[1]
    check_number(most, span)
    return max(int(most), 0)


def check_number(count: float, span: Span) -> None:
    """Raises E0903 for a pack of too many tensors."""
    if count > MOST_TENSORS:
        raise fail("E0903", "a pack of too many tensors", span, f"{count} tensors")


MOST_TENSORS = 1 << 14
"""Tensors of the largest pack."""


def bounds_of(*sizes: nodes.Expr) -> tuple[str, ...]:
    """What is known of the symbols in extents that can never agree, as notes."""
    symbols = dict.fromkeys(s for e in sizes for s in rewrite.free_symbols(e))
    return tuple([f"`{s.name}` is at most {show(s.bound)}" for s in symbols if s.bound is not None])
