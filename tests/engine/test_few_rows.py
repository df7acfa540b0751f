"""The tiles of plain nests whose rows share vectors and are few: of more vectors, so that enough
sums are made at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.target import Target
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower

EIGHT = named("x86-64-v3")
SIXTEEN = replace(EIGHT, vector_bytes=64, registers=32)


def text(maps: int, size: int) -> str:
    return (
        f"def f(float(4,{size + 2},{size + 2}) X, float({maps},4,3,3) W) -> (O) {{"
        " O(m, y, x) +=! X(c, y + i, x + j) * W(m, c, i, j)"
        f" where m in 0:{maps}, y in 0:{size}, x in 0:{size} }}"
    )


@pytest.mark.parametrize(
    ("target", "maps", "size", "tile"),
    [
        (EIGHT, 2, 96, (2, 4)),
        (EIGHT, 2, 88, (2, 2)),  # fewer than three tiles
        (EIGHT, 3, 72, (3, 3)),
        (EIGHT, 3, 64, (3, 2)),
        (EIGHT, 4, 96, (4, 2)),
        (SIXTEEN, 2, 192, (2, 4)),
        (SIXTEEN, 3, 192, (3, 4)),
        (SIXTEEN, 3, 176, (3, 2)),
        (SIXTEEN, 3, 64, (3, 4)),  # a row that is one tile
        (SIXTEEN, 2, 48, (2, 3)),
        (SIXTEEN, 3, 16, (3, 1)),
        (EIGHT, 3, 24, (3, 3)),
    ],
)
def test_vectors_of_few_rows(target: Target, maps: int, size: int, tile: tuple[int, int]) -> None:
    (kernel,) = lower(ricci.tc.define(text(maps, size))["f"].graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    plan = make_plan(kernel, Frame({}, target), target)
    assert (plan.rows, plan.vectors) == tile


@pytest.mark.parametrize(("maps", "size"), [(2, 203), (3, 203), (3, 97), (2, 100)])
def test_what_they_compute(maps: int, size: int) -> None:
    rng = np.random.default_rng(maps)
    x = rng.random((4, size + 2, size + 2), np.float32)
    w = rng.random((maps, 4, 3, 3), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    want = np.einsum("cyxij,mcij->myx", windows, w)
    got = ricci.tc.define(text(maps, size), threads=2)["f"](x, w)
    np.testing.assert_allclose(got, want, 1e-5)
