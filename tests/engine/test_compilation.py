"""Kernels are compiled in batches, by a thread and a second process; the code is the same."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import compilation
from ricci.backends.llvm.compilation import Compilation
from ricci.backends.llvm.jit import Library, compile_text
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.target import Target, host

TEXT = """
define void @kernel(ptr %table, ptr %scratch, i64 %begin, i64 %end) {{
  %v = add i64 %begin, {number}
  store i64 %v, ptr %scratch
  ret void
}}
"""


def codes(count: int) -> dict[str, KernelCode]:
    return {
        f"k{n}": KernelCode(TEXT.format(number=n), (), 1, work=1e6 * (n % 3)) for n in range(count)
    }


def objects_of(kernels: dict[str, KernelCode]) -> tuple[bytes, ...]:
    with Compilation(host()) as made:
        for symbol, code in kernels.items():
            made.add(symbol, code)
        return made.objects()


@pytest.fixture(params=["alone", "helped", "refused"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Batches of a kernel or two; what another process has been asked for, if there is one."""
    asked: list[str] = []

    def helped(text: str, target: Target, level: int) -> bytes | None:
        asked.append(text)
        return compile_text(text, target, level) if request.param == "helped" else None

    monkeypatch.setattr(compilation, "_BATCH", 300)
    monkeypatch.setattr(compilation, "elsewhere", None if request.param == "alone" else helped)
    return asked


def test_each_kernel_is_in_one_file(way: list[str]) -> None:
    kernels = codes(9)
    files = objects_of(kernels)
    assert len(files) >= 3
    library = Library(files, host())
    assert len({library.address(symbol) for symbol in kernels} - {0}) == 9
    assert all(sum(symbol.encode() in file for file in files) == 1 for symbol in kernels)


def test_files_depend_on_the_kernels_alone(way: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    files = objects_of(codes(9))
    monkeypatch.setattr(compilation, "elsewhere", None)
    assert files == objects_of(codes(9))


def test_programs_of_several_batches(way: list[str]) -> None:
    text = """
    import math;
    graph G { @input { x: real[5]; } @output { y: real; } @compose {
        e = math.exp(x); a = math.sum_reduce{axes=[0]}(e);
        s = math.sin(x); b = math.max_reduce{axes=[0]}(s); y = math.mul(a, b); } }
    """
    x = np.linspace(0, 1, 5, dtype=np.float32)
    model = ricci.parse(text, "skriptnd")
    expected = model.compile(target="interpreter")(x)
    assert np.allclose(model.compile()(x), expected, rtol=1e-5)


def test_small_programs_have_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with Compilation(host()) as made:
        made.add("k", codes(1)["k0"])
        assert len(made.objects()) == 1
        assert made._threads is None


def test_errors_come_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1)
    with pytest.raises(RuntimeError), Compilation(host()) as made:
        made.add("k", KernelCode("define nonsense {", (), 1, work=1e6))
        made.objects()


def test_what_nobody_waits_for_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1)
    done: list[str] = []

    def slow(text: str, target: Target, level: int) -> bytes:
        done.append(text)
        return b""

    monkeypatch.setattr(compilation, "elsewhere", slow)
    with pytest.raises(KeyboardInterrupt), Compilation(host()) as made:
        for symbol, code in codes(4).items():
            made.add(symbol, code)
        raise KeyboardInterrupt
    assert made._threads is not None
    with pytest.raises(RuntimeError, match="shutdown"):
        made._threads.submit(print)


_TWIN = """
import os
from ricci.backends.llvm.jit import compile_text
from ricci.backends.llvm.target import host
from ricci.runtime.compiler_twin import start_twin

def started():
    os.sched_getaffinity = lambda process: {0, 1}
    twin = start_twin()
    assert twin is not None
    return twin

target = host()
text = f'target triple = "{target.triple}"\\n' + TEXT
"""


@pytest.mark.parametrize(
    "program",
    [
        "t = started()\nfor level in (2, 0):\n"
        "    assert t.compile(text, target, level) == compile_text(text, target, level)\nt.close()",
        "t = started()\nwith t._lock: assert t.compile(text, target, 2) is None\nt.close()",
        "t = started()\nos.kill(t.process, 9)\nos.waitpid(t.process, 0)\n"
        "assert t.compile(text, target, 2) is None\nt.close()",
        "t = started()\nassert t.compile('define nonsense {', target, 2) is None\n"
        "assert t.compile(text, target, 2) is None\nt.close()",
        "os.sched_getaffinity = lambda process: {0}\nassert start_twin() is None",
    ],
    ids=["the same code", "one thing at a time", "killed", "nonsense", "one core"],
)
def test_second_process(program: str) -> None:
    """In a Python of its own: what is forked has one thread. It is forked under Linux alone."""
    if sys.platform != "linux":
        program = "assert start_twin() is None"
    text = repr(TEXT.format(number=3))
    whole = _TWIN.replace("TEXT", text) + program
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_functions_that_nobody_calls_are_not_written(target: str) -> None:
    """LLVM would compile them all the same."""
    model = ricci.parse("""
        import nn;
        graph G {
            @input { x: real[1, 64, 28, 28]; }
            @output { y: real[1, 250, 28, 28]; }
            @variable { f: real[64, 64, 3, 3]; g: real[250, 64, 1, 1]; }
            @compose { a = nn.conv{padding = 1}(x, f); y = nn.conv{padding = 0}(a, g); }
        }""")
    text = model.show("llvm", target=target)
    names = re.findall(r"^define internal \S+ @([\w.]+)\(", text, flags=re.M)
    called = set(re.findall(r"call \S+ @([\w.]+)\(", text))
    assert names and set(names) <= called
