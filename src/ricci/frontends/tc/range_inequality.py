"""Inequalities over indices and sizes: what one says of an index, and of all values of one.

Indices are locals (`range_terms`). `N - 1 - 2*i >= 0` says `i <= (N - 1) / 2`; for all `k` from 0
to `K - 1`, `i + k <= N - 1` is `i + K - 1 <= N - 1`, since it is hardest for the largest `k`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...diagnostics import error
from ...ir import shapes
from ...ir.nodes import Binary, Expr, Local
from ...ir.rewrite import rebuild, substitute, walk
from ...ir.shapes_interval import Interval
from ...ir.shapes_polynomial import (
    Monomial,
    Polynomial,
    const_of,
    expression,
    plus,
    polynomial,
)
from ...records import cached_property, dataclass
from .range_terms import Site, locals_in

MOST_PIECES = 64
"""Inequalities that one may become; one that would become more says nothing of its indices."""


MOST_BOUNDS = 32
"""Different bounds of one index, and different conditions of one statement."""


@dataclass(frozen=True, slots=True)
class Range:
    """The values of an index, or the positions of a tensor's elements: both ends belong to it."""

    minimum: Expr
    maximum: Expr

    @property
    def extent(self) -> Expr:
        return shapes.add(shapes.sub(self.maximum, self.minimum), shapes.constant(1))


@dataclass(frozen=True, eq=False)
class Relation:
    """`left <= right`."""

    left: Expr
    right: Expr

    @cached_property
    def slack(self) -> Expr:
        """What must not be negative."""
        return shapes.sub(self.right, self.left)

    @cached_property
    def locals(self) -> list[Local]:
        """The indices and unknowns that it mentions."""
        return locals_in(self.slack)

    @cached_property
    def is_certain(self) -> bool:
        """Whether it is proved."""
        return shapes.interval(self.slack)[0] >= 0

    def implies(self, other: Relation) -> bool:
        """Whether another one is proved to hold where this one does."""
        if other is self or other.slack == self.slack:
            return True
        return shapes.interval(shapes.sub(other.slack, self.slack))[0] >= 0

    def replaced(self, old: Expr, new: Expr) -> Relation:
        """The same with a part replaced."""

        def changed(node: Expr) -> Expr:
            return new if node == old else node

        return Relation(*(shapes.simplify(rebuild(x, changed)) for x in (self.left, self.right)))

    def at(self, local: Local, value: Expr) -> Relation:
        """The same for one value of an index."""
        sides = (substitute(x, {local: value}) for x in (self.left, self.right))
        return Relation(*map(shapes.simplify, sides))


@dataclass(frozen=True, slots=True, eq=False)
class Inequality:
    """A relation that is a bound of one subscript of a site, `upper` if the right side is it.

    Many sites need the same, and have the same relation then.
    """

    relation: Relation
    site: Site
    dimension: int
    upper: bool

    def of(self, relations: list[Relation]) -> list[Inequality]:
        """The same of other relations."""
        if relations == [self.relation]:
            return [self]
        return [Inequality(x, self.site, self.dimension, self.upper) for x in relations]


def depends(expr: Expr, local: Local) -> bool:
    """Whether a local occurs in an expression."""
    return any(node is local for node in walk(expr))


def strongest(inequalities: list[Inequality]) -> list[Inequality]:
    """The inequalities that no other one implies; E0901 if there are too many."""
    kept: list[Inequality] = []
    for x in inequalities:
        if len(kept) > MOST_BOUNDS:
            message = f"more than {MOST_BOUNDS} conditions, none of which implies another"
            raise error("E0901", message, x.site.span, help="give more dimensions the same size")
        if not any(other.relation.implies(x.relation) for other in kept):
            kept = [other for other in kept if not x.relation.implies(other.relation)]
            kept.append(x)
    return kept


# ------------------------------------------------------ minimum and maximum


def split(relation: Relation) -> list[Relation]:
    """Relations that hold together exactly if this one does, without those that are proved.

    `x <= min(a, b)` is `x <= a` and `x <= b`; `min(x, a) <= a` holds.
    """
    pending = [relation]
    kept: list[Relation] = []
    while pending and len(pending) + len(kept) <= MOST_PIECES:
        piece = pending.pop()
        if piece.is_certain:
            continue
        parts = _parts(piece)
        if parts is None:
            kept.append(piece)
        else:
            pending += reversed(parts)
    return [*kept, *pending]


