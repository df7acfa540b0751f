"""Emits a `Scatter` that is a recurrence: `y[i, k + 1] = f(y[i, k], x[i, k + 1])`.

What a step leaves for the next stays in a register. Vectors lie along another index of the target;
where `f` is a sum, or the like, of the two they may lie along the index of the steps: what the
lanes of a vector add up to is computed in it, and what the one before came to is added to all. What
rounding takes from a sum is kept beside it, and added to what is stored.
"""

from __future__ import annotations

from ...dtypes import DType
from ...ir import shapes
from ...ir.chains import chain_of
from ...ir.loops import Reduce, Scatter
from ...ir.nodes import Access, Const, Expr, Index, Local
from ...ir.rewrite import accesses, has_guard, rebuild
from ...records import replace
from . import emit_arith, emit_lanes
from .emit import FULL, Mask, Place, Point, Value
from .emit_types import scalar_type, splat, vector_type, width, with_lanes
from .mathlib_core import Reals
from .nest_choice import Prefix, prefix_of
from .nest_loops import Cell, Places
from .nest_reduce import ReduceNest

_REGISTER = 64
"""Bytes of a register of AVX-512."""
_WORDS = {4: "float", 8: "double"}


def recurrence(kernel: Scatter) -> Reduce | None:
    """A recurrence with its last value as an accumulator, which is also stored at each step."""
    a = kernel.assignment
    chain = chain_of(a)
    if chain is None:
        return None
    first = chain.first()
    pairs = [*zip(first.subscripts, first.tensor.shape, strict=True)]
    pairs += zip(a.targets[0].subscripts, first.tensor.shape, strict=True)
    if not all(_is_inside(s.index, extent) for s, extent in pairs):
        return None
    held = Local("last", first)

    def node(expr: Expr) -> Expr:
        return held if isinstance(expr, Access) and expr.tensor is first.tensor else expr

    value = rebuild(a.values[0], node)
    if any(x.tensor is first.tensor for x in accesses(value) if x is not first):
        return None
    domain = tuple(i for i in a.domain if i is not chain.along)
    return Reduce(
        kernel.name, a.targets, domain, (chain.along,), "update", (first,), (value,), (held,),
        (held,), (), None, kernel.span, kernel.operations,
    )  # fmt: skip


def with_lost(kernel: Reduce) -> Reduce:
    """A running sum of reals with what rounding takes from it as one more accumulator; what is no
    such sum stays."""
    found = prefix_of(kernel)
    if found is None or found.op != "add" or kernel.condition is not None:
        return kernel
    if has_guard(found.brought):
        return kernel
    dtype = kernel.initial[0].dtype
    if dtype not in (DType.FLOAT32, DType.FLOAT64):
        return kernel
    zero = Const(0.0, dtype)
    lost = Local("lost", zero)
    return replace(
        kernel,
        initial=(*kernel.initial, zero),
        values=(*kernel.values, lost),
        accumulators=(*kernel.accumulators, lost),
        results=(*kernel.results, lost),
    )


def _is_inside(index: Expr, extent: Expr) -> bool:
    low = shapes.interval(index)[0]
    return low >= 0 and shapes.less(index, extent)


