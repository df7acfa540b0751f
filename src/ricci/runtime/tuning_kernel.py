"""Kernels by themselves, on the memory that they find in a call: to be timed and compared."""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..backends.llvm.alike import describe
from ..backends.llvm.image import build, build_parts, constant_tensors, info
from ..backends.llvm.kernels import generate
from ..backends.llvm.schedule import NO_SCHEDULES, Schedule, Schedules
from ..backends.llvm.steps import Step
from ..backends.llvm.target import Target
from ..diagnostics import error
from ..dtypes import BFLOAT16, from_bfloat16
from ..ir.loops import Buffer, Group, Kernel, Program, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Tensor
from ..ir.shapes import as_int
from ..passes.memory import size_of
from ..records import cached_property, dataclass, replace
from .arguments import Array
from .instance import Instance, Loaded, Weights
from .results import make_big_results

LONGEST_TEXT = 600_000
"""Characters of the text of a kernel that is compiled at all."""


@dataclass(frozen=True, eq=False)
class Part:
    """Kernels of a program that are alike, and so have one schedule."""

    number: int
    kernel: Kernel
    """The first of them."""
    start: int
    """The number of its step, if it stands alone: not in a loop or branch."""
    count: int

    @property
    def terms(self) -> int:
        """How many values an element of the result is made of."""
        return sum(math.prod(as_int(i.extent) or 1 for i in k.reduced) for k in self._reduces)

    @property
    def work(self) -> int:
        """How many terms all results are made of, all kernels together."""
        points = ((*k.domain, *k.reduced) for k in self._reduces)
        return self.count * sum(math.prod(as_int(i.extent) or 1 for i in p) for p in points)

    @property
    def _reduces(self) -> tuple[Reduce, ...]:
        """The reductions and maps that it consists of."""
        match self.kernel:
            case Reduce():
                return (self.kernel,)
            case Group():
                return self.kernel.kernels
        return ()


class Subject:
    """A program for known sizes, with arguments; nothing in it is by a schedule."""

    def __init__(
        self,
        program: Program,
        target: Target,
        arrays: Sequence[Array],
        variables: Sequence[Array],
        threads: int,
    ) -> None:
        self.program, self.target, self.threads = program, target, threads
        self.inputs = list(arrays)
        image, self._starts = build_parts(program, target)
        self.weights = Weights(Loaded(image), variables, threads)
        self.variables = [*variables, *self._kept()]
        self.constant = constant_tensors(program)
        self.results = self.run_whole(self.weights.take())

    def _kept(self) -> list[Array]:
        """What was derived from variables, as arrays."""
        sizes = self.weights.loaded.image.kept[: len(self.program.kept)]
        kept = zip(sizes, self.weights.kept, strict=False)
        return [_bytes_at(at, n) if at else np.zeros(n, np.uint8) for n, at in kept]

    def arguments(self) -> list[Array]:
        """The inputs and outputs of a call, which lie as those of calls do, if big in large pages.
        Variables that it changes in place are both."""
        wanted = self.weights.loaded.outputs
        count = self.program.states
        first, made = len(self.inputs) - count, wanted[: len(wanted) - count]
        outputs = make_big_results(made)
        for array in outputs:
            array.fill(0)
        changed = [array.copy() for array in self.inputs[first:]]
        return [*self.inputs[:first], *changed, *outputs, *changed]

    def run_whole(self, instance: Instance) -> list[Array]:
        """The results of a call; raises the `Error` of a check that fails."""
        arguments = self.arguments()
        instance.run(arguments)
        instance.raise_failures()
        return arguments[len(self.inputs) :]

    @cached_property
    def parts(self) -> list[Part]:
        """The kernels, those that are alike once, in the order of their schedules."""
        keys: dict[object, list[Kernel]] = {}
        for kernel in self.program.kernels:
            keys.setdefault(describe(kernel, self.constant, self.program.strides)[0], []).append(
                kernel
            )
        at = {id(a): s for a, s in zip(self.program.actions, self._starts, strict=True)}
        return [
            Part(n, same[0], at.get(id(same[0]), -1), len(same))
            for n, same in enumerate(keys.values())
        ]

    @property
    def terms(self) -> int:
        """How many values a result of all is made of, with room for what errors grow by."""
        return 16 * sum(p.terms for p in self.parts)

    @property
    def work(self) -> int:
        return sum(p.work for p in self.parts)

    def can_tune(self, part: Part) -> bool:
        """Whether a part has a schedule, and can be run by itself."""
        kinds = {
            self.program.buffers[t].kind
            for t in tensors_touched(part.kernel)
            if t in self.program.buffers
        }
        return (
            isinstance(part.kernel, Reduce | Group)
            and part.start >= 0
            and kinds.isdisjoint({"pointer", "size"})
        )

    def alone(self, part: Part) -> Program:
        """The program of one kernel on the same memory; what was prepared comes as variables."""
        first = len(self.program.variables)
        buffers = {
            t: Buffer("variable", first + b.number, b.offset) if b.kind == "kept" else b
            for t, b in self.program.buffers.items()
        }
        return replace(
            self.program,
            prepare=(),
            kept=(),
            actions=(part.kernel,),
            room=(),
            variables=(*self.program.variables, *self.program.kept),
            buffers=buffers,
        )

    def built(self, schedules: Schedules, threads: int) -> Weights:
        """The whole program by schedules."""
        image = build(self.program, self.target, schedules)
        first = self.variables[: len(self.program.variables)]
        return Weights(Loaded(image), first, threads)


