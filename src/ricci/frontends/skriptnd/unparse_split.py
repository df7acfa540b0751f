"""Parts of steps: what computes some of their results, and nothing else.

A branch or loop may give new values to variables of several scopes, each of which must be
computed in the operator of its scope. Each of these repeats what it needs of the step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ...ir import nodes, rewrite
from .unparse_expressions import unsayable
from .unparse_uses import Uses, free_symbols, produced, reads

Tensors = Collection[nodes.Tensor]
_Steps = tuple[nodes.Step, ...]


class Splitter:
    """Takes out of steps what some tensors need."""

    def __init__(self, uses: Uses) -> None:
        self.definition = uses.definition

    def needed(self, steps: Sequence[nodes.Step], wanted: Iterable[nodes.Tensor]) -> _Steps:
        """The steps, and parts of steps, that the wanted tensors come from."""
        needed = set(wanted)
        found: list[nodes.Step] = []
        for step in reversed(steps):
            if needed & set(produced(step)):
                part = self.part(step, needed)
                needed |= self.read(part)
                found.append(part)
        return tuple(reversed(found))

    def read(self, step: nodes.Step) -> set[nodes.Tensor]:
        """What a step reads, also for the sizes in it."""
        sizes = {self.definition[x] for x in free_symbols(step) if x in self.definition}
        return sizes | set(reads(step))

    def part(self, step: nodes.Step, wanted: Tensors) -> nodes.Step:
        """What of a step gives the wanted ones of its results."""
        match step:
            case nodes.Operation():
                return step
            case nodes.Branch():
                return self._branch(step, wanted)
            case nodes.Loop():
                return self._loop(step, wanted)

    def copied(
        self, steps: Sequence[nodes.Step]
    ) -> tuple[_Steps, dict[nodes.Tensor, nodes.Tensor]]:
        """The steps with new tensors for their results.

        Raises E0706 where the size of a result is defined by data.
        """
        own: dict[nodes.Tensor, nodes.Tensor] = {}
        for tensor in [t for step in steps for t in produced(step)]:
            if any(x in self.definition for x in rewrite.free_symbols(*tensor.shape)):
                raise unsayable("variables of different scopes whose new values share a size")
            own[tensor] = nodes.Tensor(tensor.name, tensor.dtype, tensor.shape)
        return tuple([rewrite.substitute_tensors(step, own) for step in steps]), own

    def _branch(self, branch: nodes.Branch, wanted: Tensors) -> nodes.Branch:
        kept = [k for k, t in enumerate(branch.outputs) if t in wanted]
        if len(kept) == len(branch.outputs):
            return branch
        return replace(
            branch,
            outputs=tuple([branch.outputs[k] for k in kept]),
            branches=tuple([self._region(r, kept) for r in branch.branches]),
        )

    def _loop(self, loop: nodes.Loop, wanted: Tensors) -> nodes.Loop:
        width = len(loop.outputs)
        packs = [width + k for k, pack in enumerate(loop.collected) if set(pack) & set(wanted)]
        variables = self._variables(loop, wanted, packs)
        if len(variables) == width and len(packs) == len(loop.collected):
            return loop
        return replace(
            loop,
            outputs=tuple([loop.outputs[k] for k in variables]),
            collected=tuple([loop.collected[k - width] for k in packs]),
            variables=tuple([loop.variables[k] for k in variables]),
            initial=tuple([loop.initial[k] for k in variables]),
            body=self._region(loop.body, [*variables, *packs]),
            steps=loop.steps if loop.steps in wanted else None,
        )

    def _variables(self, loop: nodes.Loop, wanted: Tensors, packs: Sequence[int]) -> list[int]:
        """The variables of a loop that some of its results depend on."""
        found = {k for k, t in enumerate(loop.outputs) if t in wanted}
        condition = loop.condition
        always = set() if condition is None else self._needed_by(condition, range(1))
        while True:
            read = always | self._needed_by(loop.body, [*sorted(found), *packs])
            more = {k for k, t in enumerate(loop.variables) if t in read} - found
            if not more:
                return sorted(found)
            found |= more

    def _needed_by(self, region: nodes.Region, kept: Iterable[int]) -> set[nodes.Tensor]:
        """All tensors that some results of a region come from."""
        results = [region.results[k] for k in kept]
        steps = self.needed(region.operations, results)
        return {*results, *(t for step in steps for t in self.read(step))}

    def _region(self, region: nodes.Region, kept: Sequence[int]) -> nodes.Region:
        results = tuple([region.results[k] for k in kept])
        return nodes.Region(self.needed(region.operations, results), results)
