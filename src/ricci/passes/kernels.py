"""Kernels from assignments.

Requires: a specialised graph. Ensures: a list of kernels in an order that can be run; every tensor
that they write is written in full, elements that no assignment writes being zero.
Does not: fuse operations with each other (see `fuse`).

An assignment whose targets are addressed by plain indices is a `Reduce`; an initialising `=`
before a reduction of the same target becomes its initial value. `y[s*i + d*j - o] += ...` is
turned round: for each element of y, the terms that reach it. What remains is a `Scatter`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import cast

from ..dtypes import NARROW, DType
from ..ir import shapes
from ..ir.chains import Chain, chain_of
from ..ir.loops import Fill, Group, Kernel, Reduce, Scatter
from ..ir.nodes import (
    ONE,
    ZERO,
    Access,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Operation,
    Subscript,
    Tensor,
)
from ..ir.rewrite import (
    Replaceable,
    accesses,
    children,
    expressions,
    free_indices,
    has_guard,
    is_division,
    map_assignment,
    nodes_through_locals,
    rebuild,
    substitute,
    substitute_assignment,
    used_locals,
    walk,
)
from ..records import dataclass, replace
from .boxes import are_all
from .folds import fold_of, is_fold
from .phases import are_all_phases, joined, split_phases, strided_index
from .specialise import shapes_inside
from .split import on_whole, split_targets
from .terms import split_terms
from .turn import turn_round
from .views import root_of

MOST_WRITTEN_OUT = 100
"""Nodes of the values of a map up to which what locals stand for is written in their place."""


def make_kernels(graph: Graph) -> tuple[list[Kernel], dict[Tensor, Tensor]]:
    """The kernels of all operations, and of tensors that they write under another shape, whose
    bytes these have."""
    out: list[Kernel] = []
    views: dict[Tensor, Tensor] = {}
    for step in graph.operations:
        operation = cast(Operation, step)
        maker = _Maker(operation)
        out += [_made_of(kernel, operation) for kernel in maker.kernels()]
        views |= {t: root_of(t, maker.views) for t in maker.views}
    return out, views


def _made_of(kernel: Kernel, operation: Operation) -> Kernel:
    return kernel if isinstance(kernel, Group) else replace(kernel, operations=(operation,))


@dataclass(slots=True)
class _State:
    """What is known about a tensor between two assignments of its operation."""

    written: bool = False
    pending: _Initial | None = None


@dataclass(slots=True)
class _Initial:
    """An assignment that gives every element of its target a value, not made a kernel yet."""

    assignment: Assignment
    value: Expr
    dimensions: list[Index | None] = field(default_factory=list)


class _Maker:
    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.name = operation.name
        self.out: list[Kernel] = []
        self.views: dict[Tensor, Tensor] = {}
        self.states = {t: _State() for t in operation.outputs}

    def kernels(self) -> list[Kernel]:
        for assignment in self.operation.body:
            self._assignment(_without_single_loops(assignment))
        for tensor, state in self.states.items():
            self._flush(tensor)
            if not state.written:
                self._fill(tensor)
        return self.out

    def _assignment(self, a: Assignment) -> None:
        targets = [t.tensor for t in a.targets]
        self._flush_readers(targets)
        found = accesses(*a.values, *a.locals, *_condition(a))
        found += accesses(*[s.index for t in a.targets for s in t.subscripts])
        read = {x.tensor for x in found}
        folds, chain = is_fold(a), chain_of(a)
        own = targets if folds or chain is not None else []
        for tensor in dict.fromkeys(x.tensor for x in found):  # always in the same order
            if tensor not in own:
                self._complete(tensor)
        if folds and self._fold(a):
            return
        if chain is not None and chain.covers_the_rest():
            self._begin(chain)
        for tensor in own:
            self._complete(tensor)
        initial = self._initial(a, read)
        if initial is not None:
            self.states[targets[0]].pending = initial
            return
        split, views = split_targets(a)
        if read.isdisjoint(targets) and _is_reduce(split):
            self.views |= views
            self._reduce(split, a.targets)
            return
        if read.isdisjoint(targets) and _is_shifted_map(a):
            self._shifted(a)
            return
        parts, phases = split_phases(split)
        turned = turn_round(split)
        if _tests_locals_first(a):  # a condition of another form would come before them
            parts, turned = [split], split
        if parts[0] is not split and read.isdisjoint(targets) and all(map(_is_phase, parts)):
            self.views |= views | phases
            self._by_phases(parts, a.targets[0], split.targets[0].tensor)
            return
        if read.isdisjoint(targets) and _is_reduce(turned):
            for tensor in targets if views else ():
                self._flush(tensor)  # the new indices do not say where its elements are
            self.views |= views
            self._reduce(turned, a.targets if views else turned.targets)
            return
        for tensor in targets:
            self._complete(tensor)
        self.out.append(Scatter(self.name, a, _parallel(a), a.span))

    def _begin(self, chain: Chain) -> None:
        """A kernel of the elements that a recurrence begins with, of those that it would replace;
        nothing if there is no value for them yet."""
        state = self.states[chain.before.tensor]
        if state.pending is None or may_fail(state.pending.value):
            return
        a, first = state.pending.assignment, chain.first()
        place = _simplified(first)
        assert isinstance(place, Access)
        index = state.pending.dimensions[chain.dimension]
        if index is None or not isinstance(place.subscripts[chain.dimension].index, Const):
            return
        new: dict[Replaceable, Expr | Tensor] = {index: place.subscripts[chain.dimension].index}
        a = map_assignment(substitute_assignment(a, new), _simplified)
        domain = tuple(i for i in a.domain if i is not index)
        self.states[chain.before.tensor] = _State(written=True)
        self.out.append(_map_kernel(self.name, a.targets, a.values, domain, a))

    def _complete(self, tensor: Tensor) -> None:
        """Make sure that all elements of a tensor that is read have been written."""
        self._flush(tensor)
        state = self.states.get(tensor)
        if state is not None and not state.written:
            self._fill(tensor)

    # ------------------------------------------------------------ initial values

    def _initial(self, a: Assignment, read: set[Tensor]) -> _Initial | None:
        """The assignment as an initial value, if it writes all of one target unconditionally."""
        if a.op != "set" or len(a.targets) != 1 or a.condition is not None:
            return None
        target = a.targets[0]
        dimensions = plain_dimensions(target)
        if dimensions is None or not covers(target, dimensions) or target.tensor in read:
            return None
        if set(a.domain) - {d for d in dimensions if d is not None}:
            return None
        if has_guard(*a.values, *a.locals):
            return None
        return _Initial(a, a.values[0], dimensions)

    def _flush(self, tensor: Tensor) -> None:
        """Make a kernel of a pending initial value."""
        state = self.states.get(tensor)
        if state is None or state.pending is None:
            return
        a = state.pending.assignment
        state.pending = None
        state.written = True
        self.out.append(_map_kernel(self.name, a.targets, a.values, a.domain, a))

    def _flush_readers(self, targets: Sequence[Tensor]) -> None:
        """Make kernels of pending initial values that read what is about to change."""
        for tensor, state in self.states.items():
            if state.pending is not None and tensor not in targets:
                a = state.pending.assignment
                if any(x.tensor in targets for x in accesses(*a.values, *a.locals)):
                    self._flush(tensor)

    def _fill(self, tensor: Tensor) -> None:
        self.states[tensor].written = True
        if not are_all(tensor, self.operation.body):
            self.out.append(Fill(self.name, tensor, self.operation.span))

    # ------------------------------------------------------------------ reductions

    def _reduce(
        self, a: Assignment, written: tuple[Access, ...], first: Expr | None = None
    ) -> None:
        """A kernel of an assignment with plain targets, which were `written` in the program; of one
        target it may be known what it holds at `first`."""
        kept = free_indices(*(s.index for s in a.targets[0].subscripts))
        domain = tuple(i for i in a.domain if i in kept)
        reduced = tuple(i for i in a.domain if i not in kept)
        for t in written:
            pending = self.states[t.tensor].pending
            if a.op == "set" and pending is not None and may_fail(pending.value):
                self._flush(t.tensor)  # what is overwritten may be wrong all the same
        initial = (first,) if first is not None else self._all_first(written, a.targets)
        if a.op == "set" and not reduced and a.condition is None and not has_guard(*_guardable(a)):
            for t in written:
                self.states[t.tensor].written = True
            self.out.append(_map_kernel(self.name, a.targets, a.values, domain, a))
            return
        accumulators = tuple(Local(f"acc{k}", e) for k, e in enumerate(initial))
        for t in written:
            self.states[t.tensor].written = True
        kernel = Reduce(
            self.name, a.targets, domain, reduced, a.op, initial, a.values, accumulators,
            accumulators, a.locals, a.condition, a.span,
        )  # fmt: skip
        self.out += split_terms(_accumulated_in_float32(kernel))

    def _by_phases(self, parts: list[Assignment], written: Access, split: Tensor) -> None:
        """Kernels of the assignments that one has been taken apart into, whose target, as it was
        `written` in the program, had been `split` before. If they write all of it, each begins with
        what its own elements hold, and nothing else writes that."""
        tensor, targets = written.tensor, [p.targets[0] for p in parts]
        first: list[Expr | None] = [None] * len(parts)
        if are_all_phases(targets):
            places = [on_whole(joined(t, split), written) for t in targets]
            first = [self._value_before(*p) for p in zip(places, targets, strict=True)]
            self.states[tensor].pending = None
        for part, value in zip(parts, first, strict=True):
            self._reduce(part, (written,), value)

    def _fold(self, a: Assignment) -> bool:
        """A kernel of steps that see what the one before left, if there can be one."""
        for t in a.targets:
            if not covers(t, cast("list[Index | None]", plain_dimensions(t))):
                self._complete(t.tensor)
        fold = fold_of(a, [self._value_before(t, t) for t in a.targets])
        if fold is None:
            return False
        for t in a.targets:
            self.states[t.tensor] = _State(written=True)
        initial = tuple(x.value for x in fold.accumulators)
        kernel = Reduce(
            self.name, a.targets, fold.domain, fold.reduced, a.op, initial, fold.values,
            fold.accumulators, fold.results, (), fold.condition, a.span,
        )  # fmt: skip
        self.out.append(kernel)
        return True

    def _shifted(self, a: Assignment) -> None:
        """A kernel that writes a part of each target."""
        for t in a.targets:
            self._flush(t.tensor)
            if not self.states[t.tensor].written:
                self._fill(t.tensor)
        self.out.append(_map_kernel(self.name, a.targets, a.values, a.domain, a))

    def _all_first(
        self, written: tuple[Access, ...], plain: tuple[Access, ...]
    ) -> tuple[Expr, ...]:
        return tuple(self._first(w, t) for w, t in zip(written, plain, strict=True))

    def _first(self, target: Access, plain: Access) -> Expr:
        """What an element holds before the reduction, where the kernel writes all of the target;
        that is now the kernel's to do."""
        state = self.states[target.tensor]
        dimensions = plain_dimensions(plain)
        if dimensions is None or not covers(plain, dimensions):
            self._complete(target.tensor)
        value = self._value_before(target, plain)
        state.pending = None
        return value

    def _value_before(self, target: Access, plain: Access) -> Expr:
        """What an element holds."""
        state = self.states[target.tensor]
        if state.pending is None:
            if state.written:
                return plain
            return Const(False if target.dtype is DType.BOOL else 0, target.dtype)
        pending = state.pending
        old: dict[Replaceable, Expr | Tensor] = {}
        old |= {d: s.index for d, s in zip(pending.dimensions, target.subscripts, strict=True) if d}
        return substitute(pending.value, old)


