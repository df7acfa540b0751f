"""New arrays for results; big ones where earlier results were that nobody has any more.

Memory that the operating system has just given is slow to write to for the first time: a result of
50 MB takes milliseconds more. Therefore the last big results are kept, and one is used again
when nothing else refers to it. They are aligned: what goes past the caches is written by lines.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from .. import config
from .arguments import Array
from .blocks import large_array

BIG = 1 << 20
"""Bytes from which a result is kept."""

Wanted = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and dtype of an array."""


class Kept:
    """Results of this process: the oldest is given up when all take more memory than they may."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._lock = Lock()

    def make(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array with any elements."""
        with self._lock:
            for k, count in enumerate(_count_references(self._arrays)):
                if count == _ONLY_KEPT:
                    array = self._arrays[k]
                    if array.shape == shape and array.dtype == dtype and _is_as_made(array):
                        self._arrays.append(self._arrays.pop(k))
                        return array
            array = large_array(shape, dtype)
            self._arrays.append(array)
            self._limit(int(config.get("keep_results")) << 20)
        return array

    def _limit(self, most: int) -> None:
        """Give up the oldest arrays until the others take so many bytes at most."""
        total = sum(a.nbytes for a in self._arrays)
        while total > most:
            total -= self._arrays.pop(0).nbytes


def _count_references(arrays: Sequence[Array]) -> list[int]:
    return list(map(sys.getrefcount, arrays))


_ONLY_KEPT = _count_references([np.empty(0)])[0]
"""The count of an array that nothing but the list refers to: no caller, and no view of it."""


def _is_as_made(array: Array) -> bool:
    """Whether nobody looks at an array without holding it, or has changed what can be done."""
    flags = array.flags
    return bool(flags.writeable and flags.c_contiguous and not weakref.getweakrefcount(array))


_kept = Kept()


def make_results(wanted: Sequence[Wanted]) -> list[Array]:
    """An array for each result, with any elements."""
    return [np.empty(shape, dtype) for shape, dtype in wanted]


def make_big_results(wanted: Sequence[Wanted]) -> list[Array]:
    """An array for each result, some of which are big."""
    return [
        # `maker` without a call: after a kernel that has filled the cache each takes a microsecond
        (_kept.make if math.prod(shape) * dtype.itemsize >= BIG else np.empty)(shape, dtype)
        for shape, dtype in wanted
    ]


def maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[..., Array]:
    """What makes an array for a result of this shape and dtype."""
    return _kept.make if is_big(shape, dtype) else np.empty


def is_big(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    return bytes_of(shape, dtype) >= BIG


def bytes_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize
