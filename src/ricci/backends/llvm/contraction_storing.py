"""How a contraction stores its results, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.nodes import Expr
from .contraction_form import Operand, size
from .contraction_space import flat_form, merge
from .kernels import Strides
from .target import PAGE

if TYPE_CHECKING:
    from .contraction_plan import Plan

MOST_TURNS = 4
"""Results that take turns along vectors, or elements that lanes are apart, at most."""
_SPREAD = 4.0
"""Cycles more to store a vector of results that are not next to one another, for each element that
is between them."""
_PAGES_OF_RESULTS = 40.0
"""Cycles to store part of a line of results whose neighbours lie whole pages apart, on the same
lines of the caches, and drive out each other until the next part of each is stored."""


def storing(plan: Plan, strides: Strides) -> float:
    """Cycles per element of making results of sums."""
    run = result_run(plan, strides)
    each = 7.0
    if turns_of(plan, strides) == 1:
        each += _SPREAD * (_lanes_apart(plan, strides) - 1)
    if not plan.across:
        return each / run
    if _has_pages_between(plan, strides):
        if gathers(plan, strides):  # whole lines, each of them once
            run = float(plan.lanes)
        else:
            each += _PAGES_OF_RESULTS
    return each / run + 0.7


def _lanes_apart(plan: Plan, strides: Strides) -> int:
    """How many elements apart results are in memory that are stored as a vector, or lane by lane if
    they are many."""
    side, target = plan.broadcast if plan.across else plan.vector, plan.form.kernel.targets[0]
    groups = merge(side.indices, [target], strides).groups
    step = flat_form(target, strides).steps.get(groups[-1][-1], 1) if groups else 1
    return min(max(1, abs(step)), plan.lanes)


def turns_of(plan: Plan, strides: Strides) -> int:
    """How many rows of sums are stored together, or columns where vectors of results lie along
    rows: they take turns in memory, as the two results of each element do of `y[2 * i + j] =
    x[i] * w[j]`, so that interleaved they are whole vectors."""
    kernel = plan.form.kernel
    exprs = [*kernel.initial, *kernel.results, kernel.targets[0]]
    along, other, length = plan.vector, plan.broadcast, plan.rows
    if plan.across:
        along, other, length = plan.broadcast, plan.vector, plan.panel
    groups = [merge(side.indices, exprs, strides).groups for side in (along, other)]
    if plan.ragged or plan.lanes == 1 or not all(groups):
        return 1
    steps, count = flat_form(kernel.targets[0], strides).steps, size(groups[1][-1])
    step, turn = (steps.get(found[-1][-1], 0) for found in groups)
    fits = turn == 1 and step == count <= MOST_TURNS and length % count == 0
    return count if fits else 1


def gathers(plan: Plan, strides: Strides) -> bool:
    """Whether results wait until there are whole vectors of them along the rows: of a chunk whose
    sums are kept anyway, with tiles that end within vectors, so that they are stored less often."""
    fewer = 4 * plan.rows <= 3 * plan.lanes and plan.row_block >= 2 * plan.lanes
    if not (fewer and plan.across and plan.depth.blocks > 1) or plan.ragged:
        return False
    kernel = plan.form.kernel
    exprs = [*kernel.initial, *kernel.results, kernel.targets[0]]
    return len(merge(plan.broadcast.indices, exprs, strides).groups) < 2


def _has_pages_between(plan: Plan, strides: Strides) -> bool:
    """Whether results lie whole pages apart along the vector side."""
    target = plan.form.kernel.targets[0]
    groups = merge(plan.vector.indices, [target], strides).groups
    step = flat_form(target, strides).steps.get(groups[-1][-1], 0) if groups else 0
    return step != 0 and step * plan.form.dtype.numpy().itemsize % PAGE == 0


def result_run(plan: Plan, strides: Strides) -> float:
    """The mean number of elements of the result that are stored at once."""
    kernel = plan.form.kernel
    side, length = (plan.broadcast, plan.rows) if plan.across else (plan.vector, plan.panel)
    return run_along(side, length, plan.lanes, strides, [*kernel.results, kernel.targets[0]])


def run_along(
    operand: Operand, panel: int, lanes: int, strides: Strides, exprs: Sequence[Expr]
) -> float:
    """The mean number of elements that one vector instruction handles along a panel."""
    inner = merge(operand.indices, exprs, strides).inner
    pieces = panel / min(panel, inner) + (
        0.0 if inner % panel == 0 or inner == operand.extent else 1.0
    )
    return max(1.0, min(float(lanes), panel / max(pieces, panel / lanes)))