def _accumulated_in_float32(kernel: Reduce) -> Reduce:
    """The kernel with totals of 16 bits held in float32 until they are stored.

    The terms are computed in the type of the target, but the last operation of each is not
    rounded to it.
    """
    if not any(t.dtype in NARROW for t in kernel.targets) or kernel.op == "set":
        return kernel
    initial = tuple(map(_in_float32, kernel.initial))
    accumulators = tuple(
        Local(x.name, e) for x, e in zip(kernel.accumulators, initial, strict=True)
    )
    results = tuple(
        a if a.dtype is t.dtype else Cast(t.dtype, a)
        for a, t in zip(accumulators, kernel.targets, strict=True)
    )
    return replace(
        kernel,
        initial=initial,
        values=tuple(map(_in_float32, kernel.values)),
        accumulators=accumulators,
        results=results,
    )


def _in_float32(expr: Expr) -> Expr:
    if expr.dtype not in NARROW:
        return expr
    match expr:
        case Const() if expr.value in (0, 1, math.inf, -math.inf):
            return Const(expr.value, DType.FLOAT32)
        case Binary(op="add" | "sub" | "mul" as op, lhs=lhs, rhs=rhs):
            return Binary(op, Cast(DType.FLOAT32, lhs), Cast(DType.FLOAT32, rhs))
    return Cast(DType.FLOAT32, expr)


