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


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a tensor's elements are.

    `slot` numbers the pointer table of a program; arena buffers share one slot-less block and
    are found at `offset` bytes into it. `strides` count elements; row-major unless
    a layout pass chose otherwise.
    """

    kind: Literal["input", "output", "variable", "constant", "arena"]
    slot: int
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """For every point of `domain`, in any order and in parallel:

        acc[k] = initial[k]                              for all k
        for every point of `reduced`:  acc[k] op= values[k]
        targets[k] = results[k]                          which may read acc (the locals)

    `targets` cover distinct elements for distinct points, and subscripts of targets hold plain
    indices of `domain` (or constants). `initial` and `results` range over `domain`. A `Skip` that is
    out of range, or a false `condition`, leaves out that term of the reduction.
    With no `reduced` indices `op` is "set", `values` are empty and `initial` is the value.
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
    """A whole graph as kernels in order, with the buffers of all tensors that they touch."""

    name: str
    kernels: tuple[Kernel, ...]
    buffers: dict[Tensor, Buffer]
    arena: int
    """Bytes of the block that the arena buffers share."""
