"""Kernels done together, row by row: what one computes of a row is in the cache for the next.

Requires: the kernels of a run, in their final order. Ensures: neighbouring reductions and maps
of which each reads, at a point of some shared indices, what the others write at the same point are
one `Group`, where a row (all that they touch at such a point) fits in the cache and there are
enough rows for the threads; what is needed for a row only is `local`. Kernels that are done
together at pieces of rows stay together in that. Where rows would be columns they are blocks of
these. Does not: touch sums of products, save in the chains of `chains`, or what depends on constant
tensors alone.

Example: sums over each of 128 rows, and what is left of each element of a row when its mean is
taken off: a row is read from memory once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from ..ir import shapes
from ..ir.loops import Group, Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Access, Expr, Index, Tensor
from ..ir.rewrite import accesses, free_indices
from ..records import replace
from .chains import find_chains
from .columns import in_blocks
from .machine import UNKNOWN, Machine
from .rows import Rows, extent, is_known
from .siblings import has_reuse
from .views import Views, root_of

LEAST_ROW, LONG_ROW, MOST_ROW = 1 << 8, 512 << 10, (6 << 20) + (4 << 10)
"""Bytes of a row: shorter ones are not worth a call of each kernel, long ones leave a core's own
caches, and longer ones the third, too: three of 2 MB do not, with a few numbers beside them."""
LEAST_ROWS = 16
LEAST_BYTES = 128 << 10
"""Of all rows: what is less stays in the cache anyway."""
LEAST_RUN = 16
"""Elements of a row that are neighbours in memory: with fewer, rows are not what is read."""


def group_kernels(
    kernels: Sequence[Kernel],
    views: Views,
    constant: Container[Tensor] = (),
    results: Iterable[Tensor] | None = None,
    bound: Iterable[Tensor] = (),
    machine: Machine = UNKNOWN,
) -> list[Kernel]:
    """The kernels, in an order that can be run, in groups where these are worthwhile.

    Tensors that are not among the `results` are only read by the kernels; none of them is known to
    be if there are no results. Tensors that are `bound` are not row-major, or not always in the
    same place, and stay as they are.
    """
    fixed = constant_kernels(kernels, views, constant)
    if results is None:
        return _grouped(kernels, views, fixed, frozenset(bound), machine.threads)
    results = list(results)
    kernels = find_chains(kernels, views, fixed, results, machine.pairs)
    kernels = _grouped(kernels, views, fixed, frozenset(bound), machine.threads)
    return _with_local_tensors(kernels, views, results)


def _with_local_tensors(
    kernels: list[Kernel], views: Views, results: Iterable[Tensor]
) -> list[Kernel]:
    """The same, of what only one group touches each thread keeping its own row."""
    users = Counter(root_of(t, views) for k in kernels for t in tensors_touched(k))
    users.update(root_of(t, views) for t in results)
    out: list[Kernel] = []
    for kernel in kernels:
        if isinstance(kernel, Group):
            for tensor in tensors_written(kernel):
                _forget(tensor, views, users)
            viewed = {*views, *views.values()}
            made = (t for t in tensors_written(kernel) if users[t] == 1 and t not in viewed)
            kernel = replace(kernel, local=tuple(made))
        out.append(kernel)
    return out


def _forget(tensor: Tensor, views: Views, users: Counter[Tensor]) -> None:
    """Let a tensor be no view if nothing but its group touches what it is a view of."""
    whole = views.get(tensor)
    if whole is not None and users[whole] == 1 and whole not in views:
        if list(views.values()).count(whole) == 1:
            del views[tensor]
            users[tensor] = 1


def constant_kernels(
    kernels: Iterable[Kernel], views: Views, constant: Container[Tensor]
) -> set[int]:
    """The identities of the kernels that depend on constant tensors alone."""
    known: set[Tensor] = set()
    found: set[int] = set()
    for kernel in kernels:
        read = {root_of(t, views) for t in tensors_touched(kernel)}
        read -= {root_of(t, views) for t in tensors_written(kernel)}
        if all(t in constant or t in known for t in read):
            known.update(root_of(t, views) for t in tensors_written(kernel))
            found.add(id(kernel))
    return found


def _grouped(
    kernels: Sequence[Kernel],
    views: Views,
    fixed: Container[int],
    bound: frozenset[Tensor],
    threads: int,
) -> list[Kernel]:
    out: list[Kernel] = []
    group: Rows | None = None
    for kernel in kernels:
        if isinstance(kernel, Group) and id(kernel) not in fixed and kernel.shared[:-1]:
            out += [] if group is None else _result(group, views)
            pieces = tuple(range(len(kernel.kernels)))
            shared = kernel.shared[:-1]
            group = Rows(views, shared, kernel.kernels, (kernel,), pieces, bound, threads=threads)
            continue
        if isinstance(kernel, Reduce) and id(kernel) not in fixed and _can_join(kernel):
            larger = None if group is None else _joined(group, kernel)
            if larger is None:
                out += [] if group is None else _result(group, views)
                one = (kernel,)
                larger = Rows(views, kernel.domain, one, one, bound=bound, threads=threads)
            group = larger
            continue
        out += [] if group is None else _result(group, views)
        out.append(kernel)
        group = None
    return out + ([] if group is None else _result(group, views))


def _can_join(kernel: Reduce) -> bool:
    if not is_known(kernel):
        return False
    return not has_reuse(kernel) or len(accesses(*kernel.values)) == 1  # as of a window


def _joined(group: Rows, kernel: Reduce) -> Rows | None:
    """The group with one more kernel; None if it cannot be, or is not worthwhile."""
    larger = group.with_kernel(kernel)
    return larger if larger and any(map(_is_possible, _ways(larger))) else None


def _ways(rows: Rows) -> Iterator[Rows]:
    """Itself, and with only the outer ones of the indices; or with the last one in blocks."""
    for count in range(len(rows.shared), 0, -1):
        yield replace(rows, shared=rows.shared[:count])
    blocks = in_blocks(rows, _size(rows))
    if blocks is not None:
        yield blocks


def _is_possible(rows: Rows) -> bool:
    """Whether there are enough rows, not too long, and of neighbours in memory."""
    if not _are_enough(rows) or _size(rows) > MOST_ROW:
        return False
    return all(_has_long_runs(a, rows.shared) for a in rows.accesses())


def _are_enough(rows: Rows) -> bool:
    """Whether all threads do about as many rows, also when one of them is slower. Few that are done
    in pieces stay apart: these are shared better."""
    count, threads = rows.count(), rows.threads
    few = not rows.pieces and count >= 2 * threads and count % threads == 0
    return few or count >= LEAST_ROWS


def _is_worthwhile(rows: Rows) -> bool:
    size = _size(rows)
    if size < LEAST_ROW or rows.count() * size < LEAST_BYTES or not _is_possible(rows):
        return False
    return size <= LONG_ROW or _again(rows) > LONG_ROW // 2


def _again(rows: Rows) -> int:
    """Bytes that several kernels touch at a point of the shared indices."""
    users = Counter(t for k in rows.kernels for t in tensors_touched(k))
    return sum(size for t, size in _sizes(rows).items() if users[t] > 1)


def _size(rows: Rows) -> int:
    """Bytes that are touched at a point of the shared indices."""
    return sum(_sizes(rows).values())


def _sizes(rows: Rows) -> dict[Tensor, int]:
    """The same of each tensor."""
    sizes: dict[Tensor, int] = {}
    for access in rows.accesses():
        plain = [s.index for s in access.subscripts]
        count = math.prod(shapes.as_int(e) or 0 for e in access.tensor.shape)
        count //= math.prod(extent(i) for i in rows.shared if any(i is j for j in plain))
        size = count * access.dtype.numpy().itemsize
        sizes[access.tensor] = max(size, sizes.get(access.tensor, 0))
    return sizes


def _result(rows: Rows, views: Views) -> list[Kernel]:
    """The group if it is worthwhile, else its kernels as they were."""
    if len(rows.given) < 2 or not any(k.values for k in rows.kernels):
        return list(rows.given)
    group = next(filter(_is_worthwhile, _ways(rows)), None)
    if group is None:
        return list(rows.given)
    views.update(group.finer)
    return [group.group()]


def _step(place: Expr, indices: Iterable[Index]) -> int:
    """How far apart a subscript is for neighbouring values of indices, at least."""
    factors = shapes.affine(place)
    return 1 if factors is None else min(abs(factors[0].get(i, 1)) for i in indices)


def _has_long_runs(access: Access, shared: Sequence[Index]) -> bool:
    """Whether what is touched at a point of the shared indices are neighbours in memory."""
    places = [s.index for s in access.subscripts]
    indices = [[i for i in free_indices(place) if i in shared] for place in places]
    run = 1
    for size, place, found in zip(
        access.tensor.shape[::-1], places[::-1], indices[::-1], strict=True
    ):
        count = shapes.as_int(size) or 0
        if found and count > 1:
            run *= min(_step(place, found), count)
            break
        run *= count
    rest = math.prod(shapes.as_int(e) or 0 for e in access.tensor.shape)
    rest //= math.prod(extent(i) for found in indices for i in found)
    return run >= min(LEAST_RUN, rest)
