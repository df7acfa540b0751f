"""What random numbers are like: their distribution, their independence, and their states.

All start from fixed states, so that a test gives the same result in every run.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import ricci

from ..compare import TARGETS, Array
from .random import next_state, units

N = 40_000
TWO = f"""
import rand;
graph G {{
    @output {{ y: real[{N}]; z: real[{N}]; }}
    @compose {{
        y = first: rand.uniform{{shape=[{N}]}}();
        z = second: rand.normal{{shape=[{N}]}}();
    }}
}}
"""


def _draw(call: str, type: str, seed: int) -> list[Array]:
    """The results of two calls."""
    text = f"import rand; graph G {{ @output {{ y: {type}; }} @compose {{ y = {call}(); }} }}"
    run = ricci.parse(text).compile(target="interpreter")
    run.variables["main.G.state"] = np.array(seed)
    return [run(), run()]


def _distance(x: Array, distribution: Array) -> float:
    """Kolmogorov's distance from a distribution, which is given at the sorted numbers."""
    steps = np.arange(1, len(x) + 1) / len(x)
    return float(np.abs(distribution - steps).max()) * math.sqrt(len(x))


def _correlation(a: Array, b: Array) -> float:
    return float(np.corrcoef(a, b)[0, 1]) * math.sqrt(len(a))


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62])
def test_uniform_numbers_are_uniform(seed: int) -> None:
    for x in _draw(f"rand.uniform{{shape=[{N}]}}", f"real[{N}]", seed):
        ordered = np.sort(x)
        assert 0.0 <= ordered[0] <= ordered[-1] < 1.0
        assert _distance(ordered, ordered) < 1.95  # 1 of 1000 good generators is worse


@pytest.mark.parametrize("seed", [0, 1, -1, 2**62])
def test_normal_numbers_are_normal(seed: int) -> None:
    for x in _draw(f"rand.normal{{mean=2.0, std=0.5, shape=[{N}]}}", f"real[{N}]", seed):
        ordered = (np.sort(x) - 2.0) / 0.5
        normal = np.array([0.5 * (1.0 + math.erf(v / math.sqrt(2.0))) for v in ordered])
        assert _distance(ordered, normal) < 1.95


def test_integers_are_equally_likely() -> None:
    for x in _draw(f"rand.uniform<int>{{min=-3, max=6, shape=[{N}]}}", f"int[{N}]", 5):
        counts = np.bincount(x + 3, minlength=10)
        assert len(counts) == 10
        assert ((counts - N / 10) ** 2 / (N / 10)).sum() < 27.9  # as above, 9 degrees of freedom


def test_truth_has_its_probability() -> None:
    for x in _draw(f"rand.bernoulli{{prob=0.25, shape=[{N}]}}", f"bool[{N}]", 5):
        assert abs(x.mean() - 0.25) < 3.3 * math.sqrt(0.25 * 0.75 / N)


def test_numbers_are_independent_of_their_neighbours() -> None:
    x, y = _draw(f"rand.uniform{{shape=[{N}]}}", f"real[{N}]", 0)
    (z, _) = _draw(f"rand.uniform{{shape=[{N}]}}", f"real[{N}]", 1)
    pairs = [(x, y), (x, z), (y, z), *((x[lag:], x[:-lag]) for lag in (1, 2, 3, 8, 1000))]
    assert all(abs(_correlation(a, b)) < 3.5 for a, b in pairs)


def test_invocations_have_states_of_their_own() -> None:
    model = ricci.parse(TWO)
    assert list(model.variables) == ["main.G.first.state", "main.G.second.state"]
    run = model.compile(target="interpreter")
    begin = {name: int(value) for name, value in run.variables.items()}
    assert len(set(begin.values())) == 2
    y, z = run()
    again = model.compile(target="interpreter")
    assert [np.array_equal(a, b) for a, b in zip(again(), (y, z), strict=True)] == [True, True]
    assert not np.isin(run()[0][:100], y).any()
    for name, value in begin.items():
        run.variables[name] = np.array(value)
    assert np.array_equal(run()[1], z)


def test_a_state_needs_no_label_and_no_file() -> None:
    text = """
import rand, math;
operator noisy {
    @input { x: real[n]; }
    @output { y: real[n]; z: real[n]; }
    @compose { u = rand.uniform{shape=[4]}(); y = math.add(x, u); z = math.sub(x, u); }
}
graph G {
    @input { x: real[4]; }
    @output { a: real[4]; b: real[4]; }
    @compose { a, b = noisy(x); c, d = noisy(a); }
}
"""
    model = ricci.parse(text)
    assert list(model.variables) == ["main.G._rand1.state", "main.G._rand2.state"]
    a, b = model.compile(target="interpreter")(np.zeros(4))
    assert np.array_equal(a, -b)
    assert len(np.unique(a)) == 4


LOOPS = """
import rand, math, layout;
graph G {
    @input { n: int[]; }
    @output { y: real[4]; z: real[3,4]; w: real[3,4]; }
    @compose {
        y = with v: real[4] = 0.0 do..(n) {
            u = rand.uniform{shape=[4]}();
            sum = math.add(v, u);
            yield sum;
        };
        us = do..(3) { u = rand.uniform{shape=[4]}(); yield u; };
        z = layout.stack{axis=0}(us);
        i, ws..(3) = with j = 0.0 unroll..(3) {
            u = rand.uniform{shape=[4]}();
            yield j, u;
        };
        w = layout.stack{axis=0}(ws);
    }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_each_step_of_a_loop_draws_new_numbers(target: str) -> None:
    run = ricci.parse(LOOPS).compile(target=target)
    name, *_ = run.variables
    run.variables[name] = np.array(3)
    y, z, w = run(np.array(2))
    state = 3
    expected = np.zeros(4)
    for _ in range(2):
        expected += units(state, [4])
        state = int(next_state(state))
    assert np.allclose(y, expected, rtol=1e-6)
    assert run.variables[name] == state
    for steps in (z, w):
        assert len(np.unique(steps)) == steps.size
