"""Guards of accesses: what they test, and in which lanes of an iteration they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dtypes import DType
from ...ir.nodes import Expr, Skip
from ...ir.rewrite import accesses
from .emit_access import NO_RANGES, SMALL, Linear, Ranges, bounds, has_effect, is_within, linear
from .emit_parts import Value
from .emit_types import splat, with_lanes
from .sizes import Size, sizes_of

if TYPE_CHECKING:
    from .emit import Point

Guard = tuple[Expr, Size, bool]
"""A subscript, the extent that it must be below, and whether computing it may touch or report
something."""


def guards_of(point: Point, exprs: tuple[Expr, ...]) -> list[Guard]:
    """What the guards in expressions test at a point, found once for all points of a function."""
    known = point.frame.guards
    key = (id(point.ranges), *map(id, exprs))
    if key not in known:
        held = point.ranges, exprs  # nothing else gets their identities
        known[key] = held, find_guards(exprs, point.ranges)
    return known[key][1]


def find_guards(exprs: tuple[Expr, ...], ranges: Ranges = NO_RANGES) -> list[Guard]:
    """What the guards in expressions test where they are not proved to hold, those that read
    tensors last."""
    guards = [
        (s.index, extent, has_effect(s.index, ranges))
        for access in accesses(*exprs)
        for s, extent in zip(access.subscripts, sizes_of(access.tensor.shape), strict=True)
        if isinstance(s.rule, Skip) and not is_within(s.index, extent, ranges)
    ]
    return sorted(guards, key=lambda guard: bool(accesses(guard[0])))


def lanes_in_range(point: Point, index: Expr, extent: Size) -> Value | None:
    """What `in_range` says of lanes that go on in equal steps, by numbers of 32 bits, of which
    a vector holds as many as of most elements; none if lanes go otherwise, or numbers may be
    larger."""
    form = linear(index)
    places = {i: point.places[i] for i in form.indices}
    step = sum(form.steps[i] for i, place in places.items() if place.vector)
    if point.lanes == 1 or step == 0 or form.others:
        return None
    numbers = [extent, form.constant, *form.indices.values(), *bounds(index, point.ranges)]
    if not all(isinstance(n, int) and abs(n) < SMALL for n in (step * point.lanes, *numbers)):
        return None
    offset = Linear(form.constant)
    terms: list[str] = []
    for i, factor in form.indices.items():
        offset.plus(Linear(places[i].offset), factor)
        base = places[i].base
        if base is not None:
            terms.append(base if factor == 1 else point.scaled(base, factor, 1))
    start = "0"
    for term in terms:
        start = term if start == "0" else point.b.pure(f"add nsw i64 {start}, {term}", start, term)
    if start.startswith("%"):
        start = point.b.pure(f"trunc i64 {start} to i32", start)
    full, start = with_lanes("i32", point.lanes), point.spread(start, "i32")
    assert isinstance(offset.constant, int)
    steps = ", ".join(f"i32 {offset.constant + lane * step}" for lane in range(point.lanes))
    lanes = point.b.pure(f"add {full} {start}, <{steps}>", start)
    limit = splat(str(extent), "i32", point.lanes)
    return Value(point.b.pure(f"icmp ult {full} {lanes}, {limit}", lanes), DType.BOOL, True)
