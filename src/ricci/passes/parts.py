"""Copies that need no work: a tensor that is some of another one's bytes, in a row.

Requires: the kernels of a run, fused. Ensures: where a kernel only copies a contiguous piece of a
tensor, the copy stands for that piece; where one only copies all of a tensor into a piece of
another whose pieces come from copies alone, the source is made there in the first place. Does not:
move what is given, what is a result of the graph, or what several kernels write.

Example: stacking rows `y[k, j] = r_k[j]` lets the maker of each row write into `y`.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from ..ir import shapes
from ..ir.loops import Fill, Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Access, Index, Tensor
from ..ir.shapes import as_int
from .kernels import may_fail
from .views import Views, count_of, offset_of, root_of


@dataclass(frozen=True, slots=True)
class _Copy:
    """A kernel that copies elements: element `e` of `source` is `e - shift` of `target`."""

    source: Tensor
    target: Tensor
    shift: int
    all_of_source: bool
    all_of_target: bool


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
    movable: set[Tensor] = field(default_factory=set)
    """Tensors made before this run that may be made elsewhere: what loops collect."""

    def find(self, kernels: Sequence[Kernel], results: Iterable[Tensor]) -> list[Kernel]:
        """The kernels that still have to run."""
        copies = {id(k): copy for k in kernels if (copy := _copy(k)) is not None}
        if not copies:
            return list(kernels)
        writers: dict[Tensor, list[Kernel]] = {}
        for kernel in kernels:
            for tensor in tensors_written(kernel):
                writers.setdefault(root_of(tensor, self.views), []).append(kernel)
        live = set(results)
        kept: list[Kernel] = []
        for kernel in kernels:
            if isinstance(kernel, Fill) and self._is_overwritten(kernel.tensor, writers, copies):
                continue
            copy = copies.get(id(kernel))
            if copy is None or not (
                self._becomes_source(copy, writers, live, copies)
                or self._becomes_piece(copy, writers)
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

    def _becomes_piece(self, copy: _Copy, writers: dict[Tensor, list[Kernel]]) -> bool:
        """Let the target stand for a piece of the source."""
        target, root = copy.target, root_of(copy.source, self.views)
        if not copy.all_of_target or not self._is_free(target) or len(writers[target]) != 1:
            return False
        if root is target or root in self.pointers or root in self.strided:
            return False
        return self._join(target, copy.source, copy.shift)

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
        if not _are_apart([copies.get(id(k)) for k in writers[target]], target):
            return False
        self.movable.discard(source)
        return self._join(source, target, -copy.shift)

    def _join(self, tensor: Tensor, whole: Tensor, offset: int) -> bool:
        self.views[tensor] = whole
        self.offsets[tensor] = offset
        return True


def _are_apart(copies: Sequence[_Copy | None], target: Tensor) -> bool:
    """Whether all that is written to a tensor are distinct pieces of it."""
    ranges: list[tuple[int, int]] = []
    for copy in copies:
        if copy is None or copy.target is not target or not copy.all_of_source:
            return False
        size = as_int(count_of(copy.source))
        if size is None:
            return False
        ranges.append((-copy.shift, -copy.shift + size))
    ranges.sort()
    return all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))


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
    shift = as_int(shapes.sub(offset_of(read), offset_of(target)))
    if shift is None:
        return None
    return _Copy(
        read.tensor, target.tensor, shift, _is_whole(read, kernel), _is_whole(target, kernel)
    )


def _is_whole(access: Access, kernel: Reduce) -> bool:
    """Whether the points of a kernel reach every element of an access once."""
    indices = []
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        if isinstance(s.index, Index) and shapes.equal(s.index.extent, extent):
            indices.append(s.index)
        elif as_int(s.index) != 0 or as_int(extent) != 1:
            return False
    return len(set(indices)) == len(indices) == len(kernel.domain)
