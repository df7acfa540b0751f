"""What the parsers of all languages share: tokens, a cursor over them, errors and recovery."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NoReturn, Protocol, TypeVar

from ..diagnostics import Diagnostic, Label, Report
from ..records import dataclass
from ..source import Source, Span

DEEPEST = 60
"""How deeply brackets, branches and blocks may nest."""

T = TypeVar("T")


@dataclass(slots=True)
class Token:
    """`kind` is name, int, real, string, op, damaged (and reported), end, or one that only some
    language has; `text` as written, save for operators with several spellings."""

    kind: str
    text: str
    start: int
    end: int


class Placed(Protocol):
    """A node of a syntax tree."""

    @property
    def span(self) -> Span: ...


class Rejected(Exception):
    """A syntax error, on its way to the statement that can recover from it.

    There is no diagnostic where the lexer has reported the text already.
    """

    def __init__(self, diagnostic: Diagnostic | None) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


class TokenCursor:
    """A cursor over tokens; `token` is the current one."""

    keywords: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, source: Source, tokens: list[Token], report: Report) -> None:
        self.source = source
        self.tokens = tokens
        self.report = report
        self.position = 0
        self.depth = 0
        self.token = tokens[0]

    # ------------------------------------------------------------------ reading

    def advance(self) -> Token:
        """Go to the next token; the one that was left."""
        token = self.token
        if token.kind != "end":
            self.position += 1
            self.token = self.tokens[self.position]
        return token

    def peek(self, offset: int = 1) -> Token:
        """A token further on."""
        return self.tokens[min(self.position + offset, len(self.tokens) - 1)]

    def at(self, text: str) -> bool:
        """Whether the current token is this operator, keyword or block."""
        return self.token.text == text

    def take(self, text: str) -> bool:
        """Pass the current token if it is this one."""
        if self.token.text != text:
            return False
        self.advance()
        return True

    def expect(self, text: str, where: str = "", help: str = "") -> Token:
        """Pass this token, or reject what stands in its place."""
        if self.token.text != text:
            self.reject_token(f"expected `{text}`{where and ' ' + where}", help)
        return self.advance()

    def name(self, what: str = "a name") -> Token:
        """Pass an identifier."""
        if self.token.kind != "name":
            self.reject_token(f"expected {what}")
        if self.token.text in self.keywords:
            self.reject_token(f"expected {what}", "this is a reserved word of the language")
        return self.advance()

    def at_name(self) -> bool:
        return self.token.kind == "name" and self.token.text not in self.keywords

    def listed(self, item: Callable[[], T], end: str, trailing: bool = False) -> tuple[T, ...]:
        """Items between commas up to the token `end`, which is passed."""
        items: list[T] = []
        while not self.at(end):
            items.append(item())
            if not self.take(","):
                break
            if self.at(end) and not trailing:
                self.reject_token("expected another item after the comma")
        self.expect(end)
        return tuple(items)

    # ------------------------------------------------------------------- places

    def since(self, start: Token | Placed) -> Span:
        """From a token or node to the last token that was passed."""
        begin = start.start if isinstance(start, Token) else start.span.start
        end = self.tokens[self.position - 1].end if self.position else begin
        return Span(self.source, begin, max(begin, end))

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    # ------------------------------------------------------------------- errors

    def reject(
        self, code: str, message: str, span: Span, *, help: str = "", labels: tuple[Label, ...] = ()
    ) -> NoReturn:
        raise Rejected(Diagnostic(code, message, span, labels=labels, help=help))

    def reject_token(
        self, message: str, help: str = "", *, labels: tuple[Label, ...] = ()
    ) -> NoReturn:
        """Reject the current token."""
        token = self.token
        if token.kind == "damaged":
            raise Rejected(None)
        span = self.span(token)
        self.reject("E0102", f"{message}, found {self.found()}", span, help=help, labels=labels)

    def found(self) -> str:
        """The current token in words."""
        return "the end of the file" if self.token.kind == "end" else f"`{self.token.text[:40]}`"

    def note(self, rejected: Rejected) -> None:
        """Report an error from which parsing goes on."""
        if rejected.diagnostic is not None:
            self.report.add(rejected.diagnostic)

    def enter(self) -> None:
        """Count a level of nesting, and reject a text that nests too deeply."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.reject(
                "E0901",
                f"expressions and blocks nest more than {DEEPEST} levels deep",
                self.span(self.token),
            )
