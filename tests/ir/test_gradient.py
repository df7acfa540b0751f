"""Derived programs against central differences, for every form of an assignment."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.interpret import interpret
from ricci.ir.nodes import Graph
from ricci.ir.shapes import as_int
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph
from ricci.passes.gradient import gradient_graph
from ricci.passes.gradient_pair import backward_of, forward_and_backward
from ricci.runtime.executable import compile_graph

from . import control_programs, programs
from .differences import Array, check_gradients

SYMBOL = 4

CASES = {
    "matmul": """
        input x = x: real[3, 4]; input w = w: real[4, 2];
        y: real[3, 2] = f(x, w) { y[i, j] += x[i, k] * w[k, j] for i < 3, j < 2, k < 4; }
        output y = y;""",
    "open sizes": """
        symbol n; input x = x: real[n, 3];
        y: real[n, n] = f(x) { y[i, j] += x[i, k] * x[j, k] for i < n, j < n, k < 3; }
        output y = y;""",
    "diagonal": """
        input x = x: real[4, 4];
        y: real[] = f(x) { y[] += x[i, i] * x[i, 3 - i] for i < 4; }
        output y = y;""",
    "guards and remaps": """
        input x = x: real[6]; input w = w: real[3]; input b = b: real[6];
        y: real[6] = f(x, w, b) { y[i] += x[|2 * i + k - 1|] * w[k] + b[i] for i < 6, k < 3;
          y[i] += x[|i + k - 2 <> 0 : 5|] * x[|i - k <> 5 - i : 1|] for i < 6, k < 3; }
        output y = y;""",
    "a guard that a gradient does not repeat, and a local that needs it": """
        input x = x: real[6]; input k = k: int[4];
        y: real[4] = f(x, k) { with t = x[i] * x[i + 2]: y[i] = t * x[|3 * i|] + t for i < 4; }
        output y = y;""",
    "an element read on a condition": """
        input x = x: real[6]; input w = w: real[3];
        y: real[6] = f(x, w) { y[i] = i > 0 ? x[i - 1] * x[i - 1] : x[i] for i < 6;
          y[i] += i + k >= 1 && i + k < 7 ? x[i + k - 1] * w[k] : w[k] for i < 6, k < 3; }
        output y = y;""",
    "a condition": """
        input x = x: real[6]; input w = w: real[6];
        y: real[6] = f(x, w) { y[i] += x[i] * w[k] for i < 6, k < 6 if x[i] < w[k]; }
        output y = y;""",
    "nested choices": """
        input x = x: real[6]; input w = w: real[6];
        y: real[6] = f(x, w) { y[i] = (x[i] < 0.0 ? (w[i] < 0.0 ? x[i] : x[i] * w[i]) : w[i])
          + max(x[i], w[i]) * min(x[i] * w[i], 0.5) for i < 6; }
        output y = y;""",
    "powers and remainders": """
        input x = x: real[6]; input w = w: real[6];
        y: real[6] = f(x, w) { y[i] = abs(x[i]) ** w[i] + x[i] ** 3.0 + x[i] ** 2.0 + x[i] % w[i]
          + x[i] / (w[i] * w[i]) + atan2(x[i], w[i]) * hypot(x[i], w[i]) for i < 6; }
        output y = y;""",
    "locals": """
        input x = x: real[5];
        y: real[5] = f(x) { with t = x[i] * x[i], u = exp(t): y[i] = u * t + u for i < 5; }
        output y = y;""",
    "gather and scatter": """
        input x = x: real[6, 2]; input k = k: int[4];
        y: real[6, 2], z: real[6] = f(x, k) {
          y[k[i], j] += x[k[i], j] * x[k[i], 1 - j] for i < 4, j < 2;
          z[i] = x[i, 0] for i < 6; z[k[i]] := x[i, 1] * x[i, 0] for i < 4; }
        output y = y; output z = z;""",
    "products": """
        input x = x: real[3, 4]; input b = b: real[3];
        y: real[3], z: real[3] = f(x, b) {
          y[i] = 1.0 for i < 3; y[i] *= x[i, k] for i < 3, k < 4;
          z[i] = b[i] * 2.0 for i < 3; z[i] *= x[i, k] * x[i, k] for i < 3, k < 4; }
        output y = y; output z = z;""",
    "minima and maxima": """
        input x = x: real[3, 4]; input b = b: real[3];
        y: real[3], z: real[3] = f(x, b) {
          y[i] = 0.2 for i < 3; y[i] max= x[i, k] * b[i] for i < 3, k < 4;
          z[i] = b[i] * b[i] for i < 3; z[i] min= x[i, k] for i < 3, k < 4; }
        output y = y; output z = z;""",
    "versions": """
        input x = x: real[3];
        y: real[3], z: real[3] = f(x) { y[i] = x[i] * x[i] for i < 3;
          z[i] += y[i] * y[j] for i < 3, j < 3; y[i] *= y[i] * z[i] for i < 3;
          z[i] := sin(y[i]) * z[i] for i < 2; y[i] max= x[i] for i < 3; }
        output y = y; output z = z;""",
    "running sum": """
        input x = x: real[5];
        y: real[5] = f(x) { y[i] = x[i] for i < 5; y[i + 1] := y[i] + x[i + 1] for i < 4; }
        output y = y;""",
    "recurrence": """
        input x = x: real[5];
        h: real[], c: real[], z: real[5] = f(x) { h[] = 0.3; c[] = 0.1; c[], h[], z[i] :=
          c[] * tanh(h[]) + x[i], tanh(c[]) * h[] + x[i] * x[i], h[] * c[] * c[] for i < 5; }
        output h = h; output z = z;""",
    "swaps": """
        input x = x: real[4];
        y: real[4] = f(x) { y[i] = x[i] for i < 4;
          y[i], y[i + 1] := y[i + 1] * y[i], y[i] * x[0] for i < 3; }
        output y = y;""",
    "the place of the greatest": """
        input x = x: real[6];
        b: real[], k: int[] = f(x) { b[] = -10.0; b[], k[] := x[i], i for i < 6 if x[i] > b[]; }
        y: real[] = g(x, k, b) { y[] = x[k[]] * b[]; }
        output y = y;""",
    "a state addressed by itself": """
        input x = x: real[6]; input k = k: int[4];
        y: real[6], p: int[] = f(x, k) { y[i] = x[i] for i < 6;
          y[p[]], p[] := y[p[]] * y[k[p[]]] * x[i], (p[] + k[p[]] + 1) % 4 for i < 4; }
        output y = y;""",
}  # fmt: skip


def _arguments(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    found = {}
    for port in graph.inputs:
        shape = [as_int(e) or SYMBOL for e in port.tensors[0].shape]
        signs = rng.choice([-1.0, 1.0], shape)
        found[port.name] = rng.uniform(0.5, 1.5, shape) * signs
        if port.tensors[0].dtype is DType.INT:
            found[port.name] = np.array([0, 3, 3, 5])
    return found


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    graph = parse_graph(f"graph G {{ {CASES[name]} }}")
    check_gradients(graph, _arguments(graph), native=True)


def _moved(program: programs.Program) -> dict[str, Array]:
    """Inputs moved off the points at which comparisons change."""
    rng = np.random.default_rng(program.seed)
    return {
        name: x + 0.05 * rng.standard_normal(x.shape) if x.dtype.kind == "f" else x
        for name, x in program.inputs.items()
    }


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "REALS", (DType.REAL,))
    count = 0
    for seed in range(first, first + 50):
        program = programs.random_program(seed, dynamic=seed % 3 == 0)
        count += check_gradients(program.graph, _moved(program))
    assert count > 30


BRANCH = """graph G {
  input x = x: real[3]; input w = w: real[3]; input c = c: real[];
  if outputs y: real[3], z: real[3] {
    if { t: bool[] = lt(c) { t[] = c[] < 0.0; } yield t; }
    then { a: real[3] = f(x, w, c) { a[i] = x[i] * w[i] * c[] for i < 3; } yield a, x; }
    else { b: real[3] = f(x) { b[i] = sin(x[i]) for i < 3; } yield b, b; }
  }
  output y = y; output z = z;
}"""

RECURRENT = """graph G {
  input x0 = x0: real[3]; input x1 = x1: real[3]; input h = h: real[4]; input w = w: real[4, 3];
  loop {
    with v: real[4] = h; scan x: real[3] = [x0, x1, x0]; index k: int[];
    body {
      a: real[4] = f(x, w, v, k) { a[i] = real(k[]) * v[i] for i < 4;
        a[i] += w[i, j] * x[j] * v[j] for i < 4, j < 3; }
      n: real[4] = g(a) { n[i] = tanh(a[i]) for i < 4; }
      o: real[] = q(n, a) { o[] += n[i] * a[i] for i < 4; }
      yield n, o;
    }
    outputs y: real[4]; collected [o0: real[], o1: real[], o2: real[]];
  }
  output y = y; output o0 = o0; output o2 = o2;
}"""

UNTIL = """graph G {
  input x = x: real[]; input w = w: real[];
  loop {
    with v: real[] = x;
    pretest { t: bool[] = lt(v) { t[] = v[] < 20.0; } yield t; }
    body { a: real[] = f(v, w) { a[] = v[] * v[] * w[]; } yield a, a; }
    outputs y: real[]; collected [o0: real[], o1: real[], o2: real[], o3: real[], o4: real[]];
    steps n: int[];
  }
  output y = y; output o1 = o1; output n = n;
}"""


@pytest.mark.parametrize("c", [-0.5, 0.5])
def test_branch(c: float) -> None:
    rng = np.random.default_rng(1)
    inputs = {"x": rng.standard_normal(3), "w": rng.standard_normal(3), "c": np.array(c)}
    assert check_gradients(parse_graph(BRANCH), inputs, native=True) == 3


def test_loop() -> None:
    graph = parse_graph(RECURRENT)
    assert check_gradients(graph, _arguments(graph), native=True) == 4


@pytest.mark.parametrize("x", [1.5, 2.0, 30.0])
def test_loop_until_a_condition(x: float) -> None:
    inputs = {"x": np.array(x), "w": np.array(1.1)}
    assert check_gradients(parse_graph(UNTIL), inputs, native=True) == 2


def test_random_control() -> None:
    """Loops whose number of steps nothing bounds are errors."""
    checked = 0
    for seed in range(40):
        program = control_programs.random_control(seed)
        try:
            checked += check_gradients(program.graph, _moved(program)) > 0
        except Error as problem:
            assert "has no bound" in str(problem), seed
    assert checked > 26


def test_program_is_readable() -> None:
    graph = parse_graph("""graph G {
      input I = I: real[8]; input W = W: real[3];
      O: real[6] = conv(I, W) { O[h] += I[h + k] * W[k] for h < 6, k < 3; }
      R: real[6] = relu(O) { R[h] = max(O[h], 0.0) for h < 6; }
      output R = R;
    }""")
    assert (
        format_graph(gradient_graph(graph))
        == """graph G {
  input I = I: real[8];
  input W = W: real[3];
  input d_R = d_R: real[6];
  O: real[6] = conv(I, W) {
    O[h] += I[h + k] * W[k]  for h < 6, k < 3;
  }
  d_O: real[6] = gradient(O, d_R) {
    d_O[h] = O[h] > 0.0 ? d_R[h] : 0.0  for h < 6;
  }
  d_I: real[8] = gradient(d_O, W) {
    d_I[h + k] += d_O[h] * W[k]  for h < 6, k < 3;
  }
  d_W: real[3] = gradient(d_O, I) {
    d_W[k] += d_O[h] * I[h + k]  for h < 6, k < 3;
  }
  output d_I = d_I;
  output d_W = d_W;
}
"""
    )


def test_what_is_kept() -> None:
    """Contractions are, element-wise functions and what nothing needs are not."""
    graph = parse_graph("""graph G {
      input x = x: real[4]; input w = w: real[4, 4];
      a: real[4] = f(x, w) { a[i] += w[i, j] * x[j] for i < 4, j < 4; }
      b: real[4] = f(a) { b[i] = a[i] * a[i] for i < 4; }
      c: real[4] = f(b) { c[i] = sin(b[i]) for i < 4; }
      d: real[] = f(c) { d[] += c[i] for i < 4; }
      output d = d;
    }""")
    forward, backward = forward_and_backward(graph, ["w"])
    assert [p.name for p in forward.outputs] == ["d", "a"]
    assert [p.name for p in backward.inputs] == ["x", "a", "d_d"]
    assert [p.name for p in backward.outputs] == ["d_w"]


def test_reverse_graph_of_fewer_gradients() -> None:
    """It reads less; sizes come from what is read, if they can."""
    graph = parse_graph("""graph G {
      symbol n; symbol m;
      input x = x: real[n, m]; input w = w: real[m]; input b = b: real[n];
      a: real[n] = f(x, w, b) { a[i] += x[i, j] * w[j] for i < n, j < m; }
      y: real[n] = f(a, b) { y[i] = sin(a[i]) + b[i] for i < n; }
      s: real[] = f(y) { s[] += y[i] for i < n; }
      output y = y; output s = s;
    }""")
    forward, backward = forward_and_backward(graph)
    assert [p.name for p in forward.outputs] == ["y", "s", "a"]
    assert [p.name for p in backward.inputs] == ["x", "w", "a", "d_y", "d_s"]
    inputs = {
        ("w",): ["x", "a", "d_s"],
        ("x",): ["w", "a", "d_s"],
        ("b",): ["x", "d_s"],
    }
    for wrt, names in inputs.items():
        fewer = backward_of(forward, graph, wrt, ["s"])
        assert fewer is not None
        verify_graph(fewer)
        assert [p.name for p in fewer.inputs] == names
        assert [p.name for p in fewer.outputs] == [f"d_{n}" for n in wrt]


def test_variable_that_the_forward_graph_updates() -> None:
    """The reverse graph reads what it was."""
    graph = parse_graph("""graph G {
      input x = x: real[3]; variable m.v: real[3] = 2.0; variable m.w: real[3];
      y: real[3] = f(x, m.v, m.w) { y[i] = x[i] * m.v[i] * m.w[i] for i < 3; }
      output y = y; update m.v = y;
    }""")
    forward, backward = forward_and_backward(graph)
    assert forward.updates and not backward.updates
    w, x = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    run = compile_graph(forward, {"m.v": np.full(3, 2.0), "m.w": w}, real="float64")
    y, v = run(x)
    np.testing.assert_array_equal(run.variables["m.v"], y)
    assert [p.name for p in backward.inputs] == ["x", "v", "d_y"]
    found = compile_graph(backward, {"m.w": w}, real="float64")(x, v, np.ones(3))
    for got, want in zip(found, (2 * w, x * w, 2 * x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_names() -> None:
    graph = parse_graph("""graph G {
      input y = y: real[2]; input d_z = d_z: real[2]; input k = k: int[2];
      z: real[2] = f(y, d_z) { z[i] = y[i] * d_z[k[i]] for i < 2; }
      q: real[2] = f() { q[i] = 1.0 for i < 2; }
      output z = z; output q = q; output k = k;
    }""")
    derived = gradient_graph(graph, ["y"], ["z"])
    assert [p.name for p in derived.inputs] == ["y", "d_z", "k", "d_z_"]
    assert [p.name for p in derived.outputs] == ["d_y"]
    for wrt, outputs in ((["x"], None), (["k"], None), (None, ["y"]), (None, ["k"])):
        with pytest.raises(Error, match="E0801"):
            gradient_graph(graph, wrt, outputs)


def test_ties_share_evenly() -> None:
    graph = parse_graph("""graph G {
      input x = x: real[4];
      y: real[] = f(x) { y[] = -inf; y[] max= x[i] for i < 4; }
      output y = y;
    }""")
    inputs = {"x": np.array([1.0, 2.0, 2.0, 0.0]), "d_y": np.array(3.0)}
    found = interpret(gradient_graph(graph), inputs, real="float64")["d_x"]
    np.testing.assert_array_equal(found, [0.0, 1.5, 1.5, 0.0])
