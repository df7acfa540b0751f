"""The programs that the fuzzer damages: every SkriptND text of the tests, taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path

from ricci.diagnostics import Error, Report
from ricci.frontends.reading import make_source
from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.lexer import tokenize
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.standard_library import standard_module, standard_names

TESTS = Path(__file__).parent.parent


@dataclass(frozen=True)
class Program:
    """A text, and what is needed to compose it."""

    name: str
    text: str
    attribs: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    graph: str | None = None

    @cached_property
    def parts(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Where the parts of each class of the syntax stand; empty if the text does not parse."""
        try:
            module = parse_module(make_source(self.text, "main"), Report(), "main")
        except Error:
            return {}
        found: dict[str, list[tuple[int, int]]] = {}
        for node in _nodes(module):
            if node.span.end > node.span.start:
                found.setdefault(_class(node), []).append((node.span.start, node.span.end))
        return found

    @cached_property
    def words(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Where the tokens of each kind stand: names, numbers, strings, signs."""
        found: dict[str, list[tuple[int, int]]] = {}
        try:
            for token in tokenize(make_source(self.text, "main"), Report()):
                if token.end > token.start:
                    found.setdefault(token.kind, []).append((token.start, token.end))
        except Error:
            pass
        return found


_STATEMENTS = (s.Lowering, s.Component, s.Assertion, s.Using, s.Parameter, s.Quantization)
_EXPRESSIONS = (
    s.Literal, s.Format, s.Name, s.Member, s.Range, s.Expand, s.Zip, s.List, s.Subscript,
    s.Substitute, s.Access, s.Unary, s.Binary, s.Select, s.Coalesce, s.NullTest, s.Fold, s.Cast,
    s.Builtin,
)  # fmt: skip


def _class(node: s.Node) -> str:
    if isinstance(node, _EXPRESSIONS):
        return "expression"
    return "statement" if isinstance(node, _STATEMENTS) else type(node).__name__.lower()


def _nodes(node: object) -> Iterator[s.Node]:
    if isinstance(node, s.Node):
        yield node
    if is_dataclass(node) and isinstance(node, s.Node):
        for f in fields(node):
            yield from _nodes(getattr(node, f.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from _nodes(item)


def programs() -> list[Program]:
    """The valid programs of `tests/programs`, with a graph each."""
    return _files(TESTS / "programs")


def everything() -> list[Program]:
    """All programs that the tests have, right or wrong, each text once."""
    found = [
        *programs(), *_files(TESTS / "skriptnd" / "accepted"), *_files(TESTS / "errors"),
        *_files(TESTS.parent / "examples"), *_spec(), *_operators(),
    ]  # fmt: skip
    return list({p.text: p for p in reversed(found)}.values())[::-1]


def _files(folder: Path) -> list[Program]:
    return [Program(p.stem, p.read_text("utf-8")) for p in sorted(folder.rglob("*.sknd"))]


def _spec() -> Iterator[Program]:
    from ..spec import all_cases

    for case in all_cases():
        if not case.modules:
            yield Program(str(case), case.program, case.attribs, case.types, case.graph)


def _operators() -> Iterator[Program]:
    from ..operators.families import FAMILIES

    for family in FAMILIES:
        for number in range(2):
            yield Program(f"{family.operator} {number}", family.case(number).text)


def library_operators() -> list[str]:
    """The names of the library's operators, as they are invoked."""
    modules = {name: standard_module(name) for name in standard_names()}
    return [f"{n}.{op.name}" for n, m in modules.items() if m is not None for op in m.operators]


def warm_up(programs: Sequence[Program]) -> None:
    """Do once what each worker would have to do again: it begins as a copy of this process."""
    for program in programs:
        _ = program.parts, program.words
    library_operators()
