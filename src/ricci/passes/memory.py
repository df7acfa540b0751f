"""Where every tensor of a program lives.

Requires: kernels in their final order, and the tensors that are views of others. Ensures: a buffer
for every tensor that a kernel touches; two tensors share bytes only if their lifetimes are apart.
Outputs are written in the caller's arrays. Does not: change kernels.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from ..ir.loops import Buffer, Kernel, tensors_touched, tensors_written
from ..ir.nodes import Const, Tensor

ALIGNMENT = 64
_GUARD = 64
"""Bytes after each tensor that are not given away."""


def size_of(tensor: Tensor) -> int:
    """Bytes of a concrete tensor."""
    count = math.prod(int(cast(Const, e).value) for e in tensor.shape)
    return count * tensor.dtype.numpy().itemsize


def split_constant(
    kernels: Sequence[Kernel],
    constant: Iterable[Tensor],
    results: Iterable[Tensor],
    views: Mapping[Tensor, Tensor],
) -> tuple[list[Kernel], list[Kernel], list[Tensor]]:
    """The kernels that depend on constant tensors alone, the others, and what the former write.

    Kernels that write `results` are never among the former.
    """
    known, varying = set(constant), set(results)
    touched = [{_root(t, views) for t in tensors_touched(k)} for k in kernels]
    written = [{_root(t, views) for t in tensors_written(k)} for k in kernels]
    fixed = [False] * len(kernels)
    for position in range(len(kernels)):
        inputs = touched[position] - written[position]
        fixed[position] = inputs <= known and varying.isdisjoint(written[position])
        (known if fixed[position] else varying).update(written[position])
        known -= varying
    while _take_back(touched, written, fixed, varying):
        continue
    early = [k for k, f in zip(kernels, fixed, strict=True) if f]
    late = [k for k, f in zip(kernels, fixed, strict=True) if not f]
    kept = dict.fromkeys(_root(t, views) for k in early for t in tensors_written(k))
    return early, late, list(kept)


def _take_back(
    touched: list[set[Tensor]], written: list[set[Tensor]], fixed: list[bool], varying: set[Tensor]
) -> bool:
    """Take back kernels that touch a tensor which a varying kernel writes; whether any did."""
    changed = False
    for position, tensors in enumerate(touched):
        if fixed[position] and not varying.isdisjoint(tensors):
            fixed[position] = False
            varying |= written[position]
            changed = True
    return changed


class Planner:
    """Offsets in one arena: the lowest gap that fits, the largest tensors of a moment first."""

    def __init__(self) -> None:
        self.size = 0
        self._live: list[tuple[int, int, Tensor]] = []

    def place(self, tensor: Tensor) -> int:
        """Room for a tensor: the smallest gap that is large enough."""
        need = -(-(size_of(tensor) + _GUARD) // ALIGNMENT) * ALIGNMENT
        best, least = None, math.inf
        at = 0
        for offset, size, _ in self._live:
            if need <= offset - at < least:
                best, least = at, offset - at
            at = offset + size
        start = at if best is None else best
        insort(self._live, (start, need, tensor), key=lambda x: x[0])
        self.size = max(self.size, start + need)
        return start

    def release(self, tensor: Tensor) -> None:
        self._live = [x for x in self._live if x[2] is not tensor]


def plan_memory(
    kernels: Sequence[Kernel],
    fixed: Mapping[Tensor, Buffer],
    views: Mapping[Tensor, Tensor],
) -> tuple[dict[Tensor, Buffer], int]:
    """Buffers of all tensors that the kernels touch, and the bytes of the arena.

    `fixed` have theirs already; `views` names the tensor whose bytes another one is.
    """
    root = {t: _root(t, views) for k in kernels for t in tensors_touched(k)}
    buffers: dict[Tensor, Buffer] = {}
    last: dict[Tensor, int] = {}
    for position, kernel in enumerate(kernels):
        for tensor in tensors_touched(kernel):
            last[root[tensor]] = position
    ends: dict[int, list[Tensor]] = {}
    for tensor, position in last.items():
        ends.setdefault(position, []).append(tensor)
    planner = Planner()
    places: dict[Tensor, Buffer] = dict(fixed)
    for position, kernel in enumerate(kernels):
        new = [root[t] for t in tensors_touched(kernel) if root[t] not in places]
        for tensor in sorted(dict.fromkeys(new), key=size_of, reverse=True):
            places[tensor] = Buffer("arena", 0, planner.place(tensor))
        for tensor in ends.get(position, ()):
            if places[tensor].kind == "arena":
                planner.release(tensor)
    for tensor, base in root.items():
        buffers[tensor] = places[base]
    return buffers, planner.size


def _root(tensor: Tensor, views: Mapping[Tensor, Tensor]) -> Tensor:
    while tensor in views:
        tensor = views[tensor]
    return tensor
