"""Brings near the columns that a thread reads next, while tiles compute with those before.

Columns that lie beyond the caches are packed a short stretch of each k at a time, and neighbouring
k are on other pages: a processor does not foresee where, and packing waits for memory. So each tile
asks for a few lines of them; it takes longer than memory does to answer. Columns may be in short
runs, of images or of rows some elements apart: a question finds out in which one it is.

Columns that are prepared are read one after the other, but by the first row of tiles alone, faster
than memory gives them; the others find them in the caches. There, too, all rows ask for their
share.

A tile asks in its loop over k, a line or a few in a turn of it, or in each step, if there are few
tiles. Many at once would fill the places of lines that are on their way to a core: then what tiles
compute with waits for one, and questions are in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Builder
from .contraction_plan import Plan
from .contraction_reading import (
    asked_at_once,
    has_room_beside,
    has_room_to_ask,
    lacks_columns,
    may_ask,
    reads_far,
)
from .contraction_sides import batch_places, block_at, element
from .contraction_space import (
    Places,
    chunk_after,
    merge,
    minus,
    multiple,
    plus,
    product,
    quotient,
    step_of,
    times,
)
from .emit_memory import prefetch
from .kernels import Strides
from .microkernel import steps_at_once
from .packing import Block
from .target import LINE, Target
from .tile_step import steps_in_turn

if TYPE_CHECKING:
    from .contraction_write import ContractionWriter


def asks_for_columns(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether a plan reads columns from beyond the caches: packs them, or reads them in place, k a
    common step apart; or has panels of them prepared, and the second cache has room for those of
    two blocks and for rows."""
    if not may_ask(plan, plan.row_block):
        return False
    if plan.vector_source != "prepared":
        columns = min(plan.lane_block, plan.vector.extent)
        has_room = plan.vector_source == "packed" or has_room_beside(plan, columns, target)
        return lacks_columns(plan, strides, target) and bool(has_room)
    if not reads_far(plan.vector, plan.form, plan.depth, target):
        return False
    rows = min(plan.row_block, plan.broadcast.extent)
    asks = target.looks_ahead or target.on_mesh
    return asks and bool(has_room_to_ask(plan, rows, plan.lane_block, target))


