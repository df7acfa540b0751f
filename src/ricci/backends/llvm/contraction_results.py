"""Writes the function that turns a tile of sums into results and stores them.

It runs vectors along whichever side of the product the result is contiguous in. If that is
the broadcast side, the tile, whose vectors lie along the other, is first transposed.

Where sums are results as they are, a tile may store them itself: see `result_step`.
"""

from __future__ import annotations

from ...ir.nodes import Const
from . import contraction_transpose as transpose
from .builder import Builder
from .contraction_plan import Plan
from .contraction_space import (
    Places,
    Space,
    Step,
    Walk,
    decode,
    flat_form,
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
from .packing import is_plain


def result_step(plan: Plan, strides: Strides) -> int | None:
    """From row to row of the result, in elements, if tiles can store their sums there, with
    nothing left to be done to them."""
    kernel, target = plan.form.kernel, plan.form.kernel.targets[0]
    start, (result,) = kernel.initial[0], kernel.results
    plain = result is kernel.accumulators[0] and isinstance(start, Const) and start.value == 0
    if not plain or plan.form.scale != 1.0 or target.tensor.dtype is not plan.form.dtype:
        return None
    if plan.depth.blocks > 1 or plan.across or plan.ragged or not is_plain(target):
        return None
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


def write_results(frame: Frame, plan: Plan, strides: Strides) -> str:
    """The function `@kernel.finish`, which `call_results` calls.

    `c` holds the sums of `rows` rows from number `row`, of which the first `live` lanes
    from number `lane` count.
    """
    outside = frame.builder
    frame.builder = Builder(
        "kernel.finish",
        "ptr noalias %table, ptr noalias %c, i64 %outer, i64 %row, i64 %rows, i64 %lane, i64 %live",
        "internal void",
        "noinline",
    )
    writer = _Writer(frame, plan, strides)
    writer.write()
    frame.builder.line("ret void")
    text = frame.builder.text()
    outside.declarations |= frame.builder.declarations
    if writer.across:
        outside.declarations |= transpose.declarations(plan.form.dtype, plan.lanes)
    frame.builder = outside
    return text


def call_results(c: str, outer: str, row: str, rows: int, lane: str, live: str | int) -> str:
    """The call of the function that `write_results` writes."""
    return (
        f"call void @kernel.finish(ptr %table, ptr {c}, i64 {outer}, i64 {row}, i64 {rows}, "
        f"i64 {lane}, i64 {live})"
    )


class _Writer:
    def __init__(self, frame: Frame, plan: Plan, strides: Strides) -> None:
        self.frame, self.plan, self.b = frame, plan, frame.builder
        self.kernel, self.dtype = plan.form.kernel, plan.form.dtype
        self.scalar = scalar_type(self.dtype)
        exprs = [*self.kernel.initial, *self.kernel.results, self.kernel.targets[0]]
        self.rows = merge(plan.broadcast.indices, exprs, strides)
        self.columns = merge(plan.vector.indices, exprs, strides)
        self.across = plan.across

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
        """Row by row of the tile."""
        b, plan = self.b, self.plan
        with b.loop("0", "%rows") as loop:
            places = given | decode(b, self.rows, plus(b, "%row", loop.index))
            base = self._element("%c", times(b, loop.index, plan.panel))
            whole = plan.vector.extent % plan.lanes == 0 and not plan.ragged
            walk = Walk(self.columns, plan.lanes, whole)
            walk.write(b, "%lane", "%live", lambda step: self._store(places, step, base))

    def _write_across(self, given: Places) -> None:
        """Column by column of the transposed tile."""
        b, plan = self.b, self.plan
        stride = -(-plan.rows // plan.lanes) * plan.lanes
        turned = b.reserve(f"alloca [{stride * plan.panel} x {self.scalar}], align 64")
        with b.loop("0", "%rows", plan.lanes) as down:
            rows = smin(b, minus(b, "%rows", down.index), str(plan.lanes))
            source = self._element("%c", times(b, down.index, plan.panel))
            with b.loop("0", "%live", plan.lanes) as right:
                columns = smin(b, minus(b, "%live", right.index), str(plan.lanes))
                start = self._element(source, right.index)
                to = self._element(turned, plus(b, times(b, right.index, stride), down.index))
                b.line(
                    transpose.call_transpose(start, str(plan.panel), rows, columns, to, str(stride))
                )
        with b.loop("0", "%live") as loop:
            places = given | decode(b, self.columns, plus(b, "%lane", loop.index))
            base = self._element(turned, times(b, loop.index, stride))
            walk = Walk(self.rows, plan.lanes)
            walk.write(b, "%row", "%rows", lambda step: self._store(places, step, base))

    def _store(self, given: Places, step: Step, base: str) -> None:
        """Results from the sums of some points."""
        kernel, b, lanes = self.kernel, self.b, step.lanes
        full = with_lanes(self.scalar, lanes)
        at = self._element(base, step.flat)
        total = b.op(f"load {full}, ptr {at}, align {width(self.dtype)}")
        if self.plan.form.scale != 1.0:
            scale = splat(literal(self.plan.form.scale, self.dtype), self.scalar, lanes)
            total = b.op(f"fmul {full} {total}, {scale}")
        places = given | step.places
        point = self.frame.point(lanes, places, mask=step.mask)
        start = kernel.initial[0]
        if not (isinstance(start, Const) and start.value == 0):
            total = b.op(f"fadd {full} {total}, {point.vector(point.value(start))}")
        known = {kernel.accumulators[0]: Value(total, self.dtype, lanes > 1)}
        point = self.frame.point(lanes, places, mask=step.mask, values=known)
        point.store(kernel.targets[0], point.value(kernel.results[0]))
