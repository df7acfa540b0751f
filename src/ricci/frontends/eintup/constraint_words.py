"""Constraints in plain words."""

from __future__ import annotations

from . import syntax as s
from .printer import print_index

_OPERATORS = {"+": "plus", "-": "minus"}
_QUOTIENT, _SUM, _PRODUCT, _ATOM = range(4)
_RELATIONS = {
    "<": "is less than",
    "<=": "is at most",
    "==": "is",
    "!=": "is not",
    ">=": "is at least",
    ">": "is more than",
}


def term_words(term: s.Term) -> str:
    """`the ceiling of (`p` minus 1) over `s``."""
    return _words(term)[0]


def constraint_words(constraint: s.Constraint) -> str:
    if isinstance(constraint, s.Membership):
        low, high = term_words(constraint.low), term_words(constraint.high)
        return f"{term_words(constraint.term)} is from {low} to {high}"
    text = term_words(constraint.terms[0])
    for place, relation in enumerate(constraint.relations):
        link = ", which " if place else " "
        text += f"{link}{_RELATIONS[relation]} {term_words(constraint.terms[place + 1])}"
    return text


def _words(term: s.Term) -> tuple[str, int]:
    """The words, and how tightly they belong together."""
    match term:
        case s.Whole(value):
            return str(value), _ATOM
        case s.Rank(items):
            if len(items) > 1:
                return f"the sum of the ranks of {_names(items)}", _PRODUCT
            return f"the rank of {_names(items)}", _ATOM
        case s.Dims(items):
            return _names(items), _ATOM
        case s.DimOf(dims, at):
            return f"component {at} of {_names(dims.items)}", _ATOM
        case s.Smallest(function, arguments):
            return _extreme(function, arguments), _PRODUCT
        case s.TermBinary(operator, lhs, rhs):
            return _operation(operator, lhs, rhs)


def _names(items: tuple[s.IndexExpr, ...]) -> str:
    return _and([f"`{print_index(i)}`" for i in items])


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _extreme(function: str, arguments: tuple[s.Term, ...]) -> str:
    """`the larger of a and b`."""
    two = {"min": "smaller", "max": "larger"}
    many = {"min": "smallest", "max": "largest"}
    which = (two if len(arguments) == 2 else many)[function]
    return f"the {which} of {_and([_inside(a, _PRODUCT) for a in arguments])}"


def _operation(operator: str, lhs: s.Term, rhs: s.Term) -> tuple[str, int]:
    if operator in ("+", "-"):
        return f"{_inside(lhs, _SUM)} {_OPERATORS[operator]} {_inside(rhs, _PRODUCT)}", _SUM
    if operator == "*":
        return f"{_inside(lhs, _PRODUCT)} times {_inside(rhs, _ATOM)}", _PRODUCT
    left, right = _inside(lhs, _ATOM), _inside(rhs, _ATOM)
    if operator == "%":
        return f"the rest of {left} divided by {right}", _QUOTIENT
    which = "floor" if operator == "//" else "ceiling"
    return f"the {which} of {left} over {right}", _QUOTIENT


def _inside(term: s.Term, least: int) -> str:
    words, level = _words(term)
    return words if level >= least else f"({words})"
