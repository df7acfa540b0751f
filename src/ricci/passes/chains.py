"""Sums of products whose intermediate results are never all there: blocks of rows are.

Requires: the kernels of a run, in their final order. Ensures: a sum of products that makes long
rows, the reductions and maps over these, and a sum of products that takes them in again are one
`Group`, where all rows together are more than the cache keeps and reading them is much of the work;
kernels between them that have nothing to do with them come before the group. Does not: touch
products of matrices whose rows are as long before as after.

Example: attention. Scores, `s[i, j] += q[i, c] * k[j, c]`, are more than queries, keys and values
together; their rows are normalised, and summed up with values: `y[i, c] += f(s[i, j]) * v[j, c]`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Sequence

from ..dtypes import DType
from ..ir.loops import Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Access, Binary, Const, Expr, Index, Tensor
from ..ir.rewrite import accesses, free_indices, has_guard
from ..records import dataclass, replace
from .fuse import map_expressions
from .rows import Rows, extent, is_known
from .siblings import has_reuse, is_of_pairs
from .terms import factors_of
from .views import Views, root_of

LEAST_BYTES = 512 << 10
"""Of all rows: less stays in the cache anyway."""
MOST_TERMS = 512
"""Of the sums that make an element of a row and take it in: with more, reading it is nothing."""
LEAST_ROWS, LEAST_COLUMNS, LEAST_DEPTH = 8, 16, 8
"""Extents with which there is code for products of blocks of rows."""
REALS = (DType.FLOAT32, DType.FLOAT64)
MOST_MOVED = 8
"""Kernels that may come before a group instead of in it."""


def find_chains(
    kernels: Sequence[Kernel],
    views: Views,
    fixed: Container[int],
    results: Iterable[Tensor],
    pairs: bool = False,
) -> list[Kernel]:
    """The kernels, in an order that can be run, with chains as groups; `fixed` ones, by identity,
    are in none, and sums of products of pairs, if the processor does such `pairs`, are in none with
    others."""
    users = Counter(root_of(t, views) for k in kernels for t in tensors_touched(k))
    users.update(root_of(t, views) for t in results)
    search = _Search(kernels, views, fixed, users, pairs)
    out: list[Kernel] = []
    at = 0
    while at < len(kernels):
        found = search.chain(at)
        out += [kernels[at]] if found is None else found.kernels
        at = at + 1 if found is None else found.end
    return out


@dataclass(frozen=True, slots=True)
class Chain:
    """A group, after what was between its kernels; `end` is where the kernels go on."""

    kernels: list[Kernel]
    end: int


@dataclass(frozen=True, slots=True)
class _Search:
    kernels: Sequence[Kernel]
    views: Views
    fixed: Container[int]
    users: Counter[Tensor]
    """How many kernels touch a tensor, and whether it is a result."""
    pairs: bool = False

    def chain(self, start: int) -> Chain | None:
        """The chain that begins with a kernel."""
        first = self._reduce(start)
        if first is None or not has_reuse(first):
            return None
        rows = Rows(self.views, first.domain, (first,), (first,))
        moved: list[Kernel] = []
        for at in range(start + 1, len(self.kernels)):
            kernel = self._reduce(at)
            larger = None if kernel is None else rows.with_kernel(kernel)
            if larger is not None:
                rows = larger
                if has_reuse(rows.kernels[-1]) and self._is_worthwhile(rows):
                    return Chain([*moved, _with_plain_sum(rows).group()], at + 1)
            elif len(moved) < MOST_MOVED and is_independent(self.kernels[at], rows):
                moved.append(self.kernels[at])
            else:
                return None
        return None

    def _reduce(self, number: int) -> Reduce | None:
        """A kernel, if it is one that can be in a group."""
        kernel = self.kernels[number]
        if not isinstance(kernel, Reduce) or id(kernel) in self.fixed or not is_known(kernel):
            return None
        return kernel

    def _is_worthwhile(self, rows: Rows) -> bool:
        """Whether kernels of which the last is a product should be a group."""
        if not rows.shared or extent(rows.shared[-1]) < LEAST_ROWS:
            return False
        products = [k for k in rows.kernels if has_reuse(k)]
        if not all(_is_of_rows(k, rows.shared) for k in products):
            return False
        if self.pairs and len(set(map(is_of_pairs, products))) > 1:
            return False  # each has code of its own, for blocks of other rows
        first, last = products[0], products[-1]
        long, deep = _columns(first, rows.shared), _size(last.reduced)
        before, after = _size(first.reduced), _columns(last, rows.shared)
        if long <= before or deep <= after or before + after > MOST_TERMS:
            return False
        tensor = first.targets[0].tensor
        used = sum(tensor in tensors_touched(k) for k in rows.kernels)
        bytes_of = rows.count() * long * tensor.dtype.numpy().itemsize
        return self.users[tensor] == used and bytes_of >= LEAST_BYTES


def is_independent(kernel: Kernel, rows: Rows) -> bool:
    """Whether a kernel can be run before the others."""
    views = rows.views
    touched = {root_of(t, views) for k in rows.kernels for t in tensors_touched(k)}
    made = {root_of(t, views) for t in rows.made()}
    written = {root_of(t, views) for t in tensors_written(kernel)}
    read = {root_of(t, views) for t in tensors_touched(kernel)}
    return touched.isdisjoint(written) and made.isdisjoint(read)


def _with_plain_sum(rows: Rows) -> Rows:
    """The rows with a constant factor of the first product where its sums are read, which are
    then stored as they are."""
    first, *rest = rows.kernels
    (result,), (total,), (start,) = first.results, first.accumulators, first.initial
    tensor = first.targets[0].tensor
    if not (isinstance(result, Binary) and result.op == "mul" and result.lhs is total):
        return rows
    factor = result.rhs
    if not isinstance(factor, Const) or not isinstance(start, Const) or start.value != 0:
        return rows
    if any(has_reuse(k) and tensor in tensors_touched(k) for k in rest):
        return rows

    def node(expr: Expr) -> Expr:
        is_sum = isinstance(expr, Access) and expr.tensor is tensor
        return Binary("mul", expr, factor) if is_sum else expr

    kernels = (map_expressions(k, node) for k in rest)
    return replace(rows, kernels=(replace(first, results=(total,)), *kernels))


def _is_of_rows(kernel: Reduce, shared: Sequence[Index]) -> bool:
    """Whether a kernel is a product of matrices for all values of the shared indices but the last,
    which counts the rows of the first matrix, and of the result."""
    if not is_sum(kernel) or has_guard(*kernel.values) or _size(kernel.reduced) < LEAST_DEPTH:
        return False
    parts = [f for f in factors_of(kernel.values[0]) if not isinstance(f, Const)]
    left = [f for f in parts if shared[-1] in free_indices(f)]
    right = [f for f in parts if shared[-1] not in free_indices(f)]
    if not accesses(*left) or not accesses(*right):
        return False
    of_left, of_right = set(free_indices(*left)), set(free_indices(*right))
    columns = [i for i in kernel.domain if i not in shared]
    if of_left.intersection(columns) or of_left.isdisjoint({*kernel.reduced} & of_right):
        return False
    return _size(columns) >= LEAST_COLUMNS


def is_sum(kernel: Reduce, types: Container[DType] = REALS) -> bool:
    """Whether a kernel adds up terms of some types, of which guards may leave out some, to one
    result."""
    return (
        kernel.op == "add"
        and len(kernel.targets) == 1
        and kernel.condition is None
        and not kernel.locals
        and kernel.values[0].dtype in types
        and not has_guard(*kernel.initial, *kernel.results)
    )


def _columns(kernel: Reduce, shared: Sequence[Index]) -> int:
    return _size(i for i in kernel.domain if i not in shared)


def _size(indices: Iterable[Index]) -> int:
    return math.prod(map(extent, indices))
