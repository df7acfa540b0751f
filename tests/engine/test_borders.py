"""Maps whose formulas say something else at a border: against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.api import Model

from .running import HOST, runnable_targets

METHODS = {
    "CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric", "REPLICATE": "edge",
}  # fmt: skip


def padded(shape: tuple[int, ...] | str, border: list[int], method: str, result: str = "") -> Model:
    given = shape if isinstance(shape, str) else ", ".join(map(str, shape))
    if not isinstance(shape, str):
        count = len(shape)
        sizes = (n + border[d] + border[count + d] for d, n in enumerate(shape))
        result = ", ".join(map(str, sizes))
    return ricci.parse(
        f"""import layout; graph G {{
            @input {{ x: real[{given}]; }}
            @output {{ y: real[{result}]; }}
            @compose {{ y = layout.pad{{padding={border}, method='{method}'}}(x); }}
        }}""",
        "skriptnd",
    )


def expected(x: np.ndarray, border: list[int], method: str) -> np.ndarray:
    pairs = zip(border[: x.ndim], border[x.ndim :], strict=True)
    return np.pad(x, list(pairs), METHODS[method])


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("shape", "border"),
    [
        ((2, 3, 56, 56), [0, 0, 1, 1, 0, 0, 1, 1]),
        ((3, 70, 100), [0, 16, 16, 0, 16, 16]),
        ((40, 33), [3, 5, 0, 17]),
        ((5, 4), [2, 3, 4, 3]),
        ((200,), [31, 7]),
    ],
)
def test_borders(shape: tuple[int, ...], border: list[int], method: str, target: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    run = padded(shape, border, method).compile(threads=2, target=target)
    np.testing.assert_array_equal(run(x), expected(x, border, method))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(4, 5), (30, 40), (7, 100)])
def test_sizes_of_a_call(shape: tuple[int, int], method: str) -> None:
    border = [1, 3, 2, 0]
    run = padded("m|100, n|200", border, method, "m + 3, n + 3").compile(threads=2)
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    np.testing.assert_array_equal(run(x), expected(x, border, method))


@pytest.mark.parametrize("method", METHODS)
def test_lanes_are_neighbours(method: str) -> None:
    """Whole vectors inside, and lanes picked from one at a border that is as long as one."""
    lanes = HOST.vector_bytes // 4
    model = padded((8, 16 * lanes), [0, lanes, 0, lanes], method)
    assert "gather" not in model.show("llvm")


def test_the_longer_side_of_a_test() -> None:
    """Whether it is the one where the test holds, or not."""
    text = """def f(float(300) x, float(300) y) -> (a, b, c) {
        a(i) = i < 10 ? x(i) : y(i)
        b(i) = (i >= 290 || 7 > i) ? x(i) : x(i) * y(i)
        c(i, j) = i + j > 100 ? x(j) : (2 * j <= 7 ? y(i) : x(i)) where i in 0:300, j in 0:300
    }"""
    r = np.random.default_rng(2)
    x, y = (r.standard_normal(300, np.float32) for _ in range(2))
    a, b, c = ricci.parse(text, "tc").compile(threads=2)(x, y)
    i = np.arange(300)
    np.testing.assert_array_equal(a, np.where(i < 10, x, y))
    np.testing.assert_array_equal(b, np.where((i >= 290) | (i < 7), x, x * y))
    inner = np.where(2 * i <= 7, y[:, None], x[:, None])
    np.testing.assert_array_equal(c, np.where(i[:, None] + i > 100, x, inner))
