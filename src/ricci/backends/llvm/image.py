"""From a program to its image: object code, and the tables that its kernels run with."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import field

import numpy as np

from ...diagnostics import error
from ...dtypes import to_dtype
from ...garbage import uncollected
from ...hashes import sha256
from ...ir.loops import Block, Choose, Kernel, Point, Program, Repeat, Stop
from ...ir.nodes import Tensor
from ...ir.shapes import interval
from ...records import dataclass, replace
from .alike import Codes
from .chunks import WORTH_SHARING
from .compilation import Compilation
from .emit_access import shape_of
from .emit_types import width
from .jit import module_text
from .kernels import KernelCode
from .schedule import NO_SCHEDULES, Schedules
from .steps import Image, Info, Slot, Step, StepKind
from .target import Target


def build(program: Program, target: Target, schedules: Schedules = NO_SCHEDULES) -> Image:
    """Compile all kernels of a program; `Error` E0807 for schedules that are not for it."""
    return build_parts(program, target, schedules)[0]


@uncollected()
def build_parts(
    program: Program, target: Target, schedules: Schedules = NO_SCHEDULES
) -> tuple[Image, list[int]]:
    """The image, and the number of the first step of each of the program's actions."""
    builder = _ImageBuilder(program, target, schedules)
    with Compilation(target) as compilation:
        image = builder.image(compilation)
        if builder.has_schedules_of_its_own():
            return replace(image, code=compilation.objects()), builder.starts
    return build_parts(program, target)


@uncollected()
def arrange(
    program: Program, target: Target, schedules: Schedules = NO_SCHEDULES
) -> tuple[Image, dict[str, KernelCode], list[int]]:
    """The image without object code, the kernels by symbol, and the number of the first step of
    each of the program's actions."""
    builder = _ImageBuilder(program, target, schedules)
    image = builder.image()
    if not builder.has_schedules_of_its_own():
        return arrange(program, target)
    return image, builder.codes, builder.starts


def constant_tensors(program: Program) -> frozenset[Tensor]:
    """The tensors that change only when somebody sets a variable."""
    kinds = ("variable", "constant", "kept")
    return frozenset(t for t, b in program.buffers.items() if b.kind in kinds)


def program_text(program: Program, target: Target, numbers: Container[int] | None = None) -> str:
    """The LLVM text of all kernels, or of those of a call with these numbers, for people."""
    image, codes, _ = arrange(program, target)
    if numbers is not None:
        codes = {s.symbol: codes[s.symbol] for s in image.steps if s.number in numbers}
    return module_text(list(codes.items()), target)


def info(tensor: Tensor) -> Info:
    return Info(tensor.name, tensor.dtype.value, _largest(tensor))


