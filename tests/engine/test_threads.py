"""The pool of workers: same numbers from one thread and several, concurrently, after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import ricci
from ricci.diagnostics import Error
from ricci.runtime import pool, processors
from ricci.runtime.native import Native

KERNELS = 8


def program() -> str:
    """Kernels that are each worth several threads, and cannot be fused."""
    lines = " ".join(f"y{k + 1} = step(y{k});" for k in range(KERNELS))
    return f"""
graph G {{ @input {{ y0: real[64,40,40]; }} @output {{ y{KERNELS}: real[64,40,40]; }}
  @compose {{ {lines} }} }}
operator step {{ @input {{ x: real[c,h,w]; }} @output {{ y: real[c,h,w]; }}
  @lower {{
    y[k,i,j] = 0.0, k < c, i < h, j < w;
    y[k,i,j] += x[k,|i + a - 1|,j] * 0.33, k < c, i < h, j < w, a < 3;
  }} }}
"""


X = np.random.default_rng(0).normal(size=(64, 40, 40)).astype(np.float32)


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    result: np.ndarray = ricci.parse(program()).compile(threads=1)(X)
    return result


ALLOWED = processors.allowed_cpus


@pytest.fixture(scope="module")
def exe(request: pytest.FixtureRequest) -> ricci.Executable:
    """With more threads than this machine has, so that workers have to share."""
    patch = pytest.MonkeyPatch()
    patch.setattr(processors, "allowed_cpus", lambda: [0] * 4)
    request.addfinalizer(patch.undo)
    return ricci.parse(program()).compile(threads=4)


def test_workers_give_the_same(exe: ricci.Executable, expected: np.ndarray) -> None:
    for _ in range(200):
        np.testing.assert_array_equal(exe(X), expected)


def test_several_python_threads(exe: ricci.Executable, expected: np.ndarray) -> None:
    wrong: list[int] = []

    def run() -> None:
        wrong.append(sum(not np.array_equal(exe(X), expected) for _ in range(60)))

    callers = [threading.Thread(target=run) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert wrong == [0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_of_a_fork_has_workers_of_its_own(
    exe: ricci.Executable, expected: np.ndarray
) -> None:
    np.testing.assert_array_equal(exe(X), expected)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(exe(X), expected) for _ in range(20)) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(exe(X), expected)


def test_process_ends_cleanly() -> None:
    text = f"""
import numpy as np, ricci, threading
exe = ricci.parse({program()!r}).compile(threads=2)
x = np.zeros((64, 40, 40), np.float32)
exe(x)
def run():
    while True:
        exe(x)
threading.Thread(target=run, daemon=True).start()
exe(x)
"""
    done = subprocess.run(
        [sys.executable, "-c", text], check=False, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_affinity_of_the_caller_stays(exe: ricci.Executable) -> None:
    if hasattr(os, "sched_getaffinity"):
        before = os.sched_getaffinity(0)
        exe(X)
        assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(len(processors.allowed_cpus()) < 2, reason="needs two processors")
def test_a_worker_leaves_the_core_of_the_caller(
    expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "allowed_cpus", ALLOWED)
    exe = ricci.parse(program()).compile(threads=2)
    exe(X)
    workers = pool.pool_of(2)
    assert workers is not None
    everywhere = os.sched_getaffinity(0)
    try:
        for _ in range(4):
            (cpu,) = workers.cpus
            os.sched_setaffinity(0, {cpu})
            for _ in range(1000):  # a worker that the system has not started yet cannot move
                np.testing.assert_array_equal(exe(X), expected)
                if workers.cpus != [cpu]:
                    break
            assert workers.cpus != [cpu]
    finally:
        os.sched_setaffinity(0, everywhere)


def test_work_is_cut_for_the_threads_of_a_call() -> None:
    """Not for all cores of the machine, of which there may be many more."""
    for count in (1, 2):
        engine = ricci.parse(program()).compile(threads=count)._engine
        assert isinstance(engine, Native)
        assert engine.target.cores == engine.threads <= count


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = len(processors.allowed_cpus())
    assert pool.thread_count(1) == 1
    assert pool.thread_count(10_000) == cpus
    monkeypatch.setenv("RICCI_THREADS", "1")
    assert pool.thread_count(None) == 1
    monkeypatch.setenv("RICCI_THREADS", "many")
    with pytest.raises(Error):
        pool.thread_count(None)


def test_an_error_in_one_chunk_is_reported() -> None:
    text = """
graph G { @input { x: real[9]; k: int[200000]; } @output { y: real[200000]; }
  @compose { y = pick(x, k); } }
operator pick { @input { x: real[n]; k: int[m]; } @output { y: real[m]; }
  @lower { y[i,] = x[k[i,],], i < m; } }
"""
    exe = ricci.parse(text).compile(threads=2)
    places = np.zeros(200000, np.int64)
    x = np.arange(9, dtype=np.float32)
    assert not exe(x, places).any()
    places[123456] = 77
    with pytest.raises(Error, match="index 77 is out of range"):
        exe(x, places)


def test_an_error_does_not_stay() -> None:
    """Not in calls that are known already, either."""
    pick = ricci.tc.define("def pick(float(N) A, int32(M) I) -> (O) { O(m) = A(I(m)) }").pick
    a, good = np.arange(9, dtype=np.float32), np.array([8, 0, 3], np.int32)
    for _ in range(3):
        np.testing.assert_array_equal(pick(a, good), [8, 0, 3])
        for bad in (9, -1):
            with pytest.raises(Error, match=f"index {bad} is out of range"):
                pick(a, np.array([1, bad, 2], np.int32))
