"""The formatter: a module as text in one form, with its comments.

Only spaces, line ends and the spellings of the two dialects change, and commas that end a
list go. What is written is read back and compared before it is given out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial

from ...diagnostics import Report
from ...source import Source
from ..layout import BLANK, BREAK, STEP, Align, Doc, render
from ..words import Word
from . import syntax as s
from .format_pieces import Bracket, first_word, list_words, make_pieces, read_words
from .format_statements import StatementFormatter
from .lexer import find_comments
from .parser import FIELDS, parse_module

DIALECTS = ("draft", "later")


def format_source(source: Source, dialect: str = "draft") -> str:
    """The text in the formatter's form, in the `draft` dialect or the `later` one.

    Spec: has the draft's dialect only / Ricci: the same program in either. Raises `Error` with
    all syntax errors of the text.
    """
    report = Report()
    module = parse_module(source, report, "")
    report.raise_errors()
    text = _layout(module, dialect)
    for _ in range(_PASSES):
        formatted = Source(source.name, text)
        again = _layout(_compare(module, formatted), dialect)
        if again == text:
            return text
        text = again
    _compare(module, Source(source.name, text))
    return text


_PASSES = 8
"""Lines that had no room, and are now several, may be laid out otherwise the next time."""


def _layout(module: s.Module, dialect: str) -> str:
    source = module.source
    doc = _ModuleFormatter(source, dialect, read_words(source)).module(module)
    return render(doc, newline="\r\n" if source.text.split("\n", 1)[0].endswith("\r") else "\n")


def _compare(module: s.Module, formatted: Source) -> s.Module:
    """The formatted text, read; fail if it is another program, or lacks a comment."""
    report = Report()
    again = parse_module(formatted, report, "")
    comments = [_comments(source) for source in (module.source, formatted)]
    if report.errors or again != module or comments[0] != comments[1]:
        raise AssertionError(f"formatting would change `{formatted.name}`:\n{formatted.text}")
    return again


def _comments(source: Source) -> list[str]:
    return [source.text[c.start : c.end].rstrip() for c in find_comments(source)]


class _ModuleFormatter(StatementFormatter):
    def __init__(self, source: Source, dialect: str, words: list[Word]) -> None:
        super().__init__(source, dialect)
        self.words = words
        self.starts = [w.start for w in words]

    def module(self, module: s.Module) -> Doc:
        doc: list[Doc] = []
        definitions = [bisect_left(self.starts, op.span.start) for op in module.operators]
        for first, last in _import_lines(self.words[: definitions[0] if definitions else -1]):
            doc += self._begin(self.words[first], doc, False)
            doc.append(self._import(self.words[first:last]))
        for first, op in zip(definitions, module.operators, strict=True):
            last = bisect_left(self.starts, op.span.end)
            doc += self._begin(self.words[first], doc, True)
            doc.append(self._definition(self.words[first:last], op))
        return [*doc, *self.notes(self.words[-1], not doc)]

    def _begin(self, word: Word, before: Doc, apart: bool) -> list[Doc]:
        """The comments before a definition or import, and the line end before it; those of a
        definition are set apart from what stands before."""
        if apart and word.notes:
            word.notes[0].blank = True
        blank = word.blank or (apart and not word.notes)
        notes = self.notes(word, not before)
        return [*notes, BLANK if blank and (notes or before) else BREAK]

    def _import(self, words: list[Word]) -> Doc:
        """`import a, b.c;`"""
        ends = words[-1].text == ";"
        doc: list[Doc] = [self.word(words[0]), " "]
        for word in words[1 : -1 if ends else None]:
            doc.append(self.word(word, word.text + ("" if ends or word is not words[-1] else ";")))
            doc.append(" " if word.text == "," else "")
        return [*doc, self.word(words[-1]) if ends else ""]

    # ------------------------------------------------------------------ definitions

    def _definition(self, words: list[Word], op: s.Operator) -> Doc:
        """`public operator name { @block { ... } ... }`"""
        at = next(i for i, word in enumerate(words) if word.text == "{")
        head: list[Doc] = [[self.word(word), " "] for word in words[:at]]
        opening, closing = words[at], words[-1]
        blocks: list[tuple[Word, Callable[[], Doc]]] = []
        at += 1
        for name in op.blocks:
            inside = make_pieces(words, list(getattr(op, FIELDS[f"@{name}"])))
            last = at + 2 + sum(len(list_words(piece.parts)) for piece in inside)
            bracket = Bracket(words[at + 1], [*inside], words[last])
            blocks.append((words[at], partial(self._block, words[at], bracket)))
            at = last + 1
        if not (blocks or closing.notes or opening.remark):
            return [head, self.word(opening), self.word(closing)]
        inner = Align([self.lines(blocks, closing)], STEP)
        return [head, self.word(opening), inner, BREAK, self.word(closing)]

    def _block(self, name: Word, bracket: Bracket) -> Doc:
        statements = [(first_word(piece), partial(self, piece)) for piece in bracket.parts]
        return [self.word(name), " ", self.braces(bracket, statements)]


def _import_lines(words: list[Word]) -> Iterator[tuple[int, int]]:
    """The first and the last word, excluded, of every line of imports."""
    firsts = [i for i, word in enumerate(words) if word.text == "import" and word.kind == "name"]
    yield from zip(firsts, [*firsts[1:], len(words)], strict=False)
