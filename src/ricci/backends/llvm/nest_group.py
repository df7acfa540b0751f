"""Emits a `Group`: a function for each of its kernels, called in turn at every point that they
share, so that what one leaves in the cache is there for the next."""

from __future__ import annotations

import math
from dataclasses import replace

from ...ir.loops import Group, Reduce, expressions_of, tensors_touched, tensors_written
from ...ir.nodes import Tensor
from ...ir.rewrite import accesses
from .emit import Frame
from .emit_access import extent_of
from .emit_parts import FAIL, Kept
from .emit_types import width
from .kernels import KernelCode
from .nest_plan import CHUNK_NS, MOST_CHUNKS, flat_form, make_plan
from .nest_reduce import ReduceNest
from .sizes import likely, product, row_major, sizes_of
from .target import Target

LINE = 64
"""Tensors begin at multiples of so many bytes, and something is left between them."""
MOST_POINTS, NEAR_BYTES = 16, 24 << 10
"""Of a block of points, and of what they touch."""


def write_group(group: Group, frame: Frame, target: Target) -> KernelCode:
    """The code of a group, whose sizes are known."""
    points = math.prod(map(extent_of, group.shared))
    block = _block(group, points)
    scratch = _keep_local(group, frame, block)
    parts = [
        _write_part(group, n, frame.part(_name(n)), target, block)
        for n in range(len(group.kernels))
    ]
    work = sum(w for _, w in parts) * points
    last = extent_of(group.shared[-1])
    blocks = points // last * -(-last // block)
    chunks = max(1, min(blocks, MOST_CHUNKS, int(work // CHUNK_NS)))
    b = frame.builder
    ends = [
        b.pure(f"udiv i64 {b.pure(f'mul nuw nsw i64 {at}, {blocks}', at)}, {chunks}", at)
        for at in ("%begin", "%end")
    ]
    with b.loop(ends[0], ends[1]) as loop:
        for number in range(len(parts)):
            arguments = f"ptr %table, ptr %scratch, i64 {loop.index}, i64 0"
            b.line(f"call void @{_name(number)}({arguments})")
    b.line("ret void")
    texts = [b.text(), *(part.builder.text() for part, _ in parts)]
    declarations = b.declarations.union(*(part.builder.declarations for part, _ in parts))
    return KernelCode(
        "".join(texts) + (FAIL if frame.sites else ""),
        tuple(frame.tensors),
        chunks,
        frozenset(declarations),
        scratch=scratch,
        sites=tuple(frame.sites),
        work=work,
        template="group",
    )


def _block(group: Group, points: int) -> int:
    """How many neighbouring points a kernel does before the next one follows: as many as stay in
    the nearest cache, for what one point waits for is then done for others."""
    tensors = (*tensors_touched(group), *group.local)
    size = sum(likely(product(sizes_of(t.shape))) * width(t.dtype) for t in tensors)
    last = extent_of(group.shared[-1])
    most = max(1, min(MOST_POINTS, NEAR_BYTES * points // max(size, 1), last))
    return -(-last // -(-last // most))


def _keep_local(group: Group, frame: Frame, block: int) -> int:
    """Give the tensors that are local room for a block of points; the bytes that this takes."""
    at = 0
    targets = {t.tensor: t for k in group.kernels for t in k.targets}
    for tensor in group.local:
        indices = [s.index for s in targets[tensor].subscripts]
        shared = [i in group.shared for i in indices]
        shape = [1 if x else n for x, n in zip(shared, sizes_of(tensor.shape), strict=True)]
        size, step = math.prod(map(likely, shape)), 0
        dense = zip(shared, row_major(shape), strict=True)
        steps = [0 if x or not isinstance(n, int) else n for x, n in dense]
        if group.shared[-1] in indices:
            steps[indices.index(group.shared[-1])] = size
            step = size * width(tensor.dtype)
        frame.local[tensor] = Kept(at, tuple(steps), step)
        at += (-(-max(step * block, size * width(tensor.dtype)) // LINE) + 1) * LINE
    return at


def _wanted_next(group: Group, number: int, frame: Frame, block: int) -> dict[Tensor, int]:
    """The tensors of which the next block is wanted soon, and how many bytes on that is.

    The second kernel that reads a tensor brings it to the cache: the first finds it in none.
    """
    made = {t for k in group.kernels for t in tensors_written(k)}
    read = [{a.tensor: a for a in accesses(*expressions_of(k))} for k in group.kernels]
    ahead = {}
    for tensor, access in read[number].items():
        if tensor not in made and sum(tensor in r for r in read[:number]) == 1:
            step = flat_form(access, frame).indices.get(group.shared[-1])
            if isinstance(step, int):
                ahead[tensor] = step * block * width(tensor.dtype)
    return ahead


def _name(number: int) -> str:
    return f"kernel.part{number}"


def _write_part(
    group: Group, number: int, frame: Frame, target: Target, block: int
) -> tuple[Frame, float]:
    """One kernel at a block of shared points, and the nanoseconds that one point takes."""
    kernel: Reduce = group.kernels[number]
    frame.ahead = _wanted_next(group, number, frame, block)
    kernel = replace(kernel, domain=kernel.domain[len(group.shared) :])
    plan = make_plan(kernel, frame, target)
    work = plan.work
    plan = replace(plan, leading=0, blocks=1, chunks=1)
    ReduceNest(kernel, plan, frame).emit_within(group.shared, "%begin", block)
    frame.builder.line("ret void")
    return frame, work
