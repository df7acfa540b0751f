"""Writes the function that turns a tile of sums into results and stores them.

It runs vectors along whichever side of the product the result is contiguous in. If that is
the broadcast side, the tile, whose vectors lie along the other, is first transposed.

Where sums are results as they are, a tile may store them itself: see `result_step`. What no cache
holds is stored past the caches, if it is whole vectors: see `goes_past`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir.nodes import Apply, Binary, Const, Expr
from ...ir.rewrite import is_division, nodes_through_locals
from . import contraction_transpose as transpose
from .builder import Builder
from .contraction_form import size
from .contraction_plan import Plan
from .contraction_space import (
    Places,
    Space,
    Step,
    Walk,
    decode,
    flat_form,
    group_places,
    merge,
    minus,
    plus,
    smin,
    times,
)
from .emit import Frame, Value
from .emit_access import extent_of
from .emit_types import literal, scalar_type, splat, width, with_lanes
from .kernels import Strides
from .nest_stream import LEAST_PAST, write_either_way
from .nest_uses import bytes_of, is_far
from .packing import is_plain
from .target import LINE
from .words import may_round

_FAR = 32 << 20
"""Bytes of results that are written past the caches if the program reads them: a part of fewer is
read again from one that cores share, which is worth more than what the stores save."""


def result_step(plan: Plan, strides: Strides) -> int | None:
    """From row to row of the result, in elements, if tiles can store their sums there, with
    nothing left to be done to them."""
    kernel, target = plan.form.kernel, plan.form.kernel.targets[0]
    start, (result,) = kernel.initial[0], kernel.results
    plain = result is kernel.accumulators[0] and isinstance(start, Const) and start.value == 0
    if plan.matrices is not None:
        return None
    if not plain or plan.form.scale != 1.0 or target.tensor.dtype is not plan.form.dtype:
        return None
    if plan.depth.blocks > 1 or plan.across or plan.ragged or not is_plain(target):
        return None
    if kernel.again and plan.runs > 1:
        return None  # what other threads have stored would be replaced by sums of some terms
    steps = flat_form(target, strides).indices
    rows, columns = (
        merge(side.indices, [target], strides) for side in (plan.broadcast, plan.vector)
    )
    if not columns.groups or steps.get(columns.groups[-1][-1], 0) != 1:
        return None
    if len(columns.groups) > 1 and columns.inner % plan.panel:
        return None
    if len(rows.groups) > 1 and rows.inner % plan.rows:
        return None
    step = steps.get(rows.groups[-1][-1], 0) if rows.groups else 0
    return step if isinstance(step, int) else None


def is_whole_lines(plan: Plan, count: int) -> bool:
    """Whether so many contiguous results are whole lines."""
    return count * width(plan.form.kernel.targets[0].tensor.dtype) % LINE == 0


def goes_past(plan: Plan, strides: Strides, frame: Frame, whole_rows: bool, turns: int = 1) -> bool:
    """Whether results are to be written past the caches: they are more than a cache holds, and the
    vectors of them lie at multiples of their size. Columns are stored from multiples of the lanes
    on; `whole_rows` says whether rows are, where vectors lie along these, and lines of them one
    after the other: a part of a line that is written by itself takes as long as all of it. `turns`
    is as in `turns_of`."""
    target = plan.form.kernel.targets[0]
    side, other, whole = plan.vector, plan.broadcast, True
    if plan.across:
        side, other, whole = plan.broadcast, plan.vector, whole_rows
    if not whole or plan.ragged or frame.target is None or target.tensor in frame.local:
        return False
    leaves = plan.form.kernel.leaves and is_far(target.tensor, frame.target)
    if not leaves and bytes_of(target.tensor) < _FAR:
        return False
    form, lanes = flat_form(target, strides), plan.lanes
    groups = merge(side.indices, [target], strides).groups
    if not groups or form.steps.get(groups[-1][-1]) != turns or form.others:
        return False
    own = {*groups[-1]}
    if turns > 1:
        own |= {*merge(other.indices, [target], strides).groups[-1]}
    others = {i: n for i, n in form.steps.items() if i not in own}
    if len(groups) > 1 and size(groups[-1]) % lanes:
        return False
    is_vector = LEAST_PAST <= lanes * width(target.tensor.dtype) <= LINE
    return is_vector and all(
        isinstance(n, int) and n % lanes == 0 for n in (*others.values(), form.constant)
    )


def write_results(
    frame: Frame, plan: Plan, strides: Strides, past: bool = False, turns: int = 1
) -> str:
    """The function `@kernel.finish`, which `call_results` calls.

    `c` holds the sums of `rows` rows from number `row`, of which the first `live` lanes
    from number `lane` count. If they go `past` the caches, the caller waits until they are there.
    `turns` is as in `turns_of`, where tiles begin at multiples of it.
    """
    parameters = ", i64 %rows, i64 %lane, i64 %live"
    counts = ("%rows", "%live")
    return _write(frame, plan, strides, counts, "", parameters, past=past, turns=turns)


def call_results(c: str, outer: str, row: str, rows: int, lane: str, live: str | int) -> str:
    """The call of the function that `write_results` writes."""
    return (
        f"call void @kernel.finish(ptr %table, ptr {c}, i64 {outer}, i64 {row}, i64 {rows}, "
        f"i64 {lane}, i64 {live})"
    )


def write_results_of(
    frame: Frame,
    plan: Plan,
    strides: Strides,
    rows: int,
    live: int,
    run: int,
    past: bool = False,
    turns: int = 1,
) -> str:
    """The function that `call_results_of` calls: for tiles of one size, whose rows are in one run
    of the result, and their lanes in runs of `run`."""
    name = f".{rows}x{live}"
    counts = (str(rows), str(live))
    return _write(frame, plan, strides, counts, name, ", i64 %lane", run, past, turns)


def call_results_of(c: str, outer: str, row: str, rows: int, lane: str, live: int) -> str:
    """The call of the function that `write_results_of` writes."""
    return (
        f"call void @kernel.finish.{rows}x{live}(ptr %table, ptr {c}, i64 {outer}, i64 {row}, "
        f"i64 {lane})"
    )


def _write(
    frame: Frame,
    plan: Plan,
    strides: Strides,
    counts: tuple[str, str],
    suffix: str,
    parameters: str,
    run: int = 0,
    past: bool = False,
    turns: int = 1,
) -> str:
    outside = frame.builder
    frame.builder = Builder(
        f"kernel.finish{suffix}",
        f"ptr noalias %table, ptr noalias %c, i64 %outer, i64 %row{parameters}",
        "internal void",
        "noinline",
    )
    frame.builder.scales = outside.scales
    frame.builder.rounds = may_round(plan.form.kernel, frame.target)
    writer = _Writer(frame, plan, strides, *counts, run, turns)
    if past:
        fences, frame.fences = frame.fences, False
        write_either_way([plan.form.kernel.targets[0].tensor], frame, writer.write)
        frame.fences = fences
    else:
        writer.write()
    frame.builder.line("ret void")
    text = frame.builder.text()
    outside.declarations |= frame.builder.declarations
    if writer.across:
        outside.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
    frame.builder = outside
    return text


def write_turning(plan: Plan) -> str:
    """The function that results which lie along the other side than vectors call."""
    if not plan.across:
        return ""
    return transpose.write_square(plan.form.dtype, plan.lanes, plan.panel, _turned_row(plan))


def _turned_row(plan: Plan) -> int:
    """Elements between the rows of a tile that has been turned round."""
    return -(-plan.rows // plan.lanes) * plan.lanes


def one_run(plan: Plan, frame: Frame, strides: Strides) -> bool:
    """Whether tiles of the plan, wherever they begin, are in one run of the result both ways."""
    writer = _Writer(frame, plan, strides, "%rows", "%live", 0)
    sides = ((writer.rows, plan.rows), (writer.columns, plan.panel))
    return not plan.ragged and all(
        len(space.groups) < 2 or space.inner % length == 0 for space, length in sides
    )


class _Writer:
    """`rows` and `live` are numbers if they are known, and then `run` is one of `live`'s runs."""

    def __init__(
        self,
        frame: Frame,
        plan: Plan,
        strides: Strides,
        rows: str,
        live: str,
        run: int,
        turns: int = 1,
    ) -> None:
        self.frame, self.plan, self.b = frame, plan, frame.builder
        self.kernel, self.dtype = plan.form.kernel, plan.form.dtype
        self.scalar = scalar_type(self.dtype)
        exprs = [*self.kernel.initial, *self.kernel.results, self.kernel.targets[0]]
        self.rows = merge(plan.broadcast.indices, exprs, strides)
        self.columns = merge(plan.vector.indices, exprs, strides)
        self.across, self.turns = plan.across, turns
        self.count, self.live, self.run = rows, live, run
        self.by_vectors = turns == 1 and self.b.rounds
        """Whether all rows are done for a vector of columns, before the next one: what depends on
        columns alone is read, and made numbers of float32, once."""
        self.known = not rows.startswith("%")
        self.may_be_slow = any(map(_may_be_slow, nodes_through_locals(*self.kernel.results)))
        """Whether results of what was left beyond the sums may take longer than others."""

    def write(self) -> None:
        batch = Space(tuple((i,) for i in self.plan.form.batch if extent_of(i) > 1))
        given = decode(self.b, batch, "%outer")
        if self.across:
            self._write_across(given)
        else:
            self._write_along(given)

    def _element(self, pointer: str, offset: str) -> str:
        text = f"getelementptr {self.scalar}, ptr {pointer}, i64 {offset}"
        return pointer if offset == "0" else self.b.pure(text, pointer, offset)

    def _write_along(self, given: Places) -> None:
        """Row by row of the tile, or a few that take turns; or vector by vector."""
        b, plan = self.b, self.plan
        if self.by_vectors:
            self._write_by_vectors(given)
            return
        with b.loop(0, _number(self.count), self.turns) as loop:
            places = given | decode(b, self.rows, plus(b, "%row", loop.index))
            base = self._element("%c", times(b, loop.index, plan.panel))
            whole = plan.vector.extent % plan.lanes == 0 and not plan.ragged
            for first, count in self._stretches():
                walk = Walk(self.columns, plan.lanes, whole, self.known)
                at = self._element(base, str(first))
                parts = self._parts(self.rows, places, at, plan.panel)
                walk.write(b, plus(b, "%lane", str(first)), count, self._storing(parts))

    def _write_by_vectors(self, given: Places) -> None:
        """All rows of the tile for a vector of columns."""
        b, plan = self.b, self.plan
        whole = plan.vector.extent % plan.lanes == 0 and not plan.ragged
        walk = Walk(self.columns, plan.lanes, whole, self.known)
        for first, count in self._stretches():

            def down(step: Step, first: int = first) -> None:
                with b.loop(0, _number(self.count)) as loop:
                    places = given | decode(b, self.rows, plus(b, "%row", loop.index))
                    base = self._element("%c", times(b, loop.index, plan.panel))
                    self._store([(places, self._element(base, str(first)))], step)

            walk.write(b, plus(b, "%lane", str(first)), count, down)

    def _parts(
        self, space: Space, places: Places, base: str, step: int
    ) -> list[tuple[Places, str]]:
        """The places of results that take turns, and where their sums are, `step` elements from one
        to the next."""
        if self.turns == 1:
            return [(places, base)]
        last = space.groups[-1]
        return [
            (places | group_places(last, str(k)), self._element(base, str(k * step)))
            for k in range(self.turns)
        ]

    def _storing(self, parts: list[tuple[Places, str]]) -> Callable[[Step], None]:
        return lambda step: self._store(parts, step)

    def _stretches(self) -> Iterator[tuple[int, str]]:
        """Where the parts of a row of a tile begin that are walked through, and their lengths."""
        if not self.known:
            yield 0, self.live
            return
        for first in range(0, int(self.live), self.run):
            yield first, str(min(self.run, int(self.live) - first))

    def _write_across(self, given: Places) -> None:
        """Column by column of the transposed tile, or a few that take turns."""
        b, plan = self.b, self.plan
        stride = _turned_row(plan)
        turned = b.reserve(f"alloca [{stride * plan.panel} x {self.scalar}], align 64")
        with b.loop(0, _number(self.count), plan.lanes) as down:
            rows = smin(b, minus(b, self.count, down.index), str(plan.lanes))
            source = self._element("%c", times(b, down.index, plan.panel))
            with b.loop(0, _number(self.live), plan.lanes) as right:
                start = self._element(source, right.index)
                to = self._element(turned, plus(b, times(b, right.index, stride), down.index))
                b.line(transpose.call_square(start, rows, to))
        with b.loop(0, _number(self.live), self.turns) as loop:
            places = given | decode(b, self.columns, plus(b, "%lane", loop.index))
            base = self._element(turned, times(b, loop.index, stride))
            parts = self._parts(self.columns, places, base, stride)
            walk = Walk(self.rows, plan.lanes, inside=self.known)
            walk.write(b, "%row", self.count, self._storing(parts))

    def _store(self, parts: list[tuple[Places, str]], step: Step) -> None:
        """Store the results of some points."""
        values = [self._result(places | step.places, step, base) for places, base in parts]
        first, _ = parts[0]
        point = self.frame.point(step.lanes, first | step.places, mask=step.mask)
        point.store(self.kernel.targets[0], *values)

    def _result(self, places: Places, step: Step, base: str) -> Value:
        """A result from the sums of some points."""
        kernel, b, lanes = self.kernel, self.b, step.lanes
        full = with_lanes(self.scalar, lanes)
        at = self._element(base, step.flat)
        total = b.op(f"load {full}, ptr {at}, align {width(self.dtype)}")
        if step.mask.each is not None and self.may_be_slow:
            on = f"{with_lanes('i1', lanes)} {step.mask.each}"
            total = b.op(f"select {on}, {full} {total}, {full} zeroinitializer")
        if self.plan.form.scale != 1.0:
            scale = splat(literal(self.plan.form.scale, self.dtype), self.scalar, lanes)
            total = b.op(f"fmul {full} {total}, {scale}")
        point = self.frame.point(lanes, places, mask=step.mask)
        start = kernel.initial[0]
        if not (isinstance(start, Const) and start.value == 0):
            add = "add" if self.dtype.is_int else "fadd"
            total = b.op(f"{add} {full} {total}, {point.vector(point.value(start))}")
        known = {kernel.accumulators[0]: Value(total, self.dtype, lanes > 1)}
        return self.frame.point(lanes, places, mask=step.mask, values=known).value(
            kernel.results[0]
        )


def _may_be_slow(node: Expr) -> bool:
    return isinstance(node, Apply) or (isinstance(node, Binary) and is_division(node))


def _number(count: str) -> int | str:
    return count if count.startswith("%") else int(count)
