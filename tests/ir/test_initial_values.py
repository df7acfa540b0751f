"""Variables that begin with a value: it is what they hold until one is set, and no constant."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph
from ricci.runtime.executable import compile_graph

TEXT = """graph G {
  variable a: int[2] = {3, -4};
  variable b: int[] = 7;
  y: int[2] = add(a, b) {
    y[i] = a[i] + b[]  for i < 2;
  }
  z: int[] = next(b) {
    z[] = b[] * 10;
  }
  output y = y;
  update b = z;
}
"""


def test_they_are_printed_and_read() -> None:
    graph = parse_graph(TEXT)
    verify_graph(graph, "composed")
    assert format_graph(graph) == TEXT
    assert [v.data for v in graph.variables] == [(3, -4), 7]


def test_the_interpreter_uses_them() -> None:
    graph = parse_graph(TEXT)
    assert np.array_equal(interpret(graph, {})["y"], [10, 3])
    assert np.array_equal(interpret(graph, {}, {"a": [0, 1]})["y"], [7, 8])


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_executables_begin_with_them(target: str) -> None:
    run = compile_graph(parse_graph(TEXT), {"a": np.array([1, 2])}, target=target)
    assert np.array_equal(run(), [8, 9])
    assert np.array_equal(run(), [71, 72])
    run.variables["b"] = np.array(0)
    assert np.array_equal(run(), [1, 2])
