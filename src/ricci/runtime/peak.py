"""What this machine can do at most: operations and bytes per second, measured just now."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..backends.llvm.jit import Library
from ..backends.llvm.peak import CHAINS, UNROLLED, loop_text
from ..dtypes import DType
from .arguments import Array
from .pool import make_module, this_machine

PAUSE = 0.05
"""Seconds before a measurement: idle workers of some pool still spin for some milliseconds, and
would take a core from it."""
SMALLEST, LARGEST = 1 << 15, 1 << 29
"""Bytes for which bandwidths are measured."""
_LARGE = 1 << 28
"""Bytes that are more than caches hold."""

Loop = Callable[[int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class Rates:
    """What `threads` threads can do at most together, per second.

    `flops` are operations of multiply-adds, of float32 and of float64; `memory` and `cache` are
    bytes read, from memory and from half of the second cache of each core.
    """

    threads: int
    flops: float
    flops64: float
    memory: float
    cache: float

    def of(self, dtype: DType) -> float:
        """Operations of a type: those of float64 are slower."""
        return self.flops64 if dtype is DType.FLOAT64 else self.flops


class Peak:
    """What this machine can do at most, measured just now by `threads` threads at once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._bandwidths: dict[tuple[str, int], float] = {}

    def flops(self, seconds: float = 0.05, dtype: DType = DType.FLOAT32) -> float:
        """Operations per second of a loop of independent multiply-adds on all threads."""
        steps, lanes = 1 << 16, this_machine().lanes(dtype)
        spent = self._seconds(_loop("compute", dtype), steps, (CHAINS * 64,) * 2, seconds)
        return self.threads * steps * 2 * lanes * CHAINS / spent

    def bandwidth(self, kind: str, footprint: int) -> float:
        """Bytes per second that all threads together read (`read`), or read and write (`copy`), of
        about as many bytes as `footprint`, again and again."""
        size = 1 << round(math.log2(min(max(footprint, SMALLEST), LARGEST)))
        if (kind, size) not in self._bandwidths:
            loops = ["read"] if kind == "read" else ["copy", "stream"]
            self._bandwidths[kind, size] = max(self._moved(loop, size) for loop in loops)
        return self._bandwidths[kind, size]

    def _moved(self, loop: str, size: int) -> float:
        each = size // self.threads // (1 if loop == "read" else 2)  # bytes of an array
        steps = each // (UNROLLED * this_machine().vector_bytes)
        to = CHAINS * 64 if loop == "read" else each
        return size / self._seconds(_loop(loop, DType.FLOAT32), steps, (each, to), 0.02)

    def _seconds(self, loop: Loop, steps: int, sizes: tuple[int, int], seconds: float) -> float:
        """The best time for `steps` steps, done by every thread on two arrays of its own."""
        arrays = [tuple(map(_aligned, sizes)) for _ in range(self.threads)]

        def run(repeats: int) -> float:
            return _together(
                [
                    functools.partial(loop, steps, repeats, x.ctypes.data, y.ctypes.data)
                    for x, y in arrays
                ]
            )

        run(1)
        repeats = max(1, int(seconds / max(run(1), 1e-6)))
        repeats = max(1, int(seconds / max(run(repeats) / repeats, 1e-9)))
        time.sleep(PAUSE)
        return min(run(repeats) for _ in range(4)) / repeats


def _together(calls: Sequence[Callable[[], None]]) -> float:
    """Seconds that some calls take, each in a thread of its own."""
    workers = [threading.Thread(target=call) for call in calls]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - start


def _aligned(size: int) -> Array:
    """Memory that has been written: else all of its pages would be the one of zeros."""
    memory = np.ones(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]


@functools.cache
def peak(threads: int) -> Peak:
    """That of so many threads, which keeps what it has measured of memory."""
    return Peak(threads)


@functools.cache
def rates(threads: int) -> Rates:
    """What so many threads can do, measured when first asked for in this process."""
    found = peak(threads)
    cache = max(this_machine().l2 // 2, SMALLEST) * threads
    return Rates(
        threads, found.flops(0.03), found.flops(0.03, DType.FLOAT64),
        found.bandwidth("read", _LARGE), found.bandwidth("read", cache),
    )  # fmt: skip


@functools.cache
def _library(kind: str, dtype: DType) -> Library:
    scalar = "double" if dtype is DType.FLOAT64 else "float"
    return make_module(loop_text(kind, this_machine().lanes(dtype), scalar))


@functools.cache
def _loop(kind: str, dtype: DType) -> Loop:
    types = (ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return ctypes.CFUNCTYPE(None, *types)(_library(kind, dtype).address(kind))
