"""The legal shapes nearest to some that are not: with the smallest number of single edits.

An edit changes the size of a dimension, adds one or removes one. A size that an edit leaves open
is what the rest of the shapes say, so the edited shapes are read like those of any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ...records import dataclass, replace
from .conflict import dims_conflict, sizes_in
from .equations import Equations
from .program import Configuration
from .readings import Reader, Reading
from .relations import Box, value

_MOST_SOLVED = 1500
"""How often dims are solved for, before whole shapes are replaced."""

_MOST_EDITS = 3

_MOST_SHOWN = 3

_MOST_COUNTS = 300
_FARTHEST_COUNT = 20
"""How many numbers of dimensions are looked at, and how far from those received."""

_MOST_RANKS = 6
"""Of how many choices of ranks the conflicts are looked at, to see which edits may help."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A dimension as received, or one to be added; `size` is the received one."""

    size: int | None
    state: Literal["kept", "changed", "removed", "added"] = "kept"


Cells = tuple[Cell, ...]
Draft = Mapping[str, Cells]


@dataclass(frozen=True, slots=True)
class Nearest:
    """Legal shapes, and the edits of the received ones that give them."""

    draft: Draft
    reading: Reading
    shapes: Mapping[str, tuple[int, ...]]
    settled: bool
    """Whether no other size would do where one was changed or added."""

    @property
    def configuration(self) -> Configuration:
        return self.reading.first

    @property
    def edited(self) -> tuple[str, ...]:
        return tuple(n for n, cells in self.draft.items() if any(c.state != "kept" for c in cells))

    @property
    def edits(self) -> int:
        return sum(c.state != "kept" for cells in self.draft.values() for c in cells)


def nearest(reader: Reader, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Nearest, ...]:
    """Up to three legal choices of shapes, none farther away than another; the best first."""
    start = {name: tuple(map(Cell, shape)) for name, shape in shapes.items()}
    search = _Search(reader)
    found = search.by_edits(start) or search.by_replacing(start)
    found.sort(key=lambda item: _order(item, list(shapes)))
    distinct: dict[object, Nearest] = {}
    for item in found:
        distinct.setdefault(tuple(item.shapes.values()), item)
    return tuple(distinct.values())[:_MOST_SHOWN]


def _order(item: Nearest, arrays: Sequence[str]) -> tuple[object, ...]:
    """Sizes that must be so before others, and changes before other edits; later ones first."""
    states = [c.state for cells in item.draft.values() for c in cells if c.state != "kept"]
    last = [-arrays.index(name) for name in item.edited]
    added, removed = states.count("added"), states.count("removed")
    first = [k for cells in item.draft.values() for k, c in enumerate(cells) if c.state != "kept"]
    place = -min(first, default=0)
    return item.edits, not item.settled, added + removed, last, added, _size_change(item), place


def _size_change(item: Nearest) -> int:
    """By how much the sizes that change do."""
    return sum(
        abs(cell.size - size)
        for name, cells in item.draft.items()
        for cell, size in zip(_present(cells), item.shapes[name], strict=True)
        if cell.state == "changed" and cell.size is not None
    )


