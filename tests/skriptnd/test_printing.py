"""The SkriptND printer: what it prints is read back as the same tree, in both dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ricci.diagnostics import Report
from ricci.frontends.skriptnd import parser, printer
from ricci.frontends.skriptnd import syntax as s
from ricci.source import Source
from tests.skriptnd.trees import Trees

HERE = Path(__file__).parent
PROGRAMS = sorted([*(HERE.parent / "programs").glob("*.sknd"), *(HERE / "accepted").glob("*.sknd")])
"""Those of the standard library are printed where it is tested."""
DIALECTS = ("draft", "later")


def parse(text: str) -> s.Module:
    report = Report()
    module = parser.parse_module(Source("m", text), report, "m")
    assert [d.render() for d in report.errors] == [], text
    return module


def parse_expression(text: str) -> s.Expr:
    report = Report()
    node = parser.parse_expression(Source("e", text), report)
    assert node is not None, "\n".join(d.render() for d in report.diagnostics)
    return node


# ------------------------------------------------------------------- round trips


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_programs_are_printed_and_read_back(path: Path, dialect: str) -> None:
    module = parse(path.read_text())
    text = printer.format_module(module, dialect)
    again = parse(text)
    assert again == module
    assert printer.format_module(again, dialect) == text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_random_expressions_are_printed_and_read_back(dialect: str) -> None:
    for seed in range(1000):
        node = Trees(seed, 1 + seed % 25).expression()
        text = printer.format_expression(node, dialect)
        assert parse_expression(text) == node, f"seed {seed}: {text}"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_random_modules_are_printed_and_read_back(dialect: str) -> None:
    for seed in range(75):
        module = Trees(seed, 1 + seed % 25).module()
        text = printer.format_module(module, dialect)
        again = parse(text)
        assert again == module, f"seed {seed}:\n{text}"
        assert printer.format_module(again, dialect) == text, f"seed {seed}"


def test_random_modules_warn_of_nothing() -> None:
    """The printer puts parentheses around logical operators that are easily misread."""
    for seed in range(50):
        text = printer.format_module(Trees(seed).module())
        report = Report()
        parser.parse_module(Source("m", text), report, "m")
        assert not report.diagnostics, f"seed {seed}"


# ----------------------------------------------------------- parentheses, spelling

EXPRESSIONS = [
    "a + b * c - d",
    "(a + b) * c",
    "a - (b - c)",
    "2 ** 3 ** 2",
    "2 ** (3 ** 2)",
    "-a ** 2",
    "(-a) ** 2",
    "(a ** -b) ** c",
    "a ** -b ** c",
    "-(a + b)",
    "!(a && b)",
    "(a && b) || c",
    "(a || b) && ..",
    "a && b && c",
    "a ? b : c ? d : e",
    "(a ? b : c) ? d : e",
    "a ? (b ? c) : d",
    "a ? b ?? c : d",
    "(a ?? b) ?? c",
    "a ?? b ?? c",
    "(a ? b : c) + 1",
    "p + .. + 42",
    "(p * ..) + 1",
    "t && (p < ..)",
    "(p + ...) == q",
    "(p[0] <- 9) + 1",
    "p[0] <- 9 + 1",
    "(p + 1)[0]",
    "[x * 2 ..]",
    "[a.., b ..(2), 1 ..(n), lo:hi:2, (p, q)..]",
    "[(a ? b : c):d]",
    "p[::-1]",
    "x[i,]",
    "x[i..]",
    "x[]",
    "x[i,:]",
    "x[:,]",
    "x[|i - 1|,|j <> 0 : n - 1|]",
    "x[k][i,j..]",
    "`sqrt`(x) + int()",
    "\"it's {a + 1} of {s == 'x'}\"",
    '"\\{a\\} and \\n"',
    "?n ? n : 0",
    "- -a",
    "1 in p => a is b",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_is_printed_as_written(text: str) -> None:
    if "- -" in text:
        assert printer.format_expression(parse_expression(text)) in (text, text.replace(" ", ""))
    else:
        assert printer.format_expression(parse_expression(text)) == text


@pytest.mark.parametrize(
    ("text", "draft", "later"),
    [
        ("a <? b >? c", "a << b >> c", "a <? b >? c"),
        ("p << ..", "p << ..", "p <? .."),
        ("exp(a)", "`exp`(a)", "exp(a)"),
        ("'{exp(a) << b}'", '"{`exp`(a) << b}"', '"{exp(a) <? b}"'),
        ("((a))", "a", "a"),
        ("(a * b) + c", "a * b + c", "a * b + c"),
    ],
)
def test_spelling(text: str, draft: str, later: str) -> None:
    node = parse_expression(text)
    assert printer.format_expression(node) == draft
    assert printer.format_expression(node, "later") == later


# ------------------------------------------------------------------------ layout

MESSY = """import nn,layout
public operator f{@dtype{T:num=real;}@attrib{a:optional int..(d);b:T=T(1);}
@input{x:T^(r)[s..(d),~|10 ..(2)]..(k);}@constant{c:real[n]=i==0?1.0:0.0,i<n;}
@assert{a>0:"'a' is {a}",b,'sum':a+..;a<3;}
@lower{unroll..(j->k)z=x[j][i,]*2,y[j][i,]>=sqrt(z)<?1.0,i<n|z>0;}}
graph G{@compose{y,~,[t,u..(2)]=l:nn.f<int>{a=1,b=[2]}(x,~);
v=if c then x elif {w=f(x);yield w;} then y else nn.g();
w=with s:real[n]=0.0 for e:p while c do..(i->3)f(s,e);}@quantize{a.b:q{bits=8};}@update{}}
"""

DRAFT = """import nn;
import layout;

public operator f {
    @dtype {
        T: num = real;
    }
    @attrib {
        a: optional int..(d);
        b: T = T(1);
    }
    @input {
        x: T^(r)[s..(d), ~|10 ..(2)]..(k);
    }
    @constant {
        c: real[n] = i == 0 ? 1.0 : 0.0, i < n;
    }
    @assert {
        a > 0:
            "'a' is {a}", b, "sum": a + ..;
        a < 3;
    }
    @lower {
        unroll..(j -> k) z = x[j][i,] * 2,
        y[j][i,] >= `sqrt`(z) << 1.0,
            i < n | z > 0;
    }
}

graph G {
    @compose {
        y, ~, [t, u..(2)] = l: nn.f<int>{a=1, b=[2]}(x, ~);
        v = if c then x elif {
            w = f(x);
            yield w;
        } then y else nn.g();
        w = with s: real[n] = 0.0 for e : p while c do..(i -> 3) f(s, e);
    }
    @quantize {
        a.b: q{bits=8};
    }
    @update {
    }
}
"""


def test_layout() -> None:
    assert printer.format_module(parse(MESSY)) == DRAFT


def test_layout_of_the_later_dialect() -> None:
    text = printer.format_module(parse(MESSY), "later")
    assert "unroll..(j -> k) with z = x[j][i,] * 2:\n        y[j][i,] >?= sqrt(z) <? 1.0," in text
