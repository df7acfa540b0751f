"""Emits a `Group` with bands: a function for each of its kernels, called in turn at the rows that
a band of the last one's results needs.

A thread keeps the rows of local tensors that belong to one band; a sum of products is planned for
one row, with all results of it that other operands tell apart as columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.loops import Bands, Group, Reduce
from ...ir.nodes import Index, Tensor
from ...passes.bands import Reach, dimension_of, ranges_of, reaches_of
from ...records import replace
from .builder import Builder
from .chunks import MOST_CHUNKS, chunks_of
from .contraction_cost import estimate
from .contraction_form import Form, find_form
from .contraction_plan import Plan, plans_of_sides
from .contraction_space import plus, smax, smin, times
from .contraction_words import find_words, with_strides, with_views
from .emit import Frame
from .emit_access import extent_of
from .emit_parts import Kept
from .emit_types import width
from .group_memory import CLASH, LINE, Room
from .group_writer import GroupWriter, divided, name_of
from .kernels import KernelCode, Strides
from .matrix_choice import may_multiply, ranked_plans
from .nest_plan import make_plan
from .nest_reduce import ReduceNest
from .nest_stream import FENCE, streamed
from .sizes import likely, row_major, sizes_of
from .target import Target
from .words import may_round

LEAST_SIDE = 4
"""Rows and columns of a product that has code of its own."""


def write_bands(
    group: Group,
    bands: Bands,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
) -> KernelCode:
    """The code of a group with bands, whose sizes are known."""
    return _Writer(group, bands, strides, target, constant).code()


class _Writer(GroupWriter):
    def __init__(
        self,
        group: Group,
        bands: Bands,
        strides: Strides,
        target: Target,
        constant: frozenset[Tensor],
    ) -> None:
        rooms = [_room(group, bands, n, strides) for n in range(len(group.local))]
        super().__init__(group, rooms, strides, target, constant)
        self.bands = bands
        self.reaches = reaches_of(group.kernels, bands.rows)
        self.all_rows = extent_of(bands.rows[-1])
        self.count = -(-self.all_rows // bands.height)
        self.blocks = [1] * len(group.kernels)
        """How many blocks of a product a row of a kernel has."""
        self.products: set[int] = set()
        self.offsets: list[int] = []
        starts = range(0, self.all_rows, bands.height)
        ends = [min(n + bands.height, self.all_rows) for n in starts]
        kernels = len(group.kernels)
        done = [ranges_of(n, e, kernels, self.reaches) for n, e in zip(starts, ends, strict=True)]
        for room in rooms:
            self.offsets.append(self.scratch)
            most = max(len(d[room.first]) for d in done)
            self.scratch += (-(-most * room.step // LINE) + 1) * LINE

    def code(self) -> KernelCode:
        texts = [self._part(n) for n in range(len(self.group.kernels))]
        points = math.prod(map(extent_of, self.group.shared)) * self.count
        chunks = max(1, min(points, chunks_of(self.work), MOST_CHUNKS))
        self._main(points, chunks)
        return self._code(texts, chunks, "bands")

    # --------------------------------------------------------------- parts

    def _part(self, number: int) -> str:
        """The functions of a kernel."""
        kernel = self.group.kernels[number]
        points = (*self.group.shared, self.bands.rows[number])
        plan = self._plan(kernel, points)
        strides = self.strides if plan is None else with_strides(plan.form, self.strides)
        frame = self.frame.part(name_of(number), strides)
        self._tell(frame, number)
        if plan is None:
            text = self._nest(kernel, points, frame)
        else:
            self.products.add(number)
            self.blocks[number] = plan.blocks // math.prod(map(extent_of, points))
            text = self._product(number, frame, plan, strides)
        self.frame.builder.declarations |= frame.builder.declarations
        return text

    def _nest(self, kernel: Reduce, points: Sequence[Index], frame: Frame) -> str:
        inner = replace(kernel, domain=kernel.domain[len(points) :])
        frame.fences = False
        frame.builder.rounds = may_round(kernel, self.target)
        plan = make_plan(inner, frame, self.target)
        self.work += plan.work * math.prod(map(extent_of, points))
        plan = replace(plan, leading=0, blocks=1, chunks=1)
        nest = ReduceNest(inner, plan, frame)
        self.streams |= bool(streamed(inner, plan, frame))
        self.own_scratch = max(self.own_scratch, nest.scratch)
        nest.emit_within(points, "%begin", 1)
        frame.builder.line("ret void")
        return frame.builder.text()

    def _plan(self, kernel: Reduce, points: Sequence[Index]) -> Plan | None:
        """How a kernel is done a row at a time; None if it is no product."""
        words = find_words(kernel, self.strides, self.target)
        found = find_form(kernel, self.strides) if words is None else words
        plans = [] if found is None else [*self._by_panels(found, points)]
        if plans and words is not None:
            found = find_words(kernel, self.strides, self.target, matrices=True)
        if plans and found is not None:
            plans += self._by_matrices(found, points)
        if not plans:
            return None
        return replace(min(plans, key=lambda p: p[0])[1], grain=1, asks_ahead=False)

    def _by_panels(self, form: Form, points: Sequence[Index]) -> Iterator[tuple[float, Plan]]:
        """Plans of multiply-adds, and when all are done."""
        row = of_row(form, points)
        strides, constant = with_strides(form, self.strides), with_views(form, self.constant)
        target = self.target if form.words is None else form.words.room(self.target)
        if row is None:
            return
        for a, b in ((row.left, row.right), (row.right, row.left))[: 1 if form.words else 2]:
            for plan in plans_of_sides(row, a, b, strides, target, constant):
                if not plan.is_streamed:
                    yield estimate(plan, strides, target) / 2, plan

    def _by_matrices(self, form: Form, points: Sequence[Index]) -> Sequence[tuple[float, Plan]]:
        """The same of matrices."""
        row = of_row(form, points)
        if row is None or not may_multiply(row, self.target):
            return ()
        strides, constant = with_strides(form, self.strides), with_views(form, self.constant)
        return ranked_plans(row, strides, self.target, constant)

    # ---------------------------------------------------------------- main

    def _main(self, points: int, chunks: int) -> None:
        """The function of the kernel."""
        b = self.frame.builder
        first, end = self._begin(points, chunks)
        with b.loop(first, end) as loop:
            outer, band = divided(b, loop.index, self.count)
            low = times(b, band, self.bands.height)
            high = smin(b, plus(b, low, str(self.bands.height)), str(self.all_rows))
            ranges = self._ranges(low, high)
            for room, offset in zip(self.rooms, self.offsets, strict=True):
                back = times(b, ranges[room.first][0], room.step)
                self._set(room.kept.number, offset, back)
            for number, (begin, stop) in enumerate(ranges):
                self._rows(number, outer, begin, stop)
        if self.streams:
            b.line(FENCE)
        b.line("ret void")

    def _ranges(self, low: str, high: str) -> list[tuple[str, str]]:
        """The rows that each kernel does for a band: from, and to."""
        b, kernels = self.frame.builder, self.group.kernels
        found: dict[int, tuple[str, str]] = {len(kernels) - 1: (low, high)}
        for writer in reversed(range(len(kernels) - 1)):
            parts = [
                _reached(b, reach, *found[reader])
                for (reader, other), reach in self.reaches.items()
                if other == writer
            ]
            begin, end = parts[0]
            for other_begin, other_end in parts[1:]:
                begin, end = smin(b, begin, other_begin), smax(b, end, other_end)
            found[writer] = begin, end
        return [found[n] for n in range(len(kernels))]

    def _rows(self, number: int, outer: str, begin: str, end: str) -> None:
        """A kernel at some rows."""
        b, extent = self.frame.builder, extent_of(self.bands.rows[number])
        first = times(b, outer, extent)
        begin, end = plus(b, first, begin), plus(b, first, end)
        blocks = self.blocks[number]
        if number in self.products:
            self._call(name_of(number), self.own, times(b, begin, blocks), times(b, end, blocks))
            return
        with b.loop(begin, end) as loop:
            self._call(name_of(number), self.own, loop.index, "0")


def of_row(form: Form, points: Sequence[Index]) -> Form | None:
    """A form as a product of matrices at each of some points; None if it is none."""
    left, right = (
        replace(o, indices=tuple(i for i in o.indices if i not in points))
        for o in (form.left, form.right)
    )
    if min(left.extent, right.extent) < LEAST_SIDE:
        return None
    batch = (*points, *(i for i in form.batch if i not in points))
    return replace(form, left=left, right=right, batch=batch)


def _reached(b: Builder, reach: Reach, low: str, high: str) -> tuple[str, str]:
    """The rows that are read for those from `low` to `high`."""
    begin = plus(b, times(b, low, reach.step), str(reach.first))
    end = plus(b, times(b, plus(b, high, "-1"), reach.step), str(reach.last + 1))
    begin = smin(b, smax(b, begin, "0"), str(reach.extent))
    return begin, smax(b, begin, smin(b, end, str(reach.extent)))


def _room(group: Group, bands: Bands, number: int, strides: Strides) -> Room:
    """What is kept of a local tensor: rows one after the other, and in these what it has in its
    own order."""
    tensor = group.local[number]
    writer = next(n for n, k in enumerate(group.kernels) if k.targets[0].tensor is tensor)
    kernel = group.kernels[writer]
    shape = [likely(n) for n in sizes_of(tensor.shape)]
    order = strides.get(tensor) or row_major(shape)
    shared = [dimension_of(kernel, i) for i in group.shared]
    row = dimension_of(kernel, bands.rows[writer])
    assert row is not None
    steps, step = [0] * len(shape), 1
    for d in sorted(range(len(shape)), key=lambda d: likely(order[d])):
        if d != row and d not in shared:
            steps[d], step = step, step * shape[d]
    bytes_of = width(tensor.dtype)
    if step * bytes_of % CLASH == 0:
        step += LINE // bytes_of
    steps[row] = step
    kept = Kept(number + 1, tuple(steps))
    size = step * bytes_of
    return Room(tensor, kept, size, size, writer, len(group.kernels) - 1, None)
