"""Texts of Tensor Comprehensions as trees, and trees as texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ricci.diagnostics import Error, Report
from ricci.dtypes import DType
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.lexer import ASSIGNMENTS, find_comments, tokenize
from ricci.frontends.tc.parser import parse_unit
from ricci.frontends.tc.printer import Printer, format_source, format_unit
from ricci.source import Source
from ricci.tc import canonical

from .texts import KERNELS, codes, expression, parse, statement
from .trees import units

INTRODUCTION = (
    """def mv(float(R,C) A, float(C) B) -> (o) {
o(i) +=! A(i,j) * B(j)
}
""",
    """def mv(float(R,C) A, float(C) B) -> (o) {
o(i) += A(i,j) * B(j)
}
""",
    """def mm(float(X,Y) A, float(Y,Z) B) -> (R) {
R(i,j) += A(i,j) * B(j,k)
}
""",
    """def conv(float(B,IP,H,W) input, float(OP,IP,KH,KW) weight) -> (output) {
output(b, op, h, w) += input(b, ip, h + kh, w + kw) * weight(op, ip, kh, kw)
}
""",
    """def maxpool2x2(float(B,C,H,W) input) -> (output) {
output(b,c,i,j) max= input(b,c,2*i + kw, 2*j + kh)
where kw = [0, 2[, kh = [0, 2[
"""
    "}",
)

TEXTS = {path.stem: path.read_text() for path in KERNELS}


def size(value: int) -> s.Number:
    return s.Number(value, DType.INT32, str(value))


# ------------------------------------------------------------------------ tokens


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0x1F", 31), ("3.", 3.0), (".3", 0.3), ("1.4", 1.4), ("3e-3", 3e-3),
     (".5e-7", 0.5e-7), ("3E-5", 3e-5), ("1e10", 1e10), ("0x1.8p1", 3.0), ("0xe", 14)],
)  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    found = expression(text)
    assert isinstance(found, s.Number)
    assert (found.value, type(found.value)) == (value, type(value))
    assert found.dtype is (DType.INT32 if isinstance(value, int) else DType.FLOAT32)


def test_a_hexadecimal_number_ends_before_a_sign() -> None:
    assert expression("0xe+1") == s.Binary("+", size(14), size(1))


@pytest.mark.parametrize("name", ["info", "nano", "inf", "maxval", "minimum", "floats", "_", "In"])
def test_names(name: str) -> None:
    assert expression(name) == s.Name(name)


def test_sizes_of_dimensions() -> None:
    assert expression("T.1 + .1") == s.Binary(
        "+", s.SizeOf(s.Identifier("T"), 1), s.Number(0.1, DType.FLOAT32, ".1")
    )
    assert expression("T . 0") == s.SizeOf(s.Identifier("T"), 0)


@pytest.mark.parametrize("operator", ASSIGNMENTS)
def test_assignments(operator: str) -> None:
    assert statement(f"v {operator}x").operator == operator
    assert statement(f"v(i, j) {operator} !x").indices == (s.Identifier("i"), s.Identifier("j"))


def test_an_assignment_is_one_token() -> None:
    assert codes("def f() -> (v) { v + = 1 }") == ["E0102"]
    assert codes("def f() -> (v) { v(i j) = i where j in 0:3 }") == ["E0102"]
    assert codes("def f() -> (v) { v += ! 1 }") == ["E0301"]  # no bool
    assert statement("vmin=x").target.name == "vmin"


# ------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("-p%q + r*s - t", "(((-p) % q) + (r * s)) - t"),
        ("a - b - c", "(a - b) - c"),
        ("a / b * c % d", "((a / b) * c) % d"),
        ("a || b && c", "a || (b && c)"),
        ("a && b == c + d * e", "a && (b == (c + (d * e)))"),
        ("a < b == c", "(a < b) == c"),
        ("!a && -b < --c", "(!a) && ((-b) < (-(-c)))"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
        ("a || b ? c + d : e + f", "(a || b) ? (c + d) : (e + f)"),
        ("a * b + c < d && e || f ? g : h", "((((a * b) + c) < d) && e || f) ? g : h"),
    ],
)
def test_precedence(text: str, grouped: str) -> None:
    assert expression(text) == expression(grouped)


def test_ranges_are_written_in_two_ways() -> None:
    one = statement("v(i) = A(i) where i in 0:N, x = 2 * i, exists B(i, x)")
    assert one == statement("v(i) = A(i) where i = [0, N[, x = 2 * i, exists B(i, x)")
    assert [type(c) for c in one.clauses] == [s.Range, s.Let, s.Exists]


def test_a_bound_may_be_a_condition() -> None:
    (clause,) = statement("v(i) = 1 where i in a ? b : c : d ? e : f").clauses
    assert isinstance(clause, s.Range)
    assert (clause.low, clause.high) == (expression("a ? b : c"), expression("d ? e : f"))


def test_a_library_call_stands_before_the_clauses() -> None:
    found = statement("v(i) = A(i) <=> blas(A, 2) where i in 0:3")
    assert found.equivalent == s.Apply(s.Identifier("blas"), (s.Name("A"), size(2)))


def test_declarations() -> None:
    (function,) = parse("def f(float(N, 3) A, uint8 b) -> (int32(N) C, D) {}").functions
    assert function.parameters == (
        s.Declaration(s.Identifier("A"), DType.FLOAT32, (s.Identifier("N"), size(3))),
        s.Declaration(s.Identifier("b"), DType.UINT8, None),
    )
    assert [(d.dtype, d.dims) for d in function.results] == [
        (DType.INT32, (s.Identifier("N"),)),
        (None, None),
    ]


def test_spaces_mean_nothing() -> None:
    text = KERNELS[0].read_text()
    report = Report()
    tokens = tokenize(Source("x", text), report)
    split = "\n# a comment\r\n\t".join(t.text for t in tokens)
    assert parse(split) == parse(text)


# ---------------------------------------------------------------------- programs


@pytest.mark.parametrize("text", INTRODUCTION)
def test_the_examples_of_the_introduction(text: str) -> None:
    assert codes(text) == ([] if "!" in text else ["W0218"])
    name = re.findall(r"def (\w+)", text)[0]
    kernel = TEXTS[name] if name != "mv" or "!" in text else TEXTS[name].replace("+=!", "+=")
    assert parse(text) == parse(kernel)


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_kernels_are_in_the_form_of_the_formatter(path: Path) -> None:
    source = Source(path.name, path.read_text())
    assert format_source(source) == source.text
    assert parse(format_unit(parse(source.text))) == parse(source.text)


# ------------------------------------------------------------------------ errors


def test_all_errors_are_found() -> None:
    text = """def f(float(N) A) -> (B) {
    B(i) = A(i) $ 2
    B(i + 1) = A(i)
    B(i) = A(i
    B(i) = (A(i) + ) * 2
}
def (float A) -> (B) { B = A }
def g(float A) -> (B) { B = }
"""
    report = Report()
    unit = parse_unit(Source("x", text), report)
    lines = [d.span.source.position(d.span.start)[0] for d in report.diagnostics]
    assert lines == [2, 3, 5, 5, 7, 8]
    assert [f.name.name for f in unit.functions] == ["f", "g"]


_HOSTILE = {
    "parentheses": "(" * 50_000,
    "signs": "-" * 50_000,
    "calls": "x(-a||b&&c<d+e*" * 20_000,
    "conditions": "a?" * 20_000,
    "other conditions": "a?a:" * 20_000,
    "casts": "int32(" * 20_000,
    "a sum": "1+" * 50_000 + "1",
    "a digit string": "1" * 50_000,
    "a name": "a" * 1_000_000,
    "dots": "." * 50_000,
    "damage": "$ " * 50_000,
    "no ASCII": "\N{GREEK SMALL LETTER ALPHA}" * 50_000,
    "definitions": "} def " * 20_000,
    "statements": "x(i) y\n" * 20_000,
    "lists": "x(i,\n" * 20_000,
}


@pytest.mark.parametrize("middle", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_texts_are_answered(middle: str) -> None:
    report = Report()
    unit = parse_unit(Source("x", "def f(float A) -> (v) { v = " + middle), report)
    assert report.errors
    assert len(unit.functions) <= 1


# ----------------------------------------------------------------------- printing


@settings(max_examples=60, deadline=None)
@given(units)
def test_a_printed_tree_is_read_back(unit: s.Unit) -> None:
    text = format_unit(unit)
    assert parse(text) == unit
    assert format_source(Source("x", text)) == text
    assert parse(Printer().unit(unit)) == unit


_SPACES = st.sampled_from(["", " ", "  ", "\n", "\n\n\n", " # c\n", "\n# d\n", "\n\n  #e\n #f\n\n"])


@settings(max_examples=60, deadline=None)
@given(units, st.data())
def test_comments_are_kept(unit: s.Unit, data: st.DataObject) -> None:
    tokens = tokenize(Source("x", Printer().unit(unit)), Report())
    gaps = data.draw(st.lists(_SPACES, min_size=len(tokens), max_size=len(tokens)))
    text = "".join(f"{gap} {t.text}" for gap, t in zip(gaps, tokens, strict=True))
    source = Source("x", text)
    formatted = Source("x", format_source(source))
    assert parse(formatted.text) == unit
    assert _comments(formatted) == _comments(source)
    assert format_source(formatted) == formatted.text


def _comments(source: Source) -> list[str]:
    return [comment.text for comment in find_comments(source)]


@pytest.mark.parametrize("name", ["wavenet1", "group_norm", "tum", "kronecker3"])
def test_the_layout_does_not_depend_on_the_lines_of_the_text(name: str) -> None:
    tokens = tokenize(Source("x", TEXTS[name]), Report())
    formatted = format_source(Source("x", " ".join(t.text for t in tokens)))
    assert all(len(line) <= 100 for line in formatted.split("\n"))
    lines = [line for line in TEXTS[name].split("\n") if line and line[0] != "#"]
    assert [line for line in formatted.split("\n") if line] == lines


def test_a_text_with_errors_is_not_formatted() -> None:
    with pytest.raises(Error, match="E0102"):
        format_source(Source("x", "def f( -> () {}"))


# ---------------------------------------------------------------- canonical forms


def test_names_do_not_matter() -> None:
    one = "def f(float(N, M) A, float s) -> (B) { B(i) +=! sin(A(i, j)) * s where j in 0:10, x=1 }"
    two = "def g(float(P,Q) X,float t)->(Y){ Y(a)+=!sin(X(a,b))*t <=> l(X) where b=[0,0xA[, c=1 }"
    assert _canonical(one) == _canonical(two)


@pytest.mark.parametrize(
    "other",
    [
        "def f(float(N, N) A) -> (B) { B(i) +=! A(i, j) }",
        "def f(float(N, M) A) -> (B) { B(j) +=! A(i, j) }",
        "def f(float(N, M) A) -> (B) { B(i) += A(i, j) }",
        "def f(float(N, M) A) -> (B) { B(i) +=! A(i, j) where j in 0:M }",
        "def f(double(N, M) A) -> (B) { B(i) +=! A(i, j) }",
    ],
)
def test_all_but_names_matters(other: str) -> None:
    assert _canonical("def f(float(N, M) A) -> (B) { B(i) +=! A(i, j) }") != _canonical(other)


def test_indices_are_those_of_their_statements() -> None:
    one = "def f(float(N) A) -> (B, C) { B(i) = A(i) C(i) = A(i) }"
    two = "def f(float(N) A) -> (B, C) { B(i) = A(i) C(j) = A(j) }"
    assert _canonical(one) == _canonical(two)


def _canonical(text: str) -> str:
    return canonical(text, parse(text).functions[0].name.name)
