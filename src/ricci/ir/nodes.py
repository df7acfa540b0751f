"""The intermediate representation: every node class, and nothing else.

A `Graph` computes output tensors from input tensors by a list of operations. The body of
an `Operation` is a list of `Assignment`s: index programs over tensors, in which nothing
is known by name. Nodes are frozen; tensors, symbols, indices and locals are compared by
identity and print their source names.

One expression language serves subscripts, extents and element values alike: an *extent*
is an `Expr` of integers over `Const` and `Symbol`; a subscript may also contain indices and,
where one tensor addresses another, accesses. `docs/ir.md` has a row per node.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import Literal

from ..diagnostics import Call
from ..dtypes import DType
from ..records import dataclass
from ..source import NOWHERE, Span

# ---------------------------------------------------------------- expressions

UnaryOp = Literal["neg", "not"]

BinaryOp = Literal[
    "add", "sub", "mul",
    "div",       # reals only
    "floordiv",  # integers: toward minus infinity
    "ceildiv",   # integers, and reals (the ceiling of the quotient): toward plus infinity
    "mod",       # the remainder of floordiv: takes the divisor's sign; also on reals
    "pow", "min", "max",
    "lt", "le", "gt", "ge", "eq", "ne",   # bool
    "and", "or", "xor",                   # bool operands; both are evaluated
]  # fmt: skip

Function = Literal[
    "abs", "sign",                        # any number
    "sqrt", "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
    "round",     # half away from zero
    "floor", "ceil", "trunc",
    "frac",      # x minus x truncated toward zero
    "cbrt", "hypot", "exp2", "exp10", "expm1", "log2", "log10", "log1p",
    "sinpi", "cospi", "atan2",
    "erfc", "erfcx", "erfinv", "erfcinv", "normcdf",
    "tgamma", "lgamma", "digamma", "trigamma",
    "j0", "j1", "y0", "y1", "i0", "i1",   # Bessel functions
    "fma", "fdim", "fmax", "fmin", "fmod", "remainder",
    "copysign", "nextafter", "logb",      # as in C
]  # fmt: skip

COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
LOGICAL = frozenset({"and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. `Const(inf, INT)` is the largest integer of the type chosen at compilation."""

    value: bool | int | float | str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A size that is known when the graph runs: `0 <= value <= bound`."""

    name: str
    bound: Expr | None = None
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def dtype(self) -> DType:
        return DType.INT


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A loop variable that takes `0 <= value < extent`."""

    name: str
    extent: Expr
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def dtype(self) -> DType:
        return DType.INT


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Local:
    """A scalar computed once per iteration of its assignment and used in several places."""

    name: str
    value: Expr

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr

    @property
    def dtype(self) -> DType:
        return self.operand.dtype


@dataclass(frozen=True, slots=True)
class Binary:
    """Both operands have one dtype; comparisons give a bool."""

    op: BinaryOp
    lhs: Expr
    rhs: Expr

    @property
    def dtype(self) -> DType:
        return DType.BOOL if self.op in COMPARISONS else self.lhs.dtype


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where `condition`, else `otherwise`; the side not taken has no effect, in
    particular an index of it that is out of range does not matter."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@dataclass(frozen=True, slots=True)
class Cast:
    """Real to int truncates toward zero and saturates (NaN gives 0); to bool: is not zero."""

    dtype: DType
    operand: Expr


@dataclass(frozen=True, slots=True)
class Apply:
    """A built-in function of scalars; the result has the dtype of the arguments.

    `ir.functions.arity` says how many there are.
    """

    function: Function
    arguments: tuple[Expr, ...]

    @property
    def dtype(self) -> DType:
        return self.arguments[0].dtype


@dataclass(frozen=True, slots=True)
class Skip:
    """Boundary rule `|i|`: an index out of range skips this whole instance of the assignment."""


@dataclass(frozen=True, slots=True)
class Remap:
    """Boundary rule `|i <> below : above|`: replaces an index `< 0`, or `>= extent`, once.

    The replacement itself must be in range: proved, or checked at run time.
    """

    below: Expr
    above: Expr


@dataclass(frozen=True, slots=True)
class Subscript:
    """One position of an access. With no rule the index must be in range: proved when the
    graph is compiled, or checked at run time with an error that names tensor, index and value."""

    index: Expr
    rule: Skip | Remap | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """An element of a tensor: one subscript per dimension."""

    tensor: Tensor
    subscripts: tuple[Subscript, ...]
    span: Span = field(default=NOWHERE, repr=False, compare=False)

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype


Expr = (
    Const | Symbol | Index | Local | Unary | Binary | Select | Cast | Apply | Access
)  # fmt: skip

