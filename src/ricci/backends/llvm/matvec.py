"""Few rows times a big operand that lies contiguous along the reduced indices.

Such a product reads every element of the big operand once, or a few times: packing would
cost more than it. So it is read where it is, several of its rows at once, in vectors along
k that are added up at the end; nothing else is asked of memory than to stream.

    c[m][n] = sum over k of  x[m][k] * w[n][k]
"""

from __future__ import annotations

import math

from ...ir.nodes import Index, Tensor
from ...records import dataclass, replace
from .contraction_form import Form, Operand, size
from .contraction_plan import (
    MOST_CHUNKS,
    Plan,
    may_prepare,
    plans_of_sides,
)
from .contraction_reading import is_direct
from .contraction_results import call_results, write_results, write_turning
from .contraction_space import (
    Places,
    Space,
    Step,
    Walk,
    chunk_range,
    decode,
    flat_form,
    merge,
    minus,
    multiple,
    plus,
    smin,
    step_of,
    times,
)
from .emit import Frame, Place
from .emit_access import extent_of
from .emit_types import scalar_type, tag, width, with_lanes
from .kernels import KernelCode, Strides
from .packing import Depth, evaluate, is_plain, store_step
from .schedule import Dots, Side, impossible
from .target import PAGE, Target

MOST_ROWS = 8
_MOST_UNPREPARED = 2
"""Rows for which it is not worthwhile to prepare panels of the big operand."""
MOST_COUNT = 16
"""Rows of the big operand that are read at the same time, at most."""
MOST_BLOCK = 1 << 14
"""Rows of the big operand that a chunk reads, at most."""
_START = Place(None)
_LEAST_DEPTH = 16
"""Vectors along k, for fewer of which adding up the lanes at the end costs too much."""
_PARTS = 4
"""Sums that the inner function has at least."""
_MOST_TERMS = 128
"""Terms that a lane adds up one by one, at most: the more, the less exact the sum."""
_CHUNKS = 16
_CHUNK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Dot:
    """The shape of the inner function: `count` rows of `w` times `rows` of `x`."""

    rows: int
    count: int

    @property
    def name(self) -> str:
        return f"kernel.dot.{self.rows}x{self.count}"


def choose_dots(
    form: Form, strides: Strides, target: Target, constant: frozenset[Tensor] = frozenset()
) -> Dots | None:
    """How to compute a contraction with few rows whose other operand is contiguous along k.

    An operand that panels can be prepared of is read faster from these by more than a few rows.
    """
    for side in ("left", "right"):
        small, big = _operands(form, side)
        if small.extent <= MOST_ROWS and small.extent <= big.extent:
            depth = Depth(form.reduced, 0, extent_of(form.reduced[0]))
            if small.extent > _MOST_UNPREPARED and may_prepare(big, depth, constant):
                return None
            if _contiguous(big, form, strides, target) is not None:
                count = _rows_at_once(small.extent, big.extent, target)
                block = _block(form, big, count, target)
                return Dots(side, 1 if _is_one_stream(form, big, target) else count, block)
    return None


def write_dots(form: Form, schedule: Dots, strides: Strides, target: Target) -> KernelCode:
    """The code of such a contraction; `Error` E0807 if it is none."""
    small, big = _operands(form, schedule.small)
    name = form.kernel.name
    if small.extent > MOST_ROWS:
        raise impossible(f"the small operand has {small.extent} rows, more than {MOST_ROWS}", name)
    reduced = _contiguous(big, form, strides, target)
    if reduced is None:
        raise impossible("the other operand is not contiguous, or too short for vectors", name)
    if not 1 <= schedule.count <= MOST_COUNT or not schedule.block:
        raise impossible(f"1 to {MOST_COUNT} rows are read at once, in blocks of some", name)
    return _Writer(form, small, big, reduced, schedule, strides, target).code()


def _operands(form: Form, small: Side) -> tuple[Operand, Operand]:
    return (form.left, form.right) if small == "left" else (form.right, form.left)


def _contiguous(
    big: Operand, form: Form, strides: Strides, target: Target
) -> tuple[Index, ...] | None:
    """The reduced indices in the order in which the operand is contiguous along them."""
    access = big.access
    if access is None or not is_plain(access):
        return None
    steps = flat_form(access, strides).steps
    reduced = [k for k in form.reduced if extent_of(k) > 1]
    reduced.sort(key=lambda k: -abs(steps.get(k, 0)))
    groups = merge(reduced, [access], strides).groups
    if len(groups) != 1 or steps.get(reduced[-1], 0) != 1:
        return None
    if not is_direct(big, tuple(reduced), strides):
        return None
    return tuple(reduced) if size(reduced) >= _LEAST_DEPTH * target.lanes(form.dtype) else None


