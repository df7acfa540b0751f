"""Whether the parts of a tensor that assignments write are all of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from ..ir import shapes
from ..ir.nodes import Access, Assignment, Expr, Index, Tensor
from ..ir.rewrite import accesses, has_guard

Box = tuple[tuple[int, int], ...]
"""The least subscript of each dimension, and the one after the greatest."""


def are_all(tensor: Tensor, body: Sequence[Assignment]) -> bool:
    """Whether the assignments that write a tensor give each element one value, and none reads it.

    Such are the parts of what is joined: `y[i] = a[i]` for `i < n` and `y[i + n] = b[i]` for
    `i < m`, where `y` has `n + m` elements.
    """
    boxes: list[Box] = []
    for a in body:
        condition = () if a.condition is None else (a.condition,)
        subscripts = (s.index for t in a.targets for s in t.subscripts)
        if any(x.tensor is tensor for x in accesses(*a.values, *a.locals, *condition, *subscripts)):
            return False
        for target in (t for t in a.targets if t.tensor is tensor):
            box = _box(a, target)
            if box is None:
                return False
            boxes.append(box)
    extents = [shapes.as_int(e) for e in tensor.shape]
    whole = math.prod(e or 0 for e in extents)
    sizes = (math.prod(high - low for low, high in box) for box in boxes)
    if None in extents or sum(sizes) != whole:
        return False
    return are_disjoint(boxes)


def are_disjoint(boxes: Sequence[Box]) -> bool:
    """Whether no two boxes have an element in common."""
    return not any(_meet(a, b) for a, b in combinations(boxes, 2))


def _box(a: Assignment, target: Access) -> Box | None:
    """All that an assignment writes of a target, if that is a box in which nothing is left out."""
    if a.op != "set" or a.condition is not None or has_guard(*a.values, *a.locals, target):
        return None
    return box_of(target, a.domain)


def box_of(target: Access, domain: Sequence[Index]) -> Box | None:
    """The elements that an access reaches, if each point of a domain has its own, in a box."""
    left, box = set(domain), []
    for s, extent in zip(target.subscripts, target.tensor.shape, strict=True):
        side = _side(s.index, left)
        if side is None or side[0] < 0 or side[1] > (shapes.as_int(extent) or 0):
            return None
        box.append(side)
    return None if left else tuple(box)


def _side(subscript: Expr, left: set[Index]) -> tuple[int, int] | None:
    """The values of an index, which is taken from those `left`, plus a number."""
    form = shapes.affine(subscript)
    if form is None or len(form[0]) > 1:
        return None
    for index, factor in form[0].items():
        extent = shapes.as_int(index.extent) if isinstance(index, Index) else None
        if index not in left or factor != 1 or extent is None:
            return None
        left.remove(index)
        return form[1], form[1] + extent
    return form[1], form[1] + 1


def _meet(a: Box, b: Box) -> bool:
    """Whether two boxes have an element in common."""
    return all(max(x[0], y[0]) < min(x[1], y[1]) for x, y in zip(a, b, strict=True))
