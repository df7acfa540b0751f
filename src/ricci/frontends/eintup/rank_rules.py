"""What a text says about ranks: one tie for each pair of things that must go together.

The number of components of an array slice `A[s, :]` is the extent of the axis under `:`; where an
eintup has that extent, it is an unknown of its own, its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ...records import dataclass
from ...source import NOWHERE, Span
from . import syntax as s
from .extents import is_scalar
from .printer import print_argument, print_constraint, print_index
from .relations import Comparator, Expr, Operation, Relation, Unknown, total
from .uses import walk

Signatures = Mapping[str, tuple[s.IndexExpr, ...]]


@dataclass(frozen=True, slots=True)
class Width:
    """The one extent of an eintup of rank 1 that numbers components."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Tie:
    """Relations between ranks that hold for one reason; `why` is a clause that names it.

    Those that `constraint` states are of the constraints section, all others are inferred.
    """

    relations: tuple[Relation, ...]
    why: str
    span: Span = NOWHERE
    constraint: s.Constraint | None = None
    asks: bool = False
    """Whether it speaks of ranks alone, and of more than which are equal."""
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = [key for relation in self.relations for key in relation.unknowns()]
        names = [key.name if isinstance(key, Width) else str(key) for key in keys]
        object.__setattr__(self, "names", tuple(dict.fromkeys(names)))

    @property
    def says(self) -> str:
        """The clause, and for what is inferred what it comes to."""
        if self.constraint is not None:
            return self.why
        first = self.relations[0]
        sign = "=" if first.comparator == "==" else first.comparator
        return f"{self.why}: {_text(first.lhs)} {sign} {_text(first.rhs)}"


def _text(form: Expr) -> str:
    match form:
        case Unknown(Width(name)):
            return f"DIMS({name})"
        case Unknown(name):
            return f"RANK({name})"
        case Operation(operator, lhs, rhs):
            return f"{_text(lhs)} {operator} {_text(rhs)}"
        case _:
            return str(form)


def rank_form(expr: s.IndexExpr, signatures: Signatures) -> Expr:
    """How many components an index expression has."""
    match expr:
        case s.Eintup(name):
            return Unknown(name)
        case s.Dims(items):
            return total(rank_form(item, signatures) for item in items)
        case s.Slice():
            return width_form(axis_of(expr, signatures))
        case s.IndexBinary(_, lhs, rhs):
            return rank_form(rhs if is_scalar(lhs) else lhs, signatures)
        case _:
            return 1


def axis_of(node: s.Slice, signatures: Signatures) -> s.IndexExpr:
    """What defined the axis under `:`."""
    return signatures[node.array.name][node.items.index(None)]


def width_form(axis: s.IndexExpr) -> Expr:
    """The extent of an axis under `:`; the check admits eintups and numbers there."""
    return axis.value + 1 if isinstance(axis, s.Whole) else Unknown(Width(_axis_name(axis)))


def _axis_name(axis: s.IndexExpr) -> str:
    return axis.name if isinstance(axis, s.Eintup) else print_index(axis)


# ----------------------------------------------------------------- statements


def statement_ties(
    statements: Iterable[s.Statement], signatures: Signatures, first: Mapping[str, s.Statement]
) -> Iterator[Tie]:
    """What the expressions of statements tie; `first` are those that define the arrays."""
    for statement in statements:
        defines = first[statement.target.array.name] is statement
        for node in walk(statement):
            if node is not statement.target or not defines:
                yield from _ties(node, signatures)


def call_ties(arguments: Iterable[s.Argument], signatures: Signatures) -> Iterator[Tie]:
    """What the index expressions that a call measures tie."""
    for argument in arguments:
        if isinstance(argument, s.Dims | s.Rank):
            for node in walk(argument):
                yield from _ties(node, signatures)
        elif isinstance(argument, s.Item) and isinstance(argument.value, s.Dims):
            count = rank_form(argument.value, signatures)
            why = f"`{print_argument(argument)}` is one of the components"
            yield Tie((Relation(count, ">", argument.at),), why, argument.span)


def _ties(node: object, signatures: Signatures) -> Iterator[Tie]:
    match node:
        case s.IndexBinary():
            yield from _arithmetic_tie(node, signatures)
        case s.DimsAt() | s.Range():
            yield from _component_ties(node, signatures)
        case s.Access() | s.Slice():
            yield from _slot_ties(node, signatures)


def _arithmetic_tie(node: s.IndexBinary, signatures: Signatures) -> Iterator[Tie]:
    if not is_scalar(node.lhs) and not is_scalar(node.rhs):
        why = f"`{print_index(node)}` is one index expression"
        yield from _equal(
            rank_form(node.lhs, signatures), rank_form(node.rhs, signatures), why, node.span
        )


def _slot_ties(node: s.Access | s.Slice, signatures: Signatures) -> Iterator[Tie]:
    name = node.array.name
    for slot, (item, defined) in enumerate(zip(node.items, signatures[name], strict=True)):
        if item is None:
            why = f"slot {slot} of `{name}` stands under `:`, so its rank is 1"
            rank = Relation(rank_form(defined, signatures), "==", 1)
            yield Tie((rank, Relation(width_form(defined), ">=", 0)), why, node.span)
        else:
            ways = f"`{print_index(item)}` and `{print_index(defined)}`"
            why = f"{ways} stand in slot {slot} of `{name}`"
            given = rank_form(item, signatures)
            yield from _equal(given, rank_form(defined, signatures), why, item.span)


