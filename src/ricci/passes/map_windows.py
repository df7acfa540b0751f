"""Sums and extremes of windows, each over one map of its own: what they are over, and where they
reach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..ir import shapes
from ..ir.loops import Reduce
from ..ir.nodes import Access, Const, Expr, Index, Local, Skip, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, accesses, free_indices, rebuild, substitute
from ..records import dataclass, replace
from .rows import extent, is_known
from .terms import factors_of

OUTSIDE = {"add": 0.0, "max": -math.inf, "min": math.inf}
"""What may be around an array of reals, instead of leaving out what is outside."""


@dataclass(frozen=True, slots=True)
class Line:
    """A dimension of what windows are over: a subscript, and what it reaches."""

    subscript: Subscript
    size: int
    first: int
    last: int
    inside: int
    """For how many values of the result's index all terms are inside."""
    own: Index
    term: Index

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def place(self, result: int, term: int) -> int:
        """What the subscript is for a result and a term."""
        factors, constant = shapes.affine(self.subscript.index) or ({}, 0)
        own, other = factors.get(self.own, 0), factors.get(self.term, 0)
        return own * result + other * term + constant


@dataclass(frozen=True, slots=True)
class Part:
    """Some results along a dimension, and the terms that are inside for any of them."""

    results: range
    terms: range


@dataclass(frozen=True, slots=True)
class Windows:
    """A sum of products over windows of `access`, or their extremes: `maps` are plain subscripts of
    it, the others are `lines`."""

    kernel: Reduce
    access: Access
    maps: tuple[Index, ...]
    lines: tuple[Line, ...]

    @property
    def tensor(self) -> Tensor:
        return self.access.tensor

    def tensors(self) -> Iterator[Tensor]:
        """What is read in lines, and what is written."""
        yield self.tensor
        yield from (t.tensor for t in self.kernel.targets)

    @property
    def is_strided(self) -> bool:
        """Whether the windows of neighbouring results of a row are more than one element apart."""
        line = self.lines[-1]
        return line.place(1, 0) - line.place(0, 0) > 1


def over_elements(found: Windows) -> Windows:
    """The same as sums over elements along the lines of which every result has a term for each
    element: there are fewer of these than terms, and none is outside."""
    whole = {x.term: Index(x.term.name, integer(x.size)) for x in found.lines if _reaches_all(x)}
    if not whole:
        return found
    terms: dict[Replaceable, Expr | Tensor] = {}
    lines, places = [], list(found.access.subscripts)
    for number, line in enumerate(found.lines, len(places) - len(found.lines)):
        element = whole.get(line.term)
        if element is not None:
            apart = line.place(0, 1) - line.place(0, 0)  # 1 or -1
            own = shapes.mul(line.own, integer(line.place(1, 0) - line.place(0, 0)))
            moved = shapes.sub(shapes.sub(element, own), integer(line.place(0, 0)))
            terms[line.term] = shapes.mul(moved, integer(apart))
            places[number] = Subscript(element)
            line = Line(places[number], line.size, 0, line.size - 1, extent(line.own),
                        line.own, element)  # fmt: skip
        lines.append(line)
    access, kernel = replace(found.access, subscripts=tuple(places)), found.kernel
    values = (rebuild(v, lambda x: access if x == found.access else x) for v in kernel.values)
    kernel = replace(
        kernel,
        reduced=tuple(whole.get(i, i) for i in kernel.reduced),
        values=tuple(substitute(v, terms) for v in values),
    )
    return Windows(kernel, access, found.maps, tuple(lines))


def _reaches_all(line: Line) -> bool:
    """Whether every result has one term for each element, and others besides."""
    last, end = extent(line.term) - 1, line.size - 1
    each = [(line.place(i, 0), line.place(i, last)) for i in (0, extent(line.own) - 1)]
    near = abs(line.place(0, 1) - line.place(0, 0)) == 1
    return near and last > end and all(min(x) <= 0 and end <= max(x) for x in each)


def windows_of(kernel: Reduce) -> Iterator[Windows]:
    """The factors of a kernel that it is a sum over the windows of, and nothing else; or whose
    extreme elements it finds."""
    if len(kernel.values) != 1 or kernel.locals or not is_known(kernel):
        return
    if kernel.condition is not None or kernel.op not in OUTSIDE:
        return
    value = kernel.values[0]
    for factor in factors_of(value) if kernel.op == "add" else [value]:
        if isinstance(factor, Access) and not accesses(*(s.index for s in factor.subscripts)):
            found = _over(factor, kernel)
            if found is not None:
                yield found


