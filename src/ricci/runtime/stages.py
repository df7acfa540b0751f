"""What the compiler makes of a graph on the way to machine code, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backends.llvm.image import program_text
from ..backends.llvm.jit import assembly
from ..diagnostics import error
from ..dtypes import DType
from ..ir.nodes import Graph, Symbol
from ..ir.text_loops import format_program
from ..passes.pipeline import lower
from ..passes.specialise import Types
from .native import has_bounds, with_state
from .pool import this_machine


def show_stage(graph: Graph, stage: str, real: str, int: str, sizes: Mapping[str, Any]) -> str:
    """The text of the stage "loops", "llvm" or "asm"; `Error` E0805 if the graph has none.

    `sizes` are values for open sizes, by name: for all, or for none.
    """
    program = lower(with_state(graph), _fixed(graph, sizes), Types(DType(real), DType(int)))
    if stage == "loops":
        return format_program(program)
    text = program_text(program, this_machine())
    return text if stage == "llvm" else assembly(text, this_machine())


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
