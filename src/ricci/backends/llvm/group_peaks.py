"""What kernels of a group know of the values that those before them have made: what is less than
the largest element of its row is at most zero, and its power a share of the sum of the row's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from ...ir.loops import Reduce, expressions_of, tensors_written
from ...ir.nodes import Access, Apply, Binary, Const, Expr, Index, Subscript, Tensor, integer
from ...ir.rewrite import accesses, children, free_indices, with_children
from ...records import replace
from .emit_quotient import QUOTIENTS

Peaks = Mapping[Tensor, Reduce]
"""Tensors of largest values, and the kernels that find them."""
Sums = Mapping[Tensor, Reduce]
"""Tensors of sums of powers, and the kernels that add them up: sums of at least 1, or of zeros
alone, or NaN."""


def peaks_of(kernels: Sequence[Reduce]) -> Peaks:
    """The tensors of a group that hold largest values. Nothing else is written to them, and to what
    these are found among after that."""
    return {k.targets[0].tensor: k for k in kernels if _finds_largest(k) and stays(k, kernels)}


def sums_of(kernels: Sequence[Reduce], peaks: Peaks) -> Sums:
    """The tensors of a group that hold sums of powers of what is less than the largest element of
    its row, over whole rows: one of these powers is 1, or there is NaN among them, or all of them
    are 0. Nothing else is written to the sums, nor to the powers."""
    from_least = {t: k for t, k in peaks.items() if k.initial[0] == Const(-math.inf, t.dtype)}
    powers, sums = dict[Tensor, Reduce](), dict[Tensor, Reduce]()
    for kernel in kernels:
        if not stays(kernel, kernels):
            continue
        if _makes_powers(kernel, from_least):
            powers[kernel.targets[0].tensor] = kernel
        elif _adds(kernel):
            value = kernel.values[0]
            made = powers.get(value.tensor) if isinstance(value, Access) else None
            if made is not None and _has_whole_rows(kernel, made, peaks):
                sums[kernel.targets[0].tensor] = kernel
    return sums


def known_to(
    reader: int, known: Mapping[Tensor, Reduce], kernels: Sequence[Reduce]
) -> dict[Tensor, Reduce]:
    """What is known to a kernel of a group of what it reads: before a tensor is made, there may be
    values of an earlier turn of a loop in it."""
    read = {a.tensor for a in accesses(*expressions_of(kernels[reader]))}
    made = {t for k in kernels[:reader] for t in tensors_written(k)}
    return {t: k for t, k in known.items() if t in made or t not in read}


def sums_again(sums: Sums, again: Mapping[Tensor, Tensor]) -> Sums:
    """The same where the powers of other rows are called otherwise."""
    given = ((t, k, cast(Access, k.values[0])) for t, k in sums.items())
    return {
        t: replace(k, values=(replace(v, tensor=again[v.tensor]),)) if v.tensor in again else k
        for t, k, v in given
    }


def is_share(expr: Binary, sums: Sums) -> bool:
    """Whether a quotient is one of a power by the sum of all those of its row: at most about 1, and
    the divisor is no less than that, or zero as all of them are, or no number at all."""
    match expr:
        case Binary("div", value, Access() as sum) if sum.tensor in sums:
            return is_among(value, sum, sums[sum.tensor])
    return False


def is_at_most_zero(expr: Expr, peaks: Peaks) -> bool:
    """Whether a value is one less the largest of some among which it is: at most zero, save for
    what rounding adds, or no number at all."""
    match expr:
        case Binary("sub", value, Access() as peak) if peak.tensor in peaks:
            return is_among(value, peak, peaks[peak.tensor])
    return False


def _finds_largest(kernel: Reduce) -> bool:
    return kernel.op == "max" and bool(kernel.values) and _is_stored(kernel)


def _adds(kernel: Reduce) -> bool:
    """Whether a kernel adds up its terms, from zero on."""
    if kernel.op != "add" or not kernel.values:
        return False
    start = kernel.initial[0]
    return isinstance(start, Const) and start.value == 0 and _is_stored(kernel)


def _is_stored(kernel: Reduce) -> bool:
    """Whether a kernel is plain, and stores what it reduces to as it is."""
    return is_plain(kernel) and kernel.results[0] is kernel.accumulators[0]


def is_plain(kernel: Reduce) -> bool:
    """Whether a kernel reduces all its terms to one value, of their type, for each element of a
    tensor."""
    if kernel.condition is not None or len(kernel.targets) != 1:
        return False
    target, terms = kernel.targets[0], kernel.values or kernel.initial
    reads = accesses(*terms)
    same = target.dtype is terms[0].dtype and all(
        s.index.extent == n if isinstance(s.index, Index) else n == integer(1)
        for s, n in zip(target.subscripts, target.tensor.shape, strict=True)
    )
    return same and all(s.rule is None for a in (target, *reads) for s in a.subscripts)


def stays(kernel: Reduce, kernels: Sequence[Reduce]) -> bool:
    """Whether nothing else is written to what a kernel makes, and nothing from then on to what it
    reads."""
    own = kernel.targets[0].tensor
    read = {a.tensor for a in accesses(*kernel.values, *kernel.initial)}
    n = next(n for n, k in enumerate(kernels) if k is kernel)
    others = (tensors_written(k) for k in (*kernels[:n], *kernels[n + 1 :]))
    later = (tensors_written(k) for k in kernels[n:])
    return not any(own in w for w in others) and not any(read.intersection(w) for w in later)


def _makes_powers(kernel: Reduce, peaks: Peaks) -> bool:
    """Whether a kernel stores powers of elements less the largest of their row, which is exactly
    zero for that one: they are read as they are, since what is computed twice may be rounded in two
    ways."""
    plain = not kernel.reduced and not kernel.values and _is_stored(kernel)
    match kernel.initial:
        case (Apply("exp", (Binary("sub", Access(), _) as below,)),) if plain:
            return below.dtype in QUOTIENTS and is_at_most_zero(below, peaks)
    return False


def _has_whole_rows(kernel: Reduce, powers: Reduce, peaks: Peaks) -> bool:
    """Whether a kernel adds up, for each point, all powers of one largest element, at least.

    These are along indices of their own, one for each along which the largest is looked for, and as
    long; the largest is the same along them. The sum has an index of its own for each of them, as
    long as it, too, in no other subscript.
    """
    below = cast(Binary, cast(Apply, powers.initial[0]).arguments[0])
    peak, value = cast(Access, below.rhs), cast(Access, kernel.values[0])
    own = peaks[peak.tensor]
    here = _places(below.lhs, peak, own) or {}
    row = [(here[x], x.extent) for x in own.reduced if x in here]
    if not all(isinstance(x, Index) and x.extent == extent for x, extent in row):
        return False
    indices = {x for x, _ in row}
    if not indices.isdisjoint(free_indices(*(s.index for s in peak.subscripts))):
        return False
    added, others = list[Expr](), list[Expr]()
    for s, v in zip(powers.targets[0].subscripts, value.subscripts, strict=True):
        (added if s.index in indices else others).append(v.index)
        if s.index in indices and not _is_all(v.index, s.index, kernel):
            return False
    is_each = len(added) == len(set(added)) == len(row)
    return is_each and not set(added).intersection(free_indices(*others))


def _is_all(index: Expr, own: Expr, kernel: Reduce) -> bool:
    """Whether an index takes, for each point of a kernel, all values of another one."""
    if isinstance(index, Index) and isinstance(own, Index):
        return index in kernel.reduced and index.extent == own.extent
    return False


def is_among(value: Expr, result: Access, kernel: Reduce) -> bool:
    """Whether a value is one of those that a kernel has reduced to a result."""
    return _places(value, result, kernel) is not None


def _places(value: Expr, result: Access, kernel: Reduce) -> dict[Expr, Expr] | None:
    """Where a value is one of those that a kernel has reduced to a result, what stands for each
    index of the kernel; None if it is not."""
    here: dict[Expr, Expr] = {}
    for own, given in zip(kernel.targets[0].subscripts, result.subscripts, strict=True):
        if given.rule is not None or here.setdefault(own.index, given.index) != given.index:
            return None
    if not all(x in kernel.domain or x == y for x, y in here.items()):
        return None
    return here if _is_alike(kernel.values[0], value, here, kernel) else None


def _is_alike(own: Expr, given: Expr, here: dict[Expr, Expr], kernel: Reduce) -> bool:
    """Whether an expression is that of a kernel at some point, of which `here` has the indices."""
    if isinstance(own, Index):
        if own in kernel.reduced and isinstance(given, Index) and given.extent == own.extent:
            here.setdefault(own, given)
        return here.get(own) == given
    if isinstance(own, Const):
        return repr(own) == repr(given)  # zeros of either sign are equal, and not alike
    if isinstance(own, Access) and isinstance(given, Access) and own.tensor == given.tensor:
        pairs = zip(own.subscripts, given.subscripts, strict=True)
        sizes = own.tensor.shape
        return all(_is_place(*p, n, here, kernel) for p, n in zip(pairs, sizes, strict=True))
    parts, others = children(own), children(given)
    if type(own) is not type(given) or len(parts) != len(others):
        return False
    if not all(_is_alike(x, y, here, kernel) for x, y in zip(parts, others, strict=True)):
        return False
    return with_children(own, others) == given


def _is_place(
    own: Subscript, given: Subscript, extent: Expr, here: dict[Expr, Expr], kernel: Reduce
) -> bool:
    """Whether a subscript is that of a kernel at some point: any is where all of the dimension is
    walked through, since none is out of range."""
    if given.rule is not None or own.rule is not None:
        return False
    if own.index in kernel.reduced and own.index.extent == extent:
        return here.setdefault(own.index, given.index) == given.index
    return _is_alike(own.index, given.index, here, kernel)
