"""Which kernels over a batch are done for some of its items at a time, and for how many.

Requires: what kernels that may be done so compute, read and write. Ensures: stretches of them that
do not meet, each of which saves more than it costs. Does not: change kernels.

All is counted in bytes from memory. What a kernel reads and another one has touched before comes
from a cache if everything that lives meanwhile finds room there; how much of its time that is
depends on what it computes. Each round costs what threads need to begin and end every kernel
together, and what all items read, such as weights, again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..ir.nodes import Tensor
from ..records import dataclass
from .machine import Machine

_COVERED = 8.0
"""Operations for each byte that a kernel moves, with which it waits for all that it reads."""
_SMALLER = 64
"""Sums of products of one item are slower than those of many, as if for so many operations another
byte were read."""
_START = 32 << 10
"""Bytes that a thread could read while kernels begin and end."""
_NEAR = 0.25
"""What reading something again costs that may still be in a cache."""
_LEAST = 0.05
"""What is worth it, as a part of all that the kernels move."""
_MOST_ROUNDS, _MOST_KERNELS, _PATIENCE = 1024, 256, 32
"""Rounds and kernels of a stretch, and kernels that may be added in vain: nobody waits for ever."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a kernel does for a whole batch."""

    operations: int
    bytes: int
    items: Mapping[Tensor, int]
    """The tensors that it touches item by item, with the bytes of an item."""
    read: frozenset[Tensor]
    """Those of them that it reads."""
    others: Mapping[Tensor, int]
    """What it reads for every item, with all bytes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Kernels from one to before another, for so many items at a time."""

    start: int
    stop: int
    items: int


def find_stretches(uses: Sequence[Use], count: int, machine: Machine) -> list[Stretch]:
    """The stretches of kernels over `count` items that are worth it, in order."""
    found: list[tuple[float, Stretch]] = []
    for rounds in (n for n in range(2, min(count, _MOST_ROUNDS) + 1) if count % n == 0):
        found += _Rounds(uses, count, count // rounds, machine).stretches()
    taken: list[Stretch] = []
    for _, stretch in sorted(found, key=lambda x: -x[0]):
        if all(s.stop <= stretch.start or stretch.stop <= s.start for s in taken):
            taken.append(stretch)
    return sorted(taken, key=lambda s: s.start)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Kernels over a batch for so many items at a time."""

    uses: Sequence[Use]
    count: int
    items: int
    machine: Machine

    def stretches(self) -> Iterator[tuple[float, Stretch]]:
        """The best from each start that is worth it, with the bytes that it saves."""
        saved = self._saved()
        costs = [self._cost(use) for use in self.uses]
        for start in sorted({first for reads in saved for first, _ in reads}):
            gain, moved, best, stop = 0.0, 0, 0.0, start
            for at in range(start, min(len(self.uses), start + _MOST_KERNELS)):
                gain += sum(n for first, n in saved[at] if first >= start) - costs[at]
                moved += self.uses[at].bytes
                if gain > max(best, _LEAST * moved):
                    best, stop = gain, at + 1
                if at > max(stop, start) + _PATIENCE:
                    break
            if stop > start:
                yield best, Stretch(start, stop, self.items)

    def _saved(self) -> list[list[tuple[int, float]]]:
        """For each kernel what it need not read from memory if another one, whose number is given,
        has touched it in the same round."""
        live = self._live()
        touched: dict[Tensor, int] = {}
        saved: list[list[tuple[int, float]]] = []
        for at, use in enumerate(self.uses):
            waits = min(1.0, _COVERED * use.bytes / max(use.operations, 1))
            saved.append([])
            for tensor, size in use.items.items():
                if tensor in touched and tensor in use.read:
                    room = max(live[touched[tensor] : at + 1])
                    if self.items * room <= self.machine.cache < self.count * room:
                        saved[at].append((touched[tensor], self.count * size * waits))
                touched[tensor] = at
        return saved

    def _live(self) -> list[int]:
        """The bytes of an item that are there during each kernel."""
        spans: dict[Tensor, tuple[int, int, int]] = {}
        for at, use in enumerate(self.uses):
            for tensor, size in use.items.items():
                first, _, before = spans.get(tensor, (at, at, 0))
                spans[tensor] = first, at, max(before, size)
        live = [0] * len(self.uses)
        for first, last, size in spans.values():
            for at in range(first, last + 1):
                live[at] += size
        return live

    def _cost(self, use: Use) -> float:
        rounds = self.count // self.items
        again = sum(use.others.values())
        near = _NEAR if again <= self.machine.cache // 4 else 1.0
        each = _START * self.machine.threads + near * again
        return use.operations / (_SMALLER * self.items) + (rounds - 1) * each
