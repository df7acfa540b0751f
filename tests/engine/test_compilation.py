"""Kernels are compiled in batches, by a thread and a second process; the code is the same."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable, Iterable

import llvmlite.binding as llvm
import numpy as np
import pytest

import ricci
from ricci.backends.llvm import compilation
from ricci.backends.llvm.compilation import Compilation
from ricci.backends.llvm.jit import Library, assembly, compile_text, machine
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
    listed = list(kernels.values())
    with Compilation(host()) as made:
        made.share(len(listed), listed.__getitem__, ())
        for number, symbol in enumerate(kernels):
            made.add(symbol, made.generated(number) or listed[number])
        return made.objects()


class Process:
    """A helper that is this process: it does what it is asked for a number of times."""

    def __init__(self, generate: Callable[[int], KernelCode], times: int) -> None:
        self.generate_one, self.left = generate, times
        self.closed = False

    def compile(self, text: str, target: Target, level: int) -> bytes | None:
        return compile_text(text, target, level) if self.is_there() else None

    def generate(self, number: int) -> KernelCode | None:
        return self.generate_one(number) if self.is_there() else None

    def close(self) -> None:
        self.closed = True

    def is_there(self) -> bool:
        self.left -= 1
        return self.left >= 0


@pytest.fixture(params=["alone", "helped", "refused", "lost"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Batches of a kernel or two; the other processes that there were."""
    started: list[Process] = []
    times = {"helped": 1000, "refused": 0, "lost": 3}

    def start(generate: Callable[[int], KernelCode], known: Iterable[object]) -> Process:
        started.append(Process(generate, times[request.param]))
        return started[-1]

    monkeypatch.setattr(compilation, "_BATCH", 300)
    if request.param != "alone":
        monkeypatch.setattr(compilation, "start_helper", start)
    return started


def test_each_kernel_is_in_one_file(way: list[Process]) -> None:
    kernels = codes(9)
    files = objects_of(kernels)
    assert len(files) >= 3
    library = Library(files, host())
    assert len({library.address(symbol) for symbol in kernels} - {0}) == 9
    assert all(sum(symbol.encode() in file for file in files) == 1 for symbol in kernels)


def test_files_depend_on_the_kernels_alone(
    way: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = objects_of(codes(9))
    monkeypatch.setattr(compilation, "start_helper", None)
    assert files == objects_of(codes(9))
    assert all(process.closed for process in way)


def test_kernels_are_generated_once(way: list[Process]) -> None:
    """By whoever is there first, the helper those that come last; one that is lost is no matter."""
    asked: list[int] = []
    kernels = list(codes(9).values())

    def generate(number: int) -> KernelCode:
        asked.append(number)
        return kernels[number]

    with Compilation(host()) as made:
        made.share(9, generate, ())
        found = [made.generated(number) for number in range(9)]
    assert all(code in (None, kernel) for code, kernel in zip(found, kernels, strict=True))
    assert sorted(asked) == [n for n, code in enumerate(found) if code is not None]


def test_what_a_helper_loses_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1)
    monkeypatch.setattr(compilation, "start_helper", lambda generate, known: Process(generate, 0))
    with Compilation(host()) as made:
        made.share(0, [].__getitem__, ())
        for symbol, code in codes(3).items():
            made.add(symbol, code)
        made._threads[0].join(60)  # it has been asked for the first one
        assert len(made._waiting) == 3
        library = Library(made.objects(), host())
    assert all(library.address(symbol) for symbol in codes(3))


