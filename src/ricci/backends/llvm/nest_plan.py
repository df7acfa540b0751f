"""How the loops of a `Reduce` are arranged: which index is the vector, what runs in parallel.

The plan is data: the emitter in `nest_reduce` follows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Apply, Expr, Index, integer
from ...ir.rewrite import free_indices, walk
from ...records import dataclass, replace
from .emit import Frame
from .emit_spread import spread_of
from .emit_types import width
from .nest_choice import choice_of, dtypes_of, is_stored_each_step, prefix_of
from .nest_cut import share
from .nest_rows import are_together
from .nest_uses import (
    Loop,
    Use,
    interior,
    is_dynamic,
    is_large,
    is_read_once,
    loops_of,
    only_adds,
    uses_of,
)
from .sizes import (
    Size,
    likely,
    minus,
    size_of,
    upper,
)
from .target import LINE, PAGE, Target

_FEW, _LEAN = 3, frozenset(("exp", "exp2", "tanh"))
"""Vectors at once where there are functions and few registers: no room for the values of more. Save
for functions that need two values at a time, with which even more is done at once."""
_MOST_LEAN, _LONG_ROW = 6, 48
"""Vectors at once, of rows of so many, where one `exp` is all that takes long: each waits for its
own steps, and a core that two programs share looks half as far ahead."""
_LONG = 1000
"""Instructions of unrolled tiles whose rows share vectors: 36 terms at once take 6 % less."""
_TILES_OF_ROW = 3
"""Tiles of more vectors in a row, at least, if it is more than one: those on borders and what is
left over take longer."""
_MOST_TERMS = 512
"""Terms of a tile that are written out for rows whose windows overlap."""
_MOST_ROWS, _LEAST_CELLS = 13, 8
"""Rows of the tiles of strips at most, and vectors at least, if there are so many."""
_KEPT_BYTES, _LEAST_KEPT = 16 << 10, 16
"""Accumulators kept in memory, which is the first cache, and the fewest vectors of them."""
_LEAST_TERMS, _TERMS = 16, 8
"""Terms for which they are kept, and how many at a time: the processor follows so many rows."""
_FAR = 1 << 20
"""Stands for a stride that is not known."""


@dataclass(slots=True)
class Plan:
    """The arrangement of a reduction.

    `outer` are the loops over the domain but the vector's; the `leading` ones, and `blocks` of the
    next one (the vector's after the last), make up the chunks. `fixed` are indices that another
    loop runs through.
    """

    outer: list[Loop]
    reduced: list[Loop]
    vector: Loop | None
    over_reduced: bool
    lanes: int
    fixed: list[Index]
    leading: int = 0
    blocks: int = 1
    chunks: int = 1
    rows: int = 1
    vectors: int = 1
    work: float = 0.0
    open: bool = False
    """Whether the numbers of blocks and chunks are computed when the kernel runs: `blocks` says
    only whether there are any, and `chunks` how many there are at most."""
    costs: tuple[float, float] = (0.0, 0.0)
    """Nanoseconds of a vector of results: of each of its terms, and of the rest."""
    unroll: int = 700
    """About how many instructions a tile may have with its inner loops written out."""
    wanted: int = 1
    """How many chunks there should be."""
    by_vectors: bool = False
    """Whether blocks are of the vector's loop, each with all rows: these are few tiles."""
    kept: int = 0
    """Vectors of results whose accumulators are in memory while all of them take `terms` terms at
    a time, so that long stretches of each row are read; 0 if those of a tile are in registers."""
    terms: int = 1
    strip: Loop | None = None
    """Of the `outer` loops the one over strips of the vector's loop, of `vectors` vectors each, if
    there is one: what is read is read again sooner if it is of few vectors."""

    @property
    def row(self) -> Size:
        """Elements of the vector's loop that follow each other, or one if there is none."""
        if self.vector is None:
            return 1
        return self.vector.extent if self.strip is None else self.vectors * self.lanes


def make_plan(kernel: Reduce, frame: Frame, target: Target) -> Plan:
    """Arrange a reduction whose domain is not empty."""
    uses = uses_of(kernel, frame)
    outer, reduced, fixed = loops_of(kernel, uses)
    lanes = lanes_of(kernel, uses, target)
    vector = _choose_vector(kernel, uses, (outer, reduced), lanes, frame)
    over_reduced = vector in reduced
    if vector is not None:
        (reduced if over_reduced else outer).remove(vector)
    if over_reduced and target.narrow and is_stored_each_step(kernel):
        lanes = max(lanes // 2, 1)  # what goes from lane to lane takes longer across halves
    plan = Plan(outer, reduced, vector, over_reduced, least_lanes(lanes, vector), fixed)
    _tile(kernel, plan, uses, target)
    _keep(kernel, plan, uses, target)
    _cut_in_strips(kernel, plan, uses, target)
    share(kernel, plan)
    return plan


def least_lanes(lanes: int, vector: Loop | None) -> int:
    """No more lanes than a loop has values, rounded up."""
    while lanes > 1 and (vector is None or lanes // 2 >= upper(vector.extent)):
        lanes //= 2
    return lanes


def lanes_of(kernel: Reduce, uses: Sequence[Use], target: Target) -> int:
    """Lanes of the widest element type that is computed with."""
    inner = [u for u in uses if u.inner] if kernel.values else uses
    widths = [width(u.access.tensor.dtype) for u in inner]
    widths += [width(d) for d in dtypes_of(kernel)] if kernel.values else []
    widest = max(widths, default=4)
    if widest == 8 and all(t.dtype.is_real and width(t.dtype) < 8 for t in kernel.targets):
        widest = 4  # 64-bit integers that only address: half as many lanes would cost more
    return max(target.vector_bytes // max(widest, 4), 1)


def _choose_vector(
    kernel: Reduce,
    uses: Sequence[Use],
    loops: tuple[list[Loop], list[Loop]],
    lanes: int,
    frame: Frame,
) -> Loop | None:
    """The loop along which vectors lie: the one for which memory is touched most cheaply."""
    outer, reduced = loops
    best, least = None, math.inf
    points = math.prod(likely(x.extent) for x in reduced)
    for loop in [*reversed(outer), *reversed(reduced)]:
        over = loop in reduced
        if over and not can_lie_along(kernel, loop.index):
            continue
        touched = [u for u in uses if u.inner or not over]
        times = (points if u.inner else 1.0 for u in touched)
        cost = sum(
            _touch(u, loop.index, lanes, uses, frame) * n
            for u, n in zip(touched, times, strict=True)
        )
        cost += 0.05 * points
        extent = likely(loop.extent)
        cost *= lanes * math.ceil(extent / lanes) / max(extent, 1)
        if over:
            cost += _cost_of_joining(kernel, uses, outer, loop, lanes)
        if cost < least * 0.999:
            best, least = loop, cost
    return best


def _cost_of_joining(
    kernel: Reduce, uses: Sequence[Use], outer: list[Loop], loop: Loop, lanes: int
) -> float:
    """The rough cost of the end of a row whose vectors lie along a loop of its terms."""
    outside = [u for u in uses if not u.inner]
    plan = Plan(outer, [], loop, True, least_lanes(lanes, loop), [])
    if outer and are_together(kernel, plan, uses, outer[-1]):
        return (3 * len(kernel.values) + len(outside) / lanes) * 0.5
    return (8 * len(kernel.values) + len(outside)) * 0.5


def can_lie_along(kernel: Reduce, index: Index) -> bool:
    """Whether vectors may lie along a reduced index."""
    if kernel.op != "update":
        return True
    found = choice_of(kernel) or prefix_of(kernel)
    return kernel.reduced[-1] is index and found is not None


def _touch(use: Use, index: Index, lanes: int, uses: Sequence[Use], frame: Frame) -> float:
    """The rough cost per element of an access when an index is the vector."""
    for expr, _ in use.form.others.values():
        if index in free_indices(expr):
            spread = spread_of(use.access, index, lanes, frame)
            return 1.5 if spread is None or use.target else (2 * spread.count + 1) / lanes
    factor = use.form.indices.get(index, 0)
    step = abs(factor) if isinstance(factor, int) else _FAR
    if use.target:
        same = [u for u in uses if u.target and u.access.tensor is use.access.tensor]
        beside = [u for u in same if u.form.indices.get(index) == factor]
        if 1 <= step <= len(beside):  # vectors of all of them are interleaved
            return 1 / lanes
        return 2.0 if step else 1.0
    if step <= 1:
        return (1 if step else 0.25) / lanes
    if step <= 4:
        return 1.5 * step / lanes
    is_own_line = step * width(use.access.tensor.dtype) >= LINE
    return 2.0 if is_own_line and is_large(use.access.tensor) else 1.2  # 1.5 where lines are shared


def _tile(kernel: Reduce, plan: Plan, uses: Sequence[Use], target: Target) -> None:
    """How many vectors and rows one turn of the inner loops does."""
    if plan.vector is None:
        return
    outputs = max(len(kernel.accumulators), 1)
    room = max(target.registers // 2 // outputs, 1)
    functions = [x.function for x in _nodes(kernel) if isinstance(x, Apply)]
    if target.registers < 32:
        room = room if _LEAN.issuperset(functions) else min(room, _FEW)
    if plan.over_reduced:
        plan.vectors = max(1, min(4, room, likely(plan.vector.extent) // plan.lanes))
        if plan.outer and are_together(kernel, plan, uses, plan.outer[-1]):
            plan.rows, plan.vectors = plan.lanes, 1
        return
    most = 8 if any(u.inner and is_torn(plan, u) for u in uses) else 4
    row = _vectors_of_row(kernel, plan.vector, plan.lanes)
    if target.registers < 32 and functions == ["exp"] and row >= _LONG_ROW:
        most = 4 if kernel.reduced or target.narrow else _MOST_LEAN
    vectors = max(1, min(most, room, row))
    if _is_heavy(kernel):
        vectors = min(vectors, 2)
    plan.vectors = vectors
    if kernel.reduced and plan.outer:
        # where no contraction takes the products, the tile matters most
        sharing = [_shares_vectors(plan, uses, x.index) for x in plan.outer]
        best = max(range(len(sharing)), key=lambda k: (sharing[k], k))
        plan.outer.append(plan.outer.pop(best))
        extent = _rows_inside(kernel, plan.outer[-1])
        shared, of_vectors = sharing[best]
        if shared and extent > 1:
            plan.vectors = min(vectors, 2)
            most = 2 if shared == 1 else 4
            if of_vectors:  # every row more saves reading them once
                most, plan.unroll = 16, _LONG
            plan.rows = _even_rows(extent, max(1, min(most, room // plan.vectors, extent)))
            if of_vectors and plan.rows > 3:
                plan.vectors = max(1, min(vectors, room // plan.rows))
            elif of_vectors and not _is_heavy(kernel):
                # few rows have few sums, which wait for one another; three rows of three vectors
                # need one register more than the half of 16 that sums have elsewhere
                wider = min(4, (room + room // 8) // plan.rows)
                if row <= wider or row >= _TILES_OF_ROW * wider:
                    plan.vectors = max(plan.vectors, min(wider, row))
            elif not of_vectors and len(written_out(kernel, plan)) < len(plan.reduced):
                # what rows share they read once if all terms of them are written out
                narrow = replace(plan, vectors=1)
                if len(written_out(kernel, narrow)) == len(plan.reduced):
                    plan.vectors = 1
                else:
                    _write_out_windows(kernel, plan, uses, room)


def _write_out_windows(kernel: Reduce, plan: Plan, uses: Sequence[Use], room: int) -> None:
    """Have more rows whose windows overlap, and write out the terms along which they do: a vector
    is read once for all rows that have it."""
    row = plan.outer[-1]
    found = [x for x in plan.reduced if any(_overlaps(u, row.index, x) for u in uses)]
    if not found or kernel.op == "update":
        return
    along, extent = found[-1], _rows_inside(kernel, row)
    assert isinstance(along.extent, int)
    most = min(room // plan.vectors, _MOST_TERMS // (along.extent * plan.vectors), extent)
    if most > 1:
        plan.reduced.remove(along)
        plan.reduced.append(along)
        plan.rows = _even_rows(extent, most)
        cells = plan.rows * plan.vectors
        plan.unroll = max(plan.unroll, _nodes_of_term(kernel) * cells * along.extent)


def _overlaps(use: Use, row: Index, term: Loop) -> bool:
    """Whether neighbouring rows have some of the same elements, at other terms."""
    if not use.inner or not isinstance(term.extent, int):
        return False
    step, apart = use.form.steps.get(row, 0), use.form.steps.get(term.index, 0)
    return _reaches_next(step, apart, term.extent) and step % apart == 0


def _reaches_next(step: int, apart: int, count: int) -> bool:
    """Whether a window of so many elements reaches into the next one, a step later."""
    return 0 < apart <= step < apart * count


def _rows_inside(kernel: Reduce, row: Loop) -> int:
    """The steps of a loop where no window is beyond an end: those where one is are done one by
    one."""
    low, high = interior(kernel, row.index, {})
    if row.extent != size_of(row.index.extent) or upper(minus(high, low)) <= 0:
        return likely(row.extent)
    return likely(minus(high, low))


def written_out(kernel: Reduce, plan: Plan) -> set[Index]:
    """The innermost reduced loops that are written out."""
    found: set[Index] = set()
    if plan.over_reduced:
        return found
    room = plan.unroll / (_nodes_of_term(kernel) * plan.rows * plan.vectors)
    for loop in reversed(plan.reduced):
        room /= max(loop.extent, 1) if isinstance(loop.extent, int) else math.inf
        if room < 1:
            break
        found.add(loop.index)
    return found


def _nodes_of_term(kernel: Reduce) -> int:
    return sum(1 for _ in walk(*kernel.values)) + 2


def _cut_in_strips(kernel: Reduce, plan: Plan, uses: Sequence[Use], target: Target) -> None:
    """Have windows over vectors of neighbours go down a strip of them, where the first cache does
    not hold what a window covers of all."""
    if plan.vector is None or plan.over_reduced or plan.kept or not plan.rows > 1:
        return
    read = [u for u in uses if _is_read_again(u, plan) and _varies(u, plan.vector.index)]
    windows = [max((_window(u, x, plan) for u in read), default=0) for x in plan.outer[:-1]]
    place = next((n for n, bytes in enumerate(windows) if bytes > target.l1 // 2), None)
    if place is None:
        return
    rows, vectors = _tile_of_strip(kernel, plan, uses, target)
    if can_strip(kernel, replace(plan, vectors=vectors)):
        plan.rows, plan.vectors = rows, vectors
        add_strip(plan, place)


def _tile_of_strip(
    kernel: Reduce, plan: Plan, uses: Sequence[Use], target: Target
) -> tuple[int, int]:
    """Rows and vectors: rather more rows, which share most of what they read, if that makes enough
    sums that need not wait for each other."""
    assert plan.vector is not None
    count, row = likely(plan.vector.extent) // plan.lanes, plan.outer[-1]
    tall = _shares_vectors(plan, uses, row.index)[1]
    room = max(target.registers // 2 // max(len(kernel.accumulators), 1), 1)
    extent = _rows_inside(kernel, row)
    best = plan.rows, 1
    for vectors in (n for n in range(1, plan.vectors + 1) if count % n == 0):
        rows = plan.rows
        if tall:
            most = range(1, max(1, min(_MOST_ROWS, room // vectors, extent)) + 1)
            rows = min(most, key=lambda n: (extent // n + extent % n, extent % n))
        best = rows, vectors
        if rows * vectors >= _LEAST_CELLS:
            break
    return best


def _window(use: Use, loop: Loop, plan: Plan) -> int:
    """Bytes from the first to the last row of a window that neighbours along a loop share rows of;
    0 if there is none."""
    steps, size = use.form.steps, width(use.access.tensor.dtype)
    step = steps.get(loop.index, 0)
    spans = [(steps.get(x.index, 0), x.extent) for x in plan.reduced if isinstance(x.extent, int)]
    return max((apart * n * size for apart, n in spans if _reaches_next(step, apart, n)), default=0)


def can_strip(kernel: Reduce, plan: Plan) -> bool:
    """Whether the vector's loop can be cut in strips of whole tiles."""
    vector = plan.vector
    if vector is None or plan.over_reduced or plan.kept or not isinstance(vector.extent, int):
        return False
    loops = [*plan.outer, *plan.reduced]
    if is_stored_each_step(kernel) or not all(isinstance(x.extent, int) for x in loops):
        return False
    if not plan.lanes * plan.vectors < vector.extent:
        return False
    whole = size_of(vector.index.extent)
    is_free = vector.extent != whole or interior(kernel, vector.index, {}) == (0, whole)
    return is_free and vector.extent % (plan.lanes * plan.vectors) == 0


def add_strip(plan: Plan, place: int) -> None:
    """Cut the vector's loop in strips, which are at a place among the outer loops."""
    assert plan.vector is not None and isinstance(plan.vector.extent, int)
    count = plan.vector.extent // (plan.lanes * plan.vectors)
    plan.strip = Loop(Index("strip", integer(count)), count)
    plan.outer.insert(place, plan.strip)


def is_torn(plan: Plan, use: Use) -> bool:
    """Whether vectors of what is read are contiguous, and the terms of a sum pages apart: there the
    processor does not look ahead."""
    if plan.vector is None or plan.over_reduced or use.form.indices.get(plan.vector.index) != 1:
        return False
    steps = [use.form.indices.get(x.index, 0) for x in plan.reduced]
    size = width(use.access.tensor.dtype)
    return any(isinstance(step, int) and abs(step) * size >= PAGE for step in steps)


def _keep(kernel: Reduce, plan: Plan, uses: Sequence[Use], target: Target) -> None:
    """Keep accumulators in memory where tiles would read a little of each of many rows that come
    from beyond the caches: rows that follow each other are read one by one, others several at a
    time."""
    if plan.rows > 1 or not can_keep(kernel, plan, uses):
        return
    assert plan.vector is not None and isinstance(plan.vector.extent, int)
    extent, along = plan.vector.extent, plan.vector.index
    count, terms = -(-extent // plan.lanes), math.prod(likely(x.extent) for x in plan.reduced)
    far = [
        u
        for u in uses
        if u.inner and u.form.indices.get(along) == 1
        if is_large(u.access.tensor) and is_read_once(u)
    ]
    if not far or terms < _LEAST_TERMS or count <= plan.vectors:
        return
    points = math.prod(likely(x.extent) for x in plan.outer)
    most = max(_LEAST_KEPT, _KEPT_BYTES // kept_bytes(kernel, plan.lanes))
    most = max(_LEAST_KEPT, min(most, count * points // (4 * target.cores)))
    pieces = -(-count // most)
    plan.kept, plan.vectors = -(-count // pieces), 1
    last = plan.reduced[-1].index
    follow = pieces == 1 and all(u.form.indices.get(last) == extent for u in far)
    # with short vectors, choices take as long as their terms come
    computes = kernel.op == "update" and not target.long
    many = computes or (target.follows_many and only_adds(kernel))
    plan.terms = 1 if follow and not many else _TERMS


def can_keep(kernel: Reduce, plan: Plan, uses: Sequence[Use]) -> bool:
    """Whether accumulators can be kept in memory."""
    if plan.vector is None or plan.over_reduced or not plan.reduced or not kernel.values:
        return False
    if is_stored_each_step(kernel) or not all(width(d) >= 4 for d in dtypes_of(kernel)):
        return False
    extent = plan.vector.extent
    if not isinstance(extent, int) or not all(isinstance(x.extent, int) for x in plan.reduced):
        return False
    again = {t.tensor for t in kernel.targets} & {u.access.tensor for u in uses if not u.target}
    whole = extent % plan.lanes == 0 or (not again and extent > plan.lanes)
    return whole and not any(is_dynamic(u.access) for u in uses)


def kept_bytes(kernel: Reduce, lanes: int) -> int:
    """The bytes of the accumulators of a vector of results."""
    return sum(width(d) * lanes for d in dtypes_of(kernel))


def _vectors_of_row(kernel: Reduce, vector: Loop, lanes: int) -> int:
    """The vectors of a row that need no mask; one without guards may end with part of one."""
    extent = likely(vector.extent)
    guarded = interior(kernel, vector.index, {}) != (0, size_of(vector.index.extent))
    return extent // lanes if guarded else -(-extent // lanes)


def _even_rows(extent: int, most: int) -> int:
    """How many rows at once, if those that are left are done one by one."""
    return min(range(1, most + 1), key=lambda n: (extent // n + extent % n, -n))


def _shared(plan: Plan, uses: Sequence[Use], row: Index) -> int:
    """2 if neighbouring rows read the same elements, 1 if their windows overlap, else 0."""
    inner = [u for u in uses if _is_read_again(u, plan)]
    if any(u.form.indices and not _varies(u, row) for u in inner):
        varies = any(_varies(u, row) for u in inner)
        return 2 if varies and len(inner) > 1 and plan.reduced else 0
    for use in inner:
        step = use.form.indices.get(row)
        if step and any(use.form.indices.get(x.index) == step for x in plan.reduced):
            return 1
    return 0


def _shares_vectors(plan: Plan, uses: Sequence[Use], row: Index) -> tuple[int, bool]:
    """How much neighbouring rows share, and whether that is vectors of elements."""
    shared = _shared(plan, uses, row)
    assert plan.vector is not None
    wide = [u for u in uses if _is_read_again(u, plan) and plan.vector.index in u.form.indices]
    return shared, not all(_varies(u, row) for u in wide)


def _is_read_again(use: Use, plan: Plan) -> bool:
    """Whether each term reads something else."""
    return use.inner and any(_varies(use, x.index) for x in plan.reduced)


def _varies(use: Use, index: Index) -> bool:
    """Whether what an access reads depends on an index."""
    others = (expr for expr, _ in use.form.others.values())
    return index in use.form.indices or index in free_indices(*others)


def _nodes(kernel: Reduce) -> list[Expr]:
    return list(walk(*kernel.initial, *kernel.values, *kernel.results))


def _is_heavy(kernel: Reduce) -> bool:
    """Whether a point takes so many instructions that more of them at once gain nothing."""
    nodes = _nodes(kernel)
    return len(nodes) > 24 or sum(isinstance(x, Apply) for x in nodes) > 1
