"""Random shapes, axes and arrays. Reals are exact in single precision, so that both
executors and the oracles see the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from .case import Array

Rng = np.random.Generator
T = TypeVar("T")


def integer(rng: Rng, low: int, high: int) -> int:
    """An integer from low to high, both included."""
    return int(rng.integers(low, high + 1))


def coin(rng: Rng, chance: float = 0.5) -> bool:
    return bool(rng.random() < chance)


def choice(rng: Rng, items: Sequence[T]) -> T:
    return items[integer(rng, 0, len(items) - 1)]


def extent(rng: Rng, high: int = 5) -> int:
    """An extent, now and then 0, 1, or larger than a vector register."""
    draw = rng.random()
    if draw < 0.04:
        return 0
    if draw < 0.15:
        return 1
    return integer(rng, 2, high) if draw < 0.9 else integer(rng, high, max(high, 19))


def shape(rng: Rng, rank: int | None = None, high: int = 5) -> list[int]:
    """A shape of any rank from 0 to 4, or of the given one."""
    if rank is None:
        rank = integer(rng, 0, 4)
    extents = [extent(rng, high) for _ in range(rank)]
    if rank in (1, 2) and coin(rng, 0.1):  # long enough for several vectors and threads
        extents[-1] = integer(rng, 100, 3000)
    return extents


def positive(rng: Rng, rank: int, high: int = 5) -> list[int]:
    """A shape without zeros."""
    return [max(1, extent(rng, high)) for _ in range(rank)]


def signed(rng: Rng, axis: int, rank: int) -> int:
    """The axis, or the same counted from the end."""
    return axis - rank if coin(rng) else axis


def axes(rng: Rng, rank: int, least: int = 0) -> list[int]:
    """Some axes in any order, counted from the front."""
    count = integer(rng, min(least, rank), rank)
    return [int(a) for a in rng.permutation(rank)[:count]]


def reals(rng: Rng, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Array:
    """Reals between low and high, as doubles that are exact in single precision."""
    return np.asarray(rng.uniform(low, high, shape)).astype(np.float32).astype(np.float64)


def whole(rng: Rng, shape: Sequence[int], low: int = -9, high: int = 9) -> Array:
    """Whole numbers as reals: sums are exact, and some are equal."""
    return np.asarray(rng.integers(low, high + 1, shape)).astype(np.float64)


def ints(rng: Rng, shape: Sequence[int], low: int = -9, high: int = 9) -> Array:
    return np.asarray(rng.integers(low, high + 1, shape, dtype=np.int64))


def bools(rng: Rng, shape: Sequence[int], chance: float = 0.5) -> Array:
    return np.asarray(rng.random(shape) < chance)


def anything(rng: Rng, shape: Sequence[int]) -> Array:
    """An array of any type."""
    kind = choice(rng, ("real", "real", "int", "bool"))
    if kind == "real":
        return reals(rng, shape)
    return ints(rng, shape) if kind == "int" else bools(rng, shape)


def numbers(rng: Rng, shape: Sequence[int], low: int = -9, high: int = 9) -> Array:
    """Reals, whole reals, or ints."""
    kind = choice(rng, ("real", "whole", "int"))
    if kind == "real":
        return reals(rng, shape, low, high)
    return ints(rng, shape, low, high) if kind == "int" else whole(rng, shape, low, high)
