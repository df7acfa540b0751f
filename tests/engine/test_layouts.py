"""Intermediate tensors whose elements do not lie row-major: results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType, Types
from ricci.ir.loops import Program
from ricci.passes.pipeline import lower

from .networks import Network, weigh


def program(model: ricci.Model) -> Program:
    return lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64))


def check(model: ricci.Model, seed: int) -> int:
    """Compares results with the interpreter's; how many tensors lie otherwise."""
    rng = np.random.default_rng(seed)
    shapes = [port.shape for port in model.compile(target="interpreter").inputs]
    values = [rng.uniform(0.1, 1.0, shape).astype(np.float32) for shape in shapes]
    expected = model.compile(target="interpreter", real="float64")(*values)
    found = model.compile(threads=2)(*values)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)
    return len(program(model).strides)


def test_random_networks() -> None:
    moved = [check(Network(seed).model(), seed) for seed in range(20)]
    assert sum(n > 0 for n in moved) > 10


@pytest.mark.parametrize("channels", [512, 1024, 500])
def test_rows_that_would_share_lines_of_the_cache_lie_apart(channels: int) -> None:
    model = ricci.parse(f"""
        import layer, nn;
        graph main {{
            @input {{ x: real[2, 16, 5, 5]; }}
            @output {{ y: real[2, 8, 3, 3]; }}
            @compose {{
                first = layer.conv{{channels={channels}, size=1}}(x);
                wide = nn.relu(first);
                y = layer.conv{{channels=8, size=3, padding=0}}(wide);
            }}
        }}""")
    weigh(model)
    check(model, 0)
    (steps,) = {steps for steps in program(model).strides.values() if max(steps) > 5 * channels}
    assert steps[1] == 1
    assert (steps[3] > channels) == (channels * 4 % 2048 == 0)
