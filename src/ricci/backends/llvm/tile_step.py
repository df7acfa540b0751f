"""The multiply-adds of one step of a register tile: a few broadcast elements times a few vectors.

The order of instructions is fixed here; there are no fast-math flags, with which LLVM would break
the chains of multiply-adds apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...dtypes import DType
from .emit_types import scalar_type, tag, width, with_lanes

PREFETCH = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
AHEAD = 64
"""How many steps ahead vectors are brought near."""

Load = Callable[[str, int], str]
"""The instruction that loads vector `j` from a pointer."""


@dataclass(frozen=True, slots=True)
class TileStep:
    """Broadcast elements at `places`, times `vectors` vectors that are `apart`. If `ahead`, the
    vectors so many elements on are brought near, too: those of large operands come from far away,
    and processors do not look ahead beyond the end of a page."""

    dtype: DType
    lanes: int
    places: tuple[int, ...]
    vectors: int
    apart: int
    ahead: int = 0

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

    def plain_load(self, pointer: str, j: int) -> str:
        """A load of a whole vector."""
        full = with_lanes(scalar_type(self.dtype), self.lanes)
        return f"load {full}, ptr {pointer}, align {width(self.dtype)}"


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
        self.out.append(f"{name} = {self.load(f'{name}.p', j)}")
        if t.ahead:
            step = f"{scalar_type(t.dtype)}, ptr {name}.p, i64 {t.ahead}"
            self.out.append(f"{name}.f = getelementptr {step}")
            self.out.append(f"call void @llvm.prefetch.p0(ptr {name}.f, i32 0, i32 3, i32 1)")

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

    def multiply_add(self, i: int, j: int) -> None:
        t, n = self.step, i * self.step.vectors + j
        s = scalar_type(t.dtype)
        v = with_lanes(s, t.lanes)
        operands = f"{v} %a{self.name}.{i}, {v} %b{self.name}.{j}, {v} {self.sums[n]}"
        self.out.append(f"%d{self.name}.{n} = call {v} @llvm.fmuladd.{tag(s, t.lanes)}({operands})")
