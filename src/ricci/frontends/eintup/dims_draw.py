"""Drawing the dims of a program at given ranks: legal ones, and edges likelier than the middle.

Extents are drawn one after the other, each from what the constraints leave of its interval.
Where arrays would become too large, smaller extents are drawn, as far as the constraints let them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod

import numpy as np

from ...diagnostics import Error
from ...records import dataclass
from . import syntax as s
from .dims_findings import dims_contradiction
from .dims_rules import Key, definitions, keys_at, known_box, rules_at
from .program import Configuration, Program
from .relations import INFINITY, Box, Empty, Interval, System
from .search import Exhausted, put, search
from .uses import accesses, variables

LARGEST_ARRAY = 10**6
"""Elements of the largest array that is drawn, where the constraints leave a choice."""

_LARGEST_LOOP = 10
"""How many times as many combinations of indices a statement may have."""

_WIDER: tuple[Interval, ...] = ((1, 64), (0, 4096))
"""What unbounded extents are drawn from where no smaller ones are legal."""

_TRIES = 4
"""Draws at each scale, and of each extent."""

_SCALES = 64
"""How often intervals are halved."""

_WORK = 20_000
"""How many relations may be narrowed by draws that all fail, and then by a systematic search."""

_UNBOUNDED = INFINITY // 2


def draw_dims(
    program: Program,
    ranks: Mapping[str, int],
    rng: np.random.Generator,
    default: Interval = (1, 8),
    known: Mapping[str, tuple[int, ...]] | None = None,
    largest: int = LARGEST_ARRAY,
) -> Configuration:
    """A legal configuration at legal ranks, with the dims that are `known`: these may be beyond
    their intervals.

    `default` are the bounds of extents that no constraint bounds; arrays have at most `largest`
    elements where the constraints leave a choice. Raises `Error` if there are no legal
    dims, or none are found.
    """
    rules = rules_at(program, ranks, known or {})
    start = known_box(ranks, known or {})
    system = System([rule.relation for rule in rules])
    independent = _in_order(program, ranks, known or {})
    for bounds in (default, *_WIDER):
        box = _start(system, start, independent, bounds)
        if box is not None:
            found = _Drawing(program, ranks, system, box, independent, rng, largest).draw()
            if found is not None:
                return _configuration(program, ranks, found)
    raise Error([dims_contradiction(program, ranks, known or {})])


def _in_order(
    program: Program, ranks: Mapping[str, int], known: Mapping[str, tuple[int, ...]]
) -> list[Key]:
    """The extents that nothing computes."""
    fixed = {*definitions(program), *known}
    return [(name, k) for name in program.eintups if name not in fixed for k in range(ranks[name])]


def _start(system: System, start: Box, independent: Sequence[Key], default: Interval) -> Box | None:
    """The intervals to draw from, the independent extents first; `None` if one is empty."""
    wide = {key: (-INFINITY if low == 0 else low, high) for key, (low, high) in start.items()}
    try:
        system.narrow(wide)
        box: Box = {key: _bounded(wide[key], default) for key in independent}
        box |= {key: (max(low, 0), high) for key, (low, high) in wide.items() if key not in box}
        system.narrow(box)
    except Empty:
        return None
    return box


def _bounded(interval: Interval, default: Interval) -> Interval:
    """An interval with the default bounds where it has none of its own."""
    low, high = interval
    if low < -_UNBOUNDED:
        low = min(default[0], high)
    if high > _UNBOUNDED:
        high = default[1] if low <= default[0] else low + default[1] - default[0]
    return max(low, 0), high


@dataclass(frozen=True, slots=True)
class _Drawing:
    program: Program
    ranks: Mapping[str, int]
    system: System
    start: Box
    independent: Sequence[Key]
    rng: np.random.Generator
    largest: int

    def draw(self) -> Box | None:
        """Extents that suit, else the smallest arrays that were met, else what a search finds."""
        smallest: tuple[float, Box] | None = None
        for scale in range(_SCALES):
            for _ in range(_TRIES):
                found = self._attempt(scale)
                if found is None:
                    continue
                size = self._size(found)
                if size <= self.largest:
                    return found
                if smallest is None or size < smallest[0]:
                    smallest = size, found
            if smallest is None and self.system.work > _WORK:
                break
            if all(self._width(key) >> scale == 0 for key in self.independent):
                break
        return smallest[1] if smallest is not None else self._search()

    def _width(self, key: Key) -> int:
        low, high = self.start[key]
        return high - low

    def _search(self) -> Box | None:
        found = search(self.system, self.start, tuple(self.start), _WORK)
        try:
            return next(found, None)
        except Exhausted:
            return None

    def _attempt(self, scale: int) -> Box | None:
        """One draw, from the lower part of each interval."""
        least = int(self.rng.random() < 0.75)  # empty arrays test little
        box: Box | None = dict(self.start)
        for key in self.start:
            if box is None:
                break
            if box[key][0] != box[key][1]:
                box = self._draw_one(box, key, least, scale)
        return box

    def _draw_one(self, box: Box, key: Hashable, least: int, scale: int) -> Box | None:
        low, high = box[key]
        low = min(max(low, least), high)
        high = low + ((min(high, 2**62) - low) >> scale)
        tries = (put(self.system, box, key, self._pick(low, high)) for _ in range(_TRIES))
        return next((found for found in tries if found is not None), None)

    def _pick(self, low: int, high: int) -> int:
        edge = self.rng.random()
        if edge < 0.3:
            return low if edge < 0.15 else high
        return int(self.rng.integers(low, high, endpoint=True))

    def _size(self, box: Box) -> float:
        """The elements of the largest array, or what they may be of the largest statement."""
        extents: dict[str, int] = {}
        for name, k in keys_at(self.ranks):
            extents[name] = extents.get(name, 1) * box[name, k][0]
        sizes = [0.0]
        for statement in self.program.file.statements:
            sizes.append(_volume(statement, extents) / _LARGEST_LOOP)
            sizes += (_volume(access, extents) for access in accesses(statement))
        return max(sizes)


def _volume(node: s.Statement | s.Access | s.Slice, extents: Mapping[str, int]) -> int:
    return prod(extents.get(name, 1) for name in variables(node))


def _configuration(program: Program, ranks: Mapping[str, int], box: Box) -> Configuration:
    names = program.eintups
    return Configuration({n: tuple(box[n, k][0] for k in range(ranks[n])) for n in names})
