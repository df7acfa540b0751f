"""A forward and a reverse graph, so that nothing costly is computed twice.

Requires: a verified graph. Ensures: two verified graphs. The first computes the outputs of the
graph and, as further outputs, the residuals; the second takes inputs, outputs, residuals and
cotangents by their names, of each kind those that it needs, and gives the gradients. What is an
element-wise function of something at hand is computed again; everything else that is needed is
kept. Further reverse graphs, for fewer gradients, may take what the same forward graph gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.nodes import Graph, Loop, Operation, Port, Step, Symbol, Tensor
from ..ir.rewrite import loop_results, substitute_graph
from ..records import replace
from .gradient import Derived, differentiate, without_unused
from .gradient_assignment import is_map
from .gradient_control import reads
from .prune import prune


def forward_and_backward(
    graph: Graph, wrt: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> tuple[Graph, Graph]:
    """The graph with residuals, and the graph of its gradients that takes them.

    Arguments and errors are those of `gradient_graph`. A port of the second graph that is not a
    cotangent has the name of an input or output of the first.
    """
    split = _Split(differentiate(graph, wrt, outputs), graph.outputs)
    return split.forward(), split.backward()


def backward_of(
    forward: Graph, graph: Graph, wrt: Sequence[str], outputs: Sequence[str]
) -> Graph | None:
    """A graph of the gradients of `wrt`, of these outputs alone, that takes what `forward` gives;
    none if that is not enough.

    `forward` was made of `graph` for these gradients and outputs, among others.
    """
    split = _Split(differentiate(graph, wrt, outputs), forward.outputs)
    given = {t for port in forward.outputs for t in port.tensors}
    return split.backward() if given.issuperset(split.kept) else None


class _Split:
    """What is kept, and what is computed again."""

    def __init__(self, derived: Derived, given: Iterable[Port]) -> None:
        self.derived = derived
        self.graph = graph = derived.graph
        self.makers = {t: step for step in derived.forward for t in _results(step)}
        self.at_hand = {p.tensors[0]: p for p in given if len(p.tensors) == 1}
        self.changing = {variable for variable, _ in graph.updates}
        self.again: set[Step] = set()
        self.kept: dict[Tensor, None] = {}
        self.visit(t for step in derived.backward for t in reads(step))
        self.visit(t for port in derived.gradients for t in port.tensors)
        self.visit(t for _, t in graph.sizes)

    def visit(self, tensors: Iterable[Tensor]) -> None:
        """Provide for tensors that the reverse computation reads."""
        pending = list(tensors)
        while pending:
            tensor = pending.pop()
            maker = self.makers.get(tensor)
            if tensor in self.kept or maker in self.again:
                continue
            if tensor in self.changing or (maker and not self._is_cheap(maker, tensor)):
                self.kept[tensor] = None
            elif maker is not None:
                self.again.add(maker)
                pending += reads(maker)

    def _is_cheap(self, maker: Step, tensor: Tensor) -> bool:
        """Whether to compute an operation again rather than to keep its result."""
        if tensor in self.at_hand or not isinstance(maker, Operation):
            return False
        return all(a.op == "set" and is_map(a) for a in maker.body)

    def _ports(self) -> list[Port]:
        """The residuals: outputs are at hand anyway."""
        taken = {p.name for p in (*self.graph.inputs, *self.graph.outputs)}
        taken |= {p.name for p in self.derived.cotangents}
        ports = []
        for tensor in self.kept:
            name = tensor.name.rpartition(".")[2] or "kept"
            while name in taken:
                name += "_"
            taken.add(name)
            ports.append(self.at_hand.get(tensor) or Port(name, (tensor,)))
        return ports

    def forward(self) -> Graph:
        more = [p for p in self._ports() if p not in self.graph.outputs]
        graph = replace(
            self.graph,
            name=f"{self.graph.name}.forward",
            outputs=(*self.graph.outputs, *more),
            operations=self.derived.forward,
            quantization=(),
        )
        return without_unused(prune(graph))

    def backward(self) -> Graph:
        again = [step for step in self.derived.forward if step in self.again]
        steps = (*again, *self.derived.backward)
        graph = replace(
            self.graph,
            name=f"{self.graph.name}.backward",
            inputs=(*self.graph.inputs, *self._ports(), *self.derived.cotangents),
            outputs=self.derived.gradients,
            operations=steps,
            variables=tuple(v for v in self.graph.variables if v not in self.kept),
            updates=(),
            quantization=(),
        )
        plain = {t: replace(t, data=None) for t in self.kept if t.data is not None}
        return _without_unread(substitute_graph(without_unused(prune(graph)), plain))


def _results(step: Step) -> tuple[Tensor, ...]:
    return loop_results(step) if isinstance(step, Loop) else step.outputs


def _without_unread(graph: Graph) -> Graph:
    """The graph without inputs that nothing reads, save where a size is known from them alone."""
    read = {t for step in graph.operations for t in reads(step)}
    read |= {t for _, t in graph.sizes} | {p.length for p in graph.inputs if p.length}
    wanted = [p for p in graph.inputs if not read.isdisjoint(p.tensors)]
    known = {s for p in wanted for s in _sizes(p)}
    for port in graph.inputs:
        if not known.issuperset(_sizes(port)):
            wanted.append(port)
            known |= _sizes(port)
    if not known.issuperset(graph.symbols):
        return graph
    return replace(graph, inputs=tuple(p for p in graph.inputs if p in wanted))


def _sizes(port: Port) -> set[Symbol]:
    """The symbols that the shape of an argument tells: which of a pack are there is not known."""
    if port.packed:
        return set()
    return {e for t in port.tensors for e in t.shape if isinstance(e, Symbol)}
