"""A compiled program in memory: constants, blocks, and the tables that a running call needs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..backends.llvm import threads
from ..backends.llvm.image import Image, Slot, Step
from ..backends.llvm.jit import Library
from ..diagnostics import error
from .arguments import Array
from .pool import entry, generation, pool_address, this_machine

_ALIGNMENT = 64


def _block(size: int) -> tuple[Array, int]:
    """Memory of a size, and its aligned address; a little more is there than asked for."""
    memory = np.empty(size + 2 * _ALIGNMENT, np.uint8)
    return memory, -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT


def _has_known_layout() -> bool:
    """Whether the third word of an array object is the address of its elements."""
    array = np.zeros(3, np.float32)
    words = (ctypes.c_int64 * 3).from_address(id(array))
    return bool(words[2] == array.ctypes.data)


_HAS_KNOWN_LAYOUT = _has_known_layout()


class Loaded:
    """An image whose code is loaded."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.library = Library([image.code] if image.code else [], this_machine())
        steps = (*image.prepare, *image.steps)
        self.functions = {s.symbol: self.library.address(s.symbol) for s in steps}
        self.constants = [
            np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)
            for _, data in image.constants
        ]
        self.outputs = [(i.shape, np.dtype(i.dtype)) for i in image.outputs]


class Weights:
    """The variables of a program at one time, and what is derived from them."""

    def __init__(self, loaded: Loaded, variables: Sequence[Array], count: int) -> None:
        self.loaded = loaded
        self.variables = list(variables)
        self._blocks = [_block(size) for size in loaded.image.kept]
        self.kept = [address for _, address in self._blocks]
        self._free: list[Instance] = []
        self._count = count
        self._lock = Lock()
        if loaded.image.prepare:
            first = Instance(self, loaded.image.prepare, count, bound=False)
            first.run([])
            first.raise_failures()

    def take(self) -> Instance:
        """Tables and an arena for one call."""
        try:
            instance = self._free.pop()
        except IndexError:
            return Instance(self, self.loaded.image.steps, self._count)
        return instance

    def give(self, instance: Instance) -> None:
        self._free.append(instance)


class Instance:
    """What one running call needs for itself: an arena, tables of pointers, error records."""

    def __init__(
        self, weights: Weights, steps: Sequence[Step], count: int, bound: bool = True
    ) -> None:
        loaded = weights.loaded
        self._weights = weights
        self._sites = [s for s in steps if s.sites]
        self.can_fail = bool(self._sites)
        self._count = count
        self.records = np.zeros((len(self._sites) + 1, 2), np.int64)
        """A pair per step with checks: the number of the failed one, and the value."""
        self._arena, arena = _block(loaded.image.arena)
        stride = -(-max((s.scratch for s in steps), default=0) // 128) * 128
        self._scratch, scratch = _block(stride * count)
        total = sum(1 + len(s.slots) for s in steps)
        self._tables = np.zeros(max(total, 1), np.int64)
        self._steps = np.zeros((max(len(steps), 1), threads.STEP_WORDS), np.int64)
        patches = self._fill(steps, arena)
        self._patches = np.array(patches or [(0, 0, 0)], np.int64)
        image = loaded.image
        self._io = (ctypes.c_int64 * (len(image.inputs) + len(image.outputs) if bound else 0))()
        self._words = np.zeros(threads.INSTANCE_WORDS, np.int64)
        self._words[:9] = (
            self._steps.ctypes.data, len(steps), scratch, stride, 0, self._patches.ctypes.data,
            len(patches), ctypes.addressof(self._io), self._tables.ctypes.data,
        )  # fmt: skip
        self._address = self._words.ctypes.data
        self._generation = -1
        self._entry = entry()

    def _fill(self, steps: Sequence[Step], arena: int) -> list[tuple[int, int, int]]:
        """Write steps and tables; gives the places that take addresses of arguments."""
        image, base = self._weights.loaded.image, self._tables.ctypes.data
        fixed = {
            "arena": [arena],
            "kept": self._weights.kept,
            "constant": [a.ctypes.data for a in self._weights.loaded.constants],
            "variable": [a.ctypes.data for a in self._weights.variables],
        }
        first = {"input": 0, "output": len(image.inputs)}
        patches, at, site = [], 0, 0
        for number, step in enumerate(steps):
            function = self._weights.loaded.functions[step.symbol]
            self._steps[number] = function, base + 8 * at, step.chunks, step.shared
            own = site if step.sites else len(self._sites)
            self._tables[at] = self.records.ctypes.data + 16 * own
            site += bool(step.sites)
            for k, slot in enumerate(step.slots, at + 1):
                if slot.kind in first:
                    patches.append((k, first[slot.kind] + slot.number, slot.offset))
                else:
                    self._tables[k] = _address(fixed, slot)
            at += 1 + len(step.slots)
        return patches

    def run(self, arrays: Sequence[Array]) -> None:
        """Run all steps; `arrays` are the inputs and then the outputs."""
        words = list(map(id, arrays)) if _HAS_KNOWN_LAYOUT else self._cells_of(arrays)
        for k, word in enumerate(words):
            self._io[k] = word
        if self._generation != generation():
            self._generation = generation()
            self._words[threads.OWN_POOL] = pool_address(self._count)
        self._entry(self._address)

    def _cells_of(self, arrays: Sequence[Array]) -> list[int]:
        """Stand-ins for array objects that are laid out in another way."""
        self._cells = np.array([[0, 0, a.ctypes.data] for a in arrays], np.int64).reshape(-1, 3)
        return [self._cells.ctypes.data + 24 * k for k in range(len(arrays))]

    def raise_failures(self) -> None:
        """Raise the first failed check of the call, if there was one, and forget it."""
        if not self.records.any():
            return
        found = self.records.copy()
        self.records[:] = 0
        for step, (number, value) in zip(self._sites, found.tolist(), strict=False):
            if number:
                _raise(step, number, value)


def _address(fixed: Mapping[str, Sequence[int]], slot: Slot) -> int:
    return fixed[slot.kind][slot.number] + slot.offset


def _raise(step: Step, number: int, value: int) -> Any:
    site = step.sites[number - 1]
    if site.dimension < 0:
        raise error(
            "E0803", "division of an integer by zero", site.span, notes=[f"in `{step.name}`"]
        )
    raise error(
        "E0802",
        f"index {value} is out of range for dimension {site.dimension} of `{site.tensor}`, "
        f"whose extent is {site.extent}",
        site.span,
        notes=[f"in `{step.name}`"],
    )
