"""The command on files of this language."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ricci import eintup
from ricci.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "eintup"
MATMUL, CONV, SCATTER = (str(FOLDER / f"{n}.et") for n in ("matmul", "conv_valid_v2", "scatter_nd"))

NOISE = "x[i] = RANDOM(0, 1, FLOAT)\ny[i] = x[i] + RANDOM(0, 1, FLOAT)\n"

Captured = pytest.CaptureFixture[str]


def test_check(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", MATMUL, CONV]) == 0
    out = capsys.readouterr().out
    assert f"ok  {MATMUL}: program matmul: 3 statements, 7 combinations of ranks" in out
    bad = tmp_path / "bad.et"
    bad.write_text("x[i] = RANDOM(0, 1, INT)\ny[i] = RANDOM(0, 1, INT)\ny[i] = x[i] / 2\n")
    assert main(["check", MATMUL, str(bad)]) == 1
    assert "E0301" in capsys.readouterr().err
    assert main(["check", "--json", str(bad)]) == 1
    assert json.loads(capsys.readouterr().out)[0]["diagnostics"][0]["code"] == "E0301"


def test_check_finds_that_no_dims_are_legal(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "f.et").write_text("x[i] = RANDOM(0, 1, FLOAT)\n\nx\n\nDIMS(i) IN [3, 2]")
    assert main(["check", str(tmp_path / "f.et")]) == 1
    assert "error[E0" in capsys.readouterr().err


def test_run_draws_dims_and_inputs(tmp_path: Path) -> None:
    given = ["--attrib", "RANK(batch)=2", "--attrib", "DIMS(row)=3", "--output", str(tmp_path)]
    for seed in ("1", "1", "2"):
        assert main(["run", MATMUL, "--random", seed, *given]) == 0
        found = np.load(tmp_path / "output.npy")
        assert found.ndim == 4
        assert found.shape[2] == 3
        assert found.dtype == np.float64


def test_run_with_files(tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, 3, 4)), rng.random((2, 4, 5))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    given = [f"--input=left={tmp_path / 'a.npy'}", f"--input=right={tmp_path / 'b.npy'}"]
    out = f"--output=output={tmp_path / 'c.npy'}"
    for target in ("cpu", "interpreter"):
        assert main(["run", MATMUL, *given, out, "--target", target]) == 0
        np.testing.assert_allclose(np.load(tmp_path / "c.npy"), a @ b)
    assert main(["run", MATMUL, *given, out, "--real", "float32", "--json"]) == 0
    assert np.load(tmp_path / "c.npy").dtype == np.float32
    capsys.readouterr()
    assert main(["run", MATMUL, *given[:1], "--attrib=DIMS(col)=7", "--random=0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [2, 3, 7]
    assert main(["run", MATMUL, *given[:1]]) == 1
    assert "--random SEED" in capsys.readouterr().err


def test_what_is_drawn_is_what_the_program_says(tmp_path: Path) -> None:
    given = ["--attrib=RANK(slot)=1", "--attrib=RANK(elem)=1", "--output", str(tmp_path)]
    assert main(["run", SCATTER, "--random", "3", *given]) == 0
    assert np.load(tmp_path / "output.npy").min() >= 0


def test_dims_that_are_given_may_be_larger_than_those_drawn(capsys: Captured) -> None:
    conv = "examples/eintup/conv_valid_v2.et"
    given = ["--attrib=RANK(ipos)=1", "--attrib=DIMS(ipos)=50", "--attrib=DIMS(stride)=2"]
    assert main(["run", conv, *given, "--attrib=DIMS(fpos)=3", "--random=0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"][1] == 24


def test_run_draws_what_a_program_draws(tmp_path: Path) -> None:
    (tmp_path / "noise.et").write_text(NOISE)
    np.save(tmp_path / "x.npy", np.zeros(4))
    for seed in (0, 5):
        given = [f"--input=x={tmp_path / 'x.npy'}", f"--random={seed}", "--output", str(tmp_path)]
        assert main(["run", str(tmp_path / "noise.et"), *given]) == 0
        expected = eintup.parse(NOISE)(np.zeros(4), seed=seed)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_run_where_data_decides_about_shapes(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "f.et"
    path.write_text("i[s, coord] = RANDOM(0, 9, INT)\nout[i[s, :]] = 1.0\n")
    np.save(tmp_path / "i.npy", np.array([[0], [3], [3]]))
    given = [f"--input=i={tmp_path / 'i.npy'}", f"--output=out={tmp_path / 'out.npy'}"]
    assert main(["run", str(path), *given]) == 0
    assert np.load(tmp_path / "out.npy").tolist() == [1, 0, 0, 2]
    capsys.readouterr()
    assert main(["show", str(path), "--stage", "ir"]) == 1
    assert "E0507" in capsys.readouterr().err
    assert main(["run", str(path), *given, "--gradient"]) == 1
    assert "E0507" in capsys.readouterr().err


def test_run_gradients(tmp_path: Path, capsys: Captured) -> None:
    given = ["--attrib=RANK(batch)=0", "--attrib=DIMS(row)=2", "--attrib=DIMS(inner)=3"]
    given += ["--attrib=DIMS(col)=4", "--random=0", "--json", "--gradient"]
    assert main(["run", MATMUL, *given]) == 0
    rows = json.loads(capsys.readouterr().out)["outputs"]
    assert [(r["output"], r["shape"]) for r in rows] == [("d_left", [2, 3]), ("d_right", [3, 4])]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--random", "0"], "RANK(batch): 0 to 6"),
        ([], "input `left` is not given"),
        (["--random", "0", "--input", "x=y.npy"], "no input `x`"),
        (["--random", "0", "--attrib", "batch=2"], "`RANK(name)` and `DIMS(name)`"),
        (["--random", "0", "--attrib", "RANK(batch)=9"], "can be 0 to 6"),
    ],
    ids=str,
)
def test_wrong_runs(arguments: list[str], said: str, capsys: Captured) -> None:
    assert main(["run", MATMUL, *arguments]) == 1
    assert said in capsys.readouterr().err


def test_fmt(tmp_path: Path, capsys: Captured) -> None:
    text = "a[i]=RANDOM(0,1,FLOAT)   # in\nb[i]=a[i]+1\n"
    path = tmp_path / "f.et"
    path.write_text(text)
    assert main(["fmt", "--check", str(tmp_path)]) == 1
    assert main(["fmt", "--diff", str(path)]) == 0
    assert "+b[i] = a[i] + 1" in capsys.readouterr().out
    assert main(["fmt", str(tmp_path)]) == 0
    assert path.read_text() == eintup.format(text)
    assert main(["fmt", "--check", str(tmp_path)]) == 0


def test_bench_and_tune(tmp_path: Path, capsys: Captured) -> None:
    given = ["--attrib", "RANK(ipos)=1", "--attrib", "DIMS(stride)=2", "--json"]
    assert main(["bench", CONV, *given, "--calls", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["median call"] > 0
    file = ["--file", str(tmp_path / "tuned")]
    assert main(["tune", CONV, *given, *file, "--seconds", "0.1", "--threads", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["wrong"] == []


@pytest.mark.parametrize("stage", ["syntax", "sknd", "graph", "ir", "loops"])
def test_show(stage: str, capsys: Captured) -> None:
    assert (
        main(
            ["show", CONV, "--stage", stage, "--attrib", "RANK(ipos)=1", "--attrib=DIMS(stride)=2"]
        )
        == 0
    )
    assert "output" in capsys.readouterr().out
    assert main(["show", CONV, "--graphs"]) == 0
    assert capsys.readouterr().out == "conv_valid_v2\n"
