"""Legality: random programs are legal, and each broken rule is found."""

from __future__ import annotations

import pytest

from ricci.dtypes import DType
from ricci.ir.nodes import (
    TRUE,
    Access,
    Apply,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Operation,
    Port,
    Select,
    Subscript,
    Symbol,
    Tensor,
    Unary,
    integer,
)
from ricci.ir.text import parse_graph
from ricci.ir.verify import STAGES, Illegal, verify_graph

from .programs import random_program

N = Symbol("n")
I0 = Index("i", integer(3))
J = Index("j", integer(3))
X = Tensor("x", DType.REAL, (integer(3),))
Y = Tensor("y", DType.REAL, (integer(3),))
HALF = Const(0.5, DType.REAL)


def test_random_programs_are_legal() -> None:
    for seed in range(200):
        graph = random_program(seed, dynamic=seed % 2 == 1).graph
        verify_graph(graph)
        with pytest.raises(Illegal):
            verify_graph(graph, "static")


def read(tensor: Tensor, *indices: Expr) -> Access:
    return Access(tensor, tuple(map(Subscript, indices)))


def program(assignment: Assignment, **changes: object) -> Graph:
    operation = Operation("f", (Y,), (assignment,), (X,))
    fields: dict[str, object] = {
        "inputs": (Port("x", (X,)),),
        "outputs": (Port("y", (Y,)),),
        "operations": (operation,),
        **changes,
    }
    return Graph("g", **fields)


def y_is(value: Expr, **changes: object) -> Graph:
    fields: dict[str, object] = {
        "targets": (read(Y, I0),),
        "op": "set",
        "values": (value,),
        "domain": (I0,),
        **changes,
    }
    return program(Assignment(**fields))


LATER = Local("t", HALF)

ILLEGAL: list[tuple[Graph, str]] = [
    (y_is(integer(1)), "a value of int for `y`: real"),
    (y_is(read(X, I0, I0)), "2 subscripts for 1 dimensions"),
    (y_is(read(X, HALF)), "a subscript of real"),
    (y_is(read(X, J)), "`j` is not defined here"),
    (y_is(LATER), "`t` is not defined here"),
    (y_is(LATER, locals=(Local("u", LATER), LATER)), "`t` is not defined here"),
    (y_is(HALF, domain=(I0, I0)), "an index occurs twice"),
    (y_is(HALF, condition=integer(1)), "the condition is not a bool"),
    (y_is(HALF, values=(HALF, HALF)), "1 targets for 2 values"),
    (y_is(HALF, op="and"), "reduction `and` of real"),
    (y_is(Binary("add", HALF, integer(1))), "operands of real and int"),
    (y_is(Binary("floordiv", HALF, HALF)), "`floordiv` of real"),
    (y_is(Cast(DType.REAL, Binary("div", I0, I0))), "`div` of int"),
    (y_is(Cast(DType.REAL, Binary("and", I0, I0))), "`and` of int"),
    (y_is(Cast(DType.REAL, Unary("not", I0))), "`not` of int"),
    (y_is(Select(I0, HALF, HALF)), "a condition that is not a bool"),
    (y_is(Select(TRUE, HALF, I0)), "sides of real and int"),
    (y_is(Cast(DType.REAL, Apply("sqrt", (I0,)))), "`sqrt` of int"),
    (y_is(Apply("sqrt", (HALF, HALF))), "2 arguments"),
    (y_is(Const(1, DType.BOOL)), "a value of bool"),
    (y_is(Cast(DType.REAL, Const(1, DType.BOOL))), "1 is no bool"),
    (y_is(Cast(DType.REAL, Const("1", DType.STR))), "a cast of str to real"),
    (y_is(Cast(DType.REAL, N)), "`n` is not a symbol of the graph"),
    (y_is(HALF, domain=(I0, Index("k", N))), "depends on `n`"),
    (y_is(HALF, domain=(I0, Index("k", HALF))), "is real, not int"),
    (y_is(HALF, targets=(read(X, I0),)), "`x` is not an output of this operation"),
    (program(Assignment((read(Y, I0),), "set", (HALF,), (I0,)), inputs=()), "uses `x` before"),
    (program(Assignment((read(Y, I0),), "set", (HALF,), (I0,)), operations=()), "uses `y` before"),
    (
        program(
            Assignment((read(Y, I0),), "set", (HALF,), (I0,)),
            operations=(Operation("f", (Y,), ()), Operation("f", (Y,), ())),
        ),
        "`y` is computed twice",
    ),
    (y_is(read(Tensor("z", DType.REAL, (integer(3),)), I0)), "uses `z` before"),
]


@pytest.mark.parametrize(("graph", "message"), ILLEGAL, ids=[m for _, m in ILLEGAL])
def test_broken_rules_are_found(graph: Graph, message: str) -> None:
    with pytest.raises(Illegal) as caught:
        verify_graph(graph)
    assert message in str(caught.value)


TEXTS = [
    ("graph g { constant c: int[3] = {1, 2}; }", "composed", "2 elements of data"),
    ("graph g { input x = x: real[3]; }", "concrete", "an abstract dtype"),
    ("graph g { symbol n; input x = x: float32[n]; }", "static", "symbols in a static graph"),
    ("graph g { input a = a: int[]; variable v: real[]; update v = a; }", "composed", "another"),
    ("graph g { size n; input x = x: real[]; size n = x; }", "composed", "no"),
    ("graph g { check 1; }", "composed", "not a bool"),
]


@pytest.mark.parametrize(("text", "stage", "message"), TEXTS)
def test_broken_rules_of_graphs(text: str, stage: str, message: str) -> None:
    graph = parse_graph(text)
    earlier = STAGES[: STAGES.index(stage)]
    for allowed in earlier:
        verify_graph(graph, allowed)
    with pytest.raises(Illegal, match=message):
        verify_graph(graph, stage)
