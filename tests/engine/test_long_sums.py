"""Sums of many terms: what is lost of them grows with the numbers of levels, not of terms."""

from __future__ import annotations

import numpy as np
import pytest

import ricci

SUMS = {
    "over the first": ("def f(float(16384,K) x) -> (y) { y(k) +=! x(i,k) }", (16384, 33), 0),
    "over two": ("def f(float(512,100,K) x) -> (y) { y(k) +=! x(i,j,k) }", (512, 100, 64), (0, 1)),
    "of windows": (
        "def f(float(2048,3,3,K) x) -> (y) { y(k) +=! x(i,j,l,k) }",
        (2048, 3, 3, 40),
        (0, 1, 2),
    ),
    "of any number": ("def f(float(N,K) x) -> (y) { y(k) +=! x(i,k) }", (16000, 33), 0),
    "rows beyond the caches": (
        "def f(float(4,4096,1024) x) -> (y) { y(i,k) +=! x(i,j,k) }",
        (4, 4096, 1024),
        1,
    ),
    "far rows beyond the caches": (
        "def f(float(4096,2,2048) x) -> (y) { y(j,k) +=! x(i,j,k) }",
        (4096, 2, 2048),
        0,
    ),
    "along the vectors": ("def f(float(R,300000) x) -> (y) { y(r) +=! x(r,i) }", (3, 300000), 1),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("threads", [1, 2])
def test_long_sums_lose_few_bits(name: str, threads: int) -> None:
    text, shape, axes = SUMS[name]
    x = np.random.default_rng(3).random(shape, dtype=np.float32)
    executable = ricci.parse(text, "tc").compile(threads=threads)
    wanted = x.sum(axes, dtype=np.float64)
    error = np.max(np.abs(executable(x) - wanted) / wanted)
    assert error < 4e-7  # one by one: 3e-6 to 8e-6


@pytest.mark.parametrize("shape", [(15, 0, 3), (200, 0, 3), (0, 4, 3), (64, 4, 3)])
def test_sums_with_loops_that_may_be_empty(shape: tuple[int, ...]) -> None:
    """Steps of the outer loop are counted by the terms of the inner one, of which there may be
    none."""
    text = "def f(float({},{},{}) x, float(L) w) -> (y) {{ y(k) +=! x(i,j,k) * w(l) }}"
    x = np.random.default_rng(3).random(shape, dtype=np.float32)
    w = np.ones(2, np.float32)
    got = ricci.parse(text.format(*shape), "tc").compile(threads=2)(x, w)
    np.testing.assert_allclose(got, 2 * x.sum((0, 1), dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "shape"),
    [("w(k,n)", (8192, 512)), ("w(n,k)", (320, 9216)), ("w(n,k)", (9, 2051))],
    ids=["columns", "rows", "rows of an odd length"],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_by_a_matrix_lose_few_bits(
    weights: str, shape: tuple[int, int], rows: int
) -> None:
    """Read from one end to the other, with a variable that is given as a constant and without."""
    k, n = shape if weights == "w(k,n)" else shape[::-1]
    r = np.random.default_rng(5)
    x, w = r.random((rows, k), np.float32), r.random(shape, np.float32)
    wanted = x.astype(np.float64) @ (w if weights == "w(k,n)" else w.T)
    sizes = ",".join(map(str, shape))
    text = (
        f"def f(float({rows},{k}) x, float({sizes}) w) -> (y) {{ y(m,n) +=! x(m,k) * {weights} }}"
    )
    found = [ricci.parse(text, "tc").compile(threads=t)(x, w) for t in (1, 2)]
    folder = f"""
        graph G {{
            @input {{ x: real[{rows}, {k}]; }}
            @output {{ y: real[{rows}, {n}]; }}
            @variable {{ w: real[{sizes}]; }}
            @compose {{ y = product(x, w); }}
        }}
        operator product {{
            @input {{ x: real[{rows}, {k}]; w: real[{sizes}]; }}
            @output {{ y: real[{rows}, {n}]; }}
            @lower {{
                y[m, n] += x[m, k] * {weights.replace("(", "[").replace(")", "]")},
                    m < {rows}, n < {n}, k < {k};
            }}
        }}"""
    model = ricci.parse(folder)
    model.variables["main.G.w"] = w
    found += [model.compile(threads=t)(x) for t in (1, 2)]
    for y in found:
        assert np.max(np.abs(y - wanted) / wanted) < 4e-7
