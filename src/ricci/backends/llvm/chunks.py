"""Into how many chunks work is cut for threads."""

from __future__ import annotations

MOST_CHUNKS = 64
CHUNK_NS, WORTH_SHARING = 4000.0, 6000.0
"""Rough nanoseconds of work below which a chunk is not worth handing to another thread; and a
kernel runs on the caller alone."""


def chunks_of(work: float) -> int:
    """The chunks that so many nanoseconds of work are worth: two at least if it is shared at
    all."""
    return max(int(work // CHUNK_NS), 2 if work >= WORTH_SHARING else 1)
