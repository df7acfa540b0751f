"""How the benchmarks measure: all sides in turns, in one process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

Call = Callable[[], object]

PAUSE, WARM = 0.02, 0.04
"""Seconds before a call's turn in which nothing runs, and then it does, but does not count: cores
that were idle are slow for tens of milliseconds, and the caches are full of others' data. Together
they are longer than idle threads of a pool spin, which would take a core from the next: those of
ONNX Runtime do for 50 milliseconds."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median over rounds, and the fastest and slowest round."""

    median: float
    best: float
    worst: float


def time_alternately(
    calls: Mapping[str, Call], rounds: int = 15, seconds: float = 0.02
) -> dict[str, Timing]:
    """Time several calls in rotation, so that the machine's drift meets all of them alike.

    In every round each call runs to warm up, and then for about `seconds`; what counts is the mean
    of a round, and of the rounds the median.
    """
    repeats = {name: _repeats(call, seconds) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE)
            _warm_up(call)
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeats[name])
    return {n: Timing(statistics.median(s), min(s), max(s)) for n, s in samples.items()}


def _warm_up(call: Call) -> None:
    end = time.perf_counter() + WARM
    call()
    while time.perf_counter() < end:
        call()


def _repeats(call: Call, seconds: float) -> int:
    call()
    start = time.perf_counter()
    call()
    return max(1, min(1000, int(seconds / max(time.perf_counter() - start, 1e-7))))


def scaled_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, divided by the largest magnitude of the expected values."""
    scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
    return float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0.0)) / scale


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that do nothing but take time."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(0.5 if count else 0)
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def set_peer_threads(threads: int) -> None:
    """Have PyTorch use `threads` threads (ONNX Runtime takes them per session)."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)


# ------------------------------------------------------------------------- the report


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its columns aligned."""
    widths = [max(len(r[c]) for r in [header, *rows]) for c in range(len(header))]
    lines = [
        " | ".join(x.ljust(w) for x, w in zip(r, widths, strict=True)) for r in [header, *rows]
    ]
    lines.insert(1, " | ".join("-" * w for w in widths))
    return "\n".join(f"| {line} |" for line in lines)
