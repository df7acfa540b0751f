"""Reductions by "update" along vectors of terms: each lane has accumulators of its own.

Possible where a step counts if what it brings is greater, or less, than what an accumulator holds,
and replaces that: of all lanes, the one whose accumulator is the greatest is right, and of several
the one that found it first (or last, if equal ones count). The accumulators of all lanes begin
alike, and so does the number of the step that each of them holds, before all others.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir import shapes
from ...ir.loops import Reduce
from ...ir.nodes import ZERO, Binary, BinaryOp, Cast, Const, Expr, Local
from ...ir.rewrite import free_indices, nodes_through_locals
from ...records import dataclass, replace
from . import emit_arith
from .builder import Builder
from .emit_types import vector_type, with_lanes

_OPERATORS = ("add", "mul", "min", "max", "and", "or")
_TYPES = (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.BOOL)


def dtypes_of(kernel: Reduce) -> tuple[DType, ...]:
    """The element types of the accumulators."""
    return tuple(x.dtype for x in kernel.initial)


_TURNED: dict[str, BinaryOp] = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}
_STRICT: dict[str, BinaryOp] = {"gt": "gt", "lt": "lt", "ge": "gt", "le": "lt"}


@dataclass(frozen=True, slots=True)
class Choice:
    """The numbers of the accumulators that are compared, and that hold the number of a step."""

    compared: int
    op: BinaryOp
    step: int | None
    first: bool
    """Whether of equal ones the first counts."""


def choice_of(kernel: Reduce) -> Choice | None:
    """How accumulators of several lanes become those of one; None if they cannot."""
    test = kernel.condition
    if kernel.op != "update" or not isinstance(test, Binary) or test.op not in _TURNED:
        return None
    own = set(kernel.accumulators)
    if any(x in own for v in kernel.values for x in nodes_through_locals(v)):
        return None
    for held, brought, op in (
        (test.lhs, test.rhs, _TURNED[test.op]),
        (test.rhs, test.lhs, test.op),
    ):
        if held in kernel.accumulators:
            number = kernel.accumulators.index(held)
            if brought is kernel.values[number] or brought == kernel.values[number]:
                first = op in ("gt", "lt")
                return Choice(number, _STRICT[op], _step(kernel) if first else None, first)
    return None


def _step(kernel: Reduce) -> int | None:
    """The accumulator that is the number of the step, but for what it begins with: if nothing
    was found it is the same in all lanes."""
    if len(kernel.reduced) != 1:
        return None
    for number, value in enumerate(kernel.values):
        while isinstance(value, Cast):
            value = value.operand
        if value is kernel.reduced[0] and dtypes_of(kernel)[number] is not DType.BOOL:
            return number
    return None


def with_steps(kernel: Reduce, choice: Choice) -> tuple[Reduce, int]:
    """The kernel with an accumulator for the number of a step, and which that is."""
    if choice.step is not None:
        return kernel, choice.step
    place: Expr = ZERO
    for index in kernel.reduced:
        place = shapes.add(shapes.mul(place, index.extent), index)
    dtype = DType.INT32 if shapes.interval(place)[1] < 1 << 31 else DType.INT64
    initial = Const(-1, dtype)
    held = Local("step", initial)
    new = replace(
        kernel,
        initial=(*kernel.initial, initial),
        accumulators=(*kernel.accumulators, held),
        values=(*kernel.values, Cast(dtype, place)),
    )
    return new, len(kernel.accumulators)


def better(
    b: Builder, kernel: Reduce, choice: Choice, x: list[str], y: list[str], lanes: int
) -> list[str]:
    """The accumulators of `x`, or of `y` where these are right."""
    dtypes, number = dtypes_of(kernel), choice.compared
    assert choice.step is not None

    def test(op: str, n: int) -> str:
        return emit_arith.binary(b, op, y[n], x[n], dtypes[n], lanes)

    def both(op: str, p: str, q: str) -> str:
        return emit_arith.binary(b, op, p, q, DType.BOOL, lanes)

    sooner = test("lt" if choice.first else "gt", choice.step)
    same = both("and", test("eq", number), sooner)
    chosen = both("or", test(choice.op, number), same)
    bits = with_lanes("i1", lanes)
    types = [vector_type(d, lanes) for d in dtypes]
    return [
        b.pure(f"select {bits} {chosen}, {t} {v}, {t} {u}", chosen, u, v)
        for t, u, v in zip(types, x, y, strict=True)
    ]


# ------------------------------------------------------------------ recurrences


@dataclass(frozen=True, slots=True)
class Prefix:
    """`last op brought`, where that is the same in any order."""

    op: str
    brought: Expr


def prefix_of(kernel: Reduce) -> Prefix | None:
    """What a step combines its last value with, if that is all it does."""
    if not is_stored_each_step(kernel):
        return None
    value, held = kernel.values[0], kernel.accumulators[0]
    if not isinstance(value, Binary) or value.op not in _OPERATORS or value.dtype not in _TYPES:
        return None
    for x, y in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
        if x is held and not any(n is held for n in nodes_through_locals(y)):
            return Prefix(value.op, y)
    return None


def is_stored_each_step(kernel: Reduce) -> bool:
    """Whether a reduction stores what each step leaves."""
    own = free_indices(*kernel.targets)
    return kernel.op == "update" and any(i in own for i in kernel.reduced)
