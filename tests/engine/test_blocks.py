"""Memory for what a program keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ricci
from ricci.runtime import instance
from ricci.runtime.blocks import aligned

TEXT = """
import math;
graph Main {
    @input { x: real[3,50]; }
    @variable { w: real[3,50]; }
    @output { y: real[3,50]; }
    @compose { y = math.mul(x, w); }
}
"""


@pytest.mark.parametrize("offset", [0, 16, 32, 48])
def test_what_caches_hold_is_aligned(offset: int) -> None:
    """And copied only if it is not."""
    memory = np.arange(1024, dtype=np.float32)
    start = -memory.ctypes.data % 64 + offset
    array = memory[start // 4 :][:600].reshape(20, 30)
    found = aligned(array)
    assert found.ctypes.data % 64 == 0
    assert np.array_equal(found, array)
    assert (found is array) == (offset == 0)


def test_kernels_read_constants_where_they_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that nothing prepares, of an array that begins anywhere."""
    found: list[instance.Weights] = []
    prepare = instance.Weights.__init__

    def remember(self: instance.Weights, *args: Any, **named: Any) -> None:
        prepare(self, *args, **named)
        found.append(self)

    monkeypatch.setattr(instance.Weights, "__init__", remember)
    memory = np.arange(512, dtype=np.float32)
    w = memory[(-memory.ctypes.data % 64 + 16) // 4 :][:150].reshape(3, 50)
    model = ricci.parse(TEXT, "skriptnd")
    (name,) = model.variables
    executable = model.compile()
    executable.variables.adopt(name, w)
    x = np.random.default_rng(0).random((3, 50), np.float32)
    assert np.array_equal(executable(x), x * w)
    kept = [v for weights in found for v in weights.variables if v is not None]
    assert len(kept) == 1 and kept[0].ctypes.data % 64 == 0


def test_what_no_cache_holds_stays_where_it_is() -> None:
    memory = np.zeros((6 << 20) + 16, np.uint8)
    array = memory[-memory.ctypes.data % 64 + 16 :][: 5 << 20]
    assert aligned(array) is array
