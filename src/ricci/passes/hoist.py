"""Operations of a loop that give the same at every step, done once ahead of it.

Requires: a specialised graph. Ensures: an operation in the body or the condition of a loop that
reads nothing which the loop changes stands in front of it, if it cannot fail. Does not: take
anything out of a branch, where it may never be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from ..ir.nodes import Branch, Graph, Loop, Operation, Region, Step, Symbol, Tensor
from ..ir.rewrite import all_steps, expressions, free_symbols, loop_results, tensors_read
from ..records import dataclass, replace
from .kernels import may_fail


def hoist(graph: Graph) -> Graph:
    """The graph with such operations ahead of their loops."""
    if not any(isinstance(s, Loop) for s in all_steps(graph.operations)):
        return graph
    defining: dict[Tensor, list[Symbol]] = {}
    for symbol, tensor in graph.sizes:
        defining.setdefault(tensor, []).append(symbol)
    return replace(graph, operations=_steps(graph.operations, defining))


Defining = Mapping[Tensor, Sequence[Symbol]]


@dataclass(slots=True)
class _Inside:
    """What is different at every step of a loop."""

    defining: Defining
    tensors: set[Tensor] = field(default_factory=set)
    symbols: set[Symbol] = field(default_factory=set)

    def add(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self.tensors.add(tensor)
            self.symbols.update(self.defining.get(tensor, ()))

    def is_same(self, operation: Operation) -> bool:
        """Whether an operation gives the same at every step, and always can."""
        read = {t for a in operation.body for t in tensors_read(a)} - set(operation.outputs)
        exprs = [e for a in operation.body for e in expressions(a)]
        extents = [e for t in operation.outputs for e in t.shape]
        extents += [i.extent for a in operation.body for i in a.domain]
        if not read.isdisjoint(self.tensors) or any(t in self.defining for t in operation.outputs):
            return False
        if not self.symbols.isdisjoint(free_symbols(*extents, *exprs)):
            return False
        return not any(map(may_fail, exprs))


def _steps(steps: Iterable[Step], defining: Defining) -> tuple[Step, ...]:
    out: list[Step] = []
    for step in steps:
        match step:
            case Operation():
                out.append(step)
            case Branch():
                out.append(
                    replace(
                        step,
                        conditions=tuple(_region(r, defining) for r in step.conditions),
                        branches=tuple(_region(r, defining) for r in step.branches),
                    )
                )
            case Loop():
                out += _loop(step, defining)
    return tuple(out)


def _region(region: Region, defining: Defining) -> Region:
    return Region(_steps(region.operations, defining), region.results)


def _loop(loop: Loop, defining: Defining) -> list[Step]:
    """What stands ahead of a loop, and the loop without it; inner loops first."""
    inside = _Inside(defining)
    inside.add((*loop.variables, *(item for item, _ in loop.scans)))
    inside.add(() if loop.index is None else (loop.index,))
    ahead: list[Step] = []
    body = _left(_region(loop.body, defining), inside, ahead)
    condition = loop.condition
    if condition is not None:
        condition = _left(_region(condition, defining), inside, ahead)
    return [*ahead, replace(loop, body=body, condition=condition)]


def _left(region: Region, inside: _Inside, ahead: list[Step]) -> Region:
    """What is left of a region of a loop."""
    left: list[Step] = []
    for step in region.operations:
        if isinstance(step, Operation) and inside.is_same(step):
            ahead.append(step)
            continue
        inside.add(step.outputs if not isinstance(step, Loop) else loop_results(step))
        left.append(step)
    return Region(tuple(left), region.results)
