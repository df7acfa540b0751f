"""The parser: functions and statements, with recovery, so that all errors of a text are found.

Spec: statements are set apart by nothing but spaces. Ricci: the same; only after an error does
the parser look where lines begin, to find the next statement.
"""

from __future__ import annotations

from typing import cast

from ...diagnostics import Label, Report
from ...dtypes import DType
from ...source import Source
from ..suggest import did_you_mean
from ..tokens import Rejected, Token
from . import syntax as s
from .lexer import ASSIGNMENTS, TYPES
from .parser_expressions import ExpressionParser

_FARTHEST = 40
"""How many tokens are looked at to find the next statement, after an error."""


def parse_unit(source: Source, report: Report) -> s.Unit:
    """The functions of a text; syntax errors go into the report, and their statements are left
    out."""
    return _Parser(source, report).unit()


class _Parser(ExpressionParser):
    def unit(self) -> s.Unit:
        functions: list[s.Function] = []
        while self.token.kind != "end":
            begin = self.position
            try:
                functions.append(self._function())
            except Rejected as rejected:
                self.note(rejected)
                self._skip_to_function(begin)
        return s.Unit(tuple(functions))

    def _skip_to_function(self, begin: int) -> None:
        self.depth = 0
        while self.token.kind != "end" and not (self.at("def") and self.position > begin):
            self.advance()

    # ------------------------------------------------------------------ functions

    def _function(self) -> s.Function:
        start = self.expect("def", "", "a text consists of functions `def f(...) -> (...) {...}`")
        name = self.identifier("the name of the function")
        self.expect("(", "before the parameters")
        parameters = self.listed(self._declaration, ")")
        self.expect("->", "behind the parameters")
        self.expect("(", "before the results")
        results = self.listed(self._declaration, ")")
        opening = self.expect("{", "before the statements")
        statements = self._statements()
        if not self.take("}"):
            self._report_open_function(opening)
        return s.Function(name, parameters, results, statements, self.since(start))

    def _report_open_function(self, opening: Token) -> None:
        self.report.error(
            "E0102",
            f"expected `}}` at the end of the function, found {self.found()}",
            self.span(self.token),
            labels=(Label(self.span(opening), "the statements begin here"),),
            help="close the function with `}`",
        )

    def _declaration(self) -> s.Declaration:
        """`float(M, N) A`, `float a`, or a name alone."""
        start = self.token
        following = self.peek()
        named = self.at_name() and (following.text == "(" or following.kind == "name")
        if not (named or self.token.text in TYPES):
            return s.Declaration(self.identifier("a type or a name"), span=self.since(start))
        dtype = self._unknown_type() if named else self.scalar()
        dims = self.listed(self._dim, ")") if self.take("(") else None
        name = self.identifier("the name of the tensor")
        return s.Declaration(name, dtype, dims, self.since(start))

    def _unknown_type(self) -> DType:
        """Report a name where a type must stand, and go on with some type."""
        token = self.advance()
        help = _OTHER_TYPES.get(token.text, "") or did_you_mean(token.text, TYPES)
        help = help or "the types are " + ", ".join(f"`{t}`" for t in TYPES)
        message = f"`{token.text[:40]}` is not a scalar type"
        self.report.error("E0301", message, self.span(token), help=help)
        return DType.FLOAT32

    def _dim(self) -> s.Identifier | s.Number:
        if self.token.kind == "int":
            return self.number()
        return self.identifier("a size: a name or a whole number")

    # ----------------------------------------------------------------- statements

    def _statements(self) -> tuple[s.Statement, ...]:
        statements: list[s.Statement] = []
        depth = self.depth
        while not (self.token.kind == "end" or self.token.text in ("}", "def")):
            begin = self.position
            try:
                statements.append(self._statement())
            except Rejected as rejected:
                self.note(rejected)
                self.depth = depth
                self._skip_statement(begin)
        return tuple(statements)

    def _skip_statement(self, begin: int) -> None:
        """Go to the next statement that begins a line, or the end of the function."""
        while not (self.token.kind == "end" or self.token.text in ("}", "def")):
            if self.position > begin and self._at_statement():
                return
            self.advance()

    def _at_statement(self) -> bool:
        """Whether a line begins here with a target, right or wrong, and an assignment."""
        before, here = self.peek(-1), self.token
        between = self.source.text[before.end : here.start]
        if not self.at_name() or not ("\n" in between or "\r" in between):
            return False
        ahead, brackets = 1, 0
        while ahead < _FARTHEST:
            text = self.peek(ahead).text
            brackets += (text == "(") - (text == ")")
            if brackets == 0:
                break
            ahead += 1
        return self.peek(ahead + (ahead > 1)).text in ASSIGNMENTS

    def _statement(self) -> s.Statement:
        target = self.identifier("a statement, as `T(i) = ...`")
        indices = self.listed(self._index, ")") if self.take("(") else ()
        if self.token.text not in ASSIGNMENTS:
            choices = " ".join(f"`{a}`" for a in ASSIGNMENTS)
            self.reject_token("expected an assignment", f"the assignments are {choices}")
        operator = cast(s.Operator, self.advance().text)
        value = self.expression()
        equivalent = self._equivalent() if self.take("<=>") else None
        clauses = self._clauses() if self.take("where") else ()
        span = self.since(target)
        return s.Statement(target, indices, operator, value, equivalent, clauses, span)

    def _index(self) -> s.Identifier:
        computed = self.at_name() and self.peek().text not in (",", ")")
        if computed:
            self.advance()
        if computed or not self.at_name():
            help = "only plain indices stand on the left; compute on the right, or in `where`"
            self.reject_token("expected the name of an index", help)
        return self.identifier("an index")

    def _equivalent(self) -> s.Apply:
        function = self.identifier("the name of a library function")
        return s.Apply(function, self.arguments(), self.since(function))

    def _clauses(self) -> tuple[s.Clause, ...]:
        clauses = [self._clause()]
        while self.take(","):
            clauses.append(self._clause())
        return tuple(clauses)

    def _clause(self) -> s.Clause:
        """`i in low:high`, `i = [low, high[`, `x = value`, or `exists value`."""
        start = self.token
        if self.take("exists"):
            return s.Exists(self.expression(), self.since(start))
        name = self.identifier("a clause: `i in 0:N`, `x = value` or `exists T(i)`")
        if self.take("in"):
            low = self.expression()
            self.expect(":", "between the bounds", "`i in 0:N` is 0 <= i < N")
            return s.Range(name, low, self.expression(), self.since(start))
        if not self.take("="):
            self.reject_token("expected `in` or `=`", "a clause is `i in 0:N` or `x = value`")
        if not self.take("["):
            return s.Let(name, self.expression(), self.since(start))
        low = self.expression()
        self.expect(",", "between the bounds", "`i = [0, N[` is 0 <= i < N")
        high = self.expression()
        self.expect("[", "to end the range", "the upper bound is excluded: `i = [0, N[`")
        return s.Range(name, low, high, self.since(start))


_OTHER_TYPES = {
    "half": "did you mean `float16`?",
    "byte": "did you mean `uint8`?",
    "int": "did you mean `int32`?",
    "long": "did you mean `int64`?",
    "unsigned": "did you mean `uint32`?",
}
