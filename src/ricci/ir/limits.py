"""What does not fit in the memory of this machine is refused before anything is allocated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from ..diagnostics import error
from ..dtypes import DType
from .nodes import Graph, Tensor
from .rewrite import all_steps, free_symbols
from .shapes import interval

_BYTES = {DType.REAL: 4, DType.INT: 8, DType.BOOL: 1, DType.STR: 8}
"""Bytes of an element of an abstract type, at least."""


def memory_size() -> int:
    """Bytes of this machine's memory; a petabyte where that cannot be asked."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 50


def check_memory(graph: Graph) -> None:
    """Raise `Error` E0901 if a tensor whose size is fixed is larger than the memory."""
    limit = memory_size()
    for tensor in _tensors(graph):
        size = largest_size(tensor)
        if size > limit and not free_symbols(*tensor.shape):
            shape = ", ".join(str(interval(e)[1]) for e in tensor.shape)
            raise error(
                "E0901",
                f"tensor `{tensor.name}` of shape [{shape}] is larger than the memory",
                tensor.span,
                notes=[f"it takes {size / 1e9:.3g} GB, and there are {limit / 1e9:.3g} GB"],
            )


def fits_memory(graph: Graph) -> bool:
    """Whether all tensors of a graph together fit in the memory, with each symbol at its bound."""
    return sum(map(largest_size, _tensors(graph))) <= memory_size()


def largest_size(tensor: Tensor) -> float:
    """Bytes of a tensor, with each symbol at its bound."""
    width = _BYTES.get(tensor.dtype) or tensor.dtype.numpy().itemsize
    return math.prod((float(interval(e)[1]) for e in tensor.shape), start=float(width))


def _tensors(graph: Graph) -> Iterator[Tensor]:
    for port in (*graph.inputs, *graph.outputs):
        yield from port.tensors
    yield from graph.variables
    yield from graph.constants
    for step in all_steps(graph.operations):
        yield from step.outputs
