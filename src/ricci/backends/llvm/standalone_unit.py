"""What an object file that runs without Python is made of, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from ...records import dataclass
from .kernels import KernelCode
from .steps import Image, Step

UNSET = -(1 << 63)
"""What a size that data defines asks for, as long as it has not been set."""

Part = str | int
"""Of a message: text, or the number of a cell whose value is shown."""


TestKind = Literal["equals", "unlike", "above", "negative"]


@dataclass(frozen=True, slots=True)
class Test:
    """What a call fails by, with a code.

    That is a cell which `equals` the number `other`; one that is set, but `unlike` the cell
    `other`; one that is `above` that cell; or one that is `negative`.
    """

    cell: int
    kind: TestKind
    other: int
    code: int
    message: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps, and the tests to make after them."""

    steps: tuple[Step, ...] = ()
    tests: tuple[Test, ...] = ()


# Arguments of a call, in order. Inputs and then outputs of the image are counted as one row.


@dataclass(frozen=True, slots=True)
class Size:
    """A number that a cell holds during the call: from 0 to `most`, if that is known."""

    name: str
    cell: int
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Array:
    """The address of the elements of an input or output."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class Pack:
    """The address of an array of such addresses. With a `count` those beyond it are not looked at:
    zeros stand for them."""

    name: str
    numbers: tuple[int, ...]
    count: Count | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The length of a pack, up to the largest, which is an input itself."""

    name: str
    number: int
    most: int


@dataclass(frozen=True, slots=True)
class Shape:
    """Where to write the values of cells after the call, unless it is null."""

    name: str
    cells: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Length:
    """Where to write the length of a pack of results, an output of so many bits, unless null."""

    name: str
    number: int
    bits: int


Argument = Size | Array | Pack | Count | Shape | Length


@dataclass(frozen=True, slots=True)
class State:
    """A variable that calls change: an input and an output, which take turns; and what it begins
    with."""

    name: str
    input: int
    output: int
    first: bytes


@dataclass(frozen=True)
class Unit:
    """All that an object file is made of.

    `image` has no object code; `codes` are its kernels and those of the other stages. `before` and
    `after` are done before and after the steps of a call, `explain` before a message is written,
    and `image.prepare` when a model is made, unless `data`, blocks by kind and number, has what
    these give. `tests` are those after the steps.
    """

    prefix: str
    image: Image
    codes: Mapping[str, KernelCode]
    arguments: tuple[Argument, ...]
    states: tuple[State, ...] = ()
    before: Stage = Stage()
    tests: tuple[Test, ...] = ()
    after: Stage = Stage()
    explain: Stage = Stage()
    data: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    cells: int = 0
    """Sizes, and whatever else the stages keep in cells."""
    zeros: int = 0
    """Bytes of what stands for items of packs that are not there."""
    threads: int = 1
    loop_steps: int = 1 << 31
    """The most turns of loops in a call."""
    separate: bool = False
    """Whether the data stands in a file of its own."""


@dataclass(frozen=True, slots=True)
class Built:
    """An object file; the file of its data, if that is separate; the functions that it needs."""

    code: bytes
    weights: bytes | None
    needs: tuple[str, ...]
