"""Kernels that are done together, row by row: which they are, and that numbers stay."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest
from ricci.backends.llvm.nest_group import write_group
from ricci.backends.llvm.target import host
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group, Kernel, Program
from ricci.ir.text_loops import format_program
from ricci.passes import groups
from ricci.passes.machine import Machine
from ricci.passes.pipeline import lower

HEAD = "def f(float(N, M, K) X, float(M, K) Y, float(K) Z)"
SIZES = {"N": 8, "M": 10, "K": 600}


def lowered(text: str, sizes: dict[str, int]) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    return lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types())


def sizes_of(kernels: tuple[Kernel, ...]) -> list[int]:
    """How many reductions and maps each kernel does."""
    return [len(k.kernels) if isinstance(k, Group) else 1 for k in kernels]


def agree(text: str, sizes: dict[str, int], threads: int = 2) -> None:
    function = ricci.tc.define(text, threads=threads)["f"]
    rng = np.random.default_rng(len(text))
    arrays = {
        p.name: rng.normal(size=[sizes[str(e)] for e in p.shape]).astype(np.float32)
        for p in function.inputs
    }
    got = function(*arrays.values())
    got = got if isinstance(got, tuple) else (got,)
    want = interpret(function.graph, arrays)
    for port, value in zip(function.outputs, got, strict=True):
        np.testing.assert_allclose(value, want[port.name], 1e-4, 1e-4, err_msg=text)


SOFTMAX = "m(i, j) max=! X(i, j, k)  s(i, j) +=! exp(X(i, j, k) - m(i, j))" \
    "  O(i, j, k) = exp(X(i, j, k) - m(i, j)) / s(i, j)"  # fmt: skip
CASES = {
    "softmax": (f"-> (m, s, O) {{ {SOFTMAX} }}", [3]),
    "normalised": (
        "-> (m, v, O) { m(i, j) +=! X(i, j, k)  m(i, j) = m(i, j) / K"
        "  v(i, j) +=! (X(i, j, k) - m(i, j)) * (X(i, j, k) - m(i, j))"
        "  O(i, j, k) = (X(i, j, k) - m(i, j)) * rsqrt(v(i, j) / K + 0.1) * Z(k) + Y(j, k) }",
        [3]),
    "sum of something that is kept": (
        "-> (A, s, O) { A(i, j, k) = X(i, j, k) + Y(j, k)  s(i, j) +=! A(i, j, k)"
        "  O(i, j, k) = A(i, j, k) / (1 + fabs(s(i, j))) }", [3]),
    "indices in another order": (
        "-> (s, O) { s(j, i) +=! X(i, j, k)  O(a, b, k) = X(a, b, k) - s(b, a) }", [2]),
    "the same indices in other places": (
        "-> (s, O) { s(i, j) +=! X(i, j, k)  O(j, i, k) = X(j, i, k) - s(j, i) }", [2]),
    "outer index alone": (
        "-> (s, O) { s(i) +=! X(i, j, k)  O(i, j, k) = X(i, j, k) - s(i)  where j in 0:M }",
        [2]),
    "another row": (
        "-> (s, O) { s(i, j) +=! X(i, j, k)  O(i, j, k) = X(i, j, k) - s(N - 1 - i, M - 1 - j) }",
        [1, 1]),
    "columns": ("-> (s, O) { s(k) +=! Y(j, k)  O(j, k) = Y(j, k) - s(k) }", [1, 1]),
    "product": (
        "-> (s, O) { s(i, j, l) +=! X(i, j, k) * X(i, l, k) where l in 0:M"
        "  O(i, j, l) = s(i, j, l) - s(i, j, 0) where l in 0:M }", [1, 1]),
    "what is overwritten later": (
        "-> (s, O) { s(i, j) +=! X(i, j, k)  O(i, j, k) = X(i, j, k) - s(i, j)"
        "  s(i, j) = s(i, j) * 2 }", [3]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_groups(name: str) -> None:
    text, want = CASES[name]
    text = f"{HEAD} {text}"
    program = lowered(text, SIZES)
    assert sizes_of(program.kernels) == want, format_program(program)
    for threads in (1, 2):
        agree(text, SIZES, threads)


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ({"N": 1, "M": 9, "K": 6000}, [1, 1, 1]),  # too few rows
        ({"N": 2, "M": 10, "K": 6000}, [3]),
        ({"N": 8, "M": 10, "K": 90_000}, [3]),  # the third cache holds a row
        ({"N": 8, "M": 10, "K": 900_000}, [2, 1]),  # not with the result
        ({"N": 8, "M": 10, "K": 100}, [1, 1, 1]),  # it is all small
        ({"N": 64, "M": 10, "K": 100}, [3]),  # a row is all of M
        ({"N": 64, "M": 1, "K": 600}, [3]),
    ],
)
def test_sizes_decide(sizes: dict[str, int], want: list[int]) -> None:
    text = f"{HEAD} -> (m, s, O) {{ {SOFTMAX} }}"
    program = lowered(text, sizes)
    assert sizes_of(program.kernels) == want, format_program(program)
    if math.prod(sizes.values()) < 10**6:
        agree(text, sizes)


def test_rows_of_several_indices() -> None:
    program = lowered(f"{HEAD} -> (m, s, O) {{ {SOFTMAX} }}", {"N": 64, "M": 20, "K": 20})
    (group,) = program.kernels
    assert isinstance(group, Group)
    assert [i.name for i in group.shared] == ["i"]
    assert all(k.domain[0] is group.shared[0] for k in group.kernels)
    assert "together for i < 64:" in format_program(program)


def test_an_index_out_of_range_in_a_group_is_found() -> None:
    text = (
        "def f(float(N, K) X, int32(K) T) -> (s, O)"
        " { s(i) +=! X(i, k)  O(i, k) = X(i, T(k)) - s(i) where i in 0:N }"
    )
    assert sizes_of(lowered(text, {"N": 64, "K": 800}).kernels) == [2]
    function = ricci.tc.define(text, threads=2)["f"]
    x, t = np.ones((64, 800), np.float32), np.zeros(800, np.int32)
    np.testing.assert_allclose(function(x, t)[1], np.full((64, 800), -799.0))
    t[700] = 800
    with pytest.raises(ricci.Error) as caught:
        function(x, t)
    assert {d.code for d in caught.value.diagnostics} == {"E0802"}
    assert "800" in str(caught.value)


def test_what_depends_on_variables_alone_stays_apart() -> None:
    model = ricci.parse(
        "graph G { @input { x: real[64,800]; } @output { y: real[64,800]; }"
        " @variable { w: real[64,800]; } @compose { s = rows(w); y = less(x, w, s); } }\n"
        "operator rows { @input { x: real[n,m]; } @output { y: real[n]; }"
        " @lower { y[i,] = 0.0, i < n; y[i,] += x[i,j], i < n, j < m; } }\n"
        "operator less { @input { x: real[n,m]; w: real[n,m]; s: real[n]; }"
        " @output { y: real[n,m]; } @lower { y[i,j] = x[i,j] - w[i,j] * s[i,], i < n, j < m; } }"
    )
    program = lower(model.graph, {}, Types())
    assert len(program.prepare) == 1
    assert sizes_of(program.kernels) == [1]


@pytest.mark.parametrize(
    ("rows", "threads", "together"),
    [(1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True), (9, 2, False), (16, 2, True),
     (4, 4, False), (8, 4, True), (12, 8, False), (17, 8, True)],
)  # fmt: skip
def test_few_rows_are_done_together_if_each_thread_has_as_many(
    rows: int, threads: int, together: bool
) -> None:
    text = (
        "def f(float(N, K) X) -> (s, O) { s(i) +=! exp(X(i, k))"
        "  O(i, k) = exp(X(i, k)) / s(i) where i in 0:N }"
    )
    graph = ricci.tc.define(text)["f"].graph
    sizes = {"N": rows, "K": 40000}
    values = {s: sizes[s.name] for s in graph.symbols}
    program = lower(graph, values, Types(), machine=Machine(threads=threads))
    assert any(isinstance(k, Group) for k in program.kernels) == together


def test_random_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may be done together is, however small."""
    monkeypatch.setattr(groups, "LEAST_ROW", 1)
    monkeypatch.setattr(groups, "LEAST_ROWS", 1)
    monkeypatch.setattr(groups, "LEAST_BYTES", 1)
    monkeypatch.setattr(groups, "LEAST_RUN", 1)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    rng = random.Random(7)
    found = 0
    for _ in range(20):
        text = f"def f(float(N, M, K) X) -> (a, b, c, d, e) {{ {_rows(rng)} }}"
        sizes = dict(zip("NMK", (rng.randrange(1, 9) for _ in range(3)), strict=True))
        found += any(isinstance(k, Group) for k in lowered(text, sizes).kernels)
        agree(text, sizes, rng.choice((1, 2)))
    assert found >= 10


