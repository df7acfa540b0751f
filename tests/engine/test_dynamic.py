"""Graphs whose sizes are known only when they run, natively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import image
from ricci.ir.text import format_graph, parse_graph
from ricci.runtime.executable import compile_graph

NETWORK = """
import nn;

graph Main {
    @input {
        x: real[b|64, c|40];
        w: real[12, c];
    }
    @output {
        y: real[b, 12];
    }
    @compose {
        z = nn.linear(x, w);
        y = nn.softmax(z);
    }
}
"""


def network() -> ricci.Model:
    """A dense layer of which neither batch nor channels are fixed."""
    return ricci.parse(NETWORK, "skriptnd")


def test_fifty_sizes_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    builds = []

    def build(*args: Any) -> Any:
        builds.append(args)
        return made(*args)

    made = image.build
    monkeypatch.setattr(image, "build", build)
    run = network().compile()
    rng = np.random.default_rng(0)
    for size in range(50):
        x = rng.standard_normal((size, size % 41), np.float32)
        w = rng.standard_normal((12, size % 41), np.float32)
        powers = np.exp(x @ w.T)
        expected = powers / powers.sum(1, keepdims=True)
        np.testing.assert_allclose(run(x, w), expected, 1e-4, 1e-6)
    assert len(builds) == 1


def test_sizes_that_do_not_fit_are_named() -> None:
    run = network().compile()
    with pytest.raises(ricci.Error, match="`b` is 65, more than its bound 64") as found:
        run(np.zeros((65, 3), np.float32), np.zeros((12, 3), np.float32))
    assert found.value.diagnostics[0].code == "E0804"
    with pytest.raises(ricci.Error, match=r"`.*w` has shape \[12, 3\], the argument \[12, 4\]"):
        run(np.zeros((2, 3), np.float32), np.zeros((12, 4), np.float32))


NONZERO = """
import layout;
import math;

graph Main {
    @input {
        x: real[n|12];
    }
    @output {
        i: int[1, ~];
        y: real[~];
        s: real[];
    }
    @compose {
        i = layout.nonzero(x);
        j = layout.transpose(i);
        z = layout.gather_nd(x, j);
        y = math.mul(z, 2.0);
        s = math.sum_reduce{axes=[0], squeeze=true}(y);
    }
}
"""


@pytest.mark.parametrize("bounded", [True, False])
def test_sizes_that_data_defines_can_be_computed_with(bounded: bool) -> None:
    graph = ricci.parse(NONZERO, "skriptnd").graph
    if not bounded:
        graph = parse_graph(format_graph(graph).replace("symbol n <= 12;", "symbol n;"))
    run = compile_graph(graph)
    for n in (0, 1, 7, 12):
        x = np.random.default_rng(n).integers(-1, 2, n).astype(np.float32)
        i, y, s = run(x)
        assert np.array_equal(i[0], np.flatnonzero(x))
        np.testing.assert_array_equal(y, 2 * x[x != 0])
        assert s == 2 * x.sum()


NEGATIVE = """
graph g {
  symbol n <= 8;
  input x = x: real[n];
  y: real[n - 3] = op(x) {
    y[i] = x[i + 3]  for i < n - 3;
  }
  z: real[] = op2(y) {
    z[] += y[i]  for i < n - 3;
  }
  output z = z;
}
"""


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_an_extent_that_becomes_negative_is_named(target: str) -> None:
    run = compile_graph(parse_graph(NEGATIVE), target=target)
    assert run(np.ones(5)) == 2
    assert run(np.ones(3)) == 0
    with pytest.raises(ricci.Error, match=r"`y` has a negative extent: \[-1\]"):
        run(np.ones(2))


@pytest.mark.parametrize("most", ["", " <= 20"])
def test_a_size_that_data_defines_is_checked_whatever_bounds_it(most: str) -> None:
    text = f"""graph g {{ symbol n{most}; size k <= n; input x = x: real[n]; input c = c: int[];
      check k > 1 : "k is ", k;
      y: real[k] = part(x) {{ y[i] = x[i] for i < k; }}
      output y = y; size k = c; }}"""
    run = compile_graph(parse_graph(text))
    x = np.arange(5, dtype=np.float32)
    assert run(x, np.array(3)).tolist() == [0, 1, 2]
    with pytest.raises(ricci.Error, match="k is 1"):
        run(x, np.array(1))
    with pytest.raises(ricci.Error, match="size `k` is 9, more than its bound 5"):
        run(x, np.array(9))
