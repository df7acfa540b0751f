"""Copies that need no work: a tensor that is some of another one's bytes.

Requires: the kernels of a run, fused. Ensures: where a kernel only copies a piece of a tensor, the
copy stands for that piece; where one only copies all of a tensor into a piece of another that is
made of such pieces, the source is made there in the first place. A piece is a stretch in row-major
order; or it is a box, whose rows are apart, if nothing reads it but by subscripts. Does not: move
what is given, what is a result of the graph, or what several kernels write.

Example: stacking rows `y[k, j] = r_k[j]` lets the maker of each row write into `y`.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import field

from ..ir import shapes
from ..ir.loops import Fill, Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Access, Index, Tensor
from ..ir.shapes import as_int
from ..records import dataclass
from .boxes import Box, are_disjoint, box_of
from .kernels import may_fail
from .places import Places, row_major, shape_of
from .views import Views, count_of, offset_of, root_of


@dataclass(frozen=True, slots=True)
class _Copy:
    """A kernel that copies elements: element `e` of `source` is `e - shift` of `target`.

    Without a `shift` it copies boxes, which begin at `first` in the larger of both.
    """

    source: Tensor
    target: Tensor
    shift: int | None
    first: tuple[int, ...]
    all_of_source: bool
    all_of_target: bool

    @property
    def is_stretch(self) -> bool:
        return self.shift is not None

    def offset_in(self, whole: Tensor) -> int | None:
        """The row-major offset of the piece in the source or target."""
        if self.shift is not None:
            return self.shift if whole is self.source else -self.shift
        shape = shape_of(whole)
        if shape is None:
            return None
        return sum(n * step for n, step in zip(self.first, row_major(shape), strict=True))


@dataclass(slots=True)
class Parts:
    """Finds the copies of one run; `views` and `offsets` (in elements) grow."""

    views: Views
    offsets: dict[Tensor, int]
    outputs: frozenset[Tensor]
    """Tensors with bytes of their own: results of the graph."""
    changing: set[Tensor]
    """Tensors that several kernels write."""
    pointers: Container[Tensor]
    """Tensors that are here and there."""
    strided: Container[Tensor] = ()
    """Tensors that are not row-major."""
    closed: bool = False
    """Whether all sizes are numbers, so that rows may be apart."""
    movable: set[Tensor] = field(default_factory=set)
    """Tensors made before this run that may be made elsewhere: what loops collect."""
    apart: set[Tensor] = field(default_factory=set)
    """Views that are boxes with their rows apart."""
    _filled: set[Tensor] = field(default_factory=set)
    """Tensors of this run that a kernel fills with zeros, bytes in a row."""
    _parts: dict[Tensor, list[Tensor]] = field(default_factory=dict)
    """Views by what they are views of."""

    def find(self, kernels: Sequence[Kernel], results: Iterable[Tensor]) -> list[Kernel]:
        """The kernels that still have to run."""
        found = ((k, _copy(k)) for k in kernels)
        copies = {id(k): c for k, c in found if c is not None and (self.closed or c.is_stretch)}
        if not copies:
            return list(kernels)
        writers: dict[Tensor, list[Kernel]] = {}
        last: dict[Tensor, int] = {}
        for position, kernel in enumerate(kernels):
            for tensor in tensors_written(kernel):
                root = root_of(tensor, self.views)
                writers.setdefault(root, []).append(kernel)
                last[root] = position
        for position, kernel in enumerate(kernels):
            copy = copies.get(id(kernel))
            if copy is not None and last.get(root_of(copy.source, self.views), 0) > position:
                del copies[id(kernel)]  # its source changes later
        live = set(results)
        self._filled = {k.tensor for k in kernels if isinstance(k, Fill)}
        self._parts = {}
        for view, whole in self.views.items():
            self._parts.setdefault(whole, []).append(view)
        kept: list[Kernel] = []
        for kernel in kernels:
            if isinstance(kernel, Fill) and self._is_overwritten(kernel.tensor, writers, copies):
                continue
            copy = copies.get(id(kernel))
            if copy is None or not (
                self._becomes_source(copy, writers, live, copies)
                or self._becomes_piece(copy, writers, live)
            ):
                kept.append(kernel)
        return kept

    def _is_overwritten(
        self, tensor: Tensor, writers: dict[Tensor, list[Kernel]], copies: dict[int, _Copy]
    ) -> bool:
        """Whether a tensor need not be zeroed: pieces that are copied to it are all of it."""
        if tensor in self.views or tensor in self.changing:
            return False
        others: list[Kernel] = [k for k in writers[tensor] if not isinstance(k, Fill)]
        pieces = [copies.get(id(k)) for k in others]
        size = as_int(count_of(tensor))
        if (
            size is None
            or len(others) != len(writers[tensor]) - 1
            or not _are_apart(pieces, tensor)
        ):
            return False
        if size != sum(as_int(count_of(p.source)) or 0 for p in pieces if p is not None):
            return False
        writers[tensor] = others
        return True

    def _becomes_piece(
        self, copy: _Copy, writers: dict[Tensor, list[Kernel]], live: set[Tensor]
    ) -> bool:
        """Let the target stand for a piece of the source."""
        target, root = copy.target, root_of(copy.source, self.views)
        if not copy.all_of_target or not self._is_free(target) or len(writers[target]) != 1:
            return False
        if root is target or root in self.pointers or root in self.strided:
            return False
        if not copy.is_stretch and target in live:
            return False
        return self._join(target, copy.source, copy)

    def _is_free(self, tensor: Tensor) -> bool:
        """Whether a tensor can be anywhere."""
        fixed = (self.views, self.outputs, self.changing, self.pointers)
        return not any(tensor in tensors for tensors in fixed)

    def _becomes_source(
        self,
        copy: _Copy,
        writers: dict[Tensor, list[Kernel]],
        live: set[Tensor],
        copies: dict[int, _Copy],
    ) -> bool:
        """Let the source be made as a piece of the target."""
        source, target = copy.source, copy.target
        made_here = source in writers and source not in live
        if not copy.all_of_source or not (made_here or source in self.movable):
            return False
        if source in self.views or source in self.outputs or source in self.pointers:
            return False
        if source in self.changing and source not in self.movable:
            return False
        if target in self.views or target in self.changing or target in self.pointers:
            return False
        if not copy.is_stretch and not made_here:
            return False
        if not _are_apart([copies.get(id(k)) for k in writers[target]], target):
            if not _are_boxes(writers[target], target):
                return False
        if not self._join(source, target, copy):
            return False
        self.movable.discard(source)
        return True

    def _join(self, tensor: Tensor, whole: Tensor, copy: _Copy) -> bool:
        """Make a tensor a view of another, if all that have bytes of it can be found there."""
        offset = copy.offset_in(whole)
        if offset is None:
            return False
        self.views[tensor] = whole
        self.offsets[tensor] = offset
        if not copy.is_stretch:
            self.apart.add(tensor)
        if not self._can_be_found(tensor):
            del self.views[tensor], self.offsets[tensor]
            self.apart.discard(tensor)
            return False
        self._parts.setdefault(whole, []).append(tensor)
        return True

    def _can_be_found(self, tensor: Tensor) -> bool:
        """Whether a view, and views of it, can be used although rows are apart."""
        chain = tensor
        while chain in self.views and chain not in self.apart:
            chain = self.views[chain]
        places = Places(self.views, self.offsets, self.apart)
        below = [tensor]
        for view in below:  # grows
            below += self._parts.get(view, [])
        if chain not in self.apart and self.apart.isdisjoint(below):
            return True
        return all(t not in self._filled and places.find(t) is not None for t in below)


def _are_apart(copies: Sequence[_Copy | None], target: Tensor) -> bool:
    """Whether all that is written to a tensor are distinct stretches of it."""
    ranges: list[tuple[int, int]] = []
    for copy in copies:
        if copy is None or copy.target is not target or not copy.all_of_source:
            return False
        size = as_int(count_of(copy.source))
        if size is None or copy.shift is None:
            return False
        ranges.append((-copy.shift, -copy.shift + size))
    ranges.sort()
    return all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))


def _are_boxes(kernels: Sequence[Kernel], target: Tensor) -> bool:
    """Whether all that is written to a tensor are distinct boxes of it."""
    boxes: list[Box] = []
    for kernel in kernels:
        if not isinstance(kernel, Reduce):
            return False
        for access in kernel.targets:
            box = box_of(access, kernel.domain) if access.tensor is target else None
            if box is None:
                return False
            boxes.append(box)
    return are_disjoint(boxes)


def _copy(kernel: Kernel) -> _Copy | None:
    """What a kernel copies, if it does nothing else."""
    if not isinstance(kernel, Reduce) or kernel.values or kernel.locals or len(kernel.targets) != 1:
        return None
    read, target = kernel.initial[0], kernel.targets[0]
    if kernel.results[0] is not kernel.accumulators[0] or not isinstance(read, Access):
        return None
    if any(s.rule is not None for s in read.subscripts) or read.dtype is not target.dtype:
        return None
    if len(tensors_touched(kernel)) != 2 or may_fail(read):
        return None
    whole = _is_whole(read, kernel), _is_whole(target, kernel)
    shift = as_int(shapes.sub(offset_of(read), offset_of(target)))
    first = () if shift is not None else _first(read, target, kernel)
    if first is None or not any(whole):
        return None
    return _Copy(read.tensor, target.tensor, shift, first, *whole)


def _first(a: Access, b: Access, kernel: Reduce) -> tuple[int, ...] | None:
    """Where the box that is all of one of two tensors begins in the other, if it does."""
    if len(a.subscripts) != len(b.subscripts):
        return None
    apart = [
        as_int(shapes.sub(s.index, t.index))
        for s, t in zip(a.subscripts, b.subscripts, strict=True)
    ]
    if box_of(a, kernel.domain) is None or box_of(b, kernel.domain) is None:
        return None
    return None if None in apart else tuple(abs(n or 0) for n in apart)


def _is_whole(access: Access, kernel: Reduce) -> bool:
    """Whether the points of a kernel reach every element of an access once."""
    indices = []
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        if isinstance(s.index, Index) and shapes.equal(s.index.extent, extent):
            indices.append(s.index)
        elif as_int(s.index) != 0 or as_int(extent) != 1:
            return False
    return len(set(indices)) == len(indices) == len(kernel.domain)
