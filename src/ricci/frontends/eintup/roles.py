"""What the eintups of a program do: where they stand, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import dataclass
from . import syntax as s
from .mathematics import index_text
from .program import Program
from .uses import accesses, variables, walk

_REDUCED = {"=": "summed", "+=": "summed", "*=": "multiplied", "max=": "reduced by max"}
_REDUCED |= {"min=": "reduced by min", "and=": "reduced by and", "or=": "reduced by or"}


@dataclass(frozen=True, slots=True)
class Use:
    """What becomes of an eintup in the statements of a target, in one word."""

    role: str
    targets: tuple[str, ...]


def computed_statements(program: Program) -> list[s.Statement]:
    """All statements but those that fill inputs."""
    fills = {id(a.first) for a in program.inputs}
    return [t for t in program.file.statements if id(t) not in fills]


def uses_of(program: Program, name: str) -> tuple[Use, ...]:
    """`kept`: on both sides; `broadcast`: on the left alone; `summed`: on the right alone;
    `scattered`: on the left only in what says where to write."""
    found: dict[str, dict[str, None]] = {}
    for statement in computed_statements(program):
        if role := _role(statement, name):
            found.setdefault(role, {})[statement.target.array.name] = None
    return tuple(Use(role, tuple(targets)) for role, targets in found.items())


def _role(statement: s.Statement, name: str) -> str | None:
    right = name in variables(statement.value)
    if name not in variables(statement.target):
        return _REDUCED[statement.operator] if right else None
    slices = [n for n in walk(statement.target) if isinstance(n, s.Slice)]
    if _count(statement.target, name) == sum(_count(n, name) for n in slices):
        return "scattered"
    return "kept" if right else "broadcast"


def _count(node: s.Access | s.Slice, name: str) -> int:
    return sum(isinstance(n, s.Eintup) and n.name == name for n in walk(node))


def role_text(program: Program, name: str) -> str:
    """`kept`, or `kept in T, summed in Y` if it is not the same in all statements."""
    uses = uses_of(program, name)
    if len(uses) == 1:
        return uses[0].role
    if uses:
        return "; ".join(f"{u.role} in {', '.join(u.targets)}" for u in uses)
    return _constant_role(program, name)


def _constant_role(program: Program, name: str) -> str:
    """What an eintup is for that no formula runs over."""
    if any(name == _axis(program, node) for node in _slices(program)):
        return "numbers components"
    if any(name in variables(t) for t in program.file.statements):
        return "an axis of inputs"
    return "a constant: its dims" if places(program, name) else "a parameter: its dims"


def _slices(program: Program) -> Iterator[s.Slice]:
    for statement in program.file.statements:
        yield from (n for n in accesses(statement) if isinstance(n, s.Slice))


def _axis(program: Program, slice: s.Slice) -> str | None:
    """The eintup of the axis that a `:` stands for."""
    slot = program.arrays[slice.array.name].signature[slice.items.index(None)]
    return slot.name if isinstance(slot, s.Eintup) else None


def places(program: Program, name: str) -> tuple[str, ...]:
    """Where an eintup stands: by slot, and the index in it if that is more than the eintup."""
    slots: dict[tuple[int, str], dict[str, None]] = {}
    numbered: dict[str, None] = {}
    for node in (n for t in program.file.statements for n in walk(t)):
        if isinstance(node, s.Access | s.Slice):
            for slot, item in enumerate(node.items):
                if item is not None and _speaks_of(item, name):
                    shown = "" if item == s.Eintup(name) else f"{index_text(item)} in "
                    slots.setdefault((slot, shown), {})[node.array.name] = None
        elif isinstance(node, s.DimsAt | s.Range) and node.at.name == name:
            of = node.dims.items if isinstance(node, s.DimsAt) else (node.of,)
            numbered[f"components of {', '.join(map(index_text, of))}"] = None
    found = (f"{shown}slot {slot} of {', '.join(of)}" for (slot, shown), of in slots.items())
    return (*found, *numbered)


def _speaks_of(item: s.IndexExpr, name: str) -> bool:
    """Whether an index has an eintup, not counting accesses inside, which count themselves."""
    return not isinstance(item, s.Slice) and any(
        isinstance(n, s.Eintup) and n.name == name for n in walk(item)
    )
