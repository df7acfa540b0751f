"""Dims at given ranks: computed from what is known, drawn, or found to break a constraint."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping

from ...diagnostics import Diagnostic, Error
from . import syntax as s
from .dims_draw import draw_dims
from .dims_findings import broken_constraint, dims_contradiction
from .dims_rules import Terms, definitions, dims_pairs, known_box, rules_at
from .program import Configuration, Program
from .relations import Box, Empty, System, holds

__all__ = ["broken_dims", "compute_dims", "computed", "draw_dims"]


def computed(program: Program) -> dict[str, s.Constraint]:
    """The eintups whose dims an equality gives, one that is implied included."""
    return {name: line for name, (_, line) in definitions(program).items()}


def compute_dims(
    program: Program, ranks: Mapping[str, int], known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """What is known, and all that equalities give from it; `ranks` are legal.

    Raises `Error` if an equality contradicts what is known.
    """
    rules = [r for r in rules_at(program, ranks) if r.relation.comparator == "=="]
    box = known_box(ranks, known)
    try:
        System([r.relation for r in rules]).narrow(box)
    except Empty:
        raise Error([dims_contradiction(program, ranks, known)]) from None
    found = {name: _values(box, name, ranks[name]) for name in program.eintups}
    return {name: dims for name, dims in found.items() if dims is not None}


def _values(box: Box, name: str, rank: int) -> tuple[int, ...] | None:
    intervals = [box[name, k] for k in range(rank)]
    return tuple(low for low, _ in intervals) if all(a == b for a, b in intervals) else None


def broken_dims(
    program: Program, configuration: Configuration, intervals: bool, known: Container[str] = ()
) -> Diagnostic | None:
    """The first constraint that a configuration of legal ranks breaks; `None` if there is none.

    Without `intervals`, bounds of one eintup by numbers alone are not looked at: they only
    say what is drawn. Nor are those of eintups that are `known`.
    """
    terms = Terms(program, configuration.ranks)
    values: dict[Hashable, int] = {
        (name, k): extent
        for name, dims in configuration.dims.items()
        for k, extent in enumerate(dims)
    }
    for pair in dims_pairs(program):
        if (intervals and not pair.bounds_any(known)) or not pair.is_bound:
            for relation in terms.relations(pair):
                if not holds(relation, values):
                    return broken_constraint(pair, relation, configuration)
    return None
