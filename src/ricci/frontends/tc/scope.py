"""Names in view: those of a function, and those of one statement of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from ...diagnostics import Label, Report
from ...ir.nodes import Symbol
from ...records import dataclass
from ...source import Span
from . import program as p
from . import syntax as s
from .builtins import ARGUMENTS


@dataclass
class FunctionScope:
    """The sizes and tensors of a function. A tensor whose statement is wrong is `broken`: what
    reads it is not reported again."""

    report: Report
    sizes: dict[str, Symbol] = field(default_factory=dict)
    tensors: dict[str, p.Variable] = field(default_factory=dict)
    results: dict[str, s.Declaration] = field(default_factory=dict)
    later: dict[str, Span] = field(default_factory=dict)
    """Tensors that some statement writes, with the place."""
    broken: set[str] = field(default_factory=set)

    @property
    def full(self) -> bool:
        """Whether no more errors can be reported."""
        return len(self.report.errors) >= self.report.limit

    def knows(self, name: str) -> bool:
        """Whether a name is one of the function by now."""
        return name in self.sizes or name in self.tensors or name in self.broken

    def place_of(self, name: str) -> tuple[str, Span] | None:
        """What a name of the function stands for, in words, and where that is said."""
        if name in self.sizes:
            return "a size", self.sizes[name].span
        if name in self.tensors:
            known = self.tensors[name]
            return _NOUNS[known.kind], known.span
        return None

    def check_free(self, name: s.Identifier, what: str) -> bool:
        """Report a declared name that is taken already."""
        if name.name in ARGUMENTS:
            report_builtin(self.report, name.name, name.span, what)
            return False
        known = self.place_of(name.name)
        if known is not None:
            report_twice(self.report, name, *known)
        return known is None


_NOUNS = {"parameter": "a parameter", "result": "a result", "temporary": "a tensor"}


@dataclass
class StatementScope:
    """The indices and lets of a statement, in front of the names of its function."""

    function: FunctionScope
    indices: dict[str, p.IndexVariable] = field(default_factory=dict)
    lets: dict[str, p.Let | None] = field(default_factory=dict)
    """A let is none while it is not known, or wrong."""
    pending: dict[str, Span] = field(default_factory=dict)
    """The lets that clauses further on define."""

    def names(self) -> list[str]:
        """All names in view."""
        function = self.function
        return [*self.indices, *self.lets, *function.sizes, *function.tensors]


def report_twice(report: Report, name: s.Identifier, what: str, known: Span) -> None:
    report.error(
        "E0202",
        f"the name `{name.name}` is already taken by {what}",
        name.span,
        labels=[Label(known, f"{what} here")],
    )


def report_builtin(report: Report, name: str, span: Span, what: str) -> None:
    message = f"`{name}` is a built-in function, so {what} cannot have its name"
    report.error("E0202", message, span)


def read_names(root: s.Expression) -> Iterator[tuple[s.Name, bool]]:
    """The plain names of an expression in the order of the text, and whether each stands in a
    subscript."""
    pending = [(root, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, s.Name):
            yield node, inside
        elif isinstance(node, s.Apply):
            inside = inside or not is_function(node.function.name)
        pending += [(child, inside) for child in reversed(s.children(node))]


def is_function(name: str) -> bool:
    """Whether a name that is applied is that of a built-in function."""
    return name in ARGUMENTS or name in ("min", "max")
