"""The text form of the lower level, for people: kernels in order, and where tensors are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from .labels import label
from .loops import (
    Block,
    Buffer,
    Choose,
    Fill,
    Group,
    Kernel,
    Point,
    Program,
    Reduce,
    Repeat,
    Scatter,
    Stop,
    tensors_touched,
)
from .nodes import Expr, Index, Local, Tensor
from .text_print import ASSIGN, Names, format_assignment, format_expr


def format_program(program: Program, numbers: Iterable[int] | None = None) -> str:
    """All kernels of a program, or those of a call with these numbers, with the buffers that they
    touch."""
    if numbers is not None:
        return "\n".join(format_kernel(program, n) for n in numbers)
    names = Names()
    lines = [f"program {program.name}, arena of {program.arena} bytes"]
    for number, kernel in enumerate(program.prepare):
        lines += ["", f"prepare {number}: {label(kernel)}"]
        lines += [f"  {line}" for line in _format_whole(kernel, program, names)]
    lines += _format_block(program.actions, program, names, count())
    return "\n".join(lines) + "\n"


def format_kernel(program: Program, number: int, places: bool = True) -> str:
    """One kernel of a call, with the buffers that it touches if `places`."""
    kernel, names = program.kernels[number], Names()
    lines = _format_whole(kernel, program, names) if places else _format_kernel(kernel, names)
    return "\n".join([f"kernel {number}: {label(kernel)}", *(f"  {line}" for line in lines), ""])


def _format_block(
    block: Block, program: Program, names: Names, numbers: Iterator[int]
) -> list[str]:
    lines: list[str] = []

    def inner(part: Block) -> list[str]:
        return [f"  {line}" for line in _format_block(part, program, names, numbers)]

    for action in block:
        match action:
            case Point():
                pack = ", ".join(map(names.of, action.pack))
                lines += ["", f"{names.of(action.item)} is [{pack}][{names.of(action.index)}]"]
            case Choose():
                lines += ["", f"if {names.of(action.test)}:", *inner(action.then)]
                lines += ["else:", *inner(action.otherwise)] if action.otherwise else []
            case Repeat():
                lines += ["", "repeat:", *inner(action.before)]
                lines += [f"while {names.of(action.test)}:", *inner(action.body)]
            case Stop():
                lines += ["", "stop if a check has failed"]
            case _:
                lines += ["", f"kernel {next(numbers)}: {label(action)}"]
                lines += [f"  {line}" for line in _format_whole(action, program, names)]
    return lines


def _format_whole(kernel: Kernel, program: Program, names: Names) -> list[str]:
    """A kernel and where its tensors are."""
    places = [f"  {_place(t, program, names)}" for t in tensors_touched(kernel)]
    return [*_format_kernel(kernel, names), *places]


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
        case Group():
            shared = f" for {_bounds(kernel.shared, names)}" if kernel.shared else ""
            bands, each = "", "point"
            if kernel.bands is not None:
                rows = f"{kernel.bands.height} {names.of(kernel.bands.rows[-1])}"
                bands, each = f" in bands of {rows} of the last", "band"
            parts = _format_parts(kernel, names)
            local = ", ".join(map(names.of, kernel.local))
            kept = [f"  of {local} one {each} each"] if local else []
            return [f"together{shared}{bands}:", *kept, *(f"  {line}" for line in parts)]


def _format_parts(group: Group, names: Names) -> list[str]:
    """The kernels of a group; what is done piece by piece stands under the pieces."""
    lines: list[str] = []
    for number, kernel in enumerate(group.kernels):
        indent = "  " if number in group.pieces else ""
        if group.pieces[:1] == (number,):
            piece = kernel.domain[len(group.shared)]
            lines.append(f"together for {_bounds([piece], Names(names))}:")
        lines += [f"{indent}{line}" for line in _format_reduce(kernel, Names(names))]
    return lines


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
