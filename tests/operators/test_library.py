"""The text of the standard library: it is checked like a user's, and prints as what it is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ricci.diagnostics import Report
from ricci.frontends.skriptnd.modules import STDLIB, load_text
from ricci.frontends.skriptnd.parser import parse_module
from ricci.frontends.skriptnd.printer import format_module
from ricci.frontends.skriptnd.typing import check_program
from ricci.source import Source

MODULES = sorted(path.stem for path in STDLIB.glob("*.sknd"))


def _text(name: str) -> str:
    return (STDLIB / f"{name}.sknd").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MODULES)
def test_module_has_no_errors(name: str) -> None:
    report = Report()
    # As a text of the user: modules of the library itself are not checked when they are used.
    program = load_text(_text(name), name, report)
    check_program(program, report)
    assert [d.render() for d in report.diagnostics] == []


@pytest.mark.parametrize("dialect", ["draft", "later"])
@pytest.mark.parametrize("name", MODULES)
def test_module_prints_as_itself(name: str, dialect: str) -> None:
    report = Report()
    module = parse_module(Source(name, _text(name)), report, name)
    printed = format_module(module, dialect=dialect)
    again = parse_module(Source(name, printed), report, name)
    assert [d.render() for d in report.diagnostics] == []
    assert again == module
    assert format_module(again, dialect=dialect) == printed


@pytest.mark.parametrize("name", MODULES)
def test_every_operator_has_a_comment(name: str) -> None:
    lines = ["", *_text(name).splitlines()]
    bare = [
        line
        for before, line in pairwise(lines)
        if line.startswith("operator ") and not before.startswith("#")
    ]
    assert not bare
