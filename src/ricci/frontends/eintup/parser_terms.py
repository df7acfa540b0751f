"""Constraints, and the terms that they relate."""

from __future__ import annotations

from typing import Literal, NoReturn, cast

from ..suggest import did_you_mean
from ..tokens import Token
from . import syntax as s
from .parser_base import HIGHEST, LineParser
from .parser_index import INDEX_LEVELS, ROUND
from .sections import RELATIONS


class ConstraintParser(LineParser):
    """Reads one constraint."""

    def constraint(self) -> s.Constraint:
        """`a = b`, `0 < a <= b`, or `a IN [low, high]`."""
        start = self.token
        first = self.term()
        if self.take("IN"):
            return self._membership(start, first)
        terms, relations = [first], []
        while self.token.text in RELATIONS:
            text = self.advance().text
            relations.append(cast(s.Relation, "==" if text == "=" else text))
            terms.append(self.term())
            if len(terms) > HIGHEST:
                span = self.span(self.token)
                self.reject("E0901", f"a chain has more than {HIGHEST} terms", span)
        if not relations:
            self.reject_token("expected a relation", _FORMS)
        self.end(_FORMS)
        return s.Comparison(tuple(terms), tuple(relations), self.since(start))

    def _membership(self, start: Token, term: s.Term) -> s.Constraint:
        if not self.at("["):
            self.expect("[", "behind `IN`", _INTERVAL)
        opening = self.advance()
        low = self.term()
        self.expect(",", "between the ends of the interval", _INTERVAL)
        high = self.term()
        self.close(opening)
        self.end("each constraint stands on a line of its own")
        return s.Membership(term, low, high, self.since(start))

    # --------------------------------------------------------------------- terms

    def term(self) -> s.Term:
        self.enter()
        node = self.climb(INDEX_LEVELS, self._operand, self._binary)
        if self.at("/"):
            self.reject_token("expected an operator of integers", ROUND)
        self.depth -= 1
        return node

    def _binary(self, start: Token, operator: str, lhs: s.Term, rhs: s.Term) -> s.Term:
        return s.TermBinary(cast(s.TermOperator, operator), lhs, rhs, self.since(start))

    def _operand(self) -> s.Term:
        self.height = 0
        start = self.token
        if start.kind == "int":
            return self.whole()
        if start.text == "-":
            return self._negative()
        if self.take("("):
            node = self.term()
            self.close(start)
            return node
        if start.text in ("RANK", "DIMS"):
            return self._of_eintups()
        if not (start.text in ("min", "max") and self.peek().text == "("):
            self._reject_operand()
        return self._smallest()

    def _negative(self) -> s.Term:
        start = self.advance()
        if self.token.kind != "int":
            self.reject_token("expected a whole number", "of anything else write `0 - DIMS(a)`")
        value = -self.whole().value
        return s.Whole(value, self.since(start))

    def _of_eintups(self) -> s.Term:
        """`RANK(a, b)`, `DIMS(a, b)` or `DIMS(a)[0]`."""
        start = self.advance()
        if not self.at("("):
            self.expect("(", f"behind `{start.text}`", f"it is written `{start.text}(a)`")
        items: tuple[s.IndexExpr, ...] = self.items(self._eintup, "the name of an eintup")
        if start.text == "RANK":
            return s.Rank(items, self.since(start))
        dims = s.Dims(items, self.since(start))
        if not self.at("["):
            return dims
        opening = self.advance()
        if self.token.kind != "int":
            self.reject_token("expected a whole number", "one extent is `DIMS(a)[0]`")
        at = self.whole().value
        self.close(opening)
        return s.DimOf(dims, at, self.since(start))

    def _eintup(self) -> s.Eintup:
        node = self.eintup()
        self.height = 0
        if self.token.text in INDEX_LEVELS or self.token.text in ("[", "("):
            help = "constraints speak of eintups: compute outside, as in `DIMS(a) + 1`"
            self.reject_token("expected `,` or `)`", help)
        return node

    def _smallest(self) -> s.Term:
        """`min(a, b)`."""
        start = self.advance()
        function = cast(Literal["min", "max"], start.text)
        return s.Smallest(function, self.items(self.term, "a term"), self.since(start))

    def _reject_operand(self) -> NoReturn:
        token = self.token
        if not self.at_name():
            help = "ranks and dims are integers" if token.kind == "real" else ""
            self.reject_token("expected a rank, dims or a whole number", help)
        name = token.text[:40]
        if self.peek().text == "(":
            message = f"`{name}` is no function of constraints"
            help = did_you_mean(token.text, ("RANK", "DIMS", "min", "max")) or _FORMS
            self.reject("E0203", message, self.span(token), help=help)
        self.reject(
            "E0102",
            f"`{name}` stands alone in a constraint",
            self.span(token),
            help=f"its dims are `DIMS({name})`, how many it has is `RANK({name})`",
        )


_FORMS = "a constraint is `RANK(a) = 2`, `DIMS(a) IN [1, 8]`, `0 < DIMS(a) <= DIMS(b)`, ..."
_INTERVAL = "an interval is written `[low, high]`; both ends belong to it"
