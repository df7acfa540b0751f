"""What a draw without numbers to choose from says at run time, where it divides by their count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..diagnostics import Error
from ..frontends.eintup import syntax as s
from ..frontends.eintup.program import Program
from ..frontends.eintup.random import NO_INTEGER
from ..frontends.eintup.uses import walk
from ..records import replace
from ..source import NOWHERE, Span

_DIVISIONS = ("//", "//^", "%")


@contextmanager
def named_draws(program: Program) -> Iterator[None]:
    """Raise E0419 where a division by zero is that of a `RANDOM` whose bounds leave no integer."""
    try:
        yield
    except Error as problem:
        first, *rest = problem.diagnostics
        draw = _draw_at(program, first.span) if first.code == "E0803" else None
        if draw is None:
            raise
        named = replace(first, code="E0419", message=NO_INTEGER, span=draw.span)
        raise Error([named, *rest]) from None


def _draw_at(program: Program, span: Span) -> s.Random | None:
    """The draw at a place; where none is known, one if nothing else divides integers."""
    nodes = [node for statement in program.file.statements for node in walk(statement)]
    draws = [n for n in nodes if isinstance(n, s.Random) and n.kind == "INT" and _reads(n)]
    if span is NOWHERE:
        return draws[0] if len(draws) == 1 and not any(map(_divides, nodes)) else None
    around = (n for n in draws if n.span.start <= span.start and span.end <= n.span.end)
    return next((n for n in around if not any(map(_divides, walk(n)))), None)


def _reads(draw: s.Random) -> bool:
    """Whether its bounds depend on data: others are looked at before anything runs."""
    return any(isinstance(node, s.Access) for node in walk(draw))


def _divides(node: object) -> bool:
    return isinstance(node, s.Binary) and node.operator in _DIVISIONS
