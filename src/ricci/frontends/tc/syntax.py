"""The tree of a text, as it was written: every node class, and nothing else.

Nodes are compared by value without their places, so a text and its printed form give equal trees.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ...dtypes import DType
from ...records import dataclass
from ...source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name at a place."""

    name: str
    span: Span = field(default=NOWHERE, repr=False, compare=False)


# ---------------------------------------------------------------- expressions

UnaryOperator = Literal["-", "!"]
BinaryOperator = Literal[
    "+", "-", "*", "/", "%", "<", ">", "<=", ">=", "==", "!=", "&&", "||"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, `value` of `dtype` int32 or float32; `text` as it was written."""

    value: int | float
    dtype: DType
    text: str = field(compare=False)
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A scalar, a size, an index or a let; which of them is not known yet."""

    name: str
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Apply:
    """`f(a, b)`: a read of a tensor, a built-in function, `min` or `max`. `span` is all of it."""

    function: Identifier
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class SizeOf:
    """`T.k`: the size of a dimension of a tensor."""

    tensor: Identifier
    dimension: int
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`int32(x)`."""

    dtype: DType
    operand: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    operator: UnaryOperator
    operand: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    operator: BinaryOperator
    lhs: Expression
    rhs: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Expression = Number | Name | Apply | SizeOf | Cast | Unary | Binary | Conditional


def children(node: Expression) -> tuple[Expression, ...]:
    """The operands of an expression, in the order of the text."""
    match node:
        case Apply():
            return node.arguments
        case Cast() | Unary():
            return (node.operand,)
        case Binary():
            return node.lhs, node.rhs
        case Conditional():
            return node.condition, node.then, node.otherwise
        case _:
            return ()


# ----------------------------------------------------------------- statements

Operator = Literal["=", "+=", "*=", "min=", "max=", "+=!", "*=!", "min=!", "max=!"]


@dataclass(frozen=True, slots=True)
class Range:
    """`i in low:high`, or `i = [low, high[`: low is included, high is not."""

    index: Identifier
    low: Expression
    high: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """`x = value`."""

    name: Identifier
    value: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """`exists value`: takes part in the inference of ranges, and in nothing else."""

    value: Expression
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Clause = Range | Let | Exists


def values(clause: Clause) -> tuple[Expression, ...]:
    """The expressions of a clause."""
    return (clause.low, clause.high) if isinstance(clause, Range) else (clause.value,)


@dataclass(frozen=True, slots=True)
class Statement:
    """`T(i, j) op value <=> f(x) where ...`; `equivalent` has no effect."""

    target: Identifier
    indices: tuple[Identifier, ...]
    operator: Operator
    value: Expression
    equivalent: Apply | None = None
    clauses: tuple[Clause, ...] = ()
    span: Span = field(default=NOWHERE, repr=False, compare=False)


# ------------------------------------------------------------------ functions


@dataclass(frozen=True, slots=True)
class Declaration:
    """A parameter, or a result: `float(M, 3) A`.

    `dtype` is none if it was not written, `dims` none if there were no parentheses.
    """

    name: Identifier
    dtype: DType | None = None
    dims: tuple[Identifier | Number, ...] | None = None
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """`def name(parameters) -> (results) { statements }`."""

    name: Identifier
    parameters: tuple[Declaration, ...]
    results: tuple[Declaration, ...]
    statements: tuple[Statement, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unit:
    """A whole text."""

    functions: tuple[Function, ...]
