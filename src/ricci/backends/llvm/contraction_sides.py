"""The two operands of a contraction as its tiles see them, and what prepares constant ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dtypes import DType
from ...ir.nodes import Index, Tensor, integer
from ...ir.rewrite import accesses
from ...records import dataclass
from . import contraction_transpose as transpose
from .builder import Builder
from .contraction_form import Form, size
from .contraction_plan import MOST_CHUNKS, Plan, batch_of
from .contraction_space import (
    Places,
    Space,
    chunk_range,
    decode,
    merge,
    minus,
    plus,
    product,
    smin,
    times,
)
from .emit import Frame
from .emit_access import extent_of
from .emit_types import scalar_type
from .kernels import KernelCode, Prepare, Strides
from .packing import Block, Depth, Packing, contiguous_depth, write_packing
from .schedule import Source
from .target import LINE


@dataclass(frozen=True, slots=True)
class Side:
    """An operand in panels of `panel` elements of its index space."""

    packing: Packing
    source: Source
    panel: int
    padded: int
    """Elements per k of all panels together."""
    prepared: Tensor | None
    is_panel_by_panel: bool = False
    """Whether all blocks of k of a prepared panel follow one another, as they are read, or else
    all panels of a block."""

    @property
    def extent(self) -> int:
        return self.packing.operand.extent

    def stride(self, b: Builder, count: str) -> str:
        """Elements per k of a panel with `count` live ones."""
        unit = self.packing.unit
        if unit == 1:
            return count
        up = plus(b, count, str(unit - 1))
        if not up.startswith("%"):
            return str(int(up) & -unit)
        return b.pure(f"and i64 {up}, {-unit}", up)

    def offset(self, b: Builder, outer: str, block: Block, start: str, wide: str) -> str:
        """Where in the prepared operand the panel that begins at element `start` is, which has
        `wide` for each k."""
        at = times(b, outer, self.packing.depth.extent * self.padded)
        if self.is_panel_by_panel:
            at = plus(b, at, times(b, start, self.packing.depth.extent))
            return plus(b, at, product(b, block.first, wide))
        at = plus(b, at, times(b, block.first, self.padded))
        return plus(b, at, product(b, start, block.points))

    def outer(self, b: Builder, places: Places) -> str:
        """The number of a batch among those that the operand depends on."""
        number = "0"
        for index in self.packing.outer:
            if extent_of(index) > 1:
                place = places[index].base or "0"
                number = plus(b, times(b, number, extent_of(index)), place)
        return number

    def pack(self, b: Builder, outer: str, first: str, count: str, block: Block, to: str) -> None:
        """Write calls that pack `count` elements from number `first` on, panel after panel."""
        self._pack(b, outer, first, count, block, to, lambda n, _: product(b, n, block.points))

    def prepare(self, b: Builder, outer: str, block: Block, to: str) -> None:
        """Write calls that pack all elements at their places in the prepared operand."""
        extent = str(self.extent)
        self._pack(
            b, outer, "0", extent, block, to, lambda n, w: self.offset(b, outer, block, n, w)
        )

    def _pack(
        self, b: Builder, outer: str, first: str, count: str, block: Block, to: str,
        offset: Callable[[str, str], str],
    ) -> None:  # fmt: skip
        scalar = scalar_type(self.packing.dtype)
        with b.loop("0", count, self.panel) as loop:
            live = smin(b, minus(b, count, loop.index), str(self.panel))
            stride = self.stride(b, live)
            at = element(b, scalar, to, offset(loop.index, stride))
            begin = plus(b, first, loop.index)
            b.line(self.packing.call(outer, begin, live, stride, block, at))


def sides_of(plan: Plan, strides: Strides, has_far_columns: bool = False) -> tuple[Side, Side]:
    """The broadcast side and the vector side of a plan, which may come from beyond the caches
    without that tiles ask for it."""
    rows = _side(plan, False, strides, plan.has_far_rows)
    return rows, _side(plan, True, strides, has_far_columns)


def _side(plan: Plan, is_vector: bool, strides: Strides, is_far: bool) -> Side:
    operand = plan.vector if is_vector else plan.broadcast
    source = plan.vector_source if is_vector else plan.broadcast_source
    panel, unit = (plan.panel, plan.lanes) if is_vector else (plan.rows, 1)
    lanes = plan.lanes
    if contiguous_depth(operand, plan.depth, lanes, strides) is None:
        # short runs are copied faster in short vectors
        run = min(panel, merge(operand.indices, [operand.value], strides).inner)
        lanes = min(lanes, 1 << (run - 1).bit_length())
    packing = Packing(
        f"kernel.pack.{'columns' if is_vector else 'rows'}",
        operand,
        batch_of(operand, plan.form),
        plan.depth,
        operand.value.dtype,
        lanes,
        is_vector and operand.extent % plan.lanes == 0,
        unit,
        panel,
        is_far and source == "packed",
    )
    padded = plan.padded if is_vector else operand.extent
    prepared = None
    if source == "prepared":
        count = size(packing.outer) * plan.depth.extent * padded
        read = [a.tensor for a in accesses(operand.value)]
        name = read[0].name if read else plan.form.kernel.name
        prepared = Tensor(f"{name}.panels", operand.value.dtype, (integer(count),))
    whole = is_vector and plan.lane_block == panel and plan.depth.blocks > 1
    return Side(packing, source, panel, padded, prepared, whole)


def mark_written(frame: Frame, form: Form) -> None:
    """Tells a frame if what the kernel writes is read, too."""
    kernel = form.kernel
    target = kernel.targets[0].tensor
    read = (*kernel.initial, *kernel.results, form.left.value, form.right.value)
    if any(a.tensor is target for a in accesses(*read)):
        frame.written.add(target)


def aligned(count: int) -> int:
    """Bytes up to the end of a line of the cache."""
    return -(-count // LINE) * LINE


def element(b: Builder, scalar: str, pointer: str, offset: str) -> str:
    """A pointer to an element."""
    if offset == "0":
        return pointer
    return b.pure(f"getelementptr {scalar}, ptr {pointer}, i64 {offset}", pointer, offset)


def batch_places(b: Builder, batch: Sequence[Index], number: str) -> Places:
    """The places of the batch indices for the number of a batch."""
    return decode(b, Space(tuple((i,) for i in batch if extent_of(i) > 1)), number)


def block_at(b: Builder, depth: Depth, number: str) -> Block:
    """The block of k with a number."""
    if depth.blocks == 1:
        return Block("0", "0", str(depth.cut), str(depth.extent), "0")
    per = -(-depth.cut // depth.block)
    outer, part = "0", number
    if depth.outer > 1:
        outer = b.pure(f"udiv i64 {number}, {per}", number)
        part = b.pure(f"urem i64 {number}, {per}", number)
    begin = times(b, part, depth.block)
    end = smin(b, plus(b, begin, str(depth.block)), str(depth.cut))
    first = plus(b, times(b, outer, depth.cut), begin)
    points, before = times(b, minus(b, end, begin), depth.inner), times(b, first, depth.inner)
    return Block(outer, begin, end, points, before)


def write_prepare(side: Side, strides: Strides) -> Prepare:
    """A kernel that packs all panels of an operand; a piece is one batch and one block of k."""
    assert side.prepared is not None
    frame = Frame(strides)
    b, depth, dtype = frame.builder, side.packing.depth, side.packing.dtype
    pointer = frame.pointer(side.prepared)
    pieces = size(side.packing.outer) * depth.blocks
    grain = -(-pieces // MOST_CHUNKS)
    with b.loop(*chunk_range(b, pieces, grain)) as chunk:
        outer = b.pure(f"udiv i64 {chunk.index}, {depth.blocks}", chunk.index)
        number = b.pure(f"urem i64 {chunk.index}, {depth.blocks}", chunk.index)
        block = block_at(b, depth, number)
        side.prepare(b, outer, block, pointer)
    functions = write_packing(frame, side.packing, strides)
    functions += transposing(frame, functions, dtype, side.packing.lanes)
    code = KernelCode(
        frame.text() + functions,
        tuple(frame.tensors),
        -(-pieces // grain),
        frozenset(b.declarations),
        sites=tuple(frame.sites),
        work=2.0 * size(side.packing.outer) * depth.extent * side.padded,
        template="packing",
    )
    return Prepare(code, side.prepared)


def transposing(frame: Frame, text: str, dtype: DType, lanes: int) -> str:
    """The functions that a text calls to pack blocks which it transposes."""
    loadings = transpose.called(text)
    for loading in loadings:
        frame.builder.declarations |= transpose.declarations(dtype, lanes, loading)
    return "".join(transpose.write_transpose(dtype, lanes, loading) for loading in loadings)