def may_fail(expr: Expr) -> bool:
    """Whether evaluating an expression may find an index out of range, or divide by zero."""
    for node in nodes_through_locals(expr):
        if isinstance(node, Access):
            pairs = zip(node.subscripts, node.tensor.shape, strict=True)
            if not all(shapes_inside(s.index, n) for s, n in pairs):
                return True
        if isinstance(node, Binary) and is_division(node):
            if shapes.interval(node.rhs)[0] <= 0:
                return True
    return False


def _without_single_loops(a: Assignment) -> Assignment:
    """Indices with one value replaced by 0."""
    single: dict[Replaceable, Expr | Tensor] = {}
    single |= {i: ZERO for i in a.domain if i.extent == ONE}
    if not single:
        return a
    a = map_assignment(substitute_assignment(a, single), _simplified)
    return replace(a, domain=tuple(i for i in a.domain if i not in single))


def simple(index: Expr) -> Expr:
    """A subscript simplified; as it is if it always divides by zero, which is found at run time, or
    if what may end an instance would be lost, as in `0 * x[|i|]`."""
    try:
        found = shapes.simplify(index)
    except ZeroDivisionError:
        return index
    return index if may_fail(index) and len(accesses(found)) < len(accesses(index)) else found


def _simplified(expr: Expr) -> Expr:
    """Simple subscripts in an access."""
    if not isinstance(expr, Access):
        return expr
    subscripts = tuple(replace(s, index=simple(s.index)) for s in expr.subscripts)
    return replace(expr, subscripts=subscripts)


