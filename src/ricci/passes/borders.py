"""Windows that reach beyond the ends of what they are over: over a copy that has a border.

Requires: kernels in their final form, and the strides of tensors that are not row-major. Ensures: a
sum of products over large windows, each over one map of its own, of which many reach beyond an end,
is done together with a copy of that map, zero outside: map by map, so that the copy stays in the
cache. Does not: touch sums in which an element has a part for several indices besides (they have
code of their own), maps whose rows are not contiguous, or sizes that are not known.

Example: 7 by 7 neighbours in each of 384 channels of 14 by 14 elements: of 14 rows in a channel
eight are complete.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from ..ir import shapes
from ..ir.loops import Action, Group, Reduce
from ..ir.nodes import (
    ZERO,
    Access,
    Binary,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Skip,
    Subscript,
    Tensor,
    integer,
)
from ..ir.rewrite import accesses, free_indices, rebuild
from .partial import points_of
from .rows import extent, is_known
from .terms import factors_of

_LEAST_MAPS = 16
"""Fewer are not worth two kernels that are called for each."""
_MOST_BYTES = 128 << 10
"""Of a map with its border: a core's own cache has room for it, and for results."""
_LEAST_TERMS = 16
"""Of windows: those of 3 by 3 take hardly longer than the copy."""
_LEAST_PART = 0.1
"""The part of the results whose windows reach beyond an end."""


def copy_borders(
    actions: Sequence[Action], strides: Container[Tensor], constant: Container[Tensor]
) -> list[Action]:
    """The actions, with kernels over such windows as groups with a copy. Tensors that have
    `strides` are not row-major; what kernels read of `constant` ones is not copied in each call."""
    out: list[Action] = []
    for action in actions:
        found = _windows(action) if isinstance(action, Reduce) else None
        if found is None or found.tensor in constant or any(t in strides for t in found.tensors()):
            out.append(action)
        else:
            out.append(found.with_copy())
    return out


@dataclass(frozen=True, slots=True)
class _Line:
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


@dataclass(frozen=True, slots=True)
class _Windows:
    """A sum of products over windows of `access`: `maps` are plain subscripts of it, the others
    are `lines`."""

    kernel: Reduce
    access: Access
    maps: tuple[Index, ...]
    lines: tuple[_Line, ...]

    @property
    def tensor(self) -> Tensor:
        return self.access.tensor

    def tensors(self) -> Iterator[Tensor]:
        """What is read in lines, and what is written."""
        yield self.tensor
        yield from (t.tensor for t in self.kernel.targets)

    def is_worthwhile(self) -> bool:
        if points_of(self.maps) < _LEAST_MAPS or points_of(self.kernel.reduced) < _LEAST_TERMS:
            return False
        size = math.prod(x.length for x in self.lines) * self.tensor.dtype.numpy().itemsize
        inside = math.prod(x.inside / extent(x.own) for x in self.lines)
        return size <= _MOST_BYTES and inside <= 1.0 - _LEAST_PART

    def with_copy(self) -> Group:
        """The kernel that copies a map, and that of the sums, map by map."""
        kernel, tensor = self.kernel, self.tensor
        rows = tuple(Index(f"i_{n}", integer(x.length)) for n, x in enumerate(self.lines))
        places = [shapes.add(i, integer(x.first)) for i, x in zip(rows, self.lines, strict=True)]
        domain, own = (*self.maps, *rows), tuple(x.own for x in self.lines)
        copied = Tensor(f"{tensor.name}'", tensor.dtype, tuple(i.extent for i in domain))
        kept = self.access.subscripts[: -len(self.lines)]
        element: Expr = replace(self.access, subscripts=(*kept, *map(Subscript, places)))
        tests = [t for p, x in zip(places, self.lines, strict=True) for t in _tests(p, x)]
        inside = reduce(lambda a, b: Binary("and", a, b), tests)
        element = Select(inside, element, Const(0, tensor.dtype))
        value = Local("acc0", element)
        copy = Reduce(
            kernel.name, (Access(copied, tuple(map(Subscript, domain))),), domain, (), "set",
            (element,), (), (value,), (value,), span=kernel.span,
        )  # fmt: skip
        moved = [shapes.sub(x.subscript.index, integer(x.first)) for x in self.lines]
        read = Access(copied, tuple(map(Subscript, (*self.maps, *moved))), self.access.span)
        values = tuple(rebuild(v, lambda x: read if x == self.access else x) for v in kernel.values)
        sums = replace(kernel, domain=(*self.maps, *own), values=values)
        return Group(kernel.name, self.maps, (copy, sums), (copied,), span=kernel.span)


