"""Whether an array is what a framework gives: shapes, kinds of numbers, then elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..dtypes import BFLOAT16, from_bfloat16, name_of
from ..runtime.arguments import Array

Kind = Literal["shape", "type", "values"]

_KINDS = {"f": "reals", "i": "integers", "u": "integers", "b": "bools"}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Reals may differ by `atol + rtol * |expected|`."""

    rtol: float = 0.0
    atol: float = 1e-6


@dataclass(frozen=True, slots=True)
class Difference:
    """How two arrays differ: in their shapes or kinds of numbers, else in `count` elements, of
    which the first, in row-major order, is at `index`."""

    kind: Kind
    ours: str
    theirs: str
    index: tuple[int, ...] = ()
    count: int = 0
    size: int = 0


def compare(ours: Array, theirs: Array, tolerance: Tolerance) -> Difference | None:
    """How an array differs from the expected one; none if it does not.

    Widths of numbers do not count. Integers and bools must be equal; reals may differ by the
    tolerance. NaN equals NaN, and an infinity itself, alone.
    """
    if ours.shape != theirs.shape:
        return Difference("shape", str(list(ours.shape)), str(list(theirs.shape)))
    if _kind(ours) != _kind(theirs):
        return Difference("type", _described(ours), _described(theirs))
    wrong = _wrong(_plain(ours), _plain(theirs), tolerance)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    index = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
    have, want = str(_plain(ours)[index]), str(_plain(theirs)[index])
    return Difference("values", have, want, index, count, wrong.size)


def _kind(array: Array) -> str:
    return _KINDS[_plain(array).dtype.kind]


def _described(array: Array) -> str:
    return f"{_kind(array)} ({name_of(array.dtype)})"


def _plain(array: Array) -> Array:
    return from_bfloat16(array) if array.dtype == BFLOAT16 else array


def _wrong(ours: Array, theirs: Array, tolerance: Tolerance) -> Array:
    """Where elements differ by more than they may."""
    if ours.dtype.kind != "f":
        return np.asarray(ours != theirs)
    have, want = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        limit = tolerance.atol + tolerance.rtol * np.abs(want)
        near = np.isfinite(have) & np.isfinite(want) & (np.abs(have - want) <= limit)
    equal = near | (have == want) | (np.isnan(have) & np.isnan(want))
    return np.asarray(~equal)
