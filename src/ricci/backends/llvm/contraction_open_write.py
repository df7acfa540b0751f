"""Writes the loop over blocks of open sizes around kernels of known sizes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cache

from ...ir.nodes import Index, Tensor
from ...records import dataclass
from . import counts
from .chunks import CHUNK_NS
from .counts import Count
from .emit import Frame
from .emit_types import memory_type
from .kernels import KernelCode, Prepare
from .nest_share import write_count
from .sizes import Size, likely

_MOST_CHUNKS = 1024
_READING = 10
"""Rows of a block that take as long as to read the other operand for it."""


@dataclass(frozen=True, slots=True)
class Outer:
    """What is run through: so many values, each of which moves tensors by so many elements; and
    the sizes of blocks, the largest first, down to 1."""

    extent: Size
    steps: Mapping[Tensor, Size]
    blocks: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True)
class Variant:
    """The code for one block of each size; `tensors` says of which tensor each is a part."""

    sizes: tuple[int, ...]
    code: KernelCode
    tensors: Mapping[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class _Run:
    """Blocks of one size: the first value, and how many there are."""

    size: int
    first: Count
    blocks: Count


@dataclass(frozen=True, slots=True)
class _Section:
    """Blocks of one variant, and pieces of work in them."""

    number: int
    variant: Variant
    runs: tuple[_Run, ...]
    pieces: Count


def write_open(
    outer: Sequence[tuple[Index, Outer]], variants: Sequence[Variant], repeatable: bool
) -> KernelCode:
    """The code of a kernel: its variants for all values of the outer indices.

    There is a variant for each combination of sizes of blocks, in order. Only if the kernel is
    `repeatable` may values be computed twice.
    """
    return _Writer([o for _, o in outer], variants, repeatable).code()


class _Writer:
    def __init__(
        self, outer: Sequence[Outer], variants: Sequence[Variant], repeatable: bool
    ) -> None:
        self.outer, self.variants, self.repeatable = outer, variants, repeatable
        self.frame = Frame({})
        self.b = self.frame.builder
        self.prepared: dict[str, Prepare] = {}
        """By text: equal ones are done once."""
        self.same: dict[Tensor, Tensor] = {}
        for variant in variants:
            for prepare in variant.code.prepare:
                known = self.prepared.setdefault(prepare.code.text, prepare)
                self.same[prepare.output] = known.output

    def code(self) -> KernelCode:
        self._kernel()
        other = self.frame.counting()
        chunks, _ = self._chunks(other, self._sections(other))
        codes = [v.code for v in self.variants]
        declarations = self.b.declarations | other.builder.declarations
        extra = write_count(chunks, other) + _joined([c.text for c in codes])
        for code in codes:
            declarations |= code.declarations
        work = codes[0].work
        for outer in self.outer:
            work *= max(1, likely(outer.extent) // outer.blocks[0])
        return KernelCode(
            self.frame.text(extra),
            tuple(self.frame.tensors),
            _MOST_CHUNKS,
            frozenset(declarations),
            max(c.scratch for c in codes),
            work=work,
            prepare=tuple(self.prepared.values()),
            sizes=tuple(self.frame.symbols),
            counted=True,
            template=codes[0].template,
        )

    # ------------------------------------------------------------------ what is to do

    def _sections(self, frame: Frame) -> list[_Section]:
        runs = [self._runs(frame, number) for number in range(len(self.outer))]
        out = []
        for number, combined in enumerate(itertools.product(*runs)):
            variant = self.variants[number]
            pieces: Count = variant.code.chunks
            for run in combined:
                pieces = counts.product(frame.builder, pieces, run.blocks)
            out.append(_Section(number, variant, combined, pieces))
        return out

    def _runs(self, frame: Frame, place: int) -> list[_Run]:
        """How the values of the outer index at a place are divided in blocks of its sizes: as many
        as there are of the largest, and of what is left. The last of a size may begin earlier, if
        that is sooner done than the rest by smaller ones; then what two of them have is computed
        twice, by the same code."""
        b, outer = frame.builder, self.outer[place]
        total = left = frame.count(outer.extent)
        out: list[_Run] = []
        for number, size in enumerate(outer.blocks):
            first = counts.difference(b, total, left)
            blocks = counts.quotient(b, left, size)
            left = counts.difference(b, left, counts.product(b, blocks, size))
            early = begins_earlier(outer.blocks[number:])
            if early and self._is_same_anywhere(place, size):
                one_of = self._is_one_of(frame, left, early, size)
                there = b.pure(f"icmp sgt i64 {blocks}, 0", str(blocks))
                once = b.pure(f"and i1 {one_of}, {there}", one_of, there)
                left = b.pure(f"select i1 {once}, i64 0, i64 {left}", once, str(left))
                blocks = _sum(frame, blocks, b.pure(f"zext i1 {once} to i64", once))
            out.append(_Run(size, first, blocks))
        return out

    def _is_same_anywhere(self, place: int, size: int) -> bool:
        """Whether values of an outer index in blocks of a size may be computed twice, and are the
        same wherever in a block they are: other kernels than register tiles add up terms of the
        last in another order."""
        found = [v.code.template for v in self.variants if v.sizes[place] == size]
        return self.repeatable and all(t == "contraction" for t in found)

    def _is_one_of(self, frame: Frame, left: Count, numbers: Sequence[int], limit: int) -> str:
        """Whether what is left, less than a limit, is one of some numbers."""
        b, bits, type = frame.builder, sum(1 << n for n in numbers), "i64"
        if limit > 64:
            type = f"i{limit}"
            left = b.pure(f"zext i64 {left} to {type}", str(left))
        shifted = b.pure(f"lshr {type} {bits}, {left}", str(left))
        return b.pure(f"trunc {type} {shifted} to i1", shifted)

    def _chunks(self, frame: Frame, sections: Sequence[_Section]) -> tuple[Count, Count]:
        """How many chunks there are, and pieces in all."""
        b = frame.builder
        pieces: Count = 0
        work: Count = 0
        for section in sections:
            code = section.variant.code
            each = max(1, round(code.work / max(code.chunks, 1)))
            pieces = _sum(frame, pieces, section.pieces)
            work = _sum(frame, work, counts.product(b, section.pieces, each))
        wanted = counts.least(b, counts.quotient(b, work, int(CHUNK_NS)), _MOST_CHUNKS)
        return counts.least(b, counts.most(b, wanted, 1), pieces), pieces

    # ------------------------------------------------------------------ the loops

    def _kernel(self) -> None:
        b = self.b
        sections = self._sections(self.frame)
        chunks, pieces = self._chunks(self.frame, sections)
        parts = counts.most(b, chunks, 1)
        low, high = (
            counts.quotient(b, counts.product(b, end, pieces), parts) for end in ("%begin", "%end")
        )
        for section in sections:
            begin = counts.most(b, low, 0)
            end = counts.least(b, high, section.pieces)
            with b.loop(begin, end) as loop:
                self._piece(section, loop.index)
            low = counts.difference(b, low, section.pieces)
            high = counts.difference(b, high, section.pieces)

    def _piece(self, section: _Section, piece: str) -> None:
        """One chunk of a kernel inside, for one block."""
        b, code = self.b, section.variant.code
        chunk, rest = self._divide(piece, code.chunks)
        places: list[Count] = []
        for outer, run in zip(reversed(self.outer), reversed(section.runs), strict=True):
            block, rest = self._divide(rest, run.blocks)
            place = _sum(self.frame, run.first, counts.product(b, block, run.size))
            last = counts.difference(b, self.frame.count(outer.extent), run.size)
            places.insert(0, counts.least(b, place, last) if run.size > 1 else place)
        table = self._table(section.variant, places)
        after = _sum(self.frame, chunk, 1)
        b.line(
            f"call void @kernel.inner{section.number}"
            f"(ptr {table}, ptr %scratch, i64 {chunk}, i64 {after})"
        )

    def _table(self, variant: Variant, places: Sequence[Count]) -> str:
        """The table of a kernel inside for one block."""
        b, code = self.b, variant.code
        tensors = [self._moved(variant.tensors.get(t, t), places) for t in code.tensors]
        entries = [self.frame.entry(0), *tensors, *map(self.frame.cell, code.sizes)]
        table = b.reserve(f"alloca [{len(entries)} x ptr], align 8")
        for k, pointer in enumerate(entries):
            entry = b.pure(f"getelementptr ptr, ptr {table}, i64 {k}", table)
            b.line(f"store ptr {pointer}, ptr {entry}, align 8")
        return table

    def _moved(self, tensor: Tensor, places: Sequence[Count]) -> str:
        """Where the part of a tensor begins that a block works on."""
        b = self.b
        pointer = self.frame.pointer(self.same.get(tensor, tensor))
        for outer, place in zip(self.outer, places, strict=True):
            step = outer.steps.get(tensor)
            if step is not None:
                offset = counts.product(b, place, self.frame.amount(step))
                text = f"getelementptr {memory_type(tensor.dtype)}, ptr {pointer}, i64 {offset}"
                pointer = b.pure(text, pointer, str(offset))
        return pointer

    def _divide(self, number: Count, extent: Count) -> tuple[Count, Count]:
        """Remainder and quotient."""
        if extent == 1:
            return 0, number
        rest = self.b.pure(f"urem i64 {number}, {extent}", str(number), str(extent))
        return rest, counts.quotient(self.b, number, extent)


@cache
def begins_earlier(sizes: tuple[int, ...]) -> list[int]:
    """What may be left by blocks of the first of some sizes for which another of these is sooner
    done than smaller ones."""
    return [n for n in range(1, sizes[0]) if sizes[0] + _READING < _rows_for(n, sizes[1:])]


def _rows_for(left: int, sizes: tuple[int, ...]) -> int:
    """How long it takes to do what is left by blocks of some sizes, in rows."""
    rows = 0
    for number, size in enumerate(sizes):
        blocks, left = divmod(left, size)
        if blocks and left in begins_earlier(sizes[number:]):
            blocks, left = blocks + 1, 0
        rows += blocks * (size + _READING)
    return rows


def _sum(frame: Frame, x: Count, y: Count) -> Count:
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    if 0 in (x, y):
        return y if x == 0 else x
    return frame.builder.pure(f"add nsw i64 {x}, {y}", str(x), str(y))


def _joined(texts: Sequence[str]) -> str:
    """The functions and constants of several kernels; functions that use none are written once."""
    shared: dict[str, str] = {}
    out = []
    for number, text in enumerate(texts):
        functions = re.findall(r"^define .*?^}\n|^@kernel[^\n]*\n", text, re.M | re.S)
        own = {m[1]: f for f in functions if f.count("@kernel") == 1 and (m := _NAME.match(f))}
        common = {name for name, f in own.items() if shared.setdefault(name, f) == f}
        rest = "".join(f for f in functions if not any(f is own[name] for name in common))
        out.append(_renamed(rest, number, common))
    return "".join([*shared.values(), *out])


_NAME = re.compile(r"define internal [^@]*@(kernel[.\w]*)")


def _renamed(text: str, number: int, common: set[str]) -> str:
    """The functions of a kernel under names of their own, save common ones."""

    def name(match: re.Match[str]) -> str:
        known = match[1] in common
        return match[0] if known else f"@kernel.inner{number}{match[1].removeprefix('kernel')}"

    text = re.sub(r"@(kernel\b[.\w]*)", name, text)
    inner = f"void @kernel.inner{number}("
    return text.replace(f"define {inner}", f"define internal {inner}")
