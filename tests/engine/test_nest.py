"""Loop nests against NumPy and PyTorch: the arrangements that a plan can choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ricci.backends.llvm import nest
from ricci.backends.llvm.chunks import WORTH_SHARING
from ricci.backends.llvm.emit import Frame
from ricci.backends.llvm.nest_plan import make_plan
from ricci.backends.llvm.targets import named
from ricci.dtypes import DType
from ricci.ir.loops import Fill, Reduce, Scatter
from ricci.ir.nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    BinaryOp,
    Const,
    Expr,
    Index,
    Local,
    Reduction,
    Skip,
    Subscript,
    Tensor,
    integer,
)

from .running import HOST, run_kernel

FLOAT = DType.FLOAT32


def tensor(name: str, *shape: int, dtype: DType = FLOAT) -> Tensor:
    return Tensor(name, dtype, tuple(map(integer, shape)))


def access(t: Tensor, *subscripts: Expr | Subscript) -> Access:
    return Access(t, tuple(s if isinstance(s, Subscript) else Subscript(s) for s in subscripts))


def indices(**extents: int) -> list[Index]:
    return [Index(name, integer(n)) for name, n in extents.items()]


def binary(op: BinaryOp, a: Expr, b: Expr) -> Binary:
    return Binary(op, a, b)


def real(value: float) -> Const:
    return Const(value, FLOAT)


def reduce(
    target: Access,
    domain: Sequence[Index],
    initial: Expr,
    reduced: Sequence[Index] = (),
    op: Reduction = "set",
    value: Expr | None = None,
    result: Expr | None = None,
) -> Reduce:
    accumulator = Local("acc", initial)
    return Reduce(
        "test", (target,), tuple(domain), tuple(reduced), op, (initial,),
        () if value is None else (value,), (accumulator,),
        (accumulator if result is None else result,),
    )  # fmt: skip


def values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1,), (3,), (17,), (3, 5, 37), (2, 64, 33), (40, 7, 7)])
def test_map(shape: tuple[int, ...]) -> None:
    x, y = tensor("x", *shape), tensor("y", *shape)
    domain = [Index(f"i{d}", integer(n)) for d, n in enumerate(shape)]
    a, out = values(RNG, *shape), np.zeros(shape, np.float32)
    kernel = reduce(access(y, *domain), domain, binary("max", access(x, *domain), real(0.0)))
    run_kernel(kernel, {x: a, y: out})
    np.testing.assert_array_equal(out, np.maximum(a, 0))


@pytest.mark.parametrize("columns", [1, 5, 16, 31, 64, 257])
@pytest.mark.parametrize("op", ["add", "max", "mul"])
def test_reduction_of_rows_and_of_columns(columns: int, op: Reduction) -> None:
    i, j = indices(i=9, j=columns)
    x, rows, cols = tensor("x", 9, columns), tensor("r", 9), tensor("c", columns)
    a = values(RNG, 9, columns)
    function = {"add": np.sum, "max": np.max, "mul": np.prod}[op]
    start = real({"add": 0.0, "max": -np.inf, "mul": 1.0}[op])
    out = np.zeros(9, np.float32)
    run_kernel(reduce(access(rows, i), [i], start, [j], op, access(x, i, j)), {x: a, rows: out})
    np.testing.assert_allclose(out, function(a, axis=1), 1e-4, 1e-5)
    out = np.zeros(columns, np.float32)
    run_kernel(reduce(access(cols, j), [j], start, [i], op, access(x, i, j)), {x: a, cols: out})
    np.testing.assert_allclose(out, function(a, axis=0), 1e-4, 1e-5)


def test_epilogue_reads_the_accumulator() -> None:
    i, j = indices(i=20, j=30)
    x, y = tensor("x", 20, 30), tensor("y", 20)
    a, out = values(RNG, 20, 30), np.zeros(20, np.float32)
    accumulator = Local("acc", real(0.0))
    kernel = Reduce(
        "test", (access(y, i),), (i,), (j,), "add", (real(0.0),), (access(x, i, j),),
        (accumulator,), (Apply("exp", (accumulator,)),),
    )  # fmt: skip
    run_kernel(kernel, {x: a, y: out})
    np.testing.assert_allclose(out, np.exp(a.sum(1)), 1e-4)


WINDOWS = [
    (3, 9, 11, 3, 2, 1), (4, 112, 112, 3, 2, 1), (2, 56, 56, 2, 2, 0), (3, 28, 28, 3, 1, 1),
    (5, 7, 40, 3, 1, 1), (2, 14, 14, 5, 1, 2), (1, 4, 70, 3, 3, 0), (2, 33, 5, 3, 1, 2),
]  # fmt: skip


def window(step: int, i: Index, k: Index, pad: int) -> Subscript:
    moved = binary("add", binary("mul", integer(step), i), k)
    return Subscript(binary("sub", moved, integer(pad)), Skip())


@pytest.mark.parametrize(("c", "h", "w", "k", "s", "p"), WINDOWS)
@pytest.mark.parametrize("kind", ["max", "depthwise"])
def test_windows(c: int, h: int, w: int, k: int, s: int, p: int, kind: str) -> None:
    torch = pytest.importorskip("torch")
    oh, ow = (h + 2 * p - k) // s + 1, (w + 2 * p - k) // s + 1
    n, i, j, a, b = indices(n=c, i=oh, j=ow, a=k, b=k)
    x, f, y = tensor("x", c, h, w), tensor("f", c, k, k), tensor("y", c, oh, ow)
    data, weights = values(RNG, c, h, w), values(RNG, c, k, k)
    out = np.zeros((c, oh, ow), np.float32)
    read: Expr = access(x, n, window(s, i, a, p), window(s, j, b, p))
    image, domain = torch.from_numpy(data)[None], [n, i, j]
    if kind == "max":
        kernel = reduce(access(y, *domain), domain, real(-np.inf), [a, b], "max", read)
        padded = torch.nn.functional.pad(image, (p, p, p, p), value=-np.inf)
        want = torch.nn.functional.max_pool2d(padded, k, s)
    else:
        value = binary("mul", read, access(f, n, a, b))
        kernel = reduce(access(y, *domain), domain, real(0.0), [a, b], "add", value)
        filters = torch.from_numpy(weights)[:, None]
        want = torch.nn.functional.conv2d(image, filters, None, s, p, groups=c)
    run_kernel(kernel, {x: data, f: weights, y: out})
    np.testing.assert_allclose(out, want[0].numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize("width", [3, 16, 26, 54, 64, 83, 112, 150])
@pytest.mark.parametrize("filters", [2, 4, 7, 16, 19])
def test_rows_that_read_the_same_vectors(filters: int, width: int) -> None:
    """The loop over filters is the innermost one; a row ends with a vector that begins earlier."""
    torch = pytest.importorskip("torch")
    f, i, j, c, a, b = indices(f=filters, i=3, j=width, c=2, a=2, b=3)
    x, w, y = (
        tensor("x", 2, 4, width + 2),
        tensor("w", filters, 2, 2, 3),
        tensor("y", filters, 3, width),
    )
    data, weights = values(RNG, 2, 4, width + 2), values(RNG, filters, 2, 2, 3)
    out, domain = np.zeros((filters, 3, width), np.float32), [f, i, j]
    read = access(x, c, binary("add", i, a), binary("add", j, b))
    value = binary("mul", read, access(w, f, c, a, b))
    kernel = reduce(access(y, *domain), domain, real(0.0), [c, a, b], "add", value)
    run_kernel(kernel, {x: data, w: weights, y: out})
    want = torch.nn.functional.conv2d(torch.from_numpy(data)[None], torch.from_numpy(weights))
    np.testing.assert_allclose(out, want[0].numpy(), 1e-4, 1e-5)
    plan = nest.choose(kernel, {}, HOST)
    assert plan is not None and plan.outer[-1] == 0 and plan.rows > 1


def test_sums_of_rows_that_data_choose() -> None:
    """No two results read the same row, and they are shared out though there are few of them."""
    b, d, k = indices(b=64, d=64, k=50)
    table, number, y = (
        tensor("t", 300, 64),
        tensor("n", 64, 50, dtype=DType.INT32),
        tensor("y", 64, 64),
    )
    data, rows = values(RNG, 300, 64), RNG.integers(0, 300, (64, 50)).astype(np.int32)
    out = np.zeros((64, 64), np.float32)
    read = access(table, access(number, b, k), d)
    kernel = reduce(access(y, b, d), [b, d], real(0.0), [k], "add", read)
    assert not run_kernel(kernel, {table: data, number: rows, y: out}).any()
    np.testing.assert_allclose(out, data[rows].sum(1), 1e-4, 1e-4)
    plan = nest.choose(kernel, {}, HOST)
    assert plan is not None and plan.rows == 1 and plan.chunks > 4


@pytest.mark.parametrize(("work", "chunks"), [(0.9, 1), (1.01, 2), (1.3, 2), (2.1, 3)])
def test_what_is_worth_sharing_is_shared(work: float, chunks: int) -> None:
    """By two at least, though it is less than two chunks of other kernels have."""
    target = named("x86-64-v3")
    length = int(work * WORTH_SHARING / 1.25) * 8
    (i,) = indices(i=length)
    x, y = tensor("x", length), tensor("y", length)
    kernel = reduce(access(y, i), [i], binary("add", access(x, i), real(1.0)))
    plan = make_plan(kernel, Frame({}, target), target)
    assert plan.work == pytest.approx(work * WORTH_SHARING, rel=0.01)
    assert plan.chunks == chunks


def test_transposed_read() -> None:
    i, j = indices(i=50, j=30)
    x, y = tensor("x", 30, 50), tensor("y", 50, 30)
    a, out = values(RNG, 30, 50), np.zeros((50, 30), np.float32)
    run_kernel(reduce(access(y, i, j), [i, j], access(x, j, i)), {x: a, y: out})
    np.testing.assert_array_equal(out, a.T)


@pytest.mark.parametrize("step", [-1, 2, 3, 4, 5])
def test_strided_read_touches_nothing_after_the_last_element(step: int) -> None:
    n = 53
    (i,) = indices(i=n)
    size = (n - 1) * abs(step) + 1
    x, y = tensor("x", size), tensor("y", n)
    a, out = values(RNG, size), np.zeros(n, np.float32)
    place = binary("mul", integer(step), i)
    if step < 0:
        place = binary("add", place, integer(size - 1))
    run_kernel(reduce(access(y, i), [i], access(x, place)), {x: a, y: out})
    np.testing.assert_array_equal(out, a[::step])


@pytest.mark.parametrize("wrong", [-5, 100, 1 << 40, -(1 << 62)])
def test_index_out_of_range_is_recorded_and_touches_nothing(wrong: int) -> None:
    (i,) = indices(i=50)
    x, t, y = tensor("x", 100), tensor("t", 50, dtype=DType.INT64), tensor("y", 50)
    a, places = values(RNG, 100), RNG.integers(0, 100, 50)
    out = np.zeros(50, np.float32)
    kernel = reduce(access(y, i), [i], access(x, access(t, i)))
    assert run_kernel(kernel, {x: a, t: places, y: out})[0] == 0
    np.testing.assert_array_equal(out, a[places])
    places[33] = wrong
    assert run_kernel(kernel, {x: a, t: places, y: out}).tolist() == [1, wrong, 100, 0]


def test_scatter_adds_in_order() -> None:
    (i,) = indices(i=20)
    x, t, y = tensor("x", 20), tensor("t", 20, dtype=DType.INT64), tensor("y", 10)
    a, places = values(RNG, 20), RNG.integers(0, 10, 20)
    out, want = np.zeros(10, np.float32), np.zeros(10, np.float32)
    np.add.at(want, places, a)
    body = Assignment((access(y, access(t, i)),), "add", (access(x, i),), (i,))
    run_kernel(Scatter("test", body), {x: a, t: places, y: out})
    np.testing.assert_array_equal(out, want)


def test_fill() -> None:
    y = tensor("y", 3, 7)
    out = values(RNG, 3, 7)
    run_kernel(Fill("test", y), {y: out})
    assert not out.any()
