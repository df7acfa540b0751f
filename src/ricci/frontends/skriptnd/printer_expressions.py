"""Expressions of SkriptND as text, with the parentheses that the grammar needs.

There are no others, save where a text would be easily misread: around mixed logical
operators, around what is chosen or folded and then expanded, and around parts of ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from . import syntax as s
from .parser_expressions import LEVELS

_LATER = {"<<": "<?", ">>": ">?"}

_OPEN, _OPERATORS, _UNARY, _POSTFIX = 0, 1, 8, 10
"""Levels beside those of `LEVELS`: a whole expression, one of operators only, `+ - !`, and what
takes subscripts."""

_ESCAPED = re.compile(r"""\\(?=[\\{}'"]|\Z)|[{}]""")
"""What a string writes with a backslash before it, beside its quote (see the parser)."""


class ExpressionPrinter:
    """Writes expressions in one dialect: `draft` or `later`."""

    def __init__(self, dialect: str = "draft") -> None:
        self.later = dialect == "later"
        self._quote = '"'

    def __call__(self, node: s.Expr, level: int = _OPEN) -> str:
        """The text of an expression that stands where only `level` or tighter may."""
        text, own = _WRITERS[type(node)](self, node)
        return f"({text})" if own < level else text

    def many(self, nodes: Iterable[s.Expr]) -> str:
        return ", ".join(self(node) for node in nodes)

    def operator(self, op: str) -> str:
        return _LATER.get(op, op) if self.later else op

    # ------------------------------------------------------------------- writers

    def literal(self, node: s.Literal) -> tuple[str, int]:
        if isinstance(node.value, str):
            return quote(node.value, self._quote), _POSTFIX
        return node.text or str(node.value).lower(), _POSTFIX

    def format(self, node: s.Format) -> tuple[str, int]:
        outer = self._quote
        parts = []
        for part in node.parts:
            if isinstance(part, str):
                parts.append(_escape(part, outer))
                continue
            self._quote = "'"
            parts.append(f"{{{self(part)}}}")
            self._quote = outer
        return f"{outer}{''.join(parts)}{outer}", _POSTFIX

    def name(self, node: s.Name) -> tuple[str, int]:
        return node.name, _POSTFIX

    def member(self, node: s.Member) -> tuple[str, int]:
        return f"{node.name}.{node.member}", _POSTFIX

    def omitted(self, node: s.Omitted) -> tuple[str, int]:
        return "~", _POSTFIX

    def range(self, node: s.Range) -> tuple[str, int]:
        begin = self(node.begin, _OPERATORS) if node.begin else ""
        end = self(node.end, _OPERATORS) if node.end else ""
        stride = f":{self(node.stride, _OPERATORS)}" if node.stride else ""
        return f"{begin}:{end}{stride}", _OPEN

    def expand(self, node: s.Expand) -> tuple[str, int]:
        item = self(node.item, _OPEN if isinstance(node.item, s.Bounded) else _OPERATORS)
        if node.count is None:
            gap = " " if item[-1:].isdigit() and not item.isidentifier() else ""
            return f"{item}{gap}..", _OPEN
        return f"{item} ..({self(node.count)})", _OPEN

    def zip(self, node: s.Zip) -> tuple[str, int]:
        return f"({self.many(node.items)})..", _OPEN

    def list(self, node: s.List) -> tuple[str, int]:
        return f"[{self.many(node.items)}]", _POSTFIX

    def subscript(self, node: s.Subscript) -> tuple[str, int]:
        return f"{self(node.pack, _POSTFIX)}[{self(node.index)}]", _POSTFIX

    def substitute(self, node: s.Substitute) -> tuple[str, int]:
        target = f"{self(node.pack, _POSTFIX)}[{self(node.index)}]"
        return f"{target} <- {self(node.value)}", _OPEN

    def bounded(self, node: s.Bounded) -> tuple[str, int]:
        if node.below is None or node.above is None:
            return f"|{self(node.index, _OPERATORS)}|", _OPEN
        parts = [self(x, _OPERATORS) for x in (node.index, node.below, node.above)]
        return f"|{parts[0]} <> {parts[1]} : {parts[2]}|", _OPEN

    def access(self, node: s.Access) -> tuple[str, int]:
        comma = len(node.indices) == 1 and not isinstance(node.indices[0], s.Expand)
        inner = ",".join(self(index) for index in node.indices) + ("," if comma else "")
        return f"{self(node.tensor, _POSTFIX)}[{inner}]", _POSTFIX

    def unary(self, node: s.Unary) -> tuple[str, int]:
        operand = self(node.operand, LEVELS["**"])
        gap = " " if operand[:1] == node.op and node.op in "+-" else ""
        return f"{node.op}{gap}{operand}", _UNARY

    def binary(self, node: s.Binary) -> tuple[str, int]:
        level = LEVELS[node.op]
        if node.op == "**":
            return self._power(node), level
        lhs = self(node.lhs, self.left_level(node))
        return f"{lhs} {self.operator(node.op)} {self(node.rhs, level + 1)}", level

    def left_level(self, node: s.Binary) -> int:
        """How tight the left operand of an operator must be to stand without parentheses."""
        if isinstance(node.lhs, s.Fold) and node.lhs.op == node.op:
            return _OPEN
        return _POSTFIX if _mixes(node.op, node.lhs) else LEVELS[node.op]

    def _power(self, node: s.Binary) -> str:
        signed = isinstance(node.lhs, s.Unary) or (
            isinstance(node.lhs, s.Binary) and isinstance(node.lhs.rhs, s.Unary)
        )
        lhs = self(node.lhs, _POSTFIX if signed else LEVELS["**"])
        return f"{lhs} ** {self(node.rhs, _UNARY)}"

    def select(self, node: s.Select) -> tuple[str, int]:
        condition = self(node.condition, LEVELS["=>"])
        then = self(node.then)
        if node.otherwise is None:
            return f"{condition} ? {then}", _OPEN
        then = self.before_colon(node.then)
        return f"{condition} ? {then} : {self(node.otherwise)}", _OPEN

    def before_colon(self, node: s.Expr) -> str:
        """An expression that a `:` follows, which must not become the colon of a `?` in it."""
        return self(node, _OPERATORS if _lacks_colon(node) else _OPEN)

    def coalesce(self, node: s.Coalesce) -> tuple[str, int]:
        return f"{self(node.value, LEVELS['=>'])} ?? {self(node.fallback)}", _OPEN

    def null_test(self, node: s.NullTest) -> tuple[str, int]:
        return f"?{node.name}", _POSTFIX

    def fold(self, node: s.Fold) -> tuple[str, int]:
        level = LEVELS[node.op]
        dots = "..." if node.cumulative else ".."
        inner = node.operand
        if isinstance(inner, s.Fold) and inner.op == node.op:
            level = _OPEN
        elif _mixes(node.op, inner):
            level = _POSTFIX
        return f"{self(inner, level)} {self.operator(node.op)} {dots}", _OPEN

    def cast(self, node: s.Cast) -> tuple[str, int]:
        return f"{node.type}({self(node.operand) if node.operand else ''})", _POSTFIX

    def builtin(self, node: s.Builtin) -> tuple[str, int]:
        name = node.function if self.later else f"`{node.function}`"
        return f"{name}({self(node.operand)})", _POSTFIX


def _mixes(op: str, lhs: s.Expr) -> bool:
    """Whether a logical operator follows another one, which is easily misread."""
    return LEVELS[op] == 2 and isinstance(lhs, s.Binary) and LEVELS[lhs.op] == 2 and lhs.op != op


def _lacks_colon(node: s.Expr) -> bool:
    """Whether an expression ends with a `c ? x` that would take a `:` behind it."""
    while True:
        if isinstance(node, s.Select):
            if node.otherwise is None:
                return True
            node = node.otherwise
        elif isinstance(node, s.Coalesce):
            node = node.fallback
        elif isinstance(node, s.Substitute):
            node = node.value
        else:
            return False


def quote(value: str, mark: str = '"') -> str:
    """A string literal with this value."""
    return f"{mark}{_escape(value, mark)}{mark}"


def _escape(text: str, mark: str) -> str:
    """The inside of a string; one in a substitution has no quotes of either kind."""
    text = _ESCAPED.sub(r"\\\g<0>", text)
    for char in mark if mark == '"' else "'\"":
        text = text.replace(char, f"\\{char}")
    return text


_WRITERS: dict[type, Callable[[ExpressionPrinter, Any], tuple[str, int]]] = {
    s.Literal: ExpressionPrinter.literal,
    s.Format: ExpressionPrinter.format,
    s.Name: ExpressionPrinter.name,
    s.Member: ExpressionPrinter.member,
    s.Omitted: ExpressionPrinter.omitted,
    s.Range: ExpressionPrinter.range,
    s.Expand: ExpressionPrinter.expand,
    s.Zip: ExpressionPrinter.zip,
    s.List: ExpressionPrinter.list,
    s.Subscript: ExpressionPrinter.subscript,
    s.Substitute: ExpressionPrinter.substitute,
    s.Bounded: ExpressionPrinter.bounded,
    s.Access: ExpressionPrinter.access,
    s.Unary: ExpressionPrinter.unary,
    s.Binary: ExpressionPrinter.binary,
    s.Select: ExpressionPrinter.select,
    s.Coalesce: ExpressionPrinter.coalesce,
    s.NullTest: ExpressionPrinter.null_test,
    s.Fold: ExpressionPrinter.fold,
    s.Cast: ExpressionPrinter.cast,
    s.Builtin: ExpressionPrinter.builtin,
}
