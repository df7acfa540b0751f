"""Searching for values that satisfy relations, and for the relations that leave none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from .relations import Box, Empty, System

T = TypeVar("T")


class Exhausted(Exception):
    """A search took more work than it may."""


def put(system: System, box: Box, key: Hashable, value: int) -> Box | None:
    """A box in which an unknown has a value; `None` if that contradicts."""
    chosen = dict(box)
    chosen[key] = (value, value)
    try:
        system.narrow(chosen, key)
    except Empty:
        return None
    return chosen


def search(
    system: System,
    start: Box,
    order: Sequence[Hashable],
    limit: int,
    finish: Callable[[Box], Box | None] = lambda box: box,
) -> Iterator[Box]:
    """Every way to choose values of unknowns, smallest first, those of the first changing last.

    `finish` completes what was chosen, or rejects it. Raises `Exhausted` once `limit`
    relations were narrowed and nothing was found.
    """
    last = system.work
    levels: list[tuple[Box, Iterator[int]]] = []
    reached: Box | None = start
    while True:
        if reached is not None and len(levels) < len(order):
            low, high = reached[order[len(levels)]]
            levels.append((reached, iter(range(low, high + 1))))
        elif reached is not None:
            finished = finish(reached)
            if finished is not None:
                yield finished
                last = system.work
        reached = None
        while levels and reached is None:
            box, values = levels[-1]
            value = next(values, None)
            if value is None:
                levels.pop()
                continue
            if system.work - last > limit:
                raise Exhausted
            reached = put(system, box, order[len(levels) - 1], value)
        if reached is None:
            return


def core(items: Sequence[T], is_possible: Callable[[Sequence[T]], bool]) -> list[T]:
    """The fewest items, or nearly so, that are not possible together; all of them are not.

    Each is found as the last that is needed, by halving.
    """
    needed: list[T] = []
    rest = list(items)
    while is_possible(needed):
        low, high = 1, len(rest)
        while low < high:
            middle = (low + high) // 2
            if is_possible([*rest[:middle], *needed]):
                low = middle + 1
            else:
                high = middle
        if not rest:
            break
        needed.insert(0, rest[low - 1])
        rest = rest[: low - 1]
    return needed
