"""Writes the functions of a contraction whose tiles are matrices in registers: see `matrix`.

Panels are read, or packed, as those of other contractions are. For each block of k a chunk arranges
its part of both operands as matrices; words of integers of whole steps are read where they are. If
an element of the block is no sum of parts, multiply-adds compute the block.
"""

from __future__ import annotations

from ...records import replace
from . import matrix_parts
from .contraction_plan import Plan
from .contraction_sides import element
from .contraction_space import multiple, product, times
from .contraction_write import ContractionWriter
from .emit import Frame
from .kernels import KernelCode, Strides
from .matrix import (
    LANES,
    MATRIX,
    MatrixTile,
    configuration,
    declarations,
    heights_of,
    matrices_of,
    panel_rows,
)
from .matrix_parts import Arranging, Kind
from .matrix_tile import write_tile
from .microkernel import Tile, call_tile
from .packing import Block
from .target import Target


def write_matrices(plan: Plan, strides: Strides, target: Target) -> KernelCode:
    """The code of a plan that has `matrices`, and of what prepares its constant operands."""
    code = MatrixWriter(plan, strides, Frame(strides, target)).code()
    return replace(code, template="matrices")


class MatrixWriter(ContractionWriter):
    """As `ContractionWriter`, of a plan that has `matrices`."""

    def __init__(self, plan: Plan, strides: Strides, frame: Frame) -> None:
        super().__init__(plan, strides, frame)
        assert plan.matrices is not None
        self.matrices = plan.matrices
        self.matrix_tiles: dict[str, MatrixTile] = {}
        self.arranging: dict[str, Arranging] = {}
        self.is_whole_step = plan.depth.most % self.matrices.depth == 0
        """Whether matrices of all blocks are full."""
        if plan.depth.blocks > 1:
            rest = plan.depth.cut % plan.depth.block * plan.depth.inner
            self.is_whole_step &= rest % self.matrices.depth == 0
        self.in_place = self.is_whole_step and not self.matrices.in_parts
        """Whether columns are read where they are."""

    @property
    def scratch(self) -> int:
        return sum(self._layout()) + sum(self._arranged())

    def _arranged(self) -> tuple[int, int]:
        """Bytes of the rows and columns of a block as matrices."""
        plan, m = self.plan, self.matrices
        steps = -(-plan.depth.most // m.depth)
        rows = matrices_of(plan.row_block) * m.rows * steps * MATRIX
        columns = matrices_of(self._lane_block()) * m.columns * steps * MATRIX
        return rows, 0 if self.in_place else columns

    def _functions(self) -> str:
        text = super()._functions()
        for tile in self.matrix_tiles.values():
            function, declared = write_tile(tile)
            text += function
            self.b.declarations |= declared
        for rows in sorted(self._heights()):
            text += configuration(heights_of(rows))[1]
        function, declared = matrix_parts.write(self.arranging.values(), self.matrices)
        self.b.declarations |= declared
        self.b.declarations |= declarations(self.matrices)
        return text + function

    def _heights(self) -> set[int]:
        """How many rows tiles have."""
        extent, rows = self.plan.broadcast.extent, self.plan.rows
        return {n for n in (rows if extent >= rows else 0, extent % rows) if n}

    # ------------------------------------------------------------------ kernel

    def _begin(self) -> None:
        b = self.b
        before = sum(self._layout())
        rows, _ = self._arranged()
        self.matrix_rows = b.pure(f"getelementptr i8, ptr %scratch, i64 {before}")
        self.matrix_columns = b.pure(f"getelementptr i8, ptr %scratch, i64 {before + rows}")

    def _end(self) -> None:
        self.b.line("call void @llvm.x86.tilerelease()")
        super()._end()

    def _pack(self, block: Block) -> None:
        super()._pack(block)
        self.steps = matrix_parts.steps_of(self.b, block.points, self.matrices)
        for row, rows in self._row_panels():
            at, apart, step = self._rows_at(row, rows, block)
            along = self.broadcast.source == "direct" and step == 1 and apart != 1
            kind: Kind = "rows" if along else "turned"
            direct = self.broadcast.source == "direct"
            arranging = Arranging(kind, rows, apart if along else step, direct)
            self._arrange(arranging, at, block, self._matrices_of_rows(row))
        for lane, live in () if self.in_place else self._panels():
            vectors = matrices_of(live)
            at, step = self._columns_at(lane, vectors, block)
            direct = self.vector.source == "direct"
            count = live if direct else vectors * LANES
            arranging = Arranging("columns", count, step, direct)
            self._arrange(arranging, at, block, self._matrices_of_columns(lane))

    def _arrange(self, arranging: Arranging, at: str, block: Block, to: str) -> None:
        b = self.b
        self.arranging[arranging.name] = arranging
        odd = arranging.call(b, at, block.points, to)
        if self.matrices.in_parts:
            place = self._odd_at()
            known = b.op(f"load i32, ptr {place}, align 4")
            b.line(f"store i32 {b.op(f'or i32 {known}, {odd}')}, ptr {place}, align 4")

    def _odd_at(self) -> str:
        """Where it is that a block has elements which are no sums of parts."""
        return self.b.reserve("alloca i32, align 4")

    def _matrices_of_rows(self, row: str) -> str:
        each = self.matrices.rows * MATRIX // LANES
        return element(
            self.b, "i8", self.matrix_rows, times(self.b, product(self.b, row, self.steps), each)
        )

    def _matrices_of_columns(self, lane: str) -> str:
        each = self.matrices.columns * MATRIX // LANES
        at = times(self.b, product(self.b, lane, self.steps), each)
        return element(self.b, "i8", self.matrix_columns, at)

    # ------------------------------------------------------------------- tiles

    def _block_body(self, block: Block, first: str, last: str) -> None:
        b, m = self.b, self.matrices
        if m.in_parts:
            b.line(f"store i32 0, ptr {self._odd_at()}, align 4")
        self._pack(block)
        if m.in_parts:
            self.is_odd = b.op(f"icmp ne i32 {b.op(f'load i32, ptr {self._odd_at()}, align 4')}, 0")
        for row, rows in self._row_panels(self._configure):
            self._row_of_tiles(row, rows, block, first, last)

    def _configure(self, rows: int) -> None:
        """Say what registers hold for tiles of so many rows."""
        name, _ = configuration(heights_of(rows))
        self.b.line(f"call void @llvm.x86.ldtilecfg(ptr {name})")

    def _row_of_tiles(self, row: str, rows: int, block: Block, first: str, last: str) -> None:
        """Tiles of real elements whose sums are kept are done by one call, and their results after
        it; but one that is less wide."""
        b, plan = self.b, self.plan
        if not self.matrices.in_parts or plan.depth.blocks == 1:
            super()._row_of_tiles(row, rows, block, first, last)
            return
        if plan.vector.extent >= plan.panel:
            full = multiple(b, self.lane_count, plan.panel)
            arms = b.branches(self.is_odd)
            with arms.then(), b.loop("0", full, plan.panel) as loop:
                self._multiply_add(row, rows, loop.index, plan.panel, block, first)
            with arms.other():
                count = b.pure(f"udiv i64 {full}, {plan.panel}", full)
                self._multiply(row, rows, "0", plan.panel, block, first, count)
            with b.loop("0", full, plan.panel) as loop:
                self._finish_after(row, rows, loop.index, plan.panel, last)
        for lane, live in self._last_panel():
            self._tile(row, rows, lane, live, block, first, last)

    def _compute(self, row: str, rows: int, lane: str, live: int, block: Block, first: str) -> None:
        b = self.b
        if not self.matrices.in_parts:
            self._multiply(row, rows, lane, live, block, first)
            return
        arms = b.branches(self.is_odd)
        with arms.then():
            self._multiply_add(row, rows, lane, live, block, first)
        with arms.other():
            self._multiply(row, rows, lane, live, block, first)

    def _multiply(
        self,
        row: str,
        rows: int,
        lane: str,
        live: int,
        block: Block,
        first: str,
        count: str = "1",
    ) -> None:
        """So many tiles side by side, by matrices."""
        plan, m = self.plan, self.matrices
        vectors, c = matrices_of(live), self._sums_at(row, lane)
        columns, by = self._matrices_of_columns(lane), 0
        if self.in_place:
            columns, step = self._columns_at(lane, vectors, block)
            by = step * self.bytes
        rows_at, next_sums = panel_rows(m, rows), plan.row_block * plan.panel
        tile = MatrixTile(m, heights_of(rows), vectors, plan.panel, rows_at, by, next_sums)
        self.matrix_tiles[tile.name] = tile
        a = self._matrices_of_rows(row)
        self.b.line(tile.call(a, columns, self.steps, c, first, count))

    def _multiply_add(
        self, row: str, rows: int, lane: str, live: int, block: Block, first: str
    ) -> None:
        """A tile by multiply-adds, row by row."""
        b, plan = self.b, self.plan
        vectors, c = matrices_of(live), self._sums_at(row, lane)
        a, a_row, a_step = self._rows_at(row, rows, block)
        columns, b_step = self._columns_at(lane, vectors, block)
        beyond = live % LANES
        masked = plan.vector_source == "direct" and beyond > 0
        tile = Tile(self.form.dtype, LANES, 1, vectors, 0, a_step, b_step, plan.panel, masked)
        self.tiles[tile.name] = tile
        with b.loop(0, rows) as loop:
            at = self._element(a, times(b, loop.index, a_row))
            to = self._element(c, times(b, loop.index, plan.panel))
            b.line(call_tile(tile, at, columns, block.points, to, first, str(beyond)))
