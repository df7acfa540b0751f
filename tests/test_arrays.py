"""What callers pass and get back: NumPy, PyTorch, DLPack, bfloat16; and calls like earlier ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import ricci
from ricci.cli import main
from ricci.dtypes import BFLOAT16, from_bfloat16, to_bfloat16
from ricci.ir.text import parse_graph
from ricci.runtime import arguments
from ricci.runtime.executable import compile_graph

TARGETS = pytest.mark.parametrize("target", ["cpu", "interpreter"])

COPY = "def copy(float(M,N) A) -> (B) { B(m,n) = A(m,n) }"
ADD = "def add(float(N) A, float(N) B) -> (C) { C(n) = A(n) + B(n) }"
TWICE = "def twice(bfloat16(N) A) -> (B) { B(n) = A(n) + A(n) }"

MAPS = """
def f(bfloat16(N) A, bfloat16(N) B) -> (S, D, P, Q, Low, High, E, Side, Rest) {
    S(i) = A(i) + B(i)
    D(i) = A(i) - B(i)
    P(i) = A(i) * B(i)
    Q(i) = A(i) / B(i)
    Low(i) = min(A(i), B(i))
    High(i) = max(A(i), B(i))
    E(i) = bfloat16(exp(A(i)))
    Side(i) = A(i) < B(i) ? -A(i) : bfloat16(0.1)
    Rest(i) = A(i) % B(i)
}
"""

CASTS = """
def f(bfloat16(N) A, double(N) X, int32(N) I, uint8(N) U, float16(N) H)
    -> (X2, I2, U2, H2, Whole, Wide, Truth, Mixed, Product) {
    X2(i) = bfloat16(X(i))
    I2(i) = bfloat16(I(i))
    U2(i) = bfloat16(U(i))
    H2(i) = bfloat16(H(i))
    Whole(i) = int32(A(i))
    Wide(i) = double(A(i))
    Truth(i) = bool(A(i))
    Mixed(i) = A(i) + H(i)
    Product(i) = A(i) * I(i)
}
"""


def _bfloat16(rng: np.random.Generator, count: int, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(count) * scale).bfloat16()


def _same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual.double().numpy(), expected.double().numpy())


# ------------------------------------------------------------------- bfloat16


def test_every_bfloat16_is_what_pytorch_takes_it_for() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    numbers = from_bfloat16(bits.view(BFLOAT16))
    np.testing.assert_array_equal(numbers, expected)
    there = ~np.isnan(numbers)
    np.testing.assert_array_equal(to_bfloat16(numbers).view(np.uint16)[there], bits[there])


def test_numbers_round_to_the_nearest_bfloat16() -> None:
    rng = np.random.default_rng(16)
    some = rng.integers(0, 1 << 32, 100_000, np.uint32).view(np.float32)
    exact = from_bfloat16(np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16))
    with np.errstate(all="ignore"):
        ties = (exact + np.roll(exact, -1)) / 2
    numbers = np.concatenate([some, ties, np.nextafter(ties, np.float32(0))])
    expected = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(numbers)), expected)


def test_float64_rounds_to_bfloat16_at_once() -> None:
    tie = 1 + 2.0**-8  # between 1 and 1 + 2**-7; float32 does not see what is added
    numbers = np.array([tie, tie + 2.0**-40, tie - 2.0**-40, 1e300, -1e300, 5e-324])
    expected = np.array([1, 1 + 2.0**-7, 1, np.inf, -np.inf, 0], np.float32)
    np.testing.assert_array_equal(from_bfloat16(to_bfloat16(numbers)), expected)
    function = ricci.tc.define("def f(double(N) X) -> (B) { B(i) = bfloat16(X(i)) }").f
    np.testing.assert_array_equal(function(numbers).astype(np.float32), expected)


@TARGETS
def test_operations_on_bfloat16_are_those_of_pytorch(target: str) -> None:
    rng = np.random.default_rng(1)
    a, b = _bfloat16(rng, 1000, 3.0), _bfloat16(rng, 1000)
    a[:6] = torch.tensor([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38])
    result = ricci.tc.define(MAPS, target=target).f(a, b)
    _same(result.S, a + b)
    _same(result.D, a - b)
    _same(result.P, a * b)
    _same(result.Q, a / b)
    _same(result.Low, torch.minimum(a, b))
    _same(result.High, torch.maximum(a, b))
    _same(result.E, a.float().exp().bfloat16())
    _same(result.Side, torch.where(a < b, -a, torch.tensor(0.1).bfloat16()))
    finite = torch.isfinite(a)
    _same(result.Rest[finite], torch.remainder(a.float(), b.float()).bfloat16()[finite])


@TARGETS
def test_conversions_of_bfloat16_are_those_of_pytorch(target: str) -> None:
    rng = np.random.default_rng(2)
    a, h = _bfloat16(rng, 300, 100.0), _bfloat16(rng, 300).half()
    x = torch.from_numpy(rng.standard_normal(300))
    i = torch.from_numpy(rng.integers(-(1 << 31), 1 << 31, 300).astype(np.int32))
    u = torch.from_numpy(rng.integers(0, 256, 300).astype(np.uint8))
    a[0] = 0
    result = ricci.tc.define(CASTS, target=target).f(a, x, i, u, h)
    _same(result.X2, x.bfloat16())
    _same(result.I2, i.double().bfloat16())
    _same(result.U2, u.bfloat16())
    _same(result.H2, h.bfloat16())
    _same(result.Whole, a.int())
    _same(result.Wide, a.double())
    _same(result.Truth, a.bool())
    _same(result.Mixed, a.float() + h.float())
    _same(result.Product, a * i.double().bfloat16())


@TARGETS
@pytest.mark.parametrize("type", ["float16", "bfloat16"])
def test_sums_of_16_bits_are_held_in_more(type: str, target: str) -> None:
    text = f"""
    def total({type}(N) A) -> (S, Most) {{ S +=! A(i) Most max=! A(i) }}
    def mm({type}(M,K) A, {type}(K,N) B) -> (C) {{ C(m,n) +=! A(m,k) * B(k,n) }}
    """
    functions, dtype = ricci.tc.define(text, target=target), getattr(torch, type)
    ones = torch.ones(5000, dtype=dtype)
    _same(functions.total(ones).S, torch.tensor(5000.0).to(dtype))
    rng = np.random.default_rng(3)
    a, b = (torch.from_numpy(rng.standard_normal((40, 40))).to(dtype) for _ in range(2))
    assert functions.total(a[0]).Most == a[0].max()
    exact = a.double() @ b.double()
    step = torch.finfo(dtype).eps
    difference = (functions.mm(a, b).double() - exact).abs()
    terms = a.double().abs() @ b.double().abs()  # the interpreter rounds each of them
    assert (difference <= step * (exact.abs() + terms / 8)).all()


@TARGETS
def test_the_neighbours_of_a_bfloat16(target: str) -> None:
    graph = parse_graph("""
        graph g {
          symbol N;
          input a = a: bfloat16[N];
          input b = b: bfloat16[N];
          y: bfloat16[N] = f(a, b) { y[i] = nextafter(a[i], b[i])  for i < N; }
          output y = y;
        }
    """)
    numbers = [0.0, -0.0, 1.0, -1.0, 2.0**-133, -(2.0**-126), 3.3895e38, np.inf, np.nan, 5.0]
    a, b = (torch.tensor(x).bfloat16().flatten() for x in zip(*_pairs(numbers), strict=True))
    result = compile_graph(graph, {}, target)(a, b)
    _same(result, torch.nextafter(a, b))


def _pairs(numbers: list[float]) -> Iterator[tuple[float, float]]:
    return ((x, y) for x in numbers for y in numbers)


def test_bfloat16_comes_back_as_it_was_given() -> None:
    twice = ricci.tc.define(TWICE).twice
    a = torch.arange(5).bfloat16()
    numbers = a.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    for _ in range(2):
        _same(twice(a), a + a)
        assert twice(numbers).dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(twice(numbers).astype(np.float32), (a + a).float().numpy())
    out = torch.empty(5, dtype=torch.bfloat16)
    assert twice(a, out=out) is out
    _same(out, a + a)


def test_bfloat16_is_written_to_an_array_of_it() -> None:
    model = ricci.parse("""
