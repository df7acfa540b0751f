"""Sums of products, windows of their results, and sums of these, a few rows of a map at a time.

Requires: actions in their final form, the places and strides of tensors, and what has a place
already. Ensures: a sum of products with few terms by constants, what reads windows of its results,
and a sum of products that takes these in are one `Group` with bands, where all rows together are
more than is best handed from core to core, and bands stay in a core's own cache: what is between
the kernels is never all there, and what one computes of a row is near for the next. A row that two
bands read is computed for each. Kernels between them that have nothing to do with them come before
the group. Does not: touch kernels whose results something else reads, too.

Example: `e[c, y, x] += w[c, k] * v[k, y, x]`, then `d[c, y, x] += f[c, i, j] * e[c, y + i, x + j]`,
then `z[m, y, x] += u[m, c] * d[c, y, x]`, for seven `y` at a time.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

from ..dtypes import DType
from ..ir import shapes
from ..ir.loops import (
    Action,
    Bands,
    Choose,
    Group,
    Kernel,
    Reduce,
    Repeat,
    expressions_of,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Access, Expr, Index, Skip, Tensor
from ..ir.rewrite import accesses, free_indices
from ..records import dataclass, replace
from .chains import MOST_MOVED, REALS, Chain, is_independent, is_sum
from .fuse import map_expressions
from .machine import Machine
from .places import Places, row_major
from .places import Strides as Steps
from .rows import Rows, extent, is_known, with_names
from .siblings import has_reuse
from .views import Views, root_of

TYPES = (*REALS, DType.INT32)
"""Of the sums of products."""
LEAST_BYTES = 256 << 10
"""Of what the first kernel makes: less is soon handed over to another core."""
_ALONE = 0.75
"""How much of a core's own cache it fills, if that core is alone."""
MOST_TERMS = 128
"""Of its sums: with more, writing and reading them is little."""
MOST_READ = 64
"""Elements, for each result of a window, of what else it reads."""
LEAST_RUN = 7
"""Results of a row that a sum of products reads the other operand for."""
_ROOM = 0.6
"""How much of a core's own cache bands may take."""
_MORE = 1.3
"""How many times as many rows the first kernel may compute, since bands share some."""
_EVEN = 4
"""Bands of each thread from which on it does not matter if some threads have one more."""


def do_in_bands(
    actions: Sequence[Action],
    places: Places,
    strides: Mapping[Tensor, Steps],
    constant: Container[Tensor],
    fixed: Container[Tensor],
    machine: Machine,
) -> tuple[list[Action], Places, dict[Tensor, Steps]]:
    """The actions with such groups, and the places and strides of tensors.

    `fixed` tensors have a place already, or are needed when all is done.
    """
    if not machine.near:
        return list(actions), places, dict(strides)
    views = dict(places.views)
    work = _Work(
        views, places.strides_of_all(strides), constant, fixed, machine, wholes=dict(views)
    )
    work.count(actions)
    done = work.block(actions)
    return done, replace(places, views=work.views), {**strides, **work.apart}


@dataclass(frozen=True, slots=True)
class Reach:
    """The rows of a tensor that a kernel reads for its row `r`: from `step * r + first` to
    `step * r + last`, of `extent` that there are."""

    step: int
    first: int
    last: int
    extent: int

    def of(self, rows: range) -> range:
        """Those that are read for some rows."""
        low = min(max(self.step * rows.start + self.first, 0), self.extent)
        high = min(self.step * (rows.stop - 1) + self.last + 1, self.extent)
        return range(low, max(low, high))


def reach_of(access: Access, dimension: int, index: Index) -> Reach | None:
    """What an access reads of a dimension for each value of an index; None if that is not plain."""
    subscript = access.subscripts[dimension]
    found = shapes.affine(subscript.index)
    size = shapes.as_int(access.tensor.shape[dimension])
    if found is None or size is None or not isinstance(subscript.rule, Skip | None):
        return None
    factors, first = dict(found[0]), found[1]
    step, last = factors.pop(index, 0), first
    for other, factor in factors.items():
        if not isinstance(other, Index):
            return None
        first += min(0, factor * (extent(other) - 1))
        last += max(0, factor * (extent(other) - 1))
    return Reach(step, first, last, size) if step > 0 else None


