"""Tokens of Tensor Comprehensions: one regular expression.

Spec: a number is what C reads as one, `3E-5` is an integer, `.1` behind a name is a number.
Ricci: `3E-5` is real, `T.1` is the size of a dimension, names may begin with `inf` and `nan`.
"""

from __future__ import annotations

import re

from ...diagnostics import Report
from ...dtypes import DType
from ...source import Source, Span
from ..tokens import Token

TYPES: dict[str, DType] = {
    **{d.value: d for d in DType if not d.is_abstract and d is not DType.STR},
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
}
"""The names of scalar types."""

KEYWORDS = frozenset({"def", "where", "in", "exists", "min", "max", *TYPES})

ASSIGNMENTS = ("=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!")

_COMMENT = r"\#[^\r\n]*+"

# Possessive repetitions keep the time linear in the text, whatever the text is.
_TOKEN = re.compile(
    rf"""(?:[ \t\r\n\f\v]++|{_COMMENT})*+(?:
    (?P<op>(?:min|max|\+|\*)=!?|->|<=>|<=|>=|==|!=|&&|\|\||[-+*/%()\[\]?:,={{}}><!]
        |\.(?![0-9]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<number>0[xX](?:[pP][+-]?|[A-Za-z0-9_.])*+|\.?[0-9](?:[eE][+-]?|[A-Za-z0-9_.])*+)
    |(?P<damaged>[^ \t\r\n\f\v\#]))""",
    re.X | re.S,
)
_HEX = r"0[xX][0-9a-fA-F]+"
_INTEGER = re.compile(rf"[0-9]+|{_HEX}")
_REAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX_REAL = re.compile(rf"(?:{_HEX}\.?[0-9a-fA-F]*|0[xX]\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?")

_LONGEST_NUMBER = 1000
"""Characters of the longest literal; integers of executed programs have 19 digits."""


def tokenize(source: Source, report: Report) -> list[Token]:
    """All tokens of a text without spaces and comments, and one of kind `end`."""
    tokens: list[Token] = []
    text = source.text
    position = 1 if text.startswith("\ufeff") else 0
    while found := _TOKEN.match(text, position):
        kind = found.lastgroup or ""
        word = found[kind]
        start, position = found.span(kind)
        if kind == "number" and word[0] == "." and tokens and _may_have_sizes(tokens[-1]):
            kind, word, position = "op", ".", start + 1
        elif kind == "number":
            kind, word = _number(Span(source, start, position), report)
        elif kind == "damaged":
            position = _damage(source, start, report)
        tokens.append(Token(kind, word, start, position))
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


def find_comments(source: Source) -> list[Span]:
    """The comments of a text, in its order."""
    return [Span(source, m.start(), m.end()) for m in re.finditer(_COMMENT, source.text)]


def value_of(text: str) -> int | float:
    """The value of a literal that the lexer accepts."""
    if _INTEGER.fullmatch(text):
        return int(text, 16) if text[:2] in ("0x", "0X") else int(text)
    return float.fromhex(text) if text[:2] in ("0x", "0X") else float(text)


def _may_have_sizes(token: Token) -> bool:
    return token.kind == "name" and token.text not in KEYWORDS


def _number(span: Span, report: Report) -> tuple[str, str]:
    """Kind and text of a literal; a malformed one is reported, and mended."""
    word = span.text
    if len(word) > _LONGEST_NUMBER:
        report.error("E0104", f"a number of {len(word)} characters is too long", span)
        return "int", "0"
    if _INTEGER.fullmatch(word):
        return "int", word
    if not (_REAL.fullmatch(word) or _HEX_REAL.fullmatch(word)):
        unfinished = word[-1] in "eE+-" and "x" not in word.lower()
        help = "an exponent needs digits, as in `1e-5`" if unfinished else ""
        report.error("E0104", f"malformed number `{word[:40]}`", span, help=help)
        return "real", "0.0"
    if not _is_finite(word):
        report.error("E0104", f"`{word[:40]}` is too large for a real number", span)
        return "real", "0.0"
    return "real", word


def _is_finite(word: str) -> bool:
    try:
        return value_of(word) != float("inf")
    except OverflowError:  # of a hexadecimal number
        return False


def _damage(source: Source, start: int, report: Report) -> int:
    """Report what begins no token; where to go on behind it."""
    text = source.text
    stop = start + 1
    while text[start] >= "\x80" and stop < len(text) and text[stop] >= "\x80":
        stop += 1
    ascii_only = "outside comments there are ASCII characters only"
    help = ascii_only if text[start] >= "\x80" else _HINTS.get(text[start], "")
    shown = text[start : min(stop, start + 8)]
    report.error("E0101", f"unexpected character {shown!r}", Span(source, start, stop), help=help)
    return stop


_HINTS = {
    "&": "the operator is `&&`",
    "|": "the operator is `||`",
    ";": "statements are set apart by nothing but spaces",
    "^": "a power is written `pow(x, y)`",
    '"': "the language has no strings",
    "'": "the language has no strings",
}
