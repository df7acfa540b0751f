"""Texts of Einsum Tuple as trees, and what is wrong with them."""

from __future__ import annotations

import pytest

from ricci.diagnostics import Report
from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.parser import ASSIGNMENTS, parse_file
from ricci.source import Source

E_I, E_J, E_K = map(s.Eintup, "ijk")
A, B = map(s.Identifier, "AB")


def read(text: str) -> tuple[s.File, Report]:
    report = Report()
    return parse_file(Source("<text>", text), report), report


def parse(text: str) -> s.File:
    """The tree of a text without errors."""
    file, report = read(text)
    assert [d.render() for d in report.diagnostics] == [], text
    return file


def statement(text: str) -> s.Statement:
    (only,) = parse(text).statements
    return only


def value(text: str) -> s.Value:
    return statement(f"A[i] = {text}").value


def index(text: str) -> s.IndexExpr:
    (only,) = statement(f"A[{text}] = 0").target.items
    return only


def constraint(text: str) -> s.Constraint:
    (only,) = parse(f"A[i] = 0\n\n{text}").constraints
    return only


def call(text: str) -> s.Call:
    found = parse(f"A[i] = 0\n\n{text}\n\nA").call
    assert found is not None
    return found


def argument(text: str) -> s.Argument:
    ((_, only),) = call(f"f({text})").arguments
    return only


def errors(text: str) -> list[tuple[str, int]]:
    """Codes and lines of all findings about a text."""
    source = Source("<text>", text)
    report = Report()
    parse_file(source, report)
    return [(d.code, source.position(d.span.start)[0]) for d in report.diagnostics]


# ------------------------------------------------------------------------ sections

CONV = """# valid convolution
X[b, p, c] = RANDOM(0, 10, FLOAT)
W[f, c, k] = RANDOM(0, 1, FLOAT)
Y[b, q, k] = W[p - DIMS(stride) * q, c, k] * X[b, p, c]

tf.nn.convolution(input=X, filters=W, strides=DIMS(stride), padding='VALID')

Y

RANK(p) IN [1, 3]
DIMS(q) = (DIMS(p) - DIMS(f) + 1) //^ DIMS(stride)
"""


def test_the_sections_of_a_file() -> None:
    file = parse(CONV)
    assert [x.target.array.name for x in file.statements] == ["X", "W", "Y"]
    assert file.call is not None
    assert file.call.function.parts == ("tf", "nn", "convolution")
    assert [n and n.name for n, _ in file.call.arguments] == [
        "input",
        "filters",
        "strides",
        "padding",
    ]
    assert file.outputs == (s.Identifier("Y"),)
    assert [type(c) for c in file.constraints] == [s.Membership, s.Comparison]


def _sections() -> list[str]:
    return CONV.rstrip("\n").split("\n\n")


@pytest.mark.parametrize("gap", ["\n\n", "\n \t \n", "\n\n\n\n", "\n# c\n\n", "\n\n  # c\n"])
def test_how_sections_are_set_apart(gap: str) -> None:
    assert parse(gap.join(_sections())) == parse(CONV)
    program, call, outputs, rules = _sections()
    assert parse(gap.join([program, outputs, call, rules])) == parse(CONV)
    assert parse(gap.join([program, call, outputs])).constraints == ()
    assert parse(gap.join([program, rules])).call is None
    assert parse(gap.join([program, outputs])).outputs == (s.Identifier("Y"),)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends(end: str) -> None:
    assert parse(CONV.replace("\n", end)) == parse(CONV)
    assert parse("\ufeff" + CONV) == parse(CONV)


def test_a_section_may_hold_empty_lines() -> None:
    text = CONV.replace("W[f, c, k] =", "\nW[f, c, k] =").replace("DIMS(q)", "\nDIMS(q)")
    assert parse(text) == parse(CONV)


