"""The adjoint of a branch: a branch on the same conditions, each side done again and reversed.

Requires: the cotangents of what it gives. Ensures: those of what it reads are collected. Does not:
reverse a side that defines sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..diagnostics import error
from ..ir.nodes import (
    Branch,
    Loop,
    Operation,
    Region,
    Step,
    Tensor,
)
from ..ir.rewrite import (
    all_steps,
    loop_results,
    step_tensors,
    substitute_tensors,
    tensors_read,
)
from ..records import replace
from ..source import Span
from .gradient_assignment import like

if TYPE_CHECKING:
    from .gradient_steps import Reverse


def _made(steps: Iterable[Step]) -> list[Tensor]:
    """All tensors that steps compute, also inside."""
    found: list[Tensor] = []
    for step in all_steps(steps):
        found += loop_results(step) if isinstance(step, Loop) else step.outputs
        found += step_tensors(step) if isinstance(step, Loop) else ()
    return found


def copied(region: Region, more: Sequence[Tensor], reverse: Reverse, span: Span) -> Copy:
    """A region with tensors of its own; `more` are those that its owner defines for it."""
    made = [*_made(region.operations), *more]
    if not reverse.sizes.isdisjoint(made):
        raise error("E0805", "the gradient of a step that defines sizes is not available", span)
    return Copy(region, {t: replace(t) for t in made})


class Copy:
    """A region with tensors of its own instead of those that it makes."""

    def __init__(self, region: Region, new: Mapping[Tensor, Tensor]) -> None:
        self.new = new
        self.steps = tuple(substitute_tensors(s, new) for s in region.operations)
        self.results = tuple(new.get(t, t) for t in region.results)

    @property
    def region(self) -> Region:
        return Region(self.steps, self.results)


def outer_reads(copy: Copy) -> list[Tensor]:
    """What a region reads from around it."""
    own = set(copy.new.values())
    found = dict.fromkeys(t for s in copy.steps for t in reads(s))
    return [t for t in (*found, *copy.results) if t not in own]


def reads(step: Step) -> list[Tensor]:
    """The tensors that a step reads and does not compute itself."""
    found: dict[Tensor, None] = {}
    inside: set[Tensor] = set()
    for inner in all_steps((step,)):
        match inner:
            case Operation():
                found |= dict.fromkeys(t for a in inner.body for t in tensors_read(a))
                inside.update(inner.outputs)
            case Branch():
                regions = (*inner.conditions, *inner.branches)
                found |= dict.fromkeys(t for r in regions for t in r.results)
                inside.update(inner.outputs)
            case Loop():
                found |= dict.fromkeys(_read_by_loop(inner))
                inside.update((*loop_results(inner), *step_tensors(inner)))
    return [t for t in found if t not in inside]


def _read_by_loop(loop: Loop) -> list[Tensor]:
    condition = () if loop.condition is None else loop.condition.results
    count = (loop.count,) if isinstance(loop.count, Tensor) else ()
    packs = (t for _, pack in loop.scans for t in pack)
    return [*loop.initial, *packs, *count, *condition, *loop.body.results]


# ------------------------------------------------------------------- branches


def reverse_branch(outer: Reverse, branch: Branch, cotangents: Mapping[Tensor, Tensor]) -> None:
    """Collect the cotangents of what the sides of a branch read."""
    copies = [copied(r, (), outer, branch.span) for r in branch.branches]
    reads = dict.fromkeys(t for c in copies for t in outer_reads(c))
    wanted = [t for t in reads if outer.is_active(t)]
    sides = []
    for copy in copies:
        side = outer.child()
        side.forward(copy.steps)
        for output, result in zip(branch.outputs, copy.results, strict=True):
            if output in cotangents and side.is_active(result):
                side.gradient(result).wholes.append(cotangents[output])
        side.backward()
        results = tuple(side.total(t) for t in wanted)
        sides.append(Region((*side.again(), *side.steps), results))
    conditions = tuple(copied(r, (), outer, branch.span).region for r in branch.conditions)
    outputs = tuple(like("d", t) for t in wanted)
    outer.steps.append(Branch(outputs, conditions, tuple(sides), branch.span))
    for tensor, output in zip(wanted, outputs, strict=True):
        outer.gradient(tensor).wholes.append(output)
