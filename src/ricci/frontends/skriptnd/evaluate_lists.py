"""Evaluation of lists and of what takes packs apart (specification 2.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ...dtypes import DType
from ...ir import nodes
from ...source import Span
from . import evaluate_dynamic as dynamic
from . import evaluate_packs as packs
from . import syntax as s
from .values import AnyValue, Budget, DynamicPack, Item, Pack, Value, fail, is_expr


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
            raise dynamic.not_known(node.span, value)
        return value

    def index_tensor(self, tensor: nodes.Tensor, node: s.Subscript) -> Value:
        """`x[i]` where `x` is one tensor."""
        raise fail("E0503", "a pack is needed here", node.pack.span, "this is one tensor")

    def choose(self, pack: Pack | str, index: nodes.Expr, node: s.Subscript) -> Value:
        """`p[i]` where `i` is known only at run time."""
        if isinstance(pack, str) or any(isinstance(item, nodes.Tensor) for item in pack):
            packs.require_int(index, node.index.span, "this index")
        return packs.choose(tuple(pack), index, node.span)

    def evaluate_items(self, items: tuple[s.Expr, ...]) -> Pack | None:
        """The items of a list, expanded; null if one of them is."""
        result: list[Item] = []
        missing = False
        for item in items:
            value = _ITEMS.get(type(item), PackEvaluator._single)(self, item)
            if value is None:
                missing = True
            else:
                result += value
        return None if missing else tuple(result)

    # -------------------------------------------------------------------- packs

    def _list(self, node: s.List) -> AnyValue:
        last = node.items[-1] if node.items else None
        if isinstance(last, s.Expand) and last.count is None:
            rest = self.evaluate_any(last.item)
            if isinstance(rest, DynamicPack):
                first = self.evaluate_items(node.items[:-1])
                return None if first is None else dynamic.behind(first, rest)
        result = self.evaluate_items(node.items)
        if result is not None:
            self.budget.spend(len(result), node.span)
        return result

    def _single(self, item: s.Expr) -> Pack | None:
        value = self.evaluate(item)
        if isinstance(value, tuple):
            raise fail("E0503", "a pack in a list must be expanded by `..`", item.span)
        return None if value is None else (value,)

    def _expand(self, node: s.Expand) -> Pack | None:
        value = self.evaluate(node.item)
        count = self.evaluate(node.count) if node.count is not None else None
        if value is None or (node.count is not None and count is None):
            return None
        if isinstance(value, tuple):
            self._check_count(value, count, node)
            return value
        if node.count is None:
            raise fail("E0503", "one value needs a count to be repeated", node.span)
        times = count if isinstance(count, bool) else self._count(count, node.count)
        self.budget.spend(int(times), node.span)
        return (value,) * times

    def _check_count(self, value: Pack, count: Value, node: s.Expand) -> None:
        if node.count is not None and count != len(value):
            raise fail("E0506", f"a pack of {len(value)} items cannot be repeated", node.span)

    def _count(self, count: Value, node: s.Expr) -> int:
        times = packs.require_int(count, node.span, "the length of a pack")
        if times < 0:
            raise fail("E0506", "the length of a pack is negative", node.span, str(times))
        return times

    def _range(self, node: s.Range) -> Pack | None:
        ends = [self._end(e) for e in (node.begin, node.end, node.stride)]
        if any(e is not None and v is None for e, v in zip(_ends(node), ends, strict=True)):
            return None
        begin, end, stride = ends
        assert begin is not None
        assert end is not None
        return packs.make_range(begin, end, 1 if stride is None else stride, node.span, self.budget)

    def _end(self, node: s.Expr | None) -> int | None:
        value = self.evaluate(node) if node is not None else None
        if node is None or value is None:
            return None
        return packs.require_int(value, node.span, "the end of a range")

    def _zip(self, node: s.Zip) -> Pack | None:
        values = [self.evaluate(item) for item in node.items]
        columns: list[Pack] = []
        for value, item in zip(values, node.items, strict=True):
            if value is None:
                return None
            if not isinstance(value, tuple):
                raise fail("E0503", "only packs can be interleaved", item.span)
            columns.append(value)
        for other in columns[1:]:
            packs.check_lengths(columns[0], other, node.span)
        return tuple(item for row in zip(*columns, strict=True) for item in row)

    def _subscript(self, node: s.Subscript) -> AnyValue:
        pack = self.evaluate_any(node.pack)
        if isinstance(pack, DynamicPack):
            return self._part(pack, node)
        if isinstance(pack, nodes.Tensor):
            return self.index_tensor(pack, node)
        if pack is None:
            return None
        items = packs.require_pack(pack, node.pack.span)
        found = self.positions(node.index, len(items))
        if found is None:
            return None
        index, positions = found
        if is_expr(index):
            return self.choose(items, index, node)
        if isinstance(index, tuple) or isinstance(items, str):
            self.budget.spend(len(positions), node.span)
            return packs.take(items, positions)
        return items[positions[0]]

    def _part(self, pack: DynamicPack, node: s.Subscript) -> AnyValue:
        if isinstance(node.index, s.Range):
            begin, end, stride = [self._end(e) for e in _ends(node.index)]
            return dynamic.slice_of(pack, begin, end, stride, node.span)
        index = self.evaluate(node.index)
        if index is None:
            return None
        if is_expr(index):
            return self.choose_dynamic(pack, index, node)
        item, condition = dynamic.item_at(pack, index, node.span)
        self.demand(condition, node.span)
        return item

    def choose_dynamic(self, pack: DynamicPack, index: nodes.Expr, node: s.Subscript) -> Value:
        """`p[i]` where neither `i` nor the length of `p` is known before run time."""
        raise dynamic.not_known(node.pack.span, pack)

    def demand(self, condition: nodes.Expr, span: Span) -> None:
        """Rely on it that an item of a pack is there: checked when the graph runs."""
        if condition is not nodes.TRUE:
            self.budget.demands.append((condition, "this item of the pack is not there", span))

    def positions(self, index: s.Expr, length: int) -> tuple[Value, range | list[int]] | None:
        """What a subscript says and the positions it takes; null if it is null.

        The value is an `int` for one item, a pack for several, an expression (and no
        positions) for an item chosen at run time.
        """
        if isinstance(index, s.Range):
            ends = [self._end(e) for e in _ends(index)]
            if any(e is not None and v is None for e, v in zip(_ends(index), ends, strict=True)):
                return None
            begin, end, stride = ends
            return (), packs.slice_positions(length, begin, end, stride, index.span)
        value = self.evaluate(index)
        if value is None:
            return None
        if isinstance(value, tuple):
            return value, packs.positions_of(value, length, index.span)
        if is_expr(value) and value.dtype is DType.INT:
            return value, []
        whole = packs.require_int(value, index.span, "an index of a pack")
        return value, [packs.position(whole, length, index.span)]

    def _substitute(self, node: s.Substitute) -> Value:
        pack, value = self.evaluate(node.pack), self.evaluate(node.value)
        if pack is None or value is None:
            return None
        if not isinstance(pack, tuple):
            raise fail("E0503", "only items of a pack can be replaced", node.pack.span)
        found = self.positions(node.index, len(pack))
        if found is None:
            return None
        index, positions = found
        if is_expr(index):
            packs.require_int(index, node.index.span, "a replaced position")
        self.budget.spend(len(pack), node.span)
        return packs.substitute(pack, index, value, list(positions), node.span)


def _ends(node: s.Range) -> tuple[s.Expr | None, s.Expr | None, s.Expr | None]:
    return node.begin, node.end, node.stride


_ITEMS: dict[type, Callable[[Any, Any], Pack | None]] = {
    s.Range: PackEvaluator._range,
    s.Expand: PackEvaluator._expand,
    s.Zip: PackEvaluator._zip,
}
