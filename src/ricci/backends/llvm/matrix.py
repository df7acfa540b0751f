"""Matrices in registers: the processor multiplies two of them at once, and adds to a third.

A matrix has up to 16 rows of 64 bytes. One of sums holds 16 columns of 32 bits; one of factors of
the rows holds 16 words along k in each row, one of factors of the columns the words of 16 columns
for each of 16 k. A word is two numbers of bfloat16, or four integers of 8 bits, of neighbouring k.

Numbers of float32 are sums of three of bfloat16, exactly, as each holds 8 of their 24 bits. Of the
nine products of two such sums the six largest are added, from the small to the large: what the
others lack is less than the rounding of one product. (Parts below 1.2e-38 count as zero, as do such
results, so numbers below 8e-34 lose bits.) A step adds 32 products before it adds to what there is,
so sums of many terms lose fewer bits than those of one multiply-add after the other.
"""

from __future__ import annotations

from itertools import pairwise

from ...records import dataclass

LANES = 16
"""Rows of a matrix, and words of each."""
MATRIX = 1024
"""Bytes of a matrix."""
LINE_OF_MATRIX = 64
"""Bytes of a row."""
_SUMS, _ROWS, _COLUMNS = 0, 4, 6
"""The first registers of sums, of rows and of columns."""
_DROPPED = 2
"""The products of parts are added whose numbers have this sum at most."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """How sums of products are computed: the instruction, and of how many parts an element of the
    rows and one of the columns is the sum."""

    instruction: str
    rows: int = 1
    columns: int = 1

    @property
    def is_real(self) -> bool:
        """Whether elements are numbers of float32, in parts, and not words of integers."""
        return self.instruction == "tdpbf16ps"

    @property
    def depth(self) -> int:
        """Values of k of a matrix."""
        return 2 * LANES if self.is_real else LANES

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """The parts of rows and columns that are multiplied, the smallest products first where one
        of both parts is still in its registers."""
        pairs = [(i, j) for i in range(self.rows) for j in range(self.columns) if i + j <= _DROPPED]
        left = sorted(pairs, key=lambda p: (-sum(p), p))
        found = [left.pop(0)]
        while left:
            i, j = found[-1]
            nearest = [p for p in left if p[0] == i or p[1] == j]
            found.append(nearest[0] if nearest else left[0])
            left.remove(found[-1])
        return tuple(found)

    @property
    def loads(self) -> tuple[int, int]:
        """How often a step reads matrices of rows, and of columns."""
        pairs = list(pairwise(self.products))
        rows, columns = (1 + sum(a[n] != b[n] for a, b in pairs) for n in (0, 1))
        return rows, columns


def matrices_of(count: int) -> int:
    """How many matrices so many rows, or columns, are in."""
    return -(-count // LANES)


@dataclass(frozen=True, slots=True)
class Rows:
    """Where matrices of rows are, in bytes: how far apart their rows, the two of a tile, the parts
    of their elements, and the steps of k are; and loops around these steps, the outermost first:
    how often, and how far the rows move."""

    row: int
    second: int
    part: int
    step: int
    loops: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """A tile of sums of up to two by two matrices, in loops over k.

    The matrices that one is above the other have so many rows, their `heights`. Those of the
    columns follow one another as they are read, or else, if `b_row` is not 0, the rows of each are
    so many bytes apart where the operand lies. Rows of the result are `c_row` elements apart.
    """

    matrices: MatrixProduct
    heights: tuple[int, ...]
    vectors: int
    c_row: int
    rows: Rows
    b_row: int = 0
    runs: int = 0
    """Of real elements, how many of the loops around the steps are around a run of them: the sums
    of each are added to those of others in memory, as long sums lose fewer bits so."""

    @property
    def name(self) -> str:
        place = f".by{self.b_row}" if self.b_row else ""
        return f"kernel.matrices.{_of(self.heights)}x{self.vectors}{place}"

    def call(self, a: str, b: str, steps: str, c: str, first: str) -> str:
        """The call, with so many steps of `MatrixProduct.depth` values of k inside the loops; what
        `c` holds is added if not `first`."""
        return f"call void @{self.name}(ptr {a}, ptr {b}, i64 {steps}, ptr {c}, i1 {first})"


def heights_of(rows: int) -> tuple[int, ...]:
    """The rows of the matrices that hold so many."""
    return tuple(min(LANES, rows - at) for at in range(0, rows, LANES))


def panel_rows(m: MatrixProduct, rows: int) -> Rows:
    """Where the matrices of a panel of rows are, as `matrix_parts` writes them."""
    part = matrices_of(rows) * MATRIX
    return Rows(LINE_OF_MATRIX, MATRIX, part, m.rows * part)


def _of(heights: tuple[int, ...]) -> str:
    return ".".join(map(str, heights))


def configuration(heights: tuple[int, ...]) -> tuple[str, str]:
    """The name, and the text, of what registers of a tile of such matrices of rows hold."""
    live = (*heights, 0)[:2]
    of_register = [live[0], live[0], live[1], live[1], *live, LANES, LANES]
    sizes = [LINE_OF_MATRIX if n else 0 for n in of_register]
    name = f"@kernel.matrices.of.{_of(heights)}"
    words = ", ".join(f"i16 {n}" for n in sizes + [0] * (16 - len(sizes)))
    counts = ", ".join(f"i8 {n}" for n in of_register + [0] * (16 - len(of_register)))
    kind = "<{ i8, i8, [14 x i8], [16 x i16], [16 x i8] }>"
    text = (
        f"{name} = private unnamed_addr constant {kind} <{{ i8 1, i8 0, [14 x i8] zeroinitializer, "
        f"[16 x i16] [{words}], [16 x i8] [{counts}] }}>, align 64\n"
    )
    return name, text


def declarations(matrices: MatrixProduct) -> set[str]:
    """The intrinsics of tiles, and of what is around them."""
    return {
        "declare void @llvm.x86.ldtilecfg(ptr)",
        "declare void @llvm.x86.tilerelease()",
        "declare void @llvm.x86.tilezero(i8)",
        "declare void @llvm.x86.tileloadd64(i8, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8, ptr, i64)",
        f"declare void @llvm.x86.{matrices.instruction}(i8, i8, i8)",
    }


def write_tile(tile: MatrixTile) -> str:
    """The function that `MatrixTile.call` calls."""
    return _Writer(tile).text()


class _Writer:
    def __init__(self, tile: MatrixTile) -> None:
        self.tile = tile
        self.lines: list[str] = []
        self.down = len(tile.heights)
        self.cells = [(t, j) for t in range(self.down) for j in range(tile.vectors)]

    def text(self) -> str:
        t = self.tile
        head = (
            f"define internal void @{t.name}(ptr noalias readonly %a, ptr noalias readonly %b, "
            "i64 %n, ptr noalias %c, i1 %first) noinline {"
        )
        self._add("entry:")
        if t.matrices.is_real:
            self._add(f"%t = alloca [{4 * MATRIX} x i8], align 64")
            self._outside(0, "entry", "%a", "%b", "%first")
        else:
            self._add("br i1 %first, label %zero, label %more", "zero:")
            self._zero()
            self._add("br label %begin", "more:")
            for cell in self.cells:
                self._move("tileloadd64", self._sum(cell), *self._result(cell))
            self._add("br label %begin", "begin:")
            self._loop(0, "begin", "%a", "%b")
            self._store("%c")
        self._add("ret void")
        return "\n".join([head, *self.lines, "}", ""])

    def _zero(self) -> None:
        for cell in self.cells:
            self._add(f"call void @llvm.x86.tilezero(i8 {self._sum(cell)})")

    def _store(self, to: str) -> None:
        """Store the sums as results, or side by side."""
        for number, cell in enumerate(self.cells):
            base, offset, row = self._result(cell)
            if to != base:
                offset, row = number * MATRIX, LINE_OF_MATRIX
            self._move("tilestored64", self._sum(cell), to, offset, row)

    def _outside(self, level: int, before: str, a: str, b: str, first: str) -> str:
        """The loops around runs; gives where the columns are after them."""
        if level == self.tile.runs:
            self._add(f"br label %run{level}", f"run{level}:")
            self._zero()
            after = self._loop(level, f"run{level}", a, b)
            self._finish(first)
            return after
        n = level
        count, a_step = self.tile.rows.loops[level]
        self._enter(n, str(count), before, a, b)
        self._add(
            f"%here{n} = icmp eq i64 %left{n}, {count}", f"%first{n} = and i1 {first}, %here{n}"
        )
        after = self._outside(level + 1, f"k{n}", f"%a{n}", f"%b{n}", f"%first{n}")
        return self._leave(n, f"getelementptr i8, ptr {after}, i64 0", a_step)

    def _finish(self, first: str) -> None:
        """Store the sums of a run, or add them to what there is."""
        t = self.tile
        self._add(f"br i1 {first}, label %alone, label %beside", "alone:")
        self._store("%c")
        self._add("br label %stored", "beside:")
        self._store("%t")
        self._add("br label %rows")
        before = "beside"
        vector = f"<{LANES} x float>"
        for at, height in enumerate(t.heights):
            name = f"rows{at}" if at else "rows"
            self._add(f"{name}:", f"%r{at} = phi i64 [ 0, %{before} ], [ %r{at}.next, %{name} ]")
            for j in range(t.vectors):
                cell = (at, j)
                _, offset, row = self._result(cell)
                x = f"%x{at}.{j}"
                self._add(
                    f"{x}.b = mul nsw i64 %r{at}, {row}",
                    f"{x}.c = getelementptr i8, ptr %c, i64 {x}.b",
                    f"{x}.p = getelementptr i8, ptr {x}.c, i64 {offset}",
                    f"{x}.t = mul nsw i64 %r{at}, {LINE_OF_MATRIX}",
                    f"{x}.u = getelementptr i8, ptr %t, i64 {x}.t",
                    f"{x}.q = getelementptr i8, ptr {x}.u, i64 {self.cells.index(cell) * MATRIX}",
                    f"{x}.old = load {vector}, ptr {x}.p, align 4",
                    f"{x}.new = load {vector}, ptr {x}.q, align 64",
                    f"{x} = fadd {vector} {x}.old, {x}.new",
                    f"store {vector} {x}, ptr {x}.p, align 4",
                )
            then = f"rows{at + 1}" if at + 1 < len(t.heights) else "stored"
            self._add(
                f"%r{at}.next = add nuw nsw i64 %r{at}, 1",
                f"%r{at}.more = icmp slt i64 %r{at}.next, {height}",
                f"br i1 %r{at}.more, label %{name}, label %{then}",
            )
            before = name
        self._add("stored:")

    def _enter(self, n: int, count: str, before: str, a: str, b: str) -> None:
        """The head of a loop."""
        self._add(f"br label %k{n}", f"k{n}:")
        self._add(f"%left{n} = phi i64 [ {count}, %{before} ], [ %left{n}.next, %e{n} ]")
        self._add(f"%a{n} = phi ptr [ {a}, %{before} ], [ %a{n}.next, %e{n} ]")
        self._add(f"%b{n} = phi ptr [ {b}, %{before} ], [ %b{n}.next, %e{n} ]")

    def _leave(self, n: int, after: str, a_step: int) -> str:
        """The end of a loop; gives where the columns are after it."""
        self._add(f"br label %e{n}", f"e{n}:")
        self._add(f"%b{n}.next = {after}")
        self._add(f"%a{n}.next = getelementptr i8, ptr %a{n}, i64 {a_step}")
        self._add(f"%left{n}.next = sub nsw i64 %left{n}, 1")
        self._add(f"%again{n} = icmp sgt i64 %left{n}.next, 0")
        self._add(f"br i1 %again{n}, label %k{n}, label %done{n}", f"done{n}:")
        return f"%b{n}.next"

    def _loop(self, level: int, before: str, a: str, b: str) -> str:
        """The loops from a level on, the last of which are the steps; gives where the columns are
        after them."""
        t, n = self.tile, level
        if level < len(t.rows.loops):
            count, a_step = t.rows.loops[level]
            self._enter(n, str(count), before, a, b)
            after = self._loop(level + 1, f"k{n}", f"%a{n}", f"%b{n}")
            return self._leave(n, f"getelementptr i8, ptr {after}, i64 0", a_step)
        self._enter(n, "%n", before, a, b)
        self._step(f"%a{n}", f"%b{n}")
        b_step = t.b_row * LANES or t.matrices.columns * t.vectors * MATRIX
        return self._leave(n, f"getelementptr i8, ptr %b{n}, i64 {b_step}", t.rows.step)

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    @staticmethod
    def _sum(cell: tuple[int, int]) -> int:
        return _SUMS + 2 * cell[0] + cell[1]

    def _result(self, cell: tuple[int, int]) -> tuple[str, int, int]:
        """Where the sums of a cell are, and how far apart their rows, in bytes."""
        row = 4 * self.tile.c_row
        return "%c", cell[0] * self.tile.heights[0] * row + cell[1] * LINE_OF_MATRIX, row

    def _move(self, how: str, register: int, base: str, offset: int, apart: int) -> None:
        """Load a matrix, or store it."""
        at = f"%p{len(self.lines)}"
        self._add(f"{at} = getelementptr i8, ptr {base}, i64 {offset}")
        self._add(f"call void @llvm.x86.{how}(i8 {register}, ptr {at}, i64 {apart})")

    def _step(self, a: str, b: str) -> None:
        """All products of one step."""
        t, before = self.tile, (-1, -1)
        for part in t.matrices.products:
            if part[0] != before[0]:
                for n in range(self.down):
                    offset = part[0] * t.rows.part + n * t.rows.second
                    self._move("tileloadd64", _ROWS + n, a, offset, t.rows.row)
            for j in range(t.vectors):
                if part[1] != before[1]:
                    offset, apart = (part[1] * t.vectors + j) * MATRIX, LINE_OF_MATRIX
                    if t.b_row:
                        offset, apart = j * LINE_OF_MATRIX, t.b_row
                    self._move("tileloadd64", _COLUMNS + j, b, offset, apart)
                for n in range(self.down):
                    factors = f"i8 {self._sum((n, j))}, i8 {_ROWS + n}, i8 {_COLUMNS + j}"
                    self._add(f"call void @llvm.x86.{t.matrices.instruction}({factors})")
            before = part
