"""The adjoints of minima, maxima and products over several terms.

Requires: the adjoint of an assignment whose order does not matter. Ensures: the cotangents of its
terms are collected.

All terms that are equal to the minimum or maximum share its cotangent evenly, and so does what the
target held before. A product gives each factor the product of the others, also where factors are
zero: it is found from the product of those that are not, and the number of those that are.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import shapes
from ..ir.nodes import (
    ZERO,
    Access,
    Binary,
    Cast,
    Const,
    Expr,
    Local,
    Select,
    Subscript,
    Tensor,
    Unary,
)
from .gradient_adjoint import Adjoint
from .gradient_assignment import copy_of, is_map, like
from .gradient_body import Change, zero_of
from .gradient_scalar import Path, Seed, is_number, sweep

Element = Callable[[tuple[Subscript, ...]], Expr]


def reverse_reduction(adjoint: Adjoint) -> None:
    """Collect the cotangents of what a minimum, maximum or product reads."""
    for target, value in adjoint.seeded():
        if adjoint.assignment.op == "mul":
            _Product(adjoint, target, value).run()
        else:
            _Extreme(adjoint, target, value).run()


class _Reduction:
    def __init__(self, adjoint: Adjoint, target: Access, value: Expr) -> None:
        self.adjoint = adjoint
        self.make = adjoint.make
        self.target = target
        self.value = value
        self.one = self.make.const(1.0, target.dtype)
        self.zero = self.make.const(0.0, target.dtype)
        self.initial = _initial(adjoint, target.tensor)
        self.cotangent = adjoint.cotangents[target.tensor]

    def place(self, tensor: Tensor) -> Access:
        return self.adjoint.place(tensor, self.target)

    def held(self, subscripts: tuple[Subscript, ...]) -> Expr:
        """What an element held before."""
        if isinstance(self.initial, Const):
            return self.initial
        return Access(self.initial, subscripts)

    def count(self, name: str, path: Path, initial: Element | None) -> Tensor:
        """A tensor of the number of terms for which something holds, and what it begins with."""
        tensor = like(name, self.target.tensor)
        first = [] if initial is None else [copy_of(tensor, initial)]
        place = self.place(tensor)
        term = self.adjoint.instance.statement("add", [place], [self.one], path)
        self.adjoint.emit(tensor, *first, term)
        return tensor

    def each(self, name: str, value: Element) -> Tensor:
        """A tensor with a value for each element."""
        tensor = like(name, self.target.tensor)
        self.adjoint.emit(tensor, copy_of(tensor, value))
        return tensor

    def give(self, cotangent: Expr, path: Path) -> None:
        seed = Seed(self.value, cotangent, path)
        self.adjoint.give(sweep(self.make, [seed], self.adjoint.is_active))

    def hand_on(self, value: Element) -> None:
        """Add to the gradient of what the target held before."""
        previous = self.adjoint.previous(self.target.tensor)
        if previous is not None:
            previous.parts.append(self.adjoint.final(copy_of(previous.tensor, value)))


class _Extreme(_Reduction):
    def run(self) -> None:
        result = self.adjoint.after(self.target.tensor)
        found = self.value if _is_exact(self.value) else self._stored()
        is_result: Path = ((self.make.binary("eq", found, self.place(result)), True),)

        def was_result(subscripts: tuple[Subscript, ...]) -> Expr:
            return Binary("eq", self.held(subscripts), Access(result, subscripts))

        def counted(subscripts: tuple[Subscript, ...]) -> Expr:
            return Select(was_result(subscripts), self.one, self.zero)

        worst = isinstance(self.initial, Const) and _is_infinite(self.initial)
        ties = self.count("ties", is_result, None if worst else counted)
        share = self.each(
            "share", lambda s: Binary("div", Access(self.cotangent, s), Access(ties, s))
        )
        self.give(self.place(share), is_result)
        self.hand_on(lambda s: Select(was_result(s), Access(share, s), self.zero))

    def _stored(self) -> Expr:
        """The value, kept when it is computed: computed again it might differ by rounding."""
        adjoint, a = self.adjoint, self.adjoint.assignment
        extents = tuple(shapes.maximum(i.extent, ZERO) for i in a.domain)
        like_target = like("terms", self.target.tensor)
        terms = Tensor(like_target.name, self.target.dtype, extents)
        place = Access(terms, tuple(map(Subscript, a.domain)))
        change = adjoint.body.changes.setdefault(adjoint.k, Change([a], []))
        last = change.statements.pop()
        values = [place if v is self.value else v for v in last.values]
        change.outputs.append(terms)
        change.statements.append(adjoint.instance.statement("set", [place], [self.value]))
        change.statements.append(adjoint.instance.statement(a.op, a.targets, values))
        return self.make.whole(place)


class _Product(_Reduction):
    def run(self) -> None:
        if is_number(self.zero, 0) and isinstance(self.initial, Const):
            if is_number(self.initial, 0):
                return  # stays zero
        zero, one = self.zero, self.one
        is_zero = self.make.binary("eq", self.value, zero)
        product = self._nonzero_product(is_zero)
        zeros = self.count("zeros", ((is_zero, True),), self._begins_with)
        others = self.each("others", lambda s: self._where(zeros, zero, product, s))
        rest = self.each("rest", lambda s: self._where(zeros, one, product, s))
        quotient = self.make.div(self.place(others), self.value)
        self.give(self.make.select(is_zero, self.place(rest), quotient), ())
        self.hand_on(
            lambda s: Select(
                Binary("eq", self.held(s), zero),
                Access(rest, s),
                Binary("div", Access(others, s), self.held(s)),
            )
        )

    def _nonzero_product(self, is_zero: Expr) -> Tensor:
        tensor = like("product", self.target.tensor)

        def first(s: tuple[Subscript, ...]) -> Expr:
            held = self.held(s)
            return Select(Binary("eq", held, self.zero), self.one, held)

        initial = self.initial if isinstance(self.initial, Const) else None
        begin = copy_of(tensor, first if initial is None else lambda s: initial)
        factor = self.make.select(is_zero, self.one, self.value)
        term = self.adjoint.instance.statement("mul", [self.place(tensor)], [factor])
        self.adjoint.emit(tensor, begin, term)
        return tensor

    def _begins_with(self, s: tuple[Subscript, ...]) -> Expr:
        """1 where an element held zero before."""
        if isinstance(self.initial, Const):
            return self.zero
        return Select(Binary("eq", self.held(s), self.zero), self.one, self.zero)

    def _where(
        self, zeros: Tensor, number: Expr, product: Tensor, s: tuple[Subscript, ...]
    ) -> Expr:
        """The cotangent times the product, where there are so many zeros."""
        value = Binary("mul", Access(self.cotangent, s), Access(product, s))
        return Select(Binary("eq", Access(zeros, s), number), value, self.zero)


def _initial(adjoint: Adjoint, tensor: Tensor) -> Const | Tensor:
    """What the elements hold before the assignment: one number, or a tensor."""
    body = adjoint.body
    version = body.before(adjoint.k, tensor)
    if version == 0:
        return zero_of(tensor.dtype)
    before = body.operation.body[body.writers[tensor][version - 1]]
    value = before.values[0]
    return value if before.op == "set" and is_map(before) and isinstance(value, Const) else tensor


def _is_infinite(const: Const) -> bool:
    return isinstance(const.value, float) and abs(const.value) == float("inf")


def _is_exact(value: Expr) -> bool:
    """Whether an expression has one value wherever it is computed."""
    match value:
        case Access() | Const():
            return True
        case Local():
            return _is_exact(value.value)
        case Unary(op="neg") | Cast():
            return _is_exact(value.operand)
        case Select():
            return _is_exact(value.then) and _is_exact(value.otherwise)
        case Binary(op="min" | "max"):
            return _is_exact(value.lhs) and _is_exact(value.rhs)
        case _:
            return False
