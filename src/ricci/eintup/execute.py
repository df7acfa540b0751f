"""The arrays of a program at a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..diagnostics import error
from ..dtypes import DType, name_of
from ..frontends.eintup.lower import lower_program, lower_shape, needs_data
from ..frontends.eintup.program import Configuration, Program
from ..ir.nodes import Graph
from ..records import replace
from ..runtime.arguments import Array, to_numpy
from ..runtime.executable import Executable, compile_graph
from .constants import components
from .drawing import named_draws

_MOST_COMPILED = 64
"""How many executables are remembered."""

Dims = tuple[tuple[str, tuple[int, ...]], ...]
Dtypes = tuple[tuple[str, DType], ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """Where to compute, with how many threads, and what FLOAT and INT stand for."""

    target: str = "cpu"
    threads: int | None = None
    real: str = "float64"
    int: str = "int32"

    @property
    def types(self) -> tuple[DType, DType]:
        try:
            return DType(self.real), DType(self.int)
        except ValueError as problem:
            raise error("E0801", f"there is no such type: {problem}") from None


def evaluate(
    program: Program,
    configuration: Configuration,
    given: Mapping[str, object],
    wanted: Sequence[str],
    seed: int = 0,
    target: str = "cpu",
    threads: int | None = None,
    real: str = "float64",
    int: str = "int32",
) -> dict[str, Array]:
    """The final values of the arrays `wanted`.

    `given` are arrays for inputs of the program, which are passed on if no statement changes them;
    the others are drawn from `seed`. What was compiled is remembered for calls with the same
    configuration and dtypes. Raises `Error`: what compiling and running a graph raise.
    """
    arrays = {
        a.name: to_numpy(given[a.name], f"input `{a.name}`")
        for a in program.inputs
        if a.name in given
    }
    passed = {n: a for n, a in arrays.items() if n in wanted and not _is_changed(program, n)}
    rest = tuple(name for name in dict.fromkeys(wanted) if name not in passed)
    if not rest:
        return passed
    settings = Settings(target, threads, real, int)
    shapes = tuple(data_shapes(program, configuration, arrays, seed, settings).items())
    dims = tuple(configuration.dims.items())
    executable = _compiled(program, rest, dims, _dtypes(arrays), settings, shapes)
    with named_draws(program):
        results = _call(executable, arrays, seed)
    return passed | dict(zip(rest, (results,) if len(rest) == 1 else results, strict=True))


def _is_changed(program: Program, name: str) -> bool:
    """Whether a statement assigns to an input besides the one that fills it."""
    return [s.target.array.name for s in program.file.statements].count(name) > 1


def data_shapes(
    program: Program,
    configuration: Configuration,
    given: Mapping[str, Array],
    seed: int,
    settings: Settings,
) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays whose first mention has a slice: those that depend on data."""
    found: dict[str, tuple[int, ...]] = {}
    dims = tuple(configuration.dims.items())
    for array in needs_data(program):
        before = tuple(found.items())
        size = _shape_of(program, array.name, dims, _dtypes(given), settings, before)
        with named_draws(program):
            found[array.name] = tuple(_call(size, given, seed).tolist())
    return found


def _dtypes(arrays: Mapping[str, Array]) -> Dtypes:
    return tuple((name, _dtype(name, array)) for name, array in arrays.items())


def _dtype(name: str, array: Array) -> DType:
    try:
        return DType.of(array.dtype)
    except KeyError:
        message = f"input `{name}` has elements of a type that is not known"
        raise error("E0801", message, notes=[f"got {name_of(array.dtype)}"]) from None


def _call(executable: Executable, arrays: Mapping[str, Array], seed: int) -> Any:
    """A call; what it draws, if anything, is drawn from the seed."""
    draws = len(executable.inputs) > len(arrays)
    return executable(*arrays.values(), *([np.uint64(seed)] if draws else []))


@lru_cache(_MOST_COMPILED)
def _compiled(
    program: Program,
    wanted: tuple[str, ...],
    dims: Dims,
    given: Dtypes,
    settings: Settings,
    shapes: Dims,
) -> Executable:
    graph = lower_program(
        program, components(dict(dims)), dict(given), wanted, *settings.types, dict(shapes)
    )
    return _compile(graph, settings)


@lru_cache(_MOST_COMPILED)
def _shape_of(
    program: Program, array: str, dims: Dims, given: Dtypes, settings: Settings, shapes: Dims
) -> Executable:
    """What computes the shape of an array from data."""
    graph = lower_shape(
        program, array, components(dict(dims)), dict(given), *settings.types, dict(shapes)
    )
    return _compile(graph, replace(settings, int="int64"))  # an extent may need 64 bits


def _compile(graph: Graph, settings: Settings) -> Executable:
    return compile_graph(graph, {}, settings.target, settings.threads, settings.real, settings.int)
