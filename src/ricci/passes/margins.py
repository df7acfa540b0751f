"""Sums of products over windows that reach far beyond an end: a kernel for each part of results.

Requires: kernels, fused. Ensures: where many terms of a sum of products are left out, since a
subscript of them is out of range, results of which the same terms are left out have a kernel of
their own, without these; it makes a tensor that is copied to its place. Does not: touch sums of
which little is left out, those whose code leaves it out by itself, or sizes that are not known.

Example: windows of three by three, 18 apart, over 33 by 33 elements have five parts along each
dimension, with one or two terms along it: 40 percent of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import ONE, ZERO, Access, Expr, Index, Skip, Subscript, Tensor
from ..ir.rewrite import accesses, free_indices
from ..records import dataclass, replace
from .map_windows import Part, map_to
from .partial import only, points_of
from .rows import extent, is_known
from .siblings import has_reuse

_WORTH = 0.9
"""How much of what a kernel takes all parts may take."""
_START = 1 << 19
"""Terms that could be done while a kernel begins and ends."""
_READ = 8
"""The same while an element is read that all results have in common."""
_RUN, _ROWS = 6, 32
"""Results side by side in memory that take as long as fewer do, and those of neighbouring rows."""
_MOST_PARTS, _MOST_TERMS = 5, 64
"""Of a dimension."""


def split_margins(
    kernels: Sequence[Kernel], keeps: Callable[[Reduce], bool] | None = None
) -> list[Kernel]:
    """The kernels, in order, with such sums in parts, but for those that `keeps` says are best left
    whole."""
    out: list[Kernel] = []
    for kernel in kernels:
        parts = _parts(kernel) if isinstance(kernel, Reduce) else []
        if isinstance(kernel, Reduce) and parts and keeps is not None and keeps(kernel):
            parts = []
        out += parts or [kernel]
    return out


@dataclass(frozen=True, slots=True)
class Side:
    """A dimension of windows, and its parts in order."""

    own: Index | None
    """`None` if there is one result alone."""
    term: Index
    parts: tuple[Part, ...]

    @property
    def points(self) -> int:
        """The results times terms of all parts."""
        return self.points_by(1)

    def points_by(self, least: int) -> int:
        """The same if a part takes as long as one of so many results, at least."""
        return sum(max(len(p.results), least) * len(p.terms) for p in self.parts)

    @property
    def all_points(self) -> int:
        """The same without parts."""
        return extent(self.term) * sum(len(p.results) for p in self.parts)


def least_cost(kernel: Reduce) -> float:
    """What a sum of products takes, in parts if that is less, counted in terms."""
    return _best(kernel)[0]


def _parts(kernel: Reduce) -> list[Kernel]:
    """The kernels instead of one, none if it is left alone."""
    chosen = _best(kernel)[1] if is_sum(kernel) else []
    return list(_split(kernel, chosen)) if chosen else []


def _best(kernel: Reduce) -> tuple[float, list[Side]]:
    """What a kernel takes, and the dimensions that are taken apart for it."""
    sides = list(sides_of(kernel))
    own = {s.own for s in sides}
    whole = _cost(kernel, (), own) - _START
    least, chosen = _WORTH * whole, list[Side]()
    for count in range(1, len(sides) + 1):
        for some in itertools.combinations(sides, count):
            cost = _cost(kernel, some, own)
            if cost < least:
                least, chosen = cost, list(some)
    return (least if chosen else whole), chosen


def _cost(kernel: Reduce, sides: Sequence[Side], own: Container[Index | None]) -> float:
    """What all parts take, counted in terms; `own` are the indices of places of windows."""
    points = points_of((*kernel.domain, *kernel.reduced))
    left = math.prod(s.points_by(_least(s, kernel)) / s.all_points for s in sides)
    parts = math.prod(len(s.parts) for s in sides)
    return points * left + _START * parts + _READ * _common(kernel, sides, own)


def _least(side: Side, kernel: Reduce) -> int:
    """The least results along a side that a part takes as long as, however few it has."""
    read = (set(free_indices(a)) for a in accesses(*kernel.values))
    over = {i for used in read if side.own in used for i in used}
    inner = 1
    for subscript in reversed(kernel.targets[0].subscripts):
        if subscript.index is side.own:
            return -(-(_RUN if inner == 1 else _ROWS) // inner)
        if isinstance(subscript.index, Index) and subscript.index in over:
            inner *= extent(subscript.index)
    return 1


def _common(kernel: Reduce, sides: Sequence[Side], own: Container[Index | None]) -> int:
    """How many elements all parts read that depend on no place of a window."""
    terms = {s.term: sum(len(p.terms) for p in s.parts) for s in sides}
    found = [set(free_indices(a)) for a in accesses(*kernel.values)]
    counts = (
        math.prod(terms.get(i, extent(i)) for i in used)
        for used in found
        if not any(i in own for i in used)
    )
    return max(counts, default=0)


def is_sum(kernel: Reduce) -> bool:
    """Whether a kernel is a sum of products with a target of plain indices."""
    if kernel.op != "add" or kernel.condition is not None or kernel.locals:
        return False
    if not kernel.reduced or len(kernel.targets) != 1 or len(kernel.values) != 1:
        return False
    target = kernel.targets[0]
    read = accesses(*kernel.initial, *kernel.values, *kernel.results)
    if not is_known(kernel) or any(a.tensor is target.tensor for a in read):
        return False
    places = zip(target.subscripts, target.tensor.shape, strict=True)
    own = [i.index for i, extent in places if isinstance(i.index, Index) or extent != ONE]
    return sorted(map(id, own)) == sorted(map(id, kernel.domain)) and has_reuse(kernel)


def sides_of(kernel: Reduce) -> Iterator[Side]:
    """The dimensions of windows whose results can be taken apart."""
    found: set[Index | None] = set()
    for access in accesses(*kernel.values):
        for subscript, size in zip(access.subscripts, access.tensor.shape, strict=True):
            side = _side(kernel, subscript, shapes.as_int(size) or 0)
            if side is not None and found.isdisjoint((side.own, side.term)):
                found |= {side.term} if side.own is None else {side.own, side.term}
                yield side


def _side(kernel: Reduce, subscript: Subscript, size: int) -> Side | None:
    form = shapes.affine(subscript.index)
    if not isinstance(subscript.rule, Skip) or form is None:
        return None
    own = next((i for i in kernel.domain if i in form[0]), None)
    term = next((i for i in kernel.reduced if i in form[0]), None)
    if term is None or not form[0].keys() <= {own, term}:
        return None
    count, terms = 1 if own is None else extent(own), extent(term)
    if terms > _MOST_TERMS:
        return None
    step, apart = (0 if own is None else form[0][own]), form[0][term]
    inside = [_places(step, apart * j + form[1], size, count) for j in range(terms)]
    cuts = sorted({0, count, *(end for places in inside for end in (places.start, places.stop))})
    if len(cuts) > _MOST_PARTS + 1:
        return None
    parts = []
    for begin, end in itertools.pairwise(cuts):
        # one is out of range, as that is found to be, if there is none
        some = [j for j, places in enumerate(inside) if begin in places] or [0]
        parts.append(Part(range(begin, end), range(some[0], some[-1] + 1)))
    side = Side(own, term, tuple(parts))
    return side if side.points < side.all_points else None


def _places(step: int, first: int, size: int, count: int) -> range:
    """Those of so many places of which `first`, and `step` for each, is from 0 to `size - 1`."""
    if step == 0:
        return range(count if 0 <= first < size else 0)
    if step < 0:  # seen from the other end
        step, first = -step, size - 1 - first
    low, high = max(-(first // step), 0), min((size - 1 - first) // step, count - 1)
    return range(low, high + 1) if low <= high else range(0)


def _split(kernel: Reduce, sides: Sequence[Side]) -> Iterator[Kernel]:
    """The kernels of the parts, each with the copy behind it."""
    target = kernel.targets[0]
    for parts in itertools.product(*(s.parts for s in sides)):
        ranges: dict[Index, range] = {}
        for side, part in zip(sides, parts, strict=True):
            ranges[side.term] = part.terms
            if side.own is not None:
                ranges[side.own] = part.results
        one, new = only(kernel, ranges)
        own = [_of_part(s.index, new, ranges) for s in target.subscripts]
        shape = tuple(i.extent if isinstance(i, Index) else ONE for i in own)
        tensor = Tensor(f"{target.tensor.name}'", target.dtype, shape)
        made = Access(tensor, tuple(map(Subscript, own)), target.span)
        yield replace(one, targets=(made,))
        yield map_to(one.targets[0], one.domain, made, kernel)


def _of_part(place: Expr, new: Mapping[Index, Index], some: Container[Index]) -> Expr:
    """The subscript of a target in a tensor of a part alone."""
    if not isinstance(place, Index) or (place in some and place not in new):
        return ZERO
    return new.get(place, place)
