"""What kernels are called before people."""

from __future__ import annotations

from .loops import Kernel, Program
from .nodes import Tensor
from .text_print import format_expr


def label(kernel: Kernel) -> str:
    """A kernel by the operations that are in it: `nn.conv + math.add + nn.relu`."""
    names = dict.fromkeys(o.name for o in kernel.operations)
    return " + ".join(names) or kernel.name


def scope_of(kernel: Kernel, program: Program) -> str:
    """The scope that all variables of a kernel's operations are in, without the graph's:
    `stage1.block.reduce`."""
    prefix = f"{program.name}."
    variables = {t.name for t in program.variables}
    inputs = {t.name for o in kernel.operations for t in o.inputs} & variables
    paths = [name.removeprefix(prefix).split(".")[:-1] for name in inputs]
    common: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def short_name(tensor: Tensor, program: Program, kernel: Kernel | None = None) -> str:
    """The name of a tensor without the graph's; one that has no name in the program is shown in the
    scope of the `kernel` that writes it: `stage1.block.reduce.T15`."""
    name = tensor.name.removeprefix(f"{program.name}.")
    return name if kernel is None or name[:1] != "." else scope_of(kernel, program) + name


def shown(tensor: Tensor, program: Program, kernel: Kernel | None = None) -> str:
    """`name: dtype[shape]`."""
    shape = ", ".join(format_expr(e) for e in tensor.shape)
    return f"{short_name(tensor, program, kernel)}: {tensor.dtype}[{shape}]"