def _condition(a: Assignment) -> tuple[Expr, ...]:
    return () if a.condition is None else (a.condition,)


def _tests_locals_first(a: Assignment) -> bool:
    """Whether locals may fail where the condition is false."""
    if a.condition is None:
        return False
    return any(map(may_fail, used_locals(a.locals, *a.targets, *_condition(a), *a.values)))


def _guardable(a: Assignment) -> tuple[Expr, ...]:
    return (*a.values, *a.locals, *_condition(a))


def _map_kernel(
    name: str,
    targets: tuple[Access, ...],
    values: tuple[Expr, ...],
    domain: tuple[Index, ...],
    a: Assignment,
) -> Reduce:
    locals_ = a.locals
    if locals_ and size_written_out(values) <= MOST_WRITTEN_OUT:
        values, locals_ = without_locals(values), ()
    accumulators = tuple(Local(f"acc{k}", e) for k, e in enumerate(values))
    return Reduce(
        name, targets, domain, (), "set", values, (), accumulators, accumulators,
        locals_, None, a.span,
    )  # fmt: skip


def size_written_out(values: Sequence[Expr]) -> int:
    """Nodes of the values with all that locals stand for, counted as often as it occurs."""
    sizes: dict[int, int] = {}
    for node in walk(*values, parts=_parts):
        sizes[id(node)] = 1 + sum(sizes[id(part)] for part in _parts(node))
    return sum(sizes[id(v)] for v in values)


