"""Emits a `Reduce` whose accumulators are in memory, for long stretches of results at a time.

A tile keeps its accumulators in registers, and goes through all terms: from each row it reads a few
vectors. Where rows are far apart memory gives that at half of its rate. Here a stretch of results
takes a few terms at a time, with accumulators in the first cache, so that rows are read as they
lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Index
from .emit import FULL, Frame, Place
from .emit_types import vector_type, width
from .nest_loops import STRETCH, Bound, Cell, LoopNest, Places, Ranges
from .nest_plan import Plan, kept_bytes
from .nest_uses import Loop


class KeptNest(LoopNest):
    """The body of one kernel, but for vectors of terms."""

    def __init__(self, kernel: Reduce, plan: Plan, frame: Frame) -> None:
        super().__init__(kernel, plan, frame)
        size = plan.kept * kept_bytes(self.kernel, plan.lanes)
        self.totals = size if plan.kept and self._is_long() else 0
        """Where the accumulators of all terms begin: behind those of a stretch of terms."""
        self.scratch = self.totals + size
        """Bytes of the accumulators, in the memory of the thread."""

    def _is_long(self) -> bool:
        """Whether sums of a part of the terms are made beside those of all."""
        terms = self.plan.reduced[-1].extent
        assert isinstance(terms, int)
        return self.is_sum and terms >= 2 * STRETCH * self.plan.terms

    def _vectors(
        self, rows: list[Places], limits: tuple[Bound, Bound] | None, ranges: Ranges
    ) -> None:
        plan = self.plan
        if not plan.kept:
            super()._vectors(rows, limits, ranges)
            return
        assert plan.vector is not None and isinstance(plan.vector.extent, int)
        begin, end = limits or (0, -(-plan.vector.extent // plan.lanes))
        for places in rows:
            if isinstance(end, int) and end <= plan.kept and begin == 0:
                self._kept(Cell(places, FULL, ranges), 0, end)
                continue
            with self.b.loop(begin, end, plan.kept) as loop:
                stop = self.b.pure(f"add nuw nsw i64 {loop.index}, {plan.kept}", loop.index)
                self._kept(Cell(places, FULL, ranges), loop.index, self._least(stop, end))

    def _kept(self, row: Cell, begin: Bound, end: Bound) -> None:
        """The vectors from one to another of a row."""
        with self.b.loop(begin, end) as loop:
            point = self._point(self._cell(row, loop.index), {})
            first = [point.vector(point.value(x)) for x in self.kernel.initial]
            self._keep(first, begin, loop.index, self.totals)
        self._passes(row, begin, end, {}, self.plan.reduced)
        with self.b.loop(begin, end) as loop:
            self._finish([self._cell(row, loop.index)], self._held(begin, loop.index, self.totals))

    def _cell(self, row: Cell, number: str) -> Cell:
        """A vector of the row; the last one begins earlier if it has no room."""
        plan = self.plan
        assert plan.vector is not None and isinstance(plan.vector.extent, int)
        extent, lanes = plan.vector.extent, plan.lanes
        first = self.b.pure(f"mul nuw nsw i64 {number}, {lanes}", number)
        if extent % lanes:
            first = str(self._least(first, extent - lanes))
        places = {**row.places, plan.vector.index: Place(first, 0, lanes > 1)}
        return Cell(places, row.mask, row.ranges)

    def _passes(
        self, row: Cell, begin: Bound, end: Bound, places: Places, rest: Sequence[Loop]
    ) -> None:
        """The terms from here inwards, some of the innermost loop with each pass over the row."""
        loop, *rest = rest
        extent, terms = loop.extent, self.plan.terms
        assert isinstance(extent, int)
        if rest:
            with self.b.loop(0, extent) as run:
                here = {**places, loop.index: Place(run.index)}
                self._passes(row, begin, end, here, rest)
            return
        whole = extent // terms * terms
        long = terms * STRETCH
        parts = whole // long * long if self.totals else 0
        if parts:
            with self.b.loop(0, parts, long) as run:
                stop = self.b.pure(f"add nuw nsw i64 {run.index}, {long}", run.index)
                with self.b.loop(begin, end) as at:
                    self._keep(self._nothing(1), begin, at.index, 0)
                self._groups(row, begin, end, (run.index, stop), places, loop.index, 0)
                with self.b.loop(begin, end) as at:
                    held = [self._held(begin, at.index, x) for x in (self.totals, 0)]
                    self._keep(self._added(*held), begin, at.index, self.totals)
        if parts < whole:
            self._groups(row, begin, end, (parts, whole), places, loop.index, self.totals)
        if extent > whole:
            there = [{**places, loop.index: Place(None, k)} for k in range(whole, extent)]
            self._pass(row, begin, end, there, self.totals)

    def _groups(
        self,
        row: Cell,
        begin: Bound,
        end: Bound,
        span: tuple[Bound, Bound],
        places: Places,
        index: Index,
        set: int,
    ) -> None:
        """Passes for the terms from one to another, which are whole groups."""
        terms = self.plan.terms
        with self.b.loop(*span, terms) as run:
            there = [{**places, index: Place(run.index, k)} for k in range(terms)]
            self._pass(row, begin, end, there, set)

    def _pass(self, row: Cell, begin: Bound, end: Bound, terms: list[Places], set: int) -> None:
        """One pass over the row for a few terms, into the accumulators of a set."""
        with self.b.loop(begin, end) as loop:
            cell = self._cell(row, loop.index)
            held = self._held(begin, loop.index, set)
            fresh = self.is_sum and len(terms) > 1
            values = self._nothing(1) if fresh else held
            values = self._several([cell], values, terms)
            total = self._added(held, values) if fresh else values
            self._keep(total, begin, loop.index, set)

    def _places(self, begin: Bound, number: str, set: int) -> list[tuple[str, str]]:
        """The types of the accumulators of a vector, and where they are; a set begins at `set`."""
        b, plan = self.b, self.plan
        at = b.pure(f"sub i64 {number}, {begin}", number, str(begin))
        out, offset = [], set
        for dtype in self.dtypes:
            size = width(dtype) * plan.lanes
            bytes = b.pure(f"mul nuw nsw i64 {at}, {size}", at)
            place = b.pure(f"add nuw nsw i64 {bytes}, {offset}", bytes)
            pointer = b.pure(f"getelementptr i8, ptr %scratch, i64 {place}", place)
            out.append((vector_type(dtype, plan.lanes), pointer))
            offset += plan.kept * size
        return out

    def _held(self, begin: Bound, number: str, set: int) -> list[str]:
        """The accumulators of a vector."""
        pairs = zip(self.dtypes, self._places(begin, number, set), strict=True)
        return [self.b.op(f"load {t}, ptr {p}, align {width(d)}") for d, (t, p) in pairs]

    def _keep(self, values: Sequence[str], begin: Bound, number: str, set: int) -> None:
        spots = self._places(begin, number, set)
        for dtype, value, (type, pointer) in zip(self.dtypes, values, spots, strict=True):
            self.b.line(f"store {type} {value}, ptr {pointer}, align {width(dtype)}")
