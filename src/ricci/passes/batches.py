"""Kernels one after the other over a batch, for some of its items, then for the next.

Requires: actions in their final form, of a graph whose sizes are numbers, and the strides of
tensors. Ensures: where such kernels do for each item what has nothing to do with the others, and
what they hand on is more than the caches keep, but for some items is not, they are in a loop over
the batch (`batch_gain` says which, and for how many items at a time); tensors between them are of
so many items. Does not: look into loops and branches that are there already, or take kernels apart
that threads share by items alone.

Example: of eight images of 112 by 112 points, 96 maps between two convolutions are 38 MB, which
come from memory; of one image they are 5 MB.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

from ..dtypes import DType
from ..ir.loops import (
    Action,
    Group,
    Kernel,
    Point,
    Reduce,
    Repeat,
    all_actions,
    expressions_of,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import (
    ONE,
    ZERO,
    Access,
    Binary,
    Cast,
    Expr,
    Index,
    Local,
    Tensor,
    integer,
)
from ..ir.rewrite import Replaceable, accesses, children, free_indices, walk
from ..ir.shapes import as_int
from ..ir.work import bytes_of, work_of
from ..records import dataclass, replace
from .batch_gain import Stretch, Use, find_stretches
from .control_state import store
from .fuse import substitute_kernel
from .machine import Machine
from .places import Places, Strides
from .views import root_of


@dataclass(frozen=True, slots=True)
class Batched:
    """Actions, and where the tensors are that they touch."""

    actions: tuple[Action, ...]
    places: Places
    strides: Mapping[Tensor, Strides]
    items: tuple[Tensor, ...]
    """Those that stand for some items of another tensor, by a `Point`."""


def batch_by_batch(
    actions: Sequence[Action],
    places: Places,
    strides: Mapping[Tensor, Strides],
    fixed: Container[Tensor],
    machine: Machine,
) -> Batched:
    """The actions, with loops over batches. `fixed` are tensors that have a place already, or are
    needed when all is done."""
    work = _Batches(actions, places, strides, fixed, machine)
    if machine.cache:
        work.divide()
    else:
        work.done += actions
    return work.result()


@dataclass(frozen=True, slots=True)
class _Along:
    """A kernel that does its work for each item of a batch by itself."""

    kernel: Reduce | Group
    index: Index
    """That of the batch: the first subscript of `items`, and nothing else."""
    items: frozenset[Tensor]
    others: frozenset[Tensor]
    """What it reads besides, for every item."""
    count: int
    """Items of the batch."""


@dataclass(slots=True)
class _Run:
    """Kernels next to one another over the same batch."""

    views: Mapping[Tensor, Tensor]
    kernels: list[_Along] = field(default_factory=list)
    written: set[Tensor] = field(default_factory=set)
    whole: set[Tensor] = field(default_factory=set)
    """What is read other than item by item."""

    def takes(self, along: _Along, loose: set[Tensor]) -> bool:
        """Add a kernel, unless it needs other items of what one of them writes. `loose` are the
        tensors of which it does not touch the same items in the end."""
        if self.kernels and along.count != self.kernels[0].count:
            return False
        written = self.written | {root_of(t, self.views) for t in tensors_written(along.kernel)}
        whole = self.whole | loose | {root_of(t, self.views) for t in along.others}
        if not written.isdisjoint(whole):
            return False
        self.kernels.append(along)
        self.written, self.whole = written, whole
        return True


@dataclass(slots=True)
class _Batches:
    actions: Sequence[Action]
    places: Places
    strides: Mapping[Tensor, Strides]
    fixed: Container[Tensor]
    machine: Machine
    done: list[Action] = field(default_factory=list)
    views: dict[Tensor, Tensor] = field(default_factory=dict)
    offsets: dict[Tensor, int] = field(default_factory=dict)
    apart: set[Tensor] = field(default_factory=set)
    steps: dict[Tensor, Strides] = field(default_factory=dict)
    items: list[Tensor] = field(default_factory=list)

    def result(self) -> Batched:
        views = {**self.places.views, **self.views}
        offsets = {**self.places.offsets, **self.offsets}
        apart = {t for t in views if t in self.places.apart} | self.apart
        places = Places(views, offsets, apart)
        strides = {**self.strides, **self.steps}
        return Batched(tuple(self.done), places, strides, tuple(self.items))

    def divide(self) -> None:
        """All actions, in runs and between them."""
        run = _Run(self.places.views)
        for action in self.actions:
            along = _along(action)
            if along is None or not run.takes(along, self._loose(along)):
                self._close(run)
                run = _Run(self.places.views)
                if along is None or not run.takes(along, self._loose(along)):
                    self.done.append(action)
        self._close(run)

    def _loose(self, along: _Along) -> set[Tensor]:
        """The tensors that have other items than the views of them that a kernel touches."""
        views = self.places.views
        return {root_of(t, views) for t in along.items if not self._is_aligned(t, along.count)}

    def _is_aligned(self, tensor: Tensor, count: int) -> bool:
        """Whether an item of a tensor is in the item of the same number of that whose bytes it
        has, and that lies before the next one."""
        while tensor in self.places.views:
            whole, offset = self.places.views[tensor], self.places.offsets.get(tensor, 0)
            if not whole.shape or as_int(whole.shape[0]) != count:
                return False
            is_all = not offset and bytes_of(tensor, {}) == bytes_of(whole, {})
            if tensor not in self.places.apart and not is_all:  # a box has a part of each item
                return False
            tensor = whole
        steps = self.strides.get(tensor)
        return steps is None or steps[0] == max(steps)

    def _close(self, run: _Run) -> None:
        """The kernels of a run, those that are worth it in loops."""
        if not run.kernels:
            return
        count = run.kernels[0].count
        uses = [_use(k, self.places.views) for k in run.kernels]
        at = 0
        for stretch in find_stretches(uses, count, self.machine):
            self.done += (k.kernel for k in run.kernels[at : stretch.start])
            self._loop(run.kernels[stretch.start : stretch.stop], count, stretch)
            at = stretch.stop
        self.done += (k.kernel for k in run.kernels[at:])

    # -------------------------------------------------------------------- loops

    def _loop(self, kernels: Sequence[_Along], count: int, stretch: Stretch) -> None:
        """A loop over the batch."""
        counter, go = Tensor("step", DType.INT64, ()), Tensor("go", DType.BOOL, ())
        own = self._own(kernels)
        places: dict[Tensor, Tensor] = {}
        points: list[Point] = []
        strides = self.places.strides_of_all(self.strides)
        for tensor in dict.fromkeys(t for k in kernels for t in tensors_touched(k.kernel)):
            if not any(tensor in k.items for k in kernels):
                continue
            if root_of(tensor, self.places.views) in own:
                self._part(tensor, stretch.items, places)
                continue
            item = places[tensor] = _some(tensor, stretch.items)
            step = bytes_of(item, {})
            if tensor in strides:
                self.steps[item] = strides[tensor]
                step = strides[tensor][0] * stretch.items * tensor.dtype.numpy().itemsize
            self.items.append(item)
            points.append(Point(item, (tensor,), counter, step))
        number = Cast(DType.INT, Access(counter, ()))
        rounds = integer(count // stretch.items)
        body = [_for_some(k, stretch.items, places) for k in kernels]
        following = store("step", counter, Binary("add", number, ONE))
        self.done.append(store("step", counter, ZERO))
        test = store("go", go, Binary("lt", number, rounds))
        self.done.append(Repeat((test,), go, (*points, *body, following), ends=True))

    def _own(self, kernels: Sequence[_Along]) -> set[Tensor]:
        """The tensors that these kernels make and nothing else touches."""
        inside = {id(k.kernel) for k in kernels}
        views = self.places.views
        touched = {root_of(t, views) for k in kernels for t in tensors_written(k.kernel)}
        for action in all_actions(tuple(self.actions)):
            if id(action) not in inside:
                touched -= {root_of(t, views) for t in _touched(action)}
        return {t for t in touched if t not in self.fixed}

    def _part(self, tensor: Tensor, items: int, places: dict[Tensor, Tensor]) -> Tensor:
        """A tensor of so many items, which is in another one as the whole is."""
        if tensor not in places:
            part = places[tensor] = _some(tensor, items)
            if tensor in self.places.views:
                self.views[part] = self._part(self.places.views[tensor], items, places)
                if tensor in self.places.offsets:
                    self.offsets[part] = self.places.offsets[tensor]
                if tensor in self.places.apart:
                    self.apart.add(part)
            elif tensor in self.strides:
                self.steps[part] = self.strides[tensor]
        return places[tensor]


def _touched(action: Action) -> Iterable[Tensor]:
    if isinstance(action, Kernel):
        return tensors_touched(action)
    return (action.item, *action.pack) if isinstance(action, Point) else ()


def _some(tensor: Tensor, items: int) -> Tensor:
    return Tensor(tensor.name, tensor.dtype, (integer(items), *tensor.shape[1:]), span=tensor.span)


def _use(along: _Along, views: Mapping[Tensor, Tensor]) -> Use:
    work = work_of(along.kernel, {})
    items: dict[Tensor, int] = {}
    for tensor in along.items:
        root, size = root_of(tensor, views), bytes_of(tensor, {}) // along.count
        items[root] = items.get(root, 0) + size
    others = {root_of(t, views): bytes_of(t, {}) for t in along.others}
    read = {root_of(a.tensor, views) for a in _reads(along.kernel)}
    return Use(work.operations, work.bytes, items, frozenset(read & items.keys()), others)


# ------------------------------------------------------------------------- kernels


def _reads(kernel: Reduce | Group) -> tuple[Access, ...]:
    return accesses(*expressions_of(kernel))


def _reduces(kernel: Reduce | Group) -> tuple[Reduce, ...]:
    return kernel.kernels if isinstance(kernel, Group) else (kernel,)


def _along(action: Action) -> _Along | None:
    """How a kernel works along a batch, if it does."""
    if not isinstance(action, Reduce | Group):
        return None
    shared = action.shared if isinstance(action, Group) else action.domain
    first = _reduces(action)[0].targets[0].subscripts
    index = first[0].index if first else None
    if not isinstance(index, Index) or index not in shared or len(shared) < 2:
        return None
    count = as_int(index.extent)
    if count is None or count < 2:
        return None
    touched = [t for k in _reduces(action) for t in k.targets] + [*_reads(action)]
    items = {a.tensor for a in touched if a.subscripts and a.subscripts[0].index is index}
    if not all(_is_by_items(a, index, items, count) for a in touched):
        return None
    local = action.local if isinstance(action, Group) else ()
    if not items.issuperset((*tensors_written(action), *local)) or _is_computed_with(action, index):
        return None
    return _Along(
        action, index, frozenset(items.difference(local)),
        frozenset(t for t in tensors_touched(action) if t not in items), count,
    )  # fmt: skip


def _is_by_items(access: Access, index: Index, items: Container[Tensor], count: int) -> bool:
    """Whether an access has the index of a batch as its first subscript alone, or not at all."""
    if access.tensor not in items:
        return index not in free_indices(access)
    first, *rest = access.subscripts
    if first.index is not index or as_int(access.tensor.shape[0]) != count:
        return False
    return index not in free_indices(Access(access.tensor, tuple(rest)))


def _is_computed_with(kernel: Reduce | Group, index: Index) -> bool:
    """Whether an index is anything but a subscript."""

    def parts(expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, Access):
            return ()
        return (expr.value,) if isinstance(expr, Local) else children(expr)

    return any(node is index for node in walk(*expressions_of(kernel), parts=parts))


def _for_some(along: _Along, items: int, places: Mapping[Tensor, Tensor]) -> Reduce | Group:
    """The kernel for so many items, of tensors of as many."""
    kernel, old = along.kernel, along.index
    index = None if items == 1 else Index(old.name, integer(items), old.span)
    known: dict[Replaceable, Expr | Tensor] = {t: places[t] for t in along.items}
    known[old] = ZERO if index is None else index

    def of_some(domain: Sequence[Index]) -> tuple[Index, ...]:
        kept = (index if i is old else i for i in domain)
        return tuple(i for i in kept if i is not None)

    if isinstance(kernel, Reduce):
        return substitute_kernel(kernel, known, of_some(kernel.domain))
    local = tuple(_some(t, items) for t in kernel.local)
    known.update(zip(kernel.local, local, strict=True))
    return replace(
        kernel,
        shared=of_some(kernel.shared),
        kernels=tuple(substitute_kernel(k, known, of_some(k.domain)) for k in kernel.kernels),
        local=local,
    )
