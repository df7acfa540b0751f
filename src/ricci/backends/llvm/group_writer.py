"""What all groups have: a function for each kernel, and the memory that a thread keeps for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir.loops import Group
from ...ir.nodes import Tensor
from ...records import dataclass
from .builder import Builder
from .contraction_plan import Plan
from .contraction_sides import Side, block_at, transposing, write_prepare
from .contraction_words import with_views
from .contraction_write import ContractionWriter
from .emit import Frame
from .emit_parts import FAIL, Kept
from .emit_types import width
from .group_memory import Room
from .group_peaks import known_to, peaks_of, sums_of
from .group_product import keeps_panels
from .group_spreads import spreads_of
from .kernels import KernelCode, Prepare, Strides
from .matrix_write import MatrixWriter
from .packing import write_packing
from .target import Target


@dataclass(frozen=True, slots=True)
class Panels:
    """Panels of an operand that a thread packs for several blocks."""

    side: Side
    name: str
    number: int
    offset: int
    bytes: int


class GroupWriter:
    """Writes the functions of kernels that are done together. All read a copy of the kernel's table
    that has more entries before its own: where local tensors would begin, if all of them were
    there."""

    def __init__(
        self,
        group: Group,
        rooms: Sequence[Room],
        strides: Strides,
        target: Target,
        constant: frozenset[Tensor],
    ) -> None:
        self.group, self.target, self.constant = group, target, constant
        self.rooms = rooms
        self.strides = {**strides, **{r.tensor: r.kept.strides for r in rooms}}
        self.frame = Frame(strides, target)
        self.frame.local.update((r.tensor, r.kept) for r in rooms)
        self.peaks = peaks_of(group.kernels)
        self.sums, self.spreads = sums_of(group.kernels, self.peaks), spreads_of(group.kernels)
        self.scratch = 0
        """Bytes that a thread keeps for all kernels."""
        self.own_scratch = 0
        """Bytes that one of them needs besides."""
        self.work = 0.0
        self.streams = False
        """Whether a kernel writes past the caches."""
        self.prepare: list[Prepare] = []
        self.panels: dict[int, Panels] = {}

    def _code(self, texts: Sequence[str], chunks: int, template: str) -> KernelCode:
        """The code of the kernel, whose main function is written, with the functions of parts."""
        b, frame = self.frame.builder, self.frame
        return KernelCode(
            "".join([b.text(), *texts]) + (FAIL if frame.sites else ""),
            tuple(frame.tensors),
            chunks,
            frozenset(b.declarations),
            scratch=self.scratch + self.own_scratch,
            sites=tuple(frame.sites),
            work=self.work,
            prepare=tuple(self.prepare),
            template=template,
        )

    def _tell(self, frame: Frame, number: int) -> None:
        """What is known to a kernel of the values that those before it have made."""
        kernels = self.group.kernels
        frame.peaks = known_to(number, self.peaks, kernels)
        frame.sums = known_to(number, self.sums, kernels)
        frame.spreads = known_to(number, self.spreads, kernels)

    def _product(
        self, number: int, frame: Frame, plan: Plan, strides: Strides | None = None
    ) -> str:
        strides = self.strides if strides is None else strides
        kind = ContractionWriter if plan.matrices is None else MatrixWriter
        writer = kind(plan, strides, frame)
        self.own_scratch = max(self.own_scratch, writer.scratch)
        self.work += writer.work
        text = ""
        for side in writer.sides:
            if side.prepared is None:
                continue
            if keeps_panels(plan, with_views(plan.form, self.constant)):
                text += self._panels(number, side, strides)
            else:
                self.prepare.append(write_prepare(side, strides))
        text += writer.part()
        return re.sub(r"@kernel\.(?!part\d|fail\b)", f"@{name_of(number)}.", text)

    def _panels(self, number: int, side: Side, strides: Strides) -> str:
        """The function that packs panels for a number of blocks, and room for these."""
        assert side.prepared is not None
        packing, name = side.packing, f"{name_of(number)}.panels"
        size = packing.depth.extent * side.padded * width(packing.dtype)
        kept = Kept(len(self.rooms) + len(self.panels) + 1, (1,))
        self.panels[number] = Panels(side, name, kept.number, self.scratch, size)
        self.scratch += (-(-size // 64) + 1) * 64
        self.frame.local[side.prepared] = kept
        frame = self.frame.part(name, strides)
        self._tell(frame, number)
        b, pointer = frame.builder, frame.pointer(side.prepared)
        with b.loop(0, packing.depth.blocks) as loop:
            block = block_at(b, packing.depth, loop.index)
            side.prepare(b, "%begin", block, pointer)
        b.line("ret void")
        text = b.text()
        text += write_packing(frame, packing, strides)
        text += transposing(frame, text, packing.dtype, packing.lanes)
        self.frame.builder.declarations |= frame.builder.declarations
        return re.sub(r"@kernel\.(?!part\d|fail\b)", f"@{name}.", text)

    def _begin(self, points: int, chunks: int) -> tuple[str, str]:
        """The beginning of the main function; gives the points of its chunks, from and to."""
        b = self.frame.builder
        self._table()
        self.own = b.pure(f"getelementptr i8, ptr %scratch, i64 {self.scratch}")
        first, end = (
            b.pure(f"udiv i64 {b.pure(f'mul nuw nsw i64 {at}, {points}', at)}, {chunks}", at)
            for at in ("%begin", "%end")
        )
        return first, end

    def _table(self) -> None:
        """The copy of the table, behind the entries of local tensors."""
        b, more = self.frame.builder, len(self.rooms) + len(self.panels)
        self.table = "%table"
        if not more:
            return
        count = 1 + len(self.frame.tensors)
        whole = b.reserve(f"alloca [{more + count} x ptr], align 64")
        self.table = b.pure(f"getelementptr ptr, ptr {whole}, i64 {more}")
        with b.loop(0, count) as loop:
            entry = b.op(f"getelementptr ptr, ptr %table, i64 {loop.index}")
            value = b.op(f"load ptr, ptr {entry}, align 8")
            to = b.op(f"getelementptr ptr, ptr {self.table}, i64 {loop.index}")
            b.line(f"store ptr {value}, ptr {to}, align 8")

    def _set(self, number: int, offset: int, back: str) -> None:
        """Let an entry before the table point so many bytes into the thread's memory, and back."""
        b = self.frame.builder
        place = b.pure(f"sub i64 {offset}, {back}", back)
        value = b.pure(f"getelementptr i8, ptr %scratch, i64 {place}", place)
        entry = b.pure(f"getelementptr ptr, ptr {self.table}, i64 {-number}", self.table)
        b.line(f"store ptr {value}, ptr {entry}, align 8")

    def _call(self, name: str, scratch: str, begin: str, end: str) -> None:
        arguments = f"ptr {self.table}, ptr {scratch}, i64 {begin}, i64 {end}"
        self.frame.builder.line(f"call void @{name}({arguments})")


def name_of(number: int) -> str:
    """The name of the function of a kernel."""
    return f"kernel.part{number}"


def divided(b: Builder, number: str, count: int) -> tuple[str, str]:
    """Quotient and remainder."""
    if count == 1:
        return number, "0"
    rest = b.pure(f"urem i64 {number}, {count}", number)
    return b.pure(f"udiv i64 {number}, {count}", number), rest
