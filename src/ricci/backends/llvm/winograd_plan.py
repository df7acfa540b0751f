"""Sums of products with a small constant filter by fewer products: Winograd's F(2, 3) and F(2, 2).

    result[y, x] = sum over c, i, j of  d[c, s y + i, t x + j] * g[c, i, j]      (i, j < 3)

Where s is 1, two results of a filter of three need four products, not six: `A (G g * B d)`, where

    B d = (d0 - d2, d1 + d2, d2 - d1, d1 - d3)
    G g = (g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2)
    A m = (m0 + m1 + m2, m1 - m2 - m3)

(S. Winograd, Arithmetic complexity of computations, 1980; A. Lavin and S. Gray, Fast algorithms for
convolutional neural networks, 2016, section 4). Done along y and x, four results take 16 products
for each c instead of 36. Where a result is two elements from the next, the filter's ends see each
second element and its middle those between, and two results need five products instead of six:

    B d = (d0 - d2, d1, d2, d3, d4 - d2)
    G g = (g0, g1, g0 + g2, g1, g2)
    A m = (m0 + m1 + m2, m2 + m3 + m4)

Four results take 25 products, with 16 sums of the filter. B d is computed once for all results with
other g, and A once for all c; so what remains are 16 or 25 products of matrices, of tiles x c by
c x lanes, the lanes being the index that only the constant g gives to the result. Of the last tile
along an odd number of results one of two is there, and products that only the other needs are left
out (`Points`); where filters' values are n apart, of up to n tiles.

`G g` is arranged in panels ahead of time; or g is, where it does not stay in a core's cache and
each panel is read once a call. Then `G g` is made when it is needed, for a stretch of channels:
nine elements come from far away, not 16. Those of G g that are elements of g are read in place.

Two results of a filter of two need three products, not four:

    B d = (d0 - d1, d1, d2 - d1)
    G g = (g0, g0 + g1, g1)
    A m = (m0 + m1, m1 + m2)

Longer filters are sums of such of three, as if they were more channels: 5 values are 3 and 2, the
third of which counts as zero, so that 5 by 5 takes 64 products in place of 100; 4 values are 2 and
2. Where they move on by two, their values in even places and in odd ones are filters of their own,
of each second element (`Axis.unit`): 4 by 4 takes 36 products in place of 64. And so are other
indices of the sum, as the third direction of a filter in space.
"""

from __future__ import annotations

import itertools

from ...ir.nodes import (
    Access,
    Index,
    Skip,
    Tensor,
    integer,
)
from ...ir.rewrite import substitute
from ...records import cached_property, dataclass, replace
from .contraction_form import Form, size
from .contraction_plan import Plan, is_across
from .contraction_space import flat_form
from .emit_access import extent_of, is_within, shape_of
from .emit_types import width
from .kernels import Strides
from .nest_uses import bytes_of
from .packing import Depth
from .schedule import Winograd, impossible
from .target import LINE, Target
from .window_box import Cut, Staged, access_of, staged
from .window_plan import grain_of
from .winograd_filter import TILE, Axis, Filter, find_filter

_STRETCH = 96
"""Terms that are added one by one, at most."""
_LATE_STRETCH = 40
"""The same where an item makes filters' sums itself: fewer stay nearer."""
_AGAIN = 2
"""How often sums of the same filters may be made in a call, so that they need not be kept."""


@dataclass(frozen=True, slots=True)
class Points:
    """Products of tiles, one after the other along an axis, that are alike."""

    begin: int
    count: int
    tiles: int
    """Tiles of an item along the axis that have such products."""
    sums: int
    """The number of the first one's sum of the filter; the next follow."""
    tap: int | None
    """The element of the filter that the first is multiplied by, the next follow. None if it is a
    sum, or all are prepared."""


