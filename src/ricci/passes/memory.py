"""Where every tensor of a program lives.

Requires: actions in their final order, and the tensors that are views of others. Ensures: a buffer
for every tensor that an action touches, large enough for the upper bounds of sizes; two tensors
share bytes only if their lifetimes are apart. Outputs are written in the caller's arrays. Does
not: change kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

import numpy as np

from ..ir.loops import (
    Block,
    Buffer,
    Choose,
    Kernel,
    Point,
    Repeat,
    Stop,
    all_actions,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Tensor
from ..ir.shapes import interval
from ..records import dataclass, replace

ALIGNMENT = 64
_GUARD = 64
"""Bytes after each tensor that are not given away."""


def size_of(tensor: Tensor, strides: Mapping[Tensor, tuple[int, ...]] | None = None) -> int:
    """Bytes of a concrete tensor, with every size at its bound."""
    shape = [max(int(interval(e)[1]), 0) for e in tensor.shape]
    count = math.prod(shape)
    steps = (strides or {}).get(tensor)
    if steps is not None and count:
        count = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
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
    last = {t: position for position, tensors in enumerate(written) for t in tensors}
    while _take_back(touched, written, fixed, varying, last):
        continue
    early = [k for k, f in zip(kernels, fixed, strict=True) if f]
    late = [k for k, f in zip(kernels, fixed, strict=True) if not f]
    kept = dict.fromkeys(_root(t, views) for k in early for t in tensors_written(k))
    return early, late, list(kept)


def _take_back(
    touched: list[set[Tensor]],
    written: list[set[Tensor]],
    fixed: list[bool],
    varying: set[Tensor],
    last: Mapping[Tensor, int],
) -> bool:
    """Take back kernels that touch a tensor which a varying kernel writes, or reads before the last
    of them has written it; whether any did."""
    changed = False
    for position, tensors in enumerate(touched):
        if not fixed[position]:
            early = {t for t in tensors - varying if last.get(t, 0) > position}
            varying |= early
            changed |= bool(early)
        if fixed[position] and not varying.isdisjoint(tensors):
            fixed[position] = False
            varying |= written[position]
            changed = True
    return changed


@dataclass(frozen=True, slots=True)
class Stay:
    """A tensor's bytes, and the first and last action for which it needs them."""

    tensor: Tensor
    size: int
    first: int
    last: int


def place(stays: Iterable[Stay]) -> tuple[dict[Tensor, int], int]:
    """Offsets of tensors in one arena, and its size: that of the better of two orders.

    Large ones first leaves gaps that others fit in; in the order of time suits what grows.
    """
    stays = list(stays)
    by_size = sorted(stays, key=lambda s: (-s.size, s.first))
    by_time = sorted(stays, key=lambda s: (s.first, -s.size))
    return min((_placed(by_size), _placed(by_time)), key=lambda found: found[1])


