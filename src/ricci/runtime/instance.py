"""A compiled program in memory: constants, blocks, and the tables that a running call needs."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from .. import config
from ..backends.llvm import threads
from ..backends.llvm.jit import Library
from ..backends.llvm.steps import Image, Slot, Step
from ..backends.llvm.target import Target
from ..diagnostics import Error, error
from ..dtypes import DType
from ..records import replace
from ..stored import Stored
from .arguments import Array
from .blocks import Room, aligned, block, blocks
from .builtin import is_supported, make_builtin
from .pool import entry, generation, pool_address, runtime, this_machine
from .preparation import Part, needed_later, parts_of


def _has_known_layout() -> bool:
    """Whether the third word of an array object is the address of its elements."""
    array = np.zeros(3, np.float32)
    words = (ctypes.c_int64 * 3).from_address(id(array))
    return bool(words[2] == array.ctypes.data)


_HAS_KNOWN_LAYOUT = _has_known_layout()
_HAS_BUILTINS = _HAS_KNOWN_LAYOUT and is_supported()

UNSET = np.iinfo(np.int64).min
"""What a size that data defines asks for, as long as it has not been set."""


_FIRST_TURNS = 256
"""How many steps loops make in the first go."""
_BREAK = 0.05
"""Seconds that a go should take, so that an interruption comes soon however much a step does."""
_SMALL = 1 << 18
"""Bytes of an arena that may be there once for each of a few shapes."""


def most_steps() -> int:
    """How many steps the loops of a call may make."""
    return int(config.get("loop_steps")) or 1 << 31


def endless() -> Error:
    """The diagnostic for loops that do not end."""
    return error(
        "E0806",
        f"the loops of the graph have not ended after {most_steps()} steps",
        help="RICCI_LOOP_STEPS sets how many they may make",
    )


class Loaded:
    """An image whose code is loaded."""

    def __init__(self, image: Image, target: Target | None = None) -> None:
        self.code = Library(image.code, target or this_machine())
        self.image = replace(image, code=())  # what has been loaded is not kept a second time
        kernels = [s for s in (*image.prepare, *image.steps) if s.kind == "kernel"]
        self.functions = {s.symbol: self.code.address(s.symbol) for s in kernels}
        self.counters = {
            s.symbol: self.code.address(f"{s.symbol}.count") for s in kernels if s.counted
        }
        self.constants = [
            np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)
            for _, data in image.constants
        ]
        self.outputs = [(i.shape, DType(i.dtype).numpy()) for i in image.outputs]


class Weights:
    """The variables of a program at one time, and what is derived from them.

    Only what calls read stays in memory here, which is `late` if that is said. `before` are weights
    of earlier values, of which those at the places `changed` are others now; the rest is taken
    over.
    """

    def __init__(
        self,
        loaded: Loaded,
        variables: Sequence[Array | Stored],
        count: int,
        before: Weights | None = None,
        changed: frozenset[int] = frozenset(),
        late: Part | None = None,
    ) -> None:
        image = loaded.image
        self.loaded = loaded
        late = needed_later(image) if late is None else late
        self.variables = [
            aligned(v) if k in late.variables else None for k, v in enumerate(variables)
        ]
        """None at the places of those that only the preparation reads."""
        self._late = late.kept
        self._memory, self.kept = blocks(
            [n if k in late.kept else 0 for k, n in enumerate(image.kept)]
        )
        """Addresses; 0 of those that only the preparation reads, once it is done."""
        self._free: list[Instance] = []
        self.is_simple = is_simple(image.steps)
        """Whether `Instance.run_simply` does."""
        self.is_small = _bytes_of(image, image.steps, count) <= _SMALL
        """Whether calls of many kinds may have an instance each."""
        self._count = count
        self._lock = Lock()
        room = Room()
        for part in parts_of(image):
            if before is None or part.variables & changed:
                self._prepare(part, variables, room)
            else:
                self._take_over(part, before)

    def _prepare(self, part: Part, variables: Sequence[Array | Stored], room: Room) -> None:
        lent = [k for k in part.variables if self.variables[k] is None]
        arrays = room.read([variables[k] for k in lent])
        for k, array in zip(lent, arrays, strict=True):
            self.variables[k] = array
        between = [k for k in part.kept if k not in self._late]
        memory, places = blocks([self.loaded.image.kept[k] for k in between])
        for k, place in zip(between, places, strict=True):
            self.kept[k] = place
        instance = Instance(self, part.steps, self._count, bound=False)
        instance.run([])
        instance.raise_failures()
        for k in lent:
            self.variables[k] = None
        for k in between:
            self.kept[k] = 0
        del memory

    def _take_over(self, part: Part, before: Weights) -> None:
        sizes = self.loaded.image.kept
        for k in part.kept & self._late:
            ctypes.memmove(self.kept[k], before.kept[k], sizes[k])

    def take(self, sizes: Array | None = None) -> Instance:
        """Tables and an arena for one call, with these sizes of symbols if they are said."""
        try:
            instance = self._free.pop()
        except IndexError:
            instance = Instance(self, self.loaded.image.steps, self._count)
        if sizes is not None:
            instance.take_sizes(sizes)
        return instance

    def give(self, instance: Instance) -> None:
        self._free.append(instance)


_OPS = {
    "kernel": threads.KERNEL,
    "jump": threads.JUMP,
    "unless": threads.UNLESS,
    "back": threads.BACK,
    "point": threads.POINT,
    "stop": threads.STOP_FAILED,
}


def is_simple(steps: Sequence[Step]) -> bool:
    """Whether there are no loops, so that one call of a function is all."""
    return _HAS_BUILTINS and not any(s.kind == "back" for s in steps)


class Lent(NamedTuple):
    """Addresses of an instance that is run without `Instance`."""

    words: int
    cells: int
    """Where it reads the addresses of arguments and results."""


def own_bytes(step: Step, count: int) -> tuple[int, int]:
    """From which byte on so many threads have something for themselves, and how many bytes: where
    the arena is free at the time, or behind what is in it."""
    size, (begin, end, behind) = _aligned(step.scratch) * count, step.room
    begin = _aligned(begin)
    return begin if begin + size <= end else _aligned(behind), size


def _bytes_of(image: Image, steps: Sequence[Step], count: int) -> int:
    """Bytes of the arena of so many threads, with what each has for itself."""
    return max(image.arena, 0, *(sum(own_bytes(s, count)) for s in steps))


class Instance:
    """What a running call needs for itself: arena, tables of pointers, error records, sizes."""

    def __init__(
        self, weights: Weights, steps: Sequence[Step], count: int, bound: bool = True
    ) -> None:
        loaded = weights.loaded
        self._weights = weights
        self._sites = [s for s in steps if s.sites]
        self.can_fail = bool(self._sites)
        self._count = count
        self.records = np.zeros((len(self._sites) + 1, 4), np.int64)
        """Per step with checks: the number of the failed one, the value, the extent."""
        self._failures = self.records.data.cast("B")
        self._no_failures = bytes(self._failures)
        self._scratch, arena = block(_bytes_of(loaded.image, steps, count), loaded.image.arena)
        first = arena - self._scratch.ctypes.data
        self.arena = self._scratch[first : first + loaded.image.arena]
        """The bytes that the steps share. What threads have for themselves is before what is there
        at the time, or behind it."""
        image = loaded.image
        cells = image.sizes + image.defined
        self.sizes = np.zeros(cells + image.checks, np.int64)
        """The cells of the kind `size`."""
        self.wanted = self.sizes[image.sizes : cells]
        """What data asked for, of each size that it defines."""
        self.failed = self.sizes[cells:]
        self._sizes: Array | None = None
        """Those of symbols that were taken last."""
        self._unset = np.zeros_like(self.sizes)
        self._unset[image.sizes : cells] = UNSET
        self._has_loops = any(s.kind == "back" for s in steps)
        self._first = list(itertools.accumulate((1 + len(s.slots) for s in steps), initial=0))
        """Where the table of each step begins."""
        self._tables = np.zeros(max(self._first[-1], 1), np.int64)
        self._steps = np.zeros((max(len(steps), 1), threads.STEP_WORDS), np.int64)
        self._places: list[Array] = []
        self._patches = np.array(self._fill(steps, arena) or [(0, 0, 0)], np.int64)
        self._io = (ctypes.c_int64 * (len(image.inputs) + len(image.outputs) if bound else 0))()
        self._cells = (ctypes.c_int64 * len(self._io))()
        """Addresses of elements."""
        self._first_cell = ctypes.addressof(self._cells) - 16
        """What stands for an array object with such an address: its third word is read."""
        self._words = np.zeros(threads.INSTANCE_WORDS, np.int64)
        self._words[:9] = (
            self._steps.ctypes.data, len(steps), arena, 0, 0, self._patches.ctypes.data,
            self._patch_count, ctypes.addressof(self._io), self._tables.ctypes.data,
        )  # fmt: skip
        self._words[threads.CELLS] = ctypes.addressof(self._cells)
        if bound and is_simple(steps):
            run = runtime().address("ricci_run")
            self._call, self._words = make_builtin(run, self._words)
        self._address = self._words.ctypes.data
        self._generation = -1
        self._entry = entry()

    def _fill(self, steps: Sequence[Step], arena: int) -> list[tuple[int, int, int]]:
        """Write steps and tables; gives the places that take addresses of arguments."""
        loaded = self._weights.loaded
        fixed = {
            "arena": [arena],
            "kept": self._weights.kept,
            "constant": [a.ctypes.data for a in loaded.constants],
            "variable": [0 if a is None else a.ctypes.data for a in self._weights.variables],
            "size": [self.sizes.ctypes.data + 8 * k for k in range(len(self.sizes))],
        }
        first = {"input": 0, "output": len(loaded.image.inputs)}
        base, patches, site = self._tables.ctypes.data, [], 0
        for number, (step, at) in enumerate(zip(steps, self._first, strict=False)):
            own = site if step.sites else len(self._sites)
            if step.kind == "stop":  # it looks at the records of the steps before it
                own, step = 0, replace(step, chunks=site)
            self._tables[at] = self.records.ctypes.data + 32 * own
            site += bool(step.sites)
            self._steps[number] = (
                _OPS[step.kind], loaded.functions.get(step.symbol, 0), base + 8 * at, step.chunks,
                step.shared, loaded.counters.get(step.symbol, 0),
                own_bytes(step, self._count)[0] if step.kind == "kernel" else step.target,
                self._places_of(step, base),
            )  # fmt: skip
            for k, slot in enumerate(step.slots, at + 1):
                if slot.kind in first:
                    patches.append((k, first[slot.kind] + slot.number, slot.offset))
                elif slot.kind != "pointer":
                    self._tables[k] = _address(fixed, slot)
        self._patch_count = len(patches)
        return patches

    def _places_of(self, step: Step, base: int) -> int:
        """Where the list of the table entries is that a `point` writes; of a kernel, how far apart
        the scratch of threads is."""
        if step.kind != "point":
            return _aligned(step.scratch)
        entries = [base + 8 * (self._first[row] + 1 + slot) for row, slot in step.places]
        self._places.append(np.array([len(entries), *entries], np.int64))
        return int(self._places[-1].ctypes.data)

    def run(
        self, arrays: Sequence[Array], sizes: Array | None = None, addresses: Sequence[int] = ()
    ) -> None:
        """Run all steps; `arrays` are the inputs and then the outputs, `sizes` those of the
        symbols that the shapes of inputs define. `addresses` stand for the first of the arrays,
        which are left out.

        Raises `Error` E0806 if the loops have not ended after so many steps as they may have.
        """
        io = self._io
        for k, address in enumerate(addresses):
            self._cells[k] = address
            io[k] = self._first_cell + 8 * k
        words = map(id, arrays) if _HAS_KNOWN_LAYOUT else self._cells_of(arrays)
        for k, word in enumerate(words, len(addresses)):
            io[k] = word
        if self._generation != generation():
            self._generation = generation()
            self._words[threads.OWN_POOL] = pool_address(self._count)
        if sizes is not None:
            self.sizes[:] = self._unset
            self.sizes[: len(sizes)] = self._sizes = sizes
        if self._has_loops:
            self._run_loops()
        else:
            self._entry(self._address)

    def take_sizes(self, sizes: Array) -> None:
        """Take the sizes of symbols for the runs that follow, of steps that define none."""
        if self._sizes is not sizes:
            self.sizes[: len(sizes)] = self._sizes = sizes

    def run_simply(self, *words: object) -> None:
        """What `run` does for simple steps whose sizes are known: called with arrays, or addresses
        of elements, for arguments and results."""
        if self._generation != generation():
            self._generation = generation()
            self._words[threads.OWN_POOL] = pool_address(self._count)
        self._call(*words)
        if self.can_fail and bytes(self._failures) != self._no_failures:
            try:
                self.raise_failures()
            finally:
                self.forget_failures()

    def lend(self) -> Lent:
        """Be run by others, until pools are no longer there; nobody else runs it from now on."""
        for k in range(len(self._io)):
            self._io[k] = self._first_cell + 8 * k
        self._words[threads.OWN_POOL] = pool_address(self._count)
        return Lent(self._address, ctypes.addressof(self._cells))

    def _run_loops(self) -> None:
        """Run all steps, with breaks in which Python can raise a `KeyboardInterrupt`."""
        left, turns = most_steps(), _FIRST_TURNS
        self._words[threads.RESUME] = 0
        while left >= 0:
            turns = min(left + 1, turns)
            self._words[threads.TURNS] = turns
            began = perf_counter()
            self._entry(self._address)
            if self._words[threads.TURNS] > 0:
                return
            left -= turns
            turns = 2 * turns if perf_counter() - began < _BREAK else max(turns // 2, 1)
        raise endless()

    def _cells_of(self, arrays: Sequence[Array]) -> list[int]:
        """Stand-ins for array objects that are laid out in another way."""
        first = len(self._io) - len(arrays)
        for k, array in enumerate(arrays, first):
            self._cells[k] = array.ctypes.data
        return [self._first_cell + 8 * k for k in range(first, len(self._io))]

    def raise_failures(self) -> None:
        """Raise the first failed check of the call, if there was one."""
        if not self.records.any():
            return
        for step, (number, value, extent, _) in zip(
            self._sites, self.records.tolist(), strict=False
        ):
            if number:
                _raise(step, number, value, extent)

    def forget_failures(self) -> None:
        """Be ready for another call."""
        if self.can_fail:
            self.records[:] = 0


def _aligned(size: int) -> int:
    """Bytes up to the end of two lines of the cache, which processors bring together."""
    return -(-size // 128) * 128


def _address(fixed: Mapping[str, Sequence[int]], slot: Slot) -> int:
    return fixed[slot.kind][slot.number] + slot.offset


def _raise(step: Step, number: int, value: int, extent: int) -> Any:
    site = step.sites[number - 1]
    if site.dimension < 0:
        raise error(
            "E0803", "division of an integer by zero", site.span, notes=[f"in `{step.name}`"]
        )
    raise error(
        "E0802",
        f"index {value} is out of range for dimension {site.dimension} of `{site.tensor}`, "
        f"whose extent is {extent}",
        site.span,
        notes=[f"in `{step.name}`"],
    )
