"""From text to syntax tree: modules, operators and their blocks (2.2, 2.15).

A syntax error ends its statement, and parsing goes on behind it, so that one run reports
several errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, TypeVar

from ...diagnostics import Label, Report
from ...source import Source, Span
from ..tokens import DEEPEST, Rejected, Token
from . import syntax as s
from .lexer import tokenize
from .parser_compose import ComposeParser

NodeT = TypeVar("NodeT", bound=s.Node)

FIELDS = {
    "@dtype": "dtypes",
    "@attrib": "attributes",
    "@input": "inputs",
    "@output": "outputs",
    "@constant": "constants",
    "@variable": "variables",
    "@using": "using",
    "@assert": "asserts",
    "@lower": "lower",
    "@compose": "compose",
    "@update": "update",
    "@quantize": "quantize",
}
"""The blocks, and the field of `Operator` that each fills."""

HIGHEST = 200
"""Nodes on the longest way down the tree of one statement; a chain of n operators has n."""


def parse_module(source: Source, report: Report, name: str) -> s.Module:
    """The tree of a module; what is wrong with the text goes to the report."""
    return ModuleParser(source, tokenize(source, report), report).module(name)


def parse_part(source: Source, report: Report, start: int, end: int) -> s.Module:
    """The tree of the imports and definitions in one part of a text, as a module."""
    return ModuleParser(source, tokenize(source, report, start, end), report).module("")


def parse_expression(source: Source, report: Report) -> s.Expr | None:
    """The tree of a text that is one expression; `None` if it is not."""
    return ModuleParser(source, tokenize(source, report), report).single_expression()


class ModuleParser(ComposeParser):
    def module(self, name: str) -> s.Module:
        imports: list[s.Import] = []
        operators: list[s.Operator] = []
        start = self.token
        while self.token.kind != "end":
            before = self.position
            try:
                self._restart()
                if self.at("import"):
                    if operators:
                        self.reject_token("imports stand before the first operator")
                    imports += self._imports()
                else:
                    operators.append(self._definition())
            except Rejected as rejected:
                self.note(rejected)
                self._skip_definition(before)
        return s.Module(name, self.source, tuple(imports), tuple(operators), span=self.since(start))

    def single_expression(self) -> s.Expr | None:
        try:
            node = self._bounded_height(self.expression)
            if self.token.kind != "end":
                self.reject_token("expected the end of the expression")
        except Rejected as rejected:
            self.note(rejected)
            return None
        return node

    def _restart(self) -> None:
        self.depth = 0
        self._item = None

    def _imports(self) -> list[s.Import]:
        """`import a, b.c;`; Ricci: the `;` may be missing, as in the specification's example."""
        self.expect("import")
        imports = [self._import()]
        while self.take(","):
            imports.append(self._import())
        self.take(";")
        return imports

    def _import(self) -> s.Import:
        start = self.name("the name of a module")
        path = [start.text]
        while self.take("."):
            path.append(self.name("the name of a module").text)
        return s.Import(tuple(path), span=self.since(start))

    def _skip_definition(self, before: int) -> None:
        """Go to the next definition, and to another token than number `before` at least."""
        if self.position == before:
            self.advance()
        while self.token.kind != "end":
            if self.token.text in ("operator", "graph", "public", "import"):
                return
            self.advance()

    # ------------------------------------------------------------------ definitions

    def _definition(self) -> s.Operator:
        start = self.token
        public = self.take("public")
        if not (self.at("operator") or self.at("graph")):
            self._reject_outside()
        graph = self.advance().text == "graph"
        name = self.name("the name of the definition")
        opening = self.expect("{")
        blocks: dict[str, tuple[s.Node, ...]] = {}
        spans: dict[str, Span] = {}
        self.generics = frozenset()
        while not self.at("}"):
            if self.token.kind != "block":
                self._leave_open_definition(name, opening)
                break
            self._block_of(blocks, spans)
        else:
            self.advance()
        statements: dict[str, Any] = {FIELDS[block]: found for block, found in blocks.items()}
        return s.Operator(
            name.text,
            graph,
            public,
            blocks=tuple(b.removeprefix("@") for b in spans),
            name_span=self.span(name),
            span=self.since(start),
            **statements,
        )

    def _reject_outside(self) -> None:
        help = ""
        if self.at("}") or self.token.kind == "block":
            help = "a brace above may be closed too early"
        self.reject_token("expected `operator`, `graph` or `import`", help)

    def _leave_open_definition(self, name: Token, opening: Token) -> None:
        """Report what stands between blocks; the end of the definition is assumed before the
        next one, and an error that can only be skipped is raised."""
        labels = (Label(self.span(opening), "the definition begins here"),)
        boundary = self.at_boundary()
        help = f"`{name.text}` may lack a closing brace" if boundary else ""
        try:
            self.reject_token("expected a block such as `@input`, or `}`", help, labels=labels)
        except Rejected as rejected:
            if not boundary:
                raise
            self.note(rejected)

    def _block_of(self, blocks: dict[str, tuple[s.Node, ...]], spans: dict[str, Span]) -> None:
        """One `@name { ... }`, its statements put into `blocks`."""
        block = self.advance()
        known = block.text in FIELDS
        if not known:
            close = get_close_matches(block.text, FIELDS, 1)
            help = f"did you mean `{close[0]}`?" if close else f"there are {', '.join(FIELDS)}"
            self.report.error(
                "E0102", f"unknown block, found `{block.text}`", self.span(block), help=help
            )
        elif block.text in spans:
            self.report.error(
                "E0202",
                f"the block `{block.text}` stands twice in one definition",
                self.span(block),
                labels=(Label(spans[block.text], "the first one"),),
                help="put its statements into the first one",
            )
        opening = self.expect("{", f"after `{block.text}`")
        if not known:
            self._skip_block()
            return
        statements = self._statements(self._reader(block.text), opening)
        if block.text not in spans:
            spans[block.text] = self.span(block)
            blocks[block.text] = tuple(statements)
        if block.text == "@dtype":
            self.generics = frozenset(t.name for t in statements if isinstance(t, s.TypeParameter))

    def _skip_block(self) -> None:
        """Go behind the `}` of an unknown block."""
        while not (self.at_boundary() or self.at("}")):
            self.recover(self.position)
        self.take("}")

    def _reader(self, block: str) -> Callable[[], s.Node]:
        readers: dict[str, Callable[[], s.Node]] = {
            "@dtype": self.type_parameter,
            "@using": self.using,
            "@assert": self.assertion,
            "@lower": self.lowering,
            "@compose": self.component,
            "@update": self.component,
            "@quantize": self.quantization,
        }
        return readers.get(block, self.parameter)

    def _statements(self, read: Callable[[], s.Node], opening: Token) -> list[s.Node]:
        """The statements up to the `}` of a block, or to what shows that it is missing."""
        statements: list[s.Node] = []
        while not self.take("}"):
            if self.at_boundary():
                self._report_open_block(opening)
                break
            before = self.position
            try:
                self._restart()
                statements.append(self._bounded_height(read))
            except Rejected as rejected:
                self.note(rejected)
                self.recover(before)
        return statements

    def _report_open_block(self, opening: Token) -> None:
        self.report.error(
            "E0102",
            f"expected `}}` at the end of the block, found {self.found()}",
            self.span(self.token),
            labels=(Label(self.span(opening), "the block begins here"),),
            help="close the block with `}`",
        )

    def _bounded_height(self, read: Callable[[], NodeT]) -> NodeT:
        """What `read` reads, unless its tree is too high to be worked on by recursion."""
        before, start = self.position, self.token
        try:
            node = read()
            too_high = self.position - before > HIGHEST and _is_too_high(node)
        except RecursionError:
            too_high = True
        if too_high:
            self.reject(
                "E0901",
                f"operators follow each other or nest more than {HIGHEST} levels deep",
                self.span(start),
                help="name a part of it, in @using or as a local value",
            )
        return node


def _is_too_high(root: s.Node) -> bool:
    level: list[s.Node] = [root]
    for _ in range(HIGHEST + DEEPEST):
        level = [child for node in level for child in children(node)]
        if not level:
            return False
    return True


def children(node: s.Node) -> list[s.Node]:
    """The nodes that a node consists of, in the order of its fields."""
    found: list[s.Node] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, s.Node):
            found.append(value)
        elif isinstance(value, tuple):
            found += [item for item in value if isinstance(item, s.Node)]
    return found