def _bytes_at(address: int, count: int) -> Array:
    memory: Any = (ctypes.c_uint8 * max(count, 1)).from_address(address)
    return np.frombuffer(memory, np.uint8)


class Scene:
    """The memory that a part finds in a call."""

    def __init__(self, subject: Subject, part: Part) -> None:
        self.subject, self.part = subject, part
        self.program = subject.alone(part)
        steps = subject.weights.loaded.image.steps[: part.start]
        before = Instance(subject.weights, steps, subject.threads)
        self.outputs = subject.run_whole(before)
        self.arena = before.arena.copy()
        self.bytes = 3 * (self.arena.nbytes + sum(a.nbytes for a in self.outputs))
        """What the trials of the part take."""

    def written(self, arena: Array, outputs: Sequence[Array]) -> list[Array]:
        """What the kernel has written, as arrays."""
        return [self._view(t, arena, outputs) for t in tensors_written(self.part.kernel)]

    def _view(self, tensor: Tensor, arena: Array, outputs: Sequence[Array]) -> Array:
        place, shown = self.program.buffers[tensor], info(tensor)
        number = place.number
        if place.kind == "input":  # a variable that is changed in place
            number += len(outputs) - len(self.subject.inputs)
        block = arena if place.kind == "arena" else outputs[number].reshape(-1).view(np.uint8)
        count = size_of(tensor, self.program.strides)
        part = block[place.offset : place.offset + count].view(tensor.dtype.numpy())
        steps = self.program.strides.get(tensor)
        if steps is None:
            return part.reshape(shown.shape)
        return as_strided(part, shown.shape, [n * part.itemsize for n in steps])