# -------------------------------------------------------------------- tensors

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """An array with a shape of extents.

    `data`, of a constant: one scalar fills the whole tensor, a tuple lists all its elements in
    row-major order. Of a variable: the value that it has until one is set.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    data: Scalar | tuple[Scalar, ...] | None = None
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def rank(self) -> int:
        return len(self.shape)


# ----------------------------------------------------------------- operations

Reduction = Literal[
    "set",                              # = : the only value that the element gets
    "add", "mul", "min", "max", "and", "or",
    "update",                           # := : replaces, in loop order, each seeing earlier ones
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Assignment:
    """`targets[k] op= values[k]` for every point of the domain at which `condition` holds.

    The domain's indices loop in the order written, the first outermost; an index may be
    absent from targets and values, and the statement then repeats. Several targets are
    written as one unit, after all values are computed. At every point: index-only
    locals, then all guards (`Skip` anywhere in targets, locals, values or condition), then
    other locals, then the condition, then the values. A reduction combines with
    what the element holds: an earlier assignment of the operation initialises it.
    An element that no assignment writes is zero (false).
    """

    targets: tuple[Access, ...]
    op: Reduction
    values: tuple[Expr, ...]
    domain: tuple[Index, ...]
    locals: tuple[Local, ...] = ()
    condition: Expr | None = None
    span: Span = field(default=NOWHERE, repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """Computes its outputs by a list of assignments, in order.

    `name` and `attributes` say what a person wrote (`nn.conv`, `stride=[1, 1]`): they are
    shown, and nothing else may depend on them.
    """

    name: str
    outputs: tuple[Tensor, ...]
    body: tuple[Assignment, ...]
    inputs: tuple[Tensor, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    span: Span = field(default=NOWHERE, repr=False)
    calls: tuple[Call, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A part of a graph that runs when its owner says so; it may read tensors from around it."""

    operations: tuple[Step, ...]
    results: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """The results of the first branch whose condition (one bool) is true, else of the last.

    There is one branch more than there are conditions.
    """

    outputs: tuple[Tensor, ...]
    conditions: tuple[Region, ...]
    branches: tuple[Region, ...]
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Repeats a body.

    Step `i` reads the loop variables, the items `scans[k][1][i]` as `scans[k][0]`, and `index`;
    the first results of the body are the new values of the variables, the others are
    collected into packs. It ends when `count` steps are done, when a pack ends, or when
    `condition` is false, tested before the body (`pretest`) or after it. `outputs` are the
    final variables, `collected` one pack per other result, `steps` the number of steps done.
    """

    outputs: tuple[Tensor, ...]
    collected: tuple[tuple[Tensor, ...], ...]
    variables: tuple[Tensor, ...]
    initial: tuple[Tensor, ...]
    scans: tuple[tuple[Tensor, tuple[Tensor, ...]], ...]
    body: Region
    count: Expr | Tensor | None = None
    index: Tensor | None = None
    condition: Region | None = None
    pretest: bool = True
    steps: Tensor | None = None
    span: Span = field(default=NOWHERE, repr=False)


Step = Operation | Branch | Loop

# --------------------------------------------------------------------- graphs


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """A named argument or result: one tensor, or a pack of them.

    An optional input that is absent from this graph has no tensors, and is no pack.
    A pack with a `length` has so many tensors in a call; the others are zeros inside the graph.
    The length, a rank-0 integer, is the tensor of a port of its own that callers do not see.
    """

    name: str
    tensors: tuple[Tensor, ...]
    packed: bool = False
    optional: bool = False
    length: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A condition over symbols that must hold when the graph runs.

    `message` alternates text and values; `values` are labelled, for the notes.
    """

    condition: Expr
    message: tuple[str | Expr | tuple[Expr, ...], ...]
    values: tuple[tuple[str, Expr | tuple[Expr, ...]], ...] = ()
    span: Span = field(default=NOWHERE, repr=False, compare=False)
    calls: tuple[Call, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Quantization:
    """Whoever reads `tensor` is to read what `operator` makes of it; several act in their order.

    `name` is the scoped name under which a program speaks of the tensor; `attributes` are the names
    and values, as JSON, that the operator is given.
    """

    tensor: Tensor
    name: str
    operator: str
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A whole program.

    `symbols` are the sizes that the shapes of the inputs define, in the order in which they are
    bound; `sizes` pairs each size that *data* defines with the rank-0 integer tensor that
    holds it once computed. `variables` maps by `Tensor.name`, the scoped name.
    `updates` pairs a variable with the tensor that it holds after a call.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operations: tuple[Step, ...]
    variables: tuple[Tensor, ...] = ()
    constants: tuple[Tensor, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    sizes: tuple[tuple[Symbol, Tensor], ...] = ()
    checks: tuple[Check, ...] = ()
    updates: tuple[tuple[Tensor, Tensor], ...] = ()
    quantization: tuple[Quantization, ...] = ()
    span: Span = field(default=NOWHERE, repr=False)


# ----------------------------------------------------------------- shorthands


def integer(value: int) -> Const:
    """An integer literal."""
    return Const(value, DType.INT)


ZERO = integer(0)
ONE = integer(1)
TRUE = Const(True, DType.BOOL)
FALSE = Const(False, DType.BOOL)
INFINITY = Const(math.inf, DType.REAL)