@dataclass(frozen=True)
class WinogradPlan:
    """How such a contraction is computed.

    An item is a batch, values of the `fixed` indices, and a block of `tall` by `wide` tiles of
    2 x 2 results, for a block of lanes. From `box`, where the other operand is read, it makes 16
    matrices of tiles x channels.
    """

    plan: Plan
    line: Axis
    row: Axis
    lane: Index
    channel: Index
    more: tuple[Index, ...]
    """Other indices of the sum, around the channels."""
    fixed: tuple[Index, ...]
    tall: int
    wide: int
    lines: Cut
    rows: Cut
    lanes: Cut
    box: Staged
    height: int
    """Rows of the register tile."""
    near: int
    """Bytes of panels that would stay in a core's cache."""
    shared: int
    """The same of one that cores share."""

    @cached_property
    def tiles(self) -> int:
        """Tiles of an item."""
        return self.tall * self.wide

    @cached_property
    def channels(self) -> int:
        """Terms of a product: channels, for each point of the other indices of the sum."""
        return size(self.more) * extent_of(self.channel)

    @cached_property
    def along_channels(self) -> bool:
        """Whether vectors of the box are along channels; else they are along its rows."""
        return self.box.step(self.channel) == 1

    @property
    def element_lanes(self) -> int:
        """Lanes of vectors of elements: along rows as many as a line of tiles fills."""
        if self.along_channels:
            return self.plan.lanes
        return min(self.plan.lanes, 1 << max(self.wide - 1, 3).bit_length())

    @cached_property
    def line_loads(self) -> int:
        """How many vectors a line's elements are loaded in, one or two, if any may be picked out of
        these in one instruction; else none, and they are put together of more."""
        needed = self.row.pitch * (self.wide - 1) + self.row.points
        loads = -(-needed // self.plan.lanes)
        long = self.plan.lanes * width(self.plan.form.dtype) == LINE
        fits = loads <= 2 and self.wide <= self.element_lanes
        return loads if long and fits and not self.along_channels else 0

    @property
    def in_place(self) -> bool:
        """Whether elements are read from the tensor, not from a copy."""
        return self.box.packing is None

    @cached_property
    def is_far(self) -> bool:
        """Whether the tensor that elements are read from does not stay in a core's cache."""
        return bytes_of(self.box.access.tensor) > self.near

    @property
    def apart(self) -> tuple[int, int]:
        """How far apart neighbouring lines are where elements are read, and neighbouring rows."""
        line, row = self.lines.index, self.rows.index
        if self.in_place:
            line, row = self.line.own, self.row.own
        return self.box.step(line) // self.line.stride, self.box.step(row) // self.row.stride

    @property
    def points(self) -> int:
        """Products for a whole tile."""
        return self.line.points * self.row.points

    @cached_property
    def down(self) -> tuple[Points, ...]:
        """Products along lines."""
        return _points(self.line, self.lines, self.tall, self.late)

    @cached_property
    def across(self) -> tuple[Points, ...]:
        """Products along rows."""
        return _points(self.row, self.rows, self.wide, self.late)

    @cached_property
    def tiles_of(self) -> tuple[list[int], list[int]]:
        """How many tiles of an item have each of the products, along lines and along rows."""
        found = []
        for points in (self.down, self.across):
            known = {p.begin + n: p.tiles for p in points for n in range(p.count)}
            found.append([known[n] for n in sorted(known)])
        return found[0], found[1]

    @cached_property
    def late_sums(self) -> list[tuple[int, int]]:
        """Sums of the filter that are made late: the others are elements of it."""
        given = [
            {p.sums + n for p in points if p.tap is not None for n in range(p.count)}
            for points in (self.down, self.across)
        ]
        every = itertools.product(range(self.line.sums), range(self.row.sums))
        return [(i, j) for i, j in every if i not in given[0] or j not in given[1]]

    @cached_property
    def products(self) -> int:
        """Products of an item for each channel and lane."""
        return _products(self.down) * _products(self.across)

    @cached_property
    def pitch(self) -> int:
        """From tile to tile (along channels), or from channel to channel (along rows)."""
        if not self.along_channels:
            return self.tiles
        return _apart(self.channels, self.plan.lanes, width(self.plan.form.dtype))

    @cached_property
    def matrix(self) -> int:
        """From one of the matrices of elements to the next: an odd number of vectors, so that they
        are not on the same lines of the cache."""
        rows = self.tiles if self.along_channels else self.channels
        return _odd(rows * self.pitch + self.plan.lanes, self.plan.lanes)

    @cached_property
    def sums(self) -> int:
        """The same of their products."""
        return _odd(self.tiles * self.plan.panel, self.plan.lanes)

    @property
    def steps(self) -> tuple[int, int]:
        """How far apart the tile's rows and channels are in a matrix."""
        return (self.pitch, 1) if self.along_channels else (1, self.pitch)

    @property
    def taps(self) -> int:
        """Elements of the filter, for a channel and a lane."""
        return self.line.taps * self.row.taps

    @property
    def filter_sums(self) -> int:
        """Sums of these."""
        return self.line.sums * self.row.sums

    @cached_property
    def is_large(self) -> bool:
        """Whether the sums of all filters do not stay in a core's cache."""
        elements = self.filter_sums * self.channels * self.plan.padded
        return elements * width(self.plan.form.dtype) > self.near

    @cached_property
    def by_lanes(self) -> bool:
        """Whether all items of a block of lanes follow one another, since the sums of all filters
        do not stay near for the next item; else all of the same tiles do."""
        return not self.late and self.panels * width(self.plan.form.dtype) > self.shared

    @property
    def again(self) -> int:
        """Bytes of the prepared constant that are read before the same are read again."""
        lanes = self.lanes.length if self.by_lanes else self.plan.padded
        return self.arranged * self.channels * lanes * width(self.plan.form.dtype)

    @cached_property
    def late(self) -> bool:
        """Whether an item makes the sums of the filters itself; few do so for the same lanes."""
        return self.is_large and self.plan.outer * size(self.parts) <= _AGAIN

    @cached_property
    def arranged(self) -> int:
        """Elements of the prepared constant for a channel and a lane."""
        return self.taps if self.late else self.filter_sums

    @cached_property
    def panels(self) -> int:
        """Elements of the prepared constant for one batch."""
        return self.arranged * self.channels * self.plan.padded

    @property
    def stretch(self) -> int:
        """Terms that are added one by one; there may be fewer left in the end."""
        most = _LATE_STRETCH if self.late else _STRETCH
        return -(-self.channels // -(-self.channels // most))

    def late_matrix(self, vectors: int) -> int:
        """The same of the 16 matrices of filters, of which an item makes some for a panel."""
        lanes = self.plan.lanes
        return _odd(self.stretch * vectors * lanes, lanes)

    @cached_property
    def parts(self) -> tuple[Index, ...]:
        """The same, but for lanes."""
        return (*self.fixed, self.lines.number, self.rows.number)

    @property
    def choices(self) -> tuple[Index, ...]:
        """What an item of a batch has a value of, what changes fastest last."""
        lanes = (self.lanes.number,)
        return (*lanes, *self.parts) if self.by_lanes else (*self.parts, *lanes)

    @cached_property
    def items(self) -> int:
        return self.plan.outer * size(self.choices)

    @cached_property
    def stays(self) -> bool:
        """Whether the prepared constant is in a cache, if a shared one, when it is read again."""
        return size(self.parts) == 1 or self.again <= self.shared

    @cached_property
    def scratch(self) -> tuple[int, int, int, int, int]:
        """Elements of a copied box, of the matrices, of their products, of a line of tiles of
        results, and of the sums of filters."""
        results = TILE * TILE * self.wide * self.plan.panel
        filters = self.filter_sums * self.late_matrix(self.plan.vectors) * self.late
        matrices, sums = self.points * self.matrix, self.points * self.sums
        return self.box.elements, matrices, sums, results, filters

    @cached_property
    def held(self) -> float:
        """Bytes of what an item makes."""
        box, elements, products, *others = self.scratch
        part = self.products / (self.points * self.tiles)
        return (box + (elements + products) * part + sum(others)) * width(self.plan.form.dtype)


def _points(axis: Axis, cut: Cut, tiles: int, late: bool) -> tuple[Points, ...]:
    """Products along an axis of an item that has so many tiles. Where all sums of the filter are
    prepared, those that are elements of it are like the others."""
    alone = -extent_of(axis.own) % (TILE * axis.dilation)
    short = min(alone, axis.dilation, tiles - 1) if extent_of(cut.number) == 1 else 0
    found: list[Points] = []
    for begin, count, sums, tap in axis.kinds:
        some = tiles - short * (begin + count == axis.points)
        last = found[-1] if found and not late else None
        follows = last and (last.begin + last.count, last.sums + last.count) == (begin, sums)
        if last and follows and last.tiles == some:
            found[-1] = replace(last, count=last.count + count)
        else:
            found.append(Points(begin, count, some, sums, tap if late else None))
    return tuple(found)


def _products(points: tuple[Points, ...]) -> int:
    return sum(p.count * p.tiles for p in points)


def _odd(elements: int, lanes: int) -> int:
    return (-(-elements // lanes) | 1) * lanes


def _apart(elements: int, lanes: int, bytes_of: int) -> int:
    whole = -(-elements // lanes) * lanes
    return whole + lanes if whole * bytes_of % 2048 == 0 else whole


def winograd_plan(
    form: Form, s: Winograd, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> WinogradPlan:
    """The plan of a schedule; `Error` E0807 if a kernel cannot be computed so."""
    plan = plan_of(form, s, strides, target, constant)
    if isinstance(plan, str):
        raise impossible(plan, form.kernel.name)
    return plan


def plan_of(
    form: Form, s: Winograd, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> WinogradPlan | str:
    """The plan of a schedule, or why there is none."""
    found = find_filter(form, s.vector, strides, constant)
    return found if isinstance(found, str) else plan_with(found, s, strides, target)


def plan_with(f: Filter, s: Winograd, strides: Strides, target: Target) -> WinogradPlan | str:
    """The plan of a schedule for a filter, or why there is none."""
    whole = in_tiles(f, s.tall, s.wide, strides, target)
    if isinstance(whole, str):
        return whole
    vectors = min(s.vectors, -(-extent_of(f.lane) // whole.plan.lanes))
    if not 0 < s.rows * vectors <= 64:
        return "a register tile has 1 to 64 vectors"
    extent, panel = extent_of(f.lane), vectors * whole.plan.lanes
    block = min(s.lane_block or extent, extent)
    if block < extent and (extent % block or block % panel):
        return "blocks are not of equal length, or cut a tile"
    return with_tile(whole, s.rows, vectors, block, target)


def in_tiles(
    f: Filter, tall: int, wide: int, strides: Strides, target: Target
) -> WinogradPlan | str:
    """The plan with items of so many tiles (0: all), and the smallest register tile; or why there
    is none."""
    form, lanes = f.form, target.lanes(f.form.dtype)
    tall, wide = min(tall or f.line.tiles, f.line.tiles), min(wide or f.row.tiles, f.row.tiles)
    if tall % f.line.dilation or wide % f.row.dilation:
        return "blocks part tiles that lie in one another"
    lines, rows = _blocks(f.line.own, tall), _blocks(f.row.own, wide)
    box = _box(f, (lines, rows), target, strides)
    if isinstance(box, str):
        return box
    indices = (*(i for i in f.broadcast.indices if i is not f.row.own), f.row.own)
    terms = (*f.more, f.channel)
    plan = Plan(
        form, replace(f.broadcast, indices=indices), f.vector, "packed", "prepared",
        Depth(terms, 0, extent_of(terms[0])), lanes, TILE * wide, 1, TILE * wide, lanes,
        is_across(form, f.vector, lanes, strides),
    )  # fmt: skip
    all_lanes = Cut(f.lane, f.lane, extent_of(f.lane))
    return WinogradPlan(
        plan, f.line, f.row, f.lane, f.channel, f.more, f.fixed, tall, wide, lines, rows,
        all_lanes, box, 1, target.l2, target.shared,
    )  # fmt: skip


def with_tile(w: WinogradPlan, rows: int, vectors: int, block: int, target: Target) -> WinogradPlan:
    """The plan with another register tile, and blocks of lanes."""
    number = Index(f"{w.lane.name}.block", integer(extent_of(w.lane) // block))
    panel = vectors * w.plan.lanes
    items = w.plan.outer * size((*w.parts, number))
    return replace(
        w,
        plan=replace(w.plan, vectors=vectors, lane_block=panel, grain=grain_of(items, target)),
        lanes=Cut(w.lane, number, block),
        height=min(rows, w.tiles),
    )


def _blocks(own: Index, tiles: int) -> Cut:
    """An index in blocks of so many tiles; the last may reach beyond its end."""
    length = TILE * tiles
    number = Index(f"{own.name}.block", integer(-(-extent_of(own) // length)))
    padded = Index(own.name, integer(length * extent_of(number)))
    return Cut(padded, number, length)


def _box(f: Filter, blocks: tuple[Cut, Cut], target: Target, strides: Strides) -> Staged | str:
    """Where tiles read the operand that is not constant: in place, or a copy that is zero beyond
    what there is."""
    access, lanes = access_of(f.broadcast), target.lanes(f.form.dtype)
    steps = flat_form(access, strides).steps
    in_rows, whole = steps.get(f.row.own) == f.row.stride, extent_of(f.channel) % lanes == 0
    plain = f.row.dilation * f.row.unit == 1
    if not f.more and _may_read_in_place(f, access):
        along_rows = steps.get(f.channel) != 1 and in_rows and target.masks and plain
        if along_rows or (steps.get(f.channel) == 1 and whole):
            return Staged(access, steps, 0, None, 0, 0)
    subscripts = list(access.subscripts)
    for axis, cut in zip((f.line, f.row), blocks, strict=True):
        s = subscripts[axis.dimension]
        index = substitute(s.index, {axis.own: cut.index})
        subscripts[axis.dimension] = replace(s, index=index, rule=Skip())
    operand = replace(f.broadcast, value=replace(access, subscripts=tuple(subscripts)))
    for along in (f.channel, blocks[1].index):
        if along is f.channel and f.more and not whole:
            continue  # vectors would reach into other channels
        # copies may be turned round
        near = steps.get(f.channel) == 1 or not plain or (not in_rows and f.is_alone)
        if near if along is f.channel else in_rows and plain:
            return staged(f.form, operand, along, lanes, f.fixed, blocks, strides)
    return "vectors would not be contiguous"


def _may_read_in_place(f: Filter, access: Access) -> bool:
    """Whether elements lack only beyond the ends along the filter, and each one counts."""
    if f.line.unit * f.row.unit > 1:
        return False
    axes = (f.line.dimension, f.row.dimension)
    shape = shape_of(access.tensor.shape)
    parts = zip(access.subscripts, shape, strict=True)
    return all(d in axes or is_within(s.index, n) for d, (s, n) in enumerate(parts))
