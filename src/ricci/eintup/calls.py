"""Calls of a program with arrays: compiled for each choice of shapes and dtypes, and remembered."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as short_repr
from typing import Any

import numpy as np

from ..diagnostics import Error, error
from ..dtypes import DType, name_of
from ..frontends.eintup.fixed import Fixed
from ..frontends.eintup.lower import lower_program, needs_data
from ..frontends.eintup.origin import name_of as name_of_source
from ..frontends.eintup.program import Configuration, Program
from ..frontends.eintup.solve import solve
from ..frontends.eintup.typing import infer_types
from ..frontends.suggest import did_you_mean
from ..ir.nodes import Graph
from ..runtime.arguments import Array, to_numpy
from ..runtime.executable import Executable, compile_graph
from ..runtime.options import Options
from .constants import components
from .drawing import named_draws
from .execute import Settings, data_shapes

Shapes = dict[str, tuple[int, ...]]

_MOST_COMPILED = 256
"""How many choices of shapes and dtypes are remembered."""

SEEDS = 2**64
"""Seeds are numbers below."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The arguments of a call by name: of the inputs, and others that come after them."""

    inputs: Mapping[str, Any]
    others: Mapping[str, Any]
    places: Sequence[Any] = ()
    """Other arguments by position."""

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: to_numpy(value, f"input `{name}`") for name, value in self.inputs.items()}


@dataclass(frozen=True, slots=True)
class _Ready:
    """What computes calls with inputs of certain shapes and dtypes."""

    executable: Executable
    draws: str
    """The name of the input for a seed; empty if there is none."""

    def arguments(self, bound: Bound, seed: int) -> list[Any]:
        """The arguments in the order of the graph's inputs."""
        known = {**bound.inputs, **bound.others}
        if self.draws:
            known[self.draws] = np.uint64(seed)
        names = [port.name for port in self.executable.inputs]
        rest = [name for name in names if name not in known]
        if len(bound.places) > len(rest):
            raise self._wrong("too many arguments", names)
        known |= dict(zip(rest, bound.places, strict=False))
        for name in bound.others:
            if name not in names:
                raise self._wrong(f"there is no input `{name}`", names)
        for name in names:
            if name not in known:
                raise self._wrong(f"input `{name}` is missing", names)
        return [known[name] for name in names]

    def _wrong(self, message: str, names: Sequence[str]) -> Error:
        shown = ", ".join(f"`{name}`" for name in names if name != self.draws)
        return error("E0801", message, notes=[f"inputs: {shown}"])


