"""Which ranks and dims given shapes can have: the readings of a call.

Ranks first, as the numbers of dimensions leave few; then dims, by what shapes and constraints say
of each component. Two readings are enough to know that a call is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

from ...diagnostics import Error
from ...records import dataclass
from .equations import Equation, Equations, Shapes, equations
from .integers import Solutions, solutions
from .program import Configuration, Program
from .rank_rules import Tie, rank_form
from .ranks import Ranks
from .relations import Interval, Relation, Unknown, total

_MOST_RANKS = 256
"""How many choices of ranks are tried for one call."""

_MOST_REMEMBERED = 512

Dims = Mapping[str, int | tuple[int, ...]]
Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reading:
    """Ranks that fit, with the dims that fit."""

    at: Equations
    found: Solutions

    @property
    def first(self) -> Configuration:
        return _configuration(self.at, self.found.first)

    @property
    def second(self) -> Configuration | None:
        """Other dims at the same ranks."""
        other = self.found.second
        return None if other is None else _configuration(self.at, other)


def _configuration(at: Equations, values: Mapping[object, int] | None) -> Configuration:
    assert values is not None
    ranks = at.ranks.items()
    return Configuration({n: tuple(values[n, k] for k in range(rank)) for n, rank in ranks})


@dataclass(frozen=True, slots=True)
class Readings:
    """Up to as many as were asked for; `complete` if the search saw all there are."""

    items: tuple[Reading, ...]
    complete: bool

    @property
    def unique(self) -> bool:
        return self.complete and len(self.items) == 1 and self.items[0].found.unique


@dataclass(eq=False)
class Reader:
    """Reads shapes of inputs of a program; what it finds out about ranks it remembers."""

    program: Program
    ranks: Mapping[str, int] = field(default_factory=dict)
    dims: Dims = field(default_factory=dict)
    """What the caller fixed."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """The smallest and the largest legal rank of each eintup."""

    def __post_init__(self) -> None:
        self.intervals = self.intervals or {
            name: self.program.ranks.interval(name) for name in self.program.eintups
        }
        self.solved = 0
        self._choices: dict[tuple[tuple[str, int], ...], Choices] = {}
        self._equations: dict[tuple[int, ...], Equations] = {}

    def fixing(self, ranks: Mapping[str, int], dims: Dims) -> Reader:
        """A reader for which more is fixed."""
        return Reader(self.program, {**self.ranks, **ranks}, {**self.dims, **dims}, self.intervals)

    def fixed_ranks(self) -> dict[str, int]:
        """Ranks that the caller fixed, by lists of dims too."""
        lists = {name: len(given) for name, given in self.dims.items() if isinstance(given, tuple)}
        return {**lists, **self.ranks}

    # ------------------------------------------------------------------------ ranks

    def choices(self, counts: Counts, fixed: Mapping[str, int] | None = None) -> Choices:
        """Ranks with which arrays have these numbers of dimensions, and eintups fixed ranks."""
        fixed = self.fixed_ranks() if fixed is None else fixed
        key = (*sorted(counts.items()), ("", -1), *sorted(fixed.items()))
        if key not in self._choices:
            _forget(self._choices)
            self._choices[key] = Choices(self._combinations(counts, fixed))
        return self._choices[key]

    def _combinations(
        self, counts: Counts, fixed: Mapping[str, int]
    ) -> Iterator[Mapping[str, int]]:
        ranks = self.program.ranks
        settled = {name: low for name, (low, high) in self.intervals.items() if low == high}
        wanted = [Relation(Unknown(name), "==", rank) for name, rank in settled.items()]
        wanted += [Relation(Unknown(name), "==", rank) for name, rank in fixed.items()]
        for name, count in counts.items():
            slots = self.program.arrays[name].signature
            form = total(rank_form(slot, ranks.signatures) for slot in slots)
            wanted.append(Relation(form, "==", count))
        ties = [*ranks.ties, Tie(tuple(wanted), "")]
        return Ranks(ranks.eintups, ranks.signatures, ties).combinations()

    def at(self, ranks: Mapping[str, int]) -> Equations:
        """The equations at ranks."""
        key = tuple(ranks.values())
        if key not in self._equations:
            _forget(self._equations)
            self._equations[key] = equations(self.program, ranks)
        return self._equations[key]

    # ------------------------------------------------------------------------- dims

    def readings(self, shapes: Shapes, most: int = 2) -> Readings:
        """The first ones, up to `most`; sizes that are not known may be any."""
        choices = self.choices({name: len(shape) for name, shape in shapes.items()})
        found: list[Reading] = []
        complete = True
        for ranks in choices:
            at = self.at(ranks)
            result = self.solve(at, [*self.given(at, shapes), *at.rules])
            if result is not None and result.first is not None:
                found.append(Reading(at, result))
            complete = complete and (result is None or result.first is not None)
            if len(found) == most:
                return Readings(tuple(found), False)
        return Readings(tuple(found), complete and choices.complete)

    def given(self, at: Equations, shapes: Shapes) -> list[Equation]:
        """What was received and fixed."""
        return [*at.sizes(shapes), *at.fixed(self.dims)]

    def solve(self, at: Equations, said: Iterable[Equation]) -> Solutions | None:
        """The dims at ranks that keep what is said; how often is counted in `solved`."""
        self.solved += 1
        return solutions(at.unknowns, [e.relation for e in said], at.likely)


def _forget(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= _MOST_REMEMBERED:
        remembered.clear()


class Choices:
    """Ranks, found as far as they are asked for; `complete` once it is known that no more are."""

    def __init__(self, source: Iterator[Mapping[str, int]]) -> None:
        self._found: list[Mapping[str, int]] = []
        self._source = islice(source, _MOST_RANKS)
        self.complete = False

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        place = 0
        while place < len(self._found) or self._more():
            yield self._found[place]
            place += 1

    @property
    def empty(self) -> bool:
        """Whether it is certain that there are none."""
        return not self._found and not self._more() and self.complete

    def _more(self) -> bool:
        if self.complete:
            return False
        try:
            self._found.append(next(self._source))
        except StopIteration:
            self.complete = len(self._found) < _MOST_RANKS
            return False
        except Error:
            return False
        return True
