"""Neighbouring maps over the same points: which are one, and the numbers."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType, Types
from ricci.ir.interpret import interpret
from ricci.ir.loops import Reduce
from ricci.ir.nodes import (
    ONE,
    Access,
    Binary,
    Expr,
    Index,
    Local,
    Skip,
    Subscript,
    Tensor,
    integer,
)
from ricci.passes.maps import join_maps
from ricci.passes.pipeline import lower
from ricci.passes.views import Views
from ricci.records import replace

from .running import runnable_targets

SIZES = {"I": 21, "J": 33}
MAPS = {
    "what the one before makes": ("a(i, j) = exp(X(i, j))  b(i, j) = a(i, j) * 2", "a, b", [2]),
    "what the one before reads": ("a(i, j) = exp(X(i, j))  b(i, j) = fabs(X(i, j))", "a, b", [2]),
    "other names of indices": ("a(i, j) = exp(X(i, j))  b(k, l) = a(k, l) * 2", "a, b", [2]),
    "two moments and a step": (
        "a(i, j) = 0.9 * X(i, j) + 0.1 * Y(i, j)"
        "  b(i, j) = 0.9 * Z(i, j) + 0.1 * Y(i, j) * Y(i, j)"
        "  c(i, j) = a(i, j) / (sqrt(fabs(b(i, j))) + 1)", "a, b, c", [3]),
    "one that nothing else reads is not there": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(i, j) * X(i, j)  c(i, j) = a(i, j) + 1", "b, c", [2]),
    "two of these": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(i, j) * Y(i, j)  c(i, j) = a(i, j) + b(i, j)"
        "  d(i, j) = b(i, j) * Z(i, j)", "c, d", [2]),
    "what others read, too": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(i, j) * 2  c(j) +=! a(i, j)", "b, c", [2, 1]),
    "rows of one value": (
        "a(i, j) = exp(X(i, j)) where i in 0:1  b(i, j) = a(i, j) * 2", "a, b", [2]),
    "four at most": (
        "a(i, j) = exp(X(i, j))  b(i, j) = fabs(X(i, j))  c(i, j) = sin(X(i, j))"
        "  d(i, j) = cos(X(i, j))  e(i, j) = X(i, j) * X(i, j)", "a, b, c, d, e", [4, 1]),
    "from the other side": ("a(i, j) = exp(X(i, j))  b(j, i) = a(i, j) * 2", "a, b", [1, 1]),
    "another element": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(I - 1 - i, j) * 2", "a, b", [1, 1]),
    "its own element, and another": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(i, j) * a(I - 1 - i, j)", "a, b", [1, 1]),
    "elements of a row at all points": (
        "a(i, j) = exp(X(i, j))  b(i, j) = a(0, j) * X(i, j)", "a, b", [1, 1]),
    "nothing of the same": ("a(i, j) = exp(X(i, j))  b(i, j) = fabs(Y(i, j))", "a, b", [1, 1]),
    "a row at each point": (
        "a(i, j) = exp(X(i, j)) * V(j)  b(i, j) = V(j) where i in 0:I", "a, b", [1, 1]),
    "fewer points": ("a(i, j) = exp(X(i, j))  b(j) = fabs(X(0, j))", "a, b", [1, 1]),
    "with others between": (
        "a(i, j) = exp(X(i, j))  b(i, j) = exp(Y(i, j))  c(i, j) = exp(Z(i, j))"
        "  d(i, j) = X(i, j) * 2  e(i, j) = Y(i, j) * 2  f(i, j) = c(i, j) * a(i, j)",
        "a, b, c, d, e, f", [1] * 6),
    "what a new value may replace, elsewhere": (
        "a(i, j) = X(i, j) * Y(I - 1 - i, j)  b(i, j) = X(i, j) + Y(i, j)", "a, b", [1, 1]),
    "the same of another size": (
        "a(i, j) = X(i, j) * V(J - 1 - j)  b(i, j) = X(i, j) + V(j)", "a, b", [2]),
    "a long formula": (
        "a(i, j) = " + " + ".join(f"sin(X(i, j) + {n})" for n in range(1, 17))
        + "  b(i, j) = " + " + ".join(f"cos(X(i, j) + {n})" for n in range(1, 17)),
        "a, b", [1, 1]),
    "a sum between": (
        "a(i, j) = exp(X(i, j))  b(j) +=! Y(i, j)  c(i, j) = X(i, j) * 2", "a, b, c", [1, 1, 1]),
    "a sum before": ("s(i) +=! X(i, j)  b(i) = s(i) * 2  c(i) = s(i) + 1", "s, b, c", [1, 2]),
}  # fmt: skip


def text_of(body: str, results: str) -> str:
    given = "float(I, J) X, float(I, J) Y, float(I, J) Z, float(J) V"
    return f"def f({given}) -> ({results}) {{ {body} }}"


def arrays() -> list[np.ndarray]:
    r = np.random.default_rng(0)
    shapes = [tuple(SIZES.values())] * 3 + [(SIZES["J"],)]
    return [r.standard_normal(s, np.float32) for s in shapes]


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("name", MAPS)
def test_which_are_one(name: str, target: str) -> None:
    body, results, count = MAPS[name]
    function = ricci.tc.define(text_of(body, results), threads=2, target=target)["f"]
    graph = function.graph
    kernels = lower(graph, {s: SIZES[s.name] for s in graph.symbols}, Types()).kernels
    assert [len(k.targets) for k in kernels if isinstance(k, Reduce)] == count
    given = arrays()
    want = interpret(graph, dict(zip("XYZV", given, strict=True)))
    got = function(*given)
    for port, value in zip(graph.outputs, got, strict=True):
        np.testing.assert_allclose(value, want[port.name], 1e-5, 1e-5, err_msg=port.name)


def counts_of(text: str, real: DType = DType.FLOAT32) -> tuple[ricci.Model, list[int]]:
    """A graph, and the targets of each of its maps and sums."""
    model = ricci.parse(text, "skriptnd")
    kernels = lower(model.graph, {}, Types(real)).kernels
    return model, [len(k.targets) for k in kernels if isinstance(k, Reduce)]


def graph(results: str, body: str, given: str = "x: real[40, 48];") -> str:
    return f"""import math; import nn; import layout;
        operator half {{
            @input {{ x: int[a, b]; y: int[a, b]; }} @output {{ z: int[a, b]; }}
            @lower {{ z[i, j] = x[i, j] / y[i, j], i < a, j < b; }}
        }}
        graph G {{ @input {{ {given} }} @output {{ {results} }} @compose {{ {body} }} }}"""


def test_results_of_another_width() -> None:
    """Vectors of both would have other numbers of lanes."""
    text = graph("y: real[40, 48]; z: bool[40, 48];", "y = math.exp(x); z = math.gt(y, 1.0);")
    model, counts = counts_of(text)
    assert counts == [1, 1]
    x = np.random.default_rng(0).standard_normal((40, 48), np.float32)
    y, z = model.compile(threads=2)(x)
    np.testing.assert_allclose(y, np.exp(x), 1e-6)
    np.testing.assert_array_equal(z, y > 1)


def test_what_may_fail_is_by_itself() -> None:
    given = "x: int[40, 48]; y: int[40, 48];"
    text = graph("z: int[40, 48]; s: int[40, 48];", "z = half(x, y); s = math.add(x, z);", given)
    model, counts = counts_of(text)
    assert counts == [1, 1]
    x, y = np.arange(1, 1921).reshape(40, 48), np.full((40, 48), 3)
    exe = model.compile(threads=2)
    z, s = exe(x, y)
    np.testing.assert_array_equal(z, x // 3)
    np.testing.assert_array_equal(s, x + x // 3)
    y[7, 5] = 0
    with pytest.raises(ricci.Error, match="division of an integer by zero"):
        exe(x, y)


def test_another_shape_of_what_is_made() -> None:
    """A reader of all elements in a row is not over the same points."""
    body = "y = math.exp(x); r = layout.reshape{shape=[1920]}(y); z = math.sqr(r);"
    model, counts = counts_of(graph("y: real[40, 48]; z: real[1920];", body))
    assert counts == [1, 1]
    x = np.random.default_rng(0).standard_normal((40, 48), np.float32)
    y, z = model.compile(threads=2)(x)
    np.testing.assert_allclose(y, np.exp(x), 1e-6)
    np.testing.assert_allclose(z, np.exp(x).ravel() ** 2, 1e-6)


def test_a_step_of_a_recurrent_layer() -> None:
    """The new state, in the bytes of the old one, what it shows of that, and its place in the
    sequence are one map."""
    text = """import nn; graph G {
        @input { x: real[5, 3, 7]; w: real[44, 7]; r: real[44, 11]; b: real[44]; }
        @output { y: real[5, 3, 11]; last: real[3, 11]; cell: real[3, 11]; }
        @compose { y, last, cell = nn.lstm(x, w, r, b); }
    }"""
    model, counts = counts_of(text)
    assert counts.count(3) == 1
    g = np.random.default_rng(0)
    given = [g.standard_normal(s, np.float32) for s in ((5, 3, 7), (44, 7), (44, 11), (44,))]
    want = model.compile(target="interpreter")(*given)
    for got, value in zip(model.compile(threads=2)(*given), want, strict=True):
        np.testing.assert_allclose(got, value, 1e-4, 1e-5)


@pytest.mark.parametrize("real", ["float16", "bfloat16", "float64"])
def test_of_other_types(real: str) -> None:
    text = graph("y: real[40, 48]; z: real[40, 48];", "y = math.exp(x); z = math.mul(y, x);")
    model, counts = counts_of(text, DType(real))
    assert counts == [2]
    x = np.random.default_rng(0).standard_normal((40, 48), np.float32)
    y, z = model.compile(threads=2, real=real)(x)
    bound = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-6}[real]
    np.testing.assert_allclose(np.asarray(y, np.float64), np.exp(x.astype(np.float64)), bound)
    want = np.exp(x.astype(np.float64)) * x
    np.testing.assert_allclose(np.asarray(z, np.float64), want, bound, bound)


POINT = Index("i", integer(40))
A, B, C, D = (Tensor(name, DType.FLOAT32, (integer(40),)) for name in "ABCD")
OUTSIDE = Tensor("X", DType.FLOAT32, (integer(40),))
CONSTANT = Tensor("w", DType.FLOAT32, (integer(40),))


def of(tensor: Tensor) -> Access:
    return Access(tensor, (Subscript(POINT),))


def map_to(target: Tensor, *read: Tensor) -> Reduce:
    """The sum of elements of tensors."""
    value: Expr = of(read[0])
    for other in read[1:]:
        value = Binary("add", value, of(other))
    total = Local("acc0", value)
    return Reduce("map", (of(target),), (POINT,), (), "set", (value,), (), (total,), (total,))


def targets_after(*kernels: Reduce, views: Views | None = None) -> list[list[str]]:
    joined = join_maps(kernels, views or {}, [CONSTANT], [A, B, C, D])
    return [[t.tensor.name for t in k.targets] for k in joined if isinstance(k, Reduce)]


def test_what_another_name_of_a_tensor_is_for() -> None:
    """Whether tensors have the same bytes depends on what they are views of."""
    assert targets_after(map_to(A, OUTSIDE), map_to(B, OUTSIDE, C)) == [["A", "B"]]
    alone = [["A"], ["B"]]
    assert targets_after(map_to(A, OUTSIDE), map_to(B, OUTSIDE, C), views={C: A}) == alone
    assert targets_after(map_to(A, OUTSIDE, C), map_to(B, OUTSIDE), views={B: C}) == alone
    assert targets_after(map_to(A, OUTSIDE), map_to(B, OUTSIDE), views={B: A}) == alone


def test_a_map_that_leaves_out_elements_is_by_itself() -> None:
    """What it leaves out would be left out of the other's results, too."""
    first = map_to(A, OUTSIDE)
    before = Access(OUTSIDE, (Subscript(Binary("sub", POINT, ONE), Skip()),))
    total = Local("acc0", Binary("add", of(OUTSIDE), before))
    some = replace(map_to(B, OUTSIDE), initial=(total.value,), accumulators=(total,))
    some = replace(some, results=(total,))
    assert targets_after(first, some) == [["A"], ["B"]]
    assert targets_after(some, first) == [["B"], ["A"]]


