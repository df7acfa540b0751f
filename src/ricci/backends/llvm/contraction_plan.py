"""Decides how a contraction is computed: sides, register tile, blocks, chunks.

The *vector* side of the product fills vector registers, the *broadcast* side gives the rows of
the register tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.nodes import Index, Tensor
from ...ir.rewrite import accesses, free_indices
from ...records import cached_property, dataclass, replace
from .contraction_cost import (
    DEEP_APART,
    FEW,
    Costs,
    estimate,
    is_torn,
    most_apart,
    near_room,
    rows_beside,
)
from .contraction_form import Form, Operand, by_stride, size
from .contraction_reading import ASKING, asking_room, is_by_lanes, is_direct, is_far, reads_far
from .contraction_space import flat_form, merge, step_of
from .contraction_storing import MOST_TURNS
from .contraction_tiles import MOST_ROWS, best_tile, good_tiles, tiles
from .emit_access import extent_of, shape_of
from .kernels import Strides
from .matrix import MatrixProduct
from .packing import Depth
from .schedule import Source
from .target import PAGE, Target

_GRAIN = 8000.0
"""Cycles that a thread should work before it asks for more."""
MOST_CHUNKS = 4096
"""Chunks that a kernel has at most."""
_FREE = 1 << 18
"""Elements that prepared panels may have in any case."""
_CLEARLY = 0.9865
"""The part of the cycles of the tile that wastes least which another may take: of smaller gains,
half were losses."""
_STREAMS = 8
"""Rows of a big operand that are read at the same time, at least."""
_PER_ROW = 4
"""More of these for each row of the other: sums go to memory and back once for all of them."""
_APART, _APART_IN_FEW = 16, 6
"""Of these whole pages apart, which fall on the same lines of the caches, at most; and where the
first cache has eight ways or fewer."""
_FEW_PANELS = 6
"""With so many panels of rows, it goes by bringing columns from beyond the caches."""
_PAGES, _FEW_TILES = 64, 8
"""Pages that a processor finds at once; and few tiles of rows, for which that matters."""
_EXACT, _MORE_EXACT, _MOST_EXACT = 256, 224, 128
"""Terms that are added up one by one, at most: the more, the less exact the sum. All of a sum that
is one run, since a second takes sums to memory and back; fewer of one that is several; fewest
with few rows, since it costs nothing there."""
_MOST_DEEP = 16 << 20
"""Bytes of rows of which all k may stay in the first cache by turns, at most: what columns pass by
again comes from the third, while no more is read from memory than before."""
_LONG_RUN = 512
"""Elements of a run of which the last panel may be a part of one."""
_CHUNKS = 24
"""Chunks per core, for fewer of which the last ones would be waited for."""
_MOST_SUMS, _BLOCKS_OF_SUM = 8, 16
"""Sums that the blocks of k of few rows are added up in, and blocks of each, at least."""
_MOST_ALIGNED = PAGE // 8
"""Bytes that may divide how far apart columns of neighbouring k are that are read in blocks."""
_LINE_OF_K = 16
"""Values of k that a line of the caches has, of numbers of 4 bytes."""
_STRETCH = 8192
"""Bytes read of each of them before going on to the next rows, at least."""


@dataclass(frozen=True)
class Plan:
    """A contraction as it will be computed.

    `rows` and `vectors` are the register tile, `row_block` and `lane_block` the part of the
    result that a chunk computes: multiples of the tile, except at the end.
    """

    form: Form
    broadcast: Operand
    vector: Operand
    broadcast_source: Source
    vector_source: Source
    depth: Depth
    lanes: int
    rows: int
    vectors: int
    row_block: int
    lane_block: int
    across: bool
    """Whether the result is not contiguous along the vector side."""
    grain: int = 1
    """How many blocks a chunk does."""
    ragged: bool = False
    """Whether tiles may begin and end anywhere along the vector side."""
    is_streamed: bool = False
    """Whether a big vector side is read straight from memory, a few rows at a time."""
    asks_ahead: bool = False
    """Whether a tile asks for the next's rows, which lie beyond the caches, before it begins."""
    has_far_rows: bool = False
    """Whether the broadcast side is more than the caches of a core hold."""
    by_lanes: bool = False
    """Whether all blocks of the same columns follow one another, not all of the same rows."""
    is_deep: bool = False
    """Whether the rows of a tile stay in the first cache, for more k than are added up one by one,
    while columns pass by that come from the second."""
    matrices: MatrixProduct | None = None
    """How tiles are computed that are matrices in registers, if they are."""

    @property
    def panel(self) -> int:
        """Elements that a vector panel holds per k."""
        return self.vectors * self.lanes

    @property
    def columns(self) -> int:
        """Elements of the vector side: for each of its columns, those of all k."""
        return self.vector.extent * self.depth.extent

    @cached_property
    def run(self) -> int:
        """Terms that a tile adds up one by one, at most, if a block has more; else 0. Sums of
        integers are exact anyway."""
        most, limit = self.depth.most, _exact(self.broadcast, self.depth)
        if self.form.words is not None or most <= limit:
            return 0
        return -(-most // -(-most // limit))

    @cached_property
    def runs(self) -> int:
        """How many sums a tile makes of a block of k."""
        return -(-self.depth.most // self.run) if self.run else 1

    @property
    def blocks_of_sum(self) -> int:
        """Blocks of k that are added up one by one. Few rows may have many, each of few terms: then
        several sums are kept, and added up at the end, which loses fewer bits. Sums of integers
        are exact anyway."""
        blocks = self.depth.blocks
        if self.broadcast.extent > FEW or self.form.words is not None:
            return blocks
        return -(-blocks // max(min(_MOST_SUMS, blocks // _BLOCKS_OF_SUM), 1))

    @property
    def sums(self) -> int:
        """How many sums of blocks of k there are."""
        return -(-self.depth.blocks // self.blocks_of_sum)

    @property
    def row_blocks(self) -> int:
        return -(-self.broadcast.extent // self.row_block)

    @property
    def lane_blocks(self) -> int:
        return -(-self.vector.extent // self.lane_block)

    @property
    def blocks(self) -> int:
        return self.outer * self.row_blocks * self.lane_blocks

    @property
    def chunks(self) -> int:
        return -(-self.blocks // self.grain)

    @cached_property
    def outer(self) -> int:
        return size(self.form.batch)

    @cached_property
    def padded(self) -> int:
        """Elements of the vector side per k when packed: the last panel has whole vectors."""
        return -(-self.vector.extent // self.lanes) * self.lanes


def in_runs(form: Form, strides: Strides) -> Form:
    """The form with only those indices of an operand that are one run of it and of the result, if
    that is long: others are done one after another, as those of a batch. So tiles need not look
    for where runs end, which takes up to a tenth of the time."""
    if form.words is not None:
        return form
    left, right = (_run_of(o, form, strides) for o in (form.left, form.right))
    if left is form.left and right is form.right:
        return form
    moved = {*form.left.indices, *form.right.indices} - {*left.indices, *right.indices}
    order = by_stride(form.kernel, strides)
    batch = tuple(i for i in order if i in moved or i in form.batch)
    return replace(form, left=left, right=right, batch=batch)


def _run_of(operand: Operand, form: Form, strides: Strides) -> Operand:
    groups = merge(operand.indices, [operand.value, form.kernel.targets[0]], strides).groups
    if len(groups) < 2 or size(groups[-1]) < _LONG_RUN:
        return operand
    return replace(operand, indices=groups[-1])


def make_plan(form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]) -> Plan:
    """The cheapest of the ways to assign the sides and to read them."""
    form = in_runs(form, strides)
    sides = [(form.left, form.right), (form.right, form.left)]
    if form.words is not None:
        sides, target = sides[:1], form.words.room(target)
    plans = [p for a, b in sides for p in plans_of_sides(form, a, b, strides, target, constant)]
    cycles, _, best = min((estimate(p, strides, target), n, p) for n, p in enumerate(plans))
    for other in _of_other_tiles(best, strides, target):
        done = estimate(other, strides, target)
        if done < cycles * _CLEARLY:
            cycles, best = done, other
    return best


def _of_other_tiles(best: Plan, strides: Strides, target: Target) -> Iterator[Plan]:
    """The same plan with other register tiles that waste hardly more: what packing, blocks and
    results take may decide."""
    if best.is_streamed or best.broadcast.extent == 1:
        return
    broadcast, vector, depth = best.broadcast, best.vector, _in_one_block(best.depth.indices)
    given = (best.form, broadcast, vector, best.broadcast_source, best.vector_source)
    bytes_of = best.form.dtype.numpy().itemsize
    most_rows = _most_rows(broadcast, best.broadcast_source, depth, strides, bytes_of, target)
    for tile in good_tiles(broadcast.extent, vector.extent, best.lanes, target, most_rows):
        if tile != (best.rows, best.vectors):
            plan = _plan(*given, depth, strides, target, tile)
            yield from _of_depths(plan, strides, target)


def plans_of_sides(
    form: Form,
    broadcast: Operand,
    vector: Operand,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> Iterator[Plan]:
    """The plans in which a given operand fills the vectors."""
    for order in (depth_of(form, broadcast, strides), depth_of(form, vector, strides)):
        for a in sources_of(broadcast, order, strides, constant, False):
            for b in sources_of(vector, order, strides, constant, True):
                plan = _plan(form, broadcast, vector, a, b, order, strides, target)
                yield from _of_depths(plan, strides, target)


def _of_depths(plan: Plan, strides: Strides, target: Target) -> Iterator[Plan]:
    """A plan with blocks of so many k as are added up one by one, with as many as leave a panel of
    columns in the first cache, with as many as leave one of rows there, with as many as leave room
    to ask for columns, and with as many as lie on few pages; and what is streamed, in blocks."""
    yield plan
    for other in (_near, _deep, _asking, _of_few_pages, _unstreamed):
        found = other(plan, strides, target)
        if found is not None:
            yield found


def may_be_deep(
    form: Form, broadcast: Operand, source: Source, depth: Depth, target: Target
) -> bool:
    """Whether blocks of a plan may be deep, see `Plan.is_deep`: of rows that come from the third
    cache at most."""
    many = broadcast.extent > FEW and depth.extent > _exact(broadcast, depth)
    rows = broadcast.extent * depth.extent * form.dtype.numpy().itemsize
    return many and target.wide and source == "direct" and rows <= _MOST_DEEP


def sources_of(
    operand: Operand,
    depth: Depth,
    strides: Strides,
    constant: frozenset[Tensor],
    is_vector: bool,
) -> Iterator[Source]:
    """How tiles may read an operand; what is constant need not be packed again and again."""
    if is_direct(operand, depth.indices, strides):
        if not is_vector or step_of(operand, operand.indices, strides) == 1:
            yield "direct"
    yield "prepared" if may_prepare(operand, depth, constant) else "packed"


def may_prepare(operand: Operand, depth: Depth, constant: frozenset[Tensor]) -> bool:
    """Whether an operand is constant, and its panels take not much more memory than it does."""
    read = {a.tensor for a in accesses(operand.value)}
    used = [i for i in free_indices(operand.value) if i not in depth.indices]
    panels = size(used) * depth.extent
    return bool(read) and read <= constant and panels <= _FREE + 2 * sum(map(_elements, read))


def _elements(tensor: Tensor) -> int:
    return math.prod(shape_of(tensor.shape))


def _plan(
    form: Form,
    broadcast: Operand,
    vector: Operand,
    broadcast_source: Source,
    vector_source: Source,
    depth: Depth,
    strides: Strides,
    target: Target,
    tile: tuple[int, int] | None = None,
) -> Plan:
    lanes = target.lanes(form.dtype)
    bytes_of = form.dtype.numpy().itemsize
    asks = is_asked_ahead(broadcast, broadcast_source, _STREAMS, depth, strides, bytes_of, target)
    if tile is None:
        most_rows = _most_rows(broadcast, broadcast_source, depth, strides, bytes_of, target)
        tile = best_tile(broadcast.extent, vector.extent, lanes, target, most_rows)
    rows, vectors = tile
    if broadcast.extent == 1:
        vectors = _vectors_of_row(-(-vector.extent // lanes), target)
    panel = vectors * lanes
    streams = vector_source == "direct" and reads_far(vector, form, depth, target)
    most = min(_exact(broadcast, depth), _panel_depth(rows, bytes_of, target))
    if streams:
        pages = step_of(vector, depth.indices, strides) * bytes_of % PAGE == 0
        room = _APART if target.l1 > 8 * PAGE else _APART_IN_FEW
        most = min(room if pages else _MOST_EXACT, max(_STREAMS, _PER_ROW * broadcast.extent))
    depth = blocked(depth, most)
    plan = Plan(
        form,
        broadcast,
        vector,
        broadcast_source,
        vector_source,
        depth,
        lanes,
        rows,
        vectors,
        -(-broadcast.extent // rows) * rows,
        _streamed_block(form, broadcast, vector, panel, target) if streams else panel,
        is_across(form, vector, lanes, strides),
        is_streamed=streams,
        asks_ahead=asks,
        has_far_rows=is_far(broadcast, depth, bytes_of, target),
        by_lanes=is_by_lanes(broadcast, vector, depth, bytes_of, target),
    )
    return plan if streams else _with_blocks(plan, strides, target)


def _most_rows(
    broadcast: Operand,
    source: Source,
    depth: Depth,
    strides: Strides,
    bytes_of: int,
    target: Target,
) -> int:
    """Rows of a register tile at most, of those that tiles read so."""
    if is_asked_ahead(broadcast, source, _STREAMS, depth, strides, bytes_of, target):
        return _STREAMS
    apart = step_of(broadcast, broadcast.indices, strides) if source == "direct" else 0
    return most_apart(target) if apart > 1 and apart * bytes_of % PAGE == 0 else MOST_ROWS


def _near(plan: Plan, strides: Strides, target: Target) -> Plan | None:
    """The plan in which a panel of columns stays in the first cache, while all rows of a block pass
    by; none if it does so anyway, is not a stretch of memory, or has not enough rows to pass by to
    make up for coming from beyond the caches."""
    few = plan.broadcast.extent <= _FEW_PANELS * plan.rows
    if few and reads_far(plan.vector, plan.form, plan.depth, target):
        return None
    each = plan.panel * plan.form.dtype.numpy().itemsize + rows_beside(plan, strides)
    most = max(64, near_room(target) // each)
    if plan.vector_source == "direct" or plan.is_streamed or plan.depth.most <= most:
        return None
    return _with_blocks(replace(plan, depth=blocked(plan.depth, most)), strides, target)


def _deep(plan: Plan, strides: Strides, target: Target) -> Plan | None:
    """The plan in which the rows of a tile stay in the first cache, see `Plan.is_deep`, if it may
    be so: with fewer rows where these lie whole pages apart."""
    form, broadcast, source = plan.form, plan.broadcast, plan.broadcast_source
    depth = _in_one_block(plan.depth.indices)
    if plan.is_streamed or not may_be_deep(form, broadcast, source, depth, target):
        return None
    bytes_of, rows, vectors = form.dtype.numpy().itemsize, plan.rows, plan.vectors
    most_rows = _most_rows(broadcast, source, depth, strides, bytes_of, target)
    if most_rows == most_apart(target) and rows > DEEP_APART:
        rows, vectors = best_tile(
            broadcast.extent, plan.vector.extent, plan.lanes, target, DEEP_APART
        )
    depth = blocked(depth, _panel_depth(rows, bytes_of, target))
    deep = replace(plan, rows=rows, vectors=vectors, depth=depth, is_deep=True)
    return _with_blocks(deep, strides, target)


def _asking(plan: Plan, strides: Strides, target: Target) -> Plan | None:
    """The plan in which there is room to ask for prepared columns, see `has_room_to_ask`; none if
    there is anyway, if too few rows of tiles could ask, or if nobody has to wait."""
    few = plan.broadcast.extent < ASKING * plan.rows
    if few or not target.narrow or plan.vector_source != "prepared" or plan.form.words is not None:
        return None
    if not reads_far(plan.vector, plan.form, plan.depth, target):
        return None
    each = plan.lane_block * plan.form.dtype.numpy().itemsize
    most = max(64, asking_room(target) // each)
    if plan.depth.most <= most:
        return None
    depth = blocked(plan.depth, most)
    over = depth.most - most
    if 0 < over < most // 4:  # blocks have about so many
        depth = blocked(plan.depth, most - over)
    return _with_blocks(replace(plan, depth=depth), strides, target)


def _of_few_pages(plan: Plan, strides: Strides, target: Target) -> Plan | None:
    """The plan in which columns that are packed, and come from a page of their own for each k, are
    on no more of them than a core on a mesh finds at once, if only few rows make up for that."""
    few = plan.broadcast.extent <= _FEW_TILES * plan.rows
    if not (few and target.on_mesh and plan.depth.most > _PAGES and is_torn(plan, strides, target)):
        return None
    return _with_blocks(replace(plan, depth=blocked(plan.depth, _PAGES)), strides, target)


def _unstreamed(plan: Plan, strides: Strides, target: Target) -> Plan | None:
    """The plan in which tiles read columns in place that come from beyond the caches in blocks, as
    if they were near, where vectors are done in halves; none if a row of tiles is all there is, or
    if columns of different k fall on the same lines of the caches."""
    if not (plan.is_streamed and target.halves) or plan.broadcast.extent <= plan.rows:
        return None
    depth = _in_one_block(plan.depth.indices)
    bytes_of = plan.form.dtype.numpy().itemsize
    apart = math.gcd(step_of(plan.vector, depth.indices, strides) * bytes_of, PAGE)
    if apart > _MOST_ALIGNED:
        return None
    most = min(_exact(plan.broadcast, depth), _panel_depth(plan.rows, bytes_of, target))
    near = replace(plan, depth=blocked(depth, most), is_streamed=False)
    return _with_blocks(near, strides, target)


def is_across(form: Form, vector: Operand, lanes: int, strides: Strides) -> bool:
    """Whether vectors of results lie along the other side than the vector side: results are
    contiguous there, or would be if those of a few values of the vector side took turns, see
    `turns_of`; or they are neither way, but are not a few elements apart along the vector side."""
    other = form.left if set(vector.indices) == set(form.right.indices) else form.right
    own, run = _last_step(vector, form, strides)
    step, other_run = _last_step(other, form, strides)
    most = min(MOST_TURNS, lanes - 1)
    if own == 1:
        return step == run <= most
    if step == 1:
        return run > 0 and not own == other_run <= most
    return run > 0 and not (1 < own <= MOST_TURNS and (own < step or step == 0))


def _last_step(operand: Operand, form: Form, strides: Strides) -> tuple[int, int]:
    """How far apart neighbouring results along a side are, in elements, and how many are; zeros if
    there is only one."""
    real = [i for i in operand.indices if extent_of(i) > 1]
    if not real:
        return 0, 0
    step = flat_form(form.kernel.targets[0], strides).steps.get(real[-1], 0)
    return step, extent_of(real[-1])


# ------------------------------------------------------------------------ blocks


def depth_of(form: Form, operand: Operand, strides: Strides) -> Depth:
    """The reduced indices in the order of an operand's memory."""
    reduced = reduced_loops(form)
    if operand.access is not None:
        steps = flat_form(operand.access, strides).steps
        reduced.sort(key=lambda k: -abs(steps.get(k, 0)))
    return _in_one_block(tuple(reduced))


def _in_one_block(reduced: tuple[Index, ...]) -> Depth:
    return Depth(reduced, 0, extent_of(reduced[0]))


def reduced_loops(form: Form) -> list[Index]:
    """The reduced indices that have several values, or else one."""
    return [k for k in form.reduced if extent_of(k) > 1] or list(form.reduced[:1])


def _exact(broadcast: Operand, depth: Depth) -> int:
    """Terms of a sum that are added up one by one, at most."""
    exact = _EXACT if depth.extent <= _EXACT else _MORE_EXACT
    return _MOST_EXACT if broadcast.extent <= FEW else exact


def _panel_depth(rows: int, bytes_of: int, target: Target) -> int:
    """How many k of a panel of rows leave room in the first cache."""
    return max(64, target.l1 * 3 // 4 // (bytes_of * max(rows, 4)))


def blocked(depth: Depth, limit: int) -> Depth:
    """Cuts the reduced indices in blocks of at most about `limit` points: of whole lines where one
    index is cut, since others would share a line between two."""
    split = 0
    while depth.extent > limit and size(depth.indices[split + 1 :]) > limit:
        split += 1
    inner = size(depth.indices[split + 1 :])
    extent = extent_of(depth.indices[split])
    blocks = -(-extent * inner // limit)
    each = -(-extent // min(blocks, extent))
    whole = -(-each // _LINE_OF_K) * _LINE_OF_K
    return Depth(depth.indices, split, whole if inner == 1 and whole <= limit < extent else each)


def _vectors_of_row(wide: int, target: Target) -> int:
    """Vectors of a tile of one row, of `wide`: so many that the core with most has fewest, since
    such a product takes as long as reading a share of the matrix."""
    widths = [v for r, v in tiles(target) if r == 1 and v <= wide]
    return min(widths, key=lambda v: (-(-wide // (v * target.cores)) * v, -v))


def _streamed_block(
    form: Form, broadcast: Operand, vector: Operand, panel: int, target: Target
) -> int:
    """Columns of a chunk that reads a big vector operand straight from memory: all if there are
    enough chunks, else a few long stretches at a time, but no core without any."""
    bytes_of = form.dtype.numpy().itemsize
    panels, outer = -(-vector.extent // panel), size(form.batch)
    long = max(-(-_STRETCH // (bytes_of * panel)), panels // 64)
    room = target.l2 // (4 * broadcast.extent * panel * bytes_of)
    most = panels if outer >= target.cores else min(long, -(-panels * outer // target.cores))
    return _even(panels, min(most, max(room, long))) * panel


def _with_blocks(plan: Plan, strides: Strides, target: Target) -> Plan:
    """The plan with the blocks that are done soonest."""
    costs = Costs(plan, strides, target)
    down = [r * plan.rows for r in pieces(-(-plan.broadcast.extent // plan.rows))]
    right = [c * plan.panel for c in pieces(-(-plan.vector.extent // plan.panel))]
    row_block, lane_block = costs.soonest(down, right)
    plan = replace(plan, row_block=row_block, lane_block=lane_block)
    cycles = costs.chunk(row_block, lane_block)
    many = plan.blocks // (_CHUNKS * target.cores)
    grain = max(1, many, round(_GRAIN / cycles), -(-plan.blocks // MOST_CHUNKS))
    return replace(plan, grain=min(grain, plan.blocks))


def pieces(panels: int) -> list[int]:
    """Lengths of pieces of about equal size, fewer and fewer of them."""
    counts = {*range(1, 9), 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256}
    counts |= {panels} if panels <= 256 else set()
    return sorted({-(-panels // n) for n in counts if n <= panels})


def _even(total: int, most: int) -> int:
    """The length of equal pieces of at most a length."""
    return -(-total // -(-total // max(1, min(most, total))))


# ----------------------------------------------------------------- direct reading


def is_asked_ahead(
    operand: Operand,
    source: Source,
    rows: int,
    depth: Depth,
    strides: Strides,
    bytes_of: int,
    target: Target,
) -> bool:
    """Whether tiles read so many rows in place from beyond the caches, and these are short: then
    the processor does not foresee where the next ones are, and there is room for them, too."""
    if source != "direct" or not is_far(operand, depth, bytes_of, target):
        return False
    near = 4 * rows * depth.most * bytes_of <= target.l1
    return near and step_of(operand, depth.indices, strides) == 1


def batch_of(operand: Operand, form: Form) -> tuple[Index, ...]:
    """The batch indices that an operand depends on."""
    used = set(free_indices(operand.value))
    return tuple(i for i in form.batch if i in used)
