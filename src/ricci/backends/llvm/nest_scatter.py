"""Emits a `Scatter`: its loops in the order written, one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.loops import Scatter
from ...ir.nodes import Index
from ...ir.rewrite import used_locals
from . import counts, emit_arith
from .chunks import MOST_CHUNKS
from .counts import Count
from .emit import Frame, Place, Point, Value
from .sizes import size_of

Body = Callable[[Point], None]


class ScatterNest:
    """The body of one kernel."""

    def __init__(self, kernel: Scatter, frame: Frame) -> None:
        self.kernel = kernel
        self.frame = frame
        self.b = frame.builder
        domain = kernel.assignment.domain
        self.shared = domain[: kernel.parallel]
        self.rest = domain[kernel.parallel :]
        self.total, self.chunks = self._counts(frame)
        frame.written.update(t.tensor for t in kernel.assignment.targets)

    def _counts(self, frame: Frame) -> tuple[Count, Count]:
        """Points of the shared loops, and chunks."""
        total: Count = 1
        for index in self.shared:
            total = counts.product(frame.builder, total, frame.count(size_of(index.extent)))
        return total, counts.least(frame.builder, total, MOST_CHUNKS)

    def count(self, frame: Frame) -> Count:
        """How many chunks there are, computed in another function."""
        return self._counts(frame)[1]

    def emit(self) -> None:
        """All chunks from `%begin` to `%end`."""
        if self.chunks == 1:
            self._loops({x: Place(None, 0) for x in self.shared}, self.rest)
            return
        with self.b.loop(self._part("%begin"), self._part("%end")) as loop:
            number, places = loop.index, {}
            for x in reversed(self.shared):
                extent = self.frame.count(size_of(x.extent))
                rest = self.b.pure(f"urem i64 {number}, {extent}", number, str(extent))
                places[x] = Place(rest)
                number = self.b.pure(f"udiv i64 {number}, {extent}", number, str(extent))
            self._loops(places, self.rest)

    def _part(self, chunk: str) -> str:
        scaled = self.b.pure(f"mul nuw nsw i64 {chunk}, {self.total}", chunk, str(self.total))
        parts = counts.most(self.b, self.chunks, 1)
        return self.b.pure(f"udiv i64 {scaled}, {parts}", scaled, str(parts))

    def _loops(self, places: dict[Index, Place], rest: Sequence[Index]) -> None:
        if not rest:
            self._instance(self.frame.point(1, places))
            return
        index, *inner = rest
        with self.b.loop(0, self.frame.count(size_of(index.extent))) as loop:
            self._loops({**places, index: Place(loop.index)}, inner)

    def _instance(self, point: Point) -> None:
        """Guards, then the condition, then the values, then the stores."""
        a = self.kernel.assignment
        condition = [] if a.condition is None else [a.condition]
        guarded = point.guarded(*a.targets, *a.locals, *condition, *a.values)
        self._when(point, guarded.mask.all, self._conditional)

    def _conditional(self, point: Point) -> None:
        a = self.kernel.assignment
        condition = [] if a.condition is None else [a.condition]
        point.test(used_locals(a.locals, *a.targets, *condition, *a.values))
        if a.condition is None:
            self._stores(point)
            return
        self._when(point, point.value(a.condition).text, self._stores)

    def _when(self, point: Point, condition: str | None, body: Body) -> None:
        if condition is None or condition == "true":
            body(point)
            return
        with self.b.when(condition):
            body(self.frame.point(1, point.places))

    def _stores(self, point: Point) -> None:
        a = self.kernel.assignment
        values = []
        for target, expr in zip(a.targets, a.values, strict=True):
            value = point.value(expr)
            if a.op not in ("set", "update"):
                old = point.value(target)
                text = emit_arith.combine(self.b, a.op, old.text, value.text, value.dtype, 1)
                value = Value(text, value.dtype)
            values.append(value)
        for target, value in zip(a.targets, values, strict=True):
            point.store(target, value)
