"""The syntax tree of SkriptND: what a parser reads and a printer writes.

Both dialects of the language give the same tree, in the draft's terms: minimum is `<<`
and maximum `>>` wherever they are operators, `<=` and `>=` where they accumulate.
Every node carries the span of its text. Section numbers are those of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from ...records import dataclass
from ...source import NOWHERE, Source, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Whatever has a place in the text; equality ignores the place."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


# ------------------------------------------------------------- expressions 2.4


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """`1`, `1.5e-3`, `true`, `inf`, `pi`, `"text"`; `text` is as written (strings: the value)."""

    value: bool | int | float | str
    text: str


@dataclass(frozen=True, slots=True)
class Format(Node):
    """A string with substitutions: texts and expressions, in order."""

    parts: tuple[str | Expr, ...]


@dataclass(frozen=True, slots=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Member(Node):
    """`x.shape`, `x.rank` or `x.size`."""

    name: str
    member: str


@dataclass(frozen=True, slots=True)
class Omitted(Node):
    """`~` among arguments, results or extents."""


@dataclass(frozen=True, slots=True)
class Range(Node):
    """`b:e:s`, an item of a list, or a whole subscript, whose ends may be missing."""

    begin: Expr | None
    end: Expr | None
    stride: Expr | None


@dataclass(frozen=True, slots=True)
class Expand(Node):
    """`x..` or `x ..(n)`, an item of a list or of an access."""

    item: Expr
    count: Expr | None


@dataclass(frozen=True, slots=True)
class Zip(Node):
    """`(a, b)..`, an item of a list."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class List(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """`p[i]`: an index, a pack of indices, a mask, or a `Range`."""

    pack: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Substitute(Node):
    """`p[i] <- v`."""

    pack: Expr
    index: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Bounded(Node):
    """`|i|` or `|i <> below : above|`."""

    index: Expr
    below: Expr | None
    above: Expr | None


@dataclass(frozen=True, slots=True)
class Access(Node):
    """`x[i, j..]` or `x[k][i,]`: elements of a tensor (`tensor` is a `Name`, or a `Subscript`
    of one). A lone `:` of the later dialect is a `Range` without ends."""

    tensor: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`op` is one of `+ - !`."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    r"""`op` is one of `+ - * / \ % ** << >> < <= > >= == != && || ^ => is in`."""

    op: str
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`c ? x : y`, or `c ? x`, which is null where `c` is false."""

    condition: Expr
    then: Expr
    otherwise: Expr | None


@dataclass(frozen=True, slots=True)
class Coalesce(Node):
    """`x ?? y`."""

    value: Expr
    fallback: Expr


@dataclass(frozen=True, slots=True)
class NullTest(Node):
    """`?x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Fold(Node):
    r"""`x op ..`, or cumulative `x op ...`; `op` is one of `+ * << >> && || < <= > >= == != :=`."""

    op: str
    operand: Expr
    cumulative: bool


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`T(x)`, or `T()`, the default value; `type` is a concrete type or a generic name."""

    type: str
    operand: Expr | None


@dataclass(frozen=True, slots=True)
class Builtin(Node):
    """`` `sqrt`(x) ``."""

    function: str
    operand: Expr


Expr = (
    Literal | Format | Name | Member | Omitted | Range | Expand | Zip | List | Subscript
    | Substitute | Bounded | Access | Unary | Binary | Select | Coalesce | NullTest | Fold
    | Cast | Builtin
)  # fmt: skip

# ----------------------------------------------------- declarations 2.3, 2.5-2.9


@dataclass(frozen=True, slots=True)
class Pack(Node):
    """`..` or `..(n)` after a type, an extent or a result; `~|bound` leaves the length open."""

    length: Expr | None = None
    bound: Expr | None = None
    marker: str = ""
    """`static` or `dynamic`, as the later dialect writes; else empty."""


@dataclass(frozen=True, slots=True)
class Extent(Node):
    """One item of a shape: `[static] [..] (expr | ~) [| bound] [.. [(count)]]`."""

    size: Expr
    """An `Omitted` is `~`."""
    distinct: bool = False
    """`..n`: an extent of its own for every tensor of a pack."""
    bound: Expr | None = None
    pack: Pack | None = None
    static: bool = False


@dataclass(frozen=True, slots=True)
class Type(Node):
    """`[optional] [dynamic] name [^(rank)] [shape] [..(n)]`; no shape: not a tensor, or omitted."""

    name: str
    optional: bool = False
    dynamic: bool = False
    rank: str | None = None
    shape: tuple[Extent, ...] | None = None
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class TypeParameter(Node):
    """A line of `@dtype`."""

    name: str
    base: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Bound(Node):
    """`i < n` after a formula."""

    name: str
    extent: Expr


