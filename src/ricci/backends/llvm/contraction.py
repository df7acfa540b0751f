"""Code for sums of products: register-tiled, cache-blocked, whatever the subscripts are.

    for each chunk: a block of rows x a block of columns of the result, for one batch
        for each block of k
            pack what has to be packed
            for each panel of rows, for each panel of columns:  register tile, then its results

The operands' layout in memory matters to packing alone (`packing`), the shape of the problem to the
plan alone (`contraction_plan`).
"""

from __future__ import annotations

import math

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from ...records import replace
from .contraction_beside import beside_others, is_fitted, plain, whole
from .contraction_cost import estimate
from .contraction_form import Form, find_form
from .contraction_plan import Plan, make_plan
from .contraction_schedule import schedule_of, scheduled_matrices, scheduled_plan
from .contraction_words import find_words, with_strides, with_views
from .contraction_write import write_contraction
from .kernels import KernelCode, Strides
from .matrix_choice import choose_matrices, may_multiply, until_done
from .matrix_window import choose_matrix_window
from .matrix_window import plan_of as matrix_window
from .matrix_window_write import write_matrix_window
from .matrix_write import write_matrices
from .matvec import choose_dots, write_dots
from .schedule import (
    Contraction,
    Dots,
    Matrices,
    MatrixWindow,
    Schedule,
    Window,
    Winograd,
    impossible,
)
from .target import Target
from .window_choice import choose_window
from .window_cost import done_in
from .window_plan import window_plan
from .window_write import write_window
from .winograd_choice import choose_winograd
from .winograd_plan import winograd_plan
from .winograd_write import write_winograd

_ALIKE = 1.05
"""Estimates so near each other say nothing: what is read in place is preferred then."""
_BESIDE_MATRICES, _NESTS_BESIDE = 1.08, 0.9
"""How many times as long as estimated other panels take, beside those of matrices; and plain nests.
"""
_ALIKE_FITTED = 0.9
"""The same beside panels that `is_fitted` is said of: of 116 layers copies of boxes take 1.18 times
their estimate in the middle, panels 1.13 times; 0.8 to 0.9 chose best of 381 others."""
_WORDS_PACKED = 1.2
"""How many times as long as estimated it takes if words are packed."""
_WINDOW_OF_WORDS = 0.85
"""How much of what panels of words are estimated to take windows by matrices may take: of 49 rows
panels take 0.67 of their estimate, windows 0.86; of pairs 0.33 ms and 0.4."""
_SHARING = 1.3
"""How many times as long it may take to read what is prepared for others anyway."""
_OF_WORDS = Contraction | Matrices | Window | MatrixWindow
"""The schedules that products of narrow numbers may have."""
MOST_SCRATCH = 64 << 20
"""Bytes that a thread may use for packed blocks."""


def match(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor] = frozenset()
) -> KernelCode | None:
    """The code of a kernel that is a sum of products with enough reuse, else None."""
    return match_beside(kernel, strides, target, constant, None)[0]


def match_beside(
    kernel: Reduce,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    like: Contraction | None,
) -> tuple[KernelCode | None, Schedule | None]:
    """As `match`, and the schedule; with columns prepared as those of a schedule `like` it for
    other rows, so that both read the same, unless that takes clearly longer."""
    form, found, cycles = _choose(kernel, strides, target, constant)
    if form is None or found is None:
        return None, None
    strides, constant = with_strides(form, strides), with_views(form, constant)
    if not isinstance(found, Plan):
        return _write(form, found, strides, target, constant), found
    own, rows = schedule_of(found), found.broadcast.extent
    if like is not None and form.words is None and _reads_alike(own, like):
        both = replace(like, rows=min(like.rows, rows), row_block=rows)
        ways = [replace(both, lane_block=n) for n in (like.lane_block, own.lane_block)]
        plans = [scheduled_plan(form, way, strides, target, constant) for way in ways]
        done, best = min((_until_done(p, strides, target), n) for n, p in enumerate(plans))
        if done <= _SHARING * cycles:
            found = plans[best]
    return _write_plan(found, strides, target), schedule_of(found)


