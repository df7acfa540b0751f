"""Variables that are updated (specification 2.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .case import Call, Case

OPERATORS = """
operator add { @dtype { T: num; } @input { x: T[s..]; y: T[s..]; } @output { z: T[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator mix { @attrib { rate: real = 0.5; } @input { x: real[s..]; y: real[s..]; }
    @output { z: real[s..]; } @lower { z[i..] = (1.0 - rate) * x[i..] + rate * y[i..], i < s; } }
operator next { @input { i: int[]; } @output { j: int[]; } @lower { j[] = i[] + 1; } }
operator even { @input { i: int[]; } @output { z: bool[]; } @lower { z[] = i[] % 2 == 0; } }
operator less { @input { x: int[]; y: int[]; } @output { z: bool[]; } @lower { z[] = x[] < y[]; } }
operator both { @input { x: real[s..]; y: real[s..]; } @output { u: real[s..]; v: real[s..]; }
    @compose { u = add(x, y); v = add(x, x); } }
operator pair { @input { x: real[s..]; } @output { ys: real[s..]..(2); }
    @compose { y = add(x, x); ys = [x, y]; } }
operator total { @input { x: real[n]; } @output { s: real[n]; } @variable { sum: real[n]; }
    @compose { s = add(sum, x); } @update { sum = s; } }
operator count { @input { x: real[s..]; } @output { y: real[s..]; } @variable { n: int[]; }
    @compose { y = x; } @update { n = next(n); } }
operator delay { @input { x: real[n]; } @output { y: real[n]; }
    @variable { old: real[n]; older: real[n]; }
    @compose { y = older; } @update { older = old; old = x; } }
operator averaged { @attrib { rate: real; } @input { x: real[n]; } @output { y: real[n]; }
    @variable { mean: real[n]; }
    @compose { d = add(x, mean); y = add(d, x); }
    @update { e = add(d, x); f = mix{rate = rate}(mean, e); mean = f; } }
"""

X = np.array([1.0, 2.0])
Y = np.array([-3.0, 5.0])
Step = Callable[..., tuple[Any, dict[str, Any]]]


def updates(
    name: str,
    body: str,
    variables: Mapping[str, Any],
    step: Step,
    *,
    inputs: str = "x: real[2];",
    outputs: str = "y: real;",
    blocks: str = "",
    given: Sequence[tuple[Any, ...]] = ((X,), (Y,), (X,)),
) -> Case:
    """Calls in a row; `step` gives the result and the new values from the old ones and inputs."""
    program = (
        f"{OPERATORS} graph G {{ @input {{ {inputs} }} @output {{ {outputs} }} {blocks}"
        f" @compose {{ {body} }} }}"
    )
    state = {f"main.G.{k}": np.asarray(v) for k, v in variables.items()}
    start, calls = dict(state), []
    for values in given:
        short = {k.removeprefix("main.G."): v for k, v in state.items()}
        expected, new = step(
            *values, **{k.split(".")[-1].replace(":", "_"): v for k, v in short.items()}
        )
        state |= {f"main.G.{k}": np.asarray(v) for k, v in new.items()}
        calls.append(Call(values, expected, updated=dict(state)))
    return Case("2.11", name, program, calls=calls, variables=start, oracle="NumPy")


def graph(
    name: str,
    parts: str,
    calls: list[Call],
    variables: Mapping[str, Any],
    oracle: str = "NumPy",
) -> Case:
    """Calls with results of their own."""
    return Case("2.11", name, OPERATORS + parts, calls=calls, variables=variables, oracle=oracle)


ZERO = np.zeros(2)
OWN = "@variable { v: real[2]; }"

PLAIN = [
    updates(
        "a variable of an operator",
        "y = total(x);",
        {"sum": ZERO},
        lambda x, sum: (sum + x, {"sum": sum + x}),
    ),
    updates(
        "a variable of the graph",
        "y = add(v, x);",
        {"v": X},
        lambda x, v: (v + x, {"v": v + x}),
        blocks=OWN + "@update { v = y; }",
    ),
    updates(
        "the output keeps the old value",
        "y = v;",
        {"v": X},
        lambda x, v: (v, {"v": x}),
        blocks=OWN + "@update { v = x; }",
    ),
    updates(
        "a variable that nothing reads",
        "y = x;",
        {"v": X},
        lambda x, v: (x, {"v": 2 * x}),
        blocks=OWN + "@update { v = add(x, x); }",
    ),
    updates(
        "an intermediate of the composition",
        "t = add(x, x); y = add(t, v);",
        {"v": X},
        lambda x, v: (2 * x + v, {"v": 2 * x}),
        blocks=OWN + "@update { v = t; }",
    ),
    updates(
        "intermediates of the update",
        "y = add(x, v);",
        {"v": X},
        lambda x, v: (x + v, {"v": 2 * (x + x + v)}),
        blocks=OWN + "@update { t = add(x, y); u = add(t, t); v = u; }",
    ),
    updates(
        "an output of the composition",
        "y = add(x, v);",
        {"v": X},
        lambda x, v: (x + v, {"v": 2 * (x + v)}),
        blocks=OWN + "@update { v = add(y, y); }",
    ),
    updates(
        "an attribute",
        "y = label: averaged{rate = 0.25}(x);",
        {"label.mean": X},
        lambda x, mean: (2 * x + mean, {"label.mean": 0.75 * mean + 0.25 * (2 * x + mean)}),
    ),
    graph(
        "a literal",
        "graph G { @input { x: real[]; } @output { y: real; }"
        " @variable { v: real[]; } @compose { y = add(x, v); } @update { v = 3.0; } }",
        [Call((1.0,), 1.5, updated={"main.G.v": np.array(3.0)}), Call((1.0,), 4.0)],
        {"main.G.v": np.array(0.5)},
    ),
    updates(
        "its own value",
        "y = add(x, v);",
        {"v": X},
        lambda x, v: (x + v, {"v": v}),
        blocks=OWN + "@update { v = v; }",
    ),
    updates(
        "an integer", "y = label: count(x);", {"label.n": 7}, lambda x, n: (x, {"label.n": n + 1})
    ),
    updates(
        "a bool",
        "y = b;",
        {"b": True},
        lambda n, b: (b, {"b": n % 2 == 0}),
        inputs="n: int[];",
        outputs="y: bool;",
        blocks="@variable { b: bool[]; } @update { b = even(n); }",
        given=((np.array(3),), (np.array(4),), (np.array(5),)),
    ),
]

SEVERAL = [
    updates(
        "two variables",
        "y = label: delay(x);",
        {"label.old": X, "label.older": Y},
        lambda x, old, older: (older, {"label.old": x, "label.older": old}),
    ),
    updates(
        "variables exchanged",
        "y = v;",
        {"v": X, "w": Y},
        lambda x, v, w: (v, {"v": w, "w": v}),
        blocks="@variable { v: real[2]; w: real[2]; } @update { v = w; w = v; }",
    ),
    updates(
        "one invocation for two variables",
        "y = add(v, w);",
        {"v": X, "w": Y},
        lambda x, v, w: (v + w, {"v": x + w, "w": 2 * x}),
        blocks="@variable { v: real[2]; w: real[2]; } @update { v, w = both(x, w); }",
    ),
    updates(
        "one of two results",
        "y = add(v, x);",
        {"v": X},
        lambda x, v: (v + x, {"v": 2 * x}),
        blocks=OWN + "@update { ~, v = both(x, v); }",
    ),
    updates(
        "a list of results",
        "y = add(v, w);",
        {"v": X, "w": Y},
        lambda x, v, w: (v + w, {"v": x, "w": 2 * x}),
        blocks="@variable { v: real[2]; w: real[2]; } @update { [v, w] = pair(x); }",
    ),
    updates(
        "a pack of variables",
        "y = add(vs[0], vs[1]);",
        {"vs:1": X, "vs:2": Y},
        lambda x, vs_1, vs_2: (vs_1 + vs_2, {"vs:1": vs_2, "vs:2": x}),
        blocks="@variable { vs: real[2]..(2); } @update { vs = [vs[1], x]; }",
    ),
    updates(
        "a pack of variables by a loop",
        "y = add(vs[0], vs[1]);",
        {"vs:1": X, "vs:2": Y},
        lambda x, vs_1, vs_2: (vs_1 + vs_2, {"vs:1": vs_1 + x, "vs:2": vs_2 + x}),
        blocks="@variable { vs: real[2]..(2); } @update { vs..(2) = for v : vs do add(v, x); }",
    ),
    graph(
        "two invocations",
        "graph G { @input { x: real[2]; } @output { y: real; }"
        " @compose { t = a: total(x); y = b: total(t); } }",
        [
            Call((X,), X + X + Y, updated={"main.G.a.sum": 2 * X, "main.G.b.sum": 2 * X + Y}),
            Call((Y,), 2 * X + Y + 2 * X + Y),
        ],
        {"main.G.a.sum": X, "main.G.b.sum": Y},
    ),
]


def _repeated(x: Any, n: Any, sum: Any, name: str = "y.l.sum") -> tuple[Any, dict[str, Any]]:
    for _ in range(int(n)):
        x = sum = sum + x
    return x, {name: sum}


def _delayed(x: Any, old: Any, older: Any) -> tuple[Any, dict[str, Any]]:
    for _ in range(3):
        x, old, older = older, x, old
    return x, {"l.old": old, "l.older": older}


FLOW = [
    updates(
        "in a branch that is taken or not",
        "y = if c then l: total(x) else x;",
        {"l.sum": ZERO},
        lambda x, c, sum: (x + sum if c else x, {"l.sum": x + sum if c else sum}),
        inputs="x: real[2]; c: bool[];",
        given=((X, np.array(True)), (Y, np.array(False)), (Y, np.array(True))),
    ),
    graph(
        "in both branches",
        "graph G { @input { x: real[2]; c: bool[]; } @output { y: real; }"
        " @compose { y = if c then l: total(x) else m: total(x); } }",
        [
            Call((X, np.array(True)), X, updated={"main.G.l.sum": X, "main.G.m.sum": Y}),
            Call((X, np.array(False)), X + Y, updated={"main.G.l.sum": X, "main.G.m.sum": X + Y}),
            Call(
                (X, np.array(True)), 2 * X, updated={"main.G.l.sum": 2 * X, "main.G.m.sum": X + Y}
            ),
        ],
        {"main.G.l.sum": ZERO, "main.G.m.sum": Y},
    ),
    updates(
        "in a static branch",
        "y = if true then l: total(x) else x;",
        {"l.sum": ZERO},
        lambda x, sum: (x + sum, {"l.sum": x + sum}),
    ),
    updates(
        "a branch in the update",
        "y = v;",
        {"v": X},
        lambda x, c, v: (v, {"v": v + x if c else v}),
        inputs="x: real[2]; c: bool[];",
        blocks=OWN + "@update { v = if c then add(v, x) else v; }",
        given=((X, np.array(True)), (Y, np.array(False)), (Y, np.array(True))),
    ),
    updates(
        "a loop in the update",
        "y = v;",
        {"v": X},
        lambda x, n, v: (v, {"v": v + n * x}),
        inputs="x: real[2]; n: int[];",
        blocks=OWN + "@update { v = with t = v do..(n) add(t, x); }",
        given=((X, np.array(2)), (Y, np.array(0)), (Y, np.array(3))),
    ),
    updates(
        "in each step of a loop",
        "y = with t = x do..(n) { u = l: total(t); yield u; };",
        {"y.l.sum": ZERO},
        _repeated,
        inputs="x: real[2]; n: int[];",
        given=((X, np.array(2)), (Y, np.array(0)), (Y, np.array(3))),
    ),
    updates(
        "in each step of a scan",
        "ys = for v : [x, x, x] do l: total(v);",
        {"l.sum": ZERO},
        lambda x, sum: ([sum + x, sum + 2 * x, sum + 3 * x], {"l.sum": sum + 3 * x}),
        outputs="ys: real[2]..(3);",
    ),
    updates(
        "in each step written out",
        "ys = for v : [x, x, x] unroll l: total(v);",
        {"l.sum": ZERO},
        lambda x, sum: ([sum + x, sum + 2 * x, sum + 3 * x], {"l.sum": sum + 3 * x}),
        outputs="ys: real[2]..(3);",
    ),
    updates(
        "in a branch in a loop",
        "y = with t = x do..(i -> 3) { e = even(i); u = if e then l: total(t) else t; yield u; };",
        {"y.l.sum": ZERO},
        lambda x, sum: _repeated(x, 2, sum),
    ),
    updates(
        "in a loop in a loop",
        "y = with t = x do..(2) { u = with s = t do..(2) l: total(s); yield u; };",
        {"y.l.sum": ZERO},
        lambda x, sum: _repeated(x, 4, sum),
    ),
    updates(
        "in a loop in a branch",
        "y = if c then { u = with s = x do..(2) l: total(s); yield u; } else x;",
        {"y.l.sum": ZERO},
        lambda x, c, sum: _repeated(x, 2, sum) if c else (x, {"y.l.sum": sum}),
        inputs="x: real[2]; c: bool[];",
        given=((X, np.array(True)), (Y, np.array(False)), (Y, np.array(True))),
    ),
    updates(
        "in a loop that a condition ends",
        "y, ~ = with t = x, k = 0 while less(k, n) do"
        " { u = l: total(t); j = next(k); yield u, j; };",
        {"l.sum": ZERO},
        lambda x, n, sum: _repeated(x, n, sum, "l.sum"),
        inputs="x: real[2]; n: int[];",
        given=((X, np.array(2)), (Y, np.array(0))),
    ),
    updates(
        "two variables in a loop",
        "y = with t = x do..(3) l: delay(t);",
        {"l.old": X, "l.older": Y},
        _delayed,
    ),
    graph(
        "read in a loop, never updated",
        "operator plus { @input { x: real[n]; } @output { y: real[n]; }"
        " @variable { b: real[n]; } @compose { y = add(x, b); } }"
        " graph G { @input { x: real[2]; } @output { y: real; }"
        " @compose { y = with t = x do..(2) l: plus(t); } }",
        [Call((X,), X + 2 * Y), Call((Y,), 3 * Y)],
        {"main.G.l.b": Y},
    ),
]

SHARED = [
    graph(
        "invocations that share a variable",
        "graph G { @input { x: real[2]; c: bool[]; } @output { y: real; z: real; }"
        " @compose { y = if c then H(x) else x; z = if c then H(y) else y; } }"
        " graph H { @input { x: real; } @output { y: real; } @variable { w: real[2]; }"
        " @compose { y = add(x, w); } @update { w = y; } }",
        [
            Call((X, np.array(True)), (X + Y, 2 * (X + Y)), updated={"main.H.w": 2 * (X + Y)}),
            Call((X, np.array(False)), (X, X), updated={"main.H.w": 2 * (X + Y)}),
        ],
        {"main.H.w": Y},
    ),
    graph(
        "a graph as the body of a loop",
        "graph G { @input { x: real[2]; z: real[2]; } @output { y: real; }"
        " @compose { y = with s = x for v : [x, z] do Body(s, v); } }"
        " graph Body { @input { s: real; v: real; } @output { t: real; } @variable { w: real[2]; }"
        " @compose { u = add(s, v); t = add(u, w); } @update { w = t; } }",
        [
            Call(
                (X, Y),
                (X + X + Y) + Y + (X + X + Y),
                updated={"main.Body.w": 2 * (2 * X + Y) + Y},
            ),
            Call((ZERO, ZERO), 2 * (2 * (2 * X + Y) + Y)),
        ],
        {"main.Body.w": Y},
    ),
    graph(
        "graphs as a condition and a body",
        "graph G { @input { x: real[2]; n: int[]; } @output { y: real; }"
        " @compose { y, ~ = with s = x, k = 0 while Goes(k, n) do Step(s, k); } }"
        " graph Goes { @input { k: int[]; n: int[]; } @output { g: bool; }"
        " @compose { g = less(k, n); } }"
        " graph Step { @input { s: real; k: int[]; } @output { t: real; j: int; }"
        " @compose { t = add(s, s); j = next(k); } }",
        [Call((X, np.array(n)), X * 2**n) for n in (0, 3)],
        {},
    ),
    graph(
        "a variable beside a dynamic input",
        "operator peak { @input { x: real[n]; } @output { y: real[]; }"
        " @variable { most: real[]; }"
        " @lower { y[] = most[]; y[] >= x[i,], i < n; } @update { most = y; } }"
        " graph G { @input { x: real[n|4]; } @output { y: real; } @compose { y = l: peak(x); } }",
        [
            Call((np.array([1.0, 3.0]),), 3.0),
            Call((np.array([2.0]),), 3.0),
            Call((np.array([2.0, 7.0, 1.0]),), 7.0, updated={"main.G.l.most": np.array(7.0)}),
        ],
        {"main.G.l.most": np.array(-1.0)},
        "by hand",
    ),
    graph(
        "a new value of another extent",
        "graph G { @input { x: real[n|4]; } @output { y: real; } @variable { v: real[2]; }"
        " @compose { y = x; } @update { v = x; } }",
        [
            Call((X,), X, updated={"main.G.v": X}),
            Call((np.ones(3),), error="E0501", message="variable `v`", updated={"main.G.v": X}),
        ],
        {"main.G.v": Y},
    ),
]

CASES = [*PLAIN, *SEVERAL, *FLOW, *SHARED]