class ScanNest(ReduceNest):
    """The body of one kernel that is a recurrence."""

    def _finish(self, cells: list[Cell], totals: list[str]) -> None:
        """Nothing: all has been stored."""

    def _horizontal(self, cells: list[Cell]) -> list[str]:
        """All steps, as vectors along their index."""
        across = self.frame.point(self.plan.lanes, {})
        start = [across.vector(self._point(c, {}).value(self.kernel.initial[0])) for c in cells]
        return self._sweeps(cells, start, {}, self.plan.reduced)

    def _sweep(self, cells: list[Cell], accumulators: list[str], places: Places) -> list[str]:
        """The steps of rows, in vectors that are those of the target."""
        loop, lanes = self.plan.vector, self.plan.lanes
        assert loop is not None
        if not isinstance(loop.extent, int):
            return super()._sweep(cells, accumulators, places)
        if self._is_exact:
            zero = splat("0.0", scalar_type(self.dtypes[0]), lanes)
            accumulators = [x for value in accumulators for x in (value, zero)]
        at = -self._first_lane(loop.index)
        if at < 0 or loop.extent < lanes:
            accumulators = self._steps_at(cells, accumulators, places, at)
            at += lanes
        full = at + max(loop.extent - at, 0) // lanes * lanes
        if full > at:
            type = vector_type(self.dtypes[0], lanes)
            with self.b.loop(at, full, lanes, [(type, x) for x in accumulators]) as run:
                run.carry(self._steps_at(cells, run.values, places, run.index))
            accumulators = run.results
        if full < loop.extent:
            accumulators = self._steps_at(cells, accumulators, places, full)
        return accumulators

    def _first_lane(self, along: Index) -> int:
        """The lane of the first step if vectors are those of the rows of the target."""
        lanes = self.plan.lanes
        for s in self.kernel.targets[0].subscripts:
            form = shapes.affine(s.index)
            if form is not None and list(form[0]) == [along]:
                return form[1] % lanes if form[0][along] > 0 else (-1 - form[1]) % lanes
        return 0

    def _steps_at(
        self, cells: list[Cell], accumulators: list[str], places: Places, at: int | str
    ) -> list[str]:
        """A vector of steps of each row; there may be a part of it only if `at` is a number."""
        loop, lanes = self.plan.vector, self.plan.lanes
        assert loop is not None and isinstance(loop.extent, int)
        place, mask = (
            Place(at, 0, lanes > 1) if isinstance(at, str) else Place(None, at, True),
            FULL,
        )
        if isinstance(at, int):
            there = [0 <= at + k < loop.extent for k in range(lanes)]
            flags = ", ".join(f"i1 {str(x).lower()}" for x in there)
            mask = FULL if all(there) else Mask(None, f"<{flags}>")
        here = {**places, loop.index: place}
        width = len(accumulators) // len(cells)
        out = []
        for n, c in enumerate(cells):
            point = self._point(Cell(c.places, mask, c.ranges), here)
            out += self._term(point, accumulators[n * width : (n + 1) * width])
        return out

    def _term(self, point: Point, accumulators: list[str]) -> list[str]:
        dtype, (last, *lost) = self.dtypes[0], accumulators
        if self.prefix is None and lost:
            found = prefix_of(self.kernel)
            assert found is not None
            r = Reals(self.b, dtype, point.lanes)
            new = _added(r, last, lost[0], point.vector(point.value(found.brought)))
            self._store(point, r.add(*new))
            return new
        if self.prefix is None:
            new = super()._term(point, accumulators)
            self._store(point, new[0])
            return new
        sums = self._sums(self._brought(point, dtype), dtype)
        whole = self._picked(sums, "poison", [self.plan.lanes - 1] * self.plan.lanes, dtype)
        if lost:
            r = Reals(self.b, dtype, self.plan.lanes)
            self._store(point, r.add(last, r.add(sums, lost[0])))
            return _added(r, last, lost[0], whole)
        op, lanes = self.prefix.op, self.plan.lanes
        self._store(point, emit_arith.combine(self.b, op, last, sums, dtype, lanes))
        return [emit_arith.combine(self.b, op, last, whole, dtype, lanes)]

    def _store(self, point: Point, value: str) -> None:
        point.store(self.kernel.targets[0], Value(value, self.dtypes[0], point.lanes > 1))

    @property
    def _is_exact(self) -> bool:
        """Whether what rounding takes from a running sum is kept, and added to what is stored."""
        return self.prefix is not None and self.prefix.op == "add" and self.dtypes[0].is_real

    @property
    def prefix(self) -> Prefix | None:
        return prefix_of(self.kernel) if self.plan.over_reduced else None

    def _brought(self, point: Point, dtype: DType) -> str:
        """What the steps bring; what changes nothing for those that there are not."""
        assert self.prefix is not None
        brought = point.vector(point.value(self.prefix.brought))
        if point.mask.is_full:
            return brought
        neutral = splat(emit_arith.neutral(self.prefix.op, dtype), scalar_type(dtype), point.lanes)
        return self._only_where(point, brought, neutral, dtype)

    def _sums(self, brought: str, dtype: DType) -> str:
        """What each lane of a vector and those before it come to."""
        assert self.prefix is not None
        op, lanes = self.prefix.op, self.plan.lanes
        neutral = self._neutral(op, dtype)
        step = 1
        while step < lanes:
            picks = [(k - step) % (2 * lanes) for k in range(lanes)]
            moved = self._picked(brought, neutral, picks, dtype)
            brought = emit_arith.combine(self.b, op, moved, brought, dtype, lanes)
            step *= 2
        return brought

    def _neutral(self, op: str, dtype: DType) -> str:
        """What changes nothing. The code generator is not to know that it is zero: it moves lanes
        of whole registers that make room for zeros by `vexpandps`, which takes three times as long
        as `valignq`."""
        lanes, type = self.plan.lanes, scalar_type(dtype)
        neutral = splat(emit_arith.neutral(op, dtype), type, lanes)
        if op != "add" or width(dtype) not in _WORDS or lanes * width(dtype) != _REGISTER:
            return neutral
        real = _WORDS[width(dtype)]
        zero = emit_lanes.held(self.b, real, splat("0.0", real, lanes), lanes)
        text = f"bitcast {with_lanes(real, lanes)} {zero} to {vector_type(dtype, lanes)}"
        return zero if type == real else self.b.pure(text, zero)

    def _picked(self, x: str, y: str, picks: list[int], dtype: DType) -> str:
        full = vector_type(dtype, self.plan.lanes)
        chosen = ", ".join(f"i32 {k}" for k in picks)
        text = f"shufflevector {full} {x}, {full} {y}, <{len(picks)} x i32> <{chosen}>"
        return self.b.pure(text, x, y)


def _added(r: Reals, total: str, lost: str, value: str) -> list[str]:
    """A sum, and what was lost before and by rounding it (Knuth, TAOCP 2, 4.2.2); nothing where
    the sum is not finite."""
    new = r.add(total, value)
    part = r.sub(new, total)
    rest = r.add(r.sub(total, r.sub(new, part)), r.sub(value, part))
    rest = r.select(r.test("ord", rest, rest), rest, r.const(0.0))
    return [new, r.add(lost, rest)]