def dimension_of(kernel: Reduce, index: Index) -> int | None:
    """The dimension of what a kernel writes that an index alone walks along."""
    (target,) = kernel.targets
    for d, subscript in enumerate(target.subscripts):
        if subscript.index is index and subscript.rule is None:
            return d if shapes.equal(target.tensor.shape[d], index.extent) else None
    return None


def reaches_of(kernels: Sequence[Reduce], rows: Sequence[Index]) -> dict[tuple[int, int], Reach]:
    """What kernels of bands read of what others before them write, by the numbers of both."""
    found: dict[tuple[int, int], Reach] = {}
    made = {k.targets[0].tensor: n for n, k in enumerate(kernels)}
    for reader, kernel in enumerate(kernels):
        for access in accesses(*expressions_of(kernel)):
            writer = made.get(access.tensor, reader)
            if writer < reader:
                dimension = dimension_of(kernels[writer], rows[writer])
                assert dimension is not None
                reach = reach_of(access, dimension, rows[reader])
                assert reach is not None
                before = found.get((reader, writer), reach)
                first, last = min(before.first, reach.first), max(before.last, reach.last)
                found[reader, writer] = replace(reach, first=first, last=last)
    return found


@dataclass(slots=True)
class _Work:
    """What is known of all actions."""

    views: Views
    strides: Mapping[Tensor, Steps]
    constant: Container[Tensor]
    fixed: Container[Tensor]
    machine: Machine
    users: dict[Tensor, set[int]] = field(default_factory=dict)
    """The kernels, by identity, that touch the bytes that a tensor had at first."""
    wholes: Views = field(default_factory=dict)
    """The views that there were at first."""
    order: dict[Tensor, tuple[int, int]] = field(default_factory=dict)
    """The block, and the number in it, of the first kernel that writes a tensor."""
    apart: dict[Tensor, Steps] = field(default_factory=dict)
    """Strides of tensors that have bytes of their own now."""

    def count(self, block: Sequence[Action]) -> None:
        """Find out how many kernels touch a tensor, and when it is written first."""
        for number, action in enumerate(block):
            if isinstance(action, Repeat):
                self.count(action.before)
                self.count(action.body)
            elif isinstance(action, Choose):
                self.count(action.then)
                self.count(action.otherwise)
            elif isinstance(action, Kernel):
                for tensor in tensors_touched(action):
                    self.users.setdefault(root_of(tensor, self.wholes), set()).add(id(action))
                for tensor in tensors_written(action):
                    self.order.setdefault(tensor, (id(block), number))

    def block(self, actions: Sequence[Action]) -> list[Action]:
        """The actions of a block and of those in it."""
        out: list[Action] = []
        at = 0
        while at < len(actions):
            action = actions[at]
            found = None
            match action:
                case Repeat():
                    before, body = map(tuple, map(self.block, (action.before, action.body)))
                    action = replace(action, before=before, body=body)
                case Choose():
                    then, other = map(tuple, map(self.block, (action.then, action.otherwise)))
                    action = replace(action, then=then, otherwise=other)
                case Reduce():
                    found = self._chain(action, actions, at)
            out += [action] if found is None else found.kernels
            at = at + 1 if found is None else found.end
        return out

    def _chain(self, first: Reduce, actions: Sequence[Action], start: int) -> Chain | None:
        """The group that begins with the action with a number."""
        if not self.is_product(first) or _size(first.reduced) > MOST_TERMS:
            return None
        if not self._is_along_constants(first):
            return None
        joined = _Joined(self, self.views, (first,), (first,), ())
        best: tuple[Chain, Views] | None = None
        moved: list[Kernel] = []
        for at, kernel in enumerate(actions[start + 1 :], start + 1):
            larger = joined.with_kernel(kernel) if isinstance(kernel, Reduce) else None
            if larger is not None:
                joined = larger
                group = joined.group()
                if group is not None:
                    best = Chain([*moved, group], at + 1), joined.views
                if self.is_product(joined.kernels[-1]):
                    break
            elif isinstance(kernel, Kernel) and len(moved) < MOST_MOVED:
                if not is_independent(kernel, joined.rows()):
                    break
                moved.append(kernel)
            else:
                break
        if best is None:
            return None
        found, views = best
        for tensor in self.views.keys() - views.keys():
            if tensor in self.strides:
                self.apart[tensor] = self.strides[tensor]
        self.views = views
        return found

    def is_product(self, kernel: Reduce) -> bool:
        """Whether a kernel is a sum of products by constants that has code of its own."""
        if not is_known(kernel) or not has_reuse(kernel) or not is_sum(kernel, TYPES):
            return False
        given, others = self.indices_of(kernel)
        summed = given & others & {*kernel.reduced}
        return bool(summed and given - others and others - given)

    def indices_of(self, kernel: Reduce) -> tuple[set[Index], set[Index]]:
        """Those of constants in the terms of a kernel, and of what else is read."""
        read = accesses(*kernel.values)
        given = {*free_indices(*(a for a in read if self.is_constant(a.tensor)))}
        return given, {*free_indices(*(a for a in read if not self.is_constant(a.tensor)))}

    def _is_along_constants(self, kernel: Reduce) -> bool:
        """Whether results are neighbours in memory along an index that constants alone have."""
        given, others = self.indices_of(kernel)
        (target,) = kernel.targets
        places = zip(target.subscripts, self.steps_of(target.tensor), strict=True)
        return any(s.index in given - others for s, step in places if step == 1)

    def steps_of(self, tensor: Tensor) -> Steps:
        """The strides of a tensor."""
        return self.strides.get(tensor) or row_major([shapes.as_int(n) or 0 for n in tensor.shape])

    def is_constant(self, tensor: Tensor) -> bool:
        return root_of(tensor, self.views) in self.constant

    def is_own(self, tensor: Tensor, kernels: Sequence[Reduce], views: Views) -> bool:
        """Whether nothing but some kernels touches a tensor, under any name, given the views that
        are left."""
        if tensor in self.fixed or tensor in views or tensor in views.values():
            return False
        return self.users[root_of(tensor, self.wholes)] <= {id(k) for k in kernels}

    def on_its_own(
        self, kernel: Reduce, touched: Iterable[Tensor], views: Views
    ) -> tuple[Reduce, Views]:
        """A kernel that writes in the bytes of what is added to its sums, which others touch, too,
        as one whose results have bytes of their own; and the views that are left.

        What is written there later is in the place of these results, since of several tensors with
        the same bytes each one is added to the next.
        """
        made = kernel.targets[0].tensor
        old = views.get(made)
        if old is None or made in self.fixed or root_of(old, views) in self.fixed:
            return kernel, views
        if root_of(old, views) not in {root_of(t, views) for t in touched}:
            return kernel, views
        if made not in {a.tensor for a in accesses(*kernel.results)}:
            return kernel, views

        def node(expr: Expr) -> Expr:
            if isinstance(expr, Access) and expr.tensor is made:
                return replace(expr, tensor=old)
            return expr

        beside = [t for t, whole in views.items() if whole is old and t is not made]
        block, number = self.order[made]
        places = [self.order.get(t, (0, 0)) for t in beside]
        if not all(_has_shape(t, made) for t in beside) or any(b != block for b, _ in places):
            return kernel, views
        left = {t: whole for t, whole in views.items() if t is not made}
        left |= {t: made for t, (_, n) in zip(beside, places, strict=True) if n > number}
        return map_expressions(kernel, node), left


