"""The interpreter on whole graphs: arguments, sizes, packs, control flow, updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph

SIZED = """graph g {
  symbol n <= 6; symbol m <= 9;
  input x = x: real[n, 2 * m];
  input y = y: real[n + 1];
  input optional z = ;
  check m > 1 : "m is ", m, " and x is ", [n, 2 * m] values "n" = n;
  o: real[m] = f(x) { o[i] = x[0, 2 * i] for i < m; }
  output o = o;
}"""

CONTROL = """graph g {
  symbol n <= 9;
  input x = x: real[n]; input limit = limit: int[]; input xs = [a: real[], b: real[], c: real[]];
  variable total: real[];
  start: real[] = zero() { start[] = 0.0; }
  big: bool[] = test(x) { big[] = false; big[] |= x[i] > 3.0 for i < n; }
  if outputs y: real[n] {
    if { yield big; }
    then { h: real[n] = half(x) { h[i] = x[i] / 2.0 for i < n; } yield h; }
    else { yield x; }
  }
  loop {
    with s: real[] = start;
    scan item: real[] = [a, b, c];
    count tensor limit;
    index k: int[];
    body {
      t: real[] = add(s, item, k) { t[] = s[] + item[] * real(k[] + 1); }
      yield t, t;
    }
    outputs last: real[];
    collected [p: real[], q: real[], r: real[]];
  }
  loop {
    with v: real[] = start;
    posttest { more: bool[] = less(v) { more[] = v[] < 4.0; } yield more; }
    body { w: real[] = next(v) { w[] = v[] + 1.5; } yield w; }
    outputs grown: real[];
  }
  loop {
    with e: real[] = start;
    pretest { never: bool[] = no(e) { never[] = e[] < 0.0; } yield never; }
    body { e2: real[] = next(e) { e2[] = e[] + 1.5; } yield e2; }
    outputs same: real[];
  }
  sum: real[] = add(total, last) { sum[] = total[] + last[]; }
  output y = y; output last = last; output all = [p, q, r]; output grown = grown;
  output same = same;
  update total = sum;
}"""


def test_sizes_are_bound_by_shapes() -> None:
    inputs = {"x": np.arange(24.0).reshape(3, 8), "y": np.zeros(4)}
    assert interpret(parse_graph(SIZED), inputs)["o"].tolist() == [0.0, 2.0, 4.0, 6.0]


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"x": np.zeros((3, 8))}, "E0801", "input `y` is missing"),
    ({"x": np.zeros((3, 8)), "y": np.zeros(4), "w": 1.0}, "E0801", "`w` is not an input"),
    ({"x": np.zeros((3, 8)), "y": np.zeros((4, 1))}, "E0801", "has 1 dimensions, the argument 2"),
    ({"x": np.zeros((3, 8)), "y": np.zeros(4, complex)}, "E0801", "takes real, not complex128"),
    ({"x": np.zeros((3, 8)), "y": np.zeros(4), "z": 1.0}, "E0801", "absent from this graph"),
    ({"x": np.zeros((3, 8)), "y": np.zeros(5)}, "E0804", "declared as [n + 1] where n = 3"),
    (
        {"x": np.zeros((3, 7)), "y": np.zeros(4)},
        "E0804",
        "`x` is 7, which is not `2 * m` for any size `m`",
    ),
    ({"x": np.zeros((7, 8)), "y": np.zeros(8)}, "E0804", "size `n` is 7, more than its bound 6"),
    ({"x": np.zeros((3, 2)), "y": np.zeros(4)}, "E0501", "m is 1 and x is [3, 2]\n  = n = 3"),
]


@pytest.mark.parametrize(("inputs", "code", "text"), WRONG)
def test_wrong_arguments(inputs: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(Error) as caught:
        interpret(parse_graph(SIZED), inputs)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert text in str(caught.value)


@pytest.mark.parametrize("limit", [0, 2, 5])
def test_control_flow(limit: int) -> None:
    graph = parse_graph(CONTROL)
    verify_graph(graph)
    assert format_graph(parse_graph(format_graph(graph))) == format_graph(graph)
    x = np.array([1.0, 4.0])
    updated: dict[str, Any] = {}
    inputs = {"x": x, "limit": limit, "xs": [1.0, 2.0, 3.0]}
    found = interpret(graph, inputs, {"total": 10.0}, updated=updated)
    assert found["y"].tolist() == [0.5, 2.0]
    sums = [1.0, 5.0, 14.0][: min(limit, 3)]
    assert [float(v) for v in found["all"]] == [*sums, *[0.0] * (3 - len(sums))]
    assert found["last"] == (sums[-1] if sums else 0.0)
    assert found["grown"] == 4.5
    assert found["same"] == 0.0
    assert updated["total"] == 10.0 + found["last"]


def test_sizes_defined_by_data() -> None:
    text = """graph g { symbol n <= 8; size k <= n; input x = x: int[n];
      check k > 1 : "nothing to do";
      count: int[] = count(x) { count[] += 1 for i < n if x[i] > 0; }
      y: int[k] = some(x, count) { y[i] = 7 for i < k; }
      output y = y; size k = count; }"""
    graph = parse_graph(text)
    verify_graph(graph)
    assert interpret(graph, {"x": np.array([1, 0, 3])})["y"].tolist() == [7, 7]
    with pytest.raises(Error, match="nothing to do"):
        interpret(graph, {"x": np.array([0, 0, 3])})


def test_constants_and_passed_on_arguments() -> None:
    text = """graph g { input x = x: real[2];
      constant c: int[2, 2] = {1, 2, 3, 4}; constant f: real[3] = 0.5; constant e: bool[0] = {};
      output x = x; output c = c; output f = f; output e = e; }"""
    x = np.array([1.0, 2.0])
    found = interpret(parse_graph(text), {"x": x})
    assert found["c"].tolist() == [[1, 2], [3, 4]]
    assert found["f"].tolist() == [0.5] * 3
    assert found["e"].dtype == bool
    assert found["x"].tolist() == [1.0, 2.0]
    assert not np.shares_memory(found["x"], x)


def test_missing_variables() -> None:
    text = "graph g { variable w: real[2]; output w = w; }"
    with pytest.raises(Error, match="variables without a value: `w`"):
        interpret(parse_graph(text), {})
