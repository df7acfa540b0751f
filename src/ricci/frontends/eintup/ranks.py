"""The ranks of a program: which combinations are legal, and why others are not.

Ranks vary only where a RANK constraint asks for it: an eintup that none speaks of (but to say that
its rank equals another's) has rank 1, unless what is inferred gives it another one. A
rank that constraints bound only below is at most `USUAL_RANK`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ...diagnostics import Diagnostic, Error, Label, error
from ...records import cached_property, replace
from ...source import NOWHERE, Span
from . import syntax as s
from .contradictions import Claim, contradiction
from .rank_rules import Signatures, Tie, rank_form
from .relations import INFINITY, Box, Empty, Expr, Operation, Relation, System, Unknown, value
from .search import Exhausted, put, search

USUAL_RANK = 8
"""The largest rank that is tried where no constraint bounds it."""

LARGEST_RANK = 64
"""More components than any library of arrays has."""

MOST_COMBINATIONS = 100_000

_WORK = 50_000
"""How many relations may be narrowed to find one more combination."""

_FEW = 5000
"""Combinations that are looked at to find the interval of a rank."""


class Ranks:
    """The ranks of the eintups of a program, given by the ties between them."""

    def __init__(
        self, eintups: Sequence[str], signatures: Signatures, ties: Sequence[Tie] = ()
    ) -> None:
        self.eintups = tuple(eintups)
        self.signatures = signatures
        self.ties = tuple(ties)
        self._system = System([r for tie in ties for r in tie.relations])
        others = (key for r in self._system.relations for key in r.unknowns())
        keys = dict.fromkeys([*eintups, *others])
        sums = {key for r in self._system.relations for key in _sums(r)}
        self._keys = tuple(sorted(keys, key=sums.__contains__))
        group = _merge(self._keys, ties)
        members: dict[Hashable, list[str]] = {}
        for name in eintups:
            members.setdefault(group(name), []).append(name)
        self.classes = tuple(tuple(names) for names in members.values())
        asked = {group(name) for tie in ties if tie.asks for name in tie.names}
        self._asked = frozenset(n for names in self.classes for n in names if group(n) in asked)
        self.independent = tuple(names[0] for names in self.classes if names[0] in self._asked)

    # --------------------------------------------------------------------- values

    def rank_of(self, expr: s.IndexExpr, ranks: Mapping[str, int]) -> int:
        """How many components an index expression has, at ranks of all eintups."""
        return self._value(rank_form(expr, self.signatures), ranks)

    def _value(self, form: Expr, ranks: Mapping[str, int]) -> int:
        box: Box = {name: (rank, rank) for name, rank in ranks.items()}
        found = value(form, box)
        if found is None:
            found = value(form, self._complete(box) or {})
        if found is None:
            raise error("E0411", "these ranks are not legal for the program")
        return found

    def _complete(self, box: Box) -> Box | None:
        """What follows from some ranks for all unknowns; `None` if they are not legal."""
        complete: Box = {key: box.get(key, (0, INFINITY)) for key in self._keys}
        try:
            self._system.narrow(complete)
        except Empty:
            return None
        return self._settle(complete)

    # ---------------------------------------------------------------- enumeration

    def combinations(self, fixed: Mapping[str, int] = {}) -> Iterator[dict[str, int]]:
        """All legal ranks, those of the first classes changing last; with some that are `fixed`.

        Raises `Error` E0901 when there are more than `MOST_COMBINATIONS`, or too many
        choices that are not legal.
        """
        number = 0
        try:
            for number, box in enumerate(self._search(fixed)):
                if number == MOST_COMBINATIONS:
                    break
                yield self._ranks(box)
        except Exhausted:
            raise self._too_many("too many combinations of ranks that are not legal") from None
        if number == MOST_COMBINATIONS:
            raise self._too_many(f"there are more than {MOST_COMBINATIONS} combinations of ranks")

    def interval(self, name: str) -> tuple[int, int]:
        """The smallest and the largest legal rank of an eintup; (0, -1) if there are none."""
        if self._intervals is not None:
            return self._intervals.get(name, (0, -1))
        low, high = self._box[name]
        if name not in self._asked:
            return (low, high) if high <= LARGEST_RANK else (max(low, 1), max(low, 1))
        while not self._is_possible(name, low):
            low += 1
        while not self._is_possible(name, high):
            high -= 1
        return low, high

    @cached_property
    def _intervals(self) -> dict[str, tuple[int, int]] | None:
        """The extremes over all combinations, where these are few."""
        found: dict[str, tuple[int, int]] = {}
        try:
            for number, box in enumerate(self._search({})):
                if number == _FEW:
                    return None
                for name, rank in self._ranks(box).items():
                    low, high = found.get(name, (rank, rank))
                    found[name] = min(low, rank), max(high, rank)
        except Exhausted:
            return None
        return found

    def _is_possible(self, name: str, rank: int) -> bool:
        """Whether a rank is legal, as far as a search tells."""
        try:
            return next(self._search({name: rank}), None) is not None
        except Exhausted:
            return True

    @cached_property
    def _box(self) -> Box:
        """The interval of every unknown; empty if they contradict."""
        return _start(self._system, self._keys, self._asked) or {}

    def _search(self, fixed: Mapping[str, int]) -> Iterator[Box]:
        """Every way to choose the independent ranks, with what follows for the others."""
        start: Box | None = self._box if self._box or not self._keys else None
        for name, rank in fixed.items():
            start = put(self._system, start, name, rank) if start is not None else None
        if start is not None:
            yield from search(self._system, start, self.independent, _WORK, self._settle)

    def _settle(self, box: Box) -> Box | None:
        """What is still open gets rank 1, or what is nearest to it."""
        settled = dict(box)
        try:
            for key in self._keys:
                low, high = settled[key]
                if low != high:
                    rank = max(low, min(high, 1))
                    settled[key] = (rank, rank)
                    self._system.narrow(settled, key)
        except Empty:
            return None
        return settled

    def _ranks(self, box: Box) -> dict[str, int]:
        return {name: box[name][0] for name in self.eintups}

    def _too_many(self, message: str) -> Error:
        spans = [tie.span for tie in self.ties if tie.asks] or [NOWHERE]
        labels = [Label(span, "") for span in spans[1:]]
        return error("E0901", message, spans[0], labels=labels, help="bound the ranks further")

    # ------------------------------------------------------------------ findings

    def broken(self, ranks: Mapping[str, int]) -> Diagnostic | None:
        """What ranks of all eintups contradict; `None` if they are legal."""
        box: Box = dict.fromkeys(self._keys, (0, INFINITY))
        box |= {name: (rank, rank) for name, rank in ranks.items()}
        for tie in self.ties:
            try:
                System(tie.relations).narrow(box)
            except Empty:
                return _broken(tie, ranks)
        start = {name: ranks[name] for name in self.independent}
        legal = next(self._search(start), None)
        if legal is None:
            return self._beyond(ranks)
        expected = self._ranks(legal)
        wrong = next((name for name in self.eintups if expected[name] != ranks[name]), None)
        return None if wrong is None else _unasked(wrong, expected[wrong], ranks)

    def _beyond(self, ranks: Mapping[str, int]) -> Diagnostic:
        for name in self.independent:
            if self._box and ranks[name] > self._box[name][1]:
                return Diagnostic(
                    "E0411",
                    f"`{name}` has rank {ranks[name]}, and at most {self._box[name][1]} is legal",
                    help=f"bound it, as in `RANK({name}) IN [0, {ranks[name]}]`",
                )
        fixed = [
            Claim((Relation(Unknown(n), "==", r),), f"`RANK({n}) = {r}`", NOWHERE, True)
            for n, r in ranks.items()
        ]
        return self.contradiction(fixed)

    def contradiction(self, also: Sequence[Claim] = ()) -> Diagnostic:
        """Why there are no legal ranks."""
        claims = [
            Claim(tie.relations, tie.says, tie.span, tie.constraint is not None)
            for tie in self.ties
        ]
        start: Box = dict.fromkeys(self._keys, (0, LARGEST_RANK))
        return contradiction([*claims, *also], start, "ranks")

    def too_large(self) -> Diagnostic | None:
        """The first rank that may be, or must be, larger than any array's."""
        for name in self.eintups if self._box else ():
            low, high = self._box[name]
            if low > LARGEST_RANK:
                found = self.contradiction()
                return replace(found, notes=(f"{LARGEST_RANK} is the largest rank",))
            if high > LARGEST_RANK and name in self._asked:
                message = f"`{name}` may have rank {high}, and {LARGEST_RANK} is the largest"
                return Diagnostic("E0901", message, self._bounding(name))
        return None

    def _bounding(self, name: str) -> Span:
        """The line that first speaks of the rank of an eintup, or of one that it is tied to."""
        tied = next((c for c in self.classes if name in c), ())
        ties = [tie for tie in self.ties if not set(tied).isdisjoint(tie.names)]
        return min(ties, key=lambda tie: tie.constraint is None).span


