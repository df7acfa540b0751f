"""Several kernels at the points of some indices that they share, one after the other.

What one of them writes at such a point, a *row*, the others read at the same point only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ..ir import shapes
from ..ir.loops import Group, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import Access, Index, Tensor
from ..ir.rewrite import accesses
from ..records import dataclass, replace
from .siblings import renamed
from .views import Views, root_of

MOST_KERNELS = 8


@dataclass(frozen=True, slots=True)
class Rows:
    """Kernels that can be done together for each point of `shared`, in which all are written."""

    views: Views
    shared: tuple[Index, ...]
    kernels: tuple[Reduce, ...]
    given: tuple[Reduce | Group, ...]
    """The same kernels as they were."""
    pieces: tuple[int, ...] = ()
    """As in `Group`."""
    bound: frozenset[Tensor] = frozenset()
    """Tensors that have no other shape than their own."""
    finer: Mapping[Tensor, Tensor] = field(default_factory=dict)
    """Tensors of a shape of their own that stand for others, and these."""
    threads: int = 2
    """Those of a call."""

    def with_kernel(self, kernel: Reduce) -> Rows | None:
        """The rows with one more kernel; None if it cannot be done with the others."""
        if len(self.kernels) == MOST_KERNELS or not self.is_apart(kernel):
            return None
        mapping = self._same_place(kernel)
        if not mapping:
            return None
        shared = tuple(i for i in self.shared if i in mapping)
        names = {old: i for i, old in mapping.items()}
        kernels = (*self.kernels, with_names(kernel, names, self.shared))
        return replace(self, shared=shared, kernels=kernels, given=(*self.given, kernel))

    def is_apart(self, kernel: Reduce) -> bool:
        """Whether a kernel writes nothing that the others touch, and reads what they write
        under the names by which it is written."""
        touched = {root_of(t, self.views) for k in self.kernels for t in tensors_touched(k)}
        made = self.made()
        roots = {root_of(t, self.views) for t in made}
        if any(root_of(t, self.views) in touched for t in tensors_written(kernel)):
            return False
        others = (t for t in tensors_touched(kernel) if t not in made)
        return all(root_of(t, self.views) not in roots for t in others)

    def made(self) -> set[Tensor]:
        """The tensors that the kernels write."""
        return {t for k in self.kernels for t in tensors_written(k)}

    def _same_place(self, kernel: Reduce) -> dict[Index, Index]:
        """For each shared index the index of a kernel that always is the same where it reads what
        the others write; none if it reads nothing of that."""
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

    def count(self) -> int:
        """How many rows there are."""
        return math.prod(extent(i) for i in self.shared)

    def accesses(self) -> Iterator[Access]:
        """What is touched."""
        for kernel in self.kernels:
            yield from (*kernel.targets, *accesses(*expressions_of(kernel)))

    def group(self) -> Group:
        """The kernels as one."""
        first = self.kernels[0]
        parts = tuple(_leading(k, self.shared) for k in self.kernels)
        rest = len(self.shared) + 1
        pieces = self.pieces if all(len(parts[n].domain) == rest for n in self.pieces) else ()
        return Group(first.name, self.shared, parts, pieces=pieces, span=first.span)


def with_names(kernel: Reduce, names: Mapping[Index, Index], shared: Sequence[Index]) -> Reduce:
    """A kernel with other names for some indices, in which `shared` ones stand for nothing else."""
    own = (i for i in (*kernel.domain, *kernel.reduced) if i in shared and i not in names)
    return renamed(kernel, {**names, **{i: replace(i) for i in own}})


def _pairs(target: Access, read: Access, kernel: Reduce) -> Iterator[tuple[Index, Index]]:
    """Indices of what is written and what is read that are the same at the same element."""
    for s, t in zip(target.subscripts, read.subscripts, strict=True):
        if isinstance(s.index, Index) and isinstance(t.index, Index) and t.index in kernel.domain:
            if shapes.equal(s.index.extent, t.index.extent):
                yield s.index, t.index


def _leading(kernel: Reduce, shared: tuple[Index, ...]) -> Reduce:
    rest = tuple(i for i in kernel.domain if i not in shared)
    return replace(kernel, domain=(*shared, *rest))


def extent(index: Index) -> int:
    """How many values an index has, 0 if that is not known."""
    return shapes.as_int(index.extent) or 0


def is_known(kernel: Reduce) -> bool:
    """Whether all sizes of a kernel are numbers, and none is zero."""
    extents = [i.extent for i in (*kernel.domain, *kernel.reduced)]
    extents += [e for t in tensors_touched(kernel) for e in t.shape]
    return all((shapes.as_int(e) or 0) > 0 for e in extents)