def _parts(expr: Expr) -> tuple[Expr, ...]:
    return (expr.value,) if isinstance(expr, Local) else children(expr)


def without_locals(values: Sequence[Expr]) -> tuple[Expr, ...]:
    """The values with what locals stand for in their place, so that a map is its values alone;
    parts that occur twice stay one node."""
    memo: dict[int, Expr] = {}

    def node(expr: Expr) -> Expr:
        return rebuild(expr.value, node, memo) if isinstance(expr, Local) else expr

    return tuple(rebuild(value, node, memo) for value in values)


def plain_dimensions(target: Access) -> list[Index | None] | None:
    """The index at each dimension of a target (None for a constant), if all are plain."""
    out: list[Index | None] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        if s.rule is not None or not shapes_inside(s.index, extent):
            return None
        if isinstance(s.index, Index) and s.index not in out:
            out.append(s.index)
        elif isinstance(s.index, Const):
            out.append(None)
        else:
            return None
    return out


def covers(target: Access, dimensions: Sequence[Index | None]) -> bool:
    """Whether the plain indices of a target reach all of its elements."""
    for index, extent in zip(dimensions, target.tensor.shape, strict=True):
        if not shapes.equal(extent, ONE if index is None else index.extent):
            return False
    return True


def _is_reduce(a: Assignment) -> bool:
    """Whether all targets are addressed alike by plain indices, and the order does not matter."""
    first = plain_dimensions(a.targets[0])
    if first is None or a.op == "update":
        return False
    kept = {d for d in first if d is not None}
    for t in a.targets[1:]:
        other = plain_dimensions(t)
        if other is None or {d for d in other if d is not None} != kept:
            return False
    if len({t.tensor for t in a.targets}) != len(a.targets):
        return False
    return a.op != "set" or all(i in kept for i in a.domain)


def _is_phase(a: Assignment) -> bool:
    """Whether this is a reduction whose target has indices that are plain or have a step."""
    target = a.targets[0]
    plain: list[Subscript] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        strided = strided_index(s.index)
        if strided is not None and not shapes_inside(s.index, extent):
            return False
        plain.append(s if strided is None else Subscript(strided[0]))
    return _is_reduce(replace(a, targets=(replace(target, subscripts=tuple(plain)),)))


def _is_shifted_map(a: Assignment) -> bool:
    """Whether each element that is written gets one value, and where it is is sure.

    Such are the parts of a tensor that others are joined to: `y[i + n] = x[i]`.
    """
    if a.op != "set" or a.condition is not None or has_guard(*_guardable(a)):
        return False
    if len({t.tensor for t in a.targets}) != len(a.targets):
        return False
    return all(_is_shifted(t, a.domain) for t in a.targets)


def _is_shifted(target: Access, domain: tuple[Index, ...]) -> bool:
    """Whether a target has each index of the domain in a subscript of its own, in range."""
    left = set(domain)
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        form = shapes.affine(s.index)
        if form is None or s.rule is not None or not shapes_inside(s.index, extent):
            return False
        indices = {i for i in form[0] if isinstance(i, Index)}
        if len(indices) > 1 or not indices <= left:
            return False
        left -= indices
    return not left


def _parallel(a: Assignment) -> int:
    """How many leading indices separate what the iterations touch of the targets."""
    targets = {t.tensor for t in a.targets}
    touched = [*a.targets, *(x for x in accesses(*expressions(a)) if x.tensor in targets)]
    count = 0
    for index in a.domain:
        if not all(_has_own_dimension(a, x, index) for x in touched):
            break
        count += 1
    return count


def _has_own_dimension(a: Assignment, access: Access, index: Index) -> bool:
    """Whether a dimension of the tensor is subscripted by the index alone in all accesses to it."""
    every = [t for t in a.targets if t.tensor is access.tensor]
    every += [x for x in accesses(*expressions(a)) if x.tensor is access.tensor]
    return any(
        all(x.subscripts[d].index is index for x in every) for d in range(len(access.subscripts))
    )
