"""Brings near the columns that a thread reads next, while tiles compute with those before.

Columns that lie beyond the caches are packed a short stretch of each k at a time, and neighbouring
k are on other pages: a processor does not foresee where, and packing waits for memory. So each tile
asks for a few lines of them before it begins; it takes longer than memory does to answer.

Columns that are prepared are read one after the other, but by the first row of tiles alone, faster
than memory gives them; the others find them in the caches. There, too, all rows ask for their
share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .contraction_cost import has_room_to_ask, reads_far
from .contraction_plan import Plan, is_direct
from .contraction_sides import batch_places, block_at, element
from .contraction_space import plus, product, smin, step_of, times
from .emit_memory import prefetch
from .kernels import Strides
from .target import LINE, Target

if TYPE_CHECKING:
    from .contraction_write import ContractionWriter

_LEAST = 2
"""Values of k for each row of tiles to ask for: with fewer, asking takes as long as it saves."""


def asks_for_columns(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether a plan reads columns from beyond the caches: packs them, side by side for each k, or
    has several panels of them prepared, and the second cache has room for those of two blocks and
    for rows."""
    few = plan.depth.most * plan.rows < _LEAST * plan.row_block
    if few or not reads_far(plan.vector, plan.form, plan.depth, target):
        return False
    if plan.vector_source == "prepared":
        rows = min(plan.row_block, plan.broadcast.extent)
        return target.looks_ahead and bool(has_room_to_ask(plan, rows, plan.lane_block, target))
    if plan.vector_source != "packed" or plan.form.words is not None:
        return False
    if not is_direct(plan.vector, plan.depth.indices, strides):
        return False
    return step_of(plan.vector, plan.vector.indices, strides) == 1


class ColumnsAhead:
    """Writes the questions for the columns of the block that comes after one."""

    def __init__(self, writer: ContractionWriter, cores: int) -> None:
        self.writer, self.plan, self.cores = writer, writer.plan, cores
        self.start, self.points = "", "0"
        """Where the columns of the next block begin, and how many k it has."""
        self.is_prepared = self.plan.vector_source == "prepared"

    def begin(self, chunk: str, number: str, last: str) -> None:
        """Before the tiles of a block of k, `number`, of a chunk's block; whether it is the last
        of that one."""
        b, w, plan = self.writer.b, self.writer, self.plan
        after = self._after(chunk)
        if plan.depth.blocks == 1:
            then, block = after, "0"
        else:
            then = b.pure(f"select i1 {last}, i64 {after}, i64 {chunk}", last, after, chunk)
            more = plus(b, number, "1")
            block = b.pure(f"select i1 {last}, i64 0, i64 {more}", last, more)
        outer, _, lane_number = w.split(then)
        places = batch_places(b, plan.form.batch, outer)
        first = times(b, lane_number, plan.lane_block)
        depth = block_at(b, plan.depth, block)
        self.points = depth.points
        if self.is_prepared:
            self.start = w.prepared(w.vector, first, depth, plan.panel, places)
        else:
            self.start = w.direct(w.vector.packing.operand, first, depth, places)

    def _after(self, chunk: str) -> str:
        """The block that this thread is likely to do after one, if all take theirs in turn; there
        need be none, as no memory need be where a question is for."""
        b, grain, cores = self.writer.b, self.plan.grain, self.cores
        if grain == 1:
            return plus(b, chunk, str(cores))
        next = plus(b, chunk, "1")
        rest = b.pure(f"urem i64 {next}, {grain}", next)
        is_end = b.pure(f"icmp eq i64 {rest}, 0", rest)
        far = plus(b, next, str((cores - 1) * grain))
        return b.pure(f"select i1 {is_end}, i64 {far}, i64 {next}", is_end, far, next)

    def ask(self, row: str, lane: str) -> None:
        """Before a tile: for its share of k, the columns in the places of its own."""
        b, w, plan = self.writer.b, self.writer, self.plan
        up = plus(b, w.row_count, str(plan.rows - 1))
        tiles = b.pure(f"udiv i64 {up}, {plan.rows}", up)
        most = plus(b, self.points, tiles)
        each = b.pure(f"udiv i64 {most}, {tiles}", most, tiles)
        begin = product(b, b.pure(f"udiv i64 {row}, {plan.rows}", row), each)
        end = smin(b, plus(b, begin, each), self.points)
        if self.is_prepared:
            at = element(b, w.scalar, self.start, product(b, lane, self.points))
            line = plan.panel * w.bytes
            with b.loop(times(b, begin, line), times(b, end, line), LINE) as loop:
                prefetch(b, at, loop.index, 2)
            return
        at = element(b, w.scalar, self.start, lane)
        operand = w.vector.packing.operand
        apart = step_of(operand, plan.depth.indices, w.strides) * w.bytes
        with b.loop(begin, end) as loop:
            there = times(b, loop.index, apart)
            place = b.pure(f"getelementptr i8, ptr {at}, i64 {there}", at, there)
            for offset in range(0, plan.panel * w.bytes, LINE):
                prefetch(b, place, offset, 2)
