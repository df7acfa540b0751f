"""The lower level of the representation: kernels over buffers.

A `Kernel` is one pass over memory that native code is generated for. It is made from one or
several fused assignments; every extent is a plain integer and every dtype concrete. Scalar
expressions are those of `ir.nodes`, reading tensors that a `Program` maps to buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..source import NOWHERE, Span
from .nodes import Access, Assignment, Expr, Index, Local, Reduction, Tensor
from .rewrite import accesses

Kind = Literal["input", "output", "variable", "constant", "kept", "arena"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a tensor's elements are: row-major in block `number` of a kind.

    Inputs, outputs, variables and constants are numbered as in `Program`; a `kept` block lives as
    long as the executable, and is written when a variable is set. The arena is one block per
    running call: `offset` counts bytes into it.
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
    indices of `domain` (or constants). `initial` and `results` range over `domain`. A `Skip` that
    is out of range, or a false `condition`, leaves out that term of the reduction. With no
    `reduced` indices `values` may be empty, and `initial` is then the value; otherwise there is
    one term, and `op` "set" replaces the initial value by it. A kernel whose `initial` reads its
    own targets reads each element where it writes it.
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


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """One assignment as it stands, its loops in the order written: for targets that may coincide
    or leave gaps, and for `:=`. `parallel` counts the leading indices whose iterations are
    independent of each other."""

    name: str
    assignment: Assignment
    parallel: int = 0
    span: Span = field(default=NOWHERE, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """Sets every element of a tensor to zero."""

    name: str
    tensor: Tensor
    span: Span = field(default=NOWHERE, repr=False)


Kernel = Reduce | Scatter | Fill


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A whole graph as kernels in order, with the buffers of all tensors that they touch.

    `prepare` are the kernels that depend on variables and constants alone: they run whenever one
    is set. `buffers` has no entry for a tensor that needs none.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    variables: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    kept: tuple[Tensor, ...]
    prepare: tuple[Kernel, ...]
    kernels: tuple[Kernel, ...]
    buffers: dict[Tensor, Buffer]
    arena: int
    """Bytes of the block that the arena buffers share."""


def tensors_written(kernel: Kernel) -> tuple[Tensor, ...]:
    """The tensors that a kernel writes."""
    match kernel:
        case Fill():
            return (kernel.tensor,)
        case Scatter():
            return tuple(dict.fromkeys(t.tensor for t in kernel.assignment.targets))
        case Reduce():
            return tuple(dict.fromkeys(t.tensor for t in kernel.targets))


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


def tensors_touched(kernel: Kernel) -> tuple[Tensor, ...]:
    """The tensors that a kernel reads or writes, each once."""
    read = (a.tensor for a in accesses(*expressions_of(kernel)))
    return tuple(dict.fromkeys((*tensors_written(kernel), *read)))
