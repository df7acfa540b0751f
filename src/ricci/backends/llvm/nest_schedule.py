"""Plans of loop nests from schedules, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Index
from .emit import Frame
from .nest_cut import share
from .nest_plan import (
    Plan,
    add_strip,
    can_keep,
    can_lie_along,
    can_strip,
    lanes_of,
    least_lanes,
)
from .nest_uses import Loop, loops_of, uses_of
from .schedule import Nest, impossible
from .target import Target

MOST_LANES, MOST_ROWS, MOST_CELLS, MOST_CHUNKS, MOST_UNROLLED = 64, 16, 32, 4096, 4000
MOST_KEPT = 1 << 12
"""Of what makes code long, or does not fit: no schedule has more."""


def _numbers(kernel: Reduce) -> dict[Index, int]:
    """The indices by number: those of the domain, then the reduced ones."""
    return {index: k for k, index in enumerate((*kernel.domain, *kernel.reduced))}


def schedule_of(kernel: Reduce, plan: Plan) -> Nest:
    """The schedule that a plan for known sizes follows."""
    numbers = _numbers(kernel)
    vector = -1 if plan.vector is None else numbers[plan.vector.index]
    return Nest(
        vector,
        plan.lanes,
        tuple(vector if x is plan.strip else numbers[x.index] for x in plan.outer),
        tuple(numbers[x.index] for x in plan.reduced),
        plan.rows,
        plan.vectors,
        plan.wanted,
        plan.unroll,
        plan.kept,
        plan.terms,
    )


def scheduled_plan(kernel: Reduce, schedule: Nest, frame: Frame, target: Target) -> Plan:
    """The plan of a schedule; `Error` E0807 if the kernel cannot be computed so."""
    s = schedule
    _check(kernel, s)
    uses, numbers = uses_of(kernel, frame), _numbers(kernel)
    outer, reduced, fixed = loops_of(kernel, uses)
    loops = {numbers[x.index]: x for x in (*outer, *reduced)}
    vector = loops.get(s.vector)
    if vector is None and s.vector != -1:
        raise impossible(f"there is no loop over index {s.vector}", kernel.name)
    over_reduced = vector in reduced
    if vector is not None and over_reduced and not can_lie_along(kernel, vector.index):
        raise impossible(f"its steps are in order along index {s.vector}", kernel.name)
    if kernel.op == "update" and list(s.reduced) != sorted(s.reduced):
        raise impossible("its steps come in order", kernel.name)
    if vector is not None:
        (reduced if over_reduced else outer).remove(vector)
    lanes = least_lanes(s.lanes, vector)
    plain = tuple(k for k in s.outer if k != s.vector or over_reduced)
    plan = Plan(
        _ordered(kernel, "outer", plain, outer, loops),
        _ordered(kernel, "reduced", s.reduced, reduced, loops),
        vector, over_reduced, lanes, fixed, unroll=s.unroll,
    )  # fmt: skip
    plan.vectors = s.vectors if vector is not None else 1
    plan.rows = s.rows if plan.outer else 1
    plan.kept, plan.terms = s.kept, s.terms
    if s.kept and not can_keep(kernel, plan, uses):
        raise impossible("its accumulators cannot be kept in memory", kernel.name)
    if s.lanes > 4 * max(lanes_of(kernel, uses, target), 4):
        raise impossible(f"vectors of {s.lanes} elements are too long", kernel.name)
    if plain != s.outer:
        twice = len(plain) + 1 != len(s.outer)
        if twice or s.outer[-1] == s.vector or not can_strip(kernel, plan):
            raise impossible("its vectors cannot be done in strips", kernel.name)
        add_strip(plan, s.outer.index(s.vector))
    share(kernel, plan, s.chunks)
    return plan


def _check(kernel: Reduce, s: Nest) -> None:
    if s.lanes & (s.lanes - 1) or not 0 < s.lanes <= MOST_LANES:
        raise impossible(f"vectors cannot have {s.lanes} elements", kernel.name)
    if not (0 < s.rows <= MOST_ROWS and s.vectors and s.rows * s.vectors <= MOST_CELLS):
        raise impossible(f"no tile has {s.rows} rows of {s.vectors} vectors", kernel.name)
    if not (0 <= s.kept <= MOST_KEPT and 0 < s.terms <= MOST_ROWS):
        raise impossible(f"{s.terms} terms of {s.kept} vectors are too many", kernel.name)
    if not 0 < s.chunks <= MOST_CHUNKS:
        raise impossible(f"there cannot be {s.chunks} chunks", kernel.name)
    if s.unroll > MOST_UNROLLED:
        raise impossible(f"a tile has at most {MOST_UNROLLED} instructions", kernel.name)


def _ordered(
    kernel: Reduce,
    what: str,
    order: Sequence[int],
    loops: Sequence[Loop],
    known: Mapping[int, Loop],
) -> list[Loop]:
    """Loops in the order of their numbers."""
    chosen = [known[k] for k in order if k in known]
    if (
        len(chosen) != len(order)
        or len(chosen) != len(loops)
        or any(x not in chosen for x in loops)
    ):
        numbers = _numbers(kernel)
        there = sorted(numbers[x.index] for x in loops)
        raise impossible(f"its {what} loops are a permutation of {there}", kernel.name)
    return [known[k] for k in order]
