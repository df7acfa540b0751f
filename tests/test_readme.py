"""What the README shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ricci

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_first_example_runs() -> None:
    code = next(text for language, text in BLOCKS if language == "python")
    exec(compile(code, "README.md", "exec"), {})


def test_the_example_with_loops_and_state_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = next(text for _, text in BLOCKS if "Tracker" in text)
    exec(compile(code, "README.md", "exec"), {"np": np, "ricci": ricci})
    run = ricci.load("tracker.nnef2").compile()
    assert run(np.zeros((1, 1, 8), np.float32)).calls == 3


def test_the_mistake_is_answered_as_shown() -> None:
    code = next(text for language, text in BLOCKS if language == "python")
    text = code.split('"""')[1]
    shown = next(text for language, text in BLOCKS if text.startswith("error["))
    start = text.index("graph")
    wrong = text[:start] + text[start:].replace("b: real[n, n]", "b: real[100, n]")
    with pytest.raises(ricci.Error) as caught:
        ricci.parse(wrong, attribs={"n": 512})
    assert str(caught.value) == shown.rstrip()
