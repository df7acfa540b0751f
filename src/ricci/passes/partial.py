"""Long reductions in parts, for several threads.

Requires: kernels in their final form, before they are grouped. Ensures: a reduction of very many
terms to very few elements is two: to so many partial results each, and of these; and so is one over
the rows of a tall matrix that no cache holds: each thread reads rows that follow each other instead
of columns. Does not: touch what depends on sizes that are not known, terms with locals, or sums of
products that tiles compute.

Example: the sum of 2**20 elements is that of 16 sums of 2**16.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import Access, Binary, Const, Expr, Index, Local, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, accesses, substitute
from .siblings import has_reuse

MOST_POINTS = 3
"""Elements of a result that are few: they occupy no more than a thread each."""
LEAST_TERMS = 1 << 15
"""Of a partial result."""
MOST_PARTS = 64
LARGE = 16 << 20
"""Bytes of a tensor that no cache of a core holds."""
MOST_COLUMNS = 8 << 10
"""Bytes of the results of a row: so many stay in the first cache while rows are read."""
MOST_STACKED = 32
"""Parts of a tall matrix: many enough for the threads."""

_NEUTRAL = {
    "add": 0, "mul": 1, "min": math.inf, "max": -math.inf, "and": True, "or": False,
}  # fmt: skip


def split_long(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, with long reductions in parts."""
    out: list[Kernel] = []
    for kernel in kernels:
        out += _parts(kernel) if isinstance(kernel, Reduce) else [kernel]
    return out


def _parts(kernel: Reduce) -> list[Kernel]:
    points, terms = points_of(kernel.domain), points_of(kernel.reduced)
    if not 0 < points <= MOST_POINTS or kernel.locals or kernel.op not in _NEUTRAL:
        return [kernel]
    if terms < 2 * LEAST_TERMS or has_reuse(kernel):
        return [kernel]
    first = kernel.reduced[0]
    extent = points_of((first,))
    most = min(MOST_PARTS, terms // LEAST_TERMS)
    count = max(n for n in range(1, most + 1) if extent % n == 0)
    return [kernel] if count == 1 else in_parts(kernel, first, count)


def split_tall(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, with reductions over the rows of tall matrices in parts."""
    out: list[Kernel] = []
    for kernel in kernels:
        out += _stacked(kernel) if isinstance(kernel, Reduce) else [kernel]
    return out


def _stacked(kernel: Reduce) -> list[Kernel]:
    if not kernel.reduced or kernel.locals or kernel.op not in _NEUTRAL or has_reuse(kernel):
        return [kernel]
    size = points_of(kernel.domain) * max(t.dtype.numpy().itemsize for t in kernel.targets)
    if not 0 < size <= MOST_COLUMNS or not points_of(kernel.reduced):
        return [kernel]
    if not any(_is_tall(a, kernel) for a in accesses(*kernel.values)):
        return [kernel]
    first = kernel.reduced[0]
    extent = points_of((first,))
    count = max(n for n in range(1, MOST_STACKED + 1) if extent % n == 0)
    return [kernel] if count == 1 else in_parts(kernel, first, count)


def _is_tall(access: Access, kernel: Reduce) -> bool:
    """Whether all of a large tensor is read, the reduced indices before those of the results."""
    indices = [s.index for s in access.subscripts]
    if indices != [*kernel.reduced, *kernel.domain] or not kernel.domain:
        return False
    known = [shapes.as_int(e) or 0 for e in access.tensor.shape]
    if known != [points_of((i,)) for i in (*kernel.reduced, *kernel.domain)]:
        return False
    return math.prod(known) * access.dtype.numpy().itemsize >= LARGE


def points_of(indices: Sequence[Index]) -> int:
    """How many points there are; 0 if that is not known."""
    return math.prod(shapes.as_int(i.extent) or 0 for i in indices)


def in_parts(kernel: Reduce, first: Index, count: int) -> list[Kernel]:
    """The kernel of `count` partial results, each of equally many values of a reduced index, and
    that of the whole."""
    length = points_of((first,)) // count
    part, inner = Index("part", integer(count)), Index(first.name, integer(length))
    reduced = tuple(inner if i is first else i for i in kernel.reduced)
    place = Binary("add", Binary("mul", part, integer(length)), inner)
    moved: dict[Replaceable, Expr | Tensor] = {first: place}
    shape = (part.extent, *(i.extent for i in kernel.domain))
    tensors = [Tensor(f"{t.tensor.name}'", x.dtype, shape) for t, x in _pairs(kernel)]
    subscripts = tuple(Subscript(i) for i in (part, *kernel.domain))
    partial = tuple(Access(t, subscripts) for t in tensors)
    neutral = tuple(Const(_NEUTRAL[kernel.op], t.dtype) for t in tensors)
    totals = tuple(Local(f"acc{k}", e) for k, e in enumerate(neutral))
    condition = None if kernel.condition is None else substitute(kernel.condition, moved)
    parts = replace(
        kernel,
        targets=partial,
        domain=(part, *kernel.domain),
        reduced=reduced,
        initial=neutral,
        values=tuple(substitute(v, moved) for v in kernel.values),
        accumulators=totals,
        results=totals,
        condition=condition,
    )
    return [parts, replace(kernel, reduced=(part,), values=partial, condition=None)]


def _pairs(kernel: Reduce) -> list[tuple[Access, Expr]]:
    """Targets and the accumulators' first values."""
    return list(zip(kernel.targets, kernel.initial, strict=True))
