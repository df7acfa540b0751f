"""What the compiler makes of a graph on the way to machine code, as text for people."""

from __future__ import annotations

from ..backends.llvm.image import program_text
from ..backends.llvm.jit import assembly
from ..diagnostics import error
from ..dtypes import DType
from ..ir.nodes import Graph
from ..ir.text_loops import format_program
from ..passes.pipeline import lower
from ..passes.specialise import Types
from .executable import check_static
from .pool import this_machine


def show_stage(graph: Graph, stage: str, real: str, int: str) -> str:
    """The text of the stage "loops", "llvm" or "asm"; `Error` E0805 if the graph has none."""
    check_static(graph)
    if graph.symbols:
        names = ", ".join(f"`{s.name}`" for s in graph.symbols)
        raise error(
            "E0805", f"kernels are made when the graph is called: its sizes {names} are open"
        )
    program = lower(graph, {}, Types(DType(real), DType(int)))
    if stage == "loops":
        return format_program(program)
    text = program_text(program, this_machine())
    return text if stage == "llvm" else assembly(text, this_machine())
