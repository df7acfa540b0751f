"""What constraints, call and outputs name must be there.

An eintup that only constraints name is there too, if they use it and say what it is: if one of its
lines leads to an eintup of the program or the call, and another bounds or computes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...diagnostics import Report
from ..suggest import did_you_mean
from . import syntax as s
from .check_names import Statements
from .rank_rules import terms_of
from .uses import walk

_Names = dict[str, s.Eintup]
"""Names, each with its first mention."""


def check_eintups(file: s.File, statements: Statements, report: Report) -> tuple[str, ...]:
    """All eintups, in the order of their first appearance; the unknown ones are reported."""
    program = _named(node for t in file.statements for node in walk(t))
    measured = [a for a in call_parts(file) if isinstance(a, s.Dims | s.Rank)]
    call = _named(node for item in measured for node in walk(item))
    lines = [_named(_constraint_nodes(line)) for line in file.constraints]
    for name, mention in call.items():
        if name not in program and not any(name in line for line in lines):
            _report_unknown(mention, program, report)
    _check_arrays(file, statements, report)
    _check_lines(program, call, lines, report)
    for constraint in file.constraints:
        for term in terms_of(constraint):
            if isinstance(term, s.TermBinary) and _divides_by_zero(term):
                report.error("E0502", "division by zero", term.span)
    return tuple(dict.fromkeys([*program, *call, *(name for line in lines for name in line)]))


def _check_lines(program: _Names, call: _Names, lines: Sequence[_Names], report: Report) -> None:
    """The eintups that only constraints name: each is used in one line, and bounded in another."""
    reached = _reached({*program, *call}, lines)
    mentions: dict[str, list[s.Eintup]] = {}
    for line in lines:
        for name, mention in line.items():
            mentions.setdefault(name, []).append(mention)
    for name, (mention, *others) in mentions.items():
        if name not in reached:
            _report_unknown(mention, program, report)
        elif name not in program and name not in call and not others:
            _report_unknown(mention, program, report, "no statement has it, and no other line")


def _named(nodes: Iterator[object]) -> _Names:
    found: _Names = {}
    for node in nodes:
        if isinstance(node, s.Eintup):
            found.setdefault(node.name, node)
    return found


def _constraint_nodes(line: s.Constraint) -> Iterator[object]:
    for term in terms_of(line):
        listed = term.dims if isinstance(term, s.DimOf) else term
        if isinstance(listed, s.Dims | s.Rank):
            yield from walk(listed)


def _reached(known: set[str], lines: Sequence[_Names]) -> set[str]:
    """The eintups that lines lead to, from known ones."""
    found = set(known)
    rest = list(lines)
    while True:
        joined = [line for line in rest if not found.isdisjoint(line)]
        if not joined:
            return found
        rest = [line for line in rest if found.isdisjoint(line)]
        found.update(name for line in joined for name in line)


def _report_unknown(
    mention: s.Eintup, program: _Names, report: Report, note: str = "no statement has it"
) -> None:
    name = mention.name
    line = f"say what it is in a line of its own, as in `DIMS({name}) IN [1, 8]`"
    report.error(
        "E0201",
        f"unknown eintup `{name[:80]}`",
        mention.span,
        notes=[note],
        help=did_you_mean(name, program) or (line if "line" in note else ""),
    )


def _divides_by_zero(term: s.TermBinary) -> bool:
    return term.operator in ("//", "//^", "%") and term.rhs == s.Whole(0)


# ------------------------------------------------------------- call and outputs


def _arguments(call: s.Call) -> Iterator[s.Argument]:
    """The arguments of a call, and those of calls in it."""
    for _, argument in call.arguments:
        yield from _parts(argument)


def _parts(node: s.Argument) -> Iterator[s.Argument]:
    yield node
    match node:
        case s.Call():
            yield from _arguments(node)
        case s.Item(value) | s.TensorOf(value):
            yield from _parts(value)


def call_parts(file: s.File) -> list[s.Argument]:
    """The arguments of the call, and those of what is in them."""
    return list(_arguments(file.call)) if file.call is not None else []


def _check_arrays(file: s.File, statements: Statements, report: Report) -> None:
    names = [node for node in call_parts(file) if isinstance(node, s.Identifier)]
    for identifier in (*names, *file.outputs):
        name = identifier.name
        if name not in statements.first and name not in statements.broken:
            report.error(
                "E0201",
                f"unknown array `{name[:80]}`",
                identifier.span,
                notes=["no statement gives it a value"],
                help=did_you_mean(name, [*statements.first, *statements.broken])
                or _constant_help(name, names, identifier),
            )


def _constant_help(name: str, names: Sequence[s.Identifier], identifier: s.Identifier) -> str:
    is_argument = any(identifier is node for node in names)
    return f"a string is written `L('{name}')`" if is_argument else ""
