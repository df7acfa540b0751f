"""What is derived from variables once, part by part, so that few of them are in memory at a time.

A part is steps that have to do with each other: they read or write the same kept blocks. The
largest come first: what they read takes memory while little is kept yet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ..backends.llvm.steps import Image, Info, Step
from ..records import cached_property, dataclass

AT_ONCE = 4 << 20
"""Bytes of variables that are read together if there are so many."""


@dataclass(frozen=True)
class Part:
    """Steps in their order; the variables that they read, the kept blocks that they touch."""

    steps: tuple[Step, ...]

    @cached_property
    def variables(self) -> frozenset[int]:
        return self._numbers("variable")

    @cached_property
    def kept(self) -> frozenset[int]:
        return self._numbers("kept")

    def _numbers(self, kind: str) -> frozenset[int]:
        return frozenset(x.number for s in self.steps for x in s.slots if x.kind == kind)

    def bytes(self, variables: Sequence[Info]) -> int:
        return sum(variables[k].bytes for k in self.variables)


def needed_later(image: Image) -> Part:
    """What calls read."""
    return Part(image.steps)


def parts_of(image: Image) -> list[Part]:
    """The parts of the preparation, with small ones put together."""
    parts = [Part(tuple(steps)) for steps in _connected(image.prepare)]
    parts.sort(key=lambda p: p.bytes(image.variables), reverse=True)
    return list(_together(parts, image.variables))


def _connected(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps that share a kept block, directly or through others, in their order."""
    first: dict[object, int] = {}
    leader = list(range(len(steps)))

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    for number, step in enumerate(steps):
        for slot in step.slots:
            if slot.kind in ("kept", "arena"):
                place = slot.number if slot.kind == "kept" else "arena"
                leader[find(number)] = find(first.setdefault(place, number))
    groups: dict[int, list[Step]] = {}
    for number, step in enumerate(steps):
        groups.setdefault(find(number), []).append(step)
    return list(groups.values())


def _together(parts: Sequence[Part], variables: Sequence[Info]) -> Iterator[Part]:
    """Neighbours as one part, as long as they read little."""
    while parts:
        sums = itertools.accumulate(p.bytes(variables) for p in parts)
        count = max(1, sum(1 for _ in itertools.takewhile(lambda n: n <= AT_ONCE, sums)))
        yield Part(tuple(s for p in parts[:count] for s in p.steps))
        parts = parts[count:]
