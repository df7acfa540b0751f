"""A program that can be called with arrays, looked at, checked, and turned into a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..diagnostics import Diagnostic, error
from ..dtypes import DType
from ..frontends.eintup.dims import draw_dims
from ..frontends.eintup.explain import explain, make_example
from ..frontends.eintup.explanation import Explanation
from ..frontends.eintup.fixed import Fixed, combinations, fix, illegal_ranks
from ..frontends.eintup.legal import (
    IllegalArguments,
    LegalArguments,
    illegal_arguments,
    legal_arguments,
)
from ..frontends.eintup.origin import Origin, drawn_kind
from ..frontends.eintup.printer import print_index
from ..frontends.eintup.program import Array, Configuration, Program
from ..frontends.eintup.typing import infer_types
from ..ir.nodes import Graph
from ..model import Model, Store, Variables
from ..records import cached_property
from ..runtime.arguments import PortInfo, to_numpy
from ..runtime.options import Options
from .calls import Calls, check_seed
from .execute import Settings
from .verify import Verification, check_count, verify


class EinsumTuple:
    """A program that can be called with arrays, of any legal ranks and dims.

    It takes its inputs (the arrays that `RANDOM` fills first) by position in the program's order,
    or by name: NumPy arrays, PyTorch tensors on the CPU, and whatever has `__dlpack__` or
    `__array__`. Elements have any type of numbers, strides are arbitrary: arrays are read where
    they are, unless they go backwards or are not aligned. It gives an array, or a named tuple of
    several: PyTorch tensors if an argument was one, else NumPy arrays. Inputs that are left out are
    drawn, as the program says, if there is a `seed`; without one a program that draws in other
    places begins with 0. Calls are compiled for each choice of shapes, strides and dtypes.

    Raises `Error`: E08xx arrays that fit no ranks and dims, or several; E0301 types that do not
    suit the program; E0802 an index from data where it must be in range.
    """

    def __init__(
        self,
        program: Program,
        fixed: Fixed,
        settings: Settings,
        options: Options,
        warnings: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.program = program
        self.warnings = warnings
        self._fixed = fixed
        self._settings = settings
        self._options = options
        self._calls = Calls(program, fixed, settings, options)
        self.name = self._calls.name

    def __call__(self, /, *args: Any, seed: int | None = None, **kwargs: Any) -> Any:
        return self._calls(args, kwargs, seed)

    # ------------------------------------------------------------- what it is

    @property
    def source(self) -> str:
        """The text."""
        return self.program.source.text

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """What it takes; the shape has an item per slot of an array, of any number of axes."""
        return tuple(self._port(a) for a in self.program.inputs)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """What it gives for arrays of the types that `RANDOM` would give them."""
        return tuple(self._port(a) for a in self.program.outputs)

    def _port(self, array: Array) -> PortInfo:
        shape = tuple(print_index(item) for item in array.signature)
        return PortInfo(array.name, self._types[array.name].value, shape)

    @cached_property
    def _types(self) -> Mapping[str, DType]:
        real, int = DType(self._settings.real), DType(self._settings.int)
        kinds = {a.name: drawn_kind(a) for a in self.program.inputs}
        given = {name: real if kind == "FLOAT" else int for name, kind in kinds.items()}
        return infer_types(self.program, given, real, int)

    def explain(self) -> Explanation:
        """What the program means, derived from it; `str` of it is a text."""
        return explain(self.program, make_example(self.program, self._fixed))

    # --------------------------------------------------------- ranks and dims

    def at(
        self, ranks: Mapping[str, int] | None = None, dims: Mapping[str, Any] | None = None
    ) -> EinsumTuple:
        """The program with these ranks and dims fixed, besides those that are.

        Dims are a list with a number per component, or a number for all of them.
        """
        fixed = self._fixed.and_also(fix(self.program, ranks, dims))
        fixed.wanted_ranks()
        return EinsumTuple(self.program, fixed, self._settings, self._options, self.warnings)

    def infer(self, /, *args: Any, **kwargs: Any) -> Configuration:
        """The ranks and dims of a call: with arrays, or with shapes, as tuples."""
        bound = self._calls.bind(args, kwargs)
        return self._calls.infer({n: _shape(v, n) for n, v in bound.inputs.items()})

    def configurations(self, reps: int = 1, seed: int = 0) -> Iterator[Configuration]:
        """Legal ranks and dims: `reps` choices of dims, drawn, for each combination of ranks."""
        check_seed(seed)
        check_count("reps", reps, 0)
        rng = np.random.default_rng(seed)
        wanted = self._fixed.wanted_ranks()
        ranks = None
        for ranks in combinations(self.program, wanted):
            known = self._fixed.dims_at(ranks)
            for _ in range(reps):
                yield draw_dims(self.program, ranks, rng, known=known)
        if ranks is None:
            raise illegal_ranks(self.program, wanted)

    def legal(self, count: int = 10, seed: int = 0) -> list[LegalArguments]:
        """Shapes of inputs that fit the program."""
        check_seed(seed)
        check_count("count", count, 0)
        rng = np.random.default_rng(seed)
        return list(islice(legal_arguments(self.program, rng, count), count))

    def illegal(self, count: int = 10, seed: int = 0) -> list[IllegalArguments]:
        """Shapes of inputs that do not fit, with what is wrong about them."""
        check_seed(seed)
        check_count("count", count, 0)
        rng = np.random.default_rng(seed)
        return list(islice(illegal_arguments(self.program, rng, count), count))

    def verify(self, reps: int = 1, seed: int = 0, **how: Any) -> Verification:
        """Compare with the call that the program names, at all its ranks that `at` leaves.

        See `ricci.eintup.verify.verify`.
        """
        settings = {
            "threads": self._settings.threads, "target": self._settings.target, "fixed": self._fixed
        }  # fmt: skip
        return verify(self.program, reps, seed, **(settings | how))

    # ------------------------------------------------------- derived programs

    def gradient(
        self, wrt: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> Gradient:
        """The gradients of this program, derived from its statements.

        Called with its inputs and, for each real output `y` in `outputs`, a gradient `d_y` with
        respect to it; gives a gradient `d_x` for each real input `x` in `wrt`. None of either name
        means all. `ricci.torch.custom_op` trains through them.
        """
        from ..passes.gradient import gradient_graph

        for what, names, known in (
            ("input", wrt, self.program.inputs), ("output", outputs, self.program.outputs),
        ):  # fmt: skip
            _check_names(what, names or (), [a.name for a in known])

        def derive(graph: Graph) -> Graph:
            return gradient_graph(graph, wrt, outputs)

        return Gradient(Calls(self.program, self._fixed, self._settings, self._options, derive))

    @property
    def graph(self) -> Graph:
        """The program in the intermediate representation at the ranks and dims that are fixed.

        What is not fixed is open, and must be given by the shapes of the inputs; FLOAT and INT are
        what they stand for here. Raises `Error` E0801 where ranks, E0403 where dims are not
        determined.
        """
        origin = Origin(self.program, self._fixed)
        return origin.graph(DType(self._settings.real), DType(self._settings.int))

    def model(self, configuration: Configuration | None = None) -> Model:
        """The program as a model, at ranks and dims, or at those that are fixed.

        FLOAT and INT are what `Model.compile` says.
        """
        fixed = self._fixed if configuration is None else Fixed({}, configuration.dims)
        origin = Origin(self.program, fixed)
        graph = origin.graph()
        return Model(self.name, origin, graph, Variables(graph, Store()), self.warnings)

    def __repr__(self) -> str:
        fixed = [f"RANK({n})={r}" for n, r in self._fixed.ranks.items()]
        fixed += [f"DIMS({n})={d}" for n, d in self._fixed.dims.items()]
        return f"<ricci.EinsumTuple {', '.join([self.name, *fixed])}>"


class Gradient:
    """What computes gradients of a program: see `EinsumTuple.gradient`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.name = calls.name

    def __call__(self, /, *args: Any, seed: int | None = None, **kwargs: Any) -> Any:
        return self._calls(args, kwargs, seed)

    def __repr__(self) -> str:
        return f"<ricci.EinsumTuple gradient of {self.name}>"


def _shape(value: Any, name: str) -> tuple[int, ...]:
    if isinstance(value, tuple) and all(isinstance(n, int | np.integer) for n in value):
        return tuple(int(n) for n in value)
    return tuple(to_numpy(value, f"input `{name}`").shape)


def _check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            notes = [f"it has: {', '.join(known) or 'none'}"]
            raise error("E0801", f"the program has no {what} `{name}`", notes=notes)
