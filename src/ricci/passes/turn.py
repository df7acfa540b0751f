"""Scattered sums turned round: for each element of the target, the terms that reach it.

Requires: an assignment. Ensures: where a subscript of the target is linear in
an index that no other subscript has, the target is subscripted by a fresh index, and that index is
computed from it. Does not: handle several targets, or guards that depend on data.
"""

from __future__ import annotations

from ..ir import shapes
from ..ir.nodes import (
    FALSE,
    TRUE,
    ZERO,
    Access,
    Assignment,
    Binary,
    Const,
    Expr,
    Index,
    Select,
    Skip,
    Subscript,
    integer,
)
from ..ir.rewrite import (
    accesses,
    expressions,
    free_indices,
    rebuild,
    substitute_assignment,
    used_locals,
)
from ..records import replace
from .specialise import shapes_inside


def turn_round(a: Assignment) -> Assignment:
    """The assignment with an index per dimension of its target, if its map can be inverted.

    `y[s*i + d*j - o] += v(i)`: with `t` for the subscript, `i = (t + o - d*j) / s` where
    that is whole and in range. One index is replaced per dimension that is not plain.
    """
    if len(a.targets) != 1 or a.op in ("set", "update") or has_data_guard(a):
        return a
    for d, s in enumerate(a.targets[0].subscripts):
        if isinstance(s.index, (Index, Const)) and s.rule is None:
            continue
        turned = _turn_dimension(a, d)
        if turned is None:
            return a
        a = turned
    return a


def has_data_guard(a: Assignment) -> bool:
    """Whether a guard reads tensors: it could not be evaluated ahead of the new condition."""
    return any(
        isinstance(s.rule, Skip) and accesses(s.index)
        for x in accesses(*expressions(a))
        for s in x.subscripts
    )


def _turn_dimension(a: Assignment, d: int) -> Assignment | None:
    target = a.targets[0]
    subscript, extent = target.subscripts[d], target.tensor.shape[d]
    form = shapes.affine(subscript.index)
    if form is None:
        return None
    if not isinstance(subscript.rule, Skip) and not shapes_inside(subscript.index, extent):
        return None
    others = free_indices(*(s.index for k, s in enumerate(target.subscripts) if k != d))
    solvable = [
        i for i, factor in form[0].items()
        if isinstance(i, Index) and factor > 0 and i not in others
    ]  # fmt: skip
    if not solvable:
        return None
    index = max(solvable, key=lambda i: (shapes.interval(i.extent)[1], -form[0][i]))
    factor = form[0][index]
    fresh = Index(f"{index.name}'", extent)
    rest = shapes.sub(shapes.sub(fresh, subscript.index), shapes.mul(integer(-factor), index))
    rest = shapes.simplify(rest)
    return replace_index(a, d, index, fresh, rest, factor)


def replace_index(
    a: Assignment, d: int, index: Index, fresh: Index, rest: Expr, factor: int
) -> Assignment | None:
    """The assignment over `fresh` instead of `index = rest / factor`."""
    value = rest if factor == 1 else shapes.floordiv(rest, integer(factor))
    checks: list[Expr] = []
    if factor > 1:
        checks.append(shapes.compare("eq", shapes.mod(rest, integer(factor)), ZERO))
    guards = _guard_by_access(a, index)
    if not guards:
        checks.append(shapes.compare("ge", value, ZERO))
        checks.append(shapes.compare("lt", value, index.extent))
    target = a.targets[0]
    subscripts = list(target.subscripts)
    subscripts[d] = Subscript(fresh)
    plain = replace(a, targets=(replace(target, subscripts=tuple(subscripts)),))
    plain = substitute_assignment(plain, {index: value})
    domain = tuple(fresh if i is index else i for i in a.domain)
    condition: Expr = TRUE
    for check in checks:
        condition = check if condition == TRUE else Binary("and", condition, check)
    if plain.condition is not None:  # it holds good accesses only where the index is in range
        lazy = Select(condition, plain.condition, FALSE)
        condition = plain.condition if condition == TRUE else lazy
    values = (
        tuple(_guarded(v, value, index.extent) for v in plain.values) if guards else plain.values
    )
    used = used_locals(plain.locals, *values, condition)
    return replace(
        plain,
        domain=domain,
        locals=tuple(x for x in plain.locals if x not in used),  # only where the checks hold
        values=values,
        condition=None if condition == TRUE else condition,
    )


def _guard_by_access(a: Assignment, index: Index) -> bool:
    """Whether a `Skip` on accesses by the index itself says that it is in range."""
    plain = [
        s
        for x in accesses(*a.values)
        for s, n in zip(x.subscripts, x.tensor.shape, strict=True)
        if s.index is index and s.rule is None and n == index.extent
    ]
    return bool(plain) and not a.locals and a.condition is None


def _guarded(expr: Expr, value: Expr, extent: Expr) -> Expr:
    """Accesses whose subscript became `value` skip where it is out of range."""

    def node(x: Expr) -> Expr:
        if not isinstance(x, Access):
            return x
        pairs = zip(x.subscripts, x.tensor.shape, strict=True)
        subscripts = tuple(
            Subscript(s.index, Skip())
            if s.rule is None and n == extent and shapes.equal(s.index, value)
            else s
            for s, n in pairs
        )
        return replace(x, subscripts=subscripts)

    return rebuild(expr, node)
