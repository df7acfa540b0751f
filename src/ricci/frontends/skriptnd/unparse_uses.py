"""What of a graph is there for the sake of sizes alone, and comes back when a text is composed.

Where data defines a size, the graph computes the extent beside the tensor, hands it out of
branches and loops, and scans it with its tensor (`docs/ir.md`, "Sizes that data defines").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...ir import nodes, rewrite
from ...ir.interpret_bind import hidden_ports


def _computed(steps: Iterable[nodes.Step]) -> Iterator[tuple[nodes.Tensor, nodes.Expr]]:
    for step in steps:
        if isinstance(step, nodes.Operation) and len(step.body) == 1 and not step.inputs:
            (line,) = step.body
            plain = not (line.domain or line.locals or line.condition) and line.op == "set"
            target, value = line.targets[0].tensor, line.values[0]
            if plain and target.dtype.is_int and rewrite.free_symbols(value):
                yield target, value


class Uses:
    """Which tensors are read by what is written, and which only by what is left out."""

    def __init__(self, graph: nodes.Graph) -> None:
        self.definition = dict(graph.sizes)
        """The tensor that defines a size."""
        self.sizes = frozenset(_derived(graph))
        """The tensors that define sizes which the shape of another tensor beside them shows."""
        self.computed = dict(_computed(rewrite.all_steps(graph.operations)))
        """The integers that are computed from sizes alone."""
        hidden = hidden_ports(graph.outputs)
        shown = [port for port in graph.outputs if port not in hidden]
        self._kept: set[nodes.Tensor] = {t for port in shown for t in port.tensors}
        packs = {p.tensors for p in graph.inputs}
        for step in rewrite.all_steps(graph.operations):
            packs |= set(step.collected) if isinstance(step, nodes.Loop) else set()
        self.packs = frozenset(packs)
        """Those whose length comes with them: of inputs, and of what loops collect."""
        self._kept |= {p.length for p in shown if p.length and p.tensors not in packs}
        self._kept |= {value for _, value in graph.updates}
        self._kept |= {entry.tensor for entry in graph.quantization}
        self._left: set[nodes.Tensor] = {tensor for _, tensor in graph.sizes}
        self._left |= {t for port in hidden for t in port.tensors}
        for step in rewrite.all_steps(graph.operations):
            for tensor, kept in self._reads(step):
                (self._kept if kept else self._left).add(tensor)

    def are_sizes(self, pack: Sequence[nodes.Tensor]) -> bool:
        """Whether a pack of what a loop collects is one of extents."""
        return bool(pack) and all(t in self.sizes for t in pack)

    def is_needless(self, operation: nodes.Operation) -> bool:
        """Whether nothing but what is left out reads what an operation computes."""
        outputs = operation.outputs
        return not any(t in self._kept for t in outputs) and any(t in self._left for t in outputs)

    def _reads(self, step: nodes.Step) -> Iterator[tuple[nodes.Tensor, bool]]:
        """The tensors that a step reads from outside, and whether that is written."""
        if isinstance(step, nodes.Operation):
            yield from _all(step.inputs)
        elif isinstance(step, nodes.Branch):
            yield from _all(t for r in step.conditions for t in r.results)
            for region in step.branches:
                for output, result in zip(step.outputs, region.results, strict=True):
                    yield result, output not in self.sizes
        else:
            yield from self._reads_of_loop(step)

    def _reads_of_loop(self, loop: nodes.Loop) -> Iterator[tuple[nodes.Tensor, bool]]:
        yield from _all(loop.initial)
        for item, pack in loop.scans:
            yield from ((tensor, item not in self.sizes) for tensor in pack)
        width = len(loop.outputs)
        yield from _all(loop.body.results[:width])
        for pack, result in zip(loop.collected, loop.body.results[width:], strict=True):
            yield result, not self.are_sizes(pack)
        yield from _all(loop.condition.results if loop.condition is not None else ())
        if isinstance(loop.count, nodes.Tensor):
            yield loop.count, True
        elif isinstance(loop.count, nodes.Symbol) and loop.count in self.definition:
            yield self.definition[loop.count], True


def _derived(graph: nodes.Graph) -> Iterator[nodes.Tensor]:
    definition = dict(graph.sizes)
    for step in rewrite.all_steps(graph.operations):
        if isinstance(step, nodes.Operation):
            continue
        shown: list[nodes.Tensor] = []
        if isinstance(step, nodes.Branch):
            shown += step.outputs
        else:
            shown += [item for item, _ in step.scans]
            shown += [tensor for pack in step.collected for tensor in pack]
        for tensor in shown:
            for extent in tensor.shape:
                if isinstance(extent, nodes.Symbol) and definition.get(extent) in shown:
                    yield definition[extent]


def _all(tensors: Iterable[nodes.Tensor]) -> Iterator[tuple[nodes.Tensor, bool]]:
    return ((tensor, True) for tensor in tensors)


def produced(step: nodes.Step) -> tuple[nodes.Tensor, ...]:
    """The tensors that a step computes for those around it."""
    return rewrite.loop_results(step) if isinstance(step, nodes.Loop) else step.outputs
