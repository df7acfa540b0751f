"""What constraints say about dims: which lines compute them, and relations for each component."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from ...records import dataclass
from . import syntax as s
from .extents import has_slice
from .program import Program
from .rank_rules import axis_of, names_in, pairs_of, terms_of
from .relations import INFINITY, Box, Comparator, Expr, Operation, Operator, Relation, Unknown
from .uses import walk

Key = tuple[str, int]
"""An eintup and the number of a component: one extent."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two terms that a constraint compares."""

    lhs: s.Term
    comparator: Comparator
    rhs: s.Term
    constraint: s.Constraint

    @property
    def is_bound(self) -> bool:
        """Whether it bounds the dims of one eintup by numbers alone."""
        names = {name for term in self._extents() for name in names_in(term)}
        ranks = any(isinstance(n, s.Rank) for n in self._terms())
        return self.comparator != "==" and len(names) == 1 and not ranks

    def bounds_any(self, names: Container[str]) -> bool:
        """Whether it is a bound of one of these eintups."""
        return self.is_bound and self.names()[0] in names

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n for term in self._extents() for n in names_in(term)))

    def _extents(self) -> Iterator[s.Term]:
        return (n for n in self._terms() if isinstance(n, s.Dims | s.DimOf))

    def _terms(self) -> Iterator[s.Term]:
        yield from terms_of(self.lhs)
        yield from terms_of(self.rhs)


def dims_pairs(program: Program) -> list[Pair]:
    """Every comparison that speaks of dims, those that are implied last."""
    constraints = [*program.file.constraints, *implied(program).values()]
    pairs = [Pair(a, c, b, line) for line in constraints for a, c, b in pairs_of(line)]
    return [pair for pair in pairs if pair.names()]


def implied(program: Program) -> dict[str, s.Comparison]:
    """The dims of eintups that number the components of something: as many as it has.

    Of several things the first is named that no slice defines: a slice has as many as its own axis.
    """
    found: dict[str, s.Rank] = {}
    for statement in program.file.statements:
        for node in walk(statement):
            for name, counted in _numbered(node, program):
                if name not in found or (_has_slice(found[name]) and not _has_slice(counted)):
                    found[name] = counted
    return {name: _equality(name, counted) for name, counted in found.items()}


def _equality(name: str, counted: s.Rank) -> s.Comparison:
    dims = s.Dims((s.Eintup(name, counted.span),), counted.span)
    return s.Comparison((dims, counted), ("==",), counted.span)


def _has_slice(rank: s.Rank) -> bool:
    return any(map(has_slice, rank.items))


def _numbered(node: object, program: Program) -> Iterator[tuple[str, s.Rank]]:
    """The eintups that number components at a node, and what they count the components of."""
    match node:
        case s.DimsAt(dims, at):
            yield at.name, s.Rank(dims.items, node.span)
        case s.Range(of, at):
            yield at.name, s.Rank((of,), node.span)
        case s.Access() | s.Slice():
            if isinstance(node, s.Slice):
                yield from _sliced(node, node, program)
            slots = program.arrays[node.array.name].signature
            for item, slot in zip(node.items, slots, strict=True):
                for part in _operands(item):
                    if isinstance(part, s.Slice):
                        yield from _sliced(part, slot, program)


def _operands(item: s.IndexExpr | None) -> Iterator[s.IndexExpr]:
    """What arithmetic combines: all have as many components as the whole."""
    if isinstance(item, s.IndexBinary):
        yield from _operands(item.lhs)
        yield from _operands(item.rhs)
    elif item is not None:
        yield item


def _sliced(node: s.Slice, whole: s.IndexExpr, program: Program) -> Iterator[tuple[str, s.Rank]]:
    """The axis under `:` numbers the components of what the slice stands for."""
    axis = axis_of(node, program.ranks.signatures)
    if isinstance(axis, s.Eintup):
        yield axis.name, s.Rank((whole,), node.span)


# -------------------------------------------------------------------- computed dims


def definitions(program: Program) -> dict[str, tuple[s.Term, s.Constraint]]:
    """The eintups whose dims an equality gives, with the term that gives them.

    No two depend on one another. Of `DIMS(a) = DIMS(b)` the left is computed, if it can be.
    """
    found: dict[str, tuple[s.Term, s.Constraint]] = {}
    needs: dict[str, tuple[str, ...]] = {}
    for pair in dims_pairs(program):
        for side, other in ((pair.lhs, pair.rhs), (pair.rhs, pair.lhs)):
            name = _defined(side, program) if pair.comparator == "==" else None
            if name is not None and name not in found:
                used = _used(other)
                if not _reaches(used, name, needs):
                    found[name] = (other, pair.constraint)
                    needs[name] = used
                    break
    return found


def _defined(term: s.Term, program: Program) -> str | None:
    """The eintup whose dims a term is, all of them."""
    names = names_in(term)
    if len(names) == 1 and isinstance(term, s.Dims):
        return names[0]
    if len(names) == 1 and isinstance(term, s.DimOf) and program.ranks.interval(names[0]) == (1, 1):
        return names[0]
    return None


