"""Constraints, all together: whether there are ranks and dims that satisfy them."""

from __future__ import annotations

from itertools import islice

from ...diagnostics import Error, Label, Report
from ..cycles import find_cycles
from . import syntax as s
from .contradictions import are_possible
from .dims_findings import dims_claims, dims_contradiction
from .dims_rules import dependencies, known_box
from .program import Program

_MOST_COMBINATIONS = 16
"""For how many combinations of ranks the dims are looked at; one with dims is enough."""


def check_constraints(program: Program, report: Report) -> None:
    """Report constraints that contradict one another, or that depend on one another."""
    before = len(report.errors)
    _check_cycles(program, report)
    too_large = program.ranks.too_large()
    if too_large is not None:
        report.add(too_large)
    if len(report.errors) == before:
        _check_combinations(program, report)


def _check_combinations(program: Program, report: Report) -> None:
    """There are ranks, and one of the first combinations has dims."""
    try:
        first = list(islice(program.ranks.combinations(), _MOST_COMBINATIONS))
    except Error as found:
        report.add(found.diagnostics[0])
        return
    if not first:
        report.add(program.ranks.contradiction())
    elif not any(are_possible(dims_claims(program, r), known_box(r, {})) for r in first):
        report.add(dims_contradiction(program, first[0], {}))


def _check_cycles(program: Program, report: Report) -> None:
    found = dependencies(program)
    needs = {
        name: sorted({n for used, _ in uses for n in used}) for name, uses in found.needs.items()
    }
    for cycle in find_cycles(needs, lambda name: needs.get(name, ())):
        lines: dict[int, s.Constraint] = {}
        for name, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            lines.update((id(line), line) for used, line in found.needs[name] if following in used)
        equal = [line for name in cycle for line in found.equal.get(name, ())]
        first, *others = lines.values()
        report.error(
            "E0405",
            "dims depend on one another: "
            + " -> ".join(f"`DIMS({name})`" for name in [*cycle, cycle[0]]),
            first.span,
            labels=[Label(line.span, "") for line in (*others, *equal)],
            help="compute one of them from others, or bound it by an interval",
        )
