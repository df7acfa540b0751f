"""Chooses the blocks and the register tile of a product by fewer products, and what it costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import lru_cache

from ...dtypes import DType
from ...ir.nodes import Tensor
from .contraction_form import Form
from .contraction_tiles import equal_pieces, even_pieces, multiply_adds, tiles
from .emit_access import extent_of
from .emit_types import width
from .kernels import Strides
from .schedule import Side, Winograd
from .target import LINE, Target
from .window_cost import copying_of
from .winograd_filter import TILE, Axis, Filter, find_filter
from .winograd_plan import WinogradPlan, in_tiles, with_tile

_OTHERS, _OTHERS_SHORT = {False: 1.0, True: 1.09}, 1.25
"""How many times as long as they are estimated other ways take, by whether a core is wide: twelve
layers of three by three 1.0 to 1.3, beside 0.95 to 1.2 of those by fewer products; and where two
units compute vectors of 32 bytes: eight of ten of 223 layers 1.12 to 1.63, half of them more than
1.25, beside 0.88 to 1.21. If half of the lanes have no filter, plain loops do not, whose vectors
are others."""
_LEAST = 16
"""Channels for which it may pay."""
_MOST_VECTORS = 4
"""Vectors of a register tile that are worth a try."""
_ELEMENTS, _PAIRS, _RESULTS = 4.7, 1.25, 2.5
"""Cycles for a vector of sums and differences of elements, what it takes more to collect it from
rows, and for that of a product which goes into results."""
_BESIDE, _SHORT, _SHORT_PAIRS = 0.4, 0.5, 3.0
"""The part of these that they take where units of their own add vectors beside multiply-adds (in
halves of vectors, too, where a multiply-add counts for half of what it takes), and else where
vectors have 32 bytes; and what it takes more there, unless they are done in halves."""
_FAR_LINE = 6.0
"""Cycles for a line of elements in place from beyond a core's cache, in the same case: it is asked
for, but on a page of its own."""
_FILTER, _SUM = 17.0, 1.75
"""Cycles for a vector of a filter, and for each of its sums and differences."""
_CALL = 40.0
"""Cycles around a register tile."""
_STORE, _TURN = 8.0, 120.0
"""Cycles to store a vector of results, and to turn round a square of them."""
_BYTES, _COLD = 8.0, 2.5
"""Bytes of panels that come from beyond the caches of a core in a cycle: again; and for the first
time, when they also take memory."""
_NEAR = 0.75
"""The part of a core's cache that an item may fill so that all stays there."""
_ROOM, _FED, _HALVES = {False: 1.75, True: _NEAR}, 1.2, 1.25
"""How many times the cache an item may fill, by whether vectors are longer than 32 bytes: where
they are not, products take so long that what does not stay is brought meanwhile. The same where a
core is fed while it computes: what an item fills does not matter there up to that; and where
vectors are done in halves: it matters little there."""
_MOST_HELD = 5 << 18
"""Bytes that an item may fill at most: each thread takes them, beside what is between kernels."""
_KEPT = {False: 1.2, True: 1.0}
"""How many times the cycles sums of filters that are kept may take that items can make, by whether
vectors are longer than 32 bytes: they are 16 elements in memory for nine."""
_MEMORY, _MEMORY_HALVES = 3.0, 6.0
"""Bytes more of a constant that may be kept for each cycle that is saved; and where vectors are
done in halves, where a cycle that is counted takes two. There, and where two units compute vectors
of 32 bytes, the price is also added when plans are compared with each other."""
_SPILLED = 4.0
"""Bytes a cycle of what an item makes that does not stay: it goes to a third cache and back."""
_FASTER = {False: 32.0, True: 12.0}
"""How many times as many, again, by whether a core is on a mesh: what comes again is brought while
products go on."""
_HALF = 1.5
"""The same of what takes more than half of the third cache, where vectors are done in halves."""
_SLOWER, _MEANWHILE = {False: 0.4, True: 1.0}, 8.0
"""The same of what stays in no cache, by whether vectors are longer than 32 bytes; and where these
are done in halves, so that there is time to bring it."""