def _parts(piece: Relation) -> list[Relation] | None:
    for monomial, c in polynomial(piece.slack).items():
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, Binary) or atom.op not in ("min", "max") or not locals_in(atom):
            continue
        sides = [piece.replaced(atom, side) for side in (atom.lhs, atom.rhs)]
        if (atom.op == "min") == (c > 0):
            return sides
        if any(side.is_certain for side in sides):  # one of them is enough
            return []
        possible = [side for side in sides if shapes.interval(side.slack)[1] >= 0]
        if len(possible) < 2:
            return possible or sides[:1]
    return None


# ------------------------------------------------------ solving for an index


@dataclass(frozen=True, slots=True)
class Bound:
    """What an inequality says of an index, given that all `strides` are positive."""

    upper: bool
    value: Expr
    strides: tuple[Expr, ...] = ()


def solve(slack: Expr, index: Local, strides: tuple[Expr, ...] = ()) -> Bound | None:
    """The bound that `slack >= 0` gives an index, exactly; none if it does not have that form."""
    terms = polynomial(slack)
    found = _isolate(terms, index) or _gather(terms, index)
    if found is None:
        return None
    atom, factor, rest = found
    low, high = shapes.interval(expression(factor))
    if low < 0 < high:
        return None
    upper = low < 0
    size = plus({}, factor, -1) if upper else factor
    if low <= 0 <= high:
        strides = (*strides, expression(size))
    value = divide(rest, size)
    if not upper:
        value = shapes.neg(value)  # the quotient is to be rounded up
    if atom is index:
        return Bound(upper, value, strides)
    if isinstance(atom, Binary) and atom.op == ("min" if upper else "max"):
        return _solve_either(atom, upper, value, index, strides)
    return _solve_quotient(atom, upper, value, index, strides)


def _solve_either(
    atom: Binary, upper: bool, value: Expr, index: Local, strides: tuple[Expr, ...]
) -> Bound | None:
    """For `min(x, y)`: at most `v` if one of the two is; the index, up to the larger bound."""
    found: list[Bound] = []
    for side in (atom.lhs, atom.rhs):
        slack = shapes.sub(value, side) if upper else shapes.sub(side, value)
        bound = solve(slack, index, strides)
        if bound is None or (found and bound.upper != found[0].upper):
            return None
        found.append(bound)
    weaker = shapes.maximum if found[0].upper else shapes.minimum
    both = weaker(found[0].value, found[1].value)
    return Bound(found[0].upper, both, tuple(dict.fromkeys(found[0].strides + found[1].strides)))


def _solve_quotient(
    atom: Expr, upper: bool, value: Expr, index: Local, strides: tuple[Expr, ...]
) -> Bound | None:
    """For `floordiv(x, k)`: at least `v` if `x >= v*k`, at most `v` if `x <= v*k + k - 1`."""
    if not isinstance(atom, Binary) or atom.op != "floordiv" or depends(atom.rhs, index):
        return None
    if shapes.interval(atom.rhs)[0] < 0:
        return None
    least = shapes.mul(value, atom.rhs)
    if not upper:
        return solve(shapes.sub(atom.lhs, least), index, strides)
    most = shapes.sub(shapes.add(least, atom.rhs), shapes.constant(1))
    return solve(shapes.sub(most, atom.lhs), index, strides)


def _isolate(terms: Polynomial, index: Local) -> tuple[Expr, Polynomial, Polynomial] | None:
    """`atom, factor, rest` with `terms = factor * atom + rest`, the index in the atom alone."""
    atom: Expr | None = None
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in terms.items():
        places = [n for n, a in enumerate(monomial) if depends(a, index)]
        if not places:
            rest[monomial] = c
            continue
        found = monomial[places[0]]
        if len(places) > 1 or (atom is not None and found != atom):
            return None
        atom = found
        factor[monomial[: places[0]] + monomial[places[0] + 1 :]] = c
    return None if atom is None else (atom, factor, rest)


