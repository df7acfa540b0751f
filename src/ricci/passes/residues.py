"""Sums of products over windows whose elements are apart: over neighbours in copies.

Requires: kernels, fused. Ensures: where constant windows of two or three by as many see only each
n-th element, results that are n apart are an image of their own, of as many windows of neighbours
over a copy of what they see, with zeros around it; their results are copied to their places. Such
windows take fewer products (`winograd`), in pieces that caches keep. Does not: touch windows
whose results need more than sums, or of few channels or filters, or which take less in parts
(`margins`), or sizes that are not known.

Example: windows of three by three, 6 apart, over 33 by 33 elements are those of 36 images of 6 by 6
results, over 8 by 8 elements each.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import reduce

from ..ir import shapes
from ..ir.loops import Kernel, Reduce
from ..ir.nodes import (
    ZERO,
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Select,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import accesses, free_indices, rebuild
from ..records import dataclass, replace
from ..source import NOWHERE, Span
from .map_windows import Line, line_of, map_to
from .margins import is_sum, least_cost
from .partial import points_of
from .rows import extent
from .terms import factors_of
from .views import Views

_LEAST_APART = 3
"""Windows that are less apart take fewer products where they are: pieces of two by two images stay
in caches, too."""
_LEAST_CHANNELS, _LEAST_FILTERS = 64, 16
"""Of fewer channels, what tiles in one another see stays in caches as it is."""
_TERM, _ELEMENT = 1.3, 16
"""What a product takes, if there are fewer, in terms of others; and what an element that is copied
does."""


def by_residues(
    kernels: Sequence[Kernel], constant: Container[Tensor], views: Views
) -> list[Kernel]:
    """The kernels, in order, with such sums over copies; what shows these as images is added to the
    `views`."""
    out: list[Kernel] = []
    for kernel in kernels:
        found = _find(kernel, constant) if isinstance(kernel, Reduce) else None
        if found is not None and found.cost < least_cost(found.kernel):
            out += found.steps(views)
        else:
            out.append(kernel)
    return out


@dataclass(frozen=True, slots=True)
class _Side:
    """A dimension of the windows, whose elements are `apart`."""

    line: Line
    apart: int
    image: Index
    """Which of the images that results `apart` from one another are."""
    result: Index
    """Of an image: of some the last one is beyond the end."""

    @property
    def elements(self) -> int:
        """That an image sees."""
        return extent(self.result) + extent(self.line.term) - 1

    @property
    def length(self) -> int:
        """Of the copy."""
        return self.apart * self.elements

    @property
    def element(self) -> Expr:
        """What a result of an image sees of it."""
        if self.line.place(0, 1) > self.line.place(0, 0):
            return shapes.add(self.result, self.line.term)
        return shapes.add(
            shapes.sub(self.result, self.line.term), integer(extent(self.line.term) - 1)
        )

    @property
    def products(self) -> int:
        """Along it, two results at a time."""
        return self.apart * -(-extent(self.result) // 2) * (extent(self.line.term) + 1)


@dataclass(frozen=True, slots=True)
class _Found:
    kernel: Reduce
    access: Access
    sides: Mapping[int, _Side]
    """By the dimension of the tensor that is read."""

    @property
    def cost(self) -> float:
        """In terms."""
        kernel, sides = self.kernel, self.sides.values()
        direct = math.prod(extent(s.line.own) * extent(s.line.term) for s in sides)
        points = points_of((*kernel.domain, *kernel.reduced)) // direct
        copied = math.prod(shapes.as_int(e) or 0 for e in self.shape)
        moved = copied + points_of(kernel.domain)
        return points * math.prod(s.products for s in sides) * _TERM + _ELEMENT * moved

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Of the copy."""
        whole = enumerate(self.access.tensor.shape)
        return tuple(integer(self.sides[d].length) if d in self.sides else e for d, e in whole)

    def steps(self, views: Views) -> Iterator[Reduce]:
        """The copy with a border, the sums over it, and the copy of those that there are."""
        kernel, tensor, target = self.kernel, self.access.tensor, self.kernel.targets[0]
        padded = Tensor(f"{tensor.name}'", tensor.dtype, self.shape)
        domain = tuple(Index(f"i{d}", e) for d, e in enumerate(self.shape))
        yield map_to(_at(padded, domain), domain, self._element(domain), kernel)

        places = list[Expr]()
        for d, subscript in enumerate(self.access.subscripts):
            side = self.sides.get(d)
            places += [subscript.index] if side is None else [side.element, side.image]
        seen = _split(padded, {d: s.elements for d, s in self.sides.items()})
        read = _at(seen, places, self.access.span)

        by_own: dict[Expr, _Side] = {s.line.own: s for s in self.sides.values()}
        own = [s.index for s in target.subscripts]
        among = {d: by_own[i] for d, i in enumerate(own) if i in by_own}
        shape = (
            integer(among[d].apart * extent(among[d].result)) if d in among else e
            for d, e in enumerate(target.tensor.shape)
        )
        whole = Tensor(f"{target.tensor.name}'", target.dtype, tuple(shape))
        made = _split(whole, {d: extent(s.result) for d, s in among.items()})
        kept = list[Expr]()
        for i in own:
            kept += [by_own[i].result, by_own[i].image] if i in by_own else [i]
        inside = (by_own[i].result if i in by_own else i for i in kernel.domain)
        views |= {seen: padded, made: whole}
        yield replace(
            kernel,
            targets=(_at(made, kept, target.span),),
            domain=(*(s.image for s in self.sides.values()), *inside),
            values=tuple(
                rebuild(v, lambda x: read if x == self.access else x) for v in kernel.values
            ),
        )
        yield map_to(target, kernel.domain, _at(whole, own), kernel)

    def _element(self, domain: Sequence[Index]) -> Expr:
        """What an element of the copy is: zero where there is none."""
        places, tests = list[Expr](), list[Expr]()
        for d, i in enumerate(domain):
            side = self.sides.get(d)
            first = 0 if side is None else side.line.first
            place = shapes.add(i, integer(first))
            if first < 0:
                tests.append(Binary("ge", place, ZERO))
            if side is not None and extent(i) + first > side.line.size:
                tests.append(Binary("lt", place, integer(side.line.size)))
            places.append(place)
        element = _at(self.access.tensor, places, self.access.span)
        if not tests:
            return element
        inside = reduce(lambda a, b: Binary("and", a, b), tests)
        return Select(inside, element, Const(0, element.dtype))


