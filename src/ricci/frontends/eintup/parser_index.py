"""Index expressions: what stands in the brackets of an access."""

from __future__ import annotations

from typing import NoReturn, cast

from ..suggest import did_you_mean
from ..tokens import Token
from . import syntax as s
from .parser_base import LineParser

INDEX_LEVELS = {"+": 1, "-": 1, "*": 2, "//": 2, "//^": 2, "%": 2}
"""Operators of indices and constraints, from the loosest to the tightest."""

_NO_INDEX = "an array of a single element has an eintup of rank 0 as its index"


class IndexParser(LineParser):
    """Reads index expressions and lists of them."""

    def access(self, what: str) -> s.Access:
        """`A[i, j]`."""
        start = self.token
        array = self.identifier(what)
        if not self.at("["):
            self.expect("[", f"behind `{array.name[:40]}`", "an element of an array is `A[i, j]`")
        items = self.items(self.index, "an index", _NO_INDEX)
        return s.Access(array, items, self.since(start))

    def dims(self) -> s.Dims:
        start = self.advance()
        return s.Dims(self._listed(start), self.since(start))

    def rank(self) -> s.Rank:
        start = self.advance()
        return s.Rank(self._listed(start), self.since(start))

    def _listed(self, start: Token) -> tuple[s.IndexExpr, ...]:
        """The list in parentheses of `DIMS`, `RANK` or `FLAT`."""
        if not self.at("("):
            help = f"it is written `{start.text}(a)` or `{start.text}(a, b)`"
            self.expect("(", f"behind `{start.text}`", help)
        return self.items(self.index, "an index expression")

    def index(self) -> s.IndexExpr:
        self.enter()
        node = self.climb(INDEX_LEVELS, self._index_operand, self._index_binary)
        if self.at("/"):
            self.reject_token("expected an operator of indices", ROUND)
        self.depth -= 1
        return node

    def _index_binary(
        self, start: Token, operator: str, lhs: s.IndexExpr, rhs: s.IndexExpr
    ) -> s.IndexExpr:
        return s.IndexBinary(cast(s.IndexOperator, operator), lhs, rhs, self.since(start))

    def _index_operand(self) -> s.IndexExpr:
        self.height = 0
        start = self.token
        if start.kind == "int":
            return self.whole()
        if self.take("("):
            node = self.index()
            self.close(start)
            return node
        if start.text == "DIMS":
            return self.dims()
        if start.text == "RANK":
            return self.rank()
        if start.text == "FLAT":
            self.advance()
            return s.Flat(self._listed(start), self.since(start))
        if not self.at_name():
            self._reject_index()
        return self._index_named()

    def _index_named(self) -> s.IndexExpr:
        """An eintup, or an array that is read along one of its axes."""
        start = self.advance()
        if self.at("["):
            array = s.Identifier(start.text, self.span(start))
            items = self.items(self._slice_item, "an index or `:`")
            return s.Slice(array, items, self.since(start))
        if self.at("("):
            choices = ("FLAT", "DIMS", "RANK")
            help = did_you_mean(start.text, choices) or "the functions of indices are " + (
                ", ".join(f"`{c}`" for c in choices)
            )
            message = f"`{start.text[:40]}` is no function of indices"
            self.reject("E0203", message, self.span(start), help=help)
        return s.Eintup(start.text, self.span(start))

    def _slice_item(self) -> s.IndexExpr | None:
        if self.take(":"):
            self.height = 0
            return None
        return self.index()

    def _reject_index(self) -> NoReturn:
        help = ""
        if self.at("-"):
            help = "no index begins with a sign: `-1 + i` is written `i - 1`"
        elif self.at(":"):
            help = "`:` takes the tuple of an index that is itself an array, as in `A[B[i, :]]`"
        elif self.token.kind == "real":
            help = "an index is an integer"
        elif self.at("RANGE") or self.at("RANDOM"):
            help = f"`{self.token.text}` is a value and no index"
        self.reject_token("expected an index", help)


ROUND = "`//` is the quotient that is rounded down, `//^` the one that is rounded up"
