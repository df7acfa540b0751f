"""Recurrences: `y[i + 1] = f(y[i], x[i + 1])`, of which each step needs what the last one wrote."""

from __future__ import annotations

from ..records import dataclass
from . import shapes
from .nodes import ONE, ZERO, Access, Assignment, Const, Expr, Index, Tensor, integer
from .rewrite import Replaceable, accesses, expressions, has_guard, substitute


@dataclass(frozen=True, slots=True)
class Chain:
    """An assignment that steps through one dimension of its target along an index; all others of
    its indices are independent. `before` is what a step reads of the target."""

    along: Index
    dimension: int
    step: int
    before: Access

    def first(self) -> Access:
        """What the first step reads of the target."""
        start: dict[Replaceable, Expr | Tensor] = {self.along: ZERO}
        found = substitute(self.before, start)
        assert isinstance(found, Access)
        return found

    def covers_the_rest(self) -> bool:
        """Whether the steps write all elements but those that the first one reads."""
        extent = self.before.tensor.shape[self.dimension]
        place = shapes.simplify(self.first().subscripts[self.dimension].index)
        end = ZERO if self.step > 0 else shapes.sub(extent, ONE)
        full = shapes.equal(shapes.add(self.along.extent, ONE), extent)
        return full and shapes.equal(place, end)


def chain_of(a: Assignment) -> Chain | None:
    """How an assignment is a recurrence, if it is one."""
    if a.op not in ("set", "update") or len(a.targets) != 1 or a.locals or a.condition is not None:
        return None
    target = a.targets[0]
    reads = [x for x in accesses(*a.values) if x.tensor is target.tensor]
    if not reads or has_guard(*expressions(a)):
        return None
    for d, s in enumerate(target.subscripts):
        form = shapes.affine(s.index)
        steps = {} if form is None else {i: n for i, n in form[0].items() if isinstance(i, Index)}
        if len(steps) != 1:
            continue
        ((along, step),) = steps.items()
        if abs(step) == 1 and _is_separate(a, d, along):
            if all(_is_before(x, target, d, step) for x in reads):
                return Chain(along, d, step, reads[0])
    return None


def _is_separate(a: Assignment, d: int, along: Index) -> bool:
    """Whether all other subscripts of the target are numbers, and the other indices of the domain,
    each once."""
    target = a.targets[0]
    if any(s.rule is not None for s in target.subscripts):
        return False
    others = [s.index for k, s in enumerate(target.subscripts) if k != d]
    plain = [i for i in others if not isinstance(i, Const)]
    rest = [i for i in a.domain if i is not along]
    return len(plain) == len(rest) and all(any(i is j for j in plain) for i in rest)


def _is_before(x: Access, target: Access, d: int, step: int) -> bool:
    """Whether an access reads what the step before wrote."""
    for k, (s, t) in enumerate(zip(x.subscripts, target.subscripts, strict=True)):
        place = t.index if k != d else shapes.sub(t.index, integer(step))
        if s.rule is not None or not shapes.equal(s.index, place):
            return False
    return True
