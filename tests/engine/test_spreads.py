"""Quotients by roots of sums of squares, of which that of what is divided is one, and those that
only look so."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import emit, nest_group
from ricci.backends.llvm.group_spreads import spreads_of
from ricci.backends.llvm.target import Target
from ricci.dtypes import DType, Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group
from ricci.ir.nodes import Binary, Const, Graph
from ricci.passes.pipeline import lower

from .running import run_code
from .test_peaks import FUSED, SIZES

_MEAN = "t(i) +=! X(i, k)  m(i) = t(i) / 601.0"
_SQUARES = f"{_MEAN}  q(i) +=! (X(i, k) - m(i)) * (X(i, k) - m(i))"
_ROOT = f"{_SQUARES}  d(i) = sqrt(q(i) / 601.0 + 1e-5)"
SPREADS = {
    "of its row": f"{_ROOT}  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "and more": f"{_ROOT}  O(i, k) = (X(i, k) - m(i)) / d(i) * Y(i, k) + 1.0",
    "the other way round": f"{_ROOT}  O(i, k) = (X(i, 600 - k) - m(i)) / d(i) where k in 0:K",
    "no root": f"{_SQUARES}  d(i) = q(i) * 2.0 + 0.5  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "of the terms themselves": (
        "q(i) +=! X(i, k) * X(i, k)  d(i) = sqrt(q(i) + 1e-5)  O(i, k) = X(i, k) / d(i)"
    ),
}
OTHERS = {
    "zeros of either sign": (
        "q(i) +=! (1.0 / (X(i, k) > 0.0 ? X(i, k) : 0.0))"
        " * (1.0 / (X(i, k) > 0.0 ? X(i, k) : -0.0))"
        "  d(i) = q(i) * 2.0 + 1.0  O(i, k) = (1.0 / (X(i, k) > 0.0 ? X(i, k) : 0.0)) / d(i)"
    ),
    "zero": f"{_SQUARES}  d(i) = sqrt(q(i) / 601.0)  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "tiny": f"{_SQUARES}  d(i) = q(i) / 601.0 + 1e-30  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "negative": f"{_SQUARES}  d(i) = q(i) * (-2.0) - 1.0  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "less": f"{_SQUARES}  d(i) = q(i) + (-1.0)  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "its own reciprocal": (
        f"{_SQUARES}  d(i) = 1.0 / (q(i) * 0.002 + 1.0)  O(i, k) = (X(i, k) - m(i)) / d(i)"
    ),
    "bounded": f"{_SQUARES}  d(i) = fmin(q(i) + 1.0, 3.0)  O(i, k) = (X(i, k) - m(i)) / d(i)",
    "another value": f"{_ROOT}  O(i, k) = Y(i, k) / d(i)",
    "a larger value": f"{_ROOT}  O(i, k) = (X(i, k) - m(i)) * 2.0 / d(i)",
    "products": (
        f"{_MEAN}  q(i) +=! (X(i, k) - m(i)) * Y(i, k)  d(i) = sqrt(q(i) + 1e-5)"
        "  O(i, k) = (X(i, k) - m(i)) / d(i)"
    ),
    "the largest square": (
        f"{_MEAN}  q(i) max=! (X(i, k) - m(i)) * (X(i, k) - m(i))  d(i) = sqrt(q(i) + 1e-5)"
        "  O(i, k) = (X(i, k) - m(i)) / d(i)"
    ),
    "a part of a row": (
        f"{_MEAN}  q(i) +=! (X(i, k) - m(i)) * (X(i, k) - m(i)) where k in 0:3"
        "  d(i) = sqrt(q(i) + 1e-5)  O(i, k) = (X(i, k) - m(i)) / d(i)"
    ),
}


def group_of(graph: Graph) -> Group:
    (kernel,) = lower(graph, {s: SIZES[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(kernel, Group)
    return kernel


def program(body: str) -> Graph:
    text = f"def f(float(N, K) X, float(N, K) Y) -> (O) {{ {body} }}"
    return ricci.tc.define(text)["f"].graph


def known_of(body: str, monkeypatch: pytest.MonkeyPatch, target: Target) -> set[emit.Known]:
    """What is known of quotients in the code of a program, which gives what the interpreter does,
    zeros of the same sign, too."""
    graph = program(body)
    kernel = group_of(graph)
    found = set()
    quotients = emit.quotients

    def noting(*given: Any) -> str:
        found.add(given[5])
        return quotients(*given)

    with monkeypatch.context() as patch:
        patch.setattr(emit, "quotients", noting)
        code = nest_group.write_group(kernel, {}, target, frozenset())
    rng = np.random.default_rng(len(body))
    given = {n: rng.normal(size=(80, 601)).astype(np.float32) for n in "XY"}
    x = given["X"]
    x[3, 7] = np.inf
    x[4, 7], x[4, 8] = np.inf, -np.inf
    x[5, 9] = np.nan
    x[6, 5] = 1e25  # whose square is infinite
    x[7] = 2.5
    x[8] = np.where(np.arange(601) % 2, 0.0, -0.0)
    x[9] *= 1e-30
    x[10] *= 1e17
    x[11, 30] = -3e38
    with np.errstate(all="ignore"):
        want = interpret(graph, given)
    made = {n: np.zeros(a.shape, np.float32) for n, a in want.items()}
    arrays = {t: (given | made)[t.name.rpartition(".")[2]] for t in code.tensors}
    assert not run_code(code, arrays).any()
    np.testing.assert_allclose(made["O"], want["O"], 1e-5, 1e-5, err_msg=body)
    zero = want["O"] == 0
    np.testing.assert_array_equal(np.signbit(made["O"][zero]), np.signbit(want["O"][zero]))
    return found


@pytest.mark.parametrize("body", SPREADS.values(), ids=SPREADS)
def test_what_is_divided_by_its_spread(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_of(body, monkeypatch, FUSED) == {emit.Known.OF_SPREAD}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_may_be_infinite(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_of(body, monkeypatch, FUSED) == {emit.Known.NOTHING}


def test_what_is_written_again() -> None:
    """The sums, or the mean in their terms, after the sums have been made."""
    kernels = group_of(program(SPREADS["of its row"])).kernels
    mean, spread, _ = kernels
    assert len(spreads_of(kernels)) == 1
    assert not spreads_of([*kernels, replace(spread)])
    assert not spreads_of([*kernels, replace(mean)])


def test_what_is_no_spread() -> None:
    """Sums from another number than zero on, of some terms, or less than zero, or that lose an
    infinity; and what is no sum."""
    mean, spread, last = group_of(program(SPREADS["no root"])).kernels
    (sum,) = spread.accumulators

    def number(value: float) -> Const:
        return Const(value, DType.FLOAT32)

    results = (
        Binary("add", sum, number(-1.0)),
        Binary("add", Binary("mul", sum, number(-1.0)), number(1.0)),
        Binary("add", Binary("mul", sum, number(0.0)), number(1.0)),
        Binary("min", Binary("add", sum, number(1.0)), number(3.0)),
        Binary("div", number(1.0), Binary("add", sum, number(1.0))),
        Binary("mul", Binary("add", sum, number(1.0)), number(1e-30)),
        Binary("add", sum, number(1e-19)),  # what it divides may be 1.8e19
        Binary("mul", number(2.0), number(3.0)),
        reduce(  # 0 on the way, by factors that are not tiny
            lambda x, factor: Binary("mul", x, number(factor)),
            [1e-17] * 3 + [1e17] * 3,
            Binary("add", sum, number(1.0)),
        ),
        Binary("mul", Binary("add", sum, number(1e30)), number(1e-46)),  # 0 in float32
        Binary("div", Binary("add", sum, number(1e17)), number(1e46)),
        Binary(  # 0 on the way, in float32
            "mul", Binary("mul", Binary("add", sum, number(1.0)), number(1e-50)), number(1e30)
        ),
    )
    assert spreads_of([mean, replace(spread, results=(Binary("add", sum, number(1.0)),)), last])
    changed = [replace(spread, results=(r,)) for r in results]
    changed += [replace(spread, initial=(number(-9.0),)), replace(spread, op="max")]
    changed.append(replace(spread, condition=Const(True, DType.BOOL)))
    assert not any(spreads_of([mean, k, last]) for k in changed)


def test_layer_norm() -> None:
    text = """import nn; graph G { @input { x: real[32,768]; } @output { y: real[32,768]; }
        @compose { y = nn.mean_variance_norm{axes=[1]}(x); } }"""
    code = ricci.parse(text, "skriptnd").show("llvm", target="x86-64-v3")
    assert "fcmp one" not in code
