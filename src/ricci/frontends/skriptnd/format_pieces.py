"""A text as pieces: its syntax tree down to the tokens, to which its comments are attached.

A comment behind a token on its line belongs to that token; one on a line of its own belongs to
the token that follows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...diagnostics import Report
from ...source import Source
from . import syntax as s
from .lexer import find_comments, tokenize
from .parser import children

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(slots=True)
class Note:
    """A comment on a line of its own; `blank` if an empty line stands before it."""

    text: str
    blank: bool


@dataclass(slots=True)
class Word:
    """A token with its comments, and how it was set apart from the one before it."""

    kind: str
    text: str
    start: int
    end: int
    notes: list[Note] = field(default_factory=list)
    remark: str = ""
    """The comment that stands behind it."""
    gap: bool = False
    newline: bool = False
    """Whether a new line begins between the token before and this, or its comments."""
    blank: bool = False
    """Whether an empty line stands directly before it."""


@dataclass(slots=True)
class Piece:
    """A node of the syntax tree with its tokens and inner nodes, in order."""

    node: s.Node
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class Bracket:
    """What stands between two brackets."""

    opening: Word
    parts: list[Part]
    closing: Word


Part = Word | Piece | Bracket


def read_words(source: Source) -> list[Word]:
    """The tokens of a text without syntax errors; the last is of kind `end`."""
    words = [Word(t.kind, t.text, t.start, t.end) for t in tokenize(source, Report())]
    starts = [w.start for w in words]
    ends = [0] * len(words)
    for comment in find_comments(source):
        text = source.text[comment.start : comment.end].rstrip()
        at = bisect_left(starts, comment.start)
        before = source.text[max(ends[at], words[at - 1].end if at else 0) : comment.start]
        if at and not ends[at] and not _lines(before):
            words[at - 1].remark = text
        else:
            words[at].notes.append(Note(text, _lines(before) > 1))
        ends[at] = comment.end
    for at, word in enumerate(words):
        last = words[at - 1].end if at else 0
        word.gap = last < word.start
        word.newline = _lines(source.text[last : word.start]) > 0
        word.blank = _lines(source.text[max(last, ends[at]) : word.start]) > 1
    return words


def _lines(text: str) -> int:
    """How many lines end in a text of spaces."""
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def make_pieces(words: list[Word], statements: list[s.Node]) -> list[Piece]:
    """A piece for each statement, out of the words that lie in it."""
    starts = [w.start for w in words]
    found = []
    for statement in statements:
        first = bisect_left(starts, statement.span.start)
        last = bisect_left(starts, statement.span.end)
        found.append(_make_piece(words[first:last], statement))
    return found


def _make_piece(words: list[Word], statement: s.Node) -> Piece:
    nodes = sorted(_nodes(statement), key=lambda n: (n.span.start, -n.span.end))
    root = Piece(statement)
    stack = [root]
    position = 0
    for word in words:
        while len(stack) > 1 and stack[-1].node.span.end <= word.start:
            stack.pop()
        while position < len(nodes) and nodes[position].span.start <= word.start:
            node = nodes[position]
            position += 1
            if node.span.end >= word.end:
                piece = Piece(node)
                stack[-1].parts.append(piece)
                stack.append(piece)
        stack[-1].parts.append(word)
    _match_brackets(root)
    return root


def _nodes(root: s.Node) -> Iterator[s.Node]:
    """All nodes below one, outer ones first; what stands inside strings is left out."""
    pending = children(root)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, s.Format):
            pending.extend(children(node)[::-1])


def _match_brackets(piece: Piece) -> None:
    """Put what stands between brackets of one piece into a `Bracket`."""
    open_words: list[Word] = []
    outer: list[list[Part]] = []
    current: list[Part] = []
    for part in piece.parts:
        if isinstance(part, Piece):
            _match_brackets(part)
        if isinstance(part, Word) and part.kind == "op":
            if part.text in _CLOSING:
                open_words.append(part)
                outer.append(current)
                current = []
                continue
            if open_words and part.text == _CLOSING[open_words[-1].text]:
                inside, current = current, outer.pop()
                part = Bracket(open_words.pop(), inside, part)
        current.append(part)
    piece.parts = current


def first_word(part: Part) -> Word:
    while not isinstance(part, Word):
        part = part.opening if isinstance(part, Bracket) else part.parts[0]
    return part


def last_word(part: Part) -> Word:
    while not isinstance(part, Word):
        part = part.closing if isinstance(part, Bracket) else part.parts[-1]
    return part


def list_words(parts: Sequence[Part]) -> list[Word]:
    """All words of some parts, in order."""
    found: list[Word] = []
    for part in parts:
        if isinstance(part, Word):
            found.append(part)
        elif isinstance(part, Bracket):
            found += [part.opening, *list_words(part.parts), part.closing]
        else:
            found += list_words(part.parts)
    return found
