"""What is wrong with shapes that no ranks and dims fit, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...diagnostics import Diagnostic, Error
from ...records import dataclass
from ...source import NOWHERE
from .ambiguous import settling_text
from .conflict import dims_conflict, rank_conflict
from .conflict_words import dims_finding, ranks_finding
from .equations import Equations, Fixed, Size
from .fixes import fix_words
from .nearest import Cell, Nearest, nearest
from .readings import Reader
from .templates import Entry, template_rows

_MOST_ARRAYS = 6
"""Of how many arrays the shapes are shown."""


def wrong_shapes(reader: Reader, shapes: Mapping[str, tuple[int, ...]]) -> Error:
    """The error of shapes that nothing fits."""
    near = nearest(reader, shapes)
    case = _Case(reader, shapes, near)
    finding = case.finding
    return Error(
        [
            Diagnostic(
                finding.code,
                finding.message,
                finding.labels[0].span if finding.labels else NOWHERE,
                finding.labels[0].text if finding.labels else "",
                finding.labels[1:],
                (*finding.notes, *case.notes()),
                case.help(),
            )
        ]
    )


def _without_fixed(reader: Reader, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """What the caller could fix instead, if that alone is why the shapes do not fit."""
    readings = Reader(reader.program, intervals=reader.intervals).readings(shapes, most=1)
    if not readings.items:
        return ""
    fits = readings.items[0].first
    ranks = {name: fits.ranks[name] for name in reader.ranks}
    dims = {name: fits.dims[name] for name in reader.dims}
    return f"the shapes fit with `{settling_text(ranks, dims)}`"


@dataclass
class _Case:
    """Shapes that nothing fits, with what is nearest to them."""

    reader: Reader
    shapes: Mapping[str, tuple[int, ...]]
    near: Sequence[Nearest]

    def __post_init__(self) -> None:
        counts = {name: len(shape) for name, shape in self.shapes.items()}
        choices = self.reader.choices(counts)
        self.ranks_fit = not choices.empty
        self.marked: set[Size] = set()
        if self.ranks_fit:
            at = self._explained(list(choices))
            conflict = dims_conflict(self.reader, at, self.shapes)
            self.marked = {e.origin for e in conflict if isinstance(e.origin, Size)}
            self.at: Equations | None = at
            self.finding = dims_finding(self.reader, at, self.shapes, conflict)
            plain = all(isinstance(e.origin, Size | Fixed) for e in conflict)
            self.of_fixed = plain and any(isinstance(e.origin, Fixed) for e in conflict)
        else:
            self.at = self.near[0].reading.at if self.near else None
            arrays, fixed = rank_conflict(self.reader, counts)
            self.finding = ranks_finding(self.reader, counts, arrays, fixed)
            self.of_fixed = bool(fixed)

    def _explained(self, choices: Sequence[Mapping[str, int]]) -> Equations:
        """The equations at the ranks that come nearest."""
        nearest_ranks = [n.configuration.ranks for n in self.near]
        ranks = next((r for r in nearest_ranks if r in choices), choices[0])
        return self.reader.at(ranks)

    def help(self) -> str:
        """The fix: of what the caller fixed, if that alone is wrong, else of the shapes."""
        instead = _without_fixed(self.reader, self.shapes) if self.of_fixed else ""
        return instead or (fix_words(self.reader, self.near[0]) if self.near else "")

    def notes(self) -> list[str]:
        rows = [row for name in self._shown() for row in self._rows(name)]
        left = len(self.shapes) - len(self._shown())
        rows += [f"and {left} more arrays"] if left else []
        found = ["received:\n" + "\n".join(f"      {row}" for row in rows)]
        for place, item in enumerate(self.near):
            changed = ", ".join(f"`{n}` {list(item.shapes[n])}" for n in item.edited)
            found.append(f"{'or' if place else 'nearest legal'}: {changed}")
        return found

    def _shown(self) -> list[str]:
        """The arrays that are shown; of many, those that something is said of."""
        names = list(self.shapes)
        if len(names) <= _MOST_ARRAYS:
            return names
        said = {size.array for size in self.marked} | set(self.near[0].edited if self.near else ())
        return [name for name in names if name in said][:_MOST_ARRAYS]

    def _rows(self, name: str) -> list[str]:
        array = self.reader.program.arrays[name]
        if self.at is None:
            return [f"{name}: {list(self.shapes[name])}"]
        return template_rows(self.reader.program, array, self.at.ranks, self._entries(name))

    def _entries(self, name: str) -> list[Entry]:
        """What was received, or, where ranks do not fit, how it differs from the nearest."""
        best = self.near[0] if self.near else None
        if not self.ranks_fit and best is not None:
            return [_entry(cell) for cell in best.draft[name]]
        fitting = self._fitting(best, name)
        return [
            Entry(str(size), Size(name, k) in self.marked, _would_fit(size, fitting[k]))
            for k, size in enumerate(self.shapes[name])
        ]

    def _fitting(self, best: Nearest | None, name: str) -> Sequence[int]:
        """The sizes that would fit, dimension by dimension."""
        shape = self.shapes[name]
        near = shape if best is None else best.shapes[name]
        return near if len(near) == len(shape) else shape


def _would_fit(size: int, fitting: int) -> str:
    return "" if size == fitting else f"{fitting} would fit"


def _entry(cell: Cell) -> Entry:
    match cell.state:
        case "added":
            return Entry("?", True, "missing")
        case "removed":
            return Entry(str(cell.size), True, "too many", extra=True)
        case _:
            return Entry(str(cell.size), cell.state == "changed")
