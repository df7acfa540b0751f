"""Documents that know where their lines may break, and how they become text.

A document is a string, a list of documents, or one of the classes below. Lines are filled: a
break is taken where what follows it, up to the next possible break, has no room otherwise; of
breaks inside each other the outer ones come first.

Method: P. Wadler, "A prettier printer", 2003, with comments as a sort of forced break.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from ..records import dataclass

WIDTH = 100
STEP = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A place for a break: a space (or nothing, if `soft`) where none is taken."""

    soft: bool = False
    forced: bool = False
    blank: bool = False
    """An empty line goes before the break; only of a forced one."""
    before: Doc = ""
    """What follows and is better moved to the next line than broken."""
    whole: bool = False
    """Whether the next `Whole` around it decides."""


@dataclass(frozen=True, slots=True)
class Align:
    """Lines of the inside begin `step` columns behind those around it, or, without a step,
    where the inside begins."""

    inside: Doc
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """An inside that is on one line, or else broken at all its lines that are `whole`."""

    inside: Doc


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, which ends its line; one that does not trail begins its line too."""

    text: str
    trails: bool
    blank: bool = False


Doc = Union[str, "list[Doc]", Line, Align, Whole, Comment]

BREAK = Line(forced=True)
BLANK = Line(forced=True, blank=True)

Operation = tuple[int, Doc, Doc]
"""The level of an operator, the operator, and what follows it."""


def join(parts: Sequence[Operation]) -> Doc:
    """Operators, the loosest first, each with what follows it on one line if there is room."""
    if len(parts) == 1:
        return parts[0][2]  # the operator before it is written already
    lowest = min(level for level, _, _ in parts[1:])
    starts = [0, *(at for at in range(1, len(parts)) if parts[at][0] == lowest)]
    doc: list[Doc] = []
    for start, end in zip(starts, [*starts[1:], len(parts)], strict=True):
        inside = Align(join(parts[start:end]))
        part: Doc = [parts[start][1], inside]
        doc += [Line(before=part), part] if start else [inside]
    return doc


_Item = tuple[int, bool, Doc]
"""A document with the column of its lines, and whether the `whole` lines in it break."""


def render(doc: Doc, newline: str = "\n", width: int = WIDTH) -> str:
    """The text of a document, which ends with a line end."""
    writer = _Writer(width)
    stack: list[_Item] = [(0, False, doc)]
    while stack:
        writer.write(stack.pop(), stack)
    lines = [*writer.lines, writer.line]
    while lines and not lines[-1]:
        lines.pop()
    return "".join(line + newline for line in lines)


class _Writer:
    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []
        self.line = ""
        self.ended = False
        """Whether the line holds a comment, so that nothing more has a place on it."""

    def write(self, item: _Item, stack: list[_Item]) -> None:
        indent, broken, doc = item
        if isinstance(doc, str):
            self.put(doc, indent)
        elif isinstance(doc, list):
            stack.extend((indent, broken, part) for part in reversed(doc))
        elif isinstance(doc, Align):
            stack.append((self._column(indent, doc.step), broken, doc.inside))
        elif isinstance(doc, Whole):
            breaks = not self._has_room([(indent, False, doc.inside)], stack, whole=True)
            stack.append((indent, breaks, doc.inside))
        elif isinstance(doc, Comment):
            self._comment(doc, indent)
        elif doc.forced or (broken if doc.whole else not self._fits_behind(doc, stack)):
            self._break(doc.blank)
        elif not doc.soft and self.line and not self.ended:
            self.line += " "

    def put(self, text: str, indent: int) -> None:
        if not text or (text == " " and (self.ended or not self.line)):
            return
        if self.ended:
            self._break(False)
        if not self.line:
            text = " " * indent + text
        self.line += text

    def _column(self, indent: int, step: int | None) -> int:
        """Where aligned lines begin: not far to the right, where they would have no room."""
        if step is not None:
            return indent + step
        column = self._used() if self.line and not self.ended else indent
        return column if column - indent <= self.width // 2 else indent + STEP

    def _used(self) -> int:
        return len(self.line) - (self.line.rfind("\n") + 1)

    def _break(self, blank: bool) -> None:
        if self.line:
            self.lines.append(self.line.rstrip(" "))
        self.line, self.ended = "", False
        if blank and self.lines and self.lines[-1]:
            self.lines.append("")

    def _comment(self, comment: Comment, indent: int) -> None:
        if comment.trails and self.line and not self.ended:
            self.line = self.line.rstrip(" ") + "  " + comment.text
        else:
            self._break(comment.blank)
            self.line = " " * indent + comment.text
        self.ended = True

    def _fits_behind(self, line: Line, rest: Sequence[_Item]) -> bool:
        """Whether what stands behind a possible break has room before it."""
        if not line.before:
            return self._has_room([], rest, gap=not line.soft)
        # The first item of the rest is the document that is measured here as a whole.
        return self._has_room([(0, False, line.before)], rest, not line.soft, whole=True, known=1)

    def _has_room(
        self,
        items: list[_Item],
        rest: Sequence[_Item],
        gap: bool = False,
        whole: bool = False,
        known: int = 0,
    ) -> bool:
        """Whether `items`, and what follows them up to the next possible break, fit on the line.

        Where `whole` is asked for, all of `items` must be on the line. So many of the `rest`
        as are `known` are in `items`.
        """
        begin = items[0][0] if items and not self.line else self._used()
        room = self.width - begin - gap
        pending = list(items)
        following = len(rest) - known
        inside = bool(pending)
        while room >= 0:
            if not pending:
                inside = False
                if following == 0:
                    return True
                following -= 1
                pending.append(rest[following])
            indent, broken, doc = pending.pop()
            if isinstance(doc, str):
                if "\n" in doc:
                    return room >= doc.index("\n")
                room -= len(doc)
            elif isinstance(doc, list):
                pending.extend((indent, broken, part) for part in reversed(doc))
            elif isinstance(doc, Align | Whole):
                pending.append((indent, broken, doc.inside))
            elif isinstance(doc, Comment) and doc.trails:
                return not (whole and inside) or all(_is_empty(item[2]) for item in pending)
            elif isinstance(doc, Comment) or doc.forced:
                return not (whole and inside)
            elif whole and inside:
                room -= not doc.soft
            else:
                return True
        return False


def _is_empty(doc: Doc) -> bool:
    return not doc or (isinstance(doc, list) and all(map(_is_empty, doc)))
