"""The page of a graph as it is compiled, or of a call that has been measured."""

from __future__ import annotations

from collections.abc import Mapping

from ..backends.llvm.image import arrange
from ..ir.nodes import Graph
from ..runtime.native import Trial
from ..runtime.profile import profile
from ..runtime.stages import lowered, processor_of
from .contents import Contents, largest_sizes
from .page import make_page


def page_of_graph(
    graph: Graph, title: str, real: str, int: str, sizes: Mapping[str, int], target: str = "cpu"
) -> str:
    """The page of a graph; open sizes are as large as they can be, or all have a value in `sizes`.

    Raises `Error` as `runtime.stages.show_stage` does.
    """
    processor = processor_of(target)
    program = lowered(graph, real, int, sizes, processor)
    image, _, _ = arrange(program, processor)
    return make_page(Contents(title, program, image.steps, None, largest_sizes(program)))


def page_of_call(trial: Trial, title: str, rounds: int) -> str:
    """The page of a call, with the time of each kernel in so many rounds."""
    found = profile(trial, rounds)
    steps = trial.weights.loaded.image.steps
    return make_page(Contents(title, trial.program, steps, found, found.sizes))
