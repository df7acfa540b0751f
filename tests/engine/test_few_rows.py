"""The tiles of plain nests whose rows share vectors and are few: of more vectors, so that enough
sums are made at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.kernels import generate
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.schedule import Nest
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.passes.pipeline import lower

from ..engine_contraction.native import Native

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


def pixels(maps: int, size: int, channels: int) -> str:
    return (
        f"def f(float({channels},{size}) X, float({maps},{channels}) W) -> (O) {{"
        " O(m, p) +=! X(c, p) * W(m, c) }"
    )


@pytest.mark.parametrize(
    ("maps", "size", "whole"),
    [
        (24, 3136, True),
        (4, 3136, True),
        (29, 3136, False),  # eight tiles
        (24, 64, False),  # of four vectors each
        (1, 3136, False),
    ],
)
def test_few_tiles_of_rows_are_done_together(maps: int, size: int, whole: bool) -> None:
    """In blocks of the vectors of a row: one by one, rows would share nothing."""
    (kernel,) = lower(ricci.tc.define(pixels(maps, size, 64))["f"].graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    plan = make_plan(kernel, Frame({}, EIGHT), EIGHT)
    assert plan.by_vectors == whole
    if whole:
        assert (plan.rows, plan.leading) == (4, 0)
        assert plan.blocks >= 8


@pytest.mark.parametrize("maps", [4, 7, 24, 27])
@pytest.mark.parametrize("size", [3136, 3131, 2049, 200])
def test_what_blocks_of_vectors_compute(maps: int, size: int) -> None:
    """With rows and vectors that are left over, by one thread and by several."""
    rng = np.random.default_rng(size)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((16, size), (maps, 16)))
    want = w @ x
    for threads in (1, 2, 3):
        got = ricci.tc.define(pixels(maps, size, 16), threads=threads)["f"](x, w)
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("maps", [4, 10])
def test_borders_in_blocks_of_vectors(maps: int) -> None:
    """Where vectors at the ends of a row see some terms only."""
    size = 1501
    model = ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[1,6,{size}]; w: real[{maps},6,5]; }}
            @output {{ y: real[1,{maps},{size}]; }}
            @compose {{ y = nn.conv{{padding=2}}(x, w); }} }}""",
        "skriptnd",
    )
    rng = np.random.default_rng(maps)
    x = rng.standard_normal((1, 6, size), np.float32)
    w = rng.standard_normal((maps, 6, 5), np.float32)
    padded = np.pad(x[0], ((0, 0), (2, 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, 1)
    want = np.einsum("cpi,mci->mp", windows, w)[None]
    for threads in (1, 2):
        got = model.compile(threads=threads)(x, w)
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)


@pytest.mark.parametrize("maps", [4, 7])
def test_each_block_of_vectors_is_done_once(maps: int) -> None:
    """Whole tiles of all rows, and nothing else."""
    (kernel,) = lower(ricci.tc.define(pixels(maps, 1000, 16))["f"].graph, {}, Types()).kernels
    schedule = Nest(1, 8, (0,), (2,), 4, 2, 10, 700)
    code = generate(kernel, {}, host(), schedule=schedule)
    rng = np.random.default_rng(maps)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((16, 1000), (maps, 16)))
    result, want, done = kernel.targets[0].tensor, w @ x, np.zeros(1000, int)
    unset = np.full_like(want, np.nan)
    arrays = {t: {"f.X": x, "f.W": w}.get(t.name, unset) for t in code.tensors}
    assert code.chunks == 10
    for chunk in range(code.chunks):
        native = Native(code, arrays, host())
        native.do(chunk, chunk + 1)
        got = native.array(result)
        columns = ~np.isnan(got).any(0)
        assert (columns == ~np.isnan(got).all(0)).all()
        assert np.flatnonzero(columns)[0] % 16 == 0
        np.testing.assert_allclose(got[:, columns], want[:, columns], 1e-4, 1e-4)
        done += columns
    assert (done == 1).all()
