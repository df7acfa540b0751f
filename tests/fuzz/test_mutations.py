"""A sample of the mutated programs; `python -m tests.fuzz` runs as many as wanted."""

from __future__ import annotations

import pytest

from .mutate import corpus, mutate
from .run import run_program


@pytest.mark.parametrize("name, text", corpus(), ids=[name for name, _ in corpus()])
def test_undamaged_programs_compose(name: str, text: str) -> None:
    assert run_program(text) == []


@pytest.mark.parametrize("seed", range(0, 600, 20))
def test_damaged_programs_are_rejected_or_compose(seed: int) -> None:
    programs = corpus()
    rejected = 0
    for case in range(seed, seed + 20):
        _, text = programs[case % len(programs)]
        rejected += bool(run_program(mutate(text, case)))
    assert rejected, "damage must be noticed"