def _reaches(starts: Sequence[str], goal: str, needs: Mapping[str, tuple[str, ...]]) -> bool:
    pending, seen = list(starts), set(starts)
    while pending:
        name = pending.pop()
        if name == goal:
            return True
        more = [n for n in needs.get(name, ()) if n not in seen]
        pending += more
        seen.update(more)
    return False


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What each line says that an eintup is computed from; of those with equal dims one stands
    for all, and `equal` are the lines that say so."""

    needs: dict[str, list[tuple[frozenset[str], s.Constraint]]]
    equal: dict[str, list[s.Constraint]]


def dependencies(program: Program) -> Dependencies:
    pairs = [pair for pair in dims_pairs(program) if pair.comparator == "=="]
    joining = [p for p in pairs if _is_one(p.lhs) and _is_one(p.rhs) and len(p.names()) == 2]
    parent: dict[str, str] = {}

    def find(name: str) -> str:
        while name in parent:
            name = parent[name]
        return name

    for pair in joining:
        first, second = map(find, pair.names())
        if first != second:
            parent[second] = first
    found = Dependencies({}, {})
    for pair in pairs:
        side, other = (pair.lhs, pair.rhs) if _is_one(pair.lhs) else (pair.rhs, pair.lhs)
        if pair in joining:
            found.equal.setdefault(find(pair.names()[0]), []).append(pair.constraint)
        elif _is_one(side):
            used = frozenset(find(n) for n in _used(other))
            found.needs.setdefault(find(names_in(side)[0]), []).append((used, pair.constraint))
    return found


def _is_one(term: s.Term) -> bool:
    return isinstance(term, s.Dims) and len(names_in(term)) == 1


def _used(term: s.Term) -> tuple[str, ...]:
    """The eintups whose dims a term needs."""
    extents = (t for t in terms_of(term) if isinstance(t, s.Dims | s.DimOf))
    return tuple(dict.fromkeys(n for t in extents for n in names_in(t)))


# ---------------------------------------------------------------------- components


@dataclass(frozen=True, slots=True)
class Rule:
    """A relation between extents, keyed by `Key`, and where it comes from."""

    relation: Relation
    pair: Pair


def rules_at(program: Program, ranks: Mapping[str, int], known: Container[str] = ()) -> list[Rule]:
    """What constraints say about each component, at legal ranks.

    What bounds the dims of one eintup by numbers alone says what is drawn: it is left out for
    those that are `known`, since a caller gives them.
    """
    terms = Terms(program, ranks)
    pairs = [pair for pair in dims_pairs(program) if not pair.bounds_any(known)]
    return [Rule(relation, pair) for pair in pairs for relation in terms.relations(pair)]


def keys_at(ranks: Mapping[str, int]) -> Iterator[Key]:
    """Every component of every eintup."""
    return ((name, k) for name, rank in ranks.items() for k in range(rank))


def known_box(ranks: Mapping[str, int], known: Mapping[str, tuple[int, ...]]) -> Box:
    """All extents, with the values of those that are known."""
    box: Box = dict.fromkeys(keys_at(ranks), (0, INFINITY))
    for name, dims in known.items():
        box.update({(name, k): (extent, extent) for k, extent in enumerate(dims)})
    return box


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms as numbers for each component, at ranks."""

    program: Program
    ranks: Mapping[str, int]

    def relations(self, pair: Pair) -> list[Relation]:
        """A pair, component by component; a number goes with every component."""
        lhs, rhs = self._broadcast(self._values(pair.lhs), self._values(pair.rhs))
        return [Relation(a, pair.comparator, b) for a, b in zip(lhs, rhs, strict=True)]

    def _values(self, term: s.Term) -> Expr | list[Expr]:
        """A number, or a list with one number for each component."""
        match term:
            case s.Whole(value):
                return value
            case s.Rank(items):
                return sum(self.program.ranks.rank_of(item, self.ranks) for item in items)
            case s.Dims():
                return self._extents(term)
            case s.DimOf(dims, at):
                return self._extents(dims)[at]
            case s.TermBinary(operator, lhs, rhs):
                return self._combine(operator, self._values(lhs), self._values(rhs))
            case s.Smallest(function, arguments):
                result = self._values(arguments[0])
                for argument in arguments[1:]:
                    result = self._combine(function, result, self._values(argument))
                return result

    def _extents(self, term: s.Dims) -> list[Expr]:
        return [Unknown((n, k)) for n in names_in(term) for k in range(self.ranks[n])]

    def _combine(
        self, operator: Operator, lhs: Expr | list[Expr], rhs: Expr | list[Expr]
    ) -> Expr | list[Expr]:
        pairs = zip(*self._broadcast(lhs, rhs), strict=True)
        values: list[Expr] = [Operation(operator, a, b) for a, b in pairs]
        return values if isinstance(lhs, list) or isinstance(rhs, list) else values[0]

    def _broadcast(
        self, lhs: Expr | list[Expr], rhs: Expr | list[Expr]
    ) -> tuple[list[Expr], list[Expr]]:
        if not isinstance(lhs, list):
            lhs = [lhs] * (len(rhs) if isinstance(rhs, list) else 1)
        if not isinstance(rhs, list):
            rhs = [rhs] * len(lhs)
        return lhs, rhs
