"""A register tile with several loops over k, each with its own steps.

c[i][j] (+)= sum over k0, k1, ... of  a[places[i] + k0 * a0 + k1 * a1 ..] * v[k0 * v0 .. + j]

A tile that leaves registers free does several steps of its innermost loop at once: the end of a
step costs about two cycles, which a few multiply-adds do not hide. Where these cycles count
(`tile_step.steps_in_turn`) others do so, too: then each step reads its own elements. Long
sums are cut in stretches that are added up in memory: a sum of many terms one by one loses more
bits.
"""

from __future__ import annotations

import math
from dataclasses import field

from ...dtypes import DType
from ...records import dataclass
from .emit_types import scalar_type, width, with_lanes
from .tile_step import TileStep
from .words import Words

Loops = tuple[tuple[int, int, int], ...]
"""Extents of loops over k and the steps of both operands, the outermost first."""

STRETCH = 150
"""Terms that are added one by one, about: three times seven by seven."""
_MOST_ALONE = 128
"""The same of sums that are one stretch, whose errors none of others make up for, where registers
are for tiles so large that the end of a stretch hardly counts."""
_APART = 'call void asm sideeffect "", "~{memory}"()'
"""No instruction; but what is in memory may be another afterwards, so each step reads its own
elements. (They are arguments that nobody writes to: passes that look at that are not run.)"""
_AT_ONCE = 8
"""Steps of a loop that are done at once, at most, if they are all of it: with more, LLVM does not
keep sums in registers."""


@dataclass(frozen=True, slots=True)
class WindowTile:
    """The shape of a tile: rows of the broadcast operand are at `places`, those of the result
    `c_row` apart, vectors `apart`. `label` tells tiles of a kernel apart that have as many rows
    and vectors."""

    dtype: DType
    lanes: int
    places: tuple[int, ...]
    vectors: int
    apart: int
    loops: Loops
    c_row: int
    registers: int
    label: str = ""
    ahead: int = 0
    """How far ahead vectors are brought near."""
    words: Words | None = None
    """How elements are multiplied that hold several factors each."""
    turn: int = 1
    """If more than one, so many steps or some others are done at once though all registers are
    used."""

    @property
    def unrolled(self) -> int:
        """How many steps of the innermost loop are done at once. Where that is because registers
        are left, steps share elements of the broadcast operand, which stay there."""
        extent = self.loops[-1][0]
        if len(self.loops) == 1:
            return 1
        if self.in_turns and extent <= _AT_ONCE:
            return extent
        held = (len(self.places) + 2) * (self.vectors + 1) - 2
        most = 5 if self.in_turns else self.turn
        for steps in (5, 4, 3, 2):
            if extent % steps == 0 and (steps <= most or held + steps <= self.registers):
                return steps
        return self.turn if self.in_turns else 1

    @property
    def in_turns(self) -> bool:
        """Whether steps are done at once however many registers are left."""
        return self.words is None and self.turn > 1

    @property
    def is_apart(self) -> bool:
        """Whether LLVM is to keep such steps apart: it would spill sums where one reads elements
        that another has read, and where steps are left over behind the loop."""
        extent, a_step, _ = self.loops[-1]
        read = {p + k * a_step for p in self.places for k in range(self.unrolled)}
        meets = len(read) < len(self.places) * self.unrolled
        return self.in_turns and (meets or extent % self.unrolled > 0)

    @property
    def stretches(self) -> int:
        """How many of the outer loops are around a stretch of terms; 0 if it is all of them."""
        if self.words is not None:
            return 0  # integers lose nothing
        alone = math.prod(extent for extent, _, _ in self.loops) <= STRETCH
        most = _MOST_ALONE if alone and self.registers > 16 else STRETCH
        terms = 1
        for position in range(len(self.loops) - 1, 0, -1):
            terms *= self.loops[position][0]
            if terms * self.loops[position - 1][0] > most:
                return position
        return 0

    @property
    def name(self) -> str:
        return f"kernel.window.{len(self.places)}x{self.vectors}{self.label}"

    def call(self, a: str, v: str, c: str, count: str, first: str) -> str:
        """The call, with so many turns of the first loop; the result replaces what `c` holds if
        `first`, else it is added to it."""
        return f"call void @{self.name}(ptr {a}, ptr {v}, ptr {c}, i64 {count}, i1 {first})"

    def declarations(self) -> set[str]:
        """The intrinsics that the function uses."""
        return self.step.declarations()

    @property
    def step(self) -> TileStep:
        """A step of the innermost loop."""
        return TileStep(
            self.dtype, self.lanes, self.places, self.vectors, self.apart, self.ahead, self.words
        )

    def text(self) -> str:
        return _Writer(self).text()