class _Writer:
    def __init__(
        self,
        form: Form,
        small: Operand,
        big: Operand,
        reduced: tuple[Index, ...],
        schedule: Dots,
        strides: Strides,
        target: Target,
    ) -> None:
        self.form, self.small, self.big, self.reduced = form, small, big, reduced
        self.strides = strides
        self.frame = Frame(strides, target)
        self.lanes = target.lanes(form.dtype)
        self.k = size(reduced)
        self.scalar, self.bytes = scalar_type(form.dtype), width(form.dtype)
        self.count = min(schedule.count, big.extent)
        self.plan = self._plan(schedule.block, strides, target)
        self.x_row = -(-self.k // self.lanes) * self.lanes

    def _plan(self, wanted: int, strides: Strides, target: Target) -> Plan:
        """The chunks, as the plan that storing results needs."""
        unit = math.lcm(self.count, self.lanes)
        block = -(-min(wanted, self.big.extent, MOST_BLOCK) // unit) * unit
        plan = next(plans_of_sides(self.form, self.small, self.big, strides, target, frozenset()))
        return replace(
            plan,
            rows=self.small.extent,
            vectors=block // self.lanes,
            row_block=self.small.extent,
            lane_block=block,
            grain=-(-plan.outer * -(-self.big.extent // block) // MOST_CHUNKS),
        )

    # ------------------------------------------------------------------- whole

    def code(self) -> KernelCode:
        plan, b = self.plan, self.frame.builder
        self._kernel()
        shapes = [Dot(self.small.extent, self.count)]
        rest = self.big.extent % self.count
        if rest:
            shapes.append(Dot(self.small.extent, rest))
        functions = [self._dot(shape) for shape in shapes]
        functions += [write_results(self.frame, plan, self.strides), write_turning(plan)]
        return KernelCode(
            self.frame.text("".join(functions)),
            tuple(self.frame.tensors),
            plan.chunks,
            frozenset(b.declarations),
            self._c_bytes() + self.small.extent * self.x_row * self.bytes,
            tuple(self.frame.sites),
            plan.outer * self.k * self.big.extent * self.bytes / 20.0,
            sizes=tuple(self.frame.symbols),
            template="dots",
        )

    def _c_bytes(self) -> int:
        return -(-(self.small.extent * self.plan.panel + self.lanes) * self.bytes // 64) * 64

    def _kernel(self) -> None:
        plan, b = self.plan, self.frame.builder
        x = b.pure(f"getelementptr i8, ptr %scratch, i64 {self._c_bytes()}")
        begin, end = chunk_range(b, plan.blocks, plan.grain)
        with b.loop(begin, end, carried=[("i64", "-1")]) as chunk:
            outer, number = chunk.index, "0"
            if plan.lane_blocks > 1:
                outer = b.pure(f"udiv i64 {chunk.index}, {plan.lane_blocks}", chunk.index)
                number = b.pure(f"urem i64 {chunk.index}, {plan.lane_blocks}", chunk.index)
            outer = "0" if plan.outer == 1 else outer
            with b.when(b.op(f"icmp ne i64 {outer}, {chunk.values[0]}")):
                self._pack(outer, x)
            chunk.carry([outer])
            lane0 = times(b, number, plan.lane_block)
            left = minus(b, str(self.big.extent), lane0)
            live = smin(b, left, str(plan.lane_block))
            self._dots(outer, lane0, live, x)
            b.line(call_results("%scratch", outer, "0", self.small.extent, lane0, live))

    def _given(self, outer: str) -> Places:
        batch = Space(tuple((i,) for i in self.form.batch if extent_of(i) > 1))
        return decode(self.frame.builder, batch, outer)

    def _pack(self, outer: str, x: str) -> None:
        """Writes the small operand row by row, contiguous along k."""
        b = self.frame.builder
        given = self._given(outer)
        rows = merge(self.small.indices, [self.small.value], self.strides)
        space = merge(self.reduced, [self.small.value], self.strides)
        with b.loop(0, self.small.extent) as loop:
            places = given | decode(b, rows, loop.index)
            row = times(b, loop.index, self.x_row)

            def body(step: Step) -> None:
                at = plus(b, row, step.flat)
                to = b.pure(f"getelementptr {self.scalar}, ptr {x}, i64 {at}", at)
                here = places | step.places
                value = evaluate(self.frame, self.small.value, self.form.dtype, here, step)
                store_step(b, self.form.dtype, step, value, to)

            Walk(space, self.lanes, self.k % self.lanes == 0).write(b, "0", str(self.k), body)

    def _dots(self, outer: str, lane0: str, live: str, x: str) -> None:
        """All sums of a chunk."""
        b, big, access = self.frame.builder, self.big, self.big.access
        assert access is not None
        own = merge(big.indices, [big.value], self.strides)
        given = self._given(outer) | dict.fromkeys(self.reduced, _START)

        def call(lane: str, count: int) -> None:
            places = given | decode(b, own, plus(b, lane0, lane))
            w = self.frame.point(1, places).address(access).pointer
            c = b.pure(f"getelementptr {self.scalar}, ptr %scratch, i64 {lane}", lane)
            b.line(f"call void @{Dot(self.small.extent, count).name}(ptr {w}, ptr {x}, ptr {c})")

        full = multiple(b, live, self.count)
        with b.loop("0", full, self.count) as loop:
            call(loop.index, self.count)
        rest = self.big.extent % self.count
        if rest:
            with b.when(b.pure(f"icmp slt i64 {full}, {live}", full, live)):
                call(full, rest)

    # ---------------------------------------------------------------- the dots

    def _dot(self, shape: Dot) -> str:
        """The function `@name(w, x, c)`."""
        v = with_lanes(self.scalar, self.lanes)
        cells = [(m, n) for m in range(shape.rows) for n in range(shape.count)]
        parts = self._parts(shape)
        lines = [
            f"define internal void @{shape.name}(ptr noalias readonly %w, ptr noalias readonly %x,"
            " ptr noalias %c) noinline {",
            "entry:",
        ]
        unit = parts * self.lanes
        whole = self.k // unit * unit
        stretches = -(-whole // unit // _MOST_TERMS)
        before, begin, end = "entry", "0", str(whole)
        totals = [(p, m, n) for p in range(parts) for m, n in cells] if stretches > 1 else []
        if totals:
            before, begin, end = "stretch", "%begin", "%end"
            length = -(-whole // unit // stretches) * unit
            lines += [
                "  br label %stretch",
                "stretch:",
                "  %begin = phi i64 [ 0, %entry ], [ %k.next, %fold ]",
            ]
            for p, m, n in totals:
                first = "[ zeroinitializer, %entry ]"
                lines.append(f"  %y{p}.{m}.{n} = phi {v} {first}, [ %z{p}.{m}.{n}, %fold ]")
            lines += [
                f"  %whole = add nuw nsw i64 %begin, {length}",
                f"  %ends = icmp slt i64 %whole, {whole}",
                f"  %end = select i1 %ends, i64 %whole, i64 {whole}",
            ]
        lines += [
            "  br label %loop",
            "loop:",
            f"  %k = phi i64 [ {begin}, %{before} ], [ %k.next, %loop ]",
        ]
        for p in range(parts):
            for m, n in cells:
                first = f"[ zeroinitializer, %{before} ]"
                lines.append(f"  %s{p}.{m}.{n} = phi {v} {first}, [ %t{p}.{m}.{n}, %loop ]")
        for p in range(parts):
            lines += self._multiply_add(shape, "%k", p * self.lanes, f"s{p}", f"t{p}")
        lines += [
            f"  %k.next = add nuw nsw i64 %k, {unit}",
            f"  %more = icmp slt i64 %k.next, {end}",
            f"  br i1 %more, label %loop, label {'%fold' if totals else '%done'}",
        ]
        if totals:
            lines.append("fold:")
            for p, m, n in totals:
                lines.append(f"  %z{p}.{m}.{n} = fadd {v} %y{p}.{m}.{n}, %t{p}.{m}.{n}")
            lines += [
                f"  %again = icmp slt i64 %k.next, {whole}",
                "  br i1 %again, label %stretch, label %done",
            ]
        lines.append("done:")
        last = [f"{'z' if totals else 't'}{p}" for p in range(parts)]
        for p, at in enumerate(range(whole, self.k - self.lanes + 1, self.lanes)):
            lines += self._multiply_add(shape, "0", at, last[p], f"v{p}")
            last[p] = f"v{p}"
        rest = self.k % self.lanes
        if rest:
            mask = ", ".join(f"i1 {'true' if k < rest else 'false'}" for k in range(self.lanes))
            lines += self._multiply_add(shape, "0", self.k - rest, last[0], "u", f"<{mask}>")
            last[0] = "u"
        zero = "-0.0"
        name = f"llvm.vector.reduce.fadd.{tag(self.scalar, self.lanes)}"
        for m, n in cells:
            total = last[0]
            for p in range(1, parts):
                new = f"p{p}"
                lines.append(f"  %{new}.{m}.{n} = fadd {v} %{total}.{m}.{n}, %{last[p]}.{m}.{n}")
                total = new
            lines += [
                f"  %r{m}.{n} = call reassoc {self.scalar} @{name}({self.scalar} {zero}, "
                f"{v} %{total}.{m}.{n})",
                f"  %q{m}.{n} = getelementptr {self.scalar}, ptr %c, i64 {m * self.plan.panel + n}",
                f"  store {self.scalar} %r{m}.{n}, ptr %q{m}.{n}, align {self.bytes}",
            ]
        self.frame.builder.declare(f"declare {self.scalar} @{name}({self.scalar}, {v})")
        return "\n".join([*lines, "  ret void", "}", ""])

    def _parts(self, shape: Dot) -> int:
        """Sums of each dot, of every so many vectors: a single row needs several, since each
        addition waits for the one before."""
        return max(1, min(_PARTS // (shape.rows * shape.count), self.k // self.lanes))

    def _multiply_add(
        self, shape: Dot, at: str, more: int, old: str, new: str, mask: str | None = None
    ) -> list[str]:
        """One vector along k of every row, `more` behind a value or a number."""
        v, name = with_lanes(self.scalar, self.lanes), tag(self.scalar, self.lanes)
        step = step_of(self.big, self.big.indices, self.strides)
        lines = []
        for kind, count, apart in (("x", shape.rows, self.x_row), ("w", shape.count, step)):
            for n in range(count):
                lines += [
                    f"  %{new}{kind}{n}.r = getelementptr {self.scalar}, ptr %{kind}, "
                    f"i64 {n * apart + more}",
                    f"  %{new}{kind}{n}.p = getelementptr {self.scalar}, ptr %{new}{kind}{n}.r, "
                    f"i64 {at}",
                ]
                lines.append(self._load(f"{new}{kind}{n}", mask))
        for m in range(shape.rows):
            for n in range(shape.count):
                lines.append(
                    f"  %{new}.{m}.{n} = call {v} @llvm.fmuladd.{name}({v} %{new}x{m}, "
                    f"{v} %{new}w{n}, {v} %{old}.{m}.{n})"
                )
        self.frame.builder.declare(f"declare {v} @llvm.fmuladd.{name}({v}, {v}, {v})")
        return lines

    def _load(self, value: str, mask: str | None) -> str:
        v = with_lanes(self.scalar, self.lanes)
        if mask is None:
            return f"  %{value} = load {v}, ptr %{value}.p, align {self.bytes}"
        bits = with_lanes("i1", self.lanes)
        name = f"llvm.masked.load.{tag(self.scalar, self.lanes)}.p0"
        self.frame.builder.declare(f"declare {v} @{name}(ptr, i32, {bits}, {v})")
        return (
            f"  %{value} = call {v} @{name}(ptr %{value}.p, i32 {self.bytes}, {bits} {mask}, "
            f"{v} zeroinitializer)"
        )


def _block(form: Form, big: Operand, count: int, target: Target) -> int:
    """Rows of the big operand in a chunk."""
    bytes_of, lanes = width(form.dtype), target.lanes(form.dtype)
    least = max(1, _CHUNK_BYTES // (size(form.reduced) * bytes_of * count))
    pieces = -(-big.extent // count)
    block = max(least, -(-pieces // _CHUNKS)) * count
    unit = math.lcm(count, lanes)
    return min(-(-block // unit), max(1, 256 // unit)) * unit


def _is_one_stream(form: Form, big: Operand, target: Target) -> bool:
    """Whether rows of the big operand are best read one after the other: several that share pages,
    from beyond a core's caches, are more than a processor that looks ahead itself can follow."""
    row = size(form.reduced) * width(form.dtype)
    return target.looks_ahead and row <= PAGE and big.extent * row > target.l2


def _rows_at_once(small: int, big: int, target: Target) -> int:
    """How many rows of the big operand are read together: their sums fill the registers."""
    return max(1, min(8, (target.registers - small - 2) // small, big))
