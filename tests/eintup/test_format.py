"""Trees of Einsum Tuple as texts, and texts in the form of the formatter."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ricci.diagnostics import Error, Report
from ricci.frontends.eintup import printer
from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.format import format_source
from ricci.frontends.eintup.lexer import find_comments, tokenize
from ricci.frontends.eintup.sections import split_lines
from ricci.source import Source

from .test_parser import CONV, argument, call, constraint, index, parse, statement, value
from .trees import arguments, calls, constraints, files, indices, statements, terms, values


def formatted(text: str) -> str:
    return format_source(Source("<text>", text))


# -------------------------------------------------------------------------- trees


@settings(max_examples=60, deadline=None)
@given(files)
def test_a_printed_file_is_read_back(file: s.File) -> None:
    text = printer.print_file(file)
    assert parse(text) == file
    assert formatted(text) == text


@settings(max_examples=60, deadline=None)
@given(indices, values, terms)
def test_printed_expressions_are_read_back(
    item: s.IndexExpr, number: s.Value, term: s.Term
) -> None:
    assert index(printer.print_index(item)) == item
    assert value(printer.print_value(number)) == number
    related = s.Comparison((term, s.Whole(1)), ("<",))
    assert constraint(printer.print_term(term) + " < 1") == related


@settings(max_examples=60, deadline=None)
@given(statements, constraints, calls, arguments)
def test_printed_lines_are_read_back(
    line: s.Statement, rule: s.Constraint, invoked: s.Call, passed: s.Argument
) -> None:
    assert statement(printer.print_statement(line)) == line
    assert constraint(printer.print_constraint(rule)) == rule
    assert call(printer.print_call(invoked)) == invoked
    assert argument(printer.print_argument(passed)) == passed


# -------------------------------------------------------------------------- texts

UNTIDY = """

# header
X[b,p ,c]=RANDOM(0,10,FLOAT)# fill


   # two
Y[b] max= where(not(a[b]<3),-X[b,p,   # first
  # second
  c],-exp( - X[b,p, c]*2 ) )
# end of the program
 \t
tf.f( input=X, filters=[1,(1,),()],
  L("x") )  # call
# before the outputs

X,Y


0<RANK(b,c)<=3
DIMS(l)[0]>=max(DIMS(f)-1,-2)//^(3-4)
RANK(b)IN[1,2]
# end
"""

TIDY = """# header
X[b, p, c] = RANDOM(0, 10, FLOAT)  # fill

# two
Y[b] max= where(not (a[b] < 3),
                -X[b, p,  # first
                   # second
                   c], -exp(-X[b, p, c] * 2))
# end of the program

tf.f(input=X, filters=[1, (1,), ()], L("x"))  # call
# before the outputs

X, Y

0 < RANK(b, c) <= 3
DIMS(l)[0] >= max(DIMS(f) - 1, -2) //^ (3 - 4)
RANK(b) IN [1, 2]
# end
"""


def test_a_text_is_laid_out() -> None:
    assert formatted(UNTIDY) == TIDY
    assert formatted(TIDY) == TIDY
    assert formatted(CONV) == CONV


def test_sections_stay_in_the_order_of_the_text() -> None:
    program, invoked, outputs, rules = CONV.rstrip("\n").split("\n\n")
    text = "\n\n".join([program, outputs, invoked, rules]) + "\n"
    assert formatted(text) == text


def test_line_ends_are_those_of_the_text() -> None:
    assert formatted(UNTIDY.lstrip().replace("\n", "\r\n")) == TIDY.replace("\n", "\r\n")


LONG = """\
y[batch, place, chan] = x[batch, place + DIMS(stride) * window, chan] * w[window, chan] + bias[chan]
y[batch, opos, FLAT(group, chan)] += x[batch, DIMS(stride) * opos + DIMS(dilation) * window, chan]
y[batch] = where(x[batch, DIMS(stride) * opos + DIMS(dilation) * window, chan] < 3, 0, 1 + w[batch])

tf.reshape(tf.gather_nd(params, indices, batch_dims=RANK(batch), name='gather'), DIMS(batch, write))

y
""".replace("y[", "output[")

BROKEN = """\
output[batch, place, chan] = (x[batch, place + DIMS(stride) * window, chan] * w[window, chan]
                              + bias[chan])
output[batch, opos, FLAT(group, chan)] += (
    x[batch, DIMS(stride) * opos + DIMS(dilation) * window, chan])
output[batch] = where(x[batch, DIMS(stride) * opos + DIMS(dilation) * window, chan] < 3, 0,
                      1 + w[batch])

tf.reshape(tf.gather_nd(params, indices, batch_dims=RANK(batch), name='gather'), DIMS(batch, write))

y
"""


def test_long_lines_break_inside_brackets() -> None:
    assert formatted(LONG) == BROKEN
    assert formatted(BROKEN) == BROKEN


_SPACES = st.sampled_from(["", " ", "\t", "\n", "\n  # c\n", "#\n", " # d # e\n\t"])
_GAPS = st.sampled_from(["\n", "\n\n", " \n \n\n", "\n# c\n", "  # c\n\n# d\n\n\n#e\n"])


@settings(max_examples=60, deadline=None)
@given(files, st.data())
def test_comments_are_kept(file: s.File, data: st.DataObject) -> None:
    source = Source("<text>", _scatter(Source("<text>", printer.print_file(file)), data))
    text = format_source(source)
    assert parse(text) == parse(source.text) == file
    assert _comments(Source("<text>", text)) == _comments(source)
    assert formatted(text) == text


def _scatter(source: Source, data: st.DataObject) -> str:
    """A text with other spaces, and comments, wherever it may have them."""
    tokens = tokenize(source, Report())
    text = data.draw(st.sampled_from(["", "\n", "# c\n\n"]))
    for line in split_lines(source, tokens):
        depth = 0
        text += "\n" if line.apart else ""
        for at in range(line.start, line.stop - 1):
            word, following = tokens[at], tokens[at + 1]
            depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
            between = source.text[word.end : following.start]
            text += word.text + (data.draw(_SPACES) + " " if depth else between)
        text += tokens[line.stop - 1].text + data.draw(_GAPS)
    return text


def _comments(source: Source) -> list[str]:
    return [comment.text.rstrip() for comment in find_comments(source)]


def test_a_text_with_errors_is_not_formatted() -> None:
    with pytest.raises(Error, match="E0102"):
        formatted("A[i = 3")
