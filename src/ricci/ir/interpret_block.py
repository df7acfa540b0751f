"""The values of scalar expressions at all points of a block of a domain, as NumPy arrays.

A block is a box of index values. Every index is an array along an axis of its own, so an
expression gives an array that broadcasts to the block: only axes that it depends on are
longer than 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..diagnostics import Call, Error, error
from ..dtypes import DType, from_bfloat16, to_bfloat16
from .interpret_scalar import BINARY, Array, convert
from .nodes import (
    Access,
    Apply,
    Binary,
    Cast,
    Const,
    Expr,
    Index,
    Local,
    Remap,
    Select,
    Symbol,
    Tensor,
    Unary,
)


class Store:
    """What an interpreter knows: arrays of tensors, values of symbols, chosen dtypes."""

    def __init__(self, real: str = "float64", int: str = "int64") -> None:
        self.arrays: dict[Tensor, Array] = {}
        self.symbols: dict[Symbol, Any] = {}
        self._chosen = {DType.REAL: DType(real), DType.INT: DType(int)}
        self._wide: Store | None = None

    def dtype(self, dtype: DType) -> np.dtype[Any]:
        """The NumPy dtype that an element type is computed in: float32 for bfloat16."""
        chosen = self._chosen.get(dtype, dtype)
        return np.dtype(np.float32) if chosen is DType.BFLOAT16 else chosen.numpy()

    def is_bfloat16(self, dtype: DType) -> bool:
        return self._chosen.get(dtype, dtype) is DType.BFLOAT16

    def rounded(self, values: Array, dtype: DType) -> Array:
        """Values in an element type, where `dtype` holds more of them than that type."""
        if not self.is_bfloat16(dtype):
            return values
        return from_bfloat16(to_bfloat16(values))

    @property
    def wide(self) -> Store:
        """The same with 64-bit integers: where subscripts are computed."""
        if self._chosen[DType.INT] is DType.INT64:
            return self
        if self._wide is None:
            self._wide = Store(self._chosen[DType.REAL].value)
            self._wide.arrays, self._wide.symbols = self.arrays, self.symbols
        return self._wide


class Block:
    """A box of the domain: `ranges[i]` are the values of the i-th index, first inclusive and
    last exclusive."""

    def __init__(
        self,
        store: Store,
        domain: Sequence[Index],
        ranges: Sequence[tuple[int, int]],
        calls: tuple[Call, ...] = (),
    ) -> None:
        self.store = store
        self.domain = tuple(domain)
        self.ranges = tuple(ranges)
        self.calls = calls
        self.shape = tuple(stop - start for start, stop in ranges)
        dtype = store.dtype(DType.INT)
        self.indices: dict[Index, Array] = {}
        for axis, (index, (start, stop)) in enumerate(zip(domain, ranges, strict=True)):
            along = [1] * len(self.shape)
            along[axis] = stop - start
            self.indices[index] = np.arange(start, stop).astype(dtype).reshape(along)

    def out_of_range(self, access: Access, dimension: int, values: Array, bad: Array) -> Error:
        """The diagnostic for the first point at which `bad` holds."""
        values, bad = np.broadcast_arrays(values, bad)
        point = tuple(int(p) for p in np.argwhere(bad)[0])
        extent = self.store.arrays[access.tensor].shape[dimension]
        return error(
            "E0802",
            f"index {values[point]} is out of range for dimension {dimension} of "
            f"`{access.tensor.name}`, whose extent is {extent}",
            access.span,
            notes=self._where(point, bad.shape),
            calls=self.calls,
        )

    def division_by_zero(self, bad: Array) -> Error:
        point = tuple(int(p) for p in np.argwhere(bad)[0])
        notes = self._where(point, np.shape(bad))
        return error("E0803", "division of an integer by zero", notes=notes, calls=self.calls)

    def _where(self, point: Sequence[int], shape: Sequence[int]) -> tuple[str, ...]:
        """`where i = 3, j = 0`, of the indices on which the finding depends."""
        known = [
            f"{index.name} = {self.ranges[axis][0] + point[axis]}"
            for axis, index in enumerate(self.domain)
            if len(shape) == len(self.domain) and (shape[axis] > 1 or self.shape[axis] == 1)
        ]
        return (f"where {', '.join(known)}",) if known else ()


class Values:
    """Evaluates expressions where `active` holds: elsewhere the results mean nothing, and
    nothing there is an error. Every node is evaluated once."""

    def __init__(self, block: Block, active: Array, outer: Values | None = None) -> None:
        self.block = block
        self.active = active
        self.outer = outer
        self._done: dict[int, Array] = {}
        self._wide: Values | None = None

    def within(self, condition: Array) -> Values:
        """The same at fewer points."""
        return Values(self.block, np.logical_and(self.active, condition), self)

    @property
    def wide(self) -> Values:
        """The same in 64-bit integers."""
        block = self.block
        if block.store.wide is block.store:
            return self
        if self._wide is None:
            wide = Block(block.store.wide, block.domain, block.ranges, block.calls)
            self._wide = Values(wide, self.active)
        return self._wide

    def _known(self, node: Expr) -> Array | None:
        scope: Values | None = self
        while scope is not None:
            if id(node) in scope._done:
                return scope._done[id(node)]
            scope = scope.outer
        return None

    def of(self, expr: Expr) -> Array:
        """The values of an expression; an array that broadcasts to the block."""
        stack = [expr]
        while stack:
            node = stack[-1]
            pending = [p for p in _strict_parts(node) if self._known(p) is None]
            if pending:
                stack += reversed(pending)
            else:
                stack.pop()
                if self._known(node) is None:
                    self._done[id(node)] = np.asarray(self._compute(node))
        result = self._known(expr)
        assert result is not None
        return result

    def _part(self, node: Expr) -> Array:
        result = self._known(node)
        assert result is not None
        return result

    def _compute(self, node: Expr) -> Array:
        """The values of a node whose strict parts are known."""
        match node:
            case Const():
                return constant(node, self.block.store)
            case Index():
                return self.block.indices[node]
            case Symbol():
                dtype = self.block.store.dtype(DType.INT)
                return np.asarray(self.block.store.symbols[node]).astype(dtype)
            case Local():
                return self._part(node.value)
            case Unary():
                operand = self._part(node.operand)
                return np.logical_not(operand) if node.op == "not" else np.negative(operand)
            case Binary():
                return self._binary(node)
            case Cast():
                store, operand = self.block.store, self._part(node.operand)
                if store.is_bfloat16(node.dtype):
                    return store.rounded(operand, node.dtype)
                return convert(operand, store.dtype(node.dtype))
            case Apply():
                return self._apply(node)
            case Select():
                condition = self._part(node.condition)
                then = self._side(node.then, condition)
                otherwise = self._side(node.otherwise, np.logical_not(condition))
                return np.where(condition, then, otherwise)
            case Access():
                return self._gather(node)

    def _side(self, node: Expr, condition: Array) -> Array:
        """The values of a side of a select. Only if that is an error somewhere are they
        confined to the points that take it: what sides share is so evaluated once."""
        try:
            return self.of(node)
        except Error:
            return self.within(condition).of(node)

    def _binary(self, node: Binary) -> Array:
        a, b = self._part(node.lhs), self._part(node.rhs)
        if node.op in ("floordiv", "ceildiv", "mod") and node.lhs.dtype.is_int:
            zero = b == 0
            bad = np.logical_and(zero, self.active)
            if bad.any():
                raise self.block.division_by_zero(bad)
            b = np.where(zero, 1, b).astype(b.dtype) if zero.any() else b
        return self.block.store.rounded(BINARY[node.op](a, b), node.dtype)

    def _apply(self, node: Apply) -> Array:
        from .interpret_functions import FUNCTIONS  # what only binds sizes does without

        arguments = [self._part(x) for x in node.arguments]
        value = FUNCTIONS[node.function](*arguments)
        if node.function == "nextafter" and self.block.store.is_bfloat16(node.dtype):
            return beyond(arguments[0], value)
        return self.block.store.rounded(value, node.dtype)

    # --------------------------------------------------------------- accesses

    def _gather(self, access: Access) -> Array:
        array = self.block.store.arrays[access.tensor]
        view = plain_view(array, access, self.block)
        dtype = self.block.store.dtype(access.dtype)
        if view is not None:
            return view.astype(dtype, copy=False)
        positions = self.positions(access)
        if 0 in array.shape:
            return np.zeros((1,) * len(self.block.shape), dtype)
        return np.asarray(array[positions]).astype(dtype, copy=False)

    def positions(self, access: Access) -> tuple[Array, ...]:
        """The subscripts of an access after boundary rules; where not active they are some
        valid ones. Raises E0802 for one that is out of range where active."""
        found = []
        for dimension, subscript in enumerate(access.subscripts):
            extent = self.block.store.arrays[access.tensor].shape[dimension]
            position = self.wide.of(subscript.index).astype(np.int64, copy=False)
            if isinstance(subscript.rule, Remap):
                position = self._remapped(position, subscript.rule, extent)
            outside = np.logical_or(position < 0, position >= extent)
            if outside.any():
                bad = np.logical_and(outside, self.active)
                if bad.any():
                    raise self.block.out_of_range(access, dimension, position, bad)
                position = np.where(outside, 0, position)
            found.append(position)
        return tuple(found)

    def _remapped(self, position: Array, rule: Remap, extent: int) -> Array:
        below, above = position < 0, position >= extent
        if below.any():
            position = np.where(below, self.within(below).wide.of(rule.below), position)
        if above.any():
            position = np.where(above, self.within(above).wide.of(rule.above), position)
        return position

    def inside(self, access: Access, dimension: int) -> Array:
        """Whether a guarded subscript is in range."""
        extent = self.block.store.arrays[access.tensor].shape[dimension]
        position = self.wide.of(access.subscripts[dimension].index)
        return np.asarray(np.logical_and(position >= 0, position < extent))


def _strict_parts(node: Expr) -> tuple[Expr, ...]:
    """The parts that are needed wherever the node is."""
    match node:
        case Binary():
            return node.lhs, node.rhs
        case Unary() | Cast():
            return (node.operand,)
        case Select():
            return (node.condition,)
        case Apply():
            return node.arguments
        case Local():
            return (node.value,)
        case Access():
            return tuple(s.index for s in node.subscripts)
        case _:
            return ()


def constant(const: Const, store: Store) -> Array:
    """The value of a literal; infinite integers are the largest and smallest ones."""
    dtype = store.dtype(const.dtype)
    if isinstance(const.value, float) and const.dtype.is_int and math.isinf(const.value):
        info = np.iinfo(dtype)
        return np.asarray(info.max if const.value > 0 else info.min, dtype)
    if const.dtype.is_int:
        return np.asarray(int(const.value) & (2**64 - 1), np.uint64).astype(dtype)
    value = np.asarray(const.value)
    return store.rounded(value, const.dtype).astype(dtype)


def beyond(x: Array, near: Array) -> Array:
    """What bfloat16 has next to `x` on the side where float32 has `near`."""
    bits = near.view(np.uint32)
    far = np.abs(near) > np.abs(x)
    moved = np.where(far, bits + np.uint32(0xFFFF), bits) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(near), near, np.asarray(moved, np.uint32).view(np.float32))


def plain_view(array: Array, access: Access, block: Block) -> Array | None:
    """The accessed elements without a copy, if every subscript is an index of its own whose
    values are all in range: a transposed slice of the array with an axis per index."""
    axes: list[int] = []
    slices: list[Any] = []
    for dimension, subscript in enumerate(access.subscripts):
        index = subscript.index
        if subscript.rule is not None or not isinstance(index, Index):
            return None
        axis = block.domain.index(index)
        start, stop = block.ranges[axis]
        if axis in axes or stop > array.shape[dimension]:
            return None
        axes.append(axis)
        slices.append(slice(start, stop))
    order = sorted(range(len(axes)), key=axes.__getitem__)
    view = array[(*slices, Ellipsis)].transpose(order)
    return view.reshape([n if a in axes else 1 for a, n in enumerate(block.shape)])
