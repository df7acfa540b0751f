"""The state of a block of assignments while it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ...diagnostics import Report
from ...records import dataclass, replace
from ...source import Span
from . import syntax as s
from .scope import Symbol
from .types import Type
from .typing_calls import Unit
from .typing_context import Context

Act = Callable[["Body", s.Action], "list[Type] | None"]


@dataclass(frozen=True, slots=True)
class Body:
    """One block: what it sees, what it may assign, and which labels it has used.

    `act` gives the types of the results of an action inside this body, as part of a branch
    or loop; None when an error hides them.
    """

    unit: Unit
    ctx: Context
    act: Act
    targets: dict[str, Symbol] = field(default_factory=dict)
    """The declared tensors that may be assigned: outputs, or variables in @update."""
    nested: bool = False
    done: dict[str, Span] = field(default_factory=dict)
    labels: dict[str, Span] = field(default_factory=dict)

    @property
    def report(self) -> Report:
        return self.ctx.report

    def block(self) -> Body:
        """The body of a block in braces inside this one; labels start afresh."""
        ctx = self.ctx.within(self.ctx.scope.inner())
        return Body(self.unit, ctx, self.act, nested=True)

    def part(self, ctx: Context) -> Body:
        """A branch or loop inside this body, which shares its labels."""
        return replace(self, ctx=ctx, targets={}, nested=True, done={})


def leading(span: Span, name: str) -> Span:
    """The name that a piece of text begins with."""
    return Span(span.source, span.start, min(span.end, span.start + len(name)))
