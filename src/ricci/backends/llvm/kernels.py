"""From a kernel to native code: the contract between generators and the rest of the engine.

A generator writes one LLVM function

    define void @kernel(ptr %table, ptr %scratch, i64 %begin, i64 %end)

that does the independent pieces of work (*chunks*) `begin <= c < end`. `%table` is the kernel's
own table of pointers: entry 0 is its error record, entry `1 + s` the first element of
`KernelCode.tensors[s]`. So kernels that differ only in the tensors they work on have
equal text, and are compiled once. `%scratch` is private to the running thread.

A tensor is row-major by the sizes of the call, whatever room its buffer has.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.loops import Group, Kernel, Reduce
from ...ir.nodes import Symbol, Tensor
from ...records import dataclass
from .schedule import Chain, Nest, Schedule, checked, impossible
from .sizes import Size, is_open
from .steps import Site
from .target import Target

Strides = Mapping[Tensor, tuple[Size, ...]]
"""Strides in elements of the tensors that are not row-major."""


@dataclass(frozen=True, slots=True)
class KernelCode:
    """The native code of one kernel.

    `text` defines `@kernel` and whatever else it needs, the other names local to it
    (`internal`, and beginning with `kernel.`); `declarations` are external names. `scratch` counts
    bytes per thread (64-byte aligned). `prepare` runs once whenever a variable or constant that it
    reads is set, before any run of the kernel: it writes tensors that live as long as the
    executable, which `tensors` of the kernel then lists (the packed operand, say).
    `work` is a rough count of the nanoseconds that all chunks take on one thread.

    The entries of the table after those of the tensors point to i64 cells with the values of
    `sizes`, which do not change while the kernel runs. If `counted`, the text also defines
    `i64 @kernel.count(ptr %table)`: into how many chunks the work divides for these sizes (0: there
    is none; 1: it is not worth sharing), `chunks` at most.
    """

    text: str
    tensors: tuple[Tensor, ...]
    chunks: int
    declarations: frozenset[str] = frozenset()
    scratch: int = 0
    sites: tuple[Site, ...] = ()
    work: float = 0.0
    prepare: tuple[Prepare, ...] = ()
    sizes: tuple[Symbol, ...] = ()
    counted: bool = False
    template: str = "nest"
    """What kind of code it is, for people."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Code that derives `output`, a new tensor kept by the executable, from constant ones."""

    code: KernelCode
    output: Tensor


def generate(
    kernel: Kernel,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor] = frozenset(),
    schedule: Schedule | None = None,
) -> KernelCode:
    """The code of a kernel, by a schedule or as the cost models find best.

    `constant` are the tensors whose elements change between calls only when somebody sets a
    variable: what is derived from them may be prepared. Raises `Error` E0807 if the kernel cannot
    be computed by the schedule.
    """
    from . import contraction, contraction_open, nest

    if schedule is not None:
        return _follow(kernel, checked(schedule), strides, target, constant)
    if isinstance(kernel, Reduce):
        match = contraction_open.match if is_open(kernel) else contraction.match
        code = match(kernel, strides, target, constant)
        if code is not None:
            return code
    return nest.generate(kernel, strides, target, constant=constant)


def _follow(
    kernel: Kernel,
    schedule: Schedule,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> KernelCode:
    from . import contraction, nest, nest_group

    if is_open(kernel):
        raise impossible("it is for kernels of known sizes", kernel.name)
    if isinstance(kernel, Group) and isinstance(schedule, Chain):
        return nest_group.write_group(kernel, strides, target, constant, schedule)
    if not isinstance(kernel, Reduce) or isinstance(schedule, Chain):
        raise impossible("it is for another kind of kernel", kernel.name)
    if isinstance(schedule, Nest):
        return nest.generate(kernel, strides, target, schedule)
    return contraction.follow(kernel, schedule, strides, target, constant)


def choose(
    kernel: Kernel, strides: Strides, target: Target, constant: frozenset[Tensor] = frozenset()
) -> Schedule | None:
    """The schedule that `generate` follows if none is given; None for a kernel that has none."""
    from . import contraction, nest, nest_group

    if isinstance(kernel, Group) and not is_open(kernel):
        return nest_group.choose_chain(kernel, strides, target, constant)
    if not isinstance(kernel, Reduce) or is_open(kernel):
        return None
    chosen = contraction.choose(kernel, strides, target, constant)
    return nest.choose(kernel, strides, target, constant) if chosen is None else chosen