@dataclass(frozen=True, slots=True)
class _Joined:
    """Kernels that may be done together."""

    work: _Work
    views: Views
    given: tuple[Reduce, ...]
    kernels: tuple[Reduce, ...]
    """The same over the indices that they share."""
    indices: tuple[Index, ...]
    """Those of their rows, once there are two kernels."""
    shared: tuple[Index, ...] = ()
    """The indices around rows."""

    def rows(self) -> Rows:
        """The kernels as such that share nothing."""
        return Rows(self.views, (), self.kernels, self.kernels)

    def with_kernel(self, kernel: Reduce) -> _Joined | None:
        """The same with one more kernel; None if it cannot be done so."""
        if not is_known(kernel) or len(kernel.targets) != 1:
            return None
        made = self.rows().made()
        if not any(a.tensor in made for a in accesses(*kernel.values)):
            return None
        touched = {t for k in self.kernels for t in tensors_touched(k)}
        larger = replace(self, given=(*self.given, kernel))
        kernel, views = self.work.on_its_own(kernel, touched, self.views)
        larger = replace(larger, views=views)
        if not larger.rows().is_apart(kernel):
            return None
        begun = larger if self.indices else larger._begun(kernel)
        return None if begun is None else begun._with(kernel)

    def _begun(self, kernel: Reduce) -> _Joined | None:
        """The first kernel, with the index of its rows: of those that are not the same for the
        next kernel the one whose values are furthest apart in memory."""
        (first,) = self.kernels
        (target,) = first.targets
        steps = self.work.steps_of(target.tensor)
        read = [a for a in accesses(*expressions_of(kernel)) if a.tensor is target.tensor]
        shared: list[Index] = []
        for d in sorted(range(len(steps)), key=lambda d: -steps[d]):
            index = target.subscripts[d].index
            if not isinstance(index, Index) or dimension_of(first, index) is None:
                continue
            if not all(_is_same(a, d, kernel) for a in read):
                return replace(self, indices=(index,), shared=tuple(shared))
            shared.append(index)
        return None

    def _with(self, kernel: Reduce) -> _Joined | None:
        """The same with one more kernel, now that it is known what rows are."""
        found = self._names(kernel)
        if found is None:
            return None
        row, names = found
        if row in self.shared:
            return None
        kernel = with_names(kernel, {row: row, **names}, self.shared)
        if any(dimension_of(kernel, i) is None for i in (row, *self.shared)):
            return None
        indices = (*self.indices, row)
        larger = replace(self, kernels=(*self.kernels, kernel), indices=indices)
        return larger if larger._is_near() else None

    def _names(self, kernel: Reduce) -> tuple[Index, dict[Index, Index]] | None:
        """The index of a kernel's rows, and what those of its indices are called that are
        shared."""
        writers = {k.targets[0].tensor: n for n, k in enumerate(self.kernels)}
        rows: set[Index] = set()
        names: dict[Index, Index] = {}
        steps: dict[Tensor, int] = {}
        for access in accesses(*expressions_of(kernel)):
            if access.tensor not in writers:
                continue
            number = writers[access.tensor]
            d, *others = (self._dimension(number, i) for i in (self.indices[number], *self.shared))
            rows.update(i for i in free_indices(access.subscripts[d].index) if i in kernel.domain)
            if len(rows) != 1:
                return None
            reach = reach_of(access, d, next(iter(rows)))
            if reach is None or steps.setdefault(access.tensor, reach.step) != reach.step:
                return None
            for index, dimension in zip(self.shared, others, strict=True):
                place = access.subscripts[dimension].index
                if not isinstance(place, Index) or not _is_same(access, dimension, kernel):
                    return None
                if names.setdefault(place, index) is not index:
                    return None
        if not rows or len(set(names.values())) < len(names) or not rows.isdisjoint(names):
            return None
        return rows.pop(), names

    def _dimension(self, number: int, index: Index) -> int:
        found = dimension_of(self.kernels[number], index)
        assert found is not None
        return found

    def _is_near(self) -> bool:
        """Whether the last kernel reads windows of what others make, and little else for each, or
        is a sum of products behind such windows, of rows as they are."""
        last = self.kernels[-1]
        if self.work.is_product(last):
            reaches = reaches_of(self.kernels, self.indices).items()
            mine = [r for (reader, _), r in reaches if reader == len(self.kernels) - 1]
            return len(self.kernels) > 2 and all(
                (r.step, r.first, r.last) == (1, 0, 0) for r in mine
            )
        made = self.rows().made()
        return all(
            _size(i for i in free_indices(a) if i in last.reduced) <= MOST_READ
            for a in accesses(*last.values)
            if a.tensor not in made
        )

    def group(self) -> Group | None:
        """The kernels as a group, if that is worthwhile."""
        first, *_, last = self.kernels
        between = [k.targets[0].tensor for k in self.kernels[:-1]]
        results = first.targets[0]
        if not all(self.work.is_own(t, self.given, self.views) for t in between):
            return None
        machine = self.work.machine
        least = LEAST_BYTES if machine.threads > 1 else _ALONE * machine.near
        if _size(first.domain) * results.dtype.numpy().itemsize < least:
            return None
        columns = self.work.indices_of(first)[0]
        around = (*self.shared, self.indices[0])
        if _size(i for i in first.domain if i not in columns and i not in around) < LEAST_RUN:
            return None
        height = self._height()
        if height is None:
            return None
        kernels = [
            replace(
                k, domain=(*self.shared, i, *(j for j in k.domain if j not in (*self.shared, i)))
            )
            for k, i in zip(self.kernels, self.indices, strict=True)
        ]
        bands = Bands(self.indices, height)
        return Group(
            first.name, self.shared, tuple(kernels), tuple(between), bands=bands, span=last.span
        )

    def _height(self) -> int | None:
        """How many rows of the last kernel a band has; None if there is no number that suits."""
        reaches = reaches_of(self.kernels, self.indices)
        all_rows, threads = extent(self.indices[-1]), self.work.machine.threads
        for wanted in range(1, all_rows + 1):
            height = -(-all_rows // wanted)
            starts = range(0, all_rows, height)
            bands = len(starts) * _size(self.shared)
            if bands % threads and bands < _EVEN * threads:
                continue
            done = [
                ranges_of(n, min(n + height, all_rows), len(self.kernels), reaches) for n in starts
            ]
            if sum(map(len, (d[0] for d in done))) > _MORE * extent(self.indices[0]):
                return None
            if max(map(self._bytes, done)) <= _ROOM * self.work.machine.near:
                return height
        return None

    def _bytes(self, ranges: Sequence[range]) -> int:
        """What a band takes that has such rows, between the kernels."""
        total = 0
        for kernel, index, rows in zip(self.kernels[:-1], self.indices, ranges, strict=False):
            around = {index, *self.shared}
            width = kernel.targets[0].dtype.numpy().itemsize
            total += len(rows) * _size(i for i in kernel.domain if i not in around) * width
        return total


def ranges_of(
    low: int, high: int, count: int, reaches: Mapping[tuple[int, int], Reach]
) -> list[range]:
    """The rows that each of `count` kernels computes, if the last one does those from `low` to
    `high`."""
    found = [range(low, high)]
    for writer in reversed(range(count - 1)):
        parts = [
            reach.of(found[reader - writer - 1])
            for (reader, other), reach in reaches.items()
            if other == writer
        ]
        found.insert(0, range(min(p.start for p in parts), max(p.stop for p in parts)))
    return found


def _is_same(access: Access, dimension: int, kernel: Reduce) -> bool:
    """Whether an access has an index of a kernel's results as it is, all along a dimension."""
    subscript = access.subscripts[dimension]
    index = subscript.index
    if not isinstance(index, Index) or subscript.rule is not None or index not in kernel.domain:
        return False
    return shapes.equal(access.tensor.shape[dimension], index.extent)


def _has_shape(a: Tensor, b: Tensor) -> bool:
    return len(a.shape) == len(b.shape) and all(map(shapes.equal, a.shape, b.shape))


def _size(indices: Iterable[Index]) -> int:
    return math.prod(map(extent, {*indices}))
