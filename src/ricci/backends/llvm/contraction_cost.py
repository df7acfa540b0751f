"""What a contraction costs, estimated from counts of instructions.

The constants were measured; only their ratios matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .contraction_form import Operand, size
from .contraction_reading import (
    Numbers,
    has_room_beside,
    has_room_to_ask,
    is_far,
    lacks_columns,
    may_ask,
    reads_far,
)
from .contraction_space import flat_form, merge, step_of
from .contraction_storing import run_along, storing
from .contraction_tiles import MOST_ROWS, tile_cost
from .emit_access import extent_of
from .kernels import Strides
from .microkernel import IN_TURN
from .packing import MOST_STRIDE, contiguous_depth, loop_order
from .target import LINE, PAGE, Target

if TYPE_CHECKING:
    from .contraction_plan import Plan

_MOST_APART = 9
_CALL = 30.0
"""Cycles to call a tile, to store its results, or to pack a panel."""
_IN_PLACE, _ACROSS, _FAR_ACROSS = 0.1, 0.05, 1.3
"""Cycles per element and block of rows that are read in place: along a row; across rows; and across
those that come from beyond the caches."""
_APART, _FAR_APART = {PAGE: 0.3}, {PAGE: 0.6, PAGE // 2: 0.35}
"""Along rows that lie so many bytes apart, on the same lines of the caches; and along those from
beyond the caches. Others are brought near ahead of time."""
_WAITED = {False: 1 / 3, True: 1.0}
"""The part of these that is not covered by what is computed meanwhile; whether a core is wide."""
DEEP_APART, _DEEP_WAITED = 6, 1 / 3
"""Rows of a tile of deep blocks that may lie whole pages apart, since all k of them are to stay in
the first cache while columns pass by; and the part of the above that is not covered there."""
_FAR_PACKED, _TORN = 0.55, 4.0
"""More of these to pack what comes from beyond the caches; and how many times as long a
line takes at the ends of a short run where vectors are done in halves: nothing asks for it."""
_FAR_COLUMNS, _FAR_PANELS, _SHARED_COLUMNS = 2.4, 1.2, 1.5
"""Cycles per 64 bytes and block of columns from beyond the caches, in place, or prepared; and in
place where vectors are done in halves, and the cache that cores share keeps them."""
FEW, _STREAMED = 8, 12.0
"""Rows with which time goes by reading the other operand; and the same of those that more rows meet
in place, a few at a time, where a core on a mesh waits for each: it is on a page of its own."""
_WAITED_PANELS, _ASKED_PANELS = 8.0, 2.0
"""The same of prepared ones for several rows of tiles, where vectors are done in halves: the first
row waits for them; and if all rows have asked for them before, see `has_room_to_ask`."""
_TWO, _LATE = 0.065, 6.0
"""Where vectors are done in halves, and columns come from beyond the caches: cycles per vector and
k that tiles gain by two k in a turn while they ask for columns; and what those that are packed cost
more per 64 bytes if there is no room for the ones that are asked for."""
_COLUMNS_IN_PLACE, _ROW_IN_PLACE = 0.45, 1.2
"""Cycles per vector of columns in place that a core's caches hold; for a single row, which waits
for each of them, where prepared ones would come as fast as it computes."""
_FARTHER, _FARTHER_IN_HALVES = {False: 0.9, True: 0.6}, {False: 1.2, True: 0.2}
"""Cycles per vector of columns in place that a core's caches do not hold, by whether vectors are
longer than 32 bytes; where they are done in halves, by whether the cache that cores share does."""
_FROM_MEMORY = 7.0
"""More of them that no cache keeps, where vectors have 32 bytes at most and several rows wait (if
they are done at once, many): nothing asks for columns there, while rows that are asked for come as
fast as they are needed."""
_FAR_ROWS = 3.5
"""The same of prepared rows, for each panel of columns that meets them, where a core is wide and
the third cache near: others compute meanwhile, or have more in the second."""
_PAGES, _PAGES_OF_COLUMNS = 4.0, 0.2
"""Cycles per k of a tile that reads rows, or columns, across so many pages that a processor has to
find out again where each is."""
_COVERED = 1 << 18
"""Bytes of the pages that it knows."""
_LINES = {False: 7.0, True: 0.0}
"""Cycles per k of a tile whose rows, read in place, are on another line of the cache than those of
the k before, by whether vectors are longer than 32 bytes: such tiles are large, and cover it."""
_OUT = 20.0
"""Cycles per k of a tile whose columns come from beyond the second cache each time."""
_STRETCH = 14.0
"""Cycles to begin to pack a stretch of columns from beyond the caches, on a page of its own."""
_ROOM = {False: 0.4, True: 0.7}
"""The part of the second cache that is to hold a block's sums and panels, by whether vectors are
longer than 32 bytes: where it is small, columns that are asked for need the rest."""
_FROM_L2 = {False: 0.3, True: 0.7}
"""Cycles per 64 bytes of panels that are more than the first cache has room for, by whether a core
is wide."""
_DEEP_L2 = {"prepared": 0.15, "packed": 0.6}
"""The same of deep blocks, whose rows stay in the first cache."""
_FEW_DEEP, _WAITED_L2 = 6, 1.0
"""Rows of tiles of deep blocks that compute as long as the next vector of columns takes to come
from the second cache of a core on a mesh; and the same of tiles with fewer."""
_ON_SAME_LINES, _WAYS = 8.0, 8
"""Cycles per vector of many columns in place that lie whole pages apart, which a core on a mesh
brings from the second cache for every row of tiles; and how many of them the first one keeps."""
_FROM_L3 = {False: 2.0, True: 8.0}
"""Cycles for a vector of packed columns that do not stay in the second cache, which the rows of a
tile share, by whether vectors are longer than 32 bytes."""
_FAR_RESULTS = {False: 60.0, True: 0.0}
"""Cycles per row of a block of results that go beyond the caches: each begins on a page of its own,
and shares lines with the next block's; by the same."""
_SUMS, _WIDE_SUMS = 2.0, 4.0
"""Cycles to add a vector of sums to those of the block of k before; where 64 bytes are stored in
halves."""
_CLAIM = 400.0
"""Cycles for a thread to get the next chunk."""


