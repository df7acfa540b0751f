"""Every case that was a bug once: it must succeed, or end in a diagnostic, in little time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .isolate import SETTINGS, run_here

CASES = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    outcome = run_here(json.loads(path.read_text()))
    assert not outcome.bug, f"{outcome.bug}\n{outcome.trace}"
