"""Writes the functions of a contraction of boxes by matrices in registers: see `matrix_window`."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.nodes import Index
from ...records import replace
from . import matrix_parts
from .contraction_form import size
from .contraction_sides import aligned, element
from .contraction_space import Places, chunk_range, minus, plus, times
from .emit import Place
from .emit_access import extent_of
from .kernels import KernelCode, Strides
from .matrix import (
    LANES,
    LINE_OF_MATRIX,
    MATRIX,
    MatrixTile,
    Rows,
    configuration,
    declarations,
    matrices_of,
)
from .matrix_parts import Arranging, Kind
from .matrix_regions import edges_of, regions_of
from .matrix_tile import write_tile
from .matrix_window import (
    are_columns_ready,
    are_rows_ready,
    arranged_bytes,
    heights,
    pixels_of,
    runs_of,
    sums_of,
)
from .nest_stream import FENCE
from .target import Target
from .window_box import flat_number
from .window_plan import WindowPlan, loops_inside
from .window_tile import WindowTile
from .window_write import At, Sum, WindowWriter, pieces_of


def write_matrix_window(plan: WindowPlan, strides: Strides, target: Target) -> KernelCode:
    """The code of a plan."""
    code = MatrixWindowWriter(plan, strides, target).code()
    return replace(code, template="matrix window")


class MatrixWindowWriter(WindowWriter):
    """As `WindowWriter`, of a plan that has `matrices`: an item's box, and its columns, are
    arranged before its tiles, unless those of the item before are the same, or are read as they
    are."""

    def __init__(self, w: WindowPlan, strides: Strides, target: Target) -> None:
        super().__init__(w, strides, target)
        self.ahead = ()
        assert w.matrices is not None
        self.matrices = w.matrices
        pixels = pixels_of(w)
        assert pixels is not None
        self.pixels = pixels
        self.rows_ready, self.columns_ready = are_rows_ready(w), are_columns_ready(w)
        self.pixel = pixels.apart * self.bytes if self.rows_ready else LINE_OF_MATRIX
        """Bytes from the words of a pixel to those of the next."""
        self.heights = {
            heights(lines, rows)
            for region in regions_of(w)
            for _, lines in pieces_of(region.lines, region.tile[0])
            for _, rows in pieces_of(region.rows, region.tile[1])
        }
        """The rows of the matrices of tiles, of each kind of tile."""
        self.region = regions_of(w)[0]
        """The results of tiles that are written."""
        self.matrix_tiles: dict[str, MatrixTile] = {}
        self.arranging: dict[str, Arranging] = {}

    def _layout(self) -> tuple[int, int, int]:
        c = aligned((sums_of(self.w) + self.plan.lanes) * self.bytes)
        rows = aligned(self.w.rows.elements * self.bytes)
        return c, rows, sum(arranged_bytes(self.w))

    def _functions(self) -> str:
        text = super()._functions()
        for tile in self.matrix_tiles.values():
            function, declared = write_tile(tile)
            text += function
            self.b.declarations |= declared
        for high in sorted({t.heights for t in self.matrix_tiles.values()}):
            text += configuration(high)[1]
        function, declared = matrix_parts.write(self.arranging.values(), self.matrices)
        self.b.declarations |= declared
        self.b.declarations |= declarations(self.matrices)
        return text + function

    # ------------------------------------------------------------------ kernel

    def _kernel(self) -> None:
        b, w = self.b, self.w
        c, rows, _ = self._layout()
        self.at_rows = b.pure(f"getelementptr i8, ptr %scratch, i64 {c}")
        self.at_columns = self.at_rows
        self.matrix_rows = b.pure(f"getelementptr i8, ptr %scratch, i64 {c + rows}")
        before = c + rows + arranged_bytes(w)[0]
        self.matrix_columns = b.pure(f"getelementptr i8, ptr %scratch, i64 {before}")
        odd = b.reserve("alloca [2 x i32], align 4")
        self.box = b.reserve("alloca ptr, align 8") if self.rows_ready else ""
        self.odd = [element(b, "i32", odd, str(side)) for side in range(2)]
        if len(self.heights) == 1:
            self._configure(*self.heights)
        begin, end = chunk_range(b, w.items, self.plan.grain)
        with b.loop(begin, end, carried=[("i64", "-1")] * 2) as item:
            self.outer, self.places = self._item(item.index)
            self.next = []
            if w.blocks > 1:
                with b.loop(0, w.blocks) as loop:
                    first = b.pure(f"icmp eq i64 {loop.index}, 0", loop.index)
                    last = b.pure(f"icmp eq i64 {loop.index}, {w.blocks - 1}", loop.index)
                    self._arrange_rows(loop.index)
                    self._arrange_columns(loop.index)
                    self._all_tiles(Sum(times(b, loop.index, w.cut.length), "0", first, last))
                item.carry(["0", "0"])
            else:
                numbers = [self._number_of(False), self._number_of(True)]
                arrange = (self._arrange_rows, self._arrange_columns)
                for number, known, do in zip(numbers, item.values, arrange, strict=True):
                    with b.when(b.op(f"icmp ne i64 {number}, {known}")):
                        do("0")
                self._all_tiles(Sum("0", "0", "true", "true"))
                item.carry(numbers)
        b.line("call void @llvm.x86.tilerelease()")
        if self.past:
            b.line(FENCE)

    def _number_of(self, of_columns: bool) -> str:
        """The number of what an item needs of a side, among all."""
        w = self.w
        lanes = [cut.number for cut in w.parts if cut.index is w.lane]
        others = [i for i in w.choices if i not in lanes]
        used: list[Index] = [*self.form.batch, *(lanes if of_columns else others)]
        return flat_number(self.b, self.places, used)

    def _arrange_rows(self, block: str) -> None:
        """Copy the box of an item, if that is needed, and arrange it."""
        b, w, pixels = self.b, self.w, self.pixels
        self._copy(w.rows, self.at_rows, block)
        inside = {i: Place("0") for i in (*w.plan.broadcast.indices, *w.loops) if i not in w.fixed}
        start = {w.cut.index: Place(times(b, block, w.cut.length))}
        # of a whole map, from the first element that there is to that of no border
        terms = {side.term: side.parts[0].terms.start for side in w.inside}
        start |= {i: Place(str(n)) for i, n in terms.items()}
        at = self._at(w.rows, self.at_rows, inside, start)
        before = sum(e.step * e.first for e in edges_of(w))
        before += sum(n * w.rows.step(i) for i, n in terms.items())
        at = element(b, self.scalar, at, str(-before))
        if self.rows_ready:
            b.line(f"store ptr {at}, ptr {self.box}, align 8")
            return
        kind: Kind = "rows" if pixels.along else "turned"
        arranging = Arranging(kind, pixels.count, pixels.apart)
        self._begin(0)
        self._arrange(0, arranging, at, self.matrix_rows)

    def _arrange_columns(self, block: str) -> None:
        """Arrange the columns of an item: panel by panel, those of each place of a window."""
        if self.columns_ready:
            return
        b, w = self.b, self.w
        self._begin(1)
        points = size(w.loops[:-1])
        depth = extent_of(w.cut.index)
        steps = -(-w.cut.length // self.matrices.depth)
        for begin, wide in self._lanes():
            stride = -(-wide // LANES) * LANES
            first = times(b, block, w.cut.length)
            zero = At({}, {}, "0", begin)
            start = self._columns(zero, {})
            each = self.matrices.columns * steps * MATRIX
            to = element(self.b, "i8", self.matrix_columns, times(b, begin, points * each // LANES))
            with b.loop(0, points) as point:
                k = plus(b, times(b, point.index, depth), first)
                at = element(b, self.scalar, start, times(b, k, stride))
                here = element(self.b, "i8", to, times(b, point.index, each * matrices_of(wide)))
                self._arrange(1, Arranging("columns", stride, stride), at, here)

    def _begin(self, side: int) -> None:
        self.b.line(f"store i32 0, ptr {self.odd[side]}, align 4")

    def _arrange(self, side: int, arranging: Arranging, at: str, to: str) -> None:
        b = self.b
        self.arranging[arranging.name] = arranging
        odd = arranging.call(b, at, str(self.w.cut.length), to)
        if not self.matrices.in_parts:
            return
        known = b.op(f"load i32, ptr {self.odd[side]}, align 4")
        b.line(f"store i32 {b.op(f'or i32 {known}, {odd}')}, ptr {self.odd[side]}, align 4")

    # ------------------------------------------------------------------- tiles

    def _all_tiles(self, k: Sum) -> None:
        """The tiles of an item for a block of the depth."""
        b = self.b
        if self.matrices.in_parts:
            known = [b.op(f"load i32, ptr {odd}, align 4") for odd in self.odd]
            either = b.op(f"or i32 {known[0]}, {known[1]}")
            self.is_odd = b.op(f"icmp ne i32 {either}, 0")
        self._tiles(k)

    def _rows_of(self, down: Places) -> Iterator[tuple[Places, str, tuple[int, int]]]:
        """Loops over rows of tiles of one region after the other."""
        w = self.w
        for self.region in regions_of(w):
            lines, rows = self.region.tile
            for line, high in pieces_of(self.region.lines, lines):
                for row, long in pieces_of(self.region.rows, rows):
                    if len(self.heights) > 1:
                        self._configure(heights(high, long))
                    with self._steps(*line) as y, self._steps(*row) as r:
                        known = down if w.line is None else down | {w.line: Place(y)}
                        yield known, r, (high, long)

    def _tile(self, at: At, counts: tuple[int, int, int], k: Sum) -> None:
        b, wide = self.b, counts[2]
        c = self._sums_of(at, counts[0])
        if self.matrices.in_parts:
            arms = b.branches(self.is_odd)
            with arms.then():
                self._multiply_add(at, counts, k, c)
            with arms.other():
                self._multiply(at, counts, k, c)
        else:
            self._multiply(at, counts, k, c)
        if k.last == "true":
            self._results(at, counts[:2], wide, c)
            return
        with b.when(k.last):
            self._results(at, counts[:2], wide, c)

    def _multiply(self, at: At, counts: tuple[int, int, int], k: Sum, c: str) -> None:
        """The tile by matrices."""
        b, w, m = self.b, self.w, self.matrices
        lines, rows, wide = counts
        high = heights(lines, rows)
        box = self.matrix_rows
        if self.rows_ready:
            box = b.op(f"load ptr, ptr {self.box}, align 8")
        a = element(b, "i8", box, times(b, self._pixel(at), self.pixel))
        steps, apart = -(-w.cut.length // m.depth), 0
        if self.columns_ready:
            stride = -(-wide // LANES) * LANES
            v = element(b, self.scalar, self._columns(at, {}), times(b, k.begin, stride))
            apart = stride * self.bytes
            moves = self._moves(extent_of(w.cut.index) * apart)
        else:
            each = m.columns * steps * MATRIX
            at_lane = times(b, at.lane, size(w.loops[:-1]) * each // LANES)
            v = element(b, "i8", self.matrix_columns, at_lane)
            moves = self._moves(matrices_of(wide) * each)
        before = sum(terms.start * step for terms, step in zip(self._terms(), moves, strict=True))
        v = element(b, "i8", v, str(before))
        runs = runs_of(w, steps) if m.in_parts else 0
        where = self._rows(lines, high, moves)
        tile = MatrixTile(m, high, matrices_of(wide), self.plan.panel, where, apart, runs=runs)
        self.matrix_tiles[tile.name] = tile
        turns = [len(terms) for terms in self._terms()]
        b.line(tile.call(a, v, str(steps), c, k.first, turns=turns))

    def _configure(self, high: tuple[int, ...]) -> None:
        """Say what registers hold for tiles of such matrices of rows."""
        self.b.line(f"call void @llvm.x86.ldtilecfg(ptr {configuration(high)[0]})")

    def _terms(self) -> list[range]:
        """The terms of a region, of each loop around the steps."""
        return [self.region.terms.get(i, range(extent_of(i))) for i in self.w.loops[:-1]]

    def _moves(self, each: int) -> list[int]:
        """How far columns of so many bytes, those of all loops inside, move in each."""
        loops = self.w.loops[:-1]
        return [size(loops[n + 1 :]) * each for n in range(len(loops))]

    def _rows(self, lines: int, high: tuple[int, ...], moves: list[int]) -> Rows:
        """Where a tile's matrices of rows are, and how far its loops move rows and columns."""
        w, p = self.w, self.pixels
        row = p.steps.get(w.row, 0)
        second = high[0] * row
        if lines > 1:
            assert w.line is not None
            second = p.steps.get(w.line, 0)
        down = (p.steps.get(i, 0) * self.pixel for i in w.loops[:-1])
        loops = tuple(zip(down, moves, strict=True))
        step = LINE_OF_MATRIX if self.rows_ready else self.matrices.rows * p.part
        return Rows(row * self.pixel, second * self.pixel, p.part, step, loops)

    def _pixel(self, at: At) -> str:
        """The first pixel that a tile reads."""
        b, number = self.b, str(self.pixels.first)
        for index, terms in self.region.terms.items():
            number = plus(b, number, str(terms.start * self.pixels.steps.get(index, 0)))
        for index, place in (at.down | {self.w.row: Place(at.row)}).items():
            step = self.pixels.steps.get(index, 0)
            if step and place.base is not None:
                number = plus(b, number, times(b, place.base, step))
        return number

    def _sums_of(self, at: At, lines: int) -> str:
        """Where the sums of a tile are."""
        b, w = self.b, self.w
        if w.blocks == 1:
            return "%scratch"
        if not w.inside:
            return self._sums_in_turns(at, lines)
        # those of a region's rows are side by side for each line
        row, length = "0", len(self.region.rows)
        for index in (*w.down(), *(() if w.line is None else (w.line,))):
            if index in at.down:
                row = plus(b, times(b, row, w.length(index)), at.down[index].base or "0")
        inside = minus(b, at.row, str(self.region.rows.start))
        row = plus(b, times(b, row, length), times(b, inside, lines))
        row = plus(b, row, str(self.region.rows.start * (self._all_rows() // w.length(w.row))))
        before = plus(b, times(b, row, self.plan.panel), times(b, at.lane, self._all_rows()))
        return element(b, self.scalar, "%scratch", before)

    def _multiply_add(self, at: At, counts: tuple[int, int, int], k: Sum, c: str) -> None:
        """The tile by multiply-adds, row by row."""
        b, w, plan = self.b, self.w, self.plan
        lines, rows, wide = counts
        stride = -(-wide // LANES) * LANES
        region = self.region.terms
        first = {i: Place(str(terms.start)) for i, terms in region.items()}
        start = first | {w.cut.index: Place(k.begin)}
        a = self._at(w.rows, self.at_rows, at.down | {w.row: Place(at.row)}, start)
        v = element(b, self.scalar, self._columns(at, start), times(b, k.begin, stride))
        moves = self._moves(extent_of(w.cut.index) * stride)
        before = sum(terms.start * step for terms, step in zip(self._terms(), moves, strict=True))
        v = element(b, self.scalar, v, str(before))
        loops = loops_inside(w, stride, region)
        label = "".join(f".{len(terms)}" for terms in region.values())
        tile = WindowTile(
            self.form.dtype, LANES, (0,), stride // LANES, LANES, loops, plan.panel, w.registers,
            label,
        )  # fmt: skip
        self.tiles[tile.name] = tile
        for line in range(lines):
            step = 0 if w.line is None else w.rows.step(w.line)
            with b.loop(0, rows) as row:
                offset = plus(b, times(b, row.index, w.rows.step(w.row)), str(line * step))
                to = times(b, plus(b, row.index, str(line * rows)), plan.panel)
                here = element(b, self.scalar, a, offset)
                there = element(b, self.scalar, c, to)
                b.line(tile.call(here, v, there, str(loops[0][0]), k.first))
