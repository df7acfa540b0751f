"""The text form of the lower level, for people: kernels in order, and where tensors are."""

from __future__ import annotations

from collections.abc import Sequence

from .loops import Buffer, Fill, Kernel, Program, Reduce, Scatter, tensors_touched
from .nodes import Expr, Index, Local, Tensor
from .text_print import ASSIGN, Names, format_assignment, format_expr


def format_program(program: Program) -> str:
    """All kernels of a program with the buffers that they touch."""
    names = Names()
    lines = [f"program {program.name}, arena of {program.arena} bytes"]
    for title, kernels in (("prepare", program.prepare), ("kernel", program.kernels)):
        for number, kernel in enumerate(kernels):
            lines += ["", f"{title} {number}: {kernel.name}"]
            lines += [f"  {line}" for line in _format_kernel(kernel, names)]
            lines += [f"    {_place(t, program, names)}" for t in tensors_touched(kernel)]
    return "\n".join(lines) + "\n"


def _format_kernel(kernel: Kernel, outer: Names) -> list[str]:
    names = Names(outer)
    match kernel:
        case Fill():
            return [f"{outer.of(kernel.tensor)}[...] = 0"]
        case Scatter():
            parallel = f"  ({kernel.parallel} parallel)" if kernel.parallel else ""
            return [format_assignment(kernel.assignment, outer) + parallel]
        case Reduce():
            return _format_reduce(kernel, names)


def _format_reduce(kernel: Reduce, names: Names) -> list[str]:
    """The three parts of a reduction; the first and last stand outside the inner loops."""
    lines = [f"for {_bounds(kernel.domain, names)}:" if kernel.domain else "once:"]
    accumulators = ", ".join(names.of(a) for a in kernel.accumulators)
    lines += [f"  {line}" for line in _locals(kernel.locals, names)]
    if kernel.initial:
        lines.append(f"  {accumulators} = {_list(kernel.initial, names)}")
    if kernel.values:
        inside = f" for {_bounds(kernel.reduced, names)}" if kernel.reduced else ""
        condition = kernel.condition
        guard = "" if condition is None else f" if {format_expr(condition, names)}"
        value = _list(kernel.values, names)
        lines.append(f"  {accumulators} {ASSIGN[kernel.op]} {value}{inside}{guard}")
    lines.append(f"  {_list(kernel.targets, names)} = {_list(kernel.results, names)}")
    return lines


def _locals(locals: Sequence[Local], names: Names) -> list[str]:
    return [f"{names.of(x)} = {format_expr(x.value, names)}" for x in locals]


def _bounds(indices: Sequence[Index], names: Names) -> str:
    return ", ".join(f"{names.of(i)} < {format_expr(i.extent, names)}" for i in indices)


def _list(expressions: Sequence[Expr], names: Names) -> str:
    return ", ".join(format_expr(e, names) for e in expressions)


def _place(tensor: Tensor, program: Program, names: Names) -> str:
    shape = ", ".join(format_expr(e, names) for e in tensor.shape)
    buffer = program.buffers.get(tensor)
    return f"{names.of(tensor)}: {tensor.dtype}[{shape}] in {_buffer(buffer)}"


def _buffer(buffer: Buffer | None) -> str:
    if buffer is None:
        return "no buffer"
    offset = f" + {buffer.offset}" if buffer.offset else ""
    return f"{buffer.kind} {buffer.number}{offset}"
