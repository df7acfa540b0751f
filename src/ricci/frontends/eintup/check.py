"""The check of a file: names are bound, ranks inferred, and what is wrong is reported."""

from __future__ import annotations

from ...diagnostics import Report
from . import syntax as s
from .check_constraints import check_constraints
from .check_eintups import call_parts, check_eintups
from .check_names import Statements
from .filled import is_filled
from .program import Array, Program
from .rank_rules import Width, call_ties, constraint_ties, statement_ties
from .ranks import Ranks


def check_file(file: s.File, report: Report) -> Program:
    """What a tree means; errors go into the report, and then the program is of no further use."""
    before = len(report.errors)
    found = Statements(file.statements, report)
    for part in call_parts(file):
        if isinstance(part, s.Dims | s.Rank):
            found.check_indices(part)
    arrays = {
        name: Array(name, first, is_filled(first), first.target.array.span)
        for name, first in found.first.items()
    }
    eintups = check_eintups(file, found, report)
    program = Program(file, arrays, eintups, Ranks(eintups, {}))
    if len(report.errors) == before:
        program = Program(file, arrays, eintups, _find_ranks(file, found, eintups))
        check_constraints(program, report)
    return program


def _find_ranks(file: s.File, found: Statements, eintups: tuple[str, ...]) -> Ranks:
    signatures = found.signatures
    ties = list(statement_ties(found.good, signatures, found.first))
    ties += call_ties(call_parts(file), signatures)
    keys = (key for tie in ties for r in tie.relations for key in r.unknowns())
    widths = {key.name for key in keys if isinstance(key, Width)}
    for constraint in file.constraints:
        ties += constraint_ties(constraint, widths)
    return Ranks(eintups, signatures, ties)
