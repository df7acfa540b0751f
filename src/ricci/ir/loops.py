"""The lower level of the representation: kernels over buffers, and the jumps between them.

A `Kernel` is one pass over memory that native code is generated for. It is made from one or
several fused assignments; every dtype is concrete, and an extent is an integer or an expression
over the sizes of a call. Scalar expressions are those of `ir.nodes`, reading tensors that a
`Program` maps to buffers. The `operations` of a kernel are those whose formulas are in it: people
are told of them, and nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Literal

from ..records import dataclass
from ..source import NOWHERE, Span
from .nodes import (
    Access,
    Assignment,
    Expr,
    Index,
    Local,
    Operation,
    Reduction,
    Symbol,
    Tensor,
)
from .rewrite import accesses

Kind = Literal["input", "output", "variable", "constant", "kept", "arena", "size", "pointer"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a tensor's elements are: in block `number` of a kind, row-major if without strides.

    Inputs, outputs, variables and constants are numbered as in `Program`; a `kept` block lives as
    long as the executable, and is written when a variable is set. The arena is one block per
    running call: `offset` counts bytes into it. A `size` is a 64-bit cell of a call, a `pointer`
    the item that a `Point` has chosen.
    """

    kind: Kind
    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """For every point of `domain`, in any order and in parallel:

        acc[k] = initial[k]                              for all k
        for every point of `reduced`:  acc[k] op= values[k]
        targets[k] = results[k]                          which may read acc (the locals)

    `targets` cover distinct elements for distinct points, and subscripts of targets hold plain
    indices of `domain` (or constants); those of what writes a part may be linear in an index
    each. `initial` and `results` range over `domain`. A `Skip` that is out of range, or a false
    `condition`, leaves out that term of the reduction. With no `reduced` indices `values` may be
    empty, and `initial` is then the value; otherwise there is one term, and `op` "set" replaces the
    initial value by it. A kernel whose `initial` reads its own targets reads each element where it
    writes it. If `op` is "update", the points of `reduced` come in order, and `values` and
    `condition` may read the accumulators, which they replace together. If it `leaves`, nothing in
    the program reads what it writes, which is large. Of what is done `again`, several threads may
    compute the same results: these never hold anything else.
    """

    name: str
    targets: tuple[Access, ...]
    domain: tuple[Index, ...]
    reduced: tuple[Index, ...]
    op: Reduction
    initial: tuple[Expr, ...]
    values: tuple[Expr, ...]
    accumulators: tuple[Local, ...]
    results: tuple[Expr, ...]
    locals: tuple[Local, ...] = ()
    condition: Expr | None = None
    span: Span = field(default=NOWHERE, repr=False)
    operations: tuple[Operation, ...] = field(default=(), repr=False)
    leaves: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """One assignment as it stands, its loops in the order written: for targets that may coincide
    or leave gaps, and for `:=`. `parallel` counts the leading indices whose iterations are
    independent of each other."""

    name: str
    assignment: Assignment
    parallel: int = 0
    span: Span = field(default=NOWHERE, repr=False)
    operations: tuple[Operation, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """Sets every element of a tensor to zero."""

    name: str
    tensor: Tensor
    span: Span = field(default=NOWHERE, repr=False)
    operations: tuple[Operation, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Bands:
    """How kernels are done a few rows at a time: `rows` are the indices of theirs, of which the
    last one's has `height` values in a band. The others do the rows that later ones read."""

    rows: tuple[Index, ...]
    height: int


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Several `Reduce` done together: for every point of `shared`, in any order and in parallel,
    each of them in turn.

    The domain of each begins with `shared`. What one of them writes at a point of `shared`, others
    read at the same point only. Of `local` tensors, which nothing else reads, only the elements of
    one point are kept, by each thread; if there are `bands`, of one band, and the domain of each
    kernel goes on with the index of its rows.
    """

    name: str
    shared: tuple[Index, ...]
    kernels: tuple[Reduce, ...]
    local: tuple[Tensor, ...] = ()
    pieces: tuple[int, ...] = ()
    """The numbers of kernels next to one another that share the next index of their domains, too:
    they are done in turn at each of its values."""
    bands: Bands | None = None
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(dict.fromkeys(o for k in self.kernels for o in k.operations))


Kernel = Reduce | Scatter | Fill | Group


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """Lets `item`, which has no bytes of its own, stand for `pack[index]` from here on; or for what
    is `index` times `step` bytes behind the only one of the pack, if a step is given."""

    item: Tensor
    pack: tuple[Tensor, ...]
    index: Tensor
    step: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Choose:
    """One of two blocks, by a bool of rank 0."""

    test: Tensor
    then: Block
    otherwise: Block


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """`before`, then the end if the bool `test` is false, then `body`; and again. If it `ends`, as
    all know, its rounds are not counted."""

    before: Block
    test: Tensor
    body: Block
    ends: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """The end of the call if a check has failed so far."""


Action = Kernel | Point | Choose | Repeat | Stop
Block = tuple[Action, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole graph as kernels in order, with the buffers of all tensors that they touch.

    `prepare` are the kernels that depend on variables and constants alone: they run whenever one
    is set. `symbols` are the sizes of a call: cell `k` of kind `size` holds that of `symbols[k]`,
    never beyond its bound. The last `defined` of them are set by kernels; for each, a cell
    after those of all symbols gets the value that the data asks for. Then come the cells of
    `checks`, which are not 0 where one has failed. `buffers` has no entry for a tensor that needs
    none.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    variables: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    prepare: tuple[Kernel, ...]
    actions: Block
    buffers: dict[Tensor, Buffer]
    arena: int
    """Bytes of the block that the arena buffers share."""
    symbols: tuple[Symbol, ...] = ()
    defined: int = 0
    checks: int = 0
    strides: Mapping[Tensor, tuple[int, ...]] = field(default_factory=dict)
    """Strides in elements of the tensors that are not row-major."""
    states: int = 0
    """So many of the last outputs are the last inputs, changed in place."""
    room: tuple[tuple[int, int, int], ...] = ()
    """For each of the actions, from which byte of the arena to which there is nothing meanwhile,
    and behind which; if that is not said, there may be something everywhere."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """All kernels of `actions`, also those in loops and branches, in order."""
        return tuple(a for a in all_actions(self.actions) if isinstance(a, Kernel))


def all_actions(block: Block) -> Iterator[Action]:
    """The actions of a block and of the blocks in them, outer ones first."""
    for action in block:
        yield action
        match action:
            case Choose():
                yield from all_actions((*action.then, *action.otherwise))
            case Repeat():
                yield from all_actions((*action.before, *action.body))


def tensors_written(kernel: Kernel) -> tuple[Tensor, ...]:
    """The tensors that a kernel writes, but for those local to it."""
    match kernel:
        case Fill():
            return (kernel.tensor,)
        case Scatter():
            return tuple(dict.fromkeys(t.tensor for t in kernel.assignment.targets))
        case Reduce():
            return tuple(dict.fromkeys(t.tensor for t in kernel.targets))
        case Group():
            made = dict.fromkeys(t for k in kernel.kernels for t in tensors_written(k))
            return tuple(t for t in made if t not in kernel.local)


def expressions_of(kernel: Kernel) -> tuple[Expr, ...]:
    """All expressions that a kernel evaluates; the subscripts of targets are among them."""
    match kernel:
        case Fill():
            return ()
        case Scatter():
            a = kernel.assignment
            rest = () if a.condition is None else (a.condition,)
            return (*a.targets, *a.values, *a.locals, *rest)
        case Reduce():
            rest = () if kernel.condition is None else (kernel.condition,)
            return (*kernel.initial, *kernel.values, *kernel.results, *kernel.locals, *rest)
        case Group():
            return tuple(e for k in kernel.kernels for e in expressions_of(k))


@lru_cache(4096)  # passes ask this of the same kernels again and again
def tensors_touched(kernel: Kernel) -> tuple[Tensor, ...]:
    """The tensors that a kernel reads or writes, each once, but for those local to it."""
    read = (a.tensor for a in accesses(*expressions_of(kernel)))
    touched = dict.fromkeys((*tensors_written(kernel), *read))
    local = kernel.local if isinstance(kernel, Group) else ()
    return tuple(t for t in touched if t not in local)
