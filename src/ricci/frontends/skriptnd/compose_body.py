"""What the parts of composition hand to each other."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import field
from typing import TypeAlias

from ...ir import nodes
from ...records import dataclass, replace
from . import syntax as s
from .compose_graph import Builder
from .evaluate import Evaluator
from .labels import Scope, Wanted
from .values import AnyValue, DynamicPack, Value

Results: TypeAlias = tuple[AnyValue, ...]
"""One value per result: a tensor, a pack of tensors, or null."""


@dataclass(eq=False)
class Body:
    """An operator, or a block within it, while its components are composed."""

    builder: Builder
    module: s.Module
    operator: s.Operator
    evaluator: Evaluator
    scope: Scope
    wanted: dict[str, Wanted] = field(default_factory=dict)
    """Names that the surroundings want for tensors assigned here."""
    through: bool = False
    """Whether the only component takes over the scope without a label."""
    quantizers: dict[str, list[Wish]] = field(default_factory=dict)
    """What `@quantize` of the operator says of its own tensors, by name."""
    scoped_quantizers: dict[str, list[Wish]] = field(default_factory=dict)
    """What it and those around it say of scoped names: one table for the whole graph."""

    variables: dict[str, Value] = field(default_factory=dict)
    """In `@update`, the variables that can be assigned."""

    def inner(self, scope: Scope, wanted: dict[str, Wanted]) -> Body:
        """A block in here: it sees all values, and what it assigns stays inside."""
        outer = self.evaluator
        evaluator = Evaluator(dict(outer.values), outer.types, outer.budget)
        return replace(
            self,
            evaluator=evaluator,
            scope=scope,
            wanted=wanted,
            through=False,
            quantizers={},
            variables={},
        )


@dataclass(eq=False, slots=True)
class Wish:
    """An entry of `@quantize`, and the operator that it belongs to."""

    body: Body
    entry: s.Quantization
    done: set[nodes.Tensor] = field(default_factory=set)
    """The tensors that came of it."""


@dataclass(frozen=True, slots=True)
class Request:
    """An invocation or block to be composed before its body can go on."""

    body: Body
    node: s.Invocation | s.Block
    label: str | None
    wanted: tuple[Wanted, ...]


Task: TypeAlias = Generator[Request, Results, Results]
"""Composes something; is sent the results of each invocation it yields."""


def tensors_of(value: AnyValue) -> list[nodes.Tensor]:
    """The tensors of a result, one or a pack; none if it is null."""
    if isinstance(value, DynamicPack):
        value = value.items
    items = value if isinstance(value, tuple) else (value,)
    return [item for item in items if isinstance(item, nodes.Tensor)]
