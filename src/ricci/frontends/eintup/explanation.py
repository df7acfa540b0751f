"""An explanation of a program: what it holds, and how it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ...records import dataclass
from ...tables import table


@dataclass(frozen=True, slots=True)
class Formula:
    """A statement that computes, and what must be said about it."""

    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """An eintup: its ranks, from and to, what is known of its dims, and what it is for."""

    name: str
    rank: tuple[int, int]
    dims: str
    role: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RankClass:
    """Eintups of equal rank, and why."""

    names: tuple[str, ...]
    rank: tuple[int, int]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """An array; no shape where that depends on data."""

    name: str
    kind: str
    slots: tuple[str, ...]
    elements: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Computed:
    """Dims that a constraint computes."""

    name: str
    words: str
    symbols: str
    numbers: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text: lines, and a table if there is a header."""

    title: str
    lines: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        below = table(self.header, self.rows) if self.header else []
        return "\n".join([self.title, *self.lines, *below])


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is said about a program; `str` gives the text."""

    formulas: tuple[Formula, ...]
    call: str | None
    outputs: tuple[str, ...]
    groups: tuple[Group, ...]
    classes: tuple[RankClass, ...]
    combinations: int
    arrays: tuple[Signature, ...]
    computed: tuple[Computed, ...]
    relations: tuple[str, ...]
    example: Mapping[str, tuple[int, ...]]

    def to_json(self) -> dict[str, Any]:
        """The same as data that JSON has words for."""
        return asdict(self)

    def sections(self) -> tuple[Section, ...]:
        return tuple(_sections(self))

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.sections())) + "\n"


# ----------------------------------------------------------------------- text


def _sections(found: Explanation) -> Iterator[Section]:
    if found.formulas:
        yield Section("formula", tuple(_formula_lines(found.formulas)))
    if found.call is not None:
        yield Section("equal to", (f"  {', '.join(found.outputs)} = {found.call}",))
    yield _group_table(found)
    yield _array_table(found)
    count = found.combinations
    title = f"ranks: {count} combination{'s' * (count != 1)}"
    yield Section(title, tuple(_rank_lines(found.classes)))
    if found.computed:
        yield Section("computed dims", tuple(_computed_lines(found.computed)))
    if found.relations:
        yield Section("what must hold", tuple(f"  {line}" for line in found.relations))


def _formula_lines(formulas: tuple[Formula, ...]) -> Iterator[str]:
    for formula in formulas:
        yield f"  {formula.text}"
        yield from (f"      {note}" for note in formula.notes)


def _group_table(found: Explanation) -> Section:
    rows = tuple(
        (
            g.name,
            _range_text(g.rank),
            g.dims,
            str(list(found.example[g.name])),
            g.role,
            "; ".join(g.places),
        )
        for g in found.groups
    )
    return Section("eintups", (), ("name", "rank", "dims", "example", "role", "stands in"), rows)


def _rank_lines(classes: tuple[RankClass, ...]) -> Iterator[str]:
    for entry in classes:
        yield f"  {', '.join(entry.names)}: {_range_text(entry.rank)}"
        yield from (f"      {reason}" for reason in entry.reasons or ["nothing says otherwise"])


def _array_table(found: Explanation) -> Section:
    rows = tuple(
        (a.name, a.kind, f"[{', '.join(a.slots)}]", a.elements, _shape_text(a.shape))
        for a in found.arrays
    )
    return Section("arrays", (), ("name", "is", "signature", "elements", "example"), rows)


def _shape_text(shape: tuple[int, ...] | None) -> str:
    return "as data say" if shape is None else str(list(shape))


def _range_text(ranks: tuple[int, int]) -> str:
    low, high = ranks
    return str(low) if low == high else f"{low} to {high}"


def _computed_lines(found: tuple[Computed, ...]) -> Iterator[str]:
    for entry in found:
        yield f"  {entry.words}"
        yield f"      {entry.symbols}"
        yield f"      {entry.numbers}"