def _gather(terms: Polynomial, index: Local) -> tuple[Expr, Polynomial, Polynomial] | None:
    """The same where a quotient and other terms hold the index: all terms go into the quotient.

    `i + i / 2` is `(2*i + i) / 2`, and `i - i / 2` is `-((i - 2*i) / 2)`.
    """
    for monomial, c in terms.items():
        atom = monomial[0] if len(monomial) == 1 else None
        if not isinstance(atom, Binary) or atom.op != "floordiv" or abs(c) != 1:
            continue
        if depends(atom, index) and shapes.as_int(atom.rhs) is not None:
            others = expression({m: c * factor for m, factor in terms.items() if m != monomial})
            dividend = shapes.add(atom.lhs, shapes.mul(others, atom.rhs))
            return Binary("floordiv", dividend, atom.rhs), {(): c}, {}
    return None


def divide(terms: Polynomial, divisor: Polynomial) -> Expr:
    """The quotient rounded down by a divisor that is taken to be positive."""
    value = const_of(divisor)
    if value is not None or len(divisor) > 1:
        return shapes.floordiv(expression(terms), expression(divisor))
    ((atoms, k),) = divisor.items()
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in terms.items():
        others = _without(monomial, atoms)
        if others is None or c % k:
            rest[monomial] = c
        else:
            quotient[others] = c // k
    known = const_of(rest)
    if known in (0, -1):
        small: Expr = shapes.constant(known or 0)
    else:
        small = shapes.floordiv(expression(rest), expression(divisor))
    return shapes.add(expression(quotient), small)


def _without(monomial: Monomial, gone: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in gone:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


# -------------------------------------------------- all values of an index


Known = Mapping[Local, Range]


def for_all(relation: Relation, ranges: Known) -> list[Relation] | None:
    """The relation for all values of the indices that have a range, exactly, as relations
    without them; none if that has no such form."""
    intervals: dict[Expr, Interval] = {local: _interval_of(r) for local, r in ranges.items()}
    pending = [relation]
    done: list[Relation] = []
    while pending:
        piece = pending.pop()
        indices = [x for x in piece.locals if x in ranges]
        if not indices:
            done += split(piece)
        else:
            ends = _ends(piece, indices, ranges, intervals)
            if ends is None:
                return None
            pending += ends
        if len(pending) + len(done) > MOST_PIECES:
            return None
    return done


def _ends(
    piece: Relation, indices: list[Local], ranges: Known, intervals: Mapping[Expr, Interval]
) -> list[Relation] | None:
    """A relation at the ends of one index: at one if it is monotone, at both if it is linear."""
    slack = polynomial(piece.slack)
    for index in indices:
        way = direction(slack, index, intervals)
        if way is not None:
            own = ranges[index]
            return [piece.at(index, own.minimum if way >= 0 else own.maximum)]
    for index in indices:
        found = _isolate(slack, index)
        if found is not None and found[0] is index:
            own = ranges[index]
            return [piece.at(index, own.maximum), piece.at(index, own.minimum)]
    return None


def _interval_of(own: Range) -> Interval:
    return shapes.interval(own.minimum)[0], shapes.interval(own.maximum)[1]


def direction(terms: Polynomial, local: Local, known: Mapping[Expr, Interval]) -> int | None:
    """1 if the value never falls as the local grows, -1 if it never rises, 0 if neither; none if
    that is not known."""
    ways: set[int] = set()
    for monomial, c in terms.items():
        for position, atom in enumerate(monomial):
            way = _atom_direction(atom, local, known)
            if way == 0:
                continue
            others = monomial[:position] + monomial[position + 1 :]
            low, high = shapes.interval(expression({others: c}), known)
            if way is None or low < 0 < high:
                return None
            ways.add(way if low >= 0 else -way)
    if len(ways) > 1:
        return None
    return ways.pop() if ways else 0


def _atom_direction(atom: Expr, local: Local, known: Mapping[Expr, Interval]) -> int | None:
    if atom is local:
        return 1
    if not depends(atom, local):
        return 0
    if not isinstance(atom, Binary):
        return None
    if atom.op in ("min", "max"):
        sides = {direction(polynomial(x), local, known) for x in (atom.lhs, atom.rhs)} - {0}
        return sides.pop() if len(sides) == 1 else None
    if atom.op not in ("floordiv", "ceildiv") or depends(atom.rhs, local):
        return None
    low, high = shapes.interval(atom.rhs, known)
    way = direction(polynomial(atom.lhs), local, known)
    if way is None or low < 0 < high:
        return None
    return way if low >= 0 else -way
