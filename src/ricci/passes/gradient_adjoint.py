"""The adjoint of an assignment within its operation.

Requires: the cotangents of what it writes. Ensures: those of what it reads are collected. Does
not: reverse what depends on the order of the loop, see `gradient_sequence`, nor products, minima
and maxima over several terms, see `gradient_reductions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..ir import shapes
from ..ir.nodes import Access, Apply, Assignment, Binary, BinaryOp, Expr, Index, Remap, Tensor
from ..ir.rewrite import accesses, children
from ..records import replace
from .gradient_assignment import Gradient, Instance, copy_of, is_map, like, with_reads
from .gradient_body import Body, reader, zero_of
from .gradient_scalar import Algebra, Flow, Seed, sweep
from .gradient_sums import share_sums

_AS_BINARY: dict[str, BinaryOp] = {"add": "add", "mul": "mul", "min": "min", "max": "max"}


class Adjoint:
    """The adjoint of assignment `k` of an operation.

    All expressions name tensors as the program does: what it reads in the version before the
    assignment, and what it made as `after`; `final` puts in the tensors that hold these.
    """

    def __init__(self, body: Body, k: int, cotangents: dict[Tensor, Tensor]) -> None:
        self.body = body
        self.context = body.context
        self.k = k
        self.cotangents = cotangents
        self.make = Algebra()
        self.instance = Instance(self.make, self._written_out(body.operation.body[k]))
        self._after: dict[Tensor, Tensor] = {}

    @property
    def assignment(self) -> Assignment:
        return self.instance.assignment

    # ------------------------------------------------------------------- order

    def _written_out(self, a: Assignment) -> Assignment:
        """As `set`, if each element is written once: its value may then read the element."""
        if len({t.tensor for t in a.targets}) < len(a.targets):
            return a
        once = is_injective(a)
        if a.op == "update":
            return replace(a, op="set") if once else a
        binary = _AS_BINARY.get(a.op)
        own = bool(own_reads(a))
        if binary is None or not (own or (once and a.op != "add")):
            return a
        values = tuple(Binary(binary, t, v) for t, v in zip(a.targets, a.values, strict=True))
        return replace(a, op="set" if once else "update", values=values)

    def is_ordered(self) -> bool:
        """Whether the order of the loop matters: what it reads may be written at another point."""
        a = self.assignment
        own = own_reads(a)
        places = {t.tensor: t for t in a.targets}
        if a.op == "update" or (own and len(places) < len(a.targets)):
            return True
        return any(x is not places[x.tensor] for x in own)

    # --------------------------------------------------------------- statements

    def after(self, tensor: Tensor) -> Tensor:
        """What stands for the version of a tensor that the assignment makes."""
        if tensor not in self._after:
            self._after[tensor] = replace(tensor)
        return self._after[tensor]

    def final(self, a: Assignment) -> Assignment:
        """A statement with the tensors that hold the versions that it reads."""
        return with_reads(a, self._version)

    def _version(self, access: Access) -> Expr:
        made = next((t for t, after in self._after.items() if after is access.tensor), None)
        tensor = access.tensor if made is None else made
        if tensor not in self.body.writers:
            return access
        version = self.body.before(self.k, tensor) + (made is not None)
        if version == 0:
            return zero_of(tensor.dtype)
        return replace(access, tensor=self.body.tensor(tensor, version))

    def emit(self, tensor: Tensor, *body: Assignment) -> None:
        """Compute a tensor that the adjoint needs."""
        self.context.emit([tensor], [self.final(a) for a in body])

    def give(self, flows: Sequence[Flow]) -> None:
        """Add what reaches elements to the gradients of their tensors."""
        for flow in flows:
            gradient = self.body.gradient(self.k, flow.access.tensor)
            gradient.parts += map(self.final, self.instance.add(flow, gradient.tensor))

    def is_active(self, tensor: Tensor) -> bool:
        return self.body.is_active(self.k, tensor)

    def seeded(self) -> list[tuple[Access, Expr]]:
        """The targets that have a cotangent, with their values."""
        a = self.assignment
        pairs = zip(a.targets, a.values, strict=True)
        return [(t, v) for t, v in pairs if t.tensor in self.cotangents]

    def place(self, tensor: Tensor, target: Access) -> Access:
        """The element of another tensor at the place of a target."""
        return cast(Access, self.make.whole(Access(tensor, target.subscripts)))

    def previous(self, tensor: Tensor) -> Gradient | None:
        """Where the gradient of what a target held before is collected, if it is asked for."""
        return self.body.gradient(self.k, tensor) if self.is_active(tensor) else None

    # -------------------------------------------------------- sums, replacements

    def linear(self) -> None:
        """The adjoint of a sum, or of elements that are replaced."""
        seeds = [Seed(v, self.place(self.cotangents[t.tensor], t)) for t, v in self.seeded()]
        flows = sweep(self.make, seeds, self.is_active)
        is_set = self.assignment.op == "set"
        self.give(self._with_shared_sums(self._with_results(flows) if is_set else flows))
        for tensor, cotangent in self.cotangents.items():
            if (previous := self.previous(tensor)) is None:
                continue
            if not is_set:
                previous.wholes.append(cotangent)
            elif (kept := self._kept(tensor, cotangent)) is not None:
                previous.wholes.append(kept)

    def _with_shared_sums(self, flows: list[Flow]) -> list[Flow]:
        """The flows that are left when those that share sums are given."""
        shared = share_sums(self.instance, flows, self.assignment.targets[0].tensor)
        if shared is None:
            return flows
        statement = self.instance.statement("add", shared.targets, shared.values)
        self.context.emit([t.tensor for t in shared.targets], [self.final(statement)])
        for flow in shared.flows:
            gradient = self.body.gradient(self.k, flow.access.tensor)
            statements = map(self.final, self.instance.add(flow, gradient.tensor))
            gradient.parts += [replace(s, domain=shared.domain) for s in statements]
        given = {id(flow.access) for flow in shared.flows}
        return [flow for flow in flows if id(flow.access) not in given]

    def _kept(self, tensor: Tensor, cotangent: Tensor) -> Tensor | None:
        """The cotangent of elements that are not replaced, if there are any."""
        zeros: list[Assignment] = []
        kept = like("kept", cotangent)
        for target in self.assignment.targets:
            if target.tensor is tensor:
                place = self.place(kept, target)
                zero = self.instance.statement("update", [place], [zero_of(target.dtype)])
                if is_map(zero):
                    return None
                zeros.append(zero)
        self.emit(kept, copy_of(kept, reader(cotangent)), *zeros)
        return kept

    def _with_results(self, flows: list[Flow]) -> list[Flow]:
        """Cotangents that read a costly value where it was stored."""
        places: dict[int, Expr] = {}
        for target, value in self.seeded():
            if isinstance(value, Apply) or (isinstance(value, Binary) and value.op == "div"):
                places[id(value)] = self.place(self.after(target.tensor), target)
        for flow in flows:
            flow.terms = [(path, self.make.replaced(v, places)) for path, v in flow.terms]
        return flows


def own_reads(a: Assignment) -> list[Access]:
    """The elements that an assignment reads of what it writes."""
    condition = () if a.condition is None else (a.condition,)
    places = [part for t in a.targets for part in children(t)]
    written = {t.tensor for t in a.targets}
    found = accesses(*places, *a.locals, *condition, *a.values)
    return [x for x in found if x.tensor in written]


def is_injective(a: Assignment) -> bool:
    """Whether each target certainly gets a value for an element at most once."""
    return a.op == "set" or all(_separates(t, a.domain) for t in a.targets)


def _separates(target: Access, domain: Sequence[Index]) -> bool:
    """Whether all points of a domain are distinct elements: from some subscripts, linear in one
    index each, follow all indices."""
    left = set(domain)
    for s in target.subscripts:
        form = None if isinstance(s.rule, Remap) else shapes.affine(s.index)
        if form is not None and len(form[0]) == 1:
            left -= {i for i in form[0] if isinstance(i, Index)}
    return not left
