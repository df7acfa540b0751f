"""The passes, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import config
from ..ir.loops import Buffer, Kernel, Kind, Program
from ..ir.nodes import Graph, Symbol, Tensor
from ..ir.verify import Stage, verify_graph
from .fuse import fuse
from .kernels import make_kernels
from .memory import plan_memory, split_constant
from .prune import prune, remove_dead
from .specialise import Types, specialise
from .views import find_views, root_of


def lower(graph: Graph, sizes: Mapping[Symbol, int], types: Types) -> Program:
    """A static graph as kernels over buffers, for given sizes of its symbols."""
    check = verify_graph if config.get("verify") else _accept
    check(graph, "composed")
    graph = specialise(graph, sizes, types)
    check(graph, "static")
    graph = prune(graph)
    check(graph, "static")
    kernels, split = make_kernels(graph)
    kernels, views = find_views(kernels, graph, split)
    kernels = fuse(kernels, _outputs(graph), views)
    kernels = remove_dead(kernels, _outputs(graph), views)
    return _program(graph, kernels, views)


def _accept(graph: Graph, stage: Stage) -> None:
    """No check."""


def _outputs(graph: Graph) -> tuple[Tensor, ...]:
    return tuple(t for p in graph.outputs for t in p.tensors)


def _program(graph: Graph, kernels: list[Kernel], views: dict[Tensor, Tensor]) -> Program:
    """Kernels and ports with their buffers."""
    inputs = tuple(t for p in graph.inputs for t in p.tensors)
    constants = tuple(t for t in graph.constants if t.data is not None)
    results = set(_outputs(graph))
    results |= {t for t in views if root_of(t, views) in results}
    early, late, kept = split_constant(kernels, (*graph.variables, *constants), results, views)
    fixed: dict[Tensor, Buffer] = {}
    kept = [t for t in kept if t not in views]
    blocks: dict[Kind, Sequence[Tensor]] = {
        "kept": kept,
        "output": _outputs(graph),
        "input": inputs,
        "variable": graph.variables,
        "constant": constants,
    }
    for kind, tensors in blocks.items():
        fixed |= {tensor: Buffer(kind, number) for number, tensor in enumerate(tensors)}
    buffers, _ = plan_memory(early, fixed, views)
    rest, arena = plan_memory(late, fixed, views)
    return Program(
        graph.name, inputs, _outputs(graph), graph.variables, constants, tuple(kept),
        tuple(early), tuple(late), {**fixed, **buffers, **rest}, arena,
    )  # fmt: skip
