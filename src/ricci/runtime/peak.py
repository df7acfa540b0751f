"""What this machine can do at most: operations and bytes per second.

Neighbours, heat and clocks change it within seconds, so a share of it means something only if both
were measured in turns: a `Loop` is a call like others, done by the same workers.
"""

from __future__ import annotations

import functools
import statistics
import time

import numpy as np

from ..backends.llvm.peak import CELLS, CHAINS, PIECES, REPEATS, UNROLLED, loop_text
from ..backends.llvm.steps import Image, Slot, Step
from ..backends.llvm.threads import OWN_SCRATCH, PLACES
from ..dtypes import DType
from ..records import dataclass, replace
from .instance import Instance, Loaded, Weights
from .pool import make_object, this_machine

SMALLEST, LARGEST = 1 << 15, 1 << 29
"""Bytes that loops move."""
_LARGE = 1 << 28
"""Bytes that are more than caches hold."""
_SECONDS = 0.004
"""About how long a call of a loop takes, unless a single pass takes longer."""
_CHUNKS = 8
"""Chunks of a loop for each thread: of one that is held up others do some."""
_CUT = 16 << 20
"""Bytes of an array of a thread from which on a chunk is a piece of it, else some passes of it."""
_STEPS = 1 << 12
"""Of a chunk that only computes."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What a chunk does: see the cells of `backends.llvm.peak`."""

    code: str
    steps: int
    piece: int
    pieces: int
    target: int
    bytes: int
    """Of all arrays of a thread."""
    amount: int
    """Operations of a chunk, or bytes."""


def _work_of(kind: str, footprint: int, dtype: DType) -> _Work:
    """With arrays of so many bytes for each thread."""
    machine = this_machine()
    if kind == "compute":
        amount = _STEPS * 2 * CHAINS * machine.lanes(dtype)
        return _Work(kind, _STEPS, 0, 1, SMALLEST // 2, SMALLEST, amount)
    arrays, unit = 2 if kind == "copy" else 1, UNROLLED * machine.vector_bytes
    held = footprint // arrays
    pieces = _CHUNKS if held >= _CUT else 1
    steps = max(held // (pieces * unit), 2)
    each = steps * unit * pieces
    code = f"{kind}_ahead" if footprint > machine.l2 else kind
    target = each if kind == "copy" else 0
    return _Work(code, steps, steps * unit, pieces, target, each * arrays, steps * unit * arrays)


class Loop(Instance):
    """A loop that does nothing but `compute`, `read`, `write`, or `copy`, on several threads.

    `footprint` are about the bytes that it moves, again and again; a copy reads half of them.
    """

    def __init__(
        self, kind: str, threads: int, footprint: int = SMALLEST, dtype: DType = DType.FLOAT32
    ) -> None:
        work = _work_of(kind, min(max(footprint, SMALLEST), LARGEST) // threads, dtype)
        loaded, chunks = _loaded(work.code, dtype), _CHUNKS * threads
        step = replace(loaded.image.steps[0], chunks=chunks, shared=True, scratch=work.bytes)
        super().__init__(Weights(loaded, [], threads), [step], threads, bound=False)
        start, stride = int(self._words[OWN_SCRATCH]), int(self._steps[0, PLACES])
        start -= self._scratch.ctypes.data
        self.memory = self._scratch[start : start + stride * threads].reshape(threads, stride)
        """The arrays of each thread, one behind the other."""
        self.memory.view(np.float32).fill(1.0)  # else all pages would be the one of zeros
        self._numbers = np.array([work.steps, 1, work.piece, work.pieces, work.target], np.int64)
        self._amount = chunks * work.amount
        self._repeat()

    def _repeat(self) -> None:
        """Take about as long as a call of a loop should; its start counts little in the end."""
        self()
        for _ in range(0 if self._numbers[PIECES] > 1 else 2):
            seconds = min(self.seconds() for _ in range(3))
            wanted = round(self._numbers[REPEATS] * _SECONDS / seconds)
            self._numbers[REPEATS] = min(max(1, wanted), 1 << 16)

    def __call__(self) -> None:
        self.run([], self._numbers)

    @property
    def amount(self) -> int:
        """Operations of a call, or bytes."""
        return self._amount * int(self._numbers[REPEATS])

    def seconds(self) -> float:
        """The time of a call."""
        start = time.perf_counter()
        self()
        return max(time.perf_counter() - start, 1e-9)

    def rate(self, calls: int = 5) -> float:
        """Operations or bytes per second, at best, after a call that does not count."""
        self()
        return self.amount / min(self.seconds() for _ in range(calls))


@dataclass(frozen=True, slots=True)
class Rates:
    """What `threads` threads can do together, per second.

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


class Limits:
    """The loops for `Rates`, which are looked at again and again; medians count."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        cache = max(this_machine().l2 // 2, SMALLEST) * threads
        self._loops = (
            Loop("compute", threads), Loop("compute", threads, dtype=DType.FLOAT64),
            Loop("read", threads, _LARGE), Loop("read", threads, cache),
        )  # fmt: skip
        self._found: list[list[float]] = []

    def look(self) -> None:
        """Measure each loop once."""
        self._found.append([loop.rate(1) for loop in self._loops])

    def rates(self) -> Rates:
        """What has been found."""
        medians = (statistics.median(found) for found in zip(*self._found, strict=True))
        return Rates(self.threads, *medians)


@functools.cache
def _loaded(kind: str, dtype: DType) -> Loaded:
    scalar = "double" if dtype is DType.FLOAT64 else "float"
    code = make_object(loop_text(kind, this_machine().lanes(dtype), scalar))
    step = Step("kernel", kind, (Slot("size", 0, 0),), kind)
    return Loaded(Image((code,), (), (), (), (), (), (), (step,), 0, CELLS))
