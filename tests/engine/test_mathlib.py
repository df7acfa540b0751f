"""The built-in functions against NumPy in higher precision: error in units in the last place."""

from __future__ import annotations

import ctypes
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ricci.backends.llvm import jit, mathlib, mathlib_exp
from ricci.backends.llvm.builder import Builder
from ricci.backends.llvm.emit_types import scalar_type, vector_type
from ricci.backends.llvm.kernels import KernelCode
from ricci.dtypes import DType
from ricci.ir.functions import ARITY
from ricci.ir.interpret_functions import FUNCTIONS

from ..ir.function_oracles import ORACLES, SPECIAL_VALUES, agrees, special
from .running import HOST

NAMES = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin",
    "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "sqrt": "sqrt", "floor": "floor",
    "ceil": "ceil", "sign": "sign", "abs": "abs", "trunc": "trunc", "exp2": "exp2",
    "expm1": "expm1", "log2": "log2", "log10": "log10", "log1p": "log1p", "cbrt": "cbrt",
}  # fmt: skip
ENDS = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 88.7, -103, 0.5, -0.5, 2, 1e8, -1e8, 3e38]
WIDE_ENDS = [5e-324, -1e-310, 1e300, -1e300, 709.7, -745.0]
ULPS = 3.5


def call(
    function: str, dtype: DType, lanes: int, *arrays: np.ndarray, scales: bool = False
) -> np.ndarray:
    """Compile a function for a number of lanes and apply it to all elements; `scales` uses the
    instructions of AVX-512."""
    b = Builder("kernel", "ptr %x, ptr %y, ptr %w, ptr %z, i64 %n")
    b.scales = scales
    full, scalar = vector_type(dtype, lanes), scalar_type(dtype)
    with b.loop("0", "%n", lanes) as loop:
        operands = []
        for name in "xyw"[: len(arrays)]:
            place = b.op(f"getelementptr {scalar}, ptr %{name}, i64 {loop.index}")
            operands.append(b.op(f"load {full}, ptr {place}, align 1"))
        if function == "pow":
            value = mathlib_exp.power(b, *operands, dtype, lanes)
        else:
            value = mathlib.function(b, function, operands, dtype, lanes)
        place = b.op(f"getelementptr {scalar}, ptr %z, i64 {loop.index}")
        b.line(f"store {full} {value}, ptr {place}, align 1")
    b.line("ret void")
    code = KernelCode(b.text(), (), 1, frozenset(b.declarations))
    library = jit.Library([jit.compile_text(jit.module_text([("f", code)], HOST), HOST)], HOST)
    run: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(library.address("f"))
    result = np.empty_like(arrays[0])
    pointers = [a.ctypes.data for a in (*arrays, *arrays, *arrays)][:3]
    run(*pointers, result.ctypes.data, len(result))
    return result


