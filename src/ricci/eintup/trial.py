"""One configuration, computed by the program and by the call it names, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..diagnostics import Error
from ..frontends.eintup.program import Configuration, Program
from ..runtime.arguments import Array
from .compare import Difference, Tolerance, compare
from .execute import Settings, evaluate
from .framework import CallFailed, Oracle


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is nothing to compare: what failed, and what was said."""

    where: Literal["program", "call", "dims"]
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a configuration went: whether each output is as expected, and else what is wrong."""

    verdicts: tuple[bool, ...]
    differences: Mapping[str, Difference] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def ok(self) -> bool:
        return all(self.verdicts)

    @property
    def nature(self) -> tuple[str, str]:
        """What a failure at smaller dims has in common with this one."""
        if self.problem is not None:  # a framework's exception is known by its class
            return self.problem.where, self.problem.text.partition(":")[0]
        name, difference = next(iter(self.differences.items()))
        return name, difference.kind


@dataclass(frozen=True, slots=True)
class Trial:
    """What a program is compared with, and how."""

    program: Program
    oracle: Oracle
    tolerance: Tolerance
    settings: Settings

    def run(self, configuration: Configuration, seed: int) -> Outcome:
        """Compute both sides with inputs drawn from a seed, and compare."""
        outputs = [a.name for a in self.program.outputs]
        wanted = tuple(dict.fromkeys((*outputs, *self.oracle.arrays)))
        try:
            arrays = self._evaluated(configuration, wanted, seed)
            expected = self.oracle.run(configuration, arrays)
        except Error as problem:
            first = problem.diagnostics[0]
            return self.failed("program", "; ".join([first.message, *first.notes]))
        except CallFailed as problem:
            return self.failed("call", str(problem))
        if len(expected) < len(outputs):
            count = f"it gives {len(expected)} results, and {len(outputs)} outputs are named"
            return self.failed("call", count)
        return self._compared(arrays, dict(zip(outputs, expected, strict=False)))

    def _evaluated(
        self, configuration: Configuration, wanted: tuple[str, ...], seed: int
    ) -> dict[str, Array]:
        """The arrays `wanted`; inputs are drawn by the interpreter, since code for that alone would
        take as long to compile as the rest, and draws the same."""
        s, program = self.settings, self.program
        drawn = [a.name for a in program.inputs]
        given = evaluate(
            program, configuration, {}, drawn, seed, "interpreter", s.threads, s.real, s.int
        )
        return evaluate(
            program, configuration, given, wanted, seed, s.target, s.threads, s.real, s.int
        )

    def failed(self, where: Literal["program", "call", "dims"], text: str) -> Outcome:
        return Outcome((False,) * len(self.program.outputs), problem=Problem(where, text))

    def _compared(self, ours: Mapping[str, Array], expected: Mapping[str, Array]) -> Outcome:
        found = {n: compare(ours[n], theirs, self.tolerance) for n, theirs in expected.items()}
        differences = {name: d for name, d in found.items() if d is not None}
        return Outcome(tuple(d is None for d in found.values()), differences)
