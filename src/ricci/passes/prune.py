"""What does not reach a result is removed; every result gets a tensor of its own.

Requires: a specialised graph, or kernels. Ensures: each operation or kernel reaches an output or an
update; output ports hold distinct tensors, each computed by an operation. Does not: look inside
operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from ..ir.loops import Kernel, tensors_touched, tensors_written
from ..ir.nodes import Access, Assignment, Graph, Index, Operation, Port, Subscript, Tensor
from ..ir.rewrite import tensors_read
from .views import root_of


def prune(graph: Graph) -> Graph:
    """Remove operations without effect, and copy results that are arguments or occur twice."""
    graph = _with_own_outputs(graph)
    needed = {t for p in graph.outputs for t in p.tensors} | {t for _, t in graph.updates}
    kept: list[Operation] = []
    for step in reversed(graph.operations):
        operation = cast(Operation, step)
        if needed.isdisjoint(operation.outputs):
            continue
        kept.append(operation)
        for assignment in operation.body:
            needed.update(tensors_read(assignment))
    return replace(graph, operations=tuple(reversed(kept)))


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
