"""Targets whose subscripts count through several indices: `y[g * m + k]` becomes `y'[g, k]`.

Requires: an assignment with static extents. Ensures: where a subscript of a target is a
mixed-radix number of indices that reaches every element of its dimension exactly once, the target
is a tensor with a dimension for each of these indices, which has the bytes of the original. Does
not: change what is read.

Example: extents g < 4, k < 3 and `y: [12]` give `y': [4, 3]`, since 3 * g + k counts from 0 to 11.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ..ir import shapes
from ..ir.nodes import Access, Assignment, Const, Expr, Index, Subscript, Tensor


def split_targets(a: Assignment) -> tuple[Assignment, dict[Tensor, Tensor]]:
    """The assignment with split targets, and for each new tensor whose bytes it has."""
    views: dict[Tensor, Tensor] = {}
    targets = tuple(_split(t, views) for t in a.targets)
    return (replace(a, targets=targets), views) if views else (a, views)


def _split(target: Access, views: dict[Tensor, Tensor]) -> Access:
    shape: list[Expr] = []
    subscripts: list[Subscript] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        digits = _digits(s, int(cast(Const, extent).value))
        if digits is None:
            shape.append(extent)
            subscripts.append(s)
        else:
            shape += [i.extent for i in digits]
            subscripts += [Subscript(i) for i in digits]
    if len(shape) == len(target.subscripts):
        return target
    view = replace(target.tensor, shape=tuple(shape))
    views[view] = target.tensor
    return replace(target, tensor=view, subscripts=tuple(subscripts))


def _digits(s: Subscript, extent: int) -> list[Index] | None:
    """The indices of a mixed-radix number below `extent`, the most significant first."""
    if isinstance(s.index, Index | Const) or s.rule is not None:
        return None
    form = shapes.affine(s.index)
    if form is None or form[1] != 0 or not all(isinstance(i, Index) for i in form[0]):
        return None
    terms = sorted(((f, cast(Index, i)) for i, f in form[0].items()), key=lambda t: t[0])
    weight = 1
    for factor, index in terms:
        if factor != weight:
            return None
        weight *= int(cast(Const, index.extent).value)
    return [index for _, index in reversed(terms)] if weight == extent else None
