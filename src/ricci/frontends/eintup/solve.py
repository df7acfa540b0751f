"""From the shapes of arrays to the ranks and dims of a program."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...diagnostics import Error, error
from ...dtypes import DType
from ..suggest import did_you_mean
from .ambiguous import ambiguous_shapes
from .conflict_words import listed, ranks_finding
from .diagnose import wrong_shapes
from .program import Configuration, Program
from .readings import Dims, Reader
from .typing import infer_types

_NOTHING: Mapping[str, int] = MappingProxyType({})


def solve(
    program: Program,
    shapes: Mapping[str, tuple[int, ...]],
    ranks: Mapping[str, int] = _NOTHING,
    dims: Dims = _NOTHING,
) -> Configuration:
    """The ranks and dims of all eintups, from shapes of inputs and what the caller fixes.

    A number in `dims` stands for all components. What constraints compute, and what equations
    leave one value for, is found; bounds by numbers alone need not be kept. Raises `Error`: E0403
    if several readings fit, E0411, E0410, E0401, E0416 or E0501 if none does, E0801 for names that
    are no inputs or eintups, E0903 if there are too many possibilities.
    """
    reader = Reader(program, ranks, dims)
    _check(reader, shapes)
    readings = reader.readings(shapes)
    if readings.unique:
        return readings.items[0].first
    if readings.items:
        raise ambiguous_shapes(reader, shapes, readings)
    if readings.complete:
        raise wrong_shapes(reader, shapes)
    raise error(
        "E0903",
        "too many ranks and dims to try for these shapes",
        help="fix some of them with `at(ranks={...}, dims={...})`",
    )


def check_arguments(
    program: Program,
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, DType],
    ranks: Mapping[str, int] = _NOTHING,
    dims: Dims = _NOTHING,
) -> Configuration:
    """What `solve` gives for all inputs of a call; also E0801 if one is missing, and E0301 if one
    holds numbers of the wrong kind."""
    _check(Reader(program, ranks, dims), shapes)
    missing = [f"`{array.name}`" for array in program.inputs if array.name not in shapes]
    if missing:
        raise error("E0801", f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    infer_types(program, types)
    return solve(program, shapes, ranks, dims)


def _check(reader: Reader, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Names must be known, sizes not negative, and fixed ranks legal."""
    program = reader.program
    inputs = [array.name for array in program.inputs]
    for name in shapes:
        if name not in inputs:
            raise unknown_input(program, name)
        if min(shapes[name], default=0) < 0:
            raise error(
                "E0801", f"`{name}` has the shape {list(shapes[name])}, with a negative size"
            )
    for name in (*reader.ranks, *reader.dims):
        if name not in program.eintups:
            raise error(
                "E0801",
                f"the program has no eintup `{name}`",
                notes=[f"it has {listed([f'`{n}`' for n in program.eintups])}"],
                help=did_you_mean(name, program.eintups),
            )
    _check_fixed(reader)


def _check_fixed(reader: Reader) -> None:
    for name, given in reader.dims.items():
        if isinstance(given, tuple) and reader.ranks.get(name, len(given)) != len(given):
            message = (
                f"`{name}` is fixed to rank {reader.ranks[name]}, and to the dims {list(given)}"
            )
            raise error("E0801", message)
        if min(given if isinstance(given, tuple) else (given,), default=0) < 0:
            raise error("E0801", f"`{name}` is fixed to negative dims")
    fixed = reader.fixed_ranks()
    if reader.choices({}).empty:
        finding = ranks_finding(reader, {}, [], list(fixed))
        raise error(finding.code, finding.message, notes=finding.notes)


def unknown_input(program: Program, name: str) -> Error:
    """The error of an array that a call gives and the program does not take."""
    inputs = [array.name for array in program.inputs]
    computed = name in program.arrays
    message = f"`{name}` is computed" if computed else f"the program has no input `{name}`"
    return error(
        "E0801",
        message,
        notes=[f"its inputs are {listed([f'`{n}`' for n in inputs])}" if inputs else "it has none"],
        help="" if computed else did_you_mean(name, inputs),
    )
