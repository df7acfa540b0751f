"""Windows over maps, for several maps side by side.

Requires: a kernel in its final form that sums up windows, each over one map of its own, or finds
their extremes, of row-major tensors. Ensures: the maps are done in groups of as many as a vector
has lanes: they are turned round, with a border, so that the elements of all maps at one place lie
next to one another, and the results are turned back. All lanes are used then, however short a row
is and however far its windows are apart, and no element has to be collected. Does not: choose where
that is worthwhile.

Example: every second of 5 by 5 neighbours in each of 672 channels of 14 by 14 elements: a row of
seven results, each of which needs 25 vectors of every second element.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence

from ..ir import shapes
from ..ir.loops import Group, Reduce
from ..ir.nodes import Access, Const, Expr, Index, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, accesses, free_indices, rebuild, substitute
from ..records import dataclass, replace
from .map_windows import OUTSIDE, Windows, is_inside, map_to, over_elements
from .partial import points_of
from .rows import extent
from .terms import factors_of

Places = dict[Replaceable, Expr | Tensor]

LANES = 16
"""Of a vector, at most."""
_MOST_ELEMENTS = 1 << 12
"""Of a map: as many maps as a vector has lanes stay in a core's own cache."""
_LANES, _APART, _PARTIAL, _WHOLE, _TURNED = 8, 4.0, 2.5, 0.6, 6.0
"""What instructions are counted for: vectors of so many lanes; elements that are some apart, or of
rows that do not fill vectors, or of others, without those terms of which `borders` leaves out rows;
and a vector that is turned round."""
_LEAST_TERMS = 16
"""Of windows that are apart, or of short rows, from which on every target does them side by
side."""


def may_be_side_by_side(found: Windows) -> bool:
    """Whether every target does these windows side by side."""
    if points_of(found.kernel.reduced) < _LEAST_TERMS or found.tensor.dtype.numpy().itemsize < 4:
        return False
    each = _APART if found.is_strided else _PARTIAL
    if not found.is_strided and extent(found.lines[-1].own) >= LANES // 2:
        if over_elements(found) is found:
            return False
        each = _WHOLE
    fewer = by_lanes(found, _LANES, _TURNED) < by_rows(found, _LANES, each)
    return fewer and _are_small(found, LANES) and _is_of_maps(found)


