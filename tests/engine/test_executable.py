"""Calling compiled graphs: arguments, results, variables, errors."""

from __future__ import annotations

import numpy as np
import pytest

import ricci
from ricci.diagnostics import Error

TEXT = """
graph G {
  @input { x: real[3,5]; k: int[5]; }
  @output { y: real[3,5]; s: real[]; }
  @compose { y = scaled(x, k); s = total(y); }
}
operator scaled {
  @input { x: real[n,m]; k: int[m]; }
  @output { y: real[n,m]; }
  @lower { y[i,j] = x[i,j] * real(k[j,]), i < n, j < m; }
}
operator total {
  @input { x: real[n,m]; }
  @output { y: real[]; }
  @lower { y[] = 0.0; y[] += x[i,j], i < n, j < m; }
}
"""

WEIGHTED = """
graph G {
  @input { x: real[4]; }
  @output { y: real[4]; }
  @variable { w: real[4]; }
  @compose { y = times(x, w); }
}
operator times {
  @input { a: real[n]; b: real[n]; }
  @output { y: real[n]; }
  @lower { y[i,] = a[i,] * b[i,], i < n; }
}
"""

SYMBOLIC = """
graph G {
  @input { x: real[n|9, 4]; }
  @output { y: real[n]; }
  @compose { y = rows(x); }
}
operator rows {
  @input { x: real[n,m]; }
  @output { y: real[n]; }
  @lower { y[i,] = 0.0, i < n; y[i,] += x[i,j], i < n, j < m; }
}
"""

GATHER = """
graph G {
  @input { x: real[6]; k: int[4]; }
  @output { y: real[4]; }
  @compose { y = pick(x, k); }
}
operator pick {
  @input { x: real[n]; k: int[m]; }
  @output { y: real[m]; }
  @lower { y[i,] = x[k[i,],], i < m; }
}
"""

PACK = """
graph G {
  @input { xs: real[3]..(2); }
  @output { ys: real[3]..(2); }
  @compose { ys = twice(xs); }
}
operator twice {
  @input { xs: real[n]..(k); }
  @output { ys: real[n]..(k); }
  @lower { unroll..(j -> k) ys[j][i,] = xs[j][i,] * 2.0, i < n; }
}
"""

X = np.arange(15, dtype=np.float32).reshape(3, 5)
K = np.array([1, -1, 2, 0, 3])


@pytest.fixture(scope="module")
def exe() -> ricci.Executable:
    return ricci.parse(TEXT).compile(threads=1)


def test_results_are_a_named_tuple(exe: ricci.Executable) -> None:
    out = exe(X, K)
    np.testing.assert_array_equal(out.y, X * K)
    assert out.s.shape == () and out.s == (X * K).sum()
    assert exe.inputs[0].name == "x" and exe.inputs[0].shape == (3, 5)
    assert [p.dtype for p in exe.inputs] == ["float32", "int64"]


def test_arguments_by_name_and_in_any_layout(exe: ricci.Executable) -> None:
    want = exe(X, K).y
    fortran = np.asfortranarray(X)
    reversed_ = np.ascontiguousarray(X[::-1])[::-1]
    frozen = X.copy()
    frozen.flags.writeable = False
    big = X.astype(">f4")
    odd = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 5)
    for x in (fortran, reversed_, frozen, big, odd, X.astype(np.float64), X.tolist()):
        np.testing.assert_array_equal(exe(k=K, x=x).y, want)
    np.testing.assert_array_equal(exe(X, K.astype(np.uint8) * 0 + 1).y, X)


def test_inputs_are_not_modified(exe: ricci.Executable) -> None:
    x, k = X.copy(), K.copy()
    exe(x, k)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(k, K)


def test_torch_in_torch_out(exe: ricci.Executable) -> None:
    torch = pytest.importorskip("torch")
    out = exe(torch.from_numpy(X).T.contiguous().T, K)
    assert isinstance(out.y, torch.Tensor)
    np.testing.assert_array_equal(out.y.numpy(), X * K)


@pytest.mark.parametrize(
    ("args", "kwargs", "part"),
    [
        ((X,), {}, "`k`"),
        ((X, K, K), {}, "3 were given"),
        ((X, K), {"x": X}, "given twice"),
        ((X,), {"z": K}, "no input `z`"),
        ((X, K.astype(float)), {}, "element type"),
        ((X.astype(complex), K), {}, "element type"),
        ((X[0], K), {}, "number of dimensions"),
        ((X[:2], K), {}, "shape"),
        ((None, K), {}, "`x`"),
        (("text", K), {}, "not an array"),
        (([[1.0], [1.0, 2.0]], K), {}, "not an array"),
    ],
)
def test_wrong_arguments(
    exe: ricci.Executable, args: tuple[object, ...], kwargs: dict[str, object], part: str
) -> None:
    with pytest.raises(Error) as caught:
        exe(*args, **kwargs)
    assert [d.code for d in caught.value.diagnostics] == ["E0801"]
    assert part in str(caught.value)


