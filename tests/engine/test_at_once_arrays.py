"""Calls with NumPy arrays that native code makes from beginning to end."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import ricci
from ricci.runtime import at_once as calls
from ricci.runtime.instance import Instance, Weights
from ricci.runtime.results import BIG

from .test_at_once import DOUBLE, PICK, SEVERAL, Given, both, ones

BOTH = "def f(float(N) A, float(N) B) -> (S, D) { S(n) = A(n) + B(n)  D(n) = A(n) - B(n) }"
Array = np.ndarray[Any, Any]


def engine(f: Any) -> Any:
    return getattr(f, "_executable", f)._engine


def known(f: Any, *args: Array) -> Callable[..., Any]:
    """What makes calls with arrays like these."""
    for _ in range(2):
        f(*args)
    made: Callable[..., Any] = engine(f).at_once
    assert made(*args) is not None
    return made


def known_into(f: Any, args: tuple[Array, ...], *out: Array) -> Callable[..., Any]:
    """What makes calls that write to arrays like these."""
    for _ in range(2):
        f(*args, out=out)
    made: Callable[..., Any] = engine(f).into_at_once
    assert made(*args, *out) == ()
    return made


class _Sub(np.ndarray[Any, Any]):
    """Another class of arrays."""


def misaligned(x: Array) -> Array:
    found = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def unlike(x: Array) -> Iterator[Array]:
    """Arrays of the shape of `x`, with the same elements, that need another way."""
    yield x.view(_Sub)
    yield misaligned(x)
    yield x.astype(">f4")
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, 1)[:, ::2]
    yield np.ascontiguousarray(x[::-1])[::-1]


def test_only_what_is_like_an_earlier_call_is_made_at_once() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    at_once = known(f, x)
    fixed = x.copy()
    fixed.flags.writeable = False
    for like in (x + 1, x[:], fixed, np.concatenate([x, x])[4:]):
        assert np.array_equal(at_once(like), like * 2)
    for other in unlike(x):
        assert at_once(other) is None
        assert np.array_equal(f(other), x * 2)
    for args in ((x, x), (), (x[None],), (x[0],), (x.astype(np.float64),), (3.0,), ("x",), (None,)):
        assert at_once(*args) is None
    with pytest.raises(ricci.Error, match="E0801"):
        f(x.astype(np.float64))
    with pytest.raises(ricci.Error, match="E0801"):
        f(x[None])


def test_other_strides_are_known_too() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = np.arange(48, dtype=np.float32).reshape(4, 12)
    for kind in (x[:, ::2], x[::3], np.broadcast_to(x[0], (5, 12)), x.T):
        at_once = known(f, kind)
        assert np.array_equal(at_once(kind), kind * 2)


def test_results_of_all_kinds() -> None:
    f = ricci.parse(SEVERAL, "skriptnd").compile()
    x = np.random.default_rng(0).random((3, 4), np.float32)
    known(f, x)
    got = f(x)
    assert got._fields == ("sums", "less", "all")
    np.testing.assert_allclose(got.sums, x.sum(1), rtol=1e-6)
    assert np.array_equal(got.less, x < 0.5)
    np.testing.assert_allclose(got.all, x.sum(), rtol=1e-6)
    assert got.all.shape == ()
    for result in got:
        assert type(result) is np.ndarray
        assert result.flags.c_contiguous and result.flags.owndata and result.flags.writeable
        result.fill(1)  # it is the caller's


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64"])
def test_dtypes(dtype: str) -> None:
    word = {"float64": "double"}.get(dtype, dtype)
    f = ricci.tc.define(DOUBLE.replace("float(", f"{word}(")).f
    x = np.arange(6).reshape(2, 3).astype(dtype)
    known(f, x)
    assert f(x).dtype == (np.int32 if x.itemsize == 1 else x.dtype)
    assert np.array_equal(f(x), x * 2)


def test_bfloat16_is_given_as_callers_have_it() -> None:
    f = ricci.tc.define(DOUBLE.replace("float(", "bfloat16(")).f
    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    for _ in range(4):
        assert f(x).dtype == x.dtype
        assert np.array_equal(f(x), x * 2)


def test_nothing_is_lost_or_left() -> None:
    f = ricci.tc.define(BOTH).f
    a, b = ones(5), ones(5)
    at_once = known(f, a, b)
    into = known_into(f, (a, b), ones(5), ones(5))
    gc.collect()
    counted: list[Any] = [a, b, a.dtype, np.empty, None, (), at_once(a, b)[0]]
    before = [sys.getrefcount(c) for c in counted]
    for _ in range(1000):
        at_once(a, b)
        at_once(a)
        into(a, b, ones(5), ones(5))
        into(a, b, a, b)
    after = [sys.getrefcount(c) for c in counted]
    # who counts references to what everybody has may be interrupted by others who do
    assert all(abs(x - y) < 100 for x, y in zip(before, after, strict=True))


def test_big_results_are_used_again_when_nobody_has_them() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = ones(BIG // 4096, 1024)
    at_once = known(f, x)
    held = [at_once(x * k) for k in range(3)]
    assert [(h.min(), h.max()) for h in held] == [(0, 0), (2, 2), (4, 4)]
    place = held[0].ctypes.data
    view = held[1][3:5]
    del held
    places = [a.ctypes.data for a in [at_once(x) for _ in range(4)]]
    assert place in places
    assert (view == 2).all()


def test_a_call_that_fails() -> None:
    f = ricci.tc.define(PICK).f
    x, right = np.arange(5, dtype=np.float32), np.array([0, 4, 2], np.int32)
    at_once = known(f, x, right)
    into = known_into(f, (x, right), ones(3))
    wrong, y = np.array([0, 5, 2], np.int32), ones(3)
    for _ in range(2):
        assert at_once(x, wrong) is None
        assert into(x, wrong, y) is None
        with pytest.raises(ricci.Error, match="E0802"):
            f(x, wrong)
        with pytest.raises(ricci.Error, match="E0802"):
            f(x, wrong, out=y)
        assert np.array_equal(at_once(x, right), x[right])
        assert into(x, right, y) == ()
        assert np.array_equal(y, x[right])


def test_results_for_which_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def make(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        asked.append(shape)
        if len(asked) % 2 == 0:
            raise MemoryError
        return np.empty(shape, dtype)

    monkeypatch.setattr(calls, "maker", lambda shape, dtype: make)
    f = ricci.tc.define(BOTH).f
    a, b = ones(5), ones(5)
    for _ in range(2):
        f(a, b)
    assert engine(f).at_once(a, b) is None
    assert asked == [(5,), (5,)]
    assert [r.tolist() for r in f(a, b)] == [[2] * 5, [0] * 5]


def test_results_in_arrays() -> None:
    f = ricci.tc.define(BOTH).f
    a, b, s, d = ones(5), ones(5), ones(5), ones(5)
    into = known_into(f, (a, b), s, d)
    assert into(a * 3, b, s, d) == ()
    assert s.tolist() == [4] * 5
    assert d.tolist() == [2] * 5
    fixed = ones(5)
    fixed.flags.writeable = False
    assert into(a, b, s, fixed) is None
    assert into(a, b, misaligned(s), d) is None
    with pytest.raises(ricci.Error, match="E0801"):
        f(a, b, out=(s, fixed))
    assert (fixed == 1).all()


def test_results_that_share_memory() -> None:
    f = ricci.tc.define(BOTH).f
    a, b, s, d = ones(5), ones(5) * 2, ones(5), ones(5)
    into = known_into(f, (a, b), s, d)
    line = np.arange(30, dtype=np.float32)
    for args in ((a, b, a, d), (a, b, s, b), (a, b, s, s), (a, a, s, a)):
        assert into(*args) is None
    for x, y, p, q in ((0, 5, 4, 20), (0, 5, 20, 9), (0, 0, 5, 6), (10, 15, 6, 25)):
        parts = [line[k : k + 5] for k in (x, y, p, q)]
        assert into(*parts) is None
    apart = [line[k : k + 5] for k in (10, 15, 5, 20)]
    assert into(*apart) == ()
    assert (line[5:10], line[20:25]) == (pytest.approx(2 * line[10:15] + 5), pytest.approx(-5))
    want = a + b, a - b
    f(a, b, out=(a, b))
    assert np.array_equal(a, want[0])
    assert np.array_equal(b, want[1])


def test_arrays_are_not_taken_for_results() -> None:
    """With as many arrays in all as a known call has."""
    f = ricci.tc.define(BOTH).f
    a = ones(5)
    known_into(f, (a, a), ones(5), ones(5))
    for args, out in (((a,), (ones(5),) * 3), ((a, a, a), (ones(5),)), ((), (ones(5),) * 4)):
        with pytest.raises(ricci.Error, match="E0801"):
            f(*args, out=out)


def test_arrays_and_tensors_in_turns() -> None:
    f = ricci.tc.define(DOUBLE).f
    x = ones(4, 6)
    t = torch.from_numpy(x)
    for _ in range(3):
        assert type(f(x)) is np.ndarray
        assert type(f(t)) is torch.Tensor
        y, u = ones(4, 6), torch.ones(4, 6)
        assert f(x, out=y) is y
        assert f(t, out=u) is u
        assert y.sum() == u.sum() == 48
    at_once, into = engine(f).at_once, engine(f).into_at_once
    assert type(at_once(x)) is np.ndarray
    assert type(at_once(t)) is torch.Tensor
    assert into(x, y) == into(t, u) == ()
    assert into(x, u) is into(t, y) is into(t, t) is into(t, u.T) is None


def test_more_kinds_than_are_known() -> None:
    f = ricci.tc.define(DOUBLE).f
    kinds = [ones(n, 3) for n in range(1, calls.AtOnce.MOST + 4)]
    for _ in range(3):
        for x in kinds:
            assert np.array_equal(f(x), x * 2)


def test_where_arrays_are_not_as_they_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_numpy", lambda: None)
    f = ricci.tc.define(DOUBLE).f
    x = ones(4, 6)
    for _ in range(3):
        assert np.array_equal(f(x), x * 2)
        assert np.array_equal(f(x, out=ones(4, 6)), x * 2)
    assert engine(f).at_once is engine(f).into_at_once is None


OPEN = """
import math;
graph Open {
    @input { x: real[n|%d,4]; y: real[m|64]; }
    @output { z: real[n,4]; v: real[m]; }
    @compose { z = math.add(x, x); v = math.mul(y, y); }
}
"""


@both
def test_open_sizes(given: Given) -> None:
    """Calls of several sizes by turns, some of which native code does not know any more."""
    f = ricci.parse(OPEN % 512, "skriptnd").compile()
    r = np.random.default_rng(0)
    for _ in range(300):
        n, m = r.integers(0, 9), r.integers(0, 9)
        x, y = r.random((n, 4), np.float32), r.random(m, np.float32)
        z, v = f(given(x), given(y))
        assert np.array_equal(z, x + x)
        assert np.array_equal(v, y * y)
    assert engine(f).at_once is not None


def test_an_instance_of_other_sizes_takes_those_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes one finds that of another thread on top."""
    f = ricci.parse(OPEN % 512, "skriptnd").compile()
    y = np.ones(3, np.float32)
    f(ones(2, 4), y)
    (weights,) = engine(f)._weights.values()

    def give(self: Weights, instance: Instance) -> None:
        self._free.append(instance)
        self._free.append(self._free.pop(0))

    monkeypatch.setattr(Weights, "give", give)
    instances = [weights.take() for _ in range(3)]
    for number, instance in enumerate(instances):
        instance.take_sizes(np.array([number, number]))
        weights.give(instance)
    for n in (5, 1, 7, 5, 1, 7, 5, 1, 7):
        z, v = f(ones(n, 4), y)
        assert np.array_equal(z, ones(n, 4) * 2)
        assert np.array_equal(v, y)


def test_open_sizes_of_large_arenas_are_not_known_one_by_one() -> None:
    """Each would have memory of its own."""
    text = """
    import linalg;
    graph Open {
        @input { x: real[n|%d,64]; w: real[64,64]; }
        @output { y: real[n,64]; }
        @compose { z = linalg.matmul(x, w); y = linalg.matmul(z, w); }
    }
    """
    x = np.arange(640, dtype=np.float32).reshape(10, 64)
    w = np.eye(64, k=1, dtype=np.float32)
    for most, is_known in ((16, True), (1 << 14, False)):
        f = ricci.parse(text % most, "skriptnd").compile(threads=1)
        for _ in range(3):
            assert np.array_equal(f(x, w), x @ w @ w)
        assert (engine(f).at_once is not None) == is_known
