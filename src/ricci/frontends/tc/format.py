"""The formatter: a text in one form, with its comments; only spaces and line ends change."""

from __future__ import annotations

from collections.abc import Callable

from ...diagnostics import Report
from ...source import Source
from ..formatting import format_text, newline_of
from ..layout import BLANK, BREAK, STEP, Align, Doc, Line, Operation, Whole, join, render
from ..words import Word, attach_comments, take_notes, write_word
from .lexer import find_comments, tokenize
from .parser import parse_unit
from .parser_expressions import LEVELS


def format_source(source: Source) -> str:
    """The text in the formatter's form. Raises `Error` with all syntax errors of the text."""
    return format_text(source, parse_unit, _layout, find_comments)


def _layout(source: Source) -> str:
    words = attach_comments(source, tokenize(source, Report()), find_comments(source))
    return render(_Formatter(words).unit(), newline=newline_of(source))


class _Formatter:
    """Goes through the words of a text that has no errors."""

    def __init__(self, words: list[Word]) -> None:
        self.words = words
        self.position = 0

    @property
    def word(self) -> Word:
        return self.words[self.position]

    def take(self) -> Doc:
        """Pass a word; it, with its comments."""
        self.position += 1
        return write_word(self.words[self.position - 1])

    def unit(self) -> Doc:
        doc: list[Doc] = []
        while self.word.kind != "end":
            if self.word.notes:
                self.word.notes[0].blank = True
            blank = bool(doc) and (self.word.blank or not self.word.notes)
            notes = take_notes(self.word, not doc)
            doc += [*notes, BLANK if blank or (notes and self.word.blank) else BREAK]
            doc.append(self._function())
        return [*doc, *take_notes(self.word, not doc)]

    # ------------------------------------------------------------------ functions

    def _function(self) -> Doc:
        """`def f(...) -> (...) { ... }`"""
        name: Doc = [self.take(), " ", self.take()]
        parameters = self._declarations()
        arrow: Doc = [Line(), self.take(), " "]
        results = self._bracket(self._declaration)
        head = Whole([name, parameters, arrow, results, Line(), self.take()])
        empty = self.word.text == "}" and not self.word.notes
        if empty and not self.words[self.position - 1].remark:
            return [head, self.take()]
        statements: list[Doc] = []
        while self.word.text != "}":
            blank = self.word.blank and bool(statements)
            statements += take_notes(self.word, not statements)
            statements += [BLANK if blank else BREAK, self._statement()]
        statements += take_notes(self.word, not statements)
        return [head, Align(statements, STEP), BREAK, self.take()]

    def _declarations(self) -> Doc:
        """Parameters: on the line of the head, or filled on lines of their own."""
        opening = self.take()
        if self.word.text == ")":
            return [opening, self.take()]
        inside: list[Doc] = [Line(soft=True, whole=True)]
        while True:
            item = self._declaration()
            more = self.word.text == ","
            part: Doc = [item, self.take()] if more else item
            inside += [part if len(inside) == 1 else [Line(before=part), part]]
            if not more:
                return [opening, Align(inside, STEP), Line(soft=True, whole=True), self.take()]

    def _declaration(self) -> Doc:
        """`float(M, N) A`, `float a` or `A`."""
        doc: list[Doc] = [self.take()]
        if self.word.text == "(":
            doc.append(self._bracket())
        if self.word.kind == "name":
            doc += [" ", self.take()]
        return doc

    # ----------------------------------------------------------------- statements

    def _statement(self) -> Doc:
        """`T(i) = value <=> f(x) where ...`: the value and what follows it move to lines of their
        own where there is no room."""
        head: list[Doc] = [self.take()]
        if self.word.text == "(":
            head.append(self._bracket())
        head += [" ", self.take()]
        value = self._expression()
        tail: list[Doc] = [Line(before=value), value]
        if self.word.text == "<=>":
            call: Doc = [self.take(), " ", self.take(), self._bracket()]
            tail += [Line(before=call), call]
        if self.word.text == "where":
            clauses: Doc = [self.take(), " ", Align(self._clauses())]
            tail += [Line(before=clauses), clauses]
        return [head, Align(tail, STEP)]

    def _clauses(self) -> Doc:
        doc: list[Doc] = [self._clause()]
        while self.word.text == ",":
            doc.append(self.take())
            clause = self._clause()
            doc += [Line(before=clause), clause]
        return doc

    def _clause(self) -> Doc:
        """`exists x`, `i in low:high`, `i = [low, high[`, or `x = value`."""
        if self.word.text == "exists":
            return [self.take(), " ", self._expression()]
        head: list[Doc] = [self.take(), " ", self.take(), " "]
        if self.word.text == "[":
            bounds: Doc = [self.take(), self._expression(), self.take(), " ", self._expression()]
            return [head, bounds, self.take()]
        head.append(self._expression())
        if self.word.text == ":":
            head += [self.take(), self._expression()]
        return head

    # ---------------------------------------------------------------- expressions

    def _expression(self) -> Doc:
        """Operands and operators."""
        parts: list[Operation] = [(0, "", self._operand())]
        conditions = 0
        while True:
            text = self.word.text
            if not (text in LEVELS or text == "?" or (text == ":" and conditions)):
                return join(parts)
            conditions += (text == "?") - (text == ":")
            parts.append((LEVELS.get(text, 0), [self.take(), " "], self._operand()))

    def _operand(self) -> Doc:
        """A value behind its signs."""
        doc: list[Doc] = []
        while self.word.text in ("-", "!"):
            doc.append(self.take())
        if self.word.text != "(":
            doc.append(self.take())
        if self.word.text == "(":
            doc.append(self._bracket())
        elif self.word.text == ".":
            doc += [self.take(), self.take()]
        return doc

    def _bracket(self, read: Callable[[], Doc] | None = None) -> Doc:
        """`(a, b)`, of expressions unless it is said how an item is read."""
        read = read or self._expression
        opening = self.take()
        if self.word.text == ")":
            return [opening, self.take()]
        inside: list[Doc] = [read()]
        while self.word.text == ",":
            inside.append(self.take())
            item = read()
            inside += [Line(before=item), item]
        return [opening, Align(inside), self.take()]
