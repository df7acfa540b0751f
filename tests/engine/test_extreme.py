"""Maxima and minima of many terms against NumPy: NaN wherever it is, infinities, all targets."""

from __future__ import annotations

import numpy as np
import pytest

import ricci

from .running import runnable_targets

COLUMNS = [1, 5, 16, 23, 64, 197]


def _with_nan_everywhere(columns: int, dtype: str) -> np.ndarray:
    """Each row but the last four has one NaN, at another place."""
    a = np.random.default_rng(columns).standard_normal((columns + 4, columns)).astype(dtype)
    np.fill_diagonal(a[:columns], np.nan)
    a[-1], a[-2], a[-3] = np.nan, -np.inf, np.inf
    return a


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_nan_is_found_in_each_lane(kind: str, columns: int, target: str) -> None:
    a = _with_nan_everywhere(columns, {"float": "float32", "double": "float64"}[kind])
    rows = len(a)
    text = f"""def f({kind}({rows},{columns}) A) -> (M, N) {{
        M(i) max=! A(i,j)
        N(i) min=! A(i,j) * A(i,j) }}"""
    largest, least = ricci.parse(text, "tc").compile(target=target)(a)
    np.testing.assert_array_equal(largest, a.max(axis=1))
    np.testing.assert_array_equal(least, (a * a).min(axis=1))


@pytest.mark.parametrize("columns", COLUMNS)
def test_open_sizes(columns: int) -> None:
    run = ricci.parse("def f(float(R,N) A) -> (M) { M(i) max=! A(i,j) }", "tc").compile()
    a = _with_nan_everywhere(columns, "float32")
    np.testing.assert_array_equal(run(a), a.max(axis=1))


def test_terms_that_a_condition_leaves_out() -> None:
    """NaN counts only where the term does."""
    text = """def f(float(40,50) A, float(40,50) B) -> (M) {
        M(i) max=! (B(i,j) > 0) ? A(i,j) : -1e30 }"""
    a = _with_nan_everywhere(50, "float32")[:40]
    b = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    result = ricci.parse(text, "tc").compile()(a, b)
    np.testing.assert_array_equal(result, np.where(b > 0, a, np.float32(-1e30)).max(axis=1))
    assert 0 < np.isnan(result).sum() < 40


def test_windows_beyond_the_border() -> None:
    """Along a window of which parts are skipped, the terms are fewer."""
    text = """
import nn;
graph G {
    @input { x: real[1, 3, 90]; }
    @output { y: real[1, 3, 90]; }
    @compose { y = nn.max_pool{size=33, stride=1, padding=16}(x); }
}"""
    x = np.random.default_rng(2).standard_normal((1, 3, 90)).astype(np.float32)
    x[0, 1, 45] = np.nan
    padded = np.pad(x, ((0, 0), (0, 0), (16, 16)), constant_values=-np.inf)
    expected = np.lib.stride_tricks.sliding_window_view(padded, 33, axis=2).max(axis=-1)
    np.testing.assert_array_equal(ricci.parse(text, "skriptnd").compile()(x), expected)
