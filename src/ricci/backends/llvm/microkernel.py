"""The register tile of a contraction: a few broadcast rows times a few vectors.

    c[i][j] (+)= sum over k of  a[i * a_row + k * a_step] * b[k * b_step + j]

with `i < rows` and `j < vectors * lanes`: all accumulators stay in registers, in a loop over k.
A tile of few accumulators does two k in a turn, since the end of one costs about two cycles; larger
ones gain nothing from it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import DType
from .emit_types import scalar_type, some_lanes, tag, width, with_lanes
from .target import LINE
from .tile_step import PREFETCH, TileStep
from .words import HIGH_BITS, Words

_FEW = {64: 14}
"""Accumulators of a tile that does two k in a turn, at most, by the bytes of a vector: others have
as good as no registers left."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a register tile and where its operands are, in elements.

    Row `i` of the broadcast operand begins `i * a_row` on and moves by `a_step` per k; the vector
    operand moves by `b_step` per k, its vector `j` begins `j * lanes` on. Rows of the result are
    `c_row` apart. If `masked`, the last vector is read only where its lane is below `%live`.
    Elements are numbers, or `words` of several factors each. If `ahead`, the vectors so many
    elements on are brought near, too (if `far`, only to the second cache); and if `rows_ahead`,
    what is so many on from the rows.
    """

    dtype: DType
    lanes: int
    rows: int
    vectors: int
    a_row: int
    a_step: int
    b_step: int
    c_row: int
    masked: bool = False
    partial: bool = False
    words: Words | None = None
    ahead: int = 0
    rows_ahead: int = 0
    far: bool = False
    stored: int = 0
    """Of a partial tile, the lanes of the last vector that count, if that is known, and there are
    no fast stores under a mask."""

    @property
    def name(self) -> str:
        place = "" if self.c_row == self.vectors * self.lanes else f".{self.c_row}"
        part = f".partial{self.stored or ''}" if self.partial else ""
        kind = ".masked" * self.masked + part
        return f"kernel.tile.{self.rows}x{self.vectors}{place}{kind}"


def call_tile(tile: Tile, a: str, b: str, k: str, c: str, first: str, live: str = "0") -> str:
    """The call of a tile's function. The result replaces what `c` holds if `first`, else it is
    added to it; `k` may be zero."""
    return f"call void @{tile.name}(ptr {a}, ptr {b}, i64 {k}, ptr {c}, i1 {first}, i64 {live})"


def write_tile(tile: Tile) -> str:
    """The function of a tile, which `call_tile` calls."""
    return (_Writer if tile.words is None else _WordsWriter)(tile).text()


def declarations(tile: Tile) -> set[str]:
    """The intrinsics that a tile's function uses."""
    scalar = scalar_type(tile.dtype)
    v, name = with_lanes(scalar, tile.lanes), tag(scalar, tile.lanes)
    found = {f"declare {v} @llvm.fmuladd.{name}({v}, {v}, {v})", PREFETCH}
    if tile.words is not None:
        found = {tile.words.declaration(tile.lanes)}
    bits = with_lanes("i1", tile.lanes)
    if tile.masked:
        found.add(f"declare {v} @llvm.masked.load.{name}.p0(ptr, i32, {bits}, {v})")
    if tile.partial:
        found.add(f"declare void @llvm.masked.store.{name}.p0({v}, ptr, i32, {bits})")
    return found


