"""Composition: binding, names, asserts, control flow (specification 2.5 to 2.11, chapter 3)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ricci.diagnostics import Error
from ricci.ir import nodes
from ricci.ir.interpret import interpret
from ricci.ir.rewrite import all_steps
from ricci.ir.text import format_expr

from .composing import build, reject


def shapes_of(graph: nodes.Graph) -> dict[str, list[str]]:
    """The shapes of all outputs, as text."""
    tensors = {p.name: p.tensors for p in graph.outputs}
    return {
        name: ["x".join(format_expr(e) for e in t.shape) for t in pack]
        for name, pack in tensors.items()
    }


def one(operator: str, call: str = "f(x)", inputs: str = "x: real[4];") -> str:
    graph = f"graph G {{ @input {{ {inputs} }} @output {{ y: real; }} @compose {{ y = {call}; }} }}"
    return f"{operator} {graph}"


def shape(operator: str, call: str = "f(x)", inputs: str = "x: real[4];") -> str:
    (result,) = shapes_of(build(one(operator, call, inputs)))["y"]
    return result


# ------------------------------------------------------------------ binding 2.6


def takes(shape: str, attributes: str = "", more: str = "", out: str = "1") -> str:
    attributes = f"@attrib {{ {attributes} }}" if attributes else ""
    return (
        f"operator f {{ {attributes} @input {{ x: real{shape}; {more} }} "
        f"@output {{ y: real[{out}]; }} @lower {{ y[i..] = 0.0, i < y.shape; }} }}"
    )


BOUND = [
    # affine extents: 2n + 1 = 7, 5 - n = 2, and so on
    ("[2*n + 1]", "real[7]", "n", "3"),
    ("[5 - n]", "real[2]", "n", "3"),
    ("[(n + 1) * 2]", "real[8]", "n", "3"),
    ("[n - 2]", "real[1]", "n", "3"),
    ("[1 + n + 1]", "real[5]", "n", "3"),
    ("[n + n]", "real[6]", "n", "3"),
    ("[s.., 3]", "real[5, 4, 3]", "s..", "5x4"),
    ("[n, s..(d), m]", "real[5, 4, 3, 2]", "d, s.., n, m", "2x4x3x5x2"),
    ("[s..(2*d)]", "real[5, 4, 3, 2]", "d", "2"),
    ("[s..(d + 2)]", "real[5, 4]", "d", "0"),
    ("^(r)[s..(d), z..]", "real[5, 4]", "r, d", None),
    ("^(r)[s.., n]", "real[5, 4]", "r, n", "2x4"),
    ("[5 ..(d)]", "real[5, 5, 5]", "d", "3"),
    ("[2*n..]", "real[2, 6]", "n..", "1x3"),
    ("[n, n]", "real[4, 4]", "n", "4"),
]


@pytest.mark.parametrize(("declared", "given", "out", "expected"), BOUND)
def test_symbols_of_shape(declared: str, given: str, out: str, expected: str | None) -> None:
    text = takes(declared, out=out)
    if expected is None:
        assert reject(one(text, inputs=f"x: {given};"))
    else:
        assert shape(text, inputs=f"x: {given};") == expected


def test_binding_order_lets_a_later_input_come_first() -> None:
    text = takes("[s..(d), t..]", more="z: real[s..(d)];", out="s.., 100, t..")
    assert shape(text, "f(x, z)", "x: real[2, 3, 4]; z: real[2, 3];") == "2x3x100x4"


def test_example_of_binding_order() -> None:
    text = takes(
        "[s..(r), z..(d), t..]",
        "r: int; a: optional int; b: int..(d) = 0; c: int = 2 * d + r;",
        "w: real[s..(r), z..(d)];",
        "c, b.., t..",
    )
    given = "x: real[9, 5, 6, 7]; w: real[9, 5, 6];"
    assert shape(text, "f{r = 1}(x, w)", given) == "5x0x0x7"
    assert shape(text, "f{r = 1, b = 8}(x, w)", given) == "5x8x8x7"
    assert shape(text, "f{r = 1, b = [1, 2]}(x, w)", given) == "5x1x2x7"
    assert shape(text, "f{r = 1, c = 1}(x, w)", given) == "1x0x0x7"


ATTRIBUTES = [
    ("a: int..(k); b: int..(k) = 1;", "a = [5, 6]", "b..", "1x1"),
    ("a: int..(2*k);", "a = [5, 6, 7, 8]", "k", "2"),
    ("r: int; a: int.. = [0:r];", "r = 3", "a..", "0x1x2"),
    ("a: int = b + 1; b: int = 2 * c; c: int;", "c = 3", "a, b", "7x6"),
    ("a: optional int; b: int = a ?? 9;", "b = 2", "a, b", "2"),
    ("a: optional int; b: int = a ?? 9;", "a = 4", "a, b", "4x4"),
    ("a: bool = true;", "a = false", "a ? 2 : 3", "3"),
    ("a: str = 'x';", "a = 'yy'", "a == 'yy' ? 2 : 3", "2"),
    ("a: int..(d) = 2;", "", "a.., d", "2x1"),
]


@pytest.mark.parametrize(("declared", "given", "out", "expected"), ATTRIBUTES)
def test_attributes(declared: str, given: str, out: str, expected: str) -> None:
    text = takes("[s..(d)]", declared, out=out)
    assert shape(text, f"f{{{given}}}(x)" if given else "f(x)") == expected


def test_conditional_extents() -> None:
    text = takes("[n, b ..(flag)]", "flag: bool;", out="n, b")
    assert shape(text, "f{flag = true}(x)", "x: real[4, 5];") == "4x5"
    assert shape(text, "f{flag = false}(x)") == "4"
    optional = takes("[n, b]", "b: optional int;", out="n, b, 1")
    assert shape(optional, "f{b = 5}(x)", "x: real[4, 5];") == "4x5x1"
    assert shape(optional) == "4x1"


def test_optional_input_has_null_symbols() -> None:
    text = takes("[n]", more="z: optional real[m, n];", out="n, m, ?z ? 7 : 8")
    assert shape(text) == "4x8"
    assert shape(text, "f(x, z)", "x: real[4]; z: real[6, 4];") == "4x6x7"
    assert shape(text, "f(x, ~)") == "4x8"


def test_default_of_an_input_fills_its_shape() -> None:
    text = """
    operator f { @input { x: real[n]; h: real[n, 2] = 1.5; k: real[s..] = 2.0; }
        @output { y: real[n, 2]; } @lower { y[i,j] = x[i,] * h[i,j] + k[], i < n, j < 2; } }
    """
    graph = build(one(text))
    x = np.arange(4.0)
    result = interpret(graph, {"x": x})["y"]
    np.testing.assert_array_equal(result, np.tile(x[:, None] * 1.5 + 2.0, (1, 2)))


def test_packs_of_tensors() -> None:
    text = """
    operator f { @input { xs: real[n, ..m]..(k); } @output { y: real[n, k, m..]; }
        @lower { y[i..] = 0.0, i < y.shape; } }
    """
    assert shape(text, "f([x, z])", "x: real[4, 2]; z: real[4, 3];") == "4x2x2x3"
    found = reject(one(text, "f([x, z])", "x: real[4, 2]; z: real[5, 3];"))
    assert found.diagnostics[0].code == "E0410"


def test_split_results() -> None:
    text = """
    import layout;
    graph G { @input { x: real[6, 4]; } @output { a: real[1, 4]; b: real[2, 4]; c: real[3, 4]; }
        @compose {
            [a, r..(2)] = layout.split{axis = 0, sizes = [1, 2, 3]}(x);
            [b, c] = [r..];
        } }
    """
    graph = build(text)
    x = np.arange(24.0).reshape(6, 4)
    results = interpret(graph, {"x": x})
    for name, expected in zip("abc", np.split(x, [1, 3]), strict=True):
        np.testing.assert_array_equal(results[name], expected)


# ----------------------------------------------------------------- generics 2.13

GENERIC = """
operator f {{ @dtype {{ T: num{default}; }} @attrib {{ a: {a}; }} @input {{ {x} }}
    @output {{ y: T[1]; }} @lower {{ y[i,] = T(1), i < 1; }} }}
