"""How an executable computes: what every engine does, and the engine that interprets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any

from ..ir.interpret import interpret
from ..ir.interpret_bind import hidden_ports
from ..ir.nodes import Graph
from ..passes.specialise import Types
from .arguments import Array
from .variables import VariableValues


class Engine:
    """How an executable computes."""

    def run(self, arrays: Sequence[Array | None], variables: VariableValues) -> list[object]:
        """The results, one per port that callers see: an array, or a list of them.

        `arrays` has one for each tensor of the input ports; none for items of a pack that are
        beyond its length.
        """
        raise AssertionError("an engine runs programs")

    def variables_changed(self) -> None:
        """Forget what was derived from variables."""


class Interpreter(Engine):
    def __init__(self, graph: Graph, types: Types) -> None:
        self.graph = graph
        self.types = types
        self._updated = [old for old, _ in graph.updates]
        self._lock: AbstractContextManager[object] = RLock() if graph.updates else nullcontext()

    def run(self, arrays: Sequence[Array | None], variables: VariableValues) -> list[object]:
        inputs: dict[str, Any] = {}
        rest = iter(arrays)
        hidden = hidden_ports(self.graph.inputs)
        for port in self.graph.inputs:
            items = [a for a in (next(rest) for _ in port.tensors) if a is not None]
            if port not in hidden:
                inputs[port.name] = items if port.packed else (items[0] if items else None)
        with self._lock:
            values = variables.of(self.graph.variables)
            named = {t.name: v for t, v in zip(self.graph.variables, values, strict=True)}
            new: dict[str, Array] = {}
            types = self.types
            results = interpret(
                self.graph, inputs, named, types.real.value, types.int.value, updated=new
            )
            variables.advance(self._updated, [new[t.name] for t in self._updated])
        return list(results.values())