def test_a_line_goes_on_inside_brackets() -> None:
    text = CONV.replace("(", "(\n").replace("[", "[\n# c\n").replace(",", "\n,\n")
    assert parse(text) == parse(CONV)


def test_comment_signs_in_strings() -> None:
    found = call("f('# no comment', A)  # a comment")
    assert [value for _, value in found.arguments] == [s.Constant("# no comment"), A]


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["Loss", "INput", "RANKS", "nothing", "max", "where", "_", "In"])
def test_keywords_are_whole_words(name: str) -> None:
    found = statement(f"{name}[{name}] = {name}[{name}]")
    assert found.target == s.Access(s.Identifier(name), (s.Eintup(name),))


@pytest.mark.parametrize("name", ["L", "IN", "INT", "DIMS", "RANGE", "and"])
def test_keywords_are_reserved(name: str) -> None:
    assert errors(f"A[i] = {name}[i]")[0] == ("E0102", 1)
    assert errors(f"{name}[i] = 1")[0] == ("E0102", 1)


# -------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("i - j - k", "(i - j) - k"),
        ("i + j * k", "i + (j * k)"),
        ("i // 2 % 3 * 4 //^ 5", "(((i // 2) % 3) * 4) //^ 5"),
        ("DIMS(i) - 1 - i", "(DIMS(i) - 1) - i"),
    ],
)
def test_precedence_of_indices(text: str, grouped: str) -> None:
    assert index(text) == index(grouped)


def test_atoms_of_indices() -> None:
    assert index("i") == E_I
    assert index("3") == s.Whole(3)
    assert index("DIMS(i, j + 1)") == s.Dims((E_I, s.IndexBinary("+", E_J, s.Whole(1))))
    assert index("RANK(i)") == s.Rank((E_I,))
    assert index("FLAT(i, j)") == s.Flat((E_I, E_J))
    assert index("B[i, :]") == s.Slice(B, (E_I, None))
    assert index("B[:, :]") == s.Slice(B, (None, None))  # the checker counts them


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("-1 * 2 + 3 - 4", "(((-1) * 2) + 3) - 4"),
        ("1 - -2", "1 - (-2)"),
        ("--1", "-(-1)"),
        ("1 / 2 // 3 //^ 4 % 5", "(((1 / 2) // 3) //^ 4) % 5"),
        ("1 or 2 and 3", "1 or (2 and 3)"),
        ("not 1 < 2 and not not 3", "(not (1 < 2)) and (not (not 3))"),
        ("1 + 2 < 3 * 4 or 5 == -6", "((1 + 2) < (3 * 4)) or (5 == (-6))"),
    ],
)
def test_precedence_of_values(text: str, grouped: str) -> None:
    assert value(text) == value(grouped)


def test_atoms_of_values() -> None:
    assert value("B[i, j]") == s.Access(B, (E_I, E_J))
    assert value("DIMS(i, j)[k]") == s.DimsAt(s.Dims((E_I, E_J)), E_K)
    assert value("RANK(i)") == s.Rank((E_I,))
    assert value("RANGE[i, k]") == s.Range(E_I, E_K)
    zero, ten = s.Number(0, "0"), s.Number(10, "10")
    assert value("RANDOM(0, 10, INT)") == s.Random(zero, ten, "INT")
    assert value("max(0, 10)") == s.Apply(s.Identifier("max"), (zero, ten))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("007", 7), ("3.", 3.0), (".5", 0.5), ("1e3", 1e3), ("2.5E-3", 2.5e-3)],
)
def test_numbers(text: str, expected: float) -> None:
    found = value(text)
    assert isinstance(found, s.Number)
    assert (found.value, type(found.value)) == (expected, type(expected))


@pytest.mark.parametrize("operator", ASSIGNMENTS)
def test_assignments(operator: str) -> None:
    assert statement(f"A[i]{operator}B[i]").operator == operator
    assert statement(f"and_[max] {operator} -B[i]").operator == operator


