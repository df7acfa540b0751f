"""The multiply-adds of one step of a register tile: a few broadcast elements times a few vectors.

The order of instructions is fixed here; there are no fast-math flags, with which LLVM would break
the chains of multiply-adds apart.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import DType
from ...records import dataclass
from .emit_types import scalar_type, tag, width, with_lanes
from .target import LINE, Target
from .words import Words

PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
_AHEAD = 8 << 10
"""How many bytes ahead vectors are brought near: enough steps for the memory to answer, and few
enough for the first cache to keep them."""
_MOST_ROWS = 9
"""Rows of a tile that does several steps at once, at most."""

Load = Callable[[str, int], list[str]]
"""The instructions that load vector `j`, given its name, from the pointer of that name and `.p`."""


def ahead_of(step: int, dtype: DType) -> int:
    """How many elements ahead of a step those are that are brought near meanwhile, if there are so
    many from one step to the next."""
    return max(1, _AHEAD // (step * width(dtype))) * step


def vectors_ahead(step: int, dtype: DType, target: Target | None, elements: int) -> int:
    """The same of vectors that lie one behind the other, of so many elements in all; 0 if the
    processor looks ahead by itself, and has few places for lines on their way to the first cache:
    what is asked for twice takes two of them, and loads wait for one. Where vectors are done in
    halves there are enough, but what a core's caches hold takes a little longer if asked for."""
    if target is None or target.asks_beside:
        return ahead_of(step, dtype)
    far = elements * width(dtype) > target.l2
    return ahead_of(step, dtype) if far and target.halves else 0


def steps_in_turn(rows: int, vectors: int, target: Target | None) -> int:
    """How many steps a tile does at once, though it leaves hardly a register free. With short
    vectors the instructions around a step are no small part of all, and a core begins only so many
    in a cycle, fewer while its other thread is busy. (For other tiles and processors, LLVM moves
    loads of the next steps so far up that registers are missing.)"""
    if target is None or target.vector_bytes != 32 or target.sve:
        return 1
    return 4 if rows <= _MOST_ROWS and rows * vectors <= target.registers - 4 else 1


@dataclass(frozen=True, slots=True)
class TileStep:
    """Broadcast elements at `places`, times `vectors` vectors that are `apart`. If `ahead`, the
    vectors so many elements on are brought near, too: those of large operands come from far away,
    and processors do not look ahead beyond the end of a page: to the first cache, or, if `far`, to
    the second. Elements are numbers, or `words` of several factors each."""

    dtype: DType
    lanes: int
    places: tuple[int, ...]
    vectors: int
    apart: int
    ahead: int = 0
    words: Words | None = None
    far: bool = False

    @property
    def addition(self) -> str:
        """The instruction that adds sums."""
        return "fadd" if self.words is None else self.words.addition

    def declarations(self) -> set[str]:
        """The intrinsics that a step uses."""
        if self.words is not None:
            return {self.words.declaration(self.lanes), PREFETCH}
        scalar = scalar_type(self.dtype)
        v = with_lanes(scalar, self.lanes)
        return {f"declare {v} @llvm.fmuladd.{tag(scalar, self.lanes)}({v}, {v}, {v})", PREFETCH}

    @property
    def rows(self) -> int:
        return len(self.places)

    def lines(
        self, name: str, a: str, v: str, sums: list[str], offsets: tuple[int, int], load: Load
    ) -> tuple[list[str], list[str]]:
        """The instructions, and the new sums; `name` sets their names apart from other steps', and
        the operands are read `offsets` elements on from `a` and `v`."""
        writer = _Writer(self, name, a, v, sums, offsets, load, [])
        if self.rows < self.vectors:  # the fewer are kept, the more pass by
            for i in range(self.rows):
                writer.broadcast(i)
            for j in range(self.vectors):
                writer.vector(j)
                for i in range(self.rows):
                    writer.multiply_add(i, j)
        else:
            for j in range(self.vectors):
                writer.vector(j)
            for i in range(self.rows):
                writer.broadcast(i)
                for j in range(self.vectors):
                    writer.multiply_add(i, j)
        return writer.out, [f"%d{name}.{n}" for n in range(len(sums))]

    def plain_load(self, name: str, j: int) -> list[str]:
        """A load of a whole vector."""
        full = with_lanes(scalar_type(self.dtype), self.lanes)
        return [f"{name} = load {full}, ptr {name}.p, align {width(self.dtype)}"]


@dataclass(frozen=True, slots=True)
class _Writer:
    step: TileStep
    name: str
    a: str
    v: str
    sums: list[str]
    offsets: tuple[int, int]
    load: Load
    out: list[str]

    def vector(self, j: int) -> None:
        t, name = self.step, f"%b{self.name}.{j}"
        offset = self.offsets[1] + j * t.apart
        self.out.append(
            f"{name}.p = getelementptr {scalar_type(t.dtype)}, ptr {self.v}, i64 {offset}"
        )
        self.out.extend(self.load(name, j))
        self.ready(name)
        if t.ahead and j * t.apart * width(t.dtype) % LINE == 0:
            step = f"{scalar_type(t.dtype)}, ptr {name}.p, i64 {t.ahead}"
            self.out.append(f"{name}.f = getelementptr {step}")
            near = 2 if t.far else 3
            self.out.append(f"call void @llvm.prefetch.p0(ptr {name}.f, i32 0, i32 {near}, i32 1)")

    def broadcast(self, i: int) -> None:
        t, name = self.step, f"%a{self.name}.{i}"
        s = scalar_type(t.dtype)
        v = with_lanes(s, t.lanes)
        offset = self.offsets[0] + t.places[i]
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        self.out.extend(
            [
                f"{name}.p = getelementptr {s}, ptr {self.a}, i64 {offset}",
                f"{name}.s = load {s}, ptr {name}.p, align {width(t.dtype)}",
                f"{name}.i = insertelement {v} poison, {s} {name}.s, i64 0",
                f"{name} = shufflevector {v} {name}.i, {v} poison, {zeros}",
            ]
        )
        self.ready(name)

    def ready(self, name: str) -> None:
        if self.step.words is not None:
            self.out.extend(self.step.words.ready(name, self.step.lanes))

    def multiply_add(self, i: int, j: int) -> None:
        t, n = self.step, i * self.step.vectors + j
        result, a, b = f"%d{self.name}.{n}", f"%a{self.name}.{i}", f"%b{self.name}.{j}"
        if t.words is not None:
            self.out.extend(t.words.add(result, self.sums[n], a, b, t.lanes))
            return
        s = scalar_type(t.dtype)
        v = with_lanes(s, t.lanes)
        operands = f"{v} {a}, {v} {b}, {v} {self.sums[n]}"
        self.out.append(f"{result} = call {v} @llvm.fmuladd.{tag(s, t.lanes)}({operands})")