def _reads_alike(own: Contraction | Matrices, like: Contraction) -> bool:
    """Whether schedules read operands, and run through what is reduced, in the same way."""
    return isinstance(own, Contraction) and (
        (own.vector, own.broadcast_source, own.vector_source, own.order, own.split)
        == (like.vector, like.broadcast_source, like.vector_source, like.order, like.split)
    )


def _write_plan(plan: Plan, strides: Strides, target: Target) -> KernelCode:
    write = write_contraction if plan.matrices is None else write_matrices
    return write(plan, strides, target)


def _write(
    form: Form,
    schedule: Dots | Window | MatrixWindow | Winograd,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> KernelCode:
    if form.words is not None:
        target = form.words.room(target)
    if isinstance(schedule, Dots):
        return write_dots(form, schedule, strides, target)
    if isinstance(schedule, MatrixWindow):
        found = matrix_window(form, schedule, strides, target, constant)
        if isinstance(found, str):
            raise impossible(found, form.kernel.name)
        return write_matrix_window(found, strides, target)
    if isinstance(schedule, Winograd):
        fewer = winograd_plan(form, schedule, strides, target, constant)
        return write_winograd(fewer, strides, target)
    return write_window(window_plan(form, schedule, strides, target, constant), strides, target)


def choose(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Schedule | None:
    """The schedule of a kernel that is a sum of products with enough reuse, else None."""
    _, schedule, _ = _choose(kernel, strides, target, constant)
    return schedule_of(schedule) if isinstance(schedule, Plan) else schedule


def cycles_of(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> float:
    """Cycles until all cores have done a kernel, as estimated; infinity if there is no estimate."""
    return _choose(kernel, strides, target, constant)[2]


def follow(
    kernel: Reduce,
    schedule: Contraction | Matrices | Dots | Window | MatrixWindow | Winograd,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> KernelCode:
    """The code of a kernel by a schedule; `Error` E0807 if it cannot be computed so."""
    by_matrices = isinstance(schedule, Matrices | MatrixWindow)
    form = form_of(kernel, strides)
    if form is None or isinstance(schedule, _OF_WORDS):
        form = find_words(kernel, strides, target, by_matrices) or form
    if form is None:
        raise impossible("it is not a sum of products", kernel.name)
    strides, constant = with_strides(form, strides), with_views(form, constant)
    fits = isinstance(schedule, _OF_WORDS) and schedule.vector == "right"
    if form.words is not None and not fits:
        raise impossible("products of narrow numbers have another register tile", kernel.name)
    given = (strides, target, constant)
    if isinstance(schedule, Matrices):
        code = _write_plan(scheduled_matrices(form, schedule, *given), strides, target)
    elif isinstance(schedule, Contraction):
        code = _write_plan(scheduled_plan(form, schedule, *given), strides, target)
    else:
        code = _write(form, schedule, *given)
    if code.scratch > MOST_SCRATCH:
        raise impossible(f"each thread needs {code.scratch >> 20} MB for its blocks", kernel.name)
    return code


def form_of(kernel: Reduce, strides: Strides) -> Form | None:
    """The kernel as a sum of products with more than one result, or None if it is none."""
    form = find_form(kernel, strides)
    return None if form is None or max(form.left.extent, form.right.extent) < 2 else form


def _choose(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> tuple[Form | None, Plan | Dots | Window | MatrixWindow | Winograd | None, float]:
    """The form of a kernel, how it is done soonest, and when, if that is estimated."""
    form = form_of(kernel, strides)
    if form is None:
        return _choose_words(kernel, strides, target, constant)
    dots = choose_dots(form, strides, target, constant)
    if dots is not None:
        return form, dots, math.inf
    if find_words(kernel, strides, target) is not None:
        return _choose_words(kernel, strides, target, constant)
    plan = make_plan(form, strides, target, constant)
    panels, nest = whole(plan, strides, target), plain(plan, strides, target)
    good = _is_worthwhile(plan, panels, nest)
    alike = _ALIKE_FITTED if is_fitted(plan, target) else 1.0 if _is_in_place(plan) else _ALIKE
    more = beside_others(plan, strides, target) / 2 / target.cores
    done, nest_done = _until_done(plan, strides, target), nest / 2 / target.cores
    soonest = alike * (done + more) if good else nest_done
    window = choose_window(form, strides, target, constant, min(panels, nest), soonest)
    soonest = done if good else nest_done
    if window is not None:
        soonest = done_in(window_plan(form, window, strides, target, constant), strides, target)
    by_matrices: Plan | MatrixWindow | None = None
    others = 1.0
    if may_multiply(form, target):
        if window is None:
            is_nest = not good or nest_done < soonest
            others = _NESTS_BESIDE if is_nest else _BESIDE_MATRICES
        by_matrices, soonest = _choose_matrices(
            form, strides, target, constant, min(soonest, nest_done), others
        )
    # fewer products were fitted beside what panels are estimated to take
    if is_fitted(plan, target):
        soonest = min(soonest, done)
    fewer = choose_winograd(form, strides, target, constant, soonest)
    found = fewer or by_matrices or window
    cycles = math.inf if fewer else soonest if by_matrices else others * soonest
    return form, found or (plan if good else None), cycles


def _choose_matrices(
    form: Form,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    most: float,
    others: float = _BESIDE_MATRICES,
) -> tuple[Plan | MatrixWindow | None, float]:
    """What is done soonest by matrices, if before `most` cycles, and when; others take so many
    times as long as estimated."""
    found: Plan | MatrixWindow | None = choose_matrices(
        form, strides, target, constant, others * most
    )
    if isinstance(found, Plan):
        most = until_done(found, strides, target)
    limit = most
    if isinstance(found, Plan) and form.words is not None:
        limit *= _WINDOW_OF_WORDS
    window = choose_matrix_window(form, strides, target, constant, limit)
    return (found, most) if window is None else (window[1], window[0])


def _packs(plan: Plan) -> bool:
    return "packed" in (plan.broadcast_source, plan.vector_source)


def _is_in_place(plan: Plan) -> bool:
    """Whether nothing is packed, either, and panels stay in the first cache for many rows."""
    return not _packs(plan) and plan.depth.blocks > 1 and plan.lane_block == plan.panel


def _choose_words(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> tuple[Form | None, Plan | Window | MatrixWindow | None, float]:
    """The same of products of narrow numbers."""
    form = find_words(kernel, strides, target)
    if form is None or form.words is None:
        return None, None, math.inf
    given = strides, constant
    strides, constant = with_strides(form, strides), with_views(form, constant)
    plan = make_plan(form, strides, target, constant)
    panels, nest = whole(plan, strides, target), plain(plan, strides, target)
    good = _is_worthwhile(plan, panels, nest)
    room = form.words.room(target)
    soonest = (_WORDS_PACKED if _packs(plan) else 1.0) * _until_done(plan, strides, room)
    window = choose_window(form, strides, room, constant, min(panels, nest), soonest)
    if window is not None:
        soonest = done_in(window_plan(form, window, strides, room, constant), strides, room)
    elif not good:
        soonest = nest / 2 / target.cores
    other = find_words(kernel, given[0], target, matrices=True)
    if other is not None and not kernel.again:
        strides, constant = with_strides(other, given[0]), with_views(other, given[1])
        by_matrices, done = _choose_matrices(other, strides, target, constant, soonest)
        if by_matrices is not None:
            return other, by_matrices, done
    return form, window or (plan if good else None), soonest


def _until_done(plan: Plan, strides: Strides, target: Target) -> float:
    """Cycles of a plan until all cores are done; estimates of panels are in half cycles."""
    return estimate(plan, strides, target) / 2


def _is_worthwhile(plan: Plan, panels: float, nest: float) -> bool:
    """Whether a plain loop nest is likely to take longer, as far as estimates tell.

    With one row there is nothing to gain but from streaming a matrix that is not packed first.
    """
    if plan.broadcast.extent == 1:
        return plan.vector_source != "packed"
    return panels < nest
