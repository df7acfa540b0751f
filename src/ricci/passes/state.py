"""Variables that calls change, changed where they are.

Requires: the actions of a graph, and pairs of tensors, the old value of a variable and its new one.
Ensures: if all variables can be changed in place, they are, and a call that fails changes none:
nothing is written to one before everything that can fail has been tested, and the call stops where
a test has failed. Does not: move kernels, or change some variables in place and others not.

The first kernel that writes to a variable may make tests of its own, if it writes nothing where one
fails. Whatever comes later may repeat tests that have been made for certain.

Example: a step that stores one more row, at a position, in each of several caches of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from ..ir.loops import (
    Action,
    Fill,
    Group,
    Kernel,
    Reduce,
    Repeat,
    Scatter,
    Stop,
    all_actions,
    expressions_of,
    tensors_written,
)
from ..ir.nodes import Access, Binary, Expr, Index, Local, Select, Skip, Tensor
from ..ir.rewrite import accesses, children, free_indices, has_guard, nodes_through_locals
from ..ir.shapes import interval
from ..records import dataclass, replace
from .control import Lowered
from .in_place import keep_place
from .specialise import shapes_inside
from .views import Views, root_of

Pairs = Sequence[tuple[Tensor, Tensor]]

Test = tuple[Expr, Expr]
"""A subscript, and the extent that it must be below."""


def update_in_place(lowered: Lowered, states: Pairs) -> Lowered | None:
    """The same with the new values of variables in the bytes of the old ones; none if not all of
    them can be."""
    views = dict(lowered.views)
    actions: list[Action] = list(lowered.actions)
    for old, new in states:
        left = keep_place(actions, old, new, views) if _is_made(new, states, views) else None
        if left is None:
            return None
        actions = left
    stops = _Stops({root_of(old, views) for old, _ in states}, views, lowered.changing)
    if not all(map(stops.add, actions)):
        return None
    lowered.views.update(views)
    return replace(lowered, actions=tuple(stops.out))


def _is_made(new: Tensor, states: Pairs, views: Views) -> bool:
    """Whether a new value is no old one, and has not yet become one."""
    return all(root_of(new, views) is not root_of(old, views) for old, _ in states)


@dataclass(slots=True)
class _Stops:
    """Takes actions in their order, and puts stops before those that write variables."""

    states: set[Tensor]
    views: Views
    changing: set[Tensor]
    """Tensors that several kernels write."""
    known: set[Test] = field(default_factory=set)
    """What has been tested for certain."""
    is_tested: bool = False
    """Whether there have been tests since the last stop."""
    is_written: bool = False
    out: list[Action] = field(default_factory=list)

    def add(self, action: Action) -> bool:
        """Take one more action; false if it may fail when a variable has been changed."""
        kernels = [a for a in all_actions((action,)) if isinstance(a, Kernel)]
        written = (root_of(t, self.views) for k in kernels for t in tensors_written(k))
        writes = not self.states.isdisjoint(written)
        fails = any(self._may_fail(k) for k in kernels)
        if self.is_written and (fails or isinstance(action, Repeat)):
            return False
        if writes and fails and not self._writes_nothing_where_it_fails(action):
            return False
        if writes and self.is_tested:
            self.out.append(Stop())
            self.is_tested = False
        self.out.append(action)
        self.is_written |= writes
        self.is_tested |= fails
        if isinstance(action, Kernel):
            self.known.update(self._certain(action))
        return True

    def _may_fail(self, kernel: Kernel) -> bool:
        return self._are_new(_tests(nodes_through_locals(*expressions_of(kernel))))

    def _are_new(self, tests: Iterable[Test | None]) -> bool:
        return any(t is None or t not in self.known for t in tests)

    def _writes_nothing_where_it_fails(self, action: Action) -> bool:
        """Whether new tests are of targets alone, and the same at all points."""
        if not isinstance(action, Scatter):
            return False
        a = action.assignment
        rest = [*a.values, *a.locals, *(() if a.condition is None else (a.condition,))]
        rest += [s.index for t in a.targets for s in t.subscripts]
        if self._are_new(_tests(nodes_through_locals(*rest))):
            return False
        certain = {*self.known, *self._certain(action)}
        return certain.issuperset(_tests(a.targets))

    def _certain(self, kernel: Kernel) -> Iterator[Test]:
        """Tests that a kernel makes whatever the data, which are the same at all its points."""
        match kernel:
            case Group():
                for part in kernel.kernels:
                    yield from self._certain(part)
                return
            case Fill():
                return
            case Reduce():
                domain, condition = (*kernel.domain, *kernel.reduced), kernel.condition
            case Scatter():
                domain, condition = kernel.assignment.domain, kernel.assignment.condition
        found = expressions_of(kernel)
        if condition is not None or has_guard(*found) or any(_may_be_empty(i) for i in domain):
            return
        for test in _tests(_always(found)):
            if test is not None and self._is_fixed(test):
                yield test

    def _is_fixed(self, test: Test) -> bool:
        """Whether a test has one outcome in a call."""
        tensors = {a.tensor for a in accesses(*test)}
        return not free_indices(*test) and self.changing.isdisjoint(tensors)


def _may_be_empty(index: Index) -> bool:
    return interval(index.extent)[0] < 1


def _always(expressions: Sequence[Expr]) -> list[Expr]:
    """The parts of expressions that do not depend on a choice, without their own parts."""
    stack, seen, found = list(expressions), set[int](), list[Expr]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        match node:
            case Select():
                stack.append(node.condition)
            case Local():
                stack.append(node.value)
            case _:
                stack += children(node)
    return found


def _tests(nodes: Iterable[Expr]) -> Iterator[Test | None]:
    """The tests that nodes make, their parts aside; none for anything else that may fail."""
    for node in nodes:
        if isinstance(node, Access):
            yield from _tests_of_subscripts(node)
        elif isinstance(node, Binary) and node.op in ("floordiv", "ceildiv", "mod"):
            if node.dtype.is_int and interval(node.rhs)[0] <= 0:
                yield None


def _tests_of_subscripts(access: Access) -> Iterator[Test | None]:
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        if not isinstance(s.rule, Skip) and not shapes_inside(s.index, extent):
            yield (s.index, extent) if s.rule is None else None
