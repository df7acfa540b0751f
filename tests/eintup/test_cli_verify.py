"""`ricci verify`: the table, what is said of failures, exit codes, options."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ricci.cli import main

Captured = pytest.CaptureFixture[str]

TILE = """\
X[e] = RANDOM(0, 10, INT)
Y[m * DIMS(e) + e] = X[e]

{call}

Y

RANK(e) IN [1, 2]
DIMS(m) IN [1, 3]
DIMS(e) IN [2, 4]
"""


@pytest.fixture
def right(tmp_path: Path) -> str:
    path = tmp_path / "tile.et"
    path.write_text(TILE.format(call="np.tile(X, DIMS(m))"))
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.et"
    path.write_text(TILE.format(call="np.add(np.tile(X, DIMS(m)), DIMS(m)[0])"))
    return str(path)


def test_the_table(right: str, capsys: Captured) -> None:
    assert main(["verify", right, "--reps", "2", "--seed", "7"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["Case", "e", "m", "Valid"]
    assert [line.split()[0] for line in lines[2:6]] == ["1.1", "1.2", "2.1", "2.2"]
    assert all(line.endswith("[True]") for line in lines[2:6])
    assert lines[-1].startswith("4 cases: 4 valid, 0 not; ") and lines[-1].endswith("seed 7")
    assert err == f"verifying 4 cases of {right} ...\n"


def test_failures(wrong: str, capsys: Captured) -> None:
    assert main(["verify", wrong, "--reps", "3"]) == 1
    out, _ = capsys.readouterr()
    assert out.count("[False]") == 6
    assert "case 1.1 and 5 more: the values of `Y` differ\n" in out
    assert "  smallest failure found: e = [2], m = [1]\n" in out
    assert "  Y[m * DIMS(e) + e=[0]] is " in out and "2 of 2 elements differ" in out
    assert "6 cases: 0 valid, 6 not; " in out


def test_the_command_that_repeats_a_failure(wrong: str, capsys: Captured) -> None:
    given = ["--seed", "4", "--attrib", "RANK(e)=2", "--dims", "1..3", "--rtol", "0.01"]
    given += ["--target", "interpreter"]
    assert main(["verify", wrong, *given]) == 1
    out, _ = capsys.readouterr()
    (line,) = [x for x in out.splitlines() if x.startswith("  again: ")]
    assert shlex.split(line)[1:] == ["ricci", "verify", wrong, *given, "--case", "1.1"]
    (row,) = [x for x in out.splitlines() if x.startswith("1.1")]
    assert main(shlex.split(line)[2:]) == 1
    assert row in capsys.readouterr().out.splitlines()


def test_what_is_fixed(right: str, capsys: Captured) -> None:
    assert main(["verify", right, "--attrib", "RANK(e)=2", "--attrib", "DIMS(m)=7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and lines[2].endswith("  [7, 7]  [True]")
    assert main(["verify", right, "--attrib", "DIMS(n)=7"]) == 1
    assert "the program has no eintup `n`" in capsys.readouterr().err


def test_one_case_again(wrong: str, capsys: Captured) -> None:
    assert main(["verify", wrong, "--reps", "3"]) == 1
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("2.3"))
    assert main(["verify", wrong, "--case", "2.3"]) == 1
    out, _ = capsys.readouterr()
    assert out.splitlines()[2].split() == line.split() and "1 case: 0 valid, 1 not" in out


def test_json(wrong: str, capsys: Captured) -> None:
    assert main(["verify", wrong, "--json", "--target", "interpreter", "--threads", "1"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["seed"], found["outputs"]) == (False, 0, ["Y"])
    first = found["cases"][0]
    assert first["id"] == "1.1" and first["valid"] == [False] and len(first["dims"]["e"]) == 1
    difference = first["smallest"]["differences"]["Y"]
    assert difference["kind"] == "values" and difference["index"] == [0]
    assert int(difference["expected"]) == int(difference["ours"]) + 1


def test_tolerances(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "scaled.et"
    path.write_text("X[a] = RANDOM(1, 2, FLOAT)\nY[a] = X[a] * 1.01\n\nnp.copy(X)\n\nY\n")
    assert main(["verify", str(path)]) == 1
    assert main(["verify", str(path), "--rtol", "0.02"]) == 0
    assert main(["verify", str(path), "--atol", "0.5"]) == 0
    assert main(["verify", str(path), "--rtol", "0.02", "--dims", "0..0"]) == 0
    assert "[0]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [["--dims", "3..1"], ["--dims", "4"], ["--reps", "0"], ["--atol", "-1"], ["--rtol", "nan"]],
)
def test_wrong_usage(right: str, options: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["verify", right, *options])
    assert ended.value.code == 2 and options[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("X[a] = RANDOM(0, 1, FLOAT)\n", [], "it has no call"),
        (TILE.format(call="np.tiel(X, DIMS(m))"), [], "or `tile`?"),
        (TILE.format(call="np.tile(X, DIMS(m))"), ["--case", "3.1"], "there is no case `3.1`"),
        (TILE.format(call="np.tile(X, DIMS(m)"), [], "error[E01"),
        (TILE.format(call="np.tile(Z, DIMS(m))"), [], "`Z`"),
    ],
)
def test_errors(
    tmp_path: Path, text: str, options: list[str], words: str, capsys: Captured
) -> None:
    path = tmp_path / "a.et"
    path.write_text(text)
    assert main(["verify", str(path), *options]) == 1
    out, err = capsys.readouterr()
    assert words in err and not out


def test_a_file_of_another_language(tmp_path: Path, capsys: Captured) -> None:
    assert main(["verify", str(tmp_path / "a.sknd")]) == 1
    assert "not an Einsum Tuple program" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "absent.et")]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_frameworks_write_nothing(tmp_path: Path) -> None:
    """In a process of its own, TensorFlow starts quietly, also where warnings are errors."""
    path = tmp_path / "quiet.et"
    path.write_text(TILE.format(call="tf.tile(X, DIMS(m))"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "ricci", "verify", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, f"verifying 2 cases of {path} ...\n")
