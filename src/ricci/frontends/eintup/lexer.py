"""Tokens of Einsum Tuple: one regular expression.

The original reads keywords as prefixes of names and numbers without exponents. Ricci: keywords are
whole words, `#` begins a comment, and reals may have an exponent.
"""

from __future__ import annotations

import re

from ...diagnostics import Report
from ...source import Source, Span
from ..tokens import Token

KEYWORDS = frozenset("DIMS RANK RANDOM TENSOR FLAT FLOAT INT IN L RANGE and or not".split())

_COMMENT = r"\#[^\r\n]*+"
_STRING = r"""'(?:[^'\\\r\n]|\\[^\r\n])*+'|"(?:[^"\\\r\n]|\\[^\r\n])*+\""""

# Possessive repetitions keep the time linear in the text, whatever the text is.
_TOKEN = re.compile(
    rf"""(?:[ \t\r\n\f\v]++|{_COMMENT})*+(?:
    (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<number>\.?[0-9](?:[eE][+-]?|[A-Za-z0-9_.])*+)
    |(?P<op>//\^|//|<=|>=|==|!=|\+=|\*=|[-+*/%()\[\],:=<>.])
    |(?P<string>{_STRING})
    |(?P<damaged>[^ \t\r\n\f\v\#]))""",
    re.X | re.S,
)
_COMMENTS = re.compile(rf"(?:{_STRING})|(?P<comment>{_COMMENT})", re.S)
_REAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LINE_END = re.compile(r"[\r\n]|\Z")

_LONGEST_NUMBER = 1000
"""Characters of the longest literal; the integers of a program have at most 19 digits."""

LARGEST_INTEGER = 2**63 - 1

_MOST_TOKENS = 500_000
"""Words and signs of the longest text."""

MOST_ERRORS = 100
"""Errors after which a text is read no further."""


def tokenize(source: Source, report: Report) -> list[Token]:
    """All tokens of a text without spaces and comments, and one of kind `end`."""
    tokens: list[Token] = []
    text = source.text
    position = 1 if text.startswith("\ufeff") else 0
    damages = 0
    while damages < MOST_ERRORS and (found := _TOKEN.match(text, position)):
        if len(tokens) == _MOST_TOKENS:
            message = f"a text has more than {_MOST_TOKENS} words and signs"
            report.error("E0901", message, Span(source, position, position))
            break
        kind = found.lastgroup or ""
        word = found[kind]
        start, position = found.span(kind)
        if kind == "number":
            kind, word = _number(Span(source, start, position), report)
        elif kind == "damaged":
            damages += 1
            position = _damage(source, start, report)
        tokens.append(Token(kind, word, start, position))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def find_comments(source: Source) -> list[Span]:
    """The comments of a text, in its order."""
    found = _COMMENTS.finditer(source.text)
    return [Span(source, m.start(), m.end()) for m in found if m["comment"]]


def _number(span: Span, report: Report) -> tuple[str, str]:
    """Kind and text of a literal; one that is wrong is reported."""
    word = span.text
    if len(word) > _LONGEST_NUMBER:
        report.error("E0104", f"a number of {len(word)} characters is too long", span)
        return "damaged", word
    if word.isdigit():
        if int(word) <= LARGEST_INTEGER:
            return "int", word
        report.error("E0104", f"`{word[:40]}` is too large for an integer of 64 bits", span)
        return "damaged", word
    if not _REAL.fullmatch(word):
        report.error("E0104", f"malformed number `{word[:40]}`", span, help=_number_help(word))
        return "damaged", word
    if float(word) == float("inf"):
        report.error("E0104", f"`{word[:40]}` is too large for a real number", span)
        return "damaged", word
    return "real", word


def _number_help(word: str) -> str:
    if ".." in word:
        return "an interval is written `[1, 3]`; both ends belong to it"
    if word[-1] in "eE+-":
        return "an exponent needs digits, as in `1e-5`"
    if re.fullmatch(r"[0-9]+[A-Za-z_]+", word):
        factor = word.lstrip("0123456789")
        return f"a product is written `{word[: -len(factor)]}*{factor}`"[:80]
    return ""


def _damage(source: Source, start: int, report: Report) -> int:
    """Report what begins no token; where to go on behind it."""
    text = source.text
    if text[start] in "'\"":
        return _open_string(source, start, report)
    stop = start + 1
    while stop < len(text) and (text[stop] == text[start] or text[start] >= "\x80" <= text[stop]):
        stop += 1
    ascii_only = "outside comments and strings there are ASCII characters only"
    help = ascii_only if text[start] >= "\x80" else _HINTS.get(text[start], "")
    shown = text[start : min(stop, start + 8)]
    report.error("E0101", f"unexpected character {shown!r}", Span(source, start, stop), help=help)
    return stop


def _open_string(source: Source, start: int, report: Report) -> int:
    found = _LINE_END.search(source.text, start)
    stop = found.start() if found else len(source.text)
    report.error(
        "E0103",
        "this string does not end on its line",
        Span(source, start, stop),
        help=f"close it with `{source.text[start]}`",
    )
    return stop


_HINTS = {
    "&": "the operator is `and`",
    "|": "the operator is `or`",
    "!": "the operator is `not`",
    "?": "a choice is written `where(condition, value, other)`",
    ";": "each statement stands on a line of its own",
    "\\": "a line goes on over its end inside brackets, without any sign",
    "^": "a power is written `pow(x, y)`; the quotient that is rounded up is `//^`",
    "{": "indices stand in `[...]`, groups of values in `(...)`",
    "}": "indices stand in `[...]`, groups of values in `(...)`",
}