def test_an_assignment_is_one_word() -> None:
    assert errors("A[i] max = B[i]") == [("E0102", 1)]
    assert errors("A[i] max== B[i]") == [("E0102", 1)]
    assert errors("A[i] -= B[i]") == [("E0102", 1)]


# --------------------------------------------------------------------- constraints


def test_constraints() -> None:
    rank, dims = s.Rank((E_I,)), s.Dims((E_I,))
    one, two = s.Whole(1), s.Whole(2)
    assert constraint("RANK(i) IN [1, 2]") == s.Membership(rank, one, two)
    assert constraint("RANK(i) = 2") == constraint("RANK(i) == 2")
    assert constraint("-1 < RANK(i) <= 2 != DIMS(i)[1]") == s.Comparison(
        (s.Whole(-1), rank, two, s.DimOf(dims, 1)), ("<", "<=", "!=")
    )
    assert constraint("DIMS(i) > max(1, DIMS(i)) - 2 * 1") == s.Comparison(
        (
            dims,
            s.TermBinary("-", s.Smallest("max", (one, dims)), s.TermBinary("*", two, one)),
        ),
        (">",),
    )
    assert constraint("min(RANK(i, j), 1) = 2 // (1 - RANK(j))") == s.Comparison(
        (
            s.Smallest("min", (s.Rank((E_I, E_J)), one)),
            s.TermBinary("//", two, s.TermBinary("-", one, s.Rank((E_J,)))),
        ),
        ("==",),
    )


# ---------------------------------------------------------------------------- call


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L('VALID')", "VALID"),
        ('"it\'s"', "it's"),
        (r"'it\'s \\ \n'", "it's \\ \n"),
        ("-1", -1),
        ("L(0.5)", 0.5),
        ("True", True),
        ("None", None),
        ("[1, -2.5, 'a', [True]]", [1, -2.5, "a", [True]]),
        ("()", ()),
        ("(1,)", (1,)),
        ("(1)", 1),
        ("(1, (2, 3),)", (1, (2, 3))),
    ],
)
def test_constants_of_calls(text: str, expected: object) -> None:
    found = argument(text)
    assert isinstance(found, s.Constant)
    assert (found.value, type(found.value)) == (expected, type(expected))


def test_arguments_of_calls() -> None:
    dims = s.Dims((s.Whole(0), E_I))
    assert argument("A") == A
    assert argument("DIMS(0, i)") == dims
    assert argument("DIMS(0, i)[1]") == s.Item(dims, 1)
    assert argument("TENSOR(DIMS(0, i))") == s.TensorOf(dims)
    assert argument("TENSOR(3)") == s.TensorOf(s.Constant(3))
    assert argument("tf.float32") == s.QualifiedName(("tf", "float32"))
    inner = s.Call(s.QualifiedName(("tf", "cast")), ((None, A), (s.Identifier("dtype"), B)))
    assert argument("tf.cast(A, dtype=B)") == inner
    assert argument("tf.cast(A, dtype=B)[0]") == s.Item(inner, 0)
    assert call("np.zeros()") == s.Call(s.QualifiedName(("np", "zeros")), ())


# ------------------------------------------------------------------------- errors


def test_all_errors_are_found() -> None:
    text = """A[i] = RANDOM(0, 1
B[i] = A[i] $ 2
C(i) = A[i]
D[i] = A[i] + * 2
E[i] = A[i]
F[i] = 1x

tf.identity(E

E

RANK(i) IN [1, 2
RANK(j) = 2
RANK(k) IN 3
DIMS(i) < 5
"""
    file, report = read(text)
    lines = [d.span.source.position(d.span.start)[0] for d in report.diagnostics]
    assert lines == [2, 6, 1, 3, 4, 8, 12, 14]
    assert [x.target.array.name for x in file.statements] == ["E"]
    assert len(file.constraints) == 2