class Calls:
    """A program, or what is derived from its graph, as something to call."""

    def __init__(
        self,
        program: Program,
        fixed: Fixed,
        settings: Settings,
        options: Options,
        derive: Callable[[Graph], Graph] | None = None,
    ) -> None:
        self.name = name_of_source(program.source)
        self._program = program
        self._fixed = fixed
        self._settings = settings
        self._options = options
        self._derive = derive
        self._data = bool(needs_data(program))
        self._ready: dict[object, _Ready] = {}
        self._known: dict[object, Executable] = {}
        self._last: Executable | None = None

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int | None) -> Any:
        again = None if kwargs else self._again(args)
        if again is not None:
            return again
        bound = self.bind(args, kwargs)
        self._check_all_there(bound, seed)
        ready = self._find(bound, seed or 0)
        arguments = ready.arguments(bound, seed or 0)
        with named_draws(self._program):
            result = ready.executable(*arguments)
        same = len(args) == len(arguments) and all(map(operator.is_, args, arguments))
        kinds = _kinds(args) if same and not self._data and not ready.draws else None
        if kinds is not None:
            self._last = self._known[kinds] = ready.executable
        return result

    def _again(self, args: tuple[Any, ...]) -> Any | None:
        """What a call gives that is like an earlier one; none if its arguments must be looked at.

        Most calls are like the last one. The executable looks at all that is asked of arguments.
        """
        again = None if self._last is None else self._last.again(args)
        if again is None and self._known:
            found = self._known.get(_kinds(args))
            if found is not None:
                self._last, again = found, found.again(args)
        return again

    def infer(self, shapes: Shapes) -> Configuration:
        """The ranks and dims that shapes of inputs give."""
        return solve(self._program, shapes, self._fixed.ranks, self._fixed.dims)

    # ---------------------------------------------------------------- arguments

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Arguments by name; E0801 for those that the program does not have."""
        names = [a.name for a in self._program.inputs]
        given = dict(zip(names, args, strict=False))
        places, others = args[len(names) :], {}
        for name, value in kwargs.items():
            if name in given:
                raise self._wrong(f"input `{name}` of `{self.name}` was given twice")
            if name in names:
                given[name] = value
            else:
                others[name] = value
        if self._derive is None and places:
            raise self._wrong(
                f"`{self.name}` takes {len(names)} inputs, and {len(args)} were given"
            )
        if self._derive is None and others:
            raise self._unknown(next(iter(others)))
        return Bound({n: given[n] for n in names if given.get(n) is not None}, others, places)

    def _check_all_there(self, bound: Bound, seed: int | None) -> None:
        if seed is not None:
            check_seed(seed)
            return
        absent = [f"`{a.name}`" for a in self._program.inputs if a.name not in bound.inputs]
        if absent:
            raise self._wrong(
                f"`{self.name}` is not given {' and '.join(absent)}",
                "seed=0 draws what is left out, as the program says",
            )

    def _unknown(self, name: str) -> Error:
        names = [a.name for a in self._program.inputs]
        help = did_you_mean(name, names)
        if name in self._program.arrays:
            help = "only arrays that `RANDOM` fills first, all of them, are inputs"
        return self._wrong(f"`{self.name}` has no input `{name}`", help)

    def _wrong(self, message: str, help: str = "") -> Error:
        shown = ", ".join(f"`{a.name}`" for a in self._program.inputs)
        return error("E0801", message, notes=[f"inputs: {shown or 'none'}"], help=help)

    # ---------------------------------------------------------------- compiling

    def _find(self, bound: Bound, seed: int) -> _Ready:
        arrays = bound.arrays
        key: tuple[object, ...] = tuple([(n, a.shape, a.dtype) for n, a in arrays.items()])
        shapes: Shapes = {}
        if self._data:
            configuration = self.infer({n: a.shape for n, a in arrays.items()})
            shapes = data_shapes(self._program, configuration, arrays, seed, self._settings)
            key += tuple(shapes.items())
        if key not in self._ready:
            if len(self._ready) >= _MOST_COMPILED:
                self._ready.clear()
                self._known.clear()
            self._ready[key] = self._compile(arrays, shapes)
        return self._ready[key]

    def _compile(self, arrays: Mapping[str, Array], shapes: Shapes) -> _Ready:
        program, settings = self._program, self._settings
        real, int = DType(settings.real), DType(settings.int)
        given = {name: _dtype(name, array) for name, array in arrays.items()}
        infer_types(program, given, real, int)  # before shapes, which may be read in several ways
        configuration = self.infer({n: a.shape for n, a in arrays.items()})
        wanted = [a.name for a in program.outputs]
        graph = lower_program(
            program, components(configuration.dims), given, wanted, real, int, shapes, self.name
        )
        draws = [p.name for p in graph.inputs if p.name not in given]
        graph = self._derive(graph) if self._derive else graph
        executable = compile_graph(
            graph, {}, settings.target, settings.threads, settings.real, settings.int,
            strided=True, options=self._options,
        )  # fmt: skip
        return _Ready(executable, draws[0] if draws else "")


def _kinds(args: tuple[Any, ...]) -> tuple[object, ...] | None:
    """What of arrays decides about an executable; none of something else than arrays."""
    try:
        kinds = tuple([(type(a), a.dtype, a.shape) for a in args])
        hash(kinds)
    except (AttributeError, TypeError):
        return None
    return kinds


def check_seed(seed: object) -> None:
    """Raise E0801 unless this is a number that random numbers can begin with."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and 0 <= seed < SEEDS:
        return
    raise error("E0801", f"a seed is a number from 0 to 2**64 - 1, not {short_repr(seed)}")


def _dtype(name: str, array: Array) -> DType:
    try:
        return DType.of(array.dtype)
    except KeyError:
        raise error(
            "E0801",
            f"input `{name}` has elements of a type that is not computed with",
            notes=[f"got {name_of(array.dtype)}"],
        ) from None
