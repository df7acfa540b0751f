"""What compiling a model gives: something to call with arrays."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Mapping, Sequence
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..backends.llvm.targets import check_runs, named
from ..diagnostics import Error, error
from ..dtypes import BFLOAT16, DType, Types
from ..ir.interpret_bind import hidden_ports
from ..ir.limits import check_memory
from ..ir.nodes import Graph, Port
from ..stored import Stored
from .arguments import (
    Array,
    Inputs,
    PortInfo,
    describe,
    is_torch,
    to_torch,
    to_user,
    with_own_bfloat16,
)
from .engine import Engine, Interpreter
from .native import Native, Trial
from .options import as_options
from .pool import thread_count
from .variables import VariableValues
from .whole import Whole

if TYPE_CHECKING:
    from .profile import Profile

_REALS = ("float16", "bfloat16", "float32", "float64")
_INTS = ("int8", "int16", "int32", "int64")


def compile_graph(
    graph: Graph,
    variables: Mapping[str, Array | Stored] | None = None,
    target: str = "cpu",
    threads: int | None = None,
    real: str = "float32",
    int: str = "int64",
    strided: bool = False,
    options: object = None,
    whole: Whole | None = None,
) -> Executable:
    """A graph as something to call; see `Executable`.

    `target` is "cpu", "interpreter", or a processor that this one can stand for
    (`backends.llvm.targets`). A graph is compiled once, for all sizes that its symbols can
    have; only where one has no upper bound, or one beyond the memory (and no batch is done item by
    item), for each choice of sizes when it first occurs. `strided` compiles for each choice of
    strides too, instead of copying arrays
    that are not contiguous. `options` say how kernels are computed (`Options`, or what stands for
    them). A `graph` without operations has them in `whole`. Raises `Error` E0801 for an argument
    that is not one of the choices, E0901 for a tensor larger than the memory.
    """
    check_execution(target, threads)
    check_types(real, int)
    types = Types(DType(real), DType(int))
    chosen = as_options(options)
    check_memory(graph)
    if target == "interpreter":
        return Executable(graph, variables or {}, types, Interpreter(graph, types))
    count = thread_count(chosen.threads if threads is None else threads)
    processor = None if target == "cpu" else named(target)
    engine = Native(graph, types, count, strided, chosen, processor, whole)
    return Executable(graph, variables or {}, types, engine, strided)


def check_execution(target: str, threads: object) -> None:
    """Raise E0801 unless this says where to compute, and with how many threads at most; E0805 for
    a processor whose code this machine does not run."""
    if target not in ("cpu", "interpreter"):
        named(target)
        check_runs(target)
    if threads is None:
        return
    if not isinstance(threads, (int, np.integer)) or isinstance(threads, bool) or threads < 1:
        raise error(
            "E0801", f"`threads` must be a positive integer or None, not {short_repr(threads)}"
        )


def check_types(real: str, int: str) -> None:
    """Raise E0801 unless these can stand for the abstract types."""
    _check_choice("real", real, _REALS)
    _check_choice("int", int, _INTS)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise error(
            "E0801", f"`{value}` cannot stand for {name}", notes=[f"choices: {', '.join(choices)}"]
        )


class Executable:
    """A compiled graph.

    Call it with arrays, by position or by name: NumPy arrays, PyTorch tensors on the CPU, or
    whatever has `__dlpack__` or `__array__`; a pack is a list or tuple of them; an optional input
    that was left out when the model was loaded takes `None`. It gives one array, or a named tuple
    of them (a pack is a list): PyTorch tensors if an argument was one, else NumPy arrays; of
    bfloat16 in the dtype of the package `ml_dtypes`, or in float32 without it. Arguments
    are never modified; contiguous ones of the right dtype are not copied. May be called from
    several threads at once; calls of a graph that updates variables are then made one after the
    other. A call that fails updates nothing.

    Raises `Error`: E0801 wrong arguments or a variable without value, E0804 sizes that do not
    agree, E0501 an assertion about sizes, E0802 an index out of range, E0803 an integer
    divided by zero, E0806 loops that do not end, E0901 too little memory.
    """

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[str, Array | Stored],
        types: Types,
        engine: Engine,
        strided: bool = False,
    ) -> None:
        self._graph = graph
        self._types = types
        self._engine = engine
        self._inputs = Inputs(graph.name, graph.inputs, _dtypes(graph.inputs, types), strided)
        self.name = graph.name
        self.inputs: tuple[PortInfo, ...] = _describe(graph.inputs, types)
        self.outputs: tuple[PortInfo, ...] = _describe(graph.outputs, types)
        self.variables = VariableValues(graph, types, engine.variables_changed)
        for name in variables:
            self.variables.adopt(name, variables[name])
        engine.start(self.variables)
        self._ports = [p for p in graph.outputs if p not in hidden_ports(graph.outputs)]
        self._result = _result_type(self._ports)
        self._has_bfloat16 = BFLOAT16 in _dtypes(graph.outputs, types)
        self._are_arrays = not (self._has_bfloat16 or any(p.packed for p in self._ports))

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        again = None if kwargs else self.again(args)
        if again is not None:
            return again
        try:
            arrays = self._inputs.collect(args, kwargs)
            results = self._engine.run(arrays, self.variables)
            if not kwargs:
                self._engine.remember(args, arrays)
        except MemoryError as problem:
            raise _no_memory(problem) from None
        return self._wrapped(results, any(map(_has_torch, (*args, *kwargs.values()))))

    def again(self, args: tuple[object, ...]) -> Any | None:
        """What a call with these arguments gives, if there was one with their like; else none."""
        try:
            at_once = self._engine.at_once
            found = None if at_once is None else at_once(*args)
            if found is not None:
                return found if self._result is None else tuple.__new__(self._result, found)
            results = self._engine.run_again(args, self.variables)
        except MemoryError as problem:
            raise _no_memory(problem) from None
        return None if results is None else self._wrapped(results, type(args[0]) is not np.ndarray)

    def unchecked(self, arrays: tuple[Any, ...]) -> Any:
        """A call with aligned NumPy arrays of the right dtypes: nobody looks at these once there
        was a call with the same shapes and strides. Any other is one that is checked."""
        again = self.again(arrays)  # takes least
        if again is not None:
            return again
        results = self._engine.run_unchecked(arrays, self.variables)
        return self(*arrays) if results is None else self._wrapped(results, False)

    def into(self, out: Sequence[Array], /, *args: object, **kwargs: object) -> None:
        """A call that writes its results to arrays: contiguous, of the right shapes and dtypes.

        For graphs without packs and without sizes that data defines. The arrays must not share
        memory with arguments. Raises what a call raises.
        """
        arrays = self._inputs.collect(args, kwargs)
        self._engine.run(arrays, self.variables, list(map(with_own_bfloat16, out)))

    def into_again(self, out: tuple[object, ...], args: tuple[object, ...]) -> bool:
        """Whether this was a call like an earlier one of `into`, and has been done.

        `out` are arrays or tensors as callers have them, which may be unfit.
        """
        at_once = self._engine.into_at_once
        if at_once is not None and len(out) == len(self._ports):
            found = at_once(*args, *out)
            if found is not None:
                return True
        return self._engine.run_again(args, self.variables, out) is not None

    def remember_into(
        self, out: tuple[object, ...], targets: Sequence[Array], args: tuple[object, ...]
    ) -> None:
        """Let `into_again` know a call of `into` that has been done, with `out` as `targets`."""
        self._engine.remember(args, self._inputs.collect(args, {}), out, targets)

    def prepare(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Compile for contiguous arguments of these shapes now, not at the first call."""
        self._engine.prepare(shapes)

    def profile(self, /, *args: object, rounds: int = 20, **kwargs: object) -> Profile:
        """The time of every kernel of a call with these arguments, and what bounds it.

        The call is made `rounds` times with code that takes the time around each kernel; medians
        count. Variables keep their values. The first time in a process, what the machine can do is
        measured too, for about a second. Raises what a call raises, E0801 for `rounds` that are not
        a positive integer, and E0805 if there is no native code.
        """
        from .profile import profile

        return profile(self.trial(*args, **kwargs), rounds)

    def trial(self, /, *args: object, **kwargs: object) -> Trial:
        """What a call with these arguments runs, to be looked at; raises what a call raises before
        anything is computed, and E0805 if there is no native code."""
        return self._engine.trial(self._inputs.collect(args, kwargs), self.variables)

    def _wrapped(self, results: Sequence[object], torch: bool) -> Any:
        """What a call gives: its results in the library of its arguments."""
        if self._are_arrays:
            if torch:
                results = list(map(sys.modules["torch"].from_numpy, results))
        elif torch or self._has_bfloat16:
            results = [_given(r, torch) for r in results]
        return results[0] if self._result is None else tuple.__new__(self._result, results)

    def __repr__(self) -> str:
        return f"<ricci.Executable {self.name}: {_ports(self.inputs)} -> {_ports(self.outputs)}>"


def _no_memory(problem: MemoryError) -> Error:
    return error("E0901", f"there is not enough memory for this call: {problem}")


def _ports(ports: Sequence[PortInfo]) -> str:
    return ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in ports)


def _has_torch(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_torch, value))
    return is_torch(value)


def _dtypes(ports: Sequence[Port], types: Types) -> tuple[np.dtype[Any], ...]:
    return tuple(types.of(t.dtype).numpy() for p in ports for t in p.tensors)


def _describe(ports: Sequence[Port], types: Types) -> tuple[PortInfo, ...]:
    hidden = hidden_ports(ports)
    return tuple(
        describe(p, [types.of(t.dtype).value for t in p.tensors]) for p in ports if p not in hidden
    )


def _given(result: object, torch: bool) -> object:
    """A result, or a pack of them, for callers."""
    convert = to_torch if torch else to_user
    return (
        [convert(r) for r in result] if isinstance(result, list) else convert(cast(Array, result))
    )


def _result_type(ports: Sequence[Port]) -> Any:
    """The named tuple of several outputs; none for a single one."""
    if len(ports) == 1:
        return None
    return namedtuple("Outputs", [p.name for p in ports], rename=True)
