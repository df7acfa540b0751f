"""Large tensors that are computed again where they are read: which they are, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Group, Program, tensors_touched
from ricci.passes import groups, recompute
from ricci.passes.pipeline import lower

HEAD = "def f(float(N, M) X, float(M) Z)"
SIZES = {"N": 40, "M": 70}
POWERS = "m(j) max=! X(i, j)  e(i, j) = exp(X(i, j) - m(j))  s(j) +=! e(i, j)"
CASES = {
    "softmax over columns": (f"-> (m, s, O) {{ {POWERS}  O(i, j) = e(i, j) / s(j) }}", True),
    "what is a result": (f"-> (m, s, e, O) {{ {POWERS}  O(i, j) = e(i, j) / s(j) }}", False),
    "two functions": (
        "-> (s, O) { e(i, j) = exp(sqrt(fabs(X(i, j))))  s(j) +=! e(i, j)"
        "  O(i, j) = e(i, j) / s(j) }", False),
    "a function that takes long": (
        "-> (s, O) { e(i, j) = sin(X(i, j))  s(j) +=! e(i, j)  O(i, j) = e(i, j) / s(j) }", False),
    "of two large ones": (
        "-> (s, O) { e(i, j) = X(i, j) * X(N - 1 - i, j) where i in 0:N  s(j) +=! e(i, j)"
        "  O(i, j) = e(i, j) - s(j) }", True),
    "more readers": (
        f"-> (m, s, t, O) {{ {POWERS}  t(j) max=! e(i, j) * Z(j)"
        "  O(i, j) = e(i, j) / s(j) + t(j) }", False),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "LARGE", 1 << 10)


def lowered(text: str) -> Program:
    graph = ricci.tc.define(text)["f"].graph
    return lower(graph, {s: SIZES[s.name] for s in graph.symbols}, Types())


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_again(name: str) -> None:
    rest, again = CASES[name]
    text = HEAD + rest
    if "Z(" not in rest:
        text = text.replace(", float(M) Z", "")
    touched = {t.name.split(".")[-1] for k in lowered(text).kernels for t in tensors_touched(k)}
    assert ("e" not in touched) == again
    function = ricci.tc.define(text, threads=2)["f"]
    r = np.random.default_rng(3)
    arrays = {
        p.name: r.normal(size=[SIZES[str(e)] for e in p.shape]).astype(np.float32)
        for p in function.inputs
    }
    want = interpret(function.graph, arrays)
    for port, value in zip(function.outputs, function(*arrays.values()), strict=True):
        np.testing.assert_allclose(np.asarray(value), want[port.name], 1e-4, 1e-4)


def test_small_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "LARGE", 1 << 20)
    text = HEAD.replace(", float(M) Z", "") + CASES["softmax over columns"][0]
    assert any(t.name.endswith("e") for k in lowered(text).kernels for t in tensors_touched(k))


@pytest.mark.parametrize(("size", "kept"), [(1 << 18, ["m", "s"]), (1 << 14, ["e", "m", "s"])])
def test_what_a_group_keeps_of_a_row(size: int, kept: list[str]) -> None:
    """Powers of rows of 1 MB leave a core's own caches."""
    text = """def f(float(N, K) X) -> (y) { m(i) max=! X(i, k)  e(i, k) = exp(X(i, k) - m(i))
        s(i) +=! e(i, k)  y(i, k) = e(i, k) / s(i) }"""
    graph = ricci.tc.define(text)["f"].graph
    sizes = {"N": (1 << 23) // size, "K": size}
    (group,) = lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(group, Group)
    assert sorted(t.name.rpartition(".")[2] for t in group.local) == kept
    x = np.random.default_rng(0).standard_normal((sizes["N"], size), np.float32)
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(ricci.tc.define(text, threads=2)["f"](x), want, 1e-4, 1e-12)


@pytest.mark.parametrize(("long", "others"), [(1 << 10, 1), (1 << 20, 2)])
def test_what_a_group_makes_for_others(
    monkeypatch: pytest.MonkeyPatch, long: int, others: int
) -> None:
    """A row of the quotients has no room beside those of `X` and of the powers: where a core's own
    caches keep no row of these, both the sums and the quotients compute them."""
    monkeypatch.setattr(recompute, "LONG_ROW", long)
    monkeypatch.setattr(groups, "MOST_ROW", 9 << 10)
    text = """def f(float(N, K) X) -> (y) { m(i) max=! X(i, k)  e(i, k) = exp(X(i, k) - m(i))
        s(i) +=! e(i, k)  y(i, k) = e(i, k) / s(i) }"""
    graph = ricci.tc.define(text)["f"].graph
    sizes = {"N": 40, "K": 1 << 10}
    group, rest = lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types()).kernels
    assert isinstance(group, Group) and not isinstance(rest, Group)
    made = {t.name.rpartition(".")[2] for t in tensors_touched(rest)}
    assert made == ({"X", "m", "s", "y"} if others == 1 else {"e", "s", "y"})
    assert len(group.kernels) == 1 + others
    assert not set(group.local) & set(tensors_touched(rest))
    x = np.random.default_rng(0).standard_normal((40, 1 << 10), np.float32)
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    want = power / power.sum(1, keepdims=True)
    np.testing.assert_allclose(ricci.tc.define(text, threads=2)["f"](x), want, 1e-4, 1e-12)
