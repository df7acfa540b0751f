"""A compiled program as plain data: object code, and the tables that its kernels run with.

An image holds nothing of the intermediate representation, so it can be kept on disk, and run
without what it was made by.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...dtypes import DType
from ...ir.loops import Kind
from ...records import dataclass
from ...source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Site:
    """A check that a kernel makes while it runs, and what to say when it fails.

    The error record then holds the number of the site, from 1, the value and the extent.
    With `dimension < 0` the check is of a divisor that must not be zero.
    """

    tensor: str
    dimension: int
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Slot:
    """Where an entry of a kernel's table points: a block of a kind, and bytes into it."""

    kind: Kind
    number: int
    offset: int


StepKind = Literal["kernel", "jump", "unless", "back", "point", "stop"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a running program does next.

    A `kernel`: its symbol, its table (after the error record), and how it is run; if `counted`,
    the symbol with `.count` tells the chunks. A `jump` goes on at step `target`; `unless` does so
    if the bool at its first slot is false; `back` does, and counts the turns of a loop, unless
    that is `shared`: known to end. A `point` lets the entries `places` (step and slot) of tables
    point to one of the slots after the first, which holds its number; or, if the second is
    `shared` by all items, so many bytes as there are `chunks`, times that number, behind it. A
    `stop` ends the run if a check of a step before it has failed. `number` is that of the kernel
    in the program, and `template` the kind of its code. `room` says from which byte of the arena
    to which there is nothing meanwhile, and behind which.
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
    number: int = -1
    template: str = ""
    room: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Info:
    """An array that a program works on."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * DType(self.dtype).numpy().itemsize


@dataclass(frozen=True, slots=True)
class Image:
    """All that is needed to run a program, for one choice of sizes or for all.

    Shapes are those of the largest sizes. `sizes`, `defined` and `checks` count cells, and `states`
    arrays, as in `Program`.
    """

    code: tuple[bytes, ...]
    """Object files."""
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
    states: int = 0

    @property
    def variable_dtypes(self) -> list[np.dtype[Any]]:
        """The dtypes in which steps read variables."""
        return [DType(v.dtype).numpy() for v in self.variables]
