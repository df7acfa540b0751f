"""Emits a `Group`: a function for each of its kernels, called in turn at blocks of the points that
they share, so that what one leaves in the cache is there for the next.

A thread keeps the rows of local tensors for one block, which is as large as stays in the second
cache if there are sums of products, else in the first; between products, the other kernels do a
few points at a time. All functions read a copy of the kernel's table that has more entries before
its own: where local tensors would begin, if all of them were there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.loops import Group, Reduce, expressions_of, tensors_touched, tensors_written
from ...ir.nodes import Index, Tensor
from ...ir.rewrite import accesses
from ...passes.siblings import factors_of_pairs
from ...records import replace
from .builder import Builder
from .chunks import MOST_CHUNKS, chunks_of
from .contraction_plan import Plan
from .contraction_sides import batch_places
from .contraction_space import plus, smin, times
from .contraction_words import with_strides
from .emit import Frame
from .emit_access import extent_of
from .emit_memory import FAR
from .emit_types import width
from .group_bands import write_bands
from .group_late import Late, find_late
from .group_memory import Room, Stretch, plan_memory, rooms_of, row_bytes
from .group_peaks import sums_again
from .group_product import Products, follow_products, is_product, plan_products
from .group_writer import GroupWriter, Panels, divided, name_of
from .kernels import KernelCode, Strides
from .nest_plan import make_plan
from .nest_reduce import ReduceNest
from .nest_stream import FENCE, streamed
from .nest_turn import TurnNest, plan_turned
from .nest_uses import bytes_of, flat_form, is_far
from .schedule import Chain, impossible
from .sizes import likely, product, sizes_of
from .target import Target

MOST_POINTS, NEAR_BYTES = 16, 24 << 10
"""Points that kernels without products do at a time, and what these touch."""
LATE_BYTES = 3
"""The same of blocks of rows of which the last kernel does the one before."""
_NEXT_BYTES = 8
"""How many times less than the second cache what is wanted next may take on a mesh."""
CHUNKS_PER_CORE = 4
MOST_SCHEDULED = 1 << 14
"""Chunks that a schedule may ask for."""


def write_group(
    group: Group,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    schedule: Chain | None = None,
) -> KernelCode:
    """The code of a group, whose sizes are known; `Error` E0807 if it cannot follow a schedule."""
    if group.bands is not None:
        if schedule is not None:
            raise impossible("what is done in bands follows none", group.name)
        return write_bands(group, group.bands, strides, target, constant)
    return _Writer(group, strides, target, constant, schedule).code()


def choose_chain(
    group: Group, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> Chain | None:
    """The schedule of a group for which none is given; None if it has no products that follow
    one."""
    if group.bands is not None:
        return None
    writer = _Writer(group, strides, target, constant)
    chunks = writer.code().chunks
    return None if writer.products is None else writer.products.schedule(chunks)


class _Writer(GroupWriter):
    def __init__(
        self,
        group: Group,
        strides: Strides,
        target: Target,
        constant: frozenset[Tensor],
        schedule: Chain | None = None,
    ) -> None:
        stretches = list(_stretches(group))
        super().__init__(group, rooms_of(group, stretches), strides, target, constant)
        self.schedule, self.stretches = schedule, stretches
        self.last = extent_of(group.shared[-1])
        self.points = math.prod(map(extent_of, group.shared))
        self.products = self._planned(target.l2 // max(1, row_bytes(self.rooms)))
        self.block = self._few(self.stretches[0], self.last)
        if self.products is not None:
            self.block = self.products.block
        self.few = [self._few(s, self.block) for s in self.stretches]
        self.pieces = group.pieces if self.products is None and self.few == [1] else ()
        """The kernels that are done piece by piece of each point."""
        self.late = self._late()
        if self.late is not None:
            self.block = self._late_rows()
            again = self.late.again.items()
            self.frame.local.update((new, self.frame.local[old]) for old, new in again)
        memory = plan_memory(self.rooms, self.block, self.few)
        self.offsets, self.scratch = memory.offsets, memory.size

    def _planned(self, most: int) -> Products | None:
        """The products; `most` rows fill the second cache."""
        given = self.strides, self.target, self.constant
        if self.schedule is not None:
            return follow_products(self.group, self.schedule, *given, most)
        return plan_products(self.group, *given, most)

    def _late(self) -> Late | None:
        """The last kernel with one before it, if it writes past the caches and rows are done one at
        a time."""
        one_by_one = self.products is None and self.few == [1] and self._late_rows() > 1
        if not one_by_one:
            return None
        kernel, frame = self._inner(self.group.kernels[-1]), self.frame.part("")
        streams = streamed(kernel, make_plan(kernel, frame, self.target), frame)
        return find_late(self.group) if streams else None

    def _inner(self, kernel: Reduce, number: int = -1) -> Reduce:
        """What a kernel, with a number, does at a point or a piece of it."""
        return replace(kernel, domain=kernel.domain[len(self._shared(number)) :])

    def _shared(self, number: int) -> tuple[Index, ...]:
        """The indices of the points, or pieces, at which a kernel is done."""
        count = len(self.group.shared) + (number in self.pieces)
        return self.group.kernels[number].domain[:count]

    def _late_rows(self) -> int:
        """The rows of a block, which are kept in part of the second cache."""
        most = max(1, self.target.l2 // LATE_BYTES // max(1, row_bytes(self.rooms)))
        return -(-self.last // -(-self.last // most))

    def _followed(self, number: int) -> dict[Tensor, Tensor]:
        """Local tensors of a kernel, and what a later one writes at the same elements: its lines
        come near while the first has enough to compute."""
        stretch = next(s for s in self.stretches if number in s)
        if self._bytes(stretch) > NEAR_BYTES * self.points:
            return {}
        group, local = self.group, [r.tensor for r in self.rooms]
        later = [t for n in stretch if n > number for t in tensors_written(group.kernels[n])]
        return {
            own: other
            for own in tensors_written(group.kernels[number])
            for other in later
            if own in local and other not in local and not is_far(other, self.target)
            if own.shape == other.shape
        }

    def _few(self, stretch: Stretch, block: int) -> int:
        """How many points a stretch does at a time: as many as stay in the nearest cache, for
        what one point waits for is then done for others."""
        size = self._bytes(stretch)
        most = max(1, min(MOST_POINTS, NEAR_BYTES * self.points // max(size, 1), block))
        if len(self.stretches) == 1:
            return -(-block // -(-block // most))
        return max(n for n in range(1, most + 1) if block % n == 0)

    def _bytes(self, stretch: Stretch) -> int:
        """What a stretch touches, at all points."""
        kernels = [self.group.kernels[n] for n in stretch]
        tensors = dict.fromkeys(t for k in kernels for t in tensors_touched(k))
        return sum(likely(product(sizes_of(t.shape))) * width(t.dtype) for t in tensors)

    # --------------------------------------------------------------- parts

    def code(self) -> KernelCode:
        texts = [self._part(n) for n in range(len(self.group.kernels))]
        if self.late is not None:
            frame = self.frame.part(_LATE)
            self._tell(frame, self.late.first)  # the last reads nothing that is older
            frame.sums = sums_again(frame.sums, self.late.again)
            texts.append(self._nest(self.late.kernel, self.late.first, frame, self.late.before))
            self.frame.builder.declarations |= frame.builder.declarations
        blocks = self.points // self.last * -(-self.last // self.block)
        chunks = self._chunks(blocks)
        self._main(blocks, chunks)
        return self._code(texts, chunks, "group" if self.products is None else "chain")

    def _chunks(self, blocks: int) -> int:
        """How many chunks there are; each packs its panels."""
        if self.schedule is not None:
            return max(1, min(blocks, self.schedule.chunks, MOST_SCHEDULED))
        most = max(1, min(blocks, chunks_of(self.work)))
        if self.products is None:
            return min(most, MOST_CHUNKS)
        outer = self.points // self.last
        pieces = -(-CHUNKS_PER_CORE * self.target.cores // outer)
        return min(most, outer * min(pieces, blocks // outer))

    def _part(self, number: int) -> str:
        """The functions of a kernel."""
        plan = None if self.products is None else self.products.plans.get(number)
        strides = self.strides if plan is None else with_strides(plan.form, self.strides)
        frame = self.frame.part(name_of(number), strides)
        self._tell(frame, number)
        if plan is None:
            text = self._nest(self.group.kernels[number], number, frame)
        else:
            text = self._product(number, frame, plan, strides)
        self.frame.builder.declarations |= frame.builder.declarations
        return text

    def _may_round(self, kernel: Reduce) -> bool:
        """Whether an instruction that takes subnormal numbers for zero may round the results of a
        kernel: those that nothing but others that do so, too, read."""
        plans = [] if self.products is None else [*self.products.plans.values()]
        if not (plans and plans[0].form.words is not None and self.target.rounds):
            return False
        return {t.tensor for t in kernel.targets} <= {*factors_of_pairs(self.group)}

    def _nest(self, kernel: Reduce, number: int, frame: Frame, before: Index | None = None) -> str:
        """The function of a kernel, or of one that does what the kernel with that number does, and
        something else at the point `before`."""
        group = self.group
        few = next(n for s, n in zip(self.stretches, self.few, strict=True) if number in s)
        frame.ahead = _wanted_next(group, number, frame, few)
        if self.target.on_mesh:  # what comes next drives out what is read again
            most = self.target.l2 // _NEXT_BYTES
            frame.ahead = {t: n for t, n in frame.ahead.items() if n <= most}
        steps = self.points // few
        frame.far = frozenset(t for t in frame.ahead if bytes_of(t) > FAR * steps)
        read = accesses(*(e for k in group.kernels for e in expressions_of(k)))
        frame.reread = frozenset(a.tensor for a in read)
        frame.followed = self._followed(number)
        frame.fences = False
        frame.builder.rounds = self._may_round(group.kernels[number])
        shared, kernel = self._shared(number), self._inner(kernel, number)
        points = math.prod(map(extent_of, shared))
        turned = plan_turned(kernel, frame, self.target, near=True) if before is None else None
        if turned is not None:
            self.work += turned.work * points
            TurnNest(kernel, turned, frame).emit_within(shared, "%begin", few)
            frame.builder.line("ret void")
            return frame.builder.text()
        plan = make_plan(kernel, frame, self.target)
        self.work += plan.work * points if before is None else 0.0
        plan = replace(plan, leading=0, blocks=1, chunks=1)
        nest = ReduceNest(kernel, plan, frame)
        self.streams |= bool(streamed(kernel, plan, frame))
        self.own_scratch = max(self.own_scratch, nest.scratch)
        nest.emit_within(shared, "%begin", few, before)
        frame.builder.line("ret void")
        return frame.builder.text()

    # ---------------------------------------------------------------- main

    def _main(self, blocks: int, chunks: int) -> None:
        """The function of the kernel."""
        b = self.frame.builder
        first, end = self._begin(blocks, chunks)
        with b.loop(first, end) as loop:
            per = -(-self.last // self.block)
            outer, within = divided(b, loop.index, per)
            begin = times(b, within, self.block)
            self._place([r for r in self.rooms if r.stretch is None], begin)
            for number, stretch in enumerate(self.stretches):
                if self.products is not None and stretch[0] in self.products.plans:
                    self._call_product(stretch[0], loop.index, first, per)
                else:
                    self._call_nests(number, outer, begin)
        if self.streams:
            b.line(FENCE)
        b.line("ret void")

    def _place(self, rooms: Sequence[Room], begin: str) -> None:
        """Keep the rows of tensors from a value of the last shared index on."""
        for room in rooms:
            back = times(self.frame.builder, begin, room.step)
            self._set(room.kept.number, self.offsets[room.tensor], back)

    def _call_nests(self, number: int, outer: str, begin: str) -> None:
        """The kernels of a stretch, a few points at a time."""
        b, few = self.frame.builder, self.few[number]
        rooms = [r for r in self.rooms if r.stretch == number]
        steps = -(-self.last // few)
        first = plus(b, times(b, outer, steps), _quotient(b, begin, few))
        size = smin(b, str(self.block), b.pure(f"sub i64 {self.last}, {begin}", begin))
        count = _quotient(b, plus(b, size, str(few - 1)), few)
        with b.loop(0, count) as loop:
            if rooms:
                self._place(rooms, plus(b, begin, times(b, loop.index, few)))
            at = plus(b, first, loop.index)
            for kernel in self.stretches[number]:
                if kernel in self.pieces:
                    if kernel == self.pieces[0]:
                        self._call_pieces(at)
                elif self.late is None or kernel not in (self.late.first, self.late.last):
                    self._call(name_of(kernel), self.own, at, "0")
                elif kernel == self.late.first:
                    self._call_late(kernel, loop.index, at)
        if self.late is not None:
            last = plus(b, first, plus(b, count, "-1"))
            self._call(name_of(self.late.last), self.own, last, "0")

    def _call_pieces(self, at: str) -> None:
        """The kernels that are done piece by piece of a point."""
        b = self.frame.builder
        count = extent_of(self._shared(self.pieces[0])[-1])
        with b.loop(0, count) as piece:
            number = plus(b, times(b, at, count), piece.index)
            for kernel in self.pieces:
                self._call(name_of(kernel), self.own, number, "0")

    def _call_late(self, number: int, row: str, at: str) -> None:
        """A kernel, together with the last one at the row before if the block has one."""
        b = self.frame.builder
        arms = b.branches(b.pure(f"icmp eq i64 {row}, 0", row))
        with arms.then():
            self._call(name_of(number), self.own, at, "0")
        with arms.other():
            self._call(_LATE, self.own, at, "0")

    def _call_product(self, number: int, block: str, first: str, per: int) -> None:
        """A product at a block; its panels are packed where they are others than before."""
        assert self.products is not None
        b, plan = self.frame.builder, self.products.plans[number]
        panels = self.panels.get(number)
        if panels is not None:
            now, before = (self._outer(panels, plan, x, per) for x in (block, plus(b, block, "-1")))
            begins = b.pure(f"icmp eq i64 {block}, {first}", block, first)
            differs = b.pure(f"icmp ne i64 {now}, {before}", now, before)
            with b.when(b.pure(f"or i1 {begins}, {differs}", begins, differs)):
                self._set(panels.number, panels.offset, times(b, now, panels.bytes))
                self._call(panels.name, self.own, now, "0")
        begin = times(b, block, plan.lane_blocks)
        self._call(name_of(number), self.own, begin, plus(b, begin, str(plan.lane_blocks)))

    def _outer(self, panels: Panels, plan: Plan, block: str, per: int) -> str:
        """The number of the panels that a block needs."""
        b = self.frame.builder
        places = batch_places(b, plan.form.batch, divided(b, block, per)[0])
        return panels.side.outer(b, places)


def _stretches(group: Group) -> Iterator[Stretch]:
    """Each product by itself, and all kernels between two of them."""
    run: list[int] = []
    for number, kernel in enumerate(group.kernels):
        if not is_product(kernel, group.shared):
            run.append(number)
            continue
        if run:
            yield tuple(run)
        yield (number,)
        run = []
    if run:
        yield tuple(run)


def _wanted_next(group: Group, number: int, frame: Frame, block: int) -> dict[Tensor, int]:
    """The tensors of which the next block is wanted soon, and how many bytes on that is.

    The last kernel that reads a tensor brings it to the cache, unless that is the first, which
    finds it in none: it does most with what it reads, and has time to wait.
    """
    made = {t for k in group.kernels for t in tensors_written(k)}
    read = [{a.tensor: a for a in accesses(*expressions_of(k))} for k in group.kernels]
    ahead = {}
    for tensor, access in read[number].items():
        is_last = not any(tensor in r for r in read[number + 1 :])
        if tensor not in made and is_last and any(tensor in r for r in read[:number]):
            step = flat_form(access, frame).indices.get(group.shared[-1])
            if isinstance(step, int):
                ahead[tensor] = step * block * width(tensor.dtype)
    return ahead


def _quotient(b: Builder, number: str, divisor: int) -> str:
    if not number.startswith("%"):
        return str(int(number) // divisor)
    return number if divisor == 1 else b.pure(f"udiv i64 {number}, {divisor}", number)


_LATE = "kernel.late"
