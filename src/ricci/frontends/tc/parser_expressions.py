"""Expressions of Tensor Comprehensions: precedence climbing over the table below."""

from __future__ import annotations

from typing import NamedTuple, cast

from ...diagnostics import Report
from ...dtypes import DType
from ...source import Source
from ..tokens import Token, TokenCursor
from . import syntax as s
from .lexer import KEYWORDS, TYPES, tokenize, value_of

LEVELS: dict[str, int] = {
    "||": 1,
    "&&": 2,
    ">": 3, "<": 3, ">=": 3, "<=": 3, "==": 3, "!=": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip
"""Binary operators from the loosest to the tightest; all associate to the left."""

HIGHEST = 200
"""How high the tree of an expression may be."""


class _Waiting(NamedTuple):
    """The left side of a binary operator."""

    start: Token
    node: s.Expression
    height: int
    operator: s.BinaryOperator
    level: int


class ExpressionParser(TokenCursor):
    """Reads expressions; `height` is that of the tree read last."""

    keywords = KEYWORDS

    def __init__(self, source: Source, report: Report) -> None:
        super().__init__(source, tokenize(source, report), report)
        self.height = 0

    def expression(self) -> s.Expression:
        """`c ? x : y`, which associates to the right, or anything tighter."""
        self.enter()
        chosen: list[tuple[Token, s.Expression, s.Expression]] = []
        highest = 0
        start, node = self.token, self._binary()
        while self.take("?"):
            highest = max(highest, self.height)
            then = self.expression()
            highest = max(highest, self.height)
            self.expect(":", "of the condition", "a condition is `condition ? value : other`")
            chosen.append((start, node, then))
            start, node = self.token, self._binary()
        for start, condition, then in reversed(chosen):
            node = s.Conditional(condition, then, node, self.since(start))
        self._grow(max(highest, self.height), len(chosen))
        self.depth -= 1
        return node

    def _grow(self, below: int, levels: int = 1) -> None:
        """Note the height of a tree that stands so many levels above what was read."""
        self.height = below + levels
        if self.height > HIGHEST:
            self.reject(
                "E0901",
                f"operators follow each other or nest more than {HIGHEST} levels deep",
                self.span(self.token),
                help="compute a part of it in a statement of its own",
            )

    def _binary(self) -> s.Expression:
        """Unary operands between binary operators; a stack holds what waits for its right side."""
        waiting: list[_Waiting] = []
        while True:
            start, node = self.token, self._unary()
            level = LEVELS.get(self.token.text, 0)
            while waiting and waiting[-1].level >= level:
                left = waiting.pop()
                node = s.Binary(left.operator, left.node, node, self.since(left.start))
                start = left.start
                self._grow(max(left.height, self.height))
            if not level:
                return node
            operator = cast(s.BinaryOperator, self.advance().text)
            waiting.append(_Waiting(start, node, self.height, operator, level))

    def _unary(self) -> s.Expression:
        start = self.token
        if start.text not in ("-", "!"):
            return self._atom()
        self.advance()
        self.enter()
        operand = self._unary()
        self._grow(self.height)
        self.depth -= 1
        return s.Unary(cast(s.UnaryOperator, start.text), operand, self.since(start))

    def _atom(self) -> s.Expression:
        self.height = 0
        if self.token.kind in ("int", "real"):
            return self.number()
        if self.take("("):
            node = self.expression()
            self.expect(")", "to close the parenthesis")
            return node
        if self.token.text in TYPES:
            return self._cast()
        if self.token.text in ("min", "max"):
            return self._apply(self._identifier(self.advance()))
        start = self.name("an expression")
        if self.at("("):
            return self._apply(self._identifier(start))
        if self.take("."):
            return self._size(start)
        return s.Name(start.text, self.span(start))

    def number(self) -> s.Number:
        token = self.advance()
        dtype = DType.INT32 if token.kind == "int" else DType.FLOAT32
        return s.Number(value_of(token.text), dtype, token.text, self.span(token))

    def scalar(self) -> DType:
        """Pass the name of a scalar type."""
        return TYPES[self.advance().text]

    def _cast(self) -> s.Cast:
        start = self.token
        dtype = self.scalar()
        self.expect("(", f"behind `{start.text}`", "a conversion is written `int32(x)`")
        operand = self.expression()
        self.expect(")", "to close the conversion")
        self._grow(self.height)
        return s.Cast(dtype, operand, self.since(start))

    def _apply(self, function: s.Identifier) -> s.Apply:
        arguments = self.arguments()
        node = s.Apply(function, arguments, self.since(function))
        if function.name in ("min", "max") and len(arguments) != 2:
            self.report.error(
                "E0412",
                f"`{function.name}` takes 2 arguments, not {len(arguments)}",
                node.span,
                help=f"of three, write `{function.name}(a, {function.name}(b, c))`",
            )
        return node

    def arguments(self) -> tuple[s.Expression, ...]:
        """Expressions in parentheses."""
        self.expect("(")
        highest = 0

        def item() -> s.Expression:
            nonlocal highest
            node = self.expression()
            highest = max(highest, self.height)
            return node

        items = self.listed(item, ")")
        self._grow(highest)
        return items

    def _size(self, tensor: Token) -> s.SizeOf:
        if self.token.kind != "int":
            self.reject_token("expected the number of a dimension", "`T.0` is the first size of T")
        number = self.number()
        assert isinstance(number.value, int)
        return s.SizeOf(self._identifier(tensor), number.value, self.since(tensor))

    def identifier(self, what: str) -> s.Identifier:
        return self._identifier(self.name(what))

    def _identifier(self, token: Token) -> s.Identifier:
        return s.Identifier(token.text, self.span(token))
