"""Compiled code on disk: found again, never harmful."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import image, target
from ricci.runtime import cache, pool

TEXT = """
graph G { @input { x: real[40]; } @output { y: real[40]; } @compose { y = f(x); } }
operator f { @constant { c: real[3] = [1.0, 2.0, 3.0]; } @input { x: real[n]; }
  @output { y: real[n]; }
  @lower { y[i,] = x[i,] + c[i % 3,], i < n; } }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RICCI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("RICCI_NO_CACHE", raising=False)
    return tmp_path / "cache"


def run() -> None:
    x = np.ones(40, np.float32)
    want = x + np.array([1, 2, 3])[np.arange(40) % 3]
    np.testing.assert_array_equal(ricci.parse(TEXT).compile(threads=1)(x), want)


def test_a_second_compilation_reads_the_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    assert [p.name[:8] for p in folder.iterdir() if p.name.startswith("program")] == ["program-"]
    monkeypatch.setattr(image, "build", None)
    run()


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000])
def test_a_damaged_entry_is_made_anew(folder: Path, damage: bytes) -> None:
    run()
    for path in folder.iterdir():
        path.write_bytes(damage)
    run()


def test_a_truncated_entry_is_made_anew(folder: Path) -> None:
    run()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-7])
    run()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("RICCI_CACHE_DIR", str(file / "cache"))
    run()


def test_nothing_is_written_when_switched_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    run()
    assert not folder.exists()


def test_size_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LARGEST", 10_000)
    monkeypatch.setattr(cache, "TRIM_EVERY", 1)
    folder.mkdir()
    letter = folder / "letter-to-mother"
    letter.write_bytes(b"x" * 20_000)
    os.utime(letter, (0, 0))
    names = [cache.key("entry", str(n)) for n in range(20)]
    for n, name in enumerate(names, 1):
        cache.write(name, b"x" * 1000)
        os.utime(folder / name, (n, n))
    assert cache.read(names[0]) is None
    assert cache.read(names[19]) == b"x" * 1000
    assert letter.exists()  # what is not the cache's stays, and does not count
    assert sum(p.stat().st_size for p in folder.glob("entry-*")) <= 10_000


def test_only_files_are_read(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    assert cache.read("pipe") is None


@pytest.mark.parametrize("entry", [None, b"", b"[]", b"5", b"{}", b'{"cpu":1}', b"\xff"])
def test_the_machine_is_as_llvm_finds_it(folder: Path, entry: bytes | None) -> None:
    find = pool.this_machine.__wrapped__
    for _ in range(2):
        assert find() == target.host()
    for path in folder.glob("machine-*") if entry is not None else ():
        cache.write(path.name, entry or b"")
    assert find() == target.host()
