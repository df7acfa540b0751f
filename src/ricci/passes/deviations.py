"""Sums of squared deviations of long rows, with the sums of their terms, by one pass over memory.

Requires: kernels in their final form, before they are grouped. Ensures: a sum of `(x - m)^2` over a
row that a core's caches do not hold, where `m` is made from a sum of `x` over the same row, reads
the row no more. Both are combined from pieces, of the mean `p` of each piece of n terms:

    sum of x = sum over pieces of  n * p
    sum of (x - m)^2 = sum over pieces of  (sum over the piece of (x - p)^2) + n * (p - m)^2

(T. Chan, G. Golub and R. LeVeque, Algorithms for computing the sample variance, 1983), which loses
no more bits than the sums themselves, whatever `m` is. Does not: touch terms with guards, or sizes
that are not known.

Example: normalisation over groups of 2^19 elements reads them twice instead of three times.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.loops import Group, Kernel, Reduce, expressions_of, tensors_written
from ..ir.nodes import Access, Binary, Const, Expr, Index, Local, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, accesses, free_indices, has_guard, substitute
from ..records import dataclass, replace
from .partial import points_of
from .views import Views, root_of

LEAST_BYTES = 1 << 19
"""Of a row: less stays in a core's caches."""
PIECE_BYTES = 1 << 15
"""Of a piece, at most: it stays in the first cache."""


