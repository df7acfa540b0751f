"""Graphs over a batch whose size only a call knows, done for one item after the other.

Requires: a verified graph. Ensures: if all that it makes in a call is made item by item, of
weights that are read soon next to what is computed with them, `open_batch` names the size of the
batch, and `Items` makes a program for it of that for a batch of one. Does not: look at graphs with
control flow, or with other open sizes.

All sizes of a graph for one item are numbers, so it has layouts, constants and tiles of its own,
and what it keeps between kernels is small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..dtypes import DType, Types
from ..ir.loops import Action, Block, Buffer, Point, Program, Reduce, Repeat
from ..ir.nodes import (
    ONE,
    ZERO,
    Access,
    Assignment,
    Binary,
    Cast,
    Expr,
    Graph,
    Index,
    Operation,
    Symbol,
    Tensor,
    integer,
)
from ..ir.rewrite import (
    Replaceable,
    accesses,
    children,
    expressions,
    free_indices,
    free_symbols,
    substitute,
    tensors_read,
    walk,
)
from ..ir.shapes import affine, as_int, interval, mul, simplify, sub
from ..records import dataclass, replace
from .control_state import store

_LEAST_PRODUCTS = 1 << 20
"""Terms of a sum of an item, in the mean: a few microseconds."""
_LEAST_REUSE = 16
"""Terms for each byte of weights, so that these take little time to be read for every item."""


def open_batch(graph: Graph, types: Types) -> Symbol | None:
    """The size of the batch that is the only open size of a graph, if it is to be done item by
    item."""
    if len(graph.symbols) != 1 or graph.sizes or graph.updates:
        return None
    batch = _Batch(graph, graph.symbols[0], types)
    return batch.size if batch.is_by_items() and batch.is_worthwhile() else None


@dataclass(frozen=True, slots=True)
class _Batch:
    graph: Graph
    size: Symbol
    types: Types

    def rows(self, tensor: Tensor) -> int | None:
        """How many rows an item of a tensor has, 0 if there is no batch in its shape; `None` if
        that has it elsewhere."""
        if self.size in free_symbols(*tensor.shape[1:]):
            return None
        return self._times(tensor.shape[0]) if tensor.shape else 0

    def _times(self, extent: Expr) -> int | None:
        """How many times the batch an extent is."""
        factors, constant = affine(extent) or ({self.size: 0}, 1)
        if self.size not in factors:
            return 0 if self.size not in free_symbols(extent) else None
        count = factors[self.size]
        return count if len(factors) == 1 and not constant and count > 0 else None

    def is_by_items(self) -> bool:
        """Whether what is made of an input is made of one item at a time."""
        graph = self.graph
        ports = [t for p in (*graph.inputs, *graph.outputs) for t in p.tensors]
        if any(self.rows(t) is None for t in ports):
            return False
        if not all(self.rows(t) for p in graph.outputs for t in p.tensors):
            return False
        constant = {*graph.variables, *graph.constants}
        for step in graph.operations:
            if not isinstance(step, Operation):
                return False
            if all(self.rows(t) == 0 for t in step.outputs):
                made = set(step.outputs)
                if not constant.issuperset({t for a in step.body for t in tensors_read(a)} - made):
                    return False
                constant |= made
            elif not all(map(self.rows, step.outputs)):
                return False
            if not all(map(self._is_by_items, step.body)):
                return False
        return True

    def _is_by_items(self, assignment: Assignment) -> bool:
        """Whether each point of an assignment touches the same item of all tensors."""
        parts = expressions(assignment)
        if self.size in free_symbols(*parts):
            return False
        along = {i: self._times(i.extent) for i in assignment.domain}
        batches = [i for i, count in along.items() if count != 0]
        touched = accesses(*parts)
        if not batches:
            return all(self.rows(a.tensor) == 0 for a in touched)
        if len(batches) > 1 or along[batches[0]] is None:
            return False
        if not all(self.rows(t.tensor) for t in assignment.targets):
            return False
        index, count = batches[0], along[batches[0]] or 0
        if not all(self._is_of_item(a, index, count) for a in touched):
            return False
        return not self._is_computed(assignment, index)

    def _is_of_item(self, access: Access, index: Index, count: int) -> bool:
        """Whether an index of `count` values for an item is the item that an access is of."""
        rows = self.rows(access.tensor)
        if not rows:
            return rows == 0
        first = access.subscripts[0]
        if first.rule is not None:
            return False
        if first.index is index:
            return rows == count
        rest = simplify(sub(first.index, mul(index, integer(rows))))
        low, high = interval(rest)
        return count == 1 and index not in free_indices(rest) and low >= 0 and high < rows

    def _is_computed(self, assignment: Assignment, index: Index) -> bool:
        """Whether an index is anywhere but in the first subscript of what has items."""

        def parts(expr: Expr) -> tuple[Expr, ...]:
            is_item = isinstance(expr, Access) and self.rows(expr.tensor)
            return children(expr)[1:] if is_item else children(expr)

        return any(node is index for node in walk(*expressions(assignment), parts=parts))

    def is_worthwhile(self) -> bool:
        """Whether an item is enough work, next to all weights."""
        terms, sums = 0, 0
        for step in self.graph.operations:
            assert isinstance(step, Operation)
            for assignment in step.body:
                if assignment.op == "add" and any(self.rows(t) for t in step.outputs):
                    terms += _count((i.extent for i in assignment.domain), self.size)
                    sums += 1
        weights = sum(map(self._bytes, self.graph.variables))
        return terms >= max(_LEAST_PRODUCTS * sums, _LEAST_REUSE * weights, 1)

    def _bytes(self, tensor: Tensor) -> int:
        size = self.types.of(tensor.dtype).numpy().itemsize
        return size * _count(tensor.shape, self.size)


def items_of(graph: Graph, one: Graph, size: Symbol) -> Items:
    """The ports of a graph, if `one` is the same one specialised for a batch of one."""
    inputs, outputs = (
        tuple(
            _whole(t, item)
            for port, known in zip(p, q, strict=True)
            for t, item in zip(port.tensors, known.tensors, strict=True)
        )
        for p, q in ((graph.inputs, one.inputs), (graph.outputs, one.outputs))
    )
    return Items(size, inputs, outputs)


def _whole(tensor: Tensor, item: Tensor) -> Tensor:
    """The concrete tensor for a batch, if `item` is that for one item."""
    if not free_symbols(*tensor.shape):
        return item
    return replace(item, shape=(simplify(tensor.shape[0]), *item.shape[1:]))


@dataclass(frozen=True, slots=True)
class Items:
    """The concrete ports of a graph for a batch of a size."""

    size: Symbol
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def loop(self, actions: Sequence[Action]) -> Block:
        """Actions for one item, for each of the batch."""
        counter, go = Tensor("item", DType.INT64, ()), Tensor("go", DType.BOOL, ())
        number = Cast(DType.INT, Access(counter, ()))
        test = store("go", go, Binary("lt", number, self.size))
        following = store("item", counter, Binary("add", number, ONE))
        return store("item", counter, ZERO), Repeat((test,), go, (*actions, following), ends=True)

    def program(self, one: Program, touched: Mapping[Tensor, Buffer]) -> Program:
        """The program for a batch, of that of a loop with ports for one item; `touched` in a call
        are these tensors."""
        start, loop = one.actions
        assert isinstance(start, Reduce) and isinstance(loop, Repeat)
        ports = {"input": self.inputs, "output": self.outputs}
        points: dict[Buffer, tuple[Buffer, Point]] = {}
        new: dict[Tensor, Buffer] = {}
        pointers = sum(b.kind == "pointer" for b in one.buffers.values())
        for tensor, buffer in touched.items():
            if buffer.kind not in ports:
                continue
            whole = ports[buffer.kind][buffer.number]
            if self.size not in free_symbols(*whole.shape):
                continue
            if buffer not in points:
                first = replace(whole)  # another one where a part of an item is not its beginning
                step = _count(whole.shape, self.size) * whole.dtype.numpy().itemsize
                place = Buffer("pointer", pointers + len(points))
                points[buffer] = place, Point(tensor, (first,), start.targets[0].tensor, step)
                new[first] = buffer
            new[tensor] = points[buffer][0]
        body = (*(p for _, p in points.values()), *loop.body)
        return replace(
            one,
            inputs=self.inputs,
            outputs=self.outputs,
            symbols=(self.size,),
            actions=(start, replace(loop, body=body)),
            buffers={**one.buffers, **new},
        )


def _count(extents: Iterable[Expr], size: Symbol) -> int:
    """The product of extents for a batch of one."""
    one: dict[Replaceable, Expr | Tensor] = {size: ONE}
    counts = (as_int(simplify(substitute(e, one))) for e in extents)
    return math.prod([n or 0 for n in counts])
