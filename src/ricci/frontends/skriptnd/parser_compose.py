"""Composition in SkriptND: invocations, blocks, branches and loops (2.10, 2.11, 2.14)."""

from __future__ import annotations

from collections.abc import Callable

from ...diagnostics import Label
from ...records import replace
from ..tokens import Rejected, T, Token
from . import syntax as s
from .parser_declarations import DeclarationParser
from .parser_expressions import LEVELS

_LOOP = ("with", "for", "while", "do")
_FLOW = ("if", "unroll", *_LOOP)
"""The words with which branches and loops begin."""


class ComposeParser(DeclarationParser):
    """Reads one line of `@compose`, `@update` or `@quantize`; each ends behind its `;`."""

    generics: frozenset[str] = frozenset()
    """The generic types of the present operator, as far as they have been read."""

    def component(self) -> s.Component:
        start = self.token
        results = [self._result()]
        while self.take(","):
            results.append(self._result())
        self.expect("=", "between results and what computes them")
        action = self._action()
        # Spec: some examples end a statement with the brace of a block. Ricci: it may end there.
        if self.at(";") or self.tokens[self.position - 1].text != "}":
            self.end_statement()
        return s.Component(tuple(results), action, span=self.since(start))

    # --------------------------------------------------------------------- results

    def _result(self) -> s.Result | s.ResultList | s.Omitted:
        start = self.token
        if self.take("["):
            items = self.listed(self._single, "]")
            return s.ResultList(items, span=self.since(start))
        return self._single()

    def _single(self) -> s.Result | s.Omitted:
        start = self.token
        if self.take("~"):
            return s.Omitted(span=self.span(start))
        if self.at("("):
            self.reject_token("expected a name for the result", "results cannot be zipped")
        self.name("a name for the result")
        pack = self.pack() if self.at("..") else None
        type = self.type() if self.take(":") else None
        if type is not None and type.pack is not None:
            if pack is not None:
                self.reject("E0102", "the length stands here twice", type.pack.span)
            pack, type = type.pack, replace(type, pack=None)
        return s.Result(start.text, type, pack, span=self.since(start))

    # --------------------------------------------------------------------- actions

    def _action(self) -> s.Action:
        if self.at("if"):
            return self._branch()
        if self.token.text in _LOOP:
            return self._loop()
        if self.at("unroll"):
            self.reject_token(
                "a loop cannot begin with `unroll`", "begin it with `with`, `for` or `do`"
            )
        return self._callable()

    def _callable(self) -> s.Callable:
        """An invocation, a block, or an expression."""
        self.enter()
        start = self.token
        label = None
        if self.at_name() and self.peek().text == ":":
            label = self.advance().text
            self.expect(":")
        if self.at("{"):
            found: s.Callable = self._block(start, label)
        elif self._at_invocation():
            found = self._invocation_or_call(start, label)
        elif label is not None:
            self.reject_token(f"expected an invocation or a block after the label `{label}`")
        elif self.token.text in _FLOW:
            help = f"put it into a block: `{{ r = {self.token.text} ...; yield r; }}`"
            self.reject_token("expected an invocation, a block or a tensor", help)
        else:
            found = self.expression()
        self.depth -= 1
        return found

    def _invocation_or_call(self, start: Token, label: str | None) -> s.Callable:
        """An invocation; or an expression that begins with a conversion or a built-in function,
        which is so where an operator follows it, or where its name is that of a generic type."""
        before = self.position
        found = self._invocation(start, label)
        plain = label is None and len(found.callee) == 1 and not (found.types or found.attributes)
        goes_on = self.token.text in LEVELS or self.token.text in ("?", "??", "[")
        if plain and (goes_on or found.callee[0] in self.generics):
            self.position, self.token = before, start
            return self.expression()
        return found

    def _at_invocation(self) -> bool:
        """A qualified name, then `(`, `{`, or types in `<...>` and one of these."""
        if not self.at_name():
            return False
        offset = 1
        while self.peek(offset).text == "." and self.peek(offset + 1).kind == "name":
            offset += 2
        following = self.peek(offset).text
        if following == "<":
            offset += 1
            while self.peek(offset).kind == "name":
                offset += 1
                if self.peek(offset).text != ",":
                    break
                offset += 1
            return self.peek(offset).text == ">" and self.peek(offset + 1).text in ("(", "{")
        return following in ("(", "{")

    def _invocation(self, start: Token, label: str | None) -> s.Invocation:
        callee, types, attributes = self._operator()
        self.expect("(", "before the arguments")
        arguments = self.listed(self.value_or_omitted, ")")
        return s.Invocation(label, callee, types, attributes, arguments, span=self.since(start))

    def _operator(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[s.Argument, ...]]:
        """The callee, its types and its attributes."""
        callee = [self.name("an operator").text]
        while self.take("."):
            callee.append(self.name("an operator").text)
        types: tuple[str, ...] = ()
        if self.take("<"):
            types = self.listed(self.type_name, ">")
        attributes: tuple[s.Argument, ...] = ()
        if self.take("{"):
            attributes = self.listed(self._argument, "}", trailing=True)
        return tuple(callee), types, attributes

    def _argument(self) -> s.Argument:
        start = self.name("an attribute")
        if self.at(":"):
            self.reject_token("expected `=` after the attribute", "write `name=value`")
        self.expect("=", "after the attribute")
        return s.Argument(start.text, self.expression(), span=self.since(start))

    def _block(self, start: Token, label: str | None) -> s.Block:
        opening = self.expect("{")
        components: list[s.Component] = []
        while not self.at("yield"):
            if self.at("}") or self.at_boundary():
                place = Label(self.span(opening), "the block begins here")
                help = "`yield` names the results of the block"
                self.reject_token("expected `yield` at the end", help, labels=(place,))
            self._read_component(components)
        self.advance()
        results = [self.expression()]
        while self.take(","):
            results.append(self.expression())
        self.end_statement()
        self.expect("}", "after `yield`, which is the last statement of a block")
        return s.Block(label, tuple(components), tuple(results), span=self.since(start))

    def _read_component(self, components: list[s.Component]) -> None:
        """A component of an inner block; its error does not spoil the statement around it."""
        before, depth, item = self.position, self.depth, self._item
        try:
            components.append(self.component())
        except Rejected as rejected:
            if rejected.diagnostic is not None and rejected.diagnostic.code == "E0901":
                raise
            self.note(rejected)
            self.depth, self._item = depth, item
            self.recover(before)
            if self.position == before:
                raise Rejected(None) from rejected

    # ---------------------------------------------------------------- control flow

    def _branch(self) -> s.Branch:
        start = self.expect("if")
        conditions = [self._callable()]
        self.expect("then", "after the condition")
        branches = [self._callable()]
        while self.take("elif"):
            conditions.append(self._callable())
            self.expect("then", "after the condition")
            branches.append(self._callable())
        self.expect("else", "(a branch needs a value in every case)")
        if self.at("if"):
            self.reject_token("expected a value after `else`", "write `elif` for `else if`")
        branches.append(self._callable())
        return s.Branch(tuple(conditions), tuple(branches), span=self.since(start))

    def _loop(self) -> s.Loop:
        start = self.token
        carried = self._clause("with", self._carried)
        scans = self._clause("for", self._scan)
        pretest = self.at("while")
        condition = self._callable() if self.take("while") else None
        unroll = self.at("unroll")
        if not (unroll or self.at("do")):
            self.reject_token("expected `do` or `unroll` before the body of the loop")
        self.advance()
        count = self.count() if self.at("..") else None
        body = self._callable()
        if self.at("while"):
            if condition is not None:
                self.reject_token("a loop has one condition, before or after its body")
            self.advance()
            condition = self._callable()
        return s.Loop(
            carried, scans, condition, pretest, unroll, count, body, span=self.since(start)
        )

    def _clause(self, word: str, item: Callable[[], T]) -> tuple[T, ...]:
        if not self.take(word):
            return ()
        items = [item()]
        while self.take(","):
            items.append(item())
        return tuple(items)

    def _carried(self) -> s.Carried:
        start = self.name("a loop variable")
        type = self.type() if self.take(":") else None
        self.expect("=", "before the initial value")
        return s.Carried(start.text, type, self.expression(), span=self.since(start))

    def _scan(self) -> s.Scan:
        start = self.name("a name for the item")
        if self.at("in"):
            self.reject_token("expected `:` between an item and its pack", "write `for x : xs`")
        self.expect(":", "between an item and its pack")
        return s.Scan(start.text, self.expression(), span=self.since(start))

    # ---------------------------------------------------------------- quantisation

    def quantization(self) -> s.Quantization:
        start = self.name("a tensor")
        tensor = [start.text]
        while self.take("."):
            tensor.append(self.name("a tensor").text)
        self.expect(":", "between a tensor and its quantisation")
        callee, types, attributes = self._operator()
        self.end_statement()
        return s.Quantization(tuple(tensor), callee, types, attributes, span=self.since(start))
