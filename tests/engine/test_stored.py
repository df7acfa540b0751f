"""Variables of a folder are in memory only while somebody needs them; callers see no difference."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import Error
from ricci.frontends.skriptnd.storage import StoredTensor
from ricci.runtime import preparation

TEXT = """
graph G {
  @input { x: real[2, 16, 20]; }
  @variable {
    v: real[24, 16, 3]; a: real[24]; b: real[24]; w: real[12, 24, 3]; c: real[12]; d: real[12];
    r: real[12];
  }
  @output { y: real[2, 12, 16]; }
  @compose {
    p = sums(x, v); z = scaled(p, a, b);
    o = sums(z, w); q = scaled(o, c, d);
    y = add(q, r);
  }
}
operator sums {
  @input { x: real[n, c, h]; w: real[m, c, k]; }
  @output { y: real[n, m, h - k + 1]; }
  @lower {
    y[b, i, j] += x[b, l, j + d] * w[i, l, d], b < n, i < m, j < h - k + 1, l < c, d < k;
  }
}
operator scaled {
  @input { x: real[n, m, g]; s: real[m]; t: real[m]; }
  @output { y: real[n, m, g]; }
  @lower { y[b, i, j] = x[b, i, j] * s[i,] / sqrt(t[i,]), b < n, i < m, j < g; }
}
operator add {
  @input { x: real[n, m, g]; r: real[m]; }
  @output { y: real[n, m, g]; }
  @lower { y[b, i, j] = x[b, i, j] + r[i,], b < n, i < m, j < g; }
}
"""
SHAPES = {"v": (24, 16, 3), "a": 24, "b": 24, "w": (12, 24, 3), "c": 12, "d": 12, "r": 12}

Values = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def values() -> Values:
    draw = np.random.default_rng(5).uniform
    return {f"main.G.{n}": draw(0.1, 1.0, shape).astype(np.float32) for n, shape in SHAPES.items()}


@pytest.fixture
def folder(tmp_path: Path, values: Values) -> Path:
    model = ricci.parse(TEXT)
    for name, value in values.items():
        model.variables[name] = value
    model.save(tmp_path / "model")
    return tmp_path / "model"


X = np.random.default_rng(6).standard_normal((2, 16, 20)).astype(np.float32)


def expected(values: Values) -> np.ndarray[Any, Any]:
    v, a, b, w, c, d, r = (values[f"main.G.{n}"].astype(np.float64) for n in SHAPES)
    windows = np.lib.stride_tricks.sliding_window_view
    z = np.einsum("bljd,ild,i->bij", windows(X, 3, 2), v, a / np.sqrt(b))
    return np.einsum("bljd,ild,i->bij", windows(z, 3, 2), w, c / np.sqrt(d)) + r[:, None]


def check(run: ricci.Executable, values: Values) -> None:
    np.testing.assert_allclose(run(X), expected(values), rtol=2e-5, atol=2e-5)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files, in the order in which they are read."""
    found: list[str] = []
    plain = StoredTensor.read

    def noted(self: StoredTensor, into: Any = None) -> Any:
        found.append(Path(self.path).stem)
        return plain(self, into)

    monkeypatch.setattr(StoredTensor, "read", noted)
    return found


def test_every_file_is_read_once(folder: Path, values: Values, read: list[str]) -> None:
    run = ricci.load(folder).compile()
    check(run, values)
    check(run, values)
    assert sorted(read) == sorted(values)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_reading_and_assigning(folder: Path, values: Values, target: str) -> None:
    run = ricci.load(folder).compile(target)
    for name, value in values.items():
        np.testing.assert_array_equal(run.variables[name], value)
        assert not run.variables[name].flags.writeable
    for name in ("main.G.a", "main.G.w", "main.G.a", "main.G.r"):
        values[name] = values[name] + np.float32(0.25)
        run.variables[name] = values[name]
        check(run, values)
        np.testing.assert_array_equal(run.variables[name], values[name])


