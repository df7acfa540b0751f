"""Looks for better schedules than those of the cost models, by trying them.

Each kernel is timed by itself, on the memory that it finds in a call. A schedule counts only if
its results are those of the schedule that the cost model chose, up to the order of sums. What is
tried is drawn near the best that are known; the same seed draws the same.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from ..backends.llvm.kernels import choose
from ..backends.llvm.schedule import Schedule, Schedules, describe
from ..backends.llvm.schedule_space_chain import Space, space_of
from ..diagnostics import Error, error
from ..dtypes import DType, Types
from ..ir.nodes import Graph
from ..records import dataclass
from ..stored import Stored
from . import tuning_file
from .arguments import Array
from .instance import Weights
from .options import Options
from .pool import thread_count
from .tuning_kernel import Part, Scene, Subject, Trial, all_close, compare, is_close
from .tuning_problem import Problem
from .tuning_result import KernelResult, Tuned

Progress = Callable[[float, str], None]
"""Is told the share of the time that is over, and what is being done."""

_SLOW = 10.0
"""A schedule is not run again if one run takes so many times longer than the best."""
_CLEARLY = 1.5
"""Nor is it compared with the best if one run takes so many times longer, and is not short."""
_GAIN = 0.97
"""The share of the time of the best below which another one is taken to be better."""
_FEWER = 0.85
"""The share of the time of all threads below which one thread is taken to be better."""
_SHORT = 2e-4
"""Seconds of a call above which one thread is better only if others use the cores, too."""
_ELITE = 4
_PATIENCE = 1000
"""What is drawn in vain for a kernel before there is taken to be nothing better."""
_MEMORY = 1 << 30
"""Bytes for the memory that kernels find, of which each has its own."""
_INTERPRETED = 1 << 22
"""Terms of all sums together up to which results are compared with the interpreter, too."""


def tune(
    graph: Graph,
    variables: Mapping[str, Array | Stored],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    seconds: float = 30.0,
    threads: int | None = None,
    real: str = "float32",
    int: str = "int64",
    strided: bool = False,
    options: Options | None = None,
    file: Path | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Tuned:
    """Find schedules for the kernels of a graph, for arguments like these, and keep them.

    `options` may say where to begin. A `KeyboardInterrupt` ends the search; what was found until
    then is kept. Raises `Error` for wrong arguments, E0805 for a graph whose sizes are known only
    when it runs, E0707 and E0710 if the file cannot be written or is damaged.
    """
    if not 0 < seconds < math.inf:
        raise error("E0801", f"`seconds` must be a positive number, not {seconds!r:.60}")
    tuning_file.make_ready(file)
    problem = Problem(graph, variables, args, kwargs, Types(DType(real), DType(int)), strided)
    count = thread_count(threads)
    search = _Search(problem, count, options or Options(), seconds, progress, seed)
    with suppress(KeyboardInterrupt):
        search.run()
    tuned = search.finish(threads is None)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    tuning_file.keep(
        tuning_file.Entry(
            problem.key(count), graph.name, tuned.schedules, tuned.threads or count,
            round(tuned.before, 6), round(tuned.after, 6), now, _version(),
        ),
        file,
    )  # fmt: skip
    return tuned


def _version() -> str:
    """The version of this package, if it is installed."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("ricci")
    return ""


@dataclass
class _Candidates:
    """What is known of the schedules of a part."""

    part: Part
    scene: Scene
    space: Space
    expected: list[Array]
    best: Trial
    seconds: float
    """Of a run of the first one, when the search began."""
    queue: list[Schedule]
    """What is to be tried before anything is drawn."""
    share: float = 1.0
    """The time of the best, as a share of that of the first."""
    elite: list[tuple[float, Schedule]] = field(default_factory=list)
    seen: set[Schedule] = field(default_factory=set)
    tried: int = 0
    idle: int = 0
    """How many were tried since the last gain."""

    @property
    def weight(self) -> float:
        """How much there is to gain: time in a call, less where much was tried in vain."""
        return self.seconds * self.share * self.part.count / (1 + self.idle / 20)


