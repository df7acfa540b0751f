"""Scoped names of tensors, by the labels of invocations (specification 2.10).

A composed tensor is called `module.graph.label.label.name`. An invocation is labelled
explicitly, or by its only result; the only component of an operator that declares no
tensors of its own adds no label. Without a label a scope has no names.

Spec: names within an operator that is not public are not accessible, except for variables
and constants. Ricci: those keep their names through private operators as well.
"""

from __future__ import annotations

from typing import TypeAlias

from ...records import dataclass
from . import syntax as s

Wanted: TypeAlias = str | tuple[str | None, ...] | None
"""The name wanted for a result: of one tensor, of a pack, or of each item of a pack."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where the names of an operator instance are: a dotted prefix, or nowhere."""

    prefix: str | None
    visible: bool
    """Whether intermediate tensors have names too: those of graphs and public operators."""

    def tensor(self, name: str) -> str | None:
        """The name of an intermediate tensor."""
        return f"{self.prefix}.{name}" if self.visible and self.prefix is not None else None

    def declared(self, name: str) -> str | None:
        """The name of a variable or constant."""
        return f"{self.prefix}.{name}" if self.prefix is not None else None

    def enter(self, operator: s.Operator, label: str | None, through: bool) -> Scope:
        """The scope of an invocation here: labelled, or passed `through` unlabelled."""
        visible = operator.public or operator.graph
        if self.prefix is None:
            return Scope(None, visible)
        if label is None:
            return Scope(self.prefix if through else None, visible)
        return Scope(f"{self.prefix}.{label}", visible)


def passes_through(operator: s.Operator) -> bool:
    """Whether the only component of an operator takes over its scope."""
    return (
        len(operator.compose) == 1
        and not operator.update
        and not operator.variables
        and not operator.constants
    )


def automatic_label(component: s.Component) -> str | None:
    """The single result's name, where there is one."""
    if len(component.results) == 1 and isinstance(component.results[0], s.Result):
        return component.results[0].name
    return None


def result_names(component: s.Component) -> list[str]:
    """The names that a component gives values to."""
    parts = [r.items if isinstance(r, s.ResultList) else (r,) for r in component.results]
    return [item.name for items in parts for item in items if isinstance(item, s.Result)]


def relative(path: tuple[str, ...], module: s.Module, operator: s.Operator) -> tuple[str, ...]:
    """The name of a tensor as seen from an operator; a full name `main.G.x` is `x` in `main.G`.

    A main module may be called `main` whatever the name of its file is.
    """
    owners = [tuple(module.name.split(".")), *([("main",)] if operator.graph else [])]
    for own in [(*owner, operator.name) for owner in owners]:
        if len(path) > len(own) and path[: len(own)] == own:
            return path[len(own) :]
    return path


def item_name(wanted: Wanted, position: int) -> str | None:
    """The name of an item of a pack; items count from 1 in names."""
    if isinstance(wanted, tuple):
        return wanted[position] if position < len(wanted) else None
    return None if wanted is None else f"{wanted}:{position + 1}"


def single_name(wanted: Wanted) -> str | None:
    """The name for a result that is one tensor."""
    return wanted if isinstance(wanted, str) else None
