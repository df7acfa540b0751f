"""A checked file: what its names stand for, and what its ranks and dims are.

`Program` is what `check.check_file` makes of a tree. A `Configuration` gives every eintup its dims,
and with them its rank; at a configuration a program is an ordinary index program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ...records import dataclass
from ...source import NOWHERE, Source, Span
from . import syntax as s

if TYPE_CHECKING:
    from .ranks import Ranks


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array of a program; its first mention, on the left, fixes signature and shape.

    Each item of the signature is a slot: a later access has as many items, each of the rank of its
    slot. An input is an array that is first filled, all of it, with `RANDOM`: a caller can
    give it instead.
    """

    name: str
    first: s.Statement
    is_input: bool
    span: Span = field(default=NOWHERE, repr=False)

    @property
    def signature(self) -> tuple[s.IndexExpr, ...]:
        return self.first.target.items


@dataclass(frozen=True, slots=True)
class Configuration:
    """Ranks and dims of all eintups: one legal choice for a program."""

    dims: Mapping[str, tuple[int, ...]]

    @property
    def ranks(self) -> dict[str, int]:
        return {name: len(dims) for name, dims in self.dims.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A file whose names, ranks and constraints have been checked.

    `arrays` and `eintups` are in the order of their first appearance (an eintup that only the
    constraints or the call speak of comes last).
    """

    file: s.File
    arrays: Mapping[str, Array]
    eintups: tuple[str, ...]
    ranks: Ranks

    @property
    def source(self) -> Source:
        return self.file.source

    @property
    def inputs(self) -> tuple[Array, ...]:
        return tuple(a for a in self.arrays.values() if a.is_input)

    @property
    def outputs(self) -> tuple[Array, ...]:
        """The arrays of the outputs line; without one, the last that is computed."""
        if self.file.outputs:
            return tuple(self.arrays[i.name] for i in self.file.outputs)
        computed = [a for a in self.arrays.values() if not a.is_input]
        return tuple(computed[-1:] or list(self.arrays.values())[-1:])
