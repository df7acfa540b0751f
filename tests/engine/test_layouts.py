"""Intermediate tensors whose elements do not lie row-major: results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType, Types
from ricci.ir.loops import Group, Program
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


POOL = "p = nn.max_pool{size=3, padding=1}(x);"
DEPTHWISE = "p = nn.conv{padding=1, groups=16}(x, w);"
RELU = "p = nn.relu(x);"
MIXED = "q = nn.conv{padding=0}(p, v); y = nn.conv{padding=0}(q, v);"


@pytest.mark.parametrize(
    ("body", "moved"),
    [
        # what reads an array of the caller writes along the same index, though products follow
        (POOL + "y = nn.conv{padding=0}(p, v);", 0),
        (DEPTHWISE + "y = nn.conv{padding=0}(p, v);", 0),
        (RELU + "y = nn.conv{padding=1}(p, u);", 0),
        ("p = math.mul(z, x); y = nn.conv{padding=0}(p, v);", 0),  # though `z` lies along channels
        (POOL + MIXED, 1),  # what products write, and read again, need not
        # and what writes one
        ("p = nn.conv{padding=0}(x, v); y = nn.max_pool{size=3, padding=1}(p);", 0),
        ("p = nn.conv{padding=0}(x, v); q = math.exp(p); y = math.mul(q, p);", 0),
        (MIXED.replace("(p,", "(x,"), 1),
        ("p = nn.conv{padding=0}(x, v); q = nn.relu(p); y = nn.conv{padding=1}(q, u);", 1),
        # what a product adds to its sums
        ("p = nn.conv{padding=0}(x, v); q = math.add(p, x); y = nn.conv{padding=1}(q, u);", 0),
    ],
)
def test_what_must_be_row_major_decides_about_others(body: str, moved: int) -> None:
    model = ricci.parse(f"""
        import math, nn;
        graph main {{
            @input {{ x: real[2, 16, 20, 24]; z: real[1, 16, 1, 1]; }}
            @variable {{
                v: real[16, 16, 1, 1]; u: real[16, 16, 3, 3]; w: real[16, 1, 3, 3];
            }}
            @output {{ y: real[2, 16, 20, 24]; }}
            @compose {{ {body} }}
        }}""")
    weigh(model)
    assert check(model, 0) == moved


def test_rows_of_a_group_do_not_lie_across_them() -> None:
    """Windows one dimension after the other, channel by channel, between two products."""
    model = ricci.parse("""
        import layer, layout, nn;
        graph main {
            @input { x: real[1, 16, 20, 20]; }
            @output { y: real[1, 8, 20, 20]; }
            @compose {
                a = layer.conv{channels=16, size=1}(x);
                p = nn.max_pool{size=5, padding=2}(a);
                q = nn.max_pool{size=5, padding=2}(p);
                joined = layout.concat{axis=1}([a, p, q]);
                y = last: layer.conv{channels=8, size=1}(joined);
            }
        }""")
    weigh(model)
    assert any(isinstance(k, Group) for k in program(model).kernels)
    assert check(model, 0) == 0
