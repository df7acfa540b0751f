"""Writes the functions of a planned contraction."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .builder import Builder
from .contraction_ahead import ColumnsAhead, asks_for_columns
from .contraction_form import Operand
from .contraction_plan import Plan
from .contraction_reading import reads_far
from .contraction_results import (
    call_results,
    call_results_of,
    goes_past,
    is_whole_lines,
    one_run,
    result_step,
    write_results,
    write_results_of,
    write_turning,
)
from .contraction_sides import (
    Side,
    aligned,
    batch_places,
    block_at,
    element,
    mark_written,
    sides_of,
    transposing,
    write_prepare,
)
from .contraction_space import (
    Places,
    chunk_range,
    decode,
    flat_form,
    merge,
    minus,
    multiple,
    plus,
    product,
    smin,
    step_of,
    times,
)
from .contraction_storing import gathers, turns_of
from .emit import Frame
from .emit_memory import prefetch
from .emit_types import scalar_type, width, with_lanes
from .kernels import KernelCode, Strides
from .microkernel import Tile, call_tile, declarations, write_tile
from .nest_stream import FENCE
from .packing import Block, write_packing
from .target import LINE, PAGE, Target
from .tile_step import ahead_of, steps_in_turn, vectors_ahead

_ASKED = 12
"""Stretches of rows of a streamed matrix that are asked for before a tile needs them, at least."""
_K_AHEAD = 32
"""How many k ahead rows are brought near that lie side by side, between those of other tiles."""


def write_contraction(plan: Plan, strides: Strides, target: Target) -> KernelCode:
    """The code of a plan, and of what prepares its constant operands."""
    return ContractionWriter(plan, strides, Frame(strides, target)).code()


class ContractionWriter:
    """Writes the functions of a plan; the frame is that of a whole kernel, or of a part of one."""

    def __init__(self, plan: Plan, strides: Strides, frame: Frame) -> None:
        self.plan, self.strides = plan, strides
        self.form, self.kernel = plan.form, plan.form.kernel
        self.frame = frame
        self.scalar = scalar_type(self.form.dtype)
        self.bytes = width(self.form.dtype)
        mark_written(frame, plan.form)
        target = frame.target
        is_far = target is not None and reads_far(plan.vector, plan.form, plan.depth, target)
        asks = target is not None and asks_for_columns(plan, strides, target)
        self.sides = sides_of(plan, strides, is_far and not asks)
        self.broadcast, self.vector = self.sides
        self.tiles: dict[str, Tile] = {}
        self.result_step = result_step(plan, strides)
        self.turns = turns_of(plan, strides)
        whole_rows = plan.rows % plan.lanes == 0 and is_whole_lines(plan, plan.rows * self.turns)
        past = goes_past(plan, strides, frame, whole_rows, self.turns)
        self.past = self.result_step is None and past
        self.gathers = gathers(plan, strides)
        self.one_run = one_run(plan, frame, strides)
        self.ahead: ColumnsAhead | None = None
        if target is not None and asks:
            self.ahead = ColumnsAhead(self, target.cores)
        self.is_whole = True
        """Whether threads claim its blocks, and not those of a group that it is a part of."""
        self.sum_number = "0"
        """Which sum a block of k is added to."""
        self.results: set[tuple[int, int]] = set()
        """Rows and columns of tiles in one run of the result, whose functions know them."""

    @property
    def b(self) -> Builder:
        return self.frame.builder

    def code(self) -> KernelCode:
        plan = self.plan
        self._kernel()
        functions = self._functions()
        return KernelCode(
            self.frame.text(functions),
            tuple(self.frame.tensors),
            plan.chunks,
            frozenset(self.b.declarations),
            self.scratch,
            tuple(self.frame.sites),
            self.work,
            tuple(write_prepare(s, self.strides) for s in self.sides if s.prepared is not None),
            tuple(self.frame.symbols),
            template="contraction",
        )

    def part(self) -> str:
        """The text of a part of a kernel: the function of its frame, and those that it calls."""
        self.is_whole = False
        self._kernel()
        self.b.line("ret void")
        functions = self._functions()
        return self.b.text() + functions

    @property
    def scratch(self) -> int:
        """Bytes that a thread needs."""
        return sum(self._layout())

    @property
    def work(self) -> float:
        """About how many nanoseconds all blocks take."""
        plan = self.plan
        terms = plan.outer * plan.broadcast.extent * plan.vector.extent * plan.depth.extent
        return terms / (3.0 * plan.lanes)

    def _functions(self) -> str:
        """The functions that the kernel calls."""
        dtype, lanes = self.form.dtype, self.plan.lanes
        packed = [s for s in self.sides if s.source == "packed"]
        text = "".join(write_packing(self.frame, s.packing, self.strides) for s in packed)
        for tile in self.tiles.values():
            text += write_tile(tile)
            self.b.declarations |= declarations(tile)
        for rows, live in sorted(self.results):
            given = (self.frame, self.plan, self.strides, rows, live, live)
            text += write_results_of(*given, past=self.past, turns=self.turns)
        if not (self.one_run or self.gathers):
            text += write_results(self.frame, self.plan, self.strides, self.past, self.turns)
        return text + transposing(self.frame, text, dtype, lanes) + write_turning(self.plan)

    def _element(self, pointer: str, offset: str) -> str:
        return element(self.b, self.scalar, pointer, offset)

    # ------------------------------------------------------------------ kernel

    def _lane_block(self) -> int:
        plan = self.plan
        return min(plan.lane_block, -(-plan.padded // plan.panel) * plan.panel)

    def _sums_of_chunk(self) -> int:
        """Elements of the sums of a chunk's tiles."""
        return self.plan.row_block * self._lane_block()

    def _layout(self) -> tuple[int, int, int]:
        """Bytes of the thread's scratch: result tiles, packed rows, packed columns."""
        plan, lane_block = self.plan, self._lane_block()
        many = plan.depth.blocks > 1
        sums = self._sums_of_chunk() * plan.sums if many else plan.rows * plan.panel
        c = aligned((sums + plan.lanes) * self.bytes)
        rows = columns = 0
        if self.broadcast.source == "packed":
            rows = aligned((plan.row_block * plan.depth.most + plan.lanes) * self.bytes)
        if self.vector.source == "packed":
            columns = aligned(lane_block * plan.depth.most * self.bytes)
        return c, rows, columns

    def _kernel(self) -> None:
        plan, b = self.plan, self.b
        c, rows, _ = self._layout()
        self.packed_rows = b.pure(f"getelementptr i8, ptr %scratch, i64 {c}")
        self.packed_columns = b.pure(f"getelementptr i8, ptr %scratch, i64 {c + rows}")
        self._begin()
        with b.loop(*chunk_range(b, plan.blocks, plan.grain)) as chunk:
            outer, row_number, lane_number = self.split(chunk.index)
            self.places = batch_places(b, self.form.batch, outer)
            self.row0 = times(b, row_number, plan.row_block)
            self.lane0 = times(b, lane_number, plan.lane_block)
            self.row_count = self._count_of(self.row0, plan.row_block, plan.broadcast.extent)
            self.lane_count = self._count_of(self.lane0, plan.lane_block, plan.vector.extent)
            self.outer = outer
            blocks = plan.depth.blocks
            if blocks == 1:
                if self.ahead is not None:
                    self.ahead.begin(chunk.index, "0", "true")
                self._block_body(block_at(b, plan.depth, "0"), "true", "true")
            else:
                with b.loop(0, blocks) as loop:
                    first = self._begin_sum(loop.index)
                    last = b.pure(f"icmp eq i64 {loop.index}, {blocks - 1}", loop.index)
                    if self.ahead is not None:
                        self.ahead.begin(chunk.index, loop.index, last)
                    self._block_body(block_at(b, plan.depth, loop.index), first, last)
        self._end()

    def _begin(self) -> None:
        """What is done before the first chunk."""

    def _end(self) -> None:
        """What is done after the last chunk."""
        if self.past:
            self.b.line(FENCE)

    def _begin_sum(self, number: str) -> str:
        """Where the sums of a block of k are; gives whether it is the first that is added there."""
        plan, b = self.plan, self.b
        if plan.sums > 1:
            count = plan.blocks_of_sum
            self.sum_number = b.pure(f"udiv i64 {number}, {count}", number)
            number = b.pure(f"urem i64 {number}, {count}", number)
        return b.pure(f"icmp eq i64 {number}, 0", number)

    def split(self, number: str) -> tuple[str, str, str]:
        """Batch, row block and lane block from one number; lane blocks go fastest, if not rows."""
        plan, b = self.plan, self.b
        sides = [
            (plan.lane_blocks, plan.vector.extent % plan.lane_block),
            (plan.row_blocks, plan.broadcast.extent % plan.row_block),
        ]
        order = sides[::-1] if plan.by_lanes else sides
        slowest = order[1] if order[1][0] > 1 else order[0]
        parts = []
        for side in order:
            count, rest = side
            part = "0"
            if count > 1:
                part = b.pure(f"urem i64 {number}, {count}", number)
                number = b.pure(f"udiv i64 {number}, {count}", number)
            if side is slowest and self.is_whole and plan.outer == 1 and rest and count > 2:
                part = self._with_last_inside(part, count)
            parts.append(part)
        lane, row = reversed(parts) if plan.by_lanes else parts
        return ("0" if plan.outer == 1 else number), row, lane

    def _with_last_inside(self, number: str, count: int) -> str:
        """The number of a block if the last one, which is shorter, has its turn in the middle: the
        threads take blocks from both ends, and wait for those that are done last."""
        b, middle = self.b, count // 2
        rest = b.pure(f"sub i64 {number}, 1", number)
        is_middle = b.pure(f"icmp eq i64 {number}, {middle}", number)
        other = b.pure(f"select i1 {is_middle}, i64 {count - 1}, i64 {rest}", is_middle, rest)
        is_before = b.pure(f"icmp ult i64 {number}, {middle}", number)
        return b.pure(f"select i1 {is_before}, i64 {number}, i64 {other}", is_before, number, other)

    def _count_of(self, start: str, step: int, extent: int) -> str:
        if step >= extent:
            return str(extent)
        return smin(self.b, minus(self.b, str(extent), start), str(step))

    def _pack(self, block: Block) -> None:
        """Packs the chunk's part of the operands for a block of k."""
        b = self.b
        parts = (
            (self.broadcast, self.row0, self.row_count, self.packed_rows),
            (self.vector, self.lane0, self.lane_count, self.packed_columns),
        )
        for side, first, count, to in parts:
            if side.source == "packed":
                side.pack(b, side.outer(b, self.places), first, count, block, to)

    # ------------------------------------------------------------------- tiles

    def _block_body(self, block: Block, first: str, last: str) -> None:
        """All tiles of a chunk for one block of k."""
        b = self.b
        self._pack(block)
        for row, rows in self._row_panels():
            self._row_of_tiles(row, rows, block, first, last)
        if self.gathers:
            with b.when(last):
                self._last_rows()

    def _row_panels(self, before: Callable[[int], None] | None = None) -> Iterator[tuple[str, int]]:
        """Loops over the panels of a chunk's rows: where one begins, and how many it has; and what
        is done before panels of a size."""
        b, plan = self.b, self.plan
        full = multiple(b, self.row_count, plan.rows)
        if plan.broadcast.extent >= plan.rows:
            if before is not None:
                before(plan.rows)
            with b.loop("0", full, plan.rows) as loop:
                yield loop.index, plan.rows
        rest = plan.broadcast.extent % plan.rows
        if rest:
            some = b.pure(f"icmp slt i64 {full}, {self.row_count}", full, self.row_count)
            with b.when(some):
                if before is not None:
                    before(rest)
                yield full, rest

    def _last_rows(self) -> None:
        """The results of the rows of a chunk that are left beyond whole vectors."""
        plan, b = self.plan, self.b
        sizes = {min(plan.row_block, plan.broadcast.extent)}
        sizes.add(plan.broadcast.extent % plan.row_block or plan.row_block)
        for size in sorted(sizes):
            rest = size % plan.lanes
            if not rest:
                continue
            row = str(size - rest)
            with b.when(b.pure(f"icmp eq i64 {self.row_count}, {size}", self.row_count)):
                for lane, live in self._panels():
                    self._finish(row, rest, lane, live)

    def _panels(self) -> Iterator[tuple[str, int]]:
        """Loops over the panels of a chunk's columns: where one begins, and how many it has."""
        b, plan = self.b, self.plan
        full = multiple(b, self.lane_count, plan.panel)
        if plan.vector.extent >= plan.panel:
            with b.loop("0", full, plan.panel) as loop:
                yield loop.index, plan.panel
        yield from self._last_panel()

    def _last_panel(self) -> Iterator[tuple[str, int]]:
        """The panel of the columns that are left, if there are any."""
        b, plan = self.b, self.plan
        rest = plan.vector.extent % plan.panel
        if rest:
            full = multiple(b, self.lane_count, plan.panel)
            some = b.pure(f"icmp slt i64 {full}, {self.lane_count}", full, self.lane_count)
            with b.when(some):
                yield full, rest

    def _row_of_tiles(self, row: str, rows: int, block: Block, first: str, last: str) -> None:
        if self.plan.asks_ahead:
            self._ask_ahead(row, rows, block)
        for lane, live in self._panels():
            self._tile(row, rows, lane, live, block, first, last)

    def _ask_ahead(self, row: str, rows: int, block: Block) -> None:
        """Bring the rows of the next tile to the caches; after the last there need be no memory."""
        b = self.b
        pointer, apart, _ = self._rows_at(row, rows, block)
        start = b.pure(f"getelementptr {self.scalar}, ptr {pointer}, i64 {rows * apart}", pointer)
        length = self.plan.depth.most
        stretches, length = (1, rows * length) if apart == length else (rows, length)
        for k in range(stretches):
            at = self._element(start, str(k * apart))
            with b.loop(0, length * self.bytes, LINE) as loop:
                prefetch(b, at, loop.index)

    def _tile(
        self, row: str, rows: int, lane: str, live: int, block: Block, first: str, last: str
    ) -> None:
        """One register tile, and its results after the last block of k."""
        self._compute(row, rows, lane, live, block, first)
        if self.result_step is None:
            self._finish_after(row, rows, lane, live, last)

    def _compute(self, row: str, rows: int, lane: str, live: int, block: Block, first: str) -> None:
        """One register tile for a block of k."""
        b, plan = self.b, self.plan
        vectors = -(-live // plan.lanes)
        a, a_row, a_step = self._rows_at(row, rows, block)
        columns, b_step = self._columns_at(lane, vectors, block)
        masked = plan.vector_source == "direct" and live % plan.lanes > 0
        is_result = self.result_step is not None
        beyond = live % plan.lanes
        partial = is_result and beyond > 0
        c_row = self.result_step if is_result and self.result_step else plan.panel
        shape = (plan.lanes, rows, vectors, a_row, a_step, b_step, c_row, masked, partial)
        ahead = 0 if self.form.words is not None else self._vectors_ahead(b_step)
        rows_ahead = self._rows_ahead(rows, a_row, a_step)
        # rows that are pages apart would drive out each other from the first cache
        far = plan.is_streamed and b_step * self.bytes % PAGE == 0
        stored = beyond if partial and not b.scales else 0
        target = self.frame.target
        read = beyond if masked and target is not None and target.narrow else 0
        turn = steps_in_turn(rows, vectors, target)
        words = self.form.words
        given = (self.form.dtype, *shape, words, ahead, rows_ahead, far, stored, read, turn)
        asking = (0, 1) if self.ahead is None else (self.ahead.beside, self.ahead.every)
        tile = Tile(*given, *asking, run=plan.run)
        self.tiles[tile.name] = tile
        c = self._result_at(row, lane) if is_result else self._sums_at(row, lane)
        asked = ("", "0") if self.ahead is None else self.ahead.ask(row, lane, block.points, a)
        b.line(call_tile(tile, a, columns, block.points, c, first, str(beyond), asked))

    def _finish_after(self, row: str, rows: int, lane: str, live: int, last: str) -> None:
        """The results of a tile if a block of k is the last."""
        b, plan = self.b, self.plan
        if last == "true":
            self._finish(row, rows, lane, live)
            return
        with b.when(last):
            if not self.gathers:
                self._finish(row, rows, lane, live)
                return
            end = multiple(b, plus(b, row, str(rows)), plan.lanes)
            with b.loop(multiple(b, row, plan.lanes), end, plan.lanes) as loop:
                self._finish(loop.index, plan.lanes, lane, live)

    def _finish(self, row: str, rows: int, lane: str, live: int) -> None:
        """The results of some rows and columns."""
        b, c = self.b, self._sums_at(row, lane, "0")
        if self.plan.sums > 1:
            self._add_up(row, rows, lane)
        where = (c, self.outer, plus(b, self.row0, row), rows, plus(b, self.lane0, lane), live)
        if self.one_run or self.gathers:
            self.results.add((rows, live))
            b.line(call_results_of(*where))
        else:
            b.line(call_results(*where))

    def _vectors_ahead(self, b_step: int) -> int:
        """How many elements ahead of those that a tile reads there are others to bring near: of the
        same panel, of the next columns, or of the next batch."""
        plan, access = self.plan, self.plan.vector.access
        if self.form.words is not None:
            return 0
        if plan.vector_source == "prepared":
            return vectors_ahead(b_step, self.form.dtype, self.frame.target, plan.columns)
        if plan.is_streamed:
            # a tile of few rows is done before memory answers
            return plan.panel * max(1, _ASKED // plan.depth.most)
        if self.ahead is not None or plan.vector_source == "packed" or plan.outer == 1:
            return 0
        assert access is not None
        return flat_form(access, self.strides).steps.get(self.form.batch[-1], 0)

    def _rows_ahead(self, rows: int, a_row: int, a_step: int) -> int:
        """The same of rows that come from beyond the caches: of the same panels further on, or of
        the next rows that are read in place. Rows whole pages apart would drive out each other.
        Of rows side by side, the same of later k, which come from the second cache."""
        plan, dtype, target = self.plan, self.form.dtype, self.frame.target
        if self.form.words is not None or plan.asks_ahead:
            return 0
        if plan.broadcast_source == "prepared":
            return 0 if self._come_in_time() else ahead_of(a_step, dtype)
        is_beside = plan.broadcast_source == "direct" and a_row == 1 and a_step > rows > 1
        if is_beside and target is not None and target.on_mesh:
            passes_by = plan.depth.most * 2 * LINE > target.l1
            return _K_AHEAD * a_step * (passes_by and a_step * self.bytes % (PAGE // 2) > 0)
        direct = plan.broadcast_source == "direct" and a_step == 1 and a_row > 1
        return rows * a_row if direct and plan.has_far_rows and a_row * self.bytes % PAGE else 0

    def _come_in_time(self) -> bool:
        """Whether prepared rows need not be asked for, which takes longer than it saves: vectors
        are done in halves, and several panels of columns meet the rows, or some cache has them."""
        plan, target = self.plan, self.frame.target
        if target is None or not target.narrow:
            return False
        size = plan.broadcast.extent * plan.depth.extent * self.bytes
        return plan.lane_block > plan.panel or size <= target.shared

    def _add_up(self, row: str, rows: int, lane: str) -> None:
        """Add to the first sums of a tile the others."""
        b, plan = self.b, self.plan
        full = with_lanes(self.scalar, plan.lanes)
        sums = [self._sums_at(row, lane, str(n)) for n in range(plan.sums)]
        with b.loop(0, rows * plan.panel, plan.lanes) as loop:
            places = [self._element(at, loop.index) for at in sums]
            total, *others = [b.op(f"load {full}, ptr {at}, align {self.bytes}") for at in places]
            for value in others:
                total = b.op(f"fadd {full} {total}, {value}")
            b.line(f"store {full} {total}, ptr {places[0]}, align {self.bytes}")

    def _sums_at(self, row: str, lane: str, number: str | None = None) -> str:
        """Where the sums of a tile are: all of a chunk are kept if k is cut in blocks, panel by
        panel; of several of all that with a number, or where a block is added."""
        plan, b = self.plan, self.b
        if plan.depth.blocks == 1:
            return "%scratch"
        number = self.sum_number if number is None else number
        before = plus(b, times(b, lane, plan.row_block), times(b, number, self._sums_of_chunk()))
        return self._element("%scratch", plus(b, before, times(b, row, plan.panel)))

    def _result_at(self, row: str, lane: str) -> str:
        """Where the results of a tile belong."""
        b, plan, target = self.b, self.plan, self.kernel.targets[0]
        places = dict(self.places)
        for side, at in (
            (plan.broadcast, plus(b, self.row0, row)), (plan.vector, plus(b, self.lane0, lane))
        ):  # fmt: skip
            places |= decode(b, merge(side.indices, [target], self.strides), at)
        return self.frame.point(1, places).address(target).pointer

    def _rows_at(self, row: str, rows: int, block: Block) -> tuple[str, int, int]:
        """Where a tile's rows are: pointer, step from row to row, step from k to k."""
        b, side = self.b, self.broadcast
        if side.source == "direct":
            operand = side.packing.operand
            along = step_of(operand, operand.indices, self.strides)
            apart = step_of(operand, self.plan.depth.indices, self.strides)
            return self.direct(operand, plus(b, self.row0, row), block), along, apart
        if side.source == "packed":
            return self._element(self.packed_rows, product(b, row, block.points)), 1, rows
        return self.prepared(side, plus(b, self.row0, row), block, rows), 1, rows

    def _columns_at(self, lane: str, vectors: int, block: Block) -> tuple[str, int]:
        """Where a tile's columns are: pointer, and step from k to k."""
        b, side = self.b, self.vector
        if side.source == "direct":
            operand = side.packing.operand
            apart = step_of(operand, self.plan.depth.indices, self.strides)
            return self.direct(operand, plus(b, self.lane0, lane), block), apart
        apart = vectors * self.plan.lanes
        if side.source == "packed":
            return self._element(self.packed_columns, product(b, lane, block.points)), apart
        return self.prepared(side, plus(b, self.lane0, lane), block, apart), apart

    def prepared(
        self, side: Side, start: str, block: Block, wide: int, places: Places | None = None
    ) -> str:
        """Where an operand that is prepared has the panel that begins at element `start` for a
        block's first k, in the chunk's batch or another."""
        assert side.prepared is not None
        outer = side.outer(self.b, self.places if places is None else places)
        pointer = self.frame.pointer(side.prepared)
        return self._element(pointer, side.offset(self.b, outer, block, start, str(wide)))

    def direct(
        self, operand: Operand, start: str, block: Block, places: Places | None = None
    ) -> str:
        """Where an operand that is read in place has its element `start` for a block's first k, in
        the chunk's batch or another."""
        b, access = self.b, operand.access
        assert access is not None
        places = dict(self.places if places is None else places)
        places |= decode(b, merge(operand.indices, [access], self.strides), start)
        places |= decode(b, merge(self.plan.depth.indices, [access], self.strides), block.first)
        return self.frame.point(1, places).address(access).pointer
