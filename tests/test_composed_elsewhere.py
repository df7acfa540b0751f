"""Model folders with large weights are composed by the process that compiles them."""

from __future__ import annotations

import gc
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import api
from ricci.runtime import compiler_process

TEXT = """
import math;
graph G { @attrib { n: int = 3; } @input { x: real[n]; } @output { y: real[n]; }
    @variable { w: real[n]; } @compose { z = math.mul(x, w); y = math.exp(z); } }
"""
X, W = np.array([1, 2, 3], np.float32), np.array([0.5, -1, 0.25], np.float32)
WANTED = np.exp(X * W)

Started = list[subprocess.Popen[bytes]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = ricci.parse(TEXT)
    model.variables["main.G.w"] = W
    model.save(tmp_path / "model.nnef2")
    return tmp_path / "model.nnef2"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    """The processes that are started, as if all weights were large and LLVM was not there yet."""
    found: Started = []
    plain = subprocess.Popen

    def start(*args: Any, **more: Any) -> subprocess.Popen[bytes]:
        found.append(plain(*args, **more))
        return found[-1]

    monkeypatch.delenv("RICCI_NO_CACHE", raising=False)
    monkeypatch.setenv("RICCI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler_process, "has_llvm", lambda: False)
    monkeypatch.setattr(api, "_LARGE", 0)
    monkeypatch.setattr(subprocess, "Popen", start)
    return found


def is_composed(model: ricci.Model) -> bool:
    """Whether this process has the graph."""
    return "graph" in vars(model)


def test_what_is_composed_there_is_compiled_there(folder: Path, started: Started) -> None:
    model = ricci.load(folder)
    assert len(started) == 1
    run = model.compile()
    assert not is_composed(model)
    assert [p.returncode is None for p in started] == [False]
    np.testing.assert_allclose(run(X), WANTED, rtol=1e-6)
    assert model.graph.name == "main.G"


def test_it_is_known_later(folder: Path, started: Started) -> None:
    ricci.load(folder)
    again = ricci.load(folder)
    np.testing.assert_allclose(again.compile()(X), WANTED, rtol=1e-6)
    assert len(started) == 1


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_dtypes_and_a_second_time(folder: Path, started: Started, real: str) -> None:
    model = ricci.load(folder)
    for kind in (real, "float64"):
        result = model.compile(real=kind)(X)
        assert result.dtype == kind
        np.testing.assert_allclose(result, WANTED, rtol=1e-6)


def test_the_interpreter_comes_first(folder: Path, started: Started) -> None:
    model = ricci.load(folder)
    for target in ("interpreter", "cpu"):
        np.testing.assert_allclose(model.compile(target)(X), WANTED, rtol=1e-6)


def test_attributes(folder: Path, started: Started) -> None:
    model = ricci.load(folder, attribs={"n": 3})
    np.testing.assert_allclose(model.compile()(X), WANTED, rtol=1e-6)
    assert len(started) == 1
    assert model.attributes == {"n": 3}


def test_what_is_wrong_is_said_here(folder: Path, started: Started) -> None:
    main = folder / "main.sknd"
    main.write_text(main.read_text().replace("math.exp(z)", "math.exp(q)"))
    with pytest.raises(ricci.Error, match="unknown name `q`"):
        ricci.load(folder)
    assert [p.returncode is None for p in started] == [False]


def test_a_process_that_dies(folder: Path, started: Started) -> None:
    model = ricci.load(folder)
    started[0].kill()
    np.testing.assert_allclose(model.compile()(X), WANTED, rtol=1e-6)


def test_a_process_that_never_answers(
    folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_process, "_START", "raise SystemExit")
    model = ricci.load(folder)
    assert is_composed(model)
    np.testing.assert_allclose(model.compile()(X), WANTED, rtol=1e-6)
    assert all(p.returncode is not None for p in started)


def test_a_model_that_nobody_compiles(folder: Path, started: Started) -> None:
    model = ricci.load(folder)
    assert started[0].returncode is None
    del model
    gc.collect()
    assert started[0].returncode is not None


def test_it_does_not_wait_for_ever(
    folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = compiler_process._START.replace(
        "from ricci", "import ricci.runtime.compiler_main as m; m.PATIENCE = 0.3; from ricci"
    )
    monkeypatch.setattr(compiler_process, "_START", start)
    model = ricci.load(folder)
    deadline = time.monotonic() + 60
    while started[0].poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    np.testing.assert_allclose(model.compile()(X), WANTED, rtol=1e-6)


def test_small_weights(folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_LARGE", 1 << 20)
    model = ricci.load(folder)
    assert is_composed(model)
    assert not started
