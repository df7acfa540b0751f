"""Memory for what a program keeps and computes: aligned, and in large pages where it is large.

Packed weights are read once per call, in order, faster than a processor finds out where pages
of four kilobytes are.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence

import numpy as np

from .arguments import Array

_ALIGNMENT = 64
_LARGE = 1 << 20
"""Bytes from which on memory is asked for in large pages."""
_PAGE = 2 << 20
"""Bytes of a large page."""


def block(size: int) -> tuple[Array, int]:
    """Memory of a size, and its aligned address; a little more is there than asked for."""
    memory = _memory(size + 2 * _ALIGNMENT)
    unit = _PAGE if size >= _LARGE else _ALIGNMENT
    return memory, -(-memory.ctypes.data // unit) * unit


def blocks(sizes: Sequence[int]) -> tuple[Array, list[int]]:
    """Memory for several blocks, side by side, and the address of each."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // _ALIGNMENT) * _ALIGNMENT + 2 * _ALIGNMENT
    memory, start = block(total)
    return memory, [start + offset for offset in offsets]


def _memory(size: int) -> Array:
    if size < _LARGE:
        return np.empty(size, np.uint8)
    pages = mmap.mmap(-1, size + _PAGE)
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        with contextlib.suppress(OSError):  # a kernel without large pages
            pages.madvise(advice)
    return np.frombuffer(pages, np.uint8)