class _Writer:
    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.scalar = scalar_type(tile.dtype)
        self.vector = with_lanes(self.scalar, tile.lanes)
        self.tag = tag(self.scalar, tile.lanes)
        self.align = width(tile.dtype)
        self.add = "fadd"
        self.lines: list[str] = []
        self.cells = [(i, j) for i in range(tile.rows) for j in range(tile.vectors)]
        self.pairs = len(self.cells) <= _FEW.get(tile.lanes * self.align, 4)
        places = tuple(i * tile.a_row for i in range(tile.rows))
        self.step = TileStep(
            tile.dtype, tile.lanes, places, tile.vectors, tile.lanes, tile.ahead, far=tile.far
        )

    def text(self) -> str:
        head = (
            f"define internal void @{self.tile.name}(ptr noalias readonly %a, ptr noalias readonly"
            " %b, i64 %n, ptr noalias %c, i1 %first, i64 %live) noinline {"
        )
        self._entry()
        self._loop()
        self._exit()
        return "\n".join([head, *self.lines, "}", ""])

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    def _entry(self) -> None:
        self._add("entry:")
        if self.tile.masked or (self.tile.partial and not self.tile.stored):
            self._mask()
        least = 1 if self.pairs else 0
        other = "rest" if self.pairs else "exit"
        self._add(f"%some = icmp sgt i64 %n, {least}", f"br i1 %some, label %loop, label %{other}")

    def _mask(self) -> None:
        n = self.tile.lanes
        steps = ", ".join(f"i64 {lane}" for lane in range(n))
        self._add(f"%live.i = insertelement <{n} x i64> poison, i64 %live, i64 0")
        self._add(
            f"%live.v = shufflevector <{n} x i64> %live.i, <{n} x i64> poison, "
            f"<{n} x i32> zeroinitializer"
        )
        self._add(f"%mask = icmp ult <{n} x i64> <{steps}>, %live.v")

    def _cell(self, name: str, i: int, j: int) -> str:
        offset = i * self.tile.c_row + j * self.tile.lanes
        return f"%{name} = getelementptr {self.scalar}, ptr %c, i64 {offset}"

    def _loop(self) -> None:
        t, s, v = self.tile, self.scalar, self.vector
        steps = 2 if self.pairs else 1
        self._add("loop:", "%k = phi i64 [ 0, %entry ], [ %k.next, %loop ]")
        self._add("%a.k = phi ptr [ %a, %entry ], [ %a.next, %loop ]")
        self._add("%b.k = phi ptr [ %b, %entry ], [ %b.next, %loop ]")
        names = [f"%c{n}" for n in range(len(self.cells))]
        at, sums = len(self.lines), names
        for k in range(steps):
            sums = self._step(str(k), "%a.k", "%b.k", sums, (k * t.a_step, k * t.b_step))
        self.lines[at:at] = [
            f"  {name} = phi {v} [ zeroinitializer, %entry ], [ {last}, %loop ]"
            for name, last in zip(names, sums, strict=True)
        ]
        self.sums = sums
        if t.rows_ahead:
            for k in range(steps):
                self._ask(k)
        self._add(f"%a.next = getelementptr {s}, ptr %a.k, i64 {steps * t.a_step}")
        self._add(f"%b.next = getelementptr {s}, ptr %b.k, i64 {steps * t.b_step}")
        self._add(f"%k.next = add nuw nsw i64 %k, {steps}")
        ahead = "%k.next" if steps == 1 else "%k.ahead"
        if self.pairs:
            self._add("%k.ahead = add nuw nsw i64 %k.next, 1")
        self._add(f"%more = icmp slt i64 {ahead}, %n")
        self._add(f"br i1 %more, label %loop, label %{'rest' if self.pairs else 'exit'}")
        if self.pairs:
            self._rest()

    def _ask(self, k: int) -> None:
        """Bring near what a later tile reads in place of the rows. Where each row is contiguous, it
        is a row at a time: all of them in turn, until the next lines of the cache begin."""
        t = self.tile
        at = "%a.k"
        if t.a_step == 1 and t.rows > 1:
            at = f"%ask{k}.r"
            self._add(
                f"%ask{k}.k = add nuw nsw i64 %k, {k}",
                f"%ask{k}.i = and i64 %ask{k}.k, {LINE // self.align - 1}",
                f"%ask{k}.o = mul nsw i64 %ask{k}.i, {t.a_row}",
                f"{at} = getelementptr {self.scalar}, ptr %a.k, i64 %ask{k}.o",
            )
        ahead = t.rows_ahead + k * t.a_step
        self._add(f"%ask{k}.p = getelementptr {self.scalar}, ptr {at}, i64 {ahead}")
        self._add(f"call void @llvm.prefetch.p0(ptr %ask{k}.p, i32 0, i32 2, i32 1)")

    def _rest(self) -> None:
        """The last k if their number is odd."""
        self._add("rest:")
        for x in ("a", "b"):
            self._add(f"%{x}.r = phi ptr [ %{x}, %entry ], [ %{x}.next, %loop ]")
        for n, last in enumerate(self.sums):
            self._add(f"%t{n} = phi {self.vector} [ zeroinitializer, %entry ], [ {last}, %loop ]")
        self._add("%odd = trunc i64 %n to i1", "br i1 %odd, label %one, label %exit", "one:")
        start = [f"%t{n}" for n in range(len(self.cells))]
        self.sums = self._step("r", "%a.r", "%b.r", start, (0, 0))
        self._add("br label %exit")

    def _step(
        self, name: str, a: str, b: str, sums: list[str], offsets: tuple[int, int]
    ) -> list[str]:
        lines, sums = self.step.lines(name, a, b, sums, offsets, self._load)
        self._add(*lines)
        return sums

    def _load(self, pointer: str, j: int) -> str:
        """The load of vector `j`."""
        if not self.tile.masked or j < self.tile.vectors - 1:
            return self.step.plain_load(pointer, j)
        v, bits = self.vector, with_lanes("i1", self.tile.lanes)
        return (
            f"call {v} @llvm.masked.load.{self.tag}.p0(ptr {pointer}, i32 {self.align}, "
            f"{bits} %mask, {v} zeroinitializer)"
        )

    def _sums(self) -> None:
        """The sums after the loop."""
        v = self.vector
        none, after = ("zeroinitializer, %entry", "loop")
        for n, last in enumerate(self.sums):
            if self.pairs:
                none, after = (f"%t{n}, %rest", "one")
            self._add(f"%x{n} = phi {v} [ {none} ], [ {last}, %{after} ]")

    def _exit(self) -> None:
        """The new sums, added to what there is: one by one, terms would lose more of their bits."""
        v, cells = self.vector, list(enumerate(self.cells))
        self._add("exit:")
        self._sums()
        for n, (i, j) in cells:
            self._add(self._cell(f"y{n}.p", i, j))
        self._add("br i1 %first, label %done, label %again", "again:")
        for n, _ in cells:
            self._add(f"%o{n} = load {v}, ptr %y{n}.p, align {self.align}")
            self._add(f"%s{n} = {self.add} {v} %x{n}, %o{n}")
        self._add("br label %done", "done:")
        for n, _ in cells:
            self._add(f"%y{n} = phi {v} [ %x{n}, %exit ], [ %s{n}, %again ]")
        for n, (_, j) in cells:
            self._store(f"%y{n}", self.tile.partial and j == self.tile.vectors - 1)
        self._add("ret void")

    def _store(self, value: str, partial: bool) -> None:
        v = self.vector
        if not partial:
            self._add(f"store {v} {value}, ptr {value}.p, align {self.align}")
            return
        stored = self.tile.stored
        if stored:
            part = some_lanes(self.scalar, self.tile.lanes, value, 0, stored)
            self._add(f"{value}.f = {part}")
            first = with_lanes(self.scalar, stored)
            self._add(f"store {first} {value}.f, ptr {value}.p, align {self.align}")
            return
        bits = with_lanes("i1", self.tile.lanes)
        self._add(
            f"call void @llvm.masked.store.{self.tag}.p0({v} {value}, ptr {value}.p, "
            f"i32 {self.align}, {bits} %mask)"
        )


