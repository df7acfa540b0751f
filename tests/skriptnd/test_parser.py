"""The parser: how expressions are read, both dialects, and what is said of broken texts."""

from __future__ import annotations

import pytest

from ricci.diagnostics import Report
from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.printer import format_expression
from ricci.source import Source


def parse(text: str) -> tuple[s.Module, Report]:
    report = Report()
    return parse_module(Source("test", text), report, "test"), report


def expression(text: str) -> s.Expr:
    module, report = parse(f"operator f {{ @using {{ v = {text}; }} }}")
    report.raise_errors()
    return module.operators[0].using[0].value


PRECEDENCE = {
    "f => f => f": "(f => f) => f",
    "t || t && f": "(t || t) && f",
    "a == b == f": "(a == b) == f",
    "1 + 2 << 5": "(1 + 2) << 5",
    "z + r >> m << M": "((z + r) >> m) << M",
    "2 ** 3 ** 2": "(2 ** 3) ** 2",
    "-2 ** 2": "-(2 ** 2)",
    "2 ** -1": "2 ** (-1)",
    "a ** -b ** c": "a ** (-(b ** c))",
    "a ?? b ? x : y": "a ?? (b ? x : y)",
    "c ? 1 : n ?? 2": "c ? 1 : (n ?? 2)",
    "c ? n ?? 2": "c ? (n ?? 2)",
    "n + 1 ?? 3": "(n + 1) ?? 3",
    "n is 1 ?? t": "(n is 1) ?? t",
    "a ? b : c ? d : e": "a ? b : (c ? d : e)",
    "a - b - c": "(a - b) - c",
    "a * b / c % d \\ e": "(((a * b) / c) % d) \\ e",
    "x << m ?? x": "(x << m) ?? x",
    "p[0] <- 9 + 1": "p[0] <- (9 + 1)",
    "!a && b": "(!a) && b",
    "a in b && c": "(a in b) && c",
    "2 * p + ..": "(2 * p) + ..",
    "42 + p + ..": "(42 + p) + ..",
    "x == y || ..": "(x == y) || ..",
}


@pytest.mark.parametrize("text", PRECEDENCE)
def test_precedence(text: str) -> None:
    assert expression(text) == expression(PRECEDENCE[text])


def test_fold_continues_with_the_same_operator() -> None:
    node = expression("p + .. + 42")
    assert isinstance(node, s.Binary)
    assert node.lhs == s.Fold("+", s.Name("p"), False)


def test_fold_in_the_tightest_operand() -> None:
    node = expression("x + y * ..")
    assert node == s.Binary("+", s.Name("x"), s.Fold("*", s.Name("y"), False))


@pytest.mark.parametrize(
    "draft, later",
    [("a << b", "a <? b"), ("`exp`(x)", "exp(x)"), ("p >> ..", "p >? ..")],
)
def test_dialects_give_one_tree(draft: str, later: str) -> None:
    assert expression(draft) == expression(later)
    assert format_expression(expression(draft), "later") == later


@pytest.mark.parametrize(
    "text, kind",
    [
        ("x[i]", s.Subscript),
        ("x[i,]", s.Access),
        ("x[i,j]", s.Access),
        ("x[i..]", s.Access),
        ("x[]", s.Access),
        ("x[|i|,]", s.Access),
        ("x[k][i,]", s.Access),
        ("x[a:b:c]", s.Subscript),
        ("x[:]", s.Subscript),
        ("x[i,:]", s.Access),
        ("x[m > 1]", s.Subscript),
    ],
)
def test_subscripts(text: str, kind: type) -> None:
    assert isinstance(expression(text), kind)


def test_strings() -> None:
    assert expression("'it' \"s\"") == s.Literal("its", "its")
    assert expression(r'"\{a\}"') == s.Literal("{a}", "{a}")
    format = expression('"{a}{b + 1} end"')
    assert isinstance(format, s.Format)
    assert [type(p) for p in format.parts] == [s.Name, s.Binary, str]


