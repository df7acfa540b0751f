"""Orders the instructions of a block so that chains which do not depend on each other advance
together.

The code of several vectors is written one vector after the other. Where each is a long chain, as
elementary functions are, a processor that looks some sixty instructions ahead sees little but one
chain, and waits for each of its results. So an instruction stands where the last moment would be
to begin with it if every instruction took a step and nothing else held it up: alike chains advance
side by side, and a value is made shortly before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from ...records import dataclass

_LEAST = 12
"""Steps of chains that are long."""
_MOST = 24
"""Values that may wait for their last use at a time: more would be put aside in memory."""
_VALUE = re.compile(r"%[\w.]+")
_REAL = re.compile(r"<|\b(float|double|half)\b")
_CALLS = ("call", "tail")
_MEMORY = ("load", "store", "fence", "atomicrmw", "cmpxchg", *_CALLS)
_READS = re.compile(r"load (?!volatile|atomic)|call .*@llvm\.masked\.(load|gather)")
_BORDERS = re.compile(r"(?! )|  (br|ret|switch|unreachable)\b|  %[\w.]+ = (phi|select i1 .*<)")
"""Labels, jumps, and what becomes one: processors have no choice between vectors by one bit."""


@dataclass(slots=True)
class _Step:
    """An instruction: what it depends on, each with the steps that it is later at least, and its
    place among the steps of the block."""

    needs: list[tuple[int, int]] = field(default_factory=list)
    is_real: bool = False
    """Whether its result takes a register of vectors."""
    soonest: int = 0
    latest: int = -1


def abreast(lines: Sequence[str]) -> list[str]:
    """The lines of a function, those of blocks with long chains in another order."""
    out: list[str] = []
    start = 0
    for n, line in enumerate(lines):
        if _BORDERS.match(line):
            out += _ordered(lines[start:n])
            out.append(line)
            start = n + 1
    return [*out, *_ordered(lines[start:])]


def _ordered(lines: Sequence[str]) -> Sequence[str]:
    """Instructions without a jump between them."""
    if len(lines) < 2 * _LEAST:
        return lines
    steps = _steps(lines)
    if max(x.soonest for x in steps) < _LEAST:
        return lines
    for x in reversed(steps):
        if x.latest < 0:
            x.latest = x.soonest  # nothing in the block waits for it
        for n, later in x.needs:
            time, known = x.latest - later, steps[n].latest
            steps[n].latest = time if known < 0 else min(known, time)
    order = sorted(range(len(steps)), key=lambda n: steps[n].latest)
    return lines if _most_waiting(steps, order) > _MOST else [lines[n] for n in order]


def _most_waiting(steps: Sequence[_Step], order: Sequence[int]) -> int:
    """The most values that wait at a time, those without a use until the end."""
    uses = [0] * len(steps)
    for step in steps:
        for n, later in step.needs:
            uses[n] += later
    waiting = most = 0
    for n in order:
        for k, later in steps[n].needs:
            uses[k] -= later
            if later and not uses[k] and steps[k].is_real:
                waiting -= 1
        waiting += steps[n].is_real
        most = max(most, waiting)
    return most


def _steps(lines: Sequence[str]) -> list[_Step]:
    """What writes memory stays where it is among what reads or writes it."""
    steps: list[_Step] = []
    made: dict[str, int] = {}
    reads: list[int] = []
    write: int | None = None
    for n, line in enumerate(lines):
        result, named, text = line.strip().rpartition(" = ")
        step = _Step([(made[x], 1) for x in set(_VALUE.findall(text)) if x in made])
        if _reaches_memory(text):
            if write is not None:
                step.needs.append((write, 0))
            if _READS.match(text):
                reads.append(n)
            else:
                step.needs += [(x, 0) for x in reads]
                reads, write = [], n
        step.soonest = max((steps[k].soonest + later for k, later in step.needs), default=0)
        steps.append(step)
        if named:
            made[result] = n
            step.is_real = bool(_REAL.search(text)) and not text.startswith("getelementptr")
    return steps


def _reaches_memory(text: str) -> bool:
    """Whether an instruction may read or write memory, or have another effect."""
    opcode = text.partition(" ")[0]
    pure = opcode in _CALLS and "ptr" not in text and not text.startswith("call void")
    return opcode in _MEMORY and not pure
