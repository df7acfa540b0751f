"""Verification: a program's outputs against those of its call, at many ranks and dims."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short_repr

import numpy as np

from ..diagnostics import Error, error
from ..frontends.eintup.dims import draw_dims
from ..frontends.eintup.fixed import Fixed, combinations, illegal_ranks
from ..frontends.eintup.program import Configuration, Program
from ..frontends.eintup.typing import infer_types
from ..records import replace
from ..runtime.executable import check_execution
from .compare import Tolerance
from .execute import Settings
from .framework import Oracle
from .shrink import Budget, Shrinker
from .trial import Outcome, Trial

MOST_CASES = 1_000_000

Progress = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a case is to be: the number of its combination of ranks, and of the repetition."""

    combination: int
    repetition: int
    ranks: Mapping[str, int]

    @property
    def id(self) -> str:
        return f"{self.combination}.{self.repetition}"


@dataclass(frozen=True, slots=True)
class Case:
    """A configuration that was tried; without dims where none were found that are legal.

    `smallest` is the smallest that was found to fail in the same way, and how it fails.
    """

    id: str
    ranks: Mapping[str, int]
    configuration: Configuration | None
    outcome: Outcome
    smallest: tuple[Configuration, Outcome] | None = None

    @property
    def ok(self) -> bool:
        return self.outcome.ok


@dataclass(frozen=True, slots=True)
class Verification:
    """All cases that were tried, in order."""

    program: Program
    cases: tuple[Case, ...]
    seed: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every output of every case is as expected, and there was a case."""
        return bool(self.cases) and not self.failures

    @property
    def failures(self) -> tuple[Case, ...]:
        return tuple(c for c in self.cases if not c.ok)

    def __str__(self) -> str:
        from .report import report

        return "\n".join(report(self))


def verify(
    program: Program,
    reps: int = 1,
    seed: int = 0,
    rtol: float = 0.0,
    atol: float = 1e-6,
    cases: Sequence[str] | None = None,
    progress: Progress | None = None,
    dims: tuple[int, int] = (1, 8),
    threads: int | None = None,
    target: str = "cpu",
    real: str = "float64",
    int: str = "int32",
    fixed: Fixed | None = None,
) -> Verification:
    """Compare a program with its call, `reps` times at every legal combination of ranks.

    Dims and data are drawn from `seed` and the number of the case, `dims` where no constraint says
    from where. `fixed` are ranks and dims to keep to. `cases` are the IDs of those to try instead
    of all: a combination and a repetition, `17.2`. Reals may differ by `atol + rtol * |expected|`.
    `progress` is called with 1 after each case. Raises `Error` for wrong arguments, a program
    without a call, and a call whose framework or function is not there.
    """
    start = time.perf_counter()
    _check_numbers(reps, seed, rtol, atol, dims)
    trial = _trial(program, Tolerance(rtol, atol), Settings(target, threads, real, int))
    done = []
    fixed = fixed or Fixed()
    for plan in plans(program, reps, cases, fixed):
        done.append(_try(trial, plan, seed, dims, fixed))
        if progress is not None:
            progress(1)
    shrunk = _shrunk(trial, done, seed, fixed)
    return Verification(program, tuple(shrunk), seed, time.perf_counter() - start)


def plans(
    program: Program, reps: int, cases: Sequence[str] | None = None, fixed: Fixed | None = None
) -> list[Plan]:
    """The cases of a verification; E0801 for an ID that is none, E0901 for too many."""
    wanted = (fixed or Fixed()).wanted_ranks()
    ranks = list(combinations(program, wanted))
    if not ranks:
        raise illegal_ranks(program, wanted)
    if cases is not None:
        return [_plan(text, ranks) for text in cases]
    if len(ranks) * reps > MOST_CASES:
        raise error(
            "E0901",
            f"{len(ranks)} combinations of ranks, {reps} times each, are too many cases",
            notes=[f"at most {MOST_CASES} are tried"],
        )
    return [Plan(k, rep, r) for k, r in enumerate(ranks, 1) for rep in range(1, reps + 1)]


def _plan(text: object, ranks: Sequence[Mapping[str, int]]) -> Plan:
    match = re.fullmatch(r"([1-9][0-9]{0,8})\.([1-9][0-9]{0,8})", str(text))
    if match is None or int(match[1]) > len(ranks):
        raise error(
            "E0801",
            f"there is no case `{text}`",
            notes=[f"cases: from 1.1 to {len(ranks)}.1, and 1.2, 1.3, ... are repetitions"],
        )
    return Plan(int(match[1]), int(match[2]), ranks[int(match[1]) - 1])


def _trial(program: Program, tolerance: Tolerance, settings: Settings) -> Trial:
    check_execution(settings.target, settings.threads)
    infer_types(program, {}, *settings.types)
    call = program.file.call
    if call is None:
        raise error(
            "E0801",
            "there is nothing to verify this program against: it has no call",
            help="a section such as `tf.matmul(a, b)`, then one that names the outputs",
        )
    return Trial(program, Oracle(program, call), tolerance, settings)


def _check_numbers(reps: object, seed: object, rtol: object, atol: object, dims: object) -> None:
    check_count("reps", reps, 1)
    check_count("seed", seed, 0)
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
            raise error("E0801", f"`{name}` must be a number from 0 on, not {short_repr(value)}")
    match dims:
        case (int(low), int(high)) if 0 <= low <= high:
            return
    problem = f"`dims` must be a smallest and a largest extent, not {short_repr(dims)}"
    raise error("E0801", problem)


def check_count(name: str, value: object, least: int) -> None:
    """Raise E0801 unless this is a whole number, and not too small."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        problem = f"`{name}` must be a number from {least} on, not {short_repr(value)}"
        raise error("E0801", problem)


def _try(trial: Trial, plan: Plan, seed: int, dims: tuple[int, int], fixed: Fixed) -> Case:
    rng = np.random.default_rng([seed, plan.combination, plan.repetition])
    try:
        known = fixed.dims_at(plan.ranks)
        configuration = draw_dims(trial.program, plan.ranks, rng, dims, known)
    except Error as problem:
        outcome = trial.failed("dims", problem.diagnostics[0].message)
        return Case(plan.id, plan.ranks, None, outcome)
    outcome = trial.run(configuration, int(rng.integers(1 << 63)))
    return Case(plan.id, plan.ranks, configuration, outcome)


def _shrunk(trial: Trial, cases: Sequence[Case], seed: int, fixed: Fixed) -> Iterator[Case]:
    """The cases, those that failed with the smallest configuration that is found to do so."""
    shrinker = Shrinker(trial.program, lambda c: trial.run(c, seed), Budget(), fixed)
    for case in cases:
        if case.ok or case.configuration is None:
            yield case
        else:
            smallest = shrinker.shrink(case.configuration, case.outcome)
            yield replace(case, smallest=smallest)
