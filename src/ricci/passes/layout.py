"""Which dimension of an intermediate tensor lies contiguous in memory.

Requires: the actions of a program whose sizes are numbers, and the tensors whose elements must lie
row-major. Ensures: strides for other tensors, of which one dimension is moved behind all others.
Views of a tensor decide with it, if they can be found at any strides. Does not: change kernels.

Kernels vote, with the number of terms that they add up. Sums of products with a constant operand
run fastest along an index that this operand alone gives to the result: the constant is arranged
once, and the other operand read as it is; its terms are read best along an index of the sum. All
other kernels want to write along what they read along, and that comes first: where what they read
must lie row-major, what they write does, too, and the other way round; sums of products read and
write either way. What is done row by row, in a group, does not lie across these.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..ir.loops import Action, Fill, Group, Kernel, Point, Reduce, all_actions, tensors_touched
from ..ir.nodes import Access, Index, Tensor
from ..ir.rewrite import accesses, free_indices
from ..ir.shapes import as_int
from ..records import dataclass
from .places import Place, Places, row_major
from .views import root_of

_LEAST = 8
"""Extents below it do not fill vectors."""
_SWEEPS = 2
_SHARE = 4
"""How many times larger the largest tensor of a kernel may be than one that counts."""
_CLASH, _LINE = 2048, 64
"""Bytes after which elements share lines of the first cache, and those of a line."""


@dataclass(slots=True)
class Votes:
    """What is wanted of tensors, by their dimensions; views vote for the tensor they are in."""

    places: dict[Tensor, tuple[Tensor, Place]]
    """For each tensor that may lie otherwise, where it is in the one whose bytes it has."""
    found: dict[Tensor, dict[int, float]] = field(default_factory=dict)

    def add(self, access: Access, dimension: int | None, weight: float) -> None:
        if dimension is None or access.tensor not in self.places:
            return
        whole, place = self.places[access.tensor]
        d, factor = place.steps[dimension]
        if factor == 1:
            votes = self.found.setdefault(whole, {})
            votes[d] = votes.get(d, 0.0) + weight

    def is_open(self, tensor: Tensor) -> bool:
        """Whether a tensor may lie otherwise, and nobody wants anything yet."""
        return tensor in self.places and not self.found.get(self.places[tensor][0])

    def winner(self, tensor: Tensor) -> tuple[int, float] | None:
        """The dimension of a tensor that is wanted most, and how much."""
        whole, place = self.places.get(tensor, (tensor, None))
        votes = self.found.get(whole)
        if not votes or place is None:
            return None
        best = _winner(votes)
        return next(((k, votes[best]) for k, s in enumerate(place.steps) if s == (best, 1)), None)


def choose_layouts(
    actions: Sequence[Action],
    constant: Container[Tensor],
    fixed: Container[Tensor],
    places: Places,
) -> dict[Tensor, tuple[int, ...]]:
    """The strides, in elements, of tensors that are not to be row-major; `fixed` ones are."""
    everything = list(all_actions(tuple(actions)))
    kernels = [a for a in everything if isinstance(a, Kernel)]
    votes = Votes(_free(everything, constant, fixed, places))
    reduces = list(_reduces(kernels))
    products = [k for k in reduces if _vote_product(k, constant, votes)]
    known = set(map(id, products))
    others = [k for k in reduces if id(k) not in known]
    for _ in range(_SWEEPS):
        for kernel in (*others, *reversed(others)):
            _follow(kernel, votes)
    chosen = {t: _winner(found) for t, found in votes.found.items() if found}
    chosen |= _Matches(votes.places, constant).found(kernels, known)
    strides = {t: contiguous_last(t, d) for t, d in chosen.items()}
    return {t: steps for t, steps in strides.items() if steps != row_major(_shape(t))}


def _free(
    actions: Sequence[Action], constant: Container[Tensor], fixed: Container[Tensor], places: Places
) -> dict[Tensor, tuple[Tensor, Place]]:
    """The tensors that may lie otherwise, and where they are in those whose bytes they have."""
    rows = {t for a in actions if isinstance(a, Point) for t in (a.item, *a.pack)}
    rows |= {a.tensor for a in actions if isinstance(a, Fill)}
    kernels = (a for a in actions if isinstance(a, Kernel))
    touched = dict.fromkeys(t for k in kernels for t in tensors_touched(k))
    wholes = {t: root_of(t, places.views) for t in (*touched, *places.views)}
    found: dict[Tensor, tuple[Tensor, Place]] = {}
    bound: set[Tensor] = set()
    for tensor, whole in wholes.items():
        place = None
        if len(whole.shape) > 1 and not any(
            t in rows or t in fixed or t in constant for t in (tensor, whole)
        ):
            place = places.find(tensor)
        if place is None:
            bound.add(whole)
        else:
            found[tensor] = whole, place
    return {t: (whole, place) for t, (whole, place) in found.items() if whole not in bound}


def _reduces(kernels: Iterable[Kernel]) -> Iterator[Reduce]:
    for kernel in kernels:
        if isinstance(kernel, Group):
            yield from kernel.kernels
        elif isinstance(kernel, Reduce):
            yield kernel


def _vote_product(kernel: Reduce, constant: Container[Tensor], votes: Votes) -> bool:
    """Lets a sum of products with a constant operand vote; whether it is one."""
    if kernel.op != "add" or not kernel.reduced or len(kernel.targets) != 1:
        return False
    read = accesses(*kernel.values)
    given = [a for a in read if a.tensor in constant]
    rest = [a for a in read if a.tensor not in constant]
    shared = set(free_indices(*given)) & set(free_indices(*rest))
    if not given or not rest or shared.isdisjoint(kernel.reduced):
        return False
    terms = float(math.prod(_extent(i) for i in (*kernel.domain, *kernel.reduced)))
    own = set(free_indices(*given)) - set(free_indices(*rest))
    sides = [(kernel.targets[0], own), *((a, shared & set(kernel.reduced)) for a in rest)]
    if not any(_extent(i) >= _LEAST for i in own):
        return False
    for access, indices in sides:
        votes.add(access, _best(access, indices), terms)
    for access in accesses(*kernel.initial, *kernel.results):
        votes.add(access, _best(access, own), terms / 16)
    return True


def _follow(kernel: Reduce, votes: Votes) -> None:
    """Hands on what tensors of a kernel want to those of which nobody wants anything."""
    touched = [*kernel.targets, *accesses(*kernel.initial, *kernel.values, *kernel.results)]
    wanted: dict[Index, float] = {}
    for access in touched:
        found = votes.winner(access.tensor)
        index = None if found is None else access.subscripts[found[0]].index
        if found is not None and isinstance(index, Index):
            wanted[index] = max(wanted.get(index, 0.0), found[1])
    for access in touched:
        if votes.is_open(access.tensor):
            for index in sorted(wanted, key=lambda i: -wanted[i]):
                dimension = _plain(access, index)
                if dimension is not None:
                    votes.add(access, dimension, wanted[index])
                    break


class _Matches:
    """Dimensions of tensors that must be contiguous, since others are that kernels touch at the
    same places: those of arrays that callers have, and of what is done row by row."""

    def __init__(
        self, places: Mapping[Tensor, tuple[Tensor, Place]], constant: Container[Tensor]
    ) -> None:
        self.places, self.constant = places, constant
        self.dimensions: dict[Tensor, int] = {}

    def found(self, kernels: Sequence[Kernel], products: Container[int]) -> dict[Tensor, int]:
        """Of kernels, of which some, by their `id`, are sums of products."""
        for kernel in kernels:
            if isinstance(kernel, Group):
                for part in kernel.kernels:
                    self._keep_rows(part, set(kernel.shared))
        parts = [(k, self._large(k, id(k) in products)) for k in _reduces(kernels)]
        for _ in range(_SWEEPS):
            for part, large in (*parts, *reversed(parts)):
                self._match(part, large)
        return self.dimensions

    def _keep_rows(self, kernel: Reduce, shared: set[Index]) -> None:
        """Tensors that are done for each value of `shared` are contiguous along another index."""
        own = {i for i in (*kernel.domain, *kernel.reduced) if i not in shared}
        for access in _touched(kernel, False):
            if any(s.index in shared for s in access.subscripts):
                for d in reversed(range(len(access.subscripts))):
                    if any(_extent(i) >= _LEAST for i in _indices(access, d) & own):
                        self._set(access, d)
                        break

    def _large(self, kernel: Reduce, is_product: bool) -> list[Access]:
        """What a kernel writes and reads element by element, but for what is small beside it; none
        of a sum of products of tensors, which goes along others."""
        touched = [a for a in _touched(kernel, is_product) if a.tensor not in self.constant]
        sizes = [_size(a.tensor) for a in touched]
        large = [a for a, n in zip(touched, sizes, strict=True) if _SHARE * n >= max(sizes)]
        given = kernel.reduced and not is_product and len({a.tensor for a in large}) > 2
        return [] if given else large

    def _match(self, kernel: Reduce, large: Sequence[Access]) -> None:
        """All is contiguous along the same index, if something is."""
        along = (i for a in large if (i := self._along(a, kernel)) is not None)
        index = next(along, None)
        for access in large if index is not None else ():
            for d in range(len(access.subscripts)):
                if index in _indices(access, d):
                    self._set(access, d)

    def _along(self, access: Access, kernel: Reduce) -> Index | None:
        """The index of results along which elements of a tensor are known to be contiguous."""
        tensor = access.tensor
        if tensor in self.places:
            whole, place = self.places[tensor]
            if whole not in self.dimensions:
                return None
            last = (self.dimensions[whole], 1)
            if last not in place.steps:
                return None
            d = place.steps.index(last)
        else:
            d = max((k for k, n in enumerate(_shape(tensor)) if n > 1), default=0)
        if not access.subscripts:
            return None
        found = [i for i in _indices(access, d) if i in kernel.domain and _extent(i) >= _LEAST]
        return found[0] if len(found) == 1 else None

    def _set(self, access: Access, dimension: int) -> None:
        if access.tensor in self.places:
            whole, place = self.places[access.tensor]
            d, factor = place.steps[dimension]
            if factor == 1:
                self.dimensions.setdefault(whole, d)


def _touched(kernel: Reduce, is_product: bool) -> list[Access]:
    """What a kernel writes, and reads for that; of a sum of products without its terms."""
    terms = () if is_product else kernel.values
    return [*kernel.targets, *accesses(*kernel.initial, *terms, *kernel.results)]


def _indices(access: Access, dimension: int) -> set[Index]:
    return {*free_indices(access.subscripts[dimension].index)}


def _size(tensor: Tensor) -> int:
    return math.prod(_shape(tensor))


def _best(access: Access, indices: set[Index]) -> int | None:
    """The dimension with the longest of some indices as its subscript."""
    found = [
        (_extent(s.index), d)
        for d, s in enumerate(access.subscripts)
        if isinstance(s.index, Index) and s.index in indices and _extent(s.index) >= _LEAST
    ]
    return max(found)[1] if found else None


def _plain(access: Access, index: Index) -> int | None:
    return next((d for d, s in enumerate(access.subscripts) if s.index is index), None)


def _winner(votes: Mapping[int, float]) -> int:
    return max(votes, key=lambda d: (votes[d], d))


def _extent(index: Index) -> int:
    found = as_int(index.extent)
    return 1 if found is None else found


def contiguous_last(tensor: Tensor, last: int, apart: bool = True) -> tuple[int, ...]:
    """The strides of a tensor whose dimension `last` is behind all others.

    Rows a multiple of half a page long would all be on the same few lines of the caches; if
    `apart`, they get a little more room.
    """
    shape = _shape(tensor)
    bytes_of = tensor.dtype.numpy().itemsize
    steps, step = [0] * len(shape), 1
    for d in (last, *(d for d in reversed(range(len(shape))) if d != last)):
        steps[d], step = step, step * max(shape[d], 1)
        if apart and d == last and step * bytes_of % _CLASH == 0:
            step += _LINE // bytes_of
    return tuple(steps)


def _shape(tensor: Tensor) -> list[int]:
    return [as_int(e) or 0 for e in tensor.shape]
