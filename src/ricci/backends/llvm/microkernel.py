"""The register tile of a contraction: a few broadcast rows times a few vectors.

    c[i][j] (+)= sum over k of  a[i * a_row + k * a_step] * b[k * b_step + j]

with `i < rows` and `j < vectors * lanes`: all accumulators stay in registers, in a loop over k
that is not unrolled: processors that execute out of order gain nothing from it, and the text
stays small. The order of instructions is fixed here; there are no fast-math flags, with which
LLVM would break the chains of multiply-adds apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import DType
from .emit_types import scalar_type, tag, width, with_lanes


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a register tile and where its operands are, in elements.

    Row `i` of the broadcast operand begins `i * a_row` on and moves by `a_step` per k; the vector
    operand moves by `b_step` per k, its vector `j` begins `j * lanes` on. Rows of the result are
    `c_row` apart. If `masked`, the last vector is read only where its lane is below `%live`.
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

    @property
    def name(self) -> str:
        place = "" if self.c_row == self.vectors * self.lanes else f".{self.c_row}"
        kind = ".masked" * self.masked + ".partial" * self.partial
        return f"kernel.tile.{self.rows}x{self.vectors}{place}{kind}"


def call_tile(tile: Tile, a: str, b: str, k: str, c: str, first: str, live: str = "0") -> str:
    """The call of a tile's function. The result replaces what `c` holds if `first`, else it is
    added to it; `k` may be zero."""
    return f"call void @{tile.name}(ptr {a}, ptr {b}, i64 {k}, ptr {c}, i1 {first}, i64 {live})"


def write_tile(tile: Tile) -> str:
    """The function of a tile, which `call_tile` calls."""
    return _Writer(tile).text()


def declarations(tile: Tile) -> set[str]:
    """The intrinsics that a tile's function uses."""
    scalar = scalar_type(tile.dtype)
    v, name = with_lanes(scalar, tile.lanes), tag(scalar, tile.lanes)
    found = {f"declare {v} @llvm.fmuladd.{name}({v}, {v}, {v})"}
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
        self.lines: list[str] = []
        self.cells = [(i, j) for i in range(tile.rows) for j in range(tile.vectors)]

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
        if self.tile.masked or self.tile.partial:
            self._mask()
        self._add("br i1 %first, label %start, label %again", "again:")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"o{n}.p", i, j))
            self._add(f"%o{n} = load {self.vector}, ptr %o{n}.p, align {self.align}")
        self._add("br label %start", "start:")
        for n in range(len(self.cells)):
            self._add(f"%z{n} = phi {self.vector} [ zeroinitializer, %entry ], [ %o{n}, %again ]")
        self._add("%some = icmp sgt i64 %n, 0", "br i1 %some, label %loop, label %exit")

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
        t, s = self.tile, self.scalar
        self._add("loop:", "%k = phi i64 [ 0, %start ], [ %k.next, %loop ]")
        self._add("%a.k = phi ptr [ %a, %start ], [ %a.next, %loop ]")
        self._add("%b.k = phi ptr [ %b, %start ], [ %b.next, %loop ]")
        for n in range(len(self.cells)):
            self._add(f"%c{n} = phi {self.vector} [ %z{n}, %start ], [ %d{n}, %loop ]")
        for j in range(t.vectors):
            self._load_vector(j)
        for i in range(t.rows):
            self._row(i)
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

    def _row(self, i: int) -> None:
        t, s, v = self.tile, self.scalar, self.vector
        self._add(f"%a{i}.p = getelementptr {s}, ptr %a.k, i64 {i * t.a_row}")
        self._add(f"%a{i}.s = load {s}, ptr %a{i}.p, align {self.align}")
        self._add(f"%a{i}.i = insertelement {v} poison, {s} %a{i}.s, i64 0")
        zeros = f"<{t.lanes} x i32> zeroinitializer"
        self._add(f"%a{i} = shufflevector {v} %a{i}.i, {v} poison, {zeros}")
        for j in range(t.vectors):
            n = i * t.vectors + j
            operands = f"{v} %a{i}, {v} %b{j}, {v} %c{n}"
            self._add(f"%d{n} = call {v} @llvm.fmuladd.{self.tag}({operands})")

    def _exit(self) -> None:
        self._add("exit:")
        for n in range(len(self.cells)):
            self._add(f"%x{n} = phi {self.vector} [ %z{n}, %start ], [ %d{n}, %loop ]")
        for n, (i, j) in enumerate(self.cells):
            self._add(self._cell(f"x{n}.p", i, j))
            self._store(f"%x{n}", self.tile.partial and j == self.tile.vectors - 1)
        self._add("ret void")

    def _store(self, value: str, partial: bool) -> None:
        v = self.vector
        if not partial:
            self._add(f"store {v} {value}, ptr {value}.p, align {self.align}")
            return
        bits = with_lanes("i1", self.tile.lanes)
        self._add(
            f"call void @llvm.masked.store.{self.tag}.p0({v} {value}, ptr {value}.p, "
            f"i32 {self.align}, {bits} %mask)"
        )
