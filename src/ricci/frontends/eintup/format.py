"""The formatter: a text in one form, with its comments; spaces and line ends change.

Sections stay in their order. Lines break inside brackets only, as the language asks; so a value
that has no room on its line is put in parentheses.
"""

from __future__ import annotations

import sys

from ...diagnostics import Report
from ...source import Source
from ..formatting import format_text, newline_of
from ..layout import BLANK, BREAK, STEP, WIDTH, Align, Doc, Line, Operation, join, render
from ..tokens import DEEPEST
from ..words import Word, attach_comments, take_notes, write_word
from .lexer import find_comments, tokenize
from .parser import parse_file
from .parser_values import VALUE_LEVELS
from .sections import WORD_ASSIGNMENTS, split_lines


def format_source(source: Source) -> str:
    """The text in the formatter's form. Raises `Error` with all syntax errors of the text."""
    return format_text(source, parse_file, _layout, find_comments)


def _layout(source: Source) -> str:
    tokens = tokenize(source, Report())
    words = attach_comments(source, tokens, find_comments(source))
    doc: list[Doc] = []
    for line in split_lines(source, tokens):
        first = words[line.start]
        notes = take_notes(first, not doc)
        blank = first.blank and bool(doc or notes)
        doc += [*notes, BLANK if blank else BREAK, _layout_line(words[line.start : line.stop])]
    return render([*doc, *take_notes(words[-1], not doc)], newline=newline_of(source))


def _layout_line(words: list[Word]) -> Doc:
    doc = _LineFormatter(words).line()
    is_statement = len(words) > 1 and words[1].text == "["
    if not is_statement or _nesting(words) > DEEPEST // 2:
        return doc
    text = render(doc, width=sys.maxsize).rstrip()
    widest = max(map(len, text.removesuffix(words[-1].remark).split("\n")))
    return doc if widest <= WIDTH else _LineFormatter(words, grouped=True).line()


def _nesting(words: list[Word]) -> int:
    """No less than how deeply the brackets and signs of a line nest."""
    deepest = depth = 0
    for word in words:
        depth += (word.text in ("(", "[", "-", "not")) - (word.text in (")", "]"))
        deepest = max(deepest, depth)
    return deepest


class _LineFormatter:
    """Goes through the words of one line, which has no errors."""

    def __init__(self, words: list[Word], grouped: bool = False) -> None:
        end = words[-1].end
        self.words = [*words, Word("end", "", end, end)]
        self.position = 0
        self.depth = 0
        self.grouped = grouped
        """Whether the value of a statement is put in parentheses, if it has none."""

    @property
    def word(self) -> Word:
        return self.words[self.position]

    def take(self) -> Doc:
        """Pass a word; it, with its comments."""
        self.position += 1
        return write_word(self.words[self.position - 1])

    def line(self) -> Doc:
        """Values, with commas, relations or an assignment between them."""
        doc: list[Doc] = [self._value()]
        while self.word.kind != "end":
            gap = "" if self.word.text == "," else " "
            doc += [gap, self.take()]
            if self._is_assignment_word(self.position - 1):
                doc.append(self.take())
            doc += [" ", self._group() if self.grouped else self._value()]
        return doc

    def _group(self) -> Doc:
        """The value that ends a line, in parentheses unless it is one call or group of values."""
        start = self.position
        self.depth += 1
        first, value = self._operations()
        self.depth -= 1
        if value is not first or self.words[-2].text == "]":
            return ["(", _inside(first, value), ")"]
        self.position = start
        return self._value()

    def _is_assignment_word(self, position: int) -> bool:
        """Whether a word makes an assignment together with the `=` behind it."""
        following = self.words[min(position + 1, len(self.words) - 1)]
        return self.words[position].text in WORD_ASSIGNMENTS and following.text == "="

    def _value(self) -> Doc:
        return self._operations()[1]

    def _operations(self) -> tuple[Doc, Doc]:
        """Operands and operators: the first operand, and all."""
        parts: list[Operation] = [(0, "", self._operand())]
        while (level := VALUE_LEVELS.get(self.word.text, 0)) and not (
            self._is_assignment_word(self.position)
        ):
            parts.append((level, [self.take(), " "], self._operand()))
        first = parts[0][2]
        if len(parts) == 1 or self.depth:
            return first, join(parts)
        return first, [first, *([" ", operator, operand] for _, operator, operand in parts[1:])]

    def _operand(self) -> Doc:
        """A name, number or string behind its signs, and the brackets behind it."""
        doc: list[Doc] = []
        while self.word.text in ("-", "not"):
            word = self.word.text
            doc += [self.take(), " "] if word == "not" else [self.take()]
        if self.word.text not in ("(", "["):
            doc.append(self.take())
        while self.word.text == ".":
            doc += [self.take(), self.take()]
        while self.word.text in ("(", "["):
            doc.append(self._bracket())
        return doc

    def _bracket(self) -> Doc:
        """`(a, b)`; breaks are possible before the items and, in them, before operators."""
        opening = self.take()
        if self.word.text in (")", "]"):
            return [opening, self.take()]
        self.depth += 1
        first, item = self._item()
        inside: list[Doc] = [item]
        while self.word.text == ",":
            inside.append(self.take())
            if self.word.text not in (")", "]"):
                item = self._item()[1]
                inside += [Line(before=item), item]
        self.depth -= 1
        return [opening, _inside(first, inside), self.take()]

    def _item(self) -> tuple[Doc, Doc]:
        """A value, or an argument with its name; what of it is better not broken, and all."""
        if self.words[self.position + 1].text != "=":
            return self._operations()
        name: Doc = [self.take(), self.take()]
        first, value = self._operations()
        return [name, first], [name, value]


def _inside(first: Doc, all: Doc) -> Doc:
    """What stands behind a bracket, or a step behind its line if the first has no room there."""
    return Align([Line(soft=True, before=first), Align(all)], STEP)
