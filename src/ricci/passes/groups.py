"""Kernels done together, row by row: what one computes of a row is in the cache for the next.

Requires: the kernels of a run, in their final order. Ensures: neighbouring reductions and maps
of which each reads, at a point of some shared indices, what the others write at the same point are
one `Group`, where a row (all that they touch at such a point) fits in the cache and there are
enough rows for the threads; what is needed for a row only is `local`. Does not: change the order
of kernels, or touch sums of products, which have better ways to use the cache, and what depends on
constant tensors alone.

Example: sums over each of 128 rows, and what is left of each element of a row when its mean is
taken off: a row is read from memory once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..ir import shapes
from ..ir.loops import Group, Kernel, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import Access, Index, Tensor
from ..ir.rewrite import accesses, free_indices
from .siblings import has_reuse, renamed
from .views import Views, root_of

LEAST_ROW, MOST_ROW = 1 << 8, 512 << 10
"""Bytes of a row: shorter ones are not worth a call of each kernel, longer ones leave the cache."""
LEAST_ROWS = 32
LEAST_BYTES = 128 << 10
"""Of all rows: what is less stays in the cache anyway."""
LEAST_RUN = 16
"""Elements of a row that are neighbours in memory: with fewer, rows are not what is read."""
MOST_KERNELS = 8


def group_kernels(
    kernels: Sequence[Kernel],
    views: Views,
    constant: Container[Tensor] = (),
    results: Iterable[Tensor] | None = None,
) -> list[Kernel]:
    """The kernels, in order, in groups where these are worthwhile.

    Tensors that are not among the `results` are only read by the kernels; none of them is known to
    be if there are no results.
    """
    grouped = _grouped(kernels, views, constant)
    if results is None:
        return grouped
    return _with_local_tensors(grouped, views, results)


def _with_local_tensors(
    kernels: list[Kernel], views: Views, results: Iterable[Tensor]
) -> list[Kernel]:
    """The same, of what only one group touches each thread keeping its own row."""
    users = Counter(root_of(t, views) for k in kernels for t in tensors_touched(k))
    users.update(root_of(t, views) for t in results)
    viewed = {*views, *views.values()}
    out: list[Kernel] = []
    for kernel in kernels:
        if isinstance(kernel, Group):
            made = (t for t in tensors_written(kernel) if users[t] == 1 and t not in viewed)
            kernel = replace(kernel, local=tuple(made))
        out.append(kernel)
    return out


def _grouped(kernels: Sequence[Kernel], views: Views, constant: Container[Tensor]) -> list[Kernel]:
    fixed: set[Tensor] = set()
    out: list[Kernel] = []
    group: _Group | None = None
    for kernel in kernels:
        if _is_fixed(kernel, views, constant, fixed):
            fixed.update(root_of(t, views) for t in tensors_written(kernel))
        elif isinstance(kernel, Reduce) and _can_join(kernel):
            larger = None if group is None else group.joined_by(kernel)
            if larger is None:
                out += [] if group is None else group.result()
                larger = _Group(views, kernel.domain, (kernel,), (kernel,))
            group = larger
            continue
        out += [] if group is None else group.result()
        out.append(kernel)
        group = None
    return out + ([] if group is None else group.result())


def _is_fixed(
    kernel: Kernel, views: Views, constant: Container[Tensor], fixed: Container[Tensor]
) -> bool:
    """Whether a kernel depends on constant tensors alone."""
    read = {root_of(t, views) for t in tensors_touched(kernel)}
    read -= {root_of(t, views) for t in tensors_written(kernel)}
    return all(t in constant or t in fixed for t in read)


def _can_join(kernel: Reduce) -> bool:
    extents = [i.extent for i in (*kernel.domain, *kernel.reduced)]
    extents += [e for t in tensors_touched(kernel) for e in t.shape]
    return all((shapes.as_int(e) or 0) > 0 for e in extents) and not has_reuse(kernel)


@dataclass(frozen=True, slots=True)
class _Group:
    """Kernels that can be done together for each point of `shared`, in which all are written."""

    views: Views
    shared: tuple[Index, ...]
    kernels: tuple[Reduce, ...]
    given: tuple[Reduce, ...]
    """The same kernels as they were."""

    def joined_by(self, kernel: Reduce) -> _Group | None:
        """The group with one more kernel; None if it cannot be, or is not worthwhile."""
        if len(self.kernels) == MOST_KERNELS or not self._is_apart(kernel):
            return None
        mapping = self._same_place(kernel)
        if not mapping:
            return None
        shared = tuple(i for i in self.shared if i in mapping)
        names = {old: i for i, old in mapping.items()}
        for index in (*kernel.domain, *kernel.reduced):  # that stand for something else there
            if index not in names and index in self.shared:
                names[index] = replace(index)
        kernels = (*self.kernels, renamed(kernel, names))
        larger = _Group(self.views, shared, kernels, (*self.given, kernel))
        return larger if any(g._is_possible() for g in larger._with_fewer_shared()) else None

    def _is_apart(self, kernel: Reduce) -> bool:
        """Whether a kernel writes nothing that the group touches, and reads what the group writes
        under the names by which it is written."""
        touched = {root_of(t, self.views) for k in self.kernels for t in tensors_touched(k)}
        made = {t for k in self.kernels for t in tensors_written(k)}
        roots = {root_of(t, self.views) for t in made}
        if any(root_of(t, self.views) in touched for t in tensors_written(kernel)):
            return False
        others = (t for t in tensors_touched(kernel) if t not in made)
        return all(root_of(t, self.views) not in roots for t in others)

    def _same_place(self, kernel: Reduce) -> dict[Index, Index]:
        """For each shared index the index of a kernel that always is the same where it reads what
        the group writes; none if it reads nothing of that."""
        targets = {t.tensor: t for k in self.kernels for t in k.targets}
        found: dict[Index, Index] | None = None
        for read in accesses(*expressions_of(kernel)):
            if read.tensor in targets:
                pairs = dict(_pairs(targets[read.tensor], read, kernel))
                if found is not None:
                    pairs = {i: j for i, j in pairs.items() if found.get(i) is j}
                found = pairs
        mapping = {i: j for i, j in (found or {}).items() if i in self.shared}
        return mapping if len(set(mapping.values())) == len(mapping) else {}

    def _with_fewer_shared(self) -> Iterator[_Group]:
        """Itself, and with only the outer ones of the indices."""
        for count in range(len(self.shared), 0, -1):
            yield replace(self, shared=self.shared[:count])

    def _is_possible(self) -> bool:
        """Whether there are enough rows, not too long, and of neighbours in memory."""
        if self._rows() < LEAST_ROWS or self._row() > MOST_ROW:
            return False
        return all(_has_long_runs(a, self.shared) for a in self._accesses())

    def _is_worthwhile(self) -> bool:
        row = self._row()
        return row >= LEAST_ROW and self._rows() * row >= LEAST_BYTES and self._is_possible()

    def _accesses(self) -> Iterator[Access]:
        for kernel in self.kernels:
            yield from (*kernel.targets, *accesses(*expressions_of(kernel)))

    def _rows(self) -> int:
        return math.prod(_extent(i) for i in self.shared)

    def _row(self) -> int:
        """Bytes that are touched at a point of the shared indices."""
        sizes: dict[Tensor, int] = {}
        for access in self._accesses():
            plain = [s.index for s in access.subscripts]
            count = math.prod(shapes.as_int(e) or 0 for e in access.tensor.shape)
            count //= math.prod(_extent(i) for i in self.shared if any(i is j for j in plain))
            size = count * access.dtype.numpy().itemsize
            sizes[access.tensor] = max(size, sizes.get(access.tensor, 0))
        return sum(sizes.values())

    def result(self) -> list[Kernel]:
        """The group if it is worthwhile, else its kernels as they were."""
        if len(self.kernels) < 2 or not any(k.values for k in self.kernels):
            return list(self.given)
        group = next((g for g in self._with_fewer_shared() if g._is_worthwhile()), None)
        if group is None:
            return list(self.given)
        first = self.kernels[0]
        parts = tuple(_leading(k, group.shared) for k in self.kernels)
        return [Group(first.name, group.shared, parts, span=first.span)]


def _has_long_runs(access: Access, shared: Sequence[Index]) -> bool:
    """Whether what is touched at a point of the shared indices are neighbours in memory."""
    indices = [[i for i in free_indices(s.index) if i in shared] for s in access.subscripts]
    run = 1
    for extent, found in zip(access.tensor.shape[::-1], indices[::-1], strict=True):
        count = shapes.as_int(extent) or 0
        if found and count > 1:
            break
        run *= count
    rest = math.prod(shapes.as_int(e) or 0 for e in access.tensor.shape)
    rest //= math.prod(_extent(i) for found in indices for i in found)
    return run >= min(LEAST_RUN, rest)


def _pairs(target: Access, read: Access, kernel: Reduce) -> Iterator[tuple[Index, Index]]:
    """Indices of what is written and what is read that are the same at the same element."""
    for s, t in zip(target.subscripts, read.subscripts, strict=True):
        if isinstance(s.index, Index) and isinstance(t.index, Index) and t.index in kernel.domain:
            if shapes.equal(s.index.extent, t.index.extent):
                yield s.index, t.index


def _leading(kernel: Reduce, shared: Sequence[Index]) -> Reduce:
    rest = tuple(i for i in kernel.domain if i not in shared)
    return replace(kernel, domain=(*shared, *rest))


def _extent(index: Index) -> int:
    return shapes.as_int(index.extent) or 0