class _WordsWriter(_Writer):
    """The tile of products of small integers, several in a word; see `words`."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(tile)
        assert tile.words is not None
        self.words = tile.words
        self.offset = tile.words if tile.words.offset else None
        self.pairs = False
        self.add = "add"

    def _loop(self) -> None:
        t, s = self.tile, self.scalar
        self._add("loop:", "%k = phi i64 [ 0, %entry ], [ %k.next, %loop ]")
        self._add("%a.k = phi ptr [ %a, %entry ], [ %a.next, %loop ]")
        self._add("%b.k = phi ptr [ %b, %entry ], [ %b.next, %loop ]")
        for n in range(len(self.cells)):
            self._add(f"%c{n} = phi {self.vector} [ zeroinitializer, %entry ], [ %d{n}, %loop ]")
        self.sums = [f"%d{n}" for n in range(len(self.cells))]
        if self.offset:
            for j in range(t.vectors):
                self._add(
                    f"%m{j} = phi {self.vector} [ zeroinitializer, %entry ], [ %e{j}, %loop ]"
                )
        if t.rows < t.vectors:  # what there are fewer of is kept, what there are more of passes by
            for i in range(t.rows):
                self._broadcast(i)
            for j in range(t.vectors):
                self._load_vector(j)
                for i in range(t.rows):
                    self._multiply_add(i, j)
        else:
            for j in range(t.vectors):
                self._load_vector(j)
            for i in range(t.rows):
                self._broadcast(i)
                for j in range(t.vectors):
                    self._multiply_add(i, j)
        self._add(f"%a.next = getelementptr {s}, ptr %a.k, i64 {t.a_step}")
        self._add(f"%b.next = getelementptr {s}, ptr %b.k, i64 {t.b_step}")
        self._add("%k.next = add nuw nsw i64 %k, 1", "%more = icmp slt i64 %k.next, %n")
        self._add("br i1 %more, label %loop, label %exit")

    def _load_vector(self, j: int) -> None:
        v = self.vector
        self._add(f"%b{j}.p = getelementptr {self.scalar}, ptr %b.k, i64 {j * self.tile.lanes}")
        if self.tile.masked and j == self.tile.vectors - 1:
            bits = with_lanes("i1", self.tile.lanes)
            self._add(
                f"%b{j} = call {v} @llvm.masked.load.{self.tag}.p0(ptr %b{j}.p, i32 {self.align}, "
                f"{bits} %mask, {v} zeroinitializer)"
            )
        else:
            self._add(f"%b{j} = load {v}, ptr %b{j}.p, align {self.align}")
        self._add(*self.words.ready(f"%b{j}", self.tile.lanes))
        if self.offset:
            self._add(
                *self.offset.add(
                    f"%e{j}", f"%m{j}", f"splat (i32 {HIGH_BITS})", f"%b{j}", self.tile.lanes
                )
            )

    def _broadcast(self, i: int) -> None:
        t, s, v = self.tile, self.scalar, self.vector
        self._add(f"%a{i}.p = getelementptr {s}, ptr %a.k, i64 {i * t.a_row}")
        self._add(f"%a{i}.s = load {s}, ptr %a{i}.p, align {self.align}")
        self._add(f"%a{i}.i = insertelement {v} poison, {s} %a{i}.s, i64 0")
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        self._add(f"%a{i} = shufflevector {v} %a{i}.i, {v} poison, {zeros}")
        self._add(*self.words.ready(f"%a{i}", t.lanes))

    def _multiply_add(self, i: int, j: int) -> None:
        n, lanes = i * self.tile.vectors + j, self.tile.lanes
        self._add(*self.words.add(f"%d{n}", f"%c{n}", f"%a{i}", f"%b{j}", lanes))

    def _sums(self) -> None:
        """The sums without what the offsets of factors add to them."""
        if self.offset is None:
            super()._sums()
            return
        v = self.vector
        for n in range(len(self.cells)):
            self._add(f"%w{n} = phi {v} [ zeroinitializer, %entry ], [ %d{n}, %loop ]")
        for j in range(self.tile.vectors):
            self._add(f"%f{j} = phi {v} [ zeroinitializer, %entry ], [ %e{j}, %loop ]")
        for n, (_, j) in enumerate(self.cells):
            self._add(f"%x{n} = sub {v} %w{n}, %f{j}")
