"""Exponentials of what is less than the largest element of its row, and those that only look so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import mathlib, nest_group
from ricci.backends.llvm.builder import Builder
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group
from ricci.passes.pipeline import lower

from .running import HOST, run_code

FEW = replace(HOST, vector_bytes=16, registers=15, masks=False, features="")
"""Without the instructions by which tables are picked from: with these, nothing is gained."""
SIZES = {"N": 80, "K": 601}
BELOW = {
    "its row": "m(i) max=! X(i, k)  O(i, k) = exp(X(i, k) - m(i))",
    "of what is computed": (
        "m(i) max=! X(i, k) * 0.3 + Y(i, k)  O(i, k) = exp((X(i, k) * 0.3 + Y(i, k)) - m(i))"
    ),
    "summed up": "m(i) max=! X(i, k)  O(i) +=! exp(X(i, k) - m(i))",
    "along its row": "m(i) max=! X(i, k)  O(i) max=! exp(X(i, j) - m(i))",
}
OTHERS = {
    "part of its row": "m(i) max=! X(i, k) where k in 0:3  O(i, k) = exp(X(i, k) - m(i))",
    "another tensor": "m(i) max=! X(i, k)  O(i, k) = exp(Y(i, k) - m(i))",
    "another factor": "m(i) max=! X(i, k) * 0.3  O(i, k) = exp(X(i, k) * 0.4 - m(i))",
    "without a factor": "m(i) max=! X(i, k) * 0.3  O(i, k) = exp(X(i, k) - m(i))",
    "another function": "m(i) max=! fabs(X(i, k))  O(i, k) = exp(X(i, k) - m(i))",
    "a neighbour": "m(i) max=! X(i, k) + Y(i, k)  O(i, k) = exp((X(i, k) + Y(i, 4)) - m(i))",
    "a zero of the other sign": (
        "m(i) max=! fabs(X(i, k)) / (-0.0)  O(i, k) = exp(fabs(X(i, k)) / 0.0 - m(i))"
    ),
    "the least": "m(i) min=! X(i, k)  O(i, k) = exp(X(i, k) - m(i))",
    "the other way round": "m(i) max=! X(i, k)  O(i, k) = exp(m(i) - X(i, k))",
}


def functions_of(body: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The functions that the code of a program calls, which gives what the interpreter does."""
    text = f"def f(float(N, K) X, float(N, K) Y) -> (m, O) {{ {body} }}"
    graph = ricci.tc.define(text)["f"].graph
    (kernel,) = lower(graph, {s: SIZES[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(kernel, Group)
    called = set()
    function = mathlib.function

    def noting(b: Builder, name: str, *rest: Any) -> str:
        called.add(name)
        return function(b, name, *rest)

    monkeypatch.setattr(mathlib, "function", noting)
    code = nest_group.write_group(kernel, {}, FEW, frozenset())
    rng = np.random.default_rng(len(body))
    given = {n: rng.normal(size=(80, 601)).astype(np.float32) * 12 for n in "XY"}
    given["X"][3] = -np.inf
    given["X"][4, 5] = np.nan
    given["X"][5, ::2] = -np.inf
    with np.errstate(all="ignore"):
        want = interpret(graph, given)
    made = {n: np.zeros(a.shape, np.float32) for n, a in want.items()}
    arrays = {t: (given | made)[t.name.rpartition(".")[2]] for t in code.tensors}
    assert not run_code(code, arrays).any()
    for name, expected in want.items():
        np.testing.assert_allclose(made[name], expected, 1e-6, 1e-37, err_msg=body)
    return called


@pytest.mark.parametrize("body", BELOW.values(), ids=BELOW)
def test_what_is_at_most_zero(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions_of(body, monkeypatch) == {mathlib.EXP_BELOW}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_may_be_more(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions_of(body, monkeypatch) - {"abs"} == {"exp"}
