"""The adjoint of an operation: its assignments in reverse, over versions of what it writes.

Requires: an operation, and whose gradients are asked for. Ensures: statements that compute them,
and the operation itself as several where the adjoint reads what a tensor held between two
assignments.
Does not: know of other operations.

An assignment makes version `n + 1` of a tensor of version `n`; version 0 is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from ..dtypes import DType
from ..ir.nodes import Access, Assignment, Const, Expr, Operation, Subscript, Tensor
from ..ir.rewrite import Replaceable, accesses, substitute_assignment, tensors_read
from ..records import dataclass, replace
from .gradient_assignment import Gradient, copy_of, with_reads

Version = tuple[Tensor, int]


class Context(Protocol):
    """What the adjoint of an operation asks of that of the graph."""

    def is_active(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on what gradients are asked for."""

    def gradient(self, tensor: Tensor) -> Gradient:
        """Where the gradient of a tensor is collected."""

    def finish(self, gradient: Gradient) -> Tensor | None:
        """The gradient, nothing more being added; none if it is zero."""

    def emit(self, tensors: Sequence[Tensor], body: Sequence[Assignment]) -> None:
        """Compute tensors."""


@dataclass(slots=True)
class Change:
    """What an assignment becomes where the forward computation is done again."""

    statements: list[Assignment]
    outputs: list[Tensor]


@dataclass(slots=True)
class Body:
    """The assignments of an operation with versions."""

    context: Context
    operation: Operation
    writers: dict[Tensor, list[int]] = field(default_factory=dict)
    active: set[Version] = field(default_factory=set)
    changes: dict[int, Change] = field(default_factory=dict)
    _made: dict[Version, Tensor] = field(default_factory=dict)
    _pending: dict[Version, Gradient] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.writers = {t: [] for t in self.operation.outputs}
        for k, a in enumerate(self.operation.body):
            for tensor in dict.fromkeys(t.tensor for t in a.targets):
                self.writers[tensor].append(k)
        self._find_active()

    def _find_active(self) -> None:
        for k, a in enumerate(self.operation.body):
            reads = [x.tensor for v in a.values for x in accesses(v) if x.dtype.is_real]
            found = any(self.is_active(k, t) for t in reads)
            for target in a.targets:
                version = self.before(k, target.tensor)
                if target.dtype.is_real and (found or (target.tensor, version) in self.active):
                    self.active.add((target.tensor, version + 1))

    # ----------------------------------------------------------------- versions

    def before(self, k: int, tensor: Tensor) -> int:
        """The version of a tensor that assignment `k` begins with."""
        return sum(writer < k for writer in self.writers[tensor])

    def tensor(self, tensor: Tensor, version: int) -> Tensor:
        """The tensor that holds a version, from the first one on."""
        if version == len(self.writers[tensor]):
            return tensor
        key = (tensor, version)
        if key not in self._made:
            name = f"{tensor.name}_{version}"
            self._made[key] = Tensor(name, tensor.dtype, tensor.shape, None, tensor.span)
        return self._made[key]

    def is_active(self, k: int, tensor: Tensor) -> bool:
        """Whether what assignment `k` reads of a tensor depends on what gradients are asked for."""
        if tensor in self.writers:
            return (tensor, self.before(k, tensor)) in self.active
        return self.context.is_active(tensor)

    def gradient(self, k: int, tensor: Tensor) -> Gradient:
        """Where the gradient of what assignment `k` reads of a tensor is collected."""
        if tensor in self.writers:
            return self._gradient(tensor, self.before(k, tensor))
        return self.context.gradient(tensor)

    def _gradient(self, tensor: Tensor, version: int) -> Gradient:
        key = (tensor, version)
        if key not in self._pending:
            self._pending[key] = Gradient(tensor)
        return self._pending[key]

    # ------------------------------------------------------------------ reverse

    def results(self) -> list[Tensor]:
        """The outputs that depend on what gradients are asked for."""
        return [t for t in self.writers if (t, len(self.writers[t])) in self.active]

    def begin(self) -> None:
        """Take over what was collected for the outputs."""
        for tensor in self.results():
            whole = self.context.finish(self.context.gradient(tensor))
            if whole is not None:
                self._gradient(tensor, len(self.writers[tensor])).wholes.append(whole)

    def cotangents(self, k: int) -> dict[Tensor, Tensor]:
        """The gradients of what assignment `k` makes of its targets, save those that are zero."""
        found: dict[Tensor, Tensor] = {}
        for tensor in dict.fromkeys(t.tensor for t in self.operation.body[k].targets):
            gradient = self._pending.pop((tensor, self.before(k, tensor) + 1), None)
            whole = None if gradient is None else self.context.finish(gradient)
            found |= {} if whole is None else {tensor: whole}
        return found

    # ------------------------------------------------------------------ forward

    def forward(self, needed: set[Tensor]) -> list[Operation]:
        """The operation; as several if versions between its assignments are needed."""
        kept = [(t, v) for (t, v), made in self._made.items() if made in needed]
        cuts = {self.writers[t][v - 1] + 1 for t, v in kept}
        changes = {k for k, c in self.changes.items() if not needed.isdisjoint(c.outputs)}
        if not cuts and not changes:
            read = {t for a in self.operation.body for t in tensors_read(a)}
            inputs = tuple(t for t in self.operation.inputs if t in read)
            return [replace(self.operation, inputs=inputs)]
        ends = sorted({*cuts, len(self.operation.body)})
        pieces = zip([0, *ends[:-1]], ends, strict=True)
        return [self._part(start, end, changes) for start, end in pieces]

    def _part(self, start: int, end: int, changes: set[int]) -> Operation:
        """The assignments from `start` to `end` as an operation of its own."""
        names: dict[Replaceable, Expr | Tensor] = {}
        outputs: list[Tensor] = []
        body: list[Assignment] = []
        for tensor in self.writers:
            old, new = self.before(start, tensor), self.before(end, tensor)
            if old == new:
                names |= {tensor: self.tensor(tensor, new)} if new else {}
                if new == len(self.writers[tensor]) == 0 and start == 0:
                    outputs.append(tensor)  # never written: zeros
                continue
            names[tensor] = result = self.tensor(tensor, new)
            outputs.append(result)
            if old:
                body.append(copy_of(result, reader(self.tensor(tensor, old))))
        for k in range(start, end):
            change = self.changes[k] if k in changes else None
            outputs += change.outputs if change else ()
            statements = change.statements if change else [self.operation.body[k]]
            body += [self._renamed(a, names, outputs) for a in statements]
        read = dict.fromkeys(t for a in body for t in tensors_read(a) if t not in outputs)
        return replace(self.operation, outputs=tuple(outputs), inputs=tuple(read), body=tuple(body))

    def _renamed(
        self, a: Assignment, names: dict[Replaceable, Expr | Tensor], outputs: list[Tensor]
    ) -> Assignment:
        """An assignment of a part, in which what is not written yet is zero."""
        later = {t for t in self.writers if t not in names and t not in outputs}
        if later:
            a = with_reads(a, lambda x: zero_of(x.dtype) if x.tensor in later else x)
        return substitute_assignment(a, names)


def reader(tensor: Tensor) -> Callable[[tuple[Subscript, ...]], Expr]:
    """What reads the element of a tensor at some place."""
    return lambda subscripts: Access(tensor, subscripts)


def zero_of(dtype: DType) -> Const:
    """What an element that was never written holds."""
    return Const(False if dtype is DType.BOOL else 0.0 if dtype.is_real else 0, dtype)
