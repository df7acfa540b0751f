"""Emits the loops of a `Reduce`: over chunks, rows, vectors and the reduced indices.

What vectors along the reduced indices do is in `nest_reduce`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from ...dtypes import DType
from ...ir import shapes
from ...ir.loops import Reduce
from ...ir.nodes import ONE, Binary, Expr, Index
from ...ir.rewrite import accesses, used_locals
from ...records import dataclass, replace
from . import counts, emit_arith
from .emit import FULL, Frame, Mask, Place, Point, Value
from .emit_access import extent_of
from .emit_types import scalar_type, splat, vector_type, with_lanes
from .mathlib_core import Reals
from .nest_choice import choice_of, dtypes_of, with_steps
from .nest_extreme import Watch
from .nest_phase import runs_of
from .nest_plan import Plan, written_out
from .nest_share import divided, points_within, shares_of
from .nest_stream import write_streamed
from .nest_tiles import Tiles, beside_borders, steps_of, tiles_of
from .nest_uses import Loop, interior
from .sizes import Size, expression, lower, minus, size_of

Bound = counts.Count
Places = dict[Index, Place]
Ranges = dict[Index, tuple[Size, Size]]
Body = Callable[[Ranges], None]


STRETCH = 64
"""Terms of a long sum that are added up by themselves, which loses fewer bits than one by one."""
_FEW = 16
"""Numbers of terms below this are added to what is there, one by one."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One row and vector of a tile."""

    places: Places
    mask: Mask
    ranges: Ranges


