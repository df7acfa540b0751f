"""Simplification of integer expressions: values kept, canonical, and what it must prove."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import isfinite

import pytest

from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir import shapes
from ricci.ir.nodes import (
    FALSE,
    TRUE,
    Apply,
    Binary,
    BinaryOp,
    Cast,
    Const,
    Expr,
    Index,
    Select,
    Symbol,
    Unary,
    integer,
)
from ricci.ir.text import format_expr

N = Symbol("n", integer(9))
M = Symbol("m", integer(6))
U = Symbol("u")
I0 = Index("i", N)
J = Index("j", integer(4))
K = Index("k", integer(7))
H = Index(
    "h", Binary("add", Binary("floordiv", Binary("sub", N, integer(3)), integer(2)), integer(1))
)
ATOMS: tuple[Expr, ...] = (N, M, I0, J, K)


def c(value: int) -> Const:
    return integer(value)


def e(op: BinaryOp, a: Expr | int, b: Expr | int) -> Expr:
    return Binary(op, c(a) if isinstance(a, int) else a, c(b) if isinstance(b, int) else b)


# ------------------------------------------------------------ random programs


def random_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(ATOMS) if rng.random() < 0.6 else c(rng.randint(-12, 12))
    kind = rng.random()
    if kind < 0.05:
        return Unary("neg", random_expr(rng, depth - 1))
    if kind < 0.1:
        return Apply(rng.choice(("abs", "sign")), (random_expr(rng, depth - 1),))
    if kind < 0.16:
        sides = random_expr(rng, depth - 1), random_expr(rng, depth - 1)
        return Select(random_condition(rng, depth - 1), *sides)
    if kind < 0.18:
        return Cast(DType.INT, random_condition(rng, depth - 1))
    op: BinaryOp = rng.choice(
        ("add", "add", "sub", "mul", "mul", "floordiv", "floordiv", "ceildiv", "mod", "min", "max")
    )
    if op in ("floordiv", "ceildiv", "mod") and rng.random() < 0.7:
        return Binary(
            op, random_expr(rng, depth - 1), c(rng.choice((1, 2, 3, 4, 6, 8, -1, -2, -3)))
        )
    return Binary(op, random_expr(rng, depth - 1), random_expr(rng, depth - 1))


def random_condition(rng: random.Random, depth: int) -> Expr:
    if depth > 0 and rng.random() < 0.3:
        op: BinaryOp = rng.choice(("and", "or", "xor"))
        result: Expr = Binary(
            op, random_condition(rng, depth - 1), random_condition(rng, depth - 1)
        )
        return Unary("not", result) if rng.random() < 0.3 else result
    compared: BinaryOp = rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
    return Binary(compared, random_expr(rng, depth - 1 if depth else 0), random_expr(rng, 0))


def random_env(rng: random.Random) -> dict[Symbol | Index, int]:
    n, m = rng.randint(1, 9), rng.randint(0, 6)
    return {N: n, M: m, I0: rng.randrange(n), J: rng.randrange(4), K: rng.randrange(7)}


def value_of(expr: Expr, env: dict[Symbol | Index, int]) -> int | None:
    try:
        return shapes.evaluate(expr, env)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize("seed", range(20))
def test_simplify_keeps_values_is_idempotent_and_bounds_hold(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        expr = random_expr(rng, rng.randint(1, 5))
        envs = [random_env(rng) for _ in range(25)]
        try:
            simple = shapes.simplify(expr)
        except ZeroDivisionError:
            continue
        text = f"seed {seed}: {format_expr(expr)} -> {format_expr(simple)}"
        low, high = shapes.interval(expr)
        for env in envs:
            value = value_of(expr, env)
            if value is not None:
                shown = {x.name: v for x, v in env.items()}
                assert value_of(simple, env) == value, f"{text} at {shown}"
                assert low <= value <= high, f"{text} at {shown}: bounds {low}, {high}"
        assert shapes.simplify(simple) == simple, (
            f"{text} -> {format_expr(shapes.simplify(simple))}"
        )


def test_simplification_to_an_error_only_where_every_value_is_one() -> None:
    rng = random.Random(5)
    for _ in range(1500):
        expr = random_expr(rng, 3)
        try:
            shapes.simplify(expr)
        except ZeroDivisionError:
            lazy = any(isinstance(x, Select) for x in _nodes(expr))
            assert lazy or value_of(expr, random_env(rng)) is None, format_expr(expr)


def _nodes(expr: Expr) -> list[Expr]:
    from ricci.ir.rewrite import walk

    return list(walk(expr))


# ---------------------------------------------------------------- known forms

FORMS: list[tuple[Expr, str]] = [
    (e("add", e("mul", N, 2), e("sub", 3, N)), "n + 3"),
    (e("sub", e("add", N, I0), N), "i"),
    (e("mul", e("add", N, 1), e("sub", N, 1)), "n * n - 1"),
    (e("floordiv", e("add", e("mul", I0, 4), J), 4), "i"),
    (e("mod", e("add", e("mul", I0, 4), J), 4), "j"),
    (e("floordiv", e("add", e("mul", I0, 8), J), 4), "2 * i"),
    (e("floordiv", e("add", e("mul", N, 4), J), 8), "n / 2"),
    (e("mod", e("add", e("mul", N, 4), J), 8), "j + 4 * (n % 2)"),
    (e("floordiv", e("add", N, 5), 4), "(n + 1) / 4 + 1"),
    (e("floordiv", e("floordiv", N, 2), 3), "n / 6"),
    (e("floordiv", e("add", e("floordiv", N, 2), 1), 3), "(n + 2) / 6"),
    (e("ceildiv", N, 2), "(n + 1) / 2"),
    (e("mod", e("mod", N, 6), 3), "n % 3"),
    (e("add", e("mul", 4, e("floordiv", N, 4)), e("mod", N, 4)), "n"),
    (e("floordiv", I0, N), "0"),
    (e("mod", I0, N), "i"),
    (e("mod", e("add", e("mul", I0, 3), 2), 3), "2"),
    (e("floordiv", N, -2), "-n / 2"),
    (e("min", N, e("add", N, 1)), "n"),
    (e("max", J, 3), "3"),
    (e("max", J, -1), "j"),
    (e("min", e("max", N, 0), 100), "n"),
    (e("floordiv", e("mul", e("add", N, 1), 3), e("add", N, 1)), "3"),
    (e("lt", I0, N), "true"),
    (e("ge", J, 4), "false"),
    (e("eq", e("mul", I0, 2), e("add", e("mul", J, 4), 1)), "false"),
    (Select(e("lt", J, 4), N, M), "n"),
    (Unary("not", e("lt", N, M)), "n >= m"),
]


@pytest.mark.parametrize(("expr", "expected"), FORMS, ids=[f for _, f in FORMS])
def test_known_forms(expr: Expr, expected: str) -> None:
    assert format_expr(shapes.simplify(expr)) == expected


PROVED: list[tuple[Callable[[Expr, Expr], bool], Expr, Expr]] = [
    (shapes.equal, e("mul", e("add", N, M), 2), e("add", e("mul", M, 2), e("mul", N, 2))),
    (shapes.equal, e("ceildiv", N, 4), e("floordiv", e("add", N, 3), 4)),
    (shapes.less, I0, N),
    (shapes.less_equal, e("mul", 4, e("floordiv", N, 4)), N),
    # the last row that a strided window reaches stays inside
    (shapes.less, e("add", e("mul", H, 2), 2), N),
    (shapes.less_equal, e("min", N, M), M),
    (shapes.less_equal, N, e("max", N, U)),
    (shapes.less, e("sub", e("sub", N, 1), I0), N),
]


@pytest.mark.parametrize(("relation", "a", "b"), PROVED)
def test_proved_relations(relation: Callable[[Expr, Expr], bool], a: Expr, b: Expr) -> None:
    assert relation(a, b)
    assert not shapes.less(b, a)


def test_what_is_not_certain_is_not_claimed() -> None:
    assert not shapes.equal(N, M)
    assert not shapes.less(M, N)
    assert shapes.simplify(e("floordiv", e("mul", N, M), N)) == e("floordiv", e("mul", M, N), N)


def test_constant_division_by_zero_is_an_error() -> None:
    for operation in (shapes.floordiv, shapes.ceildiv, shapes.mod):
        for dividend in (c(3), c(0), N):
            with pytest.raises(ZeroDivisionError):
                operation(dividend, c(0))


def test_intervals_with_given_ranges() -> None:
    expr = e("add", e("mul", I0, 3), K)
    assert shapes.interval(expr, {I0: (2, 4), K: (0, 1)}) == (6, 13)
    assert shapes.interval(e("mod", U, 5)) == (0, 4)
    assert not isfinite(shapes.interval(U)[1])


def test_affine_and_divisible() -> None:
    assert shapes.affine(e("sub", e("add", e("mul", I0, 3), N), 2)) == ({I0: 3, N: 1}, -2)
    assert shapes.affine(e("mul", I0, N)) is None
    assert shapes.divisible(e("add", e("mul", I0, 6), e("mul", N, 4)), 2)
    assert not shapes.divisible(e("add", e("mul", I0, 6), N), 2)


def test_linear_in_indices_with_coefficients_of_symbols() -> None:
    half = shapes.floordiv(M, c(2))
    found = shapes.linear(e("add", e("mul", e("add", e("mul", I0, N), J), half), M))
    assert found == ({I0: shapes.mul(N, half), J: half}, M)
    assert shapes.linear(e("mul", I0, J)) is None
    assert shapes.linear(shapes.floordiv(I0, c(2))) is None


def test_logic_folds() -> None:
    p = e("lt", N, M)
    assert shapes.logical_and(TRUE, p) is p
    assert shapes.logical_and(p, FALSE) is FALSE
    assert shapes.logical_or(p, TRUE) is TRUE
    assert shapes.logical_xor(p, p) is FALSE


def test_long_sums_do_not_exhaust_the_stack() -> None:
    expr: Expr = N
    for _ in range(3000):
        expr = Binary("add", expr, c(1))
    assert format_expr(shapes.simplify(expr)) == "n + 3000"
    assert shapes.evaluate(expr, {N: 1}) == 3001


def test_expressions_without_end_are_refused_in_time() -> None:
    size: Expr = N
    with pytest.raises(Error, match="E0901"):
        for _ in range(60):
            size = shapes.floordiv(shapes.add(shapes.mul(size, size), size), c(3))


def test_proofs_take_bounded_time() -> None:
    symbols = [Symbol(f"s{k}", c(50)) for k in range(16)]
    indices = [Index(f"i{k}", s) for k, s in enumerate(symbols)]
    place: Expr = c(0)
    for index, symbol in zip(indices, symbols, strict=True):
        place = shapes.add(shapes.mul(place, symbol), index)
    assert shapes.less(place, shapes.product(*symbols))
    assert format_expr(shapes.floordiv(place, shapes.product(*symbols))) == "0"
    low, high = shapes.interval(shapes.product(*indices, *symbols, c(2**63), U))
    assert low == 0
    assert high > 2**63
    least: Expr = c(1000)
    for k in range(60):
        least = shapes.minimum(least, shapes.add(symbols[k % 16], shapes.mul(c(k), symbols[3])))
    assert shapes.less_equal(least, c(1000))


def test_shared_parts_are_not_written_out() -> None:
    twice: Expr = N
    for _ in range(60):
        twice = Binary("add", twice, twice)
    assert shapes.interval(twice) == (0, 9 * 2**60)
    assert shapes.equal(twice, shapes.mul(N, c(2**60)))
    square: Expr = N
    for _ in range(60):
        square = Binary("mul", square, Binary("add", square, N))
    with pytest.raises(Error, match="E0901"):
        shapes.interval(square)


def test_places_whose_windows_are_inside_are_counted() -> None:
    r = random.Random(0)
    for _ in range(300):
        low, reach, step = r.randint(-9, 9), r.randint(0, 9), r.randint(1, 4)
        count, size = r.randint(1, 12), r.randint(1, 20)
        places = (range(low + step * i, low + step * i + reach + 1) for i in range(count))
        want = sum(all(0 <= x < size for x in place) for place in places)
        assert shapes.count_inside(low, low + reach, step, count, size) == want
    assert shapes.count_inside(-2, 2, 1, 10**18, 10**18) == 10**18 - 4
