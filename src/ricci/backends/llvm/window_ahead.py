"""The rows of the next item are asked for while tiles of this one compute.

What an item reads is some stretches of a tensor, often on a few pages: the processor looks ahead
within a page, and only when it has seen several lines of it, so that most of the lines of a new
item would be waited for.
"""

from __future__ import annotations

import math

from ...ir.nodes import Access, Index, Tensor
from ...records import dataclass, replace
from .emit_access import extent_of, linear, shape_of
from .emit_types import width
from .kernels import Strides
from .sizes import row_major, sizes_of
from .target import LINE, Target
from .window_box import access_of
from .window_plan import WindowPlan


@dataclass(frozen=True, slots=True)
class Ahead:
    """What an item reads of a tensor: `count` stretches of `length` elements, `step` elements
    apart, from where `start` and the factors of the indices of an item say."""

    tensor: Tensor
    start: int
    factors: dict[Index, int]
    count: int
    step: int
    length: int
    cache: int
    """Which cache has room for it."""

    @property
    def lines(self) -> int:
        """Lines of the cache that a stretch may be on."""
        return self.length * width(self.tensor.dtype) // LINE + 1


def asked_ahead(w: WindowPlan, strides: Strides, target: Target) -> tuple[Ahead, ...]:
    """What items read that comes from beyond the caches, if that of an item leaves room there for
    others, and no two items that follow on one another read the same."""
    if w.blocks > 1 or w.in_turns:
        return ()
    operands = (w.plan.broadcast, *(() if w.prepared else (w.plan.vector,)))
    found = (_ahead(w, access_of(o), strides, target) for o in operands)
    varying = [i for i in (*w.plan.form.batch, *w.choices) if extent_of(i) > 1]
    return tuple(a for a in found if a is not None and varying and varying[-1] in a.factors)


def _ahead(w: WindowPlan, access: Access, strides: Strides, target: Target) -> Ahead | None:
    shape, size = shape_of(access.tensor.shape), width(access.tensor.dtype)
    steps = strides.get(access.tensor) or row_major(sizes_of(access.tensor.shape))
    if math.prod(shape) * size <= 2 * target.l2:
        return None
    start, factors, box = 0, dict[Index, int](), list[tuple[int, int]]()
    for subscript, extent, step in zip(access.subscripts, shape, steps, strict=True):
        place = linear(subscript.index)
        if place.others or not (isinstance(place.constant, int) and isinstance(step, int)):
            return None
        low, count = place.constant, 1
        outside = dict[Index, int]()
        for index, factor in place.steps.items():
            if index in w.plan.form.batch or index in w.fixed:
                outside[index] = factor
                continue
            for cut in w.parts:
                if cut.index is index:
                    outside[cut.number] = factor * cut.length
            reach = factor * (w.length(index) - 1)
            low, count = low + min(reach, 0), count + abs(reach)
        if count >= extent and not outside:
            low, count = 0, extent
        start += low * step
        box.append((step, count))
        for index, factor in outside.items():
            factors[index] = factors.get(index, 0) + factor * step
    found = _stretches(box)
    if found is None:
        return None
    count, step, length = found
    ahead = Ahead(access.tensor, start, factors, count, step, length, 1)
    bytes = count * ahead.lines * LINE
    if bytes > target.l2 // 4:
        return None
    return ahead if bytes <= target.l1 // 2 else replace(ahead, cache=2)


def _stretches(box: list[tuple[int, int]]) -> tuple[int, int, int] | None:
    """How many stretches of a tensor a box is, how far apart, and how long each; none if they are
    not equally far apart. The box has steps and extents."""
    length, apart = 1, list[tuple[int, int]]()
    for step, count in sorted((s, n) for s, n in box if n > 1):
        if step == length and not apart:
            length *= count
        elif apart and step == apart[-1][0] * apart[-1][1]:
            apart[-1] = apart[-1][0], apart[-1][1] * count
        else:
            apart.append((step, count))
    if len(apart) > 1:
        return None
    step, count = apart[0] if apart else (length, 1)
    return count, step, length
