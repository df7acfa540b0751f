"""The memory of a model that runs without Python, laid out beforehand.

A model is one block: a *template* of words, which a new model is a copy of, then what begins as
zeros. Words that hold addresses are listed with what they are relative to, so that making a model
is a copy and a few additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from ...records import dataclass, replace
from . import threads
from .steps import Slot, Step

Base = Literal["own", "data", "rest"]
"""An address is relative to the model, to the constant data, or to what follows the template."""

ALIGNMENT = 64
CACHE_LINE_WORDS = 8

_OPS = {
    "kernel": threads.KERNEL,
    "jump": threads.JUMP,
    "unless": threads.UNLESS,
    "back": threads.BACK,
    "point": threads.POINT,
    "stop": threads.STOP_FAILED,
}
NO_PLACE = 16
"""How far before its address the stand-in for an array object is (`threads.PATCH_WORDS`)."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address: bytes from a base."""

    base: Base
    offset: int

    def __add__(self, bytes: int) -> Place:
        return Place(self.base, self.offset + bytes)


def aligned(size: int, unit: int = ALIGNMENT) -> int:
    """A size rounded up."""
    return -(-size // unit) * unit


@dataclass
class Memory:
    """The template being laid out; offsets count words."""

    words: list[str] = field(default_factory=list)
    places: list[tuple[int, Place]] = field(default_factory=list)
    rest: int = 0
    """Bytes after the template."""

    def reserve(self, count: int, unit: int = 1) -> int:
        """The number of the first of so many words, which are zeros."""
        self.words += ["0"] * (-len(self.words) % unit)
        first = len(self.words)
        self.words += ["0"] * count
        return first

    def block(self, size: int) -> Place:
        """Aligned bytes after the template, and some more that may be read."""
        first = self.rest
        self.rest += aligned(size) + ALIGNMENT
        return Place("rest", first)

    def set(self, at: int, value: int | str | Place) -> None:
        """Let a word begin with a number, the address of a function, or a place."""
        if isinstance(value, Place):
            self.places.append((at, value))
        elif isinstance(value, str):
            self.words[at] = f"ptrtoint (ptr @{value} to i64)"
        else:
            self.words[at] = str(value)

    def fill(self, at: int, values: Sequence[int | str | Place]) -> None:
        for k, value in enumerate(values, at):
            self.set(k, value)

    def own(self, word: int) -> Place:
        """Where a word is."""
        return Place("own", 8 * word)

    @property
    def bytes(self) -> int:
        """Of the template."""
        return aligned(8 * len(self.words))

    def relocations(self) -> list[tuple[int, bool, int]]:
        """Words that hold addresses: which, whether relative to the data, and how far."""
        return [
            (at, p.base == "data", p.offset + (self.bytes if p.base == "rest" else 0))
            for at, p in self.places
        ]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where what steps work on is."""

    arena: Place
    scratch: Place
    stride: int
    cells: int
    """The word of the first size."""
    io: int
    """The first word of the addresses of stand-ins for arguments and results."""
    inputs: int
    fixed: Mapping[tuple[str, int], Place]
    """Variables, constants and kept blocks by kind and number."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps as `ricci_run` takes them: the word where its instance begins, and that of the first
    error record."""

    instance: int
    records: int
    has_loops: bool


def lay_out(memory: Memory, steps: Sequence[Step], blocks: Blocks, records: int) -> Stage:
    """Write the tables of some steps; the records are there, one more than steps that can fail."""
    return _Layout(memory, steps, blocks, records).stage()


@dataclass
class _Layout:
    memory: Memory
    steps: Sequence[Step]
    blocks: Blocks
    records: int
    patches: list[tuple[int, int, int]] = field(default_factory=list)

    def stage(self) -> Stage:
        m, steps = self.memory, self.steps
        instance = m.reserve(threads.INSTANCE_WORDS, CACHE_LINE_WORDS)
        rows = m.reserve(threads.STEP_WORDS * len(steps), CACHE_LINE_WORDS)
        self.first: list[int] = []
        tables = len(m.words)
        for step in steps:
            self.first.append(m.reserve(1 + len(step.slots)))
        site, dummy = 0, sum(bool(s.sites) for s in steps)
        for number, (step, at) in enumerate(zip(steps, self.first, strict=True)):
            own = site if step.sites else dummy
            if step.kind == "stop":  # it looks at the records of the steps before it
                own, step = 0, replace(step, chunks=site)
            m.set(at, m.own(self.records + 4 * own))
            site += bool(step.sites)
            self._fill_table(step, at, tables)
            self._fill_row(step, rows + threads.STEP_WORDS * number, at)
        self._fill_instance(instance, rows, tables)
        return Stage(instance, self.records, any(s.kind == "back" for s in steps))

    def _fill_table(self, step: Step, at: int, tables: int) -> None:
        b = self.blocks
        for k, slot in enumerate(step.slots, at + 1):
            if slot.kind in ("input", "output"):
                number = slot.number + (b.inputs if slot.kind == "output" else 0)
                self.patches.append((k - tables, number, slot.offset))
            elif slot.kind != "pointer":
                self.memory.set(k, self._address(slot))

    def _address(self, slot: Slot) -> Place:
        if slot.kind == "arena":
            return self.blocks.arena + slot.offset
        if slot.kind == "size":
            return self.memory.own(self.blocks.cells + slot.number)
        return self.blocks.fixed[slot.kind, slot.number] + slot.offset

    def _fill_row(self, step: Step, at: int, table: int) -> None:
        m = self.memory
        places: int | Place = self.blocks.stride
        if step.kind == "point":
            entries = [m.own(self.first[row] + 1 + slot) for row, slot in step.places]
            start = m.reserve(1 + len(entries))
            m.fill(start, [len(entries), *entries])
            places = m.own(start)
        m.fill(at, [
            _OPS[step.kind], step.symbol or 0, m.own(table), step.chunks, int(step.shared),
            f"{step.symbol}.count" if step.counted else 0, step.target, places,
        ])  # fmt: skip

    def _fill_instance(self, at: int, rows: int, tables: int) -> None:
        m, b = self.memory, self.blocks
        patches = m.reserve(threads.PATCH_WORDS * len(self.patches))
        m.fill(patches, [number for patch in self.patches for number in patch])
        m.fill(at, [
            m.own(rows), len(self.steps), b.scratch, 0, 0, m.own(patches),
            len(self.patches), m.own(b.io), m.own(tables),
        ])  # fmt: skip
