"""What compiling a model gives: something to call with arrays."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..diagnostics import error
from ..dtypes import DType
from ..ir.interpret_bind import hidden_ports
from ..ir.limits import check_memory
from ..ir.nodes import Graph, Port
from ..passes.specialise import Types
from .arguments import Array, Inputs, PortInfo, describe, is_torch, to_torch
from .engine import Engine, Interpreter
from .native import Native
from .pool import thread_count
from .variables import VariableValues

_REALS = ("float16", "float32", "float64")
_INTS = ("int8", "int16", "int32", "int64")


def compile_graph(
    graph: Graph,
    variables: Mapping[str, Array] | None = None,
    target: str = "cpu",
    threads: int | None = None,
    real: str = "float32",
    int: str = "int64",
) -> Executable:
    """A graph as something to call; see `Executable`.

    `target` is "cpu" or "interpreter". A graph is compiled once, for all sizes that its symbols can
    have; only where one has no upper bound, or one beyond the memory, for each choice of sizes when
    it first occurs. Raises `Error` E0801 for an argument that is not one of the choices, E0901 for
    a tensor larger than the memory.
    """
    if target not in ("cpu", "interpreter"):
        raise error("E0801", f"there is no target `{target}`", notes=["targets: cpu, interpreter"])
    _check_choice("real", real, _REALS)
    _check_choice("int", int, _INTS)
    types = Types(DType(real), DType(int))
    check_memory(graph)
    if target == "interpreter":
        return Executable(graph, variables or {}, types, Interpreter(graph, types))
    return Executable(graph, variables or {}, types, Native(graph, types, thread_count(threads)))


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
    of them (a pack is a list): PyTorch tensors if an argument was one, else NumPy arrays. Arguments
    are never modified; contiguous ones of the right dtype are not copied. May be called from
    several threads at once; calls of a graph that updates variables are then made one after the
    other. A call that fails updates nothing.

    Raises `Error`: E0801 wrong arguments or a variable without value, E0804 sizes that do not
    agree, E0501 an assertion about sizes, E0802 an index out of range, E0803 an integer
    divided by zero, E0806 loops that do not end, E0901 too little memory.
    """

    def __init__(
        self, graph: Graph, variables: Mapping[str, Array], types: Types, engine: Engine
    ) -> None:
        self._graph = graph
        self._types = types
        self._engine = engine
        self._inputs = Inputs(graph.name, graph.inputs, _dtypes(graph.inputs, types))
        self.name = graph.name
        self.inputs: tuple[PortInfo, ...] = _describe(graph.inputs, types)
        self.outputs: tuple[PortInfo, ...] = _describe(graph.outputs, types)
        self.variables = VariableValues(graph, types, engine.variables_changed)
        for name in variables:
            self.variables.adopt(name, variables[name])
        self._ports = [p for p in graph.outputs if p not in hidden_ports(graph.outputs)]
        self._result = _result_type(self._ports)

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        try:
            if not kwargs and self._inputs.are_ready(args):
                return self._wrapped(self._engine.run(args, self.variables))
            arrays = self._inputs.collect(args, kwargs)
            results = self._engine.run(arrays, self.variables)
        except MemoryError as problem:
            raise error("E0901", f"there is not enough memory for this call: {problem}") from None
        if any(map(_has_torch, args)) or any(map(_has_torch, kwargs.values())):
            return self._wrapped([_to_torch(r) for r in results])
        return self._wrapped(results)

    def _wrapped(self, results: Sequence[object]) -> Any:
        return results[0] if self._result is None else self._result(*results)

    def __repr__(self) -> str:
        return f"<ricci.Executable {self.name}: {_ports(self.inputs)} -> {_ports(self.outputs)}>"


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


def _to_torch(result: object) -> object:
    return (
        [to_torch(r) for r in result] if isinstance(result, list) else to_torch(cast(Array, result))
    )


def _result_type(ports: Sequence[Port]) -> Any:
    """The named tuple of several outputs; none for a single one."""
    if len(ports) == 1:
        return None
    return namedtuple("Outputs", [p.name for p in ports], rename=True)
