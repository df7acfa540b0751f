"""Legal shapes for the inputs of a program, and others that one edit makes illegal.

For tests of whatever takes the same arguments, diagnostics above all: an illegal case says what a
message must name. Whether an edit leaves shapes legal is decided by reading them, as in a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Literal, TypeVar

import numpy as np

from ...diagnostics import Error
from ...ir import nodes as ir
from ...ir.shapes import as_int
from ...records import dataclass
from . import syntax as s
from .ambiguous import settling
from .conflict_words import slot_of
from .dims import broken_dims, compute_dims, computed, draw_dims
from .equations import Equations, Size
from .extents import shape_of
from .program import Configuration, Program
from .readings import Reader
from .uses import walk

Kind = Literal["INT", "FLOAT"]

T = TypeVar("T")

_MOST_RANKS = 4096
"""How many combinations of ranks are visited."""

_MOST_TRIES = 30
"""Edits that are tried for one illegal case."""

_LARGEST = 10**4
"""Elements of an array, where the constraints leave a choice."""

_OF_DIMS = ("E0410", "E0401", "E0501", "E0416")


@dataclass(frozen=True, slots=True)
class LegalArguments:
    """Shapes that a configuration gives; with `ranks` and `dims` fixed, that one alone."""

    configuration: Configuration
    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, Kind]
    ranks: Mapping[str, int]
    dims: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class IllegalArguments:
    """Arguments that are wrong; `edit` says how they came of legal ones.

    One of the `codes` is expected, and a message that contains all `names`.
    """

    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, Kind]
    edit: str
    codes: tuple[str, ...]
    names: tuple[str, ...]

    def is_expected(self, found: Error) -> bool:
        """Whether an error is what these arguments should give."""
        return any(
            d.code in self.codes and all(f"`{name}`" in d.message for name in self.names)
            for d in found.diagnostics
        )


# ----------------------------------------------------------------------- legal


def legal_arguments(
    program: Program, rng: np.random.Generator, count: int
) -> Iterator[LegalArguments]:
    """Cases at all legal ranks in turn, as many as asked for; edge sizes are likelier."""
    reader = Reader(program)
    kinds = input_kinds(program)
    for configuration in islice(_configurations(program, rng), count):
        shapes = _shapes(program, configuration)
        ranks, dims = settling(reader, shapes, configuration)
        yield LegalArguments(configuration, shapes, kinds, ranks, dims)


def _configurations(program: Program, rng: np.random.Generator) -> Iterator[Configuration]:
    combinations = list(islice(program.ranks.combinations(), _MOST_RANKS))
    for ranks in cycle(combinations):
        drawn = draw_dims(program, ranks, rng, (0, 8), largest=_LARGEST)
        yield _at_an_edge(program, drawn, rng)


def _at_an_edge(program: Program, drawn: Configuration, rng: np.random.Generator) -> Configuration:
    """Now and then with a size 0 or 1, if constraints that a call must keep allow it."""
    given = [name for name in program.eintups if name not in computed(program) and drawn.dims[name]]
    if not given or rng.random() < 0.6:
        return drawn
    name = given[int(rng.integers(len(given)))]
    at, size = int(rng.integers(len(drawn.dims[name]))), int(rng.integers(2))
    dims = (*drawn.dims[name][:at], size, *drawn.dims[name][at + 1 :])
    known = {n: drawn.dims[n] for n in given} | {name: dims}
    try:
        found = compute_dims(program, drawn.ranks, known | _empty(drawn))
    except Error:
        return drawn
    if found.keys() != drawn.dims.keys():
        return drawn
    edge = Configuration(found)
    return drawn if broken_dims(program, edge, intervals=False) else edge


def _empty(drawn: Configuration) -> dict[str, tuple[int, ...]]:
    return {name: dims for name, dims in drawn.dims.items() if not dims}


def _shapes(program: Program, configuration: Configuration) -> dict[str, tuple[int, ...]]:
    dims = {n: tuple(map(ir.integer, own)) for n, own in configuration.dims.items()}
    shapes = {a.name: shape_of(a, dims, program.arrays) for a in program.inputs}
    return {name: tuple(as_int(e) or 0 for e in shape) for name, shape in shapes.items()}


def input_kinds(program: Program) -> dict[str, Kind]:
    """What each input holds, as its `RANDOM` says."""
    kinds: dict[str, Kind] = {}
    for array in program.inputs:
        assert isinstance(array.first.value, s.Random)
        kinds[array.name] = array.first.value.kind
    return kinds


# --------------------------------------------------------------------- illegal


def illegal_arguments(
    program: Program, rng: np.random.Generator, count: int
) -> Iterator[IllegalArguments]:
    """Cases, as many as asked for, that single edits of legal arguments make of them.

    Where edits of shapes stay legal again and again, a surplus array makes them illegal.
    """
    edits = _Edits(program, rng)
    found = fruitless = 0
    legal = _configurations(program, rng)
    while found < count:
        configuration = next(legal)
        case = _Case(configuration, _shapes(program, configuration), edits.kinds)
        illegal = edits.one(case) if fruitless < _MOST_TRIES else edits.surplus(case)
        if illegal is None:
            fruitless += 1
            continue
        found, fruitless = found + 1, 0
        yield illegal


@dataclass(frozen=True, slots=True)
class _Case:
    """Legal arguments that are to be edited."""

    configuration: Configuration
    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, Kind]


class _Edits:
    """Draws edits of the legal arguments of a program."""

    def __init__(self, program: Program, rng: np.random.Generator) -> None:
        self.program = program
        self.rng = rng
        self.reader = Reader(program)
        self.kinds = input_kinds(program)
        self.indices = _index_arrays(program)

    def one(self, case: _Case) -> IllegalArguments | None:
        """An edit, unless it leaves the arguments legal."""
        if not case.shapes:
            return self.surplus(case)
        name = self._choice(list(case.shapes))
        match self._choice(["size"] * 6 + ["less"] * 4 + ["more"] * 4 + ["kind", "names"]):
            case "size":
                return self._other_size(case, name)
            case "less":
                return self._fewer(case, name)
            case "more":
                return self._more(case, name)
            case "kind":
                return self._other_kind(case)
            case _:
                return self._choice([self.surplus(case), self._missing(case, name)])

    def _choice(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    # ------------------------------------------------------------------- shapes

    def _other_size(self, case: _Case, name: str) -> IllegalArguments | None:
        shape = case.shapes[name]
        if not shape:
            return None
        at = int(self.rng.integers(len(shape)))
        sizes = {0, 1, shape[at] + 1, max(shape[at] - 1, 0), 2 * shape[at], 17} - {shape[at]}
        size = self._choice(sorted(sizes))
        shapes = {**case.shapes, name: (*shape[:at], size, *shape[at + 1 :])}
        edit = f"dimension {at} of `{name}` is {size}, not {shape[at]}"
        equations = self.reader.at(case.configuration.ranks)
        codes, names = _expected(self.program, self.reader, equations, Size(name, at))
        if len(list(islice(self._choices(shapes), 2))) > 1:
            codes, names = _OF_DIMS, (name,)
        return self._if_illegal(case, shapes, edit, codes, names)

    def _fewer(self, case: _Case, name: str) -> IllegalArguments | None:
        shape = case.shapes[name]
        if not shape:
            return None
        at = int(self.rng.integers(len(shape)))
        shapes = {**case.shapes, name: (*shape[:at], *shape[at + 1 :])}
        return self._recounted(case, shapes, name, f"`{name}` lacks dimension {at}")

    def _more(self, case: _Case, name: str) -> IllegalArguments | None:
        shape = case.shapes[name]
        at, size = int(self.rng.integers(len(shape) + 1)), int(self.rng.integers(1, 6))
        shapes = {**case.shapes, name: (*shape[:at], size, *shape[at:])}
        return self._recounted(case, shapes, name, f"`{name}` has a surplus dimension {at}")

    def _recounted(
        self, case: _Case, shapes: Mapping[str, tuple[int, ...]], name: str, edit: str
    ) -> IllegalArguments | None:
        codes = _OF_DIMS if any(True for _ in self._choices(shapes)) else ("E0411",)
        return self._if_illegal(case, shapes, edit, codes, (name,))

    def _choices(self, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Mapping[str, int]]:
        return iter(self.reader.choices({n: len(shape) for n, shape in shapes.items()}))

    def _if_illegal(
        self,
        case: _Case,
        shapes: Mapping[str, tuple[int, ...]],
        edit: str,
        codes: tuple[str, ...],
        names: tuple[str, ...],
    ) -> IllegalArguments | None:
        readings = self.reader.readings(shapes, most=1)
        if readings.items or not readings.complete:
            return None
        return IllegalArguments(shapes, case.kinds, edit, codes, names)

    # ------------------------------------------------------------ kinds and names

    def _other_kind(self, case: _Case) -> IllegalArguments | None:
        """Reals where integers are indices."""
        if not self.indices:
            return None
        name = self._choice(self.indices)
        kinds: dict[str, Kind] = {**case.kinds, name: "FLOAT"}
        edit = f"`{name}` holds reals"
        return IllegalArguments(case.shapes, kinds, edit, ("E0301",), (name,))

    def _missing(self, case: _Case, name: str) -> IllegalArguments:
        shapes = {n: shape for n, shape in case.shapes.items() if n != name}
        kinds = {n: kind for n, kind in case.kinds.items() if n != name}
        return IllegalArguments(shapes, kinds, f"`{name}` is missing", ("E0801",), (name,))

    def surplus(self, case: _Case) -> IllegalArguments:
        """An array that the program does not take."""
        name = "surplus"
        while name in self.program.arrays:
            name += "_"
        kinds: dict[str, Kind] = {**case.kinds, name: "FLOAT"}
        shapes = {**case.shapes, name: (2, 2)}
        return IllegalArguments(shapes, kinds, f"`{name}` is no input", ("E0801",), (name,))


def _index_arrays(program: Program) -> list[str]:
    """The inputs that serve as indices."""
    nodes = [node for statement in program.file.statements for node in walk(statement)]
    found = [node.array.name for node in nodes if isinstance(node, s.Slice)]
    return [name for name in dict.fromkeys(found) if program.arrays[name].is_input]


def _expected(
    program: Program, reader: Reader, at: Equations, size: Size
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The codes and names that a wrong size should give, by what else speaks of its group."""
    item, _ = slot_of(reader, at, size)
    if not isinstance(item, s.Eintup):
        return ("E0401", "E0501"), (size.array,)
    others = [a for a in program.inputs if a.name != size.array and item in a.signature]
    return ("E0410",) if others else _OF_DIMS, (size.array, item.name)