graph G {{ @input {{ x: real[1]; n: int[1]; b: bool[1]; }} @output {{ y: {out}; }}
    @compose {{ y = {call}; }} }}
"""


@pytest.mark.parametrize(
    ("default", "a", "x", "call", "out", "code"),
    [
        ("", "int = 1", "x: T[1];", "f(x)", "real", ""),
        ("", "int = 1", "x: T[1];", "f(n)", "int", ""),
        ("", "int = 1", "x: T[1];", "f(b)", "int", "E0415"),
        ("", "int = 1", "", "f()", "int", "E0415"),
        ("", "int = 1", "", "f<real>()", "real", ""),
        ("", "int = 1", "", "f<real>()", "int", "E0401"),
        (" = real", "int = 1", "", "f()", "real", ""),
        ("", "T = T(1)", "x: T[1];", "f(n)", "int", ""),
        ("", "T = 2.5", "", "f()", "real", ""),
        ("", "T", "", "f{a = 3}()", "int", ""),
        ("", "T", "x: T[1];", "f{a = 3}(x)", "int", "E0415"),
        ("", "T", "x: T[1];", "f<real>{a = 3}(x)", "int", "E0415"),
        ("", "int = 1", "x: T[1]; z: T[1];", "f(x, n)", "int", "E0415"),
        ("", "int = 1", "x: T[1];", "f<real, int>(x)", "int", "E0415"),
    ],
)
def test_generic_types(default: str, a: str, x: str, call: str, out: str, code: str) -> None:
    text = GENERIC.format(default=default, a=a, x=x, call=call, out=out)
    if code:
        assert reject(text).diagnostics[0].code == code
    else:
        build(text)


def test_types_and_attributes_of_a_graph() -> None:
    text = """
    graph G { @dtype { T: num; } @attrib { n: int; s: int..(2) = 3; r: real = 1.0; }
        @input { x: T[n]; } @output { y: T[n]; } @compose { y = x; } }
    """
    (port,) = build(text, {"n": 5, "s": [1, 2], "r": 2}, T="int").inputs
    assert format_expr(port.tensors[0].shape[0]) == "5"
    assert str(port.tensors[0].dtype) == "int"
    assert reject(text, {"n": 5}).diagnostics[0].code == "E0415"
    assert reject(text, {}, T="int").diagnostics[0].code == "E0414"
    assert reject(text, {"n": 5, "m": 1}, T="int").diagnostics[0].code == "E0414"
    assert reject(text, {"n": "5"}, T="int").diagnostics[0].code == "E0301"


# --------------------------------------------------------------------- names 2.10

CELL = """
public operator cell { @input { x: real[n]; } @output { y: real[n]; }
    @variable { w: real[n]; } @constant { c: real[n] = 1.0; }
    @compose { t = add(x, w); y = add(t, c); } }
