"""Writes the functions of a contraction by fewer products: see `winograd_plan`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir.nodes import Subscript, integer
from ...records import dataclass, replace
from . import contraction_transpose as transpose
from .contraction_form import size
from .contraction_plan import batch_of
from .contraction_results import call_results_of, goes_past, write_results_of, write_turning
from .contraction_sides import aligned, batch_places, element, mark_written
from .contraction_space import Space, chunk_range, decode, minus, plus, times
from .contraction_tiles import equal_pieces, even_pieces
from .emit import Frame, Place
from .emit_access import extent_of
from .emit_types import scalar_type, width
from .kernels import KernelCode, Strides
from .microkernel import Tile, call_tile, declarations, write_tile
from .nest_stream import FENCE
from .packing import Block, contiguous_depth, write_packing
from .target import LINE, Target
from .tile_step import steps_in_turn, vectors_ahead
from .window_box import Cut, flat_number
from .winograd_elements import input_function, write_input
from .winograd_filter import TILE, Axis
from .winograd_plan import Points, WinogradPlan
from .winograd_transform import (
    filter_function,
    output_function,
    panels_of,
    write_filters,
    write_late_filters,
    write_output,
)


def write_winograd(plan: WinogradPlan, strides: Strides, target: Target) -> KernelCode:
    """The code of a plan."""
    return Writer(plan, strides, target).code()


@dataclass(frozen=True, slots=True)
class Product:
    """A product of tiles, in loops over those that are alike."""

    point: str
    """Its number among all."""
    number: str
    """The same among those that are alike."""
    count: int
    """How many are alike."""
    tiles: int
    """How many tiles have it."""
    sums: str
    """The number of the filter's sum."""
    tap: str | None
    """The number of the filter's element, if it is one."""


