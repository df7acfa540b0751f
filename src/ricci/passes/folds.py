"""Steps that each see what the one before left in the same element, as one reduction.

Requires: an assignment by `:=`. Ensures: where targets are addressed by plain indices, and read at
the subscripts at which they are written, what an element holds is carried by accumulators from one
point of the other indices to the next: a `Reduce` by "update". What is read at a place that an
accumulator says is carried, too. Does not: touch places that may be out of range, or that depend
on more than the last step.

Example: `y[i] := k if x[i, k] > x[i, y[i]]` carries `y` and `x[i, y]`, which a step that counts
replaces by `k` and `x[i, k]`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from ..dtypes import DType
from ..ir import shapes
from ..ir.nodes import (
    ZERO,
    Access,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Subscript,
    Tensor,
)
from ..ir.rewrite import accesses, expressions, free_indices, has_guard, rebuild
from ..records import dataclass
from .specialise import shapes_inside

_NARROW = 1 << 31
"""What is less than this is carried in 32 bits."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The parts of a `Reduce` by "update"; `results` are those of the targets."""

    domain: tuple[Index, ...]
    reduced: tuple[Index, ...]
    accumulators: tuple[Local, ...]
    values: tuple[Expr, ...]
    results: tuple[Expr, ...]
    condition: Expr | None


def is_fold(a: Assignment) -> bool:
    """Whether the targets of an assignment are read where they are written, and nowhere else."""
    if a.op != "update" or a.locals or len({t.tensor for t in a.targets}) != len(a.targets):
        return False
    own = {t.tensor: _places(t) for t in a.targets}
    kept = _kept(a)
    if not all(_is_plain(t) and _indices(t) == kept for t in a.targets):
        return False
    found = [x for x in accesses(*expressions(a)) if x.tensor in own]
    return all(_places(x) == own[x.tensor] and _is_plain(x) for x in found)


def _kept(a: Assignment) -> set[Index]:
    return _indices(a.targets[0])


def _indices(access: Access) -> set[Index]:
    return {i for i in _places(access) if isinstance(i, Index)}


def _places(access: Access) -> list[Expr]:
    return [s.index for s in access.subscripts]


def _is_plain(access: Access) -> bool:
    """Whether each subscript is an index of its own, or a number, and in range."""
    indices = [i for i in _places(access) if not isinstance(i, Const)]
    if not all(isinstance(i, Index) for i in indices) or len(_indices(access)) < len(indices):
        return False
    pairs = zip(access.subscripts, access.tensor.shape, strict=True)
    return all(s.rule is None and shapes_inside(s.index, extent) for s, extent in pairs)


def fold_of(a: Assignment, first: Sequence[Expr]) -> Fold | None:
    """An assignment whose targets begin with these values; None if a step may fail where it is not
    asked for."""
    kept = _kept(a)
    domain = tuple(i for i in a.domain if i in kept)
    reduced = tuple(i for i in a.domain if i not in kept)
    exprs = (*a.values, *(() if a.condition is None else (a.condition,)))
    own = {t.tensor: n for n, t in enumerate(a.targets)}
    lookups = _lookups(exprs, own)
    if lookups and not all(_is_carried(x, a, own, kept) for x in lookups):
        return None
    states = [_state(t, e, v) for t, e, v in zip(a.targets, first, a.values, strict=True)]
    initial = [_at(x, own, first) for x in lookups]
    following = [_at(x, own, a.values) for x in lookups]
    if not all(_is_inside(x, ()) for x in following):
        return None
    if not all(_is_inside(x, reduced) for x in initial):
        return None
    found = [Local("found", _if_any(x, reduced)) for x in initial]
    carried = [x.carried for x in states]
    known = {id(x): f for x, f in zip(lookups, found, strict=True)}
    new = [_carried(e, own, [x.value for x in states], known) for e in exprs]
    values = [_narrowed(v, x) for v, x in zip(new[: len(carried)], carried, strict=True)]
    return Fold(
        domain,
        reduced,
        (*carried, *found),
        (*values, *following),
        tuple(x.value for x in states),
        None if a.condition is None else new[-1],
    )


# ------------------------------------------------------------- what targets hold


@dataclass(frozen=True, slots=True)
class _State:
    """The accumulator of a target, and what the target holds."""

    carried: Local
    value: Expr


