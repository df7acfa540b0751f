"""Folds of packs whose length is known only at run time (2.4): items that are not there count as
nothing."""

from __future__ import annotations

from ...ir import nodes, shapes
from ...source import Span
from . import evaluate_packs as packs
from .evaluate_dynamic import is_there, select_item
from .evaluate_scalars import binary, cast, identical
from .values import DynamicPack, Item, Pack, Value, dtype_of, fail, from_expr, show, to_expr

_NEUTRAL: dict[str, int] = {"+": 0, "*": 1, "&&": 1, "||": 0}
"""Folds that have a value for a pack of any length: what items that are not there count as."""


def fold(op: str, pack: DynamicPack, empty: Value, span: Span) -> Value:
    """A fold: items that are not there count as nothing.

    `empty` is the value of the minimum or maximum of no items, null if none is given.
    Raises E0507 for one that would be null in some calls and not in others.
    """
    if op in ("<<", ">>"):
        return _extreme(op, pack, empty, span)
    if op == ":=":
        return _common(pack, empty, span)
    if op in _NEUTRAL:
        return packs.fold(op, present(pack, span, _NEUTRAL[op]), span)
    terms = [
        shapes.logical_or(shapes.compare("le", pack.length, nodes.integer(k)), to_expr(term))
        for k, term in _comparisons(op, pack.items, span)
    ]
    if op == "==":
        terms.append(is_there(0, pack.length))
    return packs.fold("&&", tuple([from_expr(term) for term in terms]), span)


def _comparisons(op: str, items: Pack, span: Span) -> list[tuple[int, Item]]:
    """What a fold by a comparison compares, each with the position from which on it counts."""
    if op != "!=":
        return [(k, binary(op, items[k - 1], items[k], span)) for k in range(1, len(items))]
    if len(items) > packs.MOST_TERMS:
        raise fail("E0903", "too many values known only at run time are compared", span)
    return [(k, binary(op, a, b, span)) for k, b in enumerate(items) for a in items[:k]]


def _common(pack: DynamicPack, empty: Value, span: Span) -> Value:
    """`p := ..`: the value that all items have; null if they differ, or there are none."""
    some = is_there(0, pack.length)
    value = packs.fold(":=", pack.items, span)
    if value is None or some == nodes.TRUE:
        return value
    return _or_else(some, value, empty, span, pack)


def present(pack: DynamicPack, span: Span, otherwise: int = 0) -> Pack:
    """All items that there may be, and another value for those that are not there."""
    items: list[Item] = []
    for position, item in enumerate(pack.items):
        none = cast(dtype_of(item), otherwise, span)
        items.append(select_item(is_there(position, pack.length), item, none, span))
    return tuple(items)


def _extreme(op: str, pack: DynamicPack, empty: Value, span: Span) -> Value:
    """The minimum or maximum, to which items that are not there count as the first."""
    if not pack.items:
        return None
    first, n = pack.items[0], pack.length
    items = [select_item(is_there(k, n), item, first, span) for k, item in enumerate(pack.items)]
    result = packs.fold(op, tuple(items), span)
    return _or_else(is_there(0, pack.length), result, empty, span, pack)


def _or_else(some: nodes.Expr, value: Value, empty: Value, span: Span, pack: DynamicPack) -> Value:
    """A value for a pack that has items, and another for one that has none."""
    if some == nodes.TRUE:
        return value
    if empty is None or isinstance(empty, tuple):
        raise fail(
            "E0507",
            "whether this fold is null is known only when the graph runs",
            span,
            f"it is where `{show(from_expr(pack.length))}` is 0",
            help="say what it is of an empty pack: `(p << ..) ?? 0`",
        )
    assert value is not None
    assert not isinstance(value, tuple)
    return select_item(some, value, empty, span)


def contains(pack: DynamicPack, item: Item, span: Span) -> Item:
    """`item in pack`: whether one of the items that are there equals it."""
    found: Item = False
    if len(pack.items) > packs.MOST_TERMS:
        raise fail("E0903", "a pack too long to look into at run time", span)
    for k, other in enumerate(pack.items):
        same = True if identical(item, other) else binary("==", item, other, span)
        here = shapes.logical_and(is_there(k, pack.length), to_expr(same))
        found = binary("||", found, from_expr(here), span)
    return found


def cumulate(op: str, pack: DynamicPack, span: Span) -> DynamicPack:
    """A cumulative fold: each item depends on those before it only."""
    return DynamicPack(packs.cumulate(op, pack.items, span), pack.length)