public operator two { @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = cell(x); y = cell(t); } }
operator hidden { @input { x: real[n]; } @output { y: real[n]; }
    @variable { w: real[n]; } @compose { t = add(x, w); y = add(t, x); } }
operator outer { @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = l1: hidden(x); } }
operator through { @input { x: real[n]; } @output { y: real[n]; } @compose { y = hidden(x); } }
operator pair { @input { x: real[n]; } @output { a: real[n]; b: real[n]; }
    @variable { w: real[n]; } @compose { a = add(x, w); b = add(x, x); } }
operator twice { @input { x: real[n]; } @output { ys: real[n]..(2); }
    @lower { ys[k][i,] = x[i,], k < 2, i < n; } }
operator add { @input { x: real[n]; y: real[n]; } @output { z: real[n]; }
    @lower { z[i,] = x[i,] + y[i,], i < n; } }
operator relu { @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] >> 0.0, i < n; } }
graph G { @input { x: real[3]; } @output { %s } @compose { %s } }
"""

SCOPES = [
    ("y: real;", "y = cell(x);", "w c t y"),
    ("y: real;", "a = cell(x); y = relu(a);", "a.w a.c a.t a y"),
    ("y: real;", "a = foo: cell(x); y = relu(a);", "foo.w foo.c foo.t a y"),
    ("y: real;", "y = two(x);", "t.w t.c t.t t y.w y.c y.t y"),
    ("y: real;", "a = two(x); y = relu(a);", "a.t.w a.t.c a.t.t a.t a.y.w a.y.c a.y.t a y"),
    ("y: real;", "a = hidden(x); y = relu(a);", "a.w .T1 a y"),
    ("y: real;", "a = outer(x); y = relu(a);", "a.l1.w .T1 a y"),
    ("y: real;", "a = through(x); y = relu(a);", "a.w .T1 a y"),
    ("ys: real..(2);", "ys..(2) = twice(x);", "ys:1 ys:2"),
    ("a: real; b: real;", "[a, b] = twice(x);", "a b"),
    ("y: real;", "[~, y] = twice(x);", ".T1 y"),
    ("y: real;", "y = lb: { a = relu(x); b = relu(a); yield b; };", "lb.a y"),
    ("y: real;", "y = x;", "y"),
    ("y: real;", "t = x; y = relu(t);", "y"),
    ("y: real;", "y = if true then cell(x) else x;", "w c t y"),
    ("y: real;", "y = with a = x unroll..(2) cell(a);", "w c t .T1 .T2 y"),
    ("a: real; b: real;", "a, b = l: pair(x);", "l.w a b"),
]


@pytest.mark.parametrize(("outputs", "body", "expected"), SCOPES, ids=[s[1] for s in SCOPES])
def test_names(outputs: str, body: str, expected: str) -> None:
    graph = build(CELL % (outputs, body))
    names = [t.name for t in (*graph.variables, *graph.constants)]
    names += [t.name for step in all_steps(graph.operations) for t in step.outputs]
    short = [n.removeprefix("main.G.") for n in names]
    assert sorted(short) == sorted(expected.split())


def test_names_of_packed_variables() -> None:
    text = """
    import math;
    graph G { @variable { ws: real[3]..(2); } @output { y: real[3]; }
        @compose { y = math.add(ws[0], ws[1]); } }
    """
    assert [t.name for t in build(text).variables] == ["main.G.ws:1", "main.G.ws:2"]


def test_unlabelled_variables_are_an_error() -> None:
    found = reject(CELL % ("a: real; b: real;", "t = relu(x); a, b = pair(t);"))
    assert found.diagnostics[0].code == "E0606"
    assert "label" in found.diagnostics[0].help


def test_one_constant_per_value() -> None:
    text = """
    import math;
    graph G { @input { x: real[3]; } @output { y: real[3]; }
        @compose { a = math.add(x, 2.0); b = math.mul(a, 2.0); y = math.add(b, 3.0); } }
    """
    assert sorted(str(t.data) for t in build(text).constants) == ["2.0", "3.0"]


# ------------------------------------------------------------- constants, variables

CONSTANTS = [
    ("c: real[2, 3] = 1.5;", np.full((2, 3), 1.5)),
    ("c: real[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];", np.arange(1.0, 7.0).reshape(2, 3)),
    ("c: real[3, 3] = i == j ? 1.0 : 0.0, i < 3, j < 3;", np.eye(3)),
    (
        "c: real[100, 70] = real(i * j), i < 100, j < 70;",
        np.outer(np.arange(100.0), np.arange(70.0)),
    ),
    ("c: real[s..] = real(i + ..), i < s;", np.add.outer(np.arange(2.0), np.arange(3.0))),
    ("c: int[] = 7;", np.int64(7)),
    ("c: bool[2] = [true, false];", np.array([True, False])),
]


@pytest.mark.parametrize(("declared", "expected"), CONSTANTS, ids=[c for c, _ in CONSTANTS])
def test_constants(declared: str, expected: np.ndarray) -> None:
    kind = declared.split()[1].partition("[")[0]
    text = (
        f"graph G {{ @attrib {{ s: int..(2) = [2, 3]; }} @constant {{ {declared} }} "
        f"@output {{ y: {kind}; }} @compose {{ y = c; }} }}"
    )
    result = interpret(build(text), {})["y"]
    np.testing.assert_array_equal(result, expected)


# -------------------------------------------------------------- asserts 2.8, 2.9


def test_assert_is_checked_before_the_helper_that_needs_it() -> None:
    text = takes("[n]", "a: int; b: int;").replace(
        "@output",
        "@using { r = a / b; } @assert { r + b == 42: 'sum'; b > 0: \"b must be positive\", b; "
        "a % b == 0: 'a must be divisible by b', 'the a': a, b; } @output",
    )
    shape_text = one(text, "f{a = 7, b = 0}(x)")
    assert reject(shape_text).diagnostics[0].message == "b must be positive"
    second = reject(one(text, "f{a = 7, b = 2}(x)")).diagnostics[0]
    assert (second.message, second.notes) == ("a must be divisible by b", ("the a = 7", "b = 2"))
    assert reject(one(text, "f{a = 8, b = 2}(x)")).diagnostics[0].message == "sum"
    build(one(text, "f{a = 80, b = 2}(x)"))


def test_assert_shows_values_and_calls() -> None:
    inner = takes("[n]", "a: optional int..;").replace(
        "@output", "@assert { a > 0: 'all of {a} > 0; n = {n}', a + 1; a < 9; } @output"
    )
    middle = (
        "operator g { @attrib { a: optional int..; } @input { z: real[n]; } "
        "@output { y: real[1]; } "
        "@compose { y = f{a = a}(z); } }"
    )
    text = one(inner + middle, "g{a = [1, 0]}(x)")
    (found,) = reject(text).diagnostics
    assert found.message == "all of [1, 0] > 0; n = 4"
    assert found.notes == ("a + 1 = [2, 1]",)
    assert [c.text for c in found.calls] == ["main.f(x: real[4])", "main.g(z: real[4])"]
    (second,) = reject(one(inner + middle, "g{a = [10]}(x)")).diagnostics
    assert second.message == "assert failed: a < 9"
    assert second.notes == ("a = [10]",)
    build(one(inner + middle, "g(x)"))


# ------------------------------------------------------------ dynamic shapes 2.6

HALVE = """
operator f { @attrib { k: int = 2; } @input { x: real[n]; } @output { y: real[n / k]; }
    @assert { n % k == 0: "{n} must be divisible by {k}", n, 'the half': n / 2; }
    @lower { y[i,] = x[k * i,], i < n / k; } }
