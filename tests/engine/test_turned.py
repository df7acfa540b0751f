"""Maps by tiles that are turned round in registers, rows that threads keep, sums in parts, and
quotients by what all lanes share: against NumPy."""

from __future__ import annotations

import re
from itertools import permutations

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_turn import plan_turned
from ricci.backends.llvm.target import Target
from ricci.backends.llvm.targets import named
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.ir.rewrite import accesses
from ricci.passes.pipeline import lower

from ..engine_contraction.native import Fenced
from .running import HOST, run_code


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_whole_lines_are_written_past_the_caches(target: str) -> None:
    """Whatever the length of vectors: half a line waits for the other, and few can."""
    model = ricci.parse("def f(float(M,N) X) -> (Y) { Y(i, j) = X(j, i) }", "tc")
    text = model.show("asm", sizes={"M": 4096, "N": 4096}, target=target)
    stores = re.findall(r"v?movntps\s+%([xyz])mm\d+, (-?\d*)\(%(\w+)(,\S*)?\)", text)
    assert stores
    length = {"x": 16, "y": 32, "z": 64}[stores[0][0]]
    for n in range(0, len(stores), 64 // length):
        line = stores[n : n + 64 // length]
        assert len({(base, index) for _, _, base, index in line}) == 1
        offsets = sorted(int(offset or 0) for _, offset, _, _ in line)
        assert offsets == list(range(offsets[0], offsets[0] + 64, length))


@pytest.mark.parametrize("dtype", ["float", "double", "int8", "bool"])
@pytest.mark.parametrize("shape", [(16, 16), (33, 70), (64, 17), (5, 300), (4, 4), (257, 96)])
def test_transposes(shape: tuple[int, int], dtype: str) -> None:
    text = f"def f({dtype}(N, M) X) -> (Y) {{ Y(j, i) = X(i, j) where i in 0:N, j in 0:M }}"
    kinds = {"float": "float32", "double": "float64"}
    x = np.random.default_rng(0).integers(0, 2, shape).astype(kinds.get(dtype, dtype))
    np.testing.assert_array_equal(ricci.tc.define(text, threads=2)["f"](x), x.T)


@pytest.mark.parametrize("shape", [(2048, 2064), (2064, 2050), (2050, 2064)])
def test_past_the_caches(shape: tuple[int, int]) -> None:
    """Where results begin at a line, and where they do not."""
    text = "def f(float(N, M) X) -> (Y) { Y(j, i) = X(i, j) where i in 0:N, j in 0:M }"
    x = np.random.default_rng(0).random(shape, np.float32)
    run = ricci.tc.define(text, threads=2)["f"]
    np.testing.assert_array_equal(run(x), x.T)
    space = np.empty(x.size + 17, np.float32)
    for first in (0, 1):
        at = -(space.ctypes.data // 4) % 16 + first
        out = space[at : at + x.size].reshape(x.T.shape)
        run(x, out=out)
        np.testing.assert_array_equal(out, x.T)


@pytest.mark.parametrize("shape", [(16, 4112, 64), (3, 5488, 256), (5, 1040, 1000), (64, 64, 1040)])
def test_images_past_the_caches(shape: tuple[int, int, int]) -> None:
    """Long runs of short rows, rows that are asked for, and rows that no cache holds twice."""
    text = "def f(float(A, N, M) X) -> (Y) { Y(a, j, i) = X(a, i, j) + X(a, i, j) * X(a, i, j) }"
    x = np.random.default_rng(0).random(shape, np.float32)
    got = ricci.tc.define(text, threads=2)["f"](x)
    np.testing.assert_allclose(got, (x + x * x).transpose(0, 2, 1), 1e-6)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("shape", [(2048, 2064), (2064, 2048 + 16), (4096, 1040)])
def test_two_lines_together(
    shape: tuple[int, int], pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory wants that, whether it does here or not."""
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    monkeypatch.setattr(Target, "pairs", pairs)
    model = ricci.parse(f"def f(float({shape[0]},{shape[1]}) X) -> (Y) {{ Y(j,i) = X(i,j) }}", "tc")
    x = np.random.default_rng(0).random(shape, np.float32)
    np.testing.assert_array_equal(model.compile(threads=2)(x), x.T)
    (kernel,) = lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64)).kernels
    assert isinstance(kernel, Reduce)
    target = named("x86-64-v4")
    plan = plan_turned(kernel, Frame({}, target), target)
    assert plan is not None and plan.streams
    assert (plan.along_block, plan.cache) == ((2, 1) if pairs else (1, 2))
    assert (plan.ahead == (256,)) == pairs


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (1, 3, 0, 2), (2, 3, 1, 0)])
def test_permutations_past_the_caches(order: tuple[int, ...]) -> None:
    target = ", ".join("abcd"[k] for k in order)
    text = f"def f(float(A, B, C, D) X) -> (Y) {{ Y({target}) = X(a, b, c, d) }}"
    x = np.random.default_rng(0).random((64, 48, 80, 32), np.float32)
    got = ricci.tc.define(text, threads=2)["f"](x)
    np.testing.assert_array_equal(got, x.transpose(order))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_permutations(order: tuple[int, ...]) -> None:
    indices = [f"i{k}" for k in range(4)]
    target = ", ".join(indices[k] for k in order)
    where = ", ".join(f"{i} in 0:{n}" for i, n in zip(indices, "ABCD", strict=True))
    text = (
        f"def f(float(A, B, C, D) X, float(C) s) -> (Y)"
        f" {{ Y({target}) = X({', '.join(indices)}) * s(i2) + i0 where {where} }}"
    )
    rng = np.random.default_rng(1)
    x, s = rng.random((3, 18, 9, 21), np.float32), rng.random(9, np.float32)
    want = x * s[:, None] + np.arange(3, dtype=np.float32)[:, None, None, None]
    got = ricci.tc.define(text, threads=2)["f"](x, s)
    np.testing.assert_allclose(got, want.transpose(order), 1e-6)


@pytest.mark.parametrize("dtype", ["float", "double", "int8", "float16"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_elements_that_are_apart(step: int, dtype: str) -> None:
    """Up to four are picked by tiles, and nothing is read before the first or beyond the last."""
    kind = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    for rows, columns in ((16, 16), (37, 19), (70, 64), (17, 300)):
        text = (
            f"def f({dtype}(N, M) X) -> (Y) "
            f"{{ Y(j, i) = X(i, {step} * j) where i in 0:{rows}, j in 0:{columns} }}"
        )
        shape = (rows, step * (columns - 1) + 1)
        graph = ricci.parse(text, "tc").graph
        sizes = dict(zip(graph.symbols, shape, strict=True))
        (kernel,) = lower(graph, sizes, Types()).kernels
        assert isinstance(kernel, Reduce)
        assert (plan_turned(kernel, Frame({}), HOST) is None) == (step == 5)
        x = np.random.default_rng(0).integers(-99, 99, shape).astype(kind)
        for at_end in (False, True):
            given = {kernel.targets[0].tensor: np.zeros((columns, rows), kind)}
            (read,) = accesses(*kernel.results)
            given |= {read.tensor: x}
            fenced = {t: Fenced(a, at_end).array for t, a in given.items()}
            assert not run_code(nest.generate(kernel, {}, HOST), fenced).any()
            np.testing.assert_array_equal(fenced[kernel.targets[0].tensor], x[:, ::step].T)


def test_rows_of_which_tiles_pick_elements() -> None:
    """A group's tiles, and several tensors, of which elements lie apart and side by side."""
    text = """
        def f(float(B, N, M) X, float(N, K) Z) -> (Y) {
            Y(b, j, i) = X(b, i, 3 * j) * Z(i, j) + X(b, i, 3 * j + 1) where j in 0:33
        }"""
    rng = np.random.default_rng(0)
    x, z = rng.random((5, 40, 98), np.float32), rng.random((40, 33), np.float32)
    want = (x[:, :, ::3] * z + x[:, :, 1::3]).transpose(0, 2, 1)
    np.testing.assert_allclose(ricci.tc.define(text, threads=2)["f"](x, z), want, 1e-6)


@pytest.mark.parametrize("shape", [(64, 3, 70), (33, 1, 600), (40, 7, 2000)])
def test_rows_are_kept_by_threads(shape: tuple[int, ...]) -> None:
    extents = ", ".join(map(str, shape))
    model = ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[{extents}]; }}
            @output {{ y: real[{extents}]; }}
            @compose {{ y = nn.softmax{{axes=[2]}}(x); }}
        }}""",
        "skriptnd",
    )
    assert "one point each" in model.show("loops")
    x = np.random.default_rng(4).standard_normal(shape, np.float32)
    powers = np.exp(x.astype(np.float64))
    want = powers / powers.sum(2, keepdims=True)
    np.testing.assert_allclose(model.compile(threads=2)(x), want, 1e-5)


@pytest.mark.parametrize("shape", [(1 << 18,), (3 * 5 * 7, 4096), (100003,), (2, 1 << 17)])
def test_long_reductions(shape: tuple[int, ...]) -> None:
    extents = "NM"[: len(shape)]
    indices = ", ".join(extents.lower())
    text = (
        f"def f(float({', '.join(extents)}) X) -> (s, t)"
        f" {{ s +=! X({indices}) t max=! X({indices}) * X({indices}) }}"
    )
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    total, largest = ricci.tc.define(text, threads=2)["f"](x)
    np.testing.assert_allclose(total, x.sum(dtype=np.float64), 1e-4, 1e-2)
    assert largest == (x * x).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_are_those_of_divisions(dtype: str) -> None:
    kind = {"float32": "float", "float64": "double"}[dtype]
    text = f"def f({kind}(N) X, {kind} d) -> (Y) {{ Y(i) = X(i) / d }}"
    limits, rng = np.finfo(dtype), np.random.default_rng(3)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal]
    x = np.concatenate([ends, rng.standard_normal(1000), 1e30 * rng.random(100)]).astype(dtype)
    function = ricci.tc.define(text)["f"]
    for divisor in np.array([*ends, 3.0, -0.1, 7e-20, 1e30], dtype):
        with np.errstate(all="ignore"):
            want = x / divisor
        got = function(x, divisor)
        np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
        np.testing.assert_array_max_ulp(got[np.isfinite(want)], want[np.isfinite(want)], 1)
        np.testing.assert_array_equal(got[~np.isfinite(want)], want[~np.isfinite(want)])
        exact = np.abs(x) > limits.tiny * 2.0**30
        np.testing.assert_array_equal(got[exact], want[exact])


def test_what_is_joined_is_not_filled_first() -> None:
    text = """import layout; graph G {
        @input { x: real[3, 5]; z: real[3, 2]; }
        @output { y: real[~, ~]; }
        @compose { y = layout.concat{axis=1}([x, z, x]); }
    }"""
    model = ricci.parse(text, "skriptnd")
    x, z = np.ones((3, 5), np.float32), np.zeros((3, 2), np.float32)
    np.testing.assert_array_equal(model.compile()(x, z), np.concatenate([x, z, x], 1))
    assert "[...] = 0" not in model.show("loops")
