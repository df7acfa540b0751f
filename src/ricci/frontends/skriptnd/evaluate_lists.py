"""Evaluation of lists and of what takes packs apart (specification 2.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ...dtypes import DType
from ...ir import nodes, shapes
from ...source import Span
from . import evaluate_dynamic as dynamic
from . import evaluate_packs as packs
from . import syntax as s
from .evaluate_dynamic import AnyPack
from .values import (
    LONGEST_PACK,
    AnyValue,
    Budget,
    DynamicPack,
    Item,
    Pack,
    Value,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    show,
    to_expr,
)


class PackEvaluator(ABC):
    """The part of an evaluator that makes, indexes and changes packs."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    @abstractmethod
    def evaluate_any(self, node: s.Expr) -> AnyValue:
        """The value of an expression, which may be a pack of dynamic length."""

    def evaluate(self, node: s.Expr) -> Value:
        """The value of an expression; null where a part is null and nothing handles it.

        Raises `Error` with one diagnostic of E0201, E0502 to E0508 or E0903.
        """
        value = self.evaluate_any(node)
        if isinstance(value, DynamicPack):
            known = shapes.as_int(value.length)
            if known is None:
                raise dynamic.not_known(node.span, value)
            return value.items[:known]
        return value

    def index_tensor(self, tensor: nodes.Tensor, node: s.Subscript) -> Value:
        """`x[i]` where `x` is one tensor."""
        raise fail("E0503", "a pack is needed here", node.pack.span, "this is one tensor")

    def evaluate_items(self, items: tuple[s.Expr, ...]) -> AnyPack | None:
        """The items of a list, expanded; null if one of them is."""
        parts: list[AnyPack] = []
        single: list[Item] = []
        missing = False
        for item in items:
            value = _ITEMS.get(type(item), PackEvaluator._single)(self, item)
            if value is None:
                missing = True
            elif isinstance(value, DynamicPack):
                parts += [tuple(single), value]
                single = []
            else:
                single += value
        if missing:
            return None
        if not parts:
            return tuple(single)
        span = items[0].span.to(items[-1].span)
        return dynamic.join([*parts, tuple(single)], span, self.budget)

    # -------------------------------------------------------------------- packs

    def _list(self, node: s.List) -> AnyValue:
        result = self.evaluate_items(node.items)
        if isinstance(result, tuple):
            self.budget.spend(len(result), node.span)
        return result

    def _single(self, item: s.Expr) -> Pack | None:
        value = self.evaluate_any(item)
        if isinstance(value, tuple | DynamicPack):
            raise fail("E0503", "a pack in a list must be expanded by `..`", item.span)
        return None if value is None else (value,)

    def _expand(self, node: s.Expand) -> AnyPack | None:
        value = self.evaluate_any(node.item)
        count = self.evaluate(node.count) if node.count is not None else None
        if value is None or (node.count is not None and count is None):
            return None
        if isinstance(value, tuple | DynamicPack):
            self._check_count(value, count, node)
            return value
        if node.count is None:
            raise fail("E0503", "one value needs a count to be repeated", node.span)
        if is_expr(count) and count.dtype in (DType.INT, DType.BOOL):
            return dynamic.repeat(value, count, node.count.span, self.budget)
        times = count if isinstance(count, bool) else self._count(count, node.count)
        self.budget.spend(int(times), node.span)
        return (value,) * times

    def _check_count(self, value: AnyPack, count: Value, node: s.Expand) -> None:
        if node.count is not None and count != from_expr(dynamic.length_of(value)):
            size = show(from_expr(dynamic.length_of(value)))
            raise fail("E0506", f"a pack of {size} items cannot be repeated", node.span)

    def _count(self, count: Value, node: s.Expr) -> int:
        times = packs.require_int(count, node.span, "the length of a pack")
        if times < 0:
            raise fail("E0506", "the length of a pack is negative", node.span, str(times))
        return times

    def _range(self, node: s.Range) -> AnyPack | None:
        found = self._range_ends(node)
        if found is None:
            return None
        begin, end, stride = found
        assert begin is not None
        assert end is not None
        if type(begin) is int and type(end) is int:
            return packs.make_range(begin, end, stride, node.span, self.budget)
        ends = (node.begin or node).span.to((node.end or node).span)
        return dynamic.make_range(begin, end, stride, ends, self.budget)

    def _zip(self, node: s.Zip) -> AnyPack | None:
        values = [self.evaluate_any(item) for item in node.items]
        columns: list[AnyPack] = []
        for value, item in zip(values, node.items, strict=True):
            if value is None:
                return None
            if not isinstance(value, tuple | DynamicPack):
                raise fail("E0503", "only packs can be interleaved", item.span)
            columns.append(value)
        return dynamic.interleave(columns, node.span, self.budget)

    # --------------------------------------------------------------- subscripts

    def _subscript(self, node: s.Subscript) -> AnyValue:
        pack = self.evaluate_any(node.pack)
        if isinstance(pack, nodes.Tensor):
            return self.index_tensor(pack, node)
        if pack is None:
            return None
        items = pack if isinstance(pack, DynamicPack) else packs.require_pack(pack, node.pack.span)
        if isinstance(node.index, s.Range):
            return self._slice(items, node, node.index)
        index = self.evaluate_any(node.index)
        if index is None:
            return None
        if isinstance(items, str) or _is_static(items, index):
            return self._take_static(items, index, node)
        if isinstance(index, tuple | DynamicPack):
            return self._take(items, index, node.index.span)
        if is_expr(index):
            if isinstance(items, DynamicPack):
                return self.choose_dynamic(items, index, node)
            return self.choose(items, index, node)
        item, condition = dynamic.item_at(items, index, node.span, self.budget)
        self.demand(condition, node.span)
        return item

    def _take_static(self, items: AnyPack | str, index: AnyValue, node: s.Subscript) -> Value:
        """One item or several, all of which is known now; of a string characters."""
        span = node.index.span
        if isinstance(items, DynamicPack) or isinstance(index, DynamicPack) or is_expr(index):
            raise fail("E0507", "characters cannot be chosen at run time", node.span)
        if isinstance(index, tuple):
            positions = packs.positions_of(index, len(items), span)
            self.budget.spend(len(positions), node.span)
            return packs.take(items, positions)
        whole = packs.require_int(index, span, "an index of a pack")
        return items[packs.position(whole, len(items), span)]

    def _slice(self, items: AnyPack | str, node: s.Subscript, ends: s.Range) -> AnyValue:
        found = self._places(items, ends)
        if found is None or isinstance(items, DynamicPack) or isinstance(found, DynamicPack):
            return None if found is None else self._gather(items, found, node.span)
        self.budget.spend(len(found), node.span)
        return packs.take(items, [k for k in found if isinstance(k, int)])

    def _gather(self, items: AnyPack | str, found: AnyPack, span: Span) -> AnyPack:
        """The items at positions of a slice, which are those that there are."""
        if isinstance(items, str):
            raise fail("E0507", "characters cannot be chosen at run time", span)
        places = [to_expr(place) for place in dynamic.items_of(found)]
        taken = dynamic.gather(dynamic.items_of(items), places, span, self.budget)
        return dynamic.pack_of(taken, dynamic.length_of(found))

    def _places(self, items: AnyPack | str, ends: s.Range) -> AnyPack | None:
        """The positions that a slice takes, counted from the front; null if an end is."""
        found = self._range_ends(ends)
        if found is None:
            return None
        begin, end, stride = found
        known = not is_expr(begin) and not is_expr(end)
        if isinstance(items, str) or (known and isinstance(items, tuple)):
            return tuple(self._known_places(len(items), ends, begin, end, stride))
        count, places = dynamic.slice_positions(items, begin, end, stride, ends.span)
        return dynamic.pack_of(tuple([from_expr(place) for place in places]), count)

    def _known_places(
        self, length: int, ends: s.Range, begin: Item | None, end: Item | None, stride: int
    ) -> range:
        first, last = _known_end(begin, ends.begin), _known_end(end, ends.end)
        places = packs.slice_positions(length, first, last, stride, ends.span)
        self.budget.spend(min(len(places), LONGEST_PACK + 1), ends.span)
        return places

    def _range_ends(self, node: s.Range) -> tuple[Item | None, Item | None, int] | None:
        """Begin and end, null where they are left out, and stride; null if one of them is."""
        nulls = False
        values: list[Item | None] = []
        for end in (node.begin, node.end, node.stride):
            value = None if end is None else self.evaluate(end)
            nulls |= end is not None and value is None
            if end is not None and not (is_expr(value) and value.dtype is DType.INT):
                value = None if value is None else packs.require_int(value, end.span, _AN_END)
            values.append(None if isinstance(value, tuple) else value)
        stride = 1 if node.stride is None else values[2]
        if nulls:
            return None
        assert node.stride is None or stride is not None
        span = node.span if node.stride is None else node.stride.span
        return values[0], values[1], packs.require_int(stride, span, _AN_END)

    def _take(self, items: AnyPack, index: AnyPack, span: Span) -> AnyPack:
        """`p[q]`: the items at positions, or those that a mask marks."""
        places, count = dynamic.items_of(index), dynamic.length_of(index)
        if places and all(dtype_of(place) is DType.BOOL for place in places):
            return self._masked(items, index, span)
        taken = []
        for k, place in enumerate(places):
            item, condition = dynamic.item_at(items, place, span, self.budget)
            absent = shapes.compare("le", count, nodes.integer(k))
            self.demand(shapes.logical_or(absent, condition), span)
            taken.append(item)
        return dynamic.pack_of(tuple(taken), count)

    def _masked(self, items: AnyPack, mask: AnyPack, span: Span) -> AnyPack:
        """What a mask marks, one behind the other."""
        length = dynamic.agree(items, mask, span, self.budget)
        known = dynamic.items_of(items)
        counts: list[nodes.Expr] = [nodes.ZERO]
        for k, mark in enumerate(dynamic.items_of(mask)[: len(known)]):
            there = shapes.logical_and(dynamic.is_there(k, length), to_expr(mark))
            count = shapes.add(counts[-1], shapes.select(there, nodes.ONE, nodes.ZERO))
            long = not isinstance(count, nodes.Const)
            counts.append(self.budget.name_size(count, span) if long else count)
        places = []
        for k in range(len(counts) - 1):
            behind = [shapes.compare("le", count, nodes.integer(k)) for count in counts[1:]]
            ones = (shapes.select(test, nodes.ONE, nodes.ZERO) for test in behind)
            places.append(shapes.total(*ones))
        return dynamic.pack_of(dynamic.gather(known, places, span, self.budget), counts[-1])

    def choose(self, pack: Pack, index: nodes.Expr, node: s.Subscript) -> Value:
        """`p[i]` where `i` is known only at run time."""
        return self.choose_dynamic(DynamicPack(pack, nodes.integer(len(pack))), index, node)

    def choose_dynamic(self, pack: DynamicPack, index: nodes.Expr, node: s.Subscript) -> Value:
        """`p[i]` where neither `i` nor the length of `p` is known before run time."""
        item, condition = dynamic.item_at(pack, index, node.index.span, self.budget)
        self.demand(condition, node.span)
        return item

    def demand(self, condition: nodes.Expr, span: Span) -> None:
        """Rely on it that an item of a pack is there: checked when the graph runs."""
        self.budget.demand(condition, ("this item of the pack is not there",), span)

    def positions(self, index: s.Expr, length: int) -> tuple[Value, range | list[int]] | None:
        """What a subscript says and the positions it takes; null if it is null.

        The value is an `int` for one item, a pack for several, an expression (and no
        positions) for an item chosen at run time.
        """
        if isinstance(index, s.Range):
            found = self._range_ends(index)
            return None if found is None else ((), self._known_places(length, index, *found))
        value = self.evaluate(index)
        if value is None:
            return None
        if isinstance(value, tuple):
            return value, packs.positions_of(value, length, index.span)
        if is_expr(value) and value.dtype is DType.INT:
            return value, []
        whole = packs.require_int(value, index.span, "an index of a pack")
        return value, [packs.position(whole, length, index.span)]

    # ------------------------------------------------------------- substitution

    def _substitute(self, node: s.Substitute) -> AnyValue:
        pack, value = self.evaluate_any(node.pack), self.evaluate_any(node.value)
        if pack is None or value is None:
            return None
        if not isinstance(pack, tuple | DynamicPack):
            raise fail("E0503", "only items of a pack can be replaced", node.pack.span)
        index: AnyValue
        if isinstance(node.index, s.Range):
            index = self._places(pack, node.index)
        else:
            index = self.evaluate_any(node.index)
        if index is None:
            return None
        self.budget.spend(len(dynamic.items_of(pack)), node.span)
        if isinstance(pack, DynamicPack) or not _is_static(pack, index, value):
            return self._substitute_dynamic(pack, index, value, node)
        assert not isinstance(value, DynamicPack)
        assert not isinstance(index, DynamicPack)
        if isinstance(index, tuple):
            positions = packs.positions_of(index, len(pack), node.index.span)
        else:
            whole = packs.require_int(index, node.index.span, "an index of a pack")
            positions = [packs.position(whole, len(pack), node.index.span)]
        return packs.substitute(pack, index, value, positions, node.span)

    def _substitute_dynamic(
        self, pack: AnyPack, index: AnyValue, value: AnyValue, node: s.Substitute
    ) -> AnyPack:
        """`p[i] <- x` where the length, or what is replaced, is known only at run time."""
        span = node.index.span
        assert index is not None
        assert value is not None
        if not isinstance(index, tuple | DynamicPack):
            if isinstance(value, tuple | DynamicPack):
                raise fail("E0503", "one item can only be replaced by one value", node.span)
            index = (index,)
        where = dynamic.items_of(index)
        if not isinstance(value, tuple | DynamicPack):
            value = dynamic.pack_of((value,) * len(where), dynamic.length_of(index))
        places = []
        for k, place in enumerate(where):
            position, inside = dynamic.place_in(pack, place, span)
            absent = shapes.compare("le", dynamic.length_of(index), nodes.integer(k))
            if not isinstance(node.index, s.Range):
                self.demand(shapes.logical_or(absent, inside), span)
            places.append(from_expr(position))
        counted = dynamic.pack_of(tuple(places), dynamic.length_of(index))
        return dynamic.substitute(pack, counted, value, node.span, self.budget)


_AN_END = "the end of a range"


def _is_static(pack: AnyPack | str, index: AnyValue, value: AnyValue = None) -> bool:
    """Whether all lengths and all positions are known now."""
    if any(isinstance(v, DynamicPack) for v in (pack, index, value)):
        return False
    return not is_expr(index) and not _has_places(index)


def _has_places(value: AnyValue) -> bool:
    """Whether a pack of indices has some that are known only at run time."""
    return isinstance(value, tuple) and any(is_expr(item) for item in value)


def _known_end(end: Item | None, node: s.Expr | None) -> int | None:
    return None if end is None or node is None else packs.require_int(end, node.span, _AN_END)


_ITEMS: dict[type, Callable[[Any, Any], AnyPack | None]] = {
    s.Range: PackEvaluator._range,
    s.Expand: PackEvaluator._expand,
    s.Zip: PackEvaluator._zip,
}
