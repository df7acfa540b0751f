"""Sums that several gradients share.

Requires: the cotangents that an assignment gives, each a sum over some of its indices. Ensures: the
same gradients, from sums over those indices that all of them sum over, computed once and in one
pass. Does not: multiply out.

Example: of `y[n, c] = s[c] * (x[n, c] - m[c])` the gradients of `s` and `m` are sums over `n`:
`a[c], b[c] += d_y[n, c] * (x[n, c] - m[c]), d_y[n, c]` gives `d_s[c] = a[c]` and
`d_m[c] = -b[c] * s[c]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.nodes import Access, Assignment, Binary, Expr, Index, Subscript, Tensor, Unary
from ..ir.rewrite import free_indices
from ..records import dataclass, replace
from .gradient_assignment import Instance, like
from .gradient_scalar import Algebra, Flow
from .kernels import plain_dimensions

_MOST_PARTS = 64

_Split = Callable[[Expr], list[tuple[Expr, bool]]]
"""The parts of a sum or product, and which of them are subtracted or divided by."""


@dataclass(frozen=True, slots=True)
class _Term:
    """A product: what varies over the shared sum, and what does not."""

    inner: tuple[Expr, ...]
    below: tuple[Expr, ...]
    outer: Expr


@dataclass(frozen=True, slots=True)
class Shared:
    """Sums, and flows from their elements instead of those from each point."""

    domain: tuple[Index, ...]
    targets: tuple[Access, ...]
    values: tuple[Expr, ...]
    flows: list[Flow]


def share_sums(instance: Instance, flows: Sequence[Flow], tensor: Tensor) -> Shared | None:
    """The sums of two or more of the flows, if they have indices in common to sum over."""
    a = instance.assignment
    if instance.guards or a.condition is not None:
        return None
    summed = [f for f in flows if _is_sum(f, a)]
    kept = {i for f in summed for i in free_indices(f.access)}
    inner = {i for i in a.domain if i not in kept}
    if len(summed) < 2 or not inner:
        return None
    return _Sums(instance.make, a, inner, tensor).run(summed)


def _is_sum(flow: Flow, a: Assignment) -> bool:
    """Whether a flow is added up over some indices, at a plain place."""
    plain = plain_dimensions(flow.access)
    if plain is None or len(flow.terms) != 1 or flow.terms[0][0]:
        return False
    return not set(a.domain) <= set(plain)


class _Sums:
    def __init__(self, make: Algebra, a: Assignment, inner: set[Index], tensor: Tensor) -> None:
        self.make = make
        self.inner = inner
        self.tensor = tensor
        self.domain = tuple(i for i in a.domain if i not in inner)
        self.order: dict[int, int] = {}
        self.sums: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Access, Expr]] = {}

    def run(self, flows: Sequence[Flow]) -> Shared | None:
        new = []
        for flow in flows:
            value: Expr = self.make.const(0.0, flow.access.dtype)
            for product, negative in _parts(flow.terms[0][1], _added):
                term = self._term(product)
                part = self.make.mul(self._sum(term), term.outer)
                value = self.make.add(value, self.make.neg(part) if negative else part)
            new.append(Flow(flow.access, [((), value)]))
        if len(self.sums) > len(flows):
            return None
        targets, values = zip(*self.sums.values(), strict=True)
        return Shared(self.domain, targets, values, new)

    def _term(self, expr: Expr) -> _Term:
        inner: list[Expr] = []
        below: list[Expr] = []
        outer: Expr = self.make.const(1.0, expr.dtype)
        for factor, inverse in _parts(expr, _multiplied):
            if not self.inner.isdisjoint(free_indices(factor)):
                (below if inverse else inner).append(factor)
            elif inverse:
                outer = self.make.div(outer, factor)
            else:
                outer = self.make.mul(outer, factor)
        return _Term(self._sorted(inner), self._sorted(below), outer)

    def _sorted(self, factors: list[Expr]) -> tuple[Expr, ...]:
        """Factors in the order in which they were met first."""
        for factor in factors:
            self.order.setdefault(id(factor), len(self.order))
        return tuple(sorted(factors, key=lambda x: self.order[id(x)]))

    def _sum(self, term: _Term) -> Expr:
        """The element of the sum of what varies."""
        key = (tuple(map(id, term.inner)), tuple(map(id, term.below)))
        if key not in self.sums:
            value: Expr = self.make.const(1.0, self.tensor.dtype)
            for factor in term.inner:
                value = self.make.mul(value, factor)
            for factor in term.below:
                value = self.make.div(value, factor)
            shape = tuple(i.extent for i in self.domain)
            tensor = replace(like("sum", self.tensor), shape=shape)
            place = self.make.whole(Access(tensor, tuple(map(Subscript, self.domain))))
            assert isinstance(place, Access)
            self.sums[key] = (place, value)
        return self.sums[key][0]


def _parts(expr: Expr, split: _Split) -> list[tuple[Expr, bool]]:
    """The terms of a sum with their signs, or the factors of a product with whether it is divided
    by them; very long ones are not taken apart in full."""
    found: list[tuple[Expr, bool]] = []
    stack = [(expr, False)]
    for _ in range(_MOST_PARTS):
        if not stack:
            break
        node, inverse = stack.pop()
        parts = split(node)
        if parts:
            stack += [(part, inverse != other) for part, other in reversed(parts)]
        else:
            found.append((node, inverse))
    return found + stack[::-1]


def _added(node: Expr) -> list[tuple[Expr, bool]]:
    match node:
        case Binary(op="add" | "sub"):
            return [(node.lhs, False), (node.rhs, node.op == "sub")]
        case Unary(op="neg"):
            return [(node.operand, True)]
        case _:
            return []


def _multiplied(node: Expr) -> list[tuple[Expr, bool]]:
    match node:
        case Binary(op="mul" | "div"):
            return [(node.lhs, False), (node.rhs, node.op == "div")]
        case _:
            return []