def test_an_assignment_prepares_only_what_depends_on_it(
    folder: Path, values: Values, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "AT_ONCE", 0)
    run = ricci.load(folder).compile()
    read.clear()
    values["main.G.a"] = values["main.G.a"] * 2
    run.variables["main.G.a"] = values["main.G.a"]
    check(run, values)
    assert "main.G.v" in read and "main.G.w" not in read


def test_files_that_are_gone(folder: Path, values: Values) -> None:
    model = ricci.load(folder)
    run = model.compile()
    shutil.rmtree(folder)
    check(run, values)
    with pytest.raises(Error, match="E0701"):
        run.variables["main.G.v"]
    with pytest.raises(Error, match="E0701"):
        model.variables["main.G.v"]
    values["main.G.b"] = values["main.G.b"] * 2
    run.variables["main.G.b"] = values["main.G.b"]
    with pytest.raises(Error, match="E0701"):
        run(X)
    values["main.G.v"] = values["main.G.v"] * 3  # nothing needs the file any more
    run.variables["main.G.v"] = values["main.G.v"]
    for name in ("a", "w", "c", "d", "r"):
        run.variables[f"main.G.{name}"] = values[f"main.G.{name}"]
    check(run, values)


def test_files_that_change(folder: Path, values: Values) -> None:
    model = ricci.load(folder)
    run = model.compile()
    path = folder / "main.G.v.dat"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    check(run, values)
    for holder in (run, model):
        with pytest.raises(Error, match="E0702") as caught:
            holder.variables["main.G.v"]
        assert "has changed since" in str(caught.value)
    fresh = ricci.load(folder).compile().variables["main.G.v"]
    assert fresh.tobytes() == bytes(data[128:])


def test_saving_to_the_folder_that_others_read(folder: Path, values: Values) -> None:
    model = ricci.load(folder)
    run = model.compile()
    other = ricci.load(folder).compile()
    new = {**values, "main.G.v": values["main.G.v"] * 2}
    before = {n: (folder / f"{n}.dat").stat().st_mtime_ns for n in values}
    model.save(folder, variables={"main.G.v": new["main.G.v"]})
    written = {n for n in values if (folder / f"{n}.dat").stat().st_mtime_ns != before[n]}
    assert written == {"main.G.v"}
    check(ricci.load(folder).compile(), new)
    for old in (run, other):
        np.testing.assert_array_equal(old.variables["main.G.v"], values["main.G.v"])
        changed = {**values, "main.G.b": values["main.G.b"] + 1}
        old.variables["main.G.b"] = changed["main.G.b"]  # what else it is prepared with is read
        check(old, changed)


def test_saving_again_where_a_reader_has_kept_a_file(folder: Path, values: Values) -> None:
    old = ricci.load(folder).compile()
    for factor in (2, 3):
        new = {"main.G.w": values["main.G.w"] * factor}
        ricci.load(folder).save(folder, variables=new)
        check(ricci.load(folder).compile(), {**values, **new})
        np.testing.assert_array_equal(old.variables["main.G.w"], values["main.G.w"])
    ricci.load(folder).save(folder, variables=values)
    check(ricci.load(folder).compile(), values)


def test_a_model_keeps_what_was_read(folder: Path, values: Values) -> None:
    model = ricci.load(folder)
    for name, value in values.items():
        np.testing.assert_array_equal(model.variables[name], value)
    shutil.rmtree(folder)
    check(model.compile(), values)


@pytest.mark.parametrize("real", ["float64", "float16", "bfloat16"])
def test_other_types_than_in_files(folder: Path, values: Values, real: str) -> None:
    found = ricci.load(folder).compile(real=real)
    plain = ricci.parse(TEXT)
    for name, value in values.items():
        plain.variables[name] = value
    other = plain.compile(real=real)
    for name in values:
        np.testing.assert_array_equal(found.variables[name], other.variables[name])
    x = X.astype(np.float64)
    np.testing.assert_array_equal(found(x), other(x))
