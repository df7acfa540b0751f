"""What threads have for themselves during a kernel lies where nothing else is at the time."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.backends.llvm.image import arrange
from ricci.backends.llvm.target import host
from ricci.dtypes import DType, Types
from ricci.ir.loops import Kernel, Program, Repeat, all_actions, tensors_touched
from ricci.ir.nodes import Tensor
from ricci.ir.shapes import as_int
from ricci.passes.machine import Machine
from ricci.passes.memory import Stay, _room, size_of
from ricci.passes.pipeline import lower
from ricci.runtime.instance import own_bytes
from ricci.runtime.signature import with_state
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


@pytest.mark.parametrize("cache", [0, 20_000], ids=["in a row", "in loops over a batch"])
def test_nothing_is_where_threads_have_their_own(
    cache: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ricci.passes.batch_gain._START", 0)
    machine = Machine(cache=cache, threads=1)
    places = set()
    loops = 0
    for seed in range(20):
        network = Network(seed)
        network.batch = network.batch if cache == 0 else 4
        types = Types(DType.FLOAT32, DType.INT64)
        program = lower(network.model().graph, {}, types, machine=machine)
        loops += sum(isinstance(a, Repeat) for a in program.actions)
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
    assert places >= {"before", "behind"} and ("between" in places or cache)
    assert (loops > 5) == (cache > 0)


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


def test_a_loop_has_room_where_none_of_its_kernels_has_something() -> None:
    """Of three tensors the first two are not there at the same time, and begin before the gap."""
    low, between, high = (Tensor(n, DType.FLOAT32, ()) for n in ("low", "between", "high"))
    stays = [Stay(low, 4096, 0, 0), Stay(between, 64, 1, 1), Stay(high, 64, 0, 1)]
    offsets = {low: 0, between: 128, high: 8192}
    guard = 64
    assert _room(stays, offsets, [2]) == ((4096 + guard, 8192, 8192 + 64 + guard),)
    assert _room(stays, offsets, [1, 2])[1] == (128 + 64 + guard, 8192, 8192 + 64 + guard)
    assert _room([], {}, [1]) == ((0, 0, 0),)
