"""Reverse-mode differentiation: the program that computes gradients of a program.

Requires: a verified graph. Ensures: a verified graph of the same sizes, whose inputs are those of
the graph and a cotangent for each differentiated output (`d_y` for `y`), and whose outputs are the
gradients that were asked for (`d_x` for `x`). It does again what it needs of the forward
computation. Nothing is updated, and nothing is quantized.

Integers and bools carry no gradient: their values, and conditions on values, are taken as they
are. Where a function has no derivative, see `gradient_scalar` and `gradient_reductions`.

Each gradient is one operation, with a statement for every place where its tensor is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..diagnostics import error
from ..ir.nodes import Graph, Port, Step, Tensor
from ..records import dataclass, replace
from .gradient_assignment import like
from .gradient_control import reads
from .gradient_steps import Reverse
from .prune import prune


def gradient_graph(
    graph: Graph, wrt: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Graph:
    """The graph that computes gradients of `graph`.

    `wrt` are names of real inputs and variables, by default all; `outputs` are names of real
    outputs, by default all. Takes the inputs of the graph and then the cotangents of these
    outputs, gives the gradients. Raises `Error`: E0801 for a name that the graph does not have, or
    of something that is not real; E0805 for what has no gradient here.
    """
    return _whole(differentiate(graph, wrt, outputs))


@dataclass(frozen=True, slots=True)
class Derived:
    """A graph with its reverse computation."""

    graph: Graph
    cotangents: tuple[Port, ...]
    forward: tuple[Step, ...]
    backward: tuple[Step, ...]
    gradients: tuple[Port, ...]


def differentiate(
    graph: Graph, wrt: Sequence[str] | None, outputs: Sequence[str] | None
) -> Derived:
    """The reverse computation of a graph."""
    places = _places(graph)
    asked = _chosen("input or variable", places, wrt, [n for n, p in places.items() if is_real(p)])
    results = {p.name: p for p in graph.outputs}
    of = _chosen("output", results, outputs, [n for n, p in results.items() if is_real(p)])
    called = cotangent_names(graph)
    cotangents = tuple(_derivative(results[n], called[n]) for n in of)
    reverse = Reverse((t for n in asked for t in places[n].tensors), _sizes(graph))
    reverse.forward(graph.operations)
    for port, cotangent in zip((results[n] for n in of), cotangents, strict=True):
        for tensor, d in zip(port.tensors, cotangent.tensors, strict=True):
            reverse.gradient(tensor).wholes.append(d)
    reverse.backward()
    names: set[str] = set()
    gradients = []
    for name in asked:
        port = _derivative(places[name], _name(name.removeprefix(f"{graph.name}."), names))
        tensors = tuple(reverse.total(t) for t in places[name].tensors)
        gradients.append(replace(port, tensors=tensors))
    again, back = tuple(reverse.again()), tuple(reverse.steps)
    return Derived(graph, cotangents, again, back, tuple(gradients))


def _sizes(graph: Graph) -> frozenset[Tensor]:
    return frozenset(t for _, t in graph.sizes)


def _places(graph: Graph) -> dict[str, Port]:
    """What gradients can be asked for, by name."""
    found = {p.name: p for p in graph.inputs if p.tensors}
    return found | {t.name: Port(t.name, (t,)) for t in graph.variables}


def is_real(port: Port) -> bool:
    """Whether gradients with respect to what a port has can be asked for."""
    return bool(port.tensors) and port.tensors[0].dtype.is_real


def _chosen(
    what: str, known: dict[str, Port], names: Sequence[str] | None, real: list[str]
) -> list[str]:
    if names is None:
        return real
    for name in names:
        if name not in known:
            notes = [f"there are: {', '.join(real) or 'none'}"]
            raise error("E0801", f"the graph has no {what} `{name}`", notes=notes)
        if name not in real:
            raise error("E0801", f"{what} `{name}` is not real, and has no gradient")
    return list(dict.fromkeys(names))


def cotangent_names(graph: Graph) -> dict[str, str]:
    """What the cotangent of each real output is called."""
    taken = {p.name for p in graph.inputs}
    return {p.name: _name(p.name, taken) for p in graph.outputs if is_real(p)}


def _name(of: str, taken: set[str]) -> str:
    """A name for a gradient: of variables, in scopes, it is a word, `d_conv_kernel`."""
    name = "d_" + of.replace(".", "_")
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _derivative(port: Port, name: str) -> Port:
    """A port for the gradient of what a port has."""
    if port.length is not None:
        raise error("E0805", f"the gradient of `{port.name}`, a pack whose length depends on data")
    return Port(name, tuple(like("d", t) for t in port.tensors), port.packed)


def _whole(derived: Derived) -> Graph:
    """Forward and reverse computation as one graph."""
    graph = derived.graph
    whole = replace(
        graph,
        inputs=(*graph.inputs, *derived.cotangents),
        outputs=derived.gradients,
        operations=(*derived.forward, *derived.backward),
        updates=(),
        quantization=(),
    )
    return without_unused(prune(whole))


def without_unused(graph: Graph) -> Graph:
    """The graph without the variables and constants that nothing reads."""
    read = {t for step in graph.operations for t in reads(step)}
    return replace(
        graph,
        variables=tuple(t for t in graph.variables if t in read),
        constants=tuple(t for t in graph.constants if t in read),
    )
