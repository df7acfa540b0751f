"""Statements in the formatter's form.

Every statement has a line. The bounds of a formula, its local values, and the message of an
assert go to lines of their own if they stand so in the text, or have no room on the line. A
block that stands on one line stays so while it has room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeGuard

from ..layout import BLANK, BREAK, STEP, Align, Doc, Line, Whole
from ..words import Word, take_notes
from . import syntax as s
from .format_expressions import ExpressionFormatter, filled, find
from .format_pieces import Bracket, Part, Piece, first_word, last_word, list_words

_LATER_ASSIGNMENTS = {"<=": "<?=", ">=": ">?="}

_SPACES = {"=": " = ", "<": " < ", ":": ": ", ",": ", ", "->": " -> ", "yield": "yield "}
"""Words with the spaces around them, in most statements."""

_TIGHT = {**_SPACES, "=": "=", "<": "<"}
_APART = {**_SPACES, ":": " : "}


_Statement = tuple[Word, Callable[[], Doc]]
"""The first word of a statement, and what writes it."""

_CLAUSES = ("elif", "else", "for", "while", "do", "unroll")


class StatementFormatter(ExpressionFormatter):
    """Gives documents for statements, and for what components are made of."""

    def __call__(self, part: Part) -> Doc:
        if isinstance(part, Piece) and (write := _WRITERS.get(type(part.node))):
            return write(self, part)
        return super().__call__(part)

    def spread(
        self,
        parts: Sequence[Part],
        spaces: Mapping[str, str] = _SPACES,
        write: Callable[[Part], Doc] | None = None,
    ) -> Doc:
        """Parts, with spaces around some words."""
        doc: list[Doc] = []
        for part in parts:
            shown = spaces.get(part.text, "") if isinstance(part, Word) else ""
            before, after = (" " * shown.startswith(" "), " " * shown.endswith(" "))
            doc += [before, write(part) if write else self(part), after]
        return doc

    def component(self, piece: Piece) -> Doc:
        """`results = action;`, with the semicolon that may be missing behind a block."""
        if (last := last_word(piece)).text == "}":
            last.text = "};"
        return self.spread(piece.parts, write=self.action)

    def action(self, part: Part) -> Doc:
        """A part of a component. A built-in function alone keeps its back-ticks: without them an
        operator of this name would be invoked."""
        return self.tight(part.parts) if _is(part, s.Builtin) else self(part)

    def declaration(self, piece: Piece) -> Doc:
        return self.spread(piece.parts)

    # ------------------------------------------------------------------ sequences

    def lines(self, statements: Sequence[_Statement], closing: Word) -> Doc:
        """Statements on lines of their own, each given by its first word and what writes it, and
        the comments before the word that ends them."""
        doc: list[Doc] = []
        for word, write in statements:
            doc += self.notes(word, not doc)
            doc += [BLANK if word.blank and doc else BREAK, write()]
        return [*doc, *self.notes(closing, not doc)]

    def notes(self, word: Word, first: bool) -> list[Doc]:
        """The comments before a word, taken from it; no empty line before the `first` of all."""
        return take_notes(word, first)

    def braces(self, bracket: Bracket, statements: Sequence[_Statement]) -> Doc:
        """Statements in braces: on one line if the text has them so and there is room."""
        opening, closing = self.word(bracket.opening), bracket.closing
        if not is_multiline(bracket):
            inside: list[Doc] = []
            for _, write in statements:
                inside += [Line(whole=True), write()]
            last = Line(whole=True, soft=not statements)
            return Whole([opening, Align(inside, STEP), last, self.word(closing)])
        inside = [self.lines(statements, closing)]
        return [opening, Align(inside, STEP), BREAK, self.word(closing)]

    # ------------------------------------------------------------------- asserts

    def assertion(self, piece: Piece) -> Doc:
        """`condition: message, values;`"""
        at = find(piece.parts, ":")
        if at < 0:
            return self.spread(piece.parts)
        message = piece.parts[at + 1 :]
        doc: list[Doc] = [Line(forced=first_word(message[0]).newline, whole=True)]
        if (comma := find(message, ",")) >= 0:
            values = self.items(message[comma + 1 :])
            forced = first_word(message[comma + 1]).newline
            doc += [self.tight(message[: comma + 1]), Line(forced=forced, before=values), values]
        else:
            doc.append(self.tight(message))
        return Whole([self.tight(piece.parts[: at + 1]), Align(doc, STEP)])

    # ------------------------------------------------------------------- formulas

    def lowering(self, piece: Piece) -> Doc:
        """`[unroll..(i -> n)] [z = e,] target = value, i < n | condition;`"""
        rest = piece.parts
        head: list[Doc] = []
        if isinstance(rest[0], Word) and rest[0].text == "unroll":
            head = [self(rest[0]), self(rest[1]), " "]
            rest = rest[2:]
        at = max((i + 2 for i, part in enumerate(rest) if _is(part, s.LocalValue)), default=0)
        broken = any(first_word(part).newline for part in rest[1 : at + 1])
        if at:
            head += [self._locals(rest[:at]), Line(forced=broken, whole=True)]
        target, op, *rest = rest[at:]
        assert isinstance(op, Word)
        shown = self.word(op, _LATER_ASSIGNMENTS.get(op.text) if self.later else None)
        ends = (",", "|", ";")
        at = next(i for i, p in enumerate(rest) if isinstance(p, Word) and p.text in ends)
        formula = [self(target), " ", shown, " ", self.tight(rest[:at])]
        return Whole([*head, formula, self._bounds(rest[at:], broken)])

    def _locals(self, parts: Sequence[Part]) -> Doc:
        """`z = e, w = f,`, or in the later dialect `with z = e, w = f:`."""
        leading = first_word(parts[0])
        head: list[Doc] = []
        if leading.text == "with":
            head.append([self.word(leading, "with" if self.later else ""), " " * self.later])
            parts = parts[1:]
        elif self.later:
            head.append([*self.notes(leading, True), "with "])
        doc: list[Doc] = []
        for part, following in zip(parts, [*parts[1:], None], strict=True):
            if not isinstance(part, Word):
                doc.append(self(part))
            elif following is None:
                doc.append(self.word(part, ":" if self.later else ","))
            else:
                newline = first_word(following).newline
                line = Line(forced=self.later and newline, whole=not self.later)
                doc += [self.word(part), line]
        return [*head, Align(filled(doc)) if self.later else doc]

    def _bounds(self, parts: Sequence[Part], broken: bool) -> Doc:
        """`, i < n, j < m | condition;`"""
        at = find(parts, "|")
        bounds, condition = (parts, []) if at < 0 else (parts[:at], parts[at:])
        doc: list[Doc] = []
        if find(bounds, ",") == 0:
            forced = broken or first_word(bounds[1]).newline
            doc += [self(bounds[0]), Line(forced=forced, whole=True)]
            bounds = bounds[1:]
        doc.append(self.items(bounds))
        if condition:
            inside = [self(condition[0]), " ", self.tight(condition[1:])]
            doc += [Line(before=inside), inside]
        return Align(doc, STEP)

    # ---------------------------------------------------------------- composition

    def invocation(self, piece: Piece) -> Doc:
        """`label: module.operator<type>{name=value}(arguments)`"""
        parts = piece.parts
        at = next((i for i, p in enumerate(parts) if isinstance(p, Bracket)), len(parts))
        doc: list[Doc] = [self.spread(parts[:at], _TIGHT)]
        if at < len(parts) and isinstance(attributes := parts[at], Bracket):
            self._drop_last_comma(attributes)
            doc.append(self.bracket(attributes, behind=self.tight(parts[at + 1 :])))
        return doc

    def _drop_last_comma(self, bracket: Bracket) -> None:
        """Remove the comma that may stand behind the last attribute."""
        if bracket.parts and isinstance(comma := bracket.parts[-1], Word) and comma.text == ",":
            comma.text = ""

    def argument(self, piece: Piece) -> Doc:
        return self.spread(piece.parts, _TIGHT)

    def block(self, piece: Piece) -> Doc:
        """`label: { components yield results; }`"""
        *label, bracket = piece.parts
        assert isinstance(bracket, Bracket)
        parts = bracket.parts
        at = find(parts, "yield")
        statements: list[_Statement] = [(first_word(p), partial(self, p)) for p in parts[:at]]
        results = parts[at:]
        last = first_word(results[0])
        statements.append((last, lambda: self.spread(results)))
        return [self.spread(label), self.braces(bracket, statements)]

    def control(self, piece: Piece) -> Doc:
        """A branch or a loop: `if c then x else y`, `with v = x for a : p do f(v, a)`."""
        doc: list[Doc] = []
        before: Part | None = None
        for part in piece.parts:
            word = part if isinstance(part, Word) else None
            shown = self.action(part)
            if before is not None and not (word and word.text == ",") and not _is(part, s.Count):
                doc.append(self._gap(before, part, shown))
            doc.append(Align(shown, STEP) if _is_branch(before, part) else shown)
            before = part
        multiline = any(is_multiline(b) for b in _blocks(piece.parts))
        return doc if multiline else Align(Whole(doc))

    def _gap(self, before: Part, part: Part, shown: Doc) -> Doc:
        """The space, or possible break, before a part of a control structure."""
        if _is_branch(before, part):
            return Align(Line(forced=first_word(part).newline, before=shown), STEP)
        begins = isinstance(part, Word) and part.text in _CLAUSES
        if not begins or last_word(before).text == "}":
            return " "
        return Line(forced=first_word(part).newline, whole=True)

    def scan(self, piece: Piece) -> Doc:
        return self.spread(piece.parts, _APART)

    def count(self, piece: Piece) -> Doc:
        """`..(i -> n)`"""
        doc: list[Doc] = [self(piece.parts[0])]
        for part in piece.parts[1:]:
            assert isinstance(part, Bracket)
            inside = self.spread(part.parts)
            if part.parts and last_word(part.parts[-1]).text == "->":
                inside = [self.tight(part.parts[:-1]), " ", self(part.parts[-1])]
            doc += [self.word(part.opening), inside, self.word(part.closing)]
        return doc


def is_multiline(bracket: Bracket) -> bool:
    """Whether what stands in braces must, or is to, have lines of its own."""
    words = [bracket.opening, *list_words(bracket.parts), bracket.closing]
    commented = any(w.notes for w in words[1:]) or any(w.remark for w in words[:-1])
    return commented or any(w.newline for w in words[1:])


def _blocks(parts: Sequence[Part]) -> list[Bracket]:
    """The braces of the blocks among the parts of a control structure."""
    found = []
    for part in parts:
        if isinstance(part, Piece) and isinstance(part.node, s.Block):
            found += [p for p in part.parts if isinstance(p, Bracket)]
    return found


def _is_branch(before: Part | None, part: Part) -> bool:
    """Whether a part is what one of the cases of a branch computes, and not in braces."""
    follows = isinstance(before, Word) and before.text in ("then", "else")
    return follows and not _is(part, s.Block)


def _is(part: Part, kind: type[s.Node]) -> TypeGuard[Piece]:
    return isinstance(part, Piece) and isinstance(part.node, kind)


_WRITERS: dict[type, Callable[[StatementFormatter, Piece], Doc]] = {
    s.TypeParameter: StatementFormatter.declaration,
    s.Parameter: StatementFormatter.declaration,
    s.Bound: StatementFormatter.declaration,
    s.Using: StatementFormatter.declaration,
    s.LocalValue: StatementFormatter.declaration,
    s.Print: StatementFormatter.declaration,
    s.Component: StatementFormatter.component,
    s.Result: StatementFormatter.declaration,
    s.Carried: StatementFormatter.declaration,
    s.Assertion: StatementFormatter.assertion,
    s.Lowering: StatementFormatter.lowering,
    s.Invocation: StatementFormatter.invocation,
    s.Quantization: StatementFormatter.invocation,
    s.Argument: StatementFormatter.argument,
    s.Block: StatementFormatter.block,
    s.Branch: StatementFormatter.control,
    s.Loop: StatementFormatter.control,
    s.Scan: StatementFormatter.scan,
    s.Count: StatementFormatter.count,
}