def map_to(target: Access, domain: tuple[Index, ...], element: Expr, like: Reduce) -> Reduce:
    """The kernel that sets each element of a target, named as another kernel is."""
    value = Local("acc0", element)
    return Reduce(
        like.name, (target,), domain, (), "set", (element,), (), (value,), (value,), span=like.span
    )


def copy_of(
    read: Access, along: Sequence[Index], like: Reduce, shared: Sequence[Index] = ()
) -> tuple[Reduce, Access]:
    """The kernel that copies what an access reads along some indices, in this order, and the access
    to the copy that reads the same; both are at the same point of `shared` indices."""
    new = [i if i in shared else replace(i) for i in along]
    copied = Tensor(f"{read.tensor.name}'", read.tensor.dtype, tuple(i.extent for i in along))
    element = substitute(read, dict(zip(along, new, strict=True)))
    domain = (*shared, *(i for i in new if i not in shared))
    copy = map_to(Access(copied, tuple(map(Subscript, new))), domain, element, like)
    return copy, Access(copied, tuple(map(Subscript, along)), read.span)


def _over(access: Access, kernel: Reduce) -> Windows | None:
    """The windows over what a factor reads, if the kernel is a sum over them and nothing else."""
    pairs = list(zip(access.subscripts, access.tensor.shape, strict=True))
    first = next((n for n, (s, _) in enumerate(pairs) if shapes.as_int(s.index) is None
                  and s.index not in kernel.domain), len(pairs))  # fmt: skip
    maps = tuple(s.index for s, _ in pairs[:first] if isinstance(s.index, Index))
    if not all(_is_plain(s, n) for s, n in pairs[:first]):
        return None
    lines = tuple(line_of(s, shapes.as_int(n) or 0, kernel) for s, n in pairs[first:])
    found = tuple(x for x in lines if x is not None)
    if not found or len(found) != len(lines):
        return None
    own, terms = (*maps, *(x.own for x in found)), [x.term for x in found]
    if not (_same(own, kernel.domain) and _same(terms, kernel.reduced)):
        return None
    if sum(x == access for x in accesses(*kernel.values)) != 1:
        return None
    others = [f for f in factors_of(kernel.values[0]) if not isinstance(f, Const)]
    if not maps or any(maps[-1] not in free_indices(f) for f in others):
        return None  # rows of a product, which has code of its own
    return Windows(kernel, access, maps, found)


def is_inside(access: Access) -> bool:
    """Whether an access has indices and numbers as subscripts, which are in range."""
    pairs = zip(access.subscripts, access.tensor.shape, strict=True)
    return all(s.rule is None and _is_plain(s, n) for s, n in pairs)


def _is_plain(subscript: Subscript, size: Expr) -> bool:
    """Whether a subscript is an index or a number, and in range."""
    index, whole = subscript.index, shapes.as_int(size) or 0
    last = extent(index) - 1 if isinstance(index, Index) else shapes.as_int(index)
    return last is not None and 0 <= last < whole


def _same(indices: Sequence[Index], others: Sequence[Index]) -> bool:
    """Whether they are the same, in any order."""
    return sorted(map(id, indices)) == sorted(map(id, others))


def _of(subscript: Subscript, indices: Sequence[Index]) -> list[Index]:
    factors = (shapes.affine(subscript.index) or ({}, 0))[0]
    return [i for i in indices if i in factors]


def line_of(subscript: Subscript, size: int, kernel: Reduce) -> Line | None:
    """The dimension that a subscript goes along, if by one index of the result and one of terms,
    and terms that are outside are left out."""
    factors, constant = shapes.affine(subscript.index) or ({}, 0)
    own, terms = (_of(subscript, x) for x in (kernel.domain, kernel.reduced))
    if not len(own) == len(terms) == 1 or len(factors) != 2:
        return None
    step, reach = factors[own[0]], (extent(terms[0]) - 1) * factors[terms[0]]
    if step <= 0 or not isinstance(subscript.rule, Skip | None):
        return None
    low, high = constant + min(reach, 0), constant + max(reach, 0)
    inside = shapes.count_inside(low, high, step, extent(own[0]), size)
    last = high + step * (extent(own[0]) - 1)
    if subscript.rule is None and not 0 <= low <= last < size:
        return None  # which is an error where it is so
    return Line(subscript, size, low, last, inside, own[0], terms[0])
