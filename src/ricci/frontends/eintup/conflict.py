"""Why shapes do not fit: things that contradict, none of which can be left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .equations import Equation, Equations, Fixed, Shapes, Size
from .readings import Reader
from .relations import Unknown
from .search import core


def rank_conflict(reader: Reader, counts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Arrays whose numbers of dimensions contradict, and the eintups of fixed ranks with them.

    Those that no ranks give are all of them, if there are any.
    """
    fixed = reader.fixed_ranks()
    alone = [name for name, count in counts.items() if reader.choices({name: count}, {}).empty]
    if alone:
        return alone, []
    items = [*((name, False) for name in counts), *((name, True) for name in fixed)]

    def fit(items: Sequence[tuple[str, bool]]) -> bool:
        choices = reader.choices(
            {name: counts[name] for name, is_fixed in items if not is_fixed},
            {name: fixed[name] for name, is_fixed in items if is_fixed},
        )
        return not choices.empty

    found = core(items, fit)
    return [name for name, own in found if not own], [name for name, own in found if own]


def dims_conflict(reader: Reader, at: Equations, shapes: Shapes) -> list[Equation]:
    """Equations at ranks that contradict.

    Constraints are among them only if they must be, then sizes of index expressions that are more
    than an eintup.
    """
    said = sorted([*reader.given(at, shapes), *at.rules], key=_depth)
    return core(said, lambda items: reader.solve(at, items) is not None)


def _depth(equation: Equation) -> int:
    if not isinstance(equation.origin, Size | Fixed):
        return 2
    return 0 if isinstance(equation.relation.lhs, Unknown) else 1


def sizes_in(conflict: Sequence[Equation]) -> list[Size]:
    """The dimensions of arrays that equations speak of."""
    return [e.origin for e in conflict if isinstance(e.origin, Size)]
