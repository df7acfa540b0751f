"""Products of a few rows and a large matrix that is given: sums in parts, read in place."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import contraction
from ricci.backends.llvm.schedule import Contraction
from ricci.backends.llvm.target import host
from ricci.passes.product_parts import split_products

from ..engine_contraction.cases import matmul
from .test_siblings import Arrays, lowered

MATMUL = "def f(float(m, k) a, float(k, n) b) -> (y) { y(i, j) +=! a(i, l) * b(l, j) }"
BATCH = (
    "def f(float(c, m, k) a, float(c, k, n) b) -> (y) { y(t, i, j) +=! a(t, i, l) * b(t, l, j) }"
)
TURNED = "def f(float(k, m) a, float(k, n) b) -> (y) { y(j, i) +=! b(l, j) * a(l, i) }"
DEEP = """def f(float(k, h, m) a, float(k, h, n) b, float(n) c) -> (y) {
    s(i, j) +=! a(l, p, i) * b(l, p, j)  y(i, j) = fmax(s(i, j) + c(j), 0) }"""


def draw(shapes: dict[str, tuple[int, ...]], seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {n: rng.uniform(-1, 1, s).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.parametrize("rows,deep,wide", [(1, 1040, 701), (3, 1040, 701), (13, 1200, 500)])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_by_matrix(rows: int, deep: int, wide: int, threads: int) -> None:
    arrays = draw({"a": (rows, deep), "b": (deep, wide)}, rows)
    sizes = {"m": rows, "k": deep, "n": wide}
    assert len(lowered(MATMUL, sizes)) == 2
    found = ricci.tc.define(MATMUL, threads=threads)["f"](**arrays)
    expected = arrays["a"].astype(np.float64) @ arrays["b"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "text,shapes,formula",
    [
        (BATCH, {"a": (2, 3, 1024), "b": (2, 1024, 600)}, "tml,tln->tmn"),
        (TURNED, {"a": (1024, 2), "b": (1024, 600)}, "lm,ln->nm"),
    ],
)
def test_batches_and_results_turned_round(
    text: str, shapes: dict[str, tuple[int, ...]], formula: str
) -> None:
    arrays = draw(shapes, 1)
    expected = np.einsum(formula, *(a.astype(np.float64) for a in arrays.values()))
    found = ricci.tc.define(text, threads=2)["f"](**arrays)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_two_reduced_indices_and_what_follows() -> None:
    arrays = draw({"a": (520, 2, 4), "b": (520, 2, 600), "c": (600,)}, 2)
    found = ricci.tc.define(DEEP, threads=2)["f"](**arrays)
    a, b = arrays["a"].astype(np.float64), arrays["b"].astype(np.float64)
    sums = a.reshape(1040, 4).T @ b.reshape(1040, 600)
    np.testing.assert_allclose(found, np.maximum(sums + arrays["c"], 0), rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "sizes,why",
    [
        ({"m": 1, "k": 1024, "n": 256}, "the matrix stays in the caches"),
        ({"m": 128, "k": 1024, "n": 600}, "partial results would be as much as the matrix"),
        ({"m": 1, "k": 1031, "n": 600}, "a prime number has no parts"),
    ],
)
def test_what_stays_whole(sizes: dict[str, int], why: str) -> None:
    assert len(lowered(MATMUL, sizes)) == 1, why


def test_constant_matrices_stay_whole() -> None:
    case = matmul(2, 600, 1024)
    assert split_products([case.kernel], {case.inputs[1]}, {}) == [case.kernel]
    assert len(split_products([case.kernel], (), {})) == 2


def test_a_part_reads_whole_rows() -> None:
    first, _ = lowered(MATMUL, {"m": 8, "k": 2048, "n": 1000})
    schedule = contraction.choose(first, {}, host(), frozenset())
    assert isinstance(schedule, Contraction)
    assert schedule.vector_source == "direct"
    assert schedule.lane_block >= 1000