graph G {
    @input { x: real[5]; }
    @output { y: real[5]; }
    @compose { y = twice(x); }
}
operator twice {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[i,] * 2.0, i < n; }
}""")
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    for target in ("cpu", "interpreter"):
        out = np.zeros(5, ml_dtypes.bfloat16)
        model.compile(target=target, real="bfloat16").into([out], x)
        np.testing.assert_array_equal(out.astype(np.float32), 2.0 * np.arange(5))


def test_without_ml_dtypes_numpy_gets_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    arguments._ml_dtype.cache_clear()
    try:
        graph = ricci.tc.define("def f(float(N) A) -> (B) { B(n) = bfloat16(A(n)) }").f
        result = graph(np.array([1.00390625, 3.0], np.float32))
    finally:
        arguments._ml_dtype.cache_clear()
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [1.0, 3.0])


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.float32, "V2"])
def test_other_arrays_are_not_bfloat16(dtype: Any) -> None:
    twice = ricci.tc.define(TWICE).twice
    twice(torch.zeros(3).bfloat16())
    with pytest.raises(ricci.Error, match="E0801") as caught:
        twice(np.zeros(3, dtype))
    assert "expected bfloat16" in str(caught.value)


def test_compiled_for_bfloat16_before_there_are_arrays() -> None:
    function = ricci.tc.compile(TWICE, "twice", ricci.tc.Spec((4,), "bfloat16"))
    a = torch.ones(4).bfloat16()
    ricci.tc.assert_almost_equal(function(a), a + a)
    with pytest.raises(AssertionError):
        ricci.tc.assert_almost_equal(function(a), a + a + 0.1, operations=2)
    for dtype, message in [("float16", "wrong element type"), ("nothing", "is not one")]:
        with pytest.raises(ricci.Error, match=message):
            ricci.tc.compile(TWICE, "twice", ricci.tc.Spec((4,), dtype))


def test_a_model_in_bfloat16() -> None:
    model = ricci.parse("""
        import math;
        graph G { @input { x: real[5]; } @output { y: real[5]; }
            @variable { w: real[5]; }
            @compose { e = math.exp(x); y = math.mul(e, w); } }
    """)
    rng = np.random.default_rng(4)
    x, w = _bfloat16(rng, 5), rng.standard_normal(5).astype(np.float32)
    for target in ("cpu", "interpreter"):
        exe = model.compile(target, real="bfloat16")
        exe.variables["main.G.w"] = w
        at_once = x.float().exp() * torch.from_numpy(w).bfloat16()  # one kernel of both operators
        each = x.exp() * torch.from_numpy(w).bfloat16()
        _same(exe(x), at_once.bfloat16() if target == "cpu" else each)
        result = exe(x.float().numpy())
        assert result.dtype == exe.variables["main.G.w"].dtype == ml_dtypes.bfloat16
        exe.variables["main.G.w"] = torch.ones(5, dtype=torch.bfloat16)
        _same(exe(x), x.exp())


def test_files_hold_bfloat16_in_float32(tmp_path: Path) -> None:
    program, given, result = (tmp_path / name for name in ("twice.tc", "a.npy", "b.npy"))
    program.write_text(TWICE)
    np.save(given, np.array([1.00390625, 3.0], np.float32))
    assert main(["run", str(program), "--input", f"A={given}", "--output", f"B={result}"]) == 0
    np.testing.assert_array_equal(np.load(result), np.array([2.0, 6.0], np.float32))
    assert main(["run", str(program), "--random", "1", "--set", "N=5"]) == 0


# ------------------------------------------------------------- other libraries


class Exported:
    """Something that has an array, and nothing but DLPack to show it."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array = array
        self.device = device

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


