"""Maxima and minima of many terms against NumPy: NaN wherever it is, infinities, all targets."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest_uses

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


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("kind", ["float", "double"])
def test_windows_of_which_one_term_is_no_number(kind: str, target: str) -> None:
    """Of terms that are written out, wherever it is, on borders and in what is left over."""
    dtype = {"float": "float32", "double": "float64"}[kind]
    text = f"""def f({kind}(C,H,W) A) -> (M, N) {{
        M(c,i,j) max=! A(c, 2 * i + k, j + l) where i in 0:5, k in 0:3, l in 0:3, j in 0:W-2
        N(c,i,j) min=! A(c, i + k, j + l) where k in 0:2, l in 0:4, j in 0:W-3, i in 0:H-1 }}"""
    run = ricci.parse(text, "tc").compile(target=target)
    for width in (7, 21, 50):
        a = np.random.default_rng(width).standard_normal((3, 11, width)).astype(dtype)
        a[1].ravel()[width % 5 :: 29] = np.nan
        a[2].ravel()[::7] = -np.inf
        largest, least = run(a)
        view = np.lib.stride_tricks.sliding_window_view
        want = view(a, (3, 3), axis=(1, 2))[:, ::2].max(axis=(-1, -2))
        np.testing.assert_array_equal(largest, want)
        np.testing.assert_array_equal(least, view(a, (2, 4), axis=(1, 2)).min(axis=(-1, -2)))
        assert 0 < np.isnan(want).sum() < want.size / 2


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("size", [2, 3, 5])
def test_windows_of_images_with_borders(size: int, target: str) -> None:
    """Terms behind a border are none, whatever they are."""
    text = f"""
import nn;
graph G {{
    @input {{ x: real[2, 3, 17, 70]; }}
    @output {{ y: real[2, 3, {18 - size % 2}, {71 - size % 2}]; }}
    @compose {{ y = nn.max_pool{{size={size}, stride=1, padding={size // 2}}}(x); }}
}}"""
    x = np.random.default_rng(size).standard_normal((2, 3, 17, 70)).astype(np.float32)
    x[0, 0, 0, 0] = x[0, 1, -1, -1] = x[1, 2, 8, 33] = np.nan
    x[1, 0] = -np.inf
    half = size // 2
    padded = np.pad(x, ((0, 0), (0, 0), (half, half), (half, half)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    got = ricci.parse(text, "skriptnd").compile(target=target)(x)
    np.testing.assert_array_equal(got, windows.max(axis=(-1, -2)))


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("rows", [16, 19, 24, 41])
def test_columns_of_which_one_term_is_no_number(
    monkeypatch: pytest.MonkeyPatch, rows: int, target: str
) -> None:
    """Where eight terms at a time are combined with what is in memory."""
    monkeypatch.setattr(nest_uses, "LARGE", 1 << 10)
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    text = f"""def f(float({rows},600) A, float({rows},600) B) -> (M, N) {{
        M(j) max=! A(i,j)
        N(j) min=! (B(i,j) > 0) ? A(i,j) : 1e30 }}"""
    r = np.random.default_rng(rows)
    a, b = (r.standard_normal((rows, 600)).astype(np.float32) for _ in range(2))
    a[np.arange(rows), 7 * np.arange(rows)] = np.nan
    largest, least = ricci.parse(text, "tc").compile(target=target)(a, b)
    np.testing.assert_array_equal(largest, a.max(axis=0))
    want = np.where(b > 0, a, np.float32(1e30)).min(axis=0)
    np.testing.assert_array_equal(least, want)
    assert np.isnan(a.max(axis=0)).sum() == rows > np.isnan(want).sum() > 0
