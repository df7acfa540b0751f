"""Evaluation of formulas: accesses to tensors, guarded indices, items chosen by an index.

Expressions over loop indices alone are values like all others, so packs of subscripts and
index-only locals are expanded in place; whatever reads a tensor becomes an expression of the
IR (specification 2.4 "Tensor access", 2.12).
"""

from __future__ import annotations

from typing import TypeGuard

from ...diagnostics import Error
from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...source import Span
from . import evaluate_packs as packs
from . import syntax as s
from .compose_graph import Builder
from .evaluate import Evaluator
from .evaluate_dynamic import (
    AnyPack,
    agree,
    items_of,
    length_of,
    not_known,
    pack_of,
    place_in,
)
from .evaluate_scalars import reads_nothing
from .values import (
    AnyValue,
    DynamicPack,
    Item,
    Pack,
    Value,
    describe,
    dtype_of,
    fail,
    from_expr,
    is_expr,
    is_static,
    show,
    to_expr,
)


class MustUnroll(Exception):
    """An index counts items of a pack of tensors: its loop must be written out."""

    def __init__(self, index: nodes.Index, span: Span) -> None:
        super().__init__(index.name)
        self.index = index
        self.span = span


class MustSpecialise(Exception):
    """What a line does depends on the length of a pack: it must be written out for each."""

    def __init__(self, pack: DynamicPack) -> None:
        super().__init__()
        self.pack = pack


