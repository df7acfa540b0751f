"""Runs that take the time of every step, on the calling thread."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Sequence

import numpy as np

from ..backends.llvm import profile as texts
from ..backends.llvm import threads
from ..backends.llvm.jit import Library
from ..backends.llvm.steps import Image, Step
from ..ir.loops import Program
from ..records import dataclass
from .arguments import Array
from .instance import Instance, Loaded, Weights
from .native import Trial
from .pool import make_module, make_object


@functools.cache
def _module() -> Library:
    return make_module(texts.timing_text())


@functools.cache
def _clock() -> Callable[[], int]:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(_module().address("ricci_now"))


class TimedInstance(Instance):
    """An instance whose runs note times."""

    def __init__(self, weights: Weights, steps: Sequence[Step], count: int) -> None:
        super().__init__(weights, steps, count)
        self.notes = np.zeros((max(len(steps), 1), texts.RECORD_WORDS), np.int64)
        """A row per step: see `backends.llvm.profile`."""
        self._words[threads.TIMES] = self.notes.ctypes.data
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_module().address("ricci_run"))
        self._entry = run


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """What was noted: for each round and step how often it ran, seconds of all its runs, seconds of
    these that the caller waited for workers, and how often it was shared with them."""

    runs: Array
    seconds: Array
    waited: Array
    shared: Array
    call: float
    """Seconds of a whole round, the median."""
    sizes: list[int]
    """Those of the call, by the symbols of the program."""


_LOOKS = 5
"""How often something else is done between runs."""


def take_times(trial: Trial, rounds: int, between: Callable[[], object] = lambda: None) -> Times:
    """Run a call so many times; raises what a call raises.

    Now and then `between` is done, and a run follows that does not count.
    """
    image = trial.weights.loaded.image
    instance = TimedInstance(trial.weights, image.steps, trial.threads)
    arrays = [*trial.inputs, *trial.outputs]
    _run(instance, arrays, trial.sizes)
    rows, calls = [], []
    begin, first = time.perf_counter(), _clock()()
    for number in range(rounds):
        if number % -(-rounds // _LOOKS) == 0:
            between()
            _run(instance, arrays, trial.sizes)
        instance.notes[:] = 0
        start = time.perf_counter()
        _run(instance, arrays, trial.sizes)
        calls.append(time.perf_counter() - start)
        rows.append(instance.notes.copy())
    tick = (time.perf_counter() - begin) / max(_clock()() - first, 1)
    look = ctypes.CFUNCTYPE(ctypes.c_int64)(_module().address("ricci_look"))()
    notes = np.array(rows)
    ticks = np.maximum(notes[:, :, texts.TICKS] - look * notes[:, :, texts.RUNS], 0)
    return Times(
        notes[:, :, texts.RUNS], ticks * tick, notes[:, :, texts.WAITED] * tick,
        notes[:, :, texts.SHARED], float(np.median(calls)),
        instance.sizes[: image.sizes].tolist(),
    )  # fmt: skip


def _run(instance: Instance, arrays: Sequence[Array], sizes: Array | None) -> None:
    instance.run(arrays, sizes)
    try:
        instance.raise_failures()
    finally:
        instance.forget_failures()


_EMPTY = Program("nothing", (), (), (), (), (), (), (), {}, 0)


@functools.cache
def launch_times(count: int) -> tuple[float, float]:
    """Seconds that a kernel without work takes: alone, and shared by so many threads."""
    code = make_object(texts.NOTHING)
    alone = Step("kernel", "nothing", symbol="nothing", chunks=1)
    shared = Step("kernel", "nothing", symbol="nothing", chunks=4 * count, shared=True)
    steps = (alone, shared) * 8
    image = Image((code,), (), (), (), (), (), (), steps, 0)
    weights = Weights(Loaded(image), [], count)
    times = take_times(Trial(weights, count, [], [], None, _EMPTY), 200)
    seconds = np.median(times.seconds, axis=0)
    return float(np.median(seconds[::2])), float(np.median(seconds[1::2]))
