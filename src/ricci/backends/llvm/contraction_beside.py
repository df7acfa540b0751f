"""Contractions by panels beside plain loop nests and other ways: what a nest costs, and what panels
take more than `contraction_cost` counts, which chooses among plans by panels.

Where two units compute vectors of 32 bytes both were fitted to 280 convolutions of 1 to 60 million
operations, each done in all ways: what was chosen took 1.13 times the best of them in the mean, and
takes 1.05 times that now.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.nodes import Access, Index
from ...ir.shapes import count_inside
from .contraction_cost import Costs
from .contraction_form import Operand, size
from .contraction_plan import Plan
from .contraction_space import flat_form, merge
from .contraction_storing import result_run
from .emit_access import extent_of, linear, shape_of
from .kernels import Strides
from .packing import contiguous_depth, is_plain
from .target import PAGE, Target

_WINDOW, _OF_FEW = 1.25, 2.5
"""Half cycles per vector and k of a plain loop nest over windows, and what few rows of the other
side wait for their sums."""
_SHORT_TURN = {1: (1.5, 4.4), 2: (2.75, 10.5)}
"""The same where two units compute vectors of 32 bytes, of rows whose neighbours lie so many
elements apart: for each result, and once for all rows of the other side. What is read from farther
away takes no longer, since it is read on and on."""
_SHORT_WINDOW, _SHORT_FEW, _SHORT_END = 1.5, 1.5, 15.0
"""There, of windows: as above, and what the end of a row takes, times its length."""
_SHORT_PACKED, _SHORT_RUN, _SHORT_COLUMN = 0.36, 32.0, 6.0
"""Half cycles that panels take more there: for each element that is packed, for each end of a
run of them, and for each vector of columns that is read in place."""
_WIDENED = 0.5
"""Half cycles more for each vector of 16 bits that is made one of float32."""


def is_fitted(plan: Plan, target: Target) -> bool:
    """Whether it is of what the above was fitted to: an operand is arranged ahead of time, and two
    units compute 16 vectors of 32 bytes. Of other products nests take up to four times as long."""
    two_units = target.short and target.vector_bytes == 32 and not target.sve
    arranged = "prepared" in (plan.broadcast_source, plan.vector_source)
    return two_units and arranged and plan.form.words is None


def beside_others(plan: Plan, strides: Strides, target: Target) -> float:
    """Half cycles more than the estimate of a plan, on one core."""
    if not is_fitted(plan, target):
        return 0.0
    rows, columns = plan.broadcast, plan.vector
    times = plan.outer * plan.depth.extent
    more = 0.0
    if plan.vector_source != "prepared":
        count = times * columns.extent * -(-rows.extent // plan.row_block)
        if plan.vector_source == "packed":
            more += count * _packed(columns, plan, strides)
        else:
            more += count * _SHORT_COLUMN / plan.lanes
    if plan.broadcast_source == "packed":
        count = times * rows.extent * -(-columns.extent // plan.lane_block)
        more += count * _packed(rows, plan, strides)
    return more


def _packed(operand: Operand, plan: Plan, strides: Strides) -> float:
    """The same of an element that is packed."""
    if operand.access is None or contiguous_depth(operand, plan.depth, plan.lanes, strides):
        return _SHORT_PACKED
    groups = merge(operand.indices, [operand.value], strides).groups
    return _SHORT_PACKED + (_SHORT_RUN / size(groups[-1]) if len(groups) > 1 else 0.0)


def whole(plan: Plan, strides: Strides, target: Target) -> float:
    """Half cycles of a plan on one core."""
    return Costs(plan, strides, target).whole() + beside_others(plan, strides, target)


def plain(plan: Plan, strides: Strides, target: Target) -> float:
    """Half cycles of a plain loop nest over the same points, on one core."""
    sides = plan.broadcast, plan.vector
    each = _plain(plan, strides, target)
    for side, other in (sides, sides[::-1]):
        each = min(each, _over_windows(side, other, plan, strides, target))
    return plan.outer * plan.broadcast.extent * plan.vector.extent * each


def _plain(plan: Plan, strides: Strides, target: Target) -> float:
    """The same for a result, with vectors along these."""
    side, other, source = plan.broadcast, plan.vector, plan.broadcast_source
    if not plan.across:
        side, other, source = other, side, plan.vector_source
    access, bytes_of = side.stored, plan.form.dtype.numpy().itemsize
    run, reused = result_run(plan, strides), side.extent
    turn = 4.5  # per vector and k, if it has to be collected from memory
    if access is not None:
        groups = merge(side.indices, [access], strides).groups
        step = flat_form(access, strides).steps.get(groups[-1][-1], 0) if groups else 1
        fitted = is_fitted(plan, target) and source != "prepared"
        if groups and fitted and step in _SHORT_TURN and is_plain(access):
            each, once = _SHORT_TURN[step]
            length = size(groups[-1])
            run = length / -(-length // plan.lanes)
            return ((each + once / other.extent) * plan.depth.extent + 3.0) / run
        if step == 1:
            turn = 1.5 if is_plain(access) else 3.0
            # a short stretch does not fill a vector
            turn = min(4.5, turn * max(1.0, run / size(groups[-1]))) if groups else turn
        rows = min(4, max((extent_of(i) for i in other.indices), default=1))
        if turn == 1.5 and groups and rows > 1 and _is_near(access, plan, strides, target):
            # of several rows at once; all rows follow on one another
            turn = 1.25 + 0.4 / rows
            reused = extent_of(groups[-1][-1])
            run = reused / -(-reused // plan.lanes)
    if side.loading in ("float16", "bfloat16"):
        turn += _WIDENED
    read = max(reused, other.extent) * plan.depth.extent * bytes_of
    # read in the order of the result
    turn = turn * target.slower + _from_farther_away(read, target)
    return (turn * plan.depth.extent + 3.0 * target.slower) / run


def _over_windows(
    side: Operand, other: Operand, plan: Plan, strides: Strides, target: Target
) -> float:
    """The same with vectors along rows of windows that neighbouring results share; infinite if
    there are none."""
    access = side.access
    if access is None or other.extent < 2 or not _is_window(access, side.indices):
        return math.inf
    own, rows = side.indices[-1], min(8, *map(extent_of, other.indices))
    if flat_form(access, strides).steps.get(own) != 1:
        return math.inf
    filled = _run_inside(access, own, plan.lanes)
    if is_fitted(plan, target):
        turn = _SHORT_WINDOW + _SHORT_FEW / rows + _SHORT_END / extent_of(own)
    else:
        walked = {own, *plan.depth.indices}
        read = plan.form.dtype.numpy().itemsize  # what the windows of a row of results reach
        for subscript in access.subscripts:
            steps = linear(subscript.index).steps
            read *= 1 + sum(abs(n) * (extent_of(i) - 1) for i, n in steps.items() if i in walked)
        turn = (_WINDOW + _OF_FEW / rows) * target.slower + _from_farther_away(read, target)
    apart = flat_form(plan.form.kernel.targets[0], strides).steps.get(own) != 1
    stored = 3.0 * target.slower / (1.0 if apart else filled)
    return turn * plan.depth.extent / filled + stored


def _from_farther_away(read: int, target: Target) -> float:
    """More for each vector if so many bytes are read before the same are read again."""
    return 2.0 if read > target.l2 else 0.5 if read > target.l1 else 0.0


def _is_near(access: Access, plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether all elements of a sum are read, and not on the same few lines of the caches."""
    steps, bytes_of = flat_form(access, strides).steps, plan.form.dtype.numpy().itemsize
    spread = (
        extent_of(k) * math.gcd(steps.get(k, 0) * bytes_of, PAGE)
        for k in plan.depth.indices
        if steps.get(k, 0)
    )
    condition = plan.form.kernel.condition
    return condition is None and max(spread, default=0) <= target.l1 // 2


def _run_inside(access: Access, own: Index, lanes: int) -> float:
    """Results for each vector of a row of windows: whole ones are inside, and what is left of a row
    is done under a mask."""
    extent = inside = extent_of(own)
    for subscript, size_of in zip(access.subscripts, shape_of(access.tensor.shape), strict=True):
        form = linear(subscript.index)
        steps = form.steps
        if steps.get(own, 0) > 0 and subscript.rule is not None and isinstance(form.constant, int):
            ends = [n * (extent_of(i) - 1) for i, n in steps.items() if i is not own]
            low = form.constant + sum(min(n, 0) for n in ends)
            high = form.constant + sum(max(n, 0) for n in ends)
            inside = count_inside(low, high, steps[own], extent, size_of)
    full = inside // lanes
    return extent / (full + -(-(extent - full * lanes) // lanes))


def _is_window(access: Access, own: Sequence[Index]) -> bool:
    """Whether neighbouring results read mostly the same elements, for other terms."""
    parts = [set(linear(s.index).steps) for s in access.subscripts]
    return any(len(used) > 1 and not used.isdisjoint(own) for used in parts)
