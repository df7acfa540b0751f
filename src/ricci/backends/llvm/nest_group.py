"""Emits a `Group`: a function for each of its kernels, called in turn at every point that they
share, so that what one leaves in the cache is there for the next."""

from __future__ import annotations

import math
from dataclasses import replace

from ...ir.loops import Group, Reduce
from .emit import Frame
from .emit_access import extent_of
from .emit_parts import FAIL
from .kernels import KernelCode
from .nest_plan import CHUNK_NS, MOST_CHUNKS, make_plan
from .nest_reduce import ReduceNest
from .target import Target


def write_group(group: Group, frame: Frame, target: Target) -> KernelCode:
    """The code of a group, whose sizes are known."""
    points = math.prod(map(extent_of, group.shared))
    parts = [_write_part(group, n, frame.part(_name(n)), target) for n in range(len(group.kernels))]
    work = sum(w for _, w in parts) * points
    chunks = max(1, min(points, MOST_CHUNKS, int(work // CHUNK_NS)))
    b = frame.builder
    ends = [
        b.pure(f"udiv i64 {b.pure(f'mul nuw nsw i64 {at}, {points}', at)}, {chunks}", at)
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
        sites=tuple(frame.sites),
        work=work,
    )


def _name(number: int) -> str:
    return f"kernel.part{number}"


def _write_part(group: Group, number: int, frame: Frame, target: Target) -> tuple[Frame, float]:
    """One kernel at one shared point, and the nanoseconds that this takes."""
    kernel: Reduce = group.kernels[number]
    kernel = replace(kernel, domain=kernel.domain[len(group.shared) :])
    plan = make_plan(kernel, frame, target)
    work = plan.work
    plan = replace(plan, leading=0, blocks=1, chunks=1)
    ReduceNest(kernel, plan, frame).emit_within(group.shared, "%begin")
    frame.builder.line("ret void")
    return frame, work