graph G { @input { x: real[s|10]; z: real[s]; } @output { y: real[~]; } @compose { y = f(x); } }
"""


def test_asserts_on_sizes_are_checked_at_run_time() -> None:
    graph = build(HALVE)
    assert [format_expr(c.condition) for c in graph.checks]
    x = np.arange(6.0)
    np.testing.assert_array_equal(interpret(graph, {"x": x, "z": x})["y"], x[::2])
    with pytest.raises(Error) as caught:
        interpret(graph, {"x": x[:5], "z": x[:5]})
    (found,) = caught.value.diagnostics
    assert found.message == "5 must be divisible by 2"
    assert "n = 5" in found.notes
    assert "the half = 2" in found.notes


def test_sizes_that_must_agree() -> None:
    text = """
    operator f { @input { x: real[n]; z: real[n]; } @output { y: real[n]; }
        @lower { y[i,] = x[i,] + z[i,], i < n; } }
    graph G { @input { x: real[s|10]; z: real[t|9]; } @output { y: real[s]; }
        @compose { y = f(x, z); } }
    """
    graph = build(text)
    x = np.arange(6.0)
    np.testing.assert_array_equal(interpret(graph, {"x": x, "z": x})["y"], 2 * x)
    with pytest.raises(Error):
        interpret(graph, {"x": x, "z": x[:5]})


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ("x: real[n];", "E0417"),
        ("x: real[~];", "E0417"),
        ("x: real;", "E0417"),
        ("x: real[s|10]; z: real[s|11];", "E0417"),
        ("x: real[s|10]; z: real[s|10];", ""),
        ("x: real[2*s|10]; z: real[s];", ""),
        ("x: real[~|10 ..(2)];", ""),
        ("x: real[s|2*m];", ""),
    ],
)
def test_bounds_of_graph_inputs(inputs: str, code: str) -> None:
    text = (
        f"graph G {{ @attrib {{ m: int = 5; }} @input {{ {inputs} }} "
        "@output { y: real; } @compose { y = x; } }"
    )
    if code:
        assert reject(text).diagnostics[0].code == code
    else:
        build(text)


def test_nonzero() -> None:
    text = """
    import layout;
    graph G { @input { x: int[3, 4]; } @output { y: int[2, ~]; }
        @compose { y = layout.nonzero(x); } }
    """
    x = np.array([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4]])
    np.testing.assert_array_equal(interpret(build(text), {"x": x})["y"], np.nonzero(x))


DYNAMIC = """
import nn; import math; import layout;
graph G {
    @input { x: real[b|4, 3, h|12, w|12]; }
    @output { y: real[b, 4, ~, ~]; p: real[b, 4]; c: real[~, 6, h, w]; }
    @variable { k: real[4, 3, 3, 3]; bias: real[4]; }
    @compose {
        t = nn.conv{padding = 1, stride = 2}(x, k, bias);
        u = nn.relu(t);
        y = nn.max_pool{axes = [2, 3], size = 3, padding = 1}(u);
        p = math.mean_reduce{axes = [2, 3], squeeze = true}(y);
        v = math.mul(x, 2.0);
        c = layout.concat{axis = 1}([x, v]);
    }
}
"""


@pytest.mark.parametrize("size", [(1, 8, 7), (4, 12, 12), (2, 5, 9)])
def test_library_with_dynamic_extents(size: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((size[0], 3, *size[1:]))
    k, bias = rng.standard_normal((4, 3, 3, 3)), rng.standard_normal(4)
    results = interpret(build(DYNAMIC), {"x": x}, {"main.G.k": k, "main.G.bias": bias})
    tx, tk, tb = (torch.from_numpy(a) for a in (x, k, bias))
    y = F.max_pool2d(F.relu(F.conv2d(tx, tk, tb, stride=2, padding=1)), 3, 1, 1).numpy()
    np.testing.assert_allclose(results["y"], y, atol=1e-12)
    np.testing.assert_allclose(results["p"], y.mean((2, 3)), atol=1e-12)
    np.testing.assert_array_equal(results["c"], np.concatenate([x, 2 * x], 1))


HOSTILE = {
    "endless": one(
        "operator f { @attrib { k: int; } @input { x: real[n]; } @output { y: real[n]; } "
        "@compose { y = if k == 0 then x else f{k = k + 1}(x); } }",
        "f{k = 1}(x)",
    ),
    "doubled pack": one(
        takes("[n]").replace(
            "@output",
            "@using { a0 = [n, n]; "
            + "".join(f"a{i + 1} = [a{i}.., a{i}..]; " for i in range(60))
            + "} @output",
        )
    ),
    "doubled text": one(
        takes("[n]").replace(
            "@output",
            "@using { a0 = 'ab'; "
            + "".join(f"a{i + 1} = '{{a{i}}}{{a{i}}}'; " for i in range(60))
            + "} @output",
        )
    ),
    "squared size": one(
        takes("[n]").replace(
            "@output",
            "@using { a0 = n % 7 + n; "
            + "".join(f"a{i + 1} = a{i} * (a{i} + {i}); " for i in range(60))
            + "} @output",
        ),
        inputs="x: real[s|10];",
    ),
    "unrolled formula": one(
        "operator f { @input { x: real[n]; } @output { y: real[n]; } "
        "@lower { unroll..(k -> 1000000000) y[i,] += x[i,], i < n; } }"
    ),
    "unrolled graph": one("", "with a = x unroll..(1000000000) a"),
    "large tensor": one("", "x", "x: real[4000000000, 4000000000];"),
    "many dimensions": one(takes("[n]", "k: int;", out="n..(k)"), "f{k = 1000}(x)"),
    "many tensors": one(
        "operator f { @input { x: real[n]; } @output { y: real[n]..(1000000); } "
        "@lower { unroll..(k -> 3) y[k][i,] = x[i,], i < n; } }"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_work_is_bounded(name: str) -> None:
    assert reject(HOSTILE[name]).diagnostics[0].code in ("E0604", "E0901", "E0902", "E0903")
