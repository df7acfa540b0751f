"""Rows that are blocks of columns: what is done for each column of a matrix, by blocks of them.

Requires: kernels that share an index along which memory is contiguous. Ensures: the same kernels
over tensors of a finer shape, `[m, n]` as `[m, n / 256, 256]`, which share the number of the block,
so that what several of them read stays in a cache meanwhile. Does not: cut columns whose number
has no divisor that suits, or kernels in which anything else depends on the index.

Example: softmax over the first axis reads its matrix from memory once.
"""

from __future__ import annotations

from dataclasses import field

from ..ir import shapes
from ..ir.loops import Reduce, expressions_of
from ..ir.nodes import Access, Expr, Index, Subscript, Tensor, integer
from ..ir.rewrite import free_indices
from ..records import dataclass, replace
from .fuse import map_expressions
from .rows import Rows, extent

LARGE = 4 << 20
"""Bytes of all tensors that a core's own caches do not hold."""
NEAR_BYTES, MOST_BYTES = 512 << 10, 4 << 20
"""Of a block that such a cache holds, and of one that the third does for each core."""
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
