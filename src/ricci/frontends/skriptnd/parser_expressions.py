"""Expressions of SkriptND (2.4): precedence climbing over the table below."""

from __future__ import annotations

from ...diagnostics import Severity
from ..tokens import Token
from . import syntax as s
from .parser_primaries import BUILTINS, TYPES, PrimaryParser

__all__ = ["BUILTINS", "CUMULATIVE", "FOLDS", "LEVELS", "TYPES", "ExpressionParser"]

LEVELS: dict[str, int] = {
    "=>": 1,
    "&&": 2, "||": 2, "^": 2,
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "is": 3, "in": 3, ":=": 3,
    "<<": 4, ">>": 4,
    "+": 5, "-": 5,
    "*": 6, "/": 6, "\\": 6, "%": 6,
    "**": 7,
}  # fmt: skip
"""Binary operators from the loosest to the tightest; all associate to the left."""

CUMULATIVE = frozenset({"+", "*", "<<", ">>", "&&", "||"})
FOLDS = CUMULATIVE | {"<", "<=", ">", ">=", "==", "!=", ":="}

_LOGICAL = 2
_SIGNS = frozenset("+-!")
_DOTS = ("..", "...")

_MOST_WARNINGS = 20
"""Mixtures of logical operators that one module is warned of."""


class ExpressionParser(PrimaryParser):
    """Reads expressions."""

    _warnings = 0

    def expression(self) -> s.Expr:
        """`|i|`, `c ? x : y`, `c ? x`, `x ?? y`, or anything tighter."""
        self.enter()
        start = self.token
        node = self._bounded() if self.at("|") else self._binary(1, ())
        if self.at("?"):
            node = self._select(node, start)
        elif self.take("??"):
            node = s.Coalesce(node, self.expression(), span=self.since(start))
        self.depth -= 1
        return node

    def _select(self, condition: s.Expr, start: Token) -> s.Select:
        self.expect("?")
        then = self.expression()
        otherwise = self.expression() if self.take(":") else None
        return s.Select(condition, then, otherwise, span=self.since(start))

    def _bounded(self) -> s.Expr:
        start = self.expect("|")
        index = self.expression()
        below = above = None
        if self.take("<>"):
            below = self.expression()
            self.expect(":", "between the two replacements")
            above = self.expression()
        self.expect("|", "to close the guarded index")
        return s.Bounded(index, below, above, span=self.since(start))

    # ------------------------------------------------------------------ operators

    def _binary(self, lowest: int, outer: tuple[str, ...]) -> s.Expr:
        """Operators of level `lowest` and tighter; `outer` are those whose right side this is."""
        start = self.token
        left = self._unary()
        seen = ""
        while level := LEVELS.get(self.token.text, 0):
            op = self.token.text
            if level < lowest or (op == ":=" and self.peek().text not in _DOTS):
                break
            self.advance()
            if level == _LOGICAL:
                seen = self._note_mixture(seen, op, left)
            if self.token.text in _DOTS:
                left = self._fold(op, left, start)
                self._check_fold_end((*outer, op))
            else:
                right = self._binary(level + 1, (*outer, op))
                left = s.Binary(op, left, right, span=self.since(start))
        return left

    def _note_mixture(self, seen: str, op: str, left: s.Expr) -> str:
        """Warn of logical operators that are easily misread; the operator seen last."""
        if seen not in ("", op) and self._warnings < _MOST_WARNINGS:
            self._warnings += 1
            text = " ".join(left.span.text.split())
            shown = text if len(text) <= 60 else "..."
            self.report.error(
                "W0105",
                f"`{seen}` and `{op}` have one precedence, and are read from left to right",
                self.since(left),
                help=f"this is read as `({shown}) {op} ...`; write the parentheses that you mean",
                severity=Severity.WARNING,
            )
        return op

    def _fold(self, op: str, operand: s.Expr, start: Token) -> s.Expr:
        cumulative = self.at("...")
        dots = self.advance()
        if op not in (CUMULATIVE if cumulative else FOLDS):
            kind = "cumulatively folded" if cumulative else "folded"
            self.reject("E0102", f"`{op}` cannot be {kind}", self.span(dots))
        return s.Fold(op, operand, cumulative, span=self.since(start))

    def _check_fold_end(self, allowed: tuple[str, ...]) -> None:
        """Only the operator of a fold, or one whose right side it is, may follow a fold."""
        following = self.token.text
        if following in LEVELS and following not in allowed and following != ":=":
            self.reject_token(
                "expected the end of the expression after the fold",
                "put the fold in parentheses, as in `(x + ..)`",
            )

    def _unary(self) -> s.Expr:
        """Prefix `+ - !` binds the primary and its `**` chain."""
        start = self.token
        if start.text in _SIGNS:
            self.advance()
            self.enter()
            operand = self._unary()
            self.depth -= 1
            return s.Unary(start.text, operand, span=self.since(start))
        left = self.postfix()
        while self.at("**"):
            self.advance()
            if self.token.text in _DOTS:
                return self._fold("**", left, start)
            right = self._unary() if self.token.text in _SIGNS else self.postfix()
            left = s.Binary("**", left, right, span=self.since(start))
        return left

    # -------------------------------------------------------------------- postfix

    def postfix(self) -> s.Expr:
        """A primary with its subscripts."""
        start = self.token
        node = self.primary()
        while self.at("["):
            node = self._subscript(node, start)
        return node

    def _subscript(self, base: s.Expr, start: Token) -> s.Expr:
        self.expect("[")
        items: list[s.Expr] = []
        access = self.at("]")
        while not self.at("]"):
            item = self._index_item()
            access |= isinstance(item, s.Expand | s.Bounded)
            items.append(item)
            if not self.take(","):
                break
            access = True
        self.expect("]", "after the subscripts")
        if access:
            self._check_access(base, items)
            return s.Access(base, tuple(items), span=self.since(start))
        if self.take("<-"):
            value = self.expression()
            return s.Substitute(base, items[0], value, span=self.since(start))
        return s.Subscript(base, items[0], span=self.since(start))

    def _check_access(self, base: s.Expr, items: list[s.Expr]) -> None:
        tensor = base
        while isinstance(tensor, s.Subscript):
            tensor = tensor.pack
        if not isinstance(tensor, s.Name):
            self.reject("E0102", "only tensors have elements", base.span, help="`p[i]` is an item")
        for item in items:
            if isinstance(item, s.Range) and (item.begin or item.end or item.stride):
                help = "a whole dimension is written `:`"
                self.reject("E0102", "a range cannot index a tensor", item.span, help=help)

    def _index_item(self) -> s.Expr:
        start = self.token
        if self.at(":"):
            return self.range_from(None, start)
        node = self.expression()
        if self.at(":"):
            return self.range_from(node, start)
        return self.expand(node, start)
