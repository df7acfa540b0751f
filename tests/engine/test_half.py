"""float16 on a processor that has no instructions for it, against NumPy."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import half
from ricci.backends.llvm.jit import Library, compile_text
from ricci.backends.llvm.target import Target, host
from ricci.runtime import instance, native, pool

CONVERSIONS = """
define void @widen(ptr %from, ptr %to, i64 %n) {
entry: br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %source = getelementptr half, ptr %from, i64 %i
  %x = load half, ptr %source
  %y = fpext half %x to float
  %target = getelementptr float, ptr %to, i64 %i
  store float %y, ptr %target
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end: ret void
}
define void @narrow(ptr %from, ptr %to, i64 %n) {
entry: br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %source = getelementptr float, ptr %from, i64 %i
  %x = load float, ptr %source
  %y = fptrunc float %x to half
  %target = getelementptr half, ptr %to, i64 %i
  store half %y, ptr %target
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end: ret void
}
"""


X86 = platform.machine() in ("x86_64", "AMD64")


def baseline() -> Target:
    """The least x86-64 processor; on other machines what this one is."""
    if not X86:
        return host()
    return replace(host(), cpu="x86-64", features="", vector_bytes=16, registers=16, masks=False)


def _run(symbol: str, source: np.ndarray, dtype: type) -> np.ndarray:
    target = baseline()
    code = compile_text(f'target triple = "{target.triple}"\n{CONVERSIONS}', target)
    library = Library([code], target)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    result = np.empty(source.shape, dtype)
    function(library.address(symbol))(source.ctypes.data, result.ctypes.data, source.size)
    return result


def test_the_baseline_needs_the_routines() -> None:
    target = baseline()
    code = compile_text(f'target triple = "{target.triple}"\n{CONVERSIONS}', target)
    assert all(name.encode() in code for name in half.NAMES) == X86


def test_every_half_widens_exactly() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        expected = halves.astype(np.float32)
    np.testing.assert_array_equal(_run("widen", halves, np.float32), expected)


def test_floats_round_to_the_nearest_half() -> None:
    rng = np.random.default_rng(16)
    some = rng.integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = halves.astype(np.float32)
        between = (exact + np.roll(exact, -1)) / 2  # ties, which go to the even half
        near = np.nextafter(between, np.float32(0))
        small = some * np.float32(1e-30)
        floats = np.concatenate([some, exact, between, near, small, -small])
        expected = floats.astype(np.float16)
    got = _run("narrow", floats, np.float16)
    np.testing.assert_array_equal(got, expected)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(expected[finite]))


def test_a_model_computes_in_halves_on_the_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    for module in (pool, native, instance):
        monkeypatch.setattr(module, "this_machine", baseline)
    model = ricci.parse("""
        operator f { @input { x: real[n]; } @output { y: real[n]; z: int[n]; }
            @lower { y[i,] = `exp`(x[i,]) / 3.0, i < n; z[i,] = int(x[i,] * 3.0), i < n; } }
        graph G { @input { x: real[37]; } @output { y: real; z: int; }
            @compose { y, z = f(x); } }
    """)
    x = np.linspace(-4, 4, 37).astype(np.float16)
    y, z = model.compile(threads=1, real="float16")(x)
    np.testing.assert_allclose(y, np.exp(x.astype(float)) / 3, rtol=2e-3)
    np.testing.assert_array_equal(z, np.trunc(x * np.float16(3)).astype(int))
