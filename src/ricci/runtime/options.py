"""What a caller decides about how a graph is computed: schedules, threads, or what was tuned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import config
from ..backends.llvm.schedule import (
    NO_SCHEDULES,
    Schedule,
    Schedules,
    checked,
    describe,
    from_json,
    to_json,
)
from ..backends.llvm.target import Target
from ..diagnostics import error
from ..ir.nodes import Graph
from ..records import replace
from .fingerprint import fingerprint

_ENTRIES = ("schedules", "threads", "tuned", "file", "program", "winograd", "matrices")


@dataclass(frozen=True)
class Options:
    """How a graph is computed.

    `schedules` are those of its kernels, alike ones counted once, in the order in which they run
    (`None`: as the cost model finds best). `threads` are at most so many. If `tuned`, what tuning
    has found for the sizes of a call, or for the nearest, comes before both; it is looked up in
    `file`, by default that of the setting RICCI_TUNING_FILE.

    `winograd` says whether products of filters of two by two and more may be saved by sums and
    differences, at the cost of a bit; by default the setting RICCI_WINOGRAD. `matrices` says
    whether numbers of float32 may be multiplied as sums of three of bfloat16 where the processor
    multiplies matrices of these: numbers below 8e-34 lose bits; by default the setting
    RICCI_MATRICES.

    Schedules that were found by tuning name the `program` (its `fingerprint`) that they are for:
    other programs do not follow them, and for other sizes those that are not possible are left out.
    Without it a schedule that is not possible is an error.
    """

    schedules: tuple[Schedule | None, ...] = ()
    threads: int | None = None
    tuned: bool = False
    file: Path | None = None
    program: str | None = None
    winograd: bool | None = None
    matrices: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The options as data, which are options too."""
        return {
            "schedules": [None if s is None else to_json(s) for s in self.schedules],
            "threads": self.threads,
            "tuned": self.tuned,
            "file": None if self.file is None else str(self.file),
            "program": self.program,
            "winograd": self.winograd,
            "matrices": self.matrices,
        }

    def of(self, target: Target) -> Target:
        """The processor that code is made for, as the options say."""
        return target_for(target, self.winograd, self.matrices)

    def schedules_for(self, graph: Graph) -> Schedules:
        """The schedules that are given for a graph."""
        if not self.schedules or self.program is None:
            return Schedules(self.schedules)
        if self.program != fingerprint(graph):
            return NO_SCHEDULES
        return Schedules(self.schedules, lenient=True)

    def __str__(self) -> str:
        lines = [f"kernel {k}: {describe(s)}" for k, s in enumerate(self.schedules, 1)]
        return "\n".join(lines) or repr(self)


def target_for(
    target: Target, winograd: bool | None = None, matrices: bool | None = None
) -> Target:
    """The target, on which products may be saved, or done in parts, or not: as asked, or as the
    settings say."""
    saved = config.get("winograd") if winograd is None else winograd
    parts = config.get("matrices") if matrices is None else matrices
    if (target.winograd, target.in_parts) == (saved, parts):
        return target
    return replace(target, winograd=saved, in_parts=parts)


def as_options(value: object) -> Options:
    """The options that a caller means: `None`, "tuned", `Options`, or the same as a dictionary.

    Raises `Error` E0801 for anything else, E0807 for what is no schedule.
    """
    if value is None:
        return Options()
    if value == "tuned":
        return Options(tuned=True)
    if isinstance(value, Mapping):
        return _from_mapping(value)
    if not isinstance(value, Options):
        raise error(
            "E0801",
            f'`options` must be "tuned", Options or a dictionary, not {value!r:.60}',
        )
    rest = (value.threads, value.tuned, value.file, value.program)
    return _checked(value.schedules, *rest, value.winograd, value.matrices)


def _from_mapping(value: Mapping[Any, Any]) -> Options:
    unknown = [str(k) for k in value if k not in _ENTRIES]
    if unknown:
        notes = [f"it has: {', '.join(_ENTRIES)}"]
        raise error("E0801", f"`options` has no entry `{unknown[0]}`", notes=notes)
    schedules = value.get("schedules") or ()
    if not isinstance(schedules, (list, tuple)):
        raise error("E0801", f"`schedules` must be a list, not {schedules!r:.60}")
    made = tuple(from_json(s) if isinstance(s, Mapping) else s for s in schedules)
    rest = (value.get("threads"), value.get("tuned", False), value.get("file"))
    last = (value.get("winograd"), value.get("matrices"))
    return _checked(made, *rest, value.get("program"), *last)


def _checked(
    schedules: object,
    threads: object,
    tuned: object,
    file: object,
    program: object,
    winograd: object,
    matrices: object,
) -> Options:
    if not isinstance(schedules, (list, tuple)):
        raise error("E0801", f"`schedules` must be a list, not {schedules!r:.60}")
    if threads is not None and (
        not isinstance(threads, int) or isinstance(threads, bool) or threads < 1
    ):
        raise error("E0801", f"`threads` must be a positive integer or None, not {threads!r:.60}")
    if not isinstance(tuned, bool):
        raise error("E0801", f"`tuned` must be True or False, not {tuned!r:.60}")
    if file is not None and not isinstance(file, (str, os.PathLike)):
        raise error("E0801", f"`file` must be a path, not {file!r:.60}")
    if program is not None and not isinstance(program, str):
        raise error("E0801", f"`program` must be a text, not {program!r:.60}")
    saved, parts = _allowed("winograd", winograd), _allowed("matrices", matrices)
    made = tuple(None if s is None else checked(s) for s in schedules)
    path = None if file is None else Path(file)
    return Options(made, threads, tuned, path, program, saved, parts)


def _allowed(name: str, value: object) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise error("E0801", f"`{name}` must be True, False or None, not {value!r:.60}")
