"""What the README shows is what happens."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


OPERATOR = next(text for _, text in BLOCKS if "operator max_product" in text)


def test_the_function_of_arrays_runs() -> None:
    code = next(text for language, text in BLOCKS if language == "python")
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    x, y = names["x"], names["y"]
    (shown,) = re.findall(r"near\.infer\(\) +# (.*)", code)
    assert names["near"].infer() == ast.literal_eval(shown)
    assert f"{y.dtype}{list(y.shape)}" in code
    window = x[0, :3, :3]
    expected = window * np.exp(-2 * (window - window[1, 1]) ** 2)
    np.testing.assert_allclose(y[0, 0, 0], expected.sum(), rtol=1e-5)
    total = y.sum(dtype=np.float64)  # the kernel is all ones, and y linear in it
    np.testing.assert_allclose(names["d_kernel"].sum(), total, rtol=1e-4)


def test_the_formula_has_every_rank() -> None:
    code = next(text for _, text in BLOCKS if "ricci.eintup.parse" in text)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    calls = re.findall(r"^(conv\(.*\)) +# (\w+\[.*?\])", code, re.MULTILINE)
    for call, shown in calls:
        result = eval(call, names)
        assert f"{result.dtype}{list(result.shape)}" == shown
    assert len(calls) == 2 and names["conv"].verify().ok
    assert "over fifty operations" in README
    assert len(list((ROOT / "examples" / "eintup").glob("*.et"))) > 50


def test_the_operator_runs() -> None:
    exec(compile(OPERATOR, "README.md", "exec"), {"np": np, "ricci": ricci})


def test_the_example_with_loops_and_state_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = next(text for _, text in BLOCKS if "Tracker" in text)
    exec(compile(code, "README.md", "exec"), {"np": np, "ricci": ricci})
    run = ricci.load("tracker.nnef2").compile()
    assert run(np.zeros((1, 1, 8), np.float32)).calls == 3


def test_the_mistake_is_answered_as_shown() -> None:
    text = OPERATOR.split('"""')[1]
    shown = next(text for language, text in BLOCKS if text.startswith("error["))
    start = text.index("graph")
    wrong = text[:start] + text[start:].replace("b: real[n, n]", "b: real[100, n]")
    with pytest.raises(ricci.Error) as caught:
        ricci.parse(wrong, attribs={"n": 512})
    assert str(caught.value) == shown.rstrip()
