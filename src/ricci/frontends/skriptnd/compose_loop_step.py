"""Loops as one step of the graph (specification 2.10.1).

Items of different shapes are scanned together with their extents, which define sizes in the
body; what the body gives in shapes that such sizes, or the data, decide is collected together
with its extents (`docs/ir.md`, "Sizes that data defines").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

from ...dtypes import DType
from ...ir import nodes, rewrite, shapes
from ...records import dataclass
from ...source import Span
from . import syntax as s
from .compose_body import Body, Results, Task, tensors_of
from .compose_branch import compose_condition
from .compose_callable import compose_callable
from .compose_graph import Builder
from .compose_loop import Loop, Scan, check_results, enter, evaluate_clauses, step_body, unroll
from .compose_loop_packs import OpenPack
from .compose_parts import Part
from .compose_state import carry_updates
from .evaluate_shapes import check_number
from .labels import Wanted, item_name, single_name
from .values import AnyValue, DynamicPack, Item, Value, describe, fail, from_expr


def compose_loop(body: Body, node: s.Loop, label: str | None, wanted: tuple[Wanted, ...]) -> Task:
    """A loop as one step of the graph, or written out where it says `unroll`.

    Spec: a compiler may unroll loops on its own. Ricci: those that make no step, and those over
    tensors of different ranks.
    """
    loop = evaluate_clauses(body, node)
    steps = 0 if loop.most == 0 else None if loop.count is None else shapes.as_int(loop.count)
    if node.unroll or steps == 0 or (node.condition is None and _has_ranks(loop)):
        if steps is None:
            raise fail("E0608", "an unrolled loop needs a count that is known", node.span)
        return (yield from unroll(body, loop, steps, label, wanted))
    return (yield from _Step(body, loop, label, wanted).compose())


def _has_ranks(loop: Loop) -> bool:
    """Whether the items of a pack differ in their number of dimensions."""
    packs = [[i for i in x.items if isinstance(i, nodes.Tensor)] for x in loop.scans]
    return any(len({t.rank for t in pack}) > 1 for pack in packs)


Condition: TypeAlias = bool | nodes.Region | None


@dataclass(eq=False)
class _Step:
    """A loop while it is composed."""

    body: Body
    loop: Loop
    label: str | None
    wanted: tuple[Wanted, ...]
    part: Part = field(default_factory=lambda: Part(loop=True))
    scans: list[tuple[nodes.Tensor, tuple[nodes.Tensor, ...]]] = field(default_factory=list)
    extents: dict[nodes.Symbol, list[nodes.Expr]] = field(default_factory=dict)
    """For each size that differs from item to item, what it is in each."""
    results: list[nodes.Tensor] = field(default_factory=list)
    collected: list[tuple[nodes.Tensor, ...]] = field(default_factory=list)

    @property
    def builder(self) -> Builder:
        return self.body.builder

    def compose(self) -> Task:
        builder, node = self.builder, self.loop.node
        start = len(builder.sizes)
        items: list[Item] = [self._scanned(scan) for scan in self.loop.scans]
        inner = step_body(self.body)
        variables, held = self._fresh([None] * len(self.loop.initial))
        enter(inner, node, variables, items)
        index = self._index(inner)
        found: Condition = None
        with builder.region(self.part):
            if node.condition is not None:
                found = yield from compose_condition(inner, node.condition)
            if found is not False or not node.pretest:
                anonymous = (None,) * len(self.wanted)
                results = yield from compose_callable(inner, node.body, self.label, anonymous)
                check_results(self.body, self.loop, results)
                inside = {symbol for symbol, _ in builder.sizes[start:]}
                packs = self._collect(results[len(variables) :], inside, self._most(found))
                new = self._held(results[: len(variables)])
        if found is False and node.pretest:
            del builder.sizes[start:]
            return (yield from unroll(self.body, self.loop, 0, self.label, self.wanted))
        return self._finish(held, new, index, found, packs)

    def _most(self, condition: Condition) -> int | None:
        """How many steps there are at most. Raises E0608 for a loop without end."""
        if condition is True and self.loop.count is None:
            raise fail("E0608", "this loop never ends", self.loop.node.span)
        most = self.loop.most
        if condition is False:
            return 1 if most is None else min(most, 1)
        return most

    # ---------------------------------------------------------------- what comes in

    def _fresh(self, names: Sequence[Wanted]) -> tuple[list[AnyValue], list[nodes.Tensor]]:
        """New values for the loop variables, and all tensors that hold them."""
        values: list[AnyValue] = []
        held: list[nodes.Tensor] = []
        for old, name in zip(self.loop.initial, names, strict=True):
            if isinstance(old, OpenPack):
                value, tensors = old.fresh(self.builder, name)
                values.append(value)
                held += tensors
            else:
                values.append(self._like(old, name))
                held += tensors_of(values[-1])
        return values, held

    def _held(self, values: Sequence[AnyValue]) -> list[nodes.Tensor]:
        """All tensors that hold values of the loop variables."""
        held: list[nodes.Tensor] = []
        for old, value in zip(self.loop.initial, values, strict=True):
            if isinstance(old, OpenPack) and isinstance(value, tuple | DynamicPack):
                held += old.tensors(self.builder, value)
            else:
                held += tensors_of(value)
        return held

    def _like(self, value: Value, names: Wanted) -> Value:
        """New tensors of the types and shapes of others."""
        span = self.loop.node.span
        if isinstance(value, tuple):
            return tuple(
                [
                    self.builder.tensor(item_name(names, k), t.dtype, t.shape, span)
                    for k, t in enumerate(tensors_of(value))
                ]
            )
        (tensor,) = tensors_of(value)
        return self.builder.tensor(single_name(names), tensor.dtype, tensor.shape, span)

    def _scanned(self, scan: Scan) -> nodes.Tensor:
        """What stands for the current item in the body."""
        span = scan.node.span
        pack = tuple([self.builder.scalar(item, scan.node.pack.span) for item in scan.items])
        first = pack[0]
        for other in pack[1:]:
            if other.rank != first.rank:
                raise fail(
                    "E0608",
                    "the tensors that a loop scans must have the same number of dimensions",
                    span,
                    f"{describe(first)} and {describe(other)}",
                )
        columns = zip(*(t.shape for t in pack), strict=True)
        shape = tuple([self._extent(span, list(column)) for column in columns])
        item = self.builder.tensor(None, first.dtype, shape, span)
        self.scans.append((item, pack))
        return item

    def _extent(self, span: Span, column: list[nodes.Expr]) -> nodes.Expr:
        """The extent of all items; a size that each step defines anew where they differ."""
        if all(e is column[0] or shapes.equal(e, column[0]) for e in column):
            return column[0]
        builder = self.builder
        symbol = builder.symbol(None, builder.bound(column), span)
        size = builder.tensor(None, DType.INT, (), span)
        self.scans.append((size, tuple([builder.scalar(from_expr(e), span) for e in column])))
        builder.sizes.append((symbol, size))
        self.extents[symbol] = column
        return symbol

    def _index(self, inner: Body) -> nodes.Tensor | None:
        """The number of the current step, where the loop has a name for it."""
        node = self.loop.node
        if node.count is None or node.count.index is None:
            return None
        index = self.builder.tensor(None, DType.INT, (), node.span)
        inner.evaluator.values[node.count.index] = index
        return index

    # -------------------------------------------------------------- what is collected

    def _collect(
        self, results: Results, inside: set[nodes.Symbol], most: int | None
    ) -> list[tuple[nodes.Tensor, ...]]:
        """The packs of the results of each step."""
        node = self.loop.node
        if results and most is None:
            raise fail(
                "E0608",
                "only a loop over a pack, or with a bounded count, collects results",
                node.span,
            )
        if results:
            check_number(most or 0, node.span)
        names = self.wanted[len(self.loop.initial) :]
        packs = []
        for position, value in enumerate(results):
            (tensor,) = tensors_of(value)
            name = names[position] if position < len(names) else None
            items = tuple(
                [
                    self.builder.tensor(item_name(name, k), tensor.dtype, shape, node.span)
                    for k, shape in enumerate(self._item_shapes(tensor, inside, most or 0))
                ]
            )
            self.results.append(tensor)
            self.collected.append(items)
            packs.append(items)
        return packs

    def _item_shapes(
        self, tensor: nodes.Tensor, inside: set[nodes.Symbol], most: int
    ) -> list[tuple[nodes.Expr, ...]]:
        """The shape of what each step gives, in sizes that are known outside."""
        columns = [self._item_extents(e, inside, most) for e in tensor.shape]
        return [tuple([column[k] for column in columns]) for k in range(most)]

    def _item_extents(
        self, extent: nodes.Expr, inside: set[nodes.Symbol], most: int
    ) -> list[nodes.Expr]:
        symbols = [x for x in rewrite.free_symbols(extent) if x in inside]
        if not symbols:
            return [extent] * most
        if all(x in self.extents for x in symbols):
            return [self._extent_of_item(extent, symbols, k) for k in range(most)]
        return self._collected_extents(extent, most)

    def _extent_of_item(
        self, extent: nodes.Expr, symbols: list[nodes.Symbol], position: int
    ) -> nodes.Expr:
        """An extent that the sizes of the current item decide, for one of the items."""
        row: dict[rewrite.Replaceable, nodes.Expr | nodes.Tensor] = {
            x: self.extents[x][position] for x in symbols
        }
        return shapes.simplify(rewrite.substitute(extent, row))

    def _collected_extents(self, extent: nodes.Expr, most: int) -> list[nodes.Expr]:
        """Sizes that only the steps know are collected, too."""
        builder, span = self.builder, self.loop.node.span
        self.results.append(builder.scalar(from_expr(extent), span))
        bound = builder.bound([extent])
        extents: list[nodes.Expr] = []
        items = []
        for _ in range(most):
            size = builder.tensor(None, DType.INT, (), span)
            symbol = builder.symbol(None, bound, span)
            builder.sizes.append((symbol, size))
            extents.append(symbol)
            items.append(size)
        self.collected.append(tuple(items))
        return extents

    # ------------------------------------------------------------------- the loop

    def _finish(
        self,
        variables: list[nodes.Tensor],
        new: list[nodes.Tensor],
        index: nodes.Tensor | None,
        condition: Condition,
        packs: list[tuple[nodes.Tensor, ...]],
    ) -> Results:
        builder, node, loop = self.builder, self.loop.node, self.loop
        names = (*self.wanted, *(None for _ in loop.initial))[: len(loop.initial)]
        initial = self._held([v.value if isinstance(v, OpenPack) else v for v in loop.initial])
        finals, held = self._fresh(names)
        region = condition if isinstance(condition, nodes.Region) else None
        limit = self._limit(condition)
        counts = bool(packs) and region is not None
        step = nodes.Loop(
            tuple(held),
            tuple(self.collected),
            tuple(variables),
            tuple(initial),
            tuple(self.scans),
            nodes.Region(tuple(self.part.steps), (*new, *self.results)),
            limit,
            index,
            region,
            node.pretest,
            builder.tensor(None, DType.INT, (), node.span) if counts else None,
            span=node.span,
        )
        builder.add(carry_updates(builder, self.part, step))
        if step.steps is not None:
            limit = self._count_steps(step.steps)
        return (*finals, *(_pack(pack, limit) for pack in packs))

    def _limit(self, condition: Condition) -> nodes.Expr | None:
        """The count; a condition that never holds after the body allows one step."""
        count = self.loop.count
        if condition is not False:
            return count
        return nodes.ONE if count is None else shapes.minimum(count, nodes.ONE)

    def _count_steps(self, steps: nodes.Tensor) -> nodes.Symbol:
        """How many items the packs have of a loop that a condition ends."""
        bound = None if self.loop.most is None else nodes.integer(self.loop.most)
        symbol = self.builder.symbol("steps", bound, self.loop.node.span)
        self.builder.sizes.append((symbol, steps))
        return symbol


def _pack(items: tuple[nodes.Tensor, ...], length: nodes.Expr | None) -> AnyValue:
    """What is collected: so many items as there are steps."""
    assert length is not None
    known = shapes.as_int(length)
    return DynamicPack(items, length) if known is None else items[:known]
