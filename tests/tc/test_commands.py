"""The command on files of this language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ricci.cli import main

TEXT = """
def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }
def mv(float(R, C) A, float(C) B) -> (o) { o(i) += A(i, j) * B(j) }
"""

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "f.tc").write_text(TEXT)
    return str(tmp_path / "f.tc")


def test_warnings_are_those_of_the_function(path: str, capsys: Captured) -> None:
    assert main(["show", path]) == 0
    assert capsys.readouterr().err == ""
    for arguments in (["show", path, "--graph", "mv"], ["check", path], ["convert", path, "-"]):
        assert main(arguments) == 0
        assert capsys.readouterr().err.count("W0218") == 1, arguments


def test_what_is_drawn_fits_what_is_given(path: str, tmp_path: Path, capsys: Captured) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 3), np.float32))
    given = ["run", path, "--target", "interpreter", "--random", "0", "--input"]
    assert main([*given, f"A={tmp_path / 'a.npy'}", "--set", "N=4"]) == 0
    assert "[2, 4]" in capsys.readouterr().out
    assert main([*given, f"B={tmp_path / 'a.npy'}"]) == 1
    assert "input `mm.A` cannot be drawn: its size `M` is open" in capsys.readouterr().err


def test_arguments_beyond_the_memory_are_no_bug(path: str, capsys: Captured) -> None:
    for size, message in ((10**7, "not enough memory"), (10**11, "error[E0901]")):
        sizes = [f"--set={name}={size}" for name in "MKN"]
        assert main(["run", path, "--random", "0", *sizes]) == 1
        assert message in capsys.readouterr().err
