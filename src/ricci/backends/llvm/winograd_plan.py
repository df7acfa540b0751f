"""Sums of products with a small constant filter by fewer products: Winograd's F(2x2, 3x3).

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

Longer filters are sums of such of three, as if they were more channels: 5 values are 3 and 2, the
third of which counts as zero, so that 5 by 5 takes 64 products in place of 100. And so are other
indices of the sum, as the third direction of a filter in space.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ...ir import shapes
from ...ir.nodes import (
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Select,
    Skip,
    Tensor,
    integer,
)
from ...ir.rewrite import free_indices, rebuild, substitute
from ...records import cached_property, dataclass, replace
from .builder import Builder
from .contraction_form import Form, Operand, size
from .contraction_plan import Plan, is_across, reduced_loops
from .contraction_space import flat_form, plus, times
from .emit_access import extent_of, is_within, linear, shape_of
from .emit_types import width
from .kernels import Strides
from .packing import Depth
from .schedule import Winograd, impossible
from .target import Target
from .window_box import Cut, Staged, access_of, staged
from .window_plan import grain_of, is_affine, is_given

TAPS, TILE, SUMS = 3, 2, 4
"""The filter's length, the results of a tile along an index, and the sums of a filter."""
_STRETCH = 96
"""Terms that are added one by one, at most."""
_LATE_STRETCH = 40
"""The same where an item makes filters' sums itself: fewer stay nearer."""
_AGAIN = 2
"""How often sums of the same filters may be made in a call, so that they need not be kept."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the two directions of the filter: an index of the result, and that of three values
    which goes with it, against it if `flipped`. From one result to the next it moves on by `stride`
    elements, one or two. If the filter's are more than one apart (`dilation`), so are the results
    of a tile, and so many tiles lie in one another."""

    own: Index
    tap: Index
    dimension: int
    flipped: bool
    stride: int
    dilation: int

    @property
    def tiles(self) -> int:
        return -(-extent_of(self.own) // (TILE * self.dilation)) * self.dilation

    @property
    def pitch(self) -> int:
        """Elements from tile to tile, if these do not lie in one another."""
        return TILE * self.stride

    @property
    def points(self) -> int:
        """Elements that a tile reads, and products of it."""
        return self.pitch - self.stride + TAPS

    @property
    def kinds(self) -> tuple[tuple[int, int, int, int | None], ...]:
        """Products of a tile by what is multiplied: the first and how many, the number of the
        filter's sum (that of each next one follows), and, where these are no sums but elements of
        the filter, of which. The last kind is what only the second result needs."""
        if self.stride == 1:
            return (0, 1, 0, 0), (1, 2, 1, None), (3, 1, 3, 2)
        return (0, 2, 0, 0), (2, 1, 3, None), (3, 2, 1, 1)

    def result(self, b: Builder, tile: str) -> str:
        """The first result of a tile."""
        if self.dilation == 1:
            return times(b, tile, TILE)
        number = b.pure(f"udiv i64 {tile}, {self.dilation}", tile)
        return plus(b, tile, times(b, number, self.dilation))

    def first(self, access: Access) -> int:
        """Where the elements of the first tile begin in a tensor."""
        constant = linear(access.subscripts[self.dimension].index).constant
        assert isinstance(constant, int)
        return constant - (TAPS - 1) * self.dilation * self.flipped

    def extent(self, access: Access) -> int:
        """How many elements the tensor has along it."""
        return shape_of(access.tensor.shape)[self.dimension]


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
    near: int = 0
    """Bytes of panels that would stay in a core's cache."""
    shared: int = 0
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

    @property
    def in_place(self) -> bool:
        """Whether elements are read from the tensor, not from a copy."""
        return self.box.packing is None

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
    def late_sums(self) -> list[tuple[int, int]]:
        """Sums of the filter that are made late: the others are elements of it."""
        given = [
            {p.sums + n for p in points if p.tap is not None for n in range(p.count)}
            for points in (self.down, self.across)
        ]
        every = itertools.product(range(SUMS), range(SUMS))
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

    @cached_property
    def is_large(self) -> bool:
        """Whether the sums of all filters do not stay in a core's cache."""
        of_filter = SUMS * SUMS * self.channels * self.plan.padded * width(self.plan.form.dtype)
        return of_filter > self.near

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
        return TAPS * TAPS if self.late else SUMS * SUMS

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
        filters = SUMS * SUMS * self.late_matrix(self.plan.vectors) * self.late
        matrices, sums = self.points * self.matrix, self.points * self.sums
        return self.box.elements, matrices, sums, results, filters


def _points(axis: Axis, cut: Cut, tiles: int, late: bool) -> tuple[Points, ...]:
    """Products along an axis of an item that has so many tiles. Where all sums of the filter are
    prepared, those that are elements of it are like the others."""
    alone = -extent_of(axis.own) % (TILE * axis.dilation)
    short = min(alone, axis.dilation, tiles - 1) if extent_of(cut.number) == 1 else 0
    found: list[Points] = []
    for number, (begin, count, sums, tap) in enumerate(axis.kinds):
        some = tiles - short * (number == len(axis.kinds) - 1)
        last = found[-1] if found and not late else None
        if last and last.tiles == some and last.sums + last.count == sums:
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


@dataclass(frozen=True, slots=True)
class Filter:
    """A contraction that has such a filter: what its indices are."""

    form: Form
    broadcast: Operand
    vector: Operand
    line: Axis
    row: Axis
    lane: Index
    channel: Index
    more: tuple[Index, ...]

    @property
    def fixed(self) -> tuple[Index, ...]:
        """The other indices of the operand that is not constant."""
        return tuple(i for i in self.broadcast.indices if i not in (self.line.own, self.row.own))


def find_filter(
    form: Form, side: str, strides: Strides, constant: frozenset[Tensor]
) -> Filter | str:
    """The filter of a contraction whose `side` is constant, or why there is none."""
    vector, broadcast = (form.left, form.right) if side == "left" else (form.right, form.left)
    if not is_affine(broadcast):
        return "an operand is not an element with linear subscripts"
    lanes = [i for i in vector.indices if extent_of(i) > 1]
    if len(lanes) != 1 or not is_given(vector, form, constant):
        return "no operand is constant, with one index of its own"
    form = _in_threes(form, broadcast)
    vector, broadcast = (form.left, form.right) if side == "left" else (form.right, form.left)
    steps = flat_form(form.kernel.targets[0], strides).steps
    axes = list(_axes(access_of(broadcast), broadcast, form))
    axes = sorted(axes, key=lambda axis: -abs(steps.get(axis.own, 0)))[-2:]
    if len(axes) != 2:
        return "it is no sum over three by three neighbours"
    line, row = axes
    others = [k for k in reduced_loops(form) if k is not line.tap and k is not row.tap]
    access, axes_of = access_of(broadcast), (line.dimension, row.dimension)
    beside = {i for d in axes_of for i in linear(access.subscripts[d].index).steps}
    channels = [k for k in others if k not in beside]
    if row.dilation > 1:  # vectors lie along channels
        channels = [k for k in channels if _is_alone(k, access, form)]
    if not channels:
        return "it is no sum over one more index"
    channel = max(channels, key=extent_of)
    more = tuple(k for k in others if k is not channel)
    return Filter(form, broadcast, vector, line, row, lanes[0], channel, more)


def _is_alone(k: Index, access: Access, form: Form) -> bool:
    """Whether an index of the sum goes through one dimension, batches aside, element by element."""
    used = [linear(s.index).steps for s in access.subscripts if k in linear(s.index).steps]
    return len(used) == 1 and used[0][k] == 1 and all(i is k or i in form.batch for i in used[0])


def _axes(access: Access, broadcast: Operand, form: Form) -> Iterator[Axis]:
    """The subscripts that are the sum of an own index and one of three values, which occur nowhere
    else, and of other terms' indices."""
    used = [linear(s.index).steps for s in access.subscripts]
    for dimension, steps in enumerate(used):
        own = [i for i in steps if i in broadcast.indices]
        taps = [i for i in steps if i in form.reduced and extent_of(i) == TAPS]
        taps = [i for i in taps if all(abs(steps[i]) <= abs(steps[k]) for k in taps)]
        rest = [i for i in steps if i not in own and i not in taps]
        if len(own) != 1 or len(taps) != 1 or any(i not in form.reduced for i in rest):
            continue
        alone = all(sum(i in other for other in used) == 1 for i in steps)
        stride, apart = steps[own[0]], steps[taps[0]]
        if alone and extent_of(own[0]) > 1 and (stride == 1 or (stride, abs(apart)) == (2, 1)):
            yield Axis(own[0], taps[0], dimension, apart < 0, stride, abs(apart))


def _in_threes(form: Form, broadcast: Operand) -> Form:
    """The form with longer filters in parts of three values; what is beyond their ends counts as
    zero."""
    is_left = broadcast is form.left
    for steps in [linear(s.index).steps for s in access_of(broadcast).subscripts]:
        long = [i for i in steps if i in form.reduced and extent_of(i) > TAPS]
        if len(steps) == 2 and len(long) == 1 and any(i in broadcast.indices for i in steps):
            form = _cut_in_threes(form, is_left, long[0])
    return form


def _cut_in_threes(form: Form, is_left: bool, tap: Index) -> Form:
    """The form with one filter cut, whose constant is the right operand if the other `is_left`.
    Elements beyond its end may be read, and are multiplied by zero."""
    count = -(-extent_of(tap) // TAPS)
    part, inner = Index(f"{tap.name}.part", integer(count)), Index(tap.name, integer(TAPS))
    place = shapes.add(shapes.mul(part, integer(TAPS)), inner)

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access):
            return expr
        subscripts = (
            replace(s, rule=s.rule or Skip()) if tap in free_indices(s.index) else s
            for s in expr.subscripts
        )
        return replace(expr, subscripts=tuple(subscripts))

    def cut(operand: Operand, is_constant: bool) -> Operand:
        value = substitute(rebuild(operand.value, node), {tap: place})
        if is_constant and extent_of(tap) % TAPS:
            inside = Binary("lt", place, integer(extent_of(tap)))
            value = Select(inside, value, Const(0.0, value.dtype))
        return replace(operand, value=value)

    reduced = tuple(i for k in form.reduced for i in ((part, inner) if k is tap else (k,)))
    left, right = cut(form.left, not is_left), cut(form.right, is_left)
    return replace(form, left=left, right=right, reduced=reduced)


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
        is_across(form, f.vector, strides),
    )  # fmt: skip
    all_lanes = Cut(f.lane, f.lane, extent_of(f.lane))
    return WinogradPlan(
        plan, f.line, f.row, f.lane, f.channel, f.more, f.fixed, tall, wide, lines, rows,
        all_lanes, box, 1,
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
        near=target.l2,
        shared=target.shared,
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
    plain = f.row.dilation == 1
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
        near = steps.get(f.channel) == 1 or not plain  # else copies are turned round
        if near if along is f.channel else in_rows and plain:
            return staged(f.form, operand, along, lanes, f.fixed, blocks, strides)
    return "vectors would not be contiguous"


def _may_read_in_place(f: Filter, access: Access) -> bool:
    """Whether elements lack only beyond the ends along the filter."""
    axes = (f.line.dimension, f.row.dimension)
    shape = shape_of(access.tensor.shape)
    parts = zip(access.subscripts, shape, strict=True)
    return all(d in axes or is_within(s.index, n) for d, (s, n) in enumerate(parts))
