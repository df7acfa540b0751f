"""Concrete sizes and dtypes.

Requires: a verified static graph (operations only), and a value for each of its symbols.
Ensures: every extent is an integer literal, every dtype of a tensor is concrete, subscripts are
simplified, constants filled with one scalar are literals. The abstract dtype `INT` stays as the
type of index arithmetic, and means 64 bits. Does not: change values of floating-point expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from ..diagnostics import error
from ..dtypes import DType
from ..ir import shapes
from ..ir.nodes import (
    Access,
    Assignment,
    Binary,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Operation,
    Port,
    Remap,
    Subscript,
    Symbol,
    Tensor,
    integer,
)
from ..ir.rewrite import rebuild

LARGEST = 1 << 40
"""Most bytes that a tensor may have."""


@dataclass(frozen=True, slots=True)
class Types:
    """The dtypes that stand for the abstract ones."""

    real: DType = DType.FLOAT32
    int: DType = DType.INT64

    def of(self, dtype: DType) -> DType:
        return {DType.REAL: self.real, DType.INT: self.int}.get(dtype, dtype)


def specialise(graph: Graph, sizes: Mapping[Symbol, int], types: Types) -> Graph:
    """The graph for given sizes and dtypes; ports keep their order."""
    run = _Specialiser(sizes, types)
    inputs = tuple(run.port(p) for p in graph.inputs)
    variables = tuple(run.tensor(t) for t in graph.variables)
    constants = tuple(run.tensor(t) for t in graph.constants)
    operations = tuple(run.operation(cast(Operation, s)) for s in graph.operations)
    outputs = tuple(run.port(p) for p in graph.outputs)
    updates = tuple((run.tensor(a), run.tensor(b)) for a, b in graph.updates)
    return replace(
        graph, inputs=inputs, variables=variables, constants=constants, operations=operations,
        outputs=outputs, updates=updates, symbols=(), sizes=(), checks=(), quantization=(),
    )  # fmt: skip


class _Specialiser:
    def __init__(self, sizes: Mapping[Symbol, int], types: Types) -> None:
        self.sizes = dict(sizes)
        self.types = types
        self._tensors: dict[Tensor, Tensor] = {}

    def port(self, port: Port) -> Port:
        return replace(port, tensors=tuple(self.tensor(t) for t in port.tensors))

    def tensor(self, tensor: Tensor) -> Tensor:
        """The concrete tensor that stands for one of the graph."""
        known = self._tensors.get(tensor)
        if known is None:
            shape = tuple(integer(self._extent(e, tensor)) for e in tensor.shape)
            dtype = self.types.of(tensor.dtype)
            known = Tensor(tensor.name, dtype, shape, tensor.data, tensor.span)
            self._check_size(known)
            self._tensors[tensor] = known
        return known

    def _extent(self, extent: Expr, tensor: Tensor) -> int:
        value = shapes.evaluate(extent, self.sizes)
        if value < 0:
            raise error(
                "E0804",
                f"`{tensor.name}` has an extent that is negative: {value}",
                tensor.span,
            )
        return value

    def _check_size(self, tensor: Tensor) -> None:
        size = tensor.dtype.numpy().itemsize if tensor.dtype is not DType.STR else 1
        for e in tensor.shape:
            size *= int(cast(Const, e).value)
        if size > LARGEST:
            shape = [cast(Const, e).value for e in tensor.shape]
            raise error(
                "E0901", f"`{tensor.name}` has too many elements: shape {shape}", tensor.span
            )

    def operation(self, operation: Operation) -> Operation:
        body = tuple(self.assignment(a) for a in operation.body)
        outputs = tuple(self.tensor(t) for t in operation.outputs)
        inputs = tuple(self.tensor(t) for t in operation.inputs)
        return replace(operation, outputs=outputs, inputs=inputs, body=body)

    def assignment(self, assignment: Assignment) -> Assignment:
        return _Rewriter(self, assignment.domain).assignment(assignment)


class _Rewriter:
    """Rewrites the expressions of one assignment.

    A value and a subscript can hold the same expression with different integer types, so there are
    two memos: values compute in the chosen type, subscripts in 64 bits.
    """

    def __init__(self, outer: _Specialiser, domain: tuple[Index, ...]) -> None:
        self.outer = outer
        self.narrow = outer.types.int is not DType.INT64
        self.indices = {}
        for index in domain:
            extent = shapes.evaluate(index.extent, outer.sizes)
            self.indices[index] = Index(index.name, integer(max(extent, 0)), index.span)
        self._values: dict[int, Expr] = {}
        self._subscripts: dict[int, Expr] = {}

    def assignment(self, a: Assignment) -> Assignment:
        return replace(
            a,
            targets=tuple(cast(Access, self.value(t)) for t in a.targets),
            values=tuple(
                self._stored(self.value(v), t) for v, t in zip(a.values, a.targets, strict=True)
            ),
            domain=tuple(self.indices[i] for i in a.domain),
            locals=tuple(cast(Local, self._local(x)) for x in a.locals),
            condition=None if a.condition is None else self.value(a.condition),
        )

    def _stored(self, value: Expr, target: Access) -> Expr:
        """A value in the element type of its target: an index may be stored."""
        dtype = self.outer.types.of(target.dtype)
        if value.dtype is dtype or not dtype.is_int:
            return value
        return value if isinstance(value, Const) else Cast(dtype, value)

    def value(self, expr: Expr) -> Expr:
        """An expression that computes a value."""
        return rebuild(expr, self._value_node, self._values)

    def _value_node(self, node: Expr) -> Expr:
        match node:
            case Index():
                return self._typed(self.indices[node])
            case Symbol():
                return Const(self.outer.sizes[node], self._int())
            case Local():
                return self._local(node)
            case Const():
                return self._const(node)
            case Cast():
                dtype = self._int() if node.dtype is DType.INT else self.outer.types.of(node.dtype)
                return Cast(dtype, node.operand)
            case Access():
                return self._access(node)
        return node

    def _int(self) -> DType:
        return self.outer.types.int if self.narrow else DType.INT

    def _typed(self, expr: Expr) -> Expr:
        return Cast(self.outer.types.int, expr) if self.narrow else expr

    def _const(self, node: Const) -> Expr:
        if node.dtype is DType.INT:
            return replace(node, dtype=self._int())
        return replace(node, dtype=self.outer.types.of(node.dtype))

    def _local(self, node: Local) -> Expr:
        known = self._values.get(id(node))
        if known is None:
            value = self.value(node.value)
            known = node if value is node.value else Local(node.name, value)
            self._values[id(node)] = known
        return known

    def _access(self, node: Access) -> Expr:
        tensor = self.outer.tensor(node.tensor)
        subscripts = tuple(
            self._subscript(s, cast(Const, e))
            for s, e in zip(node.subscripts, tensor.shape, strict=True)
        )
        if tensor.data is not None and not isinstance(tensor.data, tuple):
            if all(
                s.rule is None and _is_inside(s, e)
                for s, e in zip(subscripts, tensor.shape, strict=True)
            ):
                return Const(tensor.data, tensor.dtype)
        return Access(tensor, subscripts, node.span)

    def _subscript(self, s: Subscript, extent: Const) -> Subscript:
        index = self._index_form(s.index)
        rule = s.rule
        if rule is None or shapes_inside(index, int(extent.value)):
            return Subscript(index)
        if isinstance(rule, Remap):
            rule = Remap(self._index_form(rule.below), self._index_form(rule.above))
        return Subscript(index, rule)

    def _index_form(self, expr: Expr) -> Expr:
        """An already rewritten expression as 64-bit index arithmetic, simplified."""
        if self.narrow:
            expr = rebuild(expr, _widened, self._subscripts)
        if expr.dtype is not DType.INT:
            expr = Cast(DType.INT, expr)
        expr = rebuild(expr, _inlined)
        try:
            return shapes.simplify(expr)
        except ZeroDivisionError:
            return expr


def _inlined(node: Expr) -> Expr:
    """Locals that are linear in indices are written out, so that offsets stay linear."""
    if isinstance(node, Local) and shapes.affine(node.value) is not None:
        return node.value
    return node


def _widened(node: Expr) -> Expr:
    """Narrow integer arithmetic on indices done in 64 bits; elements of tensors are converted."""
    match node:
        case Cast(operand=operand) if node.dtype.is_int and operand.dtype is DType.INT:
            return operand
        case Const() if node.dtype.is_int:
            return Const(node.value, DType.INT)
        case Access() if node.dtype.is_int:
            return Cast(DType.INT, node)
        case Local() if node.dtype.is_int:
            return rebuild(node.value, _widened)
        case Binary(op=op, lhs=lhs, rhs=rhs) if lhs.dtype is not rhs.dtype and lhs.dtype.is_int:
            return Binary(op, _as_index(lhs), _as_index(rhs))
    return node


def _as_index(expr: Expr) -> Expr:
    return expr if expr.dtype is DType.INT else Cast(DType.INT, expr)


def _is_inside(subscript: Subscript, extent: Expr) -> bool:
    return shapes_inside(subscript.index, int(cast(Const, extent).value))


def shapes_inside(index: Expr, extent: int) -> bool:
    """Whether `0 <= index < extent` is proved."""
    low, high = shapes.interval(index)
    return low >= 0 and high < extent
