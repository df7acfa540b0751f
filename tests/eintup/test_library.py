"""Every program of the library gives what the call that it names gives, at all legal ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from ricci import eintup

from .programs import COMBINATIONS, FOLDER, PACKAGES, framework, load


def check(name: str, target: str, seed: int) -> None:
    pytest.importorskip(PACKAGES[framework(name)])
    verification = load(name).verify(seed=seed, target=target)
    assert verification.ok, str(verification)
    assert len(verification.cases) == COMBINATIONS[name]


@pytest.mark.parametrize("name", COMBINATIONS)
def test_compiled(name: str) -> None:
    check(name, "cpu", 0)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_interpreted(name: str) -> None:
    check(name, "interpreter", 1)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.et")), ids=lambda path: path.stem)
def test_in_the_form_of_the_formatter(path: Path) -> None:
    program = eintup.load(path)
    assert eintup.format(program.source) == program.source
    assert not program.warnings