def _component_ties(node: s.DimsAt | s.Range, signatures: Signatures) -> Iterator[Tie]:
    of = node.dims if isinstance(node, s.DimsAt) else node.of
    text = print_index(of)
    why = f"`{node.at.name}` numbers the components of `{text}`"
    yield from _equal(Unknown(node.at.name), 1, why, node.at.span)
    yield from _equal(Unknown(Width(node.at.name)), rank_form(of, signatures), why, node.span)


def _equal(a: Expr, b: Expr, why: str, span: Span) -> Iterator[Tie]:
    if a != b:
        a, b = (b, a) if isinstance(a, int) else (a, b)
        yield Tie((Relation(a, "==", b),), why, span)


# ---------------------------------------------------------------- constraints


def constraint_ties(constraint: s.Constraint, widths: Iterable[str]) -> Iterator[Tie]:
    """What a constraint says about ranks; one on dims ties those that it combines."""
    why = f"`{print_constraint(constraint)}`"
    known = frozenset(widths)
    relations, asks = [], False
    for lhs, comparator, rhs in pairs_of(constraint):
        extents = [n for n in [*terms_of(lhs), *terms_of(rhs)] if isinstance(n, s.Dims | s.DimOf)]
        if all(_is_width(node, known) for node in extents):
            relations.append(Relation(_form(lhs), comparator, _form(rhs)))
            asks |= not extents and not _is_plain_equality(relations[-1])
    if relations:
        yield Tie(tuple(relations), why, constraint.span, constraint, asks)
    shapes = tuple(_shape_relations(constraint))
    if shapes:
        yield Tie(shapes, why, constraint.span, constraint)


def pairs_of(constraint: s.Constraint) -> list[tuple[s.Term, Comparator, s.Term]]:
    """A constraint as comparisons of two terms each."""
    if isinstance(constraint, s.Membership):
        low: tuple[s.Term, Comparator, s.Term] = (constraint.low, "<=", constraint.term)
        return [low, (constraint.term, "<=", constraint.high)]
    terms = constraint.terms
    return list(zip(terms, constraint.relations, terms[1:], strict=False))


def terms_of(node: s.Constraint | s.Term) -> Iterator[s.Term]:
    """All terms of a constraint or below a term, as written; not the list inside `DIMS()[0]`."""
    match node:
        case s.Comparison(terms):
            parts: Sequence[s.Term] = terms
        case s.Membership(term, low, high):
            parts = (term, low, high)
        case s.TermBinary(_, lhs, rhs):
            yield node
            parts = (lhs, rhs)
        case s.Smallest(_, arguments):
            yield node
            parts = arguments
        case _:
            yield node
            parts = ()
    for part in parts:
        yield from terms_of(part)


def names_in(term: s.Term) -> tuple[str, ...]:
    """The eintups that a single `RANK()`, `DIMS()` or `DIMS()[0]` lists."""
    items = term.dims.items if isinstance(term, s.DimOf) else getattr(term, "items", ())
    return tuple(item.name for item in items if isinstance(item, s.Eintup))


def is_tuple(term: s.Term) -> bool:
    """Whether a term has a value for each component, not one number."""
    match term:
        case s.Dims():
            return True
        case s.TermBinary(_, lhs, rhs):
            return is_tuple(lhs) or is_tuple(rhs)
        case s.Smallest(_, arguments):
            return any(map(is_tuple, arguments))
        case _:
            return False


def _is_width(node: s.Dims | s.DimOf, widths: frozenset[str]) -> bool:
    names = names_in(node)
    return len(names) == 1 and names[0] in widths and getattr(node, "at", 0) == 0


def _is_plain_equality(relation: Relation) -> bool:
    return (
        relation.comparator == "=="
        and isinstance(relation.lhs, Unknown)
        and isinstance(relation.rhs, Unknown)
    )


def _form(term: s.Term) -> Expr:
    """A term of ranks and widths."""
    match term:
        case s.Whole(value):
            return value
        case s.Rank():
            return total(Unknown(name) for name in names_in(term))
        case s.Dims() | s.DimOf():
            return Unknown(Width(names_in(term)[0]))
        case s.TermBinary(operator, lhs, rhs):
            return Operation(operator, _form(lhs), _form(rhs))
        case s.Smallest(function, arguments):
            result = _form(arguments[0])
            for argument in arguments[1:]:
                result = Operation(function, result, _form(argument))
            return result


def _shape_relations(constraint: s.Constraint) -> Iterator[Relation]:
    """All tuples that a constraint combines have as many components as the first."""
    tuples = [n for n in terms_of(constraint) if isinstance(n, s.Dims)]
    for other in tuples[1:]:
        lhs, rhs = _length(tuples[0]), _length(other)
        if lhs != rhs:
            yield Relation(lhs, "==", rhs)
    for node in terms_of(constraint):
        if isinstance(node, s.DimOf):
            yield Relation(_length(node), ">", node.at)


def _length(term: s.Dims | s.DimOf) -> Expr:
    return total(Unknown(name) for name in names_in(term))
