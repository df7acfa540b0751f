"""Rows that are blocks of columns: what is done for each column of a matrix, by blocks of them.

Requires: kernels that share an index along which memory is contiguous. Ensures: the same kernels
over tensors of a finer shape, `[m, n]` as `[m, n / 256, 256]`, which share the number of the block,
so that what several of them read stays in a cache meanwhile; where rows of the matrix fall on few
lines of the caches, in a copy of the block. Does not: cut columns whose number has no divisor that
suits, or kernels in which anything else depends on the index.

Example: softmax over the first axis reads its matrix from memory once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from ..ir import shapes
from ..ir.loops import (
    Group,
    Kernel,
    Reduce,
    expressions_of,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Access, Expr, Index, Subscript, Tensor, integer
from ..ir.rewrite import accesses, free_indices
from ..records import dataclass, replace
from .fuse import map_expressions
from .map_windows import copy_of
from .rows import MOST_KERNELS, Rows, extent
from .views import Views

LARGE = 4 << 20
"""Bytes of all tensors that a core's own caches do not hold."""
NEAR_BYTES, MOST_BYTES = 512 << 10, 4 << 20
"""Of a block that such a cache holds, and of one that the third does for each core."""
_MOST_COPIED = 2 << 20
"""Of one that is copied, which a core's own cache still holds most of."""
LEAST_RUN, LONG_RUN = 512, 1024
"""Bytes of a row of a block: memory gives shorter stretches at a fraction of its rate, and the
longer ones are worth leaving a core's own caches."""
_UNIT = 16
"""Columns of which blocks have multiples: whole vectors."""


def in_blocks(rows: Rows, size: int) -> Rows | None:
    """The rows, each a block of columns, if there are such; of a column there are `size` bytes."""
    index = rows.shared[-1]
    if extent(index) * size < LARGE or any(_has(a, index) is None for a in rows.accesses()):
        return None
    if any(_is_bound(a.tensor, rows) for a in rows.accesses()):
        return None
    width = min(a.dtype.numpy().itemsize for a in rows.accesses())
    most = min(max(NEAR_BYTES // size, LONG_RUN // width), MOST_BYTES // size)
    columns = _divisor(extent(index), most)
    if columns * width < LEAST_RUN:
        return None
    return _Cut(index, columns).rows(rows)


def with_copies(kernels: Sequence[Kernel], views: Views) -> list[Kernel]:
    """The kernels, of groups those that read of each block a copy of it, where rows of the matrix
    are so far apart, in powers of two, that caches do not keep what was read."""
    return [_copied(k, views) if isinstance(k, Group) else k for k in kernels]


def _copied(group: Group, views: Views) -> Group:
    made = set(tensors_written(group))
    for tensor in tensors_touched(group):
        read = [
            (n, a)
            for n, k in enumerate(group.kernels)
            for a in accesses(*expressions_of(k))
            if a.tensor is tensor
        ]
        users = len({n for n, _ in read})
        if tensor in made or users < 2 or group.pieces or len(group.kernels) == MOST_KERNELS:
            continue
        if all(_is_block(a, group) for _, a in read) and _clashes(tensor, views):
            group = _over_copy(group, read[0][1])
    return group


def _is_block(access: Access, group: Group) -> bool:
    """Whether an access reads elements of the block that the last shared index is the number of."""
    places = [s.index for s in access.subscripts if s.rule is None]
    indices = [i for i in places if isinstance(i, Index)]
    if len(indices) != len(access.subscripts) or len(set(indices)) != len(indices):
        return False
    return len(indices) > 2 and indices[-2] is group.shared[-1]


def _clashes(tensor: Tensor, views: Views) -> bool:
    """Whether rows of blocks fall on so few lines of a core's cache that it does not hold a block
    that it has room for."""
    *rows, blocks, columns = (shapes.as_int(e) or 0 for e in tensor.shape)
    whole = views.get(tensor)
    if whole is None or shapes.as_int(whole.shape[-1]) != blocks * columns:
        return False
    run = columns * tensor.dtype.numpy().itemsize
    apart = blocks * run
    apart &= -apart  # rows that are twice as far apart have half as many lines
    return apart > run and NEAR_BYTES <= math.prod(rows) * run <= _MOST_COPIED


def _over_copy(group: Group, read: Access) -> Group:
    """The group with a kernel before the others that copies what an access reads."""
    along = [s.index for s in read.subscripts if isinstance(s.index, Index)]
    copy, again = copy_of(read, along, group.kernels[0], group.shared)

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor is read.tensor:
            return replace(expr, tensor=again.tensor)
        return expr

    kernels = (copy, *(map_expressions(k, node) for k in group.kernels))
    return replace(group, kernels=kernels, local=(*group.local, again.tensor))


def _is_bound(tensor: Tensor, rows: Rows) -> bool:
    """Whether a tensor, or one that it is a part of, has no other shape."""
    while tensor in rows.views and tensor not in rows.bound:
        tensor = rows.views[tensor]
    return tensor in rows.bound


def _divisor(count: int, most: int) -> int:
    """The largest number of whole vectors up to `most` that divides a number; 0 if none does."""
    numbers = range(most // _UNIT * _UNIT, 0, -_UNIT)
    return next((n for n in numbers if count % n == 0), 0)


def _has(access: Access, index: Index) -> bool | None:
    """Whether an access has an index, which is then its last subscript; None if it has it
    elsewhere."""
    found = [index in free_indices(s.index) for s in access.subscripts]
    if True not in found:
        return False
    last = access.subscripts[-1]
    if found.count(True) > 1 or last.index is not index or last.rule is not None:
        return None
    return True if shapes.equal(access.tensor.shape[-1], index.extent) else None


@dataclass(slots=True)
class _Cut:
    """An index as one of blocks and one within these."""

    index: Index
    columns: int
    outer: Index = field(init=False)
    inner: Index = field(init=False)
    finer: dict[Tensor, Tensor] = field(default_factory=dict)
    """For each tensor that of the finer shape."""

    def __post_init__(self) -> None:
        self.outer = Index(self.index.name, integer(extent(self.index) // self.columns))
        self.inner = Index(self.index.name, integer(self.columns))

    def rows(self, rows: Rows) -> Rows | None:
        """The kernels over blocks."""
        kernels = tuple(map(self._kernel, rows.kernels))
        if any(self.index in free_indices(*expressions_of(k)) for k in kernels):
            return None
        return replace(
            rows,
            shared=(*rows.shared[:-1], self.outer),
            kernels=kernels,
            finer={new: old for old, new in self.finer.items()},
        )

    def _kernel(self, kernel: Reduce) -> Reduce:
        new = map_expressions(kernel, self._node)
        domain: list[Index] = []
        for index in kernel.domain:
            domain += (self.outer, self.inner) if index is self.index else (index,)
        return replace(new, targets=tuple(map(self._access, kernel.targets)), domain=tuple(domain))

    def _node(self, expr: Expr) -> Expr:
        return self._access(expr) if isinstance(expr, Access) else expr

    def _access(self, access: Access) -> Access:
        if not _has(access, self.index):
            return access
        tensor = access.tensor
        if tensor not in self.finer:
            shape = (*tensor.shape[:-1], self.outer.extent, self.inner.extent)
            self.finer[tensor] = replace(tensor, shape=shape)
        places = (*access.subscripts[:-1], Subscript(self.outer), Subscript(self.inner))
        return replace(access, tensor=self.finer[tensor], subscripts=places)