def _tests(place: Expr, line: _Line) -> Iterator[Expr]:
    """What holds where a line is inside."""
    if line.first < 0:
        yield Binary("ge", place, ZERO)
    if line.last >= line.size:
        yield Binary("lt", place, integer(line.size))


def _windows(kernel: Reduce) -> _Windows | None:
    """The windows of a kernel, if a copy of what they are over is worthwhile."""
    if kernel.op != "add" or len(kernel.values) != 1 or kernel.locals or not is_known(kernel):
        return None
    if kernel.condition is not None:
        return None
    for factor in factors_of(kernel.values[0]):
        if isinstance(factor, Access) and not accesses(*(s.index for s in factor.subscripts)):
            found = _over(factor, kernel)
            if found is not None and found.is_worthwhile():
                return found
    return None


def _over(access: Access, kernel: Reduce) -> _Windows | None:
    """The windows over what a factor reads, if the kernel is a sum over them and nothing else."""
    pairs = list(zip(access.subscripts, access.tensor.shape, strict=True))
    first = next((n for n, (s, _) in enumerate(pairs) if shapes.as_int(s.index) is None
                  and s.index not in kernel.domain), len(pairs))  # fmt: skip
    maps = tuple(s.index for s, _ in pairs[:first] if isinstance(s.index, Index))
    if not all(_is_inside(s, n) for s, n in pairs[:first]):
        return None
    lines = tuple(_line(s, shapes.as_int(n) or 0, kernel) for s, n in pairs[first:])
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
    return _Windows(kernel, access, maps, found)


def _is_inside(subscript: Subscript, size: Expr) -> bool:
    """Whether a subscript that is an index or a number is in range."""
    index, whole = subscript.index, shapes.as_int(size) or 0
    last = extent(index) - 1 if isinstance(index, Index) else shapes.as_int(index)
    return last is not None and 0 <= last < whole


def _same(indices: Sequence[Index], others: Sequence[Index]) -> bool:
    """Whether they are the same, in any order."""
    return sorted(map(id, indices)) == sorted(map(id, others))


def _of(subscript: Subscript, indices: Sequence[Index]) -> list[Index]:
    factors = (shapes.affine(subscript.index) or ({}, 0))[0]
    return [i for i in indices if i in factors]


def _line(subscript: Subscript, size: int, kernel: Reduce) -> _Line | None:
    """The dimension that a subscript goes along, if by one index of the result and one of terms,
    and terms that are outside are left out."""
    factors, constant = shapes.affine(subscript.index) or ({}, 0)
    own, terms = (_of(subscript, x) for x in (kernel.domain, kernel.reduced))
    if not len(own) == len(terms) == 1 or len(factors) != 2:
        return None
    step, reach = factors[own[0]], (extent(terms[0]) - 1) * factors[terms[0]]
    if step <= 0 or not isinstance(subscript.rule, Skip):
        return None
    low, high = constant + min(reach, 0), constant + max(reach, 0)
    inside = shapes.count_inside(low, high, step, extent(own[0]), size)
    last = high + step * (extent(own[0]) - 1)
    return _Line(subscript, size, low, last, inside, own[0], terms[0])
