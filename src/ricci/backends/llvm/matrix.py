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

from collections.abc import Sequence
from itertools import pairwise

from ...records import dataclass

LANES = 16
"""Rows of a matrix, and words of each."""
MATRIX = 1024
"""Bytes of a matrix."""
LINE_OF_MATRIX = 64
"""Bytes of a row."""
SUMS, ROWS, COLUMNS = 0, 4, 6
"""The first registers of sums, of rows and of columns."""
_DROPPED = 2
"""The products of parts are added whose numbers have this sum at most."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """How sums of products are computed: the instruction, and of how many parts an element of the
    rows and one of the columns is the sum; 0 if elements are words of factors."""

    instruction: str
    row_parts: int = 0
    column_parts: int = 0

    @property
    def in_parts(self) -> bool:
        """Whether elements are numbers of float32, in parts, and not words."""
        return self.row_parts > 0

    @property
    def rows(self) -> int:
        """How many matrices hold the elements of 16 rows."""
        return max(self.row_parts, 1)

    @property
    def columns(self) -> int:
        """The same of 16 columns."""
        return max(self.column_parts, 1)

    @property
    def depth(self) -> int:
        """Values of k of a matrix."""
        return 2 * LANES if self.in_parts else LANES

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
    how far the rows and the columns move."""

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
    c_next: int = 0
    """How many elements on the sums of the next of several tiles are, whose columns follow."""
    runs: int = 0
    """Of real elements, how many of the loops around the steps are around a run of them: the sums
    of each are added to those of others in memory, as long sums lose fewer bits so."""

    @property
    def name(self) -> str:
        place = f".by{self.b_row}" if self.b_row else ""
        return f"kernel.matrices.{_of(self.heights)}x{self.vectors}{place}"

    @property
    def down(self) -> int:
        """Rows of all its matrices."""
        return sum(self.heights)

    @property
    def loops(self) -> int:
        """How many loops are around the steps."""
        return len(self.rows.loops)

    def call(
        self,
        a: str,
        b: str,
        steps: str,
        c: str,
        first: str,
        count: str = "1",
        turns: Sequence[int] = (),
    ) -> str:
        """The call for so many tiles side by side, with so many steps of `MatrixProduct.depth`
        values of k, and turns of the loops around them; what `c` holds is added if not `first`."""
        given = [f"ptr {a}", f"ptr {b}", f"i64 {steps}", f"ptr {c}", f"i64 {count}", f"i1 {first}"]
        given += [f"i64 {n}" for n in turns]
        return f"call void @{self.name}({', '.join(given)})"


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
