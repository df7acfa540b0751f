"""The parts of a window's results of which the same terms are inside, for `matrix_window`.

Windows of terms that are far apart reach beyond an end of what they are over for many results.
Where the map that they are over is arranged as it is, without a border, tiles begin and end with
the parts of each dimension, and do the terms that are inside for their part.
"""

from __future__ import annotations

from ...ir.nodes import Access, Index, Skip, Subscript
from ...passes.margins import Side, sides_of
from ...records import dataclass, replace
from .contraction_form import Form, Operand
from .emit_access import is_within, linear, shape_of
from .matrix import LANES
from .window_box import Staged, access_of
from .window_plan import WindowPlan


@dataclass(frozen=True, slots=True)
class Region:
    """Results of some lines and rows, the lines and rows of a tile, and the terms that are inside
    along the reduced indices of which some are outside."""

    lines: range
    rows: range
    tile: tuple[int, int]
    terms: dict[Index, range]


@dataclass(frozen=True, slots=True)
class Edge:
    """A dimension of a map without a border: its size, how far apart its elements are, and the
    place of a window's first term for the first result."""

    size: int
    step: int
    first: int


def inside_of(form: Form, operand: Operand) -> tuple[Side, ...]:
    """The dimensions of an operand whose windows reach beyond an end; none if there are others of
    which that is not known, or results of which all terms are outside."""
    access = access_of(operand)
    sides = {frozenset((s.own, s.term)): s for s in sides_of(form.kernel) if s.own is not None}
    found = []
    for s, extent in zip(access.subscripts, shape_of(access.tensor.shape), strict=True):
        if s.rule is None or is_within(s.index, extent):
            continue
        side = sides.get(frozenset(linear(s.index).steps))
        if side is None or not isinstance(s.rule, Skip) or not _is_inside(side, s, extent):
            return ()
        found.append(side)
    return tuple(found)


def _is_inside(side: Side, subscript: Subscript, extent: object) -> bool:
    """Whether each part has terms that are inside, and no others."""
    place, size = linear(subscript.index), extent
    own, term = side.own, side.term
    if own is None or not isinstance(size, int) or not isinstance(place.constant, int):
        return False
    ends = (
        place.constant + place.steps[own] * i + place.steps[term] * j
        for part in side.parts
        for i in (part.results[0], part.results[-1])
        for j in (part.terms[0], part.terms[-1])
    )
    return all(0 <= end < size for end in ends)


def whole_map(access: Access, steps: dict[Index, int]) -> Staged:
    """A map that is read where it is, at places that are inside."""
    plain = tuple(replace(s, rule=None) for s in access.subscripts)
    return Staged(replace(access, subscripts=plain), steps, 0, None, 0, 0)


def edges_of(w: WindowPlan) -> list[Edge]:
    """The dimensions of a map without a border along which windows reach beyond an end."""
    access, found = w.rows.access, []
    sides = {frozenset((s.own, s.term)): s.own for s in w.inside}
    for s, size in zip(access.subscripts, shape_of(access.tensor.shape), strict=True):
        place = linear(s.index)
        own = sides.get(frozenset(place.steps))
        if own is not None:
            assert isinstance(size, int) and isinstance(place.constant, int)
            found.append(Edge(size, w.rows.step(own) // place.steps[own], place.constant))
    return found


def regions_of(w: WindowPlan) -> list[Region]:
    """The parts of an item's results; one, if all terms of all are done."""
    regions = []
    for lines, outer in _parts(w, w.line):
        for rows, inner in _parts(w, w.row):
            tile = (w.lines, w.plan.rows)
            if w.inside:
                tile = tile_of(len(rows), len(lines))
            regions.append(Region(lines, rows, tile, outer | inner))
    return regions


def _parts(w: WindowPlan, index: Index | None) -> list[tuple[range, dict[Index, range]]]:
    side = next((s for s in w.inside if s.own is index), None)
    if side is None:
        return [(range(1 if index is None else w.length(index)), {})]
    return [(p.results, {side.term: p.terms}) for p in side.parts]


def tile_of(length: int, lines: int) -> tuple[int, int]:
    """The lines and rows of a tile: of equal parts of a line so long, or of two short lines."""
    if length > LANES:
        return 1, -(-length // -(-length // (2 * LANES)))
    return min(2, lines), length
