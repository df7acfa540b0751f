"""How much work a graph is, so that the fuzzer can leave out what only takes long."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ricci.ir.nodes import Branch, Expr, Graph, Loop, Operation, Step
from ricci.ir.rewrite import all_steps
from ricci.ir.shapes import interval

WORK = 2e5
"""Points and elements that a case may have."""

OPEN = 8.0
"""The size that stands for one without a bound; arguments are not larger."""

STEPS = 100
"""Steps that the loops of a call make at most: the setting RICCI_LOOP_STEPS of the fuzzer."""


class Skipped(Exception):
    """A case that is too much work to run."""


def work_of(graph: Graph) -> float:
    """Points of all assignments, with each size at its bound."""
    return sum(_work(step) for step in graph.operations)


def _work(step: Step) -> float:
    if isinstance(step, Operation):
        return sum(
            math.prod((extent(i.extent) for i in a.domain), start=1.0 + len(a.locals))
            for a in step.body
        )
    if isinstance(step, Branch):
        return sum(_work(s) for r in (*step.conditions, *step.branches) for s in r.operations)
    regions = [step.body, *([step.condition] if step.condition else [])]
    return STEPS * sum(_work(s) for r in regions for s in r.operations)


def size_of(graph: Graph) -> float:
    """Elements of all tensors, with each size at its bound."""
    return sum(math.prod((extent(e) for e in shape), start=1.0) for shape in _shapes(graph))


def _shapes(graph: Graph) -> Iterator[tuple[Expr, ...]]:
    for port in (*graph.inputs, *graph.outputs):
        yield from (t.shape for t in port.tensors)
    for tensor in (*graph.variables, *graph.constants):
        yield tensor.shape
    for step in all_steps(graph.operations):
        yield from (t.shape for t in step.outputs)
        if isinstance(step, Loop):
            yield from (t.shape for pack in step.collected for t in pack)


def extent(expr: Expr) -> float:
    """The largest value of an extent."""
    largest = float(interval(expr)[1])
    return OPEN if math.isinf(largest) else largest
