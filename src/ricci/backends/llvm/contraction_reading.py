"""Whether an operand of a contraction is read where it is, whether it comes from beyond the caches,
and whether tiles may ask for its columns before they are needed: see `contraction_ahead`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.nodes import Index
from ...ir.rewrite import free_indices
from .contraction_form import Form, Operand, size
from .contraction_space import flat_form, merge, step_of
from .kernels import Strides
from .packing import Depth, is_plain
from .target import LINE, Target

if TYPE_CHECKING:
    from .contraction_plan import Plan

Numbers = np.ndarray[Any, np.dtype[np.float64]]
"""Of several choices of blocks: cycles, or sizes, which may be too large for integers of numpy."""

_LEAST_ASKED = 2
"""Values of k for each row of tiles to ask for: with fewer, asking takes as long as it saves."""
_LINES_OF_RUN = 3
"""Lines of a run of columns that lie side by side, at least, to ask for them."""
ASKING, _ASKING_ON_MESH = 8, 3
"""Rows of tiles that share the questions for what is prepared, at least: where there are few, the
first is no small part of all; and where a core on a mesh waits longer for what it does not ask."""


def is_direct(operand: Operand, reduced: tuple[Index, ...], strides: Strides) -> bool:
    """Whether a tile can read the operand where it is: rows a common step apart, k another."""
    access = operand.access
    if access is None or operand.flip or not is_plain(access):
        return False
    steps = flat_form(access, strides).indices
    return all(
        len(merge(part, [access], strides).groups) <= 1
        and all(isinstance(steps.get(i, 0), int) for i in part)
        for part in (operand.indices, reduced)
    )


def has_room_to_ask(
    plan: Plan, rows: Numbers | int, columns: Numbers | int, target: Target
) -> np.ndarray[Any, np.dtype[np.bool_]] | bool:
    """Whether chunks of such sizes may ask for the prepared columns of the next block of k: of
    several panels, else they are read one after the other throughout, which a core on a mesh waits
    for, too; by enough rows of tiles."""
    block = columns * plan.depth.most * plan.form.dtype.numpy().itemsize
    several = (columns > plan.panel) | target.on_mesh
    enough = rows // plan.rows >= (_ASKING_ON_MESH if target.on_mesh else ASKING)
    return several & enough & (block <= asking_room(target))


def lacks_columns(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether tiles may have reason to ask for the columns of the next block where they are: these
    come from beyond the caches, k a common step apart, and are packed, or read in place."""
    source, operand = plan.vector_source, plan.vector
    if source == "prepared" or plan.is_streamed or plan.form.words is not None:
        return False
    if not reads_far(operand, plan.form, plan.depth, target):
        return False
    return asked_at_once(plan, strides) > 0


def asked_at_once(plan: Plan, strides: Strides) -> int:
    """How many neighbouring columns a question for one k brings: a line of those that lie side by
    side; of others so many of a line that questions for multiples of that do not go beyond the end
    of a run; 0 if k are not a common step apart, or that is too few."""
    operand, k = plan.vector, plan.depth.indices
    access = operand.access
    if access is None or operand.flip or not is_plain(access):
        return 0
    steps = flat_form(access, strides).indices
    groups = merge(operand.indices, [access], strides).groups
    known = all(isinstance(steps.get(i, 0), int) for i in (*operand.indices, *k))
    if not (groups and known and len(merge(k, [access], strides).groups) <= 1):
        return 0
    step, run = step_of(operand, operand.indices, strides), size(groups[-1])
    if step < 1:
        return 0
    most = LINE // (step * plan.form.dtype.numpy().itemsize)
    if step == 1:
        return most if len(groups) == 1 or run >= _LINES_OF_RUN * most else 0
    return max((n for n in range(2, most + 1) if run % n == 0), default=0)


def may_ask(
    plan: Plan, rows: Numbers | int
) -> np.ndarray[Any, np.dtype[np.bool_]] | np.bool_ | bool:
    """Whether blocks of so many rows have enough values of k for each row of tiles."""
    return plan.depth.most * plan.rows >= _LEAST_ASKED * rows


def has_room_beside(
    plan: Plan, columns: Numbers | int, target: Target
) -> np.ndarray[Any, np.dtype[np.bool_]] | np.bool_ | bool:
    """Whether the second cache has room for a block of so many columns beside those that are asked
    for where they are."""
    return columns * plan.depth.most * plan.form.dtype.numpy().itemsize <= target.l2 // 5


def asking_room(target: Target) -> int:
    """Bytes that a block of columns may have, so that the second cache has room for those of two
    blocks and for rows."""
    return target.l2 * 3 // 8


def is_far(operand: Operand, depth: Depth, bytes_of: int, target: Target) -> bool:
    """Whether an operand is more than the caches of a core hold."""
    return operand.extent * depth.extent * bytes_of > target.l2


def is_by_lanes(
    broadcast: Operand, vector: Operand, depth: Depth, bytes_of: int, target: Target
) -> bool:
    """Whether all blocks of the same columns are to follow one another: there are more columns than
    rows, and more than stay near until the next block of rows."""
    columns = vector.extent * depth.extent * bytes_of
    return vector.extent > broadcast.extent and columns > target.shared


def reads_far(operand: Operand, form: Form, depth: Depth, target: Target) -> bool:
    """Whether an operand comes from beyond the caches of a core: the one of a batch is no small
    part of what they hold, and those of all are more."""
    used = set(free_indices(operand.value))
    own = operand.extent * depth.extent * form.dtype.numpy().itemsize
    return own > target.l2 // 4 and own * size(i for i in form.batch if i in used) > target.l2
