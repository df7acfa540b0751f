"""The token stream that all parts of the parser share, with recovery from errors."""

from __future__ import annotations

from ..tokens import TokenCursor
from .lexer import KEYWORDS

_DEFINITIONS = frozenset({"operator", "graph", "public"})


class TokenStream(TokenCursor):
    """A cursor over tokens that knows the blocks and definitions of SkriptND."""

    keywords = KEYWORDS

    def found(self) -> str:
        """The current token in words."""
        whole = self.token.end >= len(self.source.text.rstrip())
        if self.token.kind == "end" and not whole:
            return "the end of the substitution"
        return super().found()

    def recover(self, begin: int) -> None:
        """Skip the rest of the statement that began at token `begin`, with its `;`, or up to the
        end of the block around it; braces that the statement has opened are closed first."""
        braces = self._open_braces(begin)
        while self.token.kind != "end":
            text = self.token.text
            if self.at_boundary() or (text == "}" and braces <= 0):
                return
            if text == ";" and braces <= 0:
                self.advance()
                return
            braces += (text == "{") - (text == "}")
            self.advance()

    def at_boundary(self) -> bool:
        """Whether a block, a definition or the end of the text stands here."""
        if self.token.kind in ("block", "end"):
            return True
        if self.token.text not in _DEFINITIONS:
            return False
        following = self.peek()
        return following.text in _DEFINITIONS or (
            following.kind == "name" and self.peek(2).text == "{"
        )

    def _open_braces(self, begin: int) -> int:
        texts = [t.text for t in self.tokens[begin : self.position]]
        return texts.count("{") - texts.count("}")
