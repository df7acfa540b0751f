"""What kernels of a group know of the values that those before them have made: what is less than
the largest element of its row is at most zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.loops import Reduce, tensors_written
from ...ir.nodes import Access, Binary, Const, Expr, Index, Tensor
from ...ir.rewrite import accesses, children, with_children

Peaks = Mapping[Tensor, Reduce]
"""Tensors of largest values, and the kernels that find them."""


def peaks_of(kernels: Sequence[Reduce]) -> Peaks:
    """The tensors of a group that hold largest values. Nothing else is written to them, and to what
    these are found among after that."""
    written = [tensors_written(k) for k in kernels]
    found = {}
    for n, kernel in enumerate(kernels):
        if _finds_largest(kernel):
            own, read = kernel.targets[0].tensor, {a.tensor for a in accesses(*kernel.values)}
            if not any(own in w for w in (*written[:n], *written[n + 1 :])):
                if not any(read.intersection(w) for w in written[n:]):
                    found[own] = kernel
    return found


def is_at_most_zero(expr: Expr, peaks: Peaks) -> bool:
    """Whether a value is one less the largest of some among which it is: at most zero, save for
    what rounding adds, or no number at all."""
    match expr:
        case Binary("sub", value, Access() as peak) if peak.tensor in peaks:
            return _is_among(value, peak, peaks[peak.tensor])
    return False


def _finds_largest(kernel: Reduce) -> bool:
    if kernel.op != "max" or kernel.condition is not None or len(kernel.targets) != 1:
        return False
    target, reads = kernel.targets[0], accesses(*kernel.values)
    whole = kernel.results[0] is kernel.accumulators[0] and target.dtype is kernel.values[0].dtype
    return whole and all(s.rule is None for a in (target, *reads) for s in a.subscripts)


def _is_among(value: Expr, peak: Access, kernel: Reduce) -> bool:
    """Whether a value is one of those of which a kernel has found the largest."""
    here: dict[Expr, Expr] = {}
    for own, given in zip(kernel.targets[0].subscripts, peak.subscripts, strict=True):
        if given.rule is not None or here.setdefault(own.index, given.index) != given.index:
            return False
    if not all(x in kernel.domain or x == y for x, y in here.items()):
        return False
    return _is_alike(kernel.values[0], value, here, kernel)


def _is_alike(own: Expr, given: Expr, here: dict[Expr, Expr], kernel: Reduce) -> bool:
    """Whether an expression is that of a kernel at some point, of which `here` has the indices."""
    if isinstance(own, Index):
        if own in kernel.reduced and isinstance(given, Index) and given.extent == own.extent:
            here.setdefault(own, given)
        return here.get(own) == given
    if isinstance(own, Const):
        return repr(own) == repr(given)  # zeros of either sign are equal, and not alike
    parts, others = children(own), children(given)
    if type(own) is not type(given) or len(parts) != len(others):
        return False
    if not all(_is_alike(x, y, here, kernel) for x, y in zip(parts, others, strict=True)):
        return False
    return with_children(own, others) == given
