"""What the parsers of all sections share: a cursor over the tokens of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...diagnostics import Label, Report
from ...source import Source
from ..tokens import Placed, Token, TokenCursor
from . import syntax as s
from .lexer import KEYWORDS

HIGHEST = 200
"""How high the tree of an expression may be, and how many items a list may have."""

N = TypeVar("N", bound=Placed)
T = TypeVar("T")


class LineParser(TokenCursor):
    """Reads one line; `height` is that of the tree read last."""

    keywords = KEYWORDS

    def __init__(self, source: Source, tokens: list[Token], report: Report) -> None:
        super().__init__(source, tokens, report)
        self.height = 0

    def found(self) -> str:
        return "the end of the line" if self.token.kind == "end" else super().found()

    def end(self, choices: str) -> None:
        """Reject what stands behind a line that is complete."""
        if self.token.kind != "end":
            self.reject_token("expected the end of the line", choices)

    def identifier(self, what: str) -> s.Identifier:
        token = self.name(what)
        return s.Identifier(token.text, self.span(token))

    def eintup(self, what: str = "the name of an eintup") -> s.Eintup:
        token = self.name(what)
        return s.Eintup(token.text, self.span(token))

    def whole(self) -> s.Whole:
        """A number that is known to be an integer."""
        token = self.advance()
        return s.Whole(int(token.text), self.span(token))

    def brief(self, node: Placed) -> str:
        """A node as it was written, on one line."""
        return " ".join(node.span.text.split())[:40]

    # ------------------------------------------------------------------ brackets

    def items(self, item: Callable[[], T], what: str, help: str = "") -> tuple[T, ...]:
        """Items, one at least, between commas and brackets; `what` is one of them."""
        opening = self.advance()
        closing = ")" if opening.text == "(" else "]"
        if self.at(closing):
            self.reject_token(f"expected {what}", help)
        items, highest = [item()], self.height
        while self.take(","):
            if self.at(closing):
                self.reject_token("expected another item after the comma")
            items.append(item())
            highest = max(highest, self.height)
            if len(items) > HIGHEST:
                span = self.span(self.token)
                self.reject("E0901", f"a list has more than {HIGHEST} items", span)
        self.close(opening, "`,` or ")
        self.grow(highest)
        return tuple(items)

    def close(self, opening: Token, others: str = "") -> None:
        """Pass the bracket that closes an opened one; `others` are possible in its place."""
        closing = ")" if opening.text == "(" else "]"
        if not self.take(closing):
            label = Label(self.span(opening), "opened here")
            others = "" if self.token.kind == "end" else others
            self.reject_token(f"expected {others}`{closing}`", labels=(label,))

    # --------------------------------------------------------------- expressions

    def climb(
        self,
        levels: dict[str, int],
        operand: Callable[[], N],
        build: Callable[[Token, str, N, N], N],
    ) -> N:
        """Operands between binary operators, by precedence; all associate to the left.

        A stack holds what waits for its right side.
        """
        waiting: list[tuple[Token, N, int, str, int]] = []
        while True:
            start, node = self.token, operand()
            level = levels.get(self.token.text, 0)
            while waiting and waiting[-1][4] >= level:
                start, left, height, operator, _ = waiting.pop()
                node = build(start, operator, left, node)
                self.grow(max(height, self.height))
            if not level:
                return node
            waiting.append((start, node, self.height, self.advance().text, level))

    def grow(self, below: int, levels: int = 1) -> None:
        """Note the height of a tree that stands so many levels above what was read."""
        self.height = below + levels
        if self.height > HIGHEST:
            self.reject(
                "E0901",
                f"operators follow each other or nest more than {HIGHEST} levels deep",
                self.span(self.token),
                help="compute a part of it in a statement of its own",
            )
