"""What the steps of a loop compute from their items alone, done for all items at once.

Requires: a specialised graph, `hoist` done. Ensures: where a loop makes a known number of steps,
and products in its body read, apart from the step's items, only what no step changes, these
products stand in front of the loop, with one more index, the step, and so does what else depends
on items alone; the loop scans their results. Does not: touch loops that data may end, whose later
items may be none of its business.

Example: `h = f(W x_i + R h)` becomes `y[i] = W x_i` for all `i`, one product that reads W once,
and a loop over `f(y_i + R h)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..ir import shapes
from ..ir.nodes import (
    Access,
    Assignment,
    Branch,
    Const,
    Expr,
    Graph,
    Index,
    Loop,
    Operation,
    Region,
    Step,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import (
    Replaceable,
    accesses,
    all_steps,
    expressions,
    free_indices,
    loop_results,
    map_assignment,
    substitute,
    tensors_read,
)
from ..records import dataclass, replace
from .kernels import may_fail

MOST_BYTES = 256 << 20
"""Of all results of a loop's steps that are computed ahead."""

_Made = Mapping[Tensor, Assignment]
"""The only assignment to a tensor, of an operation that does nothing else to it."""


def separate_scans(graph: Graph) -> Graph:
    """The graph with such products ahead of their loops."""
    if not any(isinstance(s, Loop) for s in all_steps(graph.operations)):
        return graph
    defining = {t for _, t in graph.sizes}
    return replace(graph, operations=_steps(graph.operations, defining, {}))


def _steps(steps: Iterable[Step], defining: set[Tensor], made: _Made) -> tuple[Step, ...]:
    out: list[Step] = []
    known = dict(made)
    for step in steps:
        match step:
            case Operation():
                known |= _assignments(step)
                out.append(step)
            case Branch():
                branches = tuple(_region(r, defining, known) for r in step.branches)
                out.append(replace(step, branches=branches))
            case Loop():
                body = _region(step.body, defining, known)
                out += _Separation(replace(step, body=body), defining, known).steps()
    return tuple(out)


def _region(region: Region, defining: set[Tensor], made: _Made) -> Region:
    return Region(_steps(region.operations, defining, made), region.results)


def _assignments(operation: Operation) -> Iterator[tuple[Tensor, Assignment]]:
    found: dict[Tensor, list[Assignment]] = {}
    for a in operation.body:
        for target in a.targets:
            found.setdefault(target.tensor, []).append(a)
    return ((t, every[0]) for t, every in found.items() if len(every) == 1)


