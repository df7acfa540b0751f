"""Running a case on an executor, and comparing what it gives with what is expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ricci

from ..compare import TARGETS, Array, Mismatch, compare
from .case import Case, Family
from .rejected import Rejected


def execute(case: Case, target: str, threads: int = 1) -> list[Array]:
    """The outputs of a case as `target` computes them, and the variables that it updates."""
    real = TARGETS[target]
    run = ricci.parse(case.text).compile(target=target, threads=threads, real=real)
    for name, value in case.variables.items():
        run.variables[f"main.G.{name}"] = _narrowed(value, real)
    got = run(*(_narrowed(a, real) for a in case.arrays))
    outputs = [got] if len(run.outputs) == 1 else list(got)
    return [*outputs, *(run.variables[f"main.G.{name}"] for name in case.updated)]


def _narrowed(array: Array, real: str) -> Array:
    return array.astype(real) if array.dtype.kind == "f" else array


def scaled_error(case: Case, got: Sequence[Array]) -> float:
    """The largest |got - expected| / (1 + |expected|) of a case.

    Raises `Mismatch` for a wrong number of outputs, shape or type, integers that differ, or
    an error above the tolerance of the case.
    """
    if len(got) != len(case.results):
        raise Mismatch(f"{len(got)} outputs, expected are {len(case.results)}")
    errors = [
        compare(np.asarray(ours), theirs, f"output {number}", case.tolerance)
        for number, (ours, theirs) in enumerate(zip(got, case.results, strict=True))
    ]
    return max(errors, default=0.0)


def check(family: Family, number: int, target: str) -> float:
    """Run a case, compare it, and give the scaled error; every fourth runs on two threads."""
    case = family.case(number)
    return scaled_error(case, execute(case, target, threads=2 if number % 4 == 3 else 1))


def check_rejected(case: Rejected) -> None:
    """Compose an invocation that an assert must reject, and look at its message."""
    try:
        ricci.parse(case.text)
    except ricci.Error as found:
        (answer,) = found.diagnostics
        if answer.code != "E0501" or case.message not in answer.message:
            raise Mismatch(f"expected is `{case.message}`, and the answer is\n{found}") from found
        return
    raise Mismatch(f"no assert rejects\n{case.text}")
