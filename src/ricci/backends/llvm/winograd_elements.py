"""Writes how elements are read and summed up, for the products of `winograd_plan`.

Vectors are along channels, or along rows: then neighbouring lanes are elements of neighbouring
tiles, two or four from one another. Where vectors are short such are put together of pieces of 16
bytes, which need not be moved from one half of a vector to the other; else two vectors are sorted
by an instruction. Elements are read where they are if there are zeros to read in place of those
that are missing: of a line that is, a pointer is turned to zeros; of a row, some lanes are left out
where a read may go beyond its ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...records import dataclass
from .builder import Builder
from .contraction_sides import element
from .contraction_space import plus, times
from .emit_access import extent_of
from .emit_memory import prefetch
from .emit_types import splat, tag, width, with_lanes
from .target import LINE
from .winograd_filter import Axis
from .winograd_plan import WinogradPlan
from .winograd_transform import Arithmetic, Square, both_ways, load, store, types

_UNROLLED = 3
"""Vectors of a line of tiles that are written out; of more the first and the last are, which may
need masks."""
_CHANNELS_AHEAD = 4
"""Channels ahead of those whose elements are read that are brought near meanwhile: each is on pages
of its own, which the processor does not foresee."""
_PIECE = 16
"""Bytes of the parts of vectors within which an instruction moves elements, if short ones do."""
_ZEROS = "@kernel.winograd.zeros"


def input_function() -> str:
    return "kernel.winograd.elements"


def write_input(w: WinogradPlan) -> str:
    """The functions that fill the matrices `%v`: of `%d`, the first element of an item, which is at
    line `%y` and row `%x` of the tensor if it is read in place."""
    b = Builder(
        input_function(),
        "ptr readonly %d, ptr noalias %v, i64 %y, i64 %x",
        "internal void",
        "noinline",
    )
    _Input(b, w).write()
    b.line("ret void")
    return _zeros(w) + b.text()


def _zeros(w: WinogradPlan) -> str:
    """What is read beyond the ends of a tensor: of a tile, or of a vector of them."""
    if not w.in_place:
        return ""
    count = w.channels if w.along_channels else (w.element_lanes + 1) * w.row.pitch + w.plan.lanes
    scalar = types(w)[1]
    return f"{_ZEROS} = internal constant [{count} x {scalar}] zeroinitializer, align 64\n"


class _Input:
    """Writes how the elements of tiles are read, summed up and stored."""

    def __init__(self, b: Builder, w: WinogradPlan) -> None:
        self.b, self.w, self.lanes = b, w, w.element_lanes
        self.full, self.scalar = types(w, self.lanes)
        self.bytes = width(w.plan.form.dtype)
        self.down, self.right = w.apart
        self.asks = w.in_place and w.is_far

    def write(self) -> None:
        if self.w.along_channels:
            self._along_channels()
        else:
            self._along_rows()

    def _at(self, pointer: str, offset: str | int) -> str:
        return element(self.b, self.scalar, pointer, str(offset))

    def _places(self, y: str, x: str, start: str = "0") -> dict[int, str]:
        """Where a tile's elements are in a matrix, by the tiles of its lines."""
        b, w = self.b, self.w
        found = {}
        for tiles in {p.tiles for p in w.across}:
            tile = plus(b, times(b, y, tiles), x)
            place = times(b, tile, w.steps[0])
            found[tiles] = self._at("%v", plus(b, start, place))
        return found

    def _store(self, square: Square, to: dict[int, str], offset: str = "0") -> None:
        """One vector for each of the matrices. What only a second result needs of a tile that has
        one is stored, too: where the next tile's is stored later, or no product reads it."""
        found = both_ways(self.b, self.full, self.w, square, Arithmetic.of_elements)
        tiles = self.w.tiles_of[1]
        for i, values in enumerate(found):
            for j, (value, count) in enumerate(zip(values, tiles, strict=True)):
                number = i * self.w.row.points + j
                at = self._at(self._at(to[count], offset), number * self.w.matrix)
                store(self.b, self.w, value, at, self.full)

    # ---------------------------------------------------------- along channels

    def _along_channels(self) -> None:
        b, w = self.b, self.w
        with b.loop(0, w.tall) as y, b.loop(0, w.wide) as x:
            line, row = w.line.result(b, y.index), w.row.result(b, x.index)
            corner = times(b, line, w.line.stride * self.down)
            at = self._at("%d", plus(b, corner, times(b, row, w.row.stride * self.right)))
            to = self._places(y.index, x.index)
            points = range(w.line.points), range(w.row.points)
            down, right = self.down * w.line.dilation, self.right * w.row.dilation
            inner = [[self._at(at, i * down + j * right) for j in points[1]] for i in points[0]]
            if not w.in_place:
                self._channels(inner, to)
                return
            lines, rows = self._there(w.line, "%y", y.index), self._there(w.row, "%x", x.index)
            whole = self._all([lines[0], lines[-1], rows[0], rows[-1]])
            arms = b.branches(whole)
            with arms.then():
                self._channels(inner, to)
            with arms.other():
                self._channels(
                    [
                        [
                            self.or_zeros(pointer, self._all([line, row]))
                            for pointer, row in zip(inside, rows, strict=True)
                        ]
                        for inside, line in zip(inner, lines, strict=True)
                    ],
                    to,
                )

    def _there(self, axis: Axis, first: str, tile: str) -> list[str]:
        """Which of the places of a tile along an axis are in the tensor."""
        b, extent = self.b, axis.extent(self.w.box.access)
        place = plus(b, first, times(b, axis.result(b, tile), axis.stride))
        places = [plus(b, place, str(k * axis.dilation)) for k in range(axis.points)]
        return [b.pure(f"icmp ult i64 {p}, {extent}", p) for p in places]

    def _all(self, conditions: Sequence[str]) -> str:
        found, *rest = conditions
        for other in rest:
            found = self.b.pure(f"and i1 {found}, {other}", found, other)
        return found

    def or_zeros(self, pointer: str, condition: str) -> str:
        return self.b.op(f"select i1 {condition}, ptr {pointer}, ptr {_ZEROS}")

    def _channels(self, pointers: Square, to: dict[int, str]) -> None:
        """All channels of a tile, whose elements are at some places."""
        b = self.b
        with b.loop(0, extent_of(self.w.channel), self.lanes) as c:
            square = [
                [load(b, self.full, self._at(p, c.index), self.w) for p in row] for row in pointers
            ]
            self._store(square, to, c.index)

    # -------------------------------------------------------------- along rows

    def _along_rows(self) -> None:
        """The vectors are every second element of a row, or fourth. Those of the last tiles hold
        more than there are, which the next ones write again."""
        b, w = self.b, self.w
        deep = w.box.step(w.channel)
        with b.loop(0, extent_of(w.channel)) as c, b.loop(0, w.tall) as y:
            line = times(b, w.line.result(b, y.index), w.line.stride * self.down)
            start = plus(b, times(b, c.index, deep), line)
            first = times(b, c.index, w.pitch)
            there = self._there(w.line, "%y", y.index) if w.in_place else None
            for tiles in self._vectors():
                self._rows(start, self._places(y.index, tiles.first, first), tiles, there)

    def _vectors(self) -> Iterator[_Tiles]:
        """The vectors of a line of tiles: those that are written out, and a loop over others."""
        first, *others = range(0, self.w.wide, self.lanes)
        yield _Tiles(str(first), first, first)
        if len(others) < _UNROLLED:
            yield from (_Tiles(str(x), x, x) for x in others)
            return
        last = others.pop()
        with self.b.loop(others[0], last, self.lanes) as loop:
            yield _Tiles(loop.index, others[0], others[-1])
        yield _Tiles(str(last), last, last)

    def _rows(
        self, start: str, to: dict[int, str], tiles: _Tiles, there: Sequence[str] | None
    ) -> None:
        """The tiles of a vector, from some lines of which some may be there."""
        b, row, down = self.b, self.w.row, self.w.line.dilation * self.down
        at = self._at("%d", plus(b, start, times(b, tiles.first, row.pitch)))
        square = []
        for i in range(self.w.line.points):
            line = self._at(at, i * down)
            if self.asks:
                self._ask(line, tiles)
            if there is not None:
                line = self.or_zeros(line, there[i])
            reading = _Reading(self, line, tiles)
            square.append(reading.picked() if self.w.line_loads else reading.points())
        self._store(square, to)

    def _ask(self, line: str, tiles: _Tiles) -> None:
        """Bring the elements of some channels ahead near, for the tiles of a vector or those that
        are left of a line."""
        ahead = _CHANNELS_AHEAD * self.w.box.step(self.w.channel) * self.bytes
        length = min(self.lanes, self.w.wide - tiles.low) * self.w.row.pitch * self.bytes
        for place in range(0, length, LINE):
            prefetch(self.b, line, ahead + place)
        if length % LINE:
            prefetch(self.b, line, ahead + length)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of a vector: the number of the first, and between what it is."""

    first: str
    low: int
    high: int


class _Reading:
    """Writes how the elements of a line are read for the tiles of a vector."""

    def __init__(self, given: _Input, line: str, tiles: _Tiles) -> None:
        self.b, self.w, self.line, self.tiles = given.b, given.w, line, tiles
        self.lanes, self.full, self.scalar = given.lanes, given.full, given.scalar
        self.bytes, self.or_zeros = given.bytes, given.or_zeros
        self.piece = _PIECE // self.bytes if self.lanes * self.bytes <= 2 * _PIECE else self.lanes
        """Elements that are read together."""

    def points(self) -> list[str]:
        """The elements of all tiles, those at the same place of each in a vector."""
        row = self.w.row
        found = self._apart(0, 0, row.pitch)
        if row.points == row.pitch + 1 and self.piece < self.lanes:
            return [*found, self._shifted(found[0])]
        return [*found, *self._apart(row.pitch, 0, row.pitch)][: row.points]

    def picked(self) -> list[str]:
        """The same, picked out of two vectors in which they all are."""
        row, most = self.w.row, self.w.plan.lanes
        loads = [self._read(n * most, most) for n in range(self.w.line_loads)]
        low, high = (*loads, "poison")[:2]
        found = []
        for first in range(row.points):
            some = range(self.w.wide)
            places = [str(first + row.pitch * k) if k in some else "" for k in range(self.lanes)]
            found.append(self._shuffle(low, high, places, most))
        return found

    def _apart(self, first: int, number: int, step: int) -> list[str]:
        """The elements from a place on: of those that are `step` apart, beginning at the first, the
        second and so on. The vectors read for them are one or more, from a number on."""
        if step == 1:
            return [self._joined(first, number)]
        step //= 2
        ends = [self._apart(first, number + n * step, step) for n in range(2)]
        found = []
        for odd in range(2):
            for low, high in zip(*ends, strict=True):
                found.append(self._every_second(low, high, odd))
        return found

    def _every_second(self, low: str, high: str, odd: int) -> str:
        """Each second element of two vectors, within parts of these."""
        places = []
        for part in range(0, self.lanes, self.piece):
            for start in (part, self.lanes + part):
                places += [str(start + n) for n in range(odd, self.piece, 2)]
        return self._shuffle(low, high, places)

    def _joined(self, first: int, number: int) -> str:
        """A vector whose parts, each a piece, are so many pieces apart as a tile has elements."""
        pitch, parts = self.w.row.pitch, self.lanes // self.piece
        places = [first + (part * pitch + number) * self.piece for part in range(parts)]
        low, *rest = [self._read(place, self.piece) for place in places]
        if not rest:
            return low
        every = [str(n) for n in range(self.lanes)]
        return self._shuffle(low, rest[0], every, self.piece)

    def _shifted(self, vector: str) -> str:
        """The first elements of the next tiles of each."""
        last = self._read(self.lanes * self.w.row.pitch, 1)
        if last == "poison":
            next = "poison"
        else:
            next = self.b.op(f"insertelement {self.full} poison, {self.scalar} {last}, i64 0")
        return self._shuffle(vector, next, [str(n + 1) for n in range(self.lanes)])

    def _shuffle(self, low: str, high: str, places: Sequence[str], lanes: int = 0) -> str:
        full = types(self.w, lanes or self.lanes)[0]
        picks = ", ".join(f"i32 {place or 'poison'}" for place in places)
        mask = f"<{len(places)} x i32> <{picks}>"
        return self.b.op(f"shufflevector {full} {low}, {full} {high}, {mask}")

    def _read(self, place: int, lanes: int) -> str:
        """Neighbouring elements from a place on, zero where there are none; whatever if no tile
        needs them."""
        b, w, row = self.b, self.w, self.w.row
        needed = min(self.lanes, w.wide - self.tiles.low) * row.pitch + row.points - row.pitch
        if place >= needed:
            return "poison"
        full, pointer = types(w, lanes)[0], element(b, self.scalar, self.line, str(place))
        if lanes == 1:
            full = self.scalar
        if not w.in_place or self._is_inside(place, lanes):
            return load(b, full, pointer, w)
        at = plus(b, plus(b, "%x", times(b, self.tiles.first, row.pitch)), str(place))
        if lanes == 1:
            extent = row.extent(w.box.access)
            inside = b.pure(f"icmp ult i64 {at}, {extent}", at)
            return load(b, full, self.or_zeros(pointer, inside), w)
        bits, mask = with_lanes("i1", lanes), self._within(at, lanes)
        name = f"llvm.masked.load.{tag(self.scalar, lanes)}.p0"
        b.declare(f"declare {full} @{name}(ptr, i32, {bits}, {full})")
        zeros = f"{full} zeroinitializer"
        return b.op(f"call {full} @{name}(ptr {pointer}, i32 {self.bytes}, {bits} {mask}, {zeros})")

    def _is_inside(self, place: int, lanes: int) -> bool:
        """Whether elements from a place on are there, whatever item it is."""
        row, rows, access = self.w.row, self.w.rows, self.w.box.access
        low = row.first(access) + self.tiles.low * row.pitch + place
        last = row.stride * rows.length * (extent_of(rows.number) - 1)
        high = row.first(access) + self.tiles.high * row.pitch + place + last + lanes
        return low >= 0 and high <= row.extent(access)

    def _within(self, place: str, lanes: int) -> str:
        """Which of the elements from a place on are there."""
        b, full = self.b, with_lanes("i64", lanes)
        one = b.pure(f"insertelement {full} poison, i64 {place}, i64 0", place)
        zeros = f"<{lanes} x i32> zeroinitializer"
        all_ = b.pure(f"shufflevector {full} {one}, {full} poison, {zeros}", one)
        steps = ", ".join(f"i64 {k}" for k in range(lanes))
        places = b.pure(f"add {full} {all_}, <{steps}>", all_)
        extent = splat(str(self.w.row.extent(self.w.box.access)), "i64", lanes)
        return b.pure(f"icmp ult {full} {places}, {extent}", places)
