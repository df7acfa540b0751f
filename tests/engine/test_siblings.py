"""Passes over reductions: siblings that read one tensor, sums of products, initial values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import contraction
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Reduce
from ricci.passes.gradient_pair import backward_of, forward_and_backward
from ricci.passes.pipeline import lower
from ricci.runtime.executable import compile_graph

Arrays = dict[str, np.ndarray]


def lowered(text: str, sizes: Mapping[str, int]) -> list[Reduce]:
    """The kernels of the only function of a text; all are reductions or maps."""
    graph = ricci.tc.define(text)["f"].graph
    known = {s: sizes[s.name] for s in graph.symbols}
    kernels = lower(graph, known, Types()).kernels
    assert all(isinstance(k, Reduce) for k in kernels)
    return [k for k in kernels if isinstance(k, Reduce)]


def compared(text: str, arrays: Arrays) -> tuple[Arrays, Arrays]:
    """What native code and the interpreter give."""
    function = ricci.tc.define(text, threads=1)["f"]
    graph = function.graph
    got = function(*(arrays[p.name] for p in graph.inputs))
    got = got if isinstance(got, tuple) else (got,)
    names = [p.name for p in graph.outputs]
    want = interpret(graph, arrays)
    return dict(zip(names, got, strict=True)), {n: want[n] for n in names}


def agree(text: str, arrays: Arrays) -> Arrays:
    got, want = compared(text, arrays)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, 1e-4, 1e-4, err_msg=f"{name}\n{text}")
    return got


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


SIBLINGS = {
    "moments": ("s(i) +=! X(i, k)  q(i) +=! X(i, k) * X(i, k)", "s, q", 1),
    "results of one in those of the other": (
        "s(i) +=! X(i, k)  q(i) +=! X(i, k) * X(i, k)  s(i) = s(i) / K"
        "  q(i) = q(i) / K - s(i) * s(i)", "s, q", 1),
    "other names of indices": ("s(i) +=! X(i, k)  q(a) +=! fabs(X(a, b))", "s, q", 1),
    "rows and columns": ("s(i) +=! X(i, k)  q(k) +=! X(i, k)", "s, q", 2),
    "sum and largest": ("s(i) +=! X(i, k)  q(i) max=! X(i, k)", "s, q", 2),
    "one needs the other": ("s(i) +=! X(i, k)  q(i) +=! X(i, k) * s(i)", "s, q", 2),
    "three": ("s(i) +=! X(i, k)  q(i) +=! exp(X(i, k))  r(i) +=! fabs(X(i, k))", "s, q, r", 1),
    "small products of different things": (
        "s(i) +=! X(i, k) * Y(k)  q(i) +=! X(i, k) * Y(K - 1 - k)", "s, q", 2),
    "part of a tensor": (
        "s(i) +=! X(i, k) where k in 0:K  q(i) +=! X(i, k) where k in 1:K", "s, q", 2),
    "another in between": (
        "s(i) +=! X(i, k)  r(i) = s(i) * 2  q(i) +=! X(i, k) * X(i, k)", "r, q", 1),
    "written in between": (
        "s(i) +=! X(i, k)  Z(i, k) = X(i, k) + s(i)  q(i) +=! Z(i, k) * Z(i, k)", "s, q", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", SIBLINGS)
def test_siblings(name: str) -> None:
    body, outputs, count = SIBLINGS[name]
    text = f"def f(float(N, K) X, float(K) Y) -> ({outputs}) {{ {body} }}"
    kernels = [k for k in lowered(text, {"N": 5, "K": 70}) if k.values]
    assert len(kernels) == count
    agree(text, {"X": normal(5, 70), "Y": normal(70)})


def test_large_matrix_times_two_vectors_is_read_once() -> None:
    text = (
        "def f(float(N, K) X, float(K) Y, float(K) Z) -> (s, q)"
        " { s(i) +=! X(i, k) * Y(k)  q(i) +=! X(i, k) * Z(k) }"
    )
    assert len(lowered(text, {"N": 600, "K": 600})) == 1
    agree(text, {"X": normal(600, 600), "Y": normal(600), "Z": normal(600)[::-1].copy()})


NORM = """
def f(float(N, K, M) X, float(K) W) -> (Y, s, q) {
    s(n) +=! X(n, k, m)
    q(n) +=! X(n, k, m) * X(n, k, m)
    Y(n, k, m) = W(k) * (X(n, k, m) - s(n) / (K * M))
        * rsqrt(q(n) / (K * M) - s(n) * s(n) / (K * M) / (K * M) + 1e-5)
}"""


def test_sums_of_terms_with_locals_are_siblings() -> None:
    graph = ricci.tc.define(NORM)["f"].graph
    forward, _ = forward_and_backward(graph, ["X", "W"])
    backward = backward_of(forward, graph, ["X", "W"], ["Y"])
    assert backward is not None
    sizes = {"N": 3, "K": 16, "M": 40}
    kernels = lower(backward, {s: sizes[s.name] for s in backward.symbols}, Types()).kernels
    assert [len(k.targets) for k in kernels if isinstance(k, Reduce) and k.locals] == [2]
    shapes = {p.name: [sizes[s] for s in "NKM"] for p in backward.inputs if p.tensors[0].rank == 3}
    given = [normal(*shapes.get(p.name, [16 if p.name == "W" else 3])) for p in backward.inputs]
    given = [
        a * a + 600 if p.name == "q" else a for p, a in zip(backward.inputs, given, strict=True)
    ]
    found = compile_graph(backward)(*given)
    expected = interpret(backward, {p.name: a for p, a in zip(backward.inputs, given, strict=True)})
    for result, want in zip(found, expected.values(), strict=True):
        np.testing.assert_allclose(result, want, 1e-4, 1e-4)


# ---------------------------------------------------------------- sums of products

HEAD = "def f(float(C, T) X, float(D, C, 3) W, float(D, C) V, float(C, T) Y) -> (F)"
TERMS = {
    "dilated": ("X(c, t) * W(d, c, 1) + (t - 2 >= 0 ? X(c, t - 2) * W(d, c, 0) : 0)", 1),
    "three taps": (
        "(t - 1 >= 0 ? X(c, t - 1) * W(d, c, 0) : 0) + X(c, t) * W(d, c, 1)"
        " + (t + 1 < T ? X(c, t + 1) * W(d, c, 2) : 0)", 1),
    "backwards": (
        "(t + 1 < T ? X(c, t + 1) * W(d, c, 0) : 0) + X(c, t) * W(d, c, 1)"
        " + (t >= 1 ? X(c, t - 1) * W(d, c, 2) : 0)", 1),
    "uneven steps": (
        "X(c, t) * W(d, c, 0) + (t >= 1 ? X(c, t - 1) * W(d, c, 1) : 0)"
        " + (t >= 5 ? X(c, t - 5) * W(d, c, 2) : 0)", 3),
    "other operands": ("X(c, t) * W(d, c, 1) + Y(c, t) * V(d, c)", 2),
    "difference": ("X(c, t) * W(d, c, 1) - Y(c, t) * V(d, c)", 2),
    "other condition": ("X(c, t) * W(d, c, 1) + (c < 3 ? X(c, t) * V(d, c) : 0)", 2),
    "selected alone": ("t >= 3 ? X(c, t - 3) * V(d, c) : 0", 1),
    "condition of two": ("t >= 3 && c < 4 ? X(c, t - 3) * V(d, c) : 0", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TERMS)
def test_terms_that_are_products_become_contractions(name: str) -> None:
    terms, count = TERMS[name]
    text = f"{HEAD} {{ F(d, t) +=! {terms} where t in 0:T, c in 0:C, d in 0:D }}"
    kernels = lowered(text, {"D": 32, "C": 16, "T": 200})
    assert len(kernels) == count
    for kernel in kernels:
        assert contraction.form_of(kernel, {}) is not None
    for t in (200, 2):
        agree(text, {"X": normal(16, t), "W": normal(32, 16, 3), "V": normal(32, 16),
                     "Y": normal(16, t) + 1})  # fmt: skip


def test_sum_that_is_no_product_stays() -> None:
    text = f"{HEAD} {{ F(d, t) +=! X(c, t) * W(d, c, 1) + Y(c, t) where d in 0:D }}"
    assert len(lowered(text, {"D": 32, "C": 16, "T": 200})) == 1


def test_products_end_in_what_is_made_of_their_sum() -> None:
    text = (
        f"{HEAD} {{ F(d, t) +=! X(c, t) * W(d, c, 1) + Y(c, t) * V(d, c)"
        "  F(d, t) = tanh(F(d, t)) }"
    )
    first, second = lowered(text, {"D": 32, "C": 16, "T": 200})
    assert second.targets[0].tensor is not first.targets[0].tensor
    agree(text, {"X": normal(16, 200), "W": normal(32, 16, 3), "V": normal(32, 16),
                 "Y": normal(16, 200) + 1})  # fmt: skip


def test_out_of_range_behind_a_weaker_condition_is_found() -> None:
    text = f"{HEAD} {{ F(d, t) +=! t >= 2 ? X(c, t - 3) * V(d, c) : 0 where t in 0:T }}"
    arrays = {"X": normal(16, 20), "W": normal(32, 16, 3), "V": normal(32, 16), "Y": normal(16, 20)}
    function = ricci.tc.define(text)["f"]
    with pytest.raises(ricci.Error) as caught:
        function(*arrays.values())
    assert {d.code for d in caught.value.diagnostics} == {"E0802"}


def test_random_sums_of_products() -> None:
    rng = random.Random(5)
    for _ in range(25):
        terms = []
        for _ in range(rng.randrange(1, 4)):
            shift, tap = rng.randrange(-3, 4), rng.randrange(3)
            term = f"X(c, t + {shift}) * W(d, c, {tap})".replace("+ -", "- ")
            guard = f"t + {shift} >= 0 && t + {shift} < T".replace("+ -", "- ")
            terms.append(f"({guard} ? {term} : 0)" if shift or rng.random() < 0.5 else term)
        text = HEAD + " { F(d, t) = V(d, 0) where t in 0:T F(d, t) += "
        text += rng.choice((" + ", " - ")).join(terms) + " where t in 0:T }"
        c, t = rng.randrange(1, 12), rng.randrange(1, 40)
        agree(text, {"X": normal(c, t), "W": normal(7, c, 3), "V": normal(7, c), "Y": normal(c, t)})


def test_random_siblings() -> None:
    rng = random.Random(6)
    values = ["X(i, j, k)", "X(i, j, k) * X(i, j, k)", "exp(X(i, j, k))", "X(k, i, j)"]
    for _ in range(25):
        lines = []
        for name, op in zip("abc", rng.choices(("+=!", "max=!"), k=3), strict=True):
            kept = rng.choice(list(itertools.permutations("ijk", rng.randrange(1, 3))))
            lines.append(f"{name}({', '.join(kept)}) {op} {rng.choice(values)}")
        n = rng.randrange(1, 20)
        text = f"def f(float(N, N, N) X) -> (a, b, c) {{ {' '.join(lines)} }}"
        agree(text, {"X": normal(n, n, n)})


# ------------------------------------------------------------------ initial values


def test_initial_value_of_a_product_is_computed_in_it() -> None:
    text = (
        "def f(float(N, K) X, float(K, M) W, float(N, M) Y, float(M) B) -> (O)"
        " { O(i, j) = Y(i, j) + B(j)  P(i, j) = O(i, j) * 2  O(i, j) = P(i, j) + 1"
        "  O(i, j) += X(i, k) * W(k, j) }"
    )
    assert len(lowered(text, {"N": 30, "M": 40, "K": 50})) == 1
    agree(text, {"X": normal(30, 50), "W": normal(50, 40), "Y": normal(30, 40), "B": normal(40)})


def test_padded_initial_value_of_a_product_is_made_ahead() -> None:
    text = (
        "def f(float(N, K) X, float(K, M) W, float(N, M) Y) -> (O)"
        " { P(i, j) = i >= 1 ? Y(i - 1, j) : 0  where i in 0:N, j in 0:M"
        "  O(i, j) = P(i, j)  O(i, j) += X(i, k) * W(k, j) }"
    )
    last = lowered(text, {"N": 30, "M": 40, "K": 50})[-1]
    assert contraction.form_of(last, {}) is not None
    agree(text, {"X": normal(30, 50), "W": normal(50, 40), "Y": normal(30, 40)})
