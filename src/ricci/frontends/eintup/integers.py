"""Solutions of relations between natural numbers: the smallest first, two of each part at most.

Narrowing (relations.py) finds all that follows at once. What is left falls into parts that share
no unknown; each is searched by halving the interval of an unknown and narrowing again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from ...records import dataclass
from .relations import Box, Empty, Interval, Relation, System, holds

LARGEST = 2**62
"""No extent is larger."""

BOXES = 200
"""How many boxes one search looks at."""

Values = Mapping[Hashable, int]


@dataclass(frozen=True, slots=True)
class Part:
    """Unknowns that hang together, with up to two solutions; `complete` if there are no more."""

    unknowns: tuple[Hashable, ...]
    solutions: tuple[Values, ...]
    complete: bool

    @property
    def unique(self) -> bool:
        return self.complete and len(self.solutions) == 1


@dataclass(frozen=True, slots=True)
class Solutions:
    """What is `known` for certain, and the parts that had to be searched."""

    known: Values
    parts: tuple[Part, ...]

    @property
    def unique(self) -> bool:
        return all(part.unique for part in self.parts)

    @property
    def first(self) -> dict[Hashable, int] | None:
        """A solution; none if none was found in bounded time."""
        values = dict(self.known)
        for part in self.parts:
            if not part.solutions:
                return None
            values.update(part.solutions[0])
        return values

    @property
    def second(self) -> dict[Hashable, int] | None:
        """Another one, which differs in one part."""
        values = self.first
        for part in self.parts:
            if values is not None and len(part.solutions) > 1:
                return {**values, **part.solutions[1]}
        return None


def solutions(
    unknowns: Sequence[Hashable],
    relations: Sequence[Relation],
    likely: Mapping[Hashable, Interval] | None = None,
) -> Solutions | None:
    """All solutions, as far as two of each part tell; none if the relations contradict.

    Values in a `likely` interval are tried before others, and 0 last of all.
    """
    box: Box = dict.fromkeys(unknowns, (0, LARGEST))
    try:
        System(relations).narrow(box)
    except Empty:
        return None
    known = {x: low for x, (low, high) in box.items() if low == high}
    if not all(holds(r, known) for r in relations if known.keys() >= set(r.unknowns())):
        return None
    parts = []
    for names, group in _parts([x for x in unknowns if x not in known], relations):
        part = _Search(names, group, {x: box[x] for x in box}, likely or {}).run()
        if part.complete and not part.solutions:
            return None
        parts.append(part)
    return Solutions(known, tuple(parts))


def _parts(
    unknowns: Sequence[Hashable], relations: Iterable[Relation]
) -> Iterator[tuple[tuple[Hashable, ...], list[Relation]]]:
    """Unknowns that relations tie together, with those relations."""
    group = {x: [x] for x in unknowns}
    tied = [(r, [x for x in r.unknowns() if x in group]) for r in relations]
    for _, own in tied:
        merged = list(dict.fromkeys(y for x in own for y in group[x]))
        group.update((x, merged) for x in merged)
    for members in {id(g): g for g in group.values()}.values():
        inside = set(members)
        names = tuple(x for x in unknowns if x in inside)
        yield names, [r for r, own in tied if inside.intersection(own)]


class _Search:
    """The search of one part, in the box that narrowing left."""

    def __init__(
        self,
        unknowns: Sequence[Hashable],
        relations: Sequence[Relation],
        box: Box,
        likely: Mapping[Hashable, Interval],
    ) -> None:
        self.unknowns = tuple(unknowns)
        self.relations = relations
        self.system = System(relations)
        self.box = box
        self.likely = likely

    def run(self) -> Part:
        """Unknown after unknown finds small solutions; the widest first is sooner at an end."""
        found, complete = self._look(self._first)
        if not complete and len(found) < 2:
            others, complete = self._look(self._widest)
            found = [*found, *(x for x in others if x not in found)][:2]
        return Part(self.unknowns, tuple(found), complete)

    def _look(self, choose: Callable[[Box], Hashable]) -> tuple[list[Values], bool]:
        """Up to two solutions, and whether those are all."""
        found: list[Values] = []
        boxes = [self.box]
        for _ in range(BOXES):
            if not boxes or len(found) == 2:
                break
            box = boxes.pop()
            x = choose(box)
            if not _width(box[x]):
                found += self._solution(box)
                continue
            for half in reversed(self._halves(x, *box[x])):
                boxes += self._narrowed({**box, x: half}, x)
        return found, not boxes

    def _first(self, box: Box) -> Hashable:
        return next((x for x in self.unknowns if _width(box[x])), self.unknowns[0])

    def _widest(self, box: Box) -> Hashable:
        return max(self.unknowns, key=lambda x: _width(box[x]))

    def _halves(self, x: Hashable, low: int, high: int) -> list[Interval]:
        """Two parts of an interval, the likelier one first; far ends are approached by doubling."""
        a, b = self.likely.get(x, (1, LARGEST))
        if low < a <= high:
            return [(a, high), (low, a - 1)]
        if low <= b < high:
            return [(low, b), (b + 1, high)]
        if low == 0:
            return [(1, high), (0, 0)]
        middle = min((low + high) // 2, 2 * low)
        return [(low, middle), (middle + 1, high)]

    def _narrowed(self, box: Box, changed: Hashable) -> Iterator[Box]:
        try:
            self.system.narrow(box, changed)
        except Empty:
            return
        yield box

    def _solution(self, box: Box) -> Iterator[Values]:
        values = {x: low for x, (low, high) in box.items() if low == high}
        if all(holds(relation, values) for relation in self.relations):
            yield {x: values[x] for x in self.unknowns}


def _width(interval: Interval) -> int:
    return interval[1] - interval[0]
