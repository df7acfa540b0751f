"""Sums of products whose operands overlap, by matrices in registers: see `matrix`, `window_plan`.

    result[row, column] = sum over c, k of  a[c, row + k] * v[c, k, column]

Of the box of `a` that an item needs, each element is arranged once: along one reduced index, the
*depth*, in the words of a matrix; all others make up a *pixel*, whose words are a row of it. So the
matrices that a tile reads for different k lie some pixels from one another. What are words anyway,
as many as fill matrices, is read where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ir.nodes import Index, Tensor
from ...records import dataclass, replace
from .contraction_form import Form, Operand, size
from .contraction_plan import MOST_CHUNKS, Plan, is_across, reduced_loops
from .contraction_space import coefficients, flat_form
from .contraction_storing import storing
from .emit_access import extent_of
from .kernels import Strides
from .matrix import LANES, MATRIX, MatrixProduct, matrices_of
from .matrix_choice import (
    AGAIN,
    ARRANGE,
    CALL,
    CLAIM,
    COPY,
    FROM_AFAR,
    LOAD,
    SLOWED,
    SUMS,
    TURN,
    matrices_for,
    may_multiply,
    room,
)
from .matrix_regions import edges_of, inside_of, regions_of, tile_of, whole_map
from .packing import Depth
from .schedule import MatrixWindow, Side
from .target import Target
from .window_box import Cut, Staged, access_of, equal_blocks, staged
from .window_cost import copying_of
from .window_plan import (
    WindowPlan,
    blocks_of,
    is_affine,
    is_prepared,
    last_of,
    outside_indices,
    overlaps,
    with_tile,
)

_SLOWED = 1.35
"""How many times as long as counted it takes, beside what panels by matrices take: rows and columns
both come from the second cache."""
_RUN = 4
"""Steps of a run, at least: the sums of each go to memory and back."""
_MANY_TILES = 8
"""Of rows: with so many it does not pay to copy columns."""
_MOST_BLOCKS = 16
"""Blocks of an index that are worth a try."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """The box of the rows of an item: so many pixels, and for each index how many it moves; and
    whether the elements along the depth are side by side, or so many apart."""

    count: int
    steps: dict[Index, int]
    along: bool
    apart: int
    first: int = 0
    """The pixel of the first term of the first result: before the first of all, if it is outside.
    """

    @property
    def part(self) -> int:
        """Bytes of a part of a step: a row for each pixel."""
        return matrices_of(self.count) * MATRIX


def plan_of(
    form: Form, s: MatrixWindow, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> WindowPlan | str:
    """The plan of a schedule, or why there is none."""
    broadcast, vector = form.sides(s.vector)
    if not may_multiply(form, target) or (form.words is not None and s.vector == "left"):
        return "no matrices of such elements are multiplied"
    indices = (*form.kernel.domain, *form.reduced)
    if max(s.row, s.depth) >= len(indices):
        return "an index is not there"
    row, depth = indices[s.row], indices[s.depth]
    lanes = [i for i in vector.indices if extent_of(i) > 1]
    if len(lanes) != 1 or not is_prepared(vector, lanes[0], form, constant):
        return "the columns are not constant, or have several indices"
    if not (is_affine(broadcast) and overlaps(broadcast, form) and row in broadcast.indices):
        return "rows do not overlap along the index"
    if depth not in reduced_loops(form) or not _is_alone(depth, broadcast):
        return "the depth shares a subscript with another index"
    if s.inside and not inside_of(form, broadcast):
        return "no terms are known to be outside"
    return _plan(form, s, (broadcast, vector), (row, lanes[0], depth), strides, target)


def _plan(
    form: Form,
    s: MatrixWindow,
    sides: tuple[Operand, Operand],
    tiled: tuple[Index, Index, Index],
    strides: Strides,
    target: Target,
) -> WindowPlan | str:
    (broadcast, vector), (row, lane, depth) = sides, tiled
    fixed = tuple(i for i in outside_indices(broadcast, form) if i is not row)
    broadcast = replace(broadcast, indices=last_of(broadcast.indices, row))
    inner = [i for i in broadcast.indices if i not in fixed]
    others = sorted(
        (k for k in reduced_loops(form) if k is not depth),
        key=lambda k: -abs(flat_form(access_of(broadcast), strides).steps.get(k, 0)),
    )
    loops = (*others, depth)
    first = next(i for i in broadcast.indices if i not in fixed)
    vectors = min(2, matrices_of(extent_of(lane)))
    down, right = blocks_of(first, s.row_block, 1), blocks_of(lane, s.lane_block, vectors * LANES)
    deep = blocks_of(depth, s.depth_block, 1)
    for blocks in (down, right, deep):
        if isinstance(blocks, str):
            return blocks
    assert not (isinstance(down, str) or isinstance(right, str) or isinstance(deep, str))
    cut = deep[0] if deep else equal_blocks(depth, 1)
    lines, rows = tile_of(_length(row, down), _length(inner[-2], down) if len(inner) > 1 else 1)
    inside = inside_of(form, broadcast) if s.inside else ()
    if inside:
        if down or not {side.own for side in inside} <= {row, *inner[-2:-1]}:
            return "terms that are outside are not those of all lines and rows"
        read = access_of(broadcast)
        box = whole_map(read, flat_form(read, strides).steps)
    else:
        box = staged(form, broadcast, None, LANES, fixed, (cut, *down), strides)
    plan = Plan(
        form, broadcast, vector, "packed", "prepared", Depth(loops, 0, extent_of(loops[0])), LANES,
        rows, vectors, rows, vectors * LANES,
        is_across(form, vector, LANES, strides),
    )  # fmt: skip
    w = WindowPlan(
        plan, row, lane, lane, fixed, loops, cut, None, box, Staged(box.access, {}, 0, None, 0, 0),
        flat_form(form.kernel.targets[0], strides).steps, target.registers, True,
        inner[-2] if len(inner) > 1 else None, lines, (*down, *right), bool(s.lanes_first),
        matrices=matrices_for(form, broadcast, vector), inside=inside,
    )  # fmt: skip
    if inside:
        tiles = [region.tile for region in regions_of(w)]
        w = with_tile(w, max(n for n, _ in tiles), max(n for _, n in tiles), vectors)
    if pixels_of(w) is None:
        return "elements along the depth do not lie so that they can be arranged"
    slow = _slow(w)
    fast = w.items // slow
    whole = fast if slow >= target.cores else -(-w.items // target.cores)
    return replace(w, plan=replace(w.plan, grain=max(whole, -(-w.items // MOST_CHUNKS))))


def _slow(w: WindowPlan) -> int:
    """How many values the slower of the sides has whose blocks are those of items."""
    lanes = -(-extent_of(w.lane) // w.length(w.lane))
    return lanes if w.lanes_first else w.items // lanes


def _length(index: Index, blocks: tuple[Cut, ...]) -> int:
    return next((b.length for b in blocks if b.index is index), extent_of(index))


def heights(lines: int, rows: int) -> tuple[int, ...]:
    """The rows of the matrices of a tile, one above the other."""
    if lines > 1:
        return (rows,) * lines
    first = -(-rows // matrices_of(rows))
    return (first, rows - first) if rows > first else (first,)


def _is_alone(index: Index, operand: Operand) -> bool:
    """Whether an index alone subscripts a dimension of an operand."""
    found = [factors for factors in coefficients(access_of(operand)) if index in factors]
    return len(found) == 1 and len(found[0]) == 1


def pixels_of(w: WindowPlan) -> Pixels | None:
    """The pixels of an item's box; None if elements do not lie so."""
    depth, length = w.cut.index, w.length
    others = [i for i in (*w.plan.broadcast.indices, *w.loops[:-1]) if i not in w.fixed]
    apart = w.rows.step(depth)
    steps = {i: w.rows.step(i) for i in others if extent_of(i) > 1}
    if min(steps.values(), default=0) < 0 or apart < 1:
        return None
    edges = edges_of(w)
    along = {i: n for i, n in steps.items() if not any(i in (s.own, s.term) for s in w.inside)}
    unit = 1
    if apart == 1:
        unit = min((n for n in (*along.values(), *(e.step for e in edges)) if n), default=1)
        if any(n % unit for n in (*steps.values(), *(e.step for e in edges))):
            return None
        if unit < w.cut.length:
            return None
    moved = {i: n // unit for i, n in steps.items()}
    count = 1 + sum(moved[i] * (length(i) - 1) for i in along)
    count += sum(e.step // unit * (e.size - 1) for e in edges)
    first = sum(e.step // unit * e.first for e in edges)
    if apart > 1 and apart < count:
        return None
    return Pixels(count, moved, apart == 1, unit if apart == 1 else apart, first)


# ------------------------------------------------------------------------ choice


def choose_matrix_window(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor], most: float
) -> tuple[float, MatrixWindow] | None:
    """The schedule that is done soonest, and when, if before `most` cycles."""
    found = [
        (cycles, number, s)
        for number, (s, w) in enumerate(_ways(form, strides, target, constant))
        if (cycles := done_in(w, strides, target)) < most
    ]
    best = min(found, default=None)
    return None if best is None else (best[0], best[2])


def _ways(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Iterator[tuple[MatrixWindow, WindowPlan]]:
    numbers = {i: n for n, i in enumerate((*form.kernel.domain, *form.reduced))}
    sides: list[tuple[Side, Operand, Operand]] = [
        ("left", form.right, form.left),
        ("right", form.left, form.right),
    ]
    steps = flat_form(form.kernel.targets[0], strides).steps
    held = room(form, target)
    for side, broadcast, vector in sides[form.words is not None :]:
        lanes = [i for i in vector.indices if extent_of(i) > 1]
        if len(lanes) != 1 or not (is_affine(broadcast) and overlaps(broadcast, form)):
            continue
        depths = [k for k in reduced_loops(form) if _is_alone(k, broadcast)]
        alone = outside_indices(broadcast, form)
        inside = [i for i in broadcast.indices if extent_of(i) > 1 and i not in alone]
        if not depths or not inside:
            continue
        depth = max(depths, key=extent_of)
        row = min(inside, key=lambda i: steps.get(i, 0))
        first = next(i for i in last_of(broadcast.indices, row) if i not in alone)
        unit = min(2, matrices_of(extent_of(lanes[0]))) * LANES
        of_step = matrices_for(form, broadcast, vector).depth
        ways = [(down, 0) for down in _divisors(extent_of(first), 1)]
        if inside_of(form, broadcast):
            ways.append((extent_of(first), 1))
        for down, within in ways:
            for right in _divisors(extent_of(lanes[0]), unit):
                for deep in _divisors(extent_of(depth), of_step):
                    for lanes_first in (False, True):
                        s = MatrixWindow(
                            side, numbers[row], numbers[depth], down, right, deep,
                            int(lanes_first), within,
                        )  # fmt: skip
                        w = plan_of(form, s, strides, target, constant)
                        if not isinstance(w, str) and bytes_of(w) <= held:
                            yield s, w


def _divisors(extent: int, unit: int) -> list[int]:
    """The lengths of a few equal blocks, in units; all of it is one."""
    counts = (n for n in range(2, _MOST_BLOCKS + 1) if extent % n == 0)
    return [extent, *(extent // n for n in counts if extent // n % unit == 0)]


def arranged_bytes(w: WindowPlan) -> tuple[int, int]:
    """Bytes of the rows and the columns of an item as matrices, of a block of the depth."""
    m, pixels = _product(w), pixels_of(w)
    assert pixels is not None
    steps = -(-w.cut.length // m.depth)
    rows = 0 if are_rows_ready(w) else pixels.part * m.rows * steps
    return rows, 0 if are_columns_ready(w) else _bytes_of_columns(w)


def _bytes_of_columns(w: WindowPlan) -> int:
    """Bytes of the columns of an item as matrices, of a block of the depth."""
    m = _product(w)
    steps = -(-w.cut.length // m.depth)
    return matrices_of(w.length(w.lane)) * m.columns * size(w.loops[:-1]) * steps * MATRIX


def are_rows_ready(w: WindowPlan) -> bool:
    """Whether tiles read the words of pixels in the box, where they lie side by side."""
    pixels = pixels_of(w)
    assert pixels is not None
    return pixels.along and _are_whole(w)


def are_columns_ready(w: WindowPlan) -> bool:
    """Whether tiles read the words of columns where they are prepared; for few tiles they are
    copied, since matrices come from afar more slowly than what is copied does."""
    tiles = sum(len(r.rows) * len(r.lines) for r in regions_of(w)) // (w.lines * w.plan.rows)
    return _are_whole(w) and tiles >= _MANY_TILES


def _are_whole(w: WindowPlan) -> bool:
    """Whether elements are words of whole steps."""
    m = _product(w)
    return not m.in_parts and w.cut.length % m.depth == 0


def sums_of(w: WindowPlan) -> int:
    """The sums that an item keeps."""
    if w.blocks == 1:
        return w.lines * w.plan.rows * w.plan.panel
    own = (i for i in w.plan.broadcast.indices if i not in w.fixed)
    rows = 1
    for index in own:
        rows *= w.length(index)
    return rows * -(-w.length(w.lane) // w.plan.panel) * w.plan.panel


def runs_of(w: WindowPlan, steps: int) -> int:
    """How many of the loops around so many steps are around a run of them."""
    outside = len(w.loops) - 1
    while outside and steps < _RUN:
        outside -= 1
        steps *= extent_of(w.loops[outside])
    return outside


def bytes_of(w: WindowPlan) -> int:
    """Bytes of all that an item needs in the caches of a core."""
    arranged = arranged_bytes(w)[0] + _bytes_of_columns(w)
    return arranged + 4 * (w.rows.elements + sums_of(w))


def _product(w: WindowPlan) -> MatrixProduct:
    assert w.matrices is not None
    return w.matrices


def done_in(w: WindowPlan, strides: Strides, target: Target) -> float:
    """Cycles until all cores have done all chunks."""
    m, pixels = _product(w), pixels_of(w)
    assert pixels is not None
    slow, grain = _slow(w), w.plan.grain
    fast = w.items // slow
    # how often a chunk arranges each side
    often = [-(-grain // fast), grain if fast > 1 else 1]
    if w.blocks > 1:
        often = [grain * w.blocks] * 2
    columns, rows = often if w.lanes_first else often[::-1]
    arrange, turn = (ARRANGE, TURN) if m.in_parts else (COPY, 2 * COPY)
    each = 0.0
    if not are_rows_ready(w):
        each = (arrange if pixels.along else turn) * w.cut.length * pixels.count
    each += copying_of(w.rows, strides) + FROM_AFAR * w.cut.length * pixels.count
    cycles = rows * each
    terms = size(w.loops[:-1]) * w.cut.length
    copying = FROM_AFAR + (0.0 if are_columns_ready(w) else arrange)
    cycles += columns * copying * terms * w.length(w.lane)
    cycles += grain * _tiles(w, m, strides)
    chunks, cores = -(-w.items // grain), target.cores
    even = max(w.items / grain / cores, -(-chunks // cores) * (chunks < 8 * cores))
    return _SLOWED * cycles * (even + 0.07) + min(CLAIM, cycles / 10) * chunks / cores


def _tiles(w: WindowPlan, m: MatrixProduct, strides: Strides) -> float:
    """Cycles of the tiles of an item."""
    plan, blocks = w.plan, w.blocks
    own = [i for i in plan.broadcast.indices if i not in (*w.fixed, w.row, w.line)]
    others, lanes = 1, w.length(w.lane)
    for index in own:
        others *= w.length(index)
    of_cut = -(-w.cut.length // m.depth)
    a_loads, b_loads = m.loads
    wide = matrices_of(min(lanes, plan.panel))
    cycles, rows_in_all = 0.0, 0
    for region in regions_of(w):
        extents = [len(region.terms.get(i, range(extent_of(i)))) for i in w.loops[:-1]]
        lines, length = region.tile
        whole, rest = divmod(len(region.rows), length)
        down = len(region.lines) / lines
        rows_in_all += len(region.rows) * len(region.lines)
        for times, rows in ((whole, length), (1, rest)):
            if times and rows:
                high = heights(lines, rows)
                # a product of few rows waits for its columns
                products = SLOWED * len(m.products) * wide * sum(max(h, 8) for h in high)
                loads = LOAD * (a_loads * len(high) + b_loads * wide)
                steps = blocks * math.prod(extents) * of_cut
                runs = blocks * math.prod(extents[: runs_of(w, of_cut)])
                tile = (
                    max(products, 1.1 * loads) * steps
                    + blocks * CALL
                    + runs * (SUMS + AGAIN) * len(high) * wide
                )
                cycles += down * times * tile
    tiles = others * (lanes / min(lanes, plan.panel))
    each = storing(replace(plan, ragged=True), strides) / 2
    return cycles * tiles + each * others * rows_in_all * lanes