class FormulaEvaluator(Evaluator):
    """Evaluates the expressions of one statement of a formula."""

    def __init__(self, builder: Builder, outer: Evaluator) -> None:
        super().__init__(dict(outer.values), outer.types, outer.budget)
        self.builder = builder
        self.domain: list[nodes.Index] = []
        self.reads: dict[nodes.Tensor, None] = {}
        self.guarded: list[nodes.Access] = []
        """The accesses with a guard, whether they are still in what is computed or not."""
        self.chooses = False
        """Whether a loop may choose of tensors, instead of being written out."""
        self.chooses = False
        """Whether a loop may choose of tensors, instead of being written out."""
        self.conditional = 0
        """How many conditions surround the place, so that it may never be reached."""

    # ---------------------------------------------------------------- accesses

    def access(self, node: s.Access) -> AnyValue:
        """`x[i, j..]`: one access; a pack of them where `x` or an index is a pack.

        Raises E0601 for an index that is always out of range, E0602 for a wrong number.
        """
        if not isinstance(node.tensor, s.Subscript) or isinstance(node.tensor.index, s.Range):
            pack = self.evaluate_any(node.tensor)
            if isinstance(pack, DynamicPack):
                return self._access_dynamic(pack, node)
        tensors = self._tensors(node.tensor)
        if tensors is None:
            return None
        chosen, candidates = tensors
        if isinstance(candidates, tuple) and chosen is None:
            return self._each(candidates, [self._access_one(t, node) for t in candidates], node)
        if isinstance(candidates, nodes.Tensor):
            return self._access_one(candidates, node)
        assert chosen is not None
        return self._access_chosen(chosen, candidates, node)

    def _access_dynamic(self, pack: DynamicPack, node: s.Access) -> AnyPack | None:
        """The accesses of all items that there may be; those of items that are not there are
        not to be evaluated; a guard of theirs would count all the same."""
        guards, tensors = len(self.guarded), _tensor_pack(pack.items, node.tensor)
        self.conditional += 1
        try:
            found = [self._access_one(t, node) for t in tensors]
        finally:
            self.conditional -= 1
        if pack.length == nodes.ZERO:
            del self.guarded[guards:]
        elif len(self.guarded) > guards and len({t.shape for t in tensors}) > 1:
            raise MustSpecialise(pack)
        return self._each(pack, found, node)

    def _each(self, pack: AnyPack, results: list[AnyValue], node: s.Access) -> AnyPack | None:
        """One access for each tensor of a pack; with a pack of indices, item by item."""
        length = length_of(pack)
        items: list[Item] = []
        for k, result in enumerate(results):
            if isinstance(result, tuple | DynamicPack):
                length = agree(pack, result, node.span, self.budget)
                result = items_of(result)[k] if k < len(items_of(result)) else 0
            if result is None:
                return None
            items.append(result)
        return pack_of(tuple(items), length)

    def _tensors(
        self, node: s.Expr
    ) -> tuple[nodes.Expr | None, nodes.Tensor | tuple[nodes.Tensor, ...]] | None:
        """What an access reads: a tensor, all of a pack, or the item that an index chooses."""
        if isinstance(node, s.Subscript):
            pack = self.evaluate_any(node.pack)
            if pack is None:
                return None
            if isinstance(pack, DynamicPack):
                return self._dynamic_tensor(pack, node)
            items = _tensor_pack(pack, node.pack)
            found = self.positions(node.index, len(items))
            if found is None:
                return None
            index, positions = found
            if is_expr(index):
                return self._chooser(index, node.index.span, items), items
            taken = tuple([items[k] for k in positions])
            return None, taken if isinstance(index, tuple) else taken[0]
        value = self.evaluate(node)
        if value is None:
            return None
        if isinstance(value, nodes.Tensor):
            return None, value
        return None, _tensor_pack(value, node)

    def _dynamic_tensor(
        self, pack: DynamicPack, node: s.Subscript
    ) -> tuple[nodes.Expr | None, nodes.Tensor | tuple[nodes.Tensor, ...]] | None:
        """An item of a pack whose length is known only at run time."""
        index = self.evaluate(node.index)
        if index is None:
            return None
        if is_expr(index):
            self._chooser(index, node.index.span)
            return self._below(index, pack.length, node.span), _tensor_pack(pack.items, node.pack)
        place, condition = place_in(pack, index, node.span)
        self.demand(condition, node.span)
        tensors = _tensor_pack(pack.items, node.pack)
        known = shapes.as_int(place)
        return (place, tensors) if known is None else (None, tensors[known])

    def _chooser(
        self, index: nodes.Expr, span: Span, items: tuple[nodes.Tensor, ...] = ()
    ) -> nodes.Expr:
        """An index into a pack of tensors: a loop over items is unrolled, or chooses of items."""
        if reads_nothing(index) and not (self.chooses and _can_choose(index, items)):
            loops = rewrite.free_indices(index)
            if loops:
                raise MustUnroll(loops[0], span)
        return index

    def _below(self, index: nodes.Expr, length: nodes.Expr, span: Span) -> nodes.Expr:
        """An index checked against a length at run time, unless it is proved to be in range."""
        if shapes.interval(index)[0] >= 0 and shapes.less(index, length):
            return index
        place = nodes.Index("i", length, span)
        positions = self.builder.computed(place, (place,), span)
        return self._read(positions, [nodes.Subscript(index)], span)

    def _access_chosen(
        self, index: nodes.Expr, tensors: tuple[nodes.Tensor, ...], node: s.Access
    ) -> Value:
        """`xs[t[..]][..]`: the item that a tensor's value says, by comparisons."""
        index = self.checked(index, len(tensors), node.tensor.span)
        self.conditional += 1
        try:
            items = [self._access_one(t, node) for t in tensors]
        finally:
            self.conditional -= 1
        if any(not is_expr(item) for item in items):
            raise fail("E0503", "one element of one tensor is needed", node.span)
        return packs.choose(tuple([i for i in items if _is_item(i)]), index, node.span)

    def checked(self, index: nodes.Expr, length: int, span: Span) -> nodes.Expr:
        """An index into a pack, checked at run time unless it is proved to be in range."""
        low, high = shapes.interval(index)
        if low >= 0 and high < length:
            return index
        if length == 0 or low >= length or high < 0:
            raise fail("E0505", "an index that is never in the range of its pack", span)
        positions = self.builder.constant(tuple(range(length)), DType.INT, (nodes.integer(length),))
        return self._read(positions, [nodes.Subscript(index)], span)

    def _access_one(self, tensor: nodes.Tensor, node: s.Access) -> AnyValue:
        """All accesses of one tensor: one, or as many as a pack among the indices has."""
        columns: list[Item | AnyPack] = []
        for index in node.indices:
            found = self._index(index, tensor, len(columns))
            if found is None:
                return None
            columns += found
        of_packs = [c for c in columns if isinstance(c, tuple | DynamicPack)]
        if not of_packs:
            items = [c for c in columns if not isinstance(c, tuple | DynamicPack)]
            return self.make_access(tensor, items, node.span)
        length = length_of(of_packs[0])
        for other in of_packs[1:]:
            length = agree(pack_of(items_of(of_packs[0]), length), other, node.span, self.budget)
        open_length = not isinstance(length, nodes.Const)
        self.conditional += open_length
        rows = zip(*(self._column(c, min(map(_count, of_packs))) for c in columns), strict=False)
        result = tuple([self.make_access(tensor, list(row), node.span) for row in rows])
        self.conditional -= open_length
        return pack_of(result, length)

    def _column(self, column: Item | AnyPack, count: int) -> Pack:
        return items_of(column) if isinstance(column, tuple | DynamicPack) else (column,) * count

    def _index(
        self, index: s.Expr, tensor: nodes.Tensor, position: int
    ) -> list[Item | AnyPack] | None:
        """One position of an access: an item, several by `..`, or a pack for each of its items."""
        if isinstance(index, s.Expand):
            items = self.evaluate_items((index,))
            if isinstance(items, DynamicPack):
                raise not_known(index.span, items)
            return None if items is None else list(items)
        if isinstance(index, s.Range):
            return self._axis(index, tensor, position)
        value = self.evaluate_any(index)
        return None if value is None else [value]

    def _axis(
        self, node: s.Range, tensor: nodes.Tensor, position: int
    ) -> list[Item | AnyPack] | None:
        """`x[i, :]`: every position along an axis, whose extent must be known."""
        if position >= tensor.rank:
            raise self._wrong_rank(tensor, position + 1, node.span)
        extent = from_expr(tensor.shape[position])
        length = packs.require_int(extent, node.span, "the extent of a whole axis")
        found = self.positions(node, length)
        return None if found is None else [tuple(found[1])]

    def make_access(self, tensor: nodes.Tensor, items: list[Item], span: Span) -> nodes.Access:
        """An access with these indices; raises E0601, E0602 and E0503."""
        if len(items) != tensor.rank:
            raise self._wrong_rank(tensor, len(items), span)
        subscripts = []
        for k, item in enumerate(items):
            subscript = self._subscript_of(item, span)
            if subscript.rule is None:
                self._check_range(tensor, k, subscript.index, span)
            subscripts.append(subscript)
        access = self._read(tensor, subscripts, span)
        if any(isinstance(subscript.rule, nodes.Skip) for subscript in subscripts):
            self.guarded.append(access)
        return access

    def _read(
        self, tensor: nodes.Tensor, subscripts: list[nodes.Subscript], span: Span
    ) -> nodes.Access:
        self.reads[tensor] = None
        return nodes.Access(tensor, tuple(subscripts), span)

    def _wrong_rank(self, tensor: nodes.Tensor, count: int, span: Span) -> Error:
        indices = "index" if count == 1 else "indices"
        return fail(
            "E0602",
            f"{count} {indices} for a tensor of {tensor.rank} dimensions",
            span,
            f"it is {describe(tensor)}",
        )

    def _subscript_of(self, item: Item, span: Span) -> nodes.Subscript:
        if type(item) is int:
            return nodes.Subscript(nodes.integer(item))
        if isinstance(item, nodes.Subscript):
            return item
        if is_expr(item) and item.dtype is DType.INT:
            return nodes.Subscript(item)
        raise fail("E0503", "an index must be an integer", span, f"this is {show(item)}")

    # ----------------------------------------------------------------- ranges

    def _check_range(self, tensor: nodes.Tensor, axis: int, index: nodes.Expr, span: Span) -> None:
        """Raises E0601 if an index is out of range whenever the statement runs."""
        extent = tensor.shape[axis]
        if type(index) is nodes.Index and (index.extent is extent or index.extent == extent):
            return
        low, high = shapes.interval(index)
        least, most = shapes.interval(extent)
        if (low < most and high >= 0) or self.conditional or not self._runs():
            return
        values = f"it is {_interval(low, high)}"
        size = f"the extent is {_interval(least, most)}"
        raise fail(
            "E0601",
            f"this index of dimension {axis} is always out of range",
            span,
            f"{values}, {size}",
            notes=(
                f"tensor: {tensor.name}, {describe(tensor)}",
                f"index: {show(from_expr(index))}",
                *(f"{i.name} < {show(from_expr(i.extent))}" for i in rewrite.free_indices(index)),
            ),
            help="write `|index|` to leave out what is outside, or remap it by `<>`",
        )

    def _runs(self) -> bool:
        """Whether no loop around the place is, or may be, empty."""
        return all(shapes.interval(index.extent)[0] > 0 for index in self.domain)

    # -------------------------------------------------------- other differences

    def bounded(self, node: s.Bounded) -> AnyValue:
        index = self.evaluate(node.index)
        below = self.evaluate(node.below) if node.below is not None else 0
        above = self.evaluate(node.above) if node.above is not None else 0
        if index is None or below is None or above is None:
            return None
        if node.below is None:
            return self._map(
                lambda i: nodes.Subscript(_int(i, node), nodes.Skip()), index, node.span
            )
        columns = [index, below, above]
        length = max((len(c) for c in columns if isinstance(c, tuple)), default=None)
        count = 1 if length is None else length
        rows = [c if isinstance(c, tuple) else (c,) * count for c in columns]
        if any(len(row) != count for row in rows):
            raise fail("E0506", "the packs of a remapped index differ in length", node.span)
        result = tuple(
            [
                nodes.Subscript(_int(i, node), nodes.Remap(_int(b, node), _int(a, node)))
                for i, b, a in zip(*rows, strict=True)
            ]
        )
        return result[0] if length is None else result

    def index_tensor(self, tensor: nodes.Tensor, node: s.Subscript) -> Value:
        """Spec: an access with one index has a comma, `x[i,]`, though its examples leave it
        out. Ricci: `x[i]` of a single tensor is an access too, `i` a pack if need be."""
        value = self.evaluate(node.index) if not isinstance(node.index, s.Range) else ()
        if value is None:
            return None
        items = list(value) if isinstance(value, tuple) else [value]
        return self.make_access(tensor, items, node.span)

    def choose(self, pack: Pack, index: nodes.Expr, node: s.Subscript) -> Value:
        """An item of a pack of values: read from a table, or computed from the index."""
        if any(isinstance(item, nodes.Tensor) for item in pack):
            self._chooser(index, node.index.span)
            raise fail("E0507", "elements of the chosen tensor must be read", node.span)
        low, high = shapes.interval(index)
        inside = low >= 0 and high < len(pack)
        if inside and _is_uniform(pack):
            return pack[0]
        if all(is_static(item) and not isinstance(item, str) for item in pack) and pack:
            return self._look_up(pack, index, node.span)
        return packs.choose(pack, self.checked(index, len(pack), node.span), node.span)

    def choose_dynamic(self, pack: DynamicPack, index: nodes.Expr, node: s.Subscript) -> Value:
        return self.choose(pack.items, self._below(index, pack.length, node.index.span), node)

    def _look_up(self, pack: Pack, index: nodes.Expr, span: Span) -> nodes.Expr:
        items = tuple([i for i in pack if isinstance(i, bool | int | float)])
        table = self.builder.constant(items, dtype_of(pack[0]), (nodes.integer(len(pack)),))
        return self.make_access(table, [index], span)

    def select(self, condition: nodes.Expr, node: s.Select) -> AnyValue:
        self.conditional += 1
        try:
            return super().select(condition, node)
        finally:
            self.conditional -= 1


