"""Which windows are done for several maps side by side (`passes.side_by_side`)."""

from __future__ import annotations

from collections.abc import Container

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from ...passes.map_windows import Windows, windows_of
from ...passes.partial import points_of
from ...passes.side_by_side import (
    SideBySide,
    by_lanes,
    by_rows,
    may_be_side_by_side,
    side_by_side,
)
from .emit_access import extent_of
from .kernels import Strides
from .target import Target

_APART, _PARTIAL = {False: 4.0, True: 8.0}, 5.0
"""Instructions for a vector of elements that are some apart, and what it is multiplied with, by
whether a processor does vectors in halves; and there for those of rows that do not fill vectors,
since loads and stores of some lanes take many times as long as others."""
_TURNED = {False: 6.0, True: 10.0}
"""The same to turn a vector round, by whether vectors are longer than 32 bytes."""
_SHARES = 2
"""Groups of maps for each core, at least."""


def by_maps(
    kernel: Reduce, strides: Strides, target: Target, constant: Container[Tensor] = ()
) -> SideBySide | None:
    """The kernels that do the maps of a kernel side by side, if that takes less time. Those of
    `constant` tensors are not turned round in each call."""
    for found in windows_of(kernel):
        if found.tensor in constant or any(t in strides for t in found.tensors()):
            continue
        if may_be_side_by_side(found) or _is_faster(found, target):
            lanes = target.lanes(found.tensor.dtype)
            beside = side_by_side(found, lanes, constant)
            if beside is not None:
                return beside
    return None


def _is_faster(found: Windows, target: Target) -> bool:
    lanes, row = target.lanes(found.tensor.dtype), extent_of(found.lines[-1].own)
    if points_of(found.maps) < _SHARES * lanes * target.cores:
        return False
    if not found.is_strided and not (target.narrow and row % lanes):
        return False
    each = _APART[target.narrow] if found.is_strided else _PARTIAL
    return by_lanes(found, lanes, _TURNED[target.long]) < by_rows(found, lanes, each)
