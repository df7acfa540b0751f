"""Writes the sums and differences around the products of `winograd_plan`, and the panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dtypes import DType
from ...ir.nodes import Expr, Tensor, integer
from ...ir.rewrite import accesses
from .builder import Builder
from .contraction_form import size
from .contraction_plan import MOST_CHUNKS, batch_of
from .contraction_sides import batch_places, element
from .contraction_space import (
    Places,
    Space,
    Step,
    Walk,
    chunk_range,
    decode,
    merge,
    minus,
    plus,
    smin,
    times,
)
from .emit import Frame, Place
from .emit_access import extent_of
from .emit_memory import prefetch
from .emit_types import scalar_type, splat, width, with_lanes
from .kernels import KernelCode, Prepare, Strides
from .packing import evaluate, store_step
from .winograd_filter import TILE, Axis
from .winograd_plan import WinogradPlan

Values = Sequence[str]
Square = Sequence[Values]
_AHEAD = 8192
"""Bytes ahead of filters that are brought near meanwhile: they come from far away."""


class Arithmetic:
    """Sums and differences of vectors, along an axis."""

    def __init__(self, b: Builder, full: str, axis: Axis) -> None:
        self.b, self.full = b, full
        self.apart, self.of_two = axis.stride > 1, axis.taps == 2

    def add(self, x: str, y: str) -> str:
        return self.b.op(f"fadd {self.full} {x}, {y}")

    def sub(self, x: str, y: str) -> str:
        return self.b.op(f"fsub {self.full} {x}, {y}")

    def of_elements(self, d: Values) -> list[str]:
        """B d."""
        if self.of_two:
            return [self.sub(d[0], d[1]), d[1], self.sub(d[2], d[1])]
        if self.apart:
            return [self.sub(d[0], d[2]), d[1], d[2], d[3], self.sub(d[4], d[2])]
        sides = self.add(d[1], d[2]), self.sub(d[2], d[1])
        return [self.sub(d[0], d[2]), *sides, self.sub(d[1], d[3])]

    def of_products(self, m: Values) -> list[str]:
        """A m."""
        if self.of_two:
            return [self.add(m[0], m[1]), self.add(m[1], m[2])]
        if self.apart:
            return [self.add(m[0], self.add(m[1], m[2])), self.add(m[2], self.add(m[3], m[4]))]
        return [
            self.add(m[0], self.add(m[1], m[2])),
            self.sub(self.sub(m[1], m[2]), m[3]),
        ]

    def of_filter(self, g: Values, half: str) -> list[str]:
        """G g."""
        if self.of_two:
            return [g[0], self.add(g[0], g[1]), g[1]]
        ends = self.add(g[0], g[2])
        if self.apart:
            return [*g, ends]
        middle = [self.add(ends, g[1]), self.sub(ends, g[1])]
        return [g[0], *(self.b.op(f"fmul {self.full} {x}, {half}") for x in middle), g[2]]


_Transform = Callable[[Arithmetic, Values], list[str]]


def both_ways(b: Builder, full: str, w: WinogradPlan, square: Square, along: _Transform) -> Square:
    """A transform of the columns of a square of vectors, and then of its rows."""
    line, row = Arithmetic(b, full, w.line), Arithmetic(b, full, w.row)
    columns = [along(line, column) for column in zip(*square, strict=True)]
    return [along(row, values) for values in zip(*columns, strict=True)]


def output_function(vectors: int) -> str:
    return f"kernel.winograd.results.{vectors}"


def write_output(w: WinogradPlan, vectors: int) -> str:
    """The function of `%m`, the products of all tiles, and `%c`, the results of line `%y` of these:
    two lines that follow on one another. A product that a tile lacks, since it has one result, is
    read in the first tile; what comes of that is not there."""
    name = output_function(vectors)
    heading = "ptr noalias readonly %m, ptr noalias %c, i64 %y"
    b = Builder(name, heading, "internal void", "noinline")
    (full, scalar), panel = types(w), w.plan.panel
    with b.loop(0, w.wide) as x, b.loop(0, vectors * w.plan.lanes, w.plan.lanes) as v:
        square: list[list[str]] = []
        for down in w.tiles_of[0]:
            line, values = _which(b, "%y", down, w.tall), list[str]()
            for across in w.tiles_of[1]:
                row = _which(b, x.index, across, w.wide)
                tile = plus(b, times(b, line, across), row)
                at = element(b, scalar, "%m", plus(b, times(b, tile, panel), v.index))
                number = len(square) * w.row.points + len(values)
                at = element(b, scalar, at, str(number * w.sums))
                values.append(load(b, full, at, w))
            square.append(values)
        place = times(b, w.row.result(b, x.index), panel)
        to = element(b, scalar, "%c", plus(b, place, v.index))
        for i, found in enumerate(both_ways(b, full, w, square, Arithmetic.of_products)):
            for j, value in enumerate(found):
                offset = (i * TILE * w.wide + j * w.row.dilation) * panel
                store(b, w, value, element(b, scalar, to, str(offset)))
    b.line("ret void")
    return b.text()


def _which(b: Builder, tile: str, tiles: int, most: int) -> str:
    """The number of a tile of `most`, or the first if only so many have the product."""
    if tiles == most:
        return tile
    some = b.pure(f"icmp slt i64 {tile}, {tiles}", tile)
    return b.pure(f"select i1 {some}, i64 {tile}, i64 0", some, tile)


def types(w: WinogradPlan, lanes: int = 0) -> tuple[str, str]:
    scalar = scalar_type(w.plan.form.dtype)
    return with_lanes(scalar, lanes or w.plan.lanes), scalar


def load(b: Builder, full: str, at: str, w: WinogradPlan) -> str:
    return b.op(f"load {full}, ptr {at}, align {width(w.plan.form.dtype)}")


def store(b: Builder, w: WinogradPlan, value: str, at: str, full: str = "") -> None:
    full = full or types(w)[0]
    b.line(f"store {full} {value}, ptr {at}, align {width(w.plan.form.dtype)}")


# ------------------------------------------------------------------------ the constant


def panels_of(w: WinogradPlan) -> Tensor:
    """The tensor of the prepared constant."""
    plan = w.plan
    name = accesses(plan.vector.value)[0].tensor.name
    count = size(batch_of(plan.vector, plan.form)) * w.panels
    return Tensor(f"{name}.filters", plan.form.dtype, (integer(count),))


def write_filters(w: WinogradPlan, tensor: Tensor, strides: Strides) -> Prepare:
    """A kernel that prepares the constant, panel by panel: 16 matrices of channels x lanes, or for
    each channel nine rows of lanes."""
    plan, frame = w.plan, Frame(strides)
    b, panel = frame.builder, plan.panel
    outer = batch_of(plan.vector, plan.form)
    each = -(-plan.vector.extent // panel)
    pieces = size(outer) * each
    grain = -(-pieces // MOST_CHUNKS)
    pointer, scalar = frame.pointer(tensor), scalar_type(plan.form.dtype)
    with b.loop(*chunk_range(b, pieces, grain)) as chunk:
        number = b.pure(f"udiv i64 {chunk.index}, {each}", chunk.index)
        first = times(b, b.pure(f"urem i64 {chunk.index}, {each}", chunk.index), panel)
        given = batch_places(b, outer, number)
        live = smin(b, minus(b, str(plan.vector.extent), first), str(panel))
        up = plus(b, live, str(plan.lanes - 1))
        stride = b.pure(f"and i64 {up}, {-plan.lanes}", up) if up.startswith("%") else str(panel)
        at = plus(b, times(b, number, w.panels), times(b, first, w.arranged * w.channels))
        to = element(b, scalar, pointer, at)
        terms = Space(tuple((i,) for i in (*w.more, w.channel) if extent_of(i) > 1))
        with b.loop(0, w.channels) as c:
            places = given | decode(b, terms, c.index)
            walk = Walk(
                merge(plan.vector.indices, [plan.vector.value], strides),
                plan.lanes,
                whole=plan.vector.extent % plan.lanes == 0,
            )
            walk.write(b, first, live, lambda s: _filter(frame, w, places, s, to, c.index, stride))
    code = KernelCode(
        frame.text(),
        tuple(frame.tensors),
        -(-pieces // grain),
        frozenset(b.declarations),
        sites=tuple(frame.sites),
        work=4.0 * size(outer) * w.panels,
        template="packing",
    )
    return Prepare(code, tensor)


def _filter(
    frame: Frame, w: WinogradPlan, places: Places, step: Step, to: str, channel: str, stride: str
) -> None:
    """The vectors of some lanes and a channel."""
    b, dtype, here = frame.builder, w.plan.form.dtype, places | step.places
    square: Square
    square = [
        [_tap(frame, w, here, step, (i, j)) for j in range(w.row.taps)] for i in range(w.line.taps)
    ]
    if w.late:
        per, column = stride, _times(b, channel, times(b, stride, w.taps))
    else:
        square = _sums(b, w, step, square)
        per, column = times(b, stride, w.channels), _times(b, channel, stride)
    for number, value in enumerate(x for row in square for x in row):
        at = plus(b, plus(b, column, step.flat), times(b, per, number))
        store_step(b, dtype, step, value, element(b, scalar_type(dtype), to, at))


def _sums(b: Builder, w: WinogradPlan, step: Step, square: Square) -> Square:
    """The sums and differences of a filter, computed with the bits of a double."""
    dtype, half = w.plan.form.dtype, splat("0.5", "double", step.lanes)
    wide = [[_wide(b, dtype, step, x) for x in row] for row in square]
    double = with_lanes("double", step.lanes)
    found = both_ways(b, double, w, wide, lambda a, g: a.of_filter(g, half))
    return [[_narrow(b, dtype, step, x) for x in row] for row in found]


def filter_function(vectors: int) -> str:
    return f"kernel.winograd.filters.{vectors}"


def write_late_filters(w: WinogradPlan, vectors: int) -> str:
    """The function of `%g`, a panel's elements of `%n` channels, and `%u`, the matrices of those of
    their sums that are no elements."""
    b = Builder(
        filter_function(vectors),
        "ptr noalias readonly %g, ptr noalias %u, i64 %n",
        "internal void",
        "noinline",
    )
    (full, scalar), stride = types(w), vectors * w.plan.lanes
    half = splat("0.5", scalar, w.plan.lanes)
    with b.loop(0, "%n") as c, b.loop(0, stride, w.plan.lanes) as v:
        at = element(b, scalar, "%g", plus(b, times(b, c.index, w.taps * stride), v.index))
        for tap in range(w.taps):
            prefetch(b, at, _AHEAD + tap * stride * width(w.plan.form.dtype))
        square = [
            [
                load(b, full, element(b, scalar, at, str((w.row.taps * i + j) * stride)), w)
                for j in range(w.row.taps)
            ]
            for i in range(w.line.taps)
        ]
        found = both_ways(b, full, w, square, lambda a, g: a.of_filter(g, half))
        to = element(b, scalar, "%u", plus(b, times(b, c.index, stride), v.index))
        for i, j in w.late_sums:
            at = element(b, scalar, to, str((w.row.sums * i + j) * w.late_matrix(vectors)))
            store(b, w, found[i][j], at)
    b.line("ret void")
    return b.text()


def _times(b: Builder, x: str, y: str) -> str:
    return b.pure(f"mul nsw i64 {x}, {y}", x, y)


def _tap(frame: Frame, w: WinogradPlan, places: Places, step: Step, at: tuple[int, int]) -> str:
    """An element of the constant."""
    taps = {
        axis.tap: Place(str(_turned(axis, k))) for axis, k in zip((w.line, w.row), at, strict=True)
    }
    value: Expr = w.plan.vector.value
    return evaluate(frame, value, w.plan.form.dtype, places | taps, step)


def _turned(axis: Axis, k: int) -> int:
    return axis.taps - 1 - k if axis.flipped else k


def _wide(b: Builder, dtype: DType, step: Step, value: str) -> str:
    scalar = scalar_type(dtype)
    full, double = with_lanes(scalar, step.lanes), with_lanes("double", step.lanes)
    return value if scalar == "double" else b.op(f"fpext {full} {value} to {double}")


def _narrow(b: Builder, dtype: DType, step: Step, value: str) -> str:
    scalar = scalar_type(dtype)
    full, double = with_lanes(scalar, step.lanes), with_lanes("double", step.lanes)
    return value if scalar == "double" else b.op(f"fptrunc {double} {value} to {full}")