class _Search:
    def __init__(
        self,
        problem: Problem,
        threads: int,
        options: Options,
        seconds: float,
        progress: Progress | None,
        seed: int,
    ) -> None:
        self.problem, self.threads, self.options = problem, threads, options
        self.start = time.monotonic()
        self.seconds, self.progress = seconds, progress
        self.random = random.Random(seed)
        self.subject = problem.subject(threads)
        if options.schedules and len(options.schedules) != len(self.subject.parts):
            raise error("E0807", f"`{problem.graph.name}` has {len(self.subject.parts)} kernels")
        self.found: list[_Candidates] = []
        self.wrong: list[str] = []
        self.interrupted = True

    def run(self) -> None:
        """Try schedules until the time is over."""
        room = _MEMORY
        for part in sorted(self.subject.parts, key=lambda p: p.work, reverse=True):
            if self.subject.can_tune(part) and room > 0 and self._left() > 0:
                self._prepare(part)
                room -= self.found[-1].scene.bytes if self.found else 0
        while self.found and self._left() > 0:
            weights = [c.weight for c in self.found]
            candidates = self.random.choices(self.found, weights)[0]
            self._report(candidates)
            schedule = self._next(candidates)
            if schedule is not None:
                self._try(candidates, schedule)
            elif all(c.idle > _PATIENCE for c in self.found):
                break
            candidates.idle += 1
        self.interrupted = False

    def _left(self) -> float:
        return self.start + self.seconds - time.monotonic()

    def _report(self, candidates: _Candidates) -> None:
        if self.progress is not None:
            share = min(1.0, (time.monotonic() - self.start) / max(self.seconds, 1e-9))
            self.progress(share, candidates.part.kernel.name)

    def _prepare(self, part: Part) -> None:
        """Begin with a part: with what the cost model chooses for it."""
        kernel, subject = part.kernel, self.subject
        given = (subject.program.strides, subject.target, subject.constant)
        chosen = choose(kernel, *given)
        if chosen is None:
            return
        scene = Scene(subject, part)
        trial = Trial(scene, None)
        expected = trial.results()
        space = space_of(kernel, chosen, *given)
        seconds, _ = compare(trial, trial, 2, 0.001)
        queue = [s for s in space.first() if s != chosen]
        if self.options.schedules and (s := self.options.schedules[part.number]) is not None:
            queue.insert(0, s)
        made = _Candidates(part, scene, space, expected, trial, seconds, queue)
        made.elite.append((1.0, chosen))
        made.seen.add(chosen)
        self.found.append(made)

    def _next(self, c: _Candidates) -> Schedule | None:
        """Another schedule to try; `None` if what was drawn is not worth it."""
        if c.queue:
            schedule = c.queue.pop(0)
        else:
            near = c.elite[0] if self.random.random() < 0.6 else self.random.choice(c.elite)
            schedule = c.space.near(near[1], self.random)
        if schedule in c.seen or c.space.is_hopeless(schedule, c.elite[0][1]):
            return None
        c.seen.add(schedule)
        return schedule

    def _try(self, c: _Candidates, schedule: Schedule) -> None:
        try:
            trial = Trial(c.scene, schedule)
        except Error:  # there is no such code
            return
        c.tried += 1
        limit = _SLOW * c.seconds * c.share
        if trial.foresee() > max(limit * self.threads, 0.02):
            return
        if not all_close(trial.results(), c.expected, c.part.terms):
            self.wrong.append(f"{c.part.kernel.name}: {describe(schedule)}")
            return
        known = c.seconds * c.share
        once = trial.time(1)
        if once > max(_CLEARLY * known, known + 1e-3):
            return
        share = c.share * compare(c.best, trial, 3, 0.002)[1]
        if share < c.share * _GAIN:  # perhaps by chance: what counts is measured anew
            share = c.share * compare(c.best, trial, 9, 0.002)[1]
        c.elite = sorted([*c.elite, (share, schedule)], key=lambda e: e[0])[:_ELITE]
        if share < c.share * _GAIN:
            c.best, c.share, c.idle = trial, share, 0

    # ------------------------------------------------------------------- the end

    def finish(self, choose_threads: bool) -> Tuned:
        """Compare the whole program by the best schedules with what it was."""
        schedules: list[Schedule | None] = [None] * len(self.subject.parts)
        for c in self.found:
            self._confirm(c)
            schedules[c.part.number] = c.best.schedule
        first = _Whole(self.subject, self.subject.weights)
        before, after, checked = first.time(3), 0.0, "nothing: no schedule is better"
        if any(schedules):
            tuned = self._whole(schedules, self.threads)
            checked = self._check(tuned, schedules)
            before, after = _compared(first, tuned)
        if not any(schedules) or not checked or after > before * 0.99:
            schedules, tuned, after = [None] * len(schedules), first, before
        threads = self.threads
        if choose_threads and threads > 1 and after < _SHORT:
            many, single = _compared(tuned, self._whole(schedules, 1))
            if single < many * _FEWER:
                threads, after = 1, after * single / many
        return Tuned(
            tuple(schedules), threads, program=self.problem.key(threads).program,
            before=before * 1e3, after=after * 1e3,
            kernels=self._kernels(schedules), wrong=tuple(self.wrong), checked=checked,
            interrupted=self.interrupted,
        )  # fmt: skip

    def _confirm(self, c: _Candidates) -> None:
        """Compare the best schedule of a part with the first once more: gains by chance add up."""
        if c.best.schedule is None:
            return
        first = Trial(c.scene, None)
        c.seconds, c.share = compare(first, c.best, _rounds(2 * c.seconds), 0.005)
        if c.share > _GAIN:
            c.best, c.share = first, 1.0

    def _whole(self, schedules: Sequence[Schedule | None], threads: int) -> _Whole:
        made = self.subject.built(Schedules(tuple(schedules)), threads)
        return _Whole(self.subject, made)

    def _check(self, tuned: _Whole, schedules: Sequence[Schedule | None]) -> str:
        """What the results were found to be equal to; nothing if they are wrong."""
        found = self.subject.run_whole(tuned.instance)
        if not all_close(found, self.subject.results, self.subject.terms):
            self.wrong.append("all schedules together")
            return ""
        small = self.problem.smaller(self.subject.work / _INTERPRETED)
        if small is None:
            return "the schedules of the cost model"
        try:
            right = _is_exact(small, Schedules(tuple(schedules), lenient=True), self.threads)
        except Error:  # as when an index is out of the range of a smaller table
            return "the schedules of the cost model"
        if not right:
            self.wrong.append("all schedules together, compared with the interpreter")
            return ""
        return "the schedules of the cost model, and the interpreter"

    def _kernels(self, schedules: Sequence[Schedule | None]) -> tuple[KernelResult, ...]:
        return tuple(
            KernelResult(
                c.part.kernel.name,
                c.part.count,
                c.seconds * 1e3,
                c.seconds * 1e3 * (1.0 if schedules[c.part.number] is None else c.share),
                c.tried,
                schedules[c.part.number],
            )
            for c in sorted(self.found, key=lambda c: c.part.number)
        )


