"""Where a thread keeps the rows of a group's local tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.loops import Group, tensors_touched
from ...ir.nodes import Tensor
from ...records import dataclass
from .emit_parts import Kept
from .emit_types import width
from .sizes import likely, row_major, sizes_of

LINE = 64
"""Tensors begin at multiples of so many bytes, and something is left between them."""
CLASH = 2048
"""Rows that begin a multiple of it apart share few lines of the caches."""

Stretch = tuple[int, ...]
"""The numbers of kernels that are done in turn at the same few points."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is kept of a tensor: `step` bytes for each value of the last shared index, from the
    kernel with the number `first` to that with the number `last`."""

    tensor: Tensor
    kept: Kept
    size: int
    """Bytes of a row."""
    step: int
    first: int
    last: int
    stretch: int | None
    """The stretch that alone touches it: then rows of few points are kept, else of a block."""


def rooms_of(group: Group, stretches: Sequence[Stretch]) -> list[Room]:
    """The rooms of the local tensors, in the order of their first use."""
    targets = {t.tensor: t for k in group.kernels for t in k.targets}
    found = []
    for number, tensor in enumerate(group.local):
        users = [n for n, k in enumerate(group.kernels) if tensor in tensors_touched(k)]
        alone = [n for n, s in enumerate(stretches) if set(users) <= {*s}]
        indices = [s.index for s in targets[tensor].subscripts]
        steps, size, step = _row(group, tensor, indices)
        kept = Kept(number + 1, steps)
        only = alone[0] if alone and len(stretches) > 1 else None
        found.append(Room(tensor, kept, size, step, users[0], users[-1], only))
    return sorted(found, key=lambda room: room.first)


def _row(
    group: Group, tensor: Tensor, indices: Sequence[object]
) -> tuple[tuple[int, ...], int, int]:
    """The strides of a tensor of which rows are kept, the bytes of a row, and from row to row."""
    shared = [i in group.shared for i in indices]
    shape = [1 if x else n for x, n in zip(shared, sizes_of(tensor.shape), strict=True)]
    bytes_of = width(tensor.dtype)
    count = math.prod(map(likely, shape))
    dense = zip(shared, row_major(shape), strict=True)
    steps = [0 if x or not isinstance(n, int) else n for x, n in dense]
    size, step = count * bytes_of, 0
    if group.shared[-1] in indices:
        if size % CLASH == 0:
            count += LINE // bytes_of
        steps[indices.index(group.shared[-1])] = count
        step = count * bytes_of
    return tuple(steps), size, step


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a thread: where rooms begin, and how many bytes that takes."""

    offsets: dict[Tensor, int]
    size: int


def share_rows(rooms: Sequence[Room]) -> dict[Tensor, int]:
    """For each tensor of which the rows of a block are kept the number of its place; tensors
    with equal rows have the same if one is done with when the other is first written."""
    last: list[tuple[Room, int]] = []
    places: dict[Tensor, int] = {}
    for room in (r for r in rooms if r.stretch is None):
        free = (n for n, (r, end) in enumerate(last) if r.step == room.step and end < room.first)
        number = next(free, len(last))
        last[number : number + 1] = [(room, room.last)]
        places[room.tensor] = number
    return places


def row_bytes(rooms: Sequence[Room]) -> int:
    """Bytes that a row of a block takes."""
    places = share_rows(rooms)
    return sum({places[r.tensor]: r.step for r in rooms if r.stretch is None}.values())


def plan_memory(rooms: Sequence[Room], block: int, few: Sequence[int]) -> Memory:
    """Room for `block` rows, and of what one stretch alone touches for `few` rows."""
    places, offsets = share_rows(rooms), dict[Tensor, int]()
    starts: dict[int, int] = {}
    at = 0
    for room in rooms:
        count = block if room.stretch is None else few[room.stretch]
        if room.stretch is None and places[room.tensor] in starts:
            offsets[room.tensor] = starts[places[room.tensor]]
            continue
        offsets[room.tensor] = at
        if room.stretch is None:
            starts[places[room.tensor]] = at
        at += (-(-max(room.step * count, room.size) // LINE) + 1) * LINE
    return Memory(offsets, at)
