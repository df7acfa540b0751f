"""Where the elements of a view are in the tensor whose bytes it has.

Requires: views whose sizes are numbers, where they do not lie in a row. Ensures: strides for every
tensor that is not row-major, and the first element of every view. Does not: choose strides.

A view is a stretch of its tensor in row-major order, or it is *apart*: a box of the same rank,
whose rows are not neighbours. Of both, the first element is known by its row-major offset. A
stretch can follow other strides of its tensor as well if each of its dimensions is (a part of) one
of the tensor's: `[2, 3, 4]` of `[2, 12]`, but not `[24]`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence

from ..ir.nodes import Tensor
from ..ir.shapes import as_int
from ..records import dataclass
from .views import Views

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """What the subscripts of a view are in its tensor.

    Dimension `d` of the tensor has the subscript `starts[d]` plus `factor` times that of each
    dimension of the view whose entry of `steps` is `(d, factor)`.
    """

    starts: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]

    def strides(self, whole: Strides) -> Strides:
        return tuple(factor * whole[d] for d, factor in self.steps)

    def start(self, whole: Strides) -> int:
        return sum(n * step for n, step in zip(self.starts, whole, strict=True))


def shape_of(tensor: Tensor) -> tuple[int, ...] | None:
    """The extents, if they are numbers, and none is zero."""
    shape = [as_int(e) for e in tensor.shape]
    return tuple(n for n in shape if n) if all(shape) else None


def row_major(shape: Sequence[int]) -> Strides:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def find_place(view: Tensor, whole: Tensor, offset: int, apart: bool) -> Place | None:
    """The place of a view that begins at a row-major offset, if there is one."""
    small, large = shape_of(view), shape_of(whole)
    if small is None or large is None or view.dtype is not whole.dtype:
        return None
    dense = row_major(large)
    starts = tuple(offset // step % n for step, n in zip(dense, large, strict=True))
    if _is_box(small, large, starts) and (apart or _is_stretch(small, dense)):
        return Place(starts, tuple((d, 1) for d in range(len(large))))
    return None if apart else _split(small, large, starts)


def _is_box(small: Sequence[int], large: Sequence[int], starts: Sequence[int]) -> bool:
    if len(small) != len(large):
        return False
    return all(s + n <= m for s, n, m in zip(starts, small, large, strict=True))


def _is_stretch(small: Sequence[int], dense: Strides) -> bool:
    """Whether a box is contiguous in row-major order."""
    return all(a == b for n, a, b in zip(small, row_major(small), dense, strict=True) if n > 1)


def _split(small: Sequence[int], large: Sequence[int], starts: Sequence[int]) -> Place | None:
    """The place of a stretch, each dimension of which is a part of one of the tensor's."""
    steps: list[tuple[int, int]] = []
    left = list(small)
    for d in reversed(range(len(large))):
        factor = 1
        while left and factor * left[-1] <= large[d]:
            steps.append((d, factor))
            factor *= left.pop()
        if starts[d] + factor > large[d] or (factor < large[d] and math.prod(left) > 1):
            return None
    return None if left else Place(tuple(starts), tuple(reversed(steps)))


@dataclass(frozen=True, slots=True)
class Places:
    """The places of views in the tensors whose bytes they have in the end."""

    views: Views
    offsets: Mapping[Tensor, int]
    apart: Container[Tensor]

    def find(self, tensor: Tensor) -> Place | None:
        """The place of a tensor in its root."""
        if tensor not in self.views:
            n = len(tensor.shape)
            return Place((0,) * n, tuple((d, 1) for d in range(n)))
        whole = self.views[tensor]
        outer = self.find(whole)
        here = find_place(tensor, whole, self.offsets.get(tensor, 0), tensor in self.apart)
        return None if here is None or outer is None else _through(here, outer)

    def strides_of_all(self, chosen: Mapping[Tensor, Strides]) -> dict[Tensor, Strides]:
        """The strides of all tensors that are not row-major, given those of tensors with bytes."""
        found = dict(chosen)
        for tensor in self.views:
            steps, _ = self._lies(tensor, chosen)
            if steps is not None:
                found[tensor] = steps
        return found

    def starts(self, chosen: Mapping[Tensor, Strides]) -> dict[Tensor, int]:
        """For each view its first element in its root, in elements."""
        return {t: self._lies(t, chosen)[1] for t in self.views}

    def _lies(self, tensor: Tensor, chosen: Mapping[Tensor, Strides]) -> tuple[Strides | None, int]:
        """The strides of a tensor, unless it is row-major, and its first element in its root."""
        if tensor not in self.views:
            return chosen.get(tensor), 0
        whole = self.views[tensor]
        steps, start = self._lies(whole, chosen)
        offset = self.offsets.get(tensor, 0)
        if steps is None and tensor not in self.apart:
            return None, start + offset
        place = find_place(tensor, whole, offset, tensor in self.apart)
        shape = shape_of(whole)
        assert place is not None and shape is not None
        known = row_major(shape) if steps is None else steps
        return place.strides(known), start + place.start(known)


def _through(inner: Place, outer: Place) -> Place:
    """The place of a view of a view."""
    starts = list(outer.starts)
    for (d, factor), start in zip(outer.steps, inner.starts, strict=True):
        starts[d] += factor * start
    steps = tuple((outer.steps[d][0], outer.steps[d][1] * f) for d, f in inner.steps)
    return Place(tuple(starts), steps)
