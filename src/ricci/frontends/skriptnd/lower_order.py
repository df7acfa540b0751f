"""Whether a line of a formula that is written out still updates in the order of its loops.

Loops over items of packs are written out in front of all others, in the order of their bounds.
Two instances of a line must stay in their order only if they touch the same element of an output,
and then they agree on each index that tells elements apart. So the order is kept if, of the other
indices, no loop that stays one comes before a loop that is written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir import nodes, shapes
from ...ir.rewrite import accesses, expressions
from ...records import dataclass
from . import syntax as s
from .lower_statement import Key, Lowered


@dataclass(frozen=True, slots=True)
class Leaf:
    """A line with the values of all indices that are written out, and the loops that stay."""

    fixed: Mapping[Key, int]
    loops: Mapping[Key, nodes.Index]
    lowered: Lowered | None


def misplaced(line: s.Lowering, leaves: Sequence[Leaf]) -> Key | None:
    """The first loop that must be written out, too, for updates to happen in order."""
    if line.op != ":=" or not any(leaf.fixed and _loops(leaf) for leaf in leaves):
        return None
    touched = _touched(leaves)
    stays: Key | None = None
    for key in _in_order(line, leaves):
        if all(_tells_apart(key, uses) for uses in touched.values()):
            continue
        if any(key in leaf.fixed for leaf in leaves):
            if stays is not None:
                return stays
        elif stays is None:
            stays = key
    return None


def _loops(leaf: Leaf) -> list[Key]:
    """The loops with more than one step."""
    return [k for k, i in leaf.loops.items() if shapes.interval(i.extent)[1] > 1]


def _in_order(line: s.Lowering, leaves: Sequence[Leaf]) -> list[Key]:
    """The indices of a line, fixed or loops, from the outermost on."""
    numbers = {bound.name: number for number, bound in enumerate(line.bounds)}
    keys = {key for leaf in leaves for key in (*leaf.fixed, *_loops(leaf))}
    return sorted(keys, key=lambda key: (numbers[key[0]], key[1] or 0))


_Use = tuple[Leaf, nodes.Access]


def _touched(leaves: Sequence[Leaf]) -> dict[nodes.Tensor, list[_Use]]:
    """The accesses to each tensor that the line writes."""
    written = {a.tensor for leaf in leaves for a in _targets(leaf)}
    out: dict[nodes.Tensor, list[_Use]] = {tensor: [] for tensor in written}
    for leaf in leaves:
        if leaf.lowered is not None and leaf.lowered.assignment is not None:
            for access in accesses(*expressions(leaf.lowered.assignment)):
                if access.tensor in written:
                    out[access.tensor].append((leaf, access))
    return out


def _targets(leaf: Leaf) -> tuple[nodes.Access, ...]:
    return () if leaf.lowered is None else leaf.lowered.targets


def _tells_apart(key: Key, uses: Sequence[_Use]) -> bool:
    """Whether uses of one element have the same value of an index."""
    values = {leaf.fixed.get(key) for leaf, _ in uses}
    if len(values) <= 1 and None not in values:
        return True
    rank = len(uses[0][1].subscripts) if uses else 0
    return not uses or any(_is_own(key, dimension, uses) for dimension in range(rank))


def _is_own(key: Key, dimension: int, uses: Sequence[_Use]) -> bool:
    """Whether a subscript of all uses is the index, or constants that belong to its values."""
    known: dict[int, int] = {}
    for leaf, access in uses:
        subscript = access.subscripts[dimension]
        if subscript.rule is not None:
            return False
        if key in leaf.fixed:
            place = shapes.as_int(subscript.index)
            if place is None or known.setdefault(place, leaf.fixed[key]) != leaf.fixed[key]:
                return False
        elif subscript.index is not leaf.loops.get(key):
            return False
    return True
