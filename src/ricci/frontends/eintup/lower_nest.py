"""The loops of a statement, and the elements that its accesses address.

An index out of range skips the combination: a subscript has a `Skip` unless its range proves it
away. What else skips combinations (a `FLAT` of what is out of range) are conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...diagnostics import error
from ...dtypes import DType
from ...ir import nodes as ir
from ...ir import shapes
from ...ir.rewrite import accesses, walk
from ...records import dataclass
from . import syntax as s
from .extents import Arithmetic, Components, arithmetic
from .lower_cover import guards_of
from .lower_window import guarded
from .program import Array
from .uses import variables

_LARGEST = 2**63

MOST_AXES = 32
"""Most indices of a statement, and axes of an array: what NumPy can broadcast."""


@dataclass
class Nest:
    """What a statement loops over, with the tensors that its arrays are at its beginning."""

    statement: s.Statement
    tensors: Mapping[str, ir.Tensor]
    places: Mapping[str, Components]
    domain: tuple[ir.Index, ...]
    indices: Arithmetic
    conditions: list[ir.Expr] = field(default_factory=list)
    locals: list[ir.Local] = field(default_factory=list)
    sliced: list[ir.Access] = field(default_factory=list)
    """The elements that slices read."""

    def access(self, tensor: ir.Tensor, node: s.Access) -> ir.Access:
        """An element of the tensor that an array is."""
        values = [v for item in node.items for v in self.indices.values(item, self.places)]
        return self._element(tensor, values, node)

    def read(self, node: s.Access) -> ir.Access:
        """An element of an array as it was before the statement."""
        return self.access(self.tensors[node.array.name], node)

    def require(self, condition: ir.Expr) -> None:
        """Skip the combinations for which a condition of indices does not hold."""
        if condition != ir.TRUE and condition not in self.conditions:
            self.conditions.append(condition)

    def condition(self) -> ir.Expr | None:
        """What combinations must fulfil beside the guards of their accesses."""
        if not self.conditions:
            return None
        result: ir.Expr = ir.TRUE
        for condition in self.conditions:
            result = shapes.logical_and(result, condition)
        return result

    def _element(
        self, tensor: ir.Tensor, values: list[ir.Expr], node: s.Access | s.Slice
    ) -> ir.Access:
        if len(values) != tensor.rank:
            message = f"{len(values)} components for the {tensor.rank} axes of `{tensor.name}`"
            raise error("E0602", message, node.span)
        subscripts = map(self._subscript, values, tensor.shape, [node] * len(values))
        return ir.Access(tensor, tuple(subscripts), node.span)

    def _subscript(self, value: ir.Expr, extent: ir.Expr, node: s.Access | s.Slice) -> ir.Subscript:
        check_size(value, node)
        return guarded(self._without_flat(value), extent)

    def _without_flat(self, value: ir.Expr) -> ir.Expr:
        """A `FLAT` that may be -1 as the number that it else is, under a condition."""
        match value:
            case ir.Select(condition, then, ir.Const(-1)):
                self.require(condition)
                return then
            case _:
                return value

    def slice(self, node: s.Slice) -> Components:
        """The components of a slice: elements along its axis."""
        tensor = self.tensors[node.array.name]
        before = [i for i in node.items[: node.items.index(None)] if i is not None]
        after = [i for i in node.items[node.items.index(None) + 1 :] if i is not None]
        first = [v for item in before for v in self.indices.values(item, self.places)]
        last = [v for item in after for v in self.indices.values(item, self.places)]
        count = self.indices.rank(node)
        places = [[*first, ir.integer(k), *last] for k in range(count)]
        elements = [self._element(tensor, p, node) for p in places]
        self.sliced += elements
        return tuple(ir.Cast(DType.INT, e) for e in elements)

    def keep_guards(self, *exprs: ir.Expr) -> None:
        """Make conditions of the guards of slices that arithmetic has removed: `I[s, :] * 0`."""
        kept = set(accesses(*exprs))
        for element in self.sliced:
            if element not in kept:
                for condition in guards_of(element):
                    self.require(condition)


def make_nest(
    statement: s.Statement,
    tensors: Mapping[str, ir.Tensor],
    dims: Mapping[str, Components],
    arrays: Mapping[str, Array],
) -> Nest:
    """The loops over all eintups of a statement, those on the left first."""
    return nest_over(variables(statement), statement, tensors, dims, arrays)


def nest_over(
    names: tuple[str, ...],
    statement: s.Statement,
    tensors: Mapping[str, ir.Tensor],
    dims: Mapping[str, Components],
    arrays: Mapping[str, Array],
) -> Nest:
    """The loops over some eintups."""
    places = {name: _indices(name, dims[name]) for name in names}
    domain = tuple(i for group in places.values() for i in group)
    if len(domain) > MOST_AXES:
        message = f"a statement over {len(domain)} indices: {MOST_AXES} are the most"
        raise error("E0901", message, statement.span)
    nest = Nest(statement, tensors, places, domain, arithmetic(dims, arrays))
    nest.indices = Arithmetic(dims, arrays, nest.slice, nest.indices.stored)
    return nest


def _indices(name: str, dims: Components) -> tuple[ir.Index, ...]:
    numbered = len(dims) != 1
    return tuple(ir.Index(f"{name}{k}" if numbered else name, d) for k, d in enumerate(dims))


def check_size(value: ir.Expr, node: s.Access | s.Slice) -> None:
    """Index arithmetic is done in 64 bits."""
    for part in walk(value):
        if isinstance(part, ir.Const) and part.dtype is DType.INT:
            if not -_LARGEST <= int(part.value) < _LARGEST:
                raise error(
                    "E0504", "index arithmetic has a number that exceeds 64 bits", node.span
                )
