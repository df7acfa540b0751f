"""Sums of products whose operands overlap: neighbouring results read mostly the same elements.

    result[batch, row, column] = sum over k of  a[row, k] * v[column + k]

Packing such an operand in panels would copy each element many times. So the part of it that some
results need, a box of its tensor, is copied once, zero where a guard fails, with one index along
vectors; tiles read it in place, by several loops over k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...ir import shapes
from ...ir.nodes import ZERO, Access, Expr, Index, Skip, Subscript, Tensor, integer
from ...ir.rewrite import Replaceable, free_indices, substitute
from .contraction_cost import tiles
from .contraction_form import Form, Operand, size
from .contraction_plan import MOST_CHUNKS, Plan, is_across
from .contraction_space import flat_form, merge
from .emit_access import extent_of, is_within, linear, shape_of
from .emit_types import width
from .kernels import Strides
from .packing import Depth, Packing, contiguous_depth, is_plain
from .schedule import Side, Window, impossible
from .target import Target

_CHUNKS = 16
"""Chunks per core, about."""
_CALL = 70.0
"""Cycles around a tile: its call, and its part of storing results."""


@dataclass(frozen=True, slots=True)
class Staged:
    """An operand as tiles read it: how far apart elements are along each index.

    If there is a `packing`, the box is copied first, with `pitch` elements in a row; else the
    operand is read where it is.
    """

    access: Access
    steps: dict[Index, int]
    start: int
    packing: Packing | None
    pitch: int
    elements: int

    def step(self, index: Index) -> int:
        return self.steps.get(index, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """An index in blocks of a length, `number` being that of the block."""

    index: Index
    number: Index
    length: int


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

    def share(self) -> float:
        """The part of the loop that counts, on average."""
        count = 0
        for own in range(extent_of(self.own)):
            low, high = sorted((self._first(own, 0), self._first(own, self.extent - 1)))
            count += max(0, min(high, extent_of(self.k) - 1) - max(low, 0) + 1)
        return count / (extent_of(self.own) * extent_of(self.k))

    def _first(self, own: int, place: int) -> int:
        return (place - self.constant - own * self.step) * self.factor


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How such a contraction is computed.

    The vectors of a tile are along `lane`, and lie side by side along `beside`.

    An item is a batch and values of the `fixed` indices; a chunk does `grain` of them. Tiles run
    along `row` and `lane`; of the reduced indices, in the order of `loops`, the first is cut in
    blocks, or is `guarded`.
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

    @property
    def blocks(self) -> int:
        return extent_of(self.cut.number)

    @property
    def items(self) -> int:
        return self.plan.outer * size(self.fixed)

    def down(self) -> tuple[Index, ...]:
        """The other indices of the rows that are walked through for an item."""
        return tuple(i for i in self.plan.broadcast.indices[:-1] if i not in self.fixed)

    def right(self) -> tuple[Index, ...]:
        """The other indices of the columns that are walked through for an item."""
        own = (self.lane, self.beside, *self.fixed)
        return tuple(i for i in self.plan.vector.indices if i not in own)

    @property
    def is_straight(self) -> bool:
        """Whether the vectors of a tile follow each other along the lanes."""
        return self.beside is self.lane

    @property
    def span(self) -> int:
        """How many values of the index `beside` a tile has."""
        return self.plan.panel if self.is_straight else self.plan.vectors


def choose_window(form: Form, strides: Strides, target: Target, most: float) -> Window | None:
    """The schedule that takes fewest cycles on one core, if less than `most`."""
    points = size((*form.kernel.domain, *form.kernel.reduced))
    if points / (2 * target.lanes(form.dtype)) >= most:
        return None
    found: list[tuple[float, int, Window]] = []
    for schedule in _candidates(form, target):
        plan = _plan(form, schedule, strides, target)
        if isinstance(plan, str):
            continue
        for rows, vectors in _tiles_of(plan, target):
            tiled = replace(plan, plan=replace(plan.plan, rows=rows, vectors=vectors))
            sized = replace(schedule, rows=rows, vectors=vectors)
            found.append((_cycles(tiled, target), len(found), sized))
    best = min(found, default=None)
    return None if best is None or best[0] >= most else best[2]


def window_plan(form: Form, s: Window, strides: Strides, target: Target) -> WindowPlan:
    """The plan of a schedule; `Error` E0807 if a kernel cannot be computed so."""
    plan = _plan(form, s, strides, target)
    if isinstance(plan, str):
        raise impossible(plan, form.kernel.name)
    return plan


def _candidates(form: Form, target: Target) -> Iterator[Window]:
    """The ways to lay a tile, with its smallest size."""
    if not (_is_affine(form.left) and _is_affine(form.right)):
        return
    if not (_overlaps(form.left, form) or _overlaps(form.right, form)):
        return
    numbers = {i: n for n, i in enumerate((*form.kernel.domain, *form.kernel.reduced))}
    sides: list[tuple[Side, Operand, Operand]] = [
        ("left", form.right, form.left),
        ("right", form.left, form.right),
    ]
    for side, broadcast, vector in sides:
        for row in broadcast.indices:
            for lane in vector.indices:
                for beside in vector.indices:
                    whole = extent_of(lane) == _lanes(lane, form, target)
                    if extent_of(lane) > 1 and (whole or beside is lane):
                        given = (numbers[row], numbers[lane], numbers[beside])
                        yield Window(side, *given, 1, 1)


def _tiles_of(w: WindowPlan, target: Target) -> Iterator[tuple[int, int]]:
    down, right = extent_of(w.row), _vectors(w)
    return ((r, v) for r, v in tiles(target) if r <= down and v <= right)


def _vectors(w: WindowPlan) -> int:
    """How many vectors there are for the tiles to share."""
    return -(-extent_of(w.lane) // w.plan.lanes) if w.is_straight else extent_of(w.beside)


def _lanes(lane: Index, form: Form, target: Target) -> int:
    return min(target.lanes(form.dtype), 1 << (extent_of(lane) - 1).bit_length())


def _is_affine(operand: Operand) -> bool:
    """Whether an operand is an element whose subscripts are linear, and skipped or in range."""
    access = operand.access
    if access is None:
        return False
    return all(
        not linear(s.index).others and (is_within(s.index, n) or isinstance(s.rule, Skip))
        for s, n in zip(access.subscripts, shape_of(access.tensor.shape), strict=True)
    )


def _overlaps(operand: Operand, form: Form) -> bool:
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


def _plan(form: Form, s: Window, strides: Strides, target: Target) -> WindowPlan | str:
    """The plan of a schedule, or why there is none."""
    broadcast, vector = form.left, form.right
    if s.vector == "left":
        broadcast, vector = vector, broadcast
    if not (_is_affine(broadcast) and _is_affine(vector)):
        return "an operand is not an element with linear subscripts"
    indices = (*form.kernel.domain, *form.kernel.reduced)
    if max(s.row, s.lane, s.beside) >= len(indices):
        return "an index of the tile is not there"
    row, lane, beside = indices[s.row], indices[s.lane], indices[s.beside]
    if row not in broadcast.indices or not {lane, beside} <= set(vector.indices):
        return "the tile's indices are not those of its operands"
    most = min(s.rows, extent_of(row))
    lanes = _lanes(lane, form, target)
    if beside is not lane and extent_of(lane) != lanes:
        return "a vector does not hold all of its index"
    wide = -(-extent_of(lane) // lanes) if beside is lane else extent_of(beside)
    vectors = min(s.vectors, wide)
    if not 0 < most * vectors <= 64:
        return "a register tile has 1 to 64 vectors"
    places = [x.index for x in _access(vector).subscripts if lane in linear(x.index).indices]
    if len(places) != 1 or linear(places[0]).indices[lane] != 1:
        return "vectors would not be contiguous"
    tiled = (row, lane, beside)
    fixed = tuple(i for o in (broadcast, vector) for i in _fixed(o, form) if i not in tiled)
    reduced = tuple(k for k in form.reduced if extent_of(k) > 1) or form.reduced[:1]
    steps = flat_form(_access(broadcast), strides).steps
    guarded = _guarded(_access(broadcast), _access(vector), form, tiled)
    first = None if guarded is None else guarded.k
    loops = tuple(sorted(reduced, key=lambda k: (k is not first, -abs(steps.get(k, 0)))))
    broadcast = replace(broadcast, indices=_last(broadcast.indices, row))
    vector = replace(vector, indices=_last(_last(vector.indices, beside), lane))
    for cut in _cuts(loops[0]):
        given = (fixed, cut, strides)
        columns = _staged(form, vector, lane, lanes, *given)
        rows = _staged(form, broadcast, None, target.lanes(form.dtype), *given)
        if _bytes(form, rows, columns) <= target.l2 // 4:
            break
        if fixed or guarded:
            return "a copy of an operand is too large"
    else:
        return "a copy of an operand is too large"
    depth = Depth(loops, 0, extent_of(loops[0]))
    items = size(form.batch) * size(fixed)
    grain = max(-(-items // (_CHUNKS * target.cores)), -(-items // MOST_CHUNKS))
    plan = Plan(
        form, broadcast, vector, "packed", "packed", depth, lanes, most, vectors, most,
        vectors * lanes, is_across(form, vector, strides), grain, True,
    )  # fmt: skip
    result = flat_form(form.kernel.targets[0], strides).steps
    return WindowPlan(plan, row, lane, beside, fixed, loops, cut, guarded, rows, columns, result)


def _access(operand: Operand) -> Access:
    assert operand.access is not None
    return operand.access


def _fixed(operand: Operand, form: Form) -> list[Index]:
    """The indices of an operand that select elements which nothing else reads."""
    if not _overlaps(operand, form):
        return []
    shared = set[Index]().union(*_shared(operand, form))
    return [i for i in operand.indices if i not in shared]


def _guarded(
    broadcast: Access, vector: Access, form: Form, tiled: Sequence[Index]
) -> Guarded | None:
    """The loop over k that a guard cuts most, by an index that no tile runs along."""
    found = []
    for access in (broadcast, vector):
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


def _last(indices: tuple[Index, ...], index: Index) -> tuple[Index, ...]:
    return (*(i for i in indices if i is not index), index)


def _cuts(index: Index) -> Iterator[Cut]:
    """Ways to cut an index into equal blocks, the longest first."""
    extent = extent_of(index)
    for pieces in range(1, min(extent, 64) + 1):
        if extent % pieces == 0:
            yield Cut(index, Index(f"{index.name}.block", integer(pieces)), extent // pieces)


def _bytes(form: Form, *staged: Staged) -> int:
    return sum(s.elements for s in staged) * width(form.dtype)


# ------------------------------------------------------------------------ boxes


def _staged(
    form: Form,
    operand: Operand,
    lane: Index | None,
    lanes: int,
    fixed: Sequence[Index],
    cut: Cut,
    strides: Strides,
) -> Staged:
    """How an operand is read; what is along vectors, or has guards, is copied."""
    access = _access(operand)
    outside = {*form.batch, *fixed}
    box = [_side(s, outside, cut) for s in access.subscripts]
    steps = flat_form(access, strides).steps
    if lane is None and is_plain(access) and _is_dense(steps, box, cut):
        return Staged(access, steps, 0, None, 0, 0)
    along = _dimension(access, box, lane)
    pitch = box[along][1]
    if lane is not None and len(box[along][0]) == 1:
        pitch = -(-pitch // lanes) * lanes
    own = Index("x", integer(box[along][1]))
    others = {d: Index(f"x{d}", integer(b[1])) for d, b in enumerate(box) if b[0] and d != along}
    moved = _moved(access, box, {**others, along: own}, cut)
    apart, far = {along: 1}, pitch
    for d in reversed(others):
        apart[d], far = far, far * box[d][1]
    steps = {}
    for d, (factors, _, _) in enumerate(box):
        for index, factor in factors.items():
            steps[index] = steps.get(index, 0) + factor * apart[d]
    start = -sum(apart[d] * box[d][2] for d in apart if box[d][0])
    run: tuple[Index, ...] = (own,)
    if lane is None:  # several dimensions that lie contiguous are copied as one
        groups = merge([*others.values(), own], [moved], strides).groups
        run = groups[-1] if groups else run
        pitch = size(run)
    rest = tuple(i for i in (*others.values(), own) if i not in run)
    packing = _packing(form, moved, run, rest, lane is not None, lanes, strides)
    return Staged(moved, steps, start, packing, pitch, far + 64)


_Side = tuple[dict[Index, int], int, int]
"""Of a dimension of a box: the factors of indices, how long it is, and where it begins."""


def _side(subscript: Subscript, outside: set[Index], cut: Cut) -> _Side:
    factors = {i: f for i, f in linear(subscript.index).steps.items() if i not in outside}
    ends = [f * ((cut.length if i is cut.index else extent_of(i)) - 1) for i, f in factors.items()]
    low = sum(min(e, 0) for e in ends)
    return factors, sum(map(abs, ends)) + 1, low


def _is_dense(steps: dict[Index, int], box: Sequence[_Side], cut: Cut) -> bool:
    """Whether a box takes up not much more room in its tensor than it has elements."""
    extents = {i: cut.length if i is cut.index else extent_of(i) for b in box for i in b[0]}
    spanned = 1 + sum(abs(steps.get(i, 0)) * (n - 1) for i, n in extents.items())
    return spanned <= 2 * math.prod(b[1] for b in box)


def _dimension(access: Access, box: Sequence[_Side], lane: Index | None) -> int:
    """The dimension along which a copy is contiguous."""
    if lane is not None:
        return next(d for d, side in enumerate(box) if lane in side[0])
    return max((d for d, side in enumerate(box) if side[0]), default=len(box) - 1)


def _moved(access: Access, box: Sequence[_Side], fresh: dict[int, Index], cut: Cut) -> Access:
    """The access over the places of the box of a block."""
    subscripts = []
    for d, s in enumerate(access.subscripts):
        if d in fresh:
            known: dict[Replaceable, Expr | Tensor] = dict.fromkeys(box[d][0], ZERO)
            if cut.index in known:
                known[cut.index] = shapes.mul(cut.number, integer(cut.length))
            base = shapes.add(substitute(s.index, known), integer(box[d][2]))
            s = replace(s, index=shapes.simplify(shapes.add(base, fresh[d])))
        subscripts.append(s)
    return replace(access, subscripts=tuple(subscripts))


def _packing(
    form: Form,
    access: Access,
    own: tuple[Index, ...],
    others: tuple[Index, ...],
    is_vector: bool,
    lanes: int,
    strides: Strides,
) -> Packing:
    others = others or (Index("x0", integer(1)),)
    operand = Operand(access, own)
    depth = Depth(others, 0, extent_of(others[0]))
    outer = tuple(i for i in free_indices(access) if i not in own and i not in others)
    if contiguous_depth(operand, depth, lanes, strides) is None:
        lanes = min(lanes, 1 << (size(own) - 1).bit_length())
    name = f"kernel.pack.{'columns' if is_vector else 'rows'}"
    whole = size(own) % lanes == 0
    return Packing(name, operand, outer, depth, form.dtype, lanes, whole)


# ------------------------------------------------------------------------- cost


def _cycles(w: WindowPlan, target: Target) -> float:
    """Cycles on one core."""
    plan = w.plan
    deep = size(w.loops) * (w.guarded.share() if w.guarded else 1.0)
    calls = size(w.down()) * size(w.right())
    per_item = 0.0
    for times, rows in _cut(extent_of(w.row), plan.rows):
        for count, vectors in _cut(_vectors(w), plan.vectors):
            tile = deep * _step(rows, vectors, w, target) + _CALL * w.blocks
            tile += _storing(rows, vectors, w)
            per_item += calls * times * count * tile
    copied = 0.0
    for side in (w.rows, w.columns):
        if side.packing is not None:
            copied += w.blocks * _copies(w, side) * side.elements * _copying(side.packing)
    # what does not stay in the first cache takes longer to read again
    far = 1.0 + (w.rows.elements + w.columns.elements) * width(plan.form.dtype) / target.l2
    return copied + w.items * per_item * far


def _storing(rows: int, vectors: int, w: WindowPlan) -> float:
    """Cycles of storing the results of a tile, in vectors along one of its sides."""
    plan = w.plan
    along, length, times = w.lane, plan.lanes, rows * vectors
    if plan.across:
        along, length, times = w.row, rows, vectors * plan.lanes
    step = w.result.get(along, 0)
    return times * (6.0 + 2.0 * vectors if step == 1 else 6.0 + 1.5 * length)


def _copies(w: WindowPlan, side: Staged) -> int:
    """How often a box is copied: for every item, or for every batch and chunk."""
    if not set(free_indices(side.access)).isdisjoint(w.fixed):
        return w.items
    return max(w.plan.outer, -(-w.items // w.plan.grain))


def _copying(packing: Packing) -> float:
    """Cycles per element of a copy."""
    operand = packing.operand
    steps = flat_form(_access(operand), {}).steps
    if contiguous_depth(operand, packing.depth, packing.lanes, {}) is not None:
        return 0.8
    run = min(packing.lanes, operand.extent)
    return 4.0 / run if steps.get(operand.indices[-1], 0) in (0, 1) else 2.5


def _cut(extent: int, step: int) -> list[tuple[int, int]]:
    return [(n, s) for n, s in ((extent // step, step), (1, extent % step)) if n and s]


def _step(rows: int, vectors: int, w: WindowPlan, target: Target) -> float:
    """Cycles of one k of a tile; vectors that begin anywhere cross lines of the cache."""
    work, latency = rows * vectors, target.accumulators * 0.8
    crossing = 1.0 if w.columns.pitch % w.plan.lanes == 0 else 1.8
    loads = vectors * crossing + rows
    return max(work, latency, loads) / 2 + 0.5


def loops_inside(w: WindowPlan) -> tuple[tuple[int, int, int], ...]:
    """The loops over k of a block: their extents, and the steps of both operands."""
    found: list[tuple[int, int, int]] = []
    for index in w.loops:
        extent = w.cut.length if index is w.cut.index else extent_of(index)
        a, v = w.rows.step(index), w.columns.step(index)
        alone = w.guarded is not None and len(found) == 1
        if found and not alone and found[-1][1:] == (a * extent, v * extent):
            found[-1] = (found[-1][0] * extent, a, v)
        else:
            found.append((extent, a, v))
    return tuple(found)