def _at(tensor: Tensor, places: Sequence[Expr], span: Span = NOWHERE) -> Access:
    return Access(tensor, tuple(map(Subscript, places)), span)


def _split(tensor: Tensor, counts: Mapping[int, int]) -> Tensor:
    """The same bytes with some dimensions in two: so many times what there is of each image."""
    shape = list[Expr]()
    for d, e in enumerate(tensor.shape):
        whole = shapes.as_int(e) or 0
        shape += [integer(counts[d]), integer(whole // counts[d])] if d in counts else [e]
    return Tensor(f"{tensor.name}'", tensor.dtype, tuple(shape))


def _find(kernel: Reduce, constant: Container[Tensor]) -> _Found | None:
    """The windows of a kernel, if it is a sum over such and nothing else."""
    if not is_sum(kernel):
        return None
    factors = factors_of(kernel.values[0])
    read = [f for f in factors if isinstance(f, Access) and f.tensor not in constant]
    others = [f for f in factors if not any(f is x for x in read)]
    known = all(a.tensor in constant for a in accesses(*others))
    if not kernel.values[0].dtype.is_real or len(read) != 1 or not known:
        return None
    if accesses(*(s.index for s in read[0].subscripts)):
        return None
    (access,) = read
    shape = [shapes.as_int(e) or 0 for e in access.tensor.shape]
    pairs = enumerate(zip(access.subscripts, shape, strict=True))
    sides = {d: side for d, (s, n) in pairs if (side := _side(s, n, kernel)) is not None}
    own, terms = ({s.line.own for s in sides.values()}, {s.line.term for s in sides.values()})
    if len(sides) != 2 or len(own) != 2 or len(terms) != 2:
        return None
    beside = [s for d, s in enumerate(access.subscripts) if d not in sides]
    used = {i for s in beside for i in free_indices(s.index)}
    results = {i for e in (*kernel.initial, *kernel.results, *others) for i in free_indices(e)}
    if used & (own | terms) or own & results or any(s.rule is not None for s in beside):
        return None
    channels = points_of(tuple(i for i in kernel.reduced if i in used))
    filters = points_of(tuple(
        i for i in kernel.domain if i not in used and i not in own
    ))  # fmt: skip
    if channels < _LEAST_CHANNELS or filters < _LEAST_FILTERS:
        return None
    return _Found(kernel, access, sides)


def _side(subscript: Subscript, size: int, kernel: Reduce) -> _Side | None:
    line = line_of(subscript, size, kernel)
    if line is None:
        return None
    step, apart = (line.place(*to) - line.place(0, 0) for to in ((1, 0), (0, 1)))
    apart, count = abs(apart), extent(line.own)
    if step != 1 or not _LEAST_APART <= apart < count or extent(line.term) not in (2, 3):
        return None
    image = Index(f"{line.own.name}.image", integer(apart))
    return _Side(line, apart, image, Index(line.own.name, integer(-(-count // apart))))
