"""What a page shows of a program: kernels with their work, and what happens to their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from ..backends.llvm.steps import Step
from ..ir.labels import label, short_name, shown
from ..ir.loops import (
    Block,
    Buffer,
    Choose,
    Kernel,
    Point,
    Program,
    Repeat,
    Stop,
    expressions_of,
    tensors_written,
)
from ..ir.nodes import Symbol, Tensor
from ..ir.rewrite import accesses
from ..ir.shapes import interval
from ..ir.text_print import format_expr
from ..ir.work import Work, bytes_of, work_of
from ..records import dataclass
from ..runtime.profile import KernelProfile, Profile


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A kernel of a call: its number, how deep in loops and branches it is, and what it does."""

    number: int
    kernel: Kernel
    depth: int
    label: str
    work: Work
    step: Step | None
    """Its step, if there is anything to do."""
    profile: KernelProfile | None

    @property
    def code(self) -> str:
        return "none" if self.step is None else self.step.template


@dataclass(frozen=True, slots=True)
class Mark:
    """A line between kernels that says what is done with those of a block: `if`, `else`, `repeat`,
    `while`; `rows` are the numbers of its kernels."""

    text: str
    depth: int
    rows: range


@dataclass(slots=True, eq=False)
class Contents:
    """A program as rows, in order."""

    title: str
    program: Program
    steps: Sequence[Step]
    profile: Profile | None
    sizes: Mapping[Symbol, int]
    rows: list[Row] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    loops: list[range] = field(default_factory=list)
    """Numbers of the kernels of loops, inner ones first."""
    packs: dict[Tensor, tuple[Tensor, ...]] = field(default_factory=dict)
    """For an item that is chosen from a pack, the pack."""
    _by_number: dict[int, Step] = field(init=False)

    def __post_init__(self) -> None:
        self._by_number = {s.number: s for s in self.steps if s.kind == "kernel"}
        self._block(self.program.actions, 0)

    def _block(self, block: Block, depth: int) -> range:
        first = len(self.rows)
        for action in block:
            match action:
                case Stop():
                    pass
                case Point():
                    self.packs[action.item] = action.pack
                case Choose():
                    self._part(f"if {self.name(action.test)}", action.then, depth)
                    if action.otherwise:
                        self._part("else", action.otherwise, depth)
                case Repeat():
                    start = len(self.rows)
                    self._part("repeat", action.before, depth)
                    self._part(f"while {self.name(action.test)}", action.body, depth)
                    self.loops.append(range(start, len(self.rows)))
                case _:
                    self.rows.append(self._row(action, depth))
        return range(first, len(self.rows))

    def _part(self, text: str, block: Block, depth: int) -> None:
        place = len(self.marks)
        rows = self._block(block, depth + 1)
        if rows:
            self.marks.insert(place, Mark(text, depth, rows))

    def _row(self, kernel: Kernel, depth: int) -> Row:
        number = len(self.rows)
        profile = None if self.profile is None else self.profile[number]
        work = work_of(kernel, self.sizes)
        step = self._by_number.get(number)
        return Row(number, kernel, depth, label(kernel), work, step, profile)

    # ------------------------------------------------------------------ names

    def name(self, tensor: Tensor) -> str:
        """The name of a tensor without that of the graph."""
        return short_name(tensor, self.program)

    def shown(self, tensor: Tensor) -> str:
        """`name: dtype[shape]`."""
        return shown(tensor, self.program)

    def shape(self, tensor: Tensor) -> str:
        return ", ".join(format_expr(e) for e in tensor.shape)

    def written(self, row: Row) -> str:
        """What a kernel writes."""
        written = tensors_written(row.kernel)
        return ", ".join(shown(t, self.program, row.kernel) for t in written)

    # ------------------------------------------------------------------ tensors

    def read(self, row: Row) -> list[Tensor]:
        """What a kernel reads, items of packs as all that they may be."""
        found = dict.fromkeys(a.tensor for a in accesses(*expressions_of(row.kernel)))
        return [t for tensor in found for t in self.packs.get(tensor, (tensor,))]

    def place(self, tensor: Tensor) -> Buffer | None:
        return self.program.buffers.get(tensor)

    def bytes(self, tensor: Tensor) -> int:
        return bytes_of(tensor, self.sizes)


def largest_sizes(program: Program) -> dict[Symbol, int]:
    """All sizes at their bounds."""
    sizes: dict[Symbol, int] = {}
    for symbol in program.symbols:
        bound = 1 if symbol.bound is None else interval(symbol.bound)[1]
        sizes[symbol] = int(bound) if bound < float("inf") else 1
    return sizes
