"""What threads have for themselves during a kernel lies where nothing else is at the time."""

from __future__ import annotations

import numpy as np

from ricci.backends.llvm.image import arrange
from ricci.backends.llvm.target import host
from ricci.dtypes import DType, Types
from ricci.ir.loops import Kernel, Program, all_actions, tensors_touched
from ricci.ir.shapes import as_int
from ricci.passes.memory import size_of
from ricci.passes.pipeline import lower
from ricci.runtime.instance import own_bytes
from ricci.runtime.native import with_state
from ricci.runtime.tuning_kernel import Subject

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


def test_kernels_by_themselves_have_room_too() -> None:
    """A trial of the tuner runs a kernel in the arena of the whole program."""
    checked = 0
    for seed in range(6):
        network = Network(seed)
        model = network.model()
        program = lower(with_state(model.graph), {}, Types(DType.FLOAT32, DType.INT64))
        shape = network.batch, network.channels, network.size, network.size
        weights = [np.zeros([as_int(e) for e in t.shape], np.float32) for t in program.variables]
        subject = Subject(program, host(), [np.zeros(shape, np.float32)], weights, 2)
        for part in filter(subject.can_tune, subject.parts):
            alone = subject.alone(part)
            image, _, _ = arrange(alone, host())
            for step in image.steps:
                begin, size = own_bytes(step, 2)
                for tensor in tensors_touched(part.kernel):
                    buffer = alone.buffers[tensor]
                    end = buffer.offset + size_of(tensor, alone.strides)
                    if size and buffer.kind == "arena":
                        assert end <= begin or begin + size <= buffer.offset
                        checked += 1
    assert checked
