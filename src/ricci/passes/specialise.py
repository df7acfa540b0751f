"""Concrete sizes and dtypes.

Requires: a verified graph, and values for some of its symbols; the others have finite bounds.
Ensures: every extent is an integer literal or a canonical expression of the symbols without value,
every dtype of a tensor is concrete, subscripts are simplified, constants filled with one scalar are
literals. The abstract dtype `INT` stays as the type of index arithmetic, and means 64 bits. Does
not: change values of floating-point expressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from ..diagnostics import error
from ..dtypes import DType, Types
from ..ir import shapes
from ..ir.nodes import (
    ZERO,
    Access,
    Apply,
    Assignment,
    Binary,
    Branch,
    Cast,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Loop,
    Operation,
    Port,
    Region,
    Remap,
    Step,
    Subscript,
    Symbol,
    Tensor,
    Unary,
    integer,
)
from ..ir.rewrite import Replaceable, free_symbols, rebuild, substitute, walk
from ..records import replace

LARGEST = 1 << 40
"""Most bytes that a tensor may have, its symbols at their bounds."""


def specialise(graph: Graph, sizes: Mapping[Symbol, int], types: Types) -> Graph:
    """The graph for given sizes and dtypes; ports keep their order."""
    run = _Specialiser(sizes, types)
    inputs = tuple(run.port(p) for p in graph.inputs)
    variables = tuple(run.tensor(t) for t in graph.variables)
    constants = tuple(run.constant(t) for t in graph.constants)
    operations = run.steps(graph.operations)
    outputs = tuple(run.port(p) for p in graph.outputs)
    updates = tuple((run.tensor(a), run.tensor(b)) for a, b in graph.updates)
    symbols = tuple(run.symbol(s) for s in graph.symbols if s not in run.sizes)
    counts = tuple((run.symbol(s), run.tensor(t)) for s, t in graph.sizes if s not in run.sizes)
    return replace(
        graph, inputs=inputs, variables=variables, constants=constants, operations=operations,
        outputs=outputs, updates=updates, symbols=symbols, sizes=counts, checks=(), quantization=(),
    )  # fmt: skip


def size_for(extent: Expr, sizes: Mapping[Symbol, int]) -> Expr:
    """An extent for given sizes: a number, or an expression of the symbols that have none."""
    return _Specialiser(sizes, Types()).size(extent)


class _Specialiser:
    def __init__(self, sizes: Mapping[Symbol, int], types: Types) -> None:
        self.sizes = dict(sizes)
        self.types = types
        self._tensors: dict[Tensor, Tensor] = {}
        self._open: dict[Symbol, Symbol] = {}

    def symbol(self, symbol: Symbol) -> Symbol:
        """A symbol that has no value, with a bound in which only such symbols are left."""
        if symbol not in self._open:
            bound = None if symbol.bound is None else self.size(symbol.bound)
            same = bound is None or shapes.equal(bound, symbol.bound or bound)
            self._open[symbol] = symbol if same else Symbol(symbol.name, bound, symbol.span)
        return self._open[symbol]

    def port(self, port: Port) -> Port:
        length = None if port.length is None else self.tensor(port.length)
        return replace(port, tensors=tuple(self.tensor(t) for t in port.tensors), length=length)

    def constant(self, tensor: Tensor) -> Tensor:
        """A concrete constant, with its data."""
        known = self._tensors[tensor] = replace(self.tensor(tensor), data=tensor.data)
        return known

    def tensor(self, tensor: Tensor) -> Tensor:
        """The concrete tensor that stands for one of the graph; what a variable begins with is
        not what it always holds."""
        known = self._tensors.get(tensor)
        if known is None:
            shape = tuple(self._extent(e, tensor) for e in tensor.shape)
            dtype = self.types.of(tensor.dtype)
            known = Tensor(tensor.name, dtype, shape, span=tensor.span)
            self._check_size(known)
            self._tensors[tensor] = known
        return known

    def _extent(self, extent: Expr, tensor: Tensor) -> Expr:
        extent = self.size(extent)
        most = shapes.interval(extent)[1]
        if most < 0:
            raise error(
                "E0804",
                f"`{tensor.name}` has an extent that is negative: {most}",
                tensor.span,
            )
        return extent

    def size(self, extent: Expr) -> Expr:
        """A number, or a canonical expression of the symbols that have no value."""
        try:
            return integer(shapes.evaluate(extent, self.sizes))
        except KeyError:
            known: dict[Replaceable, Expr | Tensor] = {}
            for symbol in free_symbols(extent):
                value = self.sizes.get(symbol)
                known[symbol] = self.symbol(symbol) if value is None else integer(value)
            return shapes.simplify(rebuild(substitute(extent, known), _double))

    def _check_size(self, tensor: Tensor) -> None:
        size: float = tensor.dtype.numpy().itemsize if tensor.dtype is not DType.STR else 1
        shape = [shapes.interval(e)[1] for e in tensor.shape]
        apart: float = size  # from dimensions without extent: NumPy refuses what is too large then
        for most in shape:
            size, apart = size * most, apart * (most or 1)
        if size > LARGEST or 1 << 60 < apart < math.inf:
            raise error(
                "E0901", f"`{tensor.name}` has too many elements: shape {shape}", tensor.span
            )

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        """Operations and control structures for given sizes."""
        return tuple(self._step(s) for s in steps)

    def _step(self, step: Step) -> Step:
        match step:
            case Operation():
                return self.operation(step)
            case Branch():
                return replace(
                    step,
                    outputs=self._all(step.outputs),
                    conditions=tuple(map(self._region, step.conditions)),
                    branches=tuple(map(self._region, step.branches)),
                )
            case Loop():
                return self._loop(step)

    def _loop(self, loop: Loop) -> Loop:
        count = loop.count
        if count is not None:
            count = self.tensor(count) if isinstance(count, Tensor) else self.size(count)
        return replace(
            loop,
            outputs=self._all(loop.outputs),
            collected=tuple(map(self._all, loop.collected)),
            variables=self._all(loop.variables),
            initial=self._all(loop.initial),
            scans=tuple((self.tensor(item), self._all(pack)) for item, pack in loop.scans),
            body=self._region(loop.body),
            count=count,
            index=None if loop.index is None else self.tensor(loop.index),
            steps=None if loop.steps is None else self.tensor(loop.steps),
            condition=None if loop.condition is None else self._region(loop.condition),
        )

    def _region(self, region: Region) -> Region:
        return Region(self.steps(region.operations), self._all(region.results))

    def _all(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(map(self.tensor, tensors))

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
            extent = outer.size(index.extent)
            if isinstance(extent, Const) and int(extent.value) < 0:
                extent = ZERO
            self.indices[index] = Index(index.name, extent, index.span)
        self._values: dict[int, Expr] = {}
        self._subscripts: dict[int, Expr] = {}
        self._wide: dict[int, Local] = {}
        """Locals that subscripts use, by the identity of those that values use."""

    def assignment(self, a: Assignment) -> Assignment:
        targets = tuple(cast(Access, self.value(t)) for t in a.targets)
        values = tuple(
            self._stored(self.value(v), t) for v, t in zip(a.values, a.targets, strict=True)
        )
        condition = None if a.condition is None else self.value(a.condition)
        locals_ = [cast(Local, self._local(x)) for x in a.locals]
        return replace(
            a,
            targets=targets,
            values=values,
            domain=tuple(self.indices[i] for i in a.domain),
            locals=tuple(x for y in locals_ for x in (y, self._wide.get(id(y))) if x is not None),
            condition=condition,
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
                value = self.outer.sizes.get(node)
                if value is None:
                    return self._typed(self.outer.symbol(node))
                return Const(value, self._int())
            case Local():
                return self._local(node)
            case Const():
                return self._const(node)
            case Cast():
                dtype = self._int() if node.dtype is DType.INT else self.outer.types.of(node.dtype)
                return Cast(dtype, _of_sizes(node.operand) if dtype.is_int else node.operand)
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
            self._subscript(s, e) for s, e in zip(node.subscripts, tensor.shape, strict=True)
        )
        if tensor.data is not None and not isinstance(tensor.data, tuple):
            if all(
                s.rule is None and shapes_inside(s.index, e)
                for s, e in zip(subscripts, tensor.shape, strict=True)
            ):
                return Const(tensor.data, tensor.dtype)
        return Access(tensor, subscripts, node.span)

    def _subscript(self, s: Subscript, extent: Expr) -> Subscript:
        index = self._index_form(s.index)
        rule = s.rule
        if rule is None or shapes_inside(index, extent):
            return Subscript(index)
        if isinstance(rule, Remap):
            rule = Remap(self._index_form(rule.below), self._index_form(rule.above))
        return Subscript(index, rule)

    def _index_form(self, expr: Expr) -> Expr:
        """An already rewritten expression as 64-bit index arithmetic, simplified."""
        if self.narrow:
            expr = rebuild(expr, self._widened, self._subscripts)
        if expr.dtype is not DType.INT:
            expr = Cast(DType.INT, expr)
        expr = rebuild(expr, _inlined)
        try:
            return shapes.simplify(expr)
        except ZeroDivisionError:
            return expr

    def _widened(self, node: Expr) -> Expr:
        """Narrow arithmetic on indices done in 64 bits; elements of tensors are converted."""
        match node:
            case Cast(operand=operand) if node.dtype.is_int and operand.dtype is DType.INT:
                return operand
            case Const() if node.dtype.is_int:
                return Const(node.value, DType.INT)
            case Access() if node.dtype.is_int:
                return Cast(DType.INT, node)
            case Local() if node.dtype.is_int and node.dtype is not DType.INT:
                return self._wide_local(node)
            case Binary(op=op, lhs=lhs, rhs=rhs) if lhs.dtype is not rhs.dtype and lhs.dtype.is_int:
                return Binary(op, _as_index(lhs), _as_index(rhs))
        return node

    def _wide_local(self, local: Local) -> Local:
        known = self._wide.get(id(local))
        if known is None:
            value = rebuild(local.value, self._widened, self._subscripts)
            known = self._wide[id(local)] = Local(local.name, value)
        return known


def _of_sizes(expr: Expr) -> Expr:
    """A real that depends on sizes alone in the type in which extents are computed."""
    leaves = (Const, Symbol, Cast, Unary, Binary, Apply)
    if expr.dtype.is_real and all(isinstance(node, leaves) for node in walk(expr)):
        return rebuild(expr, _double)
    return expr


def _double(node: Expr) -> Expr:
    """Reals of 64 bits, whatever the type of elements."""
    if isinstance(node, Const) and node.dtype.is_real:
        return Const(node.value, DType.FLOAT64)
    if isinstance(node, Cast) and node.dtype.is_real:
        return Cast(DType.FLOAT64, node.operand)
    return node


def _inlined(node: Expr) -> Expr:
    """Locals that are linear in indices are written out, so that offsets stay linear."""
    if isinstance(node, Local) and shapes.affine(node.value) is not None:
        return node.value
    return node


def _as_index(expr: Expr) -> Expr:
    return expr if expr.dtype is DType.INT else Cast(DType.INT, expr)


def shapes_inside(index: Expr, extent: Expr) -> bool:
    """Whether `0 <= index < extent` is proved."""
    low, high = shapes.interval(index)
    if low < 0 or isinstance(extent, Const):
        return low >= 0 and high < int(cast(Const, extent).value)
    try:
        return shapes.less(index, extent)
    except ZeroDivisionError:
        return False
