"""What a graph under construction is made of: invocations, plans of operators, regions."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from ...diagnostics import Call
from ...ir import nodes
from ...records import dataclass
from ...source import Span
from . import binding
from . import syntax as s
from .values import AnyValue, Pack, describe


class Library(Protocol):
    """What composition needs of a program: `modules.Program` has it."""

    def resolve(
        self, module: s.Module, path: tuple[str, ...]
    ) -> tuple[s.Module, s.Operator] | None: ...


@dataclass(eq=False)
class Frame:
    """One invocation on the stack, with the arguments it was given."""

    name: str
    operator: s.Operator
    span: Span
    arguments: tuple[AnyValue, ...] = ()
    _call: Call | None = None

    @property
    def call(self) -> Call:
        """The invocation as diagnostics show it."""
        if self._call is None:
            inputs = zip(self.operator.inputs, self.arguments, strict=False)
            shown = (f"{p.name}: {describe(v)}" for p, v in inputs if v is not None)
            self._call = Call(f"{self.name}({', '.join(shown)})", self.span)
        return self._call


@dataclass(eq=False)
class Plan:
    """What is found once per operator, whatever it is called with."""

    order: list[int]
    asserts: list[list[s.Assertion]]
    """For each line of `@using`, and after the last, the asserts that can then be checked."""


@dataclass(eq=False)
class Part:
    """What a region of the graph consists of while it is composed."""

    loop: bool = False
    steps: list[nodes.Step] = field(default_factory=list)
    updates: dict[nodes.Tensor, nodes.Tensor] = field(default_factory=dict)
    """The variables that an operator in it updates, with what they hold then."""
    held: dict[nodes.Tensor, nodes.Tensor] = field(default_factory=dict)
    """In the body of a loop, what stands for a variable as it is when a step begins."""
    reached: nodes.Symbol | None = None
    """A size that has a value, 1, only when the region runs; for its checks."""
    checked: set[nodes.Expr] = field(default_factory=set)
    guarded: set[nodes.Expr] = field(default_factory=set)
    gathered: dict[tuple[Pack, tuple[nodes.Expr, ...]], Pack] = field(default_factory=dict)
    """Tensors chosen from packs by their lengths, by all that there were and the places."""


def schedule(operator: s.Operator) -> list[list[s.Assertion]]:
    """Specification 2.9: an assert is checked as soon as the names in it are known."""
    ready: dict[str, int] = {}
    for position, using in enumerate(operator.using):
        for item in using.items:
            names = item.names if isinstance(item, s.UsingZip) else (item.name,)
            ready |= dict.fromkeys(names, position + 1)
    result: list[list[s.Assertion]] = [[] for _ in range(len(operator.using) + 1)]
    for assertion in operator.asserts:
        read = binding.free_names(assertion.condition)
        result[max((ready.get(n, 0) for n in read), default=0)].append(assertion)
    return result
