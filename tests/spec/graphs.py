"""Graphs, sub-graphs and the scoped names of what they consist of (specification 2.10, 2.15, 3).

Names are shown by variables: those of a case are set by their scoped names, and each has a
value of its own, so that a wrong name or a mixed-up one gives another result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compare import Array
from .case import Call, Case

OPERATORS = """
import math;

operator add {
    @input { x: real[s..]; y: real[s..]; } @output { z: real[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator scale {
    @attrib { by: real; } @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = by * x[i..], i < s; } }
public operator cell {
    @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
    @compose { t = math.mul(x, w); y = add(t, x); } }
operator private {
    @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
    @compose { t = math.mul(x, w); y = add(t, x); } }
public operator two {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = cell(x); y = cell(t); } }
public operator labelled {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = l1: cell(x); y = l2: cell(t); } }
public operator wrapper {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = cell(x); } }
operator hiding {
    @input { x: real[n]; } @output { y: real[n]; }
    @compose { t = private(x); y = scale{by=1.0}(t); } }
public operator with_constant {
    @input { x: real[n]; } @output { y: real[n]; } @constant { c: real[n] = 1.0; }
    @compose { y = cell(x); } }
public operator split {
    @input { x: real[n]; } @output { a: real[n]; b: real[n]; } @variable { w: real[n]; }
    @compose { a = math.mul(x, w); b = math.sub(x, w); } }
public operator many {
    @input { x: real[n]; } @output { y: real[n]; } @variable { ws: real[n]..(2); }
    @compose { t = math.mul(x, ws[0]); y = add(t, ws[1]); } }
operator each {
    @input { xs: real[n]..(k); } @output { ys: real[n]..(k); } @variable { ws: real[n]..(k); }
    @compose { ys = for x : xs, w : ws do math.mul(x, w); } }
operator positive {
    @input { x: real[n]; } @output { c: bool[]; } @lower { c[] = x[0,] > 0.0; } }
"""

X = np.array([0.5, -1.0, 2.0])


def weight(position: int) -> Array:
    """A value that tells variables apart."""
    return np.array([0.1, 0.2, 0.3]) + position


def cell(x: Array, w: Array) -> Array:
    return x * w + x


def case(name: str, body: str, variables: str, expected: Callable[..., Any], **more: Any) -> Case:
    """A graph from x to y; `variables` are names below `main`, which the oracle gets in order."""
    values = {f"main.{n}": weight(k) for k, n in enumerate(variables.split())}
    blocks = more.pop("blocks", "")
    program = f"""{OPERATORS}
    graph G {{ @input {{ x: real[3]; }} @output {{ y: real[3]; }} {blocks}
        @compose {{ {body} }} }}
    {more.pop("after", "")}"""
    inputs = more.pop("inputs", (X,))
    return Case(
        more.pop("section", "2.10"),
        name,
        program,
        inputs,
        lambda x: expected(x, *values.values()),
        variables=values,
        oracle="NumPy",
        **more,
    )


def wrong(name: str, body: str, error: str, message: str = "", **more: Any) -> Case:
    return case(name, body, "", lambda x: x, error=error, message=message, **more)


def graphs(name: str, program: str, **more: Any) -> Case:
    return Case(more.pop("section", "2.15"), name, OPERATORS + program, oracle="NumPy", **more)


VERSIONS = """
graph Small { @attrib { by: real = 2.0; } @input { x: real[3]; } @output { y: real[3]; }
    @compose { y = scale{by=by}(x); } }
graph Large { @input { a: real[3]; b: real[3]; } @output { c: real[3]; } @variable { w: real[3]; }
    @compose { t = add(a, b); c = math.mul(t, w); } }
public graph Third { @input { x: real[n|9]; } @output { y: real[n]; } @compose { y = add(x, x); } }
"""

BRANCHES = """
graph H { @input { a: real[~]; } @output { b: real; } @variable { w: real[3]; }
    @compose { t = math.mul(a, w); b = add(t, a); } }
graph C { @input { a: real; } @output { b: bool[]; } @compose { b = positive(a); } }
graph L { @input { s: real[n]; } @output { r: real[n]; } @variable { w: real[n]; }
    @compose { r = math.mul(s, w); } }
