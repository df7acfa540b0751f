"""The reverse computation of a list of steps.

Requires: steps in order, and the tensors whose gradients are asked for. Ensures: steps that compute
these gradients from the cotangents of results; and the steps themselves, with what the reverse
computation needs kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.nodes import Assignment, Branch, Loop, Operation, Step, Tensor
from ..ir.rewrite import loop_results, tensors_read
from ..records import dataclass
from .gradient_adjoint import Adjoint
from .gradient_assignment import Gradient, name_parts
from .gradient_body import Body
from .gradient_control import reads, reverse_branch
from .gradient_loop import reverse_loop
from .gradient_reductions import reverse_reduction
from .gradient_sequence import reverse_sequence


@dataclass(slots=True)
class Control:
    """A branch or loop, and what it becomes where the forward computation is done again."""

    step: Branch | Loop
    changed: Loop | None = None

    def results(self) -> tuple[Tensor, ...]:
        return loop_results(self.step) if isinstance(self.step, Loop) else self.step.outputs

    def forward(self, needed: set[Tensor]) -> list[Step]:
        old = set(self.results())
        new = () if self.changed is None else loop_results(self.changed)
        if self.changed is not None and any(t in needed for t in new if t not in old):
            return [self.changed]
        return [self.step]


class Reverse:
    """The reverse computation while it is made."""

    def __init__(self, wanted: Iterable[Tensor], sizes: frozenset[Tensor]) -> None:
        self.steps: list[Step] = []
        self.sizes = sizes
        """The tensors that define sizes."""
        self._active = set(wanted)
        self._gradients: dict[Tensor, Gradient] = {}
        self._parts: list[Body | Control] = []

    def child(self) -> Reverse:
        """The reverse computation of a region, which may read what is around it."""
        return Reverse(self._active, self.sizes)

    # ----------------------------------------------- what the adjoints ask for

    def is_active(self, tensor: Tensor) -> bool:
        return tensor in self._active

    def activate(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors among those whose gradients are asked for."""
        self._active.update(t for t in tensors if t.dtype.is_real)

    def gradient(self, tensor: Tensor) -> Gradient:
        if tensor not in self._gradients:
            self._gradients[tensor] = Gradient(tensor)
        return self._gradients[tensor]

    def finish(self, gradient: Gradient) -> Tensor | None:
        if not gradient.parts and len(gradient.wholes) < 2:
            return gradient.wholes[0] if gradient.wholes else None
        self.emit([gradient.tensor], gradient.body())
        return gradient.tensor

    def emit(self, tensors: Sequence[Tensor], body: Sequence[Assignment]) -> None:
        named = tuple(map(name_parts, body))
        read = dict.fromkeys(t for a in named for t in tensors_read(a) if t not in tensors)
        self.steps.append(Operation("gradient", tuple(tensors), named, tuple(read)))

    def zeros(self, tensor: Tensor) -> Tensor:
        """Compute a tensor of zeros."""
        self.emit([tensor], [])
        return tensor

    # -------------------------------------------------------------------- steps

    def forward(self, steps: Sequence[Step]) -> None:
        """Find what depends on what gradients are asked for."""
        for step in steps:
            if isinstance(step, Operation):
                body = Body(self, step)
                self._parts.append(body)
                self._active.update(body.results())
                continue
            control = Control(step)
            self._parts.append(control)
            if any(map(self.is_active, reads(step))):
                self.activate(control.results())

    def backward(self) -> None:
        """Emit the adjoints of all steps, the last one first."""
        for part in reversed(self._parts):
            if isinstance(part, Body):
                part.begin()
                for k in reversed(range(len(part.operation.body))):
                    if cotangents := part.cotangents(k):
                        _reverse(Adjoint(part, k, cotangents))
            else:
                self._control(part)

    def _control(self, control: Control) -> None:
        cotangents: dict[Tensor, Tensor] = {}
        for tensor in filter(self.is_active, control.results()):
            if (found := self.finish(self.gradient(tensor))) is not None:
                cotangents[tensor] = found
        if not cotangents:
            return
        if isinstance(control.step, Loop):
            control.changed = reverse_loop(self, control.step, cotangents)
        else:
            reverse_branch(self, control.step, cotangents)

    def total(self, tensor: Tensor) -> Tensor:
        """The gradient of a tensor, zeros if nothing reaches it."""
        gradient = self.gradient(tensor)
        found = self.finish(gradient)
        return self.zeros(gradient.tensor) if found is None else found

    def again(self) -> list[Step]:
        """The steps themselves, with what was needed kept."""
        needed = {t for step in self.steps for t in reads(step)}
        return [s for part in self._parts for s in part.forward(needed)]


def _reverse(adjoint: Adjoint) -> None:
    if adjoint.is_ordered():
        reverse_sequence(adjoint)
    elif adjoint.assignment.op in ("add", "set"):
        adjoint.linear()
    else:
        reverse_reduction(adjoint)
