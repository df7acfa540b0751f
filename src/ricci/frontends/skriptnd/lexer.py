"""Tokens of SkriptND: one regular expression, both dialects.

Spec: 2.4 and 2.16. Ricci: the later dialect's spellings are read too; `<?` and `>?` give the
draft's `<<` and `>>` already here, so that nothing after the lexer knows two dialects.
"""

from __future__ import annotations

import re

from ...diagnostics import Report
from ...source import Source, Span
from ..tokens import Token

KEYWORDS = frozenset(
    {
        *("import", "graph", "public", "operator", "optional", "static", "dynamic", "as"),
        *("type", "arith", "num", "int", "real", "bool", "str"),
        *("inf", "pi", "true", "false", "in"),
        *("if", "then", "else", "elif", "do", "for", "while", "with", "yield", "unroll"),
    }
)
"""Reserved words; those of the later dialect (`static`, `dynamic`) are markers.

Spec: the convolution of 2.1 names an extent `is`. Ricci: `is` is the operator behind an operand
and a name everywhere else.
"""

_COMMENT = r"\#[^\r\n]*+"
STRING = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+\""""

# Possessive repetitions keep the time linear in the text, whatever the text is.
_TOKEN = re.compile(
    rf"""(?:[ \t\r\n\f\v]++|{_COMMENT})*+(?:
    (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>\.\.\.|<\?=|>\?=|\.\.|<<|>>|<\?|>\?|<-|<>|<=|->|>=|=>|==|!=|\*\*|&&|\|\||\+=|\*=|&=
        |\|=|:=|\?\?|[-+*/\\%^!<>=?,.:;~()\[\]{{}}|])
    |(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?[A-Za-z0-9_]*)
    |(?P<string>{STRING})
    |(?P<builtin>`[A-Za-z_][A-Za-z0-9_]*`)
    |(?P<block>@[A-Za-z_][A-Za-z0-9_]*)
    |(?P<damaged>[^ \t\r\n\f\v\#]))""",
    re.X | re.S,
)
_INTEGER = re.compile(r"[0-9]+")
_REAL = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_UNFINISHED = re.compile(r"[0-9]+(?:\.[0-9]*)?[eE][+-]?")

_DRAFT = {"<?": "<<", ">?": ">>", "<?=": "<=", ">?=": ">="}

_LONGEST_NUMBER = 1000
"""Characters of the longest literal; integers of executed programs have 19 digits."""

_MOST_OPEN_STRINGS = 20
"""After so many strings without end the rest of a text is not read."""


def tokenize(
    source: Source, report: Report, start: int = 0, end: int | None = None, until: str = ""
) -> list[Token]:
    """All tokens of a text, or a part of it, without spaces and comments, and one of kind `end`.

    With `until`, the part ends before the first token of this text.
    """
    return _Lexer(source, report).run(start, len(source.text) if end is None else end, until)


def find_comments(source: Source) -> list[Span]:
    """The comments of a text, in its order."""
    found = re.finditer(rf"{STRING}|(?P<comment>{_COMMENT})", source.text, re.S)
    return [Span(source, m.start(), m.end()) for m in found if m["comment"]]


class _Lexer:
    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report
        self.open_strings = 0

    def run(self, start: int, end: int, until: str) -> list[Token]:
        text = self.source.text
        tokens: list[Token] = []
        append = tokens.append
        match = _TOKEN.match
        position = 1 if start == 0 and text.startswith("\ufeff") else start
        while found := match(text, position, end):
            kind = found.lastgroup or ""
            word = found[kind]
            position = found.end()
            if kind == "op":
                if word == until:
                    end = position - len(word)
                    break
                word = _DRAFT.get(word, word)
            elif kind == "number":
                kind, word, position = self.number(word, position)
            elif kind == "damaged":
                position = self.damage(word, position - 1, end)
            append(Token(kind, word, found.start(found.lastindex or 0), position))
        append(Token("end", "", end, end))
        return tokens

    def number(self, word: str, after: int) -> tuple[str, str, int]:
        """Kind, text and end of a literal; a malformed one is reported, and mended."""
        start = after - len(word)
        following = self.source.text[after : after + 2]
        if len(word) > _LONGEST_NUMBER:
            self.reject_number(start, after, f"a number of {len(word)} characters is too long")
            return "int", "0", after
        if word.endswith(".") and following.startswith(".") and following != "..":
            self.report.error(
                "E0102",
                f"`{word}` is a number with the first of the two dots",
                Span(self.source, start, after + 1),
                help=f"a number takes the first dot: write `{word[:-1]} ..`",
            )
            return "int", word[:-1], after - 1
        if _INTEGER.fullmatch(word):
            return "int", word, after
        if not _REAL.fullmatch(word):
            unfinished = _UNFINISHED.fullmatch(word)
            help = "an exponent needs digits, as in `1e-5`" if unfinished else ""
            self.reject_number(start, after, f"malformed number `{word[:40]}`", help)
            return "real", "0.0", after
        if float(word) == float("inf"):
            message = f"`{word[:40]}` is too large for a real number"
            self.reject_number(start, after, message, "infinity is written `inf`")
        return "real", word, after

    def reject_number(self, start: int, end: int, message: str, help: str = "") -> None:
        self.report.error("E0104", message, Span(self.source, start, end), help=help)

    def damage(self, char: str, start: int, end: int) -> int:
        """Report what begins no token; where to go on behind it."""
        if char in "'\"":
            return self.open_string(char, start, end)
        stop = start + 1
        text = self.source.text
        while char >= "\x80" and stop < end and text[stop] >= "\x80":
            stop += 1
        if char >= "\x80":
            help = "outside strings and comments there are ASCII characters only"
        else:
            help = _HINTS.get(char, "")
        shown = text[start : min(stop, start + 8)]
        span = Span(self.source, start, stop)
        self.report.error("E0101", f"unexpected character {shown!r}", span, help=help)
        return stop

    def open_string(self, quote: str, start: int, end: int) -> int:
        text = self.source.text
        stops = [i for i in (text.find(c, start, end) for c in "\r\n") if i >= 0]
        stop = min(stops, default=end)
        self.report.error(
            "E0103",
            "this string does not end",
            Span(self.source, start, stop),
            help=f"close it with {quote}; within a string this quote is written \\{quote}",
        )
        self.open_strings += 1
        return end if self.open_strings > _MOST_OPEN_STRINGS else stop


_HINTS = {
    "&": "the operator is `&&`",
    "@": "the `@` of a block touches its name, as in `@input`",
    "`": "a built-in function stands between two back-ticks, as in `` `sqrt`(x) ``",
}
