"""Sums of short rows, as many rows together as vectors have lanes.

The lanes of a vector of terms are joined at the end of a row, which for a short one takes as long
as its terms. Of as many rows as there are lanes the vectors are joined together: two of them, two
of these and so on, by two shuffles and one operation each. Lane `k` of the last is the total of row
`k`, so what follows is computed for all rows, and stored as a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.loops import Reduce
from ...ir.rewrite import walk
from .builder import Builder
from .emit_types import vector_type, width
from .nest_choice import dtypes_of
from .nest_uses import Loop, Use, is_dynamic
from .target import PIECE

if TYPE_CHECKING:
    from .nest_plan import Plan

_MOST_LANES, _MOST_VECTORS, _MOST_NODES = 16, 3, 2000
"""Of a vector, of a row, and of the terms of all rows, which are written out."""
_OPERATORS = ("add", "mul", "min", "max", "and", "or")


def are_together(kernel: Reduce, plan: Plan, uses: Sequence[Use], rows: Loop) -> bool:
    """Whether rows, which a loop counts, can be joined together: short ones without guards, whose
    results are neighbours."""
    vector, lanes = plan.vector, plan.lanes
    if vector is None or not plan.over_reduced or plan.reduced or kernel.op not in _OPERATORS:
        return False
    if kernel.condition is not None or kernel.locals or any(is_dynamic(u.access) for u in uses):
        return False
    if not isinstance(vector.extent, int) or not isinstance(rows.extent, int):
        return False
    sizes = {width(d) for d in dtypes_of(kernel)}
    if len(sizes) != 1 or not lanes * min(sizes) >= PIECE or not 1 < lanes <= _MOST_LANES:
        return False
    count = -(-vector.extent // lanes)
    nodes = sum(1 for _ in walk(*kernel.values)) + 2
    if count > _MOST_VECTORS or nodes * count * lanes > _MOST_NODES or rows.extent < lanes:
        return False
    return all(u.form.indices.get(rows.index) == 1 for u in uses if u.target)


def total_of_rows(
    b: Builder,
    rows: Sequence[Callable[[], str]],
    dtype: DType,
    combine: Callable[[str, str], str],
) -> str:
    """A vector of the totals of as many rows as it has lanes, each given as a vector of parts."""
    lanes = len(rows)

    def joined(first: int, count: int) -> str:
        if count == 1:
            return rows[first]()
        half = count // 2
        x, y = joined(first, half), joined(first + half, half)
        return combine(*(_half(b, x, y, dtype, lanes, half, part) for part in (0, 1)))

    return joined(0, lanes)


def _half(b: Builder, x: str, y: str, dtype: DType, lanes: int, rows: int, part: int) -> str:
    """Of two vectors of the parts of `rows` rows each one half of all parts, those of each row in
    the order of rows."""
    block = PIECE // width(dtype)
    picks: list[int] = []
    if rows < block:  # `rows` neighbours of both in turn, within each block
        units = block // rows // 2
        for start in range(0, lanes, block):
            for unit in range(part * units, (part + 1) * units):
                here = range(start + unit * rows, start + (unit + 1) * rows)
                picks += [*here, *(lanes + k for k in here)]
    else:  # each second block
        picks = [k for k in range(2 * lanes) if k // block % 2 == part]
    type = vector_type(dtype, lanes)
    chosen = ", ".join(f"i32 {k}" for k in picks)
    return b.pure(f"shufflevector {type} {x}, {type} {y}, <{lanes} x i32> <{chosen}>", x, y)
