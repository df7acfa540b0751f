"""How much there is to do in a kernel: operations, and bytes that must be moved at least."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..records import dataclass
from .loops import Fill, Group, Kernel, Reduce, Scatter
from .nodes import Access, Apply, Binary, Expr, Index, Local, Symbol, Tensor, Unary
from .rewrite import accesses, children, free_indices, walk
from .shapes import evaluate

Sizes = Mapping[Symbol, int]

_LOGIC = ("and", "or", "xor", "lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a kernel at certain sizes.

    `operations` counts what is computed of elements: an operator, or a function (`fma`: two), of
    numbers is one; comparisons, conversions, choices, and the arithmetic of subscripts are not
    counted. What is the same for several terms is computed once. Terms that a kernel skips count.
    `bytes` counts each element that the kernel reads or writes once, however often it does.
    `points` are those where results are stored, and `terms` are reduced for each.
    """

    operations: int = 0
    bytes: int = 0
    points: tuple[int, ...] = ()
    terms: tuple[int, ...] = ()

    def __str__(self) -> str:
        points = "x".join(map(str, self.points)) or "1"
        return f"{points} of {'x'.join(map(str, self.terms))}" if self.terms else points


def work_of(kernel: Kernel, sizes: Sizes) -> Work:
    """The work of a kernel."""
    match kernel:
        case Fill():
            shape = _extents(kernel.tensor.shape, sizes)
            return Work(0, bytes_of(kernel.tensor, sizes), shape)
        case Scatter():
            a = kernel.assignment
            domain = _extents((i.extent for i in a.domain), sizes)
            each = _count((*a.values, *([] if a.condition is None else [a.condition])))
            each += len(a.targets) if a.op not in ("set", "update", "and", "or") else 0
            touched = (*a.targets, *accesses(*a.values, *a.locals))
            return Work(math.prod(domain) * each, _moved(touched, sizes), domain)
        case Reduce():
            return _of_reduce(kernel, sizes)
        case Group():
            return _of_group(kernel, sizes)


def _of_reduce(kernel: Reduce, sizes: Sizes) -> Work:
    points = _extents((i.extent for i in kernel.domain), sizes)
    terms = _extents((i.extent for i in kernel.reduced), sizes)
    known = kernel.accumulators
    outer = _count((*kernel.initial, *kernel.results), known)
    extents = dict(zip((*kernel.domain, *kernel.reduced), (*points, *terms), strict=True))
    count = math.prod(points) * outer + _count_terms(kernel.values, known, extents)
    if kernel.values and kernel.op in ("add", "mul", "min", "max"):
        count += len(kernel.values) * math.prod(points) * math.prod(terms)
    return Work(count, _moved(_touched(kernel), sizes), points, terms)


def _touched(kernel: Reduce) -> tuple[Access, ...]:
    exprs = (*kernel.initial, *kernel.values, *kernel.results, *kernel.locals)
    return (*kernel.targets, *accesses(*exprs))


def _of_group(kernel: Group, sizes: Sizes) -> Work:
    parts = [_of_reduce(k, sizes) for k in kernel.kernels]
    touched = [a for k in kernel.kernels for a in _touched(k)]
    largest = max(parts, key=lambda w: math.prod((*w.points, *w.terms)))
    total = sum(w.operations for w in parts)
    return Work(total, _moved(touched, sizes), largest.points, largest.terms)


def _extents(extents: Iterable[Expr], sizes: Sizes) -> tuple[int, ...]:
    return tuple(max(evaluate(e, sizes), 0) for e in extents)


# ------------------------------------------------------------------ operations


def _count(exprs: Iterable[Expr], known: Iterable[Local] = ()) -> int:
    """The operations of expressions, shared parts once; those of `known` locals do not count."""
    left_out = set(known)

    def parts(expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, Local):
            return () if expr in left_out else (expr.value,)
        return () if isinstance(expr, Access) else children(expr)

    return sum(map(_own, walk(*exprs, parts=parts)))


def _count_terms(
    exprs: Iterable[Expr], known: Iterable[Local], extents: Mapping[Index, int]
) -> int:
    """The operations of all terms: one that does not depend on an index is done once for it."""
    left_out = set(known)

    def parts(expr: Expr) -> tuple[Expr, ...]:
        if isinstance(expr, Local):
            return () if expr in left_out else (expr.value,)
        return () if isinstance(expr, Access) else children(expr)

    count = 0
    for node in walk(*exprs, parts=parts):
        if _own(node):
            leaves = [x for x in walk(node, parts=parts) if isinstance(x, (Access, Index))]
            used = set(free_indices(*leaves))
            count += _own(node) * math.prod(n for i, n in extents.items() if i in used)
    return count


def _own(expr: Expr) -> int:
    match expr:
        case Binary(op=op):
            return 0 if op in _LOGIC else 1
        case Unary(op=op):
            return 0 if op == "not" else 1
        case Apply(function=function):
            return 2 if function == "fma" else 1
        case _:
            return 0


# ------------------------------------------------------------------------ bytes


def _moved(touched: Iterable[Access], sizes: Sizes) -> int:
    """The bytes of all elements that accesses can touch."""
    found: dict[Tensor, int] = {}
    for access in dict.fromkeys(touched):
        size = access.tensor.dtype.numpy().itemsize * _elements(access, sizes)
        found[access.tensor] = found.get(access.tensor, 0) + size
    return sum(min(n, bytes_of(t, sizes)) for t, n in found.items())


def _elements(access: Access, sizes: Sizes) -> int:
    """At most so many elements does an access touch."""
    indices: set[Index] = set(free_indices(*(s.index for s in access.subscripts)))
    return math.prod(_extents((i.extent for i in indices), sizes))


def bytes_of(tensor: Tensor, sizes: Sizes) -> int:
    """Bytes of a tensor."""
    return math.prod(_extents(tensor.shape, sizes)) * tensor.dtype.numpy().itemsize