class Trial:
    """A kernel by a schedule, ready to run in its scene.

    Raises `Error` E0807 if it cannot be computed so, or if its code is too long to be tried.
    """

    def __init__(self, scene: Scene, schedule: Schedule | None) -> None:
        self.scene, self.schedule = scene, schedule
        subject, part = scene.subject, scene.part
        if schedule is not None:
            code = generate(
                part.kernel, subject.program.strides, subject.target, subject.constant, schedule
            )
            if len(code.text) > LONGEST_TEXT:
                raise error("E0807", "the code of this schedule would be too long")
        schedules = NO_SCHEDULES if schedule is None else Schedules((schedule,))
        image = build(scene.program, subject.target, schedules)
        self._steps = image.steps
        self._weights = Weights(Loaded(image), subject.variables, subject.threads)
        self._instance = self._weights.take()
        self._arrays = subject.arguments()
        self._outputs = self._arrays[len(subject.inputs) :]

    def results(self) -> list[Array]:
        """What the kernel writes; raises the `Error` of a check that fails."""
        self._reset(self._instance)
        self._instance.run(self._arrays)
        self._instance.raise_failures()
        return [a.copy() for a in self.scene.written(self._instance.arena, self._outputs)]

    def _reset(self, instance: Instance) -> None:
        instance.arena[:] = self.scene.arena
        for mine, before in zip(self._outputs, self.scene.outputs, strict=True):
            mine[...] = before

    def foresee(self) -> float:
        """About how many seconds a run takes on one thread, from the first of its chunks."""
        steps: list[Step] = [replace(s, chunks=1) for s in self._steps]
        chunks = sum(s.chunks for s in self._steps)
        first = Instance(self._weights, steps, 1)
        self._reset(first)
        start = time.perf_counter()
        first.run(self._arrays)
        return (time.perf_counter() - start) * chunks

    def time(self, repeats: int) -> float:
        """Seconds of a run: the mean of some."""
        run, arrays = self._instance.run, self._arrays
        start = time.perf_counter()
        for _ in range(repeats):
            run(arrays)
        return (time.perf_counter() - start) / repeats


class Timed(Protocol):
    def time(self, repeats: int) -> float: ...


def compare(first: Timed, other: Timed, rounds: int, seconds: float) -> tuple[float, float]:
    """The time of the first, and that of the other as a share of it.

    They run in turn, each for about `seconds` a round. Medians count, of the share those of rounds:
    whatever else the machine does in a round meets both.
    """
    counts = [max(1, min(1000, int(seconds / max(t.time(1), 1e-7)))) for t in (first, other)]
    samples = [(first.time(counts[0]), other.time(counts[1])) for _ in range(rounds)]
    share = statistics.median(b / max(a, 1e-12) for a, b in samples)
    return statistics.median(a for a, _ in samples), share


def is_close(actual: Array, expected: Array, terms: int) -> bool:
    """Whether two results differ by no more than another order of sums explains."""
    if actual.dtype == BFLOAT16:
        actual, expected, eps = from_bfloat16(actual), from_bfloat16(expected), 2.0**-8
    elif actual.dtype.kind == "f":
        eps = float(np.finfo(actual.dtype).eps)
    else:
        return bool(np.array_equal(actual, expected))
    a, b = actual.reshape(-1), expected.reshape(-1)
    pieces = [(a[k : k + _PIECE], b[k : k + _PIECE]) for k in range(0, len(a), _PIECE)]
    scale = max([1.0, *(_largest(y) for _, y in pieces)])
    limit = (terms + 16) * eps * scale
    return all(_is_within(x, y, limit) for x, y in pieces)


_PIECE = 1 << 16
"""Elements that are compared at a time: what is made of them stays in the caches."""


def _largest(array: Array) -> float:
    """The largest magnitude of what is finite."""
    found = float(np.abs(array).max())
    return (
        found if math.isfinite(found) else float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    )


def _is_within(actual: Array, expected: Array, limit: float) -> bool:
    with np.errstate(invalid="ignore", over="ignore"):
        if (np.abs(actual - expected) <= limit).all():
            return True
        wide, exact = actual.astype(np.float64), expected.astype(np.float64)
        close = np.abs(wide - exact) <= limit
    close |= (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    return bool(close.all())


def all_close(actual: Sequence[Any], expected: Sequence[Any], terms: int) -> bool:
    return all(is_close(a, b, terms) for a, b in zip(actual, expected, strict=True))
