"""A program that has been compiled runs again without being composed, and nobody can tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import Error
from ricci.frontends.skriptnd import compose
from ricci.ir.text import format_graph
from ricci.runtime import cache

MAIN = """import tools, nn;

graph G {
  @attrib { n: int = 3; }
  @input { x: real[n]; }
  @variable { w: real[n]; }
  @output { y: real[n]; }
  @compose { z = tools.scale(x, w); y = nn.relu(z); }
}
graph H { @input { x: real[4]; } @output { y: real[4]; } @compose { y = tools.scale(x, x); } }
"""
TOOLS = """public operator scale {
  @input { x: real[n]; w: real[n]; }
  @output { y: real[n]; }
  @lower { y[i,] = x[i,] * w[i,] + 0.0, i < n; }
}
"""
X = np.array([-1.0, 2.0, 3.0], np.float32)
W = np.array([1.0, 2.0, 4.0], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that has been compiled once."""
    monkeypatch.setenv("RICCI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RICCI_NO_CACHE", raising=False)
    path = tmp_path / "model"
    path.mkdir()
    (path / "main.sknd").write_text(MAIN)
    (path / "tools.sknd").write_text(TOOLS)
    model = ricci.load(path)
    model.variables["main.G.w"] = W
    model.save(path)
    ricci.load(path).compile(threads=1)
    return path


@pytest.fixture
def composed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of graphs that are composed from now on."""
    found: list[str] = []
    plain = compose.compose

    def noted(program: Any, operator: Any, *rest: Any) -> Any:
        found.append(operator.name)
        return plain(program, operator, *rest)

    monkeypatch.setattr(compose, "compose", noted)
    return found


def entries(folder: Path) -> list[Path]:
    return sorted(folder.parent.glob("cache/outline-*"))


def test_nothing_is_composed_to_run(folder: Path, composed: list[str]) -> None:
    model = ricci.load(folder)
    run = model.compile(threads=1)
    np.testing.assert_array_equal(run(X), np.maximum(X * W, 0))
    np.testing.assert_array_equal(run.variables["main.G.w"], W)
    assert (run.name, run.inputs[0].shape, run.outputs[0].name) == ("main.G", (3,), "y")
    assert composed == []


def test_everything_can_be_asked_for(folder: Path, composed: list[str]) -> None:
    model = ricci.load(folder)
    assert (model.name, model.warnings, composed) == ("model", (), [])
    assert (model.graph_name, model.attributes, model.types) == ("G", {}, {})
    other = ricci.load(folder, {"n": 3})  # a key of its own
    assert other.attributes == {"n": 3}
    assert format_graph(model.graph) == format_graph(other.graph)
    assert model.quantized().show("loops") == other.show("loops")
    assert composed == ["G", "G"]
    run = model.compile("interpreter")
    np.testing.assert_array_equal(run(X), np.maximum(X * W, 0))


def test_what_is_asked_for_late_is_what_was_loaded(folder: Path) -> None:
    model = ricci.load(folder)
    (folder / "tools.sknd").write_text(TOOLS.replace("0.0", "7.0"))
    (folder / "main.sknd").write_text(MAIN.replace("n: int = 3", "n: int = 5"))
    text = format_graph(model.graph)
    assert "real[3]" in text and "5" not in text and "7.0" not in text


def test_changes_are_seen(folder: Path, composed: list[str]) -> None:
    def run() -> Any:
        return ricci.load(folder).compile(threads=1)(X)

    (folder / "tools.sknd").write_text(TOOLS.replace("0.0", "7.0"))
    np.testing.assert_array_equal(run(), np.maximum(X * W + 7, 0))
    relu = "public operator relu { @input { x: real[n]; } @output { y: real[n]; } BODY }"
    (folder / "nn.sknd").write_text(relu.replace("BODY", "@lower { y[i,] = -x[i,], i < n; }"))
    np.testing.assert_array_equal(run(), -(X * W + 7))
    (folder / "main.sknd").write_text(MAIN.replace("nn.relu(z)", "tools.scale(z, z)"))
    np.testing.assert_array_equal(run(), (X * W + 7) ** 2 + 7)
    assert composed == ["G", "G", "G"]
    run()
    assert composed == ["G", "G", "G"]
    (folder / "tools.sknd").unlink()
    with pytest.raises(Error, match="E0203"):
        run()


def test_choices_are_told_apart(folder: Path, composed: list[str]) -> None:
    assert ricci.load(folder, graph="H").graph_name == "H"
    assert ricci.load(folder, {"n": 5}).attributes == {"n": 5}
    assert ricci.load(folder, {"n": np.int64(3)}).attributes == {"n": 3}
    with pytest.raises(Error, match="E0"):
        ricci.load(folder, {"n": True})
    assert composed == ["H", "G", "G"]


def test_the_same_diagnostics(folder: Path, composed: list[str]) -> None:
    def said() -> list[str]:
        found = []
        for wrong in (np.zeros(4, np.float32), np.zeros((3, 1), np.float32)):
            with pytest.raises(Error) as caught:
                ricci.load(folder).compile(threads=1)(wrong)
            found.append(str(caught.value))
        with pytest.raises(Error) as caught:
            ricci.load(folder).compile(threads=1).variables["main.G.w"] = np.zeros(7)
        return [*found, str(caught.value)]

    first = said()
    assert composed == [] and "main.sknd" in first[0]
    for path in entries(folder):
        path.unlink()
    assert said() == first and composed


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"modules":{"tools":1}}',
        b'{"modules":{"nn":null,"tools":null}}',
        b'{"modules":{"../x":null}}',
    ],
)
def test_a_strange_entry_is_as_if_it_were_not_there(
    folder: Path, composed: list[str], entry: bytes
) -> None:
    (path,) = entries(folder)
    cache.write(path.name, entry)
    np.testing.assert_array_equal(ricci.load(folder).compile(threads=1)(X), np.maximum(X * W, 0))
    assert composed == ["G"]


def test_parts_of_an_entry_that_are_strange(folder: Path) -> None:
    (path,) = entries(folder)
    good = json.loads(path.read_bytes()[32:])
    for name in good:
        for value in (None, 5, "x", [], [5], {"": 5}):
            cache.write(path.name, json.dumps(good | {name: value}).encode())
            run = ricci.load(folder).compile(threads=1)
            np.testing.assert_array_equal(run(X), np.maximum(X * W, 0))


def test_what_has_open_sizes_or_warnings_is_composed(folder: Path, composed: list[str]) -> None:
    path = folder / "open.sknd"
    path.write_text(
        "graph O { @input { x: real[n|9]; } @output { y: real[n]; } @compose { y = f(x); } }"
        "operator f { @input { x: real[n]; } @output { y: real[n]; }"
        "  @lower { y[i,] = x[i,] + 1.0, i < n; } }"
    )
    before = len(entries(folder))
    for _ in range(2):
        model = ricci.load(path)
        np.testing.assert_array_equal(model.compile(threads=1)(X), X + 1)
    assert composed == ["O", "O"] and len(entries(folder)) == before


def test_nothing_is_kept_when_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in entries(folder):
        os.unlink(path)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    ricci.load(folder).compile(threads=1)
    assert entries(folder) == []
