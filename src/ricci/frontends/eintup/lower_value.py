"""Values of a statement in the intermediate representation."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from ...diagnostics import error
from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import shapes
from ...ir.functions import ARITY
from ...ir.rewrite import walk
from ...records import dataclass
from . import syntax as s
from .extents import in_range
from .lower_nest import Nest
from .random import Draws
from .typing import COMPARISONS, Types

_OPERATORS: dict[str, ir.BinaryOp] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "//^": "ceildiv", "%": "mod",
    "<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">=": "ge", ">": "gt", "and": "and", "or": "or",
}  # fmt: skip


@dataclass
class Values:
    """Makes expressions of the values in a statement."""

    nest: Nest
    types: Types
    draws: Draws

    def value(self, value: s.Value, dtype: DType) -> ir.Expr:
        """A value in a type."""
        match value:
            case s.Number():
                return literal(value, dtype)
            case s.Unary("-", s.Number() as number):
                negative = s.Number(-number.value, f"-{number.text}", value.span)
                return literal(negative, dtype)
            case s.Rank() | s.DimsAt() | s.Range():
                return converted(self._place(value), dtype)
        own = self._own_type(value, dtype)
        return converted(self._computed(value, own), dtype)

    def _own_type(self, value: s.Value, wanted: DType) -> DType:
        """The type in which a value is computed: of a real that gives way, the one it meets."""
        found = self.types.of(value)
        weak = found.strength != "strong" and found.dtype.is_real and wanted.is_real
        return wanted if weak else found.dtype

    def _computed(self, value: s.Value, dtype: DType) -> ir.Expr:
        """A value that has operands, in its own type."""
        match value:
            case s.Access():
                return self.nest.read(value)
            case s.Random():
                low, high = self.value(value.low, dtype), self.value(value.high, dtype)
                return self.draws.draw(value, low, high, dtype, self.nest)
            case s.Unary():
                op: ir.UnaryOp = "not" if value.operator == "not" else "neg"
                return ir.Unary(op, self.value(value.operand, dtype))
            case s.Binary():
                return self._binary(value, dtype)
            case s.Apply():
                return self._apply(value, dtype)
            case _:
                return self._place(value)

    def _place(self, value: s.Value) -> ir.Expr:
        """A number of the configuration or a component of an index, in 64 bits."""
        indices = self.nest.indices
        match value:
            case s.Rank():
                (count,) = indices.values(value, {})
                return count
            case s.DimsAt(dims, at):
                return self._numbered(indices.values(dims, {}), at)
            case s.Range(of, at):
                return self._numbered(self.nest.places[of.name], at)
            case _:
                raise AssertionError(type(value).__name__)

    def _numbered(self, components: tuple[ir.Expr, ...], at: s.Eintup) -> ir.Expr:
        """The component that an eintup of rank 1 numbers; a number too large skips."""
        (number,) = self.nest.places[at.name]
        self.nest.require(in_range(number, ir.integer(len(components))))
        result: ir.Expr = components[-1] if components else ir.ZERO
        for k in reversed(range(len(components) - 1)):
            result = shapes.select(ir.Binary("eq", number, ir.integer(k)), components[k], result)
        return result

    # ---------------------------------------------------------------- operators

    def _binary(self, value: s.Binary, dtype: DType) -> ir.Expr:
        op = _OPERATORS[value.operator]
        operands = dtype
        if value.operator in COMPARISONS:
            operands = self._compared(value)
        lhs, rhs = self.value(value.lhs, operands), self.value(value.rhs, operands)
        if op in ("and", "or") and _may_fail(rhs):
            return ir.Select(lhs, rhs, ir.FALSE) if op == "and" else ir.Select(lhs, ir.TRUE, rhs)
        if op == "floordiv" and dtype.is_real:
            return ir.Apply("floor", (ir.Binary("div", lhs, rhs),))
        return ir.Binary(op, lhs, rhs)

    def _compared(self, value: s.Binary) -> DType:
        """The type in which two values are compared; an order of bools is that of 0 and 1."""
        met = self.types.met(value.lhs, value.rhs).dtype
        ordered = value.operator not in ("==", "!=")
        return self.types.integer if met is DType.BOOL and ordered else met

    def _apply(self, value: s.Apply, dtype: DType) -> ir.Expr:
        name = value.function.name
        if name == "where":
            condition = self.value(value.arguments[0], DType.BOOL)
            then, otherwise = [self.value(a, dtype) for a in value.arguments[1:]]
            return ir.Select(condition, then, otherwise)
        if name == "int":
            (argument,) = value.arguments
            return converted(self.value(argument, self.types.of(argument).dtype), dtype)
        arguments = tuple([self.value(a, dtype) for a in value.arguments])
        if name in ARITY:
            return ir.Apply(cast(ir.Function, name), arguments)
        return arguments[0] if name == "float" else ir.Binary(cast(ir.BinaryOp, name), *arguments)


def converted(value: ir.Expr, dtype: DType) -> ir.Expr:
    """A value in another type."""
    if value.dtype is dtype:
        return value
    if isinstance(value, ir.Const) and dtype.is_real:
        return ir.Const(float(value.value), dtype)
    return ir.Cast(dtype, value)


def literal(number: s.Number, dtype: DType) -> ir.Const:
    """A literal in a type; raises `Error` E0301 if it is too large for it."""
    value = number.value
    if dtype.is_int:
        info = np.iinfo(np.int64 if dtype is DType.INT else np.dtype(dtype.value))
        if not info.min <= value <= info.max:
            raise _too_large(number, dtype)
        return ir.Const(int(value), dtype)
    try:
        real = float(value)
    except OverflowError:
        raise _too_large(number, dtype) from None
    if math.isinf(real):
        raise _too_large(number, dtype)
    return ir.Const(real, dtype)


def _too_large(number: s.Number, dtype: DType) -> Exception:
    return error("E0301", f"{number.text} is beyond the range of {dtype}", number.span)


def _may_fail(value: ir.Expr) -> bool:
    """Whether a value divides integers."""
    divisions = ("floordiv", "ceildiv", "mod")
    return any(
        isinstance(node, ir.Binary) and node.op in divisions and node.dtype.is_int
        for node in walk(value)
    )
