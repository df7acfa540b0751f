"""Memory for what a program keeps and computes: aligned, and in large pages where it is large.

Packed weights are read once per call, in order, faster than a processor finds out where pages
of four kilobytes are.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..stored import Stored
from .arguments import Array

_ALIGNMENT = 64
_LARGE = 1 << 20
"""Bytes from which on memory is asked for in large pages."""
_PAGE = 2 << 20
"""Bytes of a large page."""
_APART = 1536
"""Bytes from the start of a page to that of a result: large arrays that are read begin with one. A
processor takes a read for one of what waits to be stored if both are at the same place of a page.
"""
_MOST_ALIGNED = 4 << 20
"""Bytes of an array that is copied to be aligned, at most."""


def block(size: int, used: int | None = None) -> tuple[Array, int]:
    """Memory of a size, and its aligned address; a little more is there than asked for.

    If some of it may never be touched, `used` bytes at the beginning are: large pages are for them.
    """
    memory = _memory(size + 2 * _ALIGNMENT, size if used is None else used)
    unit = _PAGE if size >= _LARGE else _ALIGNMENT
    return memory, -(-memory.ctypes.data // unit) * unit


def aligned_copy(array: Array) -> Array:
    """The same elements in memory of their own."""
    copy = _aligned_array(array)
    copy[...] = array
    return copy


def _aligned_array(like: Array | Stored) -> Array:
    """An array with any elements."""
    memory, address = block(like.nbytes)
    first = address - memory.ctypes.data
    return memory[first : first + like.nbytes].view(like.dtype).reshape(like.shape)


def blocks(sizes: Sequence[int]) -> tuple[Array, list[int]]:
    """Memory for several blocks, side by side, and the address of each."""
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total += -(-size // _ALIGNMENT) * _ALIGNMENT + 2 * _ALIGNMENT
    memory, start = block(total)
    return memory, [start + offset for offset in offsets]


def give_back() -> None:
    """Let the system have memory that the C library keeps for later, where there is a way."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _pages(size: int) -> mmap.mmap:
    """Memory of this process alone: systems rarely give large pages to what could be shared."""
    private = getattr(mmap, "MAP_PRIVATE", None)
    if private is None:
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=private | mmap.MAP_ANONYMOUS)


def _memory(size: int, used: int) -> Array:
    if size < _LARGE:
        return np.empty(size, np.uint8)
    return np.frombuffer(_pages_from(size, used)[0], np.uint8)


def _pages_from(size: int, used: int) -> tuple[mmap.mmap, int]:
    """Memory, and from which byte on it is aligned."""
    pages = _pages(size + _PAGE)
    first = -np.frombuffer(pages, np.uint8).ctypes.data % _PAGE
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    whole = used // _PAGE * _PAGE
    if advice is not None and whole:
        with contextlib.suppress(OSError):  # a kernel without large pages
            pages.madvise(advice, first, whole)
    return pages, first


def large_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An aligned array with any elements. Views refer to it, not to the memory behind it, so a
    count of references to it says whether somebody has its elements."""
    size = math.prod(shape) * dtype.itemsize
    pages, first = _pages_from(size + _APART, size)
    return np.ndarray(shape, dtype, pages, first + _APART)


def aligned(value: Array | Stored) -> Array:
    """An array in memory, aligned if a cache may hold it, or if it is read anyway: of NumPy's,
    three of four are not, and each vector of theirs is on two lines. From farther away that makes
    little difference."""
    if isinstance(value, Stored):
        return value.read(_aligned_array(value))
    near = value.nbytes <= _MOST_ALIGNED
    return aligned_copy(value) if near and value.ctypes.data % _ALIGNMENT else value


class Room:
    """Memory for arrays that are read in turn: the same again and again, while it is near, as long
    as about so much is needed."""

    def __init__(self) -> None:
        self._memory, self._address = block(0)
        self._size = 0

    def read(self, values: Sequence[Array | Stored]) -> list[Array]:
        """These arrays; those that are read are there until the next are."""
        stored = [v for v in values if isinstance(v, Stored)]
        sizes = [-(-v.nbytes // _ALIGNMENT) * _ALIGNMENT for v in stored]
        if not sum(sizes) <= self._size <= 2 * sum(sizes) + _LARGE:
            self._size = sum(sizes)
            self._memory, self._address = block(0)  # gives back what there was before
            self._memory, self._address = block(self._size)
        place = self._address - self._memory.ctypes.data
        found = []
        for value in values:
            if not isinstance(value, Stored):
                found.append(value)
                continue
            room = self._memory[place : place + value.nbytes]
            found.append(value.read(room.view(value.dtype).reshape(value.shape)))
            place += -(-value.nbytes // _ALIGNMENT) * _ALIGNMENT
        return found
