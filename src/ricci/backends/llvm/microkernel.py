"""The register tile of a contraction: a few broadcast rows times a few vectors.

    c[i][j] (+)= sum over k of  a[i * a_row + k * a_step] * b[k * b_step + j]

with `i < rows` and `j < vectors * lanes`: all accumulators stay in registers, in a loop over k. A
tile of few accumulators does two k in a turn, since the end of one costs about two cycles; others
as many as the processor gains by (`tile_step.steps_in_turn`).
"""

from __future__ import annotations

from ...dtypes import DType
from ...records import dataclass
from .emit_types import scalar_type, some_lanes, tag, width, with_lanes, with_zeros
from .target import LINE
from .tile_step import PREFETCH, TileStep
from .words import HIGH_BITS, Words

IN_TURN = {64: 14}
"""Accumulators of a tile that does two k in a turn, at most, by the bytes of a vector: others have
as good as no registers left."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a register tile and where its operands are, in elements.

    Row `i` of the broadcast operand begins `i * a_row` on and moves by `a_step` per k; the vector
    operand moves by `b_step` per k, its vector `j` begins `j * lanes` on. Rows of the result are
    `c_row` apart. If `masked`, the last vector is read only where its lane is below `%live`.
    Elements are numbers, or `words` of several factors each. If `ahead`, the vectors so many
    elements on are brought near, too (if `far`, only to the second cache); if `rows_ahead`, what is
    so many on from the rows; and if `beside`, so many lines of the cache, side by side, which
    others need, `every` so many steps: to the second. Those that are next are `%by` bytes on.
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
    read: int = 0
    """The same of a masked tile, where there are no fast loads under a mask."""
    turn: int = 1
    """How many k are done in a turn, at least; those of words are done one by one."""
    beside: int = 0
    every: int = 1
    """A divisor of what is done in a turn; steps that are left over ask each."""
    run: int = 0
    """How many terms are added up one by one at most before the sum of them is put to the result,
    if there may be more."""

    @property
    def name(self) -> str:
        place = "" if self.c_row == self.vectors * self.lanes else f".{self.c_row}"
        place += f".of{self.a_step}" * (self.rows == 1 < self.a_step)  # of panels of any height
        place += "" if self.b_step == self.vectors * self.lanes else f".by{self.b_step}"
        part = f".partial{self.stored or ''}" if self.partial else ""
        masked = f".masked{self.read or ''}" if self.masked else ""
        kind = masked + part + f".beside{self.beside}.{self.every}" * bool(self.beside)
        kind += f".run{self.run}" * bool(self.run)
        return f"kernel.tile.{self.rows}x{self.vectors}{place}{kind}"


def steps_at_once(sums: int, bytes_of: int, turn: int, words: Words | None) -> int:
    """How many k a tile of so many accumulators of so many bytes does in a turn, if it is to do
    `turn` at least; of words at most."""
    if words is not None:
        return min(turn, words.in_turn)
    return max(turn, 2 if sums <= IN_TURN.get(bytes_of, 4) else 1)


def call_tile(
    tile: Tile,
    a: str,
    b: str,
    k: str,
    c: str,
    first: str,
    live: str = "0",
    beside: tuple[str, str] = ("", "0"),
) -> str:
    """The call of a tile's function. The result replaces what `c` holds if `first`, else it is
    added to it; `k` may be zero. Lines are asked for `beside`: from where on, and how many bytes
    those that are next are from those before."""
    more = f", ptr {beside[0]}, i64 {beside[1]}" * bool(tile.beside)
    arguments = f"ptr {a}, ptr {b}, i64 {k}, ptr {c}, i1 {first}, i64 {live}{more}"
    return f"call void @{tile.name}({arguments})"


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
    if tile.run:
        found.add("declare i64 @llvm.smin.i64(i64, i64)")
    bits = with_lanes("i1", tile.lanes)
    if tile.masked or (tile.partial and tile.run):
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
        self.before = "entry"
        """The block before the loops."""
        self.cells = [(i, j) for i in range(tile.rows) for j in range(tile.vectors)]
        self.count = len(self.cells)
        """How many sums there are."""
        bytes_of = tile.lanes * self.align
        self.turn = steps_at_once(self.count, bytes_of, tile.turn, tile.words)
        self.moving: dict[str, int | str] = {"a": tile.a_step, "b": tile.b_step}
        """How far each pointer moves in a step, elements, or when lines are asked for, bytes that
        the caller says."""
        if tile.beside:
            self.moving["e"] = "%by"
        places = tuple(i * tile.a_row for i in range(tile.rows))
        self.step = TileStep(
            tile.dtype, tile.lanes, places, tile.vectors, tile.lanes, tile.ahead, far=tile.far
        )

    def text(self) -> str:
        all_of = ".all" * bool(self.tile.run)
        more = f", ptr %e{all_of}, i64 %by" * bool(self.tile.beside)
        head = (
            f"define internal void @{self.tile.name}(ptr noalias readonly %a{all_of}, ptr noalias "
            f"readonly %b{all_of}, i64 %n{all_of}, ptr noalias %c, i1 %first{all_of}, i64 %live"
            f"{more}) noinline {{"
        )
        self._entry()
        self._loops()
        self._exit()
        return "\n".join([head, *self.lines, "}", ""])

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    def _entry(self) -> None:
        self._add("entry:")
        t = self.tile
        if (t.masked and not t.read) or (t.partial and not t.stored):
            self._mask()
        if self.tile.run:
            self._begin_run()

    def _begin_run(self) -> None:
        """Some of the terms, `%n`; others are left for the next run."""
        self.before = "run"
        self._add("br label %run", "run:")
        self._add("%left = phi i64 [ %n.all, %entry ], [ %left.later, %done ]")
        for name in self.moving:
            self._add(f"%{name} = phi ptr [ %{name}.all, %entry ], [ %{name}.later, %done ]")
        self._add("%first = phi i1 [ %first.all, %entry ], [ false, %done ]")
        self._add(f"%n = call i64 @llvm.smin.i64(i64 %left, i64 {self.tile.run})")

    def _move(self, name: str, later: str, steps: int) -> None:
        """Where a pointer is so many steps later."""
        step = self.moving[name.rsplit(".", maxsplit=1)[-1]]
        if isinstance(step, str):
            every = self.tile.every
            asked = steps // every + steps % every
            self._add(f"%{later}.by = mul nsw i64 {step}, {asked}")
            self._add(f"%{later} = getelementptr i8, ptr %{name}, i64 %{later}.by")
        else:
            self._add(f"%{later} = getelementptr {self.scalar}, ptr %{name}, i64 {steps * step}")

    def _next_run(self) -> None:
        """The terms that are left, if there are any."""
        t = self.tile
        self._add(f"%left.later = sub nsw i64 %left, {t.run}")
        for name in self.moving:
            self._move(name, f"{name}.later", t.run)
        self._add("%again = icmp sgt i64 %left.later, 0")
        self._add("br i1 %again, label %run, label %return", "return:")

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

    def _loops(self) -> None:
        """The loop over k, several in a turn, and one over those that are left; the sums are `%x`
        in the end."""
        whole = self._loop("k", self.before, ("0", "%"), None, self.turn)
        if self.turn > 1:
            self._loop("r", "k.end", ("%k.end.n", "%k.end."), whole, 1)

    def _loop(
        self, x: str, before: str, start: tuple[str, str], sums: list[str] | None, turn: int
    ) -> list[str]:
        """A loop with so many k in a turn, while there are so many, which begins with a number of
        k, pointers of a name, and sums (none: zeros); what it leaves, in the block behind it: the
        sums, `n` and the pointers."""
        t = self.tile
        zeros = ["zeroinitializer"] * self.count
        old = [f"%{x}.c{n}" for n in range(self.count)]
        most = "%n" if turn == 1 else f"%{x}.most"
        if turn > 1:
            self._add(f"{most} = sub i64 %n, {turn - 1}")
        self._add(f"%{x}.some = icmp slt i64 {start[0]}, {most}")
        self._add(f"br i1 %{x}.some, label %{x}, label %{x}.end", f"{x}:")
        kinds = [("n", "i64", start[0]), *((p, "ptr", f"{start[1]}{p}") for p in self.moving)]
        for name, kind, first in kinds:
            after = f"[ %{x}.{name}.next, %{x} ]"
            self._add(f"%{x}.{name} = phi {kind} [ {first}, %{before} ], {after}")
        at, new = len(self.lines), old
        for k in range(turn):
            offsets = (k * t.a_step, k * t.b_step)
            new = self._step(f"{x}{k}", f"%{x}.a", f"%{x}.b", new, offsets)
        self.lines[at:at] = [
            f"  {own} = phi {self.vector} [ {first}, %{before} ], [ {last}, %{x} ]"
            for own, first, last in zip(old, sums or zeros, new, strict=True)
        ]
        if t.rows_ahead and x == "k":
            self._ask(turn)
        if t.beside:
            self._ask_beside(x, turn)
        for name in self.moving:
            self._move(f"{x}.{name}", f"{x}.{name}.next", turn)
        self._add(f"%{x}.n.next = add nuw nsw i64 %{x}.n, {turn}")
        self._add(f"%{x}.more = icmp slt i64 %{x}.n.next, {most}")
        self._add(f"br i1 %{x}.more, label %{x}, label %{x}.end", f"{x}.end:")
        is_last = turn == 1
        if not is_last:
            for name, kind, first in kinds:
                after = f"[ %{x}.{name}.next, %{x} ]"
                self._add(f"%{x}.end.{name} = phi {kind} [ {first}, %{before} ], {after}")
        left = [f"%x{n}" if is_last else f"%{x}.end.c{n}" for n in range(self.count)]
        for own, first, last in zip(left, sums or zeros, new, strict=True):
            self._add(f"{own} = phi {self.vector} [ {first}, %{before} ], [ {last}, %{x} ]")
        return left

    def _ask(self, turn: int) -> None:
        """Bring near what a later tile reads in place of the rows, no line twice in a turn. Where
        each row is contiguous, it is a few rows in a turn: all of them, until the next lines of the
        cache begin. Rows side by side, between those of other tiles, are on a line or two."""
        t, line = self.tile, LINE // self.align
        if t.a_row == 1 and t.a_step > t.rows:
            for n in range(2 * turn):
                at = n // 2 * t.a_step + n % 2 * (t.rows - 1)
                self._ask_at(n, "%k.a", t.rows_ahead + at, near=3)
            return
        if t.a_step != 1 or t.rows == 1 or line % turn:
            for n, at in enumerate(range(0, turn * t.a_step, line)):
                self._ask_at(n, "%k.a", t.rows_ahead + at)
            return
        rows = -(-t.rows * turn // line)
        self._add(
            f"%ask.k = and i64 %k.n, {line - turn}",
            f"%ask.t = udiv exact i64 %ask.k, {turn}",
            f"%ask.o = mul nsw i64 %ask.t, {rows * t.a_row}",
            f"%ask.a = getelementptr {self.scalar}, ptr %k.a, i64 %ask.o",
        )
        for row in range(rows):
            self._ask_at(row, "%ask.a", t.rows_ahead + row * t.a_row)

    def _ask_beside(self, x: str, turn: int) -> None:
        """Bring near what others need."""
        at = f"%{x}.e"
        for k in range(0, turn, self.tile.every):
            if k:
                self._move(f"{x}.e", f"{x}.e.{k}", k)
                at = f"%{x}.e.{k}"
            for line in range(self.tile.beside):
                name = f"%{x}.e.{k}.{line}"
                self._add(f"{name} = getelementptr i8, ptr {at}, i64 {line * LINE}")
                self._add(f"call void @llvm.prefetch.p0(ptr {name}, i32 0, i32 2, i32 1)")

    def _ask_at(self, number: int, at: str, ahead: int, near: int = 2) -> None:
        self._add(f"%ask{number}.p = getelementptr {self.scalar}, ptr {at}, i64 {ahead}")
        self._add(f"call void @llvm.prefetch.p0(ptr %ask{number}.p, i32 0, i32 {near}, i32 1)")

    def _step(
        self, name: str, a: str, b: str, sums: list[str], offsets: tuple[int, int]
    ) -> list[str]:
        lines, sums = self.step.lines(name, a, b, sums, offsets, self._load)
        self._add(*lines)
        return sums

    def _load(self, name: str, j: int) -> list[str]:
        """The load of vector `j`."""
        if not self.tile.masked or j < self.tile.vectors - 1:
            return self.step.plain_load(name, j)
        if self.tile.read:
            return self._first_lanes(name, self.tile.read)
        v, bits = self.vector, with_lanes("i1", self.tile.lanes)
        return [
            f"{name} = call {v} @llvm.masked.load.{self.tag}.p0(ptr {name}.p, i32 {self.align}, "
            f"{bits} %mask, {v} zeroinitializer)"
        ]

    def _first_lanes(self, name: str, count: int) -> list[str]:
        """The load of so many elements; zeros are in the other lanes."""
        first = with_lanes(self.scalar, count)
        return [
            f"{name}.some = load {first}, ptr {name}.p, align {self.align}",
            f"{name} = {with_zeros(self.scalar, self.tile.lanes, f'{name}.some', count)}",
        ]

    def _sums(self) -> list[str]:
        """The sums after the loops."""
        return [f"%x{n}" for n in range(self.count)]

    def _exit(self) -> None:
        """The new sums, added to what there is: one by one, terms would lose more of their bits."""
        v, cells, sums = self.vector, list(enumerate(self.cells)), self._sums()
        for n, (i, j) in cells:
            self._add(self._cell(f"y{n}.p", i, j))
        self._add("br label %exit", "exit:", "br i1 %first, label %done, label %more", "more:")
        for n, (_, j) in cells:
            self._load_sum(n, self.tile.partial and j == self.tile.vectors - 1)
            self._add(f"%s{n} = {self.add} {v} {sums[n]}, %o{n}")
        self._add("br label %done", "done:")
        for n, _ in cells:
            self._add(f"%y{n} = phi {v} [ {sums[n]}, %exit ], [ %s{n}, %more ]")
        for n, (_, j) in cells:
            self._store(f"%y{n}", self.tile.partial and j == self.tile.vectors - 1)
        if self.tile.run:
            self._next_run()
        self._add("ret void")

    def _load_sum(self, n: int, partial: bool) -> None:
        """What there is where the sum of a cell is to be stored, `%o`."""
        v, where = self.vector, f"ptr %y{n}.p"
        if not partial:
            self._add(f"%o{n} = load {v}, {where}, align {self.align}")
        elif self.tile.stored:
            self._add(f"%o{n}.p = getelementptr i8, {where}, i64 0")
            self._add(*self._first_lanes(f"%o{n}", self.tile.stored))
        else:
            bits = with_lanes("i1", self.tile.lanes)
            self._add(
                f"%o{n} = call {v} @llvm.masked.load.{self.tag}.p0({where}, i32 {self.align}, "
                f"{bits} %mask, {v} zeroinitializer)"
            )

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
    """The tile of products of narrow numbers, several in a word; see `words`. Behind the sums of
    cells are those that offsets of factors add to them, of each vector."""

    def __init__(self, tile: Tile) -> None:
        super().__init__(tile)
        assert tile.words is not None
        self.words = tile.words
        self.offset = tile.words if tile.words.offset else None
        self.count += tile.vectors * bool(self.offset)
        self.add = self.words.addition

    def _step(
        self, name: str, a: str, b: str, sums: list[str], offsets: tuple[int, int]
    ) -> list[str]:
        t = self.tile
        at = (f"{self.scalar}, ptr {a}", f"{self.scalar}, ptr {b}")
        if t.rows < t.vectors:  # what there are fewer of is kept, what there are more of passes by
            for i in range(t.rows):
                self._broadcast(name, at[0], offsets[0], i)
            for j in range(t.vectors):
                self._load_vector(name, at[1], offsets[1], j, sums)
                for i in range(t.rows):
                    self._multiply_add(name, sums, i, j)
        else:
            for j in range(t.vectors):
                self._load_vector(name, at[1], offsets[1], j, sums)
            for i in range(t.rows):
                self._broadcast(name, at[0], offsets[0], i)
                for j in range(t.vectors):
                    self._multiply_add(name, sums, i, j)
        return [f"%{name}.d{n}" for n in range(self.count)]

    def _load_vector(self, name: str, at: str, offset: int, j: int, sums: list[str]) -> None:
        t, own = self.tile, f"%{name}.b{j}"
        self._add(f"{own}.p = getelementptr {at}, i64 {offset + j * t.lanes}")
        self._add(*self._load(own, j))
        self._add(*self.words.ready(own, t.lanes))
        if self.offset:
            n = len(self.cells) + j
            self._add(
                *self.offset.add(f"%{name}.d{n}", sums[n], f"splat (i32 {HIGH_BITS})", own, t.lanes)
            )

    def _broadcast(self, name: str, at: str, offset: int, i: int) -> None:
        t, s, v, own = self.tile, self.scalar, self.vector, f"%{name}.a{i}"
        self._add(f"{own}.p = getelementptr {at}, i64 {offset + i * t.a_row}")
        self._add(f"{own}.s = load {s}, ptr {own}.p, align {self.align}")
        self._add(f"{own}.i = insertelement {v} poison, {s} {own}.s, i64 0")
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        self._add(f"{own} = shufflevector {v} {own}.i, {v} poison, {zeros}")
        self._add(*self.words.ready(own, t.lanes))

    def _multiply_add(self, name: str, sums: list[str], i: int, j: int) -> None:
        n = i * self.tile.vectors + j
        factors = f"%{name}.a{i}", f"%{name}.b{j}"
        self._add(*self.words.add(f"%{name}.d{n}", sums[n], *factors, self.tile.lanes))

    def _sums(self) -> list[str]:
        """The sums without what the offsets of factors add to them."""
        if self.offset is None:
            return super()._sums()
        for n, (_, j) in enumerate(self.cells):
            self._add(f"%w{n} = sub {self.vector} %x{n}, %x{len(self.cells) + j}")
        return [f"%w{n}" for n in range(len(self.cells))]
