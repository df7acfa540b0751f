"""A compiled program as plain data: object code, and the tables that its kernels run with.

An image holds nothing of the intermediate representation, so it can be kept on disk.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np

from ...ir.loops import Kernel, Kind, Program
from ...ir.nodes import Tensor
from .emit_access import shape_of
from .emit_types import width
from .jit import compile_text, module_text
from .kernels import KernelCode, Site, generate
from .target import Target

WORTH_SHARING = 6000.0
"""Rough nanoseconds of work below which a kernel runs on the caller alone."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an entry of a kernel's table points: a block of a kind, and bytes into it."""

    kind: Kind
    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel: its symbol, its table (after the error record), and how it is run."""

    symbol: str
    name: str
    slots: tuple[Slot, ...]
    chunks: int
    shared: bool
    scratch: int
    sites: tuple[Site, ...]


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
    """All that is needed to run a program for one choice of sizes."""

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


def build(program: Program, target: Target) -> Image:
    """Compile all kernels of a program."""
    builder = _ImageBuilder(program, target)
    prepare = builder.steps(program.prepare, prepared=True)
    steps = builder.steps(program.kernels, prepared=False)
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
    )


def program_text(program: Program, target: Target) -> str:
    """The LLVM text of all kernels, for people."""
    builder = _ImageBuilder(program, target)
    builder.steps(program.prepare, prepared=True)
    builder.steps(program.kernels, prepared=False)
    return module_text(list(builder.codes.items()), target)


def info(tensor: Tensor) -> Info:
    return Info(tensor.name, tensor.dtype.numpy().name, shape_of(tensor.shape))


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

    def __post_init__(self) -> None:
        self.kept = [_block_size(t) for t in self.program.kept]
        self._places = {
            t: Slot(b.kind, b.number, b.offset) for t, b in self.program.buffers.items()
        }
        self._constant = frozenset(
            t for t, b in self.program.buffers.items() if b.kind in ("variable", "constant", "kept")
        )

    def steps(self, kernels: tuple[Kernel, ...], prepared: bool) -> tuple[Step, ...]:
        out = []
        for kernel in kernels:
            constant = frozenset[Tensor]() if prepared else self._constant
            code = generate(kernel, {}, self.target, constant)
            for extra in code.prepare:
                self._places[extra.output] = Slot("kept", len(self.kept), 0)
                self.kept.append(_block_size(extra.output))
                self.packing.append(self._step(f"{kernel.name}: prepare", extra.code))
            out.append(self._step(kernel.name, code))
        return tuple(s for s in out if s.chunks)

    def _step(self, name: str, code: KernelCode) -> Step:
        symbol = "k" + hashlib.sha256(code.text.encode()).hexdigest()[:24]
        self.codes.setdefault(symbol, code)
        slots = tuple(self._places[t] for t in code.tensors)
        shared = code.chunks > 1 and code.work >= WORTH_SHARING
        return Step(symbol, name, slots, code.chunks, shared, code.scratch, code.sites)


def _block_size(tensor: Tensor) -> int:
    return math.prod(shape_of(tensor.shape)) * width(tensor.dtype)
