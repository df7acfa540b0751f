"""The smallest expressions of SkriptND (2.4): literals, strings, lists, names, conversions."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod

from ...source import Span
from ..tokens import Token
from . import syntax as s
from .lexer import tokenize
from .parser_base import TokenStream

BUILTINS = frozenset(
    {
        *("abs", "sign", "sqrt", "exp", "log", "erf", "round", "floor", "ceil", "frac"),
        *("sin", "cos", "tan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    }
)

TYPES = frozenset({"type", "arith", "num", "int", "real", "bool", "str"})

MEMBERS = frozenset({"shape", "rank", "size"})

_WORDS: dict[str, bool | float] = {"true": True, "false": False, "inf": math.inf, "pi": math.pi}

# Spec: only \{ and \} are escapes. Ricci: quotes and the backslash too; before any other
# character a backslash is itself.
_PIECE = re.compile(r"""\\[{}'"\\]|\{|[^\\{]+|\\""")


class PrimaryParser(TokenStream, ABC):
    """Reads what has no operators outside brackets."""

    _item: Token | None = None
    """The first token of the present list item, where a parenthesis may open zipped packs."""

    @abstractmethod
    def expression(self) -> s.Expr:
        """Any expression."""

    def primary(self) -> s.Expr:
        kind = self.token.kind
        if kind == "name":
            return self._word()
        if kind in ("int", "real"):
            return self._number()
        if kind == "string":
            return self.string()
        return self._builtin() if kind == "builtin" else self._bracketed()

    def _number(self) -> s.Expr:
        token = self.advance()
        value = int(token.text) if token.kind == "int" else float(token.text)
        return s.Literal(value, token.text, span=self.span(token))

    def _bracketed(self) -> s.Expr:
        token = self.token
        if token.text == "(":
            return self._parenthesised()
        if token.text == "[":
            return self._list()
        if token.text != "?":
            help = "a guarded index `|i|` is an expression of its own" if self.at("|") else ""
            self.reject_token("expected an expression", help)
        self.advance()
        return s.NullTest(self.name().text, span=self.since(token))

    def _word(self) -> s.Expr:
        token = self.token
        if token.text in _WORDS:
            self.advance()
            return s.Literal(_WORDS[token.text], token.text, span=self.span(token))
        if token.text in TYPES:
            self.advance()
            return self._cast(token)
        self.name("an expression")
        if self.at("("):
            if token.text in BUILTINS:
                return self._applied(token, token.text)
            return self._cast(token)
        if self.at("."):
            return self._member(token)
        return s.Name(token.text, span=self.span(token))

    def _member(self, token: Token) -> s.Expr:
        self.expect(".")
        if self.token.text not in MEMBERS:
            help = "operators are invoked on the right side of `=` only, not within expressions"
            self.reject_token(f"expected `shape`, `rank` or `size` after `{token.text}.`", help)
        member = self.advance().text
        return s.Member(token.text, member, span=self.since(token))

    def _cast(self, token: Token) -> s.Expr:
        self.expect("(", f"after the type `{token.text}`")
        operand = None if self.at(")") else self.expression()
        self.expect(")", help="a conversion has one operand" if self.at(",") else "")
        return s.Cast(token.text, operand, span=self.since(token))

    def _builtin(self) -> s.Expr:
        token = self.token
        function = token.text.strip("`")
        if function not in BUILTINS:
            known = ", ".join(sorted(BUILTINS))
            self.reject_token("unknown built-in function", help=f"there are {known}")
        self.advance()
        return self._applied(token, function)

    def _applied(self, token: Token, function: str) -> s.Expr:
        self.expect("(", f"after the function `{function}`")
        operand = self.expression()
        self.expect(")", "after the argument (a built-in function takes one)")
        return s.Builtin(function, operand, span=self.since(token))

    def _parenthesised(self) -> s.Expr:
        zips = self.token is self._item
        start = self.expect("(")
        node = self.expression()
        if self.at(","):
            if zips:
                return self._zip(start, node)
            self.reject_token("expected `)`", "packs in parentheses are zipped in lists only")
        self.expect(")")
        return node

    # ---------------------------------------------------------------------- lists

    def _list(self) -> s.Expr:
        start = self.expect("[")
        items = self.listed(self._list_item, "]")
        return s.List(items, span=self.since(start))

    def _list_item(self) -> s.Expr:
        outer, self._item = self._item, self.token
        start = self.token
        node = self.expression()
        self._item = outer
        if self.at(":"):
            node = self.range_from(node, start)
            if node.end is None:
                self.reject("E0102", "a range in a list needs both ends", node.span)
            return node
        return self.expand(node, start)

    def _zip(self, start: Token, first: s.Expr) -> s.Expr:
        items = [first]
        while self.take(","):
            items.append(self.expression())
        self.expect(")")
        self.expect("..", "after zipped packs")
        if not (self.at(",") or self.at("]")):
            self.reject_token("expected `,` or `]` after zipped packs")
        return s.Zip(tuple(items), span=self.since(start))

    def range_from(self, begin: s.Expr | None, start: Token) -> s.Range:
        """`:e:s` behind the begin of a range, whose other parts may be missing."""
        self.expect(":")
        stops = (":", "]", ",")
        end = None if self.token.text in stops else self.expression()
        stride = None
        if self.take(":"):
            stride = None if self.token.text in stops else self.expression()
        return s.Range(begin, end, stride, span=self.since(start))

    def expand(self, node: s.Expr, start: Token) -> s.Expr:
        """The item `node`, expanded where `..` or `..(n)` follows it."""
        if not self.take(".."):
            return node
        count = None
        if self.take("("):
            count = self.expression()
            self.expect(")", "after the repeat count")
        return s.Expand(node, count, span=self.since(start))

    # -------------------------------------------------------------------- strings

    def string(self) -> s.Expr:
        """One or several adjacent strings, with their substitutions."""
        start = self.token
        parts: list[str | s.Expr] = []
        while self.token.kind == "string":
            self._string_parts(self.advance(), parts)
        if all(isinstance(p, str) for p in parts):
            value = "".join(p for p in parts if isinstance(p, str))
            return s.Literal(value, value, span=self.since(start))
        return s.Format(_joined(parts), span=self.since(start))

    def plain_string(self, what: str) -> str:
        """The value of strings that have no substitutions."""
        node = self.string()
        if not isinstance(node, s.Literal):
            self.reject("E0102", f"{what} is a plain string, without substitutions", node.span)
        return str(node.value)

    def _string_parts(self, token: Token, parts: list[str | s.Expr]) -> None:
        text, position, limit = token.text, 1, len(token.text) - 1
        while found := _PIECE.match(text, position, limit):
            piece = found[0]
            position = found.end()
            if piece == "{":
                node, end = self._substitution(token.start + position, token.start + limit)
                parts.append(node)
                position = end - token.start
            else:
                parts.append(piece[1] if piece[0] == "\\" and len(piece) == 2 else piece)

    def _substitution(self, begin: int, limit: int) -> tuple[s.Expr, int]:
        """The expression in the braces of which the first ends before `begin`, at its true
        place, and where the text goes on; it must be closed before `limit`."""
        self.enter()
        tokens = tokenize(self.source, self.report, begin, limit, until="}")
        end = tokens[-1].start
        if end >= limit:
            span = Span(self.source, begin - 1, limit)
            help = "a brace that is text is written `\\{`"
            self.reject("E0103", "this substitution is not closed", span, help=help)
        inner = type(self)(self.source, tokens, self.report)
        inner.depth = self.depth
        if inner.token.kind == "end":
            self.reject("E0102", "an empty substitution", Span(self.source, begin - 1, end + 1))
        node = inner.expression()
        if inner.token.kind != "end":
            inner.reject_token("expected `}`")
        self.depth -= 1
        return node, end + 1


def _joined(parts: list[str | s.Expr]) -> tuple[str | s.Expr, ...]:
    """Neighbouring texts as one, empty ones left out."""
    out: list[str | s.Expr] = []
    texts: list[str] = []
    for part in [*parts, None]:
        if isinstance(part, str):
            texts.append(part)
            continue
        if text := "".join(texts):
            out.append(text)
        texts = []
        if part is not None:
            out.append(part)
    return tuple(out)
