"""Declarations in SkriptND: types, parameters, helper symbols, asserts, formulas (2.5-2.12)."""

from __future__ import annotations

from ...diagnostics import Label
from ...source import Span
from ..tokens import Rejected
from . import syntax as s
from .parser_expressions import TYPES, ExpressionParser

_ASSIGNMENTS = ("=", ":=", "+=", "*=", "&=", "|=", "<=", ">=")


class DeclarationParser(ExpressionParser):
    """Reads one line of a declaring block; each method ends behind its `;`."""

    # ---------------------------------------------------------------------- types

    def type_name(self) -> str:
        """A primitive type or the name of a generic one."""
        if self.token.text in TYPES:
            return self.advance().text
        return self.name("a type").text

    def type(self) -> s.Type:
        """`[optional] [dynamic] name [^(rank)] [shape] [..(n)]`."""
        start = self.token
        optional = dynamic = False
        while self.token.text in ("optional", "dynamic"):
            optional |= self.at("optional")
            dynamic |= self.at("dynamic")
            self.advance()
        name = self.type_name()
        rank = None
        if self.take("^"):
            self.expect("(", "before the name of the rank")
            rank = self.name("a name for the rank").text
            self.expect(")")
        shape = self.shape() if self.at("[") else None
        pack = self.pack() if self.at("..") else None
        return s.Type(name, optional, dynamic, rank, shape, pack, span=self.since(start))

    def shape(self) -> tuple[s.Extent, ...]:
        self.expect("[")
        return self.listed(self._extent, "]")

    def _extent(self) -> s.Extent:
        start = self.token
        static = self.take("static")
        distinct = self.take("..")
        size = self.value_or_omitted()
        bound = self.expression() if self.take("|") else None
        pack = self.pack() if self.at("..") else None
        return s.Extent(size, distinct, bound, pack, static, span=self.since(start))

    def value_or_omitted(self) -> s.Expr:
        """An expression or `~`."""
        start = self.token
        if self.take("~"):
            return s.Omitted(span=self.span(start))
        return self.expression()

    def pack(self) -> s.Pack:
        """`..` or `..([static|dynamic] n [| bound])`."""
        start = self.expect("..")
        if not self.take("("):
            return s.Pack(span=self.since(start))
        marker = self.advance().text if self.token.text in ("static", "dynamic") else ""
        length = None if self.take("~") else self.expression()
        bound = self.expression() if self.take("|") else None
        self.expect(")", "after the length")
        return s.Pack(length, bound, marker, span=self.since(start))

    # --------------------------------------------------------------- declarations

    def type_parameter(self) -> s.TypeParameter:
        start = self.name("a name for the type")
        self.expect(":")
        base = self._primitive()
        default = self._primitive() if self.take("=") else None
        self.end_statement()
        return s.TypeParameter(start.text, base, default, span=self.since(start))

    def _primitive(self) -> str:
        if self.token.text not in TYPES:
            self.reject_token("expected a type")
        return self.advance().text

    def parameter(self) -> s.Parameter:
        start = self.name()
        self.expect(":", "between a name and its type")
        type = self.type()
        default = self.expression() if self.take("=") else None
        bounds = self._bounds()
        self.end_statement()
        return s.Parameter(start.text, type, default, bounds, span=self.since(start))

    def _bounds(self) -> tuple[s.Bound, ...]:
        bounds: list[s.Bound] = []
        while self.take(","):
            start = self.name("an index")
            self.expect("<", "between an index and its bound")
            extent = self.expression()
            bounds.append(s.Bound(start.text, extent, span=self.since(start)))
        return tuple(bounds)

    def end_statement(self) -> None:
        """Pass the `;` that ends a statement; where a new line or the end of the block stands
        instead, report the missing one and go on."""
        if self.take(";"):
            return
        end = self.tokens[self.position - 1].end
        place = Label(Span(self.source, end - 1, end), "behind this")
        try:
            self.reject_token("expected `;` at the end of the statement", labels=(place,))
        except Rejected as rejected:
            between = self.source.text[end : self.token.start]
            if not (self.at("}") or self.at_boundary() or "\n" in between or "\r" in between):
                raise
            self.note(rejected)

    # -------------------------------------------------------------- helper symbols

    def using(self) -> s.Using:
        start = self.token
        listed = self.take("[")
        items = self.listed(self._using_item, "]") if listed else (self._using_name(),)
        self.expect("=")
        value = self.expression()
        self.end_statement()
        return s.Using(items, value, listed, span=self.since(start))

    def _using_name(self) -> s.UsingName:
        start = self.name()
        pack = self.pack() if self.at("..") else None
        return s.UsingName(start.text, pack, span=self.since(start))

    def _using_item(self) -> s.UsingName | s.UsingZip:
        if not self.at("("):
            return self._using_name()
        start = self.advance()
        names = self.listed(lambda: self.name().text, ")")
        self.expect("..", "after zipped names")
        return s.UsingZip(names, span=self.since(start))

    # --------------------------------------------------------------------- asserts

    def assertion(self) -> s.Assertion:
        start = self.token
        condition = self.expression()
        message: s.Expr | None = None
        prints: list[s.Print] = []
        if self.take(":"):
            message = self.expression()
            while self.take(","):
                prints.append(self._print())
        self.end_statement()
        return s.Assertion(condition, message, tuple(prints), span=self.since(start))

    def _print(self) -> s.Print:
        start = self.token
        label = ""
        if self._at_label():
            label = self.plain_string("the label of a printed value")
            self.expect(":")
        return s.Print(label, self.expression(), span=self.since(start))

    def _at_label(self) -> bool:
        offset = 0
        while self.peek(offset).kind == "string":
            offset += 1
        return offset > 0 and self.peek(offset).text == ":"

    # -------------------------------------------------------------------- formulas

    def lowering(self) -> s.Lowering:
        """One formula; locals stand before it between commas, or after `with` and before `:`."""
        start = self.token
        unroll = self._unroll() if self.take("unroll") else None
        later = self.take("with")
        locals = []
        while self.at_name() and self.peek().text == "=":
            locals.append(self._local())
            if self.at(";"):
                self._reject_bare_target(locals[-1])
            if not self.take(","):
                if not later and self.at_name():
                    self.expect(",", "after the local value")
                break
        if later:
            self.expect(":", "after the local values")
        target = self._target()
        op = self.token.text
        if op not in _ASSIGNMENTS or self.token.kind != "op":
            known = ", ".join(f"`{op}`" for op in _ASSIGNMENTS)
            if locals and isinstance(target, s.Name):
                self._reject_bare_target(locals[-1])
            self.reject_token(f"expected an assignment ({known})")
        self.advance()
        value = self.expression()
        bounds = self._bounds()
        condition = self.expression() if self.take("|") else None
        self.end_statement()
        return s.Lowering(
            unroll, tuple(locals), target, op, value, bounds, condition, span=self.since(start)
        )

    def _target(self) -> s.Expr:
        if not self.at_name():
            self.reject_token("expected the element of an output that is assigned")
        return self.postfix()

    def _reject_bare_target(self, local: s.LocalValue) -> None:
        """Reject a formula whose left side has no subscripts, and so was read as a local value."""
        self.reject(
            "E0102",
            f"the left side of a formula needs subscripts, as in `{local.name}[i,] = ...`",
            Span(self.source, local.span.start, local.span.start + len(local.name)),
            help=f"a tensor of rank 0 is written `{local.name}[]`",
        )

    def _local(self) -> s.LocalValue:
        start = self.name()
        self.expect("=")
        return s.LocalValue(start.text, self.expression(), span=self.since(start))

    def _unroll(self) -> s.Count:
        start = self.token
        count = self.count()
        if count.index is None or count.count is None:
            self.reject(
                "E0102", "an unrolled formula needs an index and a count", self.since(start)
            )
        return count

    def count(self) -> s.Count:
        """`..([i ->] [n])`."""
        start = self.expect("..", "before the loop count")
        self.expect("(", "before the loop count")
        index = None
        if self.at_name() and self.peek().text == "->":
            index = self.advance().text
            self.expect("->")
        count = None if self.at(")") else self.expression()
        self.expect(")", "after the loop count")
        return s.Count(index, count, span=self.since(start))