class _Search:
    """The search for legal shapes; it does a bounded amount of work."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.limit = reader.solved + _MOST_SOLVED

    def by_edits(self, start: Draft) -> list[Nearest]:
        """Those with the fewest edits, if these are few."""
        seen = {_key(start)}
        drafts = [start]
        edits: Callable[[Draft], Iterable[Draft]] = self._first_edits
        for _ in range(_MOST_EDITS):
            found: list[Nearest] = []
            following: list[Draft] = []
            for edited in (e for draft in drafts for e in edits(draft)):
                key = _key(edited)
                if key not in seen and self._may():
                    seen.add(key)
                    found += self._read(edited)
                    following.append(edited)
            if found or not self._may():
                return found
            drafts, edits = following, self._helpful
        return []

    def _first_edits(self, start: Draft) -> Iterator[Draft]:
        """All single edits; where no ranks fit, the fewest that lead to numbers that do."""
        counts = {name: len(cells) for name, cells in start.items()}
        if not self.reader.choices(counts).empty:
            yield from _all_edits(start)
            return
        for difference in self._count_differences(counts):
            drafts = [start]
            for name, number in difference.items():
                drafts = [d for draft in drafts for d in _recounted(draft, name, number)]
            yield from drafts

    def _count_differences(self, counts: Mapping[str, int]) -> list[dict[str, int]]:
        """The smallest changes to the numbers of dimensions with which ranks fit."""
        left = _MOST_COUNTS
        for distance in range(1, _FARTHEST_COUNT):
            found: list[dict[str, int]] = []
            for difference in _differences(list(counts), distance):
                changed = {name: n + difference.get(name, 0) for name, n in counts.items()}
                left -= 1
                if left < 0:
                    return found
                if min(changed.values()) >= 0 and not self.reader.choices(changed).empty:
                    found.append(difference)
            if found:
                return found
        return []

    def by_replacing(self, start: Draft) -> list[Nearest]:
        """Whole arrays with other shapes: one, or all that do not fit those before (or after)."""
        names = list(start)
        found = [
            n for name in reversed(names) if self._may() for n in self._replaced(start, [name])
        ]
        if found:
            return found
        for order in (names, names[::-1]):
            kept: list[str] = []
            for name in order:
                shapes = _shapes({n: start[n] for n in [*kept, name]})
                if self.reader.readings(shapes, most=1).items:
                    kept.append(name)
            found += self._replaced(start, [name for name in names if name not in kept])
        return found

    def _may(self) -> bool:
        """Whether the search may go on."""
        return self.reader.solved < self.limit

    def _replaced(self, start: Draft, names: Iterable[str]) -> Iterator[Nearest]:
        rest = {name: cells for name, cells in start.items() if name not in names}
        readings = self.reader.readings(_shapes(rest), most=1)
        for reading in readings.items:
            draft = {
                name: _recut(start[name], len(reading.at.extents[name])) if name in names else cells
                for name, cells in start.items()
            }
            yield _nearest(draft, reading)

    def _read(self, draft: Draft) -> Iterator[Nearest]:
        for reading in self.reader.readings(_shapes(draft)).items:
            yield _nearest(draft, reading)

    def _helpful(self, draft: Draft) -> Iterator[Draft]:
        """Edits of what is in conflict: others cannot help."""
        shapes = _shapes(draft)
        counts = {name: len(shape) for name, shape in shapes.items()}
        choices = self.reader.choices(counts)
        if choices.empty:
            return
        arrays: dict[str, None] = {}
        for ranks, _ in zip(choices, range(_MOST_RANKS), strict=False):
            conflict = dims_conflict(self.reader, self.reader.at(ranks), shapes)
            for size in sizes_in(conflict):
                yield _changed(draft, size.array, _place(draft[size.array], size.position))
                arrays[size.array] = None
        for name in arrays:
            yield from _recounted(draft, name, -1)
            yield from _recounted(draft, name, 1)


def _nearest(draft: Draft, reading: Reading) -> Nearest:
    shapes = {name: shape_at(reading, name) for name in draft}
    certain = dict(reading.found.known)
    for part in reading.found.parts:
        certain.update(part.solutions[0] if part.unique else {})
    box: Box = {key: (number, number) for key, number in certain.items()}
    settled = all(
        value(extent, box) is not None
        for name, cells in draft.items()
        for extent, cell in zip(reading.at.extents[name], _present(cells), strict=True)
        if cell.state != "kept"
    )
    return Nearest(_without_repeats(draft, shapes), reading, shapes, settled)


def shape_at(reading: Reading, array: str) -> tuple[int, ...]:
    """The shape of an input by a reading."""
    return shape_with(reading.at, array, reading.first)


def shape_with(at: Equations, array: str, configuration: Configuration) -> tuple[int, ...]:
    """The shape of an input at a configuration."""
    dims = configuration.dims.items()
    box: Box = {(name, k): (d, d) for name, own in dims for k, d in enumerate(own)}
    sizes = [value(extent, box) for extent in at.extents[array]]
    return tuple(size for size in sizes if size is not None)


def _without_repeats(draft: Draft, shapes: Mapping[str, tuple[int, ...]]) -> Draft:
    """The draft without changes to what a size was."""

    def kept(cells: Cells, shape: Sequence[int]) -> Iterator[Cell]:
        sizes = iter(shape)
        for cell in cells:
            size = None if cell.state == "removed" else next(sizes)
            same = cell.state == "changed" and cell.size == size
            yield Cell(cell.size) if same else cell

    return {name: tuple(kept(cells, shapes[name])) for name, cells in draft.items()}


# ---------------------------------------------------------------------- drafts


def _key(draft: Draft) -> object:
    return tuple(draft.items())


def _present(cells: Cells) -> list[Cell]:
    return [cell for cell in cells if cell.state != "removed"]


def _place(cells: Cells, position: int) -> int:
    """Which cell is a dimension of the edited shape."""
    return [k for k, cell in enumerate(cells) if cell.state != "removed"][position]


def _shapes(draft: Draft) -> dict[str, tuple[int | None, ...]]:
    return {
        name: tuple(c.size if c.state == "kept" else None for c in _present(cells))
        for name, cells in draft.items()
    }


def _all_edits(draft: Draft) -> Iterator[Draft]:
    for name, cells in draft.items():
        for place in range(len(cells)):
            yield _changed(draft, name, place)
        yield from _recounted(draft, name, -1)
        yield from _recounted(draft, name, 1)


def _changed(draft: Draft, name: str, place: int) -> Draft:
    own = draft[name]
    if own[place].state != "kept":
        return draft
    return {**draft, name: (*own[:place], replace(own[place], state="changed"), *own[place + 1 :])}


def _recounted(draft: Draft, name: str, number: int) -> Iterator[Draft]:
    """An array with some dimensions more, or (a negative number) fewer, side by side."""
    own = draft[name]
    if number > 0:
        added = [Cell(None, "added")] * number
        for place in range(len(own) + 1):
            yield {**draft, name: (*own[:place], *added, *own[place:])}
    for place in range(len(own) + number + 1 if number < 0 else 0):
        run = own[place : place - number]
        if all(cell.state == "kept" for cell in run):
            removed = [replace(cell, state="removed") for cell in run]
            yield {**draft, name: (*own[:place], *removed, *own[place - number :])}


def _differences(names: Sequence[str], distance: int) -> Iterator[dict[str, int]]:
    """Changes to some numbers, by `distance` in all."""
    if not names:
        if not distance:
            yield {}
        return
    for size in range(distance + 1):
        for rest in _differences(names[1:], distance - size):
            for number in {size, -size}:
                yield {**({names[0]: number} if number else {}), **rest}


def _recut(cells: Cells, count: int) -> Cells:
    """A whole shape to be replaced by one of `count` dimensions."""
    changed = [replace(cell, state="changed") for cell in cells[:count]]
    removed = [replace(cell, state="removed") for cell in cells[count:]]
    added = [Cell(None, "added")] * (count - len(changed))
    return (*changed, *added, *removed)
