"""Control flow and sizes as blocks of kernels: from steps of a graph to actions.

Requires: a specialised graph, pruned. Ensures: kernels in an order that can be run, with jumps
between them; a branch copies the results of the arm that runs to its outputs, a loop
those of each step to its variables; a size that data defines is set whenever its tensor
is. Does not: optimise across the borders of a block.

Operations between two control structures are a *run*: kernels are made of it and fused as if it
were a graph, whose results are the tensors that anything later reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field

from ..dtypes import DType
from ..ir import shapes
from ..ir.loops import Action, Block, Choose, Kernel, Point, Repeat
from ..ir.nodes import (
    ONE,
    TRUE,
    ZERO,
    Access,
    Assignment,
    Binary,
    Branch,
    Cast,
    Expr,
    Graph,
    Index,
    Loop,
    Operation,
    Port,
    Region,
    Step,
    Subscript,
    Symbol,
    Tensor,
    Unary,
)
from ..ir.rewrite import all_steps, free_symbols, loop_results, step_tensors, tensors_read
from ..records import dataclass, replace
from .columns import with_copies
from .control_state import LoopState, assign, store
from .deviations import split_deviations
from .fuse import fuse
from .groups import group_kernels
from .in_place import keep_place
from .integral import keep_integers
from .kernels import make_kernels
from .machine import UNKNOWN, Machine
from .maps import join_maps
from .margins import split_margins
from .partial import split_long, split_tall
from .parts import Parts
from .places import Places
from .product_parts import split_products
from .prune import remove_dead
from .recompute import compute_again
from .residues import by_residues
from .siblings import merge_siblings
from .turns import join_turns
from .views import Views, count_of, find_views, root_of
from .weights import tabulate
from .windows import separate_windows


@dataclass(frozen=True, slots=True, eq=False)
class _Control:
    """A part of a block that is no operation: the tensors that it reads, and how it is made."""

    reads: frozenset[Tensor]
    make: Callable[[], list[Action]]


_Item = Operation | _Control


@dataclass(slots=True)
class Lowered:
    """The actions of a graph, and what else became of its tensors."""

    actions: Block
    places: Places
    """Where views begin in the tensors whose bytes they have."""
    cells: dict[Tensor, int]
    """Tensors that are cells of the kind `size`."""
    pointers: dict[Tensor, int]
    changing: set[Tensor]
    """Tensors that several kernels write, in branches and loops."""

    @property
    def views(self) -> Views:
        return self.places.views


def lower_control(
    graph: Graph,
    conditions: Sequence[Expr] = (),
    strided: Collection[Tensor] = (),
    machine: Machine = UNKNOWN,
) -> Lowered:
    """The actions of all steps of a graph.

    `conditions` over its symbols are tested whenever a size that occurs in one is set; inputs in
    `strided` are not row-major. `machine` is what kernels are for.
    """
    run = _Lowerer(graph, conditions, strided, machine)
    outputs = {t for p in graph.outputs for t in p.tensors}
    start = [run.set_size(t) for t in run.outside_sizes()]
    actions = run.block(graph.operations, outputs, start)
    places = Places(run.views, run.offsets, run.parts.apart)
    return Lowered(tuple(actions), places, run.cells, run.pointers, run.changing)


@dataclass(slots=True)
class _Lowerer:
    graph: Graph
    conditions: Sequence[Expr]
    strided: Collection[Tensor]
    machine: Machine
    views: Views = field(default_factory=dict)
    offsets: dict[Tensor, int] = field(default_factory=dict)
    cells: dict[Tensor, int] = field(default_factory=dict)
    pointers: dict[Tensor, int] = field(default_factory=dict)
    changing: set[Tensor] = field(default_factory=set)
    defining: dict[Tensor, list[int]] = field(default_factory=dict)
    """The numbers of the sizes that a tensor defines."""
    parts: Parts = field(init=False)

    def __post_init__(self) -> None:
        for number, (_, tensor) in enumerate(self.graph.sizes):
            self.defining.setdefault(tensor, []).append(number)
        outputs = frozenset(t for p in self.graph.outputs for t in p.tensors)
        closed = not self.graph.symbols and not self.graph.sizes
        self.parts = Parts(
            self.views, self.offsets, outputs, self.changing, self.pointers, self.strided, closed
        )

    def outside_sizes(self) -> list[Tensor]:
        """The tensors that define sizes and are there when a call begins."""
        given = {t for p in self.graph.inputs for t in p.tensors}
        given |= {*self.graph.variables, *self.graph.constants}
        return [t for t in self.defining if t in given]

    # ------------------------------------------------------------------ blocks

    def block(
        self, steps: Iterable[Step], live: set[Tensor], start: Sequence[_Item] = ()
    ) -> list[Action]:
        """The actions of steps after which the tensors `live` are read."""
        items: list[_Item] = list(start)
        for step in steps:
            match step:
                case Operation():
                    items.append(step)
                    items += self._sizes_of(step.outputs)
                case Branch():
                    items += self._branch(step)
                case Loop():
                    items += self._loop(step)
        return self.items(items, live)

    def items(self, items: Sequence[_Item], live: set[Tensor]) -> list[Action]:
        """The actions of operations in runs, and of what stands between them."""
        parts: list[tuple[list[Operation], _Control | None, set[Tensor]]] = []
        needed = set(live)
        operations: list[Operation] = []
        control: _Control | None = None
        for item in reversed(items):
            if isinstance(item, Operation):
                operations.append(item)
                continue
            parts.append((operations[::-1], control, set(needed)))
            for operation in operations:
                needed.update(_reads(operation))
            needed |= item.reads
            operations, control = [], item
        parts.append((operations[::-1], control, needed))
        actions: list[Action] = []
        for run, following, after in reversed(parts):
            actions += self.run(run, after)
            if following is not None:
                actions += following.make()
        return actions

    def run(self, operations: Sequence[Operation], live: set[Tensor]) -> list[Kernel]:
        """The kernels of operations in a row."""
        if not operations:
            return []
        made = [t for o in operations for t in o.outputs]
        results = tuple(t for t in made if t in live or self._stands_for(t, live))
        read = dict.fromkeys(t for o in operations for t in _reads(o))
        own = set(made)
        outside = tuple(t for t in read if t not in own)
        graph = replace(
            self.graph,
            inputs=(Port("outside", outside, True),),
            outputs=(Port("results", results, True),),
            operations=tuple(operations),
            variables=(),
            constants=(),
        )
        kernels, split = make_kernels(graph)
        kernels, split = keep_integers(kernels, results, split, self.machine.factors)
        kernels, views = find_views(kernels, graph, split, self.strided)
        kernels = fuse(kernels, results, views)
        kernels = remove_dead(kernels, results, views)
        constant = {*self.graph.variables, *self.graph.constants}
        kernels = join_turns(merge_siblings(kernels, views, constant), views)
        kernels = tabulate(separate_windows(kernels))
        kernels = by_residues(kernels, constant if self.machine.fewer else (), views)
        keeps = self.machine.keeps
        kernels = split_margins(kernels, keeps and (lambda kernel: keeps(kernel, constant)))
        kernels = split_long(kernels)
        kernels = split_products(kernels, constant, views)
        self.views |= views
        kernels = split_tall(split_deviations(self.parts.find(kernels, results), self.views))
        kernels = join_maps(kernels, self.views, constant, results)
        bound = {*self.strided, *self.parts.apart, *self.pointers, *self.changing}
        kernels = group_kernels(kernels, self.views, constant, results, bound, self.machine)
        kernels = compute_again(kernels, self.views, results)
        return with_copies(kernels, self.views) if self.machine.clashes else kernels

    def _stands_for(self, tensor: Tensor, live: set[Tensor]) -> bool:
        """Whether a tensor has the bytes of one of these."""
        while tensor in self.views:
            tensor = self.views[tensor]
            if tensor in live:
                return True
        return False

    # ------------------------------------------------------------------- sizes

    def _sizes_of(self, tensors: Iterable[Tensor]) -> list[_Control]:
        return [self.set_size(t) for t in tensors if t in self.defining]

    def set_size(self, tensor: Tensor) -> _Control:
        """Set the sizes that a tensor defines, now that it has a value."""

        def make() -> list[Action]:
            out: list[Action] = []
            for number in self.defining[tensor]:
                symbol = self.graph.sizes[number][0]
                wanted: Expr = Cast(DType.INT, Access(tensor, ()))
                bound = symbol.bound
                least = wanted if bound is None else Binary("min", wanted, bound)
                within = Binary("max", ZERO, least)
                defined, first = len(self.graph.sizes), len(self.graph.symbols)
                out.append(self._set_cell(symbol.name, first + number, within))
                out.append(self._set_cell(symbol.name, first + defined + number, wanted))
                out += self._tests(symbol)
            return out

        return _Control(frozenset((tensor,)), make)

    def _set_cell(self, name: str, number: int, value: Expr) -> Kernel:
        cell = Tensor(name, DType.INT64, ())
        self.cells[cell] = number
        return store(f"size {name}", cell, value)

    def _tests(self, symbol: Symbol) -> list[Kernel]:
        """Set the cell of each condition on a size that does not hold, if all others are known."""
        numbers = {s: n for n, (s, _) in enumerate(self.graph.sizes)}
        defined, first = len(self.graph.sizes), len(self.graph.symbols)
        out: list[Kernel] = []
        for position, condition in enumerate(self.conditions):
            symbols = free_symbols(condition)
            if symbol not in symbols:
                continue
            bad: Expr = Unary("not", condition)
            for other in symbols:
                if other in numbers and other is not symbol:
                    cell = Tensor(other.name, DType.INT64, ())
                    self.cells[cell] = first + defined + numbers[other]
                    is_set = Binary("ge", Cast(DType.INT, Access(cell, ())), ZERO)
                    bad = Binary("and", is_set, bad)
            result = Tensor("check", DType.INT64, ())
            self.cells[result] = first + 2 * defined + position
            before = Cast(DType.INT, Access(result, ()))
            out.append(store("check", result, Binary("max", before, Cast(DType.INT, bad))))
        return out

    # ---------------------------------------------------------------- branches

    def _branch(self, branch: Branch) -> list[_Item]:
        reads = _reads_of_regions((*branch.conditions, *branch.branches))
        self.changing.update(branch.outputs)
        items: list[_Item] = [_Control(reads, lambda: self._choose(branch, 0))]
        return items + self._sizes_of(branch.outputs)

    def _choose(self, branch: Branch, number: int) -> list[Action]:
        """The branches from one on."""
        arm = self._arm(branch.branches[number], branch.outputs)
        if number == len(branch.conditions):
            return arm
        condition = branch.conditions[number]
        (test,) = condition.results
        actions = self.block(condition.operations, {test})
        rest = self._choose(branch, number + 1)
        return [*actions, Choose(test, tuple(arm), tuple(rest))]

    def _arm(self, region: Region, outputs: Sequence[Tensor]) -> list[Action]:
        copies = [self._copy(o, r) for o, r in zip(outputs, region.results, strict=True)]
        live = {c.outputs[0] for c in copies}
        return self.block((*region.operations, *copies), live)

    def _copy(self, target: Tensor, source: Tensor) -> Operation:
        """An operation that copies a tensor; the target may be declared with another shape."""
        if not _same_shape(target, source):
            alias = replace(target, shape=source.shape, data=None)
            self.views[alias] = target
            target = alias
        domain = tuple(Index(f"i{d}", e) for d, e in enumerate(source.shape))
        subscripts = tuple(Subscript(i) for i in domain)
        written, read = Access(target, subscripts), Access(source, subscripts)
        body = Assignment((written,), "set", (read,), domain)
        return Operation("=", (target,), (body,), (source,), (), source.span)

    # ------------------------------------------------------------------- loops

    def _loop(self, loop: Loop) -> list[_Item]:
        state = LoopState(loop)
        for variable, output in zip(loop.variables, loop.outputs, strict=True):
            if _same_shape(variable, output):
                self.views[variable] = output
            self.changing |= {variable, output}
        self.changing |= {state.counter, state.test, state.again, *_packed(loop)}
        self.parts.movable.update(_packed(loop))
        before: list[_Item] = [
            *(self._copy(v, i) for v, i in zip(loop.variables, loop.initial, strict=True)),
            assign(state.counter, ZERO),
        ]
        if state.limit is not None:
            before.append(assign(state.limit, state.steps_allowed()))
        if loop.condition is not None and not loop.pretest:
            before.append(assign(state.again, TRUE))
        if not state.is_exact:
            before += [Operation("zero", (t,), ()) for t in _packed(loop)]
        regions = [loop.body] if loop.condition is None else [loop.body, loop.condition]
        reads = {*_reads_of_regions(regions), *(t for _, pack in loop.scans for t in pack)}
        reads |= {state.counter, state.again, *loop.variables, *_packed(loop)}
        reads |= set() if state.limit is None else {state.limit}
        control = _Control(frozenset(reads), lambda: self._repeat(loop, state))
        moved = [
            self._copy(o, v)
            for o, v in zip(loop.outputs, loop.variables, strict=True)
            if v not in self.views
        ]
        after: list[_Item] = [*(self._sizes_of(loop.variables) if moved else []), *moved]
        if loop.steps is not None:
            after.append(assign(loop.steps, Access(state.counter, ())))
        results = (*loop.outputs, *_packed(loop), *([loop.steps] if loop.steps else []))
        return [*before, control, *after, *self._sizes_of(results)]

    def _repeat(self, loop: Loop, state: LoopState) -> list[Action]:
        """Test, body, and the variables of the next step."""
        go = [assign(state.test, state.goes_on())]
        before: list[Action] = [*self.run(go, {state.test})]
        body: list[Action] = []
        entered = before if loop.condition is not None and loop.pretest else body
        entry = self._enter(loop, state)
        if entered is before:
            assert loop.condition is not None
            entry += self._test(loop.condition, state.test)
            before.append(Choose(state.test, tuple(entry), ()))
        else:
            body += entry
        body += self._body(loop, state)
        if loop.condition is not None and not loop.pretest:
            body += self._sizes_now(loop.variables)
            body += self._test(loop.condition, state.again)
        counted = Binary("add", Cast(DType.INT, Access(state.counter, ())), ONE)
        body.append(store("step", state.counter, counted))
        return [Repeat(tuple(before), state.test, tuple(body))]

    def _test(self, condition: Region, target: Tensor) -> list[Action]:
        (result,) = condition.results
        copy = self._copy(target, result)
        return self.block((*condition.operations, copy), {target})

    def _enter(self, loop: Loop, state: LoopState) -> list[Action]:
        """The items, index and sizes of a step."""
        actions: list[Action] = []
        for item, pack in loop.scans:
            actions.append(self._point(item, pack, state.counter))
        if loop.index is not None:
            index = assign(loop.index, Access(state.counter, ()))
            actions += self.run([index], {loop.index})
        given = [item for item, _ in loop.scans]
        given += [*loop.variables, *([loop.index] if loop.index else [])]
        return actions + self._sizes_now(given)

    def _sizes_now(self, tensors: Iterable[Tensor]) -> list[Action]:
        return [a for control in self._sizes_of(tensors) for a in control.make()]

    def _point(self, item: Tensor, pack: tuple[Tensor, ...], counter: Tensor) -> Point:
        self.pointers[item] = len(self.pointers)
        return Point(item, pack, counter)

    def _body(self, loop: Loop, state: LoopState) -> list[Action]:
        n = len(loop.variables)
        results = loop.body.results
        actions: list[Action] = []
        copies: list[Operation] = []
        for pack, result in zip(loop.collected, results[n:], strict=True):
            if pack:
                place = replace(pack[0], shape=result.shape, data=None)
                actions.append(self._point(place, pack, state.counter))
                copies.append(self._copy(place, result))
        live = {*results[:n], *(c.outputs[0] for c in copies)}
        actions += self.block((*loop.body.operations, *copies), live)
        actions = self._in_place(actions, loop)
        return actions + self._advance(loop.variables, results[:n])

    def _in_place(self, actions: list[Action], loop: Loop) -> list[Action]:
        """The actions of a step with new variables in the bytes of the old ones, where they can."""
        results = loop.body.results[: len(loop.variables)]
        given = _reads_of_regions((loop.body,)) - _made_in(loop.body)
        for variable, result in zip(loop.variables, results, strict=True):
            made = root_of(result, self.views)
            taken = {root_of(t, self.views) for t in (*loop.variables, *given)}
            needed = {root_of(t, self.views) for t in results}
            if root_of(variable, self.views) in needed or made in taken or made in self.pointers:
                continue  # what is given may be a part of what is made
            actions = keep_place(actions, variable, result, self.views) or actions
        return actions

    def _advance(self, variables: Sequence[Tensor], results: Sequence[Tensor]) -> list[Action]:
        """Copy results to the variables of the next step; through copies where they are others."""
        roots = {root_of(v, self.views) for v in variables}
        first: list[Operation] = []
        second: list[Operation] = []
        for variable, result in zip(variables, results, strict=True):
            root = root_of(result, self.views)
            if root is root_of(variable, self.views) and self._is_all(result):
                continue
            if root in roots:
                saved = replace(result, data=None)
                self.changing.add(saved)
                first.append(self._copy(saved, result))
                result = saved
            second.append(self._copy(variable, result))
        self.changing.update(o.outputs[0] for o in second)
        saved_all = {o.outputs[0] for o in first}
        moved = {o.outputs[0] for o in second}
        return [*self.run(first, saved_all), *(k for o in second for k in self.run([o], moved))]

    def _is_all(self, tensor: Tensor) -> bool:
        """Whether a tensor is all of the one whose bytes it has."""
        whole = root_of(tensor, self.views)
        return shapes.equal(count_of(tensor), count_of(whole))


def _packed(loop: Loop) -> list[Tensor]:
    return [t for pack in loop.collected for t in pack]


def _reads(operation: Operation) -> list[Tensor]:
    found = [t for a in operation.body for t in tensors_read(a)]
    return [t for t in dict.fromkeys(found) if t not in operation.outputs]


def _reads_of_regions(regions: Iterable[Region]) -> frozenset[Tensor]:
    """The tensors that regions name other than to write them."""
    found: set[Tensor] = set()
    for region in regions:
        found.update(region.results)
        for step in region.operations:
            match step:
                case Operation():
                    found.update(_reads(step))
                case Branch():
                    found |= _reads_of_regions((*step.conditions, *step.branches))
                case Loop():
                    found |= _reads_of_regions((step.body,))
                    found |= _reads_of_regions((step.condition,) if step.condition else ())
                    found.update((*step.initial, *(t for _, pack in step.scans for t in pack)))
                    found.update([step.count] if isinstance(step.count, Tensor) else [])
    return frozenset(found)


def _made_in(region: Region) -> set[Tensor]:
    """The tensors that the steps of a region make, and those in them."""
    made: set[Tensor] = set()
    for step in all_steps(region.operations):
        if isinstance(step, Loop):
            made.update((*loop_results(step), *step_tensors(step)))
        else:
            made.update(step.outputs)
    return made


def _same_shape(a: Tensor, b: Tensor) -> bool:
    return all(shapes.equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))
