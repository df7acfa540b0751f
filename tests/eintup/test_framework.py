"""The call line: what its names and arguments stand for, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error, Report
from ricci.eintup.framework import CallFailed, Oracle
from ricci.frontends.eintup.check import check_file
from ricci.frontends.eintup.parser import parse_file
from ricci.frontends.eintup.program import Configuration, Program
from ricci.source import Source

Array = np.ndarray[Any, np.dtype[Any]]

X = np.arange(6.0).reshape(2, 3)
AT = Configuration({"a": (2,), "b": (3,)})


def program(call: str, constraints: str = "", outputs: str = "Y") -> Program:
    text = (
        "X[a, b] = RANDOM(0, 1, FLOAT)\nI[a] = RANDOM(0, 3, INT)\nY[a, b] = X[a, b]\n"
        f"Z[a] = X[a, b]\n\n{call}\n\n{outputs}\n\n{constraints}"
    )
    report = Report()
    made = check_file(parse_file(Source("<et>", text), report), report)
    report.raise_errors()
    return made


def run(
    call: str, arrays: Mapping[str, Array] | None = None, at: Configuration = AT
) -> list[Array]:
    made = program(call)
    assert made.file.call is not None
    given = {"X": X, "I": np.array([2, 0], np.int32), **(arrays or {})}
    return Oracle(made, made.file.call).run(at, given)


def fails(call: str) -> Error:
    with pytest.raises(Error) as caught:
        run(call)
    return caught.value


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("tf.reshape(X, DIMS(b, a))", X.reshape(3, 2)),
        ("tf.reshape(X, TENSOR(DIMS(b, a)))", X.reshape(3, 2)),
        ("tf.reshape(tensor=X, shape=-1)", X.reshape(-1)),
        ("tf.reduce_sum(X, axis=RANK(a))", X.sum(1)),
        ("tf.reduce_sum(X, axis=TENSOR(RANK(a)))", X.sum(1)),
        ("tf.fill(DIMS(a, 0), L(7))", np.full((2, 1), 7)),
        ("tf.one_hot(I, DIMS(b)[0], dtype=tf.float64)", np.eye(3)[[2, 0]]),
        ("tf.transpose(tf.gather(X, I, axis=L(1)))", X[:, [2, 0]].T),
        ("tf.cast(tf.linalg.matmul(X, X, transpose_b=True), tf.int32)", (X @ X.T).astype(int)),
        ("np.copy(tf.unstack(X)[1])", X[1]),
        ("torch.transpose(X, 0, 1)", X.T),
        ("torch.full(DIMS(a, b), 2, dtype=torch.int64)", np.full((2, 3), 2)),
        ("torch.nn.functional.softplus(X, beta=2.0)", np.log1p(np.exp(2 * X)) / 2),
        ("np.einsum(L('ab->ba'), X)", X.T),
        ("numpy.linalg.norm(X, axis=RANK(b))", np.sqrt((X**2).sum(1))),
        ("np.add(X, tf.square(X))", X + X**2),
        ("np.copy(np.reshape(X, DIMS(b, a)))", X.reshape(3, 2)),
        ("np.where(np.isinf(np.full(2, np.inf)), np.pi, np.e)", np.full(2, np.pi)),
        ("np.sum(X, axis=np.newaxis)", X.sum()),
        ("torch.add(X, np.square(X))", X + X**2),
    ],
)
def test_calls(call: str, expected: Array) -> None:
    (result,) = run(call)
    assert result.shape == expected.shape and result.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(result, expected, 1e-12)


def test_arrays_of_inner_calls_are_known() -> None:
    made = program("tf.add(tf.square(X), tf.unstack(Z)[0])")
    assert made.file.call is not None
    assert Oracle(made, made.file.call).arrays == ("X", "Z")


def test_several_results() -> None:
    one, two = run("tf.meshgrid(I, I, indexing='ij')")
    assert one.tolist() == [[2, 2], [0, 0]] and two.tolist() == [[2, 0], [2, 0]]
    values, indices = run("torch.max(X, 1)")
    assert values.tolist() == [2, 5] and indices.dtype == np.int64
    assert run("np.shape(X)")[0].tolist() == [2, 3]
    assert run("np.sum(X)")[0].shape == ()


def test_dims_are_those_of_the_configuration() -> None:
    at = Configuration({"a": (), "b": (2, 1, 3)})
    assert run("np.ones(DIMS(a, b))", {"X": X[0]}, at)[0].shape == (2, 1, 3)
    assert run("np.ones(DIMS(b)[2])", {"X": X[0]}, at)[0].shape == (3,)
    assert run("np.full(2, RANK(a, b))", {"X": X[0]}, at)[0].tolist() == [3, 3]


def test_arrays_cannot_be_changed_by_a_call() -> None:
    before = X.copy()
    run("torch.Tensor.zero_(X)")
    run("np.add(X, 1, X)")
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("os.system(L('true'))", "E0203", "no framework `os`"),
        ("tff.add(X, X)", "E0203", "did you mean `tf`"),
        ("tf.linalg.matmull(X)", "E0203", "did you mean `matmul`"),
        ("torch.os.system(L('true'))", "E0203", "`torch` has no `os`"),
        ("torch.functional.warnings.warn(L('x'))", "E0203", "has no `warnings`"),
        ("torch.types.Any(X)", "E0203", "`torch.types` has no `Any`"),
        ("np.__loader__(X)", "E0204", "may not use `__loader__`"),
        ("np.add.__class__(X)", "E0204", "may not use `__class__`"),
        ("np.save(L('x'), X)", "E0204", "may not use `save`"),
        ("np.testing.runstring(L('1'), L(None))", "E0204", "may not use `testing`"),
        ("tf.io.read_file(L('x'))", "E0204", "may not use `io`"),
        ("tf.raw_ops.WriteFile(filename=L('x'))", "E0204", "may not use `WriteFile`"),
        ("np.DataSource.open(X)", "E0204", "may not use `DataSource`"),
        ("np.lib.npyio.DataSource.open(X)", "E0204", "may not use `DataSource`"),
        ("np.test()", "E0204", "may not use `test`"),
        ("np.seterr(all=L('raise'))", "E0204", "may not use `seterr`"),
        ("torch.set_default_dtype(torch.float16)", "E0204", "may not use `set_default_dtype`"),
        ("torch.manual_seed(3)", "E0204", "may not use `manual_seed`"),
        ("np.pi(X)", "E0204", "`np.pi` is not a function"),
        ("np.add(np.pi(X), X)", "E0204", "`np.pi` is not a function"),
        ("tf.add(x=X, y=X, x=X)", "E0202", "the argument `x` is given twice"),
        ("tf.cast(X, tf.floot32)", "E0203", "`tf` has no `floot32`"),
    ],
)
def test_names_that_are_refused(call: str, code: str, words: str) -> None:
    problem = fails(call)
    (finding,) = problem.diagnostics
    assert finding.code == code and words in finding.render()
    assert finding.span.text in call


def test_a_framework_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    (finding,) = fails("jnp.matmul(X, X)").diagnostics
    assert finding.code == "E0203"
    assert finding.message == "JAX, which the call needs, is not installed"
    assert finding.help == "pip install jax"


def test_a_framework_that_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    (finding,) = fails("jnp.matmul(X, X)").diagnostics
    assert "cannot be imported" in finding.message and "jax.numpy" in finding.notes[0]


def test_jax_computes_with_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for JAX, which is not installed for tests: arrays are narrow unless it is told."""
    wide = [False]

    @contextmanager
    def enable_x64(on: bool) -> Iterator[None]:
        wide[0] = on
        yield
        wide[0] = False

    jax, jnp = ModuleType("jax"), ModuleType("jax.numpy")
    jnp.__dict__["asarray"] = lambda a: a if wide[0] else a.astype(np.float32)
    jnp.__dict__["square"] = np.square
    jax.__dict__.update(numpy=jnp, enable_x64=enable_x64)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setitem(sys.modules, "jax.numpy", jnp)
    for call in ("jnp.square(X)", "jax.numpy.square(X)"):
        (result,) = run(call)
        assert result.dtype == np.float64 and not wide[0]
        np.testing.assert_array_equal(result, X * X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("tf.linalg.matmul(X, X)", r"InvalidArgumentError: .*[^}]\[2,3\]"),
        ("tf.nn.softmax(X, axis=5)", "Error: "),
        ("torch.matmul(X, X)", "RuntimeError: mat1 and mat2 shapes cannot be multiplied"),
        ("np.reshape(X, 7)", "ValueError: cannot reshape array of size 6 into shape"),
        ("np.reshape(X, bad=1)", "TypeError: "),
        ("np.copy(tf.unstack(X)[2])", "IndexError: "),
        ("np.copy(np.sum(X)[0])", r"item \[0\]: IndexError: "),
        ("tf.strings.as_string(X)", "a result of the call is not an array of numbers"),
        ("np.array(X, dtype='complex64')", "is not an array of numbers"),
    ],
)
def test_what_a_framework_says(call: str, words: str) -> None:
    with pytest.raises(CallFailed, match=words) as caught:
        run(call)
    assert "\n" not in str(caught.value) and "{{" not in str(caught.value)
