"""Types of SkriptND expressions, and lengths of packs as far as a definition shows them.

A length is a linear form of symbols with integer coefficients, `2 * d + 1`; None stands for
a length that only a call gives. Two lengths *clash* when they differ for every call.
Specification 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...records import dataclass, replace
from . import syntax as s

CONCRETE: Final = ("int", "real", "bool", "str")
ABSTRACT: Final[Mapping[str, tuple[str, ...]]] = {
    "type": CONCRETE,
    "arith": ("int", "real", "bool"),
    "num": ("int", "real"),
}
"""The concrete types that each abstract type admits."""


@dataclass(frozen=True, slots=True)
class Length:
    """`sum(factor * name) + constant`; `factors` is sorted by name and holds no zeros."""

    factors: tuple[tuple[str, int], ...]
    constant: int

    def __add__(self, other: Length) -> Length:
        factors = dict(self.factors)
        for name, factor in other.factors:
            factors[name] = factors.get(name, 0) + factor
        kept = tuple(sorted((n, f) for n, f in factors.items() if f))
        return Length(kept, self.constant + other.constant)

    def times(self, factor: int) -> Length:
        factors = tuple((n, factor * f) for n, f in self.factors) if factor else ()
        return Length(factors, factor * self.constant)

    def __str__(self) -> str:
        terms = [name if f == 1 else f"{f} * {name}" for name, f in self.factors]
        if self.constant or not terms:
            terms.append(str(self.constant))
        return " + ".join(terms).replace("+ -", "- ")


ONE: Final = Length((), 1)


def literal(value: int) -> Length:
    return Length((), value)


def symbol(name: str) -> Length:
    return Length(((name, 1),), 0)


def clash(a: Length | None, b: Length | None) -> bool:
    """Whether two lengths differ whatever their symbols are."""
    if a is None or b is None:
        return False
    difference = a + b.times(-1)
    return not difference.factors and difference.constant != 0


def total(lengths: list[Length | None]) -> Length | None:
    """The sum of several lengths; None when one of them is not known."""
    result = literal(0)
    for length in lengths:
        if length is None:
            return None
        result += length
    return result


def length_of(expr: s.Expr) -> Length | None:
    """The length that an integer expression denotes, when it is linear in its symbols."""
    match expr:
        case s.Literal(value=int(value)) if not isinstance(value, bool):
            return literal(value)
        case s.Name(name=name):
            return symbol(name)
        case s.Unary(op="-", operand=operand):
            form = length_of(operand)
            return None if form is None else form.times(-1)
        case s.Binary(op="+" | "-" as op, lhs=lhs, rhs=rhs):
            left, right = length_of(lhs), length_of(rhs)
            if left is None or right is None:
                return None
            return left + (right if op == "+" else right.times(-1))
        case s.Binary(op="*", lhs=lhs, rhs=rhs):
            return _product(length_of(lhs), length_of(rhs))
    return None


def _product(a: Length | None, b: Length | None) -> Length | None:
    if a is None or b is None:
        return None
    if not a.factors:
        return b.times(a.constant)
    return a.times(b.constant) if not b.factors else None


@dataclass(frozen=True, slots=True)
class Type:
    """The type of an expression.

    `name` is a concrete type, the name of a generic type, `""` for what an erroneous
    expression would have been, or `"type"` for the items of an empty list; both of the
    latter fit every type. `rank` is known for tensors whose shape is.
    """

    name: str
    base: str = ""
    """The abstract type of a generic one; else empty."""
    optional: bool = False
    packed: bool = False
    tensor: bool = False
    length: Length | None = None
    rank: Length | None = None

    @property
    def unknown(self) -> bool:
        return self.name == ""

    @property
    def free(self) -> bool:
        return self.name in ("", "type")

    @property
    def item(self) -> Type:
        """The type of one item of a pack."""
        return replace(self, packed=False, length=None)

    def packed_as(self, length: Length | None) -> Type:
        return replace(self, packed=True, length=length)

    def with_optional(self, optional: bool) -> Type:
        return replace(self, optional=optional)

    def is_any(self, *names: str) -> bool:
        """Whether every concrete type that this one can be is among `names`."""
        if self.free:
            return True
        return all(n in names for n in ABSTRACT.get(self.base, (self.name,)))

    @property
    def numeric(self) -> bool:
        return self.is_any("int", "real")

    def same(self, other: Type) -> bool:
        """Whether the element types agree; no promotion takes place."""
        return self.free or other.free or self.name == other.name

    def __str__(self) -> str:
        parts = ["optional " if self.optional else "", self.name or "unknown"]
        parts += ["[...]" if self.tensor else "", ".." if self.packed else ""]
        if self.packed and self.length is not None:
            parts.append(f"({self.length})")
        return "".join(parts)


UNKNOWN: Final = Type("")
INT: Final = Type("int")
REAL: Final = Type("real")
BOOL: Final = Type("bool")
STR: Final = Type("str")
EMPTY: Final = Type("type", packed=True, length=literal(0))
"""The type of `[]`."""


def join(a: Type, b: Type) -> Type:
    """The element type of two that agree: the one that is known."""
    return b if a.free and not b.unknown else a