class _Whole:
    """A whole program, to be timed."""

    def __init__(self, subject: Subject, weights: Weights) -> None:
        self.instance = weights.take()
        self._arrays = subject.arguments()

    def time(self, repeats: int) -> float:
        """Seconds of a call: the mean of some."""
        start = time.perf_counter()
        for _ in range(repeats):
            self.instance.run(self._arrays)
        return (time.perf_counter() - start) / repeats


def _compared(a: _Whole, b: _Whole) -> tuple[float, float]:
    """The median times of two."""
    first, share = compare(a, b, _rounds(a.time(1) + b.time(1)), 0.01)
    return first, first * share


def _rounds(seconds: float) -> int:
    """How often to measure what takes so long: a second or two in all, if that is possible."""
    return max(1, min(15, round(2.0 / max(seconds, 0.02))))


def _is_exact(problem: Problem, schedules: Schedules, threads: int) -> bool:
    """Whether results by schedules are as near to those of the interpreter as without them."""
    subject = problem.subject(threads)
    found = subject.run_whole(subject.built(schedules, threads).take())
    results = zip(found, subject.results, problem.interpreted(), strict=False)
    return all(
        is_close(mine, exact, subject.terms) or not is_close(default, exact, subject.terms)
        for mine, default, exact in results
    )
