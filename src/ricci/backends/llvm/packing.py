"""Packs an operand of a contraction into panels.

A panel holds `stride` neighbouring elements of the operand's own index space for each k, one k
after the other, so that a register tile reads it straight on. Its function evaluates the
operand's expression, whatever that is, in vectors along the space or, where the elements lie
contiguous along k, in square blocks that are transposed in registers. A term that a guard
leaves out is packed as zero; so where the other factor is infinite or NaN the sum becomes NaN,
as it does in every library that pads with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from ...dtypes import DType
from ...ir.nodes import Access, Binary, Expr, Index
from ...ir.rewrite import accesses, free_indices, is_division, nodes_through_locals
from ...memo import remembered
from ...records import cached_property, dataclass, replace
from . import contraction_transpose as transpose
from .builder import Builder
from .contraction_form import Operand, size
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
    product,
    smin,
    times,
)
from .emit import Frame, Mask, Place, Point
from .emit_access import (
    extent_of,
    is_within,
    linear,
    may_be_zero,
    needs_check,
    shape_of,
)
from .emit_guards import find_guards
from .emit_lanes import store_first, store_live, store_masked, strided_load
from .emit_memory import prefetch
from .emit_types import literal, scalar_type, splat, width, with_lanes
from .kernels import Strides
from .sizes import row_major
from .target import LINE
from .words import HIGH_BITS


@dataclass(frozen=True)
class Depth:
    """The reduced indices in the order in which panels hold them, and how they are cut in blocks.

    A block fixes the indices before `split`, takes a range of `split` and all of those after it.
    """

    indices: tuple[Index, ...]
    split: int
    block: int
    """How many values of the split index a block has at most."""

    @cached_property
    def extent(self) -> int:
        return size(self.indices)

    @cached_property
    def inner(self) -> int:
        """Points per value of the split index."""
        return size(self.indices[self.split + 1 :])

    @cached_property
    def outer(self) -> int:
        """Points of the indices before the split one."""
        return size(self.indices[: self.split])

    @property
    def cut(self) -> int:
        """The extent of the split index."""
        return extent_of(self.indices[self.split])

    @property
    def blocks(self) -> int:
        return self.outer * -(-self.cut // self.block)

    @property
    def most(self) -> int:
        """Points of the largest block."""
        return min(self.block, self.cut) * self.inner


@dataclass(frozen=True, slots=True)
class Packing:
    """How one operand is packed: which of its indices a panel runs over, and which are given.

    `outer` are the batch indices that it depends on.
    """

    name: str
    operand: Operand
    outer: tuple[Index, ...]
    depth: Depth
    dtype: DType
    lanes: int
    whole: bool
    """Whether all panels begin and end at multiples of `lanes`."""
    unit: int = 1
    """Panels have a multiple of it per k: a vector, or one row."""
    panel: int = 0
    """Elements per k of a panel, except for the last one."""
    is_far: bool = False
    """Whether elements come from beyond the caches, and nothing else asks for them."""

    def call(self, outer: str, begin: str, count: str, stride: str, block: Block, to: str) -> str:
        """The call that packs `count` elements from number `begin` into the panel at `to`."""
        return (
            f"call void @{self.name}(ptr %table, ptr {to}, i64 {outer}, i64 {begin}, i64 {count}, "
            f"i64 {stride}, i64 {block.outer}, i64 {block.begin}, i64 {block.end})"
        )


MOST_STRIDE = 8
"""Beyond it elements are gathered one by one."""

Inner = Callable[[Places, str], None]


@dataclass(frozen=True, slots=True)
class Block:
    """One block of k at run time: the number of its fixed indices, the range of the split one."""

    outer: str
    begin: str
    end: str
    points: str
    """How many points it has."""
    first: str
    """How many points lie before it."""


def write_packing(frame: Frame, packing: Packing, strides: Strides) -> str:
    """The function that `Packing.call` calls."""
    builder = frame.builder
    frame.builder = Builder(
        packing.name,
        "ptr noalias %table, ptr noalias %to, i64 %outer, i64 %begin, i64 %count, i64 %stride, "
        "i64 %k.outer, i64 %k.begin, i64 %k.end",
        "internal void",
        "noinline",
    )
    frame.builder.scales = builder.scales
    packer = _Packer(frame, packing, strides)
    packer.write()
    frame.builder.line("ret void")
    text, declared = frame.builder.text(), frame.builder.declarations
    frame.builder = builder
    builder.declarations |= declared
    return text + packer.turning()


class _Packer:
    def __init__(self, frame: Frame, packing: Packing, strides: Strides) -> None:
        self.frame, self.packing = frame, packing
        self.b = frame.builder
        self.value = packing.operand.value
        self.scalar = scalar_type(packing.dtype)
        depth = packing.depth
        self.space = merge(packing.operand.indices, [self.value], strides)
        self.fixed, self.inner = depth.indices[: depth.split], depth.indices[depth.split :]
        self.steps = {k: size(depth.indices[n + 1 :]) for n, k in enumerate(depth.indices)}
        self.along = contiguous_depth(packing.operand, depth, packing.lanes, strides)
        self.strides = strides
        self.turned: set[int] = set()
        """The numbers of rows known beforehand of blocks that are transposed."""
        self.beyond = self._beyond() if packing.is_far else 0
        """How many bytes behind elements those are to ask for; 0 if none."""

    def write(self) -> None:
        p, b = self.packing, self.b
        given = decode(b, _separate(p.outer), "%outer") | decode(
            b, _separate(self.fixed), "%k.outer"
        )
        if p.unit > 1 and not p.whole and p.dtype.is_real:
            self._clear()
        if not self._is_row_by_row():
            self._walk(given, self._counts())
            return
        arms = b.branches(b.op(f"icmp eq i64 %count, {p.panel}"))
        with arms.then():
            self._loops(given, self.inner, "%to", self._row)
        with arms.other():
            self._walk(given, self._counts())

    def _counts(self) -> list[int]:
        """How many elements a panel may have, if it counts to know that beforehand: stores of some
        lanes are then made of shorter ones, where processors have no fast ones under a mask."""
        p = self.packing
        if self.b.scales or p.panel < 2 or p.whole or p.lanes < 2 or len(self.space.groups) != 1:
            return []
        return [n for n in dict.fromkeys((p.panel, p.operand.extent % p.panel)) if n]

    def _walk(self, given: Places, counts: Sequence[int]) -> None:
        """The elements of a panel, of one of some lengths or of another."""
        p, b = self.packing, self.b

        def points(step: Step) -> None:
            self._points(given, step)

        if not counts:
            Walk(self.space, p.lanes, p.whole).write(b, "%begin", "%count", points)
            return
        arms = b.branches(b.op(f"icmp eq i64 %count, {counts[0]}"))
        with arms.then():
            Walk(self.space, p.lanes, inside=True).write(b, "%begin", str(counts[0]), points)
        with arms.other():
            self._walk(given, counts[1:])

    def _is_row_by_row(self) -> bool:
        """Whether all of a panel lies side by side for each k, and is best read so: neighbouring k
        are on other pages of memory."""
        p = self.packing
        return p.panel % p.lanes == 0 and not p.operand.flip and self._is_side_by_side()

    def _is_side_by_side(self) -> bool:
        """Whether all elements for one k lie side by side, and neighbouring k elsewhere."""
        access, lanes = self.packing.operand.access, self.packing.lanes
        if access is None or self.along is not None or not is_plain(access) or lanes == 1:
            return False
        one = len(self.space.groups) == 1
        return one and flat_form(access, self.strides).steps.get(self.space.groups[0][-1], 0) == 1

    def _beyond(self) -> int:
        """How many bytes behind the elements for one k those of the next panels are: the processor
        does not foresee them, as each k is on a page of its own. If runs of elements are short, it
        is those of the next run; 0 if elements lie apart."""
        p, access, groups = self.packing, self.packing.operand.access, self.space.groups
        if access is None or not groups or self.along is not None or not _is_linear(access):
            return 0
        steps, bytes_of = flat_form(access, self.strides).steps, width(p.dtype)
        step = steps.get(groups[-1][-1], 0)
        if p.lanes == 1 or step < 1 or step * p.lanes * bytes_of > LINE:
            return 0
        if len(groups) > 1 and size(groups[-1]) < 2 * p.panel:
            return steps.get(groups[-2][-1], 0) * bytes_of
        return max(p.panel * step * bytes_of, LINE)

    def _row(self, places: Places, to: str) -> None:
        """The elements of a whole panel for one k."""
        p, b, access = self.packing, self.b, self.packing.operand.access
        assert access is not None
        for lane in range(0, p.panel, p.lanes):
            if self.beyond and lane * width(p.dtype) % LINE == 0:
                self._ask(places | group_places(self.space.groups[0], plus(b, "%begin", str(lane))))
            start = plus(b, "%begin", str(lane))
            own = group_places(self.space.groups[0], start, vector=True)
            point = self.frame.point(p.lanes, places | own)
            at = b.pure(f"getelementptr {self.scalar}, ptr {to}, i64 {lane}", to)
            here = Step(own, p.lanes, Mask(), str(p.lanes), str(lane))
            store_step(b, p.dtype, here, point.vector(point.value(access)), at)

    def _clear(self) -> None:
        """Zeros in the last vectors of a panel; elements take the first lanes later. Sums of what
        happened to be in the others are not looked at, but with subnormal numbers they take ten
        times as long."""
        b, p = self.b, self.packing
        full = with_lanes(self.scalar, p.unit)
        with b.when(b.op("icmp slt i64 %count, %stride")):
            last = minus(b, "%stride", str(p.unit))
            points = product(b, minus(b, "%k.end", "%k.begin"), str(p.depth.inner))
            with b.loop(0, points) as loop:
                at = plus(b, product(b, loop.index, "%stride"), last)
                to = b.pure(f"getelementptr {self.scalar}, ptr %to, i64 {at}", at)
                b.line(f"store {full} zeroinitializer, ptr {to}, align {width(p.dtype)}")

    def _points(self, given: Places, step: Step) -> None:
        """Packs some neighbouring points for all k of the block."""
        b = self.b
        to = b.pure(f"getelementptr {self.scalar}, ptr %to, i64 {step.flat}", step.flat)
        places = given | step.places
        if self.along is None or step.lanes == 1:
            costly, free = loop_order([self.value], self.inner)
            self._loops(places, costly, to, lambda p, at: self._split(p, step, at, free))
        else:
            order = [k for k in self.inner if k not in self.along]
            self._loops(places, order, to, lambda p, at: self._transposed(p, step, at))

    def _loops(self, places: Places, order: Sequence[Index], to: str, body: Inner) -> None:
        """Loops over reduced indices of a block, around what is done for each."""
        b = self.b
        if not order:
            body(places, to)
            return
        index, split = order[0], self.packing.depth.indices[self.packing.depth.split]
        begin: str | int = "%k.begin" if index is split else 0
        end: str | int = "%k.end" if index is split else extent_of(index)
        step = times(b, "%stride", self.steps[index])
        with b.loop(begin, end) as loop:
            there = minus(b, loop.index, "%k.begin") if index is split else loop.index
            offset = product(b, there, step)
            at = b.pure(f"getelementptr {self.scalar}, ptr {to}, i64 {offset}", to, offset)
            self._loops(places | {index: Place(loop.index)}, order[1:], at, body)

    def _split(self, places: Places, step: Step, to: str, free: Sequence[Index]) -> None:
        """Packs points for the indices that no guard depends on: without guards if they hold."""
        b = self.b
        certain = self._holds_everywhere(places, step)
        if certain is None:
            self._loops(places, free, to, lambda p, at: self._element(p, step, at))
            return
        arms = b.branches(certain)
        with arms.then():
            self._loops(places, free, to, lambda p, at: self._element(p, step, at, False))
        with arms.other():
            self._loops(places, free, to, lambda p, at: self._element(p, step, at))

    def _holds_everywhere(self, places: Places, step: Step) -> str | None:
        """Whether all guards hold in all lanes: a linear index is in range in between if it is at
        both ends. None if there is no guard, or one that is not so simple."""
        if step.lanes == 1 or not step.mask.is_full:
            return None
        guards = find_guards((self.value,))
        if not guards or any(linear(e).others for e, _, _ in guards):
            return None
        result = "true"
        for lane in (0, step.lanes - 1):
            ends = {i: Place(p.base, p.offset + lane) if p.vector else p for i, p in places.items()}
            point = self.frame.point(1, ends)
            for expr, extent, _ in guards:
                good = point.in_range(point.value(expr), extent).text
                if result == "true" or result == good:
                    result = good
                elif good != "true":
                    result = self.b.pure(f"and i1 {result}, {good}", result, good)
        return result

    def _transposed(self, places: Places, step: Step, to: str) -> None:
        """Packs neighbouring points along the reduced indices that are contiguous in memory."""
        b, along, lanes = self.b, self.along, self.packing.lanes
        access = self.packing.operand.stored
        assert along is not None and access is not None
        begin, end = "0", str(size(along))
        if along[0] is self.inner[0]:
            begin, end = (times(b, x, size(along[1:])) for x in ("%k.begin", "%k.end"))
        stride = times(b, "%stride", self.steps[along[-1]])
        with b.loop(begin, end, lanes) as loop:
            here = places | group_places(along, loop.index)
            address = self.frame.point(lanes, here).address(access)
            there = minus(b, loop.index, begin)
            offset = product(b, there, stride)
            at = b.pure(f"getelementptr {self.scalar}, ptr {to}, i64 {offset}", to, offset)
            count = smin(b, minus(b, end, loop.index), str(lanes))
            assert address.apart is not None
            pointer, apart = address.pointer, address.apart
            loading, known = self.packing.operand.loading, ""
            if step.live.isdigit() and not b.scales:
                known = self._turn(int(step.live))
                self.turned.add(int(step.live))
            b.line(
                transpose.call_transpose(
                    pointer, apart, step.live, count, at, stride, loading, known=known
                )
            )

    def _turn(self, rows: int) -> str:
        """The name of the function that transposes so many rows."""
        return f"{self.packing.name}.turn{rows}"

    def turning(self) -> str:
        """The functions that transpose numbers of rows which are known beforehand."""
        p = self.packing
        return "".join(
            transpose.write_transpose(
                p.dtype, p.lanes, p.operand.loading, known=self._turn(rows), rows=rows
            )
            for rows in sorted(self.turned)
        )

    def _element(self, places: Places, step: Step, to: str, guarded: bool = True) -> None:
        if self.beyond:
            self._ask(places)
        some = not step.mask.is_full or (guarded and find_guards((self.value,)))
        inside = self._is_in_memory(places, step) if some else None
        if inside is None:
            self._store(step, self._evaluate(places, step, guarded), to)
            return
        arms = self.b.branches(inside)
        with arms.then():
            everywhere = replace(step, mask=Mask())
            value = self._evaluate(places, everywhere, False)
            point = self.frame.point(step.lanes, places)
            guard = point.guarded(self.value) if guarded else point
            if guard is not point:
                full, bits = with_lanes(self.scalar, step.lanes), with_lanes("i1", step.lanes)
                holds = guard.mask_text(guard.mask)
                zero = splat(literal(0, self.packing.dtype), self.scalar, step.lanes)
                text = f"select {bits} {holds}, {full} {value}, {full} {zero}"
                value = self.b.pure(text, holds, value)
            self._store(step, value, to)
        with arms.other():
            self._store(step, self._evaluate(places, step, guarded), to)

    def _ask(self, places: Places) -> None:
        """Bring near what lies behind the elements at some places."""
        access = self.packing.operand.access
        assert access is not None
        prefetch(self.b, self.frame.point(1, places).address(access).pointer, self.beyond)

    def _is_in_memory(self, places: Places, step: Step) -> str | None:
        """Whether all lanes, those that are not there and those that a guard leaves out, too, are
        elements of their tensors, which can be read. None if it is not known, or does not matter:
        only of few bytes are some lanes read one by one, as no instruction does it, and where
        vectors are done in halves, reads under a mask take as long as several others."""
        reads, target = accesses(self.value), self.frame.target
        is_slow = target is not None and target.narrow
        is_slow = is_slow or any(width(a.dtype) <= 2 for a in reads)
        if step.lanes == 1 or self.b.scales or not is_slow:
            return None
        if any(_may_fail(node) for node in nodes_through_locals(self.value)):
            return None
        if any(accesses(s.index) for a in reads for s in a.subscripts):
            return None  # which may themselves not be there
        moved = {i for i, p in places.items() if p.vector}
        ends = []
        for lane in (0, step.lanes - 1):
            here = {i: Place(p.base, p.offset + lane) if p.vector else p for i, p in places.items()}
            ends.append(self.frame.point(1, here))
        result = "true"
        for access in reads:
            span = _span(access, moved, self.strides)
            if span is None or access.tensor in self.frame.local:
                return None
            first = self.frame.pointer(access.tensor)
            last = ends[0].advance(first, [], span, access.dtype)
            low, high = (e.address(access).pointer for e in ends)
            for limit in (f"icmp ule ptr {first}, {low}", f"icmp ule ptr {high}, {last}"):
                holds = self.b.pure(limit, first, last, low, high)
                result = holds if result == "true" else self.b.op(f"and i1 {result}, {holds}")
        return result

    def _evaluate(self, places: Places, step: Step, guarded: bool) -> str:
        return evaluate(self.frame, self.value, self.packing.dtype, places, step, guarded)

    def _store(self, step: Step, value: str, to: str) -> None:
        if self.packing.operand.flip:
            full = with_lanes(self.scalar, step.lanes)
            value = self.b.op(f"xor {full} {value}, {splat(HIGH_BITS, self.scalar, step.lanes)}")
        store_step(self.b, self.packing.dtype, step, value, to)


def evaluate(
    frame: Frame, expr: Expr, dtype: DType, places: Places, step: Step, guard: bool = True
) -> str:
    """The value of an operand at a step of a walk, zero where a guard fails."""
    lanes, b = step.lanes, frame.builder
    point = frame.point(lanes, places, mask=step.mask)
    guarded = point.guarded(expr) if guard else point
    if isinstance(expr, Access) and lanes > 1:
        text = _strided(guarded, expr)
        if text is not None:
            return text
    value = guarded.value(expr)
    text = point.vector(value)
    is_zero_there = isinstance(expr, Access) and value.vector and lanes > 1
    if guarded is point or is_zero_there:
        return text
    condition = guarded.mask_text(guarded.mask)
    scalar = scalar_type(dtype)
    zero = splat(literal(0.0, dtype), scalar, lanes)
    full, bits = with_lanes(scalar, lanes), with_lanes("i1", lanes)
    return b.pure(f"select {bits} {condition}, {full} {text}, {full} {zero}", condition, text)


def _strided(point: Point, access: Access) -> str | None:
    """Every `stride`-th element, zero where the mask is off."""
    address, dtype = point.address(access), access.dtype
    if address.offsets is not None or not 2 <= address.stride <= MOST_STRIDE:
        return None
    mask = None if address.mask.is_full else point.mask_text(address.mask)
    given = scalar_type(dtype), width(dtype), address, mask, point.lanes
    return strided_load(point.b, *given, stable=False, most=MOST_STRIDE)


def store_step(b: Builder, dtype: DType, step: Step, value: str, to: str) -> None:
    """Store the lanes of a step side by side."""
    scalar, align = scalar_type(dtype), width(dtype)
    full = with_lanes(scalar, step.lanes)
    if step.mask.is_full:
        b.line(f"store {full} {value}, ptr {to}, align {align}")
    elif b.scales:
        assert step.mask.each is not None
        store_masked(b, scalar, step.lanes, value, to, align, step.mask.each)
    elif step.live.isdigit():
        store_first(b, scalar, step.lanes, int(step.live), value, to, align)
    else:
        store_live(b, scalar, step.lanes, step.live, value, to, align)


@remembered
def contiguous_depth(
    operand: Operand, depth: Depth, lanes: int, strides: Strides
) -> tuple[Index, ...] | None:
    """The last reduced indices, if the operand lies contiguous along them and not along its own
    indices, so that it is best read along them; all after the split one, or some neighbours."""
    access = operand.stored
    if access is None or lanes < 2 or not is_plain(access):
        return None
    if access is not operand.value and lanes < transpose.LEAST_NARROW:
        return None
    space = merge(operand.indices, [access], strides)
    steps = flat_form(access, strides).steps
    if not space.groups or steps.get(space.groups[-1][-1], 0) in (0, 1):
        return None
    inner = depth.indices[depth.split :]
    groups = merge(inner, [access], strides).groups
    if len(groups) == 1 and steps.get(inner[-1], 0) == 1 and depth.most >= lanes // 2:
        return inner
    for group in groups:
        if steps.get(group[-1], 0) == 1 and size(group) >= lanes // 2 and inner[0] not in group:
            return group
    for index in inner:
        if steps.get(index, 0) == 1 and extent_of(index) >= lanes // 2:
            return (index,)
    return None


@remembered
def is_plain(access: Access) -> bool:
    """Whether all subscripts are linear and proved to be in range."""
    shape = shape_of(access.tensor.shape)
    return all(
        is_within(s.index, n) and not linear(s.index).others
        for s, n in zip(access.subscripts, shape, strict=True)
    )


def _is_linear(access: Access) -> bool:
    """Whether all subscripts are linear, and no element is missing."""
    return not needs_check(access) and not any(linear(s.index).others for s in access.subscripts)


def _may_fail(node: Expr) -> bool:
    """Whether a part of an expression reports something for elements that nobody wants."""
    if isinstance(node, Access):
        return needs_check(node)
    return isinstance(node, Binary) and is_division(node) and may_be_zero(node.rhs)


def _span(access: Access, moved: Set[Index], strides: Strides) -> int | None:
    """How far the last element of a tensor is from its first, if the elements of an access lie
    one behind the other along the indices that move."""
    form, shape = flat_form(access, strides), shape_of(access.tensor.shape)
    if any(i in moved for expr, _ in form.others.values() for i in free_indices(expr)):
        return None
    steps = [form.indices[i] for i in moved if i in form.indices]
    if not all(isinstance(n, int) and n > 0 for n in steps):
        return None
    span = 0
    for extent, apart in zip(shape, strides.get(access.tensor) or row_major(shape), strict=True):
        if not isinstance(apart, int) or apart < 0:
            return None
        span += (extent - 1) * apart
    return span


def _separate(indices: Sequence[Index]) -> Space:
    """A space that is not merged."""
    return Space(tuple((i,) for i in indices if extent_of(i) > 1))


@remembered
def loop_order(exprs: Sequence[Expr], indices: Sequence[Index]) -> tuple[list[Index], list[Index]]:
    """Indices that occur in guards or in more than linear subscripts, whose loops go outside so
    that masks and the like are computed there, and the others; each the shortest first."""
    costly: set[Index] = set()
    for access in accesses(*exprs):
        for s, extent in zip(access.subscripts, shape_of(access.tensor.shape), strict=True):
            if linear(s.index).others or not is_within(s.index, extent):
                costly.update(free_indices(s.index))
    order = sorted(indices, key=extent_of)
    return [i for i in order if i in costly], [i for i in order if i not in costly]