@pytest.mark.parametrize("batch", [300, 1500, 1 << 16])
def test_functions_of_several_kernels_are_compiled_once(
    batch: int, way: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But those that call others, and others of the same name; in one file or in several, and for
    kernels of little work again, which are compiled fast."""
    monkeypatch.setattr(compilation, "_BATCH", batch)
    monkeypatch.setattr(compilation, "_MOST_OPTIMISED", 0)
    text = """
define void @kernel(ptr %table, ptr %scratch, i64 %begin, i64 %end) {{
  %v = call i64 @kernel.more(i64 %begin, i64 0)
  %w = call i64 @kernel.sum(i64 %v)
  store i64 %w, ptr %scratch
  ret void
}}
define internal i64 @kernel.more(i64 %x, i64 noundef %y) noinline {{
  %v = add i64 %x, {number}
  ret i64 %v
}}
define internal i64 @kernel.sum(i64 %x) {{
  %v = call i64 @kernel.more(i64 %x, i64 1)
  ret i64 %v
}}
"""
    kernels = {
        f"k{n}": KernelCode(text.format(number=n % 2), (), 1, work=1e6 * (n % 4 > 1))
        for n in range(12)
    }
    files = objects_of(kernels)
    library = Library(files, host())
    out = np.zeros(1, np.int64)
    for n, symbol in enumerate(kernels):
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(library.address(symbol))
        run(None, out.ctypes.data, 100, 0)
        assert out[0] == 100 + 2 * (n % 2)
    names = set(re.findall(rb"s[02]\.[0-9a-f]{24}", b"".join(files)))
    assert sorted(name[:2] for name in names) == [b"s0", b"s0", b"s2", b"s2"]


def test_programs_of_several_batches(way: list[Process]) -> None:
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
        assert not made._threads


def test_errors_come_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1)
    with pytest.raises(RuntimeError), Compilation(host()) as made:
        made.add("k", KernelCode("define nonsense {", (), 1, work=1e6))
        made.objects()


def test_what_nobody_waits_for_is_given_up(
    way: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "_BATCH", 1)
    listed = list(codes(40).values())
    with pytest.raises(KeyboardInterrupt), Compilation(host()) as made:
        made.share(len(listed), listed.__getitem__, ())
        for symbol, code in codes(4).items():
            made.add(symbol, code)
        raise KeyboardInterrupt
    assert made._threads and not any(thread.is_alive() for thread in made._threads)
    assert all(process.closed for process in way)


_TWIN = """
import os
from ricci.backends.llvm.jit import compile_text
from ricci.backends.llvm.kernels import KernelCode, Prepare
from ricci.backends.llvm.steps import Site
from ricci.backends.llvm.target import host
from ricci.dtypes import DType
from ricci.ir.nodes import Symbol, Tensor
from ricci.runtime.compiler_twin import start_twin
from ricci.source import NOWHERE, Source, Span

source, symbol = Source("a", "text"), Symbol("n")
tensor = Tensor("t", DType.FLOAT32, (symbol,))

def generate(number):
    new = Tensor("new", DType.FLOAT32, (symbol,))
    sites = Site("t", 0, Span(source, 1, 2)), Site("t", 0, NOWHERE)
    assert number < 9
    part = Prepare(KernelCode("text", (tensor, new), 1), new)
    return KernelCode("text", (tensor, new), number, sites=sites, prepare=(part,), sizes=(symbol,))

def started():
    os.sched_getaffinity = lambda process: {0, 1}
    twin = start_twin(generate, [source, symbol, tensor])
    assert twin is not None
    return twin

target = host()
text = f'target triple = "{target.triple}"\\n' + TEXT
"""


_PROGRAM = """
import ricci
from ricci.backends.llvm.alike import Codes
from ricci.backends.llvm.image import constant_tensors
from ricci.dtypes import Types
from ricci.passes.pipeline import lower

model = ricci.parse('''
    import nn; import math; import layout;
    graph G {
        @input { x: real[1, 16, 12, 12]; k: int[4]; }
        @output { y: real[1, 16, 12, 12]; z: real[1, 4, 12, 12]; }
        @variable { f: real[16, 16, 3, 3]; g: real[16, 16, 1, 1]; }
        @compose {
            a = nn.conv{padding = 1}(x, f);
            b = nn.max_pool{size = 3, padding = 1}(a);
            c = nn.conv{padding = 0}(b, g);
            y = math.add(c, x);
            z = layout.gather{axis = 1}(x, k);
        }
    }''')
program = lower(model.graph, {}, Types())
codes = Codes(target, program.strides)
count = codes.expect(program.prepare, program.kernels, constant_tensors(program))
os.sched_getaffinity = lambda process: {0, 1}
t = start_twin(codes.generate, codes.met.values())
made = [t.generate(n) for n in range(count)]
t.close()
known = set(codes.met)
sites = prepared = 0
for n, code in enumerate(made):
    own = codes.generate(n)
    assert (code.text, code.sites, code.chunks) == (own.text, own.sites, own.chunks)
    assert [id(t) if id(t) in known else t.name for t in code.tensors] == [
        id(t) if id(t) in known else t.name for t in own.tensors
    ]
    assert all(a.span.source is b.span.source for a, b in zip(code.sites, own.sites))
    sites, prepared = sites + len(own.sites), prepared + len(own.prepare)
    for part, other in zip(code.prepare, own.prepare, strict=True):
        assert part.code.text == other.code.text and part.output in code.tensors
assert sites and prepared, (sites, prepared)
"""


@pytest.mark.parametrize(
    "program",
    [
        _PROGRAM,
        "t = started()\nfor level in (2, 0):\n"
        "    assert t.compile(text, target, level) == compile_text(text, target, level)\nt.close()",
        "t = started()\ncode = t.generate(7)\nassert (code.text, code.chunks) == ('text', 7)\n"
        "new = code.tensors[1]\nassert code.tensors[0] is tensor and code.sizes[0] is symbol\n"
        "part = code.prepare[0]\nassert new is part.output and part.code.tensors == code.tensors\n"
        "assert new is not tensor and new.shape[0] is symbol\n"
        "assert code.sites[0].span.source is source and code.sites[1].span is NOWHERE\nt.close()",
        "t = started()\nos.kill(t.process, 9)\nos.waitpid(t.process, 0)\n"
        "assert t.compile(text, target, 2) is None and t.generate(0) is None\nt.close()",
        "t = started()\nassert t.compile('define nonsense {', target, 2) is None\n"
        "assert t.compile(text, target, 2) is None\nt.close()",
        "t = started()\nassert t.generate(9) is None and t.generate(1) is None\nt.close()",
        "os.sched_getaffinity = lambda process: {0}\nassert start_twin(generate, []) is None",
    ],
    ids=[
        "kernels of a program",
        "the same code",
        "the same objects",
        "killed",
        "nonsense",
        "an error",
        "one core",
    ],
)
def test_second_process(program: str) -> None:
    """In a Python of its own: what is forked has one thread. It is forked under Linux alone."""
    if sys.platform != "linux":
        program = "assert start_twin(generate, []) is None"
    text = repr(TEXT.format(number=3))
    whole = _TWIN.replace("TEXT", text) + program
    done = subprocess.run(
        [sys.executable, "-c", whole], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_addresses_stay_as_they_are() -> None:
    """LLVM does not look for others, but does so again for whoever uses it beside this package."""
    target = host()
    text = f"""target triple = "{target.triple}"
define void @f(ptr %to, i64 %n, i64 %step) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %more, %loop ]
  %at = mul i64 %i, %step
  %place = getelementptr float, ptr %to, i64 %at
  store float 1.0, ptr %place
  %more = add i64 %i, 1
  %on = icmp slt i64 %more, %n
  br i1 %on, label %loop, label %end
end:
  ret void
}}
"""

    def others() -> bytes:
        with llvm.parse_assembly(text) as module:
            return bytes(machine(target, 2).emit_object(module))

    compile_text(text, target)
    with_others = others()
    assert compile_text(text, target) != with_others
    assert others() == with_others
    assert "mul" in assembly(text, target)


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
