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
from .native import has_bounds, with_state
from .pool import this_machine


def show_stage(graph: Graph, stage: str, real: str, int: str) -> str:
    """The text of the stage "loops", "llvm" or "asm"; `Error` E0805 if the graph has none."""
    if graph.symbols and not has_bounds(graph):
        names = ", ".join(f"`{s.name}`" for s in graph.symbols)
        raise error(
            "E0805", f"kernels are made when the graph is called: its sizes {names} have no bound"
        )
    program = lower(with_state(graph), {}, Types(DType(real), DType(int)))
    if stage == "loops":
        return format_program(program)
    text = program_text(program, this_machine())
    return text if stage == "llvm" else assembly(text, this_machine())