def cut_loops(loops: Loops) -> Loops:
    """The loops with the innermost cut in stretches, if it is long and there are equal ones."""
    extent, a, v = loops[-1]
    for pieces in range(2, extent // 64):
        if extent // pieces > STRETCH or extent % pieces:
            continue
        length = extent // pieces
        return (*loops[:-1], (pieces, a * length, v * length), (length, a, v))
    return loops


@dataclass
class _Writer:
    tile: WindowTile
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        t = self.tile
        self.scalar = scalar_type(t.dtype)
        self.vector = with_lanes(self.scalar, t.lanes)
        self.align = width(t.dtype)
        self.cells = [(i, j) for i in range(len(t.places)) for j in range(t.vectors)]
        self.step = t.step
        self.stretches = t.stretches
        self.is_apart = t.is_apart

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    def text(self) -> str:
        head = (
            f"define internal void @{self.tile.name}(ptr noalias readonly %a, ptr noalias readonly"
            " %v, ptr noalias %c, i64 %count, i1 %first) noinline {"
        )
        self._add("entry:")
        self._outside(0, "entry", "%a", "%v", "%first")
        self._add("ret void")
        return "\n".join([head, *self.lines, "}", ""])

    def _outside(self, level: int, before: str, a: str, v: str, first: str) -> None:
        """The loops around stretches; the sums of a stretch are the `first` to be stored, or added
        to others."""
        if level == self.stretches:
            self._add("br label %within", "within:")
            zeros = ["zeroinitializer"] * len(self.cells)
            self._finish(self._loop(level, "within", a, v, zeros), level, first)
            return
        n, (extent, a_step, v_step) = level, self.tile.loops[level]
        end = str(extent) if level else "%count"
        self._enter(n, before, a, v)
        self._add(f"%z{n} = icmp eq i64 %k{n}, 0", f"%first{n} = and i1 {first}, %z{n}")
        self._outside(level + 1, f"l{n}", f"%a{n}", f"%v{n}", f"%first{n}")
        self._add(f"br label %e{n}", f"e{n}:")
        self._leave(n, a_step, v_step, 1, end, f"x{n}")

    def _finish(self, sums: list[str], level: int, first: str) -> None:
        """Store the sums; what is there already is added last, so that chains of sums are short."""
        self._add(f"br i1 {first}, label %done, label %more", "more:")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"o{n}.p", i, j))
            self._add(f"%o{n} = load {self.vector}, ptr %o{n}.p, align {self.align}")
            self._add(f"%f{n} = {self.step.addition} {self.vector} %o{n}, {sums[n]}")
        self._add("br label %done", "done:")
        for n, own in enumerate(sums):
            self._add(f"%w{n} = phi {self.vector} [ {own}, %x{level} ], [ %f{n}, %more ]")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"w{n}.p", i, j))
            self._add(f"store {self.vector} %w{n}, ptr %w{n}.p, align {self.align}")

    def _cell(self, name: str, i: int, j: int) -> str:
        offset = i * self.tile.c_row + j * self.tile.lanes
        return f"%{name} = getelementptr {self.scalar}, ptr %c, i64 {offset}"

    def _enter(self, n: int, before: str, a: str, v: str) -> None:
        """The head of loop `n`."""
        self._add(f"br label %l{n}", f"l{n}:")
        self._add(f"%k{n} = phi i64 [ 0, %{before} ], [ %k{n}.n, %e{n} ]")
        self._add(f"%a{n} = phi ptr [ {a}, %{before} ], [ %a{n}.n, %e{n} ]")
        self._add(f"%v{n} = phi ptr [ {v}, %{before} ], [ %v{n}.n, %e{n} ]")

    def _leave(self, n: int, a_step: int, v_step: int, step: int, end: str, out: str) -> None:
        """The end of loop `n`."""
        s = self.scalar
        self._add(f"%a{n}.n = getelementptr {s}, ptr %a{n}, i64 {a_step * step}")
        self._add(f"%v{n}.n = getelementptr {s}, ptr %v{n}, i64 {v_step * step}")
        self._add(f"%k{n}.n = add nuw nsw i64 %k{n}, {step}")
        self._add(f"%m{n} = icmp slt i64 %k{n}.n, {end}")
        self._add(f"br i1 %m{n}, label %l{n}, label %{out}", f"{out}:")

    def _loop(self, level: int, before: str, a: str, v: str, sums: list[str]) -> list[str]:
        """The loops from a level on; the sums after them, in the block `x` of the level."""
        n = level
        extent, a_step, v_step = self.tile.loops[level]
        is_last = level == len(self.tile.loops) - 1
        step = self.tile.unrolled if is_last else 1
        if is_last and level and step == extent:
            return self._steps(a, v, sums, range(step), f"x{n}")
        carried = [f"%s{n}.{k}" for k in range(len(sums))]
        self._enter(n, before, a, v)
        at = len(self.lines)
        if is_last:
            after = self._steps(f"%a{n}", f"%v{n}", carried, range(step), f"e{n}")
        else:
            after = self._loop(level + 1, f"l{n}", f"%a{n}", f"%v{n}", carried)
            self._add(f"br label %e{n}", f"e{n}:")
        phis = [
            f"  {own} = phi {self.vector} [ {old}, %{before} ], [ {new}, %e{n} ]"
            for own, old, new in zip(carried, sums, after, strict=True)
        ]
        self.lines[at:at] = phis
        rest = extent % step
        end = str(extent - rest) if level else "%count"
        self._leave(n, a_step, v_step, step, end, f"r{n}" if rest else f"x{n}")
        if rest:
            left = range(step, step + rest)
            after = self._steps(f"%a{n}", f"%v{n}", after, left, f"x{n}")
        return after

    def _steps(self, a: str, v: str, sums: list[str], steps: range, then: str) -> list[str]:
        """Some steps of the innermost loop, and a jump to a new block."""
        _, a_step, v_step = self.tile.loops[-1]
        for k in steps:
            offsets = (k * a_step, k * v_step)
            if k > steps.start and self.is_apart:
                self._add(_APART)
            lines, sums = self.step.lines(str(k), a, v, sums, offsets, self.step.plain_load)
            self._add(*lines)
        self._add(f"br label %{then}", f"{then}:")
        return sums
