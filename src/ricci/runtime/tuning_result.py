"""What tuning gives: options, and how they were found."""

from __future__ import annotations

from dataclasses import dataclass

from ..backends.llvm.schedule import Schedule, describe
from .options import Options


@dataclass(frozen=True)
class KernelResult:
    """What was found for a kernel: milliseconds of a run by itself, and how many were tried."""

    name: str
    count: int
    before: float
    after: float
    tried: int
    schedule: Schedule | None


@dataclass(frozen=True)
class Tuned(Options):
    """Options that were found by trying; `before` and `after` are milliseconds of a call."""

    before: float = 0.0
    after: float = 0.0
    kernels: tuple[KernelResult, ...] = ()
    wrong: tuple[str, ...] = ()
    """Schedules whose results differed: there should be none."""
    checked: str = ""
    """What the final results were compared with."""
    interrupted: bool = False

    @property
    def tried(self) -> int:
        return sum(k.tried for k in self.kernels)

    def table(self) -> list[list[str]]:
        """A row per kernel: name, how often it occurs, ms before and after, the schedule."""
        return [
            [k.name, str(k.count), f"{k.before:.4f}", f"{k.after:.4f}", describe(k.schedule)]
            for k in self.kernels
        ]

    def __str__(self) -> str:
        rows = [["kernel", "times", "ms before", "after", "schedule"], *self.table()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([*lines, f"a call: {self.before:.4f} ms, then {self.after:.4f} ms"])
