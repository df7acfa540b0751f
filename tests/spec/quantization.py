"""Quantization (specification 2.14, 4.6): noted always, and applied on request."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compare import Array
from .case import Call, Case

OPERATORS = """
import math;
import quant;

operator steps {
    @attrib { n: real; } @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = `floor`(n * x[i..] + 0.5) / n, i < s; } }
operator add {
    @input { x: real[s..]; y: real[s..]; } @output { z: real[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
public operator cell {
    @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
    @compose { t = add(x, w); y = add(t, x); } }
operator hidden {
    @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
    @compose { t = add(x, w); y = add(t, x); } }
public operator pair {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { a = cell(x); y = b: cell(a); } }
public operator lowered {
    @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = 3.0 * x[i,], i < n; } }
operator own {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { c = cell(x); y = add(c, c); } @quantize { c.w: steps{n=4.0}; } }
operator packed {
    @input { x: real[n]; } @output { y: real[n]; } @variable { ws: real[n]..(2); }
    @compose { t = add(ws[0], ws[1]); y = add(t, x); } }
operator double {
    @input { x: real[n]; } @output { ys: real[n]..(2); }
    @lower { ys[k][i,] = real(k + 1) * x[i,], k < 2, i < n; } }
operator positive {
    @input { x: real[n]; } @output { c: bool[]; }
    @lower { c[] = x[0,] > 0.0; } }
operator shifted {
    @input { x: real[n]; } @output { y: real[n]; } @constant { c: real[n] = 0.3; }
    @compose { y = add(x, c); } }
operator composed {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = steps{n=8.0}(x); y = steps{n=2.0}(t); } }
public operator deep {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { a = lowered(x); t = add(a, x); y = add(t, a); } @quantize { a.x: steps{n=16.0}; } }
public operator same {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = x; } }
public operator kept {
    @input { x: real[n]; } @output { y: real[n]; } @variable { sum: real[n]; }
    @compose { t = add(x, sum); y = add(t, x); } @update { sum = y; } }
operator total {
    @input { x: real[n]; } @output { y: real[]; }
    @lower { y[] += x[i,], i < n; } }
"""

SUB_GRAPH = """
graph H { @input { x: real[~]; } @output { y: real; }
    @compose { t = add(x, x); y = math.mul(t, 3.0); } }
