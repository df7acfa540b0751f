"""Names in view while an operator is checked, and what is said when one is not there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ...diagnostics import Label, Report
from ...records import dataclass, replace
from ...source import Span
from ..suggest import did_you_mean
from .types import Type


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name of an operator; `kind` is the noun that messages use for it."""

    name: str
    kind: str
    type: Type
    span: Span
    assigned: bool = True
    """False for an output that nothing has computed yet."""

    @property
    def is_tensor(self) -> bool:
        return self.type.tensor


@dataclass
class Scope:
    """The names of one block; inner blocks see those of the outer ones."""

    report: Report
    outer: Scope | None = None
    symbols: dict[str, Symbol] = field(default_factory=dict)
    later: dict[str, Symbol] = field(default_factory=dict)
    """Names that are declared, but not to be used yet, shared by all scopes of an operator."""
    missing: set[str] = field(default_factory=set)
    """Unknown names that were reported, shared by all scopes of an operator."""

    def inner(self) -> Scope:
        return Scope(self.report, self, {}, self.later, self.missing)

    def find(self, name: str) -> Symbol | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.outer
        return None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def names(self) -> list[str]:
        outer = self.outer.names() if self.outer is not None else []
        return [*outer, *self.symbols]

    def put(self, symbol: Symbol) -> None:
        """Enter a symbol without asking."""
        self.symbols[symbol.name] = symbol

    def declare(self, symbol: Symbol) -> None:
        """Enter a new symbol; its name must not be in view."""
        known = self.find(symbol.name)
        if known is not None:
            report_twice(self.report, symbol, known)
            self.symbols.setdefault(symbol.name, symbol)
            return
        later = self.later.pop(symbol.name, symbol)
        if later.span != symbol.span:
            report_twice(self.report, later, symbol)
        self.put(symbol)

    def narrow(self, names: Iterable[str]) -> Scope:
        """A scope in which some optional names are known not to be null."""
        scope = self.inner()
        for name in names:
            symbol = self.find(name)
            if symbol is not None and symbol.type.optional:
                scope.put(replace(symbol, type=symbol.type.with_optional(False)))
        return scope

    def lookup(self, name: str, span: Span, hint: str = "") -> Symbol | None:
        """The symbol of a name; reports a name that is unknown or not known yet.

        `hint` is the help where no other name looks alike.
        """
        symbol = self.find(name)
        if symbol is None and name not in self.missing:
            self.missing.add(name)
            self._report_unknown(name, span, hint)
        return symbol

    def _report_unknown(self, name: str, span: Span, hint: str) -> None:
        later = self.later.get(name)
        if later is not None:
            self.report.error(
                "E0206",
                f"{later.kind} `{name}` is used before it is known",
                span,
                labels=[Label(later.span, f"{_DONE.get(later.kind, 'declared')} here")],
                help=_order_help(later.kind),
            )
            return
        full = len(self.report.diagnostics) >= self.report.limit
        help = "" if full else did_you_mean(name, self.names()) or hint
        self.report.error("E0201", f"unknown name `{name}`", span, help=help)


def _order_help(kind: str) -> str:
    if kind == "helper":
        return "helpers are known below their own line in @using, and in the blocks after it"
    if kind in ("output", "result"):
        return f"{kind}s are computed from top to bottom"
    return ""


_DONE = {"result": "computed"}


_ELSEWHERE = {"float": "real", "double": "real", "integer": "int", "boolean": "bool"}
"""What types of other languages are called here."""


def did_you_mean_type(name: str, choices: Iterable[str]) -> str:
    """A help line with the types that look alike, or have this name elsewhere."""
    known = _ELSEWHERE.get(name)
    return f"did you mean `{known}`?" if known is not None else did_you_mean(name, choices)


def report_twice(report: Report, symbol: Symbol, known: Symbol) -> None:
    report.error(
        "E0202",
        f"the name `{symbol.name}` is already taken by {article(known.kind)}",
        symbol.span,
        f"{symbol.kind} here",
        labels=[Label(known.span, f"{known.kind} here")],
        help="attributes, lengths, inputs, outputs, constants, variables and helpers "
        "of an operator share one space of names",
    )


def article(noun: str) -> str:
    """The noun with `a` or `an` before it."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
