"""How an executable computes: what every engine does, and the engine that interprets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..diagnostics import error
from ..dtypes import BFLOAT16, Types, to_bfloat16
from ..ir.interpret_bind import hidden_ports
from ..ir.nodes import Graph, Port, Tensor
from .arguments import Array
from .variables import VariableValues

if TYPE_CHECKING:
    from .native import Trial


class Engine:
    """How an executable computes."""

    at_once: Callable[..., Any] | None = None
    """Makes a whole call: gives a result, or a tuple of several; or `None`, and nothing has
    happened, if others must look at the arguments."""
    into_at_once: Callable[..., Any] | None = None
    """The same of a call that writes to its last arguments: gives no results, that is `()`."""

    def run(
        self,
        arrays: Sequence[Array | None],
        variables: VariableValues,
        out: Sequence[Array] | None = None,
    ) -> list[object]:
        """The results, one per port that callers see: an array, or a list of them.

        `arrays` has one for each tensor of the input ports; none for items of a pack that are
        beyond its length. `out` are contiguous arrays that the results are written to, where
        the graph has no packs and sizes that data defines.
        """
        raise AssertionError("an engine runs programs")

    def run_again(
        self, args: tuple[Any, ...], variables: VariableValues, out: tuple[Any, ...] = ()
    ) -> list[object] | None:
        """What `run` gives, for arguments as callers have them, if they are like those of an
        earlier call, of one library; none if they must be looked at. `out` are left as results."""
        return None

    def run_unchecked(
        self, args: tuple[Any, ...], variables: VariableValues
    ) -> list[object] | None:
        """What `run` gives, if there was a call with NumPy arrays of these shapes and strides."""
        return None

    def remember(
        self, args: tuple[Any, ...], arrays: Sequence[Array | None], out: Sequence[Any] = (),
        targets: Sequence[Array] = (),
    ) -> None:  # fmt: skip
        """Know the arguments of a call again that `run` was given as `arrays` and `targets`."""

    def start(self, variables: VariableValues) -> None:
        """Derive what calls need from variables, if it is known what calls need."""

    def prepare(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Be ready for contiguous arguments of these shapes; E0804 if they do not fit together."""

    def trial(self, arrays: Sequence[Array | None], variables: VariableValues) -> Trial:
        """A call with these arguments, ready to be run again and again."""
        raise error("E0805", "only native code has kernels to take the time of")

    def variables_changed(self, name: str) -> None:
        """Forget what was derived from a variable."""


class Interpreter(Engine):
    def __init__(self, graph: Graph, types: Types) -> None:
        self.graph = graph
        self.types = types
        self._updated = [old for old, _ in graph.updates]
        self._lock: AbstractContextManager[object] = RLock() if graph.updates else nullcontext()

    def run(
        self,
        arrays: Sequence[Array | None],
        variables: VariableValues,
        out: Sequence[Array] | None = None,
    ) -> list[object]:
        from ..ir.interpret import interpret

        inputs: dict[str, Any] = {}  # bfloat16 is converted by `interpret`
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
            values = [self._encoded(new[t.name], t) for t in self._updated]
            variables.advance(self._updated, values)
        found = [self._result(p, results[p.name]) for p in self.graph.outputs if p.name in results]
        if out is None:
            return found
        for array, result in zip(out, found, strict=True):
            np.copyto(array, cast(Array, result))
        return list(out)

    def _result(self, port: Port, result: Array | list[Array]) -> object:
        if not isinstance(result, list):
            return self._encoded(result, port.tensors[0])
        return [self._encoded(a, t) for a, t in zip(result, port.tensors, strict=False)]

    def _encoded(self, array: Array, tensor: Tensor) -> Array:
        """An array of the interpreter in the dtype of its tensor: it has bfloat16 in float32."""
        dtype = self.types.of(tensor.dtype).numpy()
        return to_bfloat16(array) if dtype == BFLOAT16 else array
