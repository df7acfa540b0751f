"""Reductions whose accumulators are kept in memory, while long stretches of rows are read."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest_plan, nest_uses
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.schedule import Nest, describe
from ricci.backends.llvm.schedule_space import KernelSpace
from ricci.backends.llvm.target import host
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower
from ricci.records import replace

ARGMAX = """
import math;
graph Main {
    @input { x: real[40,133]; }
    @output { y: int[133]; }
    @compose { y = math.argmax{axis=0, squeeze=true}(x); }
}
"""
FORMULAS = {
    "over the first": "(float(N, M, K) x) -> (y) { y(j, k) +=! x(i, j, k) }",
    "over the second": "(float(N, M, K) x) -> (y) { y(i, k) max=! x(i, j, k) }",
    "over both": "(float(N, M, K) x) -> (y) { y(k) +=! x(i, j, k) }",
    "of a product": "(float(N, M, K) x, float(N, K) z) -> (y) { y(k) +=! x(i, j, k) * z(i, k) }",
    "of powers": "(float(N, M, K) x, float(K) z) -> (y) { y(j, k) +=! exp(x(i, j, k) - z(k)) }",
    "in double": "(double(N, M, K) x) -> (y) { y(i, k) min=! x(i, j, k) }",
}
SIZES = [(3, 40, 130), (37, 5, 400), (17, 16, 2048), (2, 19, 1000), (16, 1, 9000)]


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 10)


def kernel_of(text: str, sizes: dict[str, int]) -> Reduce:
    graph = ricci.tc.define(text)["f"].graph
    program = lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types())
    (kernel,) = program.kernels
    assert isinstance(kernel, Reduce)
    return kernel


def plan_of(text: str, sizes: dict[str, int], cpu: str = "") -> nest_plan.Plan:
    target = replace(host(), cpu=cpu)
    return nest_plan.make_plan(kernel_of(text, sizes), Frame({}, target), target)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_kept_accumulators(formula: str, shape: tuple[int, ...], threads: int) -> None:
    function = ricci.tc.define(f"def f{FORMULAS[formula]}", threads=threads)["f"]
    extents = dict(zip("NMK", shape, strict=True))
    r = np.random.default_rng(len(formula))
    arrays = {
        p.name: r.normal(size=[extents[str(e)] for e in p.shape]).astype(p.dtype)
        for p in function.inputs
    }
    got, (want,) = (
        np.asarray(function(*arrays.values())),
        interpret(function.graph, arrays).values(),
    )
    np.testing.assert_allclose(got, want, 1e-4, 1e-4)


def test_how_many_terms_at_a_time() -> None:
    """Rows that follow each other are read one by one, others several at a time; few terms, or
    results that a tile has all of, stay in registers."""
    second, first = (f"def f{FORMULAS[n]}" for n in ("over the second", "over the first"))
    plan = plan_of(second, {"N": 8, "M": 40, "K": 1024})
    assert (plan.kept, plan.terms) == (1024 // plan.lanes, 1)
    plan = plan_of(first, {"N": 40, "M": 512, "K": 1024})
    assert plan.kept and plan.kept * plan.lanes < 512 * 1024 and plan.terms > 1
    assert plan_of(first, {"N": 4, "M": 512, "K": 1024}).kept == 0
    assert plan_of(second, {"N": 400, "M": 400, "K": 16}).kept == 0


@pytest.mark.parametrize(("cpu", "terms"), [("znver4", 1), ("znver5", 8)])
@pytest.mark.parametrize("values", ["x(i, j, k)", "x(i, j, k) * z(i)"])
def test_sums_of_rows_that_follow_each_other(cpu: str, terms: int, values: str) -> None:
    """Rows that are only added are read several at a time where the processor follows them all."""
    text = f"def f(float(N, M, K) x, float(N) z) -> (y) {{ y(i, k) +=! {values} }}"
    plan = plan_of(text, {"N": 8, "M": 40, "K": 1024}, cpu)
    assert (plan.kept, plan.terms) == (1024 // plan.lanes, terms if "*" not in values else 1)


def test_schedules_say_and_try_it() -> None:
    kernel = kernel_of(f"def f{FORMULAS['over the first']}", {"N": 40, "M": 64, "K": 1024})
    space = KernelSpace(kernel, {}, host(), frozenset())
    first = space.chosen
    assert isinstance(first, Nest) and first.kept
    assert f"{first.kept} vectors kept for {first.terms} terms" in describe(first)
    r = random.Random(3)
    near = [s for s in (space.near(first, r) for _ in range(200)) if isinstance(s, Nest)]
    assert {bool(s.kept) for s in near} == {True, False}
    assert len({(s.kept, s.terms) for s in near}) > 4
    assert "kept" not in describe(next(s for s in near if not s.kept))


@pytest.mark.parametrize("last", [np.nan, np.inf, 0.0])
def test_where_the_largest_is(last: float) -> None:
    r = np.random.default_rng(5)
    x = r.integers(0, 5, (40, 133)).astype(np.float32)
    x[-1, ::3] = last
    got = np.asarray(ricci.parse(ARGMAX, "skriptnd").compile(threads=2)(x))
    want = np.where(np.isnan(x), -1, x).argmax(0)
    np.testing.assert_array_equal(got, want)


def test_not_where_results_are_read() -> None:
    """A row whose last vector would begin earlier is not computed twice if it is added to."""
    text = "def f(float(M, K) x, float(K) z) -> (y) { y(k) = z(k)  y(k) += x(i, k) }"
    function = ricci.tc.define(text)["f"]
    r = np.random.default_rng(7)
    x, z = r.normal(size=(40, 133)).astype(np.float32), r.normal(size=133).astype(np.float32)
    np.testing.assert_allclose(np.asarray(function(x, z)), z + x.sum(0), 1e-4, 1e-4)
