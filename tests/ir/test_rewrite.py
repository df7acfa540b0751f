"""Rewriting keeps what does not change, shares what is shared, and follows locals."""

from __future__ import annotations

from ricci.dtypes import DType
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Const,
    Expr,
    Index,
    Local,
    Operation,
    Remap,
    Skip,
    Subscript,
    Symbol,
    Tensor,
    Unary,
    integer,
)
from ricci.ir.rewrite import (
    accesses,
    expressions,
    free_indices,
    free_symbols,
    map_assignment,
    rebuild,
    substitute,
    substitute_assignment,
    tensors_read,
    walk,
)
from ricci.ir.text import format_assignment, format_expr

from .programs import random_program

N = Symbol("n")
I0, J = Index("i", N), Index("j", integer(3))
X = Tensor("x", DType.REAL, (N,))
K = Tensor("k", DType.INT, (N,))
Y = Tensor("y", DType.REAL, (N,))


def same(node: Expr) -> Expr:
    return node


def test_nothing_changed_is_the_same_object() -> None:
    for seed in range(100):
        for operation in random_program(seed).graph.operations:
            assert isinstance(operation, Operation)
            for assignment in operation.body:
                assert map_assignment(assignment, same) is assignment
                assert substitute_assignment(assignment, {N: integer(3)}) is assignment
                for expr in expressions(assignment):
                    assert rebuild(expr, same) is expr


def test_shared_parts_are_visited_once() -> None:
    expr: Expr = I0
    for _ in range(200):
        expr = Binary("add", expr, expr)
    count = 0

    def counted(node: Expr) -> Expr:
        nonlocal count
        count += 1
        return node

    rebuild(expr, counted)
    assert count == 201
    assert len(list(walk(expr))) == 201
    changed = substitute(expr, {I0: J})
    assert len(list(walk(changed))) == 201
    assert free_indices(changed) == (J,)


def test_deep_chains() -> None:
    expr: Expr = I0
    for _ in range(5000):
        expr = Unary("neg", expr)
    assert free_indices(substitute(expr, {I0: J})) == (J,)


def test_substitution_reaches_subscripts_rules_and_locals() -> None:
    inner = Access(K, (Subscript(I0, Skip()),))
    local = Local("t", Access(X, (Subscript(inner, Remap(integer(0), Binary("sub", N, J))),)))
    target = Access(Y, (Subscript(I0),))
    a = Assignment((target,), "add", (Binary("mul", local, local),), (I0, J), (local,))
    assert free_indices(*a.values) == (I0, J)
    assert free_symbols(*a.values) == (N,)
    assert accesses(*a.values) == (inner, local.value)
    assert tensors_read(a) == (K, X)

    new = substitute_assignment(a, {N: integer(5), X: Tensor("z", DType.REAL, (integer(5),))})
    assert format_assignment(new) == (
        "with t = z[|k[|i|] <> 0 : 5 - j|]: y[i] += t * t  for i < 5, j < 3;"
    )
    assert new.domain[1] is J
    value = new.values[0]
    assert isinstance(value, Binary)
    assert value.lhs is value.rhs is new.locals[0]


def test_an_index_replaced_leaves_the_domain() -> None:
    target = Access(Y, (Subscript(I0),))
    value = Access(X, (Subscript(Binary("add", I0, J)),))
    a = Assignment((target,), "set", (value,), (I0, J))
    row = Index("row", integer(7))
    assert format_assignment(substitute_assignment(a, {I0: row, J: integer(2)})) == (
        "y[row] = x[row + 2]  for row < 7;"
    )


def test_map_assignment_changes_every_expression() -> None:
    def doubled(node: Expr) -> Expr:
        return Const(2.0, DType.REAL) if node == Const(1.0, DType.REAL) else node

    one = Const(1.0, DType.REAL)
    local = Local("t", one)
    a = Assignment(
        (Access(Y, (Subscript(I0),)),), "set", (Binary("add", local, one),), (I0,), (local,),
        Binary("lt", one, local),
    )  # fmt: skip
    new = map_assignment(a, doubled)
    assert format_assignment(new) == "with t = 2.0: y[i] = t + 2.0  for i < n  if 2.0 < t;"
    assert format_expr(local.value) == "1.0"
