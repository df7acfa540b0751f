"""A sample of each kind of case; `python -m tests.fuzz` runs as many as wanted."""

from __future__ import annotations

from collections import Counter

import pytest

from . import et_check, tc_check, tc_programs
from .cases import MAKERS, make_case
from .corpus import programs
from .isolate import SETTINGS, run_here
from .lower_check import Disagreement, check_programs, check_seeds
from .lower_programs import make_program
from .minimise import shrink
from .run import run_program


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("program", programs(), ids=lambda p: p.name)
def test_undamaged_programs_compose(program) -> None:
    assert run_program(program.text) == []


@pytest.mark.parametrize("kind", MAKERS)
def test_cases_succeed_or_are_rejected(kind: str) -> None:
    found: Counter[bool] = Counter()
    for seed in range(40):
        case = make_case(kind, seed, programs())
        outcome = run_here(case)
        assert not outcome.bug, f"{kind} {seed}: {outcome.bug}\n{outcome.trace}"
        found[bool(outcome.codes)] += 1
    assert found[True] and found[False], "damage must be noticed, and not always be fatal"


def test_cases_are_the_same_for_the_same_seed() -> None:
    for kind in MAKERS:
        assert make_case(kind, 7, programs()) == make_case(kind, 7, programs())


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_formulas(first: int) -> None:
    """Both executors compute what random operators mean, or name the fault."""
    check_seeds(range(first, first + 10))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_comprehensions(first: int) -> None:
    """Both executors compute what random programs mean, or name the fault."""
    tc_check.check_seeds(range(first, first + 10))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_einsum_tuples(first: int) -> None:
    """All executors compute what random programs mean, and verify them."""
    et_check.check_seeds(range(first, first + 10))


def test_wrong_numbers_of_comprehensions_are_noticed() -> None:
    program = next(p for p in map(tc_programs.make_program, range(99)) if not p.fault)
    program.run = lambda given: [a + 1 for a in tc_programs.Program.run(program, given)]
    with pytest.raises(tc_check.Disagreement, match=f"seeds .{program.seed}.: interpreter: T"):
        tc_check.check_program(program)


def test_wrong_numbers_are_noticed() -> None:
    program = next(p for p in map(make_program, range(99)) if not p.risky and p.expected[0].size)
    program.expected[0] = program.expected[0] + 1
    with pytest.raises(Disagreement, match=f"seeds .{program.seed}.: interpreter: y0"):
        check_programs([program])


def test_shrinking_keeps_what_matters() -> None:
    assert shrink(list("abcdefgh"), lambda s: "c" in s and "g" in s) == ["c", "g"]
