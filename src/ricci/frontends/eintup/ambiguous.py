"""Shapes that can be read in several ways: two of them, and what would settle it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...diagnostics import Error, error
from .conflict_words import listed
from .equations import Shapes
from .program import Configuration
from .readings import Reader, Readings

_MOST_OPEN = 6
"""How many eintups a message names."""


def ambiguous_shapes(reader: Reader, shapes: Shapes, readings: Readings) -> Error:
    """The error of shapes that leave ranks or dims open."""
    first = readings.items[0].first
    second = readings.items[1].first if len(readings.items) > 1 else readings.items[0].second
    ranks, dims = settling(reader, shapes)
    notes = [_received(shapes)]
    if second is None:
        notes.append(f"one reading: {_reading(first, list(dims))}; there may be others")
    else:
        names = [name for name in first.dims if first.dims[name] != second.dims[name]]
        notes += [f"one reading: {_reading(first, names)}", f"another: {_reading(second, names)}"]
    open_ones = [*(f"RANK({name})" for name in ranks), *(f"`{name}`" for name in dims)]
    return error(
        "E0403",
        f"the shapes do not determine {listed(_short(open_ones))}",
        notes=notes,
        help=f"say which is meant, for example by `{settling_text(ranks, dims)}`"
        f", or {_settling_options(ranks, dims)}",
    )


def settling(
    reader: Reader, shapes: Shapes, wanted: Configuration | None = None
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Ranks and dims that leave one reading when they are fixed: the one wanted, else the first."""
    ranks: dict[str, int] = {}
    dims: dict[str, tuple[int, ...]] = {}
    for _ in range(2 * len(reader.program.eintups)):
        readings = reader.fixing(ranks, dims).readings(shapes)
        if readings.unique or not readings.items:
            break
        target = wanted or readings.items[0].first
        name = _differing_rank(readings, target)
        if name is not None:
            ranks[name] = target.ranks[name]
        else:
            name = _open_dims(readings)
            if name is None:
                break
            dims[name] = target.dims[name]
    order = reader.program.eintups
    return {n: ranks[n] for n in order if n in ranks}, {n: dims[n] for n in order if n in dims}


def _differing_rank(readings: Readings, target: Configuration) -> str | None:
    """An eintup whose rank tells a reading from the target."""
    for reading in readings.items:
        for name, rank in reading.at.ranks.items():
            if rank != target.ranks[name]:
                return name
    return None


def _open_dims(readings: Readings) -> str | None:
    """An eintup whose dims are open in a reading."""
    for reading in readings.items:
        for part in reading.found.parts:
            if not part.unique:
                return next(key[0] for key in reading.at.unknowns if key in part.unknowns)
    return None


def settling_text(ranks: Mapping[str, int], dims: Mapping[str, tuple[int, ...]]) -> str:
    """`at(ranks={"a": 1}, dims={"stride": [1, 1]})`."""
    parts = []
    if ranks:
        parts.append("ranks={" + ", ".join(f'"{n}": {r}' for n, r in ranks.items()) + "}")
    if dims:
        parts.append("dims={" + ", ".join(f'"{n}": {list(d)}' for n, d in dims.items()) + "}")
    return f"at({', '.join(parts)})"


def _settling_options(ranks: Mapping[str, int], dims: Mapping[str, tuple[int, ...]]) -> str:
    """`--attrib "RANK(a)=1" --attrib "DIMS(stride)=[1,1]"`."""
    options = [f'--attrib "RANK({name})={rank}"' for name, rank in ranks.items()]
    lists = {name: ",".join(map(str, extents)) for name, extents in dims.items()}
    options += [f'--attrib "DIMS({name})=[{extents}]"' for name, extents in lists.items()]
    return " ".join(options)


def _received(shapes: Shapes) -> str:
    text = ", ".join(f"`{name}` {list(shape)}" for name, shape in shapes.items())
    return f"received {text}" if text else "no shapes were given"


def _reading(configuration: Configuration, names: Sequence[str]) -> str:
    return listed(_short([f"`{name}` = {list(configuration.dims[name])}" for name in names]))


def _short(words: Sequence[str]) -> list[str]:
    if len(words) <= _MOST_OPEN:
        return list(words)
    return [*words[:_MOST_OPEN], f"{len(words) - _MOST_OPEN} more"]
