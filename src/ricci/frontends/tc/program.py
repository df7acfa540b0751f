"""A checked function: names are bound, types are known, conversions are written out.

Variables, indices and lets are compared by identity. The operators are those of the intermediate
representation (`ir.nodes`); both operands of a `Binary` have one dtype, as there.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from ...dtypes import DType
from ...ir.nodes import COMPARISONS, BinaryOp, Symbol, UnaryOp
from ...records import dataclass
from ...source import NOWHERE, Span

Kind = Literal["parameter", "result", "temporary"]


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A tensor of a function.

    The sizes of a parameter are numbers and symbols; those of the others are inferred. Every
    variable that is neither a parameter nor returned is a temporary.
    """

    name: str
    dtype: DType
    rank: int
    kind: Kind
    shape: tuple[int | Symbol, ...] | None = None
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class IndexVariable:
    """An index of one statement; int32."""

    name: str
    span: Span = field(default=NOWHERE, repr=False)


# ---------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | int | float
    dtype: DType
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Size:
    """A size variable; int32."""

    symbol: Symbol
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return DType.INT32


@dataclass(frozen=True, slots=True)
class Extent:
    """`T.k`: the size of a dimension of a tensor that has one by now; int32."""

    tensor: Variable
    dimension: int
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return DType.INT32


@dataclass(frozen=True, slots=True)
class At:
    """The value of an index; int32."""

    index: IndexVariable
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return DType.INT32


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    """A value with a name; every use of the name is this very node."""

    name: str
    value: Expr

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Read:
    """An element of a tensor, with an integer expression per dimension."""

    tensor: Variable
    subscripts: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype


@dataclass(frozen=True, slots=True)
class Convert:
    dtype: DType
    operand: Expr
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return self.operand.dtype


@dataclass(frozen=True, slots=True)
class Binary:
    """Integer `/` is `floordiv`, `%` is `mod`.

    Spec: silent. Ricci: the right side of `and` and `or` has no effect where the left one decides,
    as in C.
    """

    op: BinaryOp
    lhs: Expr
    rhs: Expr
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return DType.BOOL if self.op in COMPARISONS else self.lhs.dtype


@dataclass(frozen=True, slots=True)
class Select:
    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Call:
    """A built-in function; its arguments have been converted to `dtype`, that of the result."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    span: Span = field(default=NOWHERE, repr=False, compare=False)


Expr = (
    Constant | Size | Extent | At | Let | Read | Convert | Unary | Binary | Select | Call
)  # fmt: skip


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an expression; the value of a `Let`."""
    match expr:
        case Let():
            return (expr.value,)
        case Read():
            return expr.subscripts
        case Convert() | Unary():
            return (expr.operand,)
        case Binary():
            return expr.lhs, expr.rhs
        case Select():
            return expr.condition, expr.then, expr.otherwise
        case Call():
            return expr.arguments
        case _:
            return ()


def certain_children(expr: Expr) -> tuple[Expr, ...]:
    """The operands that are needed whatever the values of others are."""
    match expr:
        case Select():
            return (expr.condition,)
        case Binary(op="and" | "or"):
            return (expr.lhs,)
        case _:
            return children(expr)


# ----------------------------------------------------------------- statements

Reduction = Literal["set", "add", "mul", "min", "max"]


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """`target[indices] op= value`.

    `reduced` are the indices that are not on the left, in the order of their first use. `fresh`
    if the target starts from the identity of the operator here; else the operator goes on from
    what the target holds: `first` if nothing was written to it before, so that this is what the
    caller passed, or the identity. `ranges` holds what `where` says, [low, high). `exists` takes
    part in the inference only. The value has the dtype of the target.
    """

    target: Variable
    indices: tuple[IndexVariable, ...]
    reduced: tuple[IndexVariable, ...]
    op: Reduction
    value: Expr
    fresh: bool
    first: bool
    ranges: tuple[tuple[IndexVariable, Expr, Expr], ...] = ()
    exists: tuple[Expr, ...] = ()
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Parameters in the order of a call, results in the order in which they are returned."""

    name: str
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...]
    statements: tuple[Statement, ...]
    sizes: tuple[Symbol, ...]
    span: Span = field(default=NOWHERE, repr=False)
