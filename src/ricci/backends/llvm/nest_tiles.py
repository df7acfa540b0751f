"""Loops of which several steps are done at once, and blocks of rows: whole tiles of them.

A block that ends within a tile would do the rest of its rows one by one, each of which waits for
its own sums: seven blocks of seven rows took three times as long as six tiles of eight and a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...records import dataclass
from . import counts
from .builder import Builder
from .sizes import Size

Bound = counts.Count


@dataclass(frozen=True, slots=True)
class Tiles:
    """Tiles of so many `rows` from the row `low` on, to `high`; all rows are `extent`."""

    low: int
    high: int
    extent: int
    rows: int

    @property
    def count(self) -> int:
        """How many there are; one at least, so that somebody does the rows before and after."""
        return max((self.high - self.low) // self.rows, 1)

    @property
    def left(self) -> int:
        """Rows that are left behind the last."""
        return max(self.high - self.low, 0) % self.rows

    def begin(self, b: Builder, tile: str) -> str:
        """Where a block begins that begins with a tile, the number of all standing for the end: the
        rows before go with the first tile, and those behind with the last."""
        at = b.pure(f"mul nuw nsw i64 {tile}, {self.rows}", tile)
        at = b.pure(f"add nuw nsw i64 {at}, {self.low}", at)
        for number, end in ((0, 0), (self.count, self.extent)):
            is_end = b.pure(f"icmp eq i64 {tile}, {number}", tile)
            at = b.pure(f"select i1 {is_end}, i64 {end}, i64 {at}", is_end, at)
        return at


def tiles_of(extent: Size, inside: tuple[Size, Size], rows: int) -> Tiles | None:
    """The tiles of the rows inside; None if there are none, or sizes are not known."""
    low, high = inside
    if rows > 1 and isinstance(extent, int) and isinstance(low, int) and isinstance(high, int):
        return Tiles(low, high, extent, rows)
    return None


def beside_borders(first: int, last: int, blocks: int, vectors: int) -> tuple[int, int]:
    """How many of a row's vectors inside, from `first` to `last`, are done in a tile with the one
    on the border before them, and with that behind them: so many as would else be left over, and
    be done by themselves with few sums, which wait for one another; none if that are too many."""
    left_over = (last - first) % vectors
    room = [vectors - 1 if count == 1 else 0 for count in (first, blocks - last)]
    if not 0 < left_over <= sum(room):
        return 0, 0
    left = min(left_over, room[0])
    return left, left_over - left


def steps_of(
    b: Builder, first: Bound, last: Bound, count: int, left: int | None = None
) -> Iterator[tuple[Bound, int]]:
    """Loops from `first` to `last`, by `count` and then by one; few steps are written out. If
    `left` is given, so many are left, or none, and done at once."""
    if isinstance(first, int) and isinstance(last, int):
        whole = first + (last - first) // count * count
        if whole == first + count:
            yield first, count
        elif whole > first:
            with b.loop(first, whole, count) as loop:
                yield loop.index, count
        if left:
            yield whole, left
        else:
            yield from _singles(b, whole, last, count)
        return
    if count == 1:
        with b.loop(first, last) as loop:
            yield loop.index, 1
        return
    size = b.pure(f"sub i64 {last}, {first}", str(last), str(first))
    rest = b.pure(f"srem i64 {size}, {count}", size)
    rest = str(counts.most(b, rest, 0))
    middle = b.pure(f"sub i64 {last}, {rest}", str(last), rest)
    with b.loop(first, middle, count) as loop:
        yield loop.index, count
    if left is not None:
        if left:
            with b.when(b.op(f"icmp ne i64 {rest}, 0")):
                yield middle, left
        return
    start = counts.most(b, middle, first)
    with b.loop(start, last) as loop:
        yield loop.index, 1


def _singles(b: Builder, first: int, last: int, count: int) -> Iterator[tuple[Bound, int]]:
    if last - first == 1 or (count > 1 and last - first == 2):
        for n in range(first, last):
            yield n, 1
    elif last > first:
        with b.loop(first, last) as loop:
            yield loop.index, 1