def _broken(tie: Tie, ranks: Mapping[str, int]) -> Diagnostic:
    found = " and ".join(f"RANK({name}) is {ranks[name]}" for name in tie.names if name in ranks)
    if tie.constraint is None:
        return Diagnostic("E0411", f"{tie.why}, which does not fit: {found}", tie.span)
    return Diagnostic("E0411", f"{tie.why} does not hold: {found}", tie.span)


def _unasked(name: str, expected: int, ranks: Mapping[str, int]) -> Diagnostic:
    return Diagnostic(
        "E0411",
        f"`{name}` has rank {ranks[name]}, and must have rank {expected}",
        notes=(f"no constraint says that `RANK({name})` may be another",),
        help=f"add the line `RANK({name}) IN [0, {max(ranks[name], 1)}]`",
    )


def _sums(relation: Relation) -> Iterator[Hashable]:
    """The rank that a relation computes from others: these are chosen before it."""
    for side, other in ((relation.lhs, relation.rhs), (relation.rhs, relation.lhs)):
        if isinstance(side, Unknown) and isinstance(other, Operation):
            yield side.key


def _start(system: System, keys: Sequence[Hashable], asked: frozenset[str]) -> Box | None:
    """The intervals before any choice; unbounded ranks that are asked for get the usual bound."""
    box: Box = dict.fromkeys(keys, (0, INFINITY))
    try:
        system.narrow(box)
        for name in asked:
            low, high = box[name]
            if high > INFINITY // 2:
                box[name] = (low, max(low, USUAL_RANK))
        system.narrow(box)
    except Empty:
        return None
    return box


def _merge(keys: Sequence[Hashable], ties: Sequence[Tie]) -> Callable[[Hashable], Hashable]:
    """The representative of each unknown: those that are equal have the same one."""
    parent = {key: key for key in keys}

    def find(key: Hashable) -> Hashable:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for relation in (r for tie in ties for r in tie.relations):
        if relation.comparator == "==":
            if isinstance(relation.lhs, Unknown) and isinstance(relation.rhs, Unknown):
                parent[find(relation.rhs.key)] = find(relation.lhs.key)
    return find
