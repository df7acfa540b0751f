"""Packs whose length is known only at run time.

Such a pack lists all items that it may have; those behind its length do not count. What can be
done without knowing it: to pass the pack on, ask its `.size`, take an item or the items from one
position to another, put items before it, compute item by item, and fold it. Everything
else is E0507.
"""

from __future__ import annotations

from collections.abc import Callable

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import evaluate_packs as packs
from .evaluate_scalars import cast
from .values import (
    AnyValue,
    Budget,
    DynamicPack,
    Item,
    Pack,
    Value,
    dtype_of,
    fail,
    from_expr,
    show,
    to_expr,
)

_NEUTRAL: dict[str, int] = {"+": 0, "*": 1, "&&": 1, "||": 0}
"""Folds that have a value for a pack of any length: what items that are not there count as."""


def not_known(span: Span, pack: DynamicPack) -> Error:
    """Something asks more of a pack than can be said before its length is known."""
    return fail(
        "E0507",
        "the length of this pack is known only when the graph runs",
        span,
        f"it has {show(from_expr(pack.length))} items",
    )


def is_there(position: int, length: nodes.Expr) -> nodes.Expr:
    """The condition that a pack of some length has an item at a position."""
    return shapes.compare("gt", length, nodes.integer(position))


def item_at(pack: DynamicPack, position: Value, span: Span) -> tuple[Item, nodes.Expr]:
    """`p[2]`, and the condition that there is such an item. Raises E0505 if there never is."""
    if type(position) is not int or position < 0:
        raise not_known(span, pack)
    if position >= len(pack.items):
        ends = f"it has at most {len(pack.items)} items"
        raise fail("E0505", f"index {position} is out of the pack's range", span, ends)
    return pack.items[position], is_there(position, pack.length)


def slice_of(
    pack: DynamicPack, begin: int | None, end: int | None, stride: int | None, span: Span
) -> DynamicPack:
    """`p[1:]`, `p[:3]`: what there is between two positions counted from the front."""
    first = begin or 0
    if first < 0 or (end is not None and end < 0) or stride not in (None, 1):
        raise not_known(span, pack)
    length = pack.length if end is None else shapes.minimum(pack.length, nodes.integer(end))
    rest = shapes.maximum(nodes.ZERO, shapes.sub(length, nodes.integer(first)))
    return DynamicPack(pack.items[first:end], rest)


def behind(first: Pack, pack: DynamicPack) -> DynamicPack:
    """`[a, b, p..]`."""
    length = shapes.add(pack.length, nodes.integer(len(first)))
    return DynamicPack((*first, *pack.items), length)


def combine(
    f: Callable[[Item, Item], Item], lhs: AnyValue, rhs: AnyValue, span: Span, budget: Budget
) -> DynamicPack:
    """`f` item by item of two values, at least one of them of dynamic length; both, or one item."""
    pack = lhs if isinstance(lhs, DynamicPack) else rhs
    assert isinstance(pack, DynamicPack)
    for value in (lhs, rhs):
        same = not isinstance(value, DynamicPack) or shapes.equal(value.length, pack.length)
        if isinstance(value, tuple) or not same:
            raise not_known(span, pack)
    a = lhs.items if isinstance(lhs, DynamicPack) else lhs
    b = rhs.items if isinstance(rhs, DynamicPack) else rhs
    items = packs.broadcast(f, a, b, span, budget)
    assert isinstance(items, tuple)
    return DynamicPack(items, pack.length)


def fold(op: str, pack: DynamicPack, empty: Value, span: Span) -> Value:
    """A fold: items that are not there count as nothing. Raises E0507 where that is no value.

    `empty` is the value of the minimum or maximum of no items, null if none is given.
    """
    if any(isinstance(i, nodes.Tensor) for i in pack.items):
        raise not_known(span, pack)
    if op in ("<<", ">>"):
        return _extreme(op, pack, empty, span)
    if op not in _NEUTRAL:
        raise not_known(span, pack)
    return packs.fold(op, present(pack, span, _NEUTRAL[op]), span)


def present(pack: DynamicPack, span: Span, otherwise: int = 0) -> Pack:
    """All items that there may be, and another value for those that are not there."""
    items: list[Item] = []
    for position, item in enumerate(pack.items):
        none = cast(dtype_of(item), otherwise, span)
        items.append(_select(is_there(position, pack.length), item, none))
    return tuple(items)


def _extreme(op: str, pack: DynamicPack, empty: Value, span: Span) -> Value:
    """The minimum or maximum, to which items that are not there count as the first."""
    some = is_there(0, pack.length)
    if not pack.items or (some is not nodes.TRUE and (empty is None or isinstance(empty, tuple))):
        raise not_known(span, pack)
    first = pack.items[0]
    items = [_select(is_there(k, pack.length), item, first) for k, item in enumerate(pack.items)]
    result = packs.fold(op, tuple(items), span)
    if result is None or isinstance(result, tuple) or empty is None or isinstance(empty, tuple):
        return result
    return _select(some, result, empty)


def _select(condition: nodes.Expr, item: Item, otherwise: Item) -> Item:
    if condition is nodes.TRUE:
        return item
    a, b = to_expr(item), to_expr(otherwise)
    if a.dtype is DType.INT:
        return from_expr(shapes.select(condition, a, b))
    return item if a == b else nodes.Select(condition, a, b)


def cumulate(op: str, pack: DynamicPack, span: Span) -> DynamicPack:
    """A cumulative fold: each item depends on those before it only."""
    return DynamicPack(packs.cumulate(op, pack.items, span), pack.length)
