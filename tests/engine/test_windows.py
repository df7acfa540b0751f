"""Windows along several dimensions: which are taken apart, and the numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ricci
from ricci.api import Model
from ricci.backends.llvm import nest
from ricci.backends.llvm.target import host
from ricci.dtypes import Types
from ricci.ir.loops import Group, Reduce
from ricci.passes.partial import points_of
from ricci.passes.pipeline import lower
from ricci.records import replace

from .running import runnable_targets


def pooling(operator: str, shape: tuple[int, ...], size: int, more: str = "") -> Model:
    """Windows about each element: as many results as elements."""
    listed = ", ".join(map(str, shape))
    return ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[{listed}]; }}
            @output {{ y: real[{listed}]; }}
            @compose {{ y = nn.{operator}{{size={size}, padding={size // 2}{more}}}(x); }}
        }}""",
        "skriptnd",
    )


def windows(x: np.ndarray, size: int, outside: float) -> np.ndarray:
    """The window about each element; the dimensions of windows are behind all others."""
    axes = tuple(range(2, x.ndim))
    border = [(0, 0)] * 2 + [(size // 2, size // 2)] * len(axes)
    padded = np.pad(x.astype(np.float64), border, constant_values=outside)
    return sliding_window_view(padded, (size,) * len(axes), axes)


def terms_of(model: Model) -> list[list[int]]:
    """Of each kernel, or each of a group, how many terms a result has."""
    kernels = lower(model.graph, {}, Types()).kernels
    return [
        [points_of(k.reduced) for k in (g.kernels if isinstance(g, Group) else (g,))]
        for g in kernels
        if isinstance(g, (Group, Reduce))
    ]


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("shape", [(1, 40, 20, 20), (2, 3, 9, 33), (1, 2, 5, 6, 17)])
def test_the_largest_of_neighbours(shape: tuple[int, ...], target: str) -> None:
    model = pooling("max_pool", shape, 5)
    assert terms_of(model)[0] == [5] * (len(shape) - 2) or [5] in terms_of(model)
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    x[0, 0, 1, 2] = np.nan
    axes = tuple(range(-len(shape) + 2, 0))
    want = windows(x, 5, -np.inf).max(axes).astype(np.float32)
    np.testing.assert_array_equal(model.compile(threads=2, target=target)(x), want)


@pytest.mark.parametrize("border", ["true", "false"])
def test_means_of_neighbours(border: str) -> None:
    """What is divided by the number of terms is there once, at the end."""
    shape = (2, 5, 30, 21)
    model = pooling("avg_pool", shape, 7, f", ignore_border={border}")
    x = np.random.default_rng(1).standard_normal(shape, np.float32)
    total = windows(x, 7, 0.0).sum((-2, -1))
    count = windows(np.ones_like(x), 7, 0.0).sum((-2, -1)) if border == "true" else 49
    np.testing.assert_allclose(model.compile(threads=2)(x), total / count, 1e-5, 1e-6)


def test_the_kernels_of_a_window_are_a_group() -> None:
    """The results along one dimension stay in the cache of a core."""
    assert terms_of(pooling("max_pool", (1, 256, 20, 20), 13)) == [[13, 13]]


SIX = "i in 0:55, j in 0:61, p in 0:6, q in 0:6"
TEXTS = {
    "sums": ("+=! x(i + p, j + q)", SIX, [6, 6]),
    "a part": ("+=! x(i + p + 20, 60 - j - q)", "i in 0:30, j in 0:40, p in 0:6, q in 0:6", [6, 6]),
    "far apart": (
        "+=! x(i + 3 * p, j + 2 * q)",
        "i in 0:40, j in 0:50, p in 0:5, q in 0:5",
        [5, 5],
    ),
    "steps": ("max=! x(2 * i + p, 2 * j + q)", "i in 0:27, j in 0:28, p in 0:7, q in 0:9", [7, 9]),
    "squares": ("+=! x(i + p, j + q) * x(i + p, j + q)", SIX, [6, 6]),
    "few rows": ("min=! x(i + p, j + q)", "i in 0:4, j in 0:61, p in 0:50, q in 0:6", [6, 50]),
    "functions": ("+=! exp(x(i + p, j + q) - z(j))", SIX, [6, 6]),
    "functions of both": ("+=! exp(x(i + p, j + q) - x(i, j))", SIX, [36]),
    "small ones": ("+=! x(i + p, j + q)", "i in 0:55, j in 0:61, p in 0:3, q in 0:3", [9]),
    "blocks": ("+=! x(6 * i + p, 6 * j + q)", "i in 0:10, j in 0:11, p in 0:6, q in 0:6", [36]),
    "weights": ("+=! x(i + p, j + q) * z(q)", SIX, [6, 6]),
    "weights of both": ("+=! x(i + p, j + q) * x(p, q)", SIX, [36]),
    "moving together": ("+=! x(i + p, i + q) + z(j)", SIX, [36]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_formulas(name: str) -> None:
    body, ranges, terms = TEXTS[name]
    given = "float(60, 66) x, float(70) z" if "z(" in body else "float(60, 66) x"
    model = ricci.parse(f"def f({given}) -> (y) {{ y(i, j) {body} where {ranges} }}", "tc")
    assert sorted(t for group in terms_of(model) for t in group) == sorted(terms)
    r = np.random.default_rng(2)
    arrays = [r.standard_normal(s, np.float32) for s in [(60, 66), (70,)]][: given.count("float")]
    want = model.compile(target="interpreter")(*arrays)
    np.testing.assert_allclose(model.compile(threads=2)(*arrays), want, 1e-4, 1e-4)


@pytest.mark.parametrize(("terms", "registers", "added"), [(18, 32, 10), (18, 16, 5), (9, 32, 5)])
def test_sums_of_few_rows_are_kept_twice(terms: int, registers: int, added: int) -> None:
    """Of five rows, each term would wait for the one before; where there are registers, and terms
    enough, each row has two sums, added at each step of the loop around."""
    text = f"""def f(float(4,22,43) x, float(4,{terms},27) w) -> (y) {{
        y(c,i,j) +=! x(c,i+k,j+l) * w(c,k,l) where i in 0:5, j in 0:16
    }}"""
    graph = ricci.tc.define(text)["f"].graph
    (kernel,) = lower(graph, {}, Types()).kernels
    assert isinstance(kernel, Reduce)
    target = replace(host(), vector_bytes=64, registers=registers)
    code = nest.generate(kernel, {}, target).text
    assert code.count("fmuladd") + code.count("llvm.fma") > 0
    assert len(re.findall(r"= fadd.*<16 x float>", code)) == added
