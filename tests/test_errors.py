"""Every rejected program of `errors` is answered as its golden text says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .goldens import FILES, FOLDER, check_golden


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_rejected_program(path: Path, update_golden: bool) -> None:
    check_golden(path, update_golden)


def test_every_golden_text_has_a_program() -> None:
    assert {p.stem for p in FOLDER.glob("*.txt")} <= {p.stem for p in FILES}
