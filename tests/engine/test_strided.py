"""Arrays that are not contiguous are addressed where they are: against contiguous copies."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import ricci
from ricci.tc import assert_almost_equal

from ..tc.kernel_cases import KERNELS, Kernel, operations

Array = np.ndarray[Any, np.dtype[Any]]

FUNCTIONS = """
def rows(float(M,N) A) -> (S) { S(m) +=! A(m,n) }
def copy(float(M,N) A) -> (B) { B(m,n) = A(m,n) }
def flip(float(M,N) A) -> (B) { B(n,m) = A(m,n) }
def diagonal(float(M,N) A, int32(K) I) -> (B) { B(k) = A(I(k), I(k)) }
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def scale(float s, float(N) A) -> (B) { B(n) = s * A(n) }
"""


@pytest.fixture(scope="module")
def functions() -> ricci.tc.Comprehensions:
    return ricci.tc.define(FUNCTIONS, threads=1)


# ------------------------------------------------------------------ every kernel


def _turned(a: Array) -> Array:
    """The last dimension outermost."""
    order = [a.ndim - 1, *range(a.ndim - 1)] if a.ndim else []
    return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order).astype(int))


def _stepped(a: Array) -> Array:
    """Every second element of something larger, from the second on."""
    view = np.zeros([2 * n + 1 for n in a.shape], a.dtype)[(slice(1, None, 2),) * a.ndim]
    view[...] = a
    return view


def _rows_apart(a: Array) -> Array:
    view = np.zeros((*a.shape[:-1], a.shape[-1] + 3), a.dtype)[..., 1:-2]
    view[...] = a
    return view


def _spread(dimension: int) -> Callable[[Array], Array]:
    """One element along a dimension, again and again."""

    def change(a: Array) -> Array:
        return np.broadcast_to(a.take([0], dimension), a.shape)

    return change


def _overlapping(a: Array) -> Array:
    """All dimensions with the stride of an element."""
    return as_strided(a.reshape(-1), a.shape, [a.itemsize] * a.ndim)


def _backwards(a: Array) -> Array:
    return np.ascontiguousarray(a[..., ::-1])[..., ::-1]


LAYOUTS: list[Callable[[Array], Array]] = [
    np.asfortranarray, _turned, _stepped, _rows_apart, _spread(0), _spread(-1), _overlapping,
    _backwards,
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k.file}-{k.name}")
def test_kernels_take_arrays_however_they_lie(kernel: Kernel) -> None:
    function = ricci.tc.define(kernel.text, threads=1)[kernel.name]
    arguments = kernel.draw(kernel.small)
    rng = np.random.default_rng(KERNELS.index(kernel))
    for _ in range(2):
        chosen = [LAYOUTS[k] for k in rng.integers(0, len(LAYOUTS), len(arguments))]
        views = [f(a) if a.ndim else a for f, a in zip(chosen, arguments, strict=True)]
        compact = [np.ascontiguousarray(v) if v.ndim else v for v in views]
        results, expected = (_tuple(function(*x)) for x in (views, compact))
        for actual, wanted in zip(results, expected, strict=True):
            limit = 4 * operations(kernel, kernel.small) if actual.dtype.kind == "f" else 1
            assert_almost_equal(actual, wanted, *compact, operations=limit)


def _tuple(result: Any) -> tuple[Array, ...]:
    return result if isinstance(result, tuple) else (result,)


# ------------------------------------------------------------------ what is odd


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((0, 5), (7, 3)), ((5, 0), (4, 400)), ((0, 0), (0, 0)), ((1, 5), (1000, 8)),
        ((1, 5), (3, 4)), ((1, 5), (-8, 4)), ((5, 1), (20, 12345)), ((5, 1), (20, -4)),
        ((1, 1), (77777, 99999)), ((3, 4), (0, 0)), ((3, 4), (6, 4)), ((3, 4), (4, 6)),
    ],
)  # fmt: skip
def test_strides_of_any_kind(
    functions: ricci.tc.Comprehensions, shape: tuple[int, int], strides: tuple[int, int]
) -> None:
    view = as_strided(np.arange(1000, dtype=np.float32), shape, strides)
    compact = view.copy()
    other = np.ones((shape[1], 3), np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(functions.copy(view), compact)
        np.testing.assert_array_equal(functions.flip(view), compact.T)
        np.testing.assert_allclose(functions.rows(view), compact.sum(1), rtol=1e-6)
        np.testing.assert_allclose(functions.mm(view, other), compact @ other, rtol=1e-6)


def test_windows_that_overlap(functions: ricci.tc.Comprehensions) -> None:
    windows = sliding_window_view(np.arange(100, dtype=np.float32), 37)
    np.testing.assert_array_equal(functions.copy(windows), windows)
    product = functions.mm(windows, windows.T)
    np.testing.assert_allclose(product, windows.copy() @ windows.T.copy(), rtol=1e-5)


def test_scalars_and_views_of_records(functions: ricci.tc.Comprehensions) -> None:
    records = np.zeros(6, np.dtype([("tag", np.uint16), ("x", np.float32), ("y", np.float64)]))
    whole = np.zeros(6, np.dtype([("x", np.float32), ("y", np.int32)]))
    records["x"] = whole["x"] = np.arange(6)
    scalar = np.arange(10, dtype=np.float32)[3:4].reshape(())
    for values in (records["x"], whole["x"], whole["x"][::-1]):
        np.testing.assert_array_equal(functions.scale(scalar, values), 3 * values)


def test_tensors_of_pytorch_that_are_views(functions: ricci.tc.Comprehensions) -> None:
    base = torch.arange(60.0).reshape(6, 10)
    views = [base.T, base[::2, 1::3], base[0].expand(4, 10), base.flip(0), base.diagonal()[None]]
    for view in [*views, *views]:
        np.testing.assert_array_equal(functions.copy(view), view)
        np.testing.assert_array_equal(functions.flip(view), view.T)


def test_a_view_larger_than_the_memory_is_not_copied(functions: ricci.tc.Comprehensions) -> None:
    side = 1 << 18
    places = np.array([0, 5, side - 1], np.int32)
    huge = np.broadcast_to(np.arange(1 << 18, dtype=np.float32), (side, side))
    np.testing.assert_array_equal(functions.diagonal(huge, places), [0, 5, side - 1])
    tensor = torch.full((1, 1), 3.0).expand(side, side)
    assert functions.diagonal(tensor, torch.from_numpy(places)).tolist() == [3, 3, 3]


def test_only_arrays_that_go_backwards_are_copied(functions: ricci.tc.Comprehensions) -> None:
    base = np.ones((1000, 2, 1000), np.float32)[:, 0]
    assert _memory(functions, base) < base.nbytes / 4
    assert _memory(functions, base.T) < base.nbytes / 4
    assert _memory(functions, base[::2, ::3]) < base.nbytes / 24
    assert _memory(functions, base[::-1]) >= base.nbytes


def _memory(functions: ricci.tc.Comprehensions, array: Array) -> int:
    """The most bytes that a call takes."""
    functions.rows(array)
    tracemalloc.start()
    try:
        functions.rows(array)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
