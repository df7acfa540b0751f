"""Shapes and pack lengths that a declaration of known symbols gives (specification 2.6)."""

from __future__ import annotations

from ...dtypes import DType
from ...ir import nodes, shapes
from . import syntax as s
from .evaluate import Evaluator
from .evaluate_packs import require_int
from .values import Budget, Item, Pack, fail, is_expr, show


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
    value = evaluator.evaluate(extent.size)
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
        return value if isinstance(value, tuple) else (value,)
    if extent.pack.length is None:
        raise fail("E0413", "one extent needs a count to be repeated", extent.span)
    count = evaluator.evaluate(extent.pack.length)
    if count is None or isinstance(count, bool):
        return (value,) * bool(count)
    return (value,) * require_int(count, extent.pack.length.span, "a number of dimensions")


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
    if count > MOST_TENSORS:
        raise fail("E0903", "a pack of too many tensors", type.span, f"{count} tensors")
    return count


MOST_TENSORS = 1 << 14
"""Tensors of the largest pack."""
