"""What a window plan costs, estimated from counts of instructions: see `contraction_cost`."""

from __future__ import annotations

import math

from ...ir.rewrite import free_indices
from .contraction_cost import most_apart
from .contraction_form import size
from .contraction_space import flat_form
from .contraction_tiles import equal_pieces, multiply_adds
from .emit_access import extent_of
from .emit_types import width
from .kernels import Strides
from .packing import Packing, contiguous_depth
from .target import LINE, PAGE, Target
from .window_box import Staged, access_of
from .window_plan import WindowPlan, bytes_brought

_CALL = 70.0
"""Cycles around a tile: its call, and its part of storing results."""

_LINE, _FED_LINE, _LINE_BESIDE = 2.2, 0.6, 0.4
"""Cycles to bring a line of the cache near, on average, beside other work; where cores are fed; and
where they take twice as long for vectors, which are done in halves, of what stays near."""
_STAYS, _SMALL = 2, 1 / 8
"""How many times the second cache both operands may be that stay near; and an image alone that does
while others pass by."""
_PART = 4.0
"""More to store a part of a vector, where a core is not wide."""
_SHORT = 2.0
"""Cycles to store a vector of 32 bytes that was turned round, or what there is of it."""
_TURN = {False: 40.0, True: 120.0}
"""Cycles to turn round a square of results, by whether vectors are longer than 32 bytes."""

_LOAD = 1.25
"""How many times as long as counted, two in a cycle, loads take where vectors of 32 bytes are not
done in halves: tiles of one vector, which load once for each multiply-add, took a fifth longer than
others, of what was estimated. Not measured where vectors are longer or shorter."""

Copying = tuple[float, float]
"""Cycles of copying the boxes of both operands once."""


def copying(w: WindowPlan, strides: Strides) -> Copying:
    """The same for all tiles, and all blocks of lanes."""
    return copying_of(w.rows, strides), copying_of(w.columns, strides)


def cycles_of(w: WindowPlan, copies: Copying, target: Target) -> float:
    """Cycles on one core."""
    sides = zip((w.rows, w.columns), copies, strict=True)
    copied = sum(w.blocks * _copies(w, side) * each for side, each in sides if each)
    return copied + w.items * _item(w, target)


def done_in(w: WindowPlan, strides: Strides, target: Target) -> float:
    """The same as `cycles_until_done`, of a plan alone."""
    return cycles_until_done(w, copying(w, strides), target)