def _state(target: Access, first: Expr, value: Expr) -> _State:
    """In 32 bits, if that is enough for all that it can hold."""
    if target.dtype is DType.INT64 and isinstance(first, Const) and _is_small(first, value):
        assert not isinstance(first.value, str)
        carried = Local("acc", Const(first.value, DType.INT32))
        return _State(carried, Cast(DType.INT64, carried))
    carried = Local("acc", first)
    return _State(carried, carried)


def _is_small(first: Const, value: Expr) -> bool:
    while isinstance(value, Cast) and value.operand.dtype in (DType.INT, DType.INT64):
        value = value.operand
    if value.dtype is not DType.INT:
        return False
    ends = (*shapes.interval(value), float(cast(int, first.value)))
    return all(math.isfinite(x) and abs(x) < _NARROW for x in ends)


def _narrowed(value: Expr, carried: Local) -> Expr:
    if value.dtype is carried.dtype:
        return value
    while isinstance(value, Cast) and value.operand.dtype.is_int:
        value = value.operand
    return Cast(carried.dtype, value)


# --------------------------------------------------------- what is read where they say


def _lookups(exprs: Sequence[Expr], own: dict[Tensor, int]) -> list[Access]:
    """The accesses at places that targets say."""
    return [
        x
        for x in accesses(*exprs)
        if any(y.tensor in own for y in accesses(*(s.index for s in x.subscripts)))
    ]


def _is_carried(x: Access, a: Assignment, own: dict[Tensor, int], kept: set[Index]) -> bool:
    """Whether what an access reads changes only when a target does."""
    if x.tensor in own or any(s.rule is not None for s in x.subscripts) or has_guard(*a.values):
        return False
    if not set(free_indices(x)) <= kept:
        return False
    return not any(y.tensor in own for y in accesses(*a.values))


def _at(x: Access, own: dict[Tensor, int], values: Sequence[Expr]) -> Access:
    """An access with values for what targets hold."""

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor in own:
            return values[own[expr.tensor]]
        return expr

    subscripts = (rebuild(s.index, node) for s in x.subscripts)
    return Access(x.tensor, tuple(Subscript(_simple(e)) for e in subscripts), x.span)


def _simple(index: Expr) -> Expr:
    """A subscript without conversions that change nothing."""

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Cast) or expr.dtype is not DType.INT:
            return expr
        inner = expr.operand
        if isinstance(inner, Const) and not isinstance(inner.value, str):
            return Const(int(inner.value), DType.INT)
        if isinstance(inner, Cast) and inner.dtype.is_int and inner.operand.dtype is DType.INT:
            low, high = shapes.interval(inner.operand)
            bits = 8 * inner.dtype.numpy().itemsize - 1
            if -(2.0**bits) <= low and high < 2.0**bits:
                return inner.operand
        return expr

    return shapes.simplify(rebuild(index, node))


def _is_inside(x: Access, reduced: Sequence[Index]) -> bool:
    """Whether an access is in range, if the reduced indices have values."""
    return not accesses(*(s.index for s in x.subscripts)) and all(
        shapes_inside(s.index, extent)
        or (s.index == ZERO and any(shapes.equal(extent, i.extent) for i in reduced))
        for s, extent in zip(x.subscripts, x.tensor.shape, strict=True)
    )


def _if_any(x: Access, reduced: Sequence[Index]) -> Expr:
    """What an access reads, if the reduced indices have values, as it might be out of range."""
    tests = [Binary("gt", i.extent, ZERO) for i in reduced if shapes.interval(i.extent)[0] < 1]
    if not tests:
        return x
    test: Expr = tests[0]
    for other in tests[1:]:
        test = Binary("and", test, other)
    return Select(test, x, Const(False if x.dtype is DType.BOOL else 0, x.dtype))


def _carried(
    expr: Expr, own: dict[Tensor, int], states: Sequence[Expr], known: dict[int, Local]
) -> Expr:
    """An expression with accumulators for what it reads of targets, and where these say."""
    memo: dict[int, Expr] = dict(known)

    def node(part: Expr) -> Expr:
        if isinstance(part, Access) and part.tensor in own:
            return states[own[part.tensor]]
        return part

    return rebuild(expr, node, memo)
