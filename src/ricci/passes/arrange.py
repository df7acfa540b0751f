"""Copies of constants as kernels read them.

Requires: kernels that depend on more than constants, in order, and the strides of intermediate
tensors. Ensures: where a kernel writes along an index, and picks elements of a constant along it
that lie apart, it reads a copy in which they are neighbours, made whenever the constant is set.
Does not: touch operands that are arranged anyway, since only they have that index.

Example: the weights `w[c, i, j]` of a convolution of each channel by itself, along channels.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import field

from ..ir.loops import Action, Reduce
from ..ir.nodes import Access, Expr, Index, Local, Subscript, Tensor
from ..ir.rewrite import accesses, free_indices
from ..ir.shapes import as_int
from ..records import dataclass, replace
from .fuse import map_expressions
from .layout import contiguous_last

_LEAST = 8
"""Elements that are worth it."""
_MOST = 1 << 22
"""Elements of a copy, at most."""

Strides = Mapping[Tensor, tuple[int, ...]]


@dataclass(slots=True)
class Arranged:
    """Copies, the kernels that make them, and how they lie."""

    kernels: list[Reduce] = field(default_factory=list)
    strides: dict[Tensor, tuple[int, ...]] = field(default_factory=dict)
    copies: dict[tuple[Tensor, int], Tensor] = field(default_factory=dict)

    def copy(self, tensor: Tensor, dimension: int) -> Tensor:
        """The copy of a constant in which a dimension is contiguous."""
        key = (tensor, dimension)
        if key not in self.copies:
            made = Tensor(f"{tensor.name}.along", tensor.dtype, tensor.shape)
            indices = tuple(Index(f"i{d}", n) for d, n in enumerate(tensor.shape))
            places = tuple(Subscript(i) for i in indices)
            read = Access(tensor, places)
            total = (Local("acc0", read),)
            domain = indices, ()
            self.kernels.append(
                Reduce(
                    made.name, (Access(made, places),), *domain, "set", (read,), (), total, total
                )
            )
            self.strides[made] = contiguous_last(tensor, dimension, apart=False)
            self.copies[key] = made
        return self.copies[key]


def arrange_constants(
    actions: Sequence[Action], strides: Strides, constant: Container[Tensor]
) -> tuple[list[Action], Arranged]:
    """The actions with copies of constants for those that they read."""
    arranged = Arranged()
    done = [
        _arranged(a, strides, constant, arranged) if isinstance(a, Reduce) else a for a in actions
    ]
    return done, arranged


def _arranged(
    kernel: Reduce, strides: Strides, constant: Container[Tensor], arranged: Arranged
) -> Reduce:
    index = _contiguous(kernel, strides)
    if index is None or not kernel.reduced:
        return kernel
    read = accesses(*kernel.values)
    if not any(index in free_indices(a) for a in read if a.tensor not in constant):
        return kernel

    def node(expr: Expr) -> Expr:
        if not isinstance(expr, Access) or expr.tensor not in constant:
            return expr
        dimension = _apart(expr, index)
        if dimension is None:
            return expr
        return replace(expr, tensor=arranged.copy(expr.tensor, dimension))

    if all(_apart(a, index) is None for a in read if a.tensor in constant):
        return kernel
    return map_expressions(kernel, node)


def _contiguous(kernel: Reduce, strides: Strides) -> Index | None:
    """The index along which a kernel writes neighbours."""
    target = kernel.targets[0]
    steps = strides.get(target.tensor)
    last = len(target.subscripts) - 1 if steps is None else steps.index(1) if 1 in steps else -1
    if last < 0:
        return None
    index = target.subscripts[last].index
    return index if isinstance(index, Index) and (as_int(index.extent) or 0) >= _LEAST else None


def _apart(access: Access, index: Index) -> int | None:
    """The dimension of an access that an index walks along, if its elements are not neighbours."""
    found = [d for d, s in enumerate(access.subscripts) if index in free_indices(s.index)]
    shape = [as_int(n) or 0 for n in access.tensor.shape]
    if len(found) != 1 or not 0 < math.prod(shape) <= _MOST:
        return None
    (dimension,) = found
    if access.subscripts[dimension].index is not index or math.prod(shape[dimension + 1 :]) == 1:
        return None
    return dimension
