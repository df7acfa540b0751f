"""What does not reach a result is removed; every result gets a tensor of its own.

Requires: a specialised graph, or kernels. Ensures: each operation or kernel reaches an output or an
update; output ports hold distinct tensors, each computed by an operation. Does not: look inside
operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.loops import Kernel, tensors_touched, tensors_written
from ..ir.nodes import (
    Access,
    Assignment,
    Branch,
    Graph,
    Index,
    Loop,
    Operation,
    Port,
    Region,
    Step,
    Subscript,
    Tensor,
)
from ..ir.rewrite import all_steps, loop_results, step_tensors, tensors_read
from ..records import replace
from .views import root_of


def prune(graph: Graph) -> Graph:
    """Remove operations without effect, and copy results that are arguments or occur twice."""
    graph = _with_own_outputs(graph)
    needed = {t for p in graph.outputs for t in p.tensors} | {t for _, t in graph.updates}
    needed |= {t for _, t in graph.sizes}
    return replace(graph, operations=_needed(graph.operations, needed))


def _needed(steps: Sequence[Step], needed: set[Tensor]) -> tuple[Step, ...]:
    """The steps that have an effect on `needed`, to which what they read is added."""
    kept: list[Step] = []
    for step in reversed(steps):
        match step:
            case Operation():
                if needed.isdisjoint(step.outputs):
                    continue
                for assignment in step.body:
                    needed.update(tensors_read(assignment))
            case Branch():
                if not _defines(step, needed):
                    continue
                step = replace(
                    step,
                    branches=tuple(_pruned(r, needed) for r in step.branches),
                    conditions=tuple(_pruned(r, needed) for r in step.conditions),
                )
            case Loop():
                if not _defines(step, needed):
                    continue
                condition = step.condition
                condition = None if condition is None else _pruned(condition, needed)
                step = replace(step, body=_pruned(step.body, needed), condition=condition)
                needed.update((*step.initial, *(t for _, pack in step.scans for t in pack)))
                needed.update([step.count] if isinstance(step.count, Tensor) else [])
        kept.append(step)
    return tuple(reversed(kept))


def _defines(step: Step, needed: set[Tensor]) -> bool:
    """Whether a control structure, or something in it, gives one of these tensors."""
    return any(
        not needed.isdisjoint(
            (*loop_results(s), *step_tensors(s)) if isinstance(s, Loop) else s.outputs
        )
        for s in all_steps((step,))
    )


def _pruned(region: Region, needed: set[Tensor]) -> Region:
    needed.update(region.results)
    return Region(_needed(region.operations, needed), region.results)


def _with_own_outputs(graph: Graph) -> Graph:
    taken = {t for p in graph.inputs for t in p.tensors} | {*graph.variables, *graph.constants}
    copies: list[Operation] = []
    ports: list[Port] = []
    for port in graph.outputs:
        tensors = []
        for tensor in port.tensors:
            if tensor in taken:
                copies.append(_copy(tensor))
                tensor = copies[-1].outputs[0]
            taken.add(tensor)
            tensors.append(tensor)
        ports.append(replace(port, tensors=tuple(tensors)))
    return replace(graph, operations=(*graph.operations, *copies), outputs=tuple(ports))


def _copy(tensor: Tensor) -> Operation:
    """An operation that gives the same elements under a new tensor."""
    new = Tensor(tensor.name, tensor.dtype, tensor.shape, None, tensor.span)
    domain = tuple(Index(f"i{d}", e) for d, e in enumerate(tensor.shape))
    subscripts = tuple(Subscript(i) for i in domain)
    body = Assignment((Access(new, subscripts),), "set", (Access(tensor, subscripts),), domain)
    return Operation("=", (new,), (body,), (tensor,), (), tensor.span)


def remove_dead(
    kernels: Sequence[Kernel], outputs: Sequence[Tensor], views: Mapping[Tensor, Tensor]
) -> list[Kernel]:
    """The kernels whose results are used."""
    needed = {root_of(t, views) for t in outputs}
    kept: list[Kernel] = []
    for kernel in reversed(kernels):
        if needed.isdisjoint(root_of(t, views) for t in tensors_written(kernel)):
            continue
        kept.append(kernel)
        needed.update(root_of(t, views) for t in tensors_touched(kernel))
    return kept[::-1]