def choose_winograd(
    form: Form,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    most: float = math.inf,
) -> Winograd | None:
    """The schedule that is done soonest, if clearly before `most` cycles; None if there is none."""
    if form.words is not None or not target.winograd:
        return None
    others = _OTHERS_SHORT if target.short else _OTHERS[target.wide]
    found: list[tuple[float, int, Winograd]] = []
    sides: tuple[Side, Side] = ("left", "right")
    for side in sides:
        f = find_filter(form, side, strides, constant)
        if isinstance(f, str) or extent_of(f.channel) < _LEAST:
            continue
        empty = 2 * extent_of(f.lane) <= target.lanes(form.dtype)
        for s, w, cycles in _ways(f, side, strides, target):
            kept = _KEPT[target.long] if w.is_large and not w.late else 1.0
            price = _more(w) / (_MEMORY_HALVES if target.halves else _MEMORY)
            if cycles + price < most * (1.0 if target.short and empty else others):
                counted = cycles * kept + (price if target.halves or target.short else 0.0)
                found.append((counted, len(found), s))
    return min(found)[2] if found else None


def _more(w: WinogradPlan) -> float:
    """Bytes of the prepared constant beyond those of the filters."""
    return w.panels * width(w.plan.form.dtype) * (1.0 - w.taps / w.arranged)


def _ways(
    f: Filter, side: Side, strides: Strides, target: Target
) -> Iterator[tuple[Winograd, WinogradPlan, float]]:
    """Ways to compute it, and until when."""
    shapes = _shapes(extent_of(f.lane), target, f.form.dtype)
    fills = _FED if target.is_fed else _HALVES if target.halves else _ROOM[target.long]
    room = min(target.l2 * fills, _MOST_HELD)
    for tall, wide in _blocks(f.line, f.row):
        whole = in_tiles(f, tall, wide, strides, target)
        if isinstance(whole, str):
            return
        made = copying_of(whole.box, strides) + _elements(whole, target)
        for vectors, heights in shapes.items():
            for block in _lane_blocks(extent_of(f.lane), vectors * whole.plan.lanes):
                w = with_tile(whole, heights[0], vectors, block, target)
                if w.held <= room:
                    rows, cycles = _until_done(w, heights, made, target)
                    schedule = Winograd(side, rows, vectors, tall, wide, block)
                    yield schedule, w, cycles


