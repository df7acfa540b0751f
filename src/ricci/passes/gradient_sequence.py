"""The adjoint of an assignment whose order matters: the same loop, run backwards.

Requires: the adjoint of such an assignment. Ensures: the cotangents of what it reads are collected.

At each point, the last one first, a target's cotangent is taken and what it replaced gets none;
then the elements that were read get their parts. Whatever depends on the state between two
points is kept by the forward loop, in tensors with an element for each point of the domain; so are
the cotangents that were taken, which other statements spread over the other tensors that were read.

Example: of `y[i + 1] := y[i] * x[i]`, with `kept` the state `y[i]` and `taken` for `x`,
`d_y[n - 1 - i] := d_y[n - i] * x[n - 1 - i], taken[n - 1 - i] := d_y[n - i]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..diagnostics import error
from ..dtypes import DType
from ..ir import shapes
from ..ir.nodes import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Access,
    Assignment,
    Cast,
    Expr,
    Index,
    Remap,
    Select,
    Subscript,
    Tensor,
)
from ..ir.rewrite import Replaceable, accesses, substitute_assignment
from ..records import dataclass, replace
from .gradient_adjoint import Adjoint
from .gradient_assignment import Instance, copy_of, like
from .gradient_body import Change, reader, zero_of
from .gradient_scalar import Flow, Path, Seed, sweep

Place = tuple[Expr, ...]


def reverse_sequence(adjoint: Adjoint) -> None:
    """Collect the cotangents of what an assignment in loop order reads."""
    a = adjoint.assignment
    if a.op not in ("set", "update"):
        raise error(
            "E0805", f"the gradient of sums of several terms into `{a.targets[0].tensor.name}`, "
            "which read it, is not available", a.span,
        )  # fmt: skip
    _Sequence(adjoint).run()


@dataclass(frozen=True, slots=True)
class _Read:
    """An element of the state that a point reads: `parts` are the slopes of values by it."""

    tensor: Tensor
    place: Place
    parts: tuple[tuple[int, Expr], ...]


class _Sequence:
    def __init__(self, adjoint: Adjoint) -> None:
        self.adjoint = adjoint
        self.make = adjoint.make
        self.forward = adjoint.instance
        self.a = adjoint.assignment
        self.state = {t.tensor for t in self.a.targets}
        self.domain = tuple(map(Subscript, self.a.domain))
        self.extents = tuple(shapes.maximum(i.extent, ZERO) for i in self.a.domain)
        self.stored: dict[tuple[object, ...], tuple[Access, Expr]] = {}
        self.moving = [t for t in self.state if self._is_moving(t)]
        self.gradients = {t: like("d", t) for t in self.moving}
        self.taken: dict[int, Access] = {}

    def _is_moving(self, tensor: Tensor) -> bool:
        return tensor in self.adjoint.cotangents or tensor.dtype.is_real

    def run(self) -> None:
        adjoint = self.adjoint
        places = [self._place(t, ()) for t in self.a.targets]
        flows = [self._flows(value) for value in self.a.values]
        reads = self._reads(flows, places)
        spread = [self._spread(k, found) for k, found in enumerate(flows)]
        adjoint.instance = self._instance()
        self._emit(places, reads)
        for found in spread:
            adjoint.give(found)
        self._keep()
        for tensor in self.moving:
            if (previous := adjoint.previous(tensor)) is not None:
                previous.wholes.append(self.gradients[tensor])

    # ------------------------------------------------------------ what is kept

    def _depends(self, expr: Expr) -> bool:
        return any(x.tensor in self.state for x in accesses(expr))

    def _fixed(self, expr: Expr, path: Path) -> Expr:
        """An expression that needs no state: itself, or what the forward loop keeps of it."""
        if not self._depends(expr):
            return expr
        key = (id(expr), *((id(c), wanted) for c, wanted in path))
        if key not in self.stored:
            name = like("kept", self.a.targets[0].tensor).name
            tensor = Tensor(name, expr.dtype, self.extents)
            value = expr
            for condition, wanted in reversed(path):
                sides = (value, zero_of(expr.dtype)) if wanted else (zero_of(expr.dtype), value)
                value = Select(condition, *sides)
            place = cast(Access, self.make.whole(Access(tensor, self.domain)))
            self.stored[key] = (place, value)
        return self.stored[key][0]

    def _fixed_path(self, path: Path) -> Path:
        """A path whose conditions need no state."""
        return tuple((self._fixed(c, path[:n]), wanted) for n, (c, wanted) in enumerate(path))

    def _place(self, access: Access, path: Path) -> Place:
        """Where an element is, boundary rules applied, without the state."""
        found = []
        for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
            index = s.index
            if isinstance(s.rule, Remap):
                beyond = shapes.select(shapes.compare("ge", index, extent), s.rule.above, index)
                index = shapes.select(shapes.compare("lt", index, ZERO), s.rule.below, beyond)
            if index.dtype is not DType.INT:
                index = Cast(DType.INT, index)
            found.append(self._fixed(self.make.whole(index), path))
        return tuple(found)

    def _instance(self) -> Instance:
        """The points at which something happened, without the state."""
        condition = () if self.a.condition is None else (self.a.condition,)
        guards = [index for index, _ in self.forward.guards.values()]
        if not any(map(self._depends, (*condition, *guards))):
            return self.forward
        tensor = Tensor(like("done", self.a.targets[0].tensor).name, DType.BOOL, self.extents)
        place = cast(Access, self.make.whole(Access(tensor, self.domain)))
        self.stored[("done",)] = (place, TRUE)
        plain = Assignment((place,), "update", (TRUE,), self.a.domain, self.a.locals, place)
        instance = Instance(self.make, plain)
        instance.guards = {}
        return instance

    def _keep(self) -> None:
        """Let the forward loop keep what is needed."""
        if not self.stored:
            return
        places, values = zip(*self.stored.values(), strict=True)
        statement = self.forward.statement(
            "update", (*self.a.targets, *places), (*self.a.values, *values)
        )
        change = Change([statement], [p.tensor for p in places])
        self.adjoint.body.changes[self.adjoint.k] = change

    # ------------------------------------------------------------------- slopes

    def _flows(self, value: Expr) -> list[Flow]:
        if not value.dtype.is_real:
            return []
        seed = Seed(value, self.make.const(1.0, value.dtype))

        def is_active(tensor: Tensor) -> bool:
            return tensor in self.gradients or self.adjoint.is_active(tensor)

        return sweep(self.make, [seed], is_active)

    def _reads(self, flows: Sequence[Sequence[Flow]], places: Sequence[Place]) -> list[_Read]:
        """The elements of the state that are read, each place once."""
        found: dict[tuple[object, ...], _Read] = {}
        for k, of_value in enumerate(flows):
            for flow in of_value:
                if flow.access.tensor not in self.state:
                    continue
                for path, slope in flow.terms:
                    read = self._read(k, flow.access, path, slope, places[k])
                    key = (read.tensor, *map(id, read.place))
                    old = found.get(key)
                    parts = (*(old.parts if old else ()), *read.parts)
                    found[key] = replace(read, parts=parts)
        return list(found.values())

    def _read(self, k: int, access: Access, path: Path, slope: Expr, place: Place) -> _Read:
        """Where the path is not taken, the place is that of a target, which surely exists."""
        fixed = self._fixed_path(path)
        value = self.make.total([(fixed, self._fixed(slope, path))], slope.dtype)
        where = self._place(access, path)
        if path and access.tensor is self.a.targets[k].tensor:
            taken: Expr = TRUE
            for condition, wanted in fixed:
                part = condition if wanted else shapes.logical_not(condition)
                taken = part if taken == TRUE else Select(taken, part, FALSE)
            where = tuple(
                self.make.whole(Select(taken, w, p)) for w, p in zip(where, place, strict=True)
            )
        return _Read(access.tensor, where, ((k, value),))

    def _spread(self, k: int, flows: Sequence[Flow]) -> list[Flow]:
        """What reaches other tensors: slopes times the cotangent that was taken."""
        found = []
        for flow in flows:
            if flow.access.tensor in self.state:
                continue
            terms = []
            for path, slope in flow.terms:
                taken = self.make.mul(self._taken(k), self._fixed(slope, path))
                terms.append((self._fixed_path(path), taken))
            path = flow.terms[0][0]
            subscripts = tuple(self._fixed_subscript(s, path) for s in flow.access.subscripts)
            found.append(Flow(replace(flow.access, subscripts=subscripts), terms))
        return found

    def _fixed_subscript(self, s: Subscript, path: Path) -> Subscript:
        rule = s.rule
        if isinstance(rule, Remap):
            rule = Remap(self._fixed(rule.below, path), self._fixed(rule.above, path))
        return Subscript(self._fixed(s.index, path), rule)

    def _taken(self, k: int) -> Access:
        """The cotangent of target `k` at each point."""
        if k not in self.taken:
            target = self.a.targets[k]
            tensor = Tensor(like("taken", target.tensor).name, target.dtype, self.extents)
            self.taken[k] = cast(Access, self.make.whole(Access(tensor, self.domain)))
        return self.taken[k]

    # ------------------------------------------------------------- the loop back

    def _emit(self, places: Sequence[Place], reads: Sequence[_Read]) -> None:
        adjoint = self.adjoint
        body: list[Assignment] = []
        for tensor, gradient in self.gradients.items():
            if (cotangent := adjoint.cotangents.get(tensor)) is not None:
                body.append(copy_of(gradient, reader(cotangent)))
        body.append(adjoint.final(self._backwards(self._step(places, reads))))
        outputs = [*self.gradients.values(), *(x.tensor for x in self.taken.values())]
        adjoint.context.emit(outputs, body)

    def _step(self, places: Sequence[Place], reads: Sequence[_Read]) -> Assignment:
        """What happens at one point."""
        taken = [self._cotangent(k, places) for k in range(len(places))]
        written: list[tuple[Tensor, Place]] = []
        targets: list[Access] = []
        values: list[Expr] = []
        points = [(t.tensor, p) for t, p in zip(self.a.targets, places, strict=True)]
        for tensor, place in (*points, *((r.tensor, r.place) for r in reads)):
            if tensor not in self.gradients or any(
                t is tensor and _same(p, place) == TRUE for t, p in written
            ):
                continue
            written.append((tensor, place))
            targets.append(self._element(tensor, place))
            values.append(self._new(tensor, place, points, reads, taken))
        for k, access in self.taken.items():
            targets.append(access)
            values.append(taken[k])
        return self.adjoint.instance.statement("update", targets, values)

    def _element(self, tensor: Tensor, place: Place) -> Access:
        return Access(self.gradients[tensor], tuple(map(Subscript, place)))

    def _cotangent(self, k: int, places: Sequence[Place]) -> Expr:
        """The cotangent of a target: none if a later one of the same point replaces it."""
        tensor = self.a.targets[k].tensor
        if tensor not in self.gradients:
            return zero_of(DType.REAL)
        value: Expr = self._element(tensor, places[k])
        for later in range(k + 1, len(places)):
            if self.a.targets[later].tensor is tensor:
                same = _same(places[later], places[k])
                value = shapes.select(same, zero_of(tensor.dtype), value)
        return value

    def _new(
        self,
        tensor: Tensor,
        place: Place,
        points: Sequence[tuple[Tensor, Place]],
        reads: Sequence[_Read],
        taken: Sequence[Expr],
    ) -> Expr:
        """The gradient of an element of the state before the point."""
        zero = zero_of(tensor.dtype)
        value: Expr = self._element(tensor, place)
        for other, where in points:
            if other is tensor:
                value = shapes.select(_same(where, place), zero, value)
        for read in reads:
            if read.tensor is not tensor:
                continue
            part: Expr = zero
            for k, slope in read.parts:
                part = self.make.add(part, self.make.mul(taken[k], slope))
            part = shapes.select(_same(read.place, place), part, zero)
            value = self.make.add(value, part)
        return value

    def _backwards(self, statement: Assignment) -> Assignment:
        """The statement with the last point first."""
        places: dict[Replaceable, Expr | Tensor] = {}
        domain = []
        for index in statement.domain:
            fresh = Index(index.name, index.extent, index.span)
            domain.append(fresh)
            places[index] = shapes.sub(shapes.sub(index.extent, ONE), fresh)
        return replace(substitute_assignment(statement, places), domain=tuple(domain))


def _same(a: Place, b: Place) -> Expr:
    """Whether two elements of a tensor are one."""
    result: Expr = TRUE
    for x, y in zip(a, b, strict=True):
        result = shapes.logical_and(result, shapes.compare("eq", x, y))
    return result
