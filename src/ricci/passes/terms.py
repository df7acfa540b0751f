"""Sums under a sum: `y += a * b + (i >= 1 ? c * d : 0)` as sums of products alone.

Requires: a reduction that was just made of an assignment. Ensures: where each term is a product
with reuse, terms that differ in constants of subscripts alone are one under a further reduced
index, and the others are kernels of their own, each beginning with the result of the one before. A
condition on indices under which a term counts becomes a `Skip` of the subscript that it keeps in
range, or the condition of the kernel. Does not: touch sums that are not faster as products.

Example: `x[t] * w[1] + (t >= 8 ? x[t - 8] * w[0] : 0)` is `x[|t - 8 + 8 * k|] * w[k]` for k < 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..dtypes import DType
from ..ir import shapes
from ..ir.loops import Reduce
from ..ir.nodes import (
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Skip,
    Subscript,
    Tensor,
    Unary,
    integer,
)
from ..ir.rewrite import accesses, children, free_indices, has_guard, rebuild, with_children
from ..records import dataclass, replace
from .scaled import is_zero
from .specialise import shapes_inside

LEAST_TERMS = 8
"""Length of a sum below which another pass over its results costs more than it gains."""
_MOST_SUMMANDS = 16
_TYPES = (DType.FLOAT32, DType.FLOAT64)


@dataclass(frozen=True, slots=True)
class _Term:
    """A summand that counts where a condition on indices holds."""

    value: Expr
    condition: Expr | None = None


def split_terms(kernel: Reduce) -> list[Reduce]:
    """The kernels, in order, that do what one does; often itself alone."""
    if kernel.op != "add" or len(kernel.values) != 1 or not kernel.reduced or kernel.locals:
        return [kernel]
    value = kernel.values[0]
    if kernel.condition is not None or value.dtype not in _TYPES or has_guard(value):
        return [kernel]
    if not isinstance(value, Select) and not _is_sum(value):
        return [kernel]
    summands = list(_summands(value))
    terms = [_term(s) for s in summands]
    if len(summands) > _MOST_SUMMANDS or not all(_is_product(t.value, kernel) for t in terms):
        return [kernel]
    rolled = _roll(terms) if len(terms) > 1 else None
    if rolled is not None:
        value, index = rolled
        return [replace(kernel, values=(value,), reduced=(*kernel.reduced, index))]
    if len(terms) > 1 and _length(kernel) < LEAST_TERMS:
        return [kernel]
    return _in_turn(kernel, terms)


def _is_sum(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op in ("add", "sub")


def _summands(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Binary(op="add", lhs=lhs, rhs=rhs):
            yield from _summands(lhs)
            yield from _summands(rhs)
        case Binary(op="sub", lhs=lhs, rhs=rhs):
            yield from _summands(lhs)
            yield from (Unary("neg", x) for x in _summands(rhs))
        case _:
            yield expr


def _length(kernel: Reduce) -> float:
    return math.prod(shapes.as_int(i.extent) or math.inf for i in kernel.reduced)


def _is_product(expr: Expr, kernel: Reduce) -> bool:
    """Whether a term is a product, of which no factor has all indices of the kernel."""
    factors = [f for f in factors_of(expr) if not isinstance(f, Const)]
    needed = {i for i in (*kernel.domain, *kernel.reduced) if shapes.as_int(i.extent) != 1}
    found = [set(free_indices(f)) & needed for f in factors]
    return len(factors) > 1 and set().union(*found) >= needed and all(f < needed for f in found)


def factors_of(expr: Expr) -> Iterator[Expr]:
    """The factors of a product, signs aside."""
    match expr:
        case Binary(op="mul", lhs=lhs, rhs=rhs):
            yield from factors_of(lhs)
            yield from factors_of(rhs)
        case Unary(op="neg", operand=operand):
            yield from factors_of(operand)
        case _:
            yield expr


# ----------------------------------------------------------------- conditions


def _term(expr: Expr) -> _Term:
    """A summand, what it is selected by taken off."""
    match expr:
        case Unary(op="neg", operand=Select() as inner):
            term = _term(inner)
            return replace(term, value=Unary("neg", term.value))
        case Select(condition=condition, then=then, otherwise=otherwise) if is_zero(otherwise):
            if not accesses(condition):
                return _guarded(then, condition)
    return _Term(expr)


def _guarded(value: Expr, condition: Expr) -> _Term:
    """A value that counts under a condition, as guards of its subscripts where that is the same."""
    bounds = [_bound(c) for c in _conjuncts(condition)]
    kept: list[Expr] = []

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access):
            return expr
        pairs = zip(expr.subscripts, expr.tensor.shape, strict=True)
        return replace(expr, subscripts=tuple(guarded(s, n) for s, n in pairs))

    def guarded(s: Subscript, extent: Expr) -> Subscript:
        if accesses(s.index) or s.rule is not None:
            return s
        rooms = (s.index, shapes.sub(shapes.sub(extent, integer(1)), s.index))
        open_sides = [r for r in rooms if shapes.interval(r)[0] < 0]
        if not open_sides or not all(any(_is_same(r, b) for b in bounds) for r in open_sides):
            return s
        kept.extend(open_sides)
        return replace(s, rule=Skip())

    new = rebuild(value, node)
    if all(any(_is_same(k, b) for k in kept) for b in bounds):
        return _Term(new)
    return _Term(value, condition)


def _is_same(a: Expr, b: Expr | None) -> bool:
    return b is not None and shapes.equal(a, b)


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Binary) and expr.op == "and":
        yield from _conjuncts(expr.lhs)
        yield from _conjuncts(expr.rhs)
    else:
        yield expr


def _bound(condition: Expr) -> Expr | None:
    """What a comparison of integers says is not negative."""
    match condition:
        case Binary(op="ge" | "gt" | "le" | "lt" as op, lhs=lhs, rhs=rhs) if lhs.dtype.is_int:
            least = shapes.sub(lhs, rhs) if op in ("ge", "gt") else shapes.sub(rhs, lhs)
            return shapes.simplify(least if op in ("ge", "le") else shapes.sub(least, integer(1)))
    return None


# ------------------------------------------------------------------- rolling


def _roll(terms: Sequence[_Term]) -> tuple[Expr, Index] | None:
    """The terms as one under a new index, if subscripts step from each to the next alike."""
    if any(t.condition is not None for t in terms):
        return None
    index = Index("term", integer(len(terms)))
    values = [t.value for t in terms]
    if _falls(values[0], values[1]):
        values.reverse()
    rolled = _rolled(values, index)
    return None if rolled is None or index not in free_indices(rolled) else (rolled, index)


def _falls(first: Expr, second: Expr) -> bool:
    """Whether subscripts rather become smaller from one term to the next."""
    total = 0
    for a, b in zip(accesses(first), accesses(second), strict=False):
        for s, t in zip(a.subscripts, b.subscripts, strict=False):
            step = shapes.as_int(shapes.sub(t.index, s.index)) or 0
            total += (step > 0) - (step < 0)
    return total < 0


def _rolled(values: Sequence[Expr], index: Index) -> Expr | None:
    """One expression that gives each of some as the index goes through their numbers."""
    first, *rest = values
    if all(v is first for v in rest):
        return first
    if isinstance(first, Access):
        return _rolled_access(values, index)
    if any(not _is_alike(first, v) for v in rest):
        return None
    if isinstance(first, Const):
        return first
    parts: list[Expr] = []
    for group in zip(*map(children, values), strict=True):
        part = _rolled(group, index)
        if part is None:
            return None
        parts.append(part)
    return with_children(first, tuple(parts))


def _is_alike(a: Expr, b: Expr) -> bool:
    """Whether two nodes are the same but for their parts, of which they have some, or constants."""
    if type(a) is not type(b) or len(children(a)) != len(children(b)):
        return False
    if not children(a):
        return isinstance(a, Const) and a == b
    return all(getattr(a, f, None) == getattr(b, f, None) for f in ("op", "function", "dtype"))


def _rolled_access(values: Sequence[Expr], index: Index) -> Access | None:
    found = [v for v in values if isinstance(v, Access)]
    first = found[0]
    if len(found) != len(values) or any(v.tensor is not first.tensor for v in found):
        return None
    out: list[Subscript] = []
    for extent, *group in zip(first.tensor.shape, *(v.subscripts for v in found), strict=True):
        steps = [shapes.as_int(shapes.sub(s.index, group[0].index)) for s in group]
        step = steps[1]
        if step is None or steps != [n * step for n in range(len(steps))]:
            return None
        if any(s.rule is None and not shapes_inside(s.index, extent) for s in group):
            return None
        place = shapes.add(group[0].index, shapes.mul(index, integer(step)))
        guarded = any(s.rule is not None for s in group)
        out.append(Subscript(shapes.simplify(place), Skip() if guarded else None))
    return replace(first, subscripts=tuple(out))


# ------------------------------------------------------------------ splitting


def _in_turn(kernel: Reduce, terms: Sequence[_Term]) -> list[Reduce]:
    """A kernel for each term; what is between them is in tensors of the kernels' own."""
    places = [s.index for s in kernel.targets[0].subscripts if isinstance(s.index, Index)]
    out: list[Reduce] = []
    initial = kernel.initial
    for number, term in enumerate(terms):
        accumulators = (Local(kernel.accumulators[0].name, initial[0]),)
        part = replace(
            kernel, initial=initial, accumulators=accumulators, results=accumulators,
            values=(term.value,), condition=term.condition,
        )  # fmt: skip
        if number < len(terms) - 1:
            shape = tuple(i.extent for i in places)
            tensor = Tensor(f"{kernel.targets[0].tensor.name}.sum", initial[0].dtype, shape)
            target = Access(tensor, tuple(map(Subscript, places)))
            part = replace(part, targets=(target,))
            initial = (target,)
        out.append(part)
    return out
