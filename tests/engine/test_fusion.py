"""Passes: how many kernels are left of a graph, of which kind, and that numbers stay."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ricci
from ricci.dtypes import Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Program, Scatter
from ricci.passes.pipeline import lower

OPERATORS = """
operator exp { @input { x: real[s..]; } @output { y: real[s..]; }
  @lower { y[i..] = `exp`(x[i..]), i < s; } }
operator neg { @input { x: real[s..]; } @output { y: real[s..]; }
  @lower { y[i..] = -x[i..], i < s; } }
operator add { @input { x: real[s..]; z: real[s..]; } @output { y: real[s..]; }
  @lower { y[i..] = x[i..] + z[i..], i < s; } }
operator rowsum { @input { x: real[n,m]; } @output { y: real[n]; }
  @lower { y[i,] = 0.0, i < n; y[i,] += x[i,j], i < n, j < m; } }
operator off { @input { x: real[n,m]; v: real[n]; } @output { y: real[n,m]; }
  @lower { y[i,j] = x[i,j] - v[i,], i < n, j < m; } }
operator swap { @input { x: real[n,m]; } @output { y: real[m,n]; }
  @lower { y[i,j] = x[j,i], i < m, j < n; } }
operator flat { @input { x: real[n,m]; } @output { y: real[n * m]; }
  @lower { y[k,] = x[k / m,k % m], k < n * m; } }
operator pad { @input { x: real[n,m]; } @output { y: real[n + 2,m]; }
  @lower { y[i,j] = x[|i - 1|,j], i < n + 2, j < m; } }
operator spread { @input { x: real[n,m]; } @output { y: real[2 * n + 1,m]; }
  @lower { y[i,j] = 0.0, i < 2 * n + 1, j < m;
           y[2 * i + k,j] += x[i,j], i < n, k < 3, j < m; } }
operator smear { @input { x: real[n,m]; } @output { y: real[n + 2,m]; }
  @lower { y[i,j] = 0.0, i < n + 2, j < m; y[i + k,j] += x[i,j], i < n, k < 3, j < m; } }
operator upsample { @input { x: real[n,m]; w: real[3]; } @output { y: real[2 * n,m]; }
  @lower { y[|2 * i + k - 1|,j] += x[i,j] * w[k,], i < n, k < 3, j < m; } }
operator place { @input { x: real[n,m]; k: int[n]; } @output { y: real[n,m]; }
  @lower { y[i,j] = 0.0, i < n, j < m; y[k[i,],j] += x[i,j], i < n, j < m; } }
operator product { @input { x: real[n,k]; z: real[k,m]; } @output { y: real[n,m]; }
  @lower { y[i,j] = 0.0, i < n, j < m; y[i,j] += x[i,l] * z[l,j], i < n, j < m, l < k; } }
operator joined { @input { x: real[n,k]; z: real[k,m]; } @output { y: real[n * m,2]; }
  @lower { y[i * m + j,a] += x[i,l] * z[l,j], i < n, j < m, a < 2, l < k; } }
