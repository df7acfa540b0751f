"""What is tuned: a graph with arguments, bound to their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from ..backends.llvm.machine import machine_of
from ..diagnostics import Error, error
from ..dtypes import Types
from ..ir.interpret_block import Store
from ..ir.nodes import Graph, Symbol, Tensor
from ..ir.shapes import evaluate
from ..passes.pipeline import lower
from ..records import replace
from ..stored import Stored
from . import tuning_file
from .arguments import Array, Inputs
from .engine import Interpreter
from .options import target_for
from .pool import this_machine
from .signature import check_shapes, has_bounds, strides_of, with_state
from .tuning_kernel import Subject
from .variables import VariableValues


class Problem:
    """A graph with arguments, bound to their sizes."""

    def __init__(
        self,
        graph: Graph,
        variables: Mapping[str, Array | Stored],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        types: Types,
        strided: bool,
    ) -> None:
        self.graph, self.types, self._variables = graph, types, variables
        self._strided = strided
        tensors = [t for p in graph.inputs for t in p.tensors]
        dtypes = tuple(types.of(t.dtype).numpy() for t in tensors)
        found = Inputs(graph.name, graph.inputs, dtypes, strided).collect(args, kwargs)
        if graph.sizes or any(a is None for a in found):
            raise error("E0805", f"`{graph.name}` has sizes that are known only when it runs")
        if graph.symbols and has_bounds(graph):
            raise error(
                "E0805",
                f"`{graph.name}` is compiled once for all sizes, and not tuned for some",
                help="tune a graph whose sizes are numbers, or have no bounds",
            )
        self.arrays = [a for a in found if a is not None]
        store = Store(types.real.value, types.int.value)
        store.arrays.update(zip(tensors, self.arrays, strict=True))
        check_shapes(graph, store)
        self.sizes = {s: store.symbols[s] for s in graph.symbols}
        self.strides = strides_of(self.arrays) if strided else {}

    def smaller(self, factor: float) -> Problem | None:
        """This problem, or if `factor` is more than 1 one with so much less work: the sizes and
        arrays are cut. None if there is no such."""
        if factor <= 1:
            return self
        if not self.sizes:
            return None
        divisor = max(2, math.ceil(factor ** (1 / max(len(self.sizes), 1))))
        sizes = {s: -(-n // divisor) for s, n in self.sizes.items()}
        rest = iter(self.arrays)
        args: list[object] = []
        for port in self.graph.inputs:
            items = [_cut(next(rest), t, sizes) for t in port.tensors]
            args.append(items if port.packed else items[0] if items else None)
        with suppress(Error):
            return Problem(self.graph, self._variables, args, {}, self.types, self._strided)
        return None

    def values(self) -> VariableValues:
        values = VariableValues(self.graph, self.types, lambda _: None)
        for name, array in self._variables.items():
            values.adopt(name, array)
        return values

    def subject(self, threads: int) -> Subject:
        stateful, values = with_state(self.graph), self.values()
        changed = [old for old, _ in self.graph.updates]
        constant = [v for v in self.graph.variables if v not in changed]
        target = target_for(replace(this_machine(), cores=threads))
        machine, states = machine_of(target), len(changed)
        program = lower(stateful, self.sizes, self.types, self.strides, states, machine)
        arrays = [*self.arrays, *values.of(changed)]
        dtypes = [t.dtype.numpy() for t in program.variables]
        return Subject(program, target, arrays, values.of(constant, dtypes), threads)

    def key(self, threads: int) -> tuning_file.Key:
        graph = with_state(self.graph)
        return tuning_file.key_of(
            graph, self.types, threads, self.sizes, self.strides, target_for(this_machine())
        )

    def interpreted(self) -> list[Array]:
        """The results of the interpreter, items of packs one by one."""
        results = Interpreter(self.graph, self.types).run(self.arrays, self.values())
        flat = [a for r in results for a in (r if isinstance(r, list) else [r])]
        return [np.asarray(a) for a in flat]


def _cut(array: Array, tensor: Tensor, sizes: Mapping[Symbol, int]) -> Array:
    shape = [max(evaluate(e, sizes), 0) for e in tensor.shape]
    return array[tuple(slice(n) for n in shape)]