def _blocks(line: Axis, row: Axis) -> Iterator[tuple[int, int]]:
    """Numbers of tiles: some lines, or a part of one; those that lie in one another together."""
    down, right = line.dilation, row.dilation
    yield from ((down * tall, row.tiles) for tall in _even(line.tiles // down))
    yield from ((down, right * wide) for wide in _even(row.tiles // right)[:-1])


def _even(count: int) -> list[int]:
    """Lengths of blocks of about equal size."""
    return sorted({-(-count // n) for n in range(1, count + 1)})


def _shapes(extent: int, target: Target, dtype: DType) -> dict[int, list[int]]:
    """By numbers of vectors, the rows of register tiles that have as many as there is room for, or
    little fewer."""
    wide = -(-extent // target.lanes(dtype))
    highest: dict[int, int] = {}
    for rows, vectors in tiles(target):
        highest[vectors] = max(rows, highest.get(vectors, 0))
    found: dict[int, list[int]] = {}
    for rows, vectors in tiles(target):
        if vectors <= min(wide, _MOST_VECTORS) and 4 * rows >= 3 * highest[vectors]:
            found.setdefault(vectors, []).append(rows)
    return found


def _lane_blocks(extent: int, panel: int) -> Iterator[int]:
    """Lengths of equal blocks of whole panels."""
    yield extent
    panels = extent // panel if extent % panel == 0 else 1
    yield from (extent // n for n in range(2, panels + 1) if panels % n == 0)


def _until_done(
    w: WinogradPlan, heights: list[int], made: float, target: Target
) -> tuple[int, float]:
    """The rows of register tiles that are done soonest, and cycles until all cores have done all
    chunks, `made` being those of making an item's matrices; the constant comes from farthest away,
    and there is more of it than of the filter."""
    chunks = -(-w.items // w.plan.grain)
    products, rows = _products(w, heights, target)
    each, cores = _item(w, made, products, target) * w.plan.grain, target.cores
    even = -(-chunks // cores) if chunks < 8 * cores else chunks / cores
    claimed = min(each / 10, 400.0) * chunks / cores
    return rows, each * (even + 0.1) + claimed + _more(w) / cores / _COLD


def _panels(w: WinogradPlan) -> list[tuple[int, int]]:
    """How many panels of an item have how many vectors."""
    return equal_pieces(-(-w.lanes.length // w.plan.lanes), w.plan.vectors)


def _item(w: WinogradPlan, made: float, products: float, target: Target) -> float:
    """Cycles of an item, of which the products take some."""
    plan, bytes_of = w.plan, width(w.plan.form.dtype)
    vectors = -(-w.lanes.length // plan.lanes)
    cycles = made + products
    for times, wide in _panels(w):
        cycles += times * w.tiles * wide * w.points * _RESULTS * _part(target)
        cycles += times * w.tall * TILE * _storing(w, wide) * target.slower
    if w.late:
        cycles += vectors * w.channels * (_FILTER + _SUM * len(w.late_sums)) * target.slower
    held, near = w.held, target.l2 * _NEAR
    if not target.is_fed:
        cycles += max(held - near, 0.0) / _SPILLED
        cycles *= 1.0 + held / target.l2 / 16 * target.units
    if w.panels * bytes_of + held <= near:
        return cycles
    brought = w.arranged * w.channels * w.lanes.length * bytes_of
    if w.stays:
        faster = _FASTER[target.on_mesh]
    else:
        faster = _MEANWHILE if target.halves else _SLOWER[target.long]
    if target.narrow and 2 * w.again > target.shared:
        faster = min(faster, _HALF)
    return cycles + brought / (_BYTES * faster)


def _part(target: Target) -> float:
    """The part of the cycles of sums and differences that a processor takes."""
    if target.long:
        return _BESIDE if target.near_l3 else 1.0
    return _SHORT * target.slower


def _elements(w: WinogradPlan, target: Target) -> float:
    """Cycles of making the matrices of elements."""
    if w.along_channels:
        count = w.points * w.tiles * -(-w.channels // w.plan.lanes)
        return count * _ELEMENTS * _part(target)
    count = w.points * w.channels * w.tall * -(-w.wide // w.element_lanes)
    if not target.short:
        return count * (_ELEMENTS + _PAIRS) * _part(target)
    cycles = count * (_ELEMENTS + _SHORT_PAIRS) * _part(target)
    if not (w.in_place and w.is_far):
        return cycles
    lines = w.row.pitch * w.wide * width(w.plan.form.dtype) / LINE + 1
    return cycles + w.channels * w.line.pitch * w.tall * lines * _FAR_LINE


def _storing(w: WinogradPlan, vectors: int) -> float:
    """Cycles of storing a line of results, in vectors along it or along lanes."""
    rows, plan = TILE * w.wide, w.plan
    if not plan.across:
        return rows * vectors * _STORE
    turned = vectors * -(-rows // plan.lanes)
    return turned * (_TURN + plan.lanes * _STORE)


def _products(w: WinogradPlan, heights: list[int], target: Target) -> tuple[float, int]:
    """Cycles of the products of an item by register tiles of the rows that take fewest, and these
    rows."""
    both = itertools.product(w.down, w.across)
    points = [(down.tiles * across.tiles, down.count * across.count) for down, across in both]
    panels, found = _panels(w), []
    for height in heights:
        cycles = 0.0
        for number, count in points:
            pieces = even_pieces(number, min(height, w.tiles))
            for (panel, vectors), (times, rows) in itertools.product(panels, pieces):
                each = w.channels * _step(rows, vectors, target) + _CALL
                cycles += count * panel * times * each
        found.append((cycles, height))
    return min(found)


@lru_cache(1024)
def _step(rows: int, vectors: int, target: Target) -> float:
    """Cycles of a channel of a register tile."""
    latency, loads = target.accumulators * 0.8, (rows + vectors) * target.slower
    return max(multiply_adds(rows, vectors, target), latency, loads) / 2 + 0.8
