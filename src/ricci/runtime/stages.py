"""What the compiler makes of a graph on the way to machine code, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..backends.llvm.image import program_text
from ..backends.llvm.jit import assembly
from ..backends.llvm.machine import machine_of
from ..backends.llvm.target import Target
from ..backends.llvm.targets import named
from ..diagnostics import error
from ..dtypes import DType, Types
from ..ir.labels import label
from ..ir.loops import Kernel, Program, tensors_written
from ..ir.nodes import Graph, Symbol
from ..ir.text_loops import format_program
from ..passes.pipeline import lower
from ..records import replace
from .options import target_for
from .pool import this_machine, thread_count
from .signature import has_bounds, with_state


def show_stage(
    graph: Graph,
    stage: str,
    real: str,
    int: str,
    sizes: Mapping[str, Any],
    target: str = "cpu",
    kernel: str | None = None,
) -> str:
    """The text of the stage "loops", "llvm" or "asm"; `Error` E0805 if the graph has none.

    `sizes` are values for open sizes, by name: for all, or for none. `target` is "cpu", this
    machine, or the name of any processor. `kernel` is the number of a kernel, or a pattern of
    names (`find_kernels`): only these are shown.
    """
    processor = processor_of(target)
    program = lowered(graph, real, int, sizes, processor)
    numbers = None if kernel is None else find_kernels(program, kernel)
    if stage == "loops":
        return format_program(program, numbers)
    text = program_text(program, processor, numbers)
    return text if stage == "llvm" else assembly(text, processor)


def lowered(
    graph: Graph, real: str, int: str, sizes: Mapping[str, Any], processor: Target
) -> Program:
    """The kernels of a graph; `Error` E0805 if it has none before it is called."""
    types, states = Types(DType(real), DType(int)), len(graph.updates)
    machine = machine_of(processor)
    return lower(with_state(graph), _fixed(graph, sizes), types, states=states, machine=machine)


def processor_of(target: str) -> Target:
    """What code is shown for: here, for as many threads as a call has if nobody says."""
    if target == "interpreter":
        raise error("E0805", "the interpreter makes no machine code to show")
    here = replace(this_machine(), cores=thread_count(None))
    return target_for(here if target == "cpu" else named(target))


def _fixed(graph: Graph, sizes: Mapping[str, Any]) -> dict[Symbol, Any]:
    known = {s.name: s for s in graph.symbols}
    for name in sizes:
        if name not in known:
            notes = [f"it has: {', '.join(known) or 'none'}"]
            raise error("E0801", f"the graph has no open size `{name}`", notes=notes)
    absent = [f"`{name}`" for name in known if name not in sizes]
    if absent and (sizes or not has_bounds(graph)):
        shown = ", ".join(absent)
        raise error(
            "E0805",
            f"kernels are made when the graph is called: its sizes {shown} have no value",
            help="--set NAME=N, or `sizes` of `show`, gives one",
        )
    return {known[name]: value for name, value in sizes.items()}


def find_kernels(program: Program, wanted: str) -> list[int]:
    """The numbers of the kernels that a number, or a pattern with `*` and `?`, means.

    A pattern is for the label of a kernel, or the name of a tensor that it writes, with or without
    that of the graph; without `*` and `?`, for a part of one. Raises `Error` E0801 for none.
    """
    kernels = list(enumerate(program.kernels))
    if wanted.isdecimal():
        found = [number for number, _ in kernels if str(number) == wanted.lstrip("0").rjust(1, "0")]
    else:
        pattern = wanted if set(wanted) & set("*?") else f"*{wanted}*"
        found = [n for n, k in kernels if _is_meant(k, pattern, f"{program.name}.")]
    if not found:
        shown = [f"{n}: {label(k)}" for n, k in kernels[:_MOST_SHOWN]]
        more = [f"and {len(kernels) - _MOST_SHOWN} more"] if len(kernels) > _MOST_SHOWN else []
        notes = [f"it has {line}" for line in shown] + more
        raise error("E0801", f"there is no kernel `{wanted}`", notes=notes)
    return found


_MOST_SHOWN = 10


def _is_meant(kernel: Kernel, pattern: str, prefix: str) -> bool:
    names = [label(kernel), *(t.name for t in tensors_written(kernel))]
    names += [o.name for o in kernel.operations]
    names += [name.removeprefix(prefix) for name in names]
    return any(fnmatchcase(name, pattern) for name in names)
