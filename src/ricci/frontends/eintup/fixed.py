"""Ranks and dims that a caller fixes, and the ranks that follow.

A number given as dims stands for all components, however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from reprlib import repr as short_repr
from typing import SupportsIndex, cast

from ...diagnostics import Error, error
from ...records import dataclass
from ..suggest import did_you_mean
from .program import Program

LARGEST_DIM = 2**62
"""No dim is this large: products of two do not fit into 64 bits."""

_MOST = 4096
"""How many combinations of ranks are looked at, to say which ranks are open."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a caller decides about the eintups of a program."""

    ranks: Mapping[str, int] = field(default_factory=dict)
    dims: Mapping[str, int | tuple[int, ...]] = field(default_factory=dict)

    def wanted_ranks(self) -> dict[str, int]:
        """The ranks given, and those that lists of dims have."""
        lists = {name: len(d) for name, d in self.dims.items() if isinstance(d, tuple)}
        for name, rank in lists.items():
            if self.ranks.get(name, rank) != rank:
                raise error(
                    "E0801",
                    f"`DIMS({name})` has {rank} component{'s' * (rank != 1)}, "
                    f"and `RANK({name})` is {self.ranks[name]}",
                )
        return {**lists, **self.ranks}

    def dims_at(self, ranks: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The dims given, at ranks."""
        return {
            name: dims if isinstance(dims, tuple) else (dims,) * ranks[name]
            for name, dims in self.dims.items()
        }

    def and_also(self, other: Fixed) -> Fixed:
        """Both; of two values for one name the other's."""
        return Fixed({**self.ranks, **other.ranks}, {**self.dims, **other.dims})


def fix(
    program: Program, ranks: Mapping[str, object] | None, dims: Mapping[str, object] | None
) -> Fixed:
    """What a caller gives, checked; E0801 for names that are none and values of other kinds."""
    for what, given in (("ranks", ranks), ("dims", dims)):
        if given is not None and not isinstance(given, Mapping):
            raise error("E0801", f"`{what}` must be a dictionary, not {short_repr(given)}")
    for name in (*(ranks or {}), *(dims or {})):
        if name not in program.eintups:
            raise _unknown(program, str(name))
    return Fixed(
        {name: _rank(name, value) for name, value in (ranks or {}).items()},
        {name: _dims(name, value) for name, value in (dims or {}).items()},
    )


def fix_attributes(program: Program, attributes: Mapping[str, object]) -> Fixed:
    """What a caller gives as `RANK(b)` and `DIMS(stride)`; values may be texts."""
    ranks: dict[str, object] = {}
    dims: dict[str, object] = {}
    for key, value in attributes.items():
        match = _KEY.fullmatch(str(key))
        if match is None:
            raise error(
                "E0801",
                f"`{key}` is nothing that can be given for a program",
                help="attributes are `RANK(name)` and `DIMS(name)` of its eintups",
            )
        chosen = ranks if match[1] == "RANK" else dims
        chosen[match[2]] = _read(value) if isinstance(value, str) else value
    return fix(program, ranks, dims)


def ranks_for(program: Program, fixed: Fixed) -> dict[str, int]:
    """The only legal ranks with what is given; `Error` E0801 if there are none, or several."""
    wanted = fixed.wanted_ranks()
    found = _first(combinations(program, wanted), _MOST)
    if not found:
        raise illegal_ranks(program, wanted)
    if len(found) > 1:
        raise _open(program, found, wanted)
    return found[0]


def combinations(program: Program, wanted: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The legal combinations of ranks that have the ranks wanted."""
    for number, ranks in enumerate(program.ranks.combinations(wanted)):
        if wanted and number == 0 and program.ranks.broken(ranks) is not None:
            return  # a rank that no constraint lets be another
        yield ranks


def _first(items: Iterator[dict[str, int]], count: int) -> list[dict[str, int]]:
    return [item for item, _ in zip(items, range(count), strict=False)]


# ---------------------------------------------------------------------- values

_KEY = re.compile(r"\s*(RANK|DIMS)\s*\(\s*([A-Za-z_]\w*)\s*\)\s*")
_LIST = re.compile(r"\s*[\[(](.*)[\])]\s*")
_NUMBER = re.compile(r"\s*\d{1,20}\s*")


def _read(text: str) -> object:
    """What a text stands for: a number, or a list of some; else the text, to be refused."""
    match = _LIST.fullmatch(text)
    if match is None:
        return int(text) if _NUMBER.fullmatch(text) else text
    items = [item for item in match[1].split(",") if item.strip()]
    return [int(item) for item in items] if all(map(_NUMBER.fullmatch, items)) else text


def _rank(name: str, value: object) -> int:
    number = _number(value)
    if number is None:
        raise error("E0801", f"`RANK({name})` is a number from 0, not {short_repr(value)}")
    return number


def _dims(name: str, value: object) -> int | tuple[int, ...]:
    number = _number(value)
    if number is not None:
        return number
    if hasattr(value, "tolist"):  # NumPy's arrays
        value = value.tolist()
    items = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [None]
    numbers = [_number(item) for item in items]
    if None in numbers:
        raise error(
            "E0801",
            f"`DIMS({name})` is a list of numbers from 0, or one for all components, "
            f"not {short_repr(value)}",
        )
    return tuple(cast("list[int]", numbers))


def _number(value: object) -> int | None:
    """A whole number, of Python or NumPy, that a rank or dim may be."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        number = value.__index__()
    except TypeError:  # an array
        return None
    return number if 0 <= number < LARGEST_DIM else None


# -------------------------------------------------------------------- messages


def _unknown(program: Program, name: str) -> Error:
    known = ", ".join(program.eintups) or "none"
    return error(
        "E0801",
        f"the program has no eintup `{name}`",
        notes=[f"it has: {known}"],
        help=did_you_mean(name, program.eintups),
    )


def illegal_ranks(program: Program, wanted: Mapping[str, int]) -> Error:
    """The error of ranks that no legal combination has."""
    notes = [
        f"RANK({name}) = {rank}, and can be {_between(program.ranks.interval(name))}"
        for name, rank in wanted.items()
    ]
    return error("E0801", "the program has no legal ranks with those given", notes=notes)


def _open(program: Program, found: Sequence[Mapping[str, int]], wanted: Mapping[str, int]) -> Error:
    """The error of ranks that several combinations have."""
    notes: list[str] = []
    first: dict[str, int] = {}
    for names in program.ranks.classes:
        name = names[0]
        low, high = program.ranks.interval(name)
        several = len({ranks[name] for ranks in found}) > 1
        if several or (len(found) == _MOST and low < high and wanted.keys().isdisjoint(names)):
            others = "".join(f" = RANK({other})" for other in names[1:])
            notes.append(f"RANK({name}){others}: {_between((low, high))}")
            first[name] = found[0][name]
    return error(
        "E0801",
        f"the program can have several ranks: {_several(len(found))} combinations are legal",
        notes=notes,
        help="choose one, for example " + as_attributes("RANK", first),
    )


def as_attributes(what: str, given: Mapping[str, object]) -> str:
    """How values are given for ranks or dims, in Python and to the command."""
    items = ", ".join(f'"{what}({name})": {value}' for name, value in given.items())
    options = [f'--attrib "{what}({n})={v}"'.replace(", ", ",") for n, v in given.items()]
    return f"attribs={{{items}}}, or {' '.join(options)}"


def _several(count: int) -> str:
    return str(count) if count < _MOST else f"{count} and more"


def _between(interval: Iterable[int]) -> str:
    low, high = interval
    return str(low) if low == high else f"{low} to {high}"