@dataclass(frozen=True, slots=True)
class Parameter(Node):
    """A line of `@attrib`, `@input`, `@output`, `@constant` or `@variable`."""

    name: str
    type: Type
    default: Expr | None = None
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class UsingName(Node):
    """A name on the left of `@using`; `pack` where `..` follows it."""

    name: str
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class UsingZip(Node):
    """`(a, b)..` in a list on the left of `@using`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Using(Node):
    """`name = e`, or `[a, b.., c] = e` (`items` in brackets)."""

    items: tuple[UsingName | UsingZip, ...]
    value: Expr
    listed: bool


@dataclass(frozen=True, slots=True)
class Print(Node):
    """A value printed with the message of an assert; the label is as written, or empty."""

    label: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Assertion(Node):
    condition: Expr
    message: Expr | None
    prints: tuple[Print, ...]


# ------------------------------------------------------------- formulas 2.12


@dataclass(frozen=True, slots=True)
class Count(Node):
    """`..(i -> n)` of a loop; either part may be missing."""

    index: str | None
    count: Expr | None


@dataclass(frozen=True, slots=True)
class LocalValue(Node):
    """`z = e,` before a formula."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Lowering(Node):
    """A line of `@lower`; `op` is one of `= := += *= &= |= <= >=`."""

    unroll: Count | None
    locals: tuple[LocalValue, ...]
    target: Expr
    op: str
    value: Expr
    bounds: tuple[Bound, ...]
    condition: Expr | None


# ----------------------------------------------------------- composition 2.10


@dataclass(frozen=True, slots=True)
class Result(Node):
    """`y`, `ys..(n)` or `y: real[2,3]` on the left of a component."""

    name: str
    type: Type | None = None
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class ResultList(Node):
    """`[a, b..(k)]` on the left of a component: one packed result, taken apart."""

    items: tuple[Result | Omitted, ...]


@dataclass(frozen=True, slots=True)
class Argument(Node):
    """`name = e` in the braces of an invocation."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Invocation(Node):
    label: str | None
    callee: tuple[str, ...]
    types: tuple[str, ...]
    attributes: tuple[Argument, ...]
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Block(Node):
    """`{ ... yield y, z; }`."""

    label: str | None
    components: tuple[Component, ...]
    results: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Branch(Node):
    """`if c then x {elif c then x} else x`; one branch more than conditions."""

    conditions: tuple[Callable, ...]
    branches: tuple[Callable, ...]


@dataclass(frozen=True, slots=True)
class Carried(Node):
    """`v [: type] = e` after `with`."""

    name: str
    type: Type | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Scan(Node):
    """`v : pack` after `for`."""

    name: str
    pack: Expr


@dataclass(frozen=True, slots=True)
class Loop(Node):
    carried: tuple[Carried, ...]
    scans: tuple[Scan, ...]
    condition: Callable | None
    pretest: bool
    unroll: bool
    count: Count | None
    body: Callable


Callable = Invocation | Block | Expr
Action = Invocation | Block | Branch | Loop | Expr


@dataclass(frozen=True, slots=True)
class Component(Node):
    """A line of `@compose` or `@update`."""

    results: tuple[Result | ResultList | Omitted, ...]
    action: Action


@dataclass(frozen=True, slots=True)
class Quantization(Node):
    """A line of `@quantize`: the scoped name of a tensor, and an operator with attributes."""

    tensor: tuple[str, ...]
    callee: tuple[str, ...]
    types: tuple[str, ...]
    attributes: tuple[Argument, ...]


# --------------------------------------------------- operators and modules 2.2, 2.15


@dataclass(frozen=True, slots=True)
class Operator(Node):
    """An `operator` or a `graph`; a block that is absent, or empty, is an empty tuple."""

    name: str
    graph: bool = False
    public: bool = False
    dtypes: tuple[TypeParameter, ...] = ()
    attributes: tuple[Parameter, ...] = ()
    inputs: tuple[Parameter, ...] = ()
    outputs: tuple[Parameter, ...] = ()
    constants: tuple[Parameter, ...] = ()
    variables: tuple[Parameter, ...] = ()
    using: tuple[Using, ...] = ()
    asserts: tuple[Assertion, ...] = ()
    lower: tuple[Lowering, ...] = ()
    compose: tuple[Component, ...] = ()
    update: tuple[Component, ...] = ()
    quantize: tuple[Quantization, ...] = ()
    blocks: tuple[str, ...] = ()
    """The names of the blocks that the text has, in its order."""
    name_span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Import(Node):
    """One imported module; nested folders give several parts."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Module(Node):
    """One file. `name` is its dotted name below the model folder."""

    name: str
    source: Source = field(compare=False, repr=False)
    imports: tuple[Import, ...]
    operators: Sequence[Operator]
    """A tuple, except in modules of the standard library."""