"""

X = np.array([0.3, 1.26, -0.7, 0.49])
W = np.array([0.11, 0.22, 0.33, 0.44])


def q(x: Array, n: float) -> Array:
    return np.floor(n * x + 0.5) / n


def cell(x: Array, w: Array) -> Array:
    return x + w + x


def case(
    name: str, body: str, entries: str, expected: Any, variables: tuple[str, ...] = (), **more: Any
) -> Case:
    """A graph from x to y, quantized."""
    text = f"""{OPERATORS}
    graph G {{ @input {{ x: real[4]; }} @output {{ y: real[4]; }}
        @compose {{ {body} }} @quantize {{ {entries} }} }}
    {SUB_GRAPH}"""
    values = dict.fromkeys(variables, W)
    more = {"section": "2.14", "oracle": "NumPy", "quantize": True, **more}
    return Case(name=name, program=text, inputs=(X,), expected=expected, variables=values, **more)


def wrong(name: str, body: str, quantize: str, error: str, message: str = "") -> Case:
    return case(name, body, quantize, None, error=error, message=message)


A_W, B_W = "main.G.a.w", "main.G.b.w"


def zero_point(x: Array, zero: int, scale: float, low: int, high: int) -> Array:
    codes = np.clip(zero + np.floor(np.abs(x / scale) + 0.5) * np.sign(x), low, high)
    return (codes - zero) * scale


def deep_l(x: Array) -> Array:
    a = 3 * q(q(x, 16), 8)
    return q(a + x, 4) + a


def deep_m(x: Array) -> Array:
    a = q(3 * q(x, 16), 2)
    return a + x + a


def looped(s: Array, x: Array, steps: int) -> Array:
    for _ in range(steps):
        s = q(q(x, 2) + s, 4) + x
    return s


def kept_twice() -> list[Array]:
    """What two steps keep, each of which adds what it keeps to twice what it is given."""
    s, sums = X, [W]
    for _ in range(2):
        s = q(sums[-1], 4) + 2 * q(s, 2)
        sums.append(s)
    return sums[1:]


TWICE = kept_twice()


CASES = [
    case("noted only", "y = add(x, x);", "x: steps{n=4.0};", lambda x: 2 * x, quantize=False),
    case("an input", "y = add(x, x);", "x: steps{n=4.0};", lambda x: 2 * q(x, 4)),
    case("an output", "y = add(x, x);", "y: steps{n=4.0};", lambda x: q(2 * x, 4)),
    case(
        "an intermediate tensor",
        "t = add(x, x); y = add(t, x);",
        "t: steps{n=4.0};",
        lambda x: q(2 * x, 4) + x,
    ),
    case(
        "all readers of a tensor",
        "t = add(x, x); u = add(t, x); y = add(u, t);",
        "t: steps{n=2.0};",
        lambda x: 2 * q(2 * x, 2) + x,
    ),
    case(
        "several tensors",
        "t = add(x, x); y = add(t, x);",
        "x: steps{n=8.0}; t: steps{n=4.0}; y: steps{n=2.0};",
        lambda x: q(q(2 * q(x, 8), 4) + q(x, 8), 2),
    ),
    case("a full name", "y = add(x, x);", "main.G.x: steps{n=4.0};", lambda x: 2 * q(x, 4)),
    case(
        "a variable of an operator, by its label",
        "a = cell(x); y = add(a, a);",
        "a.w: steps{n=4.0};",
        lambda x: 2 * cell(x, q(W, 4)),
        (A_W,),
    ),
    case(
        "a variable by its full name",
        "a = cell(x); y = add(a, a);",
        "main.G.a.w: steps{n=4.0};",
        lambda x: 2 * cell(x, q(W, 4)),
        (A_W,),
    ),
    case(
        "a variable of an operator that is not public",
        "a = hidden(x); y = add(a, a);",
        "a.w: steps{n=4.0};",
        lambda x: 2 * cell(x, q(W, 4)),
        (A_W,),
    ),
    case(
        "an intermediate tensor of a public operator",
        "a = cell(x); y = add(a, a);",
        "a.t: steps{n=4.0};",
        lambda x: 2 * (q(x + W, 4) + x),
        (A_W,),
    ),
    case(
        "an input of a public operator",
        "a = cell(x); y = add(a, x);",
        "a.x: steps{n=4.0};",
        lambda x: cell(q(x, 4), W) + x,
        (A_W,),
    ),
    case(
        "an output of a public operator, and the result that it becomes",
        "a = cell(x); y = add(a, a);",
        "a.y: steps{n=8.0}; a: steps{n=2.0};",
        lambda x: 2 * q(q(cell(x, W), 8), 2),
        (A_W,),
    ),
    case(
        "inputs and outputs of a formula",
        "a = lowered(x); y = add(a, a);",
        "a.x: steps{n=8.0}; a.y: steps{n=2.0};",
        lambda x: 2 * q(3 * q(x, 8), 2),
    ),
    case(
        "an explicit label",
        "a = b: cell(x); y = add(a, a);",
        "b.w: steps{n=4.0}; b.t: steps{n=2.0};",
        lambda x: 2 * (q(x + q(W, 4), 2) + x),
        (B_W,),
    ),
    case(
        "a path of two labels",
        "p = pair(x); y = add(p, p);",
        "p.a.w: steps{n=4.0}; p.b.t: steps{n=2.0};",
        lambda x: 2 * (q(cell(x, q(W, 4)) + W, 2) + cell(x, q(W, 4))),
        ("main.G.p.a.w", "main.G.p.b.w"),
    ),
    case(
        "the only component adds no label",
        "y = pair(x);",
        "a.w: steps{n=4.0}; main.G.b.w: steps{n=2.0};",
        lambda x: cell(cell(x, q(W, 4)), q(W, 2)),
        (A_W, B_W),
    ),
    case(
        "an entry of the operator itself",
        "p = own(x); y = add(p, p);",
        "",
        lambda x: 4 * cell(x, q(W, 4)),
        ("main.G.p.c.w",),
    ),
    case(
        "entries of an operator and of who invokes it",
        "p = own(x); y = add(p, p);",
        "p.c.w: steps{n=2.0};",
        lambda x: 4 * cell(x, q(q(W, 4), 2)),
        ("main.G.p.c.w",),
    ),
    case(
        "a pack of variables",
        "y = packed(x);",
        "ws: steps{n=4.0};",
        lambda x: 2 * q(W, 4) + x,
        ("main.G.ws:1", "main.G.ws:2"),
    ),
    case(
        "a pack of results",
        "ts..(2) = double(x); y = add(ts[0], ts[1]);",
        "ts: steps{n=2.0};",
        lambda x: q(x, 2) + q(2 * x, 2),
    ),
    case(
        "one item of a pack that is taken apart",
        "[s, t] = double(x); y = add(s, t);",
        "t: steps{n=2.0};",
        lambda x: x + q(2 * x, 2),
    ),
    case(
        "a labelled block",
        "y = b: { t = add(x, x); yield t; };",
        "b.t: steps{n=2.0};",
        lambda x: q(2 * x, 2),
    ),
    case(
        "a branch",
        "c = positive(x); y = if c then lowered(x) else l: lowered(x);",
        "l.y: steps{n=2.0}; y: steps{n=4.0};",
        lambda x: q(3 * x, 4) if x[0] > 0 else q(q(3 * x, 2), 4),
    ),
    case(
        "the body of a loop",
        "y = with s = x do..(3) l: lowered(s);",
        "l.x: steps{n=2.0};",
        lambda x: 3 * q(3 * q(3 * q(x, 2), 2), 2),
    ),
    case(
        "a constant",
        "y = shifted(x);",
        "c: steps{n=2.0};",
        lambda x: x + 0.5,
    ),
    case(
        "an operator of the library",
        "t = add(x, x); y = add(t, x);",
        "t: quant.zero_point_linear_quantize{zero_point=3, scale=0.1, bits=4, channel_axis=0};",
        lambda x: zero_point(2 * x, 3, 0.1, -8, 7) + x,
        section="4.6",
    ),
    case(
        "a range of the library",
        "y = add(x, x);",
        "x: quant.min_max_linear_quantize{min=-1.0, max=1.0, bits=3, channel_axis=0};",
        lambda x: 2 * (np.floor((np.clip(x, -1, 1) + 1) / 2 * 7 + 0.5) / 7 * 2 - 1),
        section="4.6",
    ),
    case(
        "attributes from the attributes of the graph",
        "y = add(x, x);",
        "x: steps{n=real(x.shape[0] * 2)};",
        lambda x: 2 * q(x, 8),
    ),
    case(
        "a composed quantizer",
        "y = add(x, x);",
        "x: composed;",
        lambda x: 2 * q(q(x, 8), 2),
    ),
    case(
        "a sub-graph under its own name",
        "c = positive(x); y = if c then H(x) else x;",
        "main.H.t: steps{n=2.0};",
        lambda x: 3 * q(2 * x, 2),
    ),
    Case(
        section="2.14",
        name="a variable is updated without its quantizer",
        program=OPERATORS
        + """
        graph G { @input { x: real[4]; } @output { y: real[4]; } @variable { w: real[4]; }
            @compose { y = add(x, w); } @update { w = add(w, x); } @quantize { w: steps{n=2.0}; } }
        """,
        quantize=True,
        variables={"main.G.w": W},
        calls=[
            Call((X,), q(W, 2) + X, updated={"main.G.w": q(W, 2) + X}),
            Call((X,), q(q(W, 2) + X, 2) + X),
        ],
        oracle="NumPy",
    ),
    Case(
        section="2.14",
        name="a tensor of dynamic shape",
        program=OPERATORS
        + """
        graph G { @input { x: real[n|9]; } @output { y: real[n]; }
            @compose { t = add(x, x); y = add(t, x); } @quantize { t: steps{n=2.0}; } }
        """,
        quantize=True,
        inputs=(X,),
        expected=lambda x: q(2 * x, 2) + x,
        oracle="NumPy",
    ),
    # ------------------------------------------------------ some readers of a tensor
    case(
        "one of two names of a tensor",
        "b = same(x); y = add(b, x);",
        "b.x: steps{n=2.0};",
        lambda x: q(x, 2) + x,
    ),
    case(
        "a tensor under several names",
        "a = l: same(x); b = add(x, a); y = m: same(b);",
        "l.x: steps{n=8.0}; l.y: steps{n=4.0}; a: steps{n=2.0}; m.y: steps{n=1.0};",
        lambda x: q(x + q(q(q(x, 8), 4), 2), 1),
    ),
    case(
        "operators in operators, with entries of their own",
        "a = l: deep(x); b = m: deep(a); y = add(b, a);",
        "l.x: steps{n=32.0}; l.a.x: steps{n=8.0}; l.t: steps{n=4.0}; m.a.y: steps{n=2.0};",
        lambda x: deep_m(deep_l(q(x, 32))) + deep_l(q(x, 32)),
    ),
    case(
        "an item of packs that a loop collects",
        "w, [s, t] = with v = x do..(2) { u = add(v, v); yield u, v; }; y = add(s, t);",
        "t: steps{n=2.0};",
        lambda x: x + q(2 * x, 2),
    ),
    case(
        "the body of a loop that reads a tensor of the graph",
        "y = with s = x do..(3) b: { t = m: same(x); u = add(t, s); v = add(u, x); yield v; };",
        "b.m.x: steps{n=2.0}; b.u: steps{n=4.0};",
        lambda x: looped(x, x, 3),
    ),
    case(
        "a branch that reads a tensor of the graph",
        "c = positive(x); t = if c then l: same(x) else x; y = add(t, x);",
        "l.x: steps{n=2.0};",
        lambda x: q(x, 2) + x,
    ),
    Case(
        section="2.14",
        name="results that are one tensor",
        program=OPERATORS
        + """
        graph G { @input { x: real[4]; } @output { y: real[4]; z: real[4]; u: real[4]; }
            @compose { y = add(x, x); z = y; u = x; }
            @quantize { x: steps{n=8.0}; y: steps{n=4.0}; z: steps{n=2.0}; u: steps{n=1.0}; } }
        """,
        quantize=True,
        inputs=(X,),
        expected=lambda x: (
            q(2 * q(x, 8), 4),
            q(q(2 * q(x, 8), 4), 2),
            q(q(x, 8), 1),
        ),
        oracle="NumPy",
    ),
    Case(
        section="2.14",
        name="an output that its operator keeps as it is",
        program=OPERATORS
        + """
        graph G { @input { x: real[4]; } @output { y: real[4]; }
            @compose { t = l: kept(x); y = add(t, x); }
            @quantize { t: steps{n=2.0}; l.sum: steps{n=4.0}; } }
        """,
        quantize=True,
        variables={"main.G.l.sum": W},
        calls=[
            Call((X,), q(q(W, 4) + 2 * X, 2) + X, updated={"main.G.l.sum": q(W, 4) + 2 * X}),
        ],
        oracle="NumPy",
    ),
    Case(
        section="2.14",
        name="a variable in a loop",
        program=OPERATORS
        + """
        graph G { @input { x: real[4]; } @output { y: real[4]; }
            @compose { y = with s = x do..(2) b: { t = l: kept(s); yield t; }; }
            @quantize { b.l.sum: steps{n=4.0}; b.l.x: steps{n=2.0}; } }
        """,
        quantize=True,
        variables={"main.G.b.l.sum": W},
        calls=[Call((X,), TWICE[1], updated={"main.G.b.l.sum": TWICE[1]})],
        oracle="NumPy",
    ),
    Case(
        section="2.14",
        name="a sub-graph with a variable, twice",
        program=OPERATORS
        + """
        graph G { @input { x: real[4]; } @output { y: real[4]; }
            @compose { c = positive(x); a = if c then K(x) else x; b = if c then K(a) else x;
                y = add(a, b); }
            @quantize { main.K.w: steps{n=2.0}; } }
        graph K { @input { x: real[4]; } @output { y: real[4]; } @variable { w: real[4]; }
            @compose { y = add(x, w); } }
        """,
        quantize=True,
        variables={"main.K.w": W},
        inputs=(X,),
        expected=lambda x: 2 * x + 3 * q(W, 2),
        oracle="NumPy",
    ),
    # ----------------------------------------------------------------- mistakes
    wrong("an unknown tensor", "y = add(x, x);", "z: steps{n=4.0};", "E0609", "`z`"),
    wrong("an unknown label", "a = cell(x); y = add(a, a);", "b.w: steps{n=4.0};", "E0609", "`b`"),
    wrong(
        "an unknown tensor of an operator",
        "a = cell(x); y = add(a, a);",
        "a.v: steps{n=4.0};",
        "E0609",
        "`main.cell` has no tensor `v`",
    ),
    wrong(
        "an unknown label within an operator",
        "p = pair(x); y = add(p, p);",
        "p.c.w: steps{n=4.0};",
        "E0609",
        "`main.pair` has no invocation labelled `c`",
    ),
    wrong(
        "a tensor that has no name outside",
        "a = hidden(x); y = add(a, a);",
        "a.t: steps{n=4.0};",
        "E0609",
        "`t` has no name outside of `main.hidden`",
    ),
    wrong("a tensor twice", "y = add(x, x);", "x: steps{n=1.0}; main.G.x: steps{n=1.0};", "E0202"),
    wrong("two inputs", "y = add(x, x);", "x: add;", "E0217", "two|2"),
    wrong("another shape", "y = add(x, x);", "x: total;", "E0217", "shape"),
    wrong("an unknown operator", "y = add(x, x);", "x: stps{n=1.0};", "E0203", "steps|stps"),
    wrong("an unknown attribute", "y = add(x, x);", "x: steps{m=1.0};", "E0414", "`m`"),
]