def test_what_depends_on_constants_alone_is_by_itself() -> None:
    """It is done once, and not in each call."""
    once, often = map_to(A, CONSTANT), map_to(B, CONSTANT, OUTSIDE)
    assert targets_after(once, often) == [["A"], ["B"]]
    assert targets_after(often, once) == [["B"], ["A"]]
    assert targets_after(once, map_to(C, A, CONSTANT), often) == [["A", "C"], ["B"]]
    assert targets_after(once, often, map_to(C, OUTSIDE, CONSTANT)) == [["A"], ["B", "C"]]


def test_a_state_keeps_its_place() -> None:
    """Where one map reads all of a state, and the next one replaces it."""
    text = """
        operator turned {
            @input { a: real[n]; w: real[n]; } @output { p: real[n]; }
            @lower { p[i,] = a[n - 1 - i,] + w[i,], i < n; }
        }
        operator next {
            @input { a: real[n]; w: real[n]; } @output { b: real[n]; }
            @lower { b[i,] = a[i,] + w[i,], i < n; }
        }
        graph G {
            @input { x: real[4096]; w: real[4096]; n: int[]; }
            @output { y: real[4096]; u: real[4096]; }
            @compose {
                y, u = with a = x, c: real[4096] = 0.0 do..(n) {
                    q = turned(a, w); b = next(a, w); yield b, q;
                };
            }
        }"""
    model, _ = counts_of(text)
    assert lower(model.graph, {}, Types()).arena < 4096 * 4
    x, w = np.random.default_rng(0).standard_normal((2, 4096), np.float32)
    y, u = model.compile(threads=2)(x, w, np.array(2))
    np.testing.assert_allclose(y, x + w + w, 1e-5, 1e-6)
    np.testing.assert_allclose(u, (x + w)[::-1] + w, 1e-5, 1e-6)
