"""Emits a `Reduce` as loops over chunks, rows, vectors and the reduced indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...dtypes import DType
from ...ir import shapes
from ...ir.loops import Reduce
from ...ir.nodes import ONE, Binary, Expr, Index
from ...ir.rewrite import accesses, walk
from . import counts, emit_arith
from .emit import FULL, Frame, Mask, Place, Point, Value
from .emit_access import extent_of
from .emit_types import scalar_type, splat, vector_type, with_lanes
from .mathlib_core import Reals
from .nest_plan import Loop, Plan, dtypes_of, interior
from .nest_share import shares_of
from .sizes import Size, expression, lower, minus, size_of

Bound = counts.Count
Places = dict[Index, Place]
Ranges = dict[Index, tuple[Size, Size]]
Body = Callable[[Ranges], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One row and vector of a tile."""

    places: Places
    mask: Mask
    ranges: Ranges


class ReduceNest:
    """The body of one kernel."""

    def __init__(self, kernel: Reduce, plan: Plan, frame: Frame) -> None:
        self.kernel = kernel
        self.plan = plan
        self.frame = frame
        self.b = frame.builder
        self.dtypes = dtypes_of(kernel)
        self.shares = shares_of(plan, frame)
        self.interiors = {
            x: interior(kernel, x, {}) for x in self._domain_loops() if x.extent != ONE
        }
        self.guarded = {
            x for x, (a, z) in self.interiors.items() if (a, z) != (0, size_of(x.extent))
        }
        self.unrolled = self._unrolled()
        read = {a.tensor for a in accesses(*kernel.initial, *kernel.values, *kernel.results)}
        frame.written.update(read.intersection(t.tensor for t in kernel.targets))
        self.repeatable = not frame.written
        """Whether an element may be computed twice: not if it depends on what it was."""

    def _domain_loops(self) -> list[Index]:
        loops = [x.index for x in self.plan.outer]
        if self.plan.vector is not None and not self.plan.over_reduced:
            loops.append(self.plan.vector.index)
        merged = {x.index for x in self.plan.outer if x.extent != size_of(x.index.extent)}
        vector = self.plan.vector
        if vector is not None and vector.extent != size_of(vector.index.extent):
            merged.add(vector.index)
        return [x for x in loops if x not in merged]

    def _unrolled(self) -> set[Index]:
        """The innermost reduced loops that are written out."""
        plan = self.plan
        size = sum(1 for _ in walk(*self.kernel.values)) + 2
        room = plan.unroll / (size * plan.rows * plan.vectors)
        out: set[Index] = set()
        if plan.over_reduced:
            return out
        for loop in reversed(plan.reduced):
            room /= max(loop.extent, 1) if isinstance(loop.extent, int) else math.inf
            if room < 1:
                break
            out.add(loop.index)
        return out

    # ------------------------------------------------------------ outer loops

    def emit(self) -> None:
        """All chunks from `%begin` to `%end`."""
        plan = self.plan
        places = {x: Place(None, 0) for x in plan.fixed}
        if self.shares.chunks == 1 and self.shares.pieces == 1:
            self._blocked(places, "0")
            return
        with self.b.loop(self._part("%begin"), self._part("%end")) as loop:
            number = loop.index
            block = "0"
            if plan.blocks > 1:
                block, number = self._divide(number, self.shares.blocks)
            for x in reversed(plan.outer[: plan.leading]):
                value, number = self._divide(number, self.frame.count(x.extent))
                places[x.index] = Place(value)
            self._blocked(places, block)

    def emit_within(self, shared: Sequence[Index], number: str, block: int) -> None:
        """All of it at some points of further indices, `block` of the last, given by a number."""
        places = {x: Place(None, 0) for x in self.plan.fixed}
        extent = extent_of(shared[-1])
        value, number = self._divide(number, -(-extent // block))
        begin = self.b.pure(f"mul nuw nsw i64 {value}, {block}", value)
        end = self._least(self.b.pure(f"add nuw nsw i64 {begin}, {block}", begin), extent)
        for x in reversed(shared[:-1]):
            value, number = self._divide(number, extent_of(x))
            places[x] = Place(value)
        self.frame.first = begin
        self._rows(places, [Loop(shared[-1], extent), *self.plan.outer], (begin, end), {})

    def _part(self, chunk: str) -> str:
        """Where a chunk begins in all pieces of work."""
        chunks, pieces = self.shares.chunks, self.shares.pieces
        if chunks == pieces:
            return chunk
        scaled = self.b.pure(f"mul nuw nsw i64 {chunk}, {pieces}", chunk, str(pieces))
        parts = chunks if isinstance(chunks, int) else counts.most(self.b, chunks, 1)
        return self.b.pure(f"udiv i64 {scaled}, {parts}", scaled, str(parts))

    def _divide(self, number: str, extent: Bound) -> tuple[str, str]:
        """Remainder and quotient."""
        rest = self.b.pure(f"urem i64 {number}, {extent}", number, str(extent))
        return rest, self.b.pure(f"udiv i64 {number}, {extent}", number, str(extent))

    def _blocked(self, places: Places, block: str) -> None:
        """The loops after the leading ones; the first of them in blocks."""
        plan = self.plan
        rest = plan.outer[plan.leading :]
        limits: tuple[Bound, Bound] | None = None
        if plan.blocks > 1:
            count = self._units(rest[0] if rest else None)
            low = self._share_of(block, count)
            following = self.b.pure(f"add nuw nsw i64 {block}, 1", block)
            limits = (low, self._share_of(following, count))
        self._rows(places, rest, limits, {})

    def _units(self, row: Loop | None) -> Bound:
        if row is not None:
            return self.frame.count(row.extent)
        assert self.plan.vector is not None
        extent = self.frame.count(self.plan.vector.extent)
        return counts.rounded_up(self.b, extent, self.plan.lanes)

    def _share_of(self, block: str, count: Bound) -> str:
        blocks = self.shares.blocks
        scaled = self.b.pure(f"mul nuw nsw i64 {block}, {count}", block, str(count))
        return self.b.pure(f"udiv i64 {scaled}, {blocks}", scaled, str(blocks))

    def _rows(
        self, places: Places, rest: list[Loop], limits: tuple[Bound, Bound] | None, ranges: Ranges
    ) -> None:
        """Plain loops, then the row loop, then the vectors."""
        if not rest:
            self._with_insides(places, ranges, lambda r: self._vectors([places], limits, r))
            return
        row, *rest = rest
        begin, end = limits or (0, self.frame.count(row.extent))
        if rest:
            with self.b.loop(begin, end) as loop:
                self._rows({**places, row.index: Place(loop.index)}, rest, None, ranges)
            return
        self._with_insides(places, ranges, lambda r: self._row_loop(places, row, begin, end, r))

    def _with_insides(self, places: Places, ranges: Ranges, body: Body) -> None:
        """The body for the inside of all guarded outer indices placed so far, and for the rest."""
        tests, inside = [], dict(ranges)
        for x, place in places.items():
            if x not in self.guarded or place.base is None or x in ranges:
                continue
            low, high = self._interior(x)
            if low == high:
                continue
            inside[x] = self._inside(x)
            room = counts.difference(self.b, high, low)
            moved = self.b.pure(f"sub i64 {place.base}, {low}", place.base, str(low))
            tests.append(self.b.pure(f"icmp ult i64 {moved}, {room}", moved, str(room)))
        if not tests:
            body(ranges)
            return
        test = tests[0]
        for other in tests[1:]:
            test = self.b.pure(f"and i1 {test}, {other}", test, other)
        arms = self.b.branches(test)
        with arms.then():
            body(inside)
        with arms.other():
            body(ranges)

    def _interior(self, index: Index) -> tuple[Bound, Bound]:
        """The half-open range in which all guards of an index hold, not of negative length."""
        low, high = self.interiors[index]
        first, last = self.frame.amount(low), self.frame.amount(high)
        known = lower(minus(high, low)) >= 0
        return first, last if known else counts.most(self.b, first, last)

    def _inside(self, index: Index) -> tuple[Size, Size]:
        low, high = self.interiors[index]
        return low, minus(high, 1)

    def _row_loop(
        self, places: Places, row: Loop, begin: Bound, end: Bound, ranges: Ranges
    ) -> None:
        """Rows at the border one by one, those inside several at once."""
        low: Bound = 0
        high, inside = self.frame.count(row.extent), ranges
        if row.index in self.guarded:
            low, high = self._interior(row.index)
            inside = {**ranges, row.index: self._inside(row.index)}
        for first, last, known, count in (
            (begin, self._least(end, low), ranges, 1),
            (self._most(begin, low), self._least(end, high), inside, self.plan.rows),
            (self._most(begin, high), end, ranges, 1),
        ):
            if isinstance(first, int) and isinstance(last, int) and first >= last:
                continue
            for at, rows in self._steps(first, last, count):
                group = [{**places, row.index: self._moved(at, k)} for k in range(rows)]
                self._vectors(group, None, known)

    def _moved(self, at: Bound, by: int) -> Place:
        return Place(None, at + by) if isinstance(at, int) else Place(at, by)

    def _least(self, a: Bound, b: Bound) -> Bound:
        return counts.least(self.b, a, b)

    def _most(self, a: Bound, b: Bound) -> Bound:
        return counts.most(self.b, a, b)

    def _steps(self, first: Bound, last: Bound, count: int) -> Iterator[tuple[Bound, int]]:
        """Loops from `first` to `last`, by `count` and then by one; few steps are written out."""
        if isinstance(first, int) and isinstance(last, int):
            whole = first + (last - first) // count * count
            if whole == first + count:
                yield first, count
            elif whole > first:
                with self.b.loop(first, whole, count) as loop:
                    yield loop.index, count
            yield from self._singles(whole, last, count)
            return
        if count == 1:
            with self.b.loop(first, last) as loop:
                yield loop.index, 1
            return
        size = self.b.pure(f"sub i64 {last}, {first}", str(last), str(first))
        rest = self.b.pure(f"srem i64 {size}, {count}", size)
        rest = str(self._most(rest, 0))
        middle = self.b.pure(f"sub i64 {last}, {rest}", str(last), rest)
        with self.b.loop(first, middle, count) as loop:
            yield loop.index, count
        start = self._most(middle, first)
        with self.b.loop(start, last) as loop:
            yield loop.index, 1

    def _singles(self, first: int, last: int, count: int) -> Iterator[tuple[Bound, int]]:
        if last - first == 1 or (count > 1 and last - first == 2):
            for n in range(first, last):
                yield n, 1
        elif last > first:
            with self.b.loop(first, last) as loop:
                yield loop.index, 1

    # ---------------------------------------------------------------- vectors

    def _vectors(
        self, rows: list[Places], limits: tuple[Bound, Bound] | None, ranges: Ranges
    ) -> None:
        """The vector loop of a group of rows: borders under a mask, the inside without."""
        plan = self.plan
        if plan.vector is None or plan.over_reduced:
            self._tile([Cell(places, FULL, ranges) for places in rows])
            return
        index, lanes = plan.vector.index, plan.lanes
        extent = self.frame.count(plan.vector.extent)
        if limits is None and isinstance(extent, int) and self._is_regular(index, extent):
            self._whole_row(rows, index, extent, ranges)
            return
        blocks = counts.rounded_up(self.b, extent, lanes)
        begin, end = limits or (0, blocks)
        low: Bound = 0
        high, inside = extent, ranges
        if index in self.guarded:
            low, high = self._interior(index)
            inside = {**ranges, index: self._inside(index)}
        first, last = counts.rounded_up(self.b, low, lanes), counts.quotient(self.b, high, lanes)
        if not isinstance(first, int) or not isinstance(last, int):
            last = self._most(last, first)
        elif last <= first:
            first = last = blocks
        for start, stop, known, count in (
            (begin, self._least(end, first), ranges, 0),
            (self._most(begin, first), self._least(end, last), inside, plan.vectors),
            (self._most(begin, last), end, ranges, 0),
        ):
            if isinstance(start, int) and isinstance(stop, int) and start >= stop:
                continue
            for at, vectors in self._steps(start, stop, max(count, 1)):
                self._vector_tile(rows, at, vectors, known, border=count == 0)

    def _is_regular(self, index: Index, extent: int) -> bool:
        """Whether no vector needs a mask: the last may begin earlier, and compute some elements
        again."""
        whole = extent % self.plan.lanes == 0 or (self.repeatable and extent > self.plan.lanes)
        return whole and index not in self.guarded

    def _whole_row(self, rows: list[Places], index: Index, extent: int, ranges: Ranges) -> None:
        """A row without a mask: several vectors at once, and then those that are left."""
        lanes, vectors = self.plan.lanes, self.plan.vectors
        whole = extent // lanes // vectors * vectors
        for at, count in self._steps(0, whole, vectors):
            self._vector_tile(rows, at, count, ranges, border=False)
        left = [min(n, extent - lanes) for n in range(whole * lanes, extent, lanes)]
        spots = [Place(None, n, lanes > 1) for n in left]
        if spots:
            self._tile([Cell({**p, index: x}, FULL, ranges) for p in rows for x in spots])

    def _vector_tile(
        self, rows: list[Places], at: Bound, vectors: int, ranges: Ranges, border: bool
    ) -> None:
        plan = self.plan
        assert plan.vector is not None
        index, extent, lanes = plan.vector.index, plan.vector.extent, plan.lanes
        tail = border and not shapes.divisible(expression(extent), lanes)
        if isinstance(at, int):
            place = Place(None, at * lanes, lanes > 1)
            tail = tail and not (isinstance(extent, int) and (at + 1) * lanes <= extent)
        else:
            place = Place(self.b.pure(f"mul nuw nsw i64 {at}, {lanes}", at), 0, lanes > 1)
        if tail and isinstance(extent, int) and self._is_regular(index, extent):
            tail = False
            if place.base is None:
                place = Place(None, extent - lanes, True)
            else:
                place = Place(str(self._least(place.base, extent - lanes)), 0, True)
        cells = []
        for places in rows:
            for n in range(vectors):
                spot = Place(place.base, place.offset + n * lanes, place.vector)
                mask = self._tail_mask(spot, extent) if tail else FULL
                cells.append(Cell({**places, index: spot}, mask, ranges))
        self._tile(cells)

    def _tail_mask(self, place: Place, extent: Size) -> Mask:
        """The lanes whose index is below the extent."""
        lanes = self.plan.lanes
        if place.base is None and isinstance(extent, int):
            flags = ", ".join(f"i1 {str(place.offset + k < extent).lower()}" for k in range(lanes))
            return Mask(None, f"<{flags}>")
        point = self.frame.point(lanes, {})
        room = self.frame.amount(minus(extent, place.offset))
        left = str(counts.difference(self.b, room, place.base or 0))
        all_lanes = with_lanes("i64", lanes)
        steps = ", ".join(f"i64 {lane}" for lane in range(lanes))
        spread = point.spread(left, "i64")
        return Mask(None, self.b.pure(f"icmp slt {all_lanes} <{steps}>, {spread}", spread))

    # ------------------------------------------------------------------- tile

    def _tile(self, cells: list[Cell]) -> None:
        """Initial values, the reduction, results and stores of several cells."""
        if self.plan.over_reduced:
            size = max(1, 8 // self.plan.vectors)
            for group in (cells[n : n + size] for n in range(0, len(cells), size)):
                self._finish(group, self._horizontal(group))
            return
        first = []
        for cell in cells:
            point = self._point(cell, {})
            first += [point.vector(point.value(x)) for x in self.kernel.initial]
        totals = first
        if self.kernel.values:
            totals = self._reduce(cells, first, {}, self.plan.reduced)
        self._finish(cells, totals)

    def _point(self, cell: Cell, reduced: Places) -> Point:
        lanes = 1 if self.plan.over_reduced and not reduced else self.plan.lanes
        fixed = {x: Place(None, 0) for x in self.plan.fixed}
        return self.frame.point(
            lanes, {**fixed, **cell.places, **reduced}, mask=cell.mask, ranges=cell.ranges
        )

    def _reduce(
        self, cells: list[Cell], accumulators: list[str], places: Places, rest: Sequence[Loop]
    ) -> list[str]:
        """The reduced loops from here inwards; gives the new accumulators."""
        if not rest:
            return self._terms(cells, accumulators, places)
        loop, *rest = rest
        if loop.index in self.unrolled:
            assert isinstance(loop.extent, int)
            for n in range(loop.extent):
                here = {**places, loop.index: Place(None, n)}
                accumulators = self._reduce(cells, accumulators, here, rest)
            return accumulators
        carried = list(zip(self._types(len(cells)), accumulators, strict=True))
        with self.b.loop(0, self.frame.count(loop.extent), 1, carried) as run:
            here = {**places, loop.index: Place(run.index)}
            run.carry(self._reduce(cells, run.values, here, rest))
        return run.results

    def _types(self, cells: int) -> list[str]:
        return [vector_type(d, self.plan.lanes) for _ in range(cells) for d in self.dtypes]

    def _terms(self, cells: list[Cell], accumulators: list[str], places: Places) -> list[str]:
        """One point of the reduction, in every cell."""
        out = []
        width = len(self.dtypes)
        for n, cell in enumerate(cells):
            point = self._point(cell, places)
            out += self._term(point, accumulators[n * width : (n + 1) * width])
        return out

    def _term(self, point: Point, accumulators: list[str]) -> list[str]:
        kernel = self.kernel
        condition = [] if kernel.condition is None else [kernel.condition]
        inner = point.guarded(*kernel.locals, *condition, *kernel.values)
        for c in condition:
            inner = inner.only(inner.value(c))
        out = []
        for old, expr, dtype in zip(accumulators, kernel.values, self.dtypes, strict=True):
            new = self._combined(inner, old, expr, dtype)
            if inner.mask is not point.mask:
                new = self._only_where(inner, new, old, dtype)
            out.append(new)
        return out

    def _combined(self, point: Point, old: str, expr: Expr, dtype: DType) -> str:
        lanes = point.lanes
        if (
            self.kernel.op == "add"
            and dtype.is_real
            and isinstance(expr, Binary)
            and expr.op == "mul"
        ):
            a, b = point.value(expr.lhs), point.value(expr.rhs)
            return Reals(self.b, dtype, lanes).fma(point.vector(a), point.vector(b), old)
        value = point.vector(point.value(expr))
        return emit_arith.combine(self.b, self.kernel.op, old, value, dtype, lanes)

    def _only_where(self, point: Point, new: str, old: str, dtype: DType) -> str:
        type = vector_type(dtype, point.lanes)
        if point.mask.each is None:
            flag, bits = point.mask.all, "i1"
            assert flag is not None
        else:
            flag, bits = point.mask_text(point.mask), with_lanes("i1", point.lanes)
        return self.b.pure(f"select {bits} {flag}, {type} {new}, {type} {old}", flag, new, old)

    def _finish(self, cells: list[Cell], totals: list[str]) -> None:
        """Results from the accumulators, all computed before any is stored."""
        width, wide = len(self.dtypes), not self.plan.over_reduced
        stores = []
        for n, cell in enumerate(cells):
            point = self._point(cell, {})
            group = totals[n * width : (n + 1) * width]
            for local, text, dtype in zip(
                self.kernel.accumulators, group, self.dtypes, strict=True
            ):
                point.values[local] = Value(text, dtype, wide and point.lanes > 1)
            stores += [
                (point, target, point.value(x))
                for target, x in zip(self.kernel.targets, self.kernel.results, strict=True)
            ]
        for point, target, value in stores:
            point.store(target, value)

    # ------------------------------------------------- vectors over the terms

    def _horizontal(self, cells: list[Cell]) -> list[str]:
        """Sums along vectors: several accumulators per cell, joined at the end."""
        plan, lanes = self.plan, self.plan.lanes
        start = [
            splat(emit_arith.neutral(self.kernel.op, d), scalar_type(d), lanes)
            for _ in range(len(cells) * plan.vectors)
            for d in self.dtypes
        ]
        totals = self._sweeps(cells, start, {}, plan.reduced)
        out = []
        width, size = len(self.dtypes), len(self.dtypes) * plan.vectors
        for n, cell in enumerate(cells):
            point = self._point(cell, {})
            for k, (dtype, first) in enumerate(zip(self.dtypes, self.kernel.initial, strict=True)):
                own = totals[n * size + k : (n + 1) * size : width]
                total = self._joined(own, dtype)
                value = point.value(first).text
                out.append(emit_arith.combine(self.b, self.kernel.op, value, total, dtype, 1))
        return out

    def _sweeps(
        self, cells: list[Cell], accumulators: list[str], places: Places, rest: Sequence[Loop]
    ) -> list[str]:
        """The reduced loops around the vector's, then that loop."""
        if not rest:
            return self._sweep(cells, accumulators, places)
        loop, *rest = rest
        carried = list(zip(self._types(len(cells) * self.plan.vectors), accumulators, strict=True))
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
            types = self._types(len(cells) * vectors)
            with self.b.loop(0, whole, step, list(zip(types, accumulators, strict=True))) as run:
                run.carry(self._stretch(cells, run.values, places, run.index, vectors, FULL))
            accumulators = run.results
        if full > whole:
            count = (full - whole) // lanes
            accumulators = self._stretch(cells, accumulators, places, whole, count, FULL)
        if extent > full:
            mask = self._tail_mask(Place(None, full, True), extent)
            accumulators = self._stretch(cells, accumulators, places, full, 1, mask)
        return accumulators

    def _open_sweep(
        self, cells: list[Cell], accumulators: list[str], places: Places, extent: Expr
    ) -> list[str]:
        """The same where the number of terms is not known: several vectors, single ones, a part."""
        plan, b, end = self.plan, self.b, self.frame.count(extent)
        types = self._types(len(cells) * plan.vectors)
        whole = counts.multiple(b, end, plan.lanes * plan.vectors)
        full = counts.multiple(b, end, plan.lanes)
        at: Bound = 0
        stretches = [(whole, plan.vectors, False), (full, 1, False), (end, 1, True)]
        for stop, count, part in stretches[: 2 if plan.lanes == 1 else 3]:
            carried = list(zip(types, accumulators, strict=True))
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
        return out

    def _joined(self, accumulators: list[str], dtype: DType) -> str:
        """All lanes of several vectors combined, by halves."""
        b, op, lanes = self.b, self.kernel.op, self.plan.lanes
        while len(accumulators) > 1:
            half = len(accumulators) // 2
            pairs = zip(accumulators[:half], accumulators[half : 2 * half], strict=True)
            joined = [emit_arith.combine(b, op, x, y, dtype, lanes) for x, y in pairs]
            accumulators = joined + accumulators[2 * half :]
        value = accumulators[0]
        scalar = scalar_type(dtype)
        while lanes > 1:
            half, full = lanes // 2, with_lanes(scalar, lanes)
            parts = []
            for start in (0, half):
                picks = ", ".join(f"i32 {k}" for k in range(start, start + half))
                text = f"shufflevector {full} {value}, {full} poison, <{half} x i32> <{picks}>"
                parts.append(b.pure(text, value))
            if half == 1:
                parts = [b.pure(f"extractelement {full} {value}, i64 {k}", value) for k in (0, 1)]
            value = emit_arith.combine(b, op, parts[0], parts[1], dtype, half)
            lanes = half
        return value