def _count(pack: AnyPack) -> int:
    return len(items_of(pack))


def _is_item(value: AnyValue) -> TypeGuard[Item]:
    return value is not None and not isinstance(value, tuple | DynamicPack)


def _can_choose(index: nodes.Expr, items: tuple[nodes.Tensor, ...]) -> bool:
    """Whether one of these is sure to be meant, and what is in range of one is in range of all."""
    low, high = shapes.interval(index)
    alike = len({t.shape for t in items}) == 1
    return low >= 0 and high < len(items) <= packs.MOST_TERMS and alike


def _is_uniform(pack: Pack) -> bool:
    first = pack[0]
    return is_static(first) and all(type(i) is type(first) and i == first for i in pack)


def _tensor_pack(value: Value, node: s.Expr) -> tuple[nodes.Tensor, ...]:
    items = value if isinstance(value, tuple) else (value,)
    tensors = tuple([item for item in items if isinstance(item, nodes.Tensor)])
    if len(tensors) != len(items) or not isinstance(value, tuple):
        raise fail("E0503", "a tensor is needed here", node.span, f"this is {show(value)}")
    return tensors


def _int(item: Item, node: s.Bounded) -> nodes.Expr:
    if isinstance(item, nodes.Tensor | nodes.Subscript) or dtype_of(item) is not DType.INT:
        raise fail("E0503", "an index must be an integer", node.span, f"this is {show(item)}")
    return to_expr(item)


def _interval(low: float, high: float) -> str:
    return str(low) if low == high else f"{low} to {high}"
