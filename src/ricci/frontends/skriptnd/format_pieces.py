"""A text as pieces: its syntax tree down to the tokens, to which its comments are attached."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field

from ...diagnostics import Report
from ...records import dataclass
from ...source import Source
from ..words import Word, attach_comments
from . import syntax as s
from .lexer import find_comments, tokenize
from .parser import children

_CLOSING = {"(": ")", "[": "]", "{": "}"}


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
    return attach_comments(source, tokenize(source, Report()), find_comments(source))


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