@TARGETS
def test_arrays_of_any_library_are_taken_by_dlpack(target: str) -> None:
    copy = ricci.tc.define(COPY, target=target).copy
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (array, array.T, array[::2, 1::2], np.broadcast_to(array[0], (3, 6))):
        result = copy(Exported(view))
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, view)


def test_results_are_given_by_dlpack() -> None:
    result = ricci.tc.define(COPY).copy(np.ones((2, 3), np.float32))
    shared = torch.from_dlpack(result)
    shared[0, 0] = 5
    assert result[0, 0] == 5


def test_arrays_elsewhere_are_refused() -> None:
    copy = ricci.tc.define(COPY).copy
    copy(torch.ones(2, 3))
    array = np.ones((2, 3), np.float32)
    for value in (Exported(array, device=2), torch.ones(2, 3, device="meta")):
        with pytest.raises(ricci.Error, match=r"E0801.*is not in the memory of the CPU"):
            copy(value)
    with pytest.raises(ricci.Error, match="E0801"):
        copy(torch.ones(2, 3).to_sparse())


def test_what_only_claims_to_be_an_array_is_refused() -> None:
    class Claim:
        def __dlpack__(self) -> object:
            raise BufferError("not today")

    with pytest.raises(ricci.Error, match="E0801"):
        ricci.tc.define(COPY).copy(Claim())


def test_tensors_with_gradients_are_detached() -> None:
    copy = ricci.tc.define(COPY).copy
    for tensor in (torch.ones(2, 3, requires_grad=True), torch.nn.Parameter(torch.ones(2, 3))):
        for _ in range(2):
            result = copy(tensor)
            assert not result.requires_grad
            _same(result, torch.ones(2, 3))


@TARGETS
def test_tensors_without_memory_are_refused(target: str) -> None:
    copy = ricci.tc.define(COPY, target=target).copy
    copy(torch.ones(2, 3))
    shapes = {torch.func.functionalize: (2, 3), torch.vmap: (4, 2, 3)}
    for transform, shape in shapes.items():
        with pytest.raises(ricci.Error, match="E0801"):
            transform(copy)(torch.ones(shape))


