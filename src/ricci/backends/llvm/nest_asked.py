"""What a kernel asks for long before it reads it.

The processor looks ahead along a page. It cannot know which row of a table comes next, nor that all
of a row will be read whose elements are read in any order; and it sees too late that the windows of
the next row of results begin where those of this one end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Index, Tensor
from ...ir.rewrite import free_indices
from ...records import replace
from .emit import Frame
from .emit_access import Linear, has_effect, linear
from .emit_parts import Asked
from .emit_types import width
from .nest_choice import is_stored_each_step
from .nest_plan import Plan
from .nest_uses import Loop, Use, is_large, is_read_once, uses_of
from .sizes import likely, plus, product, size_of, sizes_of
from .target import LINE

ASKED = 8192
"""Bytes behind what is read, of rows that are read again."""
BEYOND = 4
"""How many times a core's second cache a tensor is of which rows are asked for."""
ROWS = 2048
"""Bytes of rows of a table between the one that is read and the one that is asked for, at least."""
_MOST_ASKED = 8
"""Lines that are asked for with a vector, at most."""


def asked_of(kernel: Reduce, plan: Plan, frame: Frame) -> dict[Tensor, list[Asked]]:
    """What to ask for when elements of a tensor are read or written."""
    if frame.target is None or plan.vector is None or is_stored_each_step(kernel):
        return {}
    uses = [u for u in uses_of(kernel, frame) if not u.target]
    tensors = [u.access.tensor for u in uses]
    out = dict[Tensor, list[Asked]]()
    for use in uses:
        tensor = use.access.tensor
        if use.form.others and tensors.count(tensor) == 1 and is_large(tensor):
            if tensor not in frame.local:
                out[tensor] = rows_of_table(plan, use) + all_of_rows(plan, use, frame)
    if not plan.over_reduced:
        out[kernel.targets[0].tensor] = _windows(kernel, plan, uses, frame)
    return out


def rows_of_table(plan: Plan, use: Use) -> list[Asked]:
    """The next row of those that are read from anywhere, one element after the other."""
    assert plan.vector is not None
    along, others = plan.vector.index, [expr for expr, _ in use.form.others.values()]
    loop = _innermost(plan)
    if loop is None or not isinstance(loop.extent, int) or use.form.indices.get(along) != 1:
        return []
    found = free_indices(*others)
    if loop.index not in found or along in found or any(has_effect(x, {}) for x in others):
        return []
    size, extent = width(use.access.tensor.dtype), plan.vector.extent
    together = plan.vectors * plan.lanes if plan.reduced and not plan.over_reduced else extent
    if not isinstance(together, int):
        return []
    rows = plan.rows * -(-ROWS // (together * size))
    lines = max(1, plan.lanes * size // LINE)
    return [Asked(use.access.tensor, use.form, 0, lines, (loop.index, rows, loop.extent))]


def all_of_rows(plan: Plan, use: Use, frame: Frame) -> list[Asked]:
    """The next of the rows of which most lines are read, in any order."""
    assert plan.vector is not None
    along, extent = plan.vector.index, plan.vector.extent
    tensor, last = use.access.tensor, use.access.subscripts[-1]
    form = Linear()
    strides = frame.strides(tensor)
    for s, stride in zip(use.access.subscripts[:-1], strides[:-1], strict=True):
        form.plus(linear(s.index), stride)
    row, size = sizes_of(tensor.shape)[-1], width(tensor.dtype)
    free = along not in form.indices and not form.others and along in free_indices(last.index)
    if not free or strides[-1] != 1 or not isinstance(extent, int) or not isinstance(row, int):
        return []
    moving = [x.index for x in _loops(plan) if x.index in form.indices and x.extent != 1]
    each = max(1, row // extent)
    lines = max(1, each * plan.lanes * size // LINE)
    if not moving or lines > _MOST_ASKED:
        return []
    next_row = plus(form.constant, form.indices[moving[-1]])
    form = Linear(next_row, {**form.indices, along: each})
    return [Asked(tensor, form, 0, lines)]


def _loops(plan: Plan) -> list[Loop]:
    """The loops but the vectors', from the outermost."""
    return plan.outer if plan.over_reduced else [*plan.outer, *plan.reduced]


def _innermost(plan: Plan) -> Loop | None:
    return next((x for x in reversed(_loops(plan)) if x.extent != 1), None)


def _windows(kernel: Reduce, plan: Plan, uses: Sequence[Use], frame: Frame) -> list[Asked]:
    """What is read around the place of a result, by the terms of a sum or a maximum: each element
    several times, so what is asked for with each result is behind what it was first to read."""
    assert plan.vector is not None and frame.target is not None
    found = list[Asked]()
    for use in uses:
        tensor = use.access.tensor
        bytes = likely(product(sizes_of(tensor.shape))) * width(tensor.dtype)
        if not use.inner or use.form.others or tensor in frame.local:
            continue
        if bytes > BEYOND * frame.target.l2 and not is_read_once(use):
            asked = behind(kernel, use, plan.vector.index, plan.lanes)
            found += [replace(x, distance=_in_strip(plan, use, x.distance)) for x in asked]
    return found


def _in_strip(plan: Plan, use: Use, distance: int) -> int:
    """About the same distance, but in the same strip if there are any."""
    if plan.strip is None:
        return distance
    step = use.form.steps.get(plan.outer[-1].index, 0) * width(use.access.tensor.dtype)
    return max(1, distance // step) * step if step > 0 else distance


def behind(kernel: Reduce, use: Use, along: Index, lanes: int) -> list[Asked]:
    """What is behind the elements that no result before this one has read; nothing if results next
    to one another do not share elements."""
    steps, size = use.form.steps, width(use.access.tensor.dtype)
    offsets = [0]
    for index in (i for i in kernel.reduced if steps.get(i)):
        step, extent = abs(steps[index]), size_of(index.extent)
        if not isinstance(extent, int):
            return []
        moves = {i: abs(n) for i, n in steps.items() if i not in kernel.reduced}
        near = [(n, i is along) for i, n in moves.items() if 0 < n <= step * extent]
        if not near:
            return []
        apart, is_along = max(near)
        fresh = range(1 if is_along else min(extent, max(1, apart // step)))
        if steps[index] > 0:
            fresh = range(extent - len(fresh), extent)
        offsets = [o + steps[index] * k for o in offsets for k in fresh]
    lines = max(1, steps.get(along, 0) * lanes * size // LINE)
    if not 0 < steps.get(along, 0) * len(offsets) * lines <= _MOST_ASKED:
        return []
    own = {i: n for i, n in use.form.indices.items() if i not in kernel.reduced}
    return [
        Asked(use.access.tensor, Linear(plus(use.form.constant, o), own), ASKED, lines)
        for o in offsets
    ]
