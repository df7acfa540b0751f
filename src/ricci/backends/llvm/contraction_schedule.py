"""Contraction plans from schedules, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.nodes import Tensor
from ...records import replace
from .contraction_form import Form, Operand
from .contraction_plan import (
    MOST_CHUNKS,
    Plan,
    in_runs,
    is_across,
    is_asked_ahead,
    may_be_deep,
    reduced_loops,
    sources_of,
)
from .contraction_reading import is_by_lanes, is_far
from .emit_access import extent_of
from .kernels import Strides
from .matrix_choice import matrices_for, may_multiply, plan_of, sources_for
from .packing import Depth
from .schedule import Contraction, Matrices, Side, Source, impossible
from .target import Target

MOST_ROWS, MOST_VECTORS, MOST_CELLS = 32, 16, 64
"""The largest register tile: one that is larger than the registers is slow, and long to compile."""


def schedule_of(plan: Plan) -> Contraction | Matrices:
    """The schedule that a plan follows."""
    numbers = {index: number for number, index in enumerate(plan.form.reduced)}
    side: Side = "right" if plan.vector is plan.form.right else "left"
    depth = plan.depth
    read = side, plan.broadcast_source, plan.vector_source
    blocks = plan.row_block, plan.lane_block
    order = tuple(numbers[i] for i in depth.indices)
    if plan.matrices is not None:
        return Matrices(*read, *blocks, order, depth.split, depth.block)
    tile = plan.rows, plan.vectors
    return Contraction(*read, *tile, *blocks, order, depth.split, depth.block, plan.grain)


def scheduled_matrices(
    form: Form,
    schedule: Matrices,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> Plan:
    """The plan of a schedule by matrices; `Error` E0807 if a kernel cannot be computed so."""
    s, name = schedule, form.kernel.name
    form = in_runs(form, strides)
    broadcast, vector = form.sides(s.vector)
    if not (may_multiply(form, target) and (form.words is None or s.vector == "right")):
        raise impossible("no matrices of such elements are multiplied", name)
    if not (s.row_block and s.lane_block and s.block):
        raise impossible("a block is 0", name)
    depth = _depth(form, s)
    _check_sources(form, s, lambda o, v: sources_for(form, o, depth, strides, constant, v))
    m = matrices_for(form, broadcast, vector)
    sources = s.broadcast_source, s.vector_source
    plan = plan_of(form, broadcast, vector, sources, depth, m, strides, target)
    plan = replace(
        plan,
        row_block=_whole(min(s.row_block, broadcast.extent), plan.rows),
        lane_block=_whole(min(s.lane_block, vector.extent), plan.panel),
    )
    return _with_grain(plan, 1)


def scheduled_plan(
    form: Form,
    schedule: Contraction,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> Plan:
    """The plan of a schedule; `Error` E0807 if a kernel cannot be computed so."""
    s, name = schedule, form.kernel.name
    form = in_runs(form, strides)
    broadcast, vector = form.sides(s.vector)
    if not (0 < s.rows <= MOST_ROWS and 0 < s.vectors <= MOST_VECTORS):
        raise impossible(f"no register tile has {s.rows} rows of {s.vectors} vectors", name)
    if s.rows * s.vectors > MOST_CELLS:
        raise impossible(f"a register tile has at most {MOST_CELLS} vectors", name)
    if not (s.row_block and s.lane_block and s.block and s.grain):
        raise impossible("a block or grain is 0", name)
    depth = _depth(form, s)
    _check_sources(form, s, lambda o, v: sources_of(o, depth, strides, constant, v))
    lanes = target.lanes(form.dtype)
    panel = s.vectors * lanes
    bytes_of = form.dtype.numpy().itemsize
    asks = is_asked_ahead(broadcast, s.broadcast_source, s.rows, depth, strides, bytes_of, target)
    row_block = _whole(min(s.row_block, broadcast.extent), s.rows)
    lane_block = _whole(min(s.lane_block, vector.extent), panel)
    plan = Plan(
        form, broadcast, vector, s.broadcast_source, s.vector_source, depth, lanes, s.rows,
        s.vectors, row_block, lane_block, is_across(form, vector, lanes, strides),
        asks_ahead=asks, has_far_rows=is_far(broadcast, depth, bytes_of, target),
        by_lanes=is_by_lanes(broadcast, vector, depth, bytes_of, target),
    )  # fmt: skip
    deep = plan.run > 0 and may_be_deep(form, broadcast, s.broadcast_source, depth, target)
    return _with_grain(replace(plan, is_deep=deep), s.grain)


def _check_sources(
    form: Form,
    s: Contraction | Matrices,
    allowed: Callable[[Operand, bool], Iterable[Source]],
) -> None:
    """Raise E0807 for an operand that cannot be read as a schedule says."""
    named = (s.broadcast_source, s.vector_source)
    for operand, source, is_vector in zip(form.sides(s.vector), named, (False, True), strict=True):
        if source not in {"packed", *allowed(operand, is_vector)}:
            raise impossible(_why_not(operand, form, source), form.kernel.name)


def _with_grain(plan: Plan, wanted: int) -> Plan:
    """The plan with so many blocks in a chunk, or more if there were too many chunks."""
    least = -(-plan.blocks // MOST_CHUNKS)
    return replace(plan, grain=min(max(wanted, least), max(plan.blocks, 1)))


def _depth(form: Form, schedule: Contraction | Matrices) -> Depth:
    loops = {form.reduced.index(i) for i in reduced_loops(form)}
    order = schedule.order
    if len(set(order)) != len(order) or set(order) != loops:
        reason = f"the order of its reduced indices is a permutation of {sorted(loops)}"
        raise impossible(reason, form.kernel.name)
    if schedule.split >= len(order):
        raise impossible("the index that is cut in blocks is not there", form.kernel.name)
    indices = tuple(form.reduced[k] for k in order)
    return Depth(indices, schedule.split, min(schedule.block, extent_of(indices[schedule.split])))


def _why_not(operand: Operand, form: Form, source: Source) -> str:
    side = "left" if operand is form.left else "right"
    if source == "prepared":
        return f"the {side} operand is not constant, or takes too much memory when prepared"
    return f"the {side} operand does not lie in memory so that tiles can read it there"


def _whole(count: int, unit: int) -> int:
    return -(-max(count, 1) // unit) * unit