def estimate(plan: Plan, strides: Strides, target: Target) -> float:
    """Cycles until all cores have done all chunks."""
    return Costs(plan, strides, target).until_done(plan.row_block, plan.lane_block)


class Costs:
    """What a plan costs, for any blocks of rows and columns."""

    def __init__(self, plan: Plan, strides: Strides, target: Target) -> None:
        self.plan, self.strides, self.target = plan, strides, target
        self.bytes = plan.form.dtype.numpy().itemsize
        self.rows, self.columns = plan.broadcast.extent, plan.vector.extent
        k, elements = plan.depth.extent, self.rows * self.columns
        multiply = tile_cost(self.rows, self.columns, plan.rows, plan.vectors, plan.lanes, target)
        multiply *= _clashes(plan, strides, target)
        tiles = -(-self.rows // plan.rows) * -(-self.columns // plan.panel)
        # of one element of the result, of the broadcast side and of the vector side
        calls = _CALL * tiles * (1 + plan.depth.blocks)
        self.each = (k * multiply + calls * target.slower) / elements
        near = self.rows * plan.lane_block * self.bytes <= target.l1
        if not (plan.is_streamed and near):  # else sums stay near
            sums = _WIDE_SUMS if target.halves else _SUMS
            self.each += sums * target.slower * (plan.depth.blocks * plan.runs - 1) / plan.lanes
        self.each += storing(plan, strides) * target.slower
        self.row = k * reading(
            plan.broadcast_source, plan.broadcast, plan.rows, plan, strides, target
        )
        self.pages = 0.0
        if plan.broadcast_source == "direct":
            self.row += k * _in_place(plan, strides, target)
            if contiguous_depth(plan.broadcast, plan.depth, plan.lanes, strides) is None:
                self.pages += _PAGES * _is_spread(plan.broadcast, plan, strides)
                self.pages += _is_across_lines(plan, strides) * _LINES[target.long]
        if plan.vector_source == "direct":
            self.pages += _PAGES_OF_COLUMNS * _is_spread(plan.vector, plan, strides)
            self.pages += _drive_out_each_other(plan, strides, target) * _OUT
        self.meets_far = plan.broadcast_source == "prepared" and self.columns > plan.panel
        self.meets_far &= target.is_fed
        self.meets_far &= is_far(plan.broadcast, plan.depth, self.bytes, target)
        self.beside = rows_beside(plan, strides)
        self.stretches = _STRETCH * is_torn(plan, strides, target)
        self.asks = lacks_columns(plan, strides, target)
        """Whether tiles have reason to ask for the columns of the next block."""
        self.column = k * reading(
            plan.vector_source, plan.vector, plan.panel, plan, strides, target
        )

    def soonest(self, row_blocks: Sequence[int], lane_blocks: Sequence[int]) -> tuple[int, int]:
        """The sizes of blocks with which all cores are done soonest."""
        down, right = np.array(row_blocks, float)[:, None], np.array(lane_blocks, float)
        row, column = divmod(int(np.argmin(self._until_done(down, right))), len(lane_blocks))
        return row_blocks[row], lane_blocks[column]

    def until_done(self, row_block: int, lane_block: int) -> float:
        """Cycles until all cores have done all chunks of a size."""
        return float(self._until_done(np.array(row_block, float), np.array(lane_block, float)))

    def chunk(self, rows: int, columns: int) -> float:
        """Cycles of one block."""
        return float(self._chunk(np.array(rows, float), np.array(columns, float)))

    def chunks(self, rows: int, columns: Sequence[int]) -> list[float]:
        """The same for several numbers of columns."""
        cycles: list[float] = self._chunk(np.array(rows, float), np.array(columns, float)).tolist()
        return cycles

    def _until_done(self, row_block: Numbers, lane_block: Numbers) -> Numbers:
        down, right = -(-self.rows // row_block), -(-self.columns // lane_block)
        chunks = self.plan.outer * down * right
        row_block = np.minimum(row_block, self.rows)
        lane_block = np.minimum(lane_block, self.columns)
        chunk = self._chunk(row_block, lane_block)
        cores = self.target.cores
        # blocks at the ends are smaller: of all, only so much is done
        done = chunks * self.rows * self.columns / (down * row_block * right * lane_block)
        whole = self.plan.outer * (self.rows // row_block) * (self.columns // lane_block)
        parts = chunks - whole
        part = np.where(parts > 0, (done - whole) / np.maximum(parts, 1), 1.0)
        # some are done while other cores do the last of the whole ones
        parts = np.maximum(parts - -whole % cores * (1.0 // part), 0.0)
        even = -(-whole // cores) + -(-parts // cores) * part
        even = np.maximum(done / cores, np.where(chunks < 8 * cores, even, 0.0))
        # the last chunks are waited for, also when somebody else uses the cores
        cycles: Numbers = chunk * (even + 0.07) + np.minimum(_CLAIM, chunk / 10) * chunks / cores
        return cycles

    def _chunk(self, rows: Numbers, columns: Numbers) -> Numbers:
        plan, target, depth = self.plan, self.target, self.plan.depth.extent
        cycles: Numbers = (
            20.0 + rows * columns * self.each + rows * self.row + columns * self.column
        )
        # vectors that the panels of rows read, each of them all
        read = -(-rows // plan.rows) * columns * depth / plan.lanes
        deep = plan.depth.most
        if plan.outer * self.rows * self.columns * self.bytes > target.l2:
            cycles = cycles + (columns if plan.across else rows) * _FAR_RESULTS[target.long]
        held = columns * rows * (plan.depth.blocks > 1)
        held = held + rows * deep * (plan.broadcast_source == "packed")
        room = target.l2 * _ROOM[target.long] / self.bytes
        slow = _FROM_L3[target.long] if plan.vector_source == "packed" else 1.5
        cycles = cycles + np.where(held + columns * deep > room, read * slow / plan.rows, 0.0)
        cycles = cycles + np.where(held > room, rows * depth * 0.7, 0.0)
        if plan.is_streamed:
            # short stretches, each of another page, come from memory more slowly; then all is near
            once = columns * depth / plan.lanes
            first = np.where(columns * self.bytes < PAGE, 1.5, 1.0)
            each = _STREAMED if target.on_mesh and self.rows > FEW else _FAR_PANELS
            return cycles + each * first * once + 0.2 * (read - once)
        far = (size := self.columns * depth * self.bytes) > target.l2 // 2
        shared = plan.outer * size <= target.shared
        asked = may_ask(plan, rows) & has_room_beside(plan, columns, target)
        asked = asked & (self.asks and target.halves)
        come = asked | (shared and target.halves)  # without being waited for
        line = 64 / self.bytes
        if plan.vector_source == "direct":
            is_fed_row = target.is_fed and self.rows == 1
            of_read = np.array(_ROW_IN_PLACE if is_fed_row else _COLUMNS_IN_PLACE)
            if far and target.halves:
                of_read = np.where(come, _FARTHER_IN_HALVES[True], _FARTHER_IN_HALVES[False])
            elif far:
                of_read = np.array(_FARTHER[target.long])
            many = size > target.l2 // 4 and self.rows > plan.rows
            if many and target.on_mesh and _are_on_same_lines(plan, self.strides):
                of_read = np.array(_ON_SAME_LINES)
            cycles = cycles + read * of_read
        else:
            again = _DEEP_L2[plan.vector_source] if plan.is_deep else _FROM_L2[target.wide]
            if plan.is_deep and target.on_mesh and plan.rows < _FEW_DEEP:
                again = _WAITED_L2
            stays = deep * (columns * self.bytes + self.beside) <= near_room(target)
            more = (read * plan.lanes - columns * depth) / line * again
            cycles = cycles + np.where(stays, 0.0, more)
        if self.asks and target.halves:
            few = plan.rows * plan.vectors <= IN_TURN[64]
            cycles = cycles - np.where(asked, few * _TWO, 0.0) * rows * columns * depth / plan.lanes
            late = _LATE * (plan.vector_source == "packed")
            cycles = cycles + np.where(asked, 0.0, late) * columns * depth / line
        if far and plan.vector_source != "packed":
            direct = plan.vector_source == "direct"
            of_line = np.where(direct, np.where(come, _SHARED_COLUMNS, _FAR_COLUMNS), _FAR_PANELS)
            if plan.vector_source == "prepared" and target.narrow and self.rows > MOST_ROWS:
                asking = has_room_to_ask(plan, rows, columns, target)
                of_line = np.where(asking, _ASKED_PANELS, _WAITED_PANELS)
            waiting = 1 if target.narrow else MOST_ROWS  # that many rows do not, at most
            if not target.long and self.rows > waiting and size > target.shared:
                of_line = of_line + _FROM_MEMORY
            cycles = cycles + of_line * columns * depth / line
        if self.meets_far:
            cycles = cycles + rows * depth / line * -(-columns // plan.panel) * _FAR_ROWS
        tiles = -(-rows // plan.rows) * -(-columns // plan.panel)
        cycles += (tiles * self.pages + self.stretches) * depth
        return 0.95 * cycles

    def whole(self) -> float:
        """Cycles of all blocks on one core."""
        plan = self.plan
        block = self.chunk(min(plan.row_block, self.rows), min(plan.lane_block, self.columns))
        return block * plan.blocks


def reading(
    source: str, operand: Operand, panel: int, plan: Plan, strides: Strides, target: Target
) -> float:
    """Cycles per element and block of bringing an operand to the tiles."""
    if source == "packed":
        far = reads_far(operand, plan.form, plan.depth, target)
        along = contiguous_depth(operand, plan.depth, plan.lanes, strides) is not None
        turning = 1.3 if target.long else 2.6  # more steps for as many elements
        packing = (turning if along else 1.2) * _packing(plan, operand, panel, strides)
        ends = _ends(operand, plan, strides) if target.halves else 0.0
        return packing * target.slower + (_FAR_PACKED * (1.0 + _TORN * ends) if far else 0.0)
    # what is prepared takes memory, and time to compile
    return 0.7 / plan.lanes if source == "prepared" else 0.0


def _ends(operand: Operand, plan: Plan, strides: Strides) -> float:
    """Lines of the caches that runs of an operand are on beyond their length, as a part of it."""
    groups = merge(operand.indices, [operand.value], strides).groups
    if operand.access is None or not groups:
        return 0.0
    step = flat_form(operand.access, strides).steps.get(groups[-1][-1], 0)
    line = LINE // plan.form.dtype.numpy().itemsize
    return (line - 1) / size(groups[-1]) if step == 1 else 0.0


def _in_place(plan: Plan, strides: Strides, target: Target) -> float:
    """Cycles per element and block of rows that tiles read where they are."""
    operand, bytes_of = plan.broadcast, plan.form.dtype.numpy().itemsize
    far = is_far(operand, plan.depth, bytes_of, target)
    if contiguous_depth(operand, plan.depth, plan.lanes, strides) is None:
        return _FAR_ACROSS if far else _ACROSS
    unit = math.gcd(step_of(operand, operand.indices, strides) * bytes_of, PAGE)
    apart = (_FAR_APART if far else _APART).get(unit)
    if apart is None:
        return _IN_PLACE
    stays = plan.is_deep and plan.rows <= DEEP_APART
    return apart * (_DEEP_WAITED if stays else _WAITED[target.wide])


def _is_spread(operand: Operand, plan: Plan, strides: Strides) -> bool:
    """Whether a block of k of an operand, in place, is on more pages than a processor knows."""
    step = abs(step_of(operand, plan.depth.indices, strides))
    return plan.depth.most * step * plan.form.dtype.numpy().itemsize > _COVERED


def _is_across_lines(plan: Plan, strides: Strides) -> bool:
    """Whether neighbouring k of the rows are on lines of the cache of their own."""
    step = step_of(plan.broadcast, plan.depth.indices, strides)
    return abs(step) * plan.form.dtype.numpy().itemsize >= LINE


def _drive_out_each_other(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether the lines of a panel of columns, read in place, fall on so few lines of the second
    cache that it does not keep them, since they lie powers of two apart."""
    if target.long:  # other caches: not seen there
        return False
    step = abs(step_of(plan.vector, plan.depth.indices, strides))
    apart = math.gcd(step * plan.form.dtype.numpy().itemsize, target.l2 // 8)
    return plan.depth.most * max(apart, LINE) > target.l2 // 2


def _are_on_same_lines(plan: Plan, strides: Strides) -> bool:
    """Whether the lines of a panel of columns, read in place, fall on so few lines of the first
    cache that it does not keep them, since they lie whole pages apart."""
    apart = step_of(plan.vector, plan.depth.indices, strides) * plan.form.dtype.numpy().itemsize
    return apart != 0 and apart % PAGE == 0 and plan.depth.most * plan.vectors > _WAYS


def near_room(target: Target) -> int:
    """Bytes of the first cache in which panels stay."""
    return target.l1 * 4 // 5


def rows_beside(plan: Plan, strides: Strides) -> int:
    """Bytes of the first cache that the rows of a tile take for each k, beside the columns."""
    operand, bytes_of = plan.broadcast, plan.form.dtype.numpy().itemsize
    if plan.broadcast_source != "direct":
        return plan.rows * bytes_of
    if contiguous_depth(operand, plan.depth, plan.lanes, strides) is None:
        return 64 + plan.rows * bytes_of  # parts of lines
    # those on the same lines of the cache drive out others
    clash = step_of(operand, operand.indices, strides) * bytes_of % PAGE == 0
    return plan.rows * bytes_of * (2 if clash else 1)


def most_apart(target: Target) -> int:
    """Rows of a tile that may lie whole pages apart, and still find room in the first cache, which
    has one line for each of them and page."""
    return max(1, min(_MOST_APART, target.l1 // PAGE))


def is_torn(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether columns that are packed come from beyond the caches in stretches along them, each on
    another page."""
    operand = plan.vector
    if plan.vector_source != "packed" or operand.access is None:
        return False
    if contiguous_depth(operand, plan.depth, plan.lanes, strides) is not None:
        return False
    step = abs(step_of(operand, plan.depth.indices, strides))
    apart = step * plan.form.dtype.numpy().itemsize >= PAGE
    return apart and reads_far(operand, plan.form, plan.depth, target)


def _clashes(plan: Plan, strides: Strides, target: Target) -> float:
    """How much longer tiles take because elements of the broadcast side that are read in place, and
    then again by every tile, lie a multiple of a page apart: on few lines of the caches."""
    access = plan.broadcast.access
    if plan.broadcast_source != "direct" or access is None:
        return 1.0
    page = PAGE // plan.form.dtype.numpy().itemsize
    steps = [
        abs(flat_form(access, strides).steps.get(groups[-1][-1], 0))
        for indices in (plan.broadcast.indices, plan.depth.indices)
        if (groups := merge(indices, [access], strides).groups)
    ]
    along, apart = (steps[0], steps[-1]) if len(steps) == 2 else (0, steps[-1] if steps else 0)
    if apart > 1 and apart % page == 0:
        return 1.4
    return 1.1 if along > 1 and along % page == 0 and plan.rows > most_apart(target) else 1.0


def _packing(plan: Plan, operand: Operand, panel: int, strides: Strides) -> float:
    """Cycles per element of packing an operand in panels."""
    if contiguous_depth(operand, plan.depth, plan.lanes, strides) is not None:
        return 0.5 * max(1.0, plan.lanes / max(panel, 1))
    run = run_along(operand, panel, plan.lanes, strides, [operand.value])
    costly, free = loop_order([operand.value], plan.depth.indices[plan.depth.split :])
    turns = extent_of(free[-1]) if free else 1
    around = 10.0 / turns + (15.0 / size(free) if costly else 0.0)
    access = operand.access
    if access is None:
        return (6.0 + around) / run
    groups = merge(operand.indices, [access], strides).groups
    steps = flat_form(access, strides).steps
    step = steps.get(groups[-1][-1], 0) if groups else 1
    load = 1.5 * run
    if free and abs(steps.get(free[-1], 0)) * plan.form.dtype.numpy().itemsize % PAGE == 0:
        around += 3.0  # lines that fall on one another in the caches
    if 0 <= step <= MOST_STRIDE:
        load = 3.0 if step < 2 else 3.0 + 1.5 * step
        load += 1.0 if len(groups) > 1 else 0.0  # short runs
    return (load + around) / run
