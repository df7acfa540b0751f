"""Windows that reach beyond the ends of what they are over: over a copy that has a border.

Requires: kernels in their final form, and the strides of tensors that are not row-major. Ensures: a
sum of products over large windows, each over one map of its own, of which many reach beyond an end,
is done together with a copy of that map, zero outside: map by map, so that the copy stays in the
cache. If a dimension has few results, some at a time are summed without the terms that are outside
for all of them, and the copy has what these reach. Does not: touch sums in which an element has a
part for several indices besides (they have code of their own), maps whose rows are not contiguous,
those that are done side by side (`side_by_side`), or sizes that are not known.

Example: 7 by 7 neighbours in each of 384 channels of 14 by 14 elements: of 14 rows in a channel
eight are complete.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from functools import reduce

from ..ir import shapes
from ..ir.loops import Action, Group, Reduce
from ..ir.nodes import ZERO, Access, Binary, Const, Expr, Index, Select, Subscript, Tensor, integer
from ..ir.rewrite import rebuild
from ..records import replace
from .map_windows import Line, Part, Windows, map_to, windows_of
from .partial import only, points_of
from .rows import extent
from .side_by_side import may_be_side_by_side

_LEAST_MAPS = 16
"""Fewer are not worth two kernels that are called for each."""
_MOST_BYTES = 128 << 10
"""Of a map with its border: a core's own cache has room for it, and for results."""
_LEAST_TERMS = 16
"""Of windows: those of 3 by 3 take hardly longer than the copy."""
_LEAST_PART = 0.1
"""The part of the results whose windows reach beyond an end."""
_LEAST_ROWS, _MOST_ROWS, _MOST_PARTS = 3, 7, 8
"""Of results that are done together, by tiles of as many rows, and parts of a dimension."""
_LOADS = 2
"""Loads for a term of a tile, as rows that could be done meanwhile."""
_WORTH = 0.94
"""How much of what all terms take those that are inside may take."""


def copy_borders(
    actions: Sequence[Action], strides: Container[Tensor], constant: Container[Tensor]
) -> list[Action]:
    """The actions, with kernels over such windows as groups with a copy. Tensors that have
    `strides` are not row-major; what kernels read of `constant` ones is not copied in each call."""
    out: list[Action] = []
    for action in actions:
        found = list(windows_of(action)) if isinstance(action, Reduce) else []
        best = next((x for x in found if _is_worthwhile(x)), None)
        if best is None or best.tensor in constant or any(t in strides for t in best.tensors()):
            out.append(action)
        else:
            out.append(_with_copy(best))
    return out


def _is_worthwhile(found: Windows) -> bool:
    terms = points_of(found.kernel.reduced)
    if found.kernel.op != "add":
        return False
    if points_of(found.maps) < _LEAST_MAPS or terms < _LEAST_TERMS or may_be_side_by_side(found):
        return False
    size = math.prod(x.length for x in found.lines) * found.tensor.dtype.numpy().itemsize
    inside = math.prod(x.inside / extent(x.own) for x in found.lines)
    return size <= _MOST_BYTES and inside <= 1.0 - _LEAST_PART


def _with_copy(found: Windows) -> Group:
    """The kernel that copies a map, and those of the sums, map by map."""
    kernel, tensor = found.kernel, found.tensor
    parts = _best_parts(found.lines[0])
    lines = (_reached(found.lines[0], parts), *found.lines[1:])
    rows = tuple(Index(f"i_{n}", integer(x.length)) for n, x in enumerate(lines))
    places = [shapes.add(i, integer(x.first)) for i, x in zip(rows, lines, strict=True)]
    domain, own = (*found.maps, *rows), tuple(x.own for x in lines)
    copied = Tensor(f"{tensor.name}'", tensor.dtype, tuple(i.extent for i in domain))
    kept = found.access.subscripts[: -len(lines)]
    element: Expr = replace(found.access, subscripts=(*kept, *map(Subscript, places)))
    tests = [t for p, x in zip(places, lines, strict=True) for t in _tests(p, x)]
    if tests:
        inside = reduce(lambda a, b: Binary("and", a, b), tests)
        element = Select(inside, element, Const(0, tensor.dtype))
    moved = [shapes.sub(x.subscript.index, integer(x.first)) for x in lines]
    read = Access(copied, tuple(map(Subscript, (*found.maps, *moved))), found.access.span)
    values = tuple(rebuild(v, lambda x: read if x == found.access else x) for v in kernel.values)
    sums = replace(kernel, domain=(*found.maps, *own), values=values)
    copy = map_to(Access(copied, tuple(map(Subscript, domain))), domain, element, kernel)
    some = tuple(_some(sums, lines[0], part) for part in parts)
    return Group(kernel.name, found.maps, (copy, *some), (copied,), span=kernel.span)


def _cost(part: Part) -> int:
    return len(part.terms) * (len(part.results) + _LOADS)


def _best_parts(line: Line) -> list[Part]:
    """The results of a dimension in parts that together take little; all at once, in tiles, if that
    is hardly more."""
    count, terms = extent(line.own), range(extent(line.term))
    whole = sum(_cost(Part(r, terms)) for r in _pieces(count, _MOST_ROWS))
    found = [
        [Part(r, _inside(line, r)) for r in _pieces(count, most)]
        for most in range(_LEAST_ROWS, _MOST_ROWS + 1)
        if count <= most * _MOST_PARTS
    ]
    best = min(found, key=lambda parts: sum(map(_cost, parts)), default=[])
    if best and sum(map(_cost, best)) <= _WORTH * whole:
        return best
    return [Part(range(count), terms)]


def _pieces(count: int, most: int) -> Iterator[range]:
    for first in range(0, count, most):
        yield range(first, min(first + most, count))


def _inside(line: Line, results: range) -> range:
    """The terms, all those between the first and the last, that are inside for some results."""
    first, last = line.place(results[0], 0), line.place(results[-1], 0)
    apart = line.place(0, 1) - line.place(0, 0)
    terms = range(extent(line.term))
    found = [j for j in terms if last + apart * j >= 0 and first + apart * j < line.size]
    return range(found[0], found[-1] + 1) if found else range(1)


def _reached(line: Line, parts: Sequence[Part]) -> Line:
    """What all parts reach of a dimension."""
    ends = [
        line.place(i, j)
        for p in parts
        for i in (p.results[0], p.results[-1])
        for j in (p.terms[0], p.terms[-1])
    ]
    return replace(line, first=min(ends), last=max(ends))


def _some(sums: Reduce, line: Line, part: Part) -> Reduce:
    """The sums of one part."""
    if len(part.results) == extent(line.own) and len(part.terms) == extent(line.term):
        return sums
    return only(sums, {line.own: part.results, line.term: part.terms})[0]


def _tests(place: Expr, line: Line) -> Iterator[Expr]:
    """What holds where a line is inside."""
    if line.first < 0:
        yield Binary("ge", place, ZERO)
    if line.last >= line.size:
        yield Binary("lt", place, integer(line.size))
