"""Names and types of Tensor Comprehensions: what is accepted, and as what."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from ricci.diagnostics import Report
from ricci.dtypes import DType
from ricci.frontends.tc import program as p
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.builtins import ARGUMENTS
from ricci.frontends.tc.check import check_unit
from ricci.frontends.tc.parser import parse_unit
from ricci.frontends.tc.printer import Printer, format_source
from ricci.frontends.tc.typing import fits, promote
from ricci.source import Source

from .texts import KERNELS, check, codes
from .trees import units

WARNED = {"mm", "conv", "maxpool2x2"}
INT, FLOAT = DType.INT32, DType.FLOAT32


def body(text: str, *warnings: str) -> p.Function:
    """A function over some parameters with these statements, of which `O` is the result."""
    tensors = "float(N, M) A, float(N) v, int32(N) I, uint8(N) U, bool(N) P, double(N) D"
    (function,) = check(f"def f({tensors}, float s) -> (O) {{ {text} }}", warnings)
    return function


def value(text: str) -> p.Expr:
    """The value of an element `i` of the result."""
    return body(f"O(i) = {text} where i in 0:3").statements[0].value


def dtype(text: str) -> str:
    return value(text).dtype.value


# ----------------------------------------------------------------------- kernels


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_kernels_are_accepted(path: Path) -> None:
    functions = check(path.read_text(), ("W0218",) if path.stem in WARNED else ())
    for function in functions:
        assert {v.kind for v in function.results} == {"result"}
        for statement in function.statements:
            assert statement.value.dtype is statement.target.dtype


def test_temporaries_are_those_that_are_not_returned() -> None:
    (tum,) = check((KERNELS[0].parent / "tum.tc").read_text())
    kinds = {s.target.name: s.target.kind for s in tum.statements}
    assert {name for name, kind in kinds.items() if kind == "result"} == {"O"}
    assert kinds["Dots"] == "temporary"


def test_results_are_in_the_order_of_their_list() -> None:
    (function,) = check("def f(float(N) A) -> (b, a) { a(i) = A(i) b(i) = a(i) t(i) = b(i) }")
    assert [r.name for r in function.results] == ["b", "a"]
    assert [s.target.name for s in function.statements] == ["a", "b", "t"]


def test_sizes_are_shared_by_parameters() -> None:
    (function,) = check("def f(float(N, M) A, float(M, 3, N) B) -> (O) { O(i) = A(i, 0) }")
    n, m = function.sizes
    assert [parameter.shape for parameter in function.parameters] == [(n, m), (m, 3, n)]
    assert (n.name, m.name) == ("N", "M")


# ------------------------------------------------------------------------- types

_PROMOTIONS = """
bool bool bool | bool uint8 uint8 | bool int16 int16 | bool float float | uint8 uint16 uint16
uint64 uint8 uint64 | uint32 int32 int32 | uint64 int8 int64 | uint8 int64 int64 | int8 int32 int32
int64 float float | uint64 float16 float16 | float16 float float | float double double
float16 double double | int32 double double
"""


@pytest.mark.parametrize("line", _PROMOTIONS.replace("\n", "|").strip("|").split("|"))
def test_promotion(line: str) -> None:
    names = {"float": "float32", "double": "float64"}
    a, b, meet = (DType(names.get(word, word)) for word in line.split())
    assert promote(a, b) is promote(b, a) is meet
    assert fits(a, b) == (meet is b)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v(i) + 1", "float32"), ("I(i) * i", "int32"), ("U(i) + U(i)", "uint8"),
        ("U(i) - I(i)", "int32"), ("N / M", "int32"), ("v(i) / N", "float32"),
        ("D(i) * v(i)", "float64"), ("v(i) < 1", "bool"), ("P(i) && !P(i)", "bool"),
        ("P(i) ? 1 : 2.0", "float32"), ("P(i) ? P(i) : U(i)", "uint8"), ("sin(i)", "float32"),
        ("pow(D(i), 2)", "float64"), ("min(I(i), U(i))", "int32"), ("max(1, v(i))", "float32"),
        ("float16(v(i))", "float16"), ("exp(float16(1))", "float32"), ("-U(i)", "uint8"),
        ("P(i) + P(i)", "uint8"), ("P(i) == P(i)", "bool"), ("P(i) + 1", "int32"),
        ("max(P(i), P(i))", "bool"), ("-P(i)", "uint8"), ("A.0 * v.0", "int32"),
        ("s() + s", "float32"),
    ],
)  # fmt: skip
def test_types_of_values(text: str, found: str) -> None:
    assert dtype(text) == found


def test_conversions_are_written_out() -> None:
    found = value("v(i) + I(i) * 2")
    assert isinstance(found, p.Binary) and isinstance(found.rhs, p.Convert)
    assert found.rhs.dtype is FLOAT
    product = found.rhs.operand
    assert isinstance(product, p.Binary)
    assert (product.dtype, product.op, product.rhs) == (INT, "mul", p.Constant(2, INT))


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("-2147483648", p.Constant(-(2**31), INT)),
        ("0.1", p.Constant(0.10000000149011612, FLOAT)),
        ("double(0.1)", p.Constant(0.1, DType.FLOAT64)),
        ("int64(-3000000000)", p.Constant(-3_000_000_000, DType.INT64)),
        ("uint8(255)", p.Constant(255, DType.UINT8)),
        ("float(3)", p.Constant(3.0, FLOAT)),
        ("float16(0.1)", p.Constant(0.0999755859375, DType.FLOAT16)),
    ],
)
def test_literals_take_the_type_that_they_are_converted_to(text: str, constant: p.Constant) -> None:
    found = value(text)
    assert found == constant
    assert type(found.value) is type(constant.value)


@pytest.mark.parametrize(
    "text", ["uint8(256)", "float16(70000)", "int32(0.5)", "bool(2)", "int8(-129)"]
)
def test_other_literals_are_converted_when_the_program_runs(text: str) -> None:
    assert isinstance(value(text), p.Convert)


def test_operators_of_integers_and_reals() -> None:
    operators = [value(text) for text in ("I(i) / 2", "v(i) / 2", "I(i) % 2", "v(i) % 2")]
    found = [x.op for x in operators if isinstance(x, p.Binary)]
    assert found == ["floordiv", "div", "mod", "mod"]


def test_values_of_statements_are_widened() -> None:
    (function,) = check(
        "def f(float(N) A) -> (double(N) O) { O(i) = A(i) O(i) += 1 O(i) = O(i) > 0 ? A(i) : i }"
    )
    assert [type(s.value) for s in function.statements] == [p.Convert, p.Constant, p.Convert]
    assert {s.value.dtype for s in function.statements} == {DType.FLOAT64}


def test_bools_are_reduced_by_min_and_max() -> None:
    function = body("O max=! v(i) > 0 any(i) min=! A(i, j) > 0")
    assert [(s.op, s.target.dtype) for s in function.statements] == [
        ("max", DType.BOOL),
        ("min", DType.BOOL),
    ]
    count = check("def f(float(N) A) -> (int32 n) { n +=! A(i) > 0 }")[0].statements[0]
    assert isinstance(count.value, p.Convert)


def test_there_are_64_functions() -> None:
    numbers = list(ARGUMENTS.values())
    assert [numbers.count(k) for k in (1, 2, 3, 4)] == [47, 12, 3, 2]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_functions(name: str) -> None:
    arguments = ["v(i)", "1", "s", "I(i)"][: ARGUMENTS[name]]
    found = value(f"{name}({', '.join(arguments)})")
    assert isinstance(found, p.Call)
    assert (found.function, found.dtype) == (name, FLOAT)
    assert {a.dtype for a in found.arguments} == {FLOAT}


# ------------------------------------------------------------------------- names


def test_indices_that_are_not_on_the_left_are_reduced() -> None:
    clauses = "k in 0:M, j in 0:2, l in 0:3, B = A(i, h)"
    (statement,) = body(f"O(i, l) +=! j * B * v(I(k) + l) where {clauses}").statements
    assert [i.name for i in statement.indices] == ["i", "l"]
    assert [i.name for i in statement.reduced] == ["j", "k", "h"]
    assert [r[0].name for r in statement.ranges] == ["k", "j", "l"]


def test_indices_are_those_of_one_statement() -> None:
    first, second = body("T(i) +=! A(i, j) O(j) = T(j)").statements
    assert not {*first.indices, *first.reduced} & {*second.indices}


def test_an_index_hides_a_size_and_a_tensor() -> None:
    (statement,) = body("O(N, v) = A(N, v) * N").statements
    assert isinstance(statement.value, p.Binary)
    converted = statement.value.rhs
    assert isinstance(converted, p.Convert)
    assert converted.operand == p.At(statement.indices[0])


def test_a_let_is_one_node() -> None:
    clauses = "x = v(i), y = x + 1, exists A(i, I(i)), i in 0:N"
    (statement,) = body(f"O(i) = x * y + x where {clauses}").statements
    total = statement.value
    assert isinstance(total, p.Binary) and isinstance(total.lhs, p.Binary)
    let = total.rhs
    assert isinstance(let, p.Let) and total.lhs.lhs is let
    other = total.lhs.rhs
    assert isinstance(other, p.Let) and isinstance(other.value, p.Binary)
    assert other.value.lhs is let
    assert [type(e) for e in statement.exists] == [p.Read]


def test_a_let_hides_a_size() -> None:
    (statement,) = body("O(i) = v(i) * N where N = N + 1").statements
    converted = statement.value.rhs if isinstance(statement.value, p.Binary) else None
    assert isinstance(converted, p.Convert) and isinstance(converted.operand, p.Let)
    assert isinstance(converted.operand.value, p.Binary)
    assert isinstance(converted.operand.value.lhs, p.Size)


def test_sizes_of_tensors() -> None:
    function = body("T(i) = A(i, 0) O = T.0 + A.1 + 0 * v.0")
    total = function.statements[1].value
    assert isinstance(total, p.Binary) and isinstance(total.lhs, p.Binary)
    assert total.lhs.lhs == p.Extent(function.statements[0].target, 0)
    assert total.lhs.rhs == p.Size(function.sizes[1])
    (fixed,) = check("def f(float(7) A) -> (O) { O = A.0 }")
    assert fixed.statements[0].value == p.Constant(7, INT)


def test_statements_know_where_they_start() -> None:
    found = body("O(i) += v(i) O(i) +=! v(i) O(i) *= v(i) O(i) = v(i) T += v(i)", "W0218", "W0218")
    assert [(s.op, s.fresh, s.first) for s in found.statements] == [
        ("add", False, True),
        ("add", True, False),
        ("mul", False, False),
        ("set", False, False),
        ("add", False, True),
    ]


def test_a_scalar_is_written_with_and_without_parentheses() -> None:
    one, two = body("O() +=! v(i) + s() + s"), body("O +=! v(i) + s + s")
    assert [f.statements[0].target.rank for f in (one, two)] == [0, 0]


def test_tensors_may_depend_on_each_other_in_turn() -> None:
    function = body("T(i) = v(i) O(i) = T(i) T(i) = O(i) * 2 O(i) = T(i) + O(i)")
    assert len({s.target for s in function.statements}) == 2


def test_a_library_call_has_no_effect_on_names() -> None:
    body("O(i) +=! A(i, j) <=> blas(A, O, N, j)")
    assert codes("def f(float(N) A) -> (O) { O(i) = A(i) <=> blas(B) }") == ["E0201"]


# ------------------------------------------------------------------------- limits


def test_warnings_leave_room_for_errors() -> None:
    many = " ".join(f"T{k} += A(i)" for k in range(150))
    text = f"def f(float(N) A) -> (O) {{ {many} O = T0 }}"
    assert codes(text) == ["W0218"] * 100
    assert codes(text.replace("O = T0", "O = U0"))[-1] == "E0201"


def test_many_errors_are_cut_off() -> None:
    many = " ".join(f"T{k} = unknown{k} + {'+ '.join(['u(i)'] * 5)}" for k in range(1000))
    found = codes(f"def f(float(N) A) -> (O) {{ {many} }}")
    assert (len(found), set(found)) == (100, {"E0201", "E0607"})


def test_lets_do_not_grow_without_bound() -> None:
    doubled = ", ".join(f"x{k + 1} = x{k} + x{k}" for k in range(500))
    assert codes(f"def f(float(N) A) -> (O) {{ O(i) = x500 where x0 = A(i), {doubled} }}") == [
        "E0901"
    ]
    longer = ", ".join(f"x{k + 1} = -x{k}" for k in range(500))
    assert codes(f"def f(float(N) A) -> (O) {{ O(i) = x500 where x0 = A(i), {longer} }}") == [
        "E0901"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["A(i)"] * 200),
        "*".join(["int8(1)", "A(i)"] * 100),
        "A(i) > 0 ? 1 : " * 190 + "0.5",
        "(" * 58 + "A(i)" + " + 1)" * 58,
        "1 + (" * 58 + "A(i)" + ")" * 58,
        "-" * 58 + "A(i)",
    ],
)
def test_the_highest_expressions_are_accepted(text: str) -> None:
    program = f"def f(float(N) A) -> (O) {{ O(i) = {text} }}"
    check(program)
    format_source(Source("x", program))


def test_bfloat16_is_a_type() -> None:
    assert codes("def f(bfloat16 a) -> (b) { b = a }") == []
    assert codes("def f(float bfloat16) -> (b) { b = 1 }") == ["E0102"]


@settings(max_examples=100, deadline=None)
@given(units)
def test_random_programs_are_accepted_or_rejected(unit: s.Unit) -> None:
    report = Report()
    tree = parse_unit(Source("x", Printer().unit(unit)), report)
    names = [function.name for function in check_unit(tree, report)]
    assert report.errors or names == [f.name.name for f in unit.functions]
    assert all(d.render() for d in report.diagnostics)
