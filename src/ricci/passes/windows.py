"""Windows along several dimensions, one dimension at a time.

Requires: kernels, fused. Ensures: a reduction over a window, of which each dimension moves with an
index of its own, is two where that takes far fewer terms: along one of the dimensions, for all
that windows reach of the other, and of these results along the other. Terms of a sum may have
factors that depend on where in the window they are, along one dimension each. Does not: touch other
terms that depend on that, or sizes that are not known.

Examples: the largest of 9 by 9 neighbours is the largest of 9 of those of 9, 18 terms for 81. An
image whose size is changed by weights of 4 by 4 neighbours is made wider first, then taller.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

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
    Remap,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import accesses, free_indices, nodes_through_locals, rebuild
from ..records import dataclass, replace
from .partial import NEUTRAL, points_of
from .rows import extent, is_known
from .weights import MOST_PHASES, near_index, period

_WORTH = 0.6
"""How much of the terms may be left: what is made of a dimension is written, and read again."""
_GATHERED = 4.0
"""How many times as long a term takes whose elements are not next to one another."""


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
    weights: tuple[Expr, ...] = ()
    """Factors of a term that depend on these two alone."""


def _separated(kernel: Reduce) -> tuple[Reduce, Reduce] | None:
    """The two kernels, if a window can be taken apart and that is worthwhile."""
    if kernel.op not in NEUTRAL or kernel.condition is not None:
        return None
    if len(kernel.reduced) < 2 or len(kernel.values) != 1 or not is_known(kernel):
        return None
    terms = {w: _terms(kernel, w) for w in _windows(kernel)}
    best = min(terms, key=lambda w: terms[w], default=None)
    all_terms = points_of((*kernel.domain, *kernel.reduced)) * _each(kernel)
    if best is None or terms[best] > _WORTH * all_terms:
        return None
    return _apart(kernel, best)


def _terms(kernel: Reduce, window: _Window) -> float:
    """The terms of both kernels."""
    results, width = points_of(kernel.domain), extent(window.term)
    before = results / extent(window.result) * window.lines * points_of(kernel.reduced) / width
    each = _each(kernel)
    if window.result is near_index(kernel):
        return before + results * width * each
    return before * each + results * width


def _each(kernel: Reduce) -> float:
    """What a term takes: longer, where lanes of vectors along results come from anywhere."""
    near = near_index(kernel)
    if near is None:
        return 1.0
    subscripts = [s.index for a in accesses(*kernel.values) for s in a.subscripts]
    own = [e for e in subscripts if near in free_indices(e)]
    far = [e for e in own if shapes.affine(e) is None and period(near, [e]) > MOST_PHASES]
    return _GATHERED if far else 1.0


def _windows(kernel: Reduce) -> Iterator[_Window]:
    """The windows that can be taken apart."""
    value = kernel.values[0]
    for access in accesses(value):
        for subscript, size in zip(access.subscripts, access.tensor.shape, strict=True):
            window = _window(kernel, subscript, size)
            if window is None:
                continue
            own = {window.term, window.result}
            factors = list(_factors(value)) if kernel.op == "add" else [value]
            weights = [x for x in factors if own & (used := _used(x)) and used <= own]
            weights = [x for x in weights if not accesses(*_nodes(x))]
            rest = [_with(x, window, ZERO) for x in factors if x not in weights]
            if rest and all(own.isdisjoint(_used(x)) for x in rest):
                yield replace(window, weights=tuple(weights))


def _factors(value: Expr) -> Iterator[Expr]:
    if isinstance(value, Binary) and value.op == "mul":
        yield from _factors(value.lhs)
        yield from _factors(value.rhs)
    else:
        yield value


def _nodes(expr: Expr) -> list[Expr]:
    return list(nodes_through_locals(expr))


def _used(expr: Expr) -> set[Index]:
    """The indices that an expression depends on, through locals, too."""
    return {x for x in _nodes(expr) if isinstance(x, Index)}


def _window(kernel: Reduce, subscript: Subscript, size: Expr) -> _Window | None:
    """The window that a subscript moves, if it does nothing else."""
    used = free_indices(subscript.index)
    terms = [i for i in kernel.reduced if i in used]
    results = [i for i in kernel.domain if i in used]
    if not len(terms) == len(results) == 1 or len(set(used)) != 2 or accesses(subscript.index):
        return None
    whole = shapes.as_int(size) or 0
    first, last = 0, whole - 1
    if isinstance(subscript.rule, Remap):
        ends = [shapes.as_int(e) for e in (subscript.rule.below, subscript.rule.above)]
        if not all(e is not None and 0 <= e < whole for e in ends):
            return None  # somebody may be told
    else:
        factors, constant = shapes.affine(subscript.index) or ({}, 0)
        if set(factors) != set(used):
            return None
        far = [(extent(i) - 1) * factors[i] for i in (*terms, *results)]
        first, last = (constant + sum(f(0, e) for e in far) for f in (min, max))
        if subscript.rule is None and not 0 <= first <= last < whole:
            return None  # somebody will be told
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
    value = kernel.values[0]
    if window.weights:
        value = _product(x for x in _factors(value) if x not in window.weights)
    value = _with(value, window, place)
    lines = replace(
        kernel,
        targets=(Access(tensor, tuple(map(Subscript, domain))),),
        domain=domain,
        reduced=tuple(i for i in kernel.reduced if i is not window.term),
        initial=(neutral,),
        values=(value,),
        accumulators=(total,),
        results=(total,),
        locals=_needed(kernel, value),
    )
    at = shapes.sub(window.subscript.index, integer(window.first))
    moved = replace(window.subscript, index=at)
    subscripts = (moved if i is window.result else Subscript(i) for i in kernel.domain)
    read = Access(tensor, tuple(subscripts), kernel.targets[0].span)
    value = _product((*window.weights, read))
    return lines, replace(
        kernel, reduced=(window.term,), values=(value,), locals=_needed(kernel, value)
    )


def _product(factors: Iterable[Expr]) -> Expr:
    return functools.reduce(lambda x, y: Binary("mul", x, y), factors)


def _needed(kernel: Reduce, value: Expr) -> tuple[Local, ...]:
    """The locals of a kernel that a term depends on."""
    used = {id(x) for x in _nodes(value)}
    return tuple(x for x in kernel.locals if id(x) in used)
