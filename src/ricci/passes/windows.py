"""Windows along several dimensions, one dimension at a time.

Requires: kernels, fused. Ensures: a reduction over a window, of which each dimension moves with an
index of its own, is two where that takes far fewer terms: along one of the dimensions, for all
that windows reach of the other, and of these results along the other. Does not: touch terms that
depend on where in the window they are, or sizes that are not known.

Example: the largest of 9 by 9 neighbours is the largest of 9 of those of 9, 18 terms for 81.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import (
    ZERO,
    Access,
    Const,
    Expr,
    Index,
    Local,
    Remap,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import accesses, free_indices, rebuild
from ..records import dataclass, replace
from .partial import NEUTRAL, points_of
from .rows import extent, is_known

_WORTH = 0.6
"""How much of the terms may be left: what is made of a dimension is written, and read again."""


def separate_windows(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, in order, with reductions over windows along one dimension after the other."""
    out: list[Kernel] = []
    for kernel in kernels:
        pair = _separated(kernel) if isinstance(kernel, Reduce) else None
        out += [kernel] if pair is None else [*separate_windows(pair[:1]), pair[1]]
    return out


@dataclass(frozen=True, slots=True)
class _Window:
    """A subscript, the only one of a term in which `term` and `result` are."""

    subscript: Subscript
    size: Expr
    """The extent of the dimension."""
    first: int
    lines: int
    """What of the dimension windows reach."""
    term: Index
    """A reduced index."""
    result: Index
    """An index of the domain."""


def _separated(kernel: Reduce) -> tuple[Reduce, Reduce] | None:
    """The two kernels, if a window can be taken apart and that is worthwhile."""
    if kernel.op not in NEUTRAL or kernel.condition is not None or kernel.locals:
        return None
    if len(kernel.reduced) < 2 or len(kernel.values) != 1 or not is_known(kernel):
        return None
    terms = {w: _terms(kernel, w) for w in _windows(kernel)}
    best = min(terms, key=lambda w: terms[w], default=None)
    if best is None or terms[best] > _WORTH * points_of((*kernel.domain, *kernel.reduced)):
        return None
    return _apart(kernel, best)


def _terms(kernel: Reduce, window: _Window) -> float:
    """The terms of both kernels."""
    results, width = points_of(kernel.domain), extent(window.term)
    before = results / extent(window.result) * window.lines * points_of(kernel.reduced) / width
    return before + results * width


def _windows(kernel: Reduce) -> Iterator[_Window]:
    """The windows that can be taken apart."""
    value = kernel.values[0]
    for access in accesses(value):
        for subscript, size in zip(access.subscripts, access.tensor.shape, strict=True):
            window = _window(kernel, subscript, size)
            if window is not None:
                rest = free_indices(_with(value, window, ZERO))
                if window.term not in rest and window.result not in rest:
                    yield window


def _window(kernel: Reduce, subscript: Subscript, size: Expr) -> _Window | None:
    """The window that a subscript moves, if it does nothing else."""
    factors, constant = shapes.affine(subscript.index) or ({}, 0)
    terms = [i for i in kernel.reduced if i in factors]
    results = [i for i in kernel.domain if i in factors]
    if not len(terms) == len(results) == 1 or len(factors) != 2:
        return None
    whole = shapes.as_int(size) or 0
    ends = [(extent(i) - 1) * factors[i] for i in (*terms, *results)]
    first, last = (constant + sum(f(0, e) for e in ends) for f in (min, max))
    if subscript.rule is None and not 0 <= first <= last < whole:
        return None  # somebody will be told
    if isinstance(subscript.rule, Remap):
        first, last = 0, whole - 1
    first, last = max(first, 0), min(last, whole - 1)
    if last < first:
        return None
    return _Window(subscript, size, first, last - first + 1, terms[0], results[0])


def _with(value: Expr, window: _Window, place: Expr) -> Expr:
    """A term with `place` for a subscript."""

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access):
            return expr
        pairs = zip(expr.subscripts, expr.tensor.shape, strict=True)
        new = [
            Subscript(place) if s == window.subscript and shapes.equal(n, window.size) else s
            for s, n in pairs
        ]
        return replace(expr, subscripts=tuple(new))

    return rebuild(value, node)


def _apart(kernel: Reduce, window: _Window) -> tuple[Reduce, Reduce]:
    """The kernel of a result for each line of the dimension, and that of all terms."""
    line = Index(window.result.name, integer(window.lines))
    place = shapes.add(line, integer(window.first))
    domain = tuple(line if i is window.result else i for i in kernel.domain)
    first, dtype = kernel.targets[0].tensor, kernel.values[0].dtype
    tensor = Tensor(f"{first.name}'", dtype, tuple(i.extent for i in domain))
    neutral = Const(NEUTRAL[kernel.op], dtype)
    total = Local("acc0", neutral)
    lines = replace(
        kernel,
        targets=(Access(tensor, tuple(map(Subscript, domain))),),
        domain=domain,
        reduced=tuple(i for i in kernel.reduced if i is not window.term),
        initial=(neutral,),
        values=(_with(kernel.values[0], window, place),),
        accumulators=(total,),
        results=(total,),
    )
    at = shapes.sub(window.subscript.index, integer(window.first))
    moved = replace(window.subscript, index=at)
    subscripts = (moved if i is window.result else Subscript(i) for i in kernel.domain)
    read = Access(tensor, tuple(subscripts), kernel.targets[0].span)
    return lines, replace(kernel, reduced=(window.term,), values=(read,))
