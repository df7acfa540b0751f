"""Graphs whose flow the data decides: what the cases of 2.10 have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Call, Case

OPERATORS = """
operator add { @dtype { T: num; } @input { x: T[s..]; y: T[s..]; } @output { z: T[s..]; }
    @lower { z[i..] = x[i..] + y[i..], i < s; } }
operator mul { @input { x: real[s..]; y: real[s..]; } @output { z: real[s..]; }
    @lower { z[i..] = x[i..] * y[i..], i < s; } }
operator less { @dtype { T: num; } @input { x: T[]; y: T[]; } @output { z: bool[]; }
    @lower { z[] = x[] < y[]; } }
operator even { @input { i: int[]; } @output { z: bool[]; } @lower { z[] = i[] % 2 == 0; } }
operator is_not { @input { c: bool[]; } @output { z: bool[]; } @lower { z[] = !c[]; } }
operator lone { @input { c: bool[]; } @output { z: bool[1,1]; }
    @lower { z[i,j] = c[], i < 1, j < 1; } }
operator to_real { @input { i: int[]; } @output { r: real[]; } @lower { r[] = real(i[]); } }
operator next { @input { i: int[]; } @output { j: int[]; } @lower { j[] = i[] + 1; } }
operator scale { @attrib { f: real; } @input { x: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = f * x[i,], i < n; } }
operator times { @input { x: real[s..]; f: real[]; } @output { y: real[s..]; }
    @lower { y[i..] = f[] * x[i..], i < s; } }
operator head { @attrib { k: int; } @input { x: real[n]; } @output { y: real[k]; }
    @lower { y[i,] = x[i,], i < k; } }
operator twice { @input { x: real[n]; } @output { y: real[2 * n]; }
    @lower { y[i,] = x[i % n,], i < 2 * n; } }
operator total { @input { x: real[s..]; } @output { y: real[]; }
    @lower { y[] += x[i..], i < s; } }
operator both { @input { x: real[s..]; y: real[s..]; } @output { u: real[s..]; v: real[s..]; }
    @compose { u = add(x, y); v = mul(x, y); } }
operator pair { @input { x: real[s..]; } @output { ys: real[s..]..(2); }
    @compose { y = add(x, x); ys = [x, y]; } }
operator matmul { @input { a: real[n,m]; b: real[m,k]; } @output { c: real[n,k]; }
    @lower { c[i,j] += a[i,l] * b[l,j], i < n, j < k, l < m; } }
operator join { @input { xs: real[..n]..(k); } @output { y: real[n + ..]; }
    @using { start = (n + ...) - n; }
    @lower { unroll..(j -> k) y[start[j] + i,] = xs[j][i,], i < n[j]; } }
operator pile { @input { xs: real[s..]..(k); } @output { y: real[k, s..]; }
    @lower { unroll..(j -> k) y[j,i..] = xs[j][i..], i < s; } }
operator power { @attrib { k: int; } @input { x: real[n]; } @output { y: real[n]; }
    @compose { y = if k == 0 then x else { t = add(x, x); u = power{k = k - 1}(t); yield u; }; } }
operator biased { @attrib { f: optional real; } @input { x: real[n]; b: optional real[n]; }
    @output { y: real[n]; }
    @compose {
        s = if ?f then scale{f = f}(x) else x;
        y = if ?b then add(s, b) else s;
    } }
"""

X = np.array([1.0, 2.0, 3.0])
Z = np.array([10.0, -20.0, 30.0])
INPUTS = "x: real[3]; z: real[3]; a: real[]; n: int[]; c: bool[];"
POINTS = [(0.5, 2, True), (3.5, 0, False), (1.0, 3, True)]


def flow(
    name: str,
    body: str,
    expected: Any,
    outputs: str = "y: real;",
    oracle: str = "NumPy",
    section: str = "2.10.1",
) -> Case:
    """A graph with this composition, for several values of what decides the flow."""
    program = f"{OPERATORS} graph G {{ @input {{ {INPUTS} }} @output {{ {outputs} }}"
    calls = [Call((X, Z, np.array(a), np.array(n), np.array(c)), expected) for a, n, c in POINTS]
    return Case(section, name, f"{program} @compose {{ {body} }} }}", calls=calls, oracle=oracle)


def fold(step: Any, start: Any, count: int) -> Any:
    for i in range(count):
        start = step(start, i)
    return start


LOOPS = """
operator first { @input { xs: real[n]..(k); steps: optional int[]; } @output { y: real[n]; }
    @compose { y = with s: real[n] = 0.0 for x : xs do..(steps) add(s, x); } }
operator matpow { @input { A: real[n,n]; p: int[]; } @output { B: real[n,n]; }
    @constant { I: real[n,n] = i == j ? 1.0 : 0.0, i < n, j < n; }
    @compose { B = with X = I do..(p) matmul(X, A); } }
operator add_to_all { @input { xs: real[n]..(k); z: real[n]; } @output { ys: real[n]..(k); }
    @compose { ys = for x : xs do add(x, z); } }
operator add_all { @input { xs: real[n]..(k); } @output { y: real[n]; }
    @compose { y = with sum: real[n] = 0.0 for x : xs do add(sum, x); } }
"""


def within(name: str, ports: str, body: str, calls: list[Call], **options: Any) -> Case:
    """A graph with inputs and outputs of its own."""
    program = f"{OPERATORS} {LOOPS} graph G {{ {ports} @compose {{ {body} }} }}"
    return Case("2.10.1", name, program, calls=calls, oracle="NumPy", **options)


def fails(
    name: str,
    body: str,
    code: str,
    message: str,
    outputs: str = "y: real;",
    point: tuple[float, int, bool] = (0.5, 5, True),
) -> Case:
    """A graph that must be answered with a diagnostic."""
    case = flow(name, body, None, outputs)
    inputs = (X, Z, np.array(point[0]), np.array(point[1]), np.array(point[2]))
    return Case("2.10.1", name, case.program, inputs, error=code, message=message)
