"""Reshapes that need no work: a tensor that is another one's bytes.

Requires: kernels in order. Ensures: no kernel remains that only copies elements in the same
row-major order, where one tensor can stand for the other. Does not: change other kernels; they go
on naming the tensor of their own shape, and memory planning gives both one buffer.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import cast

from ..ir import shapes
from ..ir.loops import Action, Kernel, Reduce, tensors_written
from ..ir.nodes import Access, Expr, Graph, Tensor, integer

Views = dict[Tensor, Tensor]


def find_views(
    kernels: Sequence[Kernel], graph: Graph, split: Views, strided: Container[Tensor] = ()
) -> tuple[list[Kernel], Views]:
    """The kernels that remain, and for each tensor without bytes of its own whose it has.

    `split` are such tensors that there are already, `strided` tensors that are not row-major.
    """
    outputs = {t for p in graph.outputs for t in p.tensors}
    outside = {t for p in graph.inputs for t in p.tensors} | {*graph.variables, *graph.constants}
    writers: dict[Tensor, int] = {}
    last: dict[Tensor, int] = {}
    for position, kernel in enumerate(kernels):
        for tensor in tensors_written(kernel):
            root = root_of(tensor, split)
            writers[root] = writers.get(root, 0) + 1
            last[root] = position
    views: Views = dict(split)
    kept: list[Kernel] = []
    for position, kernel in enumerate(kernels):
        source = copied(kernel)
        if source is None or last.get(root_of(source, split), 0) > position:
            kept.append(kernel)
            continue
        target = root_of(cast(Reduce, kernel).targets[0].tensor, views)
        if writers.get(target, 0) > 1:
            kept.append(kernel)
            continue
        source = root_of(source, views)
        if source in strided:
            kept.append(kernel)
            continue
        if target not in outputs:
            views[target] = source
        elif source not in outputs and source not in outside:
            views[source] = target  # its maker writes the caller's array
        else:
            kept.append(kernel)
    return kept, views


def root_of(tensor: Tensor, views: Mapping[Tensor, Tensor]) -> Tensor:
    """The tensor whose bytes a tensor has."""
    while tensor in views:
        tensor = views[tensor]
    return tensor


def copied(kernel: Action) -> Tensor | None:
    """The tensor that a kernel copies in row-major order, if it does nothing else."""
    if not isinstance(kernel, Reduce) or kernel.values or kernel.locals or len(kernel.targets) != 1:
        return None
    read, target = kernel.initial[0], kernel.targets[0]
    if kernel.results[0] is not kernel.accumulators[0] or not isinstance(read, Access):
        return None
    if any(s.rule is not None for s in read.subscripts) or read.dtype is not target.dtype:
        return None
    if not shapes.equal(count_of(read.tensor), count_of(target.tensor)):
        return None
    return read.tensor if shapes.equal(offset_of(read), offset_of(target)) else None


def count_of(tensor: Tensor) -> Expr:
    """The number of elements."""
    return shapes.product(*tensor.shape)


def offset_of(access: Access) -> Expr:
    """The row-major offset of an element."""
    total: Expr = integer(0)
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        total = shapes.add(shapes.mul(total, extent), s.index)
    return total
