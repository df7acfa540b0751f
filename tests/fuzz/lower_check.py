"""Random operators on both executors, several in one graph, and what each must answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

import ricci

from ..compare import TARGETS
from ..ir import brute
from .lower_programs import Array, Program, graph_text, make_program

_INDEX = re.compile(r"index (-?\d+) is out of range for dimension (\d+) of `([\w.:]+)`")


class Disagreement(AssertionError):
    """An executor gives something else than the operator means; the message has the program."""

    def __init__(self, programs: Sequence[Program], finding: str) -> None:
        seeds = [p.seed for p in programs]
        super().__init__(f"seeds {seeds}: {finding}\n{graph_text(programs)}")


def check_seeds(seeds: Sequence[int]) -> None:
    """Run the operators of these seeds; those that may fail alone, all others in one graph."""
    programs = [make_program(seed, number) for number, seed in enumerate(seeds)]
    together = [p for p in programs if not p.faults and not p.risky]
    if together:
        check_programs(together)
    for program in programs:
        if program not in together:
            check_programs([program])


def check_programs(programs: Sequence[Program]) -> None:
    """Raises `Disagreement` unless both executors give what the operators mean."""
    try:
        model = ricci.parse(graph_text(programs))
    except ricci.Error as error:
        _check_rejection(programs, error)
        return
    for target, real in TARGETS.items():
        finding = _finding(model, programs, target, real)
        if finding and real == "float32" and not _finding(model, programs, target, "float64"):
            # what float32 cannot hold is no fault of native code if the interpreter gives it too
            if _finding(model, programs, "interpreter", real) == finding:
                finding = ""
        if finding:
            raise Disagreement(programs, f"{target}: {finding}")


def _finding(model: ricci.Model, programs: Sequence[Program], target: str, real: str) -> str:
    """What an executor gives that the operators do not mean; nothing if all is well."""
    run = model.compile(target, 1, real)
    arrays = {
        name: array.astype(real) if array.dtype.kind == "f" else array
        for p in programs
        for name, _, array in p.inputs
    }
    try:
        with np.errstate(all="ignore"):
            results = run(**arrays)
    except ricci.Error as error:
        _check_fault(programs, error, target)
        return ""
    if programs[0].faults:
        is_missing = programs[0].certain and _fails(model, programs[0])
        return f"no error, expected {programs[0].faults}" if is_missing else ""
    found = [results] if len(run.outputs) == 1 else list(results)
    names = [name for p in programs for name, _ in p.outputs]
    expected = [(array, p.tolerance) for p in programs for array in p.expected]
    for name, ours, (theirs, tolerance) in zip(names, found, expected, strict=True):
        difference = _compare(ours, theirs, tolerance)
        if difference:
            return f"{name}: {difference}"
    return ""


def _fails(model: ricci.Model, program: Program) -> bool:
    """Whether the graph still has a fault: the composer leaves out what does not matter."""
    try:
        brute.evaluate(model.graph, {name: array for name, _, array in program.inputs})
    except (brute.OutOfRangeError, ZeroDivisionError):
        return True
    return False


def _compare(ours: Array, theirs: Array, tolerance: float) -> str:
    if ours.shape != theirs.shape or ours.dtype.kind != theirs.dtype.kind:
        return f"{ours.dtype}{ours.shape}, expected {theirs.dtype}{theirs.shape}"
    if theirs.dtype.kind != "f":
        same = np.array_equal(ours, theirs)
    else:
        same = np.allclose(ours, theirs, rtol=1e-5, atol=tolerance, equal_nan=True)
    return "" if same else f"{ours.tolist()}, expected {theirs.tolist()}"


def _check_rejection(programs: Sequence[Program], error: ricci.Error) -> None:
    """What is always out of range, or divided by zero, is found wherever it stands."""
    codes = {d.code for d in error.diagnostics}
    allowed = {"E0601", "E0502"} if programs[0].risky else set()
    if not codes <= allowed:
        raise Disagreement(programs, f"rejected:\n{error}")


def _check_fault(programs: Sequence[Program], error: ricci.Error, target: str) -> None:
    """The error must be one of those that the program has, with tensor, dimension and index."""
    faults = {f for p in programs for f in p.faults}
    (finding,) = error.diagnostics
    if finding.code == "E0803":
        if "zero" in faults:
            return
    elif finding.code == "E0802" and (named := _INDEX.search(finding.message)):
        index, axis, tensor = int(named[1]), int(named[2]), named[3].rpartition(".")[2]
        if any(f[1:] == (axis, index) and tensor.startswith(f[0]) for f in faults):
            return
    raise Disagreement(programs, f"{target}: {error}\nexpected {faults or 'no error'}")