"""

CASES = [
    # ---------------------------------------------------------------- labels
    case(
        "a variable of the graph",
        "y = math.mul(x, w);",
        "G.w",
        lambda x, w: x * w,
        blocks="@variable { w: real[3]; }",
    ),
    case("the only component adds no label", "y = cell(x);", "G.w", cell),
    case(
        "the result is the label",
        "a = cell(x); y = add(a, a);",
        "G.a.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case(
        "an explicit label",
        "a = foo: cell(x); y = add(a, a);",
        "G.foo.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case("an explicit label of the only component", "y = foo: cell(x);", "G.foo.w", cell),
    case(
        "labels within the only component",
        "y = two(x);",
        "G.t.w G.y.w",
        lambda x, t, y: cell(cell(x, t), y),
    ),
    case(
        "nested labels",
        "a = two(x); y = add(a, a);",
        "G.a.t.w G.a.y.w",
        lambda x, t, y: 2 * cell(cell(x, t), y),
    ),
    case(
        "nested explicit labels",
        "a = foo: labelled(x); y = add(a, a);",
        "G.foo.l1.w G.foo.l2.w",
        lambda x, t, y: 2 * cell(cell(x, t), y),
    ),
    case(
        "an explicit label below an automatic one",
        "a = labelled(x); y = add(a, a);",
        "G.a.l1.w G.a.l2.w",
        lambda x, t, y: 2 * cell(cell(x, t), y),
    ),
    case("one component within one component", "y = wrapper(x);", "G.w", cell),
    case(
        "one component below a label",
        "a = wrapper(x); y = add(a, a);",
        "G.a.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case("a constant makes a label necessary", "y = with_constant(x);", "G.y.w", cell),
    case(
        "a variable makes a label necessary",
        "y = cell(x);",
        "G.v G.y.w",
        lambda x, v, w: cell(x, w),
        blocks="@variable { v: real[3]; }",
    ),
    case(
        "variables of operators that are not public",
        "a = private(x); y = add(a, a);",
        "G.a.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case(
        "variables below two operators that are not public",
        "a = hiding(x); y = add(a, a);",
        "G.a.t.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case(
        "one operator twice",
        "a = cell(x); b = cell(a); y = add(a, b);",
        "G.a.w G.b.w",
        lambda x, a, b: cell(x, a) + cell(cell(x, a), b),
    ),
    case(
        "several results with a label",
        "a, b = l: split(x); y = add(a, b);",
        "G.l.w",
        lambda x, w: x * w + x - w,
    ),
    case("results left out", "~, y = l: split(x);", "G.l.w", lambda x, w: x - w),
    case(
        "a pack of variables",
        "a = many(x); y = add(a, a);",
        "G.a.ws:1 G.a.ws:2",
        lambda x, v, w: 2 * (x * v + w),
    ),
    case(
        "a pack of variables of the graph",
        "t = math.mul(x, ws[0]); y = add(t, ws[1]);",
        "G.ws:1 G.ws:2",
        lambda x, v, w: x * v + w,
        blocks="@variable { ws: real[3]..(2); }",
    ),
    case(
        "a packed result is the label",
        "ps..(2) = each([x, x]); y = add(ps[0], ps[1]);",
        "G.ps.ws:1 G.ps.ws:2",
        lambda x, v, w: x * v + x * w,
    ),
    case(
        "a label for a pack that is taken apart",
        "[a, b] = l: each([x, x]); y = add(a, b);",
        "G.l.ws:1 G.l.ws:2",
        lambda x, v, w: x * v + x * w,
    ),
    case(
        "a static branch",
        "y = if by > 1.0 then cell(x) else private(x);",
        "G.w",
        cell,
        blocks="@attrib { by: real = 2.0; }",
    ),
    case(
        "a static branch among components",
        "a = if by > 1.0 then scale{by=by}(x) else cell(x); y = add(a, a);",
        "G.a.w",
        lambda x, w: 2 * cell(x, w),
        blocks="@attrib { by: real = 0.0; }",
    ),
    case(
        "labels in dynamic branches",
        "c = positive(x); y = if c then p: cell(x) else n: cell(x);",
        "G.p.w G.n.w",
        lambda x, p, n: cell(x, p if x[0] > 0 else n),
        section="2.10.1",
    ),
    case(
        "an automatic label in one of two branches",
        "c = positive(x); y = if c then cell(x) else scale{by=3.0}(x);",
        "G.y.w",
        cell,
        section="2.10.1",
    ),
    case(
        "the branches of one condition share the automatic label",
        "c = positive(x); a = if c then cell(x) else private(x); y = add(a, x);",
        "G.a.w",
        lambda x, w: cell(x, w) + x,
        section="2.10.1",
    ),
    case(
        "a labelled block",
        "y = b: { t = cell(x); u = add(t, t); yield u; };",
        "G.b.t.w",
        lambda x, w: 2 * cell(x, w),
    ),
    case(
        "a block within a block",
        "y = b: { t = c: { u = cell(x); v = add(u, u); yield v; }; z = add(t, x); yield z; };",
        "G.b.c.u.w",
        lambda x, w: 2 * cell(x, w) + x,
    ),
    case(
        "a block is labelled by its result",
        "a = { t = cell(x); u = add(t, t); yield u; }; y = add(a, x);",
        "G.a.t.w",
        lambda x, w: 2 * cell(x, w) + x,
    ),
    case(
        "the body of a loop",
        "a = with s = x do..(2) cell(s); y = add(a, x);",
        "G.a.w",
        lambda x, w: cell(cell(x, w), w) + x,
        section="2.10.1",
    ),
    case(
        "the labelled body of a loop",
        "a = with s = x do..(2) l: cell(s); y = add(a, x);",
        "G.l.w",
        lambda x, w: cell(cell(x, w), w) + x,
        section="2.10.1",
    ),
    case(
        "the steps of an unrolled loop share variables",
        "a = with s = x do..(2) cell(s); b = with s = a for k : [x, x] unroll cell(s); "
        "y = add(a, b);",
        "G.a.w G.b.w",
        lambda x, a, b: cell(cell(x, a), a) + cell(cell(cell(cell(x, a), a), b), b),
        section="2.10.1",
    ),
    # ------------------------------------------------------------- mistakes
    wrong("a variable without a label", "a, b = split(x); y = add(a, b);", "E0606", "label"),
    wrong("one label twice", "a = l: cell(x); b = l: cell(a); y = add(a, b);", "E0213", "`l`"),
    wrong("a graph invoked as an operator", "y = H(x);", "E0204", "`H`", after=BRANCHES),
    wrong("an operator that is not there", "y = cel(x);", "E0203", "`cell`"),
    # ----------------------------------------------------------- sub-graphs
    case(
        "a graph has its own name as root",
        "y = if c then H(x) else x;",
        "H.w",
        cell,
        blocks="@constant { c: bool[] = true; }",
        after=BRANCHES,
    ),
    case(
        "a labelled graph",
        "y = if c then l: H(x) else x;",
        "G.l.w",
        cell,
        blocks="@constant { c: bool[] = true; }",
        after=BRANCHES,
    ),
    case(
        "a graph under its name and under a label",
        "c = positive(x); y = if c then H(x) else l: H(x);",
        "H.w G.l.w",
        lambda x, h, g: cell(x, h),
        after=BRANCHES,
    ),
    case(
        "a graph twice under its name",
        "c = positive(x); a = if c then H(x) else x; b = if c then H(a) else a; y = add(a, b);",
        "H.w",
        lambda x, w: cell(x, w) + cell(cell(x, w), w),
        after=BRANCHES,
    ),
    case(
        "graphs as condition and body",
        "y = with s = x while C(s) do..(5) L(s);",
        "L.w",
        lambda x, w: x * w**5,
        after=BRANCHES,
        section="2.10.1",
    ),
    case(
        "a labelled graph in an operator",
        "a = inner(x); y = add(a, x);",
        "G.a.l.w",
        lambda x, w: cell(x, w) + x,
        after=BRANCHES
        + """
         operator inner { @input { x: real[n]; } @output { y: real[n]; }
             @compose { c = positive(x); y = if c then l: H(x) else x; } }
         """,
    ),
    case(
        "a sub-graph with attributes",
        "y = if c then S{by=2.0}(x) else S{by=3.0}(x);",
        "",
        lambda x: 2 * x,
        blocks="@constant { c: bool[] = true; }",
        after="""
         graph S { @attrib { by: real; } @input { a: real; } @output { b: real; }
             @compose { b = scale{by=by}(a); } }
         """,
    ),
    # ------------------------------------------------------- several graphs
    graphs("the first graph is the primary one", VERSIONS, inputs=(X,), expected=lambda x: 2 * x),
    graphs(
        "a graph by its name",
        VERSIONS,
        graph="Large",
        inputs=(X, X),
        variables={"main.Large.w": weight(1)},
        expected=lambda a, b: (a + b) * weight(1),
    ),
    graphs(
        "attributes of the graph that is chosen",
        VERSIONS,
        graph="Small",
        attribs={"by": 5.0},
        inputs=(X,),
        expected=lambda x: 5 * x,
    ),
    graphs(
        "a graph that says it is public",
        VERSIONS,
        graph="Third",
        calls=[Call((X,), lambda x: 2 * x), Call((X[:2],), lambda x: 2 * x)],
    ),
    graphs(
        "a graph that is not there",
        VERSIONS,
        graph="Fourth",
        error="E0801",
        message="`Fourth`\n.*Small, Large, Third",
    ),
    graphs(
        "attributes that another graph has",
        VERSIONS,
        graph="Large",
        attribs={"by": 5.0},
        error="E0801",
        message="`by`",
    ),
    graphs("no graph at all", "operator f {}", error="E0801", message="no graph"),
    graphs("an operator is not chosen as graph", VERSIONS, graph="add", error="E0801"),
    graphs("two graphs of one name", VERSIONS + VERSIONS, error="E0202", message="`Small`"),
    graphs(
        "a graph with its operators behind it",
        "graph G { @input { x: real[3]; } @output { y: real[3]; } @compose { y = f(x); } }"
        "operator f { @input { x: real[n]; } @output { y: real[n]; } "
        "@lower { y[i,] = -x[i,], i < n; } }",
        inputs=(X,),
        expected=lambda x: -x,
    ),
]
