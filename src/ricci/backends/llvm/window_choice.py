"""Chooses how a sum of products reads copies of boxes: the tile, and the blocks of an item."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.nodes import Tensor
from ...records import replace
from .contraction_form import Form, Operand, size
from .contraction_space import flat_form
from .contraction_tiles import has_room, tiles
from .emit_access import extent_of
from .kernels import Strides
from .schedule import Side, Window
from .target import Target
from .window_cost import copying, cycles_of, cycles_until_done
from .window_plan import (
    WindowPlan,
    in_lane_blocks,
    in_row_blocks,
    is_affine,
    is_given,
    outside_indices,
    overlaps,
    plan_of,
    vector_length,
    with_tile,
)

_BETTER = {False: 0.75, True: 0.5}
"""The part of the cycles of another way that copies of both operands may take, by whether vectors
are longer than 32 bytes: their tiles are estimated as if they waited for nothing."""
_NEAR = 1.1
"""Ways that take so many times the cycles of the best one at most may be done sooner in blocks."""

Way = tuple[Window, WindowPlan]


def choose_window(
    form: Form,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    most: float = math.inf,
    soonest: float = math.inf,
) -> Window | None:
    """The schedule that takes fewest cycles on one core, if less than `most`, the cycles of another
    way, or than a part of it with copies. With a constant operand all cores have to be done in
    fewer cycles than `soonest`, too."""
    if form.words is not None and form.words.offset:
        return None
    points = size((*form.kernel.domain, *form.reduced))
    if points / (2 * target.lanes(form.dtype)) >= most:
        return None
    found: list[tuple[float, int, int, Way]] = []
    for number, way in enumerate(_ways(form, strides, target, constant)):
        part = 1.0 if way[1].prepared else _BETTER[target.long]
        for cycles, tiled in _with_best_tiles(way, strides, target):
            found.append((cycles / part, len(found), number, tiled))
    best = min(found, default=None)
    if best is None or best[0] >= most:
        return None
    if not best[3][1].prepared:
        return best[3][0]
    alike: dict[int, list[Way]] = {}
    for cycles, _, number, way in found:
        if cycles <= _NEAR * best[0] and way[1].prepared:
            alike.setdefault(number, []).append(way)
    ends = (_in_blocks(tiles, strides, target) for tiles in alike.values())
    soon = min(ends, key=lambda end: end[0])
    return soon[1] if soon[0] < soonest else None


def _with_best_tiles(way: Way, strides: Strides, target: Target) -> Iterator[tuple[float, Way]]:
    """For each number of vectors the fewest cycles on one core, and a way with the tile that takes
    them: blocks of lanes are as many of these as there is room for near a core."""
    schedule, plan = way
    copies = copying(plan, strides)
    found: dict[int, tuple[float, Way]] = {}
    for lines, rows, vectors in _tiles_of(plan, target):
        tiled = with_tile(plan, lines, rows, vectors)
        sized = replace(schedule, lines=lines, rows=rows, vectors=vectors)
        cycles = cycles_of(tiled, copies, target)
        if vectors not in found or cycles < found[vectors][0]:
            found[vectors] = cycles, (sized, tiled)
    yield from found.values()


def _in_blocks(alike: Sequence[Way], strides: Strides, target: Target) -> tuple[float, Window]:
    """Until when the blocks are done that are done soonest, and the schedule with them, of plans
    that have different tiles alone: boxes of rows are the same for all."""
    found: list[tuple[float, int, int, Window]] = []
    first, plan = alike[0]
    for rows in _divisors(extent_of(plan.first), 1):
        part = in_row_blocks(plan, rows, strides, target)
        if isinstance(part, str):
            continue
        copies = copying(part, strides)
        for number, (s, w) in enumerate(alike):
            tiled = with_tile(part, w.lines, w.plan.rows, w.plan.vectors)
            for lanes in _divisors(extent_of(w.lane), w.plan.panel):
                whole = in_lane_blocks(tiled, lanes, target)
                if not isinstance(whole, str):
                    cycles = cycles_until_done(whole, copies, target)
                    blocks = replace(s, row_block=rows, lane_block=lanes)
                    found.append((cycles, number, len(found), blocks))
    best = min(found, default=(math.inf, 0, 0, first))
    return best[0], best[3]


def _divisors(extent: int, unit: int) -> list[int]:
    """The lengths of equal blocks, in units; all of it is one."""
    small = [n for n in range(1, math.isqrt(extent) + 1) if extent % n == 0]
    lengths = {*small, *(extent // n for n in small)}
    return [*sorted(n for n in lengths if n % unit == 0 and n < extent), extent]


def _ways(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Iterator[Way]:
    """The ways to lay a tile, with its smallest size."""
    numbers = {i: n for n, i in enumerate((*form.kernel.domain, *form.kernel.reduced))}
    affine = is_affine(form.left) and is_affine(form.right)
    overlap = affine and (overlaps(form.left, form) or overlaps(form.right, form))
    sides: list[tuple[Side, Operand, Operand]] = [
        ("left", form.right, form.left),
        ("right", form.left, form.right),
    ]
    if form.words is not None:
        sides = sides[1:]  # what the vectors hold is decided
    ready = {s: list(_prepared_ways(form, s, strides, target, constant)) for s, _, _ in sides}
    yield from (way for ways in ready.values() for way in ways)
    for side, broadcast, vector in sides if overlap else ():
        if ready[side]:
            continue
        for row in broadcast.indices:
            for lane in vector.indices:
                for beside in vector.indices:
                    whole = extent_of(lane) == vector_length(lane, form, target)
                    if extent_of(lane) > 1 and (whole or beside is lane):
                        given = (numbers[row], numbers[lane], numbers[beside])
                        schedule = Window(side, *given, 1, 1)
                        plan = plan_of(form, schedule, strides, target, constant)
                        if not isinstance(plan, str):
                            yield schedule, plan


def _prepared_ways(
    form: Form, side: Side, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Iterator[Way]:
    """The ways to lay a tile that reads a constant operand arranged ahead of time, in the largest
    blocks that leave room for a copy of the other one."""
    vector, broadcast = form.left, form.right
    if side == "right":
        vector, broadcast = broadcast, vector
    lanes = [i for i in vector.indices if extent_of(i) > 1]
    steps = flat_form(form.kernel.targets[0], strides).steps
    if not is_affine(broadcast):
        return
    alone = outside_indices(broadcast, form)
    inside = [i for i in broadcast.indices if extent_of(i) > 1 and i not in alone]
    if len(lanes) != 1 or not inside or not is_given(vector, form, constant):
        return
    numbers = {i: n for n, i in enumerate((*form.kernel.domain, *form.kernel.reduced))}
    lane = numbers[lanes[0]]
    near = [i for i in broadcast.indices if steps.get(i) == 1 and extent_of(i) > 1]
    for row in dict.fromkeys((min(inside, key=lambda i: steps.get(i, 0)), *near)):
        fixed = [i for i in alone if i is not row]
        first = next(i for i in broadcast.indices if i not in fixed)
        for outer in _divisors(extent_of(fixed[-1]), 1) if fixed else [1]:
            for length in reversed(_divisors(extent_of(first), 1)):
                schedule = Window(
                    side, numbers[row], lane, lane, 1, 1, row_block=length, outer_block=outer
                )
                plan = plan_of(form, schedule, strides, target, constant)
                if not isinstance(plan, str):
                    yield schedule, plan
                    break


def _tiles_of(w: WindowPlan, target: Target) -> Iterator[tuple[int, int, int]]:
    """The lines, rows and vectors of tiles that are not larger than what there is."""
    down = extent_of(w.row)
    for rows, vectors in tiles(target):
        if rows > down or vectors > w.all_vectors:
            continue
        yield 1, rows, vectors
        if rows == down and w.line is not None and w.prepared:
            for lines in range(2, min(extent_of(w.line), target.registers) + 1):
                if has_room(lines * rows, vectors, target):
                    yield lines, rows, vectors
