"""Running a case on an executor, and comparing what it gives with what is expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import ricci

from .case import Array, Case, Family

TARGETS = {"interpreter": "float64", "cpu": "float32"}
"""The executors, and the type of reals on each."""


class Mismatch(Exception):
    """An executor gave something else than the oracle; the message says what."""


def execute(case: Case, target: str, threads: int = 1) -> list[Array]:
    """The outputs of a case as `target` computes them."""
    real = TARGETS[target]
    run = ricci.parse(case.text).compile(target=target, threads=threads, real=real)
    arrays = [a.astype(real) if a.dtype.kind == "f" else a for a in case.arrays]
    got = run(*arrays)
    return [got] if len(run.outputs) == 1 else list(got)


def scaled_error(case: Case, got: Sequence[Array]) -> float:
    """The largest |got - expected| / (1 + |expected|) of a case.

    Raises `Mismatch` for a wrong number of outputs, shape or type, integers that differ, or
    an error above the tolerance of the case.
    """
    worst = 0.0
    if len(got) != len(case.results):
        raise Mismatch(f"{len(got)} outputs, expected are {len(case.results)}")
    for number, (ours, theirs) in enumerate(zip(got, case.results, strict=True)):
        error = _compare(np.asarray(ours), theirs, f"output {number}")
        worst = max(worst, error)
        if not error <= case.tolerance:
            raise Mismatch(f"output {number}: scaled error {error:.1e} > {case.tolerance:.0e}")
    return worst


def _compare(ours: Array, theirs: Array, name: str) -> float:
    if ours.shape != theirs.shape:
        raise Mismatch(f"{name}: shape {ours.shape}, expected is {theirs.shape}")
    if ours.dtype.kind != theirs.dtype.kind:
        raise Mismatch(f"{name}: {ours.dtype}, expected is {theirs.dtype}")
    if theirs.dtype.kind != "f":
        wrong = np.argwhere(ours != theirs)
        if len(wrong):
            at = tuple(wrong[0])
            raise Mismatch(f"{name}: {ours[at]} at {list(at)}, expected is {theirs[at]}")
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(ours.astype(np.float64) - theirs) / (1.0 + np.abs(theirs))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return float(error.max(initial=0.0))


def check(family: Family, number: int, target: str) -> float:
    """Run a case, compare it, and give the scaled error; every fourth runs on two threads."""
    case = family.case(number)
    return scaled_error(case, execute(case, target, threads=2 if number % 4 == 3 else 1))
