"""The schedules that may be tried for a chain of products; and for any kernel."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from ...ir.loops import Group, Kernel, Reduce
from ...ir.nodes import Tensor
from ...records import replace
from .group_product import tile_shapes
from .kernels import Strides
from .schedule import Chain, Schedule
from .schedule_space import KernelSpace, scaled
from .target import Target


class Space(Protocol):
    """The schedules of one kernel."""

    def first(self) -> Sequence[Schedule]:
        """Those to begin with."""

    def near(self, schedule: Schedule, r: random.Random) -> Schedule:
        """A schedule that differs in one or two things."""

    def is_hopeless(self, schedule: Schedule, best: Schedule) -> bool:
        """Whether the cost model is sure that a schedule is far slower than another."""


def space_of(
    kernel: Kernel,
    chosen: Schedule,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> Space:
    """The schedules of a kernel for which the cost model chooses `chosen`."""
    if isinstance(chosen, Chain):
        assert isinstance(kernel, Group)
        return ChainSpace(chosen, tile_shapes(kernel, strides, target))
    assert isinstance(kernel, Reduce)
    return KernelSpace(kernel, strides, target, constant)


class ChainSpace:
    """The schedules of a chain of products."""

    def __init__(self, chosen: Chain, shapes: Mapping[int, Sequence[int]]) -> None:
        """`shapes` are, for numbers of rows that tiles may have, the numbers of vectors."""
        self.chosen, self.shapes = chosen, shapes

    def first(self) -> Sequence[Schedule]:
        """The chosen one, and tiles of all heights with blocks like its own."""
        heights = sorted(self.shapes, reverse=True)
        return list(dict.fromkeys([self.chosen, *(self._with_rows(r) for r in heights)]))

    def _widths(self, rows: int) -> Sequence[int]:
        """The numbers of vectors that tiles of so many rows may have."""
        return self.shapes[min((r for r in self.shapes if r >= rows), default=max(self.shapes))]

    def _near_rows(self, rows: int, r: random.Random) -> int:
        """One of the next numbers of rows that tiles may have."""
        heights = sorted(self.shapes)
        at = sum(h < rows for h in heights) + r.choice((-2, -1, 1, 2))
        return heights[min(max(at, 0), len(heights) - 1)]

    def _with_rows(self, rows: int) -> Chain:
        widest = max(self._widths(rows))
        vectors = tuple(min(v, widest) for v in self.chosen.vectors)
        return replace(self.chosen, rows=rows, vectors=vectors)

    def near(self, schedule: Schedule, r: random.Random) -> Schedule:
        """Another tile, block, or number of chunks."""
        assert isinstance(schedule, Chain)
        match r.choice(("rows", "vectors", "block", "block", "chunks")):
            case "rows":
                return replace(schedule, rows=self._near_rows(schedule.rows, r))
            case "vectors":
                vectors = list(schedule.vectors)
                vectors[r.randrange(len(vectors))] = r.choice(self._widths(schedule.rows))
                return replace(schedule, vectors=tuple(vectors))
            case "block":
                return replace(schedule, block=scaled(schedule.block, r))
        return replace(schedule, chunks=scaled(schedule.chunks, r))

    def is_hopeless(self, schedule: Schedule, best: Schedule) -> bool:
        """Never: there are few."""
        return False
