"""Sums and the like of short rows, whose vectors are joined together: which, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import Plan, make_plan
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower

from .running import HOST, runnable_targets

ROWS = 37
"""Not a multiple of the lanes of any vector."""
FUNCTIONS = {"+": np.add, "max": np.maximum, "min": np.minimum, "*": np.multiply}
LANES = HOST.lanes(DType.FLOAT32)


def plan_of(text: str) -> Plan:
    (kernel,) = lower(ricci.parse(text, "tc").graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    return make_plan(kernel, Frame({}, HOST), HOST)


@pytest.mark.parametrize(
    ("size", "rows"),
    [(LANES, LANES), (2 * LANES + 1, LANES), (3 * LANES, LANES), (3 * LANES + 1, 1), (2, 1)],
)
def test_which_are_joined_together(size: int, rows: int) -> None:
    assert plan_of(f"def f(float({ROWS},{size}) x) -> (y) {{ y(i) +=! x(i, j) }}").rows == rows


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(37, 24) x) -> (y) { y(j) +=! x(i, j) }",
        "def f(float(3, 24) x) -> (y) { y(i) +=! x(i, j) }",  # fewer rows than lanes
        "def f(float(37, 40, 24) x) -> (y) { y(i) +=! x(i, k, j) }",  # long ones
        "def f(float(37, 3) x) -> (y) { y(i) +=! x(i, j) }",  # lanes are picked from three vectors
    ],
)
def test_which_are_not(text: str) -> None:
    assert plan_of(text).rows == 1 or not plan_of(text).over_reduced


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("kind", ["float", "double", "int32"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_rows(op: str, kind: str, target: str) -> None:
    r = np.random.default_rng(0)
    dtype = np.dtype({"float": "f4", "double": "f8", "int32": "i4"}[kind])
    sizes = [4, 5, 7, 8, 9, 16, 21, 32, 49, 100, 128]
    given = ", ".join(f"{kind}({ROWS},{n}) x{n}" for n in sizes)
    results = ", ".join(f"y{n}" for n in sizes)
    body = " ".join(f"y{n}(i) {op}=! x{n}(i, j)" for n in sizes)
    run = ricci.parse(f"def f({given}) -> ({results}) {{ {body} }}", "tc")
    arrays = [
        (r.normal(1, 0.1, (ROWS, n)) if dtype.kind == "f" else r.integers(1, 3, (ROWS, n)))
        for n in sizes
    ]
    arrays = [x.astype(dtype) for x in arrays]
    for x, y in zip(arrays, run.compile(threads=2, target=target)(*arrays), strict=True):
        want = FUNCTIONS[op].reduce(x, axis=1, dtype=dtype)
        np.testing.assert_allclose(y, want, 1e-5 if kind == "float" else 1e-12)


@pytest.mark.parametrize("target", runnable_targets())
def test_before_and_behind(target: str) -> None:
    """What a sum begins with, terms that are expressions, and what is done with the total."""
    text = """def f(float(37, 20) x, float(20) w, float(37) z) -> (a, b) {
        a(i) = z(i) * 3 where i in 0:37
        a(i) += x(i, j) * w(j)
        a(i) = tanh(a(i)) + i
        b(i) +=! (x(i, j) - z(i)) * (x(i, j) - z(i))
        b(i) = 1 / sqrt(b(i) / 20 + 0.5) }"""
    r = np.random.default_rng(0)
    x, w, z = (r.standard_normal(s, np.float32) for s in [(37, 20), 20, 37])
    a, b = ricci.parse(text, "tc").compile(threads=2, target=target)(x, w, z)
    np.testing.assert_allclose(a, np.tanh(z * 3.0 + x @ w) + np.arange(37), 1e-5, 1e-5)
    np.testing.assert_allclose(b, 1 / np.sqrt(((x - z[:, None]) ** 2).mean(1) + 0.5), 1e-5)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("size", [6, 16, 35])
def test_what_is_no_number_stays(op: str, size: int) -> None:
    x = np.random.default_rng(1).standard_normal((64, size), np.float32)
    for row in range(0, 64, 3):
        x[row, row % size] = np.nan
    x[1], x[2] = np.inf, -np.inf
    text = f"def f(float(64,{size}) x) -> (y) {{ y(i) {op}=! x(i, j) }}"
    np.testing.assert_array_equal(
        ricci.parse(text, "tc").compile()(x), FUNCTIONS[op].reduce(x, axis=1)
    )


def test_sizes_of_a_call() -> None:
    f = ricci.tc.define("def f(float(N, M) x) -> (y) { y(i) +=! x(i, j) }", threads=2)["f"]
    for n, m in [(100, 12), (5, 12), (33, 3), (1, 1)]:
        x = np.random.default_rng(2).standard_normal((n, m), np.float32)
        np.testing.assert_allclose(f(x), x.sum(1), 1e-5, 1e-5)
