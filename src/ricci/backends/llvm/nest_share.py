"""How much work there is, where sizes are known only when the kernel runs, and how it is shared.

The arithmetic is that of `nest_plan` for known sizes; the kernel and `kernel.count`, which says how
many chunks there are, both do it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.nodes import Index
from ...records import dataclass
from . import counts
from .builder import Builder
from .chunks import CHUNK_NS, MOST_CHUNKS
from .counts import Count
from .emit import Frame, Place
from .emit_access import extent_of
from .nest_plan import Plan
from .nest_uses import Loop

_PARTS = 16
"""Costs are counted in parts of a nanosecond."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How many chunks there are, pieces of work in all, and blocks of the loop that is cut."""

    chunks: Count
    pieces: Count
    blocks: Count

    def first_piece(self, b: Builder, chunk: str) -> str:
        """The piece of work that a chunk begins with."""
        if self.chunks == self.pieces:
            return chunk
        scaled = b.pure(f"mul nuw nsw i64 {chunk}, {self.pieces}", chunk, str(self.pieces))
        parts = self.chunks if isinstance(self.chunks, int) else counts.most(b, self.chunks, 1)
        return b.pure(f"udiv i64 {scaled}, {parts}", scaled, str(parts))

    def ends(self, b: Builder, block: str, count: Count) -> tuple[str, str]:
        """Where a block begins and ends, in so many steps of the loop that is cut."""
        following = b.pure(f"add nuw nsw i64 {block}, 1", block)
        scaled = (
            b.pure(f"mul nuw nsw i64 {n}, {count}", n, str(count)) for n in (block, following)
        )
        low, high = (b.pure(f"udiv i64 {n}, {self.blocks}", n, str(self.blocks)) for n in scaled)
        return low, high


def shares_of(plan: Plan, frame: Frame) -> Shares:
    """The numbers of a plan, computed at the head of the function if they are not known."""
    b = frame.builder
    leading = _points(plan.outer[: plan.leading], frame)
    if not plan.open:
        pieces = counts.product(b, leading, plan.blocks)
        return Shares(plan.chunks, pieces, plan.blocks)
    points, work = _work(plan, frame)
    wanted = counts.quotient(b, work, int(CHUNK_NS * _PARTS))
    wanted = counts.most(b, counts.least(b, wanted, MOST_CHUNKS), 1)
    blocks: Count = 1
    if plan.blocks > 1:
        each = counts.quotient(b, wanted, counts.most(b, leading, 1))
        blocks = counts.most(b, counts.least(b, each, _units(plan, frame)), 1)
    pieces = counts.product(b, leading, blocks)
    some = counts.least(b, points, 1)
    return Shares(counts.product(b, counts.least(b, wanted, pieces), some), pieces, blocks)


def _points(loops: Sequence[Loop], frame: Frame) -> Count:
    total: Count = 1
    for loop in loops:
        total = counts.product(frame.builder, total, frame.count(loop.extent))
    return total


def _work(plan: Plan, frame: Frame) -> tuple[Count, Count]:
    """Elements of the result, in vectors, and the work that they are."""
    b = frame.builder
    points, terms = _points(plan.outer, frame), _points(plan.reduced, frame)
    if plan.vector is not None:
        steps = counts.rounded_up(b, frame.count(plan.vector.extent), plan.lanes)
        if plan.over_reduced:
            terms = counts.product(b, terms, steps)
        else:
            points = counts.product(b, points, steps)
    each, rest = (max(1, round(cost * _PARTS)) for cost in plan.costs)
    inner = counts.product(b, terms, each)
    inner = inner + rest if isinstance(inner, int) else b.pure(f"add i64 {inner}, {rest}", inner)
    return points, counts.product(b, points, inner)


def _units(plan: Plan, frame: Frame) -> Count:
    """How many blocks the loop that is cut can have."""
    if plan.leading < len(plan.outer):
        row = frame.count(plan.outer[plan.leading].extent)
        return counts.rounded_up(frame.builder, row, plan.rows)
    assert plan.vector is not None
    extent = frame.count(plan.vector.extent)
    return counts.rounded_up(frame.builder, extent, plan.lanes * plan.vectors)


def write_count(chunks: Count, frame: Frame) -> str:
    """The function `kernel.count`, on a frame made for it."""
    frame.builder.line(f"ret i64 {chunks}")
    return frame.builder.text()


def points_within(
    b: Builder, shared: Sequence[Index], number: str, block: int
) -> tuple[dict[Index, Place], str, Count]:
    """Where some points of indices are, `block` of the last, given by a number: the others' places,
    and from where to where the last goes."""
    extent, places = extent_of(shared[-1]), dict[Index, Place]()
    value, number = divided(b, number, -(-extent // block))
    begin = b.pure(f"mul nuw nsw i64 {value}, {block}", value)
    end = counts.least(b, b.pure(f"add nuw nsw i64 {begin}, {block}", begin), extent)
    for x in reversed(shared[:-1]):
        value, number = divided(b, number, extent_of(x))
        places[x] = Place(value)
    return places, begin, end


def divided(b: Builder, number: str, extent: Count) -> tuple[str, str]:
    """Remainder and quotient."""
    rest = b.pure(f"urem i64 {number}, {extent}", number, str(extent))
    return rest, b.pure(f"udiv i64 {number}, {extent}", number, str(extent))
