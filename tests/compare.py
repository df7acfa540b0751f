"""Comparing what an executor gives with what is expected, in all tests the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TARGETS = {"interpreter": "float64", "cpu": "float32"}
"""The executors, and the type of reals on each."""


class Mismatch(Exception):
    """An executor gave something else than the oracle; the message says what."""


def compare(ours: Array, theirs: Array, name: str, tolerance: float) -> float:
    """The largest |ours - theirs| / (1 + |theirs|) of reals; 0 for equal integers and bools.

    Raises `Mismatch` for another shape or kind of type, integers or bools that differ, or an
    error above the tolerance. Equal infinities and two NaN are no error.
    """
    if ours.shape != theirs.shape:
        raise Mismatch(f"{name}: shape {ours.shape}, expected is {theirs.shape}")
    if ours.dtype.kind != theirs.dtype.kind:
        raise Mismatch(f"{name}: {ours.dtype}, expected is {theirs.dtype}")
    if theirs.dtype.kind != "f":
        _check_equal(ours, theirs, name)
        return 0.0
    worst = _scaled_error(ours, theirs)
    if not worst <= tolerance:
        raise Mismatch(f"{name}: scaled error {worst:.1e} > {tolerance:.0e}")
    return worst


def _check_equal(ours: Array, theirs: Array, name: str) -> None:
    wrong = np.argwhere(ours != theirs)
    if len(wrong):
        at = tuple(wrong[0])
        raise Mismatch(f"{name}: {ours[at]} at {list(map(int, at))}, expected is {theirs[at]}")


def _scaled_error(ours: Array, theirs: Array) -> float:
    with np.errstate(all="ignore"):
        error = np.abs(ours.astype(np.float64) - theirs) / (1.0 + np.abs(theirs))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    return float(error.max(initial=0.0))