class LoopNest(ABC):
    """The body of one kernel, but for vectors of terms."""

    def __init__(self, kernel: Reduce, plan: Plan, frame: Frame) -> None:
        self.choice = choice_of(kernel) if plan.over_reduced else None
        if self.choice is not None:
            kernel, step = with_steps(kernel, self.choice)
            self.choice = replace(self.choice, step=step)
        self.kernel = kernel
        self.plan = plan
        self.frame = frame
        self.b = frame.builder
        self.dtypes = dtypes_of(kernel)
        self.is_sum = kernel.op == "add" and all(d.is_real for d in self.dtypes)
        """Whether bits are lost with each term, the more of them the larger the sum already is."""
        self.shares = shares_of(plan, frame)
        self.interiors = {
            x: interior(kernel, x, {}) for x in self._domain_loops() if x.extent != ONE
        }
        self.guarded = {
            x for x, (a, z) in self.interiors.items() if (a, z) != (0, size_of(x.extent))
        }
        self.unrolled = written_out(self.kernel, self.plan)
        self.watch = Watch(self.b, "", self.dtypes, plan.lanes)
        """Of what is combined at the moment."""
        self.runs: dict[int, int] = {}
        """Targets that are written as one, and how many."""
        self.across: tuple[Bound, Bound] | None = None
        """Which vectors of each row are done, if not all."""
        if plan.vector is not None and plan.lanes > 1 and not plan.over_reduced:
            self.runs = runs_of(kernel, plan.vector.index, frame)
        read = {a.tensor for a in accesses(*kernel.initial, *kernel.values, *kernel.results)}
        frame.written.update(read.intersection(t.tensor for t in kernel.targets))
        self.conditions = () if kernel.condition is None else (kernel.condition,)
        self.used = used_locals(kernel.locals, *self.conditions, *kernel.values)
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

    # ------------------------------------------------------------ outer loops

    def emit(self) -> None:
        """All chunks from `%begin` to `%end`."""
        write_streamed(self.kernel, self.plan, self.frame, self._chunks)

    def _chunks(self) -> None:
        plan = self.plan
        places = {x: Place(None, 0) for x in plan.fixed}
        if self.shares.chunks == 1 and self.shares.pieces == 1:
            self._blocked(places, "0")
            return
        begin, end = (self.shares.first_piece(self.b, x) for x in ("%begin", "%end"))
        with self.b.loop(begin, end) as loop:
            number = loop.index
            block = "0"
            if plan.blocks > 1:
                block, number = divided(self.b, number, self.shares.blocks)
            for x in reversed(plan.outer[: plan.leading]):
                value, number = divided(self.b, number, self.frame.count(x.extent))
                places[x.index] = Place(value)
            self._blocked(places, block)

    def emit_within(
        self, shared: Sequence[Index], number: str, block: int, before: Index | None = None
    ) -> None:
        """All of it at some points of further indices, `block` of the last, given by a number; if
        there is one of the last, `before` is the value before it."""
        places = {x: Place(None, 0) for x in self.plan.fixed}
        others, begin, end = points_within(self.b, shared, number, block)
        places |= others
        if before is not None:
            places[before] = Place(begin, -1)
        rows = [Loop(shared[-1], extent_of(shared[-1])), *self.plan.outer]
        body = partial(self._rows, places, rows, (begin, end), {})
        write_streamed(self.kernel, self.plan, self.frame, body)

    def _blocked(self, places: Places, block: str) -> None:
        """The loops after the leading ones; the first of them in blocks."""
        plan = self.plan
        rest = plan.outer[plan.leading :]
        limits: tuple[Bound, Bound] | None = None
        if plan.blocks > 1:
            tiles = self._tiled(plan.leading)
            if plan.by_vectors:
                self.across = self._vectors_of(block)
            elif tiles is not None:
                low, high = self.shares.ends(self.b, block, tiles.count)
                limits = tiles.begin(self.b, low), tiles.begin(self.b, high)
            else:
                count = self._units(rest[0] if rest else None)
                limits = self.shares.ends(self.b, block, count)
        self._rows(places, rest, limits, {})

    def _vectors_of(self, block: str) -> tuple[Bound, Bound]:
        """Which vectors of a row a block has: whole tiles of them."""
        b, vectors, count = self.b, self.plan.vectors, self._units(None)
        tiles = counts.rounded_up(b, count, vectors)
        low, high = (counts.product(b, n, vectors) for n in self.shares.ends(b, block, tiles))
        return low, self._least(high, count)

    def _tiled(self, position: int) -> Tiles | None:
        """The tiles of rows of the loop at a position."""
        if position != len(self.plan.outer) - 1:
            return None
        row = self.plan.outer[position]
        inside = self.interiors[row.index] if row.index in self.guarded else (0, row.extent)
        return tiles_of(row.extent, inside, self.plan.rows)

    def _units(self, row: Loop | None) -> Bound:
        if row is not None:
            return self.frame.count(row.extent)
        assert self.plan.vector is not None
        extent = self.frame.count(self.plan.vector.extent)
        return counts.rounded_up(self.b, extent, self.plan.lanes)

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
        parts = [(begin, end, ranges, self.plan.rows)]
        if row.index in self.guarded:
            low, high = self._interior(row.index)
            inside = {**ranges, row.index: self._inside(row.index)}
            parts = [
                (begin, self._least(end, low), ranges, 1),
                (self._most(begin, low), self._least(end, high), inside, self.plan.rows),
                (self._most(begin, high), end, ranges, 1),
            ]
        is_last = bool(self.plan.outer) and row is self.plan.outer[-1]
        tiles = self._tiled(len(self.plan.outer) - 1) if is_last else None
        for first, last, known, count in parts:
            if isinstance(first, int) and isinstance(last, int) and first >= last:
                continue
            left = tiles.left if tiles is not None and count > 1 else None
            for at, rows in steps_of(self.b, first, last, count, left):
                group = [{**places, row.index: self._moved(at, k)} for k in range(rows)]
                self._vectors(group, self.across, known)

    def _moved(self, at: Bound, by: int) -> Place:
        return Place(None, at + by) if isinstance(at, int) else Place(at, by)

    def _least(self, a: Bound, b: Bound) -> Bound:
        return counts.least(self.b, a, b)

    def _most(self, a: Bound, b: Bound) -> Bound:
        return counts.most(self.b, a, b)

    # ---------------------------------------------------------------- vectors

    def _vectors(
        self, rows: list[Places], limits: tuple[Bound, Bound] | None, ranges: Ranges
    ) -> None:
        """The vector loop of a group of rows: borders under a mask, the inside without."""
        plan = self.plan
        if plan.vector is None or plan.over_reduced:
            self._tile([Cell(places, FULL, ranges) for places in rows])
            return
        if plan.strip is not None:
            strip = rows[0][plan.strip.index]
            first = counts.product(self.b, strip.base or strip.offset, plan.vectors)
            self._vector_tile(rows, first, plan.vectors, ranges, border=False)
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
        closed = limits is None and self._ends_inside(extent, low, high)
        if not isinstance(first, int) or not isinstance(last, int):
            last = self._most(last, first)
        elif last <= first and not closed:
            first = last = blocks
        if (
            limits is None and not closed
            and isinstance(first, int) and isinstance(last, int) and isinstance(blocks, int)
        ):  # fmt: skip
            left, right = beside_borders(first, last, blocks, plan.vectors)
            if left:
                border = self._cells(rows, 0, 1, ranges, border=True)
                self._tile(border + self._cells(rows, first, left, inside, border=False))
                begin = first = first + left
            if right:
                end = last = last - right
                border = self._cells(rows, blocks - 1, 1, ranges, border=True)
                self._tile(self._cells(rows, last, right, inside, border=False) + border)
        for start, stop, known, count in (
            (begin, self._least(end, first), ranges, 0),
            (self._most(begin, first), self._least(end, last), inside, plan.vectors),
            (self._most(begin, last), end, ranges, 0),
        ):
            if isinstance(start, int) and isinstance(stop, int) and start >= stop:
                continue
            if closed and start == last:
                assert isinstance(extent, int)
                spot = Place(None, extent - lanes, lanes > 1)
                self._tile([Cell({**p, index: spot}, FULL, inside) for p in rows])
                continue
            steps = steps_of(self.b, start, stop, max(count, 1))
            if isinstance(start, int) and isinstance(stop, int) and stop - start == 2 and not count:
                steps = ((at, 1) for at in (start, start + 1))  # lanes at the border are known
            for at, vectors in steps:
                self._vector_tile(rows, at, vectors, known, border=count == 0)

    def _ends_inside(self, extent: Bound, low: Bound, high: Bound) -> bool:
        """Whether what is left behind whole vectors can begin earlier, where all guards hold."""
        lanes = self.plan.lanes
        if not (isinstance(low, int) and isinstance(high, int) and isinstance(extent, int)):
            return False
        return self.repeatable and high == extent and extent % lanes > 0 and low <= extent - lanes

    def _is_regular(self, index: Index, extent: int) -> bool:
        """Whether no vector needs a mask: the last may begin earlier, and compute some elements
        again."""
        whole = extent % self.plan.lanes == 0 or self._may_begin_earlier(extent)
        return whole and index not in self.guarded

    def _may_begin_earlier(self, extent: int) -> bool:
        """Whether the last vector may compute some elements again."""
        return self.repeatable and extent > self.plan.lanes

    def _whole_row(self, rows: list[Places], index: Index, extent: int, ranges: Ranges) -> None:
        """A row without a mask: several vectors at once, and then those that are left."""
        lanes, vectors = self.plan.lanes, self.plan.vectors
        whole = extent // lanes // vectors * vectors
        for at, count in steps_of(self.b, 0, whole, vectors):
            self._vector_tile(rows, at, count, ranges, border=False)
        left = [min(n, extent - lanes) for n in range(whole * lanes, extent, lanes)]
        spots = [Place(None, n, lanes > 1) for n in left]
        if spots:
            self._tile([Cell({**p, index: x}, FULL, ranges) for p in rows for x in spots])

    def _vector_tile(
        self, rows: list[Places], at: Bound, vectors: int, ranges: Ranges, border: bool
    ) -> None:
        self._tile(self._cells(rows, at, vectors, ranges, border))

    def _cells(
        self, rows: list[Places], at: Bound, vectors: int, ranges: Ranges, border: bool
    ) -> list[Cell]:
        plan = self.plan
        assert plan.vector is not None
        index, extent, lanes = plan.vector.index, plan.vector.extent, plan.lanes
        tail = border and not shapes.divisible(expression(extent), lanes)
        if isinstance(at, int):
            place = Place(None, at * lanes, lanes > 1)
            tail = tail and not (isinstance(extent, int) and (at + 1) * lanes <= extent)
        else:
            place = Place(self.b.pure(f"mul nuw nsw i64 {at}, {lanes}", at), 0, lanes > 1)
        if tail and isinstance(extent, int) and self._may_begin_earlier(extent):
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
        return cells

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
        if rest[0].index in self.unrolled:
            points = itertools.product(*(range(cast(int, x.extent)) for x in rest))
            here = [{x.index: Place(None, n) for x, n in zip(rest, p, strict=True)} for p in points]
            return self._several(cells, accumulators, [{**places, **h} for h in here])
        loop, *rest = rest
        end = self.frame.count(loop.extent)
        return self._span(cells, accumulators, places, loop.index, (0, end), rest, end)

    def _span(
        self,
        cells: list[Cell],
        accumulators: list[str],
        places: Places,
        index: Index,
        span: tuple[Bound, Bound],
        rest: Sequence[Loop],
        count: Bound,
    ) -> list[str]:
        """A part of a reduced loop: `count` steps at most; many steps of a sum in stretches."""
        begin, end = span
        inner = math.prod(x.extent for x in rest if isinstance(x.extent, int))
        step = self._stretch_of(count, inner)
        many = inner >= _FEW and not (isinstance(count, int) and count < _FEW)
        with self.b.loop(begin, end, step, self._carry(cells, accumulators)) as run:
            fresh = self.is_sum and (step > 1 or many)
            values = self._nothing(len(cells)) if fresh else run.values
            if step > 1:
                stop = self.b.pure(f"add nuw nsw i64 {run.index}, {step}", run.index)
                part = (run.index, self._least(stop, end))
                values = self._span(cells, values, places, index, part, rest, step)
            else:
                here = {**places, index: Place(run.index)}
                values = self._reduce(cells, values, here, rest)
            run.carry(self._added(run.values, values) if fresh else values)
        return run.results

    def _stretch_of(self, count: Bound, inner: int) -> int:
        """Steps of a reduced loop, each of `inner` terms, that are added up by themselves."""
        if not self.is_sum:
            return 1
        if not isinstance(count, int):
            return STRETCH
        inner = inner if 0 < inner < _FEW else 1  # more are added up by themselves in each step
        terms = 1
        while count * inner >= 2 * terms * STRETCH:
            terms *= STRETCH
        return max(terms // inner, 1)

    def _carry(self, cells: list[Cell], accumulators: list[str]) -> list[tuple[str, str]]:
        return list(zip(self._types(len(cells)), accumulators, strict=True))

    def _nothing(self, cells: int) -> list[str]:
        """Accumulators to which nothing was added yet."""
        op, lanes = self.kernel.op, self.plan.lanes
        each = (splat(emit_arith.neutral(op, d), scalar_type(d), lanes) for d in self.dtypes)
        return [*each] * cells

    def _added(self, values: Sequence[str], sums: Sequence[str]) -> list[str]:
        dtypes, lanes = self.dtypes * (len(sums) // len(self.dtypes)), self.plan.lanes
        triples = zip(values, sums, dtypes, strict=True)
        return [emit_arith.combine(self.b, self.kernel.op, *t, lanes) for t in triples]

    def _types(self, cells: int) -> list[str]:
        return [vector_type(d, self.plan.lanes) for _ in range(cells) for d in self.dtypes]

    def _several(self, cells: list[Cell], totals: list[str], terms: list[Places]) -> list[str]:
        """A few points of the reduction, one after the other, in every cell; where cells are so few
        that each point would wait for the one before, every second one in sums of their own."""
        given = self.b, self.kernel.op, self.dtypes, self.plan.lanes
        watches = [Watch(*given) for _ in cells if len(terms) > 1]
        room = 0 if self.frame.target is None else self.frame.target.registers // 4
        waits = self.is_sum and len(totals) < room and len(terms) >= _FEW
        sums = [totals, self._nothing(len(cells))] if waits else [totals]
        for n, places in enumerate(terms):
            sums[n % len(sums)] = self._terms(cells, sums[n % len(sums)], places, watches)
        totals = self._added(*sums) if len(sums) > 1 else sums[0]
        if not watches or not watches[0].types:
            return totals
        size = len(self.dtypes)
        parts = (w.mended_lanes(totals[n * size :][:size]) for n, w in enumerate(watches))
        return [x for p in parts for x in p]

    def _terms(
        self,
        cells: list[Cell],
        accumulators: list[str],
        places: Places,
        watches: Sequence[Watch] = (),
    ) -> list[str]:
        """One point of the reduction, in every cell, which may have a watch each."""
        out = []
        width, before = len(self.dtypes), self.watch
        for n, cell in enumerate(cells):
            self.watch = watches[n] if watches else before
            point = self._point(cell, places)
            out += self._term(point, accumulators[n * width : (n + 1) * width])
        self.watch = before
        return out

    def _term(self, point: Point, accumulators: list[str]) -> list[str]:
        kernel = self.kernel
        if kernel.op == "update":
            self._hold(point, accumulators, point.lanes > 1)
        reached = point.guarded(*kernel.locals, *self.conditions, *kernel.values)
        reached.test(self.used)
        inner = reached
        for c in self.conditions:
            inner = inner.only(inner.value(c))
        out = []
        for old, expr, dtype in zip(accumulators, kernel.values, self.dtypes, strict=True):
            plain = kernel.op == "update" and not reached.has_effect(expr)
            new = self._combined(reached if plain else inner, old, expr, dtype)
            if inner.mask is not point.mask and not self.watch.types:
                new = self._only_where(inner, new, old, dtype)
            out.append(new)
        return out

    def _hold(self, point: Point, accumulators: list[str], vector: bool) -> None:
        """Let expressions read the accumulators."""
        for local, text, dtype in zip(
            self.kernel.accumulators, accumulators, self.dtypes, strict=True
        ):
            point.values[local] = Value(text, dtype, vector)

    def _combined(self, point: Point, old: str, expr: Expr, dtype: DType) -> str:
        lanes = point.lanes
        adds = self.kernel.op == "add" and dtype.is_real
        if adds and isinstance(expr, Binary) and expr.op == "mul":
            a, b = point.value(expr.lhs), point.value(expr.rhs)
            return Reals(self.b, dtype, lanes).fma(point.vector(a), point.vector(b), old)
        value = point.vector(point.value(expr))
        if self.watch.types:
            if not point.mask.is_full:
                value = self._only_where(point, value, old, dtype)
            return self.watch.combine(old, value, dtype)
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
            self._hold(point, group, wide and point.lanes > 1)
            stores.append((point, [point.value(x) for x in self.kernel.results]))
        for point, values in stores:
            at = 0
            while at < len(values):
                count = self.runs.get(at, 1)
                point.store(self.kernel.targets[at], *values[at : at + count])
                at += count

    @abstractmethod
    def _horizontal(self, cells: list[Cell]) -> list[str]:
        """The totals of cells, by vectors along the terms."""
