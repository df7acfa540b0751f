"""Formulas as assignments of the IR, run by the interpreter (specification 2.12)."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.diagnostics import Error, Report
from ricci.frontends.skriptnd import modules
from ricci.frontends.skriptnd.compose import compose
from ricci.ir import nodes
from ricci.ir.interpret import interpret
from ricci.ir.text import format_expr
from ricci.ir.verify import verify_graph

INPUTS = "x: real[s]; m: real[r, c]; t: int[k]; xs: real[a, ..b]..(n); o: optional real[s];"
GRAPH = """
operator f {{ {blocks} @input {{ {inputs} }} @output {{ {outputs} }} @lower {{ {lower} }} }}
graph G {{
    @input {{
        x: real[5]; m: real[3, 4]; t: int[3]; p: real[2, 2]; q: real[2, 3]; u: int[]; d: real[v|9];
    }}
    @output {{ y: {type}; }}
    @compose {{ y{pack} = f({arguments}); }}
}}
"""

RNG = np.random.default_rng(5)
X = RNG.standard_normal(5)
M = RNG.standard_normal((3, 4))
T = np.array([2, 0, 2])
P = RNG.standard_normal((2, 2))
Q = RNG.standard_normal((2, 3))
U = np.array(1)
D = RNG.standard_normal(6)
ARRAYS = {"x": X, "m": M, "t": T, "p": P, "q": Q, "u": U, "d": D}


def build(
    lower: str,
    outputs: str = "y: real[s];",
    blocks: str = "",
    inputs: str = INPUTS,
    arguments: str = "x, m, t, [p, q]",
    pack: str = "",
) -> nodes.Graph:
    type = outputs.split()[1].partition("[")[0] + (".." + pack.strip(".") if pack else "")
    names = {"lower": lower, "outputs": outputs, "blocks": blocks, "inputs": inputs}
    text = GRAPH.format(type=type, arguments=arguments, pack=pack, **names)
    report = Report()
    program = modules.load_text(text, "main", report)
    report.raise_errors()
    graph = compose(program, program.graphs()[0])
    verify_graph(graph)
    return graph


def run(*args: str, **kwargs: str) -> np.ndarray | list[np.ndarray]:
    return interpret(build(*args, **kwargs), ARRAYS)["y"]


def operation(graph: nodes.Graph) -> nodes.Operation:
    (found,) = (
        s for s in graph.operations if isinstance(s, nodes.Operation) and s.name == "main.f"
    )
    return found


def shift(step: int) -> np.ndarray:
    return np.array([X[i + step] if 0 <= i + step < 5 else 0.0 for i in range(5)])


OUTER = "y: real[r, c];"
CASES: list[tuple[str, str, np.ndarray | np.integer]] = [
    # statements, reductions and their initial values
    ("y[i,] = x[i,], i < s;", "y: real[s];", X),
    ("y[i] = x[i], i < s;", "y: real[s];", X),
    ("y[] += x[i,], i < s;", "y: real[];", X.sum()),
    ("y[] *= x[i,], i < s;", "y: real[];", X.prod()),
    ("y[] <= x[i,], i < s;", "y: real[];", X.min()),
    ("y[] >= x[i,], i < s;", "y: real[];", X.max()),
    ("y[] <= t[i,], i < k;", "y: int[];", T.min()),
    ("y[] &= x[i,] < 9.0, i < s;", "y: bool[];", np.array(True)),
    ("y[] |= x[i,] > 9.0, i < s;", "y: bool[];", np.array(False)),
    ("y[] = 7.0; y[] += x[i,], i < s;", "y: real[];", 7 + X.sum()),
    ("y[i,] += m[i,j], i < r, j < c;", "y: real[r];", M.sum(1)),
    ("y[i,j] = x[i,], i < r, j < c;", OUTER, np.tile(X[:3, None], (1, 4))),
    ("y[i,] += x[i,], i < s, j < 3;", "y: real[s];", 3 * X),
    ("y[i..] = m[i..] * 2.0, i < m.shape;", OUTER, 2 * M),
    ("y[i,j] = m[j,i], i < c, j < r;", "y: real[c, r];", M.T),
    ("y[i,] = real(i) / 2.0, i < s;", "y: real[s];", np.arange(5) / 2),
    ("y[i,] = (i - 2) / 2, i < s;", "y: int[s];", (np.arange(5) - 2) // 2),
    (
        "y[i,] = (i - 2) \\ 2 + (i - 2) % 2, i < s;",
        "y: int[s];",
        -((2 - np.arange(5)) // 2) + (np.arange(5) - 2) % 2,
    ),
    ("y[i,] = x[i,] << 0.5 >> -0.5, i < s;", "y: real[s];", np.clip(X, -0.5, 0.5)),
    ("y[i,] = `exp`(-x[i,]) ** 2.0, i < s;", "y: real[s];", np.exp(-X) ** 2),
    ("y[i,] = int(x[i,] * 10.0), i < s;", "y: int[s];", np.trunc(X * 10).astype(int)),
    ("y[i,] = !(x[i,] > 0.0) ^ (i == 1), i < s;", "y: bool[s];", ~(X > 0) ^ (np.arange(5) == 1)),
    ("y[i,] = x[i,] > 0.0 => i > 2, i < s;", "y: bool[s];", ~(X > 0) | (np.arange(5) > 2)),
    # boundaries
    ("y[i,] += x[|i - 1|,] * 1.0 + 10.0, i < s;", "y: real[s];", np.r_[0, X[:4] + 10]),
    ("y[i,] = x[|i + 2|,], i < s;", "y: real[s];", shift(2)),
    ("y[|i - 2|,] = x[i,], i < s;", "y: real[s];", shift(2)),
    ("y[i,] = x[|i - 1 <> 0 : s - 1|,], i < s;", "y: real[s];", X[[0, 0, 1, 2, 3]]),
    ("y[i,] = x[|i - 2 <> 2 - i : 0|,], i < s;", "y: real[s];", X[[2, 1, 0, 1, 2]]),
    ("k2 = |i - 1|, y[i,] = x[k2,] + 1.0, i < s;", "y: real[s];", np.r_[0, X[:4] + 1]),
    ("y[i..] = m[|i - 1|..], i < m.shape;", OUTER, np.pad(M, 1)[:3, :4]),
    ("y[i..] = m[|i - [1, 0] <> 0 : i|..], i < m.shape;", OUTER, M[[0, 0, 1]]),
    ("y[i,] = x[i,], i < s; y[i,] := x[|i + 3|,], i < s;", "y: real[s];", np.r_[X[3:], X[2:]]),
    # locals and conditions
    ("z = x[i,] * x[i,], w = z + 1.0, y[i,] = z + w, i < s;", "y: real[s];", 2 * X * X + 1),
    ("j = s - 1 - i, y[i,] = x[j,], i < s;", "y: real[s];", X[::-1]),
    (
        "zs = [m[i, 0], m[i, 1]], y[i,] = (zs * zs) + .., i < r;",
        "y: real[r];",
        (M[:, :2] ** 2).sum(1),
    ),
    ("y[i,] = x[i,], i < s | i > 1;", "y: real[s];", np.where(np.arange(5) > 1, X, 0)),
    ("y[i,] = 0.0, i < s; y[i,] += x[i,], i < s | x[i,] > 0.0;", "y: real[s];", np.maximum(X, 0)),
    ("y[i,] = 1.0, i < s; y[i,] += x[i,], i < s | false;", "y: real[s];", np.ones(5)),
    ("y[i,] = x[i,], i < s | true;", "y: real[s];", X),
    ("y[] = 0; y[] := i, i < s | x[i,] > x[y[],];", "y: int[];", np.argmax(X)),
    # choices known now
    ("y[i,] = s > 3 ? x[i,] : 0.0, i < s;", "y: real[s];", X),
    ("y[i,] = o[i,] ?? x[i,], i < s;", "y: real[s];", X),
    ("y[i,] = o[i,], i < s; y[i,] += x[i,], i < s;", "y: real[s];", X),
    ("y[i,] = x[i,], i < s; y[i,] += o[i,], i < s;", "y: real[s];", X),
    ("y[i,] = i < 2 ? x[i,] : x[i - 2,], i < s;", "y: real[s];", X[[0, 1, 0, 1, 2]]),
    ("y[i,] = i < 5 ? x[i,] : x[9,], i < s;", "y: real[s];", X),
    ("y[i,] = i < 2 ? x[i + 3,] : 0.0, i < s;", "y: real[s];", np.r_[X[3:], 0, 0, 0]),
    # tensors as indices
    ("y[i,j] = m[t[i,], j], i < k, j < c;", "y: real[k, c];", M[T]),
    ("y[i,] = x[t[i,] * 2,], i < k;", "y: real[k];", X[T * 2]),
    (
        "y[i,j] = 0.0, i < r, j < k; y[t[i,], i] += m[i, 0], i < k;",
        "y: real[r, k];",
        np.array([[0, M[1, 0], 0], [0, 0, 0], [M[0, 0], 0, M[2, 0]]]),
    ),
    (
        "y[i,] = 0.0, i < r; y[t[i,],] := m[i, 0], i < k;",
        "y: real[r];",
        np.array([M[1, 0], 0, M[2, 0]]),
    ),
    # packs of indices
    ("y[(i * [c, 1]) + ..,] = m[i..], i < m.shape;", "y: real[r * c];", M.ravel()),
    ("y[i[::-1]..] = m[i..], i < m.shape;", "y: real[c, r];", M.T),
    ("y[i..] = m[i[1] <- 0 ..], i < m.shape;", OUTER, np.tile(M[:, :1], (1, 4))),
    ("y[i..] = real(i + ..), i < m.shape;", OUTER, np.add.outer(np.arange(3.0), np.arange(4.0))),
    ("y[i,] = (m[i,:] + ..), i < r;", "y: real[r];", M.sum(1)),
    ("y[i,] = m[i,[0, 2]] + .., i < r;", "y: real[r];", M[:, 0] + M[:, 2]),
    # packs of values, by an index
    ("y[i,] = [2.0, 4.0, 9.0][i], i < 3;", "y: real[3];", np.array([2.0, 4.0, 9.0])),
    ("y[i,] = m.shape[i], i < 2;", "y: int[2];", np.array([3, 4])),
    ("y[i,] = [7, 7, 7][i], i < 3;", "y: int[3];", np.array([7, 7, 7])),
    ("y[i,] = [5, 6, 7][t[i,]], i < k;", "y: int[k];", np.array([5, 6, 7])[T]),
    # packs of tensors
    ("y[i,j] += xs[n2][i,j], n2 < n, i < a, j < 2;", "y: real[a, 2];", P + Q[:, :2]),
    (
        "y[i] = 0.0, i < a; y[i] += xs[n2][i,j], n2 < n, i < a, j < b[n2];",
        "y: real[a];",
        P.sum(1) + Q.sum(1),
    ),
    (
        "o2 = [0, b + ...  ..], y[i, o2[n2] + j] = xs[n2][i,j], n2 < n, i < a, j < b[n2];",
        "y: real[a, b + ..];",
        np.hstack([P, Q]),
    ),
    ("y[i,] = xs[i,0] + .., i < a;", "y: real[a];", P[:, 0] + Q[:, 0]),
    ("y[i,] = xs[t[i,] / 2][0, i], i < 2;", "y: real[2];", np.array([Q[0, 0], P[0, 1]])),
    ("y[i,] = xs[1:][i,0] + .., i < a;", "y: real[a];", Q[:, 0]),
    ("unroll..(n2 -> n) y[i,] += xs[n2][i, n2], i < a;", "y: real[a];", P[:, 0] + Q[:, 1]),
]


@pytest.mark.parametrize(("lower", "outputs", "expected"), CASES, ids=[c[0] for c in CASES])
def test_formula(lower: str, outputs: str, expected: np.ndarray | np.integer) -> None:
    result = run(lower, outputs)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


PACKED = [
    ("ys[k2][i,] = x[i,] * real(k2), k2 < 3, i < s;", [0 * X, X, 2 * X]),
    ("ys[i,] = [x[i,], 1.0, x[i,] + 1.0], i < s;", [X, np.ones(5), X + 1]),
    ("ys[i,] = x[i,], i < s;", [X, X, X]),
    ("ys[i,] += [1.0, 2.0, 3.0] * x[i,], i < s;", [X, 2 * X, 3 * X]),
    ("unroll..(k2 -> 3) ys[k2][i,] = x[i,] + real(k2), i < s;", [X, X + 1, X + 2]),
]


@pytest.mark.parametrize(("lower", "expected"), PACKED, ids=[c[0] for c in PACKED])
def test_packed_outputs(lower: str, expected: list[np.ndarray]) -> None:
    result = run(lower, "y: real[s]..(3);".replace("y:", "ys:"), pack="..(3)")
    for got, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(got, wanted)


def test_packed_assignment_is_one_unit() -> None:
    """Specification 2.12: the position of the maximum as a pack of two indices."""
    graph = build(
        "y[] = 0; y[] := [i, j], i < r, j < c | m[i,j] > m[y[]..];", "y: int[]..(2);", pack="..(2)"
    )
    body = operation(graph).body
    assert [len(a.targets) for a in body] == [2, 2]
    result = interpret(graph, ARRAYS)["y"]
    assert tuple(int(i) for i in result) == np.unravel_index(np.argmax(M), M.shape)


def test_order_of_updates_survives_unrolling() -> None:
    """The last of all writes wins, in the order of the loops as written."""
    lower = "y[] = 0.0; y[] := xs[k2][i, 0] + real(j), j < 2, k2 < n, i < a;"
    assert run(lower, "y: real[];") == Q[1, 0] + 1
    lower = "y[] = 0.0; y[] := xs[k2][i, 0] + real(j), j < 2, k2 < n, i < a | k2 == 0 || j == 0;"
    assert run(lower, "y: real[];") == P[1, 0] + 1


def test_dynamic_extents() -> None:
    inputs, out = "x: real[s]; z: real[v];", "y: real[v / 2 + 1];"
    result = run("y[i,] = z[|2 * i|,], i < v / 2 + 1;", out, "", inputs, "x, d")
    np.testing.assert_allclose(result, np.r_[D[::2], 0])


def test_locals_that_read_tensors_are_computed_once() -> None:
    graph = build("j = 2 * i, z = x[j,], y[i,] = z * z + real(j), i < 2;", "y: real[2];")
    (assignment,) = operation(graph).body
    assert [local.name for local in assignment.locals] == ["z"]


def test_names_and_attributes_of_an_operation() -> None:
    graph = build("y[i,] = f * x[i,], i < s;", blocks="@attrib { f: real = 2.0; g: optional int; }")
    found = operation(graph)
    assert found.attributes == (("f", "2.0"),)
    assert [t.name for t in found.inputs] == ["main.G.x"]
    assert [i.name for i in found.body[0].domain] == ["i"]
    assert found.calls[0].text.startswith("main.f(x: real[5], m: real[3, 4], t: int[3], xs: [")


def test_constants_are_folded_and_reals_kept() -> None:
    graph = build("y[i,] = x[i,] * 0.0 + (1.0 / 3.0) * real(2 * 3), i < s;")
    assert format_expr(operation(graph).body[0].values[0]).endswith("* 0.0 + 2.0")


ERRORS = [
    ("y[i,] = x[i + s,], i < s;", "y: real[s];", "E0601", "x[i + s,]"),
    ("y[i,] = x[-1,], i < s;", "y: real[s];", "E0601", "x[-1,]"),
    ("y[i,] = x[i,] + m[3, i], i < c;", "y: real[c];", "E0601", "m[3, i]"),
    ("y[i,] = m[i,], i < s;", "y: real[s];", "E0602", "m[i,]"),
    ("y[i,] = x[i, 0], i < s;", "y: real[s];", "E0602", "x[i, 0]"),
    ("y[i,] = m[i.., 0, 0], i < m.shape;", "y: real[s];", "E0602", "m[i.., 0, 0]"),
    ("y[i,] = o[i,], i < s;", "y: real[s];", "E0603", "y[i,] = o[i,], i < s;"),
    ("y[i,] += o[i,], i < s;", "y: real[s];", "E0603", "y[i,] += o[i,], i < s;"),
    ("y[i,] := x[i,], i < s;", "y: real[s];", "E0603", "y[i,] := x[i,], i < s;"),
    ("y[i,] = 1, i < s;", "y: real[s];", "E0607", "1"),
    ("y[i,] = x[i,], i < s;", "y: int[s];", "E0607", "x[i,]"),
    ("y[i,] &= x[i,], i < s;", "y: real[s];", "E0607", None),
    ("y[i,] += x[i,] > 0.0, i < s;", "y: bool[s];", "E0607", None),
    ("x[i,] = x[i,], i < s;", "y: real[s];", "E0607", "x[i,]"),
    ("y[i,] = [x[i,], x[i,]], i < s;", "y: real[s];", "E0607", "[x[i,], x[i,]]"),
    ("y[i,] = x[1.0,], i < s;", "y: real[s];", "E0503", "x[1.0,]"),
    ("y[i,] = x[i,], i < 1.5;", "y: real[s];", "E0503", "i < 1.5"),
    ("y[i,] = x[i,], i < t[0,];", "y: real[s];", "E0507", "i < t[0,]"),
    ("y[i,] = x[i,], i < s - 9;", "y: real[s];", "E0416", "i < s - 9"),
    ("y[i,] = x[i,] + 1, i < s;", "y: real[s];", "E0503", "x[i,] + 1"),
    ("y[i,] = xs[i][0, 0], i < s;", "y: real[s];", "E0505", None),
    ("y[i,] = x[i,], i < s | x[i,];", "y: real[s];", "E0503", "x[i,]"),
    ("unroll..(k2 -> 99999) y[i,] += x[i,], i < s;", "y: real[s];", "E0604", None),
]


@pytest.mark.parametrize(("lower", "outputs", "code", "place"), ERRORS, ids=[e[0] for e in ERRORS])
def test_error_of_formula(lower: str, outputs: str, code: str, place: str | None) -> None:
    with pytest.raises(Error) as caught:
        build(lower, outputs)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code, diagnostic.render()
    if place is not None:
        assert diagnostic.span.text.strip() == place
    assert diagnostic.calls
