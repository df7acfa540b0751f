"""Writes the functions of a contraction that reads copies of boxes: see `window_plan`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.nodes import Index
from ...records import dataclass
from . import contraction_transpose as transpose
from .contraction_results import (
    call_results_of,
    goes_past,
    is_whole_lines,
    write_results_of,
    write_turning,
)
from .contraction_sides import aligned, batch_places, element, mark_written, sides_of, write_prepare
from .contraction_space import (
    Places,
    Space,
    chunk_after,
    chunk_range,
    decode,
    minus,
    multiple,
    plus,
    quotient,
    smax,
    smin,
    times,
)
from .emit import Frame, Place
from .emit_access import extent_of
from .emit_memory import prefetch
from .emit_types import scalar_type, width
from .kernels import KernelCode, Strides
from .nest_stream import FENCE
from .packing import Block, contiguous_depth, write_packing
from .target import LINE, Target
from .tile_step import steps_in_turn, vectors_ahead
from .window_ahead import asked_ahead
from .window_box import Staged, flat_number
from .window_plan import Guarded, WindowPlan, loops_inside
from .window_tile import WindowTile

_START = Place(None)


@dataclass(frozen=True, slots=True)
class At:
    """Where in an item a tile is: other indices, row and lane."""

    down: Places
    right: Places
    row: str
    lane: str


@dataclass(frozen=True, slots=True)
class Sum:
    """A block of k, or turn: where it begins, and whether it is the first and the last."""

    begin: str
    turn: str
    first: str
    last: str


def write_window(plan: WindowPlan, strides: Strides, target: Target) -> KernelCode:
    """The code of a plan."""
    return WindowWriter(plan, strides, target).code()


class WindowWriter:
    """Writes the functions of a plan."""

    def __init__(self, w: WindowPlan, strides: Strides, target: Target) -> None:
        self.w, self.plan, self.strides = w, w.plan, strides
        self.ahead = asked_ahead(w, strides, target)
        self.form = w.plan.form
        self.frame = Frame(strides, target)
        self.b = self.frame.builder
        self.scalar, self.bytes = scalar_type(self.form.dtype), width(self.form.dtype)
        mark_written(self.frame, self.form)
        self.panels = sides_of(self.plan, strides)[1] if w.prepared else None
        lanes = self.plan.lanes  # what is left of a line comes with other tiles
        whole_rows = w.gathers and w.length(w.row) % lanes == 0 and is_whole_lines(w.plan, lanes)
        self.past = goes_past(self.plan, strides, self.frame, whole_rows)
        self.tiles: dict[str, WindowTile] = {}
        self.results: set[tuple[int, int]] = set()

    def code(self) -> KernelCode:
        plan, w = self.plan, self.w
        self._kernel()
        functions = self._functions()
        flops = plan.outer * plan.broadcast.extent * plan.vector.extent * plan.depth.extent
        return KernelCode(
            self.frame.text(functions),
            tuple(self.frame.tensors),
            -(-w.items // plan.grain),
            frozenset(self.b.declarations),
            sum(self._layout()),
            tuple(self.frame.sites),
            flops / (3.0 * plan.lanes),
            () if self.panels is None else (write_prepare(self.panels, self.strides),),
            tuple(self.frame.symbols),
            template="window",
        )

    def _functions(self) -> str:
        """The functions that the kernel calls."""
        dtype, lanes = self.form.dtype, self.plan.lanes
        text, turning = "", set[int]()
        for side in (self.w.rows, self.w.columns):
            p = side.packing
            if p is not None:
                text += write_packing(self.frame, p, self.strides)
                if contiguous_depth(p.operand, p.depth, p.lanes, self.strides) is not None:
                    turning.add(p.lanes)
        for tile in self.tiles.values():
            text += tile.text()
            self.b.declarations |= tile.declarations()
        for rows, live in sorted(self.results):
            run = live if self.w.is_straight else lanes
            given = (self.frame, self.plan, self.strides, rows, live, run)
            text += write_results_of(*given, past=self.past)
        for count in turning:
            self.b.declarations |= transpose.declarations(dtype, count)
            text += transpose.write_transpose(dtype, count)
        return text + write_turning(self.plan)

    # ------------------------------------------------------------------ kernel

    def _layout(self) -> tuple[int, int, int]:
        """Bytes of the thread's scratch: sums of tiles, copied rows, copied columns."""
        plan, w = self.plan, self.w
        sums = w.lines * plan.rows * plan.panel
        if w.blocks > 1:
            sums = self._tiles_down() * self._tiles_right() * plan.rows * plan.panel
        elif w.turns > 1:
            sums = self._all_rows() * -(-w.length(w.lane) // plan.panel) * plan.panel
        elif w.gathers:
            sums = w.length(w.row) * plan.panel
        c = aligned((sums + plan.lanes) * self.bytes)
        rows = aligned(w.rows.elements * self.bytes)
        return c, rows, aligned((w.columns.elements + plan.panel) * self.bytes)

    def _all_rows(self) -> int:
        """Rows of the results of an item."""
        own = (i for i in self.plan.broadcast.indices if i not in self.w.fixed)
        return math.prod(map(self.w.length, own))

    def _tiles_down(self) -> int:
        return _count(self.w.down()) * -(-extent_of(self.w.row) // self.plan.rows)

    def _tiles_right(self) -> int:
        return _count(self.w.right()) * -(-extent_of(self.w.beside) // self.w.span)

    def _kernel(self) -> None:
        b, w = self.b, self.w
        c, rows, _ = self._layout()
        self.at_rows = b.pure(f"getelementptr i8, ptr %scratch, i64 {c}")
        self.at_columns = b.pure(f"getelementptr i8, ptr %scratch, i64 {c + rows}")
        begin, end = chunk_range(b, w.items, self.plan.grain)
        sides = [(w.rows, self.at_rows), (w.columns, self.at_columns)]
        sides = [(side, to) for side, to in sides if side.packing is not None]
        with b.loop(begin, end, carried=[("i64", "-1")] * len(sides)) as item:
            self.outer, self.places = self._item(item.index)
            self.next = self._next(item.index)
            if w.blocks > 1:
                with b.loop(0, w.blocks) as loop:
                    first = b.pure(f"icmp eq i64 {loop.index}, 0", loop.index)
                    last = b.pure(f"icmp eq i64 {loop.index}, {w.blocks - 1}", loop.index)
                    for side, to in sides:
                        self._copy(side, to, loop.index)
                    self._tiles(Sum(times(b, loop.index, w.cut.length), "0", first, last))
                item.carry(["0"] * len(sides))
            else:
                boxes = [() if side.packing is None else side.packing.outer for side, _ in sides]
                numbers = [flat_number(b, self.places, outer) for outer in boxes]
                for (side, to), number, before in zip(sides, numbers, item.values, strict=True):
                    with b.when(b.op(f"icmp ne i64 {number}, {before}")):
                        self._copy(side, to, "0")
                self._turns()
                item.carry(numbers)
        if self.past:
            b.line(FENCE)

    def _item(self, number: str) -> tuple[str, Places]:
        """The number of an item's batch, and its places."""
        b, outer, part = self.b, "0", number
        if self.plan.outer > 1:
            per = _count(self.w.choices)
            outer = quotient(b, number, per)
            part = minus(b, number, times(b, outer, per))
        choices = tuple((i,) for i in self.w.choices if extent_of(i) > 1)
        places = batch_places(b, self.form.batch, outer)
        return outer, places | decode(b, Space(choices), part)

    def _next(self, number: str) -> list[str]:
        """Where what is asked for begins of the item after one."""
        if not self.ahead:
            return []
        b, found = self.b, []
        cores = 1 if self.frame.target is None else self.frame.target.cores
        after = chunk_after(b, number, self.w.items, self.plan.grain, cores)
        _, places = self._item(after)
        for ahead in self.ahead:
            offset = str(ahead.start)
            for index, factor in ahead.factors.items():
                if extent_of(index) > 1:
                    offset = plus(b, offset, times(b, places[index].base or "0", factor))
            found.append(element(b, self.scalar, self.frame.pointer(ahead.tensor), offset))
        return found

    def _ask(self, down: Places, right: Places, row: str) -> None:
        """Ask for the part of the next item that is the turn of a row of tiles."""
        b, w = self.b, self.w
        others = (*w.down(), *w.right())
        number, turns = flat_number(b, down | right, others), _count(others)
        for index, step in ((w.line, w.lines), (w.row, self.plan.rows)):
            if index is not None:
                count = -(-w.length(index) // step)
                at = row if index is w.row else down[index].base or "0"
                number = plus(b, times(b, number, count), quotient(b, at, step))
                turns *= count
        for ahead, start in zip(self.ahead, self.next, strict=True):
            parts = max(turns // ahead.count, 1)
            lines, stretches = -(-ahead.lines // parts), -(-ahead.count // turns)
            first = times(b, quotient(b, number, parts), stretches)
            part = minus(b, number, times(b, quotient(b, number, parts), parts))
            begin = times(b, part, lines * LINE)
            for k in range(stretches):
                stretch = times(b, plus(b, first, str(k)), ahead.step)
                at = element(b, self.scalar, start, stretch)
                with b.loop(begin, plus(b, begin, str(lines * LINE)), LINE) as loop:
                    prefetch(b, at, loop.index, ahead.cache)

    def _turns(self) -> None:
        """All tiles of an item, for one part of the sums after the other."""
        b, turns = self.b, self.w.turns
        if turns == 1:
            self._tiles(Sum("0", "0", "true", "true"))
            return
        with b.loop(0, turns) as loop:
            first = b.pure(f"icmp eq i64 {loop.index}, 0", loop.index)
            last = b.pure(f"icmp eq i64 {loop.index}, {turns - 1}", loop.index)
            self._tiles(Sum("0", loop.index, first, last))

    def _copy(self, side: Staged, to: str, block: str) -> None:
        """Copies the box of an operand that tiles need."""
        p, b = side.packing, self.b
        if p is None:
            return
        self.places[self.w.cut.number] = Place(block)
        number = flat_number(b, self.places, p.outer)
        depth, count = p.depth, str(p.operand.extent)
        whole = Block("0", "0", str(depth.cut), str(depth.extent), "0")
        b.line(p.call(number, "0", count, str(side.pitch), whole, to))

    # ------------------------------------------------------------------- tiles

    def _tiles(self, k: Sum) -> None:
        """All tiles of an item for one block of k."""
        w = self.w
        if w.in_turns:  # the part of a panel for a turn stays near while all rows meet it
            with self._walk(w.right()) as right:
                for lane, wide in self._lanes():
                    with self._walk(w.down()) as down:
                        for known, row, counts in self._rows_of(down):
                            self._tile(At(known, right, row, lane), (*counts, wide), k)
            return
        with self._walk(w.down()) as down, self._walk(w.right()) as right:
            if w.gathers:
                self._gathered(down, right, k)
                return
            for known, row, counts in self._rows_of(down):
                self._ask(known, right, row)
                for lane, wide in self._lanes():
                    self._tile(At(known, right, row, lane), (*counts, wide), k)

    def _gathered(self, down: Places, right: Places, k: Sum) -> None:
        """Line by line: after each tile of one, the results of which its sums complete vectors."""
        b, w, lanes = self.b, self.w, self.plan.lanes
        for line, _ in self._pieces(w.line, 1):
            with self._steps(*line) as y:
                known = down if w.line is None else down | {w.line: Place(y)}
                for lane, wide in self._lanes():
                    for rows, count in self._pieces(w.row, self.plan.rows):
                        with self._steps(*rows) as row:
                            self._ask(known, right, row)
                            self._tile(At(known, right, row, lane), (1, count, wide), k)
                            end = multiple(b, plus(b, row, str(count)), lanes)
                            with b.loop(multiple(b, row, lanes), end, lanes) as own:
                                at = At(known, right, own.index, lane)
                                self._results(at, (1, lanes), wide, self._sums_of_row(own.index))
                    rest = w.length(w.row) % lanes
                    if rest:
                        row = str(w.length(w.row) - rest)
                        at = At(known, right, row, lane)
                        self._results(at, (1, rest), wide, self._sums_of_row(row))

    def _rows_of(self, down: Places) -> Iterator[tuple[Places, str, tuple[int, int]]]:
        """Loops over rows of tiles: where one begins, and its lines and rows."""
        w = self.w
        for line, lines in self._pieces(w.line, w.lines):
            with self._steps(*line) as y:
                known = down if w.line is None else down | {w.line: Place(y)}
                for row, rows in self._pieces(w.row, self.plan.rows):
                    with self._steps(*row) as r:
                        yield known, r, (lines, rows)

    def _lanes(self) -> Iterator[tuple[str, int]]:
        """Loops over the tiles side by side: where one begins, and how long it is."""
        for lane, wide in self._pieces(self.w.beside, self.w.span):
            with self._steps(*lane) as v:
                yield v, wide

    @contextmanager
    def _walk(self, indices: Sequence[Index]) -> Iterator[Places]:
        """Loops over indices."""
        real = [i for i in indices if extent_of(i) > 1]
        if not real:
            yield {}
            return
        with self.b.loop(0, self.w.length(real[0])) as loop, self._walk(real[1:]) as inner:
            yield {real[0]: Place(loop.index)} | inner

    def _pieces(self, index: Index | None, step: int) -> list[tuple[tuple[int, int, int], int]]:
        """The loops over whole tiles and the rest: from, to and step, and how long a tile is."""
        return pieces_of(range(1 if index is None else self.w.length(index)), step)

    @contextmanager
    def _steps(self, begin: int, end: int, step: int) -> Iterator[str]:
        if end - begin <= step:
            yield str(begin)
            return
        with self.b.loop(begin, end, step) as loop:
            yield loop.index

    def _tile(self, at: At, counts: tuple[int, int, int], k: Sum) -> None:
        """One register tile, and its results after the last block of k."""
        b, w, plan = self.b, self.w, self.plan
        lines, rows, wide = counts
        start = {w.cut.index: Place(k.begin)}
        live = wide if w.is_straight else wide * plan.lanes
        stride = -(-live // plan.lanes) * plan.lanes
        loops = loops_inside(w, stride)
        count = str(loops[0][0])
        low = "0"
        if w.guarded is not None:
            low, count = self._range(w.guarded, at.down | at.right, lines)
            start = {w.guarded.k: Place(low)}
        down = at.down | {w.row: Place(at.row)}
        a = self._at(w.rows, self.at_rows, down, start)
        v = self._columns(at, start)
        if w.prepared and w.guarded is not None:
            v = element(b, self.scalar, v, times(b, low, loops[0][2]))
        if w.turns > 1:
            a, v = (
                element(b, self.scalar, at_first, times(b, k.turn, step))
                for at_first, step in zip((a, v), loops[0][1:], strict=True)
            )
            count = "1"
        step = 0 if w.line is None else w.rows.step(w.line)
        places = [y * step + x * w.rows.step(w.row) for y in range(lines) for x in range(rows)]
        turn = steps_in_turn(len(places), stride // plan.lanes, self.frame.target)
        if self.form.words is not None:
            turn = min(turn, self.form.words.in_turn)
        tile = WindowTile(
            self.form.dtype, plan.lanes, tuple(places), stride // plan.lanes,
            plan.lanes if w.is_straight else w.columns.step(w.beside), loops, plan.panel,
            w.registers, f".{lines}" if lines > 1 else "",
            self._vectors_ahead(stride) if w.prepared else 0,
            self.form.words, turn,
        )  # fmt: skip
        self.tiles[tile.name] = tile
        c = "%scratch"
        if w.blocks > 1:
            c = self._sums(at)
        elif w.turns > 1:
            c = self._sums_in_turns(at, lines)
        elif w.gathers:
            c = self._sums_of_row(at.row)
        b.line(tile.call(a, v, c, count, k.first))
        if w.gathers:
            return
        if k.last == "true":
            self._results(at, counts[:2], live, c)
        else:
            with b.when(k.last):
                self._results(at, counts[:2], live, c)

    def _columns(self, at: At, start: Places) -> str:
        """Where a tile begins to read the vector operand."""
        b, w = self.b, self.w
        right = at.right | {w.beside: Place(at.lane)}
        if self.panels is None:
            return self._at(w.columns, self.at_columns, right, start)
        assert self.panels.prepared is not None
        lane = self._within(w.lane, at.lane)
        outer = self.panels.outer(b, self.places)
        whole = Block("0", "0", str(self.plan.depth.cut), str(self.plan.depth.extent), "0")
        offset = self.panels.offset(b, outer, whole, lane, "0")
        return element(b, self.scalar, self.frame.pointer(self.panels.prepared), offset)

    def _within(self, index: Index, at: str) -> str:
        """The value of an index of results for its place in an item."""
        for cut in self.w.parts:
            if cut.index is index and extent_of(cut.number) > 1:
                number = self.places[cut.number].base or "0"
                return plus(self.b, times(self.b, number, cut.length), at)
        return at

    def _sums(self, at: At) -> str:
        """Where the sums of a tile are kept from one block of k to the next."""
        b, w, plan = self.b, self.w, self.plan
        number = self._number(at.down, w.down(), at.row, plan.rows, extent_of(w.row))
        across = self._number(at.right, w.right(), at.lane, w.span, extent_of(w.beside))
        number = plus(b, times(b, number, self._tiles_right()), across)
        return element(b, self.scalar, "%scratch", times(b, number, plan.rows * plan.panel))

    def _sums_in_turns(self, at: At, lines: int) -> str:
        """The same from one turn to the next; `lines` of rows of a tile follow on one another."""
        b, w = self.b, self.w
        row, length = "0", w.length
        for index in (*w.down(), *(() if w.line is None else (w.line,))):
            if index in at.down:
                row = plus(b, times(b, row, length(index)), at.down[index].base or "0")
        row = plus(b, times(b, row, length(w.row)), times(b, at.row, lines))
        before = plus(b, times(b, row, self.plan.panel), times(b, at.lane, self._all_rows()))
        return element(b, self.scalar, "%scratch", before)

    def _sums_of_row(self, row: str) -> str:
        """Where those of a line are that is gathered, from a row on."""
        return element(self.b, self.scalar, "%scratch", times(self.b, row, self.plan.panel))

    def _results(self, at: At, counts: tuple[int, int], live: int, c: str) -> None:
        """The results of a tile, line by line."""
        b, w, plan = self.b, self.w, self.plan
        lines, rows = counts
        self.results.add((rows, live))
        down = {**at.down, w.row: Place(at.row)}
        known = {i: Place(self._within(i, p.base or "0")) for i, p in down.items()}
        known |= at.right | {w.lane: Place("0")}
        known |= {w.beside: Place(self._within(w.beside, at.lane))}
        flat_lane = flat_number(b, self.places | known, plan.vector.indices)
        for line in range(lines):
            if w.line is not None and line:
                first = known[w.line].base or "0"
                here = known | {w.line: Place(plus(b, first, str(line)))}
            else:
                here = known
            flat_row = flat_number(b, self.places | here, plan.broadcast.indices)
            sums = element(b, self.scalar, c, str(line * rows * plan.panel))
            b.line(call_results_of(sums, self.outer, flat_row, rows, flat_lane, live))

    def _number(
        self, places: Places, others: Sequence[Index], at: str, step: int, extent: int
    ) -> str:
        """The number of a tile along one side."""
        count, own = -(-extent // step), quotient(self.b, at, step)
        return plus(self.b, times(self.b, flat_number(self.b, places, others), count), own)

    def _vectors_ahead(self, stride: int) -> int:
        return vectors_ahead(stride, self.form.dtype, self.frame.target, self.w.plan.columns)

    def _range(self, g: Guarded, places: Places, lines: int) -> tuple[str, str]:
        """Where the part of a loop begins that counts for any of so many lines, and how many there
        are: one at least, which reads zeros if none counts."""
        b, own = self.b, "0"
        if extent_of(g.own) > 1:
            own = self._within(g.own, places[g.own].base or "0")
        base = plus(b, times(b, own, g.step), str(g.constant))
        reach = g.step * (lines - 1) if g.own is self.w.line else 0
        ends = [
            minus(b, place, base)
            for place in (str(-max(reach, 0)), str(g.extent - 1 - min(reach, 0)))
        ]
        if g.factor < 0:
            ends = [minus(b, "0", end) for end in reversed(ends)]
        most = str(extent_of(g.k) - 1)
        low = smin(b, smax(b, ends[0], "0"), most)
        high = smax(b, smin(b, ends[1], most), low)
        return low, plus(b, minus(b, high, low), "1")

    def _at(self, side: Staged, copy: str, places: Places, start: Places) -> str:
        """Where a tile begins to read an operand; `start` is where its first loop begins. In copies
        an index that is cut begins at 0."""
        b = self.b
        if side.packing is None:
            zero = dict.fromkeys(self.form.reduced, _START)
            real = {i: Place(self._within(i, p.base or "0")) for i, p in places.items()}
            known = self.places | zero | real | start
            return self.frame.point(1, known).address(side.access).pointer
        if self.w.guarded is not None:
            places = places | start
        offset = str(side.start)
        for index, place in places.items():
            step = side.step(index)
            if step and place.base is not None:
                offset = plus(b, offset, times(b, place.base, step))
        return element(b, self.scalar, copy, offset)


def pieces_of(values: range, step: int) -> list[tuple[tuple[int, int, int], int]]:
    """Loops over values, so many at a time, and over the rest: from, to and step, and how many."""
    begin, end = values.start, values.stop
    full = begin + len(values) // step * step
    pieces = [((begin, full, step), step), ((full, end, len(values)), end - full)]
    return [(loop, count) for loop, count in pieces if loop[0] < loop[1]]


def _count(indices: Sequence[Index]) -> int:
    count = 1
    for index in indices:
        count *= extent_of(index)
    return count