@pytest.mark.parametrize("rest", ["A[i]", "(A[i] * 2)", "exp(A[i])", "RANK(i)", "x", "* 2"])
def test_lines_that_do_not_go_on(rest: str) -> None:
    assert errors(f"A[i] = 1\nB[i] = A[i] +\n  {rest}\nC[i] = A[i]") == [("E0102", 2)]
    assert errors(f"A[i] = 1\nB[i] = A[i]\n  + {rest}\nC[i] = A[i]") == [("E0102", 3)]


def test_sections_that_are_not_set_apart() -> None:
    file, report = read("A[i] = 1\ntf.zeros(DIMS(i))\nA\nRANK(i) = 2")
    assert [d.code for d in report.diagnostics] == ["E0102"] * 3
    assert file.call is not None
    assert (len(file.outputs), len(file.constraints)) == (1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "RANK(i) = 1",
        "A[i] = 1\n\nf(A)",
        "A[i] = 1\n\nf(A)\n\ng(A)\n\nA",
        "A[i] = 1\n\nf(A)\n\nA\n\nA, A",
        "A[i] = 1\n\nRANK(i) = 1\n\nf(A)\n\nA",
        "A[i] = 1\n\nf(A)\n\nA\n\nRANK(i) = 1\n\nB[i] = 2",
    ],
)
def test_sections_in_the_wrong_number_or_order(text: str) -> None:
    assert [code for code, _ in errors(text)] == ["E0102"]


_HOSTILE = {
    "parentheses": "(" * 50_000,
    "brackets": "A[" * 50_000,
    "signs": "-" * 50_000,
    "negations": "not " * 50_000,
    "calls": "x(-a[i] or b[DIMS(i)-1] and " * 20_000,
    "a sum": "1+" * 50_000 + "1",
    "an index": "A[" + "1+" * 50_000 + "1]",
    "nested indices": "A[" + "FLAT(" * 50_000,
    "a digit string": "1" * 50_000,
    "a name": "a" * 1_000_000,
    "dots": "." * 50_000,
    "damage": "$ " * 500_000,
    "zero characters": "\0" * 500_000,
    "control characters": "\x1b[31m\x07\x00",
    "no ASCII": "\N{GREEK SMALL LETTER ALPHA}" * 50_000,
    "an open string": "'" + "a" * 1_000_000,
    "strings": "'a' " * 50_000,
    "statements": "\nA[i = 3" * 20_000,
    "lines": "\nA[i]" * 60_000,
    "words": "1 " * 600_000,
    "a chain": "1\n\n" + "RANK(i) <" * 20_000 + "9",
    "open statements": "(\nA[i] = " * 20_000,
    "lists": "(x,\n" * 50_000,
    "closing brackets": ")" * 50_000,
    "sections": "\n\nA" * 20_000,
    "calls of frameworks": "\n\n" + "f(" * 20_000,
    "lists in calls": "\n\nf(" + "[" * 20_000,
    "constraints": "\n\n" + "min(" * 20_000,
    "relations": "\n\nRANK(a)" + "<" * 20_000,
    "a large constraint": "\n\nRANK(a) = 1" + "*2" * 20_000,
}


@pytest.mark.parametrize("middle", _HOSTILE.values(), ids=_HOSTILE)
def test_hostile_texts_are_answered(middle: str) -> None:
    _, report = read("A[i] = 1\nB[i] = " + middle)
    assert report.errors
    for found in report.errors:
        assert len(found.render()) < 20_000


def test_a_misspelt_random_is_answered_with_its_form() -> None:
    (found,) = read("A[i] = RANDM(0, 1, FLOAT)")[1].errors
    assert "`RANDOM(low, high, FLOAT)`" in found.help


def test_long_texts_without_errors() -> None:
    lines = 20_000
    text = "A[i] = 1\n" * lines + "\nRANK(i) = 1" + "\nDIMS(i) < 9" * lines
    file = parse(text)
    assert (len(file.statements), len(file.constraints)) == (lines, lines + 1)
