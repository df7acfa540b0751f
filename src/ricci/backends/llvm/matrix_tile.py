"""Writes the function of a tile of sums in registers of matrices: see `matrix`.

Sums of float32 are those of runs, which are added to one another in memory. The processor has
nothing to do for vectors while it multiplies matrices, so the sums of a run wait in memory until
the next one, of the same tile or of the next, and are added a few after each product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from .builder import Builder
from .contraction_sides import element
from .contraction_space import minus, smin
from .matrix import COLUMNS, LANES, LINE_OF_MATRIX, MATRIX, ROWS, SUMS, MatrixTile

_VECTOR = f"<{LANES} x float>"
_PIECES = 4
"""Pieces of the sums that wait, at most, one of which is added in a step."""
_LEFT, _RESULT, _WAITING = range(3)
"""What there is of sums that wait: how many pieces are left, where they belong, and where they are.
"""


def write_tile(tile: MatrixTile) -> tuple[str, set[str]]:
    """The function that `MatrixTile.call` calls, and the declarations of what it uses."""
    writer = _Writer(tile)
    return writer.text(), writer.b.declarations


class _Writer:
    def __init__(self, tile: MatrixTile) -> None:
        self.tile, self.m = tile, tile.matrices
        parameters = (
            "ptr noalias readonly %a, ptr noalias readonly %b, i64 %n, ptr noalias %c, "
            "i64 %count, i1 %first"
        ) + "".join(f", i64 %n{level}" for level in range(tile.loops))
        self.b = Builder(tile.name, parameters, "internal void", "noinline")
        self.cells = [(n, j) for n in range(len(tile.heights)) for j in range(tile.vectors)]
        self.b_step = tile.b_row * LANES or self.m.columns * tile.vectors * MATRIX
        rows = tile.down
        self.piece = min(n for n in range(1, rows + 1) if rows % n == 0 and rows <= _PIECES * n)
        """Rows of a piece of sums."""

    def text(self) -> str:
        b, tile = self.b, self.tile
        if self.m.in_parts:
            self.waiting = b.reserve(f"alloca [{4 * MATRIX} x i8], align 64")
            self.state = b.reserve("alloca [3 x i64], align 8")
            self._set("i64", _LEFT, "0")
        with b.loop("0", "%count", carried=[("ptr", "%b"), ("ptr", "%c")]) as number:
            columns, c = number.values
            after = self._tile(columns, c)
            # only tiles without loops around their steps are side by side
            following = columns if tile.loops else after
            number.carry([following, element(b, "float", c, str(tile.c_next))])
        if self.m.in_parts:
            self._add_all()
        b.line("ret void")
        return b.text()

    def _tile(self, columns: str, c: str) -> str:
        """One tile; gives where the columns are after its steps."""
        b = self.b
        if self.m.in_parts:
            return self._runs(0, "%a", columns, c, "%first")
        arms = b.branches("%first")
        with arms.then():
            self._zero()
        with arms.other():
            self._move_sums("tileloadd64", c, 4 * self.tile.c_row)
        after = self._loops(0, "%a", columns)
        self._move_sums("tilestored64", c, 4 * self.tile.c_row)
        return after

    def _runs(self, level: int, a: str, columns: str, c: str, first: str) -> str:
        """The loops around runs, from a level on; gives where the columns are after the steps."""
        b = self.b
        if level < self.tile.runs:
            with self._turns(level, a, columns) as (index, a_here, b_here):
                begins = b.pure(f"icmp eq i64 {index}, 0", index)
                is_first = b.pure(f"and i1 {first}, {begins}", first, begins)
                return self._runs(level + 1, a_here, b_here, c, is_first)
        self._zero()
        after = self._loops(level, a, columns)
        self._add_all()
        arms = b.branches(first)
        with arms.then():
            self._move_sums("tilestored64", c, 4 * self.tile.c_row)
        with arms.other():
            self._move_sums("tilestored64", self.waiting, self._apart)
            self._set("i64", _LEFT, str(self.tile.down // self.piece))
            self._set("ptr", _RESULT, c)
            self._set("ptr", _WAITING, self.waiting)
        return after

    @property
    def _apart(self) -> int:
        """Bytes from one row of sums that wait to the next."""
        return LINE_OF_MATRIX * self.tile.vectors

    @contextmanager
    def _turns(self, level: int, a: str, columns: str) -> Iterator[tuple[str, str, str]]:
        """One of the loops around the steps: its index, and where rows and columns are."""
        steps = self.tile.rows.loops[level]
        with self.b.loop("0", f"%n{level}", carried=[("ptr", a), ("ptr", columns)]) as loop:
            here = loop.values
            yield loop.index, here[0], here[1]
            places = zip(here, steps, strict=True)
            loop.carry([element(self.b, "i8", place, str(step)) for place, step in places])

    def _loops(self, level: int, a: str, columns: str) -> str:
        """The loops from a level on, the last of which are the steps; gives where the columns are
        after these."""
        b = self.b
        if level < self.tile.loops:
            with self._turns(level, a, columns) as (_, a_here, b_here):
                return self._loops(level + 1, a_here, b_here)
        done = "0"
        if self.m.in_parts:
            left = self._get("i64", _LEFT)
            done = smin(b, "%n", left)
            places = [self._get("ptr", n) for n in (_RESULT, _WAITING)]
            given = [("ptr", p) for p in (a, columns, *places)]
            with b.loop("0", done, carried=given) as beside:
                a_here, b_here, *places = beside.values
                self._step(a_here, b_here, places)
                beside.carry([*self._next(a_here, b_here), *self._next_piece(places)])
            a, columns, *places = beside.results
            self._set("i64", _LEFT, minus(b, left, done))
            for n, place in zip((_RESULT, _WAITING), places, strict=True):
                self._set("ptr", n, place)
        with b.loop(done, "%n", carried=[("ptr", a), ("ptr", columns)]) as loop:
            a_here, b_here = loop.values
            self._step(a_here, b_here, [])
            loop.carry(self._next(a_here, b_here))
        return loop.results[1]

    def _next(self, a: str, columns: str) -> list[str]:
        """Where the rows and columns of the next step are."""
        b = self.b
        step = str(self.tile.rows.step)
        return [element(b, "i8", a, step), element(b, "i8", columns, str(self.b_step))]

    def _step(self, a: str, columns: str, places: list[str]) -> None:
        """All products of one step, and beside them a piece of the sums that wait."""
        b, tile, before = self.b, self.tile, (-1, -1)
        beside = self._beside(places)
        for part in self.m.products:
            if part[0] != before[0]:
                for n in range(len(tile.heights)):
                    offset = part[0] * tile.rows.part + n * tile.rows.second
                    self._move("tileloadd64", ROWS + n, a, offset, tile.rows.row)
            for j in range(tile.vectors):
                if part[1] != before[1]:
                    offset, apart = (part[1] * tile.vectors + j) * MATRIX, LINE_OF_MATRIX
                    if tile.b_row:
                        offset, apart = j * LINE_OF_MATRIX, tile.b_row
                    self._move("tileloadd64", COLUMNS + j, columns, offset, apart)
                for n in range(len(tile.heights)):
                    factors = f"i8 {self._sum((n, j))}, i8 {ROWS + n}, i8 {COLUMNS + j}"
                    b.line(f"call void @llvm.x86.{self.m.instruction}({factors})")
                    next(beside)
            before = part

    def _beside(self, places: list[str]) -> Iterator[None]:
        """What of a piece of sums is added after each product of a step."""
        count = len(self.m.products) * len(self.cells)
        rows = range(self.piece if places else 0)
        adds = [(row, j) for row in rows for j in range(self.tile.vectors)]
        for n, then in pairwise(range(count + 1)):
            for row, j in adds[len(adds) * n // count : len(adds) * then // count]:
                self._add(places, row, j)
            yield

    # -------------------------------------------------------------------- sums

    def _add(self, places: list[str], row: int, j: int) -> None:
        """Add a vector of sums that wait to those of the result."""
        b, offset = self.b, j * LINE_OF_MATRIX
        at = element(b, "i8", places[0], str(row * 4 * self.tile.c_row + offset))
        waiting = element(b, "i8", places[1], str(row * self._apart + offset))
        old = b.op(f"load {_VECTOR}, ptr {at}, align 4")
        new = b.op(f"load {_VECTOR}, ptr {waiting}, align 64")
        b.line(f"store {_VECTOR} {b.op(f'fadd {_VECTOR} {old}, {new}')}, ptr {at}, align 4")

    def _next_piece(self, places: list[str]) -> list[str]:
        rows = (4 * self.tile.c_row, self._apart)
        pairs = zip(places, rows, strict=True)
        return [element(self.b, "i8", place, str(row * self.piece)) for place, row in pairs]

    def _add_all(self) -> None:
        """Add the sums that still wait."""
        b = self.b
        given = [("ptr", self._get("ptr", n)) for n in (_RESULT, _WAITING)]
        with b.loop("0", self._get("i64", _LEFT), carried=given) as loop:
            for row in range(self.piece):
                for j in range(self.tile.vectors):
                    self._add(loop.values, row, j)
            loop.carry(self._next_piece(loop.values))
        self._set("i64", _LEFT, "0")

    def _get(self, type: str, number: int) -> str:
        return self.b.op(f"load {type}, ptr {element(self.b, 'i64', self.state, str(number))}")

    def _set(self, type: str, number: int, value: str) -> None:
        at = element(self.b, "i64", self.state, str(number))
        self.b.line(f"store {type} {value}, ptr {at}")

    def _zero(self) -> None:
        for cell in self.cells:
            self.b.line(f"call void @llvm.x86.tilezero(i8 {self._sum(cell)})")

    def _move_sums(self, how: str, at: str, apart: int) -> None:
        """Load the sums from rows so many bytes apart, or store them."""
        for cell in self.cells:
            offset = cell[0] * self.tile.heights[0] * apart + cell[1] * LINE_OF_MATRIX
            self._move(how, self._sum(cell), at, offset, apart)

    @staticmethod
    def _sum(cell: tuple[int, int]) -> int:
        return SUMS + 2 * cell[0] + cell[1]

    def _move(self, how: str, register: int, base: str, offset: int, apart: int) -> None:
        """Load a matrix, or store it."""
        at = element(self.b, "i8", base, str(offset))
        self.b.line(f"call void @llvm.x86.{how}(i8 {register}, ptr {at}, i64 {apart})")
