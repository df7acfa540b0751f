"""Emits a `Reduce`: `nest_loops`, and vectors of terms, whose lanes are joined at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...dtypes import DType
from ...ir.loops import Reduce
from ...ir.nodes import Expr
from . import counts, emit_arith
from .emit import FULL, Frame, Mask, Place
from .emit_types import scalar_type, with_lanes
from .nest_choice import better
from .nest_extreme import Watch
from .nest_kept import KeptNest
from .nest_loops import STRETCH, Bound, Cell, Places
from .nest_plan import Plan
from .nest_rows import are_together, total_of_rows
from .nest_uses import Loop, uses_of

_AGAIN = ("min", "max", "and", "or")
"""Reductions to which a term may come twice: the last vector may begin earlier."""


class ReduceNest(KeptNest):
    """The body of one kernel."""

    def __init__(self, kernel: Reduce, plan: Plan, frame: Frame) -> None:
        super().__init__(kernel, plan, frame)
        self.together = self._are_together()
        op = kernel.op if plan.over_reduced and not self.together else ""
        self.watch = Watch(self.b, op, self.dtypes, plan.lanes, plan.vectors)

    def _are_together(self) -> bool:
        """Whether as many rows as there are lanes are joined together."""
        plan = self.plan
        if not plan.over_reduced or plan.rows != plan.lanes or not plan.outer:
            return False
        return are_together(self.kernel, plan, uses_of(self.kernel, self.frame), plan.outer[-1])

    def _tile(self, cells: list[Cell]) -> None:
        if self.together and len(cells) == self.plan.lanes:
            self._finish_together(cells)
        else:
            super()._tile(cells)

    def _finish_together(self, cells: list[Cell]) -> None:
        """Rows in the order of an index, a lane for each from the totals on."""
        first, second = cells[0].places, cells[1].places
        (index,) = (i for i, place in first.items() if place != second[i])
        here = Place(first[index].base, first[index].offset, True)
        point = self.frame.point(
            self.plan.lanes,
            {**{x: Place(None, 0) for x in self.plan.fixed}, **first, index: here},
            ranges=cells[0].ranges,
        )
        initial = [point.vector(point.value(x)) for x in self.kernel.initial]
        totals = []
        for number, dtype in enumerate(self.dtypes):
            combine = partial(self._both, dtype)
            rows = [partial(self._parts_of_row, cell, number) for cell in cells]
            total = total_of_rows(self.b, rows, dtype, combine)
            totals.append(combine(initial[number], total))
        self._hold(point, totals, True)
        values = [point.value(x) for x in self.kernel.results]
        for target, value in zip(self.kernel.targets, values, strict=True):
            point.store(target, value)

    def _both(self, dtype: DType, x: str, y: str) -> str:
        return emit_arith.combine(self.b, self.kernel.op, x, y, dtype, self.plan.lanes)

    def _parts_of_row(self, cell: Cell, number: int) -> str:
        """What the terms of a row come to in each lane, of one accumulator."""
        vector, lanes, dtype = self.plan.vector, self.plan.lanes, self.dtypes[number]
        assert vector is not None and isinstance(vector.extent, int)
        extent, total = vector.extent, ""
        for at in range(0, extent, lanes):
            mask = FULL
            if at + lanes > extent:
                if at and self.kernel.op in _AGAIN:
                    at = extent - lanes
                else:
                    mask = self._tail_mask(Place(None, at, True), extent)
            here = {vector.index: Place(None, at, True)}
            point = self._point(Cell(cell.places, mask, cell.ranges), here)
            value = point.vector(point.value(self.kernel.values[number]))
            if not mask.is_full:
                value = self._only_where(point, value, self._nothing(1)[number], dtype)
            total = self._both(dtype, total, value) if total else value
        return total

    def _horizontal(self, cells: list[Cell]) -> list[str]:
        """Sums along vectors: several accumulators per cell, joined at the end."""
        plan, width = self.plan, len(self.dtypes)
        size = width * plan.vectors
        start = [x for cell in cells for x in self._first_lanes(cell) * plan.vectors]
        start += self.watch.first() * len(cells)
        totals = self._sweeps(cells, start, {}, plan.reduced)
        out = []
        for n, cell in enumerate(cells):
            own = totals[n * size : (n + 1) * size]
            joined = self._joined([own[k : k + width] for k in range(0, size, width)])
            if self.watch.types:
                joined = self.watch.mended(joined, totals[self._flags(cells, n)])
            out += joined if self.choice else self._with_first(cell, joined)
        return out

    def _flags(self, cells: list[Cell], number: int) -> slice:
        """Where the flags of a cell are among what is carried."""
        count = len(self.watch.types)
        first = len(cells) * self.plan.vectors * len(self.dtypes) + number * count
        return slice(first, first + count)

    def _carried(self, cells: list[Cell], values: list[str]) -> list[tuple[str, str]]:
        """Accumulators and flags, with their types."""
        types = self._types(len(cells) * self.plan.vectors) + self.watch.types * len(cells)
        return list(zip(types, values, strict=True))

    def _first_lanes(self, cell: Cell) -> list[str]:
        """What the accumulators of all lanes begin with."""
        lanes = self.plan.lanes
        if self.choice is None:
            return self._nothing(1)
        one, all_lanes = self._point(cell, {}), self.frame.point(lanes, {})
        values = [one.value(x) for x in self.kernel.initial]
        return [all_lanes.vector(v) for v in values]

    def _with_first(self, cell: Cell, totals: list[str]) -> list[str]:
        """Totals combined with what the accumulators begin with."""
        point = self._point(cell, {})
        first = [point.value(x).text for x in self.kernel.initial]
        return [
            emit_arith.combine(self.b, self.kernel.op, x, total, dtype, 1)
            for x, total, dtype in zip(first, totals, self.dtypes, strict=True)
        ]

    def _sweeps(
        self, cells: list[Cell], accumulators: list[str], places: Places, rest: Sequence[Loop]
    ) -> list[str]:
        """The reduced loops around the vector's, then that loop."""
        if not rest:
            return self._sweep(cells, accumulators, places)
        loop, *rest = rest
        carried = self._carried(cells, accumulators)
        with self.b.loop(0, self.frame.count(loop.extent), 1, carried) as run:
            here = {**places, loop.index: Place(run.index)}
            run.carry(self._sweeps(cells, run.values, here, rest))
        return run.results

    def _sweep(self, cells: list[Cell], accumulators: list[str], places: Places) -> list[str]:
        plan = self.plan
        assert plan.vector is not None
        extent, lanes, vectors = plan.vector.extent, plan.lanes, plan.vectors
        step = lanes * vectors
        if not isinstance(extent, int):
            return self._open_sweep(cells, accumulators, places, extent)
        whole, full = extent // step * step, extent // lanes * lanes
        if whole == step:
            accumulators = self._stretch(cells, accumulators, places, 0, vectors, FULL)
        elif whole:
            accumulators = self._whole_sweep(cells, accumulators, places, whole)
        if full > whole:
            count = (full - whole) // lanes
            accumulators = self._stretch(cells, accumulators, places, whole, count, FULL)
        if extent > full and full and self.kernel.op in _AGAIN:
            return self._stretch(cells, accumulators, places, extent - lanes, 1, FULL)
        if extent > full:
            mask = self._tail_mask(Place(None, full, True), extent)
            accumulators = self._stretch(cells, accumulators, places, full, 1, mask)
        return accumulators

    def _whole_sweep(
        self, cells: list[Cell], accumulators: list[str], places: Places, end: int
    ) -> list[str]:
        """Several vectors at once up to `end`; long sums in stretches, which lose fewer bits."""
        step = self.plan.lanes * self.plan.vectors
        begin, long = 0, step * STRETCH
        if self.is_sum and end >= 2 * long:
            begin = end // long * long
            with self.b.loop(0, begin, long, self._carried(cells, accumulators)) as run:
                stop = self.b.pure(f"add nuw nsw i64 {run.index}, {long}", run.index)
                zeros = self._nothing(len(cells) * self.plan.vectors)
                sums = self._steady(cells, zeros, places, run.index, stop)
                run.carry(self._added(run.values, sums))
            accumulators = run.results
        if begin < end:
            accumulators = self._steady(cells, accumulators, places, begin, end)
        return accumulators

    def _steady(
        self, cells: list[Cell], accumulators: list[str], places: Places, begin: Bound, end: Bound
    ) -> list[str]:
        """Several vectors at once, from a number of terms to another."""
        vectors = self.plan.vectors
        carried = self._carried(cells, accumulators)
        with self.b.loop(begin, end, self.plan.lanes * vectors, carried) as run:
            run.carry(self._stretch(cells, run.values, places, run.index, vectors, FULL))
        return run.results

    def _open_sweep(
        self, cells: list[Cell], accumulators: list[str], places: Places, extent: Expr
    ) -> list[str]:
        """The same where the number of terms is not known: several vectors, single ones, a part."""
        plan, b, end = self.plan, self.b, self.frame.count(extent)
        whole = counts.multiple(b, end, plan.lanes * plan.vectors)
        full = counts.multiple(b, end, plan.lanes)
        at: Bound = 0
        stretches = [(whole, plan.vectors, False), (full, 1, False), (end, 1, True)]
        for stop, count, part in stretches[: 2 if plan.lanes == 1 else 3]:
            carried = self._carried(cells, accumulators)
            with b.loop(at, stop, plan.lanes * count, carried) as run:
                spot = Place(run.index, 0, True)
                mask = self._tail_mask(spot, extent) if part else FULL
                run.carry(self._stretch(cells, run.values, places, run.index, count, mask))
            accumulators, at = run.results, stop
        return accumulators

    def _stretch(
        self,
        cells: list[Cell],
        accumulators: list[str],
        places: Places,
        at: Bound,
        count: int,
        mask: Mask,
    ) -> list[str]:
        """`count` neighbouring vectors of terms, each into its own accumulator."""
        plan, width = self.plan, len(self.dtypes)
        assert plan.vector is not None
        out = list(accumulators)
        for n, cell in enumerate(cells):
            for k in range(count):
                spot = self._moved(at, k * plan.lanes)
                here = {**places, plan.vector.index: Place(spot.base, spot.offset, plan.lanes > 1)}
                where = (n * plan.vectors + k) * width
                old = out[where : where + width]
                point = self._point(Cell(cell.places, mask, cell.ranges), here)
                new = self._term(point, old)
                if not mask.is_full:
                    new = [
                        self._only_where(point, a, b, d)
                        for a, b, d in zip(new, old, self.dtypes, strict=True)
                    ]
                out[where : where + width] = new
            flags = self._flags(cells, n)
            out[flags] = self.watch.after(out[flags])
        return out

    def _joined(self, parts: list[list[str]]) -> list[str]:
        """All lanes of several vectors of each accumulator combined, by halves."""
        lanes = self.plan.lanes
        while len(parts) > 1:
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half : 2 * half], strict=True)
            parts = [self._join(x, y, lanes) for x, y in pairs] + parts[2 * half :]
        values = parts[0]
        while lanes > 1:
            half = lanes // 2
            lower, upper = (
                [self._lanes(x, d, lanes, n) for x, d in zip(values, self.dtypes, strict=True)]
                for n in (0, half)
            )
            values = self._join(lower, upper, half)
            lanes = half
        return values

    def _join(self, x: list[str], y: list[str], lanes: int) -> list[str]:
        if self.choice is not None:
            return better(self.b, self.kernel, self.choice, x, y, lanes)
        one = emit_arith.extreme_number if self.watch.types else emit_arith.combine
        triples = zip(x, y, self.dtypes, strict=True)
        return [one(self.b, self.kernel.op, *t, lanes) for t in triples]

    def _lanes(self, value: str, dtype: DType, lanes: int, first: int) -> str:
        """Half of the lanes of a vector, from the `first` on."""
        full, half = with_lanes(scalar_type(dtype), lanes), lanes // 2
        if half == 1:
            return self.b.pure(f"extractelement {full} {value}, i64 {first}", value)
        picks = ", ".join(f"i32 {k}" for k in range(first, first + half))
        text = f"shufflevector {full} {value}, {full} poison, <{half} x i32> <{picks}>"
        return self.b.pure(text, value)
