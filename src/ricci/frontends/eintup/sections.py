"""The sections of a text and their lines.

Sections are set apart by blank lines and known by their shape: first the program, then the call
and the outputs in either order, then the constraints. A line goes on over its end inside brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ...diagnostics import Report
from ...records import dataclass
from ...source import Source, Span
from ..tokens import Token
from .lexer import KEYWORDS

Kind = Literal["program", "call", "outputs", "constraints"]

KINDS: tuple[Kind, ...] = ("program", "call", "outputs", "constraints")

WHAT: dict[Kind, str] = {
    "program": "a statement",
    "call": "the call",
    "outputs": "the outputs",
    "constraints": "a constraint",
}
"""What a line of each kind is called."""

WORD_ASSIGNMENTS = ("max", "min", "and", "or")
"""Words that make an assignment together with the `=` behind them."""

RELATIONS = ("=", "==", "<=", ">=", "<", ">", "!=")


@dataclass(frozen=True, slots=True)
class TextLine:
    """The tokens `start <= position < stop` of a text; `apart` if a blank line stands before."""

    start: int
    stop: int
    apart: bool


@dataclass(frozen=True, slots=True)
class Section:
    """Lines of one kind."""

    kind: Kind
    lines: list[TextLine]


def split_lines(source: Source, tokens: Sequence[Token]) -> list[TextLine]:
    """The lines of a text by its tokens."""
    lines: list[TextLine] = []
    start, depth, apart = 0, 0, True
    for position, token in enumerate(tokens[:-1]):
        if position > start:
            between = source.text[tokens[position - 1].end : token.start]
            blank = _has_blank_line(between)
            if blank or (_has_line_end(between) and (depth <= 0 or _is_target(tokens, position))):
                lines.append(TextLine(start, position, apart))
                start, depth, apart = position, 0, blank
        depth += (token.text in _OPENING) - (token.text in _CLOSING and depth > 0)
    if len(tokens) > 1:
        lines.append(TextLine(start, len(tokens) - 1, apart))
    return lines


def _has_line_end(between: str) -> bool:
    return "\n" in between or "\r" in between


def _has_blank_line(between: str) -> bool:
    lines = re.split(r"\r\n|\r|\n", between)
    return any(not line.strip() for line in lines[1:-1])


_OPENING, _CLOSING = ("(", "["), (")", "]")

_FARTHEST = 200
"""How many tokens are looked at to see what a line is."""


def _is_target(tokens: Sequence[Token], position: int) -> bool:
    """Whether a statement or constraint begins here: what it has, no expression contains."""
    constraint = tokens[position].text in ("RANK", "DIMS")
    opening = "(" if constraint else "["
    if tokens[position].kind != "name" or tokens[position + 1].text != opening:
        return False
    behind = _behind_bracket(tokens, position + 1, min(len(tokens) - 1, position + _FARTHEST))
    text = tokens[behind].text
    word = text in WORD_ASSIGNMENTS and tokens[behind + 1].text == "="
    return text in ("=", "IN") if constraint else text in ("=", "+=", "*=") or word


def _behind_bracket(tokens: Sequence[Token], opening: int, stop: int) -> int:
    """The position behind the bracket that closes the one at `opening`, or `stop`."""
    depth = 0
    for position in range(opening, stop):
        text = tokens[position].text
        depth += (text in _OPENING) - (text in _CLOSING)
        if depth == 0:
            return position + 1
    return stop


def split_sections(source: Source, tokens: Sequence[Token], report: Report) -> list[Section]:
    """The sections of a text, those of one kind together where nothing stands between them."""
    sections: list[Section] = []
    for line in split_lines(source, tokens):
        kind = _shape(tokens, line)
        if line.apart:
            kind = kind or _expected(tokens, line, sections)
        elif kind is None or kind == sections[-1].kind or _goes_on(tokens[line.start - 1]):
            kind = sections[-1].kind
        else:
            _report_missing_gap(span_of(source, tokens, line), kind, report)
        if sections and sections[-1].kind == kind:
            sections[-1].lines.append(line)
        else:
            sections.append(Section(kind, [line]))
    return sections


def span_of(source: Source, tokens: Sequence[Token], line: TextLine) -> Span:
    return Span(source, tokens[line.start].start, tokens[line.stop - 1].end)


def _goes_on(last: Token) -> bool:
    """Whether a line cannot end with this token, so that the next is the rest of it."""
    words = last.text in ("and", "or", "not", "IN")
    return words or (last.kind == "op" and last.text not in _CLOSING)


def _report_missing_gap(span: Span, kind: Kind, report: Report) -> None:
    report.error(
        "E0102",
        f"{WHAT[kind]} directly behind another section",
        span,
        help="an empty line stands between program, call, outputs and constraints",
    )


def _shape(tokens: Sequence[Token], line: TextLine) -> Kind | None:
    """What a line is without doubt."""
    first, second = tokens[line.start], tokens[line.start + 1]
    if first.kind == "name" and second.text == "[" and line.start + 1 < line.stop:
        return "program"
    if first.text in ("RANK", "DIMS"):
        return "constraints"
    words = tokens[line.start : line.stop]
    if _is_list_of_names(words):
        return "outputs"
    if _is_call(tokens, line):
        return "call"
    computed = first.text in ("min", "max") and second.text == "("
    if first.kind == "int" or first.text == "(" or computed:
        return "constraints"
    return None


def _is_list_of_names(words: Sequence[Token]) -> bool:
    names = all(w.kind == "name" and w.text not in KEYWORDS for w in words[::2])
    return names and all(w.text == "," for w in words[1::2])


def _is_call(tokens: Sequence[Token], line: TextLine) -> bool:
    """`a.b.c(...)`, with nothing behind but an item `[0]`."""
    at = line.start
    if tokens[at].kind != "name" or tokens[at].text in KEYWORDS:
        return False
    while at + 2 < line.stop and tokens[at + 1].text == "." and tokens[at + 2].kind == "name":
        at += 2
    if at + 1 >= line.stop or tokens[at + 1].text != "(":
        return False
    behind = _behind_bracket(tokens, at + 1, line.stop)
    return behind == line.stop or tokens[behind].text == "["


def _expected(tokens: Sequence[Token], line: TextLine, sections: list[Section]) -> Kind:
    """What a line that could be anything is taken for: that which comes next."""
    before = {section.kind for section in sections}
    if not before:
        return "program"
    if _has_relation(tokens[line.start : line.stop]):
        return "constraints"
    return next((kind for kind in KINDS[1:3] if kind not in before), "constraints")


def _has_relation(words: Sequence[Token]) -> bool:
    """Whether a relation stands outside all brackets."""
    depth = 0
    for word in words:
        depth += (word.text in _OPENING) - (word.text in _CLOSING)
        if depth == 0 and word.text in (*RELATIONS, "IN"):
            return True
    return False