def test_substitution_has_its_true_place() -> None:
    text = 'operator f { @using { v = "n is {n + 1}"; } }'
    module, _ = parse(text)
    format = module.operators[0].using[0].value
    assert isinstance(format, s.Format)
    part = format.parts[1]
    assert isinstance(part, s.Binary)
    assert part.span.text == "n + 1"


def test_mixed_logic_is_a_warning() -> None:
    _, report = parse("operator f { @using { v = a || b && c; } }")
    assert [d.code for d in report.diagnostics] == ["W0105"]
    assert not report.errors
    assert not parse("operator f { @using { v = (a || b) && c; } }")[1].diagnostics


BROKEN = [
    ("operator f { @using { v = 1..(3); } }", "E0102", "write `1 ..`"),
    ("operator f { @using { v = ; } }", "E0102", "expected an expression"),
    ("operator f { @using { v = a === b; } }", "E0102", "expected an expression"),
    ("operator f { @using { v = 'abc; } }", "E0103", "does not end"),
    ("operator f { @using { v = 'a{b'; } }", "E0103", "not closed"),
    ("operator f { @using { v = '{}'; } }", "E0102", "empty substitution"),
    ("operator f { @using { v = 1x; } }", "E0104", "1x"),
    ("operator f { @using { v = é; } }", "E0101", "é"),
    ("operator f { @using { v = a - ..; } }", "E0102", "cannot be folded"),
    ("operator f { @using { v = a < ...; } }", "E0102", "cumulatively"),
    ("operator f { @using { v = [0::2]; } }", "E0102", "both ends"),
    ("operator f { @using { v = `log2`(a); } }", "E0102", "unknown built-in"),
    ("operator f { @using { v = min(a, b); } }", "E0102", "expected `)`"),
    ("operator f { @input { } @input { } }", "E0202", "stands twice"),
    ("operator f { @outputs { } }", "E0102", "unknown block"),
    ("operator f { @input { x: real; ", "E0102", "end of the block"),
    ("operator pi { }", "E0102", "reserved word"),
    ("import a.; operator f { }", "E0102", "name of a module"),
    ("operator f { } import a;", "E0102", "before the first operator"),
    ("operator f { @compose { y = f{a: 1}(x); } }", "E0102", "`name=value`"),
    ("operator f { @compose { y = if a then b; } }", "E0102", "expected `else`"),
    ("operator f { @compose { y = { z = f(x); }; } }", "E0102", "yield"),
    ("operator f { @compose { y = unroll f(x); } }", "E0102", "begin"),
    ("operator f { @lower { y = x[i,]; } }", "E0102", "needs subscripts"),
    (";", "E0102", "expected `operator`"),
    ("operator f { @using { v = " + "(" * 5000 + "1; } }", "E0901", "levels deep"),
    ("operator f { @using { v = " + "-" * 5000 + "1; } }", "E0901", "levels deep"),
    ("operator f { @using { v = 1" + " + 1" * 5000 + "; } }", "E0901", "follow each other"),
    ("operator f { @using { v = " + "[" * 9000, "E0901", "levels deep"),
    ("operator f { @using { v = a" + "[0]" * 9000 + "; } }", "E0901", "levels deep"),
]


@pytest.mark.parametrize("text, code, part", BROKEN, ids=range(len(BROKEN)))
def test_broken_text(text: str, code: str, part: str) -> None:
    _, report = parse(text)
    first = report.diagnostics[0]
    assert first.code == code
    assert part in first.render()


def test_several_errors_in_one_run() -> None:
    text = """
    operator f { @using { a = ; b = 1; c = (; } }
    operator g { @attrib { n int; m: int; } }
    """
    module, report = parse(text)
    assert len(report.errors) == 3
    assert [o.name for o in module.operators] == ["f", "g"]
    assert [u.items[0] for u in module.operators[0].using] == [s.UsingName("b")]
    assert [a.name for a in module.operators[1].attributes] == ["m"]


def test_byte_order_mark_and_line_ends() -> None:
    module, report = parse("\ufeffoperator f {\r\n}\roperator g { } # end")
    assert not report.diagnostics
    assert [str(o.span) for o in module.operators] == ["test:1:2", "test:3:1"]