def test_variables() -> None:
    exe = ricci.parse(WEIGHTED).compile(threads=1)
    (name,) = exe.variables
    x = np.ones(4, np.float32)
    with pytest.raises(Error, match="ricci init"):
        exe(x)
    for value in (2.0, 3.0):
        exe.variables[name] = np.full(4, value)
        np.testing.assert_array_equal(exe(x), np.full(4, value))
    with pytest.raises(Error, match="another shape"):
        exe.variables[name] = np.zeros(5)
    with pytest.raises(Error, match="no variable"):
        exe.variables["other"] = np.zeros(4)


def test_one_specialisation_per_size() -> None:
    exe = ricci.parse(SYMBOLIC).compile(threads=1)
    for n in (0, 1, 9, 3, 9):
        x = np.random.default_rng(n).normal(size=(n, 4)).astype(np.float32)
        np.testing.assert_allclose(exe(x), x.sum(1), 1e-5, 1e-6)
    with pytest.raises(Error) as caught:
        exe(np.zeros((10, 4), np.float32))
    assert caught.value.diagnostics[0].code == "E0804"
    assert exe.inputs[0].shape == ("n", 4)


@pytest.mark.parametrize("wrong", [-1, 6, 1 << 60])
def test_index_out_of_range_names_tensor_and_value(wrong: int) -> None:
    exe = ricci.parse(GATHER).compile(threads=1)
    x = np.arange(6, dtype=np.float32)
    with pytest.raises(Error) as caught:
        exe(x, np.array([0, 1, wrong, 2]))
    finding = caught.value.diagnostics[0]
    assert finding.code == "E0802" and f"index {wrong} " in finding.message
    np.testing.assert_array_equal(exe(x, np.array([5, 0, 2, 2])), [5, 0, 2, 2])


def test_packs() -> None:
    exe = ricci.parse(PACK).compile(threads=1)
    xs = [np.ones(3, np.float32), np.arange(3, dtype=np.float32)]
    ys = exe(xs)
    assert isinstance(ys, list)
    for x, y in zip(xs, ys, strict=True):
        np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(Error, match="pack"):
        exe(xs[:1])


def test_interpreter_has_the_same_interface() -> None:
    native = ricci.parse(TEXT).compile(threads=1)
    slow = ricci.parse(TEXT).compile(target="interpreter", real="float64")
    np.testing.assert_allclose(native(X, K).y, slow(X, K).y)
    assert slow.outputs[0].dtype == "float64"


@pytest.mark.parametrize("real", ["float16", "float64"])
def test_other_representations(real: str) -> None:
    exe = ricci.parse(TEXT).compile(threads=1, real=real, int="int32")
    out = exe(X, K)
    assert out.y.dtype == real
    np.testing.assert_array_equal(out.y, X * K)


def test_wrong_choices() -> None:
    with pytest.raises(Error, match="no target"):
        ricci.parse(TEXT).compile(target="gpu")
    with pytest.raises(Error, match="float99"):
        ricci.parse(TEXT).compile(real="float99")


INTEGERS = """
graph G {
  @input { a: int[20]; b: int[20]; }
  @output { y: int[20]; }
  @compose { y = f(a, b); }
}
operator f {
  @input { a: int[n]; b: int[n]; }
  @output { y: int[n]; }
  @lower { y[i,] = a[i,] OP b[i,], i < n; }
}
"""


@pytest.mark.parametrize("op", ["/", "\\", "%", "**"])
@pytest.mark.parametrize("kind", ["int8", "int64"])
def test_integer_division_and_powers(op: str, kind: str) -> None:
    model = ricci.parse(INTEGERS.replace("OP", op))
    exe = model.compile(threads=1, int=kind)
    slow = model.compile(target="interpreter", int=kind)
    a = np.array([-7, 7, -8, 8, 0, 1, -1, 5, -5, 100] * 2)
    b = np.array([2, -2, 3, -3, 5, 7, 1, 5, -5, 3] * 2)
    np.testing.assert_array_equal(exe(a, b), slow(a, b))
    if op == "**":
        return
    b[7] = 0
    for run in (exe, slow):
        with pytest.raises(Error) as caught:
            run(a, b)
        assert caught.value.diagnostics[0].code == "E0803"


def test_least_integer_divided_by_minus_one_wraps() -> None:
    exe = ricci.parse(INTEGERS.replace("OP", "/")).compile(threads=1)
    a, b = np.full(20, -(1 << 63)), np.full(20, -1)
    np.testing.assert_array_equal(exe(a, b), a)
