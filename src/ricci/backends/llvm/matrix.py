"""MatrixProduct in registers: the processor multiplies two of them at once, and adds to a third.

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
class MatrixTile:
    """A tile of sums of up to two by two matrices, in a loop over k.

    MatrixProduct of `rows` follow one another: for each step those of each part, as `matrix_parts`
    writes them. So do those of the columns, or else, if `b_row` is not 0, the rows of each are so
    many bytes apart where the operand lies. Rows of the result are `c_row` elements apart.
    """

    matrices: MatrixProduct
    rows: int
    vectors: int
    c_row: int
    b_row: int = 0

    @property
    def name(self) -> str:
        place = f".by{self.b_row}" if self.b_row else ""
        return f"kernel.matrices.{self.rows}x{self.vectors}{place}"

    def call(self, a: str, b: str, steps: str, c: str, first: str) -> str:
        """The call, with so many steps of `MatrixProduct.depth` values of k; what `c` holds is
        added if not `first`."""
        return f"call void @{self.name}(ptr {a}, ptr {b}, i64 {steps}, ptr {c}, i1 {first})"


def configuration(rows: int) -> tuple[str, str]:
    """The name, and the text, of what registers of a tile of so many rows hold."""
    live = [min(LANES, max(rows - LANES * n, 0)) for n in range(2)]
    of_register = [*_of_sums(live), *live, LANES, LANES]
    sizes = [LINE_OF_MATRIX if n else 0 for n in of_register]
    name = f"@kernel.matrices.of{rows}"
    words = ", ".join(f"i16 {n}" for n in sizes + [0] * (16 - len(sizes)))
    counts = ", ".join(f"i8 {n}" for n in of_register + [0] * (16 - len(of_register)))
    kind = "<{ i8, i8, [14 x i8], [16 x i16], [16 x i8] }>"
    text = (
        f"{name} = private unnamed_addr constant {kind} <{{ i8 1, i8 0, [14 x i8] zeroinitializer, "
        f"[16 x i16] [{words}], [16 x i8] [{counts}] }}>, align 64\n"
    )
    return name, text


def _of_sums(live: list[int]) -> list[int]:
    """Rows of the four matrices of sums, those of one row of them after the other."""
    return [live[0], live[0], live[1], live[1]]


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
        self.down = matrices_of(tile.rows)
        self.cells = [(t, j) for t in range(self.down) for j in range(tile.vectors)]

    def text(self) -> str:
        t = self.tile
        head = (
            f"define internal void @{t.name}(ptr noalias readonly %a, ptr noalias readonly %b, "
            "i64 %n, ptr noalias %c, i1 %first) noinline {"
        )
        self._add("entry:", "br i1 %first, label %zero, label %more", "zero:")
        for cell in self.cells:
            self._add(f"call void @llvm.x86.tilezero(i8 {self._sum(cell)})")
        self._add("br label %k", "more:")
        for cell in self.cells:
            self._move("tileloadd64", self._sum(cell), *self._result(cell))
        self._add("br label %k", "k:")
        self._add("%left = phi i64 [ %n, %zero ], [ %n, %more ], [ %left.next, %k ]")
        self._add("%ka = phi ptr [ %a, %zero ], [ %a, %more ], [ %ka.next, %k ]")
        self._add("%kb = phi ptr [ %b, %zero ], [ %b, %more ], [ %kb.next, %k ]")
        self._step()
        m = t.matrices
        a_step = m.rows * self.down * MATRIX
        b_step = t.b_row * LANES or m.columns * t.vectors * MATRIX
        self._add(
            f"%ka.next = getelementptr i8, ptr %ka, i64 {a_step}",
            f"%kb.next = getelementptr i8, ptr %kb, i64 {b_step}",
            "%left.next = sub nsw i64 %left, 1",
            "%again = icmp sgt i64 %left.next, 0",
            "br i1 %again, label %k, label %done",
            "done:",
        )
        for cell in self.cells:
            self._move("tilestored64", self._sum(cell), *self._result(cell))
        self._add("ret void")
        return "\n".join([head, *self.lines, "}", ""])

    def _add(self, *lines: str) -> None:
        self.lines += [x if x.endswith(":") else f"  {x}" for x in lines]

    @staticmethod
    def _sum(cell: tuple[int, int]) -> int:
        return _SUMS + 2 * cell[0] + cell[1]

    def _result(self, cell: tuple[int, int]) -> tuple[str, int, int]:
        """Where the sums of a cell are, and how far apart their rows, in bytes."""
        row = 4 * self.tile.c_row
        return "%c", cell[0] * LANES * row + cell[1] * LINE_OF_MATRIX, row

    def _move(self, how: str, register: int, base: str, offset: int, apart: int) -> None:
        """Load a matrix, or store it."""
        at = f"%p{len(self.lines)}"
        self._add(f"{at} = getelementptr i8, ptr {base}, i64 {offset}")
        self._add(f"call void @llvm.x86.{how}(i8 {register}, ptr {at}, i64 {apart})")

    def _step(self) -> None:
        """All products of one step."""
        t, before = self.tile, (-1, -1)
        for part in t.matrices.products:
            if part[0] != before[0]:
                for n in range(self.down):
                    offset = (part[0] * self.down + n) * MATRIX
                    self._move("tileloadd64", _ROWS + n, "%ka", offset, LINE_OF_MATRIX)
            for j in range(t.vectors):
                if part[1] != before[1]:
                    offset, apart = (part[1] * t.vectors + j) * MATRIX, LINE_OF_MATRIX
                    if t.b_row:
                        offset, apart = j * LINE_OF_MATRIX, t.b_row
                    self._move("tileloadd64", _COLUMNS + j, "%kb", offset, apart)
                for n in range(self.down):
                    factors = f"i8 {self._sum((n, j))}, i8 {_ROWS + n}, i8 {_COLUMNS + j}"
                    self._add(f"call void @llvm.x86.{t.matrices.instruction}({factors})")
            before = part
