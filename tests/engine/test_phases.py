"""Subscripts that divide the index along which results are contiguous: against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.api import Model
from ricci.dtypes import DType

from .running import HOST, runnable_targets

LANES = HOST.lanes(DType.FLOAT32)
SHAPES = [(2, 3, 28, 28), (1, 2, 5, 16), (1, 3, 7, 37), (2, 1, 2, 1), (1, 1, 3, 112)]


def upsampling(operator: str, shape: tuple[int, ...], factors: tuple[int, ...]) -> Model:
    result = [*shape[:2], *(n * f for n, f in zip(shape[2:], factors, strict=True))]
    return ricci.parse(
        f"""import image; graph G {{
            @input {{ x: real[{", ".join(map(str, shape))}]; }}
            @output {{ y: real[{", ".join(map(str, result))}]; }}
            @compose {{
                y = image.{operator}{{axes=[2, 3], factor=[{factors[0]}, {factors[1]}]}}(x);
            }}
        }}""",
        "skriptnd",
    )


def repeated(x: np.ndarray, factors: tuple[int, ...]) -> np.ndarray:
    return x.repeat(factors[0], 2).repeat(factors[1], 3)


def interpolated(x: np.ndarray, factor: int, axis: int) -> np.ndarray:
    at = np.maximum((np.arange(x.shape[axis] * factor) + 0.5) / factor - 0.5, 0)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    weight = (at - low).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factors", [(2, 2), (1, 3), (3, 4), (5, 2), (1, 19)])
def test_upsampling(factors: tuple[int, int], shape: tuple[int, ...], target: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    nearest = upsampling("nearest_upsample", shape, factors).compile(threads=2, target=target)
    np.testing.assert_array_equal(nearest(x), repeated(x, factors))
    linear = upsampling("linear_upsample", shape, factors).compile(threads=2, target=target)
    want = interpolated(interpolated(x.astype(np.float64), factors[0], 2), factors[1], 3)
    np.testing.assert_allclose(linear(x), want, 1e-5, 1e-6)


@pytest.mark.parametrize("operator", ["nearest_upsample", "linear_upsample"])
@pytest.mark.parametrize("shape", [(1, 8, 28, 28), (1, 2, 7, 112), (1, 8, 5, 12)])
def test_lanes_are_read_together(shape: tuple[int, ...], operator: str) -> None:
    text = upsampling(operator, shape, (2, 2)).show("llvm")
    assert "gather" not in text
    assert "scatter" not in text


@pytest.mark.parametrize("operator", ["nearest_upsample", "linear_upsample"])
def test_past_the_caches(operator: str) -> None:
    shape = (1, 5, 512, 512)
    model = upsampling(operator, shape, (2, 2))
    assert "nontemporal" in model.show("llvm")
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    want = repeated(x, (2, 2))
    if operator == "linear_upsample":
        want = interpolated(interpolated(x, 2, 2), 2, 3)
    run = model.compile(threads=2)
    np.testing.assert_allclose(run(x), want, 1e-4, 1e-5)


@pytest.mark.parametrize("size", [8, 48, 50])
@pytest.mark.parametrize("kind", ["float", "double", "int8"])
def test_quotients_and_remainders(kind: str, size: int) -> None:
    """Of several subscripts, by several numbers, for several results."""
    text = f"""def f({kind}(M,N) X, {kind}(N) w) -> (Y, Z) {{
        Y(i, j) = X(i / 2, j / 2) * w(j % 4) where i in 0:{size}, j in 0:{size}
        Z(j) +=! X(k, (3 * j + 1) / 4) where j in 0:{size}, k in 0:M }}"""
    rng = np.random.default_rng(2)
    x, w = (
        rng.integers(0, 5, s).astype({"float": "float32", "double": "float64"}.get(kind, kind))
        for s in [(size, size), size]
    )
    y, z = ricci.tc.define(text, threads=2)["f"](x, w)
    n = np.arange(size)
    np.testing.assert_array_equal(y, x[n[:, None] // 2, n // 2] * w[n % 4])
    np.testing.assert_array_equal(z, x.sum(0, dtype=x.dtype)[(3 * n + 1) // 4])


@pytest.mark.parametrize(("below", "above"), [(0, 35), (3, 30), (0, 36 - LANES)])
def test_borders_that_repeat_an_element(below: int, above: int) -> None:
    """Of a vector that reaches beyond both ends, or one."""
    model = ricci.parse(
        f"""
        operator near {{
            @input {{ x: real[2, 36]; }}
            @output {{ y: real[2, 36]; }}
            @lower {{ y[i, j] += x[i, |j + k - 2 <> {below} : {above}|] * real(k + 1),
                i < 2, j < 36, k < 5; }}
        }}
        graph G {{
            @input {{ x: real[2, 36]; }}
            @output {{ y: real[2, 36]; }}
            @compose {{ y = near(x); }}
        }}""",
        "skriptnd",
    )
    assert "gather" not in model.show("llvm")
    x = np.random.default_rng(3).standard_normal((2, 36), np.float32)
    want = np.zeros((2, 36))
    for k in range(5):
        at = np.arange(36) + k - 2
        want += x[:, np.where(at < 0, below, np.where(at >= 36, above, at))] * np.float64(k + 1)
    np.testing.assert_allclose(model.compile(threads=2)(x), want, 1e-5, 1e-5)


def test_a_term_is_left_out_of_one_phase() -> None:
    text = """
        operator half {
            @input { x: real[24]; }
            @output { y: real[48]; }
            @lower { y[i,] += x[|(i + 1) / 2|,], i < 48; }
        }
        graph G {
            @input { x: real[24]; }
            @output { y: real[48]; }
            @compose { y = half(x); }
        }"""
    x = np.random.default_rng(4).random(24, np.float32)
    want = np.append(x, 0).repeat(2)[1:-1]
    np.testing.assert_array_equal(ricci.parse(text, "skriptnd").compile()(x), want)
