"""The reference interpreter: what a graph means, in NumPy.

Every executor is tested against it. `docs/ir.md` states the numeric rules in words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import config
from ..diagnostics import error
from ..dtypes import DType
from ..source import NOWHERE
from . import shapes
from .interpret_assignment import execute
from .interpret_bind import bind_inputs, bind_variables, check, hidden_ports, set_size
from .interpret_block import Store
from .interpret_scalar import Array
from .nodes import Branch, Check, Graph, Loop, Operation, Port, Region, Step, Symbol, Tensor
from .rewrite import all_steps, free_symbols, loop_results, step_tensors

Argument = npt.ArrayLike | Sequence[npt.ArrayLike]
Result = Array | list[Array]

MOST_ELEMENTS = 1 << 57
"""Of a tensor, not counting dimensions without extent: NumPy refuses more of eight bytes each."""


def interpret(
    graph: Graph,
    inputs: Mapping[str, Argument],
    variables: Mapping[str, npt.ArrayLike] | None = None,
    real: str = "float64",
    int: str = "int64",
    *,
    updated: dict[str, Array] | None = None,
) -> dict[str, Result]:
    """Run a graph: arrays by output port name; a list of them for a pack.

    `inputs` maps port names to arrays, or lists of arrays for packs; an optional port may be
    absent or `None`. `variables` maps `Tensor.name` to arrays. `real` and `int` name the
    types that stand for the abstract ones; arguments of other numeric types are converted
    where that keeps the kind. Numbers of bfloat16 are given in float32. Sums and products of
    reals accumulate in float64. The new values of updated variables are put into `updated`, if
    given.

    Raises `Error`: E0801 for wrong arguments, E0804 for sizes that do not agree, E0501 for
    a check that fails, E0802 for an index out of range, E0803 for integer division by zero,
    E0806 for a loop that does not end.
    """
    run = _Run(graph, Store(real, int))
    with np.errstate(all="ignore"):
        bind_inputs(graph, inputs, run.store)
        bind_variables(graph, variables or {}, run.store)
        run.start()
        run.steps(graph.operations)
    if updated is not None:
        updated.update((old.name, run.store.arrays[new].copy()) for old, new in graph.updates)
    hidden = hidden_ports(graph.outputs)
    return {port.name: run.result(port) for port in graph.outputs if port not in hidden}


_MOST_STEPS = 1 << 20
"""Steps of loops in one call, unless the setting `loop_steps` says another number."""


class _Run:
    """One execution of a graph."""

    def __init__(self, graph: Graph, store: Store) -> None:
        self.graph = graph
        self.store = store
        self._steps_left: int = config.get("loop_steps") or _MOST_STEPS
        self._sizes: dict[Tensor, list[Symbol]] = {}
        for symbol, tensor in graph.sizes:
            self._sizes.setdefault(tensor, []).append(symbol)
        self._checks: dict[Symbol, list[Check]] = {}
        for item in graph.checks:
            for symbol in free_symbols(item.condition):
                self._checks.setdefault(symbol, []).append(item)
        self._inner: dict[Loop, list[Symbol]] = {}

    def start(self) -> None:
        """Make the checks of all that the arguments define, and the constants."""
        for item in self.graph.checks:
            check(item, self.store)
        for tensor in self.graph.constants:
            self.define_constant(tensor)
        for port in self.graph.inputs:
            for tensor in port.tensors:
                self.assign(tensor, self.store.arrays[tensor])

    def result(self, port: Port) -> Result:
        """The arrays of an output, copied: an output may be an argument passed on."""
        length = None if port.length is None else int(self.store.arrays[port.length])
        arrays = [self.store.arrays[t].copy() for t in port.tensors[:length]]
        return arrays if port.packed else arrays[0]

    def define_constant(self, tensor: Tensor) -> None:
        dtype = self.store.dtype(tensor.dtype)
        if isinstance(tensor.data, tuple):
            array = np.array(tensor.data).reshape(self.shape(tensor))
        elif tensor.data is not None:
            array = np.full(self.shape(tensor), tensor.data)
        else:
            return
        self.assign(tensor, self.store.rounded(array, tensor.dtype).astype(dtype))

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The extents of a tensor, from the symbols that are known by now."""
        shape = tuple(shapes.evaluate(e, self.store.symbols) for e in tensor.shape)
        if any(n < 0 for n in shape):
            message = f"`{tensor.name}` has a negative extent: {list(shape)}"
            raise error("E0804", message, tensor.span)
        if math.prod(n or 1 for n in shape) > MOST_ELEMENTS:
            message = f"`{tensor.name}` has too many elements: shape {list(shape)}"
            raise error("E0901", message, tensor.span)
        return shape

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Give a tensor its value, and the sizes that it defines theirs."""
        self.store.arrays[tensor] = array
        for symbol in self._sizes.get(tensor, ()):
            set_size(self.store, symbol, int(array), symbol.span)
            for item in self._checks.get(symbol, ()):
                check(item, self.store)

    # ------------------------------------------------------------------ steps

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Operation():
                    self._operation(step)
                case Branch():
                    self._branch(step)
                case Loop():
                    self._loop(step)

    def region(self, region: Region) -> list[Array]:
        """Run a region; the arrays of its results."""
        self.steps(region.operations)
        return [self.store.arrays[t] for t in region.results]

    def _operation(self, operation: Operation) -> None:
        for tensor in operation.outputs:
            dtype = self.store.dtype(tensor.dtype)
            self.store.arrays[tensor] = np.zeros(self.shape(tensor), dtype)
        for assignment in operation.body:
            execute(assignment, self.store, operation.calls)
        for tensor in operation.outputs:
            self.assign(tensor, self.store.arrays[tensor])

    def _branch(self, branch: Branch) -> None:
        taken = branch.branches[-1]
        for condition, region in zip(branch.conditions, branch.branches[:-1], strict=True):
            if self.region(condition)[0].item():
                taken = region
                break
        for tensor, array in zip(branch.outputs, self.region(taken), strict=True):
            self.assign(tensor, array)

    def _loop(self, loop: Loop) -> None:
        state = [self.store.arrays[t] for t in loop.initial]
        collected: list[list[Array]] = []
        limit = self._limit(loop)
        inner = self._inner_symbols(loop)
        step = 0
        while limit is None or step < limit:
            for symbol in inner:
                self.store.symbols.pop(symbol, None)
            self._enter(loop, state, step)
            if loop.condition and loop.pretest and not self.region(loop.condition)[0].item():
                break
            self._spend_step(loop)
            results = self.region(loop.body)
            state = results[: len(state)]
            collected.append(results[len(state) :])
            step += 1
            if loop.condition and not loop.pretest:
                self._assign_all(loop.variables, state)
                if not self.region(loop.condition)[0].item():
                    break
        self._assign_all(loop.outputs, state)
        for position, pack in enumerate(loop.collected):
            self._collect(pack, [items[position] for items in collected])
        if loop.steps is not None:
            self.assign(loop.steps, np.asarray(step, self.store.dtype(DType.INT)))

    def _spend_step(self, loop: Loop) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            most = config.get("loop_steps") or _MOST_STEPS
            raise error(
                "E0806",
                f"the loops of this call make more than {most} steps",
                loop.span,
                help="set the environment variable RICCI_LOOP_STEPS if they shall make more",
            )

    def _inner_symbols(self, loop: Loop) -> list[Symbol]:
        """The sizes that each step of a loop defines anew."""
        if loop not in self._inner:
            tensors = list(step_tensors(loop))
            regions = [loop.body] if loop.condition is None else [loop.body, loop.condition]
            for step in all_steps([s for region in regions for s in region.operations]):
                tensors += loop_results(step) if isinstance(step, Loop) else step.outputs
            self._inner[loop] = [s for t in tensors for s in self._sizes.get(t, ())]
        return self._inner[loop]

    def _limit(self, loop: Loop) -> int | None:
        """The number of steps that the count and the packs allow."""
        limits = [len(pack) for _, pack in loop.scans]
        if isinstance(loop.count, Tensor):
            limits.append(int(self.store.arrays[loop.count]))
        elif loop.count is not None:
            limits.append(shapes.evaluate(loop.count, self.store.symbols))
        return min(limits) if limits else None

    def _enter(self, loop: Loop, state: Sequence[Array], step: int) -> None:
        self._assign_all(loop.variables, state)
        for item, pack in loop.scans:
            self.assign(item, self.store.arrays[pack[step]])
        if loop.index is not None:
            self.assign(loop.index, np.asarray(step).astype(self.store.dtype(DType.INT)))

    def _assign_all(self, tensors: Sequence[Tensor], arrays: Sequence[Array]) -> None:
        for tensor, array in zip(tensors, arrays, strict=True):
            self.assign(tensor, array)

    def _collect(self, pack: Sequence[Tensor], items: Sequence[Array]) -> None:
        """The items of a pack; those of steps that were not done are zero."""
        if len(items) > len(pack):
            message = f"a loop made {len(items)} steps, where {len(pack)} results have a place"
            raise error("E0804", message, pack[0].span if pack else NOWHERE)
        for position, tensor in enumerate(pack):
            dtype: np.dtype[Any] = self.store.dtype(tensor.dtype)
            done = position < len(items)
            self.assign(tensor, items[position] if done else np.zeros(self.shape(tensor), dtype))