def points(dtype: np.dtype[Any]) -> np.ndarray:
    rng = np.random.default_rng(0)
    ends = ENDS + (WIDE_ENDS if dtype == np.float64 else [])
    parts = [
        ends, rng.normal(size=4000), rng.normal(size=4000) * 10, rng.uniform(-1, 1, 4000),
        np.exp(rng.uniform(-80, 80, 4000)) * rng.choice([-1, 1], 4000),
    ]  # fmt: skip
    joined = np.concatenate(parts)
    return joined[: len(joined) // 16 * 16].astype(dtype)


def worst(got: np.ndarray, exact: np.ndarray) -> float:
    """The largest error in units of the last place of the result's type."""
    want = exact.astype(got.dtype)
    least = np.finfo(got.dtype).tiny
    unit = np.spacing(np.maximum(np.abs(want), least)).astype(exact.dtype)
    error = np.abs(got.astype(exact.dtype) - exact) / unit
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return float(error.max())


CASES = [(DType.FLOAT32, 16), (DType.FLOAT64, 8), (DType.FLOAT64, 1)]
SCALES = [False, True] if HOST.scales else [False]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_function(name: str, dtype: DType, lanes: int, scales: bool) -> None:
    x = points(dtype.numpy())
    exact = getattr(np, NAMES[name])(x.astype(np.longdouble))
    assert worst(call(name, dtype, lanes, x, scales=scales), exact) < ULPS


@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.parametrize("scales", SCALES)
def test_erf(dtype: DType, lanes: int, scales: bool) -> None:
    x = np.concatenate([points(dtype.numpy()), _borders(2 / 0.1271356, 66, dtype)])
    got = call("erf", dtype, lanes, x, scales=scales)
    assert worst(got, special.erf(x.astype(np.float64))) < ULPS
    assert np.array_equal(np.signbit(got), np.signbit(x))
    if dtype is DType.FLOAT32:
        assert set(np.abs(got[np.abs(x) >= 4.0])) == {1.0}  # so that 1 - erf(x) is zero there


@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_exponentials_at_borders(dtype: DType, lanes: int, scales: bool) -> None:
    """Where another element of a table begins, and where results are too small or large."""
    x = _borders(32 / np.log(2), 4100, dtype)
    got = call("exp", dtype, lanes, x, scales=scales)
    assert worst(got, np.exp(x.astype(np.longdouble))) < ULPS


@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_exponentials_of_what_is_at_most_zero(dtype: DType, lanes: int, scales: bool) -> None:
    ends = np.array([0.0, -0.0, -np.inf, np.nan, -3e38, -1e-45, -104.7, -104.6, -103.9, -87.4])
    near = _borders(2 / np.log(2), 310, dtype)
    x = np.concatenate([np.tile(ends, 8), near[near <= 0], points(dtype.numpy())])
    x = np.minimum(x, 0)[: len(x) // 16 * 16].astype(dtype.numpy())
    got = call(mathlib.EXP_BELOW, dtype, lanes, x, scales=scales)
    assert worst(got, np.exp(x.astype(np.longdouble))) < ULPS
    assert set(got[x == -np.inf]) == {0.0}
    assert set(got[x == 0]) == {1.0}


@pytest.mark.parametrize("scales", SCALES)
def test_tanh_at_borders(scales: bool) -> None:
    x = np.concatenate([_borders(32, 400, DType.FLOAT32), _borders(1, 64, DType.FLOAT32)])
    got = call("tanh", DType.FLOAT32, 16, x, scales=scales)
    assert worst(got, np.tanh(x.astype(np.longdouble))) < ULPS
    assert np.array_equal(np.signbit(got), np.signbit(x))
    assert set(np.abs(got[np.abs(x) >= 9.5])) == {1.0}


def _borders(parts: float, count: int, dtype: DType) -> np.ndarray:
    """Numbers on both sides of `n / parts`, and the smallest ones."""
    at = (np.arange(count) / parts).astype(dtype.numpy())
    near = [at, np.nextafter(at, 0), np.nextafter(at, np.inf)]
    joined = np.concatenate([*near, np.logspace(-37, -1, 64).astype(dtype.numpy())])
    return np.concatenate([joined, -joined])[: len(joined) // 8 * 16]


@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_power(dtype: DType, lanes: int, scales: bool) -> None:
    rng = np.random.default_rng(1)
    bases = np.concatenate([np.repeat(ENDS, 16), np.exp(rng.normal(size=4096) * 4)])
    exponents = np.concatenate([np.tile(ENDS, 16), rng.normal(size=4096) * 3])
    x, y = bases.astype(dtype.numpy()), exponents.astype(dtype.numpy())
    exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    assert worst(call("pow", dtype, lanes, x, y, scales=scales), exact) < ULPS


def test_roundings() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388609.0, np.inf, -0.0] + [7.25] * 7)
    x = x.astype(np.float32)
    got = call("round", DType.FLOAT32, 16, x)
    assert got[:9].tolist() == [1.0, -1.0, 2.0, 3.0, -3.0, 0.0, 8388609.0, np.inf, 0.0]
    assert np.signbit(got[8])
    assert call("frac", DType.FLOAT32, 16, x)[2:5].tolist() == [0.5, 0.5, -0.5]


@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_half_precision_rounds_once() -> None:
    x = np.linspace(-8, 8, 64).astype(np.float16)
    got = call("exp", DType.FLOAT16, 16, x)
    np.testing.assert_array_equal(got, np.exp(x.astype(np.float32)).astype(np.float16))


# ------------------------------------------------- the other functions, and their special values

LENGTH = 512
REST = sorted(set(ORACLES) - set(NAMES) - {"erf", "round", "frac"})


@pytest.mark.parametrize("name", REST)
@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_ordinary_values(name: str, dtype: DType, lanes: int) -> None:
    oracle = ORACLES[name]
    x = [p.astype(dtype.numpy()) for p in oracle.points(LENGTH)]
    got = call(name, dtype, lanes, *x)
    if name == "nextafter":
        np.testing.assert_array_equal(got, np.nextafter(*x))
        return
    wanted = oracle.function(*[a.astype(np.float64) for a in x])
    error = 1e-13 if dtype is DType.FLOAT64 else 2.5e-7
    absolute = error if oracle.absolute else 1e-45
    np.testing.assert_allclose(got, wanted.astype(got.dtype), error, absolute)


@pytest.mark.parametrize("name", [n for n in ARITY if n not in NAMES])
@pytest.mark.parametrize(("dtype", "lanes"), CASES, ids=["f32", "f64", "scalar"])
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_special_values(name: str, dtype: DType, lanes: int) -> None:
    """What the interpreter gives, whose special values `tests/ir` compares with the standards."""
    values = [*SPECIAL_VALUES, *np.linspace(-180, 180, 2)]
    if dtype is DType.FLOAT64:
        values += WIDE_ENDS
    count = ARITY[name]
    x = [a.ravel().astype(dtype.numpy()) for a in np.meshgrid(*[values] * count)]
    x = [np.append(a, np.ones(-len(a) % 16, a.dtype)) for a in x]
    wanted = FUNCTIONS[name](*x)
    error = 1e-13 if dtype is DType.FLOAT64 else 2.5e-7
    got = call(name, dtype, lanes, *x)
    if name in ("fmax", "fmin"):  # which zero of two signs is not defined
        got, wanted = got + 0.0, wanted + 0.0
    agrees(got, wanted, error, float(np.finfo(wanted.dtype).smallest_subnormal))


def test_exact_results() -> None:
    powers = np.arange(-1074.0, 1022.0)
    np.testing.assert_array_equal(call("log2", DType.FLOAT64, 8, np.exp2(powers)), powers)
    np.testing.assert_array_equal(call("exp2", DType.FLOAT64, 8, powers), np.exp2(powers))
    np.testing.assert_array_equal(call("logb", DType.FLOAT64, 8, np.exp2(powers)), powers)
    tens = np.arange(16.0)
    np.testing.assert_array_equal(call("log10", DType.FLOAT64, 8, 10.0**tens), tens)


def test_fma_rounds_once() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 64))
    lost = call("fma", DType.FLOAT64, 8, x, y, -(x * y))
    assert np.count_nonzero(lost) > 50
    exact = [float(Fraction(a) * Fraction(b) - Fraction(a * b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(lost, exact)
