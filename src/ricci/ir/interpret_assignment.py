"""Executes one assignment with NumPy.

The meaning is that of the loops as written (`ir.nodes.Assignment`): point by point, the
first index outermost. What depends on that order - an assignment that reads its own
targets - runs in it; all other assignments run in blocks of many points at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..diagnostics import Call
from . import shapes
from .interpret_block import Block, Store, Values, plain_view
from .interpret_contract import contract
from .interpret_scalar import REDUCTIONS, Array, neutral
from .nodes import Access, Assignment, Expr, Index, Local, Skip, Subscript
from .rewrite import accesses, expressions, free_indices, used_locals

POINTS = 2**22
"""The most points of a domain that are in memory at once."""


def execute(assignment: Assignment, store: Store, calls: tuple[Call, ...] = ()) -> None:
    """Carry out an assignment on the arrays of its targets, which must exist.

    Sums and products of reals are accumulated in float64 and rounded once, at the end.
    """
    run = _Run(assignment, store, calls)
    if 0 in run.extents:
        return
    if run.is_sequential:
        run.in_order()
    elif not contract(run.assignment, store, run.extents, run.reduced, calls):
        run.in_blocks()


class _Run:
    """One execution of one assignment."""

    def __init__(self, assignment: Assignment, store: Store, calls: tuple[Call, ...]) -> None:
        self.assignment = assignment
        self.store = store
        self.calls = calls
        self.extents = tuple(
            max(0, shapes.evaluate(i.extent, store.symbols)) for i in assignment.domain
        )
        kept = set(free_indices(*assignment.targets))
        self.reduced = tuple(a for a, i in enumerate(assignment.domain) if i not in kept)
        self.guards = _guards(assignment)
        self.used_locals = _used_locals(assignment)

    @property
    def is_sequential(self) -> bool:
        """Whether the order of the points can matter."""
        targets = [t.tensor for t in self.assignment.targets]
        if len(set(targets)) < len(targets):
            return True
        return any(a.tensor in targets for a in _reads(self.assignment))

    def block(self, ranges: Sequence[tuple[int, int]]) -> Block:
        return Block(self.store, self.assignment.domain, ranges, self.calls)

    # ---------------------------------------------------------------- in order

    def in_order(self) -> None:
        """Loop over the indices whose order matters, all values of the others at once."""
        free = set(_independent(self.assignment))
        ranges = [
            [(0, n)] if index in free else [(k, k + 1) for k in range(n)]
            for index, n in zip(self.assignment.domain, self.extents, strict=True)
        ]
        for point in product(*ranges):
            values = self.alive(self.block(point))
            results = [values.of(v) for v in self.assignment.values]
            if len(results) > 1:  # what is read may be a view of what is written first
                results = [np.array(r) for r in results]
            self.store_values(values, results)

    # --------------------------------------------------------------- in blocks

    def in_blocks(self) -> None:
        op = self.assignment.op
        with _wide(self.assignment, self.store):
            for ranges in _split(self.extents):
                values = self.alive(self.block(ranges))
                results = [values.of(v) for v in self.assignment.values]
                if op in REDUCTIONS:
                    self.reduce(values, results)
                else:
                    self.store_values(values, results)

    def alive(self, block: Block) -> Values:
        """The points that neither a guard nor the condition leaves out."""
        values = Values(block, np.ones((1,) * len(block.shape), bool))
        for access, dimension in self.guards:
            inside = values.inside(access, dimension)
            values = values.within(inside)
        for local in self.used_locals:
            values.of(local)
        if self.assignment.condition is not None:
            values = values.within(values.of(self.assignment.condition))
        return values

    def reduce(self, values: Values, results: Sequence[Array]) -> None:
        """Combine the targets with the reductions of the results over the reduced axes."""
        ufunc = REDUCTIONS[self.assignment.op]
        kept_alive = np.any(values.active, axis=self.reduced, keepdims=True)
        places = Values(values.block, kept_alive, values)
        for target, result in zip(self.assignment.targets, results, strict=True):
            array = self.store.arrays[target.tensor]
            parts = self._reduced(values, result.astype(array.dtype, copy=False))
            combine(array, target, places, parts, ufunc)

    def _reduced(self, values: Values, result: Array) -> Array:
        """One value per element of the target: the axes that are reduced have length 1."""
        op = self.assignment.op
        if not values.active.all():
            result = np.where(values.active, result, neutral(op, result.dtype))
        if not self.reduced:
            return result
        along = [n if a in self.reduced else m for a, (n, m) in enumerate(
            zip(values.block.shape, result.shape or (1,) * len(values.block.shape), strict=True)
        )]  # fmt: skip
        full = np.broadcast_to(result, along)
        ufunc = REDUCTIONS[op]
        return np.asarray(ufunc.reduce(full, axis=self.reduced, keepdims=True, dtype=full.dtype))

    def store_values(self, values: Values, results: Sequence[Array]) -> None:
        """Write (or combine) point by point in loop order: a later one wins."""
        alive = np.broadcast_to(values.active, values.block.shape)
        for target, result in zip(self.assignment.targets, results, strict=True):
            array = self.store.arrays[target.tensor]
            result = result.astype(array.dtype, copy=False)
            view = None if self.reduced else plain_view(array, target, values.block)
            if self.assignment.op in REDUCTIONS:
                combine(array, target, values, result, REDUCTIONS[self.assignment.op], alive)
                if self.is_sequential:
                    array[...] = self.store.rounded(array, target.dtype)
            elif view is not None and view.shape == values.block.shape:
                np.copyto(view, result, where=alive)
            else:
                flat, where = _elements(array, target, values)
                where = tuple(np.broadcast_to(p, alive.shape)[alive] for p in where)
                flat[where] = np.broadcast_to(result, alive.shape)[alive]


def combine(
    array: Array,
    target: Access,
    values: Values,
    parts: Array,
    ufunc: np.ufunc,
    alive: Array | None = None,
) -> None:
    """`array[target] = ufunc(array[target], parts)`, every occurrence of an element counting."""
    if not array.size:
        return
    view = plain_view(array, target, values.block) if alive is None or alive.all() else None
    if view is not None:
        ufunc(view, parts, out=view)
        return
    array, positions = _elements(array, target, values)
    shape = np.broadcast_shapes(*(p.shape for p in positions), parts.shape)
    chosen = np.ones(shape, bool) if alive is None else alive
    where = tuple(np.broadcast_to(p, chosen.shape)[chosen] for p in positions)
    ufunc.at(array, where, np.broadcast_to(parts, chosen.shape)[chosen])


def _elements(array: Array, target: Access, values: Values) -> tuple[Array, tuple[Array, ...]]:
    """A view of a target of rank 1 at least, and the positions of its elements in it."""
    if array.ndim == 0:
        return array.reshape(1), (np.zeros((1,) * len(values.block.shape), np.int64),)
    return array, values.positions(target)


def _guards(assignment: Assignment) -> list[tuple[Access, int]]:
    """The guarded subscripts: those of indices alone first, the others in order of occurrence,
    inner before outer."""
    found = [
        (access, dimension)
        for access in accesses(*assignment.targets, *_sources(assignment))
        for dimension, subscript in enumerate(access.subscripts)
        if isinstance(subscript.rule, Skip)
    ]
    return sorted(found, key=lambda guard: bool(accesses(guard[0].subscripts[guard[1]].index)))


def _used_locals(assignment: Assignment) -> list[Local]:
    """The locals that something depends on, in order."""
    condition = () if assignment.condition is None else (assignment.condition,)
    roots = (*assignment.targets, *assignment.values, *condition)
    return used_locals(assignment.locals, *roots)


def _sources(assignment: Assignment) -> tuple[Expr, ...]:
    """The expressions of an assignment that are not targets."""
    return expressions(assignment)[len(assignment.targets) :]


def _reads(assignment: Assignment) -> Iterator[Access]:
    """The accesses that read: those in values, locals, condition and subscripts of targets."""
    subscripts = (s.index for t in assignment.targets for s in t.subscripts)
    yield from accesses(*subscripts, *_sources(assignment))


def _independent(assignment: Assignment) -> list[Index]:
    """The indices whose values touch separate slices of the targets: in every access of a
    target they stand alone at one and the same position."""
    found = []
    for index in assignment.domain:
        places = []
        for target in assignment.targets:
            same = [a for a in _reads(assignment) if a.tensor is target.tensor]
            same += [t for t in assignment.targets if t.tensor is target.tensor]
            places.append(any(
                all(_is_plain(a.subscripts[k], index) for a in same)
                for k in range(target.tensor.rank)
            ))  # fmt: skip
        if all(places):
            found.append(index)
    return found


def _is_plain(subscript: Subscript, index: Index) -> bool:
    return subscript.index is index and subscript.rule is None


def _split(extents: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of at most `POINTS` points that cover the domain in loop order."""
    inner = 0
    while inner < len(extents) and prod(extents[inner:]) > POINTS:
        inner += 1
    if inner == 0:
        yield tuple((0, n) for n in extents)
        return
    step = max(1, POINTS // max(1, prod(extents[inner:])))
    whole = [(0, n) for n in extents[inner:]]
    for outer in product(*(range(n) for n in extents[: inner - 1])):
        for start in range(0, extents[inner - 1], step):
            stop = min(start + step, extents[inner - 1])
            yield (*((k, k + 1) for k in outer), (start, stop), *whole)


class _wide:
    """Holds the targets of a sum or product of reals in float64 while it is accumulated."""

    def __init__(self, assignment: Assignment, store: Store) -> None:
        self._store = store
        self._narrow: dict[Any, Array] = {}
        if assignment.op in ("add", "mul"):
            for tensor in {t.tensor for t in assignment.targets}:
                array = store.arrays[tensor]
                if np.issubdtype(array.dtype, np.floating) and array.dtype != np.float64:
                    self._narrow[tensor] = array

    def __enter__(self) -> None:
        for tensor, array in self._narrow.items():
            self._store.arrays[tensor] = array.astype(np.float64)

    def __exit__(self, *_: object) -> None:
        for tensor, array in self._narrow.items():
            array[...] = self._store.rounded(self._store.arrays[tensor], tensor.dtype)
            self._store.arrays[tensor] = array
