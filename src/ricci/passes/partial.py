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
from collections.abc import Callable, Mapping, Sequence

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import (
    ZERO,
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Local,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import Replaceable, accesses, substitute
from ..records import replace
from .fuse import substitute_kernel
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
_UNIT = 64
"""Terms of which parts have multiples, if not all are equal: whole vectors. Shorter ones are not
made to have more parts."""
MOST_STACKED = 32
"""Parts of a tall matrix: many enough for the threads."""

NEUTRAL = {
    "add": 0, "mul": 1, "min": math.inf, "max": -math.inf, "and": True, "or": False,
}  # fmt: skip


def split_long(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, with long reductions in parts."""
    return _split(kernels, _long_parts)


def split_tall(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, with reductions over the rows of tall matrices in parts."""
    return _split(kernels, _tall_parts)


def _split(kernels: Sequence[Kernel], most: Callable[[Reduce], int]) -> list[Kernel]:
    """The kernels, each reduction in as many parts as it may have at most, or nearly."""
    out: list[Kernel] = []
    for kernel in kernels:
        parts: list[Kernel] = [kernel]
        if isinstance(kernel, Reduce) and kernel.reduced and _is_simple(kernel):
            first = kernel.reduced[0]
            count = _count(points_of((first,)), most(kernel))
            parts = parts if count == 1 else in_parts(kernel, first, count)
        out += parts
    return out


def _count(extent: int, most: int) -> int:
    """How many parts there are: as many as can be equal, if that is not far from the most, or each
    would be short."""
    equal = max((n for n in range(2, most + 1) if extent and extent % n == 0), default=1)
    return equal if 2 * equal > most or extent < _UNIT * most else most


def _is_simple(kernel: Reduce) -> bool:
    """Whether results of parts can be put together, and tiles do not compute the kernel."""
    return not kernel.locals and kernel.op in NEUTRAL and not has_reuse(kernel)


def _long_parts(kernel: Reduce) -> int:
    if not 0 < points_of(kernel.domain) <= MOST_POINTS:
        return 1
    return min(MOST_PARTS, points_of(kernel.reduced) // LEAST_TERMS)


def _tall_parts(kernel: Reduce) -> int:
    size = points_of(kernel.domain) * max(t.dtype.numpy().itemsize for t in kernel.targets)
    few = 0 < size <= MOST_COLUMNS
    return MOST_STACKED if few and any(_is_tall(a, kernel) for a in accesses(*kernel.values)) else 1


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


def only(kernel: Reduce, ranges: Mapping[Index, range]) -> tuple[Reduce, dict[Index, Index]]:
    """The kernel for some values of indices of its domain and of reduced ones, and the new indices
    for them; of which there is one value alone, that is a number, and there is no index."""
    new = {i: Index(i.name, integer(len(r)), i.span) for i, r in ranges.items() if len(r) > 1}
    known: dict[Replaceable, Expr | Tensor] = {
        i: shapes.add(new.get(i, ZERO), integer(r[0])) for i, r in ranges.items()
    }
    domain, reduced = (
        tuple(new.get(i, i) for i in old if i in new or i not in ranges)
        for old in (kernel.domain, kernel.reduced)
    )
    return replace(substitute_kernel(kernel, known, domain), reduced=reduced), new


def in_parts(kernel: Reduce, first: Index, count: int) -> list[Kernel]:
    """The kernel of `count` partial results, each of equally many values of a reduced index, that
    of one more result if some values are left, and that of the whole."""
    extent = points_of((first,))
    length = extent // count
    if extent % count and first is kernel.reduced[-1] and not kernel.domain:
        length = length // _UNIT * _UNIT
    rest = extent - count * length
    all_parts = count + (1 if rest else 0)
    shape = (integer(all_parts), *(i.extent for i in kernel.domain))
    tensors = [Tensor(f"{t.tensor.name}'", x.dtype, shape) for t, x in _pairs(kernel)]
    part = Index("part", integer(count))
    out: list[Kernel] = [_partial(kernel, first, length, part, tensors)]
    if rest:
        last = _partial(kernel, first, rest, integer(count), tensors, count * length)
        out.append(last)
    part = Index("part", integer(all_parts))
    subscripts = tuple(Subscript(i) for i in (part, *kernel.domain))
    partial = tuple(Access(t, subscripts) for t in tensors)
    return [*out, replace(kernel, reduced=(part,), values=partial, condition=None)]


def _partial(
    kernel: Reduce,
    first: Index,
    length: int,
    part: Index | Const,
    tensors: Sequence[Tensor],
    start: int = 0,
) -> Reduce:
    """The kernel of the results of parts, each of `length` values of a reduced index, or of one
    part that begins at `start`."""
    inner = Index(first.name, integer(length))
    reduced = tuple(inner if i is first else i for i in kernel.reduced)
    parts = (part,) if isinstance(part, Index) else ()
    begin = Binary("mul", part, integer(length)) if isinstance(part, Index) else integer(start)
    moved: dict[Replaceable, Expr | Tensor] = {first: Binary("add", begin, inner)}
    subscripts = tuple(Subscript(i) for i in (part, *kernel.domain))
    neutral = tuple(Const(NEUTRAL[kernel.op], t.dtype) for t in tensors)
    totals = tuple(Local(f"acc{k}", e) for k, e in enumerate(neutral))
    return replace(
        kernel,
        targets=tuple(Access(t, subscripts) for t in tensors),
        domain=(*parts, *kernel.domain),
        reduced=reduced,
        initial=neutral,
        values=tuple(substitute(v, moved) for v in kernel.values),
        accumulators=totals,
        results=totals,
        condition=None if kernel.condition is None else substitute(kernel.condition, moved),
    )


def _pairs(kernel: Reduce) -> list[tuple[Access, Expr]]:
    """Targets and the accumulators' first values."""
    return list(zip(kernel.targets, kernel.initial, strict=True))
