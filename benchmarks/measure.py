"""How the benchmarks measure: alternately, in one process, against the machine's own peak."""

from __future__ import annotations

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np

Call = Callable[[], object]

PAUSE = 0.05
"""Seconds between two calls' turns: idle threads of one pool still spin for some milliseconds, and
would take a core from the next."""


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

    In every round each call runs once to warm up and then for about `seconds`; what
    counts is the mean of a round, and of the rounds the median.
    """
    repeats = {name: _repeats(call, seconds) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(PAUSE)
            call()
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeats[name])
    return {n: Timing(statistics.median(s), min(s), max(s)) for n, s in samples.items()}


def _repeats(call: Call, seconds: float) -> int:
    call()
    start = time.perf_counter()
    call()
    return max(1, min(1000, int(seconds / max(time.perf_counter() - start, 1e-7))))


def scaled_error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, divided by the largest magnitude of the expected values."""
    scale = float(np.max(np.abs(theirs), initial=0.0)) or 1.0
    return float(np.max(np.abs(ours.astype(np.float64) - theirs), initial=0.0)) / scale


# ------------------------------------------------------------------ the machine's peak

_ACCUMULATORS = 12


def _fma_loop(width: int) -> str:
    """A loop of independent fused multiply-adds on vectors of `width` floats."""
    vector = f"<{width} x float>"
    names = range(_ACCUMULATORS)
    phis = [f"  %a{k} = phi {vector} [ zeroinitializer, %entry ], [ %b{k}, %loop ]" for k in names]
    steps = [
        f"  %b{k} = call {vector} @llvm.fma.v{width}f32({vector} %x, {vector} %x, {vector} %a{k})"
        for k in names
    ]
    sums = [f"  %s0 = fadd {vector} %b0, %b1"]
    sums += [f"  %s{k - 1} = fadd {vector} %s{k - 2}, %b{k}" for k in names if k > 1]
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{width}f32({vector}, {vector}, {vector})",
            "define void @spin(i64 %n, ptr %out) {",
            "entry:",
            f"  %x = load {vector}, ptr %out, align 4",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
            *phis,
            *steps,
            "  %j = add i64 %i, 1",
            "  %more = icmp slt i64 %j, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  store {vector} %s{_ACCUMULATORS - 2}, ptr %out, align 4",
            "  ret void",
            "}",
        ]
    )


class Peak:
    """What this machine can do at most, measured just now by `threads` threads at once."""

    def __init__(self, threads: int) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        self.width = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
        flags = f"{features.flatten()},-prefer-256-bit"
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=flags, opt=2
        )
        module = llvm.parse_assembly(_fma_loop(self.width))
        self._engine = llvm.create_mcjit_compiler(module, machine)
        address = self._engine.get_function_address("spin")
        self._spin = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)
        self.threads = threads

    def flops(self, seconds: float = 0.05) -> float:
        """Single-precision operations per second of a pure FMA loop on all threads."""
        time.sleep(PAUSE)
        steps = 1_000_000
        per_step = 2 * self.width * _ACCUMULATORS
        loops = max(1, int(seconds / max(self._run(steps), 1e-6)))
        seconds = min(self._run(steps * loops) for _ in range(3))
        return self.threads * steps * loops * per_step / seconds

    def _run(self, steps: int) -> float:
        buffers = [np.zeros(self.width, np.float32) for _ in range(self.threads)]
        workers = [
            threading.Thread(target=self._spin, args=(steps, b.ctypes.data)) for b in buffers
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return time.perf_counter() - start

    def bandwidth(self, megabytes: int = 256) -> float:
        """Bytes per second read by all threads from memory far larger than the caches."""
        data = np.ones((self.threads, megabytes * (1 << 20) // (8 * self.threads)))
        best = float("inf")
        for _ in range(5):
            time.sleep(PAUSE)
            workers = [threading.Thread(target=np.sum, args=(part,)) for part in data]
            start = time.perf_counter()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            best = min(best, time.perf_counter() - start)
        return data.nbytes / best


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