def _rows(rng: random.Random) -> str:
    """Assignments to tensors of one to three indices, each reading earlier ones."""
    made = {"X": "ijk"}
    lines = []
    for name in "abcde":
        kept = "".join(i for i, p in zip("ijk", (0.9, 0.6, 0.4), strict=True) if rng.random() < p)
        kept = kept or "i"
        reads = rng.sample(list(made), min(2, len(made)))
        places = [(t, _place(rng, made[t])) for t in reads]
        used = {i for _, p in places for i in p}
        value = " - ".join(f"0.5 * {t}({', '.join(p)})" for t, p in places)
        op = "=" if used <= set(kept) else rng.choice(("+=!", "max=!"))
        bounds = ", ".join(f"{i} in 0:{n}" for i, n in zip("ijk", "NMK", strict=True)
                           if i in kept or i in used)  # fmt: skip
        lines.append(f"{name}({', '.join(kept)}) {op} {value} where {bounds}")
        made[name] = kept
    return "  ".join(lines)


def _place(rng: random.Random, indices: str) -> list[str]:
    """Subscripts of a read: the indices themselves, mostly."""
    return [i if rng.random() < 0.95 else "0" for i in indices]


def test_groups_that_are_alike_have_one_code() -> None:
    second = SOFTMAX.replace("X(", "W(")
    for name in ("m", "s", "O"):
        second = second.replace(f"{name}(", f"{name}2(")
    text = (
        "def f(float(N, M, K) X, float(N, M, K) W) -> (m, s, O, m2, s2, O2)"
        f" {{ {SOFTMAX}  {second} }}"
    )
    program = lowered(text, SIZES)
    assert sizes_of(program.kernels) == [3, 3]
    first, other = (nest.generate(k, {}, host()) for k in program.kernels)
    assert first.text == other.text
    assert set(first.tensors).isdisjoint(other.tensors)
    agree(text, SIZES)


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_products_with_a_condition_before_rows(real: str) -> None:
    """They are no products of matrices, nor are those whose rows have columns."""
    model = ricci.parse("""
import nn;
graph G {
    @input { x: real[200, 32]; }
    @output { y: real[200, 16]; }
    @compose { d = o(x); y = nn.softmax{axes=[1]}(d); }
}
operator o {
    @input { x: real[n, c]; }
    @output { d: real[n, 16]; }
    @lower { d[j, m] += x[j, k] * real(k + 2 * m) * 0.01, j < n, m < 16, k < c | x[j, k] > 0.0; }
}""")
    x = np.random.default_rng(7).standard_normal((200, 32)).astype(real)
    want = model.compile(target="interpreter", real="float64")(x.astype(np.float64))
    np.testing.assert_allclose(model.compile(real=real)(x), want, 1e-4, 1e-6)


def test_the_next_row_is_not_asked_for_where_it_drives_out_what_is_read_again() -> None:
    """A row of 64 KB is read twice, the second time from a core's second cache."""
    text = "def f(float(N,M) X) -> (s, Y) { s(i) +=! X(i,j) * X(i,j)  Y(i,j) = X(i,j) / s(i) }"
    (group,) = lowered(text, {"N": 64, "M": 1 << 14}).kernels
    assert isinstance(group, Group)
    mesh = replace(host(), cpu="sapphirerapids", vector_bytes=64, units=2, l2=1 << 19)
    near = replace(mesh, cpu="znver5")
    next_row = re.compile(r"getelementptr i8, ptr %[\w.]+, i64 65536\b")
    for target, asks in (
        (mesh, True), (replace(mesh, l2=1 << 18), False), (replace(near, l2=1 << 18), True)
    ):  # fmt: skip
        code = write_group(group, {}, target, frozenset())
        assert bool(next_row.search(code.text)) == asks
