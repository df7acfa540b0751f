"""The text form: what is printed reads back, and prints the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from ricci.diagnostics import Error, Report
from ricci.dtypes import DType
from ricci.frontends.skriptnd import modules
from ricci.frontends.skriptnd.compose import compose
from ricci.ir.nodes import (
    Access,
    Assignment,
    Binary,
    Const,
    Graph,
    Index,
    Local,
    Operation,
    Port,
    Select,
    Skip,
    Subscript,
    Symbol,
    Tensor,
    Unary,
    integer,
)
from ricci.ir.text import format_expr, format_graph, parse_graph
from ricci.ir.text_print import Names
from ricci.ir.verify import verify_graph

from .programs import random_program

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*.sknd"))


def _round_trip(graph: Graph) -> str:
    text = format_graph(graph)
    again = parse_graph(text)
    verify_graph(again)
    assert format_graph(again) == text
    return text


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_read_back(first: int) -> None:
    for seed in range(first, first + 50):
        _round_trip(random_program(seed, dynamic=seed % 2 == 1).graph)


@pytest.mark.parametrize("path", PROGRAMS, ids=[p.stem for p in PROGRAMS])
def test_composed_programs_read_back(path: Path) -> None:
    report = Report()
    program = modules.load_file(path, report)
    report.raise_errors()
    for graph in program.graphs():
        composed = compose(program, graph, {})
        verify_graph(composed)
        _round_trip(composed)


def _graph_of(values: list[Const], names: tuple[str, str] = ("y", "y")) -> Graph:
    outputs = tuple(Tensor(names[0], v.dtype, ()) for v in values)
    body = tuple(
        Assignment((Access(t, ()),), "set", (v,), ()) for t, v in zip(outputs, values, strict=True)
    )
    operation = Operation(names[1], outputs, body, (), (("a key", 'a "text"\n'),))
    return Graph("a graph", (), (Port("out", outputs, packed=True),), (operation,))


def test_literals_of_every_type_read_back() -> None:
    values = [
        *(Const(v, DType.INT) for v in (0, -3, 2**62, float("inf"), float("-inf"))),
        *(
            Const(v, DType.REAL)
            for v in (0.0, -0.0, 0.1, 1e-300, -1e30, float("inf"), float("nan"))
        ),
        *(Const(v, DType.FLOAT32) for v in (1.5, float("-inf"))),
        *(Const(v, DType.BOOL) for v in (True, False)),
        *(Const(v, DType.INT8) for v in (-128, 127)),
        Const('a "quoted" \\ text', DType.STR),
    ]
    again = parse_graph(format_graph(_graph_of(values))).operations[0]
    assert isinstance(again, Operation)
    found = [a.values[0] for a in again.body]
    assert [repr(v) for v in found] == [repr(v) for v in values]


QUANTIZED = """\
graph main.G {
  input optional o = ;
  input optional x = x: real[2];
  y: real[2] = `=`(x) {
    y[i] = x[i]  for i < 2;
  }
  output y = y;
  quantize main.G.x = steps(x);
  quantize main.G.l.y = quant.steps{n = "[1, null]"}(y);
  quantize `a b` = `for`{n = "\\"no\\""}(y);
}
"""


def test_quantization_and_absent_inputs_read_back() -> None:
    graph = parse_graph(QUANTIZED)
    assert _round_trip(graph) == QUANTIZED
    assert [(p.name, len(p.tensors), p.optional) for p in graph.inputs] == [
        ("o", 0, True),
        ("x", 1, True),
    ]
    first, second, third = graph.quantization
    assert (first.tensor, first.name, first.operator) == (
        graph.inputs[1].tensors[0],
        "main.G.x",
        "steps",
    )
    assert second.tensor is third.tensor is graph.outputs[0].tensors[0]
    assert second.attributes == (("n", "[1, null]"),)


@pytest.mark.parametrize("name", ["a b", "x`y", "for", "real", "1x", "é", "a.b.c", "x@2", "", "~"])
def test_any_name_reads_back(name: str) -> None:
    graph = _graph_of([integer(1), integer(2)], (name, name))
    again = parse_graph(_round_trip(graph))
    assert [t.name for t in again.outputs[0].tensors] == [name, name]


def test_expressions_need_few_parentheses() -> None:
    i, n = Index("i", integer(4)), Symbol("n")
    x = Tensor("x", DType.REAL, (n,))
    access = Access(x, (Subscript(Binary("sub", i, integer(1)), Skip()),))
    zero = Const(0.0, DType.REAL)
    condition = Binary("and", Binary("lt", i, n), Unary("not", Binary("ge", access, zero)))
    value = Binary("mul", Binary("sub", access, Binary("sub", zero, access)), access)
    expr = Select(condition, value, Unary("neg", Unary("neg", zero)))
    assert format_expr(expr) == (
        "i < n && !(x[|i - 1|] >= 0.0) ? (x[|i - 1|] - (0.0 - x[|i - 1|])) * x[|i - 1|] : --(0.0)"
    )


def test_same_names_get_suffixes() -> None:
    i, j = Index("i", integer(2)), Index("i", integer(3))
    y = Tensor("y", DType.INT, (integer(2), integer(3)))
    local = Local("i", Binary("add", i, j))
    target = Access(y, (Subscript(i), Subscript(j)))
    operation = Operation("f", (y,), (Assignment((target,), "set", (local,), (i, j), (local,)),))
    text = format_graph(Graph("g", (), (Port("y", (y,)),), (operation,)))
    assert "with i@3 = i + i@2: y[i, i@2] = i@3  for i < 2, i@2 < 3;" in text
    assert format_graph(parse_graph(text)) == text


MALFORMED = [
    ("graph g {", "E0102", "the end"),
    ("graph g { output y = y; }", "E0201", "unknown name y"),
    ("graph g { input x = x: real[n]; }", "E0201", "unknown name n"),
    ("graph g { input x = x: reel[3]; }", "E0102", "an element type"),
    ("graph g { y: int[] = f() { y[] = 1 + ; } }", "E0102", "an expression"),
    ("graph g { y: int[] = f() { y[] = foo(1); } }", "E0102", "a function"),
    ("graph g { y: int[] = f() { y[] ; } }", "E0102", "an assignment sign"),
    ("graph g { } }", "E0102", "the end"),
    ("graph g { ? }", "E0102", "`?`"),
    ("graph g { $ }", "E0101", "'$'"),
]


@pytest.mark.parametrize(("text", "code", "part"), MALFORMED)
def test_malformed_texts_are_reported(text: str, code: str, part: str) -> None:
    with pytest.raises(Error) as caught:
        parse_graph(text)
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert part in str(caught.value)


def test_names_are_not_those_of_the_scopes_around() -> None:
    outer = Names()
    size = Symbol("n")
    assert outer.of(size) == "n"
    inner = Names(Names(outer))
    index, tensor = Index("n", size), Tensor("n", DType.FLOAT32, (size,))
    assert inner.of(index) == "n@2"
    assert inner.of(tensor) == "n"  # which no symbol or index can be taken for
    assert inner.of(size) == "n"
    assert Names(outer).of(index) == "n@2"
    assert outer.of(Index("m", size)) == "m"
    assert inner.of(index) == "n@2"