def _largest(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor with all sizes at their bounds; 0 stands for what has none."""
    most = (interval(e)[1] for e in tensor.shape)
    return tuple(max(int(n), 0) if n < math.inf else 0 for n in most)


def data_of(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """The elements of a constant."""
    shape, dtype = shape_of(tensor.shape), tensor.dtype.numpy()
    if isinstance(tensor.data, tuple):
        return to_dtype(np.array(tensor.data), dtype).reshape(shape)
    return to_dtype(np.full(shape, tensor.data), dtype)


@dataclass
class _ImageBuilder:
    program: Program
    target: Target
    schedules: Schedules = NO_SCHEDULES
    codes: dict[str, KernelCode] = field(default_factory=dict)
    """By symbol: kernels of equal text are compiled once."""
    packing: list[Step] = field(default_factory=list)
    _rows: list[Step] = field(default_factory=list)

    _count: int = 0
    """How many kernels of a call there have been."""
    _compilation: Compilation | None = None
    _room: tuple[int, int, int] = (0, 0, 0)
    """From which byte of the arena to which there is nothing during an action, and behind which."""

    def __post_init__(self) -> None:
        self._alike = Codes(self.target, self.program.strides, self.schedules)
        self.starts: list[int] = []
        self.kept = [_block_size(t) for t in self.program.kept]
        self._places = {
            t: Slot(b.kind, b.number, b.offset) for t, b in self.program.buffers.items()
        }
        self._constant = constant_tensors(self.program)
        self._room = (0, 0, self.program.arena)

    def image(self, compilation: Compilation | None = None) -> Image:
        """The image without object code, for kernels that are compiled meanwhile."""
        self._compilation = compilation
        program = self.program
        if compilation is not None and not self.schedules.kernels:
            count = self._alike.expect(program.prepare, program.kernels, self._constant)
            if compilation.share(count, self._alike.generate, self._alike.met.values()):
                self._alike.ahead = compilation.generated
        prepare = self._prepared(program.prepare)
        steps = self._steps(program.actions)
        return Image(
            (),
            tuple(map(info, program.inputs)),
            tuple(map(info, program.outputs)),
            tuple(map(info, program.variables)),
            tuple((info(t), data_of(t).tobytes()) for t in program.constants),
            tuple(self.kept),
            (*prepare, *self.packing),
            steps,
            program.arena,
            len(program.symbols),
            program.defined,
            program.checks,
            program.states,
        )

    def _prepared(self, kernels: tuple[Kernel, ...]) -> tuple[Step, ...]:
        """Steps that run whenever a variable is set."""
        out = [self._step(k.name, self._alike.of(k)) for k in kernels]
        return tuple(s for s in out if s.chunks)

    def _steps(self, block: Block) -> tuple[Step, ...]:
        """The steps of a call, with the places that each `point` writes."""
        self._rows = []
        for number, action in enumerate(block):
            self.starts.append(len(self._rows))
            if self.program.room:
                self._room = self.program.room[number]
            self._block((action,))
        places: dict[int, list[tuple[int, int]]] = {}
        for row, step in enumerate(self._rows):
            for number, slot in enumerate(step.slots):
                if slot.kind == "pointer":
                    places.setdefault(slot.number, []).append((row, number))
        return tuple(
            replace(s, places=tuple(places.get(s.target, ())), target=0) if s.kind == "point" else s
            for s in self._rows
        )

    def has_schedules_of_its_own(self) -> bool:
        """Whether there is a schedule for each kernel, or none at all; E0807 if that is wrong."""
        count, found = len(self.schedules.kernels), self._alike.found
        if not count or count == found:
            return True
        if not self.schedules.lenient:
            name = self.program.name
            raise error("E0807", f"there are {count} schedules, and `{name}` has {found} kernels")
        return False

    def _block(self, block: Block) -> None:
        for action in block:
            match action:
                case Choose():
                    self._choose(action)
                case Repeat():
                    self._repeat(action)
                case Point():
                    slots = tuple(self._places[t] for t in (action.index, *action.pack))
                    number = self._places[action.item].number
                    by_step, step = action.step is not None, action.step or 0
                    name = action.item.name
                    self._rows.append(Step("point", name, slots, "", step, by_step, target=number))
                case Stop():
                    self._rows.append(Step("stop", ""))
                case _:
                    self._kernel(action)

    def _kernel(self, kernel: Kernel) -> None:
        code = self._alike.scheduled(kernel, self._constant)
        for extra in code.prepare:
            self._places[extra.output] = Slot("kept", len(self.kept), 0)
            self.kept.append(_block_size(extra.output))
            self.packing.append(self._step(f"{kernel.name}: prepare", extra.code))
        if code.chunks:
            self._rows.append(self._step(kernel.name, code, self._count))
        self._count += 1

    def _choose(self, choice: Choose) -> None:
        unless = self._jump("unless", choice.test)
        self._block(choice.then)
        if choice.otherwise:
            over = self._jump("jump")
            self._land(unless)
            self._block(choice.otherwise)
            self._land(over)
        else:
            self._land(unless)

    def _repeat(self, loop: Repeat) -> None:
        start = len(self._rows)
        self._block(loop.before)
        unless = self._jump("unless", loop.test)
        self._block(loop.body)
        self._rows.append(Step("back", "", shared=loop.ends, target=start))
        self._land(unless)

    def _jump(self, kind: StepKind, test: Tensor | None = None) -> int:
        slots = () if test is None else (self._places[test],)
        self._rows.append(Step(kind, "", slots))
        return len(self._rows) - 1

    def _land(self, jump: int) -> None:
        """Let a jump end here."""
        self._rows[jump] = replace(self._rows[jump], target=len(self._rows))

    def _step(self, name: str, code: KernelCode, number: int = -1) -> Step:
        symbol = "k" + sha256(code.text.encode()).hexdigest()[:24]
        if symbol not in self.codes:
            self.codes[symbol] = code
            if self._compilation is not None:
                self._compilation.add(symbol, code)
        slots = [self._places[t] for t in code.tensors]
        slots += [Slot("size", self.program.symbols.index(s), 0) for s in code.sizes]
        shared = code.chunks > 1 and code.work >= WORTH_SHARING
        return Step(
            "kernel", name, tuple(slots), symbol, code.chunks, shared, code.scratch, code.sites,
            code.counted, number=number, template=code.template, room=self._room,
        )  # fmt: skip


def _block_size(tensor: Tensor) -> int:
    return math.prod(_largest(tensor)) * width(tensor.dtype)
