"""Expressions of a statement in the intermediate representation.

An `int32` expression of indices, sizes and numbers alone is computed in 64 bits, and narrowed where
it becomes a value; so are all subscripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...diagnostics import error
from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import walk
from ...records import dataclass
from . import program as tc
from .builtins import compose
from .ranges import Ranges

_ARITHMETIC = frozenset({"add", "sub", "mul", "floordiv", "mod", "min", "max"})


@dataclass
class Scope:
    """What the names in a statement stand for; `places` are the values of its indices."""

    statement: tc.Statement
    places: Mapping[tc.IndexVariable, ir.Expr]
    tensors: Mapping[tc.Variable, ir.Tensor]
    ranges: Ranges
    always: frozenset[tc.Let] = frozenset()
    """The lets whose values are needed at every point; others must not fail where they are not."""
    locals: list[ir.Local] = field(default_factory=list)
    _lets: dict[tc.Let, ir.Expr] = field(default_factory=dict)

    def value(self, expr: tc.Expr) -> ir.Expr:
        """The value of an expression in its type."""
        place = self.place(expr) if expr.dtype is DType.INT32 else None
        if place is not None:
            return ir.Cast(DType.INT32, place)
        match expr:
            case tc.Constant():
                return ir.Const(expr.value, expr.dtype)
            case tc.Let():
                return self._let(expr)
            case tc.Read():
                return self._read(expr)
            case tc.Convert():
                return ir.Cast(expr.dtype, self._exact(expr.operand))
            case tc.Unary():
                return ir.Unary(expr.op, self.value(expr.operand))
            case tc.Binary():
                return self._binary(expr)
            case tc.Select():
                return ir.Select(
                    self.value(expr.condition), self.value(expr.then), self.value(expr.otherwise)
                )
            case tc.Call():
                return compose(expr.function, [self.value(a) for a in expr.arguments])
            case _:
                raise AssertionError(f"{type(expr).__name__} is an int32")

    def _let(self, let: tc.Let) -> ir.Expr:
        if let not in self._lets:
            value = self.value(let.value)
            if let in self.always:
                value = ir.Local(let.name, value)
                self.locals.append(value)
            self._lets[let] = value
        return self._lets[let]

    def _read(self, read: tc.Read) -> ir.Access:
        tensor = self.tensors[read.tensor]
        return ir.Access(tensor, self.subscripts(read.tensor, read.subscripts), read.span)

    def subscripts(
        self, tensor: tc.Variable, exprs: tuple[tc.Expr, ...]
    ) -> tuple[ir.Subscript, ...]:
        """The subscripts of an element, counted from the smallest index of each dimension."""
        bounds = self.ranges.of_tensor(tensor)
        return tuple(
            ir.Subscript(shapes.sub(self.subscript(e), b.minimum))
            for e, b in zip(exprs, bounds, strict=True)
        )

    def _exact(self, expr: tc.Expr) -> ir.Expr:
        """A value that is converted, in 64 bits if it can be."""
        place = self.place(expr) if expr.dtype is DType.INT32 else None
        return self.value(expr) if place is None else place

    def _binary(self, expr: tc.Binary) -> ir.Expr:
        if expr.op in ir.COMPARISONS:
            places = self.place(expr.lhs), self.place(expr.rhs)
            if places[0] is not None and places[1] is not None:
                return ir.Binary(expr.op, places[0], places[1])
        lhs, rhs = self.value(expr.lhs), self.value(expr.rhs)
        if expr.op in ("and", "or") and _may_fail(rhs):
            sides = (rhs, ir.FALSE) if expr.op == "and" else (ir.TRUE, rhs)
            return ir.Select(lhs, *sides)
        return ir.Binary(expr.op, lhs, rhs)

    # -------------------------------------------------------- index arithmetic

    def place(self, expr: tc.Expr) -> ir.Expr | None:
        """An `int32` expression of indices, sizes and numbers alone; none for others.

        Raises `Error` E0504 for numbers beyond 64 bits.
        """
        found = self._place(expr)
        for node in () if found is None else walk(found):
            if isinstance(node, ir.Const) and not -(2**63) <= int(node.value) < 2**63:
                span = self.statement.span if isinstance(expr, tc.Let) else expr.span
                raise error("E0504", "index arithmetic has a number that exceeds 64 bits", span)
        return found

    def _place(self, expr: tc.Expr) -> ir.Expr | None:
        match expr:
            case tc.Constant() if expr.dtype is DType.INT32:
                return ir.integer(int(expr.value))
            case tc.Size():
                return expr.symbol
            case tc.Extent():
                return self.ranges.extent_at(self.statement, expr)
            case tc.At():
                return self.places[expr.index]
            case tc.Let():
                return self._place(expr.value)
            case tc.Unary() if expr.op == "neg":
                operand = self._place(expr.operand)
                return None if operand is None else shapes.neg(operand)
            case tc.Binary() if expr.op in _ARITHMETIC:
                lhs, rhs = self._place(expr.lhs), self._place(expr.rhs)
                return None if lhs is None or rhs is None else _arithmetic(expr.op, lhs, rhs)
            case _:
                return None

    def subscript(self, expr: tc.Expr) -> ir.Expr:
        """An integer expression in 64 bits."""
        place = self.place(expr)
        if place is not None:
            return place
        match expr:
            case tc.Unary() if expr.op == "neg":
                return ir.Unary("neg", self.subscript(expr.operand))
            case tc.Binary() if expr.op in _ARITHMETIC:
                return ir.Binary(expr.op, self.subscript(expr.lhs), self.subscript(expr.rhs))
            case tc.Select():
                return ir.Select(
                    self.value(expr.condition),
                    self.subscript(expr.then),
                    self.subscript(expr.otherwise),
                )
            case tc.Convert() if _is_wide(expr.dtype):
                operand = expr.operand
                if operand.dtype.is_int:
                    return self.subscript(operand)
                return ir.Cast(DType.INT, self.value(operand))
            case _:
                return ir.Cast(DType.INT, self.value(expr))


def needed_lets(value: tc.Expr) -> frozenset[tc.Let]:
    """The lets that a value needs at every point, not only where others have some values."""
    found: set[tc.Let] = set()
    rest = [value]
    while rest:
        expr = rest.pop()
        if isinstance(expr, tc.Let):
            if expr in found:
                continue
            found.add(expr)
        rest += tc.certain_children(expr)
    return frozenset(found)


def _may_fail(value: ir.Expr) -> bool:
    """Whether a value reads an element or divides integers."""
    return any(
        isinstance(node, ir.Access)
        or (isinstance(node, ir.Binary) and node.op in ("floordiv", "mod") and node.dtype.is_int)
        for node in walk(value)
    )


def _is_wide(dtype: DType) -> bool:
    return dtype in (DType.INT32, DType.INT64)


def _arithmetic(op: ir.BinaryOp, lhs: ir.Expr, rhs: ir.Expr) -> ir.Expr:
    if op in ("floordiv", "mod") and shapes.as_int(rhs) == 0:
        return ir.Binary(op, lhs, rhs)  # an error where it is evaluated
    return shapes.simplify(ir.Binary(op, lhs, rhs))