class Writer:
    """Writes the code of a plan."""

    def __init__(self, w: WinogradPlan, strides: Strides, target: Target) -> None:
        self.w, self.plan, self.strides = w, w.plan, strides
        self.form = w.plan.form
        self.frame = Frame(strides, target)
        self.b = self.frame.builder
        self.scalar, self.bytes = scalar_type(self.form.dtype), width(self.form.dtype)
        mark_written(self.frame, self.form)
        self.filters = panels_of(w)
        self.asks = target.asks_meanwhile
        self.tiles: dict[str, Tile] = {}
        starts = (extent_of(w.row.own), w.rows.length * (extent_of(w.rows.number) > 1))
        whole_rows = all(n % w.plan.lanes == 0 for n in starts)
        self.past = goes_past(w.plan, strides, self.frame, whole_rows)
        self.outputs: set[int] = set()
        """Vectors of panels that there are."""
        self.results: set[tuple[int, int]] = set()

    def code(self) -> KernelCode:
        plan, w = self.plan, self.w
        self._kernel()
        functions = self._functions()
        products = w.items * w.products * w.channels * w.lanes.length
        return KernelCode(
            self.frame.text(functions),
            tuple(self.frame.tensors),
            -(-w.items // plan.grain),
            frozenset(self.b.declarations),
            sum(self._layout()),
            tuple(self.frame.sites),
            products / (3.0 * plan.lanes),
            (write_filters(w, self.filters, self.strides),),
            tuple(self.frame.symbols),
            template="winograd",
        )

    def _functions(self) -> str:
        """The functions that the kernel calls."""
        w, plan, dtype = self.w, self.plan, self.form.dtype
        text = write_input(w)
        turning = set[int]()
        p = w.box.packing
        if p is not None:
            text += write_packing(self.frame, p, self.strides)
            if contiguous_depth(p.operand, p.depth, p.lanes, self.strides) is not None:
                turning.add(p.lanes)
        for tile in self.tiles.values():
            text += write_tile(tile)
            self.b.declarations |= declarations(tile)
        for vectors in sorted(self.outputs):
            text += write_output(w, vectors) + (write_late_filters(w, vectors) if w.late else "")
        for rows, live in sorted(self.results):
            given = (self.frame, plan, self.strides, rows, live, live)
            text += write_results_of(*given, past=self.past)
        for lanes in turning:
            self.b.declarations |= transpose.declarations(dtype, lanes)
            text += transpose.write_transpose(dtype, lanes)
        return text + write_turning(plan)

    # ------------------------------------------------------------------ kernel

    def _layout(self) -> list[int]:
        """Bytes of the parts of the thread's scratch: see `WinogradPlan.scratch`."""
        return [aligned((n + self.plan.lanes) * self.bytes) for n in self.w.scratch]

    def _kernel(self) -> None:
        b, w = self.b, self.w
        layout = self._layout()
        self.at = [
            b.pure(f"getelementptr i8, ptr %scratch, i64 {sum(layout[:n])}") for n in range(5)
        ]
        per = w.items // self.plan.outer
        begin, end = chunk_range(b, w.items, self.plan.grain)
        with b.loop(begin, end, carried=[("i64", "-1")]) as item:
            self.outer, part = "0", item.index
            if self.plan.outer > 1:
                self.outer = b.pure(f"udiv i64 {item.index}, {per}", item.index)
                part = minus(b, item.index, times(b, self.outer, per))
            self.places = batch_places(b, self.form.batch, self.outer)
            choices = tuple((i,) for i in w.choices if extent_of(i) > 1)
            self.places |= decode(b, Space(choices), part)
            number = item.index
            if extent_of(w.lanes.number) > 1 and not w.by_lanes:
                number = b.pure(f"udiv i64 {number}, {extent_of(w.lanes.number)}", number)
            with b.when(b.op(f"icmp ne i64 {number}, {item.values[0]}")):
                self._elements()
            self._products()
            item.carry([number])
        if self.past:
            b.line(FENCE)

    def _begin(self, cut: Cut) -> str:
        """Where the block of an item begins."""
        if extent_of(cut.number) == 1:
            return "0"
        return times(self.b, self.places[cut.number].base or "0", cut.length)

    def _elements(self) -> None:
        """Makes the matrices of the elements of an item."""
        b, w, box = self.b, self.w, self.w.box
        y, x = self._first(w.line, w.lines), self._first(w.row, w.rows)
        p = box.packing
        if p is None:
            at = self._in_place(y, x)
        else:
            depth, count = p.depth, str(p.operand.extent)
            whole = Block("0", "0", str(depth.cut), str(depth.extent), "0")
            number = flat_number(b, self.places, p.outer)
            b.line(p.call(number, "0", count, str(box.pitch), whole, self.at[0]))
            at = element(b, self.scalar, self.at[0], str(self._corner()))
        places = f"i64 {y}, i64 {x}"
        deep, apart = extent_of(w.channel) * w.steps[1], [box.step(i) for i in w.more]
        with b.loop(0, size(w.more)) as part:
            known = decode(b, Space(tuple((i,) for i in w.more if extent_of(i) > 1)), part.index)
            offset = "0"
            for index, step in zip(w.more, apart, strict=True):
                if index in known:
                    offset = plus(b, offset, times(b, known[index].base or "0", step))
            of_part = element(b, self.scalar, at, offset)
            to = element(b, self.scalar, self.at[1], times(b, part.index, deep))
            b.line(f"call void @{input_function()}(ptr {of_part}, ptr {to}, {places})")

    def _first(self, axis: Axis, cut: Cut) -> str:
        """Where in the tensor the elements of an item begin."""
        begin = times(self.b, self._begin(cut), axis.stride)
        return plus(self.b, begin, str(axis.first(self.w.box.access)))

    def _corner(self) -> int:
        """Where in the copy the first element of the first tile and channel is."""
        box = self.w.box
        flipped = [axis for axis in (self.w.line, self.w.row) if axis.flipped]
        return box.start + sum((x.taps - 1) * box.step(x.tap) for x in flipped)

    def _in_place(self, y: str, x: str) -> str:
        """The first element of the first tile and channel; it may be before the tensor."""
        b, w = self.b, self.w
        access = w.box.access
        subscripts = list(access.subscripts)
        for axis in (w.line, w.row):
            subscripts[axis.dimension] = Subscript(integer(0))
        first = replace(access, subscripts=tuple(subscripts))
        known = self.places | {w.channel: Place(None)}
        start = self.frame.point(1, known).address(first).pointer
        down, right = w.apart
        offset = plus(b, times(b, y, down), times(b, x, right))
        return element(b, self.scalar, start, offset)

    # ---------------------------------------------------------------- products

    def _products(self) -> None:
        """Panel by panel of an item's lanes."""
        b, w, panel = self.b, self.w, self.plan.panel
        first = self._begin(w.lanes)
        full = w.lanes.length // panel * panel
        if full:
            with b.loop(0, full, panel) as loop:
                self._panel(plus(b, first, loop.index), panel)
        if w.lanes.length > full:
            self._panel(plus(b, first, str(full)), w.lanes.length - full)

    def _panel(self, lane: str, live: int) -> None:
        """All products and results of an item for a panel that begins at a lane."""
        b, w, plan = self.b, self.w, self.plan
        vectors = -(-live // plan.lanes)
        offset = times(b, lane, w.arranged * w.channels)
        if plan.outer > 1:
            number = flat_number(b, self.places, batch_of(plan.vector, self.form))
            offset = plus(b, offset, times(b, number, w.panels))
        panel = element(b, self.scalar, self.frame.pointer(self.filters), offset)
        if w.late:
            self._late_products(panel, vectors)
        else:
            self._kept_products(panel, vectors)
        self.outputs.add(vectors)
        with b.loop(0, w.tall) as line:
            called = f"@{output_function(vectors)}(ptr {self.at[2]}, ptr {self.at[3]}"
            b.line(f"call void {called}, i64 {line.index})")
            self._lines(line.index, lane, live)

    def _kept_products(self, panel: str, vectors: int) -> None:
        """All terms, where the filters' sums are prepared."""
        b, w, stride = self.b, self.w, vectors * self.plan.lanes
        for at in self._points():
            filters = times(b, at.sums, w.channels * stride)
            filters = element(b, self.scalar, panel, filters)
            for row, rows in self._rows(at.tiles):
                for begin in range(0, w.channels, w.stretch):  # written out: a hundredth faster
                    count = min(w.stretch, w.channels - begin)
                    own = element(b, self.scalar, filters, str(begin * stride))
                    self._tile(at.point, own, stride, (str(begin), count), row, rows, vectors)

    def _late_products(self, panel: str, vectors: int) -> None:
        """The same where they are not: of a stretch of channels they are made first. The filters of
        the next may be asked for in steps of the products, from the first of these on."""
        b, w, stride = self.b, self.w, vectors * self.plan.lanes
        each = w.taps * stride
        calls = sum(p.count * q.count * self._passes(p.tiles * q.tiles) for p, q in self._kinds())
        lines = each * self.bytes // LINE
        asked = -(-lines // calls) if self.asks else 0
        for begin, count in self._stretches():
            own = element(b, self.scalar, panel, times(b, begin, each))
            made = f"@{filter_function(vectors)}(ptr {own}, ptr {self.at[4]}, i64 {count})"
            b.line(f"call void {made}")
            after = element(b, self.scalar, own, str(count * each))
            before = 0
            for at in self._points():
                if at.tap is None:
                    place, step = times(b, at.sums, w.late_matrix(vectors)), stride
                    filters = element(b, self.scalar, self.at[4], place)
                else:
                    filters, step = element(b, self.scalar, own, times(b, at.tap, stride)), each
                for row, rows in self._rows(at.tiles):
                    beside = (0, "")
                    if asked:
                        ahead = times(b, self.done(at, row, before), count * asked * LINE)
                        some = b.pure(f"icmp slt i64 {ahead}, {count * lines * LINE}", ahead)
                        next = b.pure(f"getelementptr i8, ptr {after}, i64 {ahead}", after, ahead)
                        next = b.pure(f"select i1 {some}, ptr {next}, ptr {filters}", some, next)
                        beside = (asked, next)
                    self._tile(at.point, filters, step, (begin, count), row, rows, vectors, beside)
                before += at.count * self._passes(at.tiles)

    def done(self, at: Product, row: str, before: int) -> str:
        """How many register tiles of a stretch come before that of some rows, `before` those that
        are not alike."""
        b, passes = self.b, self._passes(at.tiles)
        done = b.pure(f"udiv i64 {row}, {-(-at.tiles // passes)}", row)
        return plus(b, plus(b, times(b, at.number, passes), str(before)), done)

    def _kinds(self) -> Iterator[tuple[Points, Points]]:
        """Products along lines and along rows."""
        return itertools.product(self.w.down, self.w.across)

    def _points(self) -> Iterator[Product]:
        """All products of a tile, in loops over those that are alike: filters of each line of them
        follow one another."""
        b, w = self.b, self.w
        for down in w.down:
            with b.loop(0, down.count) as y:
                for across in w.across:
                    with b.loop(0, across.count) as x:
                        yield self.point(down, across, y.index, x.index)

    def point(self, down: Points, across: Points, y: str, x: str) -> Product:
        """A product along lines and rows, each a number of those that are alike."""
        b = self.b

        def number(line: int, row: int, width: int) -> str:
            i, j = plus(b, y, str(line)), plus(b, x, str(row))
            return plus(b, times(b, i, width), j)

        tap = None
        if down.tap is not None and across.tap is not None:
            tap = number(down.tap, across.tap, self.w.row.taps)
        return Product(
            number(down.begin, across.begin, self.w.row.points),
            number(0, 0, across.count),
            down.count * across.count,
            down.tiles * across.tiles,
            number(down.sums, across.sums, self.w.row.sums),
            tap,
        )

    def _passes(self, tiles: int) -> int:
        """How many register tiles so many tiles take."""
        return -(-tiles // self.w.height)

    def _rows(self, tiles: int) -> Iterator[tuple[str, int]]:
        """Where the register tiles begin, and how many rows they have: loops over them."""
        return self._pieces(even_pieces(tiles, self.w.height))

    def _stretches(self) -> Iterator[tuple[str, int]]:
        """Where stretches of channels begin, and how long they are: loops over them."""
        return self._pieces(equal_pieces(self.w.channels, self.w.stretch))

    def _pieces(self, pieces: list[tuple[int, int]]) -> Iterator[tuple[str, int]]:
        begin = 0
        for count, length in pieces:
            end = begin + count * length
            with self.b.loop(begin, end, length) as loop:
                yield loop.index, length
            begin = end

    def _tile(
        self,
        point: str,
        filters: str,
        step: int,
        stretch: tuple[str, int],
        row: str,
        rows: int,
        vectors: int,
        beside: tuple[int, str] = (0, ""),
    ) -> None:
        """One register tile of one of the products: the terms of a stretch, whose filters are so
        many elements apart. In each step it asks for so many lines `beside`, from a place on."""
        b, w, plan = self.b, self.w, self.plan
        stride, (down, deep) = vectors * plan.lanes, w.steps
        is_apart = bool(beside[0]) or step > stride
        tile = Tile(
            self.form.dtype, plan.lanes, rows, vectors, down, deep, step, plan.panel,
            ahead=0 if is_apart else self._vectors_ahead(stride),
            turn=steps_in_turn(rows, vectors, self.frame.target),
            beside=beside[0],
        )  # fmt: skip
        self.tiles[tile.name] = tile
        begin, count = stretch
        a = plus(b, times(b, point, w.matrix), times(b, row, down))
        a = plus(b, a, times(b, begin, deep))
        c = plus(b, times(b, point, w.sums), times(b, row, plan.panel))
        a, c = element(b, self.scalar, self.at[1], a), element(b, self.scalar, self.at[2], c)
        first = "true" if begin == "0" else "false"
        if begin.startswith("%"):
            first = b.pure(f"icmp eq i64 {begin}, 0", begin)
        asked = beside[1], str(beside[0] * LINE)
        b.line(call_tile(tile, a, filters, str(count), c, first, beside=asked))

    def _vectors_ahead(self, stride: int) -> int:
        return vectors_ahead(stride, self.form.dtype, self.frame.target, self.w.panels)

    # ----------------------------------------------------------------- results

    def _lines(self, line: str, lane: str, live: int) -> None:
        """Stores the results of a line of tiles: two lines, of which the last may not be there."""
        b, w = self.b, self.w
        extent = extent_of(w.line.own)
        base = self._begin(w.lines)
        for n in range(TILE):
            y = plus(b, plus(b, base, w.line.result(b, line)), str(n * w.line.dilation))
            offset = n * TILE * w.wide * self.plan.panel
            sums = element(b, self.scalar, self.at[3], str(offset))
            whole = extent % (TILE * w.line.dilation) == 0
            if w.line.tiles % w.tall == 0 and (whole or (n == 0 and w.line.dilation == 1)):
                self._line(sums, y, lane, live)
            else:
                with b.when(b.op(f"icmp slt i64 {y}, {extent}")):
                    self._line(sums, y, lane, live)

    def _line(self, sums: str, y: str, lane: str, live: int) -> None:
        """Stores a line of results; that of the last block may be shorter."""
        b, w = self.b, self.w
        x, length = self._begin(w.rows), w.rows.length
        rest = extent_of(w.row.own) - (extent_of(w.rows.number) - 1) * length
        places = self.places | {w.line.own: Place(y), w.row.own: Place(x), w.lane: Place(lane)}
        row = flat_number(b, places, self.plan.broadcast.indices)
        columns = flat_number(b, places, self.plan.vector.indices)

        def store(rows: int) -> None:
            self.results.add((rows, live))
            b.line(call_results_of(sums, self.outer, row, rows, columns, live))

        if rest == length or extent_of(w.rows.number) == 1:
            store(rest)
            return
        last = b.op(f"icmp eq i64 {x}, {extent_of(w.row.own) - rest}")
        arms = b.branches(last)
        with arms.then():
            store(rest)
        with arms.other():
            store(length)
