"""What threads have for themselves during a kernel lies where nothing else is at the time."""

from __future__ import annotations

from ricci.backends.llvm.image import arrange
from ricci.backends.llvm.target import host
from ricci.dtypes import DType, Types
from ricci.ir.loops import Kernel, Program, all_actions, tensors_touched
from ricci.passes.memory import size_of
from ricci.passes.pipeline import lower
from ricci.runtime.instance import own_bytes

from .networks import Network

Bytes = tuple[int, int]
"""The first, and the one behind the last."""


def taken(program: Program) -> list[list[Bytes]]:
    """The parts of the arena where something is during each action."""
    spans: dict[Bytes, tuple[int, int]] = {}
    for number, action in enumerate(program.actions):
        kernels = [a for a in all_actions((action,)) if isinstance(a, Kernel)]
        for kernel in kernels:
            for tensor in tensors_touched(kernel):
                buffer = program.buffers[tensor]
                part = (buffer.offset, buffer.offset + size_of(tensor, program.strides))
                if buffer.kind == "arena":
                    spans[part] = (spans.get(part, (number, 0))[0], number)
    return [
        [part for part, (first, last) in spans.items() if first <= number <= last]
        for number in range(len(program.actions))
    ]


def test_nothing_is_where_threads_have_their_own() -> None:
    places = set()
    for seed in range(40):
        program = lower(Network(seed).model().graph, {}, Types(DType.FLOAT32, DType.INT64))
        image, _, starts = arrange(program, host())
        rows = [*starts, len(image.steps)]
        for number, parts in enumerate(taken(program)):
            for step in image.steps[rows[number] : rows[number + 1]]:
                begin, size = own_bytes(step, 2)
                if size:
                    places.add(
                        "behind" if begin >= step.room[2] else "between" if begin else "before"
                    )
                    assert all(end <= begin or begin + size <= first for first, end in parts)
    assert places == {"before", "between", "behind"}
