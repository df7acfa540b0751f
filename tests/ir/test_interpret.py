"""The interpreter: numeric rules, order of evaluation, errors, and known operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.interpret import interpret
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Const,
    Expr,
    Graph,
    Operation,
    Port,
    Select,
    Tensor,
    Unary,
)
from ricci.ir.text import parse_graph
from ricci.ir.verify import verify_graph

INF, NAN = math.inf, math.nan
LEAST, MOST = -(2**63), 2**63 - 1


def run(text: str, inputs: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    graph = parse_graph(text)
    verify_graph(graph)
    return interpret(graph, inputs or {}, **options)


def element_wise(expr: str, dtype: str, *arguments: Any, **options: Any) -> Any:
    """`expr` of `a[i]`, `b[i]`, whose dtypes are that of the arguments."""
    kinds = {"f": "real", "i": "int", "b": "bool"}
    arrays = [np.asarray(a) for a in arguments]
    names = "ab"[: len(arrays)]
    ports = "".join(
        f"input {n} = {n}: {kinds[a.dtype.kind]}[{a.size}];"
        for n, a in zip(names, arrays, strict=True)
    )
    text = f"""graph g {{ {ports}
      y: {dtype}[{arrays[0].size}] = f({", ".join(names)}) {{
        y[i] = {expr} for i < {arrays[0].size};
      }}
      output y = y; }}"""
    return run(text, dict(zip(names, arrays, strict=True)), **options)["y"]


# ------------------------------------------------------------- numeric rules

SCALARS: list[tuple[str, str, list[list[Any]], list[Any]]] = [
    ("a[i] / b[i]", "int", [[7, -7, 7, -7, LEAST], [2, 2, -2, -2, -1]], [3, -4, -4, 3, LEAST]),
    ("a[i] \\ b[i]", "int", [[7, -7, 7, -7, LEAST], [2, 2, -2, -2, -1]], [4, -3, -3, 4, LEAST]),
    ("a[i] % b[i]", "int", [[7, -7, 7, -7, LEAST], [2, 2, -2, -2, -1]], [1, 1, -1, -1, 0]),
    ("a[i] % b[i]", "real", [[5.5, -5.5, 5.5, 1.0], [2.0, 2.0, -2.0, 0.0]], [1.5, 0.5, -0.5, NAN]),
    ("a[i] \\ b[i]", "real", [[7.0, -7.0], [2.0, 2.0]], [4.0, -3.0]),
    ("a[i] / b[i]", "real", [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]], [INF, -INF, NAN]),
    ("a[i] + b[i]", "int", [[MOST, LEAST], [1, -1]], [LEAST, MOST]),
    ("-a[i]", "int", [[LEAST, 3]], [LEAST, -3]),
    ("abs(a[i])", "int", [[LEAST, -3]], [LEAST, 3]),
    ("a[i] ** b[i]", "int", [[2, -2, 3, 1, -1, -1, 5, 0, 0], [10, 3, 0, -5, -3, -2, -1, 0, -1]],
     [1024, -8, 1, 1, -1, 1, 0, 1, 0]),
    ("a[i] ** b[i]", "real", [[2.0, -8.0, 0.0, 0.0], [0.5, 1.5, 0.0, -1.0]],
     [2**0.5, NAN, 1.0, INF]),
    ("max(a[i], b[i])", "real", [[1.0, NAN, 2.0, INF], [NAN, 1.0, 3.0, 0.0]], [NAN, NAN, 3.0, INF]),
    ("min(a[i], b[i])", "real", [[1.0, NAN, 2.0], [NAN, 1.0, 3.0]], [NAN, NAN, 2.0]),
    ("a[i] < b[i]", "bool", [[NAN, 1.0, 1.0], [1.0, NAN, 2.0]], [False, False, True]),
    ("a[i] == b[i]", "bool", [[NAN, 1.0], [NAN, 1.0]], [False, True]),
    ("a[i] != b[i]", "bool", [[NAN, 1.0], [NAN, 1.0]], [True, False]),
    ("a[i] ^ b[i]", "bool", [[True, True], [True, False]], [False, True]),
    ("int(a[i])", "int", [[2.7, -2.7, NAN, 1e30, -1e30, INF, -INF, 0.0]],
     [2, -2, 0, MOST, LEAST, MOST, LEAST, 0]),
    ("uint8(a[i])", "uint8", [[300.0, -3.0, 254.9, NAN]], [255, 0, 254, 0]),
    ("uint8(a[i])", "uint8", [[300, -3]], [44, 253]),
    ("bool(a[i])", "bool", [[0.0, -0.0, 0.5, NAN]], [False, False, True, True]),
    ("real(a[i])", "real", [[True, False]], [1.0, 0.0]),
    ("round(a[i])", "real", [[0.5, -0.5, 1.5, 2.5, 0.49999999999999994, 2.0**52 + 1, NAN, -INF]],
     [1.0, -1.0, 2.0, 3.0, 0.0, 2.0**52 + 1, NAN, -INF]),
    ("frac(a[i])", "real", [[1.25, -1.25, 3.0]], [0.25, -0.25, 0.0]),
    ("floor(a[i])", "real", [[1.5, -1.5]], [1.0, -2.0]),
    ("ceil(a[i])", "real", [[1.5, -1.5]], [2.0, -1.0]),
    ("sign(a[i])", "real", [[-2.0, 0.0, 3.0, NAN]], [-1.0, 0.0, 1.0, NAN]),
    ("sign(a[i])", "int", [[-2, 0, 3]], [-1, 0, 1]),
    ("sqrt(a[i])", "real", [[-1.0, 4.0]], [NAN, 2.0]),
    ("log(a[i])", "real", [[0.0, -1.0]], [-INF, NAN]),
    ("erf(a[i])", "real", [[0.0, 0.5, -3.0, INF]], [math.erf(v) for v in (0, 0.5, -3, INF)]),
    ("a[i] < 0.0 ? 0.0 : a[i]", "real", [[-1.0, NAN, 2.0]], [0.0, NAN, 2.0]),
    ("inf:int", "int", [[1]], [MOST]),
    ("-inf:int", "int", [[1]], [LEAST]),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "dtype", "arguments", "expected"), SCALARS)
def test_scalar_rules(
    expr: str, dtype: str, arguments: list[list[Any]], expected: list[Any]
) -> None:
    found = element_wise(expr, dtype, *arguments)
    np.testing.assert_array_equal(found, expected)


def test_literals_and_results_have_the_chosen_types() -> None:
    x = np.array([1.0, 2.0])
    assert element_wise("a[i] * 0.1", "real", x, real="float32").dtype == np.float32
    assert element_wise("inf:int", "int", x, int="int32").tolist() == [2**31 - 1] * 2
    assert element_wise("a[i] * a[i]", "int", [2**20], int="int32").tolist() == [0]


def test_sums_in_float32_are_rounded_once() -> None:
    x = np.full(20_000_000, 1.0, np.float32)
    found = run(
        """graph g { input x = x: real[20000000];
          s: real[] = sum(x) { s[] = 0.5; s[] += x[i] for i < 20000000; }
          output s = s; }""",
        {"x": x},
        real="float32",
    )["s"]
    assert found == np.float32(20_000_000)


def test_reductions_of_nan_propagate() -> None:
    found = run(
        """graph g { input x = x: real[3];
          s: real[], t: real[] = m(x) {
            s[] = -inf; s[] max= x[i] for i < 3;
            t[] = inf; t[] min= x[i] for i < 3;
          }
          output s = s; output t = t; }""",
        {"x": np.array([1.0, np.nan, 2.0])},
    )
    assert np.isnan(found["s"])
    assert np.isnan(found["t"])


# -------------------------------------------------- boundary rules and order


def test_a_guard_skips_the_whole_instance_and_a_remap_replaces_once() -> None:
    found = run(
        """graph g { input x = x: real[4];
          y: real[4], z: real[4] = f(x) {
            y[i] += x[|i - 1|] * 1.0 + 10.0 for i < 4;
            z[i] = x[i - 2 <> 1 : 0] for i < 4;
          }
          output y = y; output z = z; }""".replace("[i - 2 <> 1 : 0]", "[|i - 2 <> 1 : 0|]"),
        {"x": np.arange(4.0)},
    )
    assert found["y"].tolist() == [0.0, 10.0, 11.0, 12.0]
    assert found["z"].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_updates_run_in_loop_order() -> None:
    found = run(
        """graph g { input x = x: real[4]; input k = k: int[3];
          c: real[4] = cumulate(x) {
            c[i] = x[i] for i < 4;
            c[i] := c[i] + c[|i - 1|] for i < 4;
          }
          m: int[] = argmax(x) { m[] := i for i < 4 if x[i] > x[m[]]; }
          s: real[3] = scatter(x, k) { s[k[j]] := x[j] for j < 3; }
          a: real[2, 2], b: int[2, 2] = several(x) {
            a[i, j], b[1 - i, j] := x[2 * i + j], 2 * i + j for i < 2, j < 2;
          }
          t: real[5] = twice(x) { t[i], t[i + 1] := x[i], -x[i] for i < 4; }
          output c = c; output m = m; output s = s; output a = a; output b = b; output t = t; }""",
        {"x": np.array([1.0, 5.0, 5.0, 2.0]), "k": np.array([1, 1, 2])},
    )
    assert found["c"].tolist() == [1.0, 6.0, 11.0, 13.0]
    assert found["m"] == 1
    assert found["s"].tolist() == [0.0, 5.0, 5.0]
    assert found["b"].tolist() == [[2, 3], [0, 1]]
    assert found["t"].tolist() == [1.0, 5.0, 5.0, 2.0, -2.0]


def test_the_side_not_taken_has_no_effect() -> None:
    found = run(
        """graph g { input x = x: real[3]; input k = k: int[3];
          y: real[3], z: int[3] = f(x, k) {
            y[i] = i > 0 ? x[i - 1] : -1.0 for i < 3;
            z[i] = k[i] == 0 ? 7 : 6 / k[i] for i < 3;
          }
          output y = y; output z = z; }""",
        {"x": np.arange(3.0), "k": np.array([0, 2, 3])},
    )
    assert found["y"].tolist() == [-1.0, 0.0, 1.0]
    assert found["z"].tolist() == [7, 3, 2]


def test_selects_that_share_their_sides_are_linear() -> None:
    x = Tensor("x", DType.REAL, ())
    value: Expr = Access(x, ())
    for _ in range(40):
        both = Binary("add", value, Const(1.0, DType.REAL)), Unary("neg", value)
        value = Select(Binary("lt", value, Const(0.0, DType.REAL)), *both)
    y = Tensor("y", DType.REAL, ())
    operation = Operation("f", (y,), (Assignment((Access(y, ()),), "set", (value,), ()),), (x,))
    graph = Graph("g", (Port("x", (x,)),), (Port("y", (y,)),), (operation,))
    assert interpret(graph, {"x": -20.5})["y"] == -0.5


def test_an_index_in_nothing_repeats_the_statement() -> None:
    text = """graph g { input x = x: real[2];
      y: real[2] = f(x) { y[i] += x[i] for i < 2, k < 3; }
      z: real[2] = f(x) { z[i] += x[i] * x[j] for i < 2, j < 2, k < 5000; }
      output y = y; output z = z; }"""
    found = run(text, {"x": np.array([1.0, 2.0])})
    assert found["y"].tolist() == [3.0, 6.0]
    assert found["z"].tolist() == [15000.0, 30000.0]


def test_arrays_of_no_elements() -> None:
    text = """graph g { symbol n <= 4; input x = x: real[n, 2];
      y: real[2] = f(x) { y[j] = 1.0 for j < 2; y[j] += x[i, j] for i < n, j < 2; }
      z: real[n, 2] = f(x) { z[i, j] = x[i, j] for i < n, j < 2; }
      output y = y; output z = z; }"""
    found = run(text, {"x": np.zeros((0, 2))})
    assert found["y"].tolist() == [1.0, 1.0]
    assert found["z"].shape == (0, 2)


FAULTS = [
    ("y[i] = x[i + 1] for i < 3;", "E0802", "index 3 is out of range for dimension 0 of `x`"),
    ("y[i] = x[|i <> 0 : 5|] for i < 3; y[i] = x[|i + 2 <> 0 : 5|] for i < 3;", "E0802", "index 5"),
    ("y[i + 1] = x[i] for i < 3;", "E0802", "`y`, whose extent is 3"),
    ("y[i + 1] += x[i] for i < 3;", "E0802", "`y`, whose extent is 3"),
    ("y[k[i]] := x[i] for i < 3;", "E0802", "index -1 is out of range"),
    ("y[i] = real(6 / k[i]) for i < 3;", "E0803", "division of an integer by zero"),
    ("y[i] = real(6 % k[i]) for i < 3;", "E0803", "where i = 1"),
]


@pytest.mark.parametrize(("statement", "code", "text"), FAULTS)
def test_faults_at_run_time(statement: str, code: str, text: str) -> None:
    program = f"""graph g {{ input x = x: real[3]; input k = k: int[3];
      y: real[3] = f(x, k) {{ {statement} }} output y = y; }}"""
    with pytest.raises(Error) as caught:
        run(program, {"x": np.zeros(3), "k": np.array([1, 0, -1])})
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert text in str(caught.value)


# ------------------------------------------------------------- known operators

CONVOLUTIONS = [
    # batch, channels in, out, size, kernel, stride, dilation, padding, groups
    (2, 4, 6, 9, 3, 1, 1, 1, 1),
    (1, 4, 8, 11, 3, 2, 1, 0, 2),
    (1, 6, 6, 10, 3, 1, 2, 2, 6),
    (2, 8, 4, 8, 1, 1, 1, 0, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_convolutions_equal_torch(case: tuple[int, ...], real: str) -> None:
    n, c, m, s, k, stride, dilation, padding, groups = case
    size = (s + 2 * padding - dilation * (k - 1) - 1) // stride + 1
    text = f"""graph g {{
      input x = x: real[{n}, {c}, {s}, {s}]; variable w: real[{m}, {c // groups}, {k}, {k}];
      variable b: real[{m}];
      y: real[{n}, {m}, {size}, {size}] = conv(x, w, b) {{
        y[n, c, i, j] = b[c] for n < {n}, c < {m}, i < {size}, j < {size};
        y[n, {m // groups} * g + c, i, j] += x[n, {c // groups} * g + k,
            |{stride} * i + {dilation} * p - {padding}|,
            |{stride} * j + {dilation} * q - {padding}|]
            * w[{m // groups} * g + c, k, p, q]
          for n < {n}, g < {groups}, c < {m // groups}, i < {size}, j < {size}, k < {c // groups},
            p < {k}, q < {k};
      }}
      output y = y; }}"""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((n, c, s, s)), rng.standard_normal((m, c // groups, k, k))
    b = rng.standard_normal(m)
    found = run(text, {"x": x}, variables={"w": w, "b": b}, real=real)["y"]
    arguments = (torch.tensor(a) for a in (x, w, b))
    expected = torch.nn.functional.conv2d(
        *arguments, stride=stride, padding=padding, dilation=dilation, groups=groups
    ).numpy()
    tolerance = 1e-5 if real == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, tolerance, tolerance * 10)


def test_a_padding_guard_keeps_infinite_factors_out() -> None:
    text = """graph g { input x = x: real[64]; input w = w: real[3];
      y: real[64] = conv(x, w) { y[i] += x[|i + k - 1|] * w[k] for i < 64, k < 3, r < 100; }
      z: real[64] = conv(x, w) { z[i] += x[|i + k - 1|] * w[k] for i < 64, k < 3, r < 1; }
      output y = y; output z = z; }"""
    x, w = np.ones(64), np.array([np.inf, 1.0, 1.0])
    for name, first in (("y", 200.0), ("z", 2.0)):
        found = run(text, {"x": x, "w": w})[name]
        assert found[0] == first
        assert np.isinf(found[1:]).all()


def test_contractions_equal_einsum() -> None:
    text = """graph g { input a = a: real[3, 17, 40]; input b = b: real[40, 3, 19];
      c: real[3, 17, 19], d: real[19, 17] = f(a, b) {
        c[n, i, j] += a[n, i, k] * b[k, n, j] for n < 3, i < 17, j < 19, k < 40;
        d[j, i] += a[n, i, k] * b[k, n, j] for n < 3, i < 17, j < 19, k < 40 if k < 30;
      }
      output c = c; output d = d; }"""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((3, 17, 40)), rng.standard_normal((40, 3, 19))
    found = run(text, {"a": a, "b": b})
    np.testing.assert_allclose(found["c"], np.einsum("nik,knj->nij", a, b), 1e-12, 1e-12)
    part = np.einsum("nik,knj->ji", a[:, :, :30], b[:30])
    np.testing.assert_allclose(found["d"], part, 1e-12, 1e-12)


def test_all_values_of_a_point_are_computed_before_its_targets_are_written() -> None:
    text = """graph g { input x = x: real[3];
      a: real[3], b: real[3], d: real[], t: real[3] = f(x) {
        a[i] = x[i] for i < 3; b[i] = 2.0 * x[i] for i < 3; d[] = 5.0;
        a[i], b[i] := b[i], a[i] for i < 3;
        d[], t[i] := 0.0, d[] for i < 3;
      }
      output a = a; output b = b; output t = t; }"""
    found = run(text, {"x": np.array([1.0, 2.0, 3.0])}, real="float64")
    assert found["a"].tolist() == [2.0, 4.0, 6.0]
    assert found["b"].tolist() == [1.0, 2.0, 3.0]
    assert found["t"].tolist() == [5.0, 0.0, 0.0]
