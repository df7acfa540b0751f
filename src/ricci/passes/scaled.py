"""Real formulas as a factor times a whole number.

Requires: expressions of one kernel. Ensures: `factor * whole` is the value of a formula but for
rounding, where `whole` has integral values and `factor` is short. Does not: take NaN for anything
but a number.

Example: `round(t / s * 255) / 255 * s + m` is `(s / 255) * (round(t / s * 255) + z)`, if `m` is `z`
of the steps `s / 255`, as near as numbers of 32 bits tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeGuard

import numpy as np

from ..dtypes import DType
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
    Unary,
)
from ..ir.rewrite import accesses, walk
from ..records import dataclass
from .ranges import Ranges

_SHORT = 12
"""Nodes of a factor, at most."""
_ROUNDING = ("round", "floor", "ceil", "trunc")
_CLOSED = ("add", "sub", "mul", "min", "max")
"""What gives whole numbers of whole numbers."""
_SAME = 2.0**-21
"""Offsets that differ so much of a whole one, beside the largest whole number, are it."""

Lookup = Callable[[Access], "Scaled | None"]


@dataclass(frozen=True, slots=True)
class Scaled:
    """`factor * (whole + offset)`, of one real type; a factor of None is 1, an offset of None 0.

    The offset is real, and known.
    """

    factor: Expr | None
    whole: Expr
    offset: Expr | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """Finds such forms in the expressions of a kernel; `lookup` knows those of elements."""

    ranges: Ranges
    lookup: Lookup
    _done: dict[int, tuple[Expr, Scaled | None]] = field(default_factory=dict)

    def of(self, expr: Expr) -> Scaled | None:
        """The form without offset, or with none but whole ones."""
        found = self._form(expr)
        return None if found is None else self._without_offset(found)

    def is_positive(self, factor: Expr | None) -> bool:
        """Whether a factor is known to be positive."""
        return factor is None or bool((self.ranges.of(factor)[0] > 0).all())

    def _form(self, expr: Expr) -> Scaled | None:
        if id(expr) not in self._done:
            self._done[id(expr)] = expr, self._find(expr)
        return self._done[id(expr)][1]

    def _find(self, expr: Expr) -> Scaled | None:
        match expr:
            case Local(value=value):
                return self._form(value)
            case Access():
                return self.lookup(expr)
            case Binary(op="mul", lhs=lhs, rhs=rhs):
                return self._both(lhs, rhs) or self._product(lhs, rhs) or self._product(rhs, lhs)
            case Binary(op="div", lhs=lhs, rhs=rhs) if is_short(rhs):
                return _times(self._form(lhs), rhs, "div")
            case Binary(op="add", lhs=lhs, rhs=rhs):
                return self._plus(lhs, rhs, "add") or self._plus(rhs, lhs, "add")
            case Binary(op="sub", lhs=lhs, rhs=rhs):
                return self._plus(lhs, rhs, "sub")
            case Unary(op="neg", operand=operand):
                return _times(self._form(operand), Const(-1.0, expr.dtype), "mul")
            case Select():
                return self._select(expr) or _plain(expr)
            case Binary(op="max", lhs=lhs, rhs=rhs):
                zero, other = (lhs, rhs) if is_zero(lhs) else (rhs, lhs)
                return (self._not_negative(other) if is_zero(zero) else None) or _plain(expr)
        return _plain(expr)

    def _product(self, value: Expr, factor: Expr) -> Scaled | None:
        return _times(self._form(value), factor, "mul") if is_short(factor) else None

    def _both(self, lhs: Expr, rhs: Expr) -> Scaled | None:
        """The product of two such forms."""
        a, b = self.of(lhs), self.of(rhs)
        if a is None or b is None:
            return None
        whole = Binary("mul", a.whole, b.whole)
        if a.factor is None or b.factor is None:
            return Scaled(a.factor or b.factor, whole)
        return Scaled(folded("mul", a.factor, b.factor), whole)

    def _plus(self, value: Expr, term: Expr, op: str) -> Scaled | None:
        """A form and a known number, in steps of its factor."""
        if self.ranges.value(term) is None or not is_short(term):
            return None
        form = self._form(value)
        if form is None or (form.factor is not None and self.ranges.value(form.factor) is None):
            return None
        steps = term if form.factor is None else folded("div", term, form.factor)
        if op == "sub":
            steps = _negated(steps)
        before = form.offset
        return Scaled(
            form.factor, form.whole, steps if before is None else folded("add", before, steps)
        )

    def _select(self, expr: Select) -> Scaled | None:
        """A form or zero, by a condition; or the positive part of a form."""
        then, otherwise = expr.then, expr.otherwise
        value, zero = (otherwise, then) if is_zero(then) else (then, otherwise)
        if not is_zero(zero):
            return None
        if accesses(expr.condition):
            return None if positive_part(expr) is None else self._not_negative(value)
        form = self.of(value)
        if form is None or form.factor is None:
            return None
        none = Const(0.0, expr.dtype)
        pair = (none, form.whole) if zero is then else (form.whole, none)
        return Scaled(form.factor, Select(expr.condition, *pair))

    def _not_negative(self, value: Expr) -> Scaled | None:
        form = self.of(value)
        if form is None or form.factor is None or not self.is_positive(form.factor):
            return None
        return Scaled(form.factor, Binary("max", form.whole, Const(0.0, value.dtype)))

    def _without_offset(self, form: Scaled) -> Scaled | None:
        """The form with its offset in the whole number, if that is whole."""
        if form.offset is None:
            return form
        steps = self.ranges.value(form.offset)
        low, high = self.ranges.of(form.whole)
        if steps is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
            return None
        near = np.round(steps)
        size = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(near))
        if not (np.abs(steps - near) <= _SAME * size).all():
            return None
        if not near.any():
            return Scaled(form.factor, form.whole)
        term: Expr = Apply("round", (form.offset,))
        if near.size == 1:
            term = Const(float(near.reshape(-1)[0]), form.whole.dtype)
        return Scaled(form.factor, Binary("add", form.whole, term))


def _plain(expr: Expr) -> Scaled | None:
    return Scaled(None, expr) if is_whole(expr) and accesses(expr) else None


def is_short(expr: Expr) -> bool:
    """Whether an expression is a plain factor: short, and of elements at plain places."""
    nodes = list(walk(expr))
    return (
        len(nodes) <= _SHORT
        and all(isinstance(n, (Const, Index, Access, Binary, Select, Unary, Cast)) for n in nodes)
        and all(
            s.rule is None and isinstance(s.index, (Index, Const))
            for a in accesses(expr)
            for s in a.subscripts
        )
    )


def is_whole(expr: Expr) -> bool:
    """Whether a real expression has integral values, or infinite ones, or NaN."""
    match expr:
        case Const(value=int() | float() as value):
            return float(value).is_integer()
        case Cast(operand=operand):
            return operand.dtype.is_int or operand.dtype is DType.BOOL or is_whole(operand)
        case Apply(function=name):
            return name in _ROUNDING
        case Binary(op=op, lhs=lhs, rhs=rhs) if op in _CLOSED:
            return is_whole(lhs) and is_whole(rhs)
        case Unary(op="neg", operand=operand):
            return is_whole(operand)
        case Select(then=then, otherwise=otherwise):
            return is_whole(then) and is_whole(otherwise)
        case Local(value=value):
            return is_whole(value)
    return False


def in_integers(whole: Expr, dtype: DType) -> Expr:
    """A whole expression computed in an integer type that has room for all of its parts."""
    match whole:
        case Const(value=int() | float() as value):
            return Const(int(value), dtype)
        case Cast(operand=operand) if operand.dtype.is_int:
            return operand if operand.dtype is dtype else Cast(dtype, operand)
        case Binary(op="add" | "sub" | "mul" | "min" | "max" as op, lhs=lhs, rhs=rhs):
            return Binary(op, in_integers(lhs, dtype), in_integers(rhs, dtype))
        case Unary(op="neg", operand=operand):
            return Unary("neg", in_integers(operand, dtype))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return Select(condition, in_integers(then, dtype), in_integers(otherwise, dtype))
        case Local(value=value):
            return in_integers(value, dtype)
    return Cast(dtype, whole)


def folded(op: str, lhs: Expr, rhs: Expr) -> Expr:
    """An operation, done if both operands are numbers."""
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        a, b = float(lhs.value), float(rhs.value)
        if op != "div" or b:
            return Const(a * b if op == "mul" else a + b if op == "add" else a / b, lhs.dtype)
    return Binary("mul" if op == "mul" else "add" if op == "add" else "div", lhs, rhs)


def _times(form: Scaled | None, by: Expr, op: str) -> Scaled | None:
    """A form times a factor, or divided by it; the offset is counted in steps."""
    if form is None:
        return None
    one = Const(1.0, by.dtype)
    if form.factor is None:
        return Scaled(by if op == "mul" else folded("div", one, by), form.whole, form.offset)
    return Scaled(folded(op, form.factor, by), form.whole, form.offset)


def _negated(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return Const(-float(expr.value), expr.dtype)
    return Unary("neg", expr)


def is_zero(expr: Expr) -> bool:
    """Whether an expression is the number zero."""
    return isinstance(expr, Const) and expr.value == 0


def positive_part(expr: Select) -> Expr | None:
    """The `x` of a choice that is `x < 0 ? 0 : x` or another way to write it."""
    value, kept = _by_sign(expr)
    return kept if value is not None and _is_same(kept, value) else None


def limited_part(expr: Select) -> Expr | None:
    """The same, or the `min(x, n)` of `x < 0 ? 0 : min(x, n)`, whose limit is not negative."""
    value, kept = _by_sign(expr)
    inner = kept
    while isinstance(inner, Binary) and inner.op == "min":
        limit, inner = (inner.lhs, inner.rhs) if _is_number(inner.lhs) else (inner.rhs, inner.lhs)
        if not _is_number(limit) or not float(limit.value) >= 0:
            return None
    return kept if value is not None and _is_same(inner, value) else None


def _by_sign(expr: Select) -> tuple[Expr | None, Expr]:
    """What is compared with zero in a choice that is zero below it, and else what is chosen."""
    match expr.condition:
        case Binary(op=op, lhs=lhs, rhs=rhs):
            value = rhs if is_zero(lhs) else lhs
            below = op in (("lt", "le") if value is lhs else ("gt", "ge"))
            above = op in (("gt", "ge") if value is lhs else ("lt", "le"))
            one_is_zero = is_zero(rhs if value is lhs else lhs)
            kept, left = expr.otherwise, expr.then
            if not below:
                kept, left = left, kept
            if one_is_zero and (below or above) and is_zero(left):
                return value, kept
    return None, expr


def _is_number(expr: Expr) -> TypeGuard[Const]:
    return isinstance(expr, Const) and isinstance(expr.value, int | float)


def _is_same(a: Expr, b: Expr) -> bool:
    return a is b or (isinstance(a, Access) and isinstance(b, Access) and a == b)
