"""Cuts a reduction's loops into chunks for threads, and says what they cost.

Chunks are points of the leading loops, and blocks of the next one: of rows, which are done
together as whole tiles, or of the vector's loop, with one row, or with all where these are few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.loops import Reduce
from ...ir.nodes import Access, Apply, Expr
from ...ir.rewrite import accesses, walk
from ...ir.special import SPECIAL
from .chunks import MOST_CHUNKS, chunks_of
from .sizes import likely

if TYPE_CHECKING:
    from .nest_plan import Plan

_FEW_CHUNKS = 8
"""Chunks that are enough for rows to be shared among them as tiles: alone they share nothing."""
_CHEAP = frozenset(
    {"abs", "sqrt", "floor", "ceil", "trunc", "fma", "copysign", "nextafter", "logb"}
)


def cost_of(exprs: Sequence[Expr]) -> float:
    """Rough nanoseconds of one vector's worth of an expression."""
    heavy = 0.0
    for node in walk(*exprs):
        if isinstance(node, Apply):
            heavy += 1.0 if node.function in _CHEAP else 50.0 if node.function in SPECIAL else 4.0
        elif isinstance(node, Access):
            # where data says what is read, it is seldom in a cache
            heavy += 4.0 if accesses(*(s.index for s in node.subscripts)) else 0.35
        else:
            heavy += 0.1
    return heavy


def share(kernel: Reduce, plan: Plan, chunks: int | None = None) -> None:
    """Divide the domain into chunks that are worth their while, or into at most so many."""
    points = math.prod(likely(x.extent) for x in plan.outer)
    row = likely(plan.row)
    terms = math.prod(likely(x.extent) for x in plan.reduced)
    tests = [] if kernel.condition is None else [kernel.condition]
    per_term = cost_of([*kernel.values, *tests]) * (1.0 if plan.over_reduced else 0.5)
    per_row = per_term * terms
    ends = cost_of([*kernel.initial, *kernel.results]) + 0.5
    plan.costs = per_term, ends
    steps = math.ceil(row / plan.lanes)
    if plan.over_reduced:
        work = points * (per_row * steps + ends)
    else:
        work = points * steps * (per_row + ends)
    plan.work = work
    if _is_open(plan):
        plan.open, plan.chunks = True, MOST_CHUNKS
        plan.leading = max(0, len(plan.outer) - 1)
        has_row = plan.vector is not None and not plan.over_reduced
        plan.blocks = 2 if plan.outer or has_row else 1
        return
    wanted = min(MOST_CHUNKS, chunks_of(work)) if chunks is None else chunks
    plan.wanted = max(wanted, 1)
    if wanted <= 1:
        return
    product, enough = 1, min(wanted, _FEW_CHUNKS)
    while plan.leading < len(plan.outer) and product < wanted:
        extent = likely(plan.outer[plan.leading].extent)  # which is known here
        if _can_split(plan, plan.leading):
            in_tiles = plan.rows > 1 and product * math.ceil(extent / plan.rows) >= enough
            if in_tiles or product * extent > 4 * wanted:
                break
            if product * _tiles_of_row(plan) >= enough:
                plan.by_vectors = True
                break
        product *= extent
        plan.leading += 1
    if product < wanted:
        plan.blocks = _blocks(plan, wanted / product)
    plan.chunks = min(product * plan.blocks, wanted)


def _is_open(plan: Plan) -> bool:
    """Whether some extent depends on symbols."""
    loops = [*plan.outer, *plan.reduced, *([plan.vector] if plan.vector else [])]
    return not all(isinstance(x.extent, int) for x in loops)


def _can_split(plan: Plan, position: int) -> bool:
    """Only the innermost row loop and the vector loop can be cut into blocks."""
    return position == len(plan.outer) - 1


def _tiles_of_row(plan: Plan) -> int:
    """How many tiles there are along the vector's loop, if several rows are done together in one
    loop; else 0."""
    if plan.rows == 1 or plan.vector is None or plan.over_reduced or plan.kept or plan.strip:
        return 0
    return math.ceil(likely(plan.row) / (plan.lanes * plan.vectors))


def _blocks(plan: Plan, wanted: float) -> int:
    """How many blocks the loop after the leading ones is cut into."""
    if plan.by_vectors:
        return max(1, min(math.ceil(wanted), _tiles_of_row(plan)))
    if plan.leading == len(plan.outer):
        if plan.vector is None or plan.over_reduced:
            return 1
        unit = plan.lanes * max(plan.vectors, plan.kept)
        return max(1, min(math.ceil(wanted), math.ceil(likely(plan.row) / unit)))
    if plan.leading == len(plan.outer) - 1:
        row = plan.outer[plan.leading]
        return max(1, min(math.ceil(wanted), math.ceil(likely(row.extent) / plan.rows)))
    return 1