def _placed(stays: Sequence[Stay]) -> tuple[dict[Tensor, int], int]:
    """Each in turn in the smallest gap at its time that is large enough."""
    taken = np.zeros((4, len(stays)), np.int64)
    first, last, low, high = taken
    offsets: dict[Tensor, int] = {}
    for n, stay in enumerate(stays):
        there = np.flatnonzero((first[:n] <= stay.last) & (last[:n] >= stay.first))
        need = -(-(stay.size + _GUARD) // ALIGNMENT) * ALIGNMENT
        at = _gap(sorted(zip(low[there].tolist(), high[there].tolist(), strict=True)), need)
        taken[:, n] = stay.first, stay.last, at, at + need
        offsets[stay.tensor] = at
    return offsets, int(high.max(initial=0))


def _gap(taken: Iterable[tuple[int, int]], need: int) -> int:
    """Where the smallest gap of enough bytes begins between ranges in order, or behind them."""
    best, least, at = -1, math.inf, 0
    for low, high in taken:
        if need <= low - at < least:
            best, least = at, low - at
        at = max(at, high)
    return at if best < 0 else best


@dataclass(slots=True)
class _Lives:
    """When tensors are touched: a position for each action, and the ranges of loops."""

    touched: list[list[Tensor]] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)
    """First and last position of loops, inner ones first."""

    def block(self, block: Block) -> None:
        for action in block:
            match action:
                case Choose():
                    self.touched.append([action.test])
                    self.block(action.then)
                    self.block(action.otherwise)
                case Repeat():
                    first = len(self.touched)
                    self.block(action.before)
                    self.touched.append([action.test])
                    self.block(action.body)
                    self.loops.append((first, len(self.touched) - 1))
                    inside = (*action.before, *action.body)
                    packs = [t for a in all_actions(inside) if isinstance(a, Point) for t in a.pack]
                    self.touched[first] += packs  # a pack is touched until its pointer moves on
                    self.touched[-1] += packs
                case Point():
                    self.touched.append([action.index, *action.pack])
                case Stop():
                    pass
                case _:
                    self.touched.append(list(tensors_touched(action)))

    def spans(self, views: Mapping[Tensor, Tensor]) -> dict[Tensor, tuple[int, int]]:
        """First and last position of each tensor that has bytes.

        What goes into a loop or comes out of it lives as long as the whole loop.
        """
        spans: dict[Tensor, tuple[int, int]] = {}
        for position, tensors in enumerate(self.touched):
            for tensor in tensors:
                root = _root(tensor, views)
                spans[root] = (spans.get(root, (position, 0))[0], position)
        for start, end in self.loops:
            for root, (first, last) in spans.items():
                if first < start <= last <= end:
                    spans[root] = (first, end)
                elif start <= first <= end < last:
                    spans[root] = (start, last)
        return spans


def plan_memory(
    block: Block,
    fixed: Mapping[Tensor, Buffer],
    views: Mapping[Tensor, Tensor],
    starts: Mapping[Tensor, int],
    strides: Mapping[Tensor, tuple[int, ...]],
) -> tuple[dict[Tensor, Buffer], tuple[tuple[int, int, int], ...], int]:
    """Buffers of all tensors that the actions touch; from where to where in the arena there is
    nothing during each action, and behind which byte; and all of its bytes.

    `fixed` have theirs already; `views` names the tensor whose bytes another one is, and `starts`
    the element of the last of these at which it begins. `strides` are those of tensors that are
    not row-major.
    """
    lives = _Lives()
    ends = []
    for action in block:
        lives.block((action,))
        ends.append(len(lives.touched))
    stays = [
        Stay(tensor, size_of(tensor, strides), *span)
        for tensor, span in lives.spans(views).items()
        if tensor not in fixed
    ]
    offsets, size = place(stays)
    places = {**fixed, **{t: Buffer("arena", 0, offset) for t, offset in offsets.items()}}
    touched = dict.fromkeys(t for tensors in lives.touched for t in tensors)
    return (
        {t: _within(t, places, views, starts) for t in touched},
        _room(stays, offsets, ends),
        size,
    )


def _room(
    stays: Sequence[Stay], offsets: Mapping[Tensor, int], ends: Sequence[int]
) -> tuple[tuple[int, int, int], ...]:
    """The largest gap, and the end of all, from position to position."""
    rows = [
        (offsets[s.tensor], offsets[s.tensor] + s.size + _GUARD, s.first, s.last) for s in stays
    ]
    low, high, first, last = np.array(sorted(rows), np.int64).reshape(-1, 4).T
    found = []
    for begin, end in pairwise([0, *ends]):
        there = (first < end) & (last >= begin)
        before = np.concatenate([[0], np.maximum.accumulate(high[there])])
        gaps = low[there] - before[:-1]
        best = int(gaps.argmax()) if gaps.size else 0
        most = max(int(gaps.max(initial=0)), 0)
        found.append((int(before[best]), int(before[best]) + most, int(before[-1])))
    return tuple(found)


def _within(
    tensor: Tensor,
    places: Mapping[Tensor, Buffer],
    views: Mapping[Tensor, Tensor],
    starts: Mapping[Tensor, int],
) -> Buffer:
    """Where a tensor is, which may be a part of another."""
    buffer = places[_root(tensor, views)]
    start = starts.get(tensor, 0) * tensor.dtype.numpy().itemsize
    return replace(buffer, offset=buffer.offset + start)


def _root(tensor: Tensor, views: Mapping[Tensor, Tensor]) -> Tensor:
    while tensor in views:
        tensor = views[tensor]
    return tensor
