"""The parser: a text as a tree, with recovery at each line, so that all its errors are found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar, cast

from ...diagnostics import Label, Report
from ...source import Source, Span
from ..tokens import Rejected, Token
from . import syntax as s
from .lexer import MOST_ERRORS, tokenize
from .parser_base import LineParser
from .parser_call import CallParser
from .parser_terms import ConstraintParser
from .parser_values import GOES_ON, VALUE_LEVELS, ValueParser
from .sections import (
    KINDS,
    WHAT,
    WORD_ASSIGNMENTS,
    Kind,
    Section,
    TextLine,
    span_of,
    split_sections,
)

_MOST_LINES = 30_000
"""How many lines a section may have."""

ASSIGNMENTS = ("=", "+=", "*=", "max=", "min=", "and=", "or=")

P = TypeVar("P", bound=LineParser)
T = TypeVar("T")


def parse_file(source: Source, report: Report) -> s.File:
    """The tree of a text; syntax errors go into the report, and their lines are left out."""
    return _FileParser(source, report).file()


class _FileParser:
    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report
        self.tokens = tokenize(source, report)
        self.rejected = 0

    def file(self) -> s.File:
        sections = split_sections(self.source, self.tokens, self.report)
        self._check_order(sections)
        by_kind: dict[Kind, list[TextLine]] = {kind: [] for kind in KINDS}
        for section in sections:
            by_kind[section.kind] += section.lines
        self._check_single(by_kind["call"], "a second call", _ONE_CALL)
        self._check_single(by_kind["outputs"], "a second line of outputs", _ONE_LINE)
        return s.File(
            self._read(by_kind["program"], _StatementParser, _StatementParser.statement),
            next(iter(self._read(by_kind["call"][:1], CallParser, CallParser.call_line)), None),
            next(iter(self._read(by_kind["outputs"][:1], CallParser, CallParser.outputs)), ()),
            self._read(by_kind["constraints"], ConstraintParser, ConstraintParser.constraint),
            self.source,
        )

    def _read(
        self, lines: list[TextLine], parser: type[P], read: Callable[[P], T]
    ) -> tuple[T, ...]:
        """The lines that have no errors, each read by a parser of its own."""
        if len(lines) > _MOST_LINES:
            message = f"a section has more than {_MOST_LINES} lines"
            span = span_of(self.source, self.tokens, lines[_MOST_LINES])
            self.report.error("E0901", message, span)
            return ()
        nodes: list[T] = []
        unfinished = False
        for line in lines:
            reader = parser(self.source, self._words(line), self.report)
            try:
                nodes.append(read(reader))
                unfinished = False
            except Rejected as rejected:
                # What follows an unfinished line may be the rest of it.
                if line.apart or not unfinished:
                    self._note(rejected, reader)
                unfinished = reader.token.kind == "end"
            if self.rejected >= MOST_ERRORS:
                break
        return tuple(nodes)

    def _note(self, rejected: Rejected, reader: LineParser) -> None:
        """Report an error, unless the lexer has reported one of the line."""
        self.rejected += 1
        if all(token.kind != "damaged" for token in reader.tokens):
            reader.note(rejected)

    def _words(self, line: TextLine) -> list[Token]:
        """The tokens of a line, and one of kind `end`."""
        end = self.tokens[line.stop - 1].end
        return [*self.tokens[line.start : line.stop], Token("end", "", end, end)]

    # -------------------------------------------------------------------- sections

    def _span(self, line: TextLine) -> Span:
        return span_of(self.source, self.tokens, line)

    def _check_order(self, sections: list[Section]) -> None:
        """Program, call and outputs, constraints."""
        if not sections:
            self._misplaced("expected a statement, found an empty text", Span(self.source, 0, 0))
            return
        if sections[0].kind != "program":
            message = f"expected the program, found {WHAT[sections[0].kind]}"
            self._misplaced(message, self._span(sections[0].lines[0]))
            return
        for before, section in pairwise(sections):
            if _PLACES[section.kind] < _PLACES[before.kind]:
                message = f"{WHAT[section.kind]} stands behind {WHAT[before.kind]}"
                self._misplaced(message, self._span(section.lines[0]))
                return
        kinds = {section.kind: section for section in sections}
        if "call" in kinds and "outputs" not in kinds:
            self.report.error(
                "E0102",
                "the call has no outputs",
                self._span(kinds["call"].lines[0]),
                help="name the arrays that its results must equal in a section of their own",
            )

    def _misplaced(self, message: str, span: Span) -> None:
        self.report.error("E0102", message, span, help=_FILE)

    def _check_single(self, lines: list[TextLine], message: str, help: str) -> None:
        for line in lines[1:2]:
            self.report.error(
                "E0102",
                message,
                self._span(line),
                labels=(Label(self._span(lines[0]), "the first"),),
                help=help,
            )


_PLACES = {"program": 0, "call": 1, "outputs": 1, "constraints": 2}
_ONE_CALL = "a program is compared with one call, which goes on over line ends inside brackets only"
_ONE_LINE = "all outputs stand on one line, as in `A, B`"
_FILE = "a text is a program, a call and its outputs, and constraints, with blank lines between"


class _StatementParser(ValueParser):
    def statement(self) -> s.Statement:
        """`target operator value`."""
        start = self.token
        target = self._target()
        operator = self._assignment()
        value = self.value()
        self.end("each statement stands on a line of its own")
        return s.Statement(target, operator, value, self.since(start))

    def _target(self) -> s.Access:
        if self.token.kind != "name":
            help = GOES_ON if self.token.text in VALUE_LEVELS else _STATEMENT
            self.reject_token("expected a statement", help)
        if self.at_name() and self.peek().text != "[":
            self.advance()
            help = "the elements of an array are written `A[i, j]`"
            self.reject_token("expected `[` behind the name of the array", help)
        return self.access("the name of an array")

    def _assignment(self) -> s.Assign:
        """`=`, `+=`, or a word with `=` directly behind it."""
        token = self.token
        following = self.peek()
        word = token.text in WORD_ASSIGNMENTS and following.text == "="
        if word and following.start == token.end:
            self.advance()
            self.advance()
            return cast(s.Assign, token.text + "=")
        if token.text not in ("=", "+=", "*="):
            help = "the assignments are " + " ".join(f"`{a}`" for a in ASSIGNMENTS)
            if following.text == "=":
                help = _OTHER_ASSIGNMENTS.get(token.text, help)
            self.reject_token("expected an assignment", help)
        return cast(s.Assign, self.advance().text)


_OTHER_ASSIGNMENTS = {
    "-": "add the negative value: `A[i] += -(value)`",
    "/": "multiply with the inverse: `A[i] *= 1 / (value)`",
}
_STATEMENT = "a statement is `A[i, j] = value`"
