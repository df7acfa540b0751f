"""Branches, loops, updates, quantization, optional inputs (specification 2.10.1, 2.11, 2.14)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.ir import nodes
from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph

from ..spec import loops, loops_nested, updates
from ..spec.case import Case
from .composing import build

FLOW = """
operator add { @dtype { T: num; } @input { x: T[s..]; y: T[s..]; } @output { z: T[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator less { @input { x: real[]; y: real[]; } @output { z: bool[]; }
    @lower { z[] = x[] < y[]; } }
operator head { @attrib { k: int; } @input { x: real[n]; } @output { y: real[k]; }
    @lower { y[i,] = x[i,], i < k; } }
operator scale { @attrib { f: real; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = f * x[i,], i < n; } }
operator power { @attrib { k: int; } @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = if k == 0 then x else { t = add(x, x); u = power{k = k - 1}(t); yield u; }; } }
graph G { @attrib { flag: optional bool; } @input { x: real[3]; z: real[3]; a: real[]; n: int[]; }
    @output { %s } @compose { %s } }
"""

A = np.array([1.0, 2.0, 3.0])
Z = np.array([10.0, 20.0, 30.0])

FLOWS = [
    ("y = if true then add(x, z) else x;", A + Z),
    ("y = if ?flag then x else z;", Z),
    ("y = if ?flag && flag then x elif false then x else add(x, x);", 2 * A),
    ("c = less(a, 1.0); y = if c then x else z;", A),
    ("y = if less(1.0, a) then x else add(x, z);", A + Z),
    (
        "c = less(a, 0.0); "
        "y = if c then x elif less(a, 1.0) then { t = add(z, z); yield t; } else z;",
        2 * Z,
    ),
    ("c = less(a, 1.0); y = if c then head{k = 1}(x) else head{k = 2}(z);", A[:1]),
    ("c = less(1.0, a); y = if c then head{k = 1}(x) else head{k = 2}(z);", Z[:2]),
    ("y = with t = x for v : [x, z, x] unroll add(t, v);", 3 * A + Z),
    ("y = with t = x unroll..(i -> 3) scale{f = real(i + 1)}(t);", 6 * A),
    ("y = with t: real[3] = 1.0 for v : [x, z] do add(t, v);", 1 + A + Z),
    ("y = with t = x do..(n) add(t, z);", A + 2 * Z),
    ("y = with t = x do..(4) add(t, t);", 16 * A),
    ("ys..(2) = for v : [x, z] do add(v, x); y = add(ys[0], ys[1]);", 3 * A + Z),
    ("ys..(2) = for v : [x, z] unroll add(v, x); y = add(ys[0], ys[1]);", 3 * A + Z),
    (
        "y, ~ = with t = x, s = a while less(s, 4.0) "
        "do { u = add(t, z); v = add(s, 1.0); yield u, v; };",
        A + 4 * Z,
    ),
    (
        "y, ~ = with t = x, s = a "
        "do { u = add(t, z); v = add(s, 1.0); yield u, v; } while less(s, 1.0);",
        A + Z,
    ),
    ("y = { x = add(x, x); yield x; };", 2 * A),
    ("ys = [x, z]; y = ys[-1];", Z),
    ("y = x is z ? x : z;", Z),
    ("y = with t = x unroll..(0) add(t, z);", A),
    ("y = with t = x do..(0) add(t, z);", A),
    ("y, ~ = with t = x for v : [x, z][2:] do { u = add(t, v); yield u, u; };", A),
]


@pytest.mark.parametrize(("body", "expected"), FLOWS, ids=[b for b, _ in FLOWS])
def test_control_flow(body: str, expected: np.ndarray) -> None:
    graph = build(FLOW % ("y: real[~];", body))
    inputs = {"x": A, "z": Z, "a": np.array(0.5), "n": np.array(2)}
    np.testing.assert_allclose(interpret(graph, inputs)["y"], expected)


def test_recursion_with_an_end() -> None:
    graph = build(FLOW % ("y: real[3];", "y = power{k = 100}(x);"))
    assert len(graph.operations) == 100


def test_only_the_taken_branch_is_composed() -> None:
    graph = build(FLOW % ("y: real[3];", "y = if flag ?? true then add(x, z) else add(x, x);"))
    assert [op.name for op in graph.operations if isinstance(op, nodes.Operation)] == ["main.add"]


def test_updates_and_quantization() -> None:
    text = """
    import math;
    operator q { @attrib { a: int; } @input { x: real[]; } @output { y: real[]; }
        @lower { y[] = x[]; } }
    operator mean { @input { x: real[n]; } @output { y: real[n]; } @variable { m: real[n]; }
        @compose { y = math.add(x, m); } @update { t = math.mul(m, 0.5); m = math.add(t, x); }
        @quantize { m: q{a = 1}; } }
    graph G { @input { x: real[3]; } @output { y: real[3]; }
        @compose { t = l: mean(x); y = math.add(t, t); }
        @quantize { x: q{a = 2}; t: q{a = 3}; l.m: q{a = 4}; } }
    """
    graph = build(text)
    new: dict[str, np.ndarray] = {}
    interpret(graph, {"x": A}, {"main.G.l.m": Z}, updated=new)
    np.testing.assert_allclose(new["main.G.l.m"], Z / 2 + A)
    found = [(q.name, q.operator, dict(q.attributes)["a"]) for q in graph.quantization]
    assert all(q.name == q.tensor.name for q in graph.quantization), "of no copies"
    assert found == [
        ("main.G.x", "q", "2"),
        ("main.G.l.m", "q", "1"),
        ("main.G.l.m", "q", "4"),
        ("main.G.t", "q", "3"),
    ]


def test_optional_input_of_a_graph() -> None:
    text = """
    import math;
    graph G { @input { x: real[3]; z: optional real[3]; } @output { y: real[3]; }
        @compose { y = if ?z then math.add(x, z) else math.mul(x, 2.0); } }
    """
    np.testing.assert_allclose(interpret(build(text), {"x": A, "z": Z})["y"], A + Z)
    np.testing.assert_allclose(interpret(build(text, {"z": None}), {"x": A})["y"], 2 * A)


RECURRENT = """
import math; import layout; import nn;
operator step { @input { h: real[b, n]; x: real[b, c]; W: real[n, c]; R: real[n, n]; }
    @output { y: real[b, n]; }
    @compose { p = nn.linear(x, W); q = nn.linear(h, R); s = math.add(p, q); y = math.tanh(s); } }
operator rnn {
    @input { X: real[s, b, c]; W: real[n, c]; R: real[n, n]; h0: real[b, n] = 0.0;
        steps: optional int[]; }
    @output { Y: real[~|s, b, n]; last: real[b, n]; }
    @compose {
        Xs..(s) = layout.unstack{axis = 0}(X);
        last, hs = with h = h0 for x : Xs do..(steps) { k = one: step(h, x, W, R); yield k, k; };
        Y = layout.stack{axis = 0}(hs);
    } }
graph G { @input { X: real[5, 2, 3]; W: real[4, 3]; R: real[4, 4]; k: int[]; }
    @output { Y: real; last: real; Z: real; third: real; }
    @compose { Y, last = rnn(X, W, R); Z, third = rnn(X, W, R, ~, k); } }
"""


def test_recurrent_network() -> None:
    """A scanning loop with a loop variable; with a count from data it stops earlier."""
    rng = np.random.default_rng(3)
    x, w, r = (rng.standard_normal(n) for n in ((5, 2, 3), (4, 3), (4, 4)))
    results = interpret(build(RECURRENT), {"X": x, "W": w, "R": r, "k": 3})
    h, expected = np.zeros((2, 4)), []
    for item in x:
        h = np.tanh(item @ w.T + h @ r.T)
        expected.append(h)
    np.testing.assert_allclose(results["Y"], np.stack(expected))
    np.testing.assert_allclose(results["last"], h)
    np.testing.assert_allclose(results["Z"], np.stack(expected[:3]))
    np.testing.assert_allclose(results["third"], expected[2])


def test_graphs_as_branches() -> None:
    """Unlabelled, a graph has its own scope, and all invocations share its variables."""
    text = """
    import math;
    graph G { @input { x: real[3]; c: bool[]; } @output { y: real; z: real; }
        @compose { y = if c then H(x) else l: H(x); z = if c then H(y) else y; } }
    graph H { @input { x: real; } @output { y: real; } @variable { w: real[3]; }
        @compose { t = math.add(x, w); y = math.mul(t, 2.0); } }
    """
    graph = build(text)
    assert [t.name for t in graph.variables] == ["main.H.w", "main.G.l.w"]
    variables = {"main.H.w": Z, "main.G.l.w": 0 * Z}
    results = interpret(graph, {"x": A, "c": True}, variables)
    np.testing.assert_allclose(results["z"], 2 * (2 * (A + Z) + Z))
    np.testing.assert_allclose(interpret(graph, {"x": A, "c": False}, variables)["z"], 2 * A)


COUNTER = """
operator add { @input { x: real[]; y: real[]; } @output { z: real[]; } @lower { z[] = x[] + y[]; } }
graph G { @input { x: real[]; } @output { y: real[]; } @variable { sum: real[]; }
    @compose { y = add(sum, x); } @update { sum = y; } }
"""


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_updated_variables_can_be_saved(target: str, tmp_path: Path) -> None:
    model = ricci.parse(COUNTER)
    model.variables["main.G.sum"] = np.array(10.0)
    run = model.compile(target=target)
    assert [float(run(x)) for x in (1.0, 2.0)] == [11.0, 13.0]
    model.save(tmp_path / "counter.nnef2", variables=run.variables)
    again = ricci.load(tmp_path / "counter.nnef2").compile(target=target)
    assert float(again(1.0)) == 14.0
    assert float(model.variables["main.G.sum"]) == 10.0
    with pytest.raises(ricci.Error, match="E0801"):
        model.save(tmp_path, variables={"main.G.other": np.array(1.0)})


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_endless_loops_end(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All loops of a call together make a limited number of steps."""
    monkeypatch.setenv("RICCI_LOOP_STEPS", "100")
    text = FLOW % (
        "y: real[~];",
        "y = with t = x do..(n) { u, ~ = with s = t, k = a while less(k, 2.0)"
        " do { v = add(s, z); j = add(k, 0.25); yield v, j; }; yield u; };",
    )
    run = ricci.parse(text).compile(target=target, real="float64")
    np.testing.assert_allclose(run(A, Z, 1.0, 19), A + 76 * Z)
    for a, n in ((1.0, 21), (-(10.0**6), 1)):
        with pytest.raises(ricci.Error, match="E0806"):
            run(A, Z, a, n)
    np.testing.assert_allclose(run(A, Z, 1.0, 19), A + 76 * Z)


def test_lengths_that_data_defines_are_seen() -> None:
    """The ports of an executable hide the lengths; a result has as many tensors as there are."""
    text = FLOW % ("ys: real[3]..(~|3);", "ys = for v : [x, z, x] do..(n) add(v, x);")
    model = ricci.parse(text)
    assert [p.name for p in model.graph.outputs] == ["ys", "ys.size"]
    run = model.compile(target="interpreter", real="float64")
    assert [(p.name, p.count) for p in run.outputs] == [("ys", 3)]
    np.testing.assert_allclose(run(A, Z, 0.0, 2), [2 * A, A + Z])
    assert parse_graph(format_graph(model.graph)).outputs[0].length is not None


@pytest.mark.parametrize("case", [*loops.CASES, *loops_nested.CASES, *updates.CASES], ids=str)
def test_graphs_are_legal_and_read_back(case: Case) -> None:
    graph = ricci.parse(case.program).graph
    verify_graph(graph)
    text = format_graph(graph)
    assert format_graph(parse_graph(text)) == text