def cycles_until_done(w: WindowPlan, copies: Copying, target: Target) -> float:
    """Cycles until all cores have done all chunks."""
    chunks = -(-w.items // w.plan.grain)
    cycles = cycles_of(w, copies, target) + bytes_brought(w, target) / 24
    cores = target.cores
    return cycles / chunks * (-(-chunks // cores) + 0.07) + min(cycles / 10, 400.0 * chunks) / cores


def _item(w: WindowPlan, target: Target) -> float:
    """Cycles of an item's tiles."""
    plan = w.plan
    deep = size(w.loops) * (w.guarded.share(w.lines) if w.guarded else 1.0)
    calls = math.prod(w.length(i) for i in (*w.down(), *w.right()))
    lines = [(1, 1)] if w.line is None else equal_pieces(w.length(w.line), w.lines)
    cycles = 0.0
    for repeat, lines_of in lines:
        for times, rows in equal_pieces(w.length(w.row), plan.rows):
            clash = _clashes(rows, w, target)
            for count, vectors in equal_pieces(w.vectors, plan.vectors):
                tile = deep * clash * _step(rows * lines_of, vectors, w, target)
                tile += _CALL * w.blocks
                tile += _storing(rows * lines_of, vectors, w, target) * target.slower
                cycles += calls * repeat * times * count * tile
    # what does not stay in the first cache takes longer to read again
    held = w.rows.elements + w.columns.elements
    if w.prepared:
        held += plan.panel * size(w.loops)
        held //= w.turns
    return cycles * (1.0 + held * width(plan.form.dtype) / target.l2 / (8 if w.prepared else 1))


def _clashes(rows: int, w: WindowPlan, target: Target) -> float:
    """How much longer tiles take whose rows lie whole pages apart: on few lines of the caches."""
    apart = abs(w.rows.step(w.row)) * width(w.plan.form.dtype)
    most = most_apart(target)
    if not target.long:  # loads are closer together
        most //= 2
    return 1.15 if rows > most and apart and apart % PAGE == 0 else 1.0


def _step(rows: int, vectors: int, w: WindowPlan, target: Target) -> float:
    """Cycles of one k of a tile; vectors that begin anywhere cross lines of the cache."""
    work, latency = multiply_adds(rows, vectors, target), target.accumulators * 0.8
    crossing = 1.0 if w.columns.pitch % w.plan.lanes == 0 else 1.8
    loads = (vectors * crossing + rows) * target.slower
    if target.vector_bytes == 32 and not target.narrow:
        loads *= _LOAD
    lines = _line(w, target) * _lines(rows, w) if w.prepared else 0.0
    return max(work, latency, loads) / 2 + 0.5 + lines


def _line(w: WindowPlan, target: Target) -> float:
    """Cycles to bring a line of the cache near."""
    if target.is_fed:
        return _FED_LINE
    if not target.halves:
        return _LINE
    size_of = width(w.plan.form.dtype)
    reach = size_of * max((abs(w.rows.step(i)) * extent_of(i) for i in w.loops), default=0)
    all_of_both = reach + size_of * size(w.loops) * extent_of(w.lane)
    near = reach <= _SMALL * target.l2 or all_of_both <= _STAYS * target.l2
    return _LINE_BESIDE if near else _LINE


def _lines(rows: int, w: WindowPlan) -> float:
    """How many lines of the cache the rows of a tile meet at each k, if neighbouring k are not in
    the same."""
    size_of = width(w.plan.form.dtype)
    step = abs(w.rows.step(w.loops[-1])) * size_of
    if step < 64:
        return 0.0
    apart = abs(w.rows.step(w.row)) * size_of
    met = rows if apart >= 64 else 1 + rows * apart / 64
    if step > abs(w.rows.step(w.loops[0 if len(w.loops) < 3 else 1])) * size_of:
        met /= size(w.loops[1:-1])  # a part of a longer loop, whose lines the others meet again
    return met * (3.0 if step >= PAGE else 1.0)  # and pages to be found out


def _storing(rows: int, vectors: int, w: WindowPlan, target: Target) -> float:
    """Cycles of storing the results of a tile, in vectors along one of its sides."""
    plan, turned = w.plan, 0.0
    along, length, stores = w.lane, plan.lanes, float(rows * vectors)
    if plan.across:
        along, length, stores = w.row, rows, float(vectors * plan.lanes)
        squares: float = -(-rows // plan.lanes)
        if w.gathers:  # whole vectors, some by the next tile
            squares, length = rows / plan.lanes, plan.lanes
            stores *= squares
        turned = _TURN[target.long] * vectors * squares if w.prepared else 0.0
    step = w.result.get(along, 0)
    if turned and step == 1 and not target.long:
        whole, rest = divmod(length, plan.lanes)
        return turned + stores * _SHORT * (whole + 2 * (rest > 0))
    if plan.across and length % plan.lanes and not target.wide:
        turned += _PART * stores
    return turned + stores * (6.0 + 2.0 * vectors if step == 1 else 6.0 + 1.5 * length)


def _copies(w: WindowPlan, side: Staged) -> int:
    """How often a box is copied: for every item, or for every batch and chunk."""
    used = set(free_indices(side.access))
    if not used.isdisjoint(w.fixed) and not w.prepared:
        return w.items
    own = size(i for i in (*w.plan.form.batch, *w.choices) if i in used)
    return max(own if w.prepared else w.plan.outer, -(-w.items // w.plan.grain))


def copying_of(side: Staged, strides: Strides) -> float:
    """Cycles of copying a box, if it is copied."""
    return 0.0 if side.packing is None else side.elements * _each(side.packing, strides)


def _each(packing: Packing, strides: Strides) -> float:
    """Cycles per element of a copy."""
    operand = packing.operand
    if contiguous_depth(operand, packing.depth, packing.lanes, strides) is not None:
        return 0.8
    run = min(packing.lanes, operand.extent)
    steps = flat_form(access_of(operand), strides).steps
    far = 1.2 if packing.lanes * width(packing.dtype) == LINE else 2.5
    return 4.0 / run if steps.get(operand.indices[-1], 0) in (0, 1) else far
