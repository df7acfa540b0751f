"""The fix in words: which shape an array should have, and why."""

from __future__ import annotations

from collections.abc import Iterator

from . import syntax as s
from .conflict_words import component_text, listed, slot_of
from .dims_rules import Key, definitions
from .equations import Size
from .nearest import Nearest
from .printer import print_constraint, print_index
from .readings import Reader
from .relations import Unknown
from .uses import walk

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")

_MOST_REASONS = 2


def fix_words(reader: Reader, near: Nearest) -> str:
    """`give `w` the shape [3, 3, 16, 32]: its third dimension is `c`, which is 16 in `x``."""
    shapes = [f"`{name}` the shape {list(near.shapes[name])}" for name in near.edited]
    reasons = [reason for name in near.edited for reason in _reasons(reader, near, name)]
    text = f"give {listed(shapes)}"
    return f"{text}: {listed(reasons)}" if 0 < len(reasons) <= _MOST_REASONS else text


def _reasons(reader: Reader, near: Nearest, name: str) -> Iterator[str]:
    whose = "its" if len(near.edited) == 1 else f"`{name}`'s"
    position = 0
    for cell in near.draft[name]:
        if cell.state in ("changed", "added"):
            meaning = _meaning(reader, near, name, position)
            yield f"{whose} {_ordinal(position)} dimension is {meaning}"
        position += cell.state != "removed"
    removed = sum(cell.state == "removed" for cell in near.draft[name])
    if removed:
        yield _count_reason(reader, near, name)


def _ordinal(position: int) -> str:
    return _ORDINALS[position] if position < len(_ORDINALS) else f"{position + 1}th"


def _meaning(reader: Reader, near: Nearest, name: str, position: int) -> str:
    at = near.reading.at
    extent = at.extents[name][position]
    size = near.shapes[name][position]
    item, _ = slot_of(reader, at, Size(name, position))
    if not isinstance(extent, Unknown) or not isinstance(extent.key, tuple):
        return f"`{print_index(item)}`, whose extent is {size}"
    text = component_text(extent.key, at.ranks)
    return f"{text}, {_value_reason(reader, near, extent.key, name, size)}"


def _value_reason(reader: Reader, near: Nearest, key: Key, name: str, size: int) -> str:
    """Why a component has a value."""
    for other, extents in near.reading.at.extents.items():
        if other != name and other in near.draft and Unknown(key) in extents:
            return f"which is {size} in `{other}`"
    if key[0] in reader.dims:
        return f"which is fixed as {size}"
    computed = definitions(reader.program)
    if key[0] in computed:
        return f"which `{print_constraint(computed[key[0]][1])}` makes {size}"
    return f"which can be {size}" if near.settled else "which may have any size that fits"


def _count_reason(reader: Reader, near: Nearest, name: str) -> str:
    """Why an array has so many dimensions."""
    count = len(near.shapes[name])
    ranks = near.reading.at.ranks
    program = reader.program
    varying = [n for n in program.eintups if len(set(program.ranks.interval(n))) > 1]
    slots = program.arrays[name].signature
    own = {node.name for slot in slots for node in walk(slot) if isinstance(node, s.Eintup)}
    text = listed([f"RANK({n}) is {ranks[n]}" for n in varying if n in own])
    many = f"it has {count} dimension{'s' * (count != 1)}"
    return f"{many} where {text}" if text else many
