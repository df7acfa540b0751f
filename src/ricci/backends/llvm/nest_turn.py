"""Emits a map that writes neighbours along one index and reads neighbours along another, as a
transposition does: by square tiles, which are turned round in registers.

A tile reads, for each of some values of the index `along` which writes go, a vector along the
index `across`, or of each second element or so, and writes vectors along the former. Tiles follow
one another along `across` within a block of what is written, so that lines of the caches are read
and written once, in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from ...ir.loops import Reduce
from ...ir.nodes import Access, Index
from ...records import dataclass, replace
from .builder import Builder
from .chunks import MOST_CHUNKS, chunks_of
from .emit import Frame, Place
from .emit_access import Linear
from .emit_memory import as_value, prefetch
from .emit_types import memory_type, width, with_lanes
from .nest_plan import lanes_of
from .nest_share import divided, points_within
from .nest_stream import is_wanted, write_either_way
from .nest_uses import Loop, Use, flat_form, is_dynamic, is_far, loops_of, uses_of
from .target import LINE, PIECE, Target

RUN = 64
"""About how many elements next to one another a block writes."""
NEAR = 4
"""Elements this far apart are read by whole vectors without tiles."""
_MOST_STEP = 4
"""How far apart elements may be of a vector that a tile reads, which it picks out of others."""
SHORT_ROW = 512
"""Bytes of rows that are read, up to which long runs are written past the caches."""
_TOGETHER, _PAIR_AHEAD = 2, 4 * LINE
"""Lines that a longer row's tiles write next to one another where memory wants that
(`Target.pairs`), and how many bytes further along the rows they ask."""
_NEAR_AHEAD = 8 * LINE
"""The same for tiles whose results stay near."""
LEAST_PIECES = 8
ELEMENT_NS = 0.5


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The loops of a map by tiles of `lanes` values of `along` and `rows` of `across`.

    Work is divided into pieces: of the `outer` loops all values, of `near`, the loop next in what
    is written (or none), blocks of `near_block`, of `along` and `across` blocks of so many tiles.
    """

    turned: tuple[Access, ...]
    along: Loop
    across: Loop
    outer: tuple[Loop, ...]
    near: Loop | None
    fixed: tuple[Index, ...]
    lanes: int
    rows: int
    near_block: int
    along_block: int
    across_block: int
    order: tuple[Loop, ...]
    """The loops over pieces, from the outermost."""
    streams: bool = False
    """Whether each vector is a line that is written past the caches, if it lies as it should."""
    ahead: tuple[int, ...] = ()
    """How many bytes further what is turned is asked for, if at all."""
    cache: int = 2
    """The cache that it is brought to."""

    @property
    def pieces(self) -> int:
        counts = [known(x) for x in self.outer]
        if self.near is not None:
            counts.append(-(-known(self.near) // self.near_block))
        counts.append(-(-known(self.along) // (self.lanes * self.along_block)))
        counts.append(-(-known(self.across) // (self.rows * self.across_block)))
        return math.prod(counts)

    @property
    def work(self) -> float:
        """Nanoseconds."""
        loops = [*self.outer, self.along, self.across, *([self.near] if self.near else [])]
        return ELEMENT_NS * math.prod(known(x) for x in loops)


def known(loop: Loop) -> int:
    """The extent of a loop, which is a number."""
    assert isinstance(loop.extent, int)
    return loop.extent


def plan_turned(
    kernel: Reduce, frame: Frame, target: Target, near: bool = False
) -> TurnPlan | None:
    """A plan by tiles, if a kernel is a map that is worth it; if what it writes stays `near`, none
    that writes past the caches."""
    if kernel.reduced or kernel.values:
        return None
    uses = uses_of(kernel, frame)
    outer, _, fixed = loops_of(kernel, uses)
    written = {u.access.tensor for u in uses if u.target}
    if not all(isinstance(x.extent, int) for x in outer):
        return None
    if any(is_dynamic(u.access) or (u.access.tensor in written) > u.target for u in uses):
        return None
    lanes = lanes_of(kernel, uses, target)
    steps = {x.index: _step_of_targets(uses, x.index) for x in outer}
    along = next((x for x in outer if steps[x.index] == 1), None)
    if along is None or None in steps.values():
        return None
    others = [x for x in outer if x is not along]
    best = max(others, key=lambda x: len(_turned(uses, along, x)), default=None)
    turned = () if best is None else _turned(uses, along, best)
    if best is None or not turned:
        return None
    least = max(PIECE // min(width(a.tensor.dtype) for a in turned), 2)
    sides = [_side(known(x), lanes) for x in (along, best)]
    if min(sides) < least:
        return None
    others.remove(best)
    others.sort(key=lambda x: -abs(steps[x.index] or 0))
    # vectors shorter than a line, two or four of which are stored as one
    line = LINE // max(4, *(width(u.access.tensor.dtype) for u in uses if u.target))
    wide = (_side(known(along), max(lanes, line)), sides[1])
    plans = [_blocked(turned, along, best, [*others], fixed, *s) for s in (wide, sides)]
    if near:
        return _asking(plans[1], frame, target)
    streamed = _streamed(plans[0], uses, frame, target)
    return streamed if streamed.streams else plans[1]


def _asking(plan: TurnPlan, frame: Frame, target: Target) -> TurnPlan:
    """The plan, asking for what is farther along its rows where the processor computes in halves:
    it looks ahead at some rows, but tiles read as many as a vector has lanes."""
    tensors = [a.tensor for a in plan.turned]
    if not target.narrow or any(t in frame.local or not is_far(t, target) for t in tensors):
        return plan
    return replace(plan, ahead=(_NEAR_AHEAD,) * len(tensors), cache=1)


def _streamed(plan: TurnPlan, uses: Sequence[Use], frame: Frame, target: Target) -> TurnPlan:
    """The plan past the caches, if all results are large and vectors whole lines. No cache keeps
    what is written then, so tiles follow each other in the order of what is read, and write no
    runs, which go to as many pages as a tile has rows; but where only few are written, and for two
    lines, which some memory takes together.

    The processor looks ahead along rows. Where they are short, it is behind when the next tiles
    begin, so these are asked for, if the second cache has room for both.
    """
    if known(plan.along) % plan.lanes or plan.near is not None:
        return plan
    if not all(is_wanted(u, frame, target) and _is_lines(u, plan) for u in uses if u.target):
        return plan
    forms = {u.access: u.form for u in uses if u.access in plan.turned}
    first = forms[plan.turned[0]]
    order = sorted((plan.along, *plan.outer), key=lambda x: -abs(_step(first, x)))
    inside = [*order[order.index(plan.along) + 1 :], plan.across]
    row = math.prod(known(x) for x in inside) * width(plan.turned[0].tensor.dtype)
    row *= _step(first, plan.across)
    tiles = row * plan.lanes * len(plan.turned)
    extent, cache = known(plan.along) // plan.lanes, 2
    if row > SHORT_ROW and target.pairs:
        block, cache = min(extent, _TOGETHER), 1
        ahead = [_PAIR_AHEAD] * len(plan.turned)
    else:
        block = min(extent, max(1, target.l2 // 16 // tiles)) if row <= SHORT_ROW else 1
        steps = [_step(forms[a], plan.along) * width(a.tensor.dtype) for a in plan.turned]
        ahead = [block * plan.lanes * x for x in steps] if tiles <= target.l2 // 4 else []
    return replace(
        plan,
        streams=True,
        along_block=block,
        order=(*order, plan.across),
        ahead=tuple(ahead),
        cache=cache,
    )


def _step(form: Linear, loop: Loop) -> int:
    """How far apart what is read for neighbours of a loop is; 0 where that is not known."""
    step = form.indices.get(loop.index, 0)
    return step if isinstance(step, int) else 0


def _is_lines(use: Use, plan: TurnPlan) -> bool:
    """Whether vectors of a target are lines, but for where it begins."""
    size = width(use.access.tensor.dtype)
    steps = [n for i, n in use.form.indices.items() if i not in (plan.along.index, *plan.fixed)]
    steps.append(use.form.constant)
    return plan.lanes * size == LINE and all(
        isinstance(n, int) and n * size % LINE == 0 for n in steps
    )


def _side(extent: int, lanes: int) -> int:
    """The side of a tile: a power of two, and no more than there is."""
    while lanes > extent:
        lanes //= 2
    return lanes


def _step_of_targets(uses: Sequence[Use], index: Index) -> int | None:
    """How far apart all targets write neighbours along an index; None if that differs."""
    found = {u.form.indices.get(index, 0) for u in uses if u.target}
    step = found.pop() if len(found) == 1 else None
    return step if isinstance(step, int) else None


def _turned(uses: Sequence[Use], along: Loop, across: Loop) -> tuple[Access, ...]:
    """What is read near one another along the second index, and far apart along the first."""
    found = []
    for use in uses:
        far, step = use.form.indices.get(along.index, 0), _step(use.form, across)
        if not use.target and 1 <= step <= _MOST_STEP and not use.form.others:
            if isinstance(far, int) and abs(far) > NEAR * step:
                found.append(use.access)
    return tuple(dict.fromkeys(found))


def _blocked(
    turned: tuple[Access, ...],
    along: Loop,
    across: Loop,
    outer: list[Loop],
    fixed: Sequence[Index],
    lanes: int,
    rows: int,
) -> TurnPlan:
    """The plan with blocks that write runs of a good length, and enough pieces for the threads."""
    extent, near, near_block = known(along), None, 1
    if extent < RUN and outer:
        near = outer.pop()
        near_block = min(known(near), -(-RUN // extent))
    along_block = min(RUN // lanes, -(-extent // lanes))
    tiles = -(-known(across) // rows)
    order = (*outer, across, *(() if near is None else (near,)), along)
    plan = TurnPlan(
        turned, along, across, tuple(outer), near, tuple(fixed), lanes, rows, near_block,
        along_block, tiles, order,
    )  # fmt: skip
    return replace(
        plan,
        across_block=max(1, -(-tiles * plan.pieces // LEAST_PIECES))
        if plan.pieces < LEAST_PIECES
        else tiles,
    )


class TurnNest:
    """The body of one kernel."""

    def __init__(self, kernel: Reduce, plan: TurnPlan, frame: Frame) -> None:
        self.kernel = kernel
        self.plan = plan
        self.frame = frame
        self.b = frame.builder
        self.pieces = plan.pieces
        self.chunks = max(1, min(plan.pieces, chunks_of(plan.work), MOST_CHUNKS))

    def emit(self) -> None:
        """All chunks from `%begin` to `%end`."""
        first, last = (self._part(at) for at in ("%begin", "%end"))
        if not self.plan.streams:
            self._pieces(first, last, {})
            return
        targets = [t.tensor for t in self.kernel.targets]
        write_either_way(targets, self.frame, partial(self._pieces, first, last, {}))

    def emit_within(self, shared: Sequence[Index], number: str, block: int) -> None:
        """All of it at some points of further indices, `block` of the last, given by a number."""
        places, begin, end = points_within(self.b, shared, number, block)
        with self.b.loop(begin, end) as point:
            self._pieces("0", str(self.pieces), {**places, shared[-1]: Place(point.index)})

    def _pieces(self, first: str, last: str, given: Mapping[Index, Place]) -> None:
        plan = self.plan
        with self.b.loop(first, last) as loop:
            number, places = loop.index, {x: Place(None, 0) for x in plan.fixed}
            places |= given
            blocks = {
                plan.along.index: (plan.lanes, plan.along_block),
                plan.across.index: (plan.rows, plan.across_block),
            }
            if plan.near is not None:
                blocks[plan.near.index] = (1, plan.near_block)
            ranges = dict[Index, tuple[str, str]]()
            for x in reversed(plan.order):
                if x.index in blocks:
                    ranges[x.index], number = self._range(number, x, *blocks[x.index])
                else:
                    value, number = divided(self.b, number, known(x))
                    places[x.index] = Place(value)
            near = None if plan.near is None else ranges[plan.near.index]
            self._block(places, ranges[plan.along.index], near, ranges[plan.across.index])

    def _part(self, chunk: str) -> str:
        scaled = self.b.pure(f"mul nuw nsw i64 {chunk}, {self.pieces}", chunk)
        return self.b.pure(f"udiv i64 {scaled}, {self.chunks}", scaled)

    def _range(self, number: str, loop: Loop, side: int, block: int) -> tuple[tuple[str, str], str]:
        """The tiles of a loop in one block, from and to, and the number of the other blocks."""
        tiles = -(-known(loop) // side)
        value, number = divided(self.b, number, -(-tiles // block))
        begin = self.b.pure(f"mul nuw nsw i64 {value}, {block}", value)
        end = self.b.pure(f"add nuw nsw i64 {begin}, {block}", begin)
        return (begin, self._least(end, tiles)), number

    def _least(self, value: str, limit: int) -> str:
        return self.b.call("i64", "llvm.smin.i64", f"i64 {value}", f"i64 {limit}")

    def _block(
        self,
        places: dict[Index, Place],
        along: tuple[str, str],
        near: tuple[str, str] | None,
        across: tuple[str, str],
    ) -> None:
        plan = self.plan
        with self.b.loop(*across) as rows:
            row = self._start(rows.index, plan.across, plan.rows)
            if near is None or plan.near is None:
                self._run(places, row, along)
                return
            with self.b.loop(*near) as loop:
                self._run({**places, plan.near.index: Place(loop.index)}, row, along)

    def _run(self, places: dict[Index, Place], row: str, along: tuple[str, str]) -> None:
        with self.b.loop(*along) as tiles:
            start = self._start(tiles.index, self.plan.along, self.plan.lanes)
            self._tile(places, row, start)

    def _start(self, tile: str, loop: Loop, side: int) -> str:
        """Where a tile begins: the last one earlier, if it would not be whole."""
        at = self.b.pure(f"mul nuw nsw i64 {tile}, {side}", tile)
        return at if known(loop) % side == 0 else self._least(at, known(loop) - side)

    def _tile(self, places: dict[Index, Place], row: str, start: str) -> None:
        plan = self.plan
        ahead = plan.ahead or [0] * len(plan.turned)
        turned = {
            a: self._read(a, places, row, start, further)
            for a, further in zip(plan.turned, ahead, strict=True)
        }
        for k in range(plan.rows):
            here = {
                **places,
                plan.across.index: Place(row, k),
                plan.along.index: Place(start, 0, True),
            }
            point = self.frame.point(plan.lanes, here)
            for access, rows in turned.items():
                point.know(access, as_value(point, access.tensor, rows[k], True))
            values = [(t, point.value(x)) for t, x in zip(
                self.kernel.targets, self.kernel.results, strict=True
            )]  # fmt: skip
            for target, value in values:
                point.store(target, value)

    def _read(
        self, access: Access, places: dict[Index, Place], row: str, start: str, ahead: int
    ) -> list[str]:
        """A tile of a tensor, a vector along `along` for each value of `across`."""
        plan = self.plan
        lines = []
        for k in range(plan.lanes):
            here = {**places, plan.across.index: Place(row), plan.along.index: Place(start, k)}
            lines.append(self.frame.point(1, here).address(access).pointer)
            if ahead:
                prefetch(self.b, lines[-1], ahead, plan.cache)
        dtype, step = access.tensor.dtype, _step(flat_form(access, self.frame), plan.across)
        return read_turned(self.b, memory_type(dtype), width(dtype), lines, plan.rows, step)


def read_turned(
    b: Builder, type: str, size: int, lines: Sequence[str], rows: int, step: int = 1
) -> list[str]:
    """Vectors across `lines`: the first has their first elements, and so on for `rows` elements,
    which are a step apart.

    Pieces of lines that are some apart are read side by side, and all pieces of a vector turned
    round at once, by interleaving.
    """
    piece = PIECE // size
    out = []
    for start in range(0, rows, piece):
        parts = []
        for k in range(piece):
            pieces = [_load(b, type, size, lines[n], start, piece, step)
                      for n in range(k, len(lines), piece)]  # fmt: skip
            parts.append(_joined(b, type, pieces, piece))
        out += _interleaved(b, type, parts, len(lines), piece)
    return out


def _load(
    b: Builder, type: str, size: int, pointer: str, offset: int, count: int, step: int
) -> str:
    """Elements a step apart, picked out of vectors of as many, of which the last one ends with the
    last element: nothing is read beyond it."""
    starts: list[int] = []
    picks: list[list[int]] = []
    for place in range(0, count * step, step):
        if not starts or place >= starts[-1] + count:
            starts.append(min(place, (count - 1) * (step - 1)))
            picks.append([])
        picks[-1].append(place - starts[-1])
    found, known_of = "", 0
    for start, lanes in zip(starts, picks, strict=True):
        at = offset * step + start
        here = b.pure(f"getelementptr {type}, ptr {pointer}, i64 {at}", pointer) if at else pointer
        loaded = b.load(with_lanes(type, count), here, size, stable=True)
        kept = [*range(known_of), *(count + lane for lane in lanes)]
        known_of += len(lanes)
        kept += [0] * (count - len(kept))
        found = _shuffle(b, type, count, found or loaded, loaded, kept) if step > 1 else loaded
    return found


def _joined(b: Builder, type: str, parts: list[str], count: int) -> str:
    """Vectors one after the other as one."""
    while len(parts) > 1:
        picks = range(2 * count)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffle(b, type, count, x, y, picks) for x, y in pairs]
        count *= 2
    return parts[0]


def _interleaved(b: Builder, type: str, parts: list[str], lanes: int, piece: int) -> list[str]:
    """Square blocks side by side turned round: as many times as a piece has bits in its index, the
    elements of the first half of all vectors interleaved with those of the other half."""
    half = len(parts) // 2
    bases = range(0, lanes, piece)
    low = [p for x in bases for k in range(piece // 2) for p in (x + k, lanes + x + k)]
    high = [p + piece // 2 for p in low]
    for _ in range(piece.bit_length() - 1):
        pairs = zip(parts[:half], parts[half:], strict=True)
        parts = [_shuffle(b, type, lanes, x, y, p) for x, y in pairs for p in (low, high)]
    return parts


def _shuffle(b: Builder, type: str, lanes: int, x: str, y: str, picks: Sequence[int]) -> str:
    full, chosen = with_lanes(type, lanes), ", ".join(f"i32 {p}" for p in picks)
    text = f"shufflevector {full} {x}, {full} {y}, <{len(picks)} x i32> <{chosen}>"
    return b.pure(text, x, y)
