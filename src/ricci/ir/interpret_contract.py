"""Sums of products of tensors through matrix multiplication.

An assignment `y[..] += f * g` whose factors depend on different indices would have far more
points than its operands have elements. Here each factor is evaluated on its own indices
only, and the products are summed by `np.matmul`: what a convolution needs to be practical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..diagnostics import Call
from ..records import dataclass
from .interpret_block import Block, Store, Values, plain_view
from .interpret_scalar import Array
from .nodes import Access, Assignment, Binary, Expr, Skip
from .rewrite import accesses, expressions, free_indices

SMALLEST = 4096
"""Domains with fewer points than this are not worth it."""

ELEMENTS = 2**22
"""The most elements of an operand of one matrix multiplication."""

Axes = frozenset[int]


@dataclass(frozen=True)
class _Plan:
    """Two factors with the axes of the domain that each depends on."""

    factors: tuple[Expr, Expr]
    axes: tuple[Axes, Axes]
    guards: tuple[tuple[Access, int], ...]
    masked: int | None
    """Which factor the guards and the condition go with."""


def contract(
    assignment: Assignment,
    store: Store,
    extents: Sequence[int],
    reduced: Sequence[int],
    calls: tuple[Call, ...],
) -> bool:
    """Carry out a sum of products, if the assignment is one worth it; says whether it did."""
    plan = _plan(assignment, reduced)
    if plan is None or prod(extents) < SMALLEST:
        return False
    target = assignment.targets[0]
    narrow = store.arrays[target.tensor]
    real = np.issubdtype(narrow.dtype, np.floating)
    total = narrow.astype(np.float64) if real else narrow.copy()
    for ranges in _split(extents, plan.axes, reduced):
        block = Block(store, assignment.domain, ranges, calls)
        values = _alive(assignment, plan, block)
        operands = _operands(plan, values)
        if operands is None:
            return False
        a, b = (_full(x, block, total.dtype) for x in operands)
        result = multiply(a, b, reduced)
        _add(total, target, values, reduced, result)
    narrow[...] = store.rounded(total, target.dtype)
    return True


def _plan(assignment: Assignment, reduced: Sequence[int]) -> _Plan | None:
    value = assignment.values[0]
    if assignment.op != "add" or len(assignment.values) > 1 or not reduced:
        return None
    if not (isinstance(value, Binary) and value.op == "mul"):
        return None
    factors = (value.lhs, value.rhs)
    domain = assignment.domain
    left, right = (frozenset(domain.index(i) for i in free_indices(f)) for f in factors)
    if left == right or not left | right >= set(reduced):
        return None
    if any(not _is_guarded_only(t) for t in assignment.targets):
        return None
    guards = tuple(
        (access, k)
        for access in accesses(*expressions(assignment))
        for k, s in enumerate(access.subscripts)
        if isinstance(s.rule, Skip)
    )
    if any(accesses(access.subscripts[k].index) for access, k in guards):
        return None
    masks = [access.subscripts[k].index for access, k in guards]
    masks += [] if assignment.condition is None else [assignment.condition]
    on = frozenset(domain.index(i) for i in free_indices(*masks))
    masked = (0 if on <= left else 1) if on <= left or on <= right else None
    if masks and masked is None:
        return None
    return _Plan(factors, (left, right), guards, masked if masks else None)


def _is_guarded_only(target: Access) -> bool:
    """Targets with boundary rules take the general way."""
    return all(s.rule is None for s in target.subscripts)


def _alive(assignment: Assignment, plan: _Plan, block: Block) -> Values:
    values = Values(block, np.ones((1,) * len(block.shape), bool))
    for access, dimension in plan.guards:
        values = values.within(values.inside(access, dimension))
    if assignment.condition is not None:
        values = values.within(values.of(assignment.condition))
    return values


def _operands(plan: _Plan, values: Values) -> list[Array] | None:
    """The factors on their own axes; none if a factor that a mask does not cover is not
    finite, for zero times infinity would count."""
    found = []
    for position, factor in enumerate(plan.factors):
        if plan.masked is None:
            found.append(values.of(factor))
        elif position == plan.masked:
            found.append(np.where(values.active, values.of(factor), 0))
        else:
            active = _projected(values.active, plan.axes[position])
            other = Values(values.block, active).of(factor)
            if not np.isfinite(other).all():
                return None
            found.append(other)
    return found


def _full(x: Array, block: Block, dtype: np.dtype[Any]) -> Array:
    """`x` with an axis for every index, in the dtype of the sum."""
    return x.reshape(x.shape or (1,) * len(block.shape)).astype(dtype, copy=False)


def _projected(active: Array, axes: Axes) -> Array:
    """Where anything is active for given values of some axes."""
    others = tuple(a for a in range(active.ndim) if a not in axes)
    return np.asarray(np.any(active, axis=others, keepdims=True))


def _add(
    total: Array, target: Access, values: Values, reduced: Sequence[int], result: Array
) -> None:
    view = plain_view(total, target, values.block)
    if view is not None:
        view += result
        return
    active = np.any(values.active, axis=tuple(reduced), keepdims=True)
    positions = Values(values.block, active).positions(target)
    shape = np.broadcast_shapes(result.shape, *(p.shape for p in positions))
    where = tuple(np.broadcast_to(p, shape) for p in positions)
    np.add.at(total, where, np.broadcast_to(result, shape))


def multiply(a: Array, b: Array, reduced: Sequence[int]) -> Array:
    """The sum of `a * b` over the reduced axes, which keep length 1.

    `a` and `b` have an axis per index, of length 1 where they do not depend on it.
    """
    ndim = a.ndim
    sizes = [max(m, n) for m, n in zip(a.shape, b.shape, strict=True)]
    for axis in reduced:  # what only one factor depends on is summed first
        a = a.sum(axis=axis, keepdims=True, dtype=a.dtype) if b.shape[axis] == 1 else a
        b = b.sum(axis=axis, keepdims=True, dtype=b.dtype) if a.shape[axis] == 1 else b
    both = [k for k in range(ndim) if a.shape[k] > 1 and b.shape[k] > 1]
    inner = [k for k in both if k in reduced]
    batch = [k for k in both if k not in reduced]
    rows = [k for k in range(ndim) if k not in both and a.shape[k] > 1]
    columns = [k for k in range(ndim) if k not in both and k not in rows]
    left = _matrix(a, [batch, rows, inner], columns)
    right = _matrix(b, [batch, inner, columns], rows)
    flat = np.matmul(left, right)
    order = batch + rows + columns
    shape = [1 if k in reduced else sizes[k] for k in order]
    result: Array = flat.reshape(shape + [1] * len(inner))
    return result.transpose(np.argsort(order + inner))


def _matrix(x: Array, groups: Sequence[Sequence[int]], gone: Sequence[int]) -> Array:
    """`x` with each group of axes made one; the axes `gone` have length 1."""
    order = [k for group in groups for k in group] + list(gone)
    shape = [prod(x.shape[k] for k in group) for group in groups]
    return x.transpose(order).reshape(shape)


def _split(
    extents: Sequence[int], axes: Sequence[Axes], reduced: Sequence[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes whose operands and result have at most `ELEMENTS` elements."""
    steps = list(extents)
    arrays = [sorted(a) for a in axes]
    arrays.append([k for k in range(len(extents)) if k not in reduced])
    while True:
        largest = max(arrays, key=lambda a: prod(steps[k] for k in a))
        longest = next((k for k in largest if steps[k] > 1), None)
        if longest is None or prod(steps[k] for k in largest) <= ELEMENTS:
            break
        steps[longest] = -(-steps[longest] // 2)
    spans = [
        [(k, min(k + step, n)) for k in range(0, n, step)]
        for n, step in zip(extents, steps, strict=True)
    ]
    yield from product(*spans)
