"""Loop nests: the generator for every kernel that no special one takes.

Any `Reduce`, `Scatter` and `Fill` compiles: a `Reduce` along explicit vectors where its accesses
allow, a `Scatter` element by element.
"""

from __future__ import annotations

import math

from ...ir.loops import Fill, Kernel, Reduce, Scatter
from ...ir.nodes import Index
from .emit import Frame
from .emit_access import extent_of, shape_of
from .emit_types import width
from .kernels import KernelCode, Strides
from .nest_plan import make_plan
from .nest_reduce import ReduceNest
from .nest_scatter import ScatterNest
from .target import Target


def generate(kernel: Kernel, strides: Strides, target: Target) -> KernelCode:
    """The code of a kernel."""
    frame = Frame(strides)
    if isinstance(kernel, Fill):
        return _fill(kernel, frame)
    if isinstance(kernel, Scatter):
        return _scatter(kernel, frame)
    return _reduce(kernel, frame, target)


def _fill(kernel: Fill, frame: Frame) -> KernelCode:
    tensor = kernel.tensor
    size = math.prod(shape_of(tensor.shape)) * width(tensor.dtype)
    b = frame.builder
    b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    pointer = frame.pointer(tensor)
    b.line(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")
    return _code(frame, 1, size / 16)


def _is_empty(indices: tuple[Index, ...]) -> bool:
    return any(extent_of(x) == 0 for x in indices)


def _scatter(kernel: Scatter, frame: Frame) -> KernelCode:
    domain = kernel.assignment.domain
    if _is_empty(domain):
        return _code(frame, 0, 0.0)
    nest = ScatterNest(kernel, frame)
    nest.emit()
    return _code(frame, nest.chunks, 2.0 * math.prod(extent_of(x) for x in domain))


def _reduce(kernel: Reduce, frame: Frame, target: Target) -> KernelCode:
    if _is_empty(kernel.domain):
        return _code(frame, 0, 0.0)
    plan = make_plan(kernel, frame, target)
    ReduceNest(kernel, plan, frame).emit()
    return _code(frame, plan.chunks, plan.work)


def _code(frame: Frame, chunks: int, work: float) -> KernelCode:
    return KernelCode(
        frame.text(),
        tuple(frame.tensors),
        chunks,
        frozenset(frame.builder.declarations),
        sites=tuple(frame.sites),
        work=work,
    )
