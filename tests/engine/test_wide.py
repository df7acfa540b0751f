"""What one kernel makes of narrow numbers is rounded once, where it is stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import ricci
from ricci.backends.llvm import emit_arith
from ricci.backends.llvm.builder import Builder
from ricci.dtypes import BFLOAT16, DType, from_bfloat16, to_bfloat16
from ricci.ir.loops import Group, Reduce
from ricci.ir.nodes import (
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Subscript,
    Tensor,
    integer,
)
from ricci.passes.wide import hold, hold_in_float32

from .running import runnable_targets

KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
Numbers = tuple[np.ndarray, ...]


def drawn(real: str, count: int, *shape: int, seed: int = 0) -> Numbers:
    """Numbers of a narrow type, in float32."""
    rng = np.random.default_rng(seed)
    found = (rng.standard_normal(shape).astype(KINDS[real]) for _ in range(count))
    return tuple(a.astype(np.float32) for a in found)


def run(text: str, real: str, target: str, arrays: Numbers) -> list[np.ndarray]:
    """The results of a function, reals in float32."""
    function = ricci.parse(text.replace("REAL", real), "tc").compile(target=target)
    given = [to_bfloat16(a) if real == "bfloat16" else a.astype(np.float16) for a in arrays]
    results = function(*given)
    found = [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]
    return [
        from_bfloat16(r)
        if r.dtype == BFLOAT16
        else r.astype(np.float32)
        if r.dtype.kind == "f"
        else r
        for r in found
    ]


def stored(real: str, values: np.ndarray) -> np.ndarray:
    return values.astype(KINDS[real]).astype(np.float32)


PLACES = list(itertools.product(KINDS, runnable_targets()))


@pytest.mark.parametrize(("real", "target"), PLACES)
def test_an_expression_is_rounded_once(real: str, target: str) -> None:
    text = "def f(REAL(N) a, REAL(N) b, REAL(N) c) -> (y) { y(i) = (a(i) - b(i)) * c(i) + a(i) }"
    a, b, c = arrays = drawn(real, 3, 999)
    (got,) = run(text, real, target, arrays)
    np.testing.assert_array_equal(got, stored(real, (a - b) * c + a))
    (each,) = run(text, real, "interpreter", arrays)
    assert (each != got).mean() > 0.1, "the definition rounds each operation"


@pytest.mark.parametrize(("real", "target"), PLACES)
def test_what_follows_a_sum_is_rounded_with_it(real: str, target: str) -> None:
    """Sums here are exact in float32."""
    text = """def f(REAL(M,K) a, REAL(K,N) b, REAL(N) s, REAL(N) o) -> (y) {
        t(m,n) +=! a(m,k) * b(k,n)
        y(m,n) = t(m,n) * s(n) + o(n) > REAL(0.0) ? t(m,n) * s(n) + o(n) : REAL(0.0) }"""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((34, 40), (40, 48)))
    s, o = drawn(real, 2, 48)
    (got,) = run(text, real, target, (a, b, s, o))
    np.testing.assert_array_equal(got, stored(real, np.maximum((a @ b) * s + o, 0)))


@pytest.mark.parametrize("real", KINDS)
def test_what_has_steps_is_of_rounded_numbers(real: str) -> None:
    """A whole number next to which the exact value lies is not the one below it."""
    text = """def f(REAL(N) a, REAL(N) b) -> (y, z, w) {
        y(i) = floor(a(i) * b(i) + a(i))
        z(i) = int32(a(i) * b(i) + b(i))
        w(i) = REAL(round(a(i) * b(i))) * b(i) + a(i) }"""
    arrays = tuple(8 * a for a in drawn(real, 2, 4001))
    want = run(text, real, "interpreter", arrays)
    for target in runnable_targets():
        got = run(text, real, target, arrays)
        for g, w in zip(got[:2], want[:2], strict=True):
            np.testing.assert_array_equal(g, w, err_msg=target)
        a, b = arrays
        whole = stored(real, a * b)
        whole = np.sign(whole) * np.floor(np.abs(whole) + np.float32(0.5))
        np.testing.assert_array_equal(got[2], stored(real, whole * b + a))


@pytest.mark.parametrize(("real", "target"), PLACES)
def test_constants_are_numbers_of_the_type(real: str, target: str) -> None:
    text = "def f(REAL(N) a) -> (y) { y(i) = (a(i) + REAL(0.1)) * REAL(0.3) }"
    (a,) = arrays = drawn(real, 1, 500)
    (got,) = run(text, real, target, arrays)
    few, some = (stored(real, np.float32(x)) for x in (0.1, 0.3))
    np.testing.assert_array_equal(got, stored(real, (a + few) * some))


@pytest.mark.parametrize("target", runnable_targets())
def test_conditions_are_those_of_what_is_held(target: str) -> None:
    text = """def f(REAL(N) a, REAL(N) b) -> (y) {
        y(i) = a(i) * b(i) < b(i) ? a(i) * b(i) : b(i) - a(i) }"""
    a, b = arrays = drawn("bfloat16", 2, 777)
    (got,) = run(text, "bfloat16", target, arrays)
    np.testing.assert_array_equal(got, stored("bfloat16", np.where(a * b < b, a * b, b - a)))


@pytest.mark.parametrize("real", KINDS)
def test_rows_of_groups(real: str) -> None:
    """Those of a softmax, and of a normalisation: near what float64 gives, rounded once; the
    definition, which rounds between, is not."""
    softmax = """def f(REAL(64,1000) x) -> (y) {
        m(n) max=! x(n,j)
        e(n,j) = REAL(exp(x(n,j) - m(n)))
        s(n) +=! e(n,j)
        y(n,j) = e(n,j) / s(n) }"""
    (x,) = arrays = tuple(4 * a for a in drawn(real, 1, 64, 1000))
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    half = {"float16": 2**-11, "bfloat16": 2**-8}[real]
    least = {"float16": 2.0**-14, "bfloat16": 0.0}[real]  # below it numbers have fewer bits
    for target in runnable_targets():
        (got,) = run(softmax, real, target, arrays)
        there = exact > least
        assert (np.abs(got - exact)[there] <= 1.01 * half * exact[there]).all(), target
    (each,) = run(softmax, real, "interpreter", arrays)
    assert not (np.abs(each - exact)[there] <= 1.01 * half * exact[there]).all()


def test_extremes_are_chosen_and_not_rounded() -> None:
    """Beside a literal one comparison is enough, unless that is no number."""
    for literal, count in (("16576", 0), ("32704", 1)):
        b = Builder("f", "<16 x i16> %x")
        text = f"splat (i16 {literal})"
        emit_arith.binary(b, "min", "%x", text, DType.BFLOAT16, 16)
        emit_arith.binary(b, "max", text, "%x", DType.BFLOAT16, 16)
        assert b.text().count("fcmp uno") == count
        assert "add" not in b.text()


def kernel(make: Callable[[Access, Access], Expr]) -> Reduce:
    i = Index("i", integer(9))
    a, b, c = (Tensor(n, DType.BFLOAT16, (integer(9),)) for n in "abc")
    x, y, z = (Access(t, (Subscript(i),)) for t in (a, b, c))
    value = make(x, y)
    acc = Local("acc", value)
    return Reduce("k", (z,), (i,), (), "set", (value,), (), (acc,), (acc,))


def test_what_rounds_nothing_between_stays_as_it_is() -> None:
    for make in (
        lambda x, y: Binary("add", x, y),
        lambda x, y: x,
        lambda x, y: Binary("max", Binary("mul", x, y), x),
        lambda x, y: Select(Binary("lt", x, y), x, Const(0.0, DType.BFLOAT16)),
    ):
        given = kernel(make)
        assert hold(given) is given
    more = kernel(lambda x, y: Binary("add", Binary("mul", x, y), y))
    assert hold(more).results[0].dtype is DType.BFLOAT16
    assert hold(more).accumulators[0].dtype is DType.FLOAT32


def test_locals_are_made_anew_and_what_has_steps_is_not_touched() -> None:
    def make(x: Access, y: Access) -> Binary:
        shared = Local("shared", Binary("mul", x, y))
        steps = Apply("floor", (Binary("add", shared, y),))
        return Binary("add", Binary("sub", shared, y), steps)

    given = kernel(make)
    first = given.initial[0]
    assert isinstance(first, Binary)
    assert isinstance(first.lhs, Binary)
    shared = first.lhs.lhs
    assert isinstance(shared, Local)
    held = hold(replace(given, locals=(shared,)))
    (value,) = held.initial
    assert isinstance(value, Binary)
    assert isinstance(value.lhs, Binary)
    assert held.locals == (value.lhs.lhs,)
    assert isinstance(value.lhs.lhs, Local)
    assert value.lhs.lhs.dtype is DType.FLOAT32
    assert isinstance(value.rhs, Cast)
    assert value.rhs.operand is first.rhs  # as it was


def test_literals_are_those_of_the_type_and_recurrences_stay() -> None:
    given = kernel(lambda x, y: Binary("add", Binary("mul", x, y), Const(0.1, DType.BFLOAT16)))
    (value,) = hold(given).initial
    assert isinstance(value, Binary)
    assert value.rhs == Const(0.10009765625, DType.FLOAT32)
    steps = replace(given, op="update", reduced=(Index("k", integer(4)),))
    assert hold(steps) is steps


def test_threads_keep_rows_of_float32() -> None:
    first = kernel(lambda x, y: Binary("add", x, y))
    made = first.targets[0].tensor
    second = kernel(lambda x, y: Binary("mul", x, y))
    read = first.targets[0]
    value = Binary("mul", read, read)
    acc = Local("acc", value)
    second = Reduce("l", second.targets, first.domain, (), "set", (value,), (), (acc,), (acc,))
    group = Group("g", first.domain, (first, second), (made,))
    (held,) = hold_in_float32([group])
    assert isinstance(held, Group)
    (row,) = held.local
    assert row.dtype is DType.FLOAT32
    assert held.kernels[0].targets[0].tensor is row
    assert isinstance(held.kernels[0].accumulators[0].value, Binary)
    assert held.kernels[0].accumulators[0].dtype is DType.FLOAT32  # not rounded in between
    assert held.kernels[1].targets[0].dtype is DType.BFLOAT16
    assert held.kernels[1].results[0].dtype is DType.BFLOAT16