@dataclass(slots=True)
class _Separation:
    """One loop taken apart."""

    loop: Loop
    defining: set[Tensor]
    made: _Made
    count: int = 0
    whole: dict[Tensor, Tensor] = field(default_factory=dict)
    """For a tensor of a step, the tensor of all steps, which has one more dimension in front."""
    ahead: list[Operation] = field(default_factory=list)

    def steps(self) -> list[Step]:
        """What stands ahead of the loop, and the loop."""
        self.count = _count(self.loop)
        taken = self._separable() if self.count > 1 else []
        if not any(self._reads_again(o) for o in taken) or self._bytes(taken) > MOST_BYTES:
            return [self.loop]
        for item, pack in self.loop.scans:
            if any(item in _read(o) for o in taken):
                self._put_together(item, pack[: self.count])
        self.ahead += [self._for_all(o) for o in taken]
        return [*self.ahead, *self._rest(taken)]

    def _separable(self) -> list[Operation]:
        """The operations of the body that depend on items alone."""
        items = {item for item, _ in self.loop.scans}
        changing = {*self.loop.variables, *([self.loop.index] if self.loop.index else [])}
        taken: list[Operation] = []
        for step in self.loop.body.operations:
            if isinstance(step, Operation) and self._is_plain(step):
                if changing.isdisjoint(_read(step)):
                    taken.append(step)
                    continue
            changing.update(loop_results(step) if isinstance(step, Loop) else step.outputs)
        needed = set(items)
        for operation in taken:  # the others do not change from step to step
            if not needed.isdisjoint(_read(operation)):
                needed.update(operation.outputs)
        return [o for o in taken if not needed.isdisjoint(o.outputs)]

    def _is_plain(self, operation: Operation) -> bool:
        """Whether sizes are numbers, none is defined, and nothing can go wrong."""
        if any(t in self.defining for t in operation.outputs):
            return False
        extents = [e for t in operation.outputs for e in t.shape]
        extents += [i.extent for a in operation.body for i in a.domain]
        if any(shapes.as_int(e) is None for e in extents):
            return False
        return not any(may_fail(e) for a in operation.body for e in expressions(a))

    def _reads_again(self, operation: Operation) -> bool:
        """Whether an operation sums up products with what is the same at every step."""
        own = {*(item for item, _ in self.loop.scans), *self._outputs()}
        return any(
            a.op == "add" and _is_reduced(a, access)
            for a in operation.body
            for access in accesses(*a.values)
            if access.tensor not in own
        )

    def _outputs(self) -> Iterator[Tensor]:
        for step in self.loop.body.operations:
            yield from loop_results(step) if isinstance(step, Loop) else step.outputs

    def _bytes(self, operations: Sequence[Operation]) -> int:
        each = (
            math.prod(shapes.as_int(e) or 0 for e in t.shape) * t.dtype.numpy().itemsize
            for o in operations
            for t in o.outputs
        )
        return self.count * sum(each)

    # ---------------------------------------------------------------- all at once

    def _put_together(self, item: Tensor, pack: Sequence[Tensor]) -> None:
        """One tensor of all items."""
        whole = self._tensor(item)
        body = _as_slices(whole, pack, self.made)
        if body is None:
            body = tuple(_copy(whole, k, t, True) for k, t in enumerate(pack))
        self.ahead.append(Operation("stack", (whole,), body, tuple(pack)))

    def _tensor(self, tensor: Tensor) -> Tensor:
        shape = (integer(self.count), *tensor.shape)
        self.whole[tensor] = Tensor(tensor.name, tensor.dtype, shape, None, tensor.span)
        return self.whole[tensor]

    def _for_all(self, operation: Operation) -> Operation:
        outputs = tuple(map(self._tensor, operation.outputs))
        body = tuple(self._assignment(a) for a in operation.body)
        inputs = tuple(self.whole.get(t, t) for t in operation.inputs)
        return replace(operation, outputs=outputs, body=body, inputs=inputs)

    def _assignment(self, a: Assignment) -> Assignment:
        step = Index("step", integer(self.count))

        def node(expr: Expr) -> Expr:
            if not isinstance(expr, Access) or expr.tensor not in self.whole:
                return expr
            subscripts = (Subscript(step), *expr.subscripts)
            return replace(expr, tensor=self.whole[expr.tensor], subscripts=subscripts)

        return replace(map_assignment(a, node), domain=(step, *a.domain))

    # --------------------------------------------------------------------- the loop

    def _rest(self, taken: Sequence[Operation]) -> Iterator[Step]:
        """The results of the steps as packs, and the loop that scans them."""
        gone = set(map(id, taken))
        left = tuple(s for s in self.loop.body.operations if id(s) not in gone)
        body = replace(self.loop.body, operations=left)
        needed = _tensors_of(body)
        scans = [(item, pack) for item, pack in self.loop.scans if item in needed]
        for tensor in (t for o in taken for t in o.outputs if t in needed):
            pack = tuple(replace(tensor) for _ in range(self.count))
            whole = self.whole[tensor]
            copies = tuple(_copy(whole, k, t, False) for k, t in enumerate(pack))
            yield Operation("unstack", pack, copies, (whole,))
            scans.append((tensor, pack))
        count = self.loop.count if scans else integer(self.count)
        yield replace(self.loop, body=body, scans=tuple(scans), count=count)


def _count(loop: Loop) -> int:
    """How many steps a loop makes; 0 if that is not known."""
    lengths = [len(pack) for _, pack in loop.scans]
    if loop.condition is not None or not lengths or isinstance(loop.count, Tensor):
        return 0
    if loop.count is not None:
        if not isinstance(loop.count, Const):
            return 0
        lengths.append(max(int(loop.count.value), 0))
    return min(lengths)


