"""Which combinations a statement skips, and which of its cells several of them reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir import shapes
from ...ir.nodes import ZERO
from . import syntax as s
from .extents import arithmetic
from .mathematics import bound_text, condition_text
from .opened import symbolic_dims
from .program import Program
from .uses import accesses, variables, walk


class Conditions:
    """What must hold of the combinations of a program's statements, at some ranks."""

    def __init__(self, program: Program, ranks: Mapping[str, int]) -> None:
        self._arrays = program.arrays
        self._ranks = program.ranks
        self._arithmetic = arithmetic(symbolic_dims(program, ranks), program.arrays)

    def of(self, statement: s.Statement) -> tuple[str, ...]:
        """What must hold for a combination to be executed, as mathematics.

        What holds whatever the dims are is left out.
        """
        found: dict[str, bool] = {}
        for access in accesses(statement):
            signature = self._arrays[access.array.name].signature
            for item, slot in zip(access.items, signature, strict=True):
                if item is not None:
                    several = self._has_components(slot)
                    found.update((text, several) for text in self._condition(item, slot))
        return tuple(f"{t}{', in every component' * several}" for t, several in found.items())

    def _has_components(self, slot: s.IndexExpr) -> bool:
        """Whether a slot can have more than one."""
        names = variables(slot)
        scalar = isinstance(slot, s.Flat) or not names
        return not scalar and self._ranks.interval(names[0])[1] > 1

    def _condition(self, item: s.IndexExpr, slot: s.IndexExpr) -> Iterator[str]:
        below, natural = item == slot, False
        if not _has_slice(item):
            ranges = self._arithmetic.ranges(item)
            natural = all(shapes.less_equal(ZERO, low) for low, _ in ranges)
            if not _has_slice(slot):
                extents = self._arithmetic.extents(slot)
                pairs = zip(ranges, extents, strict=True)
                below = below or all(shapes.less(high, extent) for (_, high), extent in pairs)
        if not (natural and below):
            yield condition_text(item, not natural, None if below else bound_text(slot))


def _has_slice(index: s.IndexExpr) -> bool:
    return any(isinstance(node, s.Slice) for node in walk(index))


def collides(statement: s.Statement) -> bool:
    """Whether several combinations of what stands on the left may reach one cell.

    Not where every eintup of the left decides some index alone.
    """
    alone = {name for item in statement.target.items for name in _decided(item)}
    return not alone.issuperset(variables(statement.target))


def _decided(index: s.IndexExpr) -> Iterator[str]:
    """The eintups whose values an index tells apart."""
    match index:
        case s.Eintup(name):
            yield name
        case s.Flat(items):
            for item in items:
                yield from _decided(item)
        case s.IndexBinary("+" | "-" | "*", lhs, rhs):
            if not _has_slice(index):
                names = variables(index)
                if len(names) == 1 and not (variables(lhs) and variables(rhs)):
                    yield from _decided(lhs)
                    yield from _decided(rhs)
        case _:
            pass
