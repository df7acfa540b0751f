"""From how many bytes on no cache is likely to have a tensor: results are written past the caches,
and rows that are turned are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest, nest_uses
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.emit_parts import Kept
from ricci.backends.llvm.kernels import generate
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.nest_turn import plan_turned
from ricci.backends.llvm.target import Target
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Reduce
from ricci.ir.rewrite import accesses
from ricci.passes.pipeline import lower

from .running import HOST, run_code

WHOLE = replace(HOST, vector_bytes=32, registers=15, masks=False, features="", units=2)
HALVES = replace(WHOLE, units=1)
SHAPE = (80, 608)
SIZE = 4 * 80 * 608
KERNELS = {
    "a map": "O(i, j) = X(i, j) * 2",
    "a turned map": "O(j, i) = X(i, j)",
    "a group": "m(i) max=! X(i, j)  e(i, j) = exp(X(i, j) - m(i))  O(i, j) = e(i, j) * 0.5",
}


@pytest.mark.parametrize("body", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("shared", [SIZE, SIZE + 1])
@pytest.mark.parametrize("target", [WHOLE, HALVES], ids=["whole", "halves"])
def test_results_past_the_caches(body: str, shared: int, target: Target) -> None:
    """Where vectors are stored in halves, as many bytes as are likely to stay in the shared cache;
    elsewhere 16 MB, which these are not."""
    graph = ricci.tc.define(f"def f(float(N, K) X) -> (O) {{ {body} }}")["f"].graph
    sizes = {s: {"N": 80, "K": 608}[s.name] for s in graph.symbols}
    (kernel,) = lower(graph, sizes, Types()).kernels
    code = generate(kernel, {}, replace(target, shared=shared))
    assert ("!nontemporal" in code.text) == (target is HALVES and shared == SIZE)
    x = np.random.default_rng(len(body)).standard_normal(SHAPE, np.float32)
    (want,) = interpret(graph, {"X": x}).values()
    memory = np.full(want.size + 32, 7, np.float32)
    begin = -memory.ctypes.data // 4 % 16
    for first in (begin, begin + 1):  # at a line, and within one
        out = memory[first : first + want.size].reshape(want.shape)
        arrays = {t: {"X": x, "O": out}[t.name.rpartition(".")[2]] for t in code.tensors}
        assert not run_code(code, arrays).any()
        np.testing.assert_allclose(out, want, 1e-6)
        assert (memory[:first] == 7).all()
        assert (memory[first + want.size :] == 7).all()
        memory[:] = 7


LONG = replace(WHOLE, vector_bytes=64, registers=32, masks=True)


@pytest.mark.parametrize(
    ("channels", "window", "target", "past"),
    [(3, 3, WHOLE, False), (2, 3, WHOLE, True), (12, 1, WHOLE, True), (3, 3, LONG, True)],
    ids=["many terms", "few terms", "few terms of one place", "long vectors"],
)
def test_rows_of_many_terms_are_stored_plainly(
    channels: int, window: int, target: Target, past: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nest_uses, "LARGE", 1)
    body = "O(f, y, x) +=! X(c, y + k, x + l) * W(f, c, k, l)"
    heading = "def f(float(C, H, V) X, float(F, C, K, K) W) -> (O)"
    graph = ricci.tc.define(f"{heading} {{ {body} }}")["f"].graph
    known = {"C": channels, "H": 63 + window, "V": 63 + window, "F": 8, "K": window}
    sizes = {s: known[s.name] for s in graph.symbols}
    (kernel,) = lower(graph, sizes, Types()).kernels
    assert isinstance(kernel, Reduce)
    plan = make_plan(kernel, Frame({}, target), target)
    assert plan.rows > 1
    assert ("!nontemporal" in nest.generate(kernel, {}, target).text) == past


@pytest.mark.parametrize("shared", [SIZE, SIZE + 1])
@pytest.mark.parametrize("target", [WHOLE, HALVES], ids=["whole", "halves"])
@pytest.mark.parametrize("is_local", [False, True])
def test_rows_that_are_turned(
    is_local: bool, target: Target, shared: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what stays near they are asked for where the processor follows few of them itself."""
    graph = ricci.tc.define("def f(float(N, K) X) -> (O) { O(j, i) = X(i, j) }")["f"].graph
    sizes = {s: {"N": 80, "K": 608}[s.name] for s in graph.symbols}
    (kernel,) = lower(graph, sizes, Types()).kernels
    assert isinstance(kernel, Reduce)
    given = replace(target, shared=shared)
    frame = Frame({}, given)
    if is_local:
        frame.local.update((a.tensor, Kept(0, (608, 1))) for a in accesses(*kernel.initial))
    plan = plan_turned(kernel, frame, given, near=True)
    assert plan is not None and not plan.streams
    assert bool(plan.ahead) == (target is HALVES and shared == SIZE and not is_local)
    monkeypatch.setattr(nest_uses, "LARGE", 1)
    plan = plan_turned(kernel, frame, given, near=True)
    assert plan is not None and bool(plan.ahead) == (target is HALVES and not is_local)


LEAVING = """
def f(float(N, K) X, float(N, K) S) -> (Y, T) {
    a(i, j) = X(i, j) + S(i, j)
    Y(i, j) = exp(a(i, j))
    T(i, j) = a(i, j) * 2 + Y(j, i)
}
"""


@pytest.mark.parametrize(
    ("size", "states", "leave"),
    [(512, 0, {"T"}), (512, 1, set()), (511, 0, set())],
    ids=["large", "new values of a variable", "small"],
)
def test_which_results_leave_the_program(size: int, states: int, leave: set[str]) -> None:
    """Large ones that neither it nor its next call reads."""
    graph = ricci.tc.define(LEAVING)["f"].graph
    program = lower(graph, dict.fromkeys(graph.symbols, size), Types(), states=states)
    kernels = [k for k in program.kernels if isinstance(k, Reduce)]
    written = {t.tensor.name.rpartition(".")[2] for k in kernels for t in k.targets}
    assert {"Y", "T"} <= written
    found = {t.tensor.name.rpartition(".")[2] for k in kernels if k.leaves for t in k.targets}
    assert found == leave
