"""Tokens with their comments, for formatters.

A comment behind a token on its line belongs to that token; one on a line of its own belongs to
the token that follows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import field

from ..records import dataclass
from ..source import Source, Span
from .layout import Comment, Doc
from .tokens import Token


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


def attach_comments(source: Source, tokens: Sequence[Token], comments: list[Span]) -> list[Word]:
    """The tokens of a text with its comments."""
    words = [Word(t.kind, t.text, t.start, t.end) for t in tokens]
    starts = [w.start for w in words]
    ends = [0] * len(words)
    for comment in comments:
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


def write_word(word: Word, text: str | None = None) -> Doc:
    """A word with its comments, or another text in its place."""
    notes: list[Doc] = [Comment(n.text, False, n.blank) for n in word.notes]
    shown = word.text if text is None else text
    remark: list[Doc] = [Comment(word.remark, True)] if word.remark else []
    return [*notes, shown, *remark]


def take_notes(word: Word, first: bool) -> list[Doc]:
    """The comments before a word, taken from it; no empty line before the `first` of all."""
    notes, word.notes = word.notes, []
    return [
        Comment(note.text, False, note.blank and not (first and note is notes[0])) for note in notes
    ]
