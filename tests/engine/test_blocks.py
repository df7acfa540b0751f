"""Memory for what a program keeps."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.runtime.blocks import aligned


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


def test_what_no_cache_holds_stays_where_it_is() -> None:
    memory = np.zeros((6 << 20) + 16, np.uint8)
    array = memory[-memory.ctypes.data % 64 + 16 :][: 5 << 20]
    assert aligned(array) is array
