"""Products of a few rows and a large matrix, in parts of the sum.

Requires: kernels in their final form, before they are grouped. Ensures: a sum of products that
reads each row of a large tensor for few results is two kernels: sums of parts of its terms, each of
which reads a piece of the tensor from one end to the other, and the sum of these. Does not: touch
what depends on sizes that are not known, guards and conditions, or constant tensors, which are
arranged ahead of time as tiles read them.

Threads that shared the columns instead would each read pieces of all rows, and processors look
ahead only within a stretch of memory. Example: `y[n] += x[k] * a[k, n]` for 2048 values of `k` is
the sum of 16 such sums over 128 of them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..dtypes import DType
from ..ir.loops import Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Access, Expr, Index, Tensor
from ..ir.rewrite import free_indices, has_guard
from ..records import dataclass
from .partial import in_parts, points_of
from .terms import factors_of
from .views import Views, root_of

LEAST_ELEMENTS = 1 << 19
"""Of a tensor that is read from beyond the caches."""
LEAST_OF_PART = 1 << 18
"""Of these in a part."""
MOST_PARTS = 16
LEAST_REUSE = 8
"""How many times more elements of the tensor there are than of partial results."""


def split_products(
    kernels: Sequence[Kernel], constant: Container[Tensor], views: Views
) -> list[Kernel]:
    """The kernels, in order, with products in parts."""
    known = _Known(constant, views, set())
    out: list[Kernel] = []
    for kernel in kernels:
        out += _parts(kernel, known) if isinstance(kernel, Reduce) else [kernel]
        known.note(kernel)
    return out


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known ahead of a call."""

    constant: Container[Tensor]
    views: Views
    made: set[Tensor]

    def has(self, tensor: Tensor) -> bool:
        root = root_of(tensor, self.views)
        return root in self.constant or root in self.made

    def note(self, kernel: Kernel) -> None:
        """What is made of constants alone is one."""
        written = set(tensors_written(kernel))
        roots = {root_of(t, self.views) for t in written}
        if all(self.has(t) for t in tensors_touched(kernel) if t not in written):
            self.made.update(roots)
        else:
            self.made.difference_update(roots)


def _parts(kernel: Reduce, known: _Known) -> list[Kernel]:
    if not _is_plain_sum(kernel):
        return [kernel]
    factors = list(factors_of(kernel.values[0]))
    for factor in factors:
        others = [f for f in factors if f is not factor]
        if isinstance(factor, Access) and others and not known.has(factor.tensor):
            index, count = _cut(kernel, factor, others)
            if count > 1:
                return list(in_parts(kernel, index, count))
    return [kernel]


def _is_plain_sum(kernel: Reduce) -> bool:
    """Whether a kernel sums up real numbers, leaving none out."""
    if kernel.op != "add" or len(kernel.targets) != 1 or not kernel.reduced or kernel.locals:
        return False
    return (
        kernel.condition is None
        and kernel.values[0].dtype in (DType.FLOAT32, DType.FLOAT64)
        and not has_guard(*kernel.values)
    )


def _cut(kernel: Reduce, large: Access, others: Sequence[Expr]) -> tuple[Index, int]:
    """The index that the parts are cut along, and how many there are."""
    found = [s.index for s in large.subscripts if isinstance(s.index, Index)]
    there = set(free_indices(*others))
    batch = [i for i in found if i in there and i in kernel.domain]
    own = [i for i in found if i not in batch]
    plain = len(found) == len(large.subscripts) == len(set(found)) and len(own) > 1
    if not plain or own[0] in kernel.domain or found[-1] in (*batch, *kernel.reduced):
        return kernel.reduced[0], 1
    return own[0], _count(kernel, found, batch, points_of(own[:1]))


def _count(kernel: Reduce, found: Sequence[Index], batch: Sequence[Index], extent: int) -> int:
    """How many parts are worthwhile, of equally many of an index's values."""
    elements, results = points_of(found), points_of(kernel.domain)
    if not results or elements < LEAST_ELEMENTS:
        return 1
    most = min(
        MOST_PARTS // points_of(batch),
        elements // LEAST_OF_PART,
        elements // (LEAST_REUSE * results),
    )
    return max((n for n in range(1, most + 1) if extent % n == 0), default=1)
