"""The SkriptND parser: forms of both dialects, precedence, places, errors and recovery."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ricci.diagnostics import Diagnostic, Report, Severity
from ricci.frontends.skriptnd import lexer, parser, printer
from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.parser_expressions import BUILTINS
from ricci.frontends.skriptnd.typing_functions import BUILTINS_NUMERIC, BUILTINS_REAL
from ricci.source import Source

PROGRAMS = Path(__file__).parents[1] / "programs"


def parse(text: str) -> tuple[s.Module, list[Diagnostic]]:
    report = Report()
    return parser.parse_module(Source("test", text), report, "test"), report.diagnostics


def expression(text: str) -> s.Expr:
    """The tree of an expression that must be right."""
    report = Report()
    node = parser.parse_expression(Source("test", text), report)
    assert [d.render() for d in report.errors] == []
    assert node is not None
    return node


def operator(blocks: str) -> s.Operator:
    """The tree of an operator with blocks that must be right."""
    module, found = parse(f"operator f {{ {blocks} }}")
    assert [d.render() for d in found] == []
    return module.operators[0]


def component(text: str) -> s.Component:
    return operator(f"@compose {{ {text} }}").compose[0]


def places(text: str) -> list[str]:
    """Code, line and column of each error and warning."""
    return [f"{d.code} {str(d.span).removeprefix('test:')}" for d in parse(text)[1]]


# -------------------------------------------------------------------- precedence

# A text, and the same with the parentheses that show how it is read.
READINGS = [
    ("2 ** 3 ** 2", "(2 ** 3) ** 2"),
    ("-2 ** 2", "-(2 ** 2)"),
    ("2 ** -1", "2 ** (-1)"),
    ("a ** -b ** c", "a ** (-(b ** c))"),
    ("-a * b", "(-a) * b"),
    ("- - a", "-(-a)"),
    ("!t && u", "(!t) && u"),
    ("1 + 2 << 5", "(1 + 2) << 5"),
    ("1 + 2 <? 5", "(1 + 2) << 5"),
    ("z + r >? m <? M", "((z + r) >> m) << M"),
    ("a - b - c", "(a - b) - c"),
    ("a / b \\ c % d", "((a / b) \\ c) % d"),
    ("a + b * c ** d", "a + (b * (c ** d))"),
    ("a == b == f", "(a == b) == f"),
    ("a < b + 1", "a < (b + 1)"),
    ("p is 1 == t", "(p is 1) == t"),
    ("x in p && t", "(x in p) && t"),
    ("a << b < c >> d", "(a << b) < (c >> d)"),
    ("true || true && false", "(true || true) && false"),
    ("a ^ b || c", "(a ^ b) || c"),
    ("f => f => f", "(f => f) => f"),
    ("a && b => c || d", "(a && b) => (c || d)"),
    ("a ?? b ? x : y", "a ?? (b ? x : y)"),
    ("c ? 1 : n ?? 2", "c ? 1 : (n ?? 2)"),
    ("c ? n ?? 2", "c ? (n ?? 2)"),
    ("n + 1 ?? 3", "(n + 1) ?? 3"),
    ("n is 1 ?? true", "(n is 1) ?? true"),
    ("a ?? b ?? c", "a ?? (b ?? c)"),
    ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
    ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
    ("?n && c ? n : 0", "((?n) && c) ? n : 0"),
    ("x <? m ?? x", "(x << m) ?? x"),
    ("2 * p + ..", "(2 * p) + .."),
    ("42 + p + ..", "(42 + p) + .."),
    ("p + .. + 42", "(p + ..) + 42"),
    ("p + .. + 42 * 2", "(p + ..) + (42 * 2)"),
    ("t && p < ..", "t && (p < ..)"),
    ("t && p < .. && u", "(t && (p < ..)) && u"),
    ("x + p * .. + 1", "(x + (p * ..)) + 1"),
    ("p >> .. ?? 0", "(p >> ..) ?? 0"),
    ("p != .. ? a : b", "(p != ..) ? a : b"),
    ("[a, b] := ..", "([a, b]) := .."),
    ("m - 1 + ...", "(m - 1) + ..."),
    ("p[0] <- 9 + 1", "p[0] <- (9 + 1)"),
    ("a + p[0] <- 9 + 1", "a + (p[0] <- (9 + 1))"),
    ("-p[0]", "-(p[0])"),
    ("x.shape[0] * 2", "(x.shape[0]) * 2"),
    ("[x * 2 ..]", "[(x * 2)..]"),
    ("[a + b:c]", "[(a + b):c]"),
    ("[c ? a : b ..(n)]", "[(c ? a : b)..(n)]"),
    ("x[a ? b : c]", "x[(a ? b : c)]"),
    ("[(a), (b)[0], (c) + 1, (d)..]", "[a, b[0], c + 1, d..]"),
]


@pytest.mark.parametrize(("text", "reading"), READINGS, ids=[t for t, _ in READINGS])
def test_precedence(text: str, reading: str) -> None:
    assert expression(text) == expression(reading)


def test_folds_are_told_apart_from_operands() -> None:
    a = s.Name("a")
    assert expression("a + ..") == s.Fold("+", a, False)
    assert expression("a + ...") == s.Fold("+", a, True)
    assert expression("[a..]") == s.List((s.Expand(a, None),))


# ------------------------------------------------------------------------- forms

FORMS: list[tuple[str, s.Expr]] = [
    ("12345678901234567890123", s.Literal(12345678901234567890123, "12345678901234567890123")),
    ("007", s.Literal(7, "007")),
    ("1.", s.Literal(1.0, "1.")),
    ("1.5e-3", s.Literal(0.0015, "1.5e-3")),
    ("1E5", s.Literal(1e5, "1E5")),
    ("inf", s.Literal(float("inf"), "inf")),
    ("true", s.Literal(True, "true")),
    ("'a' \"b\"\n'c'", s.Literal("abc", "abc")),
    ("'it''s'", s.Literal("its", "its")),
    (r'"\{a\} \"\n\\"', s.Literal('{a} "\\n\\', '{a} "\\n\\')),
    ("'lone } brace'", s.Literal("lone } brace", "lone } brace")),
    ("'\u00e9\u4e2d'", s.Literal("\u00e9\u4e2d", "\u00e9\u4e2d")),
    ("''", s.Literal("", "")),
    ("'{a}{b}'", s.Format((s.Name("a"), s.Name("b")))),
    (
        "'x={a + 1}' 'y'",
        s.Format(("x=", s.Binary("+", s.Name("a"), s.Literal(1, "1")), "y")),
    ),
    ("\"{t == '}'}\"", s.Format((s.Binary("==", s.Name("t"), s.Literal("}", "}")),))),
    ("x.rank", s.Member("x", "rank")),
    ("shape", s.Name("shape")),
    ("_", s.Name("_")),
    ("?x", s.NullTest("x")),
    ("`sqrt`(x)", s.Builtin("sqrt", s.Name("x"))),
    ("sqrt(x)", s.Builtin("sqrt", s.Name("x"))),
    ("T(x)", s.Cast("T", s.Name("x"))),
    ("int()", s.Cast("int", None)),
    ("int(p)[0]", s.Subscript(s.Cast("int", s.Name("p")), s.Literal(0, "0"))),
    ("[]", s.List(())),
    ("[(a, b)..]", s.List((s.Zip((s.Name("a"), s.Name("b"))),))),
    ("[[(a, b)..][0], c]", s.List((
        s.Subscript(s.List((s.Zip((s.Name("a"), s.Name("b"))),)), s.Literal(0, "0")), s.Name("c"),
    ))),
    ("[a ..(n)]", s.List((s.Expand(s.Name("a"), s.Name("n")),))),
    ("[0:n:-1]", s.List((
        s.Range(s.Literal(0, "0"), s.Name("n"), s.Unary("-", s.Literal(1, "1"))),
    ))),
    ("p[:]", s.Subscript(s.Name("p"), s.Range(None, None, None))),
    ("p[::s]", s.Subscript(s.Name("p"), s.Range(None, None, s.Name("s")))),
    ("p[b:]", s.Subscript(s.Name("p"), s.Range(s.Name("b"), None, None))),
    ("p[i]", s.Subscript(s.Name("p"), s.Name("i"))),
    ("x[]", s.Access(s.Name("x"), ())),
    ("x[i,]", s.Access(s.Name("x"), (s.Name("i"),))),
    ("x[i..]", s.Access(s.Name("x"), (s.Expand(s.Name("i"), None),))),
    ("x[i,:]", s.Access(s.Name("x"), (s.Name("i"), s.Range(None, None, None)))),
    ("x[k][i,j]", s.Access(
        s.Subscript(s.Name("x"), s.Name("k")), (s.Name("i"), s.Name("j")),
    )),
    ("x[|i|,]", s.Access(s.Name("x"), (s.Bounded(s.Name("i"), None, None),))),
    ("x[|i <> a : b|..]", s.Access(
        s.Name("x"), (s.Expand(s.Bounded(s.Name("i"), s.Name("a"), s.Name("b")), None),),
    )),
    ("x[y[|i|,],]", s.Access(
        s.Name("x"), (s.Access(s.Name("y"), (s.Bounded(s.Name("i"), None, None),)),),
    )),
    ("c ? x", s.Select(s.Name("c"), s.Name("x"), None)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), FORMS, ids=[t for t, _ in FORMS])
def test_form_of_expression(text: str, tree: s.Expr) -> None:
    assert expression(text) == tree


DIALECTS = [
    ("@using { v = `exp`(a) << b; }", "@using { v = exp(a) <? b; }"),
    ("@lower { y[] <= x[]; }", "@lower { y[] <?= x[]; }"),
    ("@lower { y[] >= x[]; }", "@lower { y[] >?= x[]; }"),
    ("@lower { v = a, w = v, y[] = w; }", "@lower { with v = a, w = v: y[] = w; }"),
    ("@compose { y..(3): real[2] = f(x); }", "@compose { y: real[2]..(3) = f(x); }"),
]


@pytest.mark.parametrize(("draft", "later"), DIALECTS)
def test_dialects_give_the_same_tree(draft: str, later: str) -> None:
    assert operator(draft) == operator(later)


def test_types_and_shapes() -> None:
    found = operator(
        "@input { x: optional dynamic T^(r)[static n, ..m, ~|10 ..(3), s..(d), k + 1|9]..(~|4);"
        " y: real; z: int[]..(static 2); }"
    ).inputs
    n, m = s.Extent(s.Name("n"), static=True), s.Extent(s.Name("m"), distinct=True)
    three, ten = s.Pack(s.Literal(3, "3")), s.Literal(10, "10")
    k = s.Binary("+", s.Name("k"), s.Literal(1, "1"))
    shape = (
        n,
        m,
        s.Extent(s.Omitted(), bound=ten, pack=three),
        s.Extent(s.Name("s"), pack=s.Pack(s.Name("d"))),
        s.Extent(k, bound=s.Literal(9, "9")),
    )
    open_length = s.Pack(None, s.Literal(4, "4"))
    assert found[0].type == s.Type("T", True, True, "r", shape, open_length)
    assert found[1].type == s.Type("real")
    assert found[2].type == s.Type("int", shape=(), pack=s.Pack(s.Literal(2, "2"), None, "static"))


def test_extent_that_is_folded() -> None:
    (extent,) = operator("@output { y: T[m + ..]; }").outputs[0].type.shape or ()
    assert extent.size == s.Fold("+", s.Name("m"), False)


def test_helper_symbols() -> None:
    found = operator("@using { [a, b.., c..(2)] = p; [(e, f)..] = q; g..(n) = r; }").using
    b, c = s.UsingName("b", s.Pack()), s.UsingName("c", s.Pack(s.Literal(2, "2")))
    assert found[0].items == (s.UsingName("a"), b, c)
    assert found[1].items == (s.UsingZip(("e", "f")),)
    assert [u.listed for u in found] == [True, True, False]


def test_assertion_with_labels() -> None:
    (found,) = operator("@assert { a > 0: 'no {a}', a, 'the ' 'sum': b + c; }").asserts
    assert isinstance(found.message, s.Format)
    assert [p.label for p in found.prints] == ["", "the sum"]


def test_formula_with_everything() -> None:
    text = "unroll..(j -> k) z = x[i,], y[j][i,] += z * 2, i < n, l < m | x[l,] > 0;"
    (found,) = operator(f"@lower {{ {text} }}").lower
    assert found.unroll == s.Count("j", s.Name("k"))
    assert [x.name for x in found.locals] == ["z"]
    assert (found.op, [b.name for b in found.bounds]) == ("+=", ["i", "l"])
    assert isinstance(found.condition, s.Binary)


def test_results() -> None:
    found = component("a, ~, [b, ~, c..(k)], d..(n), e: real[2,3] = f(x);").results
    pack = s.ResultList((s.Result("b"), s.Omitted(), s.Result("c", pack=s.Pack(s.Name("k")))))
    assert found[:4] == (
        s.Result("a"), s.Omitted(), pack, s.Result("d", pack=s.Pack(s.Name("n"))),
    )  # fmt: skip
    assert isinstance(found[4], s.Result) and found[4].type is not None


INVOCATIONS = [
    ("f(x)", s.Invocation(None, ("f",), (), (), (s.Name("x"),))),
    ("exp(x)", s.Invocation(None, ("exp",), (), (), (s.Name("x"),))),
    ("a.b.f()", s.Invocation(None, ("a", "b", "f"), (), (), ())),
    ("l: f<real, T>(~, x)", s.Invocation(
        "l", ("f",), ("real", "T"), (), (s.Omitted(), s.Name("x")),
    )),
    ("f{a=1, b=t,}(x)", s.Invocation(
        None, ("f",), (),
        (s.Argument("a", s.Literal(1, "1")), s.Argument("b", s.Name("t"))), (s.Name("x"),),
    )),
    ("x", s.Name("x")),
    ("a < b", s.Binary("<", s.Name("a"), s.Name("b"))),
    ("exp(x) + 1", s.Binary("+", s.Builtin("exp", s.Name("x")), s.Literal(1, "1"))),
    ("(exp(x))", s.Builtin("exp", s.Name("x"))),
    ("int(x)", s.Cast("int", s.Name("x"))),
    ("c ? x : y", s.Select(s.Name("c"), s.Name("x"), s.Name("y"))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), INVOCATIONS, ids=[t for t, _ in INVOCATIONS])
def test_invocation_or_expression(text: str, tree: s.Action) -> None:
    assert component(f"y = {text};").action == tree


def test_conversion_to_a_generic_type_is_no_invocation() -> None:
    found = operator("@dtype { T: num; } @compose { y = T(1); z = f(1); }").compose
    assert isinstance(found[0].action, s.Cast)
    assert isinstance(found[1].action, s.Invocation)


def test_control_flow() -> None:
    branch = component("y = if c then f(x) elif l: { t = g(x); yield t, t; } then x else z;").action
    assert isinstance(branch, s.Branch)
    assert [type(c) for c in branch.conditions] == [s.Name, s.Block]
    assert [type(b) for b in branch.branches] == [s.Invocation, s.Name, s.Name]
    text = "with a: real[n] = 0.0, b = x for u : p, v : q while c(a) do..(i -> n) f(a, u)"
    loop = component(f"y = {text};").action
    assert isinstance(loop, s.Loop)
    assert [x.name for x in loop.carried] == ["a", "b"]
    assert [x.name for x in loop.scans] == ["u", "v"]
    assert loop.pretest and loop.count == s.Count("i", s.Name("n")) and not loop.unroll
    after = component("y = with a = x do f(a) while a;").action
    assert isinstance(after, s.Loop) and not after.pretest and after.condition == s.Name("a")
    unrolled = component("y = for u : p unroll..(i ->) f(u);").action
    assert isinstance(unrolled, s.Loop) and unrolled.count == s.Count("i", None)


def test_quantization_names() -> None:
    found = operator("@quantize { a.b.w: q.op<real>{bits=8}; x: p; }").quantize
    assert found[0].tensor == ("a", "b", "w")
    assert found[0].callee == ("q", "op") and found[0].types == ("real",)
    assert found[1] == s.Quantization(("x",), ("p",), (), ())


def test_modules_and_blocks() -> None:
    module, found = parse("import a, b.c;\nimport d import e\npublic operator f {} graph G { }")
    assert not found
    assert [i.path for i in module.imports] == [("a",), ("b", "c"), ("d",), ("e",)]
    first, second = module.operators
    assert (first.public, first.graph, second.public, second.graph) == (True, False, False, True)
    assert operator("@output {} @attrib { a: int; } @using { }").blocks == (
        "output", "attrib", "using",
    )  # fmt: skip


def test_marks_and_line_ends() -> None:
    text = "\ufeffoperator f {\r\n  # \u00e9 'open\r  @using { v = a; # {\n }\n}"
    module, found = parse(text)
    assert not found
    assert str(module.operators[0].using[0].span) == "test:3:12"
    assert [c.text for c in lexer.find_comments(module.source)] == ["# \u00e9 'open", "# {"]


def test_spans_cover_what_was_written() -> None:
    texts = ["(a + b) * c", "[(a, b).., x[i,].., n]", "-(p + ..)", "c ? (x) : [y]", "p[(i)] <- (v)"]
    for text in texts:
        assert expression(text).span.text == text


def test_spans_within_strings() -> None:
    node = expression("'one {aa} ' \"two {bb + 1}\"")
    assert isinstance(node, s.Format)
    inner = [p.span.text for p in node.parts if not isinstance(p, str)]
    assert inner == ["aa", "bb + 1"]


def test_builtin_functions_agree_with_those_typed() -> None:
    assert BUILTINS == BUILTINS_REAL | BUILTINS_NUMERIC


# ------------------------------------------------------------------------ errors

USING = "operator f {{ @using {{ v =\n{}; }} }}"
"""What stands for `{}` begins in column 1 of line 2."""

WRONG_EXPRESSIONS = [
    ("", "E0102 2:1"),
    ("1 2", "E0102 2:3"),
    ("a +", "E0102 2:4"),
    (".5", "E0102 2:1"),
    ("1e", "E0104 2:1"),
    ("1.5e+", "E0104 2:1"),
    ("12abc", "E0104 2:1"),
    ("1e999", "E0104 2:1"),
    ("9" * 1001, "E0104 2:1"),
    ("\u0661", "E0101 2:1"),
    ("a $ b", "E0101 2:3"),
    ("a & b", "E0101 2:3"),
    ("\u201ca\u201d", "E0101 2:1"),
    ("`sqrt(x)", "E0101 2:1"),
    ("`sqr`(x)", "E0102 2:1"),
    ("[1..(3)]", "E0102 2:2"),
    ("[x * 2..]", "E0102 2:6"),
    ("a === b", "E0102 2:5"),
    ("(a", "E0102 2:3"),
    ("[a,]", "E0102 2:4"),
    ("[a:]", "E0102 2:2"),
    ("[:a]", "E0102 2:2"),
    ("(a, b)", "E0102 2:3"),
    ("[(a, b)]", "E0102 2:8"),
    ("[(a, b).. + 1]", "E0102 2:11"),
    ("min(1, 2)", "E0102 2:6"),
    ("sqrt(1, 2)", "E0102 2:7"),
    ("sqrt()", "E0102 2:6"),
    ("x.length", "E0102 2:3"),
    ("?3", "E0102 2:2"),
    ("a + |i|", "E0102 2:5"),
    ("p * .. + 1", "E0102 2:8"),
    ("p + .. == 1", "E0102 2:8"),
    ("x + p * .. - 1", "E0102 2:12"),
    ("p - ..", "E0102 2:5"),
    ("p < ...", "E0102 2:5"),
    ("p ** ..", "E0102 2:6"),
    ("x[1:2,]", "E0102 2:3"),
    ("f(x)[i,]", "E0102 2:1"),
    ("pi2 + in", "E0102 2:7"),
    ("int", "E0102 2:4"),
    ("~", "E0102 2:1"),
    ("'{}'", "E0102 2:2"),
    ("'{a b}'", "E0102 2:5"),
    ("'{a'", "E0103 2:2"),
    ("'ab {c +} d'", "E0102 2:9"),
    ("'{a $ b}'", "E0101 2:5"),
    ("'open", "E0103 2:1"),
    ("a && b || c", "W0105 2:1"),
    ("a ^ b && ..", "W0105 2:1"),
]


@pytest.mark.parametrize(
    ("text", "place"), WRONG_EXPRESSIONS, ids=[t[:20] for t, _ in WRONG_EXPRESSIONS]
)
def test_wrong_expression(text: str, place: str) -> None:
    assert places(USING.format(text))[0] == place


@pytest.mark.parametrize(
    "text", [t for t, _ in WRONG_EXPRESSIONS if "\u201c" not in t and "open" not in t]
)
def test_wrong_expression_gives_one_diagnostic(text: str) -> None:
    assert len(places(USING.format(text))) == 1


WRONG_TEXTS = [
    ("operator", ["E0102 1:9"]),
    ("operator f", ["E0102 1:11"]),
    ("operator pi {}", ["E0102 1:10"]),
    ("operator f {} }", ["E0102 1:15"]),
    ("x", ["E0102 1:1"]),
    ("import", ["E0102 1:7"]),
    ("import a.;", ["E0102 1:10"]),
    ("operator f {}\nimport a;\noperator g {}", ["E0102 2:1"]),
    ("operator f { @inptu { x: real; } @output { y real; } }", ["E0102 1:14", "E0102 1:46"]),
    ("operator f { @ input { x: real; } }", ["E0101 1:14"]),
    ("operator f { @using {} @using {} }", ["E0202 1:24"]),
    ("operator f {\n@input { x: real[n];\n@output { y: real[n]; }\n}", ["E0102 3:1"]),
    ("operator f { @input { x: real[n]; }\noperator g {}", ["E0102 2:1"]),
    ("operator f { @input { x: real[n];", ["E0102 1:34", "E0102 1:34"]),
    ("graph G { @compose { y = f(x) } }", ["E0102 1:31"]),
    ("graph G { @compose { y = f(x)\n z = g(y); w = ; } }", ["E0102 2:2", "E0102 2:16"]),
    ("graph G { @compose { y = f{a: 1}(x); z = g{b=}(x); w = h(x); } }",
     ["E0102 1:29", "E0102 1:46"]),
    ("graph G { @compose { y = { t = f(; u = g(x,); yield u; }; v = ; } }",
     ["E0102 1:34", "E0102 1:44", "E0102 1:63"]),
    ("graph G { @compose { y = { t = f(x); }; z = 1 +; } }", ["E0102 1:38", "E0102 1:48"]),
    ("graph G { @compose { y = { yield x; t = f(x); }; } }", ["E0102 1:37"]),
    ("graph G { @compose { y, w = x, z; } }", ["E0102 1:30"]),
    ("graph G { @compose { y = if c then x; } }", ["E0102 1:37"]),
    ("graph G { @compose { y = if c { yield x; } else z; } }", ["E0102 1:33"]),
    ("graph G { @compose { y = while a do f(x) while b; } }", ["E0102 1:42"]),
    ("graph G { @compose { y = with a = x f(a); } }", ["E0102 1:37"]),
    ("graph G { @compose { [(a, b)..] = f(x); } }", ["E0102 1:23"]),
    ("operator f { @lower { y = x[i,], i < n; } }", ["E0102 1:23"]),
    ("operator f { @lower { y[i,] => x; } }", ["E0102 1:29"]),
    ("operator f { @lower { unroll..(k) y[i,] = x; } }", ["E0102 1:29"]),
    ("operator f { @using { graph = 1; a = operator; b = ; } }",
     ["E0102 1:23", "E0102 1:38", "E0102 1:52"]),
    ("operator f { @dtype { T: S; } }", ["E0102 1:26"]),
    ("operator f { @input { x: real[a,]; } }", ["E0102 1:33"]),
    ("operator f { @input { x: real^r[a]; } }", ["E0102 1:31"]),
    ("operator f { @assert { a: 'x', '{b}': c; } }", ["E0102 1:32"]),
    ("operator f { @using { a = 1; b = ; c = 2; d = ]; } @output { x y; } }",
     ["E0102 1:34", "E0102 1:47", "E0102 1:64"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG_TEXTS, ids=[t[:40] for t, _ in WRONG_TEXTS])
def test_wrong_text(text: str, expected: list[str]) -> None:
    assert places(text) == expected


def test_what_is_right_is_kept() -> None:
    text = (
        "operator f { @using { a = 1; b = ; c = 2; } @nonsense { x { y; } } @output { y: real; }\n"
        "operator g { @compose { y = { t = ; u = f(x); yield u; }; } }\n ] operator h {}"
    )
    module, found = parse(text)
    assert [o.name for o in module.operators] == ["f", "g", "h"]
    assert [u.items[0] for u in module.operators[0].using] == [s.UsingName("a"), s.UsingName("c")]
    assert len(module.operators[0].outputs) == 1
    block = module.operators[1].compose[0].action
    assert isinstance(block, s.Block) and len(block.components) == 1
    assert len(found) == 5


HELP = [
    ("operator f { @using { v = [1..(3)]; } }", "write `1 ..`"),
    ("operator f { @using { v = p + .. == 1; } }", "parentheses"),
    ("operator f { @inputs { x: real; } }", "`@input`"),
    ("graph G { @compose { y = f{a: 1}(x); } }", "`name=value`"),
    ("operator f { @input { in: real; } }", "reserved"),
    ("operator f { @input { x: real; }", "closing brace"),
    ("operator f { @lower { y = x[i,], i < n; } }", "`y[]`"),
    ("operator f { @using { v = \u03c0; } }", "ASCII"),
    ("operator f { @using { v = '{a'; } }", "\\{"),
    ("operator f { @using { v = a || b && c; } }", "`(a || b) && ...`"),
]


@pytest.mark.parametrize(("text", "help"), HELP, ids=[h for _, h in HELP])
def test_help(text: str, help: str) -> None:
    assert help in parse(text)[1][0].help


def test_mixture_is_only_a_warning() -> None:
    report = Report()
    parser.parse_module(Source("test", USING.format("a && b || (c ^ d) ^ e")), report, "test")
    assert [d.severity for d in report.diagnostics] == [Severity.WARNING] * 2
    assert not report.errors


# ----------------------------------------------------------------- hostile texts

MANY = 20_000

HOSTILE = {
    "parentheses": USING.format("(" * MANY),
    "closed parentheses": USING.format("(" * MANY + "a" + ")" * MANY),
    "brackets": USING.format("[" * MANY),
    "subscripts": USING.format("a" + "[0]" * MANY),
    "subscripts within": USING.format("a[" * MANY),
    "sum": USING.format("a" + "+a" * MANY),
    "powers": USING.format("a" + "**-a" * MANY),
    "signs": USING.format("-" * MANY + "a"),
    "choices": USING.format("a?b:" * MANY + "c"),
    "fallbacks": USING.format("a??" * MANY + "c"),
    "folds": USING.format("a" + "+.." * MANY),
    "substitutions": USING.format("a[0]<-" * MANY + "a"),
    "sums in parentheses": USING.format("(" * 50 + "a" + ("+a" * 150 + ")") * 50),
    "tightest nesting": USING.format("(a => a && a < a << a + a * -a ** " * 59 + "a" + ")" * 59),
    "logic": USING.format("a && b || c ^ " * MANY + "a"),
    "braces in a string": USING.format("'" + "{" * MANY + "'"),
    "blocks": "graph G { @compose { " + "y = { " * MANY,
    "branches": "graph G { @compose { y = " + "if a then { y = " * MANY,
    "open definitions": "operator f { " * MANY,
    "quotes": '\\"\n' * MANY,
    "back-ticks": "` " * MANY,
    "errors": "operator f { @using { " + "a = ; " * MANY + "} }",
    "errors in a block": "graph G { @compose { y = { " + "a = ; " * MANY + "} }",
    "digits": USING.format("1" * MANY),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_ends_with_diagnostics(kind: str) -> None:
    _, found = parse(HOSTILE[kind])
    assert 1 <= len(found) <= 100


@pytest.mark.parametrize(
    "text",
    [
        USING.format("[" + "1, " * MANY + "1]"),
        USING.format("'" + "{a} " * MANY + "'"),
        USING.format("a" + " + a" * 150),
        USING.format("(" * 50 + "a" + ")" * 50),
        "graph G { @compose { y = if a then b " + "elif a then b " * MANY + "else c; } }",
        "operator f {}\n" * MANY,
        "#" * MANY + "\n" + " " * MANY,
    ],
    ids=["list", "string", "sum", "parentheses", "elif", "operators", "comment"],
)
def test_long_text_is_accepted(text: str) -> None:
    module, found = parse(text)
    assert not found
    printer.format_module(module)


def test_every_cut_of_a_program_ends_with_a_diagnostic() -> None:
    """No prefix of a program makes the parser fail in another way, or is taken for whole."""
    text = (PROGRAMS / "control.sknd").read_text()
    ends = [m.start() for m in re.finditer(r"\S\s", text)]
    for end in ends[:: max(1, len(ends) // 150)]:
        whole = text[:end].count("{") == text[:end].count("}")
        assert whole or parse(text[:end])[1], text[:end]