@dataclass(frozen=True, slots=True)
class _Deviations:
    """A kernel that sums up the squares of `term` less `mean`, an element for each of its rows."""

    kernel: Reduce
    term: Expr
    mean: Access


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The rows in pieces: `part` numbers those of `outer`, the first index of the terms."""

    outer: Index
    part: Index
    length: int
    """Terms of a piece."""


def split_deviations(kernels: Sequence[Kernel], views: Views) -> list[Kernel]:
    """The kernels, in order, with such sums made from pieces."""
    out: list[list[Kernel]] = [[kernel] for kernel in kernels]
    made = {t: number for number, k in enumerate(kernels) for t in tensors_written(k)}
    for number, kernel in enumerate(kernels):
        found = _deviations(kernel) if isinstance(kernel, Reduce) else None
        first = number if found is None else made.get(found.mean.tensor, number)
        source = kernels[first]
        if found is None or first >= number or not isinstance(source, Reduce):
            continue
        if out[first] != [source] or _is_changed(found.term, kernels[first:number], views):
            continue
        pieces = _pieces(found)
        if pieces is not None and _is_sum_of(source, found):
            group, means, squares = _of_pieces(found, pieces)
            out[first] = [group, _total(source, found, pieces, means)]
            out[number] = [_combined(found, pieces, means, squares)]
    return [kernel for kernels in out for kernel in kernels]


# --------------------------------------------------------------------------- what there is


def _deviations(kernel: Reduce) -> _Deviations | None:
    """What a kernel sums up, if that are squared deviations over long rows."""
    if not _is_long_sum(kernel):
        return None
    (value,) = kernel.values
    if not isinstance(value, Binary) or value.op != "mul" or value.lhs != value.rhs:
        return None
    inner = value.lhs
    if not isinstance(inner, Binary) or inner.op != "sub" or not isinstance(inner.rhs, Access):
        return None
    varies = set(free_indices(inner.rhs)) & set(kernel.reduced)
    return None if varies else _Deviations(kernel, inner.lhs, inner.rhs)


def _is_long_sum(kernel: Reduce) -> bool:
    """Whether a kernel is one sum, of all terms of long rows of reals."""
    if kernel.op != "add" or len(kernel.values) != 1 or kernel.locals or not kernel.reduced:
        return False
    if kernel.condition is not None or has_guard(*expressions_of(kernel)):
        return False
    dtype, terms = kernel.values[0].dtype, points_of(kernel.reduced)
    long = dtype.is_real and terms * dtype.numpy().itemsize > LEAST_BYTES
    return long and points_of(kernel.domain) > 0


def _is_changed(term: Expr, between: Sequence[Kernel], views: Views) -> bool:
    """Whether kernels write what a term reads."""
    written = {root_of(t, views) for k in between for t in tensors_written(k)}
    return any(root_of(a.tensor, views) in written for a in accesses(term))


def _is_sum_of(source: Reduce, found: _Deviations) -> bool:
    """Whether a kernel sums up the same terms over the same rows."""
    if not _is_long_sum(source) or len(source.reduced) != len(found.kernel.reduced):
        return False
    moved = _places(source, found)
    if moved is None:
        return False
    same = [points_of((i,)) for i in source.reduced] == [
        points_of((i,)) for i in found.kernel.reduced
    ]
    moved |= dict(zip(source.reduced, found.kernel.reduced, strict=True))
    return same and substitute(source.values[0], moved) == found.term


def _places(source: Reduce, found: _Deviations) -> dict[Replaceable, Expr | Tensor] | None:
    """What the indices of the rows of a sum are where its results are read; none if rows are not
    those of the deviations, one by one."""
    moved: dict[Replaceable, Expr | Tensor] = {}
    target, read = source.targets[0].subscripts, found.mean.subscripts
    for own, other in zip(target, read, strict=True):
        if isinstance(own.index, Index) and isinstance(other.index, Index):
            moved[own.index] = other.index
        elif own.index != other.index:
            return None
    rows = {i for i in found.kernel.domain if points_of((i,)) > 1}
    met = [i for i in moved.values() if isinstance(i, Index)]
    whole = set(moved) >= set(source.domain) and len(met) == len(set(met))
    return moved if whole and rows <= set(met) else None


def _pieces(found: _Deviations) -> _Pieces | None:
    """Pieces of equal lengths that stay in the first cache; none if there are none."""
    kernel = found.kernel
    outer, terms = kernel.reduced[0], points_of(kernel.reduced)
    extent = points_of((outer,))
    most = PIECE_BYTES // found.term.dtype.numpy().itemsize
    counts = (n for n in range(1, extent + 1) if extent % n == 0 and terms // n <= most)
    count = next(counts, None)
    if count is None or terms // count < 64:
        return None
    return _Pieces(outer, Index("piece", integer(count)), terms // count)


# ---------------------------------------------------------------------------- what is made


def _of_pieces(found: _Deviations, pieces: _Pieces) -> tuple[Group, Access, Access]:
    """The kernels of the pieces' means and sums of squared deviations from them, done together;
    and their elements."""
    kernel, dtype = found.kernel, found.term.dtype
    rows = tuple(Index(i.name, i.extent) for i in kernel.domain)
    inner = Index(
        pieces.outer.name, integer(points_of((pieces.outer,)) // points_of((pieces.part,)))
    )
    start = Binary("mul", pieces.part, inner.extent)
    moved: dict[Replaceable, Expr | Tensor] = dict(zip(kernel.domain, rows, strict=True))
    moved[pieces.outer] = Binary("add", start, inner)
    term = substitute(found.term, moved)
    shape = (*(i.extent for i in rows), pieces.part.extent)
    subscripts = tuple(Subscript(i) for i in (*rows, pieces.part))
    means, squares = (
        Access(Tensor(f"{found.mean.tensor.name}{mark}", dtype, shape), subscripts)
        for mark in ("'", "''")
    )
    deviation = Binary("sub", term, means)

    def summed(target: Access, value: Expr, divisor: int) -> Reduce:
        zero = Const(0.0, dtype)
        total = Local("acc0", zero)
        result: Expr = total
        if divisor > 1:
            result = Binary("div", total, Const(float(divisor), dtype))
        return replace(
            kernel, targets=(target,), domain=(*rows, pieces.part),
            reduced=(inner, *kernel.reduced[1:]), initial=(zero,), values=(value,),
            accumulators=(total,), results=(result,),
        )  # fmt: skip

    kernels = (
        summed(means, term, pieces.length),
        summed(squares, Binary("mul", deviation, deviation), 1),
    )
    back: dict[Replaceable, Expr | Tensor] = dict(zip(rows, kernel.domain, strict=True))
    group = Group(kernel.name, (*rows, pieces.part), kernels, span=kernel.span)
    return group, _access(substitute(means, back)), _access(substitute(squares, back))


def _access(expr: Expr) -> Access:
    assert isinstance(expr, Access)
    return expr


def _total(source: Reduce, found: _Deviations, pieces: _Pieces, means: Access) -> Reduce:
    """The kernel of the sums of terms, from the means of pieces."""
    moved = _places(source, found)
    assert moved is not None
    back: dict[Replaceable, Expr | Tensor] = {
        i: integer(0) for i in found.kernel.domain if points_of((i,)) == 1
    }
    back |= {other: own for own, other in moved.items() if isinstance(other, Index)}
    length = Const(float(pieces.length), found.term.dtype)
    value = Binary("mul", substitute(means, back), length)
    return replace(source, reduced=(pieces.part,), values=(value,))


def _combined(found: _Deviations, pieces: _Pieces, means: Access, squares: Access) -> Reduce:
    """The kernel of the sums of squared deviations."""
    length = Const(float(pieces.length), found.term.dtype)
    apart = Binary("sub", means, found.mean)
    value = Binary("add", squares, Binary("mul", Binary("mul", apart, apart), length))
    return replace(found.kernel, reduced=(pieces.part,), values=(value,))
