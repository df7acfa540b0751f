"""Copies that stand for quantized tensors, where somebody reads the tensor as it is (2.14).

Composition lets those who read a tensor that `@quantize` names read a copy, so that the tensor may
go elsewhere under another name without the quantizer. Where it has but this name and nobody else
reads it, the copy is left out, and the tensor itself is what is to be quantized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ...ir import nodes, rewrite
from ...records import replace

Chain = tuple[nodes.Quantization, ...]
"""Quantizers of one tensor, in their order."""


def without_needless_copies(graph: nodes.Graph) -> nodes.Graph:
    """The graph in which entries of quantization are of tensors that are no copies where possible.

    Requires that each is of a tensor that an operation of its own copies.
    """
    if not graph.quantization:
        return graph
    found = _Copies(graph)
    found.merge()
    steps = _without(graph.operations, found.replaced)
    merged = rewrite.substitute_graph(replace(graph, operations=steps), found.replacements())
    return replace(merged, quantization=tuple(found.quantization()))


class _Copies:
    """The copies of a graph, and the tensors that stand for them."""

    def __init__(self, graph: nodes.Graph) -> None:
        self.graph = graph
        self.entries = {entry.tensor: entry for entry in graph.quantization}
        self.replaced: dict[nodes.Tensor, nodes.Tensor] = {}
        """The copies that are left out, with what they copy."""
        self._chains: dict[nodes.Tensor, Chain] = {t: (e,) for t, e in self.entries.items()}
        self._sources: dict[nodes.Tensor, nodes.Tensor] = {}
        self._homes: dict[nodes.Tensor, int] = {}
        """The region that each tensor is computed in, by its number."""
        for number, region in enumerate(_regions(graph.operations)):
            for step in region:
                self._homes.update(dict.fromkeys(rewrite.results(step), number))
                if isinstance(step, nodes.Operation) and step.outputs[0] in self.entries:
                    self._sources[step.outputs[0]] = step.inputs[0]
        self._readers = Counter(tensors_taken(graph.operations))
        self._given = {t for port in graph.outputs for t in port.tensors}
        """The results of the graph, which are computed, each of its own."""
        self._readers.update(self._given)
        self._readers.update(t for _, t in (*graph.updates, *graph.sizes))
        self._everywhere = {
            *(t for port in graph.inputs for t in port.tensors),
            *graph.variables,
            *graph.constants,
        }

    def merge(self) -> None:
        """Leave out copies, those of copies first."""
        copies: dict[nodes.Tensor, list[nodes.Tensor]] = {}
        for copy, source in self._sources.items():
            copies.setdefault(source, []).append(copy)
        order = [*reversed(self.entries), *(t for t in copies if t not in self.entries)]
        packs = {t: pack for pack in _packs(self.graph) for t in pack}
        for unit in dict.fromkeys(packs.get(t, (t,)) for t in order):
            found = {t: copies.get(t, []) for t in unit}
            if not all(mine and self._stands_for(t, mine) for t, mine in found.items()):
                continue
            if len({self._meaning(mine[0]) for mine in found.values()}) > 1:
                continue
            for source, mine in found.items():
                self._merge(source, mine)

    def _merge(self, source: nodes.Tensor, copies: Sequence[nodes.Tensor]) -> None:
        self.replaced.update(dict.fromkeys(copies, source))
        self._given |= {source} if self._given.intersection(copies) else set()
        own = (self.entries[source],) if source in self.entries else ()
        self._chains[source] = (*own, *self._chains[copies[0]])

    def _stands_for(self, source: nodes.Tensor, copies: Sequence[nodes.Tensor]) -> bool:
        """Whether nobody reads a tensor but its copies, which have its name and one quantizer."""
        if self._readers[source] > len(copies) or len({*map(self._meaning, copies)}) > 1:
            return False
        name = self.entries[source].name if source in self.entries else source.name
        if any(self.entries[c].name != name for c in copies):
            return False
        if (source in self._everywhere or len(copies) > 1) and self._given.intersection(copies):
            return False
        home = self._homes.get(source)
        return source in self._everywhere or all(self._homes[c] == home for c in copies)

    def _meaning(self, copy: nodes.Tensor) -> tuple[object, ...]:
        """How a copy is quantized."""
        return tuple([(entry.operator, entry.attributes) for entry in self._chains[copy]])

    def replacements(self) -> dict[nodes.Tensor, nodes.Tensor]:
        """The tensors that in the end stand for copies."""
        found = {}
        for copy in self.replaced:
            source = copy
            while source in self.replaced:
                source = self.replaced[source]
            found[copy] = source
        return found

    def quantization(self) -> Iterator[nodes.Quantization]:
        """The entries, those of one tensor together."""
        replacements = self.replacements()
        for tensor in dict.fromkeys(replacements.get(t, t) for t in self.entries):
            yield from (replace(entry, tensor=tensor) for entry in self._chains[tensor])


def _packs(graph: nodes.Graph) -> Iterator[tuple[nodes.Tensor, ...]]:
    """The tensors that a text has one name for, so that they are quantized alike."""
    yield from (port.tensors for port in graph.inputs if port.packed)
    for step in rewrite.all_steps(graph.operations):
        yield from step.collected if isinstance(step, nodes.Loop) else ()


def _regions(steps: Sequence[nodes.Step]) -> Iterator[Sequence[nodes.Step]]:
    yield steps
    for step in rewrite.all_steps(steps):
        for region in rewrite.regions(step):
            yield region.operations


def _without(
    steps: Iterable[nodes.Step], left_out: dict[nodes.Tensor, nodes.Tensor]
) -> tuple[nodes.Step, ...]:
    """The steps, and those in them, that compute something else than these tensors."""

    def region(old: nodes.Region) -> nodes.Region:
        return replace(old, operations=_without(old.operations, left_out))

    kept = [s for s in steps if not (isinstance(s, nodes.Operation) and s.outputs[0] in left_out)]
    return tuple([rewrite.map_regions(step, region) for step in kept])


def tensors_taken(steps: Iterable[nodes.Step]) -> Iterator[nodes.Tensor]:
    """The tensors that steps, or those within them, take from around them, or give out."""
    for step in rewrite.all_steps(steps):
        if isinstance(step, nodes.Operation):
            yield from step.inputs
        elif isinstance(step, nodes.Loop):
            yield from step.initial
            yield from (t for _, pack in step.scans for t in pack)
            yield from (step.count,) if isinstance(step.count, nodes.Tensor) else ()
        for region in rewrite.regions(step):
            yield from region.results
