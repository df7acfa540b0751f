"""One program text through every stage before execution."""

from __future__ import annotations

from ricci.diagnostics import Error, Report
from ricci.frontends.skriptnd.compose import compose
from ricci.frontends.skriptnd.modules import load_text
from ricci.frontends.skriptnd.typing import check_program


def run_program(text: str) -> list[str]:
    """The codes of the errors of a program; empty if it composes."""
    report = Report()
    try:
        program = load_text(text, "main", report)
        check_program(program, report)
        report.raise_errors()
        for graph in program.graphs():
            compose(program, graph, {})
    except Error as error:
        assert error.diagnostics and str(error)
        error.to_json()
        return [d.code for d in error.diagnostics]
    return []
