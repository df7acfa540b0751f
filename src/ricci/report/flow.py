"""Which kernel reads what another one writes: by the bytes, whatever tensors are called."""

from __future__ import annotations

from dataclasses import field

from ..ir.loops import tensors_written
from ..ir.nodes import Tensor
from ..records import dataclass
from .contents import Contents, Row

Place = tuple[str, int]
"""A kind of buffer, and its number."""


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A tensor on its way: from a row to rows that read it.

    Rows are numbers of kernels; inputs are -1, -2, ..., and outputs come after all kernels.
    `back` is the way of a loop, from one step to the next.
    """

    tensor: Tensor
    source: int
    readers: tuple[int, ...]
    back: bool = False


@dataclass(slots=True)
class _Written:
    start: int
    end: int
    source: int
    tensor: Tensor


@dataclass(slots=True)
class _Tracer:
    contents: Contents
    latest: dict[Place, list[_Written]] = field(default_factory=dict)
    """What has been written of each block, the latest last."""
    found: dict[tuple[int, Tensor], list[int]] = field(default_factory=dict)
    """Readers by source and tensor."""

    def write(self, tensor: Tensor, source: int) -> None:
        spot = self._spot(tensor)
        if spot is None:
            return
        place, start, end = spot
        kept = [w for w in self.latest.get(place, []) if not (start <= w.start and w.end <= end)]
        self.latest[place] = [*kept, _Written(start, end, source, tensor)]

    def read(self, tensor: Tensor, reader: int) -> None:
        spot = self._spot(tensor)
        if spot is None:
            return
        place, start, end = spot
        for w in reversed(self.latest.get(place, [])):
            if w.start < end and start < w.end and w.source != reader:
                readers = self.found.setdefault((w.source, w.tensor), [])
                if reader not in readers:
                    readers.append(reader)
                if w.start <= start and end <= w.end:
                    return

    def run(self, row: Row) -> None:
        for tensor in self.contents.read(row):
            self.read(tensor, row.number)
        for tensor in tensors_written(row.kernel):
            self.write(tensor, row.number)

    def _spot(self, tensor: Tensor) -> tuple[Place, int, int] | None:
        """Where the bytes of a tensor are that kernels hand on; none for weights."""
        buffer = self.contents.place(tensor)
        if buffer is None or buffer.kind not in ("arena", "input", "output", "size"):
            return None
        size = max(self.contents.bytes(tensor), 1)
        return (buffer.kind, buffer.number), buffer.offset, buffer.offset + size


def find_flows(contents: Contents) -> list[Flow]:
    """All ways of tensors between kernels, inputs and outputs."""
    tracer = _Tracer(contents)
    for number, tensor in enumerate(contents.program.inputs):
        tracer.write(tensor, -1 - number)
    for row in contents.rows:
        tracer.run(row)
    for number, tensor in enumerate(contents.program.outputs):
        tracer.read(tensor, len(contents.rows) + number)
    known = {key: set(readers) for key, readers in tracer.found.items()}
    for loop in contents.loops:  # once more, with what the last step has left
        for number in loop:
            tracer.run(contents.rows[number])
    flows = []
    for (source, tensor), readers in tracer.found.items():
        forward = tuple(r for r in readers if r > source)
        back = tuple(r for r in readers if r < source and r not in known.get((source, tensor), ()))
        flows += [Flow(tensor, source, forward)] if forward else []
        flows += [Flow(tensor, source, back, True)] if back else []
    return flows
