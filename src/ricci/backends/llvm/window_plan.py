"""Sums of products whose operands overlap: neighbouring results read mostly the same elements.

    result[batch, row, column] = sum over k of  a[row, k] * v[column + k]

Packing such an operand in panels would copy each element many times. So the part of it that some
results need, a box of its tensor, is copied once, zero where a guard fails, with one index along
vectors; tiles read it in place, by several loops over k. If the other operand is constant it fills
the vectors instead, from panels arranged ahead of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...ir import shapes
from ...ir.nodes import Access, Index, Skip, Tensor, integer
from ...ir.rewrite import substitute
from ...passes.margins import Side
from ...records import dataclass, replace
from .contraction_form import Form, Operand, size
from .contraction_plan import MOST_CHUNKS, Plan, is_across, may_prepare, reduced_loops
from .contraction_space import coefficients, flat_form
from .emit_access import extent_of, is_within, linear, shape_of
from .emit_types import width
from .kernels import Strides
from .matrix import MatrixProduct
from .packing import Depth
from .schedule import Window, impossible
from .target import Target
from .window_box import Cut, Staged, access_of, bytes_of, cuts, equal_blocks, length_of, staged
from .window_tile import STRETCH, Loops, cut_loops

_COPY = 0.5
"""Cycles to copy an element, about."""
_CHUNKS = 16
"""Chunks per core, about."""
_MOST_LOOKED_AT = 256
"""Places at which the part of a loop that counts is looked at, about."""
_MOST_SHARE = 0.9
"""The part of a loop that counts for which it is worthwhile to do no more."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A loop over k of which only a part counts: where `0 <= k * factor + own * step + constant <
    extent`."""

    k: Index
    factor: int
    own: Index
    step: int
    constant: int
    extent: int

    def share(self, lines: int = 1) -> float:
        """The part of the loop that counts for any of so many values of `own`, on average."""
        count, extent = 0, extent_of(self.own)
        some = range(0, extent, lines * max(1, extent // lines // _MOST_LOOKED_AT))
        for own in some:
            last = min(own + lines, extent) - 1
            ends = [self._first(i, n) for i in (own, last) for n in (0, self.extent - 1)]
            count += max(0, min(max(ends), extent_of(self.k) - 1) - max(min(ends), 0) + 1)
        return count / (len(some) * extent_of(self.k))

    def _first(self, own: int, place: int) -> int:
        return (place - self.constant - own * self.step) * self.factor


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How such a contraction is computed.

    The vectors of a tile are along `lane`, and lie side by side along `beside`.

    An item is a batch and values of the `fixed` indices, and a block of each of `parts`; a chunk
    does `grain` of them. Tiles run along `row` and `lane`, those of several `lines` also along
    `line`; of the reduced indices, in the order of `loops`, the first is cut in blocks, or is
    `guarded`.
    """

    plan: Plan
    row: Index
    lane: Index
    beside: Index
    fixed: tuple[Index, ...]
    loops: tuple[Index, ...]
    cut: Cut
    guarded: Guarded | None
    rows: Staged
    columns: Staged
    result: dict[Index, int]
    """How far apart results are along each index."""
    registers: int
    prepared: bool
    """Whether the vector operand is constant, and arranged ahead of time."""
    before: Index | None
    """The index before the row, if an item has several values of it."""
    lines: int
    parts: tuple[Cut, ...]
    """The indices of results of which an item does a block."""
    lanes_first: bool = False
    """Whether items that follow on one another have the same block of lanes."""
    around: Cut | None = None
    """The index before the others of the rows, if an item has several values of it."""
    in_turns: bool = False
    """Whether all tiles of an item do one value of the first loop over k before the next, so that
    what they share stays near."""
    matrices: MatrixProduct | None = None
    """How tiles are computed that are matrices in registers, if they are (`matrix_window`)."""
    inside: tuple[Side, ...] = ()
    """The dimensions of which tiles do only the terms that are inside (`matrix_regions`)."""

    @property
    def blocks(self) -> int:
        return extent_of(self.cut.number)

    @property
    def turns(self) -> int:
        """How many parts of the sums the tiles of an item do in turn, all of them each."""
        return extent_of(self.loops[0]) if self.in_turns else 1

    @property
    def gathers(self) -> bool:
        """Whether the sums of all tiles along a row are kept until its results are stored: vectors
        of them lie along it, and tiles end within such a vector."""
        whole = self.prepared and self.lines == 1 and not self.in_turns and self.matrices is None
        part = self.plan.rows % self.plan.lanes > 0 and self.plan.rows < self.length(self.row)
        return whole and part and self.plan.across and self.result.get(self.row) == 1

    @property
    def choices(self) -> tuple[Index, ...]:
        """What an item of a batch has a value of; items that follow on one another differ in the
        last of them."""
        numbers = [cut.number for cut in self.parts if cut.index is not self.lane]
        lanes = [cut.number for cut in self.parts if cut.index is self.lane]
        if self.lanes_first:
            return (*lanes, *self.fixed, *numbers)
        return (*self.fixed, *numbers, *lanes)

    @property
    def items(self) -> int:
        return self.plan.outer * size(self.choices)

    def length(self, index: Index) -> int:
        """How many values of an index of the result an item has."""
        return length_of(index, self.parts)

    @property
    def line(self) -> Index | None:
        """The index of which a tile has several values: one that leaves no tile with fewer over, if
        there is any."""
        if self.around is not None and self.before is not None:
            if self.length(self.before) % self.lines and self.around.length % self.lines == 0:
                return self.around.index
        return self.before

    def down(self) -> tuple[Index, ...]:
        """The other indices of the rows that are walked through for an item."""
        own = (*self.fixed, self.line)
        return tuple(i for i in self.plan.broadcast.indices[:-1] if i not in own)

    def right(self) -> tuple[Index, ...]:
        """The other indices of the columns that are walked through for an item."""
        own = (self.lane, self.beside, *self.fixed)
        return tuple(i for i in self.plan.vector.indices if i not in own)

    @property
    def first(self) -> Index:
        """The outermost index of the rows that is neither fixed nor around others."""
        own = () if self.around is None else (self.around.index,)
        return next(i for i in self.plan.broadcast.indices if i not in (*self.fixed, *own))

    @property
    def is_straight(self) -> bool:
        """Whether the vectors of a tile follow each other along the lanes."""
        return self.beside is self.lane

    @property
    def span(self) -> int:
        """How many values of the index `beside` a tile has."""
        return self.plan.panel if self.is_straight else self.plan.vectors

    @property
    def vectors(self) -> int:
        """How many vectors of an item there are for the tiles to share."""
        return self._vectors(self.length(self.lane))

    @property
    def all_vectors(self) -> int:
        """How many there are in all."""
        return self._vectors(extent_of(self.lane))

    def _vectors(self, along: int) -> int:
        return -(-along // self.plan.lanes) if self.is_straight else extent_of(self.beside)


def window_plan(
    form: Form,
    s: Window,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor] = frozenset(),
) -> WindowPlan:
    """The plan of a schedule; `Error` E0807 if a kernel cannot be computed so."""
    plan = plan_of(form, s, strides, target, constant)
    if isinstance(plan, str):
        raise impossible(plan, form.kernel.name)
    return plan


def plan_of(
    form: Form, s: Window, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> WindowPlan | str:
    """The plan of a schedule, or why there is none."""
    broadcast, vector = form.sides(s.vector)
    if not is_affine(broadcast):
        return "an operand is not an element with linear subscripts"
    indices = (*form.kernel.domain, *form.kernel.reduced)
    if max(s.row, s.lane, s.beside) >= len(indices):
        return "an index of the tile is not there"
    row, lane, beside = indices[s.row], indices[s.lane], indices[s.beside]
    if row not in broadcast.indices or not {lane, beside} <= set(vector.indices):
        return "the tile's indices are not those of its operands"
    most = min(s.rows, extent_of(row))
    lanes = vector_length(lane, form, target)
    if beside is not lane and extent_of(lane) != lanes:
        return "a vector does not hold all of its index"
    wide = -(-extent_of(lane) // lanes) if beside is lane else extent_of(beside)
    vectors = min(s.vectors, wide)
    if not 0 < most * vectors * s.lines <= 64:
        return "a register tile has 1 to 64 vectors"
    if beside is lane and is_prepared(vector, lane, form, constant):
        return _prepared_plan(form, s, broadcast, vector, (row, lane), strides, target)
    if not is_affine(vector):
        return "an operand is not an element with linear subscripts"
    if s.lines > 1 or s.row_block or s.lane_block or s.outer_block > 1:
        return "only what is computed with a constant operand has lines and blocks"
    tiled, tile = (row, lane, beside), (most, vectors, lanes)
    return _copied_plan(form, broadcast, vector, tiled, tile, strides, target)


def _copied_plan(
    form: Form,
    broadcast: Operand,
    vector: Operand,
    tiled: tuple[Index, Index, Index],
    tile: tuple[int, int, int],
    strides: Strides,
    target: Target,
) -> WindowPlan | str:
    """The plan with copies of both operands, of so many rows, vectors and lanes."""
    (row, lane, beside), (most, vectors, lanes) = tiled, tile
    places = [x.index for x in access_of(vector).subscripts if lane in linear(x.index).indices]
    if len(places) != 1 or linear(places[0]).indices[lane] != 1:
        return "vectors would not be contiguous"
    fixed = tuple(i for o in (broadcast, vector) for i in fixed_indices(o, form) if i not in tiled)
    steps = flat_form(access_of(broadcast), strides).steps
    guarded = _guarded([access_of(broadcast), access_of(vector)], form, tiled)
    loops = _in_order(form, steps, None if guarded is None else guarded.k)
    broadcast = replace(broadcast, indices=last_of(broadcast.indices, row))
    vector = replace(vector, indices=last_of(last_of(vector.indices, beside), lane))
    for block in cuts(loops[0]):
        given = (fixed, (block,), strides)
        columns = staged(form, vector, lane, lanes, *given)
        rows = staged(form, broadcast, None, target.lanes(form.dtype), *given)
        if bytes_of(form, rows, columns) <= target.l2 // 4:
            break
        if fixed or guarded:
            return "a copy of an operand is too large"
    else:
        return "a copy of an operand is too large"
    depth = Depth(loops, 0, extent_of(loops[0]))
    items = size(form.batch) * size(fixed)
    plan = Plan(
        form, broadcast, vector, "packed", "packed", depth, lanes, most, vectors, most,
        vectors * lanes, is_across(form, vector, lanes, strides), grain_of(items, target), True,
    )  # fmt: skip
    result = flat_form(form.kernel.targets[0], strides).steps
    return WindowPlan(
        plan, row, lane, beside, fixed, loops, block, guarded, rows, columns, result,
        target.registers, False, None, 1, (),
    )  # fmt: skip


def is_prepared(vector: Operand, lane: Index, form: Form, constant: frozenset[Tensor]) -> bool:
    alone = all(i is lane or extent_of(i) == 1 for i in vector.indices)
    return alone and is_given(vector, form, constant)


def _prepared_plan(
    form: Form,
    s: Window,
    broadcast: Operand,
    vector: Operand,
    tiled: tuple[Index, Index],
    strides: Strides,
    target: Target,
) -> WindowPlan | str:
    """The plan with a constant vector operand, which is in panels."""
    row, lane = tiled
    lanes = target.lanes(form.dtype)
    fixed = tuple(i for i in outside_indices(broadcast, form) if i is not row)
    around = _around(fixed, s.outer_block)
    if isinstance(around, str):
        return around
    fixed = fixed if around is None else fixed[:-1]
    whole_form, read = form, access_of(broadcast)
    guarded = None if form.words is not None else _guarded([read], form, tiled)
    if guarded is not None and guarded.share() > _MOST_SHARE:
        guarded = None
    first = None if guarded is None else guarded.k
    form, loops = _in_stretches(form, flat_form(read, strides).steps, first)
    broadcast, vector = form.sides(s.vector)
    broadcast = replace(broadcast, indices=last_of(broadcast.indices, row))
    inner = [i for i in broadcast.indices if i not in (*fixed, around and around.index)]
    before = inner[-2] if len(inner) > 1 else None
    if before is None and s.lines > 1:
        return "there is no index for several lines"
    plan = Plan(
        form, broadcast, vector, "packed", "prepared", Depth(loops, 0, extent_of(loops[0])), lanes,
        1, 1, 1, lanes, is_across(form, vector, lanes, strides),
    )  # fmt: skip
    result = flat_form(form.kernel.targets[0], strides).steps
    rows = Staged(access_of(broadcast), {}, 0, None, 0, 0)
    columns = Staged(access_of(broadcast), {}, 0, None, 0, 0)
    in_turns = form is not whole_form and guarded is None
    whole = WindowPlan(
        plan, row, lane, lane, fixed, loops, equal_blocks(loops[0], 1), guarded, rows, columns,
        result, target.registers, True, before, 1, (), around=around, in_turns=in_turns,
    )  # fmt: skip
    most = min(s.rows, extent_of(row))
    tiled_plan = with_tile(whole, s.lines, most, min(s.vectors, whole.all_vectors))
    part = in_row_blocks(tiled_plan, s.row_block, strides, target)
    return part if isinstance(part, str) else in_lane_blocks(part, s.lane_block, target)


def with_tile(w: WindowPlan, lines: int, rows: int, vectors: int) -> WindowPlan:
    """The plan with another tile, of a size that there is."""
    lanes = vectors * w.plan.lanes
    plan = replace(w.plan, rows=rows, vectors=vectors, row_block=rows, lane_block=lanes)
    return replace(w, lines=lines, plan=plan)


def in_row_blocks(w: WindowPlan, length: int, strides: Strides, target: Target) -> WindowPlan | str:
    """A prepared plan, all lanes at once, with blocks of the first index of the rows (0: all of
    it); or why there is none."""
    blocks = blocks_of(w.first, length, 1)
    if isinstance(blocks, str):
        return blocks
    blocks, plan = (*blocks, *(() if w.around is None else (w.around,))), w.plan
    given = (w.fixed, (w.cut, *blocks), strides)
    rows = staged(plan.form, plan.broadcast, None, plan.lanes, *given)
    if bytes_of(plan.form, rows) > target.l2 // 2:
        return "a copy of an operand is too large"
    return _of_parts(replace(w, rows=rows), blocks, target)


def in_lane_blocks(w: WindowPlan, length: int, target: Target) -> WindowPlan | str:
    """The same plan with blocks of lanes."""
    blocks = blocks_of(w.lane, length, w.plan.panel)
    if isinstance(blocks, str):
        return blocks
    plain = _of_parts(w, (*w.parts, *blocks), target)
    here, turned = _brought(plain, target)
    return plain if here <= turned else replace(plain, lanes_first=True)


def bytes_brought(w: WindowPlan, target: Target) -> float:
    """Bytes of panels and rows that are brought to the second cache of a core for all items, those
    that are copied counted for what that takes."""
    return _brought(w, target)[w.lanes_first]


def _brought(w: WindowPlan, target: Target) -> tuple[float, float]:
    """The same, and that of a plan whose items that follow on one another have the same lanes."""
    size_of, near = width(w.plan.form.dtype), target.l2 // 2
    lanes = -(-extent_of(w.lane) // w.length(w.lane))
    others = w.items // lanes
    panels = size(w.loops) * w.length(w.lane) * size_of
    rows = (w.rows.elements or _elements(w)) * size_of
    copied = rows * (4 if w.rows.packing is not None else 1)
    # rows come again for every block of lanes, if these are first
    once = lanes * (others if lanes * panels + rows > near else 1) * panels + others * copied
    again = lanes * (others if panels + rows > near else 1) * panels + w.items * copied
    farther = 0.0
    if panels > near and not w.in_turns:  # tiles of other rows read them again from farther away
        points = math.prod(w.length(i) for i in w.plan.broadcast.indices if i not in w.fixed)
        turns = points / (w.plan.rows * w.lines)
        farther = w.items * panels * max(turns - 1, 0)
    return once + farther, again + farther


def _elements(w: WindowPlan) -> int:
    """How many different elements the rows of an item read, at most."""
    own = {i: w.length(i) for i in w.plan.broadcast.indices if i not in w.fixed}
    own |= {i: extent_of(i) for i in w.loops}
    count = 1
    access = w.rows.access
    for factors, extent in zip(coefficients(access), shape_of(access.tensor.shape), strict=True):
        lengths = [(abs(f), own[i]) for i, f in factors.items() if i in own]
        span = 1 + sum([factor * (length - 1) for factor, length in lengths])
        count *= min(span, extent, math.prod([length for _, length in lengths]))
    return count


def _around(fixed: tuple[Index, ...], length: int) -> Cut | str | None:
    """The last fixed index in blocks of several values; or why it has none."""
    if length < 2:
        return None
    if not fixed or extent_of(fixed[-1]) % length:
        return "blocks are not of equal length"
    return equal_blocks(fixed[-1], extent_of(fixed[-1]) // length)


def blocks_of(index: Index, length: int, unit: int) -> tuple[Cut, ...] | str:
    extent = extent_of(index)
    if not 0 < length < extent:
        return ()
    if extent % length or length % unit:
        return "blocks are not of equal length, or cut a tile"
    return (equal_blocks(index, extent // length),)


def _of_parts(w: WindowPlan, parts: tuple[Cut, ...], target: Target) -> WindowPlan:
    w = replace(w, parts=parts)
    return replace(w, plan=replace(w.plan, grain=_grain_with_copies(w, target)))


def _grain_with_copies(w: WindowPlan, target: Target) -> int:
    """How many items a chunk does: many, if each chunk copies a large box first; few, so that all
    cores are done at the same time."""
    least, cores = grain_of(w.items, target), target.cores
    if w.rows.packing is None or w.lanes_first:
        return least
    points = w.plan.outer * w.plan.broadcast.extent * w.plan.vector.extent * size(w.loops)
    tiles, box = points / (2 * w.plan.lanes), _COPY * w.rows.elements

    def cycles(grain: int) -> float:
        chunks = -(-w.items // grain)
        boxes = max(1.0, w.plan.outer / chunks)  # each batch has its own
        return (tiles / chunks + box * boxes) * (-(-chunks // cores) + 0.15)

    most = max(least, w.items // (2 * cores))
    return min((least * n for n in range(1, most // least + 1)), key=cycles)


def grain_of(items: int, target: Target) -> int:
    """How many items a chunk does."""
    return max(1, -(-items // (_CHUNKS * target.cores)), -(-items // MOST_CHUNKS))


def is_given(vector: Operand, form: Form, constant: frozenset[Tensor]) -> bool:
    """Whether an operand is arranged ahead of time."""
    return may_prepare(vector, Depth(tuple(form.reduced), 0, 1), constant)


def vector_length(lane: Index, form: Form, target: Target) -> int:
    """Lanes of the vectors along an index."""
    return min(target.lanes(form.dtype), 1 << (extent_of(lane) - 1).bit_length())


def is_affine(operand: Operand) -> bool:
    """Whether an operand is an element whose subscripts are linear, and skipped or in range."""
    access = operand.access
    if access is None:
        return False
    return all(
        not linear(s.index).others and (is_within(s.index, n) or isinstance(s.rule, Skip))
        for s, n in zip(access.subscripts, shape_of(access.tensor.shape), strict=True)
    )


def overlaps(operand: Operand, form: Form) -> bool:
    """Whether several pairs of an own and another index of a batch give the same element."""
    return any(not used.isdisjoint(operand.indices) for used in _shared(operand, form))


def _shared(operand: Operand, form: Form) -> list[set[Index]]:
    """The indices that are together in a subscript, batches aside."""
    assert operand.access is not None
    parts = [
        {i for i in linear(s.index).indices if i not in form.batch}
        for s in operand.access.subscripts
    ]
    return [used for used in parts if len(used) > 1]


def fixed_indices(operand: Operand, form: Form) -> list[Index]:
    """The indices of an operand that select elements which nothing else reads."""
    return _alone(operand, form) if overlaps(operand, form) else []


def outside_indices(operand: Operand, form: Form) -> list[Index]:
    """The indices of the rows that are not walked through for an item of constant lanes."""
    if overlaps(operand, form):
        return _alone(operand, form)
    real = [i for i in operand.indices if extent_of(i) > 1]
    return [i for i in operand.indices if i not in real[-2:]] if real else []


def _alone(operand: Operand, form: Form) -> list[Index]:
    """The indices of an operand that share no subscript with another."""
    shared = set[Index]().union(*_shared(operand, form))
    return [i for i in operand.indices if i not in shared]


def _guarded(read: Sequence[Access], form: Form, tiled: Sequence[Index]) -> Guarded | None:
    """The loop over k that a guard cuts most, by an index that no tile runs along."""
    found = []
    for access in read:
        shape = shape_of(access.tensor.shape)
        for s, extent in zip(access.subscripts, shape, strict=True):
            place = linear(s.index)
            used = place.steps
            inner = [i for i in used if i in form.reduced]
            own = [i for i in used if i not in form.reduced]
            if len(inner) != 1 or len(own) != 1 or own[0] in (*tiled, *form.batch):
                continue
            if is_within(s.index, extent) or abs(used[inner[0]]) != 1:
                continue
            constant = place.constant
            assert isinstance(constant, int)
            guard = (inner[0], used[inner[0]], own[0], used[own[0]], constant, extent)
            found.append(Guarded(*guard))
    return min(found, key=Guarded.share, default=None)


def _in_order(form: Form, steps: dict[Index, int], first: Index | None) -> tuple[Index, ...]:
    """The loops over k: one, if any, then those of the largest steps outside."""
    loops = sorted(reduced_loops(form), key=lambda k: -abs(steps.get(k, 0)))
    return tuple(sorted(loops, key=lambda k: k is not first))


def _in_stretches(
    form: Form, steps: dict[Index, int], first: Index | None
) -> tuple[Form, tuple[Index, ...]]:
    """The form and its loops over k, one, if any, before the others, where a long loop is outside a
    short one with a part of the long one innermost: the end of a loop costs cycles, and so does a
    stretch of few terms."""
    loops = _in_order(form, steps, first)
    before, rest = loops[: first is not None], loops[first is not None :]
    if not rest:
        return form, loops
    outer, *others = rest
    most = STRETCH // size(others)
    lengths = (n for n in range(most, 0, -1) if extent_of(outer) % n == 0)
    length = next(lengths, 1)
    plain = form.words is None and None not in (form.left.access, form.right.access)
    if not others or not plain or length <= extent_of(loops[-1]):
        return form, loops
    block = Index(f"{outer.name}.block", integer(extent_of(outer) // length))
    inner = Index(outer.name, integer(length))
    place = shapes.add(shapes.mul(block, integer(length)), inner)
    left, right = (
        replace(o, value=substitute(o.value, {outer: place})) for o in (form.left, form.right)
    )
    reduced = tuple(i for k in form.reduced for i in ((block, inner) if k is outer else (k,)))
    form = replace(form, left=left, right=right, reduced=reduced)
    return form, (*before, block, *others, inner)


def last_of(indices: tuple[Index, ...], index: Index) -> tuple[Index, ...]:
    return (*(i for i in indices if i is not index), index)


def loops_inside(w: WindowPlan, stride: int, terms: Mapping[Index, range] | None = None) -> Loops:
    """The loops over k of a block: their extents, or how many `terms` there are, and the steps of
    both operands, `stride` being what a panel has for each k."""
    found: list[tuple[int, int, int]] = []
    for position, index in enumerate(w.loops):
        extent = w.cut.length if index is w.cut.index else extent_of(index)
        if terms is not None and index in terms:
            extent = len(terms[index])
        a, v = w.rows.step(index), w.columns.step(index)
        if w.prepared:
            v = stride * size(w.loops[position + 1 :])
        alone = w.guarded is not None and len(found) == 1
        if found and not alone and found[-1][1:] == (a * extent, v * extent):
            found[-1] = (found[-1][0] * extent, a, v)
        else:
            found.append((extent, a, v))
    return cut_loops(tuple(found)) if w.prepared else tuple(found)
