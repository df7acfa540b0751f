"""Reductions over the rows of tall matrices, in parts: which, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest_uses
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import make_plan
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Kernel, Reduce
from ricci.passes import partial
from ricci.passes.pipeline import lower

from .running import HOST

SIZES = {"N": 48, "M": 40, "K": 6}
CASES = {
    "sum": ("(m) { m(j) +=! X(i, j) }", 2),
    "maximum": ("(m) { m(j) max=! fabs(X(i, j)) }", 2),
    "with what it begins with": ("(m) { m(j) = 3.0 where j in 0:M  m(j) += X(i, j) }", 2),
    "of a function": ("(m) { m(j) +=! exp(X(i, j) - Z(j)) + i }", 2),
    "deviations": ("(m, v) { m(j) +=! X(i, j)  v(j) +=! (X(i, j) - m(j)) * (X(i, j) - m(j)) }", 4),
    "of several dimensions": ("(m) { m(j) +=! Y(i, k, j) }", 2),
    "of all but the first": ("(m) { m(i) +=! Y(i, k, j) }", 1),
    "of the middle one": ("(m) { m(i, j) +=! Y(i, k, j) }", 1),
    "of half of the rows": ("(m) { m(j) +=! X(2 * i, j) where i in 0:24 }", 1),
    "the place of the largest": ("(m) { m(j) max=! X(47 - i, j) where i in 0:48 }", 1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "LARGE", 1 << 12)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")


def text_of(body: str) -> str:
    inputs = {"X(": "float(N, M) X", "Y(": "float(N, K, M) Y", "Z(": "float(M) Z"}
    return f"def f({', '.join(p for name, p in inputs.items() if name in body)}) -> {body}"


def kernels_of(text: str, sizes: dict[str, int]) -> list[Kernel]:
    graph = ricci.tc.define(text)["f"].graph
    return list(lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types()).kernels)


def agree(text: str, sizes: dict[str, int], threads: int = 2) -> None:
    function = ricci.tc.define(text, threads=threads)["f"]
    r = np.random.default_rng(2)
    shapes = [[sizes[str(e)] for e in p.shape] for p in function.inputs]
    arrays = [r.normal(size=s).astype(np.float32) for s in shapes]
    names = [p.name for p in function.inputs]
    want = interpret(function.graph, dict(zip(names, arrays, strict=True)))
    got = function(*arrays)
    values = got if isinstance(got, tuple) else (got,)
    for port, value in zip(function.outputs, values, strict=True):
        np.testing.assert_allclose(value, want[port.name], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_which_are_in_parts(name: str) -> None:
    body, count = CASES[name]
    assert len(kernels_of(text_of(body), SIZES)) == count
    agree(text_of(body), SIZES)


@pytest.mark.parametrize(
    ("rows", "columns", "parts"),
    [
        (48, 40, 24),
        (64, 40, 32),
        (35, 40, 7),
        (37, 40, None),  # a prime number, beyond the parts that there may be
        (8, 40, None),  # of 1280 bytes
        (8, 2048, 8),
        (8, 2056, None),  # a row does not stay in the first cache
    ],
)
def test_sizes_decide(rows: int, columns: int, parts: int | None) -> None:
    text, sizes = text_of(CASES["sum"][0]), {"N": rows, "M": columns}
    found = [k.domain for k in kernels_of(text, sizes) if isinstance(k, Reduce)]
    extents = [[getattr(i.extent, "value", None) for i in domain] for domain in found]
    assert extents == ([[columns]] if parts is None else [[parts, columns], [columns]])
    agree(text, sizes)


def test_parts_and_what_is_left() -> None:
    """Of a prime number of rows: parts of whole vectors, and one more of the others."""
    sizes = {"N": 2053, "M": 3}
    for name in ("sum", "maximum", "with what it begins with", "of a function"):
        text = text_of(CASES[name][0])
        assert parts_of(text, sizes) == [(32, 64), (0, 5), (0, 33)]
        agree(text, sizes)


@pytest.mark.parametrize("rows", [131071, 65537 * 3, 1 << 17])
def test_long_sums_of_any_length(rows: int) -> None:
    """A number that few others divide has as many parts as others."""
    text = "def f(float(N) X, float(N) Y) -> (d) { d +=! X(i) * Y(i) }"
    first = parts_of(text, {"N": rows})[0]
    assert first[0] == rows // partial.LEAST_TERMS
    agree(text, {"N": rows})


def parts_of(text: str, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Of each kernel, how many parts there are (0 if there is one), and the terms of each."""
    found = []
    for kernel in kernels_of(text, sizes):
        assert isinstance(kernel, Reduce)
        parts = [i for i in kernel.domain if i.name == "part"]
        found.append((partial.points_of(parts) if parts else 0, partial.points_of(kernel.reduced)))
    return found


def test_of_caches_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    text = text_of(CASES["sum"][0])
    assert len(kernels_of(text, {"N": 16384, "M": 1024})) == 2
    assert len(kernels_of(text, {"N": 1024, "M": 1024})) == 1


def test_what_no_term_reads_again_is_no_reason_for_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Z(j)` is read before the loop over the terms, so parts need not share it."""
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 12)
    body = "(m) { m(j) +=! (X(i, j) - Z(j)) * (X(i, j) - Z(j)) }"
    first = kernels_of(text_of(body), {"N": 512, "M": 256})[0]
    assert isinstance(first, Reduce)
    plan = make_plan(first, Frame({}, HOST), HOST)
    assert plan.rows == 1
    agree(text_of(body), {"N": 512, "M": 256})