def _read(operation: Operation) -> set[Tensor]:
    return {t for a in operation.body for t in tensors_read(a)} - set(operation.outputs)


def _tensors_of(region: Region) -> set[Tensor]:
    """What a region reads, and more."""
    found = set(region.results)
    for step in all_steps(region.operations):
        match step:
            case Operation():
                found |= _read(step)
            case Branch():
                for part in (*step.conditions, *step.branches):
                    found.update(part.results)
            case Loop():
                found.update((*step.initial, *(t for _, pack in step.scans for t in pack)))
                found.update(step.body.results)
                found.update(step.condition.results if step.condition else ())
                found.update([step.count] if isinstance(step.count, Tensor) else [])
    return found


def _is_reduced(a: Assignment, access: Access) -> bool:
    """Whether an assignment sums over an index of an access."""
    kept = set(free_indices(*(s.index for t in a.targets for s in t.subscripts)))
    return any(i in a.domain and i not in kept for i in free_indices(access))


def _copy(whole: Tensor, number: int, part: Tensor, into_whole: bool) -> Assignment:
    """Copies a tensor to or from its place in that of all steps."""
    domain = tuple(Index(f"i{d}", e) for d, e in enumerate(part.shape))
    plain = tuple(map(Subscript, domain))
    here = Access(whole, (Subscript(integer(number)), *plain))
    there = Access(part, plain)
    target, value = (here, there) if into_whole else (there, here)
    return Assignment((target,), "set", (value,), domain)


def _as_slices(whole: Tensor, pack: Sequence[Tensor], made: _Made) -> tuple[Assignment, ...] | None:
    """The tensor of all items as one assignment, if they are slices at equal distances."""
    step = Index("step", integer(len(pack)))
    domain = tuple(Index(f"i{d}", e) for d, e in enumerate(whole.shape[1:]))
    slices = [_slice(t, domain, made) for t in pack]
    first, second = slices[0], slices[1]
    if first is None or second is None:
        return None
    distances = [_distance(a, b) for a, b in zip(first.subscripts, second.subscripts, strict=True)]
    for number, part in enumerate(slices):
        if part is None or part.tensor is not first.tensor:
            return None
        pairs = zip(first.subscripts, part.subscripts, distances, strict=True)
        if any(d is None or _distance(a, b) != number * d for a, b, d in pairs):
            return None
    subscripts = tuple(
        Subscript(shapes.simplify(shapes.add(s.index, shapes.mul(step, integer(d or 0)))))
        for s, d in zip(first.subscripts, distances, strict=True)
    )
    target = Access(whole, (Subscript(step), *map(Subscript, domain)))
    value = replace(first, subscripts=subscripts)
    return (Assignment((target,), "set", (value,), (step, *domain)),)


def _slice(tensor: Tensor, domain: Sequence[Index], made: _Made) -> Access | None:
    """The element of another tensor of which an element is a copy."""
    a = made.get(tensor)
    if a is None or a.op != "set" or len(a.targets) != 1 or a.condition is not None or a.locals:
        return None
    (target,), (value,) = a.targets, a.values
    if not isinstance(value, Access) or any(s.rule for s in value.subscripts) or may_fail(value):
        return None
    places: dict[Replaceable, Expr | Tensor] = {}
    for s, extent, index in zip(target.subscripts, tensor.shape, domain, strict=True):
        if isinstance(s.index, Index) and s.rule is None and s.index not in places:
            if shapes.equal(s.index.extent, extent):
                places[s.index] = index
                continue
        if shapes.as_int(extent) != 1 or shapes.as_int(s.index) != 0:
            return None
    moved = substitute(value, places)
    if not isinstance(moved, Access) or any(i not in domain for i in free_indices(moved)):
        return None
    return moved


def _distance(a: Subscript, b: Subscript) -> int | None:
    """The second subscript minus the first."""
    return shapes.as_int(shapes.simplify(shapes.sub(b.index, a.index)))
