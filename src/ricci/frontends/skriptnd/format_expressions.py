"""Expressions and types in the formatter's form: where spaces stand and where lines break.

All words of the text are kept, with the parentheses and quotes of whoever wrote it. A line break
between the cases of a chain `c ? x : d ? y : z` is kept too: every case then has a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...diagnostics import Report
from ...source import Source
from ..layout import STEP, Align, Doc, Line, Whole
from ..words import Word, write_word
from . import syntax as s
from .format_pieces import Bracket, Part, Piece, first_word, last_word
from .lexer import tokenize
from .parser_expressions import BUILTINS, LEVELS

_LATER = {"<<": "<?", ">>": ">?"}


class ExpressionFormatter:
    """Gives documents for the pieces of expressions, in one dialect."""

    def __init__(self, source: Source, dialect: str) -> None:
        self.source = source
        self.later = dialect == "later"

    def __call__(self, part: Part) -> Doc:
        if isinstance(part, Word):
            return self.word(part)
        if isinstance(part, Bracket):
            return self.bracket(part)
        write = _WRITERS.get(type(part.node))
        return write(self, part) if write else self.tight(part.parts)

    # --------------------------------------------------------------------- words

    def word(self, word: Word, text: str | None = None) -> Doc:
        """A word with its comments, or another text in its place."""
        return write_word(word, text)

    def operator(self, word: Word) -> Doc:
        return self.word(word, self._spelling(word.kind, word.text, ""))

    def tight(self, parts: Sequence[Part]) -> Doc:
        """Parts without spaces between them."""
        return [self(part) for part in parts]

    def spaced(self, parts: Sequence[Part]) -> Doc:
        """Parts with a space between them, without spaces before commas and semicolons."""
        doc: list[Doc] = []
        for part in parts:
            if doc and not (isinstance(part, Word) and part.text in (",", ";")):
                doc.append(" ")
            doc.append(self(part))
        return doc

    # ------------------------------------------------------------------ brackets

    def bracket(self, bracket: Bracket, behind: Doc = "") -> Doc:
        """Brackets with what is between commas in them; `behind` stays with the last item."""
        inside = self.items(bracket.parts, behind=[self.word(bracket.closing), behind])
        return [self.word(bracket.opening), Align(inside)]

    def items(self, parts: Sequence[Part], behind: Doc = "") -> Doc:
        """Parts between commas, as many on each line as have room; `behind` ends the last."""
        doc: list[Doc] = []
        item: list[Doc] = []
        for position, part in enumerate(parts):
            item.append(self(part))
            if isinstance(part, Word) and part.text == ",":
                doc.append(item)
                item = []
                if position + 1 < len(parts):
                    doc.append(Line())
        return filled([*doc, [*item, behind]])

    def subscripts(self, bracket: Bracket) -> Doc:
        """Subscripts and extents; the comma that makes one subscript an access stays."""
        parts, comma = bracket.parts, ""
        if parts and isinstance(parts[-1], Word) and parts[-1].text == ",":
            comma = "," if len(parts) == 2 and not is_expansion(parts[0]) else " "
        items = parts[:-1] if comma else parts
        last = self.word(last_word(parts[-1]), comma.strip()) if comma else ""
        behind = [last, self.word(bracket.closing)]
        inside = self.items(items, behind)
        return [self.word(bracket.opening), Align(inside)]

    # ----------------------------------------------------------------- operators

    def binary(self, piece: Piece) -> Doc:
        """A chain of operators of one level; lines break behind operators."""
        parts = self._chain(piece)
        if isinstance(piece.node, s.Binary) and piece.node.op == "**":
            return self.spaced(parts)
        doc: list[Doc] = []
        for part in parts:
            if isinstance(part, Word):
                doc += [" ", self.operator(part)]
                doc.append(Line())
            else:
                doc.append(self(part))
        return Align(filled(doc))

    def _chain(self, piece: Piece) -> list[Part]:
        node = piece.node
        first = piece.parts[0]
        if (
            isinstance(node, s.Binary)
            and isinstance(first, Piece)
            and isinstance(first.node, s.Binary)
            and LEVELS[first.node.op] == LEVELS[node.op]
        ):
            return [*self._chain(first), *piece.parts[1:]]
        return list(piece.parts)

    def fold(self, piece: Piece) -> Doc:
        *operand, op, dots = piece.parts
        assert isinstance(op, Word)
        return [self.tight(operand), " ", self.operator(op), " ", self(dots)]

    def unary(self, piece: Piece) -> Doc:
        op, operand = piece.parts[0], piece.parts[1:]
        sign = first_word(op).text
        gap = " " if sign != "!" and first_word(operand[0]).text == sign else ""
        return [self(op), gap, self.tight(operand)]

    def select(self, piece: Piece) -> Doc:
        """`c ? x : y`; of a chain every case `c ? x :` on a line of its own, or all on one."""
        cases: list[Doc] = []
        forced = any_forced = False
        while (at := find(piece.parts, ":")) >= 0:
            cases.append(self._case(piece.parts[: at + 1]))
            rest = piece.parts[at + 1 :]
            forced = first_word(rest[0]).newline
            following = rest[0]
            if not (isinstance(following, Piece) and isinstance(following.node, s.Select)):
                cases.append(self.tight(rest))
                return _lined(cases, forced, any_forced or forced)
            any_forced |= forced
            piece = following
        cases.append(self._case(piece.parts))
        return _lined(cases, forced, any_forced) if cases[1:] else cases[0]

    def _case(self, parts: Sequence[Part]) -> Doc:
        at = find(parts, "?")
        condition, mark, then = parts[:at], parts[at], parts[at + 1 :]
        if isinstance(then[-1], Word) and then[-1].text == ":":
            value: Doc = [self.tight(then[:-1]), " ", self(then[-1])]
        else:
            value = self.tight(then)
        shown: list[Doc] = [self.tight(condition), " ", self(mark)]
        return Align([shown, Line(before=value), Align(value, STEP)])

    def coalesce(self, piece: Piece) -> Doc:
        at = find(piece.parts, "??")
        value: Doc = self.tight(piece.parts[at + 1 :])
        shown = [self.tight(piece.parts[:at]), " ", self(piece.parts[at])]
        forced = first_word(piece.parts[at + 1]).newline
        return Align([shown, Line(before=value, forced=forced), value])

    # -------------------------------------------------------------------- others

    def literal(self, piece: Piece) -> Doc:
        """A literal; adjacent strings stay on the lines on which they are."""
        doc: list[Doc] = []
        for part in piece.parts:
            if isinstance(part, Word):
                if doc:
                    doc.append(Line(forced=part.newline))
                doc.append(self.word(part))
        return Align(doc)

    def format(self, piece: Piece) -> Doc:
        assert isinstance(piece.node, s.Format)
        for part in reversed(piece.node.parts):  # so that places before stay where they are
            if not isinstance(part, str):
                self._respell(part, [w for w in piece.parts if isinstance(w, Word)])
        return self.literal(piece)

    def _respell(self, node: s.Expr, words: Sequence[Word]) -> None:
        """Spell a substitution of a string in the dialect."""
        for token in reversed(tokenize(self.source, Report(), node.span.start, node.span.end)):
            word = next(w for w in words if w.start <= token.start < w.end)
            text = self.source.text[token.start : token.end]
            following = self.source.text[token.end :].lstrip()[:1]
            new = self._spelling(token.kind, token.text, following)
            at = token.start - word.start
            if new != text:
                word.text = word.text[:at] + new + word.text[at + len(text) :]

    def _spelling(self, kind: str, text: str, following: str) -> str:
        """A token of an expression in the dialect; `following` is the character behind it."""
        if kind == "op":
            return _LATER.get(text, text) if self.later else text
        if kind == "builtin" and self.later:
            return text.strip("`")
        applied = kind == "name" and text in BUILTINS and following == "("
        return f"`{text}`" if applied and not self.later else text

    def builtin(self, piece: Piece) -> Doc:
        function = first_word(piece)
        text = self._spelling(function.kind, function.text, "(")
        return [self.word(function, text), self.tight(piece.parts[1:])]

    def expand(self, piece: Piece) -> Doc:
        """`x..`, or `x ..(n)`."""
        at = find(piece.parts, "..")
        last = last_word(piece.parts[at - 1])
        apart = at + 1 < len(piece.parts) or last.kind in ("int", "real")
        item, dots = self.tight(piece.parts[:at]), self.tight(piece.parts[at:])
        return [item, " " if apart else "", dots]

    def access(self, piece: Piece) -> Doc:
        tensor, subscripts = piece.parts[:-1], piece.parts[-1]
        assert isinstance(subscripts, Bracket)
        return [self.tight(tensor), self.subscripts(subscripts)]

    def substitute(self, piece: Piece) -> Doc:
        at = find(piece.parts, "<-")
        value = self.tight(piece.parts[at + 1 :])
        return [
            *map(self, piece.parts[:at]), " ", self(piece.parts[at]),
            Line(before=value), Align(value, STEP),
        ]  # fmt: skip

    def bounded(self, piece: Piece) -> Doc:
        """`|i|` or `|i <> below : above|`."""
        inside = [
            [" ", self(part), " "] if isinstance(part, Word) else self(part)
            for part in piece.parts[1:-1]
        ]
        return [self(piece.parts[0]), *inside, self(piece.parts[-1])]

    # --------------------------------------------------------------------- types

    def type(self, piece: Piece) -> Doc:
        """`optional int^(r)[shape]..(n)`."""
        doc: list[Doc] = []
        for part in piece.parts:
            if isinstance(part, Bracket) and part.opening.text == "[":
                doc.append(self.subscripts(part))
            else:
                spaced = isinstance(part, Word) and part.text in ("optional", "dynamic")
                doc += [self(part), " " if spaced else ""]
        return doc

    def extent(self, piece: Piece) -> Doc:
        """`static ..n|bound..(k)`; a space before the last part is kept: it shows that the
        extent is repeated, not a pack itself."""
        doc: list[Doc] = []
        for position, part in enumerate(piece.parts):
            if isinstance(part, Piece) and isinstance(part.node, s.Pack):
                number = last_word(piece.parts[position - 1]).kind in ("int", "real")
                counted = len(part.parts) > 1 and first_word(part).gap
                doc.append(" " if number or counted else "")
            doc.append(self(part))
            if isinstance(part, Word) and part.text == "static":
                doc.append(" ")
        return doc

    def pack(self, piece: Piece) -> Doc:
        """`..(static n|bound)`."""
        doc: list[Doc] = []
        for part in piece.parts:
            if isinstance(part, Bracket):
                doc += [self.word(part.opening), *map(self._marked, part.parts)]
                doc.append(self.word(part.closing))
            else:
                doc.append(self(part))
        return doc

    def _marked(self, part: Part) -> Doc:
        marker = isinstance(part, Word) and part.text in ("static", "dynamic")
        return [self(part), " " if marker else ""]


def filled(parts: Sequence[Doc]) -> Doc:
    """Documents in which every `Line` keeps what follows it whole, if the next line has room."""
    doc: list[Doc] = []
    following: list[Doc] = []
    for part in reversed(parts):
        following.insert(0, part)
        if isinstance(part, Line):
            inside: Doc = following[1:]
            doc += [inside, Line(part.soft, part.forced, before=inside)]
            following = []
    return [*following, *doc[::-1]]


def _lined(cases: Sequence[Doc], last: bool, any: bool) -> Doc:
    """The cases of a chain on lines of their own if `any` is so in the text, else if they must;
    `last` says whether the last of them has its own line in the text."""
    doc: list[Doc] = [cases[0]]
    for case in cases[1:-1]:
        doc += [Line(forced=any, whole=not any), case]
    doc += [Line(forced=last, before=cases[-1], whole=not any), cases[-1]]
    return Align(doc if any else Whole(doc))


def find(parts: Sequence[Part], text: str) -> int:
    """The place of the first word with this text, or -1."""
    for at, part in enumerate(parts):
        if isinstance(part, Word) and part.text == text:
            return at
    return -1


def is_expansion(part: Part) -> bool:
    return isinstance(part, Piece) and isinstance(part.node, s.Expand)


_WRITERS: dict[type, Callable[[ExpressionFormatter, Piece], Doc]] = {
    s.Literal: ExpressionFormatter.literal,
    s.Format: ExpressionFormatter.format,
    s.Expand: ExpressionFormatter.expand,
    s.Access: ExpressionFormatter.access,
    s.Substitute: ExpressionFormatter.substitute,
    s.Bounded: ExpressionFormatter.bounded,
    s.Unary: ExpressionFormatter.unary,
    s.Binary: ExpressionFormatter.binary,
    s.Select: ExpressionFormatter.select,
    s.Coalesce: ExpressionFormatter.coalesce,
    s.Fold: ExpressionFormatter.fold,
    s.Type: ExpressionFormatter.type,
    s.Builtin: ExpressionFormatter.builtin,
    s.Extent: ExpressionFormatter.extent,
    s.Pack: ExpressionFormatter.pack,
}
