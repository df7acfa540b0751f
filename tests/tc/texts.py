"""Reading texts in tests."""

from __future__ import annotations

from pathlib import Path

from ricci.diagnostics import Report
from ricci.frontends.tc import program as p
from ricci.frontends.tc import syntax as s
from ricci.frontends.tc.check import check_unit
from ricci.frontends.tc.parser import parse_unit
from ricci.source import Source

KERNELS = sorted((Path(__file__).parent / "kernels").glob("*.tc"))


def parse(text: str) -> s.Unit:
    """The tree of a text without errors."""
    report = Report()
    unit = parse_unit(Source("<text>", text), report)
    assert [d.render() for d in report.diagnostics] == [], text
    return unit


def check(text: str, warnings: tuple[str, ...] = ()) -> tuple[p.Function, ...]:
    """The checked functions of a text, which gives no findings but these."""
    report = Report()
    functions = check_unit(parse(text), report)
    assert [d.render() for d in report.errors] == [], text
    assert tuple(d.code for d in report.diagnostics) == warnings
    return functions


def codes(text: str) -> list[str]:
    """The codes of all findings about a text."""
    report = Report()
    unit = parse_unit(Source("<text>", text), report)
    if not report.errors:
        check_unit(unit, report)
    return [d.code for d in report.diagnostics]


def statement(body: str) -> s.Statement:
    (function,) = parse("def f() -> () {" + body + "}").functions
    (only,) = function.statements
    return only


def expression(text: str) -> s.Expression:
    return statement(f"v = {text}").value
