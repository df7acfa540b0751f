"""A register tile with several loops over k, each with its own steps.

c[i][j] (+)= sum over k0, k1, ... of  a[i * row + k0 * a0 + k1 * a1 ..] * v[k0 * v0 .. + j]
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...dtypes import DType
from .emit_types import scalar_type, tag, width, with_lanes


@dataclass(frozen=True, slots=True)
class WindowTile:
    """The shape of a tile: rows of the broadcast operand are `row` apart, those of the result
    `c_row`, vectors `apart`; `loops` are the extents and the steps of both operands, the outermost
    first."""

    dtype: DType
    lanes: int
    rows: int
    vectors: int
    row: int
    apart: int
    loops: tuple[tuple[int, int, int], ...]
    c_row: int

    @property
    def name(self) -> str:
        return f"kernel.window.{self.rows}x{self.vectors}"

    def call(self, a: str, v: str, c: str, count: str, first: str) -> str:
        """The call, with so many turns of the first loop; the result replaces what `c` holds if
        `first`, else it is added to it."""
        return f"call void @{self.name}(ptr {a}, ptr {v}, ptr {c}, i64 {count}, i1 {first})"

    def declarations(self) -> set[str]:
        """The intrinsics that the function uses."""
        scalar = scalar_type(self.dtype)
        v = with_lanes(scalar, self.lanes)
        return {f"declare {v} @llvm.fmuladd.{tag(scalar, self.lanes)}({v}, {v}, {v})"}

    def text(self) -> str:
        return _Writer(self).text()


@dataclass
class _Writer:
    tile: WindowTile
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        t = self.tile
        self.scalar = scalar_type(t.dtype)
        self.vector = with_lanes(self.scalar, t.lanes)
        self.tag, self.align = tag(self.scalar, t.lanes), width(t.dtype)
        self.cells = [(i, j) for i in range(t.rows) for j in range(t.vectors)]

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    def text(self) -> str:
        head = (
            f"define internal void @{self.tile.name}(ptr noalias readonly %a, ptr noalias readonly"
            " %v, ptr noalias %c, i64 %count, i1 %first) noinline {"
        )
        self._add("entry:")
        sums = self._loop(0, "entry", "%a", "%v", ["zeroinitializer"] * len(self.cells))
        self._finish(sums)
        return "\n".join([head, *self.lines, "}", ""])

    def _finish(self, sums: list[str]) -> None:
        """Store the sums; what is there already is added last, so that chains of sums are short."""
        self._add("br i1 %first, label %done, label %more", "more:")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"o{n}.p", i, j))
            self._add(f"%o{n} = load {self.vector}, ptr %o{n}.p, align {self.align}")
            self._add(f"%f{n} = fadd {self.vector} %o{n}, {sums[n]}")
        self._add("br label %done", "done:")
        for n, own in enumerate(sums):
            self._add(f"%w{n} = phi {self.vector} [ {own}, %x ], [ %f{n}, %more ]")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"w{n}.p", i, j))
            self._add(f"store {self.vector} %w{n}, ptr %w{n}.p, align {self.align}")
        self._add("ret void")

    def _cell(self, name: str, i: int, j: int) -> str:
        offset = i * self.tile.c_row + j * self.tile.lanes
        return f"%{name} = getelementptr {self.scalar}, ptr %c, i64 {offset}"

    def _loop(self, level: int, before: str, a: str, v: str, sums: list[str]) -> list[str]:
        """The loops from a level on; the sums after them."""
        if level == len(self.tile.loops):
            return self._multiply_add(a, v, sums)
        n, s = level, self.scalar
        extent, a_step, v_step = self.tile.loops[level]
        end, out = (str(extent), f"x{n}") if level else ("%count", "x")
        carried = [f"%s{n}.{k}" for k in range(len(sums))]
        self._add(f"br label %l{n}", f"l{n}:")
        self._add(f"%k{n} = phi i64 [ 0, %{before} ], [ %k{n}.n, %e{n} ]")
        self._add(f"%a{n} = phi ptr [ {a}, %{before} ], [ %a{n}.n, %e{n} ]")
        self._add(f"%v{n} = phi ptr [ {v}, %{before} ], [ %v{n}.n, %e{n} ]")
        at = len(self.lines)
        after = self._loop(level + 1, f"l{n}", f"%a{n}", f"%v{n}", carried)
        phis = [
            f"  {own} = phi {self.vector} [ {old}, %{before} ], [ {new}, %e{n} ]"
            for own, old, new in zip(carried, sums, after, strict=True)
        ]
        self.lines[at:at] = phis
        self._add(f"br label %e{n}", f"e{n}:")
        self._add(f"%a{n}.n = getelementptr {s}, ptr %a{n}, i64 {a_step}")
        self._add(f"%v{n}.n = getelementptr {s}, ptr %v{n}, i64 {v_step}")
        self._add(f"%k{n}.n = add nuw nsw i64 %k{n}, 1", f"%m{n} = icmp slt i64 %k{n}.n, {end}")
        self._add(f"br i1 %m{n}, label %l{n}, label %{out}", f"{out}:")
        return after

    def _multiply_add(self, a: str, v: str, sums: list[str]) -> list[str]:
        t, s, full = self.tile, self.scalar, self.vector
        for j in range(t.vectors):
            self._add(f"%b{j}.p = getelementptr {s}, ptr {v}, i64 {j * t.apart}")
            self._add(f"%b{j} = load {full}, ptr %b{j}.p, align {self.align}")
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        results = []
        for i in range(t.rows):
            self._add(f"%r{i}.p = getelementptr {s}, ptr {a}, i64 {i * t.row}")
            self._add(f"%r{i}.s = load {s}, ptr %r{i}.p, align {self.align}")
            self._add(f"%r{i}.i = insertelement {full} poison, {s} %r{i}.s, i64 0")
            self._add(f"%r{i} = shufflevector {full} %r{i}.i, {full} poison, {zeros}")
            for j in range(t.vectors):
                n = i * t.vectors + j
                operands = f"{full} %r{i}, {full} %b{j}, {full} {sums[n]}"
                self._add(f"%d{n} = call {full} @llvm.fmuladd.{self.tag}({operands})")
                results.append(f"%d{n}")
        return results