def by_rows(found: Windows, lanes: int, each: float) -> float:
    """Instructions for a map, along rows, if a vector of elements, and what it is multiplied with,
    take so many each."""
    row = extent(found.lines[-1].own)
    rows = math.prod(extent(x.own) for x in found.lines) // row
    return rows * -(-row // lanes) * points_of(found.kernel.reduced) * each


def by_lanes(found: Windows, lanes: int, turned: float) -> float:
    """The same side by side, if it takes so many to turn a vector round; a little more, since it
    should be clearly fewer."""
    found = over_elements(found)
    results = math.prod(extent(x.own) for x in found.lines)
    elements = math.prod(x.count for x in _spans(found.access, found).values())
    terms = points_of(found.kernel.reduced)
    return 1.2 * ((results + elements) * turned + results * (terms + 1)) / lanes


def _are_small(found: Windows, lanes: int) -> bool:
    """Whether the maps divide into groups, each of which stays near."""
    found = over_elements(found)
    spans = [_spans(a, found).values() for a in _turned(found)]
    some = all(x.count > 0 for each in spans for x in each)
    elements = sum(math.prod(x.length for x in each) for each in spans)
    return some and extent(found.maps[-1]) % lanes == 0 and elements <= _MOST_ELEMENTS


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The kernels of maps that are done side by side, and those that turn constants round."""

    group: Group
    ahead: tuple[Reduce, ...] = ()


def side_by_side(found: Windows, lanes: int, constant: Container[Tensor] = ()) -> SideBySide | None:
    """The kernels that do `lanes` maps side by side, if they can be done so. Tensors that are
    `constant` are turned round ahead of all calls."""
    if not (_are_small(found, lanes) and _is_of_maps(found)):
        return None
    return _kernels(over_elements(found), lanes, constant)


def _is_of_maps(found: Windows) -> bool:
    """Whether nothing but the windows depends on where a result is in its map."""
    kernel, own = found.kernel, {x.own for x in found.lines}
    others = [f for f in factors_of(kernel.values[0]) if f != found.access]
    if not all(map(is_inside, accesses(*others))) or not found.tensor.dtype.is_real:
        return False  # where windows reach beyond an end, factors are read, too
    exprs = [*kernel.initial, *kernel.results, *others]
    target = kernel.targets[0]
    plain = [s.index for s in target.subscripts]
    return (
        len(kernel.targets) == 1
        and own.isdisjoint(free_indices(*exprs))
        and all(sum(i is p for p in plain) == 1 for i in kernel.domain)
        and all(_is_plain(a, found.maps[-1]) for a in accesses(*exprs))
    )


def _is_plain(access: Access, index: Index) -> bool:
    """Whether an access has an index as a subscript, or not at all."""
    used = [s for s in access.subscripts if index in free_indices(s.index)]
    return not used or (len(used) == 1 and used[0].index is index)


def _kernels(found: Windows, lanes: int, constant: Container[Tensor]) -> SideBySide:
    kernel, first = found.kernel, found.maps[-1]
    block = Index(first.name, integer(extent(first) // lanes), first.span)
    lane = Index("lane", integer(lanes), first.span)
    shared = (*found.maps[:-1], block)
    place: Places = {first: shapes.add(shapes.mul(block, integer(lanes)), lane)}
    copies, ahead = list[Reduce](), list[Reduce]()
    read: dict[Access, Access] = {}
    for access in _turned(found):
        once = access.tensor in constant
        used = {block, *free_indices(access)} if once else {*shared}
        outer = tuple(i for i in shared if i in used)
        kernels, read[access] = _copied(access, found, outer, lane, place)
        (ahead if once else copies).extend(kernels)
    own = tuple(x.own for x in found.lines)
    domain = (*shared, *own, lane)
    target = kernel.targets[0]
    sums = _local(target, domain)
    values = [rebuild(v, lambda x: read.get(x, x) if isinstance(x, Access) else x)
              for v in kernel.values]  # fmt: skip
    accumulator = kernel.accumulators[0]
    initial = substitute(kernel.initial[0], place)
    fresh = replace(accumulator, value=initial)
    summed = replace(
        kernel, targets=(sums,), domain=domain, initial=(initial,),
        values=tuple(substitute(v, place) for v in values), accumulators=(fresh,),
        results=tuple(substitute(r, {**place, accumulator: fresh}) for r in kernel.results),
    )  # fmt: skip
    element = substitute(target, place)
    assert isinstance(element, Access)
    back = map_to(element, (*shared, lane, *own), sums, kernel)
    local = (*dict.fromkeys(k.targets[0].tensor for k in copies), sums.tensor)
    group = Group(kernel.name, shared, (*copies, summed, back), local, span=kernel.span)
    return SideBySide(group, tuple(ahead))


def _copied(
    access: Access, found: Windows, shared: Sequence[Index], lane: Index, place: Places
) -> tuple[list[Reduce], Access]:
    """The kernels that turn maps round, with a border where windows reach beyond their ends,
    and what is read instead of an access."""
    like, spans = found.kernel, _spans(access, found)
    inner = {n: Index(f"i_{n}", integer(x.count)) for n, x in spans.items()}
    rows = [Index(f"i_{n}", integer(x.length)) for n, x in spans.items()]
    whole = _local(access, (*shared, *rows, lane))
    moved = [shapes.add(inner[n], integer(x.low - x.first)) for n, x in spans.items()]
    subscripts = tuple(map(Subscript, (*shared, *moved, lane)))
    source = [
        Subscript(shapes.add(inner[n], integer(spans[n].low))) if n in spans else s
        for n, s in enumerate(access.subscripts)
    ]
    element = substitute(replace(access, subscripts=tuple(source)), place)
    domain = (*shared, *inner.values(), lane)
    kernels = [map_to(replace(whole, subscripts=subscripts), domain, element, like)]
    for number, x in enumerate(spans.values()):
        for start, count in ((0, x.low - x.first), (x.low - x.first + x.count, x.above)):
            if count:
                beside = Index(rows[number].name, integer(count))
                indices = (*shared, *rows[:number], beside, *rows[number + 1 :], lane)
                places: list[Expr] = [*indices]
                places[len(shared) + number] = shapes.add(beside, integer(start))
                border = replace(whole, subscripts=tuple(map(Subscript, places)))
                around = Const(OUTSIDE[like.op], access.dtype)
                kernels.append(map_to(border, indices, around, like))
    at = (shapes.sub(access.subscripts[n].index, integer(x.first)) for n, x in spans.items())
    return kernels, replace(whole, subscripts=tuple(map(Subscript, (*shared, *at, lane))))


@dataclass(frozen=True, slots=True)
class _Span:
    """What terms reach of a dimension: `length` elements from `first` on, of which `count` are
    there, from `low` on."""

    first: int
    length: int
    low: int
    count: int

    @property
    def above(self) -> int:
        """How many are missing in the end."""
        return self.first + self.length - self.low - self.count


def _spans(access: Access, found: Windows) -> dict[int, _Span]:
    """The same of the dimensions of an access along which terms go."""
    spans = {}
    lines = iter(found.lines)
    for n in _inside(access, found):
        size = shapes.as_int(access.tensor.shape[n]) or 0
        first, last = 0, size - 1
        if access == found.access:
            line = next(lines)
            first, last = line.first, line.last
        low, high = max(first, 0), min(last, size - 1)
        spans[n] = _Span(first, last - first + 1, low, high - low + 1)
    return spans


def _local(access: Access, domain: tuple[Index, ...]) -> Access:
    """All of a tensor that takes the place of another."""
    name, dtype = f"{access.tensor.name}'", access.tensor.dtype
    tensor = Tensor(name, dtype, tuple(i.extent for i in domain))
    return Access(tensor, tuple(map(Subscript, domain)), access.span)


def _turned(found: Windows) -> Iterator[Access]:
    """The factors of which neighbouring maps have elements apart from one another."""
    for access in dict.fromkeys(accesses(*found.kernel.values)):
        if _inside(access, found) and found.maps[-1] in free_indices(access):
            yield access


def _inside(access: Access, found: Windows) -> list[int]:
    """The dimensions of an access in a map: those along which terms go."""
    terms = set(found.kernel.reduced)
    return [n for n, s in enumerate(access.subscripts) if terms & set(free_indices(s.index))]
