"""The tree of a file, as it was written: every node class, and nothing else.

Nodes are compared by value without their places, so a text and its printed form give equal trees.
Eintups and arrays live in two name spaces, each one for a whole file, so a name is all that it
takes to know which is meant.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ...records import dataclass
from ...source import NOWHERE, Source, Span


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name at a place."""

    name: str
    span: Span = field(default=NOWHERE, repr=False, compare=False)


# ---------------------------------------------------------- index expressions

IndexOperator = Literal["+", "-", "*", "//", "//^", "%"]


@dataclass(frozen=True, slots=True)
class Eintup:
    """The current tuple of an eintup; where only constants stand, its name."""

    name: str
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer: of rank 1 where it stands alone, else of the rank of what it is combined with."""

    value: int
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Dims:
    """`DIMS(a, b)`: the extents of a list of index expressions, a constant tuple."""

    items: tuple[IndexExpr, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Rank:
    """`RANK(a, b)`: how many components a list of index expressions has, a constant number."""

    items: tuple[IndexExpr, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Flat:
    """`FLAT(a, b)`: the row-major position of a tuple; -1 if a component is out of its range."""

    items: tuple[IndexExpr, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """`A[s, :]`: the tuple that an array of integers stores along one axis; one item is `None`."""

    array: Identifier
    items: tuple[IndexExpr | None, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class IndexBinary:
    """Component by component; a `Whole` or `Rank` goes with every component."""

    operator: IndexOperator
    lhs: IndexExpr
    rhs: IndexExpr
    span: Span = field(default=NOWHERE, repr=False, compare=False)


IndexExpr = Eintup | Whole | Dims | Rank | Flat | Slice | IndexBinary

# ---------------------------------------------------------- value expressions

ValueOperator = Literal[
    "+", "-", "*", "/", "//", "//^", "%", "<", "<=", "==", "!=", ">=", ">", "and", "or"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """A literal; `text` as it was written."""

    value: int | float
    text: str = field(compare=False)
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Access:
    """`A[i, j]`: an element of an array."""

    array: Identifier
    items: tuple[IndexExpr, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class DimsAt:
    """`DIMS(a, b)[coord]`: the extent that the eintup `at`, of rank 1, numbers."""

    dims: Dims
    at: Eintup
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Range:
    """`RANGE[a, coord]`: the component of the current tuple of `of` that `at` numbers."""

    of: Eintup
    at: Eintup
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Random:
    """`RANDOM(low, high, INT)`: drawn uniformly from `low` up to, without, `high`."""

    low: Value
    high: Value
    kind: Literal["INT", "FLOAT"]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Apply:
    """`exp(x)`, `max(x, y)`, `where(c, x, y)`: a built-in function of numbers."""

    function: Identifier
    arguments: tuple[Value, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    operator: Literal["-", "not"]
    operand: Value
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    operator: ValueOperator
    lhs: Value
    rhs: Value
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Value = Number | Access | DimsAt | Rank | Range | Random | Apply | Unary | Binary

# ----------------------------------------------------------------- statements

Assign = Literal["=", "+=", "*=", "max=", "min=", "and=", "or="]


@dataclass(frozen=True, slots=True)
class Statement:
    """`target operator value`."""

    target: Access
    operator: Assign
    value: Value
    span: Span = field(default=NOWHERE, repr=False, compare=False)


# ----------------------------------------------------------------------- call


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """`tf.nn.convolution`, or as an argument `tf.float64`."""

    parts: tuple[str, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """`L('VALID')`, or a bare literal: a string, a number, a bool, None, a list or tuple."""

    value: object
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TensorOf:
    """`TENSOR(DIMS(a))`: a tensor of the framework, of integers."""

    value: Dims | Rank | Constant | Item
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Item:
    """`DIMS(a)[0]`, `f(x)[1]`: one of several."""

    value: Dims | Call
    at: int
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a framework's function; arguments are positional where the name is `None`."""

    function: QualifiedName
    arguments: tuple[tuple[Identifier | None, Argument], ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Argument = Identifier | Dims | Rank | TensorOf | Constant | Item | QualifiedName | Call
"""An `Identifier` is an array of the program."""

# ---------------------------------------------------------------- constraints

TermOperator = Literal["+", "-", "*", "//", "//^", "%"]


@dataclass(frozen=True, slots=True)
class DimOf:
    """`DIMS(a)[0]` in a constraint: one extent."""

    dims: Dims
    at: int
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Smallest:
    """`min(a, b)` or `max(a, b)` of terms, component by component."""

    function: Literal["min", "max"]
    arguments: tuple[Term, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TermBinary:
    operator: TermOperator
    lhs: Term
    rhs: Term
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Term = Whole | Rank | Dims | DimOf | Smallest | TermBinary
"""Items of `Rank` and `Dims` are `Eintup`s here; a negative `Whole` is possible."""

Relation = Literal["<", "<=", "==", "!=", ">=", ">"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a = b`, `0 < a <= b < c`: all relations hold; `=` is read as `==`."""

    terms: tuple[Term, ...]
    relations: tuple[Relation, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Membership:
    """`term IN [low, high]`, both ends included."""

    term: Term
    low: Term
    high: Term
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Constraint = Comparison | Membership

# ----------------------------------------------------------------------- file


@dataclass(frozen=True, slots=True)
class File:
    """A whole text; without a call there is nothing to verify against."""

    statements: tuple[Statement, ...]
    call: Call | None
    outputs: tuple[Identifier, ...]
    constraints: tuple[Constraint, ...]
    source: Source = field(repr=False, compare=False)
