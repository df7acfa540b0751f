"""Constant factors and terms after a sum of products, moved into it.

Requires: kernels that depend on more than constants, in order. Ensures: where the first things done
to a sum of products with a constant operand are additions of constants and multiplications by them,

    y[c] = f((sum over k of x[k] * w[c, k]) * s[c] + t[c])

the operand is arranged with the factor in it, once, and the term is what the sum begins with. Where
each result has elements of the operand of its own, which nothing arranges, the products with the
factor are a new constant, and so they are where the operand is `bfloat16`, as is that. A sum of
integers is multiplied once, and added to, when it has become real. Factors behind limits of the
sum, as those of a rectifier, are moved before them. Does not: touch real sums of few terms
otherwise, or factors of what is `float16`, which has fewer bits where it is small.

Example: the normalisation of a batch by stored statistics, behind a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import field

from ..dtypes import DType
from ..ir.loops import Action, Reduce
from ..ir.nodes import (
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Select,
    Subscript,
    Tensor,
    Unary,
)
from ..ir.rewrite import accesses, children, free_indices, nodes_through_locals, rebuild, walk
from ..ir.shapes import as_int
from ..records import dataclass, replace
from .limits import before_limits
from .map_windows import is_inside

_CLOSED = (Access, Apply, Binary, Cast, Const, Index, Select, Unary)
"""What constants are computed by."""
_LEAST = 16
"""Terms of a sum that a factor is moved into, if its operand is arranged anyway."""


@dataclass(slots=True)
class Moved:
    """New constants, and the kernels that compute them."""

    kernels: list[Reduce] = field(default_factory=list)
    constants: list[Tensor] = field(default_factory=list)

    def constant(self, name: str, value: Expr) -> Expr:
        """An element of a new constant that holds the values of an expression."""
        indices = free_indices(value)
        fresh = {i: Index(i.name, i.extent) for i in indices}
        made = Tensor(name, value.dtype, tuple(i.extent for i in indices))
        target = Access(made, tuple(Subscript(fresh[i]) for i in indices))
        read = rebuild(
            value, lambda node: fresh.get(node, node) if isinstance(node, Index) else node
        )
        total = (Local("acc0", read),)
        domain = tuple(fresh[i] for i in indices)
        self.kernels.append(Reduce(name, (target,), domain, (), "set", (read,), (), total, total))
        self.constants.append(made)
        return Access(made, tuple(Subscript(i) for i in indices))


def move_constants(
    actions: Sequence[Action], constant: Container[Tensor]
) -> tuple[list[Action], Moved]:
    """The actions with constants moved into their sums."""
    moved = Moved()
    done = [_moved(a, constant, moved) if isinstance(a, Reduce) else a for a in actions]
    return done, moved


def _moved(kernel: Reduce, constant: Container[Tensor], moved: Moved) -> Reduce:
    sides = None if kernel.locals else _sides(kernel, constant)
    if sides is None:
        return kernel
    given, rest = sides
    (accumulator,), (result,) = kernel.accumulators, kernel.results
    indices = set(free_indices(given)) - set(kernel.reduced)
    own = indices - set(free_indices(rest))
    is_arranged = bool(own) and _terms(kernel) >= _LEAST
    allowed = own if is_arranged else indices
    if accumulator.dtype.is_int:
        return _gathered(kernel, constant, allowed, moved)
    if own and not is_arranged:
        return kernel
    found = _steps(result, accumulator, constant, allowed)
    if found is None:
        return kernel
    result, steps, last = found
    if steps.factor is None and steps.count < 2:
        return kernel
    value, start = kernel.values[0], kernel.initial[0]
    if not isinstance(start, Const) and not steps.is_constant(start):
        return kernel
    if steps.factor is not None:
        start = _times(start, steps.factor)
        if isinstance(given, Cast):
            weights = _scaled(kernel, given, steps.factor, moved)
            if weights is None:
                return kernel
            value = Binary("mul", rest, weights)
        elif is_arranged:
            factor = moved.constant(f"{kernel.name}.factor", steps.factor)
            value = Binary("mul", value, factor)
        elif not isinstance(given, Access) or not is_inside(given):
            return kernel
        else:
            scaled = Binary("mul", given, steps.factor)
            value = Binary("mul", rest, moved.constant(f"{kernel.name}.scaled", scaled))
    start = _plus(start, steps.term)
    if accesses(start):
        start = moved.constant(f"{kernel.name}.start", start)
    fresh = Local(accumulator.name, start)
    results = (rebuild(result, lambda node: node, {id(last): fresh}),)
    return replace(
        kernel, initial=(start,), values=(value,), accumulators=(fresh,), results=results
    )


def _scaled(kernel: Reduce, given: Cast, factor: Expr, moved: Moved) -> Expr | None:
    """Weights that are made `float32`, with a factor in them, as narrow as they were; None if they
    are something else, or if numbers so small might lose bits."""
    weights = given.operand
    if not isinstance(weights, Access) or not is_inside(weights):
        return None
    if weights.dtype is not DType.BFLOAT16 or given.dtype is not DType.FLOAT32:
        return None
    scaled = Cast(weights.dtype, Binary("mul", given, factor))
    return Cast(given.dtype, moved.constant(f"{kernel.name}.scaled", scaled))


def _gathered(kernel: Reduce, constant: Container[Tensor], own: set[Index], moved: Moved) -> Reduce:
    """The kernel of an integer sum with one factor and one term after it, which depend on its own
    indices, if there are more."""
    (accumulator,), (result,) = kernel.accumulators, kernel.results
    start = _only_parent(result, accumulator)
    if start is None or start.dtype.is_int:
        return kernel
    found = _steps(result, start, constant, own)
    if found is None:
        return kernel
    result, steps, last = found
    if steps.count < 2:
        return kernel
    value = start
    for op, part in (("mul", steps.factor), ("add", steps.term)):
        if part is not None:
            known = moved.constant(f"{kernel.name}.{op}", part) if accesses(part) else part
            value = Binary("mul" if op == "mul" else "add", value, known)
    return replace(kernel, results=(rebuild(result, lambda node: node, {id(last): value}),))


def _only_parent(result: Expr, part: Expr) -> Expr | None:
    """The conversion of a part, if that is all that the part is used for."""
    found = [n for n in walk(result) if any(c is part for c in children(n))]
    return found[0] if len(found) == 1 and isinstance(found[0], Cast) else None


def _steps(
    result: Expr, start: Expr, constant: Container[Tensor], own: set[Index]
) -> tuple[Expr, _Steps, Expr] | None:
    """What the first nodes on the way from a part up to the result do to it, the last of them, and
    the result: with factors behind limits of the part moved there, if there are."""
    chain = _chain(result, start)
    if chain is None:
        return None
    steps, last = _Steps(constant, own), start
    for node in chain:
        if not steps.add(node, last):
            break
        last = node
    before = before_limits(result, last)
    if before is not result:
        further = _steps(before, start, constant, own)
        if further is not None and further[1].count > steps.count:
            return further
    return result, steps, last


def _sides(kernel: Reduce, constant: Container[Tensor]) -> tuple[Expr, Expr] | None:
    """The operand of a sum of products that is constant, and the one that is not."""
    if kernel.op != "add" or len(kernel.targets) != 1 or kernel.condition is not None:
        return None
    if kernel.values[0].dtype not in (DType.FLOAT32, DType.FLOAT64, DType.INT32):
        return None
    value = kernel.values[0]
    if not isinstance(value, Binary) or value.op != "mul":
        return None
    sides = [(value.lhs, accesses(value.lhs)), (value.rhs, accesses(value.rhs))]
    given = [x for x, read in sides if read and all(a.tensor in constant for a in read)]
    rest = [x for x, read in sides if read and x not in given]
    return (given[0], rest[0]) if len(given) == len(rest) == 1 else None


def _terms(kernel: Reduce) -> int:
    """How many terms a sum has, as far as that is known."""
    return math.prod(as_int(i.extent) or 1 for i in kernel.reduced)


def _chain(result: Expr, start: Expr) -> list[Expr] | None:
    """The nodes on the only way from a part, the accumulator or so, up to the result."""
    parents: dict[int, list[Expr]] = {}
    for node in walk(result):
        for part in {id(part) for part in children(node)}:
            parents.setdefault(part, []).append(node)
        if isinstance(node, Local) and node is not start:
            if any(x is start for x in nodes_through_locals(node.value)):
                return None
    chain: list[Expr] = []
    here: Expr = start
    while len(found := parents.get(id(here), [])) == 1 and isinstance(found[0], Binary):
        node = found[0]
        if node.lhs is node.rhs:
            break
        chain.append(node)
        here = node
    return chain


@dataclass(slots=True)
class _Steps:
    """What a chain of operations with constants does to a sum: `sum * factor + term`."""

    constant: Container[Tensor]
    own: set[Index]
    factor: Expr | None = None
    term: Expr | None = None
    count: int = 0

    def is_constant(self, expr: Expr) -> bool:
        """Whether an expression depends on constants and on own indices alone."""
        return (
            all(a.tensor in self.constant for a in accesses(expr))
            and set(free_indices(expr)) <= self.own
            and all(isinstance(n, _CLOSED) for n in walk(expr))
            and all(
                s.rule is None and isinstance(s.index, (Index, Const))
                for a in accesses(expr)
                for s in a.subscripts
            )
        )

    def add(self, node: Expr, last: Expr) -> bool:
        """Take one more operation; whether it is of that kind."""
        if not isinstance(node, Binary) or node.dtype is not last.dtype:
            return False
        other = node.rhs if node.lhs is last else node.lhs
        if not self.is_constant(other):
            return False
        match node.op:
            case "add":
                self.term = other if self.term is None else Binary("add", self.term, other)
            case "sub" if node.lhs is last:
                less = Unary("neg", other)
                self.term = less if self.term is None else Binary("sub", self.term, other)
            case "mul":
                self._scale("mul", other)
            case "div" if node.lhs is last:
                self._scale("div", other)
            case _:
                return False
        self.count += 1
        return True

    def _scale(self, op: str, other: Expr) -> None:
        one = Const(1.0, other.dtype)
        first: Expr = other if op == "mul" else Binary("div", one, other)
        self.factor = first if self.factor is None else Binary("mul", self.factor, first)
        if self.term is not None:
            self.term = Binary("mul", self.term, first)


def _times(expr: Expr, factor: Expr) -> Expr:
    if isinstance(expr, Const) and expr.value == 0:
        return expr
    return Binary("mul", expr, factor)


def _plus(expr: Expr, term: Expr | None) -> Expr:
    if term is None:
        return expr
    if isinstance(expr, Const) and expr.value == 0:
        return term
    return Binary("add", expr, term)
