"""Ends of rows where a load under a mask takes as long as several others, and lanes outside."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import nest
from ricci.dtypes import Types
from ricci.passes.pipeline import lower

from .running import HOST, run_code

HALVES = replace(HOST, vector_bytes=32, registers=16, units=1)


@pytest.mark.parametrize("length", [*range(1, 18), 27, 31])
@pytest.mark.parametrize("operator", ["sum_reduce", "max_reduce"])
def test_rows_of_a_known_length(operator: str, length: int) -> None:
    model = ricci.parse(f"""
        import math;
        graph G {{
            @input {{ x: real[50, {length}]; }}
            @output {{ y: real[50, 1]; }}
            @compose {{ y = math.{operator}{{axes=[1]}}(x); }}
        }}""")
    (kernel,) = lower(model.graph, {}, Types()).kernels
    code = nest.generate(kernel, {}, HALVES)
    x = np.random.default_rng(length).standard_normal((50, length), np.float32)
    y = np.full((50, 1), np.nan, np.float32)
    assert not run_code(code, {t: y if t.name.endswith("y") else x for t in code.tensors}).any()
    function = np.sum if operator == "sum_reduce" else np.max
    np.testing.assert_allclose(y[:, 0], function(x, axis=1), rtol=1e-5, atol=1e-5)
    assert "masked.load" not in code.text


@pytest.mark.parametrize(
    "index",
    [
        "i - 17 + k",
        "41 - i - k",
        "2 * i + 3 * k - 40",
        "(i - 20) * 300000000 + k",
        "i + k * 2147483648",
        "(i - k) * 4294967296 + i",
        "i + 7 * k - 5 * t",
    ],
)
def test_lanes_outside_are_left_out(index: str) -> None:
    """By numbers of 32 bits or 64, as they need."""
    model = ricci.parse(f"""
        operator f {{
            @input {{ x: real[37]; }}
            @output {{ y: real[3, 43]; }}
            @lower {{ y[t, i] += x[|{index}|] * real(k + 2), t < 3, i < 43, k < 4; }}
        }}
        graph G {{
            @input {{ x: real[37]; }}
            @output {{ y: real[3, 43]; }}
            @compose {{ y = f(x); }}
        }}""")
    x = np.random.default_rng(0).standard_normal(37, np.float32)
    t, i, k = np.ogrid[:3, :43, :4]
    at = eval(index, {"i": i, "k": k, "t": t}) + 0 * (t + i + k)
    there = (at >= 0) & (at < 37)
    want = (np.where(there, x[np.where(there, at, 0)], 0) * (k + 2.0)).sum(2)
    np.testing.assert_allclose(model.compile(threads=1)(x), want, 1e-5, 1e-5)


def test_lanes_outside_by_few_bits() -> None:
    """Numbers of 64 bits would fill two registers."""
    model = ricci.parse("""
        import nn;
        graph G {
            @input { x: real[1, 4, 20, 20]; }
            @output { y: real[1, 4, 20, 20]; }
            @compose { y = nn.max_pool{size=13, stride=1, padding=6}(x); }
        }""")
    text = model.show("llvm", target="x86-64-v3")
    assert re.search(r"icmp ult <\d+ x i32>", text)
    assert not re.search(r"icmp ult <\d+ x i64>", text)


@pytest.mark.parametrize("factor", [1000000, -1000, 3])
def test_lanes_that_read_the_same_may_be_outside(factor: int) -> None:
    """Of one subscript or another, by lane, while what they move on by adds up to nothing."""
    model = ricci.parse(f"""
        operator f {{
            @input {{ x: real[3, 4]; }}
            @output {{ y: real[5, 8]; }}
            @lower {{ y[t, i] += x[|t + i - 2|, |{factor} * k - 4 * i|], t < 5, i < 8, k < 7; }}
        }}
        graph G {{
            @input {{ x: real[3, 4]; }}
            @output {{ y: real[5, 8]; }}
            @compose {{ y = f(x); }}
        }}""")
    x = np.random.default_rng(0).standard_normal((3, 4), np.float32)
    want = model.compile(target="interpreter")(x)
    np.testing.assert_allclose(model.compile(threads=1)(x), want, 1e-6, 1e-6)