"""

X = "x: real[5,6];"
CASES = {
    "chain": (X, "y: real[5,6];", "y = exp(neg(exp(x)));", 1),
    "two readers": (X, "y: real[5,6];", "a = exp(x); y = add(a, neg(a));", 1),
    "shifted for two readers": (
        X + "v: real[5];", "y: real[5,6];", "a = off(x, v); y = off(a, rowsum(exp(a)));", 2),
    "of two tensors for two readers": (
        X + "z: real[5,6];", "y: real[5,6];", "a = add(x, z); y = off(a, rowsum(exp(a)));", 3),
    "tree": (X + "z: real[5,6];", "y: real[5,6];", "y = add(exp(x), neg(z));", 1),
    "into a reduction": (X, "y: real[5];", "y = rowsum(exp(x));", 1),
    "epilogue": (X, "y: real[5];", "y = exp(neg(rowsum(x)));", 1),
    "epilogue with another operand": (
        X + "z: real[5];", "y: real[5];", "y = add(z, rowsum(x));", 1),
    "epilogue of a product": (
        X + "z: real[6,7];", "y: real[5,7];", "y = neg(product(x, z));", 1),
    "epilogue under another shape": (
        X + "z: real[6,7]; b: real[35,2];", "y: real[35,2];",
        "y = neg(add(b, joined(x, z)));", 1),
    "operand of a product": (
        X + "z: real[6,7];", "y: real[5,7];", "y = product(exp(x), z);", 2),
    "moved operand of a product": (
        X + "z: real[7,6];", "y: real[5,7];", "y = product(x, swap(z));", 1),
    "movement": (X, "y: real[6,5];", "y = exp(swap(x));", 1),
    "movements that cancel": (X, "y: real[5,6];", "y = swap(swap(x));", 1),
    "view of an intermediate": (X, "y: real[30];", "a = exp(x); y = flat(a);", 1),
    "view inside": (X, "y: real[30];", "y = neg(flat(exp(x)));", 1),
    "view of an input": (X, "y: real[30];", "y = flat(x);", 1),
    "border": (X, "y: real[7,6];", "y = exp(pad(x));", 1),
    "turned round": (X, "y: real[7,6];", "y = smear(x);", 1),
    "strided target, one element left": (X, "y: real[11,6];", "y = spread(x);", 2),
    "strided target": (X + "w: real[3];", "y: real[10,6];", "y = upsample(x, w);", 2),
    "result that is an input": (X, "y: real[5,6];", "y = x;", 1),
    "unused": (X, "y: real[5,6];", "a = exp(x); y = neg(x);", 1),
}  # fmt: skip


def unnested(body: str) -> str:
    """Nested calls as statements, since the language invokes one operator per statement."""
    count = 0
    while found := re.search(r"(?<=[(,] |.[(,])(\w+\([^()]*\))", body):
        count += 1
        start = body.rfind(";", 0, found.start()) + 1
        name = f"t{count}"
        rest = body[start : found.start()] + name + body[found.end() :]
        body = f"{body[:start]} {name} = {found.group()}; {rest.lstrip()}"
    return body


def parse(inputs: str, output: str, body: str) -> ricci.Model:
    body = unnested(body)
    ports = f"@input {{ {inputs} }} @output {{ {output} }}"
    return ricci.parse(f"graph G {{ {ports} @compose {{ {body} }} }}\n{OPERATORS}")


def lowered(model: ricci.Model) -> Program:
    return lower(model.graph, {}, Types())


@pytest.mark.parametrize("name", CASES)
def test_kernels_and_numbers(name: str) -> None:
    inputs, output, body, count = CASES[name]
    model = parse(inputs, output, body)
    program = lowered(model)
    assert len(program.kernels) == count, [k.name for k in program.kernels]
    assert not any(isinstance(k, Scatter) for k in program.kernels)
    rng = np.random.default_rng(0)
    exe = model.compile(threads=1)
    given = {p.name: rng.normal(size=p.shape).astype(np.float32) for p in exe.inputs}
    want = interpret(model.graph, given)["y"]
    np.testing.assert_allclose(exe(**given), want, 1e-4, 1e-5)


def test_scatter_keeps_independent_loops_apart() -> None:
    program = lowered(parse(X + "k: int[5];", "y: real[5,6];", "y = place(x, k);"))
    (last,) = [k for k in program.kernels if isinstance(k, Scatter)]
    assert last.parallel == 0


def test_what_depends_on_variables_alone_runs_once() -> None:
    model = ricci.parse(
        "graph G { @input { x: real[4]; } @output { y: real[4]; } @variable { w: real[4]; }"
        " @compose { a = exp(w); b = neg(a); c = exp(b); y = add(x, c); z = neg(w); } }\n"
        + OPERATORS
    )
    program = lowered(model)
    assert len(program.kernels) == 1
    exe = model.compile(threads=1)
    x, (name,) = np.ones(4, np.float32), exe.variables
    for value in (0.5, -1.0):
        exe.variables[name] = np.full(4, value)
        np.testing.assert_allclose(exe(x), 1 + np.exp(-np.exp(np.full(4, value))), 1e-5)


def test_lifetimes_share_the_arena() -> None:
    steps = " ".join(f"a{k + 1} = product(a{k}, z);" for k in range(20))
    model = parse("a0: real[64,64]; z: real[64,64];", "a20: real[64,64];", steps)
    program = lowered(model)
    assert program.arena <= 2 * (64 * 64 * 4 + 128)
    rng = np.random.default_rng(0)
    a, z = (rng.normal(size=(64, 64)).astype(np.float32) / 8 for _ in range(2))
    want = a @ np.linalg.matrix_power(z.astype(np.float64), 20)
    np.testing.assert_allclose(model.compile(threads=1)(a, z), want, 1e-3, 1e-4)


def test_a_long_graph_is_fused_in_pieces() -> None:
    steps = " ".join(f"a{k + 1} = exp(neg(a{k}));" for k in range(300))
    program = lowered(parse("a0: real[8];", "a300: real[8];", steps))
    assert 2 <= len(program.kernels) <= 40
