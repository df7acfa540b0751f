"""Targets whose subscripts count through several indices: `y[g * m + k]` becomes `y'[g, k]`.

Requires: an assignment. Ensures: where a subscript of a target is a
mixed-radix number of indices that reaches every element of its dimension exactly once, the target
is a tensor with a dimension for each of these indices, which has the bytes of the original. Does
not: change what is read.

Example: extents g < 4, k < 3 and `y: [12]` give `y': [4, 3]`, since 3 * g + k counts from 0 to 11.
"""

from __future__ import annotations

from ..ir import shapes
from ..ir.nodes import ONE, ZERO, Access, Assignment, Const, Expr, Index, Subscript, Tensor
from ..records import replace


def split_targets(a: Assignment) -> tuple[Assignment, dict[Tensor, Tensor]]:
    """The assignment with split targets, and for each new tensor whose bytes it has."""
    views: dict[Tensor, Tensor] = {}
    targets = tuple(_split(t, views) for t in a.targets)
    return (replace(a, targets=targets), views) if views else (a, views)


def on_whole(place: Access, target: Access) -> Access:
    """Where in the tensor of a target the element is that is at some place of what it was split
    into."""
    subscripts: list[Subscript] = []
    rest = list(zip(place.subscripts, place.tensor.shape, strict=True))
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        own, count = rest.pop(0)
        subscripts.append(own if shapes.equal(count, extent) else s)
        while not shapes.equal(count, extent):
            count = shapes.mul(count, rest.pop(0)[1])
    return Access(target.tensor, tuple(subscripts), target.span)


def _split(target: Access, views: dict[Tensor, Tensor]) -> Access:
    shape: list[Expr] = []
    subscripts: list[Subscript] = []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        digits = _digits(s, extent)
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


def _digits(s: Subscript, extent: Expr) -> list[Index] | None:
    """The indices of a mixed-radix number below `extent`, the most significant first."""
    if isinstance(s.index, Index | Const) or s.rule is not None:
        return None
    form = shapes.linear(s.index)
    if form is None or form[1] != ZERO:
        return None
    rest = form[0]
    weight: Expr = ONE
    digits: list[Index] = []
    while rest:
        index = next((i for i, factor in rest.items() if factor == weight), None)
        if index is None:
            return None
        del rest[index]
        digits.append(index)
        weight = shapes.mul(weight, index.extent)
    return digits[::-1] if shapes.equal(weight, extent) else None
