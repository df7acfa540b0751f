"""What calls of a graph give and get: arrays of which shapes and strides, and whether they fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..diagnostics import error
from ..ir import interpret_bind
from ..ir.interpret_block import Store
from ..ir.limits import fits_memory
from ..ir.nodes import Expr, Graph, Port, Symbol, Tensor
from ..ir.rewrite import free_symbols
from ..ir.shapes import evaluate, interval
from ..ir.text_print import format_expr
from ..records import replace
from .arguments import Array
from .results import Wanted


def strides_of(arrays: Sequence[Array | None]) -> dict[int, tuple[int, ...]]:
    """Strides in elements of the arguments, by number, that are not row-major."""
    return {
        number: tuple(step // a.itemsize for step in a.strides)
        for number, a in enumerate(arrays)
        if a is not None and not a.flags.c_contiguous
    }


def with_state(graph: Graph) -> Graph:
    """The graph with variables that calls change as inputs, and their new values as outputs."""
    if not graph.updates:
        return graph
    changed = [old for old, _ in graph.updates]
    inputs = tuple(Port(t.name, (t,)) for t in changed)
    outputs = tuple(Port(old.name, (new,)) for old, new in graph.updates)
    return replace(
        graph,
        inputs=(*graph.inputs, *inputs),
        outputs=(*graph.outputs, *outputs),
        variables=tuple(v for v in graph.variables if v not in changed),
        updates=(),
    )


def has_bounds(graph: Graph) -> bool:
    """Whether the sizes of all inputs have bounds, and there is memory for what these allow."""
    if any(s.bound is None or not math.isfinite(interval(s.bound)[1]) for s in graph.symbols):
        return False
    return fits_memory(graph)


def doubtful(graph: Graph) -> list[Tensor]:
    """Tensors, made in every call, whose extents the sizes of inputs might make negative."""
    symbols = set(graph.symbols)
    return [
        tensor
        for step in graph.operations
        for tensor in step.outputs
        if any(interval(e)[0] < 0 for e in tensor.shape)
        and symbols.issuperset(free_symbols(*tensor.shape))
    ]


def check_out(graph: Graph, wanted: Sequence[Wanted], out: Sequence[Array]) -> None:
    """Compare the arrays that results are to be written to with what is needed; E0801."""
    for port, (shape, dtype), array in zip(graph.outputs, wanted, out, strict=True):
        if array.shape != shape or array.dtype != dtype:
            raise error(
                "E0801",
                f"the array for output `{port.name}` does not fit",
                notes=[
                    f"expected {dtype.name}{list(shape)}",
                    f"got {array.dtype.name}{list(array.shape)}",
                ],
            )


def largest(tensor: Tensor, known: Mapping[Symbol, int]) -> tuple[int, ...]:
    """The shape of a result with sizes that data defines at their bounds."""
    return tuple(max(_most(e, known), 0) for e in tensor.shape)


def _most(extent: Expr, known: Mapping[Symbol, int]) -> int:
    if all(s in known for s in free_symbols(extent)):
        return evaluate(extent, known)
    from ..passes.specialise import size_for

    return int(interval(size_for(extent, known))[1])


def check_shapes(graph: Graph, store: Store) -> None:
    """Bind the symbols of a graph to the shapes of its arguments, and test all conditions."""
    tensors = [t for p in graph.inputs for t in p.tensors]
    for port in graph.inputs:
        for tensor in port.tensors:
            if tensor in store.arrays:
                _check_fixed(port, tensor, store.arrays[tensor])
    interpret_bind.bind_shapes(tensors, store)
    interpret_bind.unknown_checks(graph.checks, store)


def _check_fixed(port: Port, tensor: Tensor, array: Array) -> None:
    """Compare a shape with what its declaration fixes."""
    declared = [format_expr(e) for e in tensor.shape]
    for text, size in zip(declared, array.shape, strict=True):
        if text.isdigit() and int(text) != size:
            raise error(
                "E0801",
                f"input `{port.name}` has another shape",
                tensor.span,
                notes=[f"expected [{', '.join(declared)}]", f"got {list(array.shape)}"],
            )
