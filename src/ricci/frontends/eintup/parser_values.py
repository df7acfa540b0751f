"""Values: the right sides of statements."""

from __future__ import annotations

from typing import Literal, NoReturn, cast

from ..tokens import Token
from . import syntax as s
from .parser_index import IndexParser

COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")

VALUE_LEVELS = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(COMPARISONS, 4),
    "+": 5, "-": 5,
    "*": 6, "/": 6, "//": 6, "//^": 6, "%": 6,
}  # fmt: skip
"""Binary operators from the loosest to the tightest; `not` stands between `and` and comparisons."""

NOT_LEVEL = 3
SIGN_LEVEL = 7

_TIGHTER = {op: level for op, level in VALUE_LEVELS.items() if level > NOT_LEVEL}


class ValueParser(IndexParser):
    """Reads values."""

    def value(self) -> s.Value:
        self.enter()
        node = self.climb(VALUE_LEVELS, self._operand, self._binary)
        self.depth -= 1
        return node

    def _binary(self, start: Token, operator: str, lhs: s.Value, rhs: s.Value) -> s.Value:
        if operator in COMPARISONS and self.token.text in COMPARISONS:
            help = "comparisons do not chain in values: write `a < b and b < c`"
            self.reject_token("expected the end of the comparison", help)
        return s.Binary(cast(s.ValueOperator, operator), lhs, rhs, self.since(start))

    def _operand(self) -> s.Value:
        """An atom behind its signs, or a comparison behind `not`."""
        start = self.token
        if start.text == "not":
            return self._negation()
        if not self.take("-"):
            return self._atom()
        self.enter()
        operand = self._operand()
        self.grow(self.height)
        self.depth -= 1
        return s.Unary("-", operand, self.since(start))

    def _negation(self) -> s.Value:
        if self.peek(-1).text in _TIGHTER:
            self.reject_token("expected a value", "put it into parentheses: `(not x)`")
        start = self.advance()
        self.enter()
        operand = self.climb(_TIGHTER, self._operand, self._binary)
        self.grow(self.height)
        self.depth -= 1
        return s.Unary("not", operand, self.since(start))

    # ---------------------------------------------------------------------- atoms

    def _atom(self) -> s.Value:
        self.height = 0
        start = self.token
        if start.kind in ("int", "real"):
            return self.number()
        if self.take("("):
            node = self.value()
            self.close(start)
            return node
        if start.text == "RANK":
            return self.rank()
        if start.text == "DIMS":
            return self._dims_at()
        if start.text == "RANGE":
            return self._range()
        if start.text == "RANDOM":
            return self._random()
        if not self.at_name():
            self._reject_atom()
        if self.peek().text == "(":
            return self._apply()
        if self.peek().text != "[":
            self._reject_bare_name()
        return self.access("the name of an array")

    def number(self) -> s.Number:
        token = self.advance()
        value = int(token.text) if token.kind == "int" else float(token.text)
        return s.Number(value, token.text, self.span(token))

    def _apply(self) -> s.Value:
        """`exp(x)`."""
        start = self.advance()
        if start.text.upper() in _CAPITALS:
            message = f"`{start.text}` is no function of values"
            help = f"did you mean `{start.text.upper()}`?"
            self.reject("E0203", message, self.span(start), help=help)
        function = s.Identifier(start.text, self.span(start))
        arguments = self.items(self.value, "a value")
        return s.Apply(function, arguments, self.since(start))

    def _dims_at(self) -> s.Value:
        """`DIMS(a)[coord]`."""
        start = self.token
        dims = self.dims()
        if not self.at("["):
            help = f"an eintup of rank 1 numbers its extents: `{self.brief(dims)}[coord]`"
            self.reject("E0503", "a tuple where a number is needed", dims.span, help=help)
        opening = self.advance()
        if not self.at_name():
            help = f"in values an eintup of rank 1 numbers extents: `{self.brief(dims)}[coord]`"
            self.reject_token("expected the name of an eintup", help)
        at = self.eintup()
        self.close(opening)
        return s.DimsAt(dims, at, self.since(start))

    def _range(self) -> s.Value:
        """`RANGE[a, coord]`."""
        start = self.advance()
        opening = self.expect("[", "behind `RANGE`", _RANGE)
        of = self.eintup()
        self.expect(",", "between the eintups", _RANGE)
        at = self.eintup()
        self.close(opening)
        return s.Range(of, at, self.since(start))

    def _random(self) -> s.Value:
        """`RANDOM(low, high, INT)`."""
        start = self.advance()
        opening = self.expect("(", "behind `RANDOM`", _RANDOM)
        low, height = self.value(), self.height
        self.expect(",", "between the bounds", _RANDOM)
        high = self.value()
        self.grow(max(height, self.height))
        self.expect(",", "behind the bounds", _RANDOM)
        if not (self.at("INT") or self.at("FLOAT")):
            self.reject_token("expected `INT` or `FLOAT`", _RANDOM)
        kind = cast(Literal["INT", "FLOAT"], self.advance().text)
        self.close(opening)
        return s.Random(low, high, kind, self.since(start))

    def _reject_bare_name(self) -> NoReturn:
        token = self.token
        name = token.text[:40]
        self.reject(
            "E0102",
            f"`{name}` stands without indices",
            self.span(token),
            help=f"an element of an array is `{name}[...]`; the index itself as a value is "
            f"`RANGE[{name}, coord]`",
        )

    def _reject_atom(self) -> NoReturn:
        help = ""
        if self.at("+"):
            help = "a value has no sign `+`"
        elif self.at("*") and self.peek(-1).text == "*":
            help = "a power is written `pow(x, y)`"
        elif self.token.text in ("INT", "FLOAT"):
            help = _RANDOM
        elif self.at("FLAT"):
            help = "`FLAT` is an index and no value"
        elif self.token.kind == "string":
            help = "a value is a number"
        elif self.token.kind == "end" and self.position:
            help = GOES_ON
        self.reject_token("expected a value", help)


GOES_ON = "a statement goes on over the end of its line inside brackets only"
_CAPITALS = ("DIMS", "RANK", "FLAT", "RANGE", "RANDOM")
_RANGE = "the component of an index that another numbers is written `RANGE[a, coord]`"
_RANDOM = "random numbers are `RANDOM(low, high, INT)` or `RANDOM(low, high, FLOAT)`"
