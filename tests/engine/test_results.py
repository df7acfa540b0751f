"""Memory of results that is used again."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

import ricci
from ricci.runtime import results

SIDE = 1024
DOUBLE = "def f(float(N,M) X) -> (Y) { Y(n,m) = X(n,m) * 2 }"


def test_a_result_that_somebody_has_stays() -> None:
    run = ricci.tc.define(DOUBLE).f
    x = np.ones((SIDE, SIDE), np.float32)
    held = [run(x * k) for k in range(3)]
    rows = run(x * 3)[5:9]
    tensor = run(torch.from_numpy(x * 4))
    part = memoryview(run(x * 5))
    named = weakref.ref(run(x * 6))
    for _ in range(4):
        run(x * -1)
    gc.collect()
    assert [h.min() for h in held] == [h.max() for h in held] == [0, 2, 4]
    assert (rows == 6).all()
    assert (tensor == 8).all()
    assert (np.asarray(part) == 10).all()
    kept = named()
    assert kept is None or (kept == 12).all()


def test_a_result_that_nobody_has_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = results.Kept()
    shape, dtype = (SIDE, SIDE), np.dtype(np.float32)
    first = kept.make(shape, dtype)
    place = first.ctypes.data
    assert place % 64 == 0  # stores past the caches are of whole lines
    assert 1024 <= place % 4096 <= 3072  # far from where inputs begin in their pages
    assert kept.make(shape, dtype).ctypes.data != place
    part = first[5:, 3:]
    del first
    assert kept.make(shape, dtype).ctypes.data != place
    del part
    assert kept.make(shape, dtype).ctypes.data == place
    locked = kept.make(shape, dtype)
    locked.flags.writeable = False
    place = locked.ctypes.data
    del locked
    assert kept.make(shape, dtype).ctypes.data != place
    monkeypatch.setenv("RICCI_KEEP_RESULTS", "0")
    kept.make((SIDE, SIDE, 2), dtype)
    assert not kept._arrays
