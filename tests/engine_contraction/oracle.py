"""What a `Reduce` means, in NumPy: every expression on the whole grid of its indices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ricci.ir.loops import Reduce
from ricci.ir.nodes import (
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
    Skip,
    Tensor,
    Unary,
)

Arrays = Mapping[Tensor, np.ndarray]
_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "lt": np.less,
    "le": np.less_equal,
    "and": np.logical_and,
    "eq": np.equal,
    "ne": np.not_equal,
}
_FUNCTIONS = {"exp": np.exp, "tanh": np.tanh, "abs": np.abs, "sqrt": np.sqrt}


def extent(index: Index) -> int:
    assert isinstance(index.extent, Const)
    return int(index.extent.value)


class Grid:
    """All points of some indices; reals are evaluated in float64."""

    def __init__(self, indices: tuple[Index, ...], arrays: Arrays) -> None:
        self.shape = tuple(extent(i) for i in indices)
        numbers = np.meshgrid(*(np.arange(n) for n in self.shape), indexing="ij", sparse=True)
        self.numbers = dict(zip(indices, numbers, strict=True))
        self.arrays = arrays
        self.known: dict[Local, np.ndarray] = {}
        self.valid: np.ndarray = np.ones((1,) * len(indices), bool)

    def value(self, e: Expr) -> np.ndarray:
        match e:
            case Const():
                return np.asarray(e.value)
            case Index():
                return self.numbers[e]
            case Local():
                return self.known[e] if e in self.known else self.value(e.value)
            case Unary():
                a = self.value(e.operand)
                return -a if e.op == "neg" else ~a
            case Binary():
                return np.asarray(_BINARY[e.op](self.value(e.lhs), self.value(e.rhs)))
            case Select():
                parts = (self.value(x) for x in (e.condition, e.then, e.otherwise))
                return np.where(*parts)
            case Cast():
                a = self.value(e.operand)
                return np.trunc(a).astype(np.int64) if e.dtype.is_int else a.astype(np.float64)
            case Apply():
                return np.asarray(_FUNCTIONS[e.function](self.value(e.arguments[0])))
            case Access():
                return self._load(e)
        raise AssertionError(e)

    def _load(self, access: Access) -> np.ndarray:
        array = self.arrays[access.tensor]
        places = []
        for s, n in zip(access.subscripts, array.shape, strict=True):
            at = self.value(s.index)
            if isinstance(s.rule, Skip):
                self.valid = self.valid & (at >= 0) & (at < n)
                at = np.clip(at, 0, n - 1)
            elif isinstance(s.rule, Remap):
                below, above = self.value(s.rule.below), self.value(s.rule.above)
                at = np.where(at < 0, below, np.where(at >= n, above, at))
            places.append(at)
        found = array[tuple(places)]
        return np.asarray(found, np.float64) if found.dtype.kind == "f" else found


def reduce(kernel: Reduce, arrays: Arrays) -> np.ndarray:
    """The target after the kernel, in float64."""
    inner = Grid((*kernel.domain, *kernel.reduced), arrays)
    terms = np.broadcast_to(inner.value(kernel.values[0]), inner.shape)
    if kernel.condition is not None:
        inner.valid = inner.valid & inner.value(kernel.condition)
    axes = tuple(range(len(kernel.domain), len(inner.shape)))
    total = np.where(inner.valid, terms, 0).sum(axis=axes)
    grid = Grid(kernel.domain, arrays)
    grid.known[kernel.accumulators[0]] = grid.value(kernel.initial[0]) + total
    result = np.array(arrays[kernel.targets[0].tensor], np.float64)
    places = tuple(
        np.broadcast_to(grid.value(s.index), grid.shape) for s in kernel.targets[0].subscripts
    )
    result[places] = grid.value(kernel.results[0])
    return result