@TARGETS
def test_tensors_and_arrays_can_be_mixed(target: str) -> None:
    add = ricci.tc.define(ADD, target=target).add
    a = np.arange(3, dtype=np.float32)
    for _ in range(2):
        _same(add(a, torch.ones(3)), torch.arange(1.0, 4.0))
        _same(add(torch.ones(3), B=a), torch.arange(1.0, 4.0))


def test_read_only_and_byte_swapped_arrays() -> None:
    copy = ricci.tc.define(COPY).copy
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    swapped, fixed = array.astype(array.dtype.newbyteorder()), array.copy()
    fixed.flags.writeable = False
    for value in (array, fixed, swapped, fixed.T, swapped.T):
        np.testing.assert_array_equal(copy(value), value)


# ------------------------------------------------------ calls like earlier ones


def test_a_call_is_not_known_by_its_shapes_alone() -> None:
    copy = ricci.tc.define(COPY).copy
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for value in (array, torch.from_numpy(array)):
        copy(value)
        copy(value)
    for wrong in (array.astype(np.int32), torch.ones(2, 3).int(), torch.ones(2, 3, device="meta")):
        with pytest.raises(ricci.Error, match="E0801"):
            copy(wrong)
    raw = np.zeros(25, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(2, 3)
    unaligned[...] = array
    np.testing.assert_array_equal(copy(unaligned), array)
    masked = np.ma.masked_array(array, array > 3)
    assert type(copy(masked)) is np.ndarray


def test_negated_tensors_are_read_as_such() -> None:
    copy = ricci.tc.define(COPY).copy
    pairs = torch.ones(2, 3, dtype=torch.complex64) * 1j
    plain, negated = torch.imag(pairs), torch.imag(pairs.conj())
    assert negated.is_neg() and plain.stride() == negated.stride()
    for _ in range(2):
        _same(copy(plain), torch.ones(2, 3))
        _same(copy(negated), -torch.ones(2, 3))


@TARGETS
def test_an_unchecked_call_of_a_new_kind_is_checked(target: str) -> None:
    copy = ricci.tc.define(COPY, target=target).copy
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    wrong: list[tuple[Any, ...]] = [(array.astype(np.float64),), (array[0],), (), (array, array)]
    for given in [*wrong, (array,), *wrong, (torch.from_numpy(array).T,), (array[:, ::-1],)]:
        if any(given is w for w in wrong):
            with pytest.raises(ricci.Error, match="E0801"):
                copy(*given, unchecked=True)
        else:
            np.testing.assert_array_equal(copy(*given, unchecked=True), given[0])


@pytest.mark.parametrize("library", [np, torch], ids=lambda m: m.__name__)
def test_arrays_for_results_are_looked_at_each_time(library: Any) -> None:
    add = ricci.tc.define(ADD).add
    make = np.asarray if library is np else torch.from_numpy
    memory = np.zeros(8, np.float32)
    a, b = make(np.arange(4, dtype=np.float32)), make(np.ones(4, np.float32))
    apart = make(np.zeros(4, np.float32))
    for out in (apart, apart, make(memory[:4])):
        assert add(a, b, out=out) is out
        assert out.tolist() == [1, 2, 3, 4]
    assert add(a, b, out=(apart,)) == (apart,)
    memory[:] = range(8)
    whole = make(memory)
    add(whole[:4], 10 * b, out=whole[1:5])  # overlaps: all of the argument is read before
    assert memory.tolist() == [0, 10, 11, 12, 13, 5, 6, 7]
    with pytest.raises(ricci.Error, match="E0801"):
        add(a, b, apart)
    with pytest.raises(ricci.Error, match="E0801"):
        add(a, b, out=apart[:3])


def test_a_read_only_array_for_results_is_refused() -> None:
    add = ricci.tc.define(ADD).add
    a, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    for _ in range(2):
        add(a, a, out=out)
    out.flags.writeable = False
    with pytest.raises(ricci.Error, match="read-only"):
        add(a, a, out=out)


def test_results_are_written_to_arrays_alone() -> None:
    add = ricci.tc.define(ADD).add
    a = np.ones(4, np.float32)
    swapped = a.astype(a.dtype.newbyteorder())
    negated = torch.imag(torch.ones(4, dtype=torch.complex64).conj())
    for out in (swapped, [a.tolist()], negated):
        with pytest.raises(ricci.Error, match="E0801"):
            add(a, a, out=out)


def test_known_calls_see_changed_variables() -> None:
    model = ricci.parse("""
        import math;
        graph G { @input { x: real[3]; } @output { y: real[3]; } @variable { w: real[3]; }
            @compose { y = math.mul(x, w); } }
    """)
    exe = model.compile()
    for x in (np.ones(3, np.float32), torch.ones(3)):
        for factor in (2.0, 3.0, 4.0):
            exe.variables["main.G.w"] = np.full(3, factor, np.float32)
            assert exe(x).tolist() == [factor] * 3
