"""Arranges panels of a contraction as matrices: see `matrix`.

A panel has its elements side by side for each k, or those of a row side by side along k. The
matrices that it becomes follow one another: for each step of as many k as a matrix has, and for
each part of the elements, those of all rows or columns. Elements beyond the last k are zero.

An element that is infinite or NaN is no sum of parts, nor is one so large that its first part would
be infinite: that a panel has such an element is told by a number that is not zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from ...dtypes import DType
from ...records import dataclass
from . import contraction_transpose as transpose
from .builder import Builder
from .contraction_sides import element
from .contraction_space import minus, plus, prefix_mask, smax, smin, times
from .emit_memory import prefetch
from .matrix import LANES, LINE_OF_MATRIX, MATRIX, MatrixProduct, matrices_of

Kind = Literal["columns", "turned", "rows"]
"""What is arranged: columns, or rows, whose elements are side by side for each k, or rows whose
elements are so along k."""

_SQUARE = "kernel.matrices.square"
_WORDS, _NUMBERS, _BITS = f"<{LANES} x i32>", f"<{LANES} x float>", f"<{LANES} x i1>"
_LEAST_LARGE = 0x7F7F8000
"""The bits, but for the sign, of the least number whose first part would be infinite."""
_LOAD = f"declare {_WORDS} @llvm.masked.load.v{LANES}i32.p0(ptr, i32, {_BITS}, {_WORDS})"
_MOST = f"declare {_WORDS} @llvm.umax.v{LANES}i32({_WORDS}, {_WORDS})"
_MOST_OF_ALL = f"declare i32 @llvm.vector.reduce.umax.v{LANES}i32({_WORDS})"


def steps_of(b: Builder, points: str, m: MatrixProduct) -> str:
    """How many steps there are of so many k."""
    if not points.startswith("%"):
        return str(-(-int(points) // m.depth))
    up = plus(b, points, str(m.depth - 1))
    return b.pure(f"udiv i64 {up}, {m.depth}", up)


@dataclass(frozen=True, slots=True)
class Arranging:
    """A function that arranges so many rows or columns, which are `apart` elements from one another
    if that is along rows, or from one k to the next. If it `asks`, it brings near what comes after
    the elements of a step: these lie in short stretches, so that the processor does not."""

    kind: Kind
    count: int
    apart: int
    asks: bool = False

    @property
    def name(self) -> str:
        return f"kernel.matrices.{self.kind}.{self.count}.by{self.apart}"

    def call(self, b: Builder, at: str, points: str, to: str) -> str:
        """The call, for so many k; gives what tells of elements that have no parts."""
        return b.op(f"call i32 @{self.name}(ptr {at}, i64 {points}, ptr {to})")


def write(arranging: Iterable[Arranging], m: MatrixProduct) -> tuple[str, set[str]]:
    """The functions, and the declarations of what they use."""
    text, declarations, turns = "", set[str](), False
    for each in arranging:
        function, declared = _write(each, m)
        text += function
        declarations |= declared
        turns |= each.kind == "turned"
    if turns:
        text += transpose.write_square(DType.FLOAT32, LANES, LANES, LANES, _SQUARE)
    return text, declarations


def _write(arranging: Arranging, m: MatrixProduct) -> tuple[str, set[str]]:
    b = Builder(
        arranging.name,
        "ptr noalias readonly %from, i64 %points, ptr noalias %to",
        "internal i32",
        "noinline",
    )
    writer = _Writer(b, arranging, m)
    writer.write()
    return b.text(), b.declarations


class _Writer:
    """Elements are words: integers as they are, or the bits of numbers."""

    def __init__(self, b: Builder, arranging: Arranging, m: MatrixProduct) -> None:
        self.b, self.m, self.kind = b, m, arranging.kind
        self.count, self.apart, self.asks = arranging.count, arranging.apart, arranging.asks
        self.parts = m.columns if arranging.kind == "columns" else m.rows
        self.side = matrices_of(arranging.count)
        """How many matrices are side by side in a part."""
        b.declarations |= {_LOAD, _MOST, _MOST_OF_ALL}

    def write(self) -> None:
        """All whole steps, and one of the k that are left."""
        b, depth = self.b, self.m.depth
        whole = b.pure(f"udiv i64 %points, {depth}")
        rest = b.pure(f"urem i64 %points, {depth}")
        with b.loop("0", whole, carried=[(_WORDS, "zeroinitializer")]) as step:
            self.ahead = self._ahead(step.index, whole)
            step.carry([self._step(step.index, None, step.values[0])])
        most = step.results[0]
        with b.loop(
            "0", b.op(f"zext i1 {b.op(f'icmp ne i64 {rest}, 0')} to i64"), carried=[(_WORDS, most)]
        ) as last:
            last.carry([self._step(whole, rest, last.values[0])])
        of_all = b.op(f"call i32 @llvm.vector.reduce.umax.v{LANES}i32({_WORDS} {last.results[0]})")
        large = b.op(f"icmp uge i32 {of_all}, {_LEAST_LARGE}")
        b.line(f"ret i32 {b.op(f'zext i1 {large} to i32')}")

    def _ahead(self, step: str, whole: str) -> str:
        """How many elements on those are that come after the same of a step: in the next one, or in
        the next panel."""
        b, depth = self.b, self.m.depth
        along, across = (1, self.apart) if self.kind == "rows" else (self.apart, 1)
        back = minus(b, str(self.count * across), times(b, step, depth * along))
        is_last = b.pure(f"icmp eq i64 {plus(b, step, '1')}, {whole}", step, whole)
        return b.pure(f"select i1 {is_last}, i64 {back}, i64 {depth * along}", is_last, back)

    def _ask(self, at: str) -> None:
        """Ask for what comes after an element."""
        if self.asks:
            prefetch(self.b, element(self.b, "i32", at, self.ahead), 0, 2)

    def _step(self, step: str, left: str | None, most: str) -> str:
        """One step, of which so many k are there, or all; gives the largest elements so far."""
        b, m = self.b, self.m
        k = times(b, step, m.depth)
        to = element(self.b, "i8", "%to", times(b, step, self.parts * self.side * MATRIX))
        if self.kind == "rows":
            return self._rows(element(self.b, "i32", "%from", k), left, to, most)
        at = element(self.b, "i32", "%from", times(b, k, self.apart))
        if self.kind == "columns":
            lives = [str(min(self.count - n * LANES, LANES)) for n in range(self.side)]
            return self._pairs(at, left, to, lives, most)
        turned = b.reserve(f"alloca [{self.parts * MATRIX} x i8], align 64")
        with b.loop(0, self.side, carried=[(_WORDS, most)]) as side:
            first = times(b, side.index, LANES)
            live = str(LANES)
            if self.count % LANES:
                live = smin(b, minus(b, str(self.count), first), live)
            here = element(b, "i32", at, first)
            side.carry([self._pairs(here, left, turned, [live], side.values[0])])
            place = element(self.b, "i8", to, times(b, side.index, MATRIX))
            for part in range(self.parts):
                source = element(self.b, "i8", turned, str(part * MATRIX))
                square = element(self.b, "i8", place, str(part * self.side * MATRIX))
                b.line(transpose.call_square(source, str(LANES), square, _SQUARE))
        return side.results[0]

    def _pairs(self, at: str, left: str | None, to: str, lives: Sequence[str], most: str) -> str:
        """The words of a step's k, each of one or two, for matrices side by side, of which so many
        columns are there."""
        b, count = self.b, self.m.depth // LANES
        zeros = b.zeros(LINE_OF_MATRIX * len(lives)) if left is not None else ""
        with b.loop(0, LANES, carried=[(_WORDS, most)]) as pair:
            largest = pair.values[0]
            here = element(b, "i8", to, times(b, pair.index, LINE_OF_MATRIX))
            first = times(b, pair.index, count)
            for side, live in enumerate(lives):
                read = []
                for n in range(count):
                    k = plus(b, first, str(n))
                    offset = plus(b, times(b, k, self.apart), str(side * LANES))
                    source = element(self.b, "i32", at, offset)
                    if left is None:
                        self._ask(source)
                    else:
                        there = b.pure(f"icmp slt i64 {k}, {left}", k, left)
                        source = b.pure(
                            f"select i1 {there}, ptr {source}, ptr {zeros}", there, source
                        )
                    read.append(self._load(source, live))
                largest, words = self._words(read, largest)
                for part, word in enumerate(words):
                    place = str((part * len(lives) + side) * MATRIX)
                    b.line(
                        f"store {_WORDS} {word}, ptr {element(self.b, 'i8', here, place)}, align 64"
                    )
            pair.carry([largest])
        return pair.results[0]

    def _words(self, read: list[str], most: str) -> tuple[str, list[str]]:
        """The largest elements so far, and the words of each part of those of one or two k."""
        b = self.b
        if not self.m.in_parts:
            return most, read
        most = self._larger(most, read)
        low, high = (self._parts_of(x) for x in read)
        moved = [b.op(f"lshr {_WORDS} {x}, splat (i32 16)") for x in low]
        return most, [b.op(f"or {_WORDS} {x}, {y}") for x, y in zip(moved, high, strict=True)]

    def _rows(self, at: str, left: str | None, to: str, most: str) -> str:
        """A step's k of all rows."""
        b, m = self.b, self.m
        with b.loop(0, self.count, carried=[(_WORDS, most)]) as row:
            start = element(self.b, "i32", at, times(b, row.index, self.apart))
            read = []
            for k in range(0, m.depth, LANES):
                live = str(LANES)
                if left is None:
                    self._ask(element(self.b, "i32", start, str(k)))
                else:
                    live = smin(b, smax(b, minus(b, left, str(k)), "0"), live)
                read.append(self._load(element(self.b, "i32", start, str(k)), live))
            largest, words = row.values[0], read
            if m.in_parts:
                largest = self._larger(largest, read)
                halves = [self._parts_of(x) for x in read]
                words = [self._halves(x, y) for x, y in zip(*halves, strict=True)]
            side = b.pure(f"udiv i64 {row.index}, {LANES}", row.index)
            inside = b.pure(f"urem i64 {row.index}, {LANES}", row.index)
            offset = plus(b, times(b, side, MATRIX), times(b, inside, LINE_OF_MATRIX))
            here = element(b, "i8", to, offset)
            for part, word in enumerate(words):
                place = element(self.b, "i8", here, str(part * self.side * MATRIX))
                b.line(f"store {_WORDS} {word}, ptr {place}, align 64")
            row.carry([largest])
        return row.results[0]

    def _parts_of(self, bits: str) -> list[str]:
        """The parts of numbers, each in the upper half of its word, the lower of which is zero: the
        number of as few bits that is nearest to what is left."""
        b, found = self.b, []
        for _ in range(self.parts - 1):
            up = b.op(f"add {_WORDS} {bits}, splat (i32 32768)")
            found.append(b.op(f"and {_WORDS} {up}, splat (i32 -65536)"))
            number, part = (b.op(f"bitcast {_WORDS} {x} to {_NUMBERS}") for x in (bits, found[-1]))
            rest = b.op(f"fsub {_NUMBERS} {number}, {part}")
            bits = b.op(f"bitcast {_NUMBERS} {rest} to {_WORDS}")
        return [*found, bits]

    def _halves(self, x: str, y: str) -> str:
        """The upper halves of the words of two vectors, one after the other."""
        b, kind = self.b, f"<{2 * LANES} x i16>"
        first, second = (b.op(f"bitcast {_WORDS} {v} to {kind}") for v in (x, y))
        picks = ", ".join(f"i32 {2 * n + 1}" for n in range(2 * LANES))
        both = b.op(f"shufflevector {kind} {first}, {kind} {second}, <{2 * LANES} x i32> <{picks}>")
        return b.op(f"bitcast {kind} {both} to {_WORDS}")

    def _larger(self, most: str, read: list[str]) -> str:
        """The largest of what there is and the bits of numbers without their signs."""
        b = self.b
        for bits in read:
            plain = b.op(f"and {_WORDS} {bits}, splat (i32 2147483647)")
            arguments = f"{_WORDS} {most}, {_WORDS} {plain}"
            most = b.op(f"call {_WORDS} @llvm.umax.v{LANES}i32({arguments})")
        return most

    def _load(self, at: str, live: str) -> str:
        """The first `live` of the words there; others are zero."""
        b = self.b
        if live == str(LANES):
            return b.op(f"load {_WORDS}, ptr {at}, align 4")
        mask = prefix_mask(b, LANES, live)
        given = f"ptr {at}, i32 4, {_BITS} {mask}, {_WORDS} zeroinitializer"
        return b.op(f"call {_WORDS} @llvm.masked.load.v{LANES}i32.p0({given})")
