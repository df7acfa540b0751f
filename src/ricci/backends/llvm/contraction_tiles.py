"""The register tiles of contractions: which there are, and how many cycles they take."""

from __future__ import annotations

import functools

from .microkernel import IN_TURN
from .target import Target

MOST_ROWS = 16
"""Rows of a register tile."""
_LEAST_ROWS = 4
"""Rows of tiles other than the best that are worth a try."""
_HARDLY = 1.05
"""How many times the cycles of the best tile others may take that are worth a try."""


@functools.lru_cache(256)
def best_tile(
    rows: int, columns: int, lanes: int, target: Target, most_rows: int = MOST_ROWS
) -> tuple[int, int]:
    """Rows and vectors of the register tile that waste least."""
    shapes = [(r, v) for r, v in tiles(target) if r <= most_rows]
    _, r, v = min((tile_cost(rows, columns, r, v, lanes, target), r, v) for r, v in shapes)
    return min(r, rows), min(v, -(-columns // lanes))


@functools.lru_cache(256)
def good_tiles(
    rows: int, columns: int, lanes: int, target: Target, most_rows: int = MOST_ROWS
) -> tuple[tuple[int, int], ...]:
    """For each number of vectors the tile that wastes least, if that is hardly more than the best
    wastes, and where vectors are done in halves of those that do two k in a turn, too; those of few
    rows read columns too often."""
    found: dict[tuple[int, bool], tuple[float, int]] = {}
    for r, v in tiles(target):
        if _LEAST_ROWS <= r <= min(most_rows, rows) and v <= -(-columns // lanes):
            cost = (tile_cost(rows, columns, r, v, lanes, target), r)
            kind = v, target.halves and r * v <= IN_TURN[64]
            found[kind] = min(cost, found.get(kind, cost))
    most = _HARDLY * min((cost for cost, _ in found.values()), default=0.0)
    return tuple((r, v) for (v, _), (cost, r) in found.items() if cost <= most)


@functools.lru_cache(8)
def tiles(target: Target) -> tuple[tuple[int, int], ...]:
    """The register tiles that leave room for the vectors and one broadcast."""
    found = []
    for vectors in range(1, 9):
        for rows in range(1, MOST_ROWS + 1):
            if has_room(rows, vectors, target):
                found.append((rows, vectors))
    return tuple(found)


def has_room(rows: int, vectors: int, target: Target) -> bool:
    """Whether there are registers for the sums of a tile, its vectors and one broadcast."""
    kept = vectors if target.fused else min(rows, vectors)
    return rows * vectors + kept < target.registers


def tile_cost(rows: int, columns: int, r: int, v: int, lanes: int, target: Target) -> float:
    """Cycles per k for the whole result, in tiles of `r` rows and `v` vectors."""
    total = 0.0
    wide = -(-columns // lanes)
    for count, height in equal_pieces(rows, r):
        for times, width in equal_pieces(wide, v):
            total += count * times * _cycles(height, width, target)
    return total


def multiply_adds(rows: int, vectors: int, target: Target) -> float:
    """Half cycles that the arithmetic units take for one k of a tile."""
    if target.adds_apart and target.fused:
        # sums take other units' time, too, and all that begins in a cycle is shared
        return (rows * vectors * 4 / 3 + (rows + vectors) * 0.4) * target.slower
    if target.fused:
        return rows * vectors * target.slower
    # products, sums, and the shuffles that broadcast, share three units
    return (2 * rows * vectors + rows) * 2 / 3


def equal_pieces(extent: int, step: int) -> list[tuple[int, int]]:
    """Pieces of an extent, and the rest: how many, and how long."""
    pieces = [(extent // step, step), (1, extent % step)]
    return [(n, s) for n, s in pieces if n and s]


def even_pieces(extent: int, most: int) -> list[tuple[int, int]]:
    """The same of pieces that are no longer than `most`, and nearly as long as each other."""
    count = -(-extent // most)
    return equal_pieces(extent, -(-extent // count))


def _cycles(rows: int, vectors: int, target: Target) -> float:
    """Cycles of one k of a tile: multiply-adds, their latency, or loads; a little for the loop."""
    work = multiply_adds(rows, vectors, target)
    latency = target.accumulators / 2
    # an element that is broadcast takes as long to load as a vector that is no longer than a half
    each = 0.5 if target.long else 1.2 if target.narrow else 1.0
    loads = (vectors * (1 + vectors * 0.02) + rows * each) * target.slower
    return max(work, latency, loads) + 0.05 * loads + 0.5