class ColumnsAhead:
    """Writes the questions for the columns of the block that comes after one.

    The lines of a panel are numbered in `shares`, of as many lines as a tile asks for one after the
    other, times those that it asks for `beside` each other. Each tile asks for one share, so that
    never more are on their way than a core has places for; if there are fewer rows of tiles than
    shares, for more of them before it begins.
    """

    def __init__(self, writer: ContractionWriter, cores: int) -> None:
        self.writer, self.plan, self.cores = writer, writer.plan, cores
        self.first, self.places, self.block = "0", Places(), Block("0", "0", "0", "0", "0")
        """The first column of the next block, its batch, and its k."""
        self.is_prepared = self.plan.vector_source == "prepared"
        self.columns, self.lines = LINE // writer.bytes, 1
        """How many columns a question brings, and how many questions for those side by side a tile
        asks in each step."""
        self.is_apart, runs = False, 1
        """Whether columns do not lie side by side."""
        if not self.is_prepared:
            operand, depth = writer.vector.packing.operand, self.plan.depth
            self.columns = asked_at_once(self.plan, writer.strides)
            runs = len(merge(operand.indices, [operand.value], writer.strides).groups)
            self.is_apart = step_of(operand, operand.indices, writer.strides) > 1
        wide = -(-self.plan.panel // self.columns)
        tiles = -(-min(self.plan.row_block, self.plan.broadcast.extent) // self.plan.rows)
        if runs == 1 and not self.is_apart:
            self.lines = -(-wide // tiles)
        self.wide = -(-wide // self.lines)
        """How many shares a panel has side by side, if each tile asks in every step."""
        turn = _turn(self.plan, writer)
        self.every = turn if tiles >= self.wide * turn else 1
        """After how many steps a tile asks again: once in a turn, if that is enough."""
        self.beside = self.lines + self.is_apart
        """How many lines of the cache a tile asks for at once, side by side: columns that lie
        apart, and are no more than one, may be on two."""
        self.step = self.lines * LINE
        """How many bytes on the next ones are."""
        if not self.is_prepared:
            self.step = step_of(operand, depth.indices, writer.strides) * writer.bytes

    def begin(self, chunk: str, number: str, last: str) -> None:
        """Before the tiles of a block of k, `number`, of a chunk's block; whether it is the last
        of that one."""
        b, w, plan = self.writer.b, self.writer, self.plan
        cores = self.cores if w.is_whole else 1
        after = chunk_after(b, chunk, plan.blocks, plan.grain, cores)
        if plan.depth.blocks == 1:
            then, block = after, "0"
        else:
            then = b.pure(f"select i1 {last}, i64 {after}, i64 {chunk}", last, after, chunk)
            more = plus(b, number, "1")
            block = b.pure(f"select i1 {last}, i64 0, i64 {more}", last, more)
        outer, _, lane_number = w.split(then)
        self.places = batch_places(b, plan.form.batch, outer)
        self.first = times(b, lane_number, plan.lane_block)
        self.block = block_at(b, plan.depth, block)

    def ask(self, row: str, lane: str, steps: str, near: str) -> tuple[str, str]:
        """Before a tile of so many steps: where the lines of its own share begin, and how many
        bytes further on it asks each time. Where another one does so for the same share, it
        asks for what is `near` anyway."""
        b, w, plan = self.writer.b, self.writer, self.plan
        steps = _rounded_up(b, steps, str(self.every))  # in which it asks
        tiles = quotient(b, plus(b, w.row_count, str(plan.rows - 1)), plan.rows)
        parts = _rounded_up(b, self.block.points, steps)
        shares = times(b, parts, self.wide)
        tile = quotient(b, row, plan.rows)
        share = quotient(b, product(b, tile, shares), tiles)
        is_known = tiles.isdigit() and shares.isdigit()
        is_one_each = is_known and tiles == shares
        if not (is_known and int(shares) <= int(tiles)):
            end = quotient(b, product(b, plus(b, tile, "1"), shares), tiles)
            with b.loop(plus(b, share, "1"), end) as loop:
                at = self._share(loop.index, lane, parts, steps)
                with b.loop("0", steps) as step:
                    place = element(b, "i8", at, times(b, step.index, self.step))
                    for line in range(self.beside):
                        prefetch(b, place, line * LINE, 2)
        at, by = self._share(share, lane, parts, steps), str(self.step)
        if row == "0" or is_one_each:
            return at, by
        before = quotient(b, product(b, plus(b, tile, "-1"), shares), tiles)
        again = b.pure(f"icmp eq i64 {share}, {before}", share, before)
        at = b.pure(f"select i1 {again}, ptr {near}, ptr {at}", again, near, at)
        return at, b.pure(f"select i1 {again}, i64 0, i64 {by}", again)

    def _share(self, number: str, lane: str, parts: str, steps: str) -> str:
        """Where a share begins: side by side, or one behind the other if there are more k in a
        block than a tile has steps."""
        b, w, plan = self.writer.b, self.writer, self.plan
        first = plus(b, self.first, lane)
        if self.is_prepared:
            at = w.prepared(w.vector, first, self.block, plan.panel, self.places)
            return element(b, "i8", at, product(b, number, times(b, steps, self.step)))
        beside = quotient(b, number, parts)
        rest = minus(b, number, product(b, beside, parts))
        if self.is_apart:  # its columns do not go beyond the end of a run
            first = multiple(b, first, self.columns)
        column = plus(b, first, times(b, beside, self.lines * self.columns))
        at = w.direct(w.vector.packing.operand, column, self.block, self.places)
        return element(b, "i8", at, times(b, product(b, rest, steps), self.step))


def _turn(plan: Plan, writer: ContractionWriter) -> int:
    """How many k the tiles of a plan do in a turn; those of what is left over do as many."""
    turn = steps_in_turn(plan.rows, plan.vectors, writer.frame.target)
    sums, bytes_of = plan.rows * plan.vectors, plan.lanes * writer.bytes
    return steps_at_once(sums, bytes_of, turn, plan.form.words)


def _rounded_up(b: Builder, x: str, y: str) -> str:
    """The same rounded up."""
    if x == y:
        return "1"
    if y == "1":
        return x
    return quotient(b, plus(b, x, minus(b, y, "1")), y)
