"""Loop nests: the generator for every kernel that no special one takes.

Any `Reduce`, `Scatter` and `Fill` compiles: a `Reduce` along explicit vectors where its accesses
allow, a `Scatter` element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.loops import Fill, Group, Kernel, Reduce, Scatter
from ...ir.nodes import ZERO, Index, Tensor
from ...records import replace
from .chunks import MOST_CHUNKS
from .counts import Count
from .emit import Frame
from .emit_types import width
from .kernels import KernelCode, Prepare, Strides
from .nest_group import write_group
from .nest_maps import by_maps
from .nest_phase import by_phases
from .nest_plan import Plan, make_plan
from .nest_reduce import ReduceNest
from .nest_scan import ScanNest, recurrence, with_lost
from .nest_scatter import ScatterNest
from .nest_schedule import MOST_UNROLLED, schedule_of, scheduled_plan
from .nest_share import shares_of, write_count
from .nest_turn import TurnNest, plan_turned
from .schedule import Nest
from .sizes import likely, product, size_of, sizes_of, times
from .target import Target
from .words import may_round


def generate(
    kernel: Kernel,
    strides: Strides,
    target: Target,
    schedule: Nest | None = None,
    constant: frozenset[Tensor] = frozenset(),
) -> KernelCode:
    """The code of a kernel, a `Reduce` by a schedule if there is one."""
    frame = Frame(strides, target)
    if isinstance(kernel, Fill):
        return _fill(kernel, frame)
    if isinstance(kernel, Scatter):
        return _scatter(kernel, frame)
    if isinstance(kernel, Group):
        return write_group(kernel, strides, target, constant)
    maps = None if schedule is not None else by_maps(kernel, strides, target, constant)
    if maps is not None:
        made = (Prepare(generate(k, strides, target), k.targets[0].tensor) for k in maps.ahead)
        code = write_group(maps.group, strides, target, constant)
        return replace(code, prepare=(*code.prepare, *made))
    return _reduce(kernel, frame, target, schedule)


def choose(
    kernel: Reduce,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor] = frozenset(),
) -> Nest | None:
    """The schedule of a kernel for which none is given; None if there is nothing to do."""
    if _is_empty(kernel.domain) or plan_turned(kernel, Frame(strides), target) is not None:
        return None
    if by_maps(kernel, strides, target, constant) is not None:
        return None
    kernel, plan = _planned(kernel, Frame(strides), target)
    return schedule_of(kernel, plan)


def _planned(kernel: Reduce, frame: Frame, target: Target) -> tuple[Reduce, Plan]:
    """A reduction, by phases if it has any, and its plan."""
    phases = by_phases(kernel, frame)
    if phases is None:
        return kernel, make_plan(kernel, frame, target)
    plan = make_plan(phases, frame, target)
    plan.unroll = MOST_UNROLLED  # what depends on the phase becomes numbers
    return phases, plan


def _fill(kernel: Fill, frame: Frame) -> KernelCode:
    tensor = kernel.tensor
    size = times(product(sizes_of(tensor.shape)), width(tensor.dtype))
    b = frame.builder
    b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    pointer = frame.pointer(tensor)
    bytes = frame.amount(size)
    b.line(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {bytes}, i1 false)")
    return _code(frame, 1, likely(size) / 16)


def _is_empty(indices: tuple[Index, ...]) -> bool:
    return any(x.extent == ZERO for x in indices)


def _scatter(kernel: Scatter, frame: Frame) -> KernelCode:
    domain = kernel.assignment.domain
    if _is_empty(domain):
        return _code(frame, 0, 0.0)
    steps = recurrence(kernel)
    if steps is not None:
        return _recurrence(steps, frame)
    nest = ScatterNest(kernel, frame)
    nest.emit()
    work = 2.0 * math.prod(likely(size_of(x.extent)) for x in domain)
    return _code(frame, nest.chunks, work, MOST_CHUNKS, nest.count)


def _recurrence(kernel: Reduce, frame: Frame) -> KernelCode:
    assert frame.target is not None
    plan = make_plan(kernel, frame, frame.target)
    if plan.over_reduced:
        plan.vectors = 1  # each needs the last
    else:
        kernel = with_lost(kernel)
    return _nest(ScanNest(kernel, plan, frame), plan, frame)


def _reduce(
    kernel: Reduce, frame: Frame, target: Target, schedule: Nest | None = None
) -> KernelCode:
    if _is_empty(kernel.domain):
        return _code(frame, 0, 0.0)
    frame.builder.rounds = may_round(kernel, target)
    if schedule is None:
        turned = plan_turned(kernel, frame, target)
        if turned is not None:
            tiles = TurnNest(kernel, turned, frame)
            tiles.emit()
            return _code(frame, tiles.chunks, turned.work)
        kernel, plan = _planned(kernel, frame, target)
    else:
        kernel = by_phases(kernel, frame) or kernel
        plan = scheduled_plan(kernel, schedule, frame, target)
    return _nest(ReduceNest(kernel, plan, frame), plan, frame)


def _nest(nest: ReduceNest, plan: Plan, frame: Frame) -> KernelCode:
    nest.emit()
    chunks = nest.shares.chunks
    code = _code(frame, chunks, plan.work, plan.chunks, lambda other: shares_of(plan, other).chunks)
    return replace(code, scratch=nest.scratch)


def _code(
    frame: Frame,
    chunks: Count,
    work: float,
    most: int = 1,
    count: Callable[[Frame], Count] | None = None,
) -> KernelCode:
    """The code of a kernel that is written; `count` computes how many chunks it has, and `most` is
    the largest result of that, if `chunks` is no number."""
    counted = not isinstance(chunks, int) and count is not None
    extra, declarations = "", frame.builder.declarations
    if counted and count is not None:
        other = frame.counting()
        extra = write_count(count(other), other)
        declarations = declarations | other.builder.declarations
    return KernelCode(
        frame.text(extra),
        tuple(frame.tensors),
        most if counted else int(chunks),
        frozenset(declarations),
        sites=tuple(frame.sites),
        work=work,
        sizes=tuple(frame.symbols),
        counted=counted,
    )
