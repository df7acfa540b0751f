"""The register tile and the transposition of blocks by themselves, and code for other machines."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from ricci.backends.llvm import contraction
from ricci.backends.llvm import contraction_transpose as transpose
from ricci.backends.llvm.jit import Library, compile_text, module_text
from ricci.backends.llvm.microkernel import Tile, call_tile, declarations, write_tile
from ricci.backends.llvm.target import Target, host
from ricci.dtypes import DType

from .cases import convolution, matmul

_LANES = host().lanes(DType.FLOAT32)


def load(text: str, name: str, kinds: list[type]) -> tuple[Library, Callable[..., None]]:
    library = Library([compile_text(text, host())], host())
    return library, ctypes.CFUNCTYPE(None, *kinds)(library.address(name))


@pytest.mark.parametrize("rows,vectors,masked", [(1, 1, False), (5, 2, False), (3, 3, True)])
@pytest.mark.parametrize("k", [0, 1, 7])
def test_tile(rows: int, vectors: int, masked: bool, k: int) -> None:
    wide = vectors * _LANES
    live = _LANES - 1 if masked else 0
    tile = Tile(DType.FLOAT32, _LANES, rows, vectors, 9, 1, wide + 3, wide + 2, masked)
    text = "\n".join(sorted(declarations(tile))) + "\n" + write_tile(tile)
    text += "define void @go(ptr %a, ptr %b, i64 %k, ptr %c, i1 %first) {\n"
    text += call_tile(tile, "%a", "%b", "%k", "%c", "%first", str(live)) + "\nret void\n}\n"
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library, go = load(text, "go", [pointer, pointer, number, pointer, ctypes.c_bool])
    rng = np.random.default_rng(k)
    a, b, c = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((rows, 9), (max(k, 1), wide + 3), (rows, wide + 2))
    )
    old = c.copy()
    columns = b[:, :wide].copy()
    if masked:
        columns[:, -1] = 0
    product = a[:, :k].astype(np.float64) @ columns[:k]
    for first in (False, True):
        c[:] = old
        go(a.ctypes.data, b.ctypes.data, k, c.ctypes.data, first)
        expected = product if first else old[:, :wide] + product
        assert np.allclose(c[:, :wide], expected, rtol=1e-5, atol=1e-5)
        assert np.array_equal(c[:, wide:], old[:, wide:])
    del library


def test_transpose_of_every_size() -> None:
    n = _LANES
    text = "\n".join(sorted(transpose.declarations(DType.FLOAT32, n))) + "\n"
    text += transpose.write_transpose(DType.FLOAT32, n)
    text += "define void @go(ptr %a, i64 %r, i64 %c, ptr %b) {\n"
    text += transpose.call_transpose("%a", str(n + 4), "%r", "%c", "%b", str(n + 1))
    text += "\nret void\n}\n"
    number = ctypes.c_int64
    library, go = load(text, "go", [ctypes.c_void_p, number, number, ctypes.c_void_p])
    a = np.arange(n * (n + 4), dtype=np.float32).reshape(n, n + 4)
    for rows in range(1, n + 1):
        for columns in range(1, n + 1):
            b = np.full((n, n + 1), -1, np.float32)
            go(a.ctypes.data, rows, columns, b.ctypes.data)
            expected = np.full_like(b, -1)
            expected[:columns, :rows] = a[:rows, :columns].T
            assert np.array_equal(b, expected)
    del library


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [
        (DType.FLOAT32, 4),
        (DType.FLOAT32, 8),
        (DType.FLOAT32, 16),
        (DType.FLOAT64, 2),
        (DType.FLOAT64, 4),
        (DType.FLOAT64, 8),
        (DType.INT32, 8),
    ],
)
def test_squares_of_so_many_rows(dtype: DType, lanes: int) -> None:
    """The last row stands for those that are not there."""
    n, step, stride = lanes, lanes + 3, 2 * lanes
    text = "declare i64 @llvm.smin.i64(i64, i64)\n"
    text += transpose.write_square(dtype, n, step, stride)
    text += "define void @go(ptr %a, i64 %r, ptr %b) {\n"
    text += transpose.call_square("%a", "%r", "%b") + "\nret void\n}\n"
    library, go = load(text, "go", [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p])
    a = np.arange(n * step).reshape(n, step).astype(dtype.numpy())
    for rows in range(1, n + 1):
        b = np.full((n, stride), -1, dtype.numpy())
        go(a.ctypes.data, rows, b.ctypes.data)
        there = np.minimum(np.arange(n), rows - 1)
        assert np.array_equal(b[:, :n], a[there, :n].T)
        assert (b[:, n:] == -1).all()
    del library


@pytest.mark.parametrize(
    "target",
    [
        Target("aarch64-unknown-linux-gnu", "neoverse-n1", "", 16, 29, False, 10, 65536, 1 << 20),
        Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16, False, 10, 32768, 1 << 18),
    ],
    ids=["arm", "x86 without fused multiply-add"],
)
def test_other_machines_get_code(target: Target) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cases = [
        matmul(70, 90, 50, right=True),
        matmul(1, 301, 333, right=True),
        convolution(1, (16, 64), (28, 28), 3, 2, 1),
    ]
    for case in cases:
        code = contraction.match(case.kernel, {}, target, case.constant)
        assert code is not None
        codes = [("main", code)]
        codes += [(f"prepare{k}", p.code) for k, p in enumerate(code.prepare)]
        assert len(compile_text(module_text(codes, target), target)) > 1000
