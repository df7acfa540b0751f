"""A compiled program as plain data: object code, and the tables that its kernels run with.

An image holds nothing of the intermediate representation, so it can be kept on disk.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ...ir.loops import Block, Choose, Kernel, Kind, Point, Program, Repeat
from ...ir.nodes import Tensor
from ...ir.shapes import interval
from .alike import Codes
from .emit_access import shape_of
from .emit_types import width
from .jit import compile_text, module_text
from .kernels import KernelCode, Site
from .target import Target

WORTH_SHARING = 6000.0
"""Rough nanoseconds of work below which a kernel runs on the caller alone."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an entry of a kernel's table points: a block of a kind, and bytes into it."""

    kind: Kind
    number: int
    offset: int


StepKind = Literal["kernel", "jump", "unless", "back", "point"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a running program does next.

    A `kernel`: its symbol, its table (after the error record), and how it is run; if `counted`,
    the symbol with `.count` tells the chunks. A `jump` goes on at step `target`; `unless` does so
    if the bool at its first slot is false; `back` does, and counts the turns of loops. A `point`
    lets the entries `places` (step and slot) of tables point to one of the slots after the first,
    which holds its number.
    """

    kind: StepKind
    name: str
    slots: tuple[Slot, ...] = ()
    symbol: str = ""
    chunks: int = 0
    shared: bool = False
    scratch: int = 0
    sites: tuple[Site, ...] = ()
    counted: bool = False
    target: int = 0
    places: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Info:
    """An array that a program works on."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Image:
    """All that is needed to run a program, for one choice of sizes or for all.

    Shapes are those of the largest sizes. `sizes`, `defined` and `checks` count cells as in
    `Program`.
    """

    code: bytes
    inputs: tuple[Info, ...]
    outputs: tuple[Info, ...]
    variables: tuple[Info, ...]
    constants: tuple[tuple[Info, bytes], ...]
    kept: tuple[int, ...]
    """Bytes of the blocks that the prepare steps write."""
    prepare: tuple[Step, ...]
    steps: tuple[Step, ...]
    arena: int
    sizes: int = 0
    defined: int = 0
    checks: int = 0


def build(program: Program, target: Target) -> Image:
    """Compile all kernels of a program."""
    builder = _ImageBuilder(program, target)
    prepare = builder.prepared(program.prepare)
    steps = builder.steps(program.actions)
    text = module_text(list(builder.codes.items()), target)
    return Image(
        compile_text(text, target) if builder.codes else b"",
        tuple(map(info, program.inputs)),
        tuple(map(info, program.outputs)),
        tuple(map(info, program.variables)),
        tuple((info(t), data_of(t).tobytes()) for t in program.constants),
        tuple(builder.kept),
        (*prepare, *builder.packing),
        steps,
        program.arena,
        len(program.symbols),
        program.defined,
        program.checks,
    )


def program_text(program: Program, target: Target) -> str:
    """The LLVM text of all kernels, for people."""
    builder = _ImageBuilder(program, target)
    builder.prepared(program.prepare)
    builder.steps(program.actions)
    return module_text(list(builder.codes.items()), target)


def info(tensor: Tensor) -> Info:
    return Info(tensor.name, tensor.dtype.numpy().name, _largest(tensor))


def _largest(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor with all sizes at their bounds."""
    return tuple(max(int(interval(e)[1]), 0) for e in tensor.shape)


def data_of(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """The elements of a constant."""
    shape, dtype = shape_of(tensor.shape), tensor.dtype.numpy()
    if isinstance(tensor.data, tuple):
        return np.array(tensor.data).astype(dtype).reshape(shape)
    return np.full(shape, tensor.data).astype(dtype)


@dataclass
class _ImageBuilder:
    program: Program
    target: Target
    codes: dict[str, KernelCode] = field(default_factory=dict)
    """By symbol: kernels of equal text are compiled once."""
    packing: list[Step] = field(default_factory=list)
    _rows: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._alike = Codes(self.target)
        self.kept = [_block_size(t) for t in self.program.kept]
        self._places = {
            t: Slot(b.kind, b.number, b.offset) for t, b in self.program.buffers.items()
        }
        self._constant = frozenset(
            t for t, b in self.program.buffers.items() if b.kind in ("variable", "constant", "kept")
        )

    def prepared(self, kernels: tuple[Kernel, ...]) -> tuple[Step, ...]:
        """Steps that run whenever a variable is set."""
        out = [self._step(k.name, self._alike.of(k)) for k in kernels]
        return tuple(s for s in out if s.chunks)

    def steps(self, block: Block) -> tuple[Step, ...]:
        """The steps of a call, with the places that each `point` writes."""
        self._rows = []
        self._block(block)
        places: dict[int, list[tuple[int, int]]] = {}
        for row, step in enumerate(self._rows):
            for number, slot in enumerate(step.slots):
                if slot.kind == "pointer":
                    places.setdefault(slot.number, []).append((row, number))
        return tuple(
            replace(s, places=tuple(places.get(s.target, ())), target=0) if s.kind == "point" else s
            for s in self._rows
        )

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
                    self._rows.append(Step("point", action.item.name, slots, target=number))
                case _:
                    self._kernel(action)

    def _kernel(self, kernel: Kernel) -> None:
        code = self._alike.of(kernel, self._constant)
        for extra in code.prepare:
            self._places[extra.output] = Slot("kept", len(self.kept), 0)
            self.kept.append(_block_size(extra.output))
            self.packing.append(self._step(f"{kernel.name}: prepare", extra.code))
        if code.chunks:
            self._rows.append(self._step(kernel.name, code))

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
        self._rows.append(Step("back", "", target=start))
        self._land(unless)

    def _jump(self, kind: StepKind, test: Tensor | None = None) -> int:
        slots = () if test is None else (self._places[test],)
        self._rows.append(Step(kind, "", slots))
        return len(self._rows) - 1

    def _land(self, jump: int) -> None:
        """Let a jump end here."""
        self._rows[jump] = replace(self._rows[jump], target=len(self._rows))

    def _step(self, name: str, code: KernelCode) -> Step:
        symbol = "k" + hashlib.sha256(code.text.encode()).hexdigest()[:24]
        self.codes.setdefault(symbol, code)
        slots = [self._places[t] for t in code.tensors]
        slots += [Slot("size", self.program.symbols.index(s), 0) for s in code.sizes]
        shared = code.chunks > 1 and code.work >= WORTH_SHARING
        return Step(
            "kernel", name, tuple(slots), symbol, code.chunks, shared, code.scratch, code.sites,
            code.counted,
        )  # fmt: skip


def _block_size(tensor: Tensor) -> int:
    return math.prod(_largest(tensor)) * width(tensor.dtype)
