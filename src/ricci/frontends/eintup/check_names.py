"""Statements, each for itself: their arrays, indices and functions."""

from __future__ import annotations

from collections.abc import Iterator

from ...diagnostics import Label, Report
from ...source import Span
from ..suggest import did_you_mean
from . import syntax as s
from .extents import has_slice, is_static
from .printer import print_index
from .typing import FUNCTIONS
from .uses import accesses, walk


class Statements:
    """The statements read so far, and the arrays that they define."""

    def __init__(self, statements: tuple[s.Statement, ...], report: Report) -> None:
        self.report = report
        self.first: dict[str, s.Statement] = {}
        self.broken: set[str] = set()
        self.good: list[s.Statement] = []
        self.later = {t.target.array.name: t.target.array.span for t in reversed(statements)}
        for statement in statements:
            if len(report.errors) < report.limit:  # further ones would be dropped
                self._check(statement)

    @property
    def signatures(self) -> dict[str, tuple[s.IndexExpr, ...]]:
        return {name: first.target.items for name, first in self.first.items()}

    def _check(self, node: s.Statement) -> None:
        before = len(self.report.errors)
        target = node.target
        known = self.first.get(target.array.name)
        for access in accesses(node):
            if access is not target or known is not None:
                self._check_access(access)
        for part in walk(node):
            self._check_part(part)
        if len(self.report.errors) == before and self.broken.isdisjoint(_arrays(node)):
            self.good.append(node)
            self.first.setdefault(target.array.name, node)
        elif known is None:
            self.broken.add(target.array.name)

    def check_indices(self, node: s.Dims | s.Rank) -> None:
        """Index expressions outside of statements, after all of these."""
        for access in accesses(node):
            self._check_access(access)
        for part in walk(node):
            self._check_part(part)

    # ---------------------------------------------------------------------- arrays

    def _check_access(self, node: s.Access | s.Slice) -> None:
        name = node.array.name
        first = self.first.get(name)
        if isinstance(node, s.Slice) and node.items.count(None) != 1:
            message = f"`{print_index(node)}` has {node.items.count(None)} `:`, and must have one"
            self.report.error("E0602", message, node.span)
        elif first is None:
            self._report_unknown(node.array)
        elif len(node.items) != len(first.target.items):
            self._report_arity(node, first)
        elif isinstance(node, s.Slice):
            self._check_axis(node, first)

    def _report_unknown(self, array: s.Identifier) -> None:
        if array.name in self.broken:
            return
        if array.name in self.later:
            self.report.error(
                "E0206",
                f"`{array.name}` is used before it has a value",
                array.span,
                labels=_elsewhere(self.later[array.name], array.span, "it is given one here"),
                help=f"an array is first mentioned on the left, as in `{array.name}[...] = ...`",
            )
            return
        choices = sorted({*self.first, *self.later, *self.broken})
        self.report.error(
            "E0201",
            f"unknown array `{array.name[:80]}`",
            array.span,
            notes=["an array is first mentioned on the left of a statement"],
            help=did_you_mean(array.name, choices),
        )

    def _report_arity(self, node: s.Access | s.Slice, first: s.Statement) -> None:
        wanted, given = len(first.target.items), len(node.items)
        self.report.error(
            "E0602",
            f"`{node.array.name}` has {_count(wanted, 'index expression')}, "
            f"and is accessed with {given}",
            node.span,
            labels=[Label(first.target.span, "its first mention fixes how many")],
        )

    def _check_axis(self, node: s.Slice, first: s.Statement) -> None:
        """The axis under `:` has an extent that ranks can be equal to."""
        slot = node.items.index(None)
        axis = first.target.items[slot]
        if not isinstance(axis, s.Eintup | s.Whole):
            self.report.error(
                "E0411",
                f"slot {slot} of `{node.array.name}` is `{print_index(axis)}`, "
                "and only an axis that is an eintup or a number can stand under `:`",
                node.span,
                labels=[Label(axis.span, "the axis")],
                help=f"name the axis, as in `{node.array.name}[..., coord]`",
            )

    # ----------------------------------------------------------------------- parts

    def _check_part(self, node: object) -> None:
        match node:
            case s.IndexBinary("//" | "//^" | "%", _, rhs):
                self._check_divisor(node, rhs)
            case s.Dims() | s.Flat():
                self._check_fixed(node)
            case s.Apply():
                self._check_function(node)
            case s.Random(s.Number(low), s.Number(high), kind):
                if low > high or (low == high and kind == "INT"):
                    number = "integer" if kind == "INT" else "number"
                    message = f"there is no {number} from {low} up to, without, {high}"
                    self.report.error("E0419", message, node.span)

    def _check_divisor(self, node: s.IndexBinary, divisor: s.IndexExpr) -> None:
        if not is_static(divisor):
            self.report.error(
                "E0507",
                f"the right operand of `{node.operator}` must be a constant, "
                f"and `{print_index(divisor)}` is not",
                divisor.span,
                notes=["constants are numbers, `DIMS()`, `RANK()`, and arithmetic of these"],
                help=_fixed_form(divisor),
            )
        elif isinstance(divisor, s.Whole) and divisor.value == 0:
            self.report.error("E0502", "division by zero", node.span)

    def _check_fixed(self, node: s.Dims | s.Flat) -> None:
        word = "DIMS" if isinstance(node, s.Dims) else "FLAT"
        for item in node.items:
            if has_slice(item):
                self.report.error(
                    "E0507",
                    f"`{word}()` needs extents that are known before the program runs, "
                    f"and those of `{print_index(item)}` depend on data",
                    item.span,
                )

    def _check_function(self, node: s.Apply) -> None:
        name, given = node.function.name, len(node.arguments)
        wanted = FUNCTIONS.get(name)
        if wanted is None:
            self.report.error(
                "E0203",
                f"unknown function `{name[:80]}`",
                node.function.span,
                help=did_you_mean(name, FUNCTIONS),
            )
        elif given != wanted:
            message = f"`{name}` takes {_count(wanted, 'argument')}, not {given}"
            self.report.error("E0412", message, node.span)


def _arrays(node: s.Statement) -> Iterator[str]:
    return (access.array.name for access in accesses(node))


def _fixed_form(divisor: s.IndexExpr) -> str:
    return f"write `DIMS({divisor.name})`" if isinstance(divisor, s.Eintup) else ""


def _elsewhere(span: Span, own: Span, text: str) -> list[Label]:
    return [Label(span, text)] if span != own else []


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
