"""The time of every kernel of a call, what it achieves, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..diagnostics import error
from ..dtypes import DType
from ..ir.labels import label, shown
from ..ir.loops import (
    Kernel,
    Program,
    expressions_of,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Symbol, Tensor
from ..ir.rewrite import walk
from ..ir.work import Work, bytes_of, work_of
from ..records import replace
from .native import Trial
from .peak import Limits, Rates
from .pool import this_machine
from .timing import Times, launch_times, take_times

DECISIVE = 0.3
"""The share of a kernel's time that a limit must explain to be what bounds it."""


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """What is known about one kernel of a call after it has run.

    `number` and `name` are those that `ricci show --stage loops` prints; `results` are the tensors
    that it writes, with dtypes and shapes, those without a name in the scope of the variables that
    the kernel reads; `code` is the kind of its native code: "contraction", "window", "winograd" or
    "dots" (sums of products by register tiles, by overlapping windows, by fewer products, and of
    few rows), "matrices" or "matrix window" (the first two by matrices in registers), "nest"
    (loops) or "group" (several kernels, row by row). `shape` says how many results there are and of
    how many terms each.

    `runs` is how often it runs in a call, 0 in a branch that is not taken; `seconds` is the time of
    a run and `share` that of all its runs in the sum over kernels. `operations` and
    `bytes` are what it computes, and must move at least, in a run (`ir.work.Work`). `threads` is by
    how many threads it is done, and `waited` the share of its time that the caller waited for the
    others at its end.

    `bound` is what explains most of the time: "computation" (of multiply-adds), "memory" or "cache"
    (bytes moved), "launch" (starting it), "threads" (waiting for others), or "instructions" where
    none of these explains much: functions, address arithmetic, operations that wait for each other.
    `explains` is the share of the time that it explains.
    """

    number: int
    name: str
    results: tuple[str, ...]
    code: str
    shape: str
    operations: int
    bytes: int
    runs: int = 0
    seconds: float = 0.0
    share: float = 0.0
    threads: int = 1
    waited: float = 0.0
    of_flops: float = 0.0
    """Operations per second, as a share of what the machine can do."""
    of_memory: float = 0.0
    """Bytes per second, as a share of what memory can give: more than 1 from caches."""
    bound: str = ""
    explains: float = 0.0

    @property
    def flops(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def bandwidth(self) -> float:
        """Bytes per second."""
        return self.bytes / self.seconds if self.seconds else 0.0

    @property
    def bound_words(self) -> str:
        """`computation 84%`."""
        return self.bound if self.bound == "instructions" else f"{self.bound} {self.explains:.0%}"


@dataclass(frozen=True, slots=True)
class Profile:
    """The kernels of a call, in their order.

    `seconds` is the time of the whole call in native code, `machine` what this machine can do, and
    `sizes` are those that were open.
    """

    kernels: tuple[KernelProfile, ...]
    seconds: float
    machine: Rates
    sizes: Mapping[Symbol, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[KernelProfile]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, number: int) -> KernelProfile:
        return self.kernels[number]


def profile(trial: Trial, rounds: int) -> Profile:
    """Time the kernels of a call in so many rounds; medians count."""
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
        raise error("E0801", f"`rounds` must be a positive integer, not {rounds!r:.60}")
    limits = [Limits(count) for count in {1, trial.threads}]

    def look() -> None:
        for limit in limits:
            limit.look()

    times = take_times(trial, rounds, look)
    return _Reader(trial, times, {x.threads: x.rates() for x in limits}).profile()


class _Reader:
    def __init__(self, trial: Trial, times: Times, rates: Mapping[int, Rates]) -> None:
        self.program = trial.program
        self.steps = trial.weights.loaded.image.steps
        self.threads = trial.threads
        self.rates = rates
        self.times = times
        self.sizes = dict(zip(trial.program.symbols, times.sizes, strict=True))
        runs = np.median(times.runs, axis=0)
        total = np.median(times.seconds, axis=0)
        self.rows = {s.number: k for k, s in enumerate(self.steps) if s.kind == "kernel"}
        self.each = total / np.maximum(runs, 1)
        self.runs, self.total = runs, total
        self.far = _far_bytes(self.program, self.sizes, this_machine().l2 * trial.threads)

    def profile(self) -> Profile:
        kernels = tuple(self._kernel(n, k) for n, k in enumerate(self.program.kernels))
        return Profile(kernels, self.times.call, self.rates[self.threads], self.sizes)

    def _kernel(self, number: int, kernel: Kernel) -> KernelProfile:
        row = self.rows.get(number)
        work = work_of(kernel, self.sizes)
        known = KernelProfile(
            number, label(kernel),
            tuple(shown(t, self.program, kernel) for t in tensors_written(kernel)),
            "none" if row is None else self.steps[row].template, str(work), work.operations,
            work.bytes,
        )  # fmt: skip
        return known if row is None or not self.runs[row] else self._timed(known, kernel, work, row)

    def _timed(self, known: KernelProfile, kernel: Kernel, work: Work, row: int) -> KernelProfile:
        """A kernel that has run, with what was measured."""
        seconds, total = max(float(self.each[row]), 1e-12), float(self.total[row])
        shared = bool(self.times.shared[:, row].any())
        waited = float(np.median(self.times.waited[:, row])) / max(total, 1e-12)
        machine, dtype = self.rates[self.threads], _number_type(kernel)
        limits = self._limits(work, dtype, shared, self.far[known.number])
        bound, explains = _bound(limits | {"threads": waited * seconds}, seconds)
        return replace(
            known,
            runs=int(self.runs[row]),
            seconds=seconds,
            share=total / max(float(self.total.sum()), 1e-12),
            threads=self.threads if shared else 1,
            waited=waited,
            of_flops=work.operations / machine.of(dtype) / seconds,
            of_memory=work.bytes / machine.memory / seconds,
            bound=bound,
            explains=explains,
        )

    def _limits(self, work: Work, dtype: DType, shared: bool, far: int) -> dict[str, float]:
        """The seconds that each limit alone would make a run take."""
        able = self.rates[self.threads if shared else 1]
        alone, together = launch_times(self.threads)
        return {
            "computation": work.operations / able.of(dtype),
            "memory": far / able.memory,
            "cache": work.bytes / able.cache,
            "launch": together if shared else alone,
        }


def _bound(limits: dict[str, float], seconds: float) -> tuple[str, float]:
    """The limit that explains most of the time, and how much."""
    shares = {name: limit / seconds for name, limit in limits.items()}
    if shares["memory"] > 1:  # faster than memory gives: it was in a cache
        del shares["memory"]
    name = max(shares, key=lambda n: shares[n])
    if shares[name] < DECISIVE:
        return "instructions", max(0.0, 1 - sum(shares.values()))
    return name, min(shares[name], 1.0)


def _number_type(kernel: Kernel) -> DType:
    """The widest type that a kernel computes in."""
    found = {n.dtype for n in walk(*expressions_of(kernel))}
    return DType.FLOAT64 if DType.FLOAT64 in found else DType.FLOAT32


def _far_bytes(program: Program, sizes: Mapping[Symbol, int], cache: int) -> list[int]:
    """For each kernel the bytes of tensors that others have driven from the caches since they were
    last touched, in calls one after the other."""
    kernels = program.kernels
    touched = [{t: bytes_of(t, sizes) for t in tensors_touched(k)} for k in kernels]
    recent: dict[Tensor, int] = {}
    far = [0] * len(kernels)
    for number in (*range(len(kernels)), *range(len(kernels))):
        mine = touched[number]
        far[number] = sum(n for t, n in mine.items() if t not in recent)
        recent = _latest({**mine, **{t: n for t, n in recent.items() if t not in mine}}, cache)
    return [min(n, work_of(k, sizes).bytes) for n, k in zip(far, kernels, strict=True)]


def _latest(tensors: Mapping[Tensor, int], room: int) -> dict[Tensor, int]:
    """The first of some tensors, as far as they fit."""
    kept: dict[Tensor, int] = {}
    for tensor, size in tensors.items():
        room -= size
        if room < 0:
            break
        kept[tensor] = size
    return kept
