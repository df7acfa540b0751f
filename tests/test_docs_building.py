"""What `docs/building.md` shows is what happens."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ricci.ahead.header import CODES
from ricci.backends.llvm.targets import NAMES

from .ahead import ALWAYS, ARM, MAPPING, THREADS, Failed, Model

PAGE = (Path(__file__).parents[1] / "docs" / "building.md").read_text("utf-8")


def _block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page does in Python, in a folder."""
    (folder / "count.sknd").write_text(_block("sknd"))
    monkeypatch.chdir(folder)
    exec(compile(_block("python"), "building.md", "exec"), {})


def test_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path, monkeypatch)
    paths = tuple(tmp_path / name for name in ("Count.o", "Count.h", "example.c"))
    built = Model(paths)
    total, calls = built.run([np.array([1, 2, 4.5], np.float32)], [3])
    lines = [f"{total[0]:g} {calls}"]
    try:
        built.run([np.zeros(101, np.float32)], [101])
    except Failed:
        lines.append(built.error())
    built.destroy()
    assert "\n".join(lines) + "\n" == _block("text")
    compiler = shutil.which("cc")
    if compiler is not None:
        (tmp_path / "use.c").write_text(_block("c"))
        strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        command = [compiler, *strict, "use.c", "Count.o", "-o", "use", "-lm"]
        subprocess.run(command, cwd=tmp_path, check=True)
        done = subprocess.run([tmp_path / "use"], capture_output=True, text=True, check=True)
        assert done.stdout == _block("text")


def test_functions_and_codes_are_those_there_are() -> None:
    table = PAGE[PAGE.index("| when | functions |") :]
    named = set(re.findall(r"`([a-z_]+)`", table[: table.index("\n\n")]))
    assert named - {"floorf", "ceilf", "truncf", "roundf", "fmaf", "double"} == (
        ALWAYS | ARM | MAPPING | THREADS
    )
    codes = {int(n) for n in re.findall(r"\b[5-9]0\d\b", PAGE[PAGE.index("They return 0") :])}
    assert codes == {number for number, _ in CODES.values()} - {0}
    targets = re.findall(r"`((?:x86|aarch)[\w-]*)`", PAGE)
    assert targets and set(targets) <= set(NAMES)


def test_several_models_may_be_used_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by a thread of its own: calls do not hold the lock of Python."""
    build(tmp_path, monkeypatch)
    first = Model(tuple(tmp_path / name for name in ("Count.o", "Count.h")))

    def use(number: int) -> int:
        model = ctypes.c_void_p()
        create = first._function("create", ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
        assert create(ctypes.addressof(model), 1, None) == 0
        words = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3]
        run = first._function("run", *words)
        x, total, calls = np.full(100, number, np.float32), np.zeros(1, np.float32), np.zeros(())
        for _ in range(200):
            run(model, 100, x.ctypes.data, total.ctypes.data, calls.ctypes.data)
            assert total[0] == 100 * number
        first._function("destroy", ctypes.c_void_p)(model)
        return int(calls.view(np.int64))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(use, range(8))) == [240] * 8
