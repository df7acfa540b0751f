"""Large programs are compiled in a process of their own, and nobody can tell but by the memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.schedule import NO_SCHEDULES, Dots, Schedules
from ricci.dtypes import DType, Types
from ricci.ir.nodes import Graph
from ricci.runtime import compiler_process, image_file, pool
from ricci.runtime.compiler_process import Compiler, image_of
from ricci.runtime.work import LARGE, Work, is_large

SUMS = """
operator spread { @attrib { n: int; } @input { x: real[m]; } @output { y: real[n]; }
    @lower { y[i,] = 0.0, i < n; y[i,] += x[j,] * 0.5, i < n, j < m; } }
graph G { @input { x0: real[3]; } @output { y: real[2]; } @compose { %s y = spread{n = 2}(x%d); } }
"""


def text_of(count: int) -> str:
    """A program of some different sums."""
    parts = [f"x{k + 1} = spread{{n = {k % 5 + k // 5 + 1}}}(x{k});" for k in range(count - 1)]
    return SUMS % (" ".join(parts), count - 1)


LARGE_TEXT = text_of(2 * LARGE)


def expected() -> np.ndarray[Any, Any]:
    run = ricci.parse(LARGE_TEXT).compile(target="interpreter", real="float64")
    return np.asarray(run(np.ones(3)))


@pytest.fixture
def graph() -> Graph:
    found = ricci.parse(LARGE_TEXT).graph
    assert is_large(found)
    return found


def work_on(graph: Graph, schedules: Schedules = NO_SCHEDULES) -> Work:
    types = Types(DType.FLOAT32, DType.INT64)
    return Work(graph, {}, types, {}, 0, pool.this_machine(), schedules)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started, as if LLVM was not there yet."""
    found: list[subprocess.Popen[bytes]] = []
    plain = subprocess.Popen

    def start(*args: Any, **more: Any) -> subprocess.Popen[bytes]:
        found.append(plain(*args, **more))
        return found[-1]

    monkeypatch.delenv("RICCI_NO_CACHE", raising=False)
    monkeypatch.setattr(compiler_process, "has_llvm", lambda: False)
    monkeypatch.setattr(subprocess, "Popen", start)
    return found


Cold = Callable[..., dict[str, Any]]

_PROGRAM = """
import json, sys
assert __name__ == "__main__"
print("once", file=sys.stderr)
import numpy as np, ricci
run = ricci.parse(sys.argv[1]).compile(threads=1)
loaded = [m for m in ("llvmlite.binding", "ricci.passes.pipeline") if m in sys.modules]
print(json.dumps({"result": run(np.ones(3)).tolist(), "loaded": loaded}))
"""


@pytest.fixture
def cold(tmp_path: Path) -> Cold:
    """Runs a program file in a fresh process with an empty cache."""
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    (tmp_path / "elsewhere").mkdir()

    def run(text: str, **settings: str) -> dict[str, Any]:
        environment = os.environ | {"RICCI_CACHE_DIR": str(tmp_path / "cache")} | settings
        environment.pop("RICCI_NO_CACHE", None)
        command = [sys.executable, "-P", str(script), text]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stderr == "once\n"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


def test_the_caller_has_no_compiler(cold: Cold) -> None:
    found = cold(LARGE_TEXT)
    assert found["loaded"] == []
    np.testing.assert_allclose(found["result"], expected(), rtol=1e-5)


def test_small_programs_and_the_setting(cold: Cold) -> None:
    both = ["llvmlite.binding", "ricci.passes.pipeline"]
    assert cold(text_of(3))["loaded"] == both
    off = cold(LARGE_TEXT, RICCI_COMPILER_PROCESS="0")
    assert off["loaded"] == both
    np.testing.assert_allclose(off["result"], expected(), rtol=1e-5)


OPEN = """
import nn;
graph G { @input { x: real[b|64, c|40]; w: real[12, c]; } @output { y: real[b, 12]; }
    @compose { z = nn.linear(x, w); y = nn.softmax(z); } }
"""


@pytest.mark.parametrize("sizes", [None, (), (8, 5)])
def test_images_are_the_same(sizes: tuple[int, ...] | None, graph: Graph) -> None:
    """Of fixed sizes, of open ones, and of sizes that a call fixes."""
    chosen = graph if sizes is None else ricci.parse(OPEN).graph
    known = dict(zip(chosen.symbols, sizes, strict=True)) if sizes else {}
    work = replace(work_on(chosen), sizes=known)
    with Compiler() as compiler:
        assert compiler.machine() == work.target
        image = compiler.image(work)
    assert image == image_file.pack(work.image())


def test_threads_start_their_own(graph: Graph, started: list[subprocess.Popen[bytes]]) -> None:
    images: list[bytes] = []
    work = work_on(graph)
    threads = [threading.Thread(target=lambda: images.append(image_of(work, None))) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) == 2
    assert images[0] == images[1]
    assert all(p.returncode is not None for p in started)


@pytest.mark.parametrize(
    "does",
    [
        "raise SystemExit(3)",
        "import os; os.kill(os.getpid(), 9)",
        "print('garbage' * 100000)",
        "import sys; sys.stdin.buffer.read(100); print('{}'); print('garbage' * 9)",
        "print('not closed', flush=True); import os; os.close(1); sys.stdin.read()",
    ],
)
def test_what_goes_wrong_there_is_done_here(
    does: str, graph: Graph, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_process, "_START", f"import sys; {does}")
    work = work_on(graph)
    assert image_of(work, None) == image_file.pack(work.image())
    with compiler_process.Compiler() as compiler:
        assert compiler.machine() is None
    assert [p.returncode is None for p in started] == [False, False]


def test_without_an_executable_it_is_done_here(
    graph: Graph, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("", "/nowhere/python3", "/bin/false"):
        monkeypatch.setattr(sys, "executable", path)
        assert compiler_process.start(graph) is None
    assert not started


def test_errors_are_the_same(graph: Graph, started: list[subprocess.Popen[bytes]]) -> None:
    work = work_on(graph, Schedules((Dots("left", 1, 1),)))
    with pytest.raises(ricci.Error) as here:
        work.image()
    with pytest.raises(ricci.Error) as there:
        image_of(work, None)
    assert str(there.value) == str(here.value)
    assert len(started) == 1


def test_an_interruption_ends_it(
    graph: Graph, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_process, "_START", "import sys; sys.stdin.read()")
    main = threading.main_thread().ident
    assert main is not None
    # tests that are run in the background of a shell ignore interruptions
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            image_of(work_on(graph), None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [p.returncode for p in started] == [-signal.SIGKILL]


def test_it_ends_with_its_caller(tmp_path: Path, graph: Graph) -> None:
    """Even when it has work, and the caller has no time to end it."""
    program = """
import os, sys, time
from ricci.runtime import compiler_process
compiler = compiler_process.Compiler()
assert compiler.machine()
data = open(sys.argv[1], "rb").read()
compiler._send(b"%d\\n%b" % (len(data), data))
print(compiler._process.pid, flush=True)
os._exit(0)
"""
    path = tmp_path / "work"
    path.write_bytes(work_on(graph).to_bytes())
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    deadline = time.monotonic() + 60
    while _runs(int(done.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _runs(process: int) -> bool:
    """Whether there is such a process that has not ended, even if nobody has asked how it did."""
    if sys.platform != "linux":
        command = ["ps", "-o", "stat=", "-p", str(process)]
        state = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return bool(state) and "Z" not in state
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
