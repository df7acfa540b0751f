"""Results too large for the caches go around them.

A store brings a line to the cache first, which is of no use where a whole line is written, and no
reader will find it there: so a third of what an addition moves, and half of what a copy does, is
moved for nothing. Stores past the caches need whole vectors at multiples of their size. Large
tensors that are read are asked for ahead: by itself the processor does so only to the end of a
page, and not at all for lines that are pages apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from .emit import Frame
from .emit_types import width
from .nest_asked import asked_of
from .nest_choice import is_stored_each_step
from .nest_phase import runs_of
from .nest_plan import Plan, is_torn
from .nest_uses import Use, is_far, is_large, is_read_once, only_adds, uses_of
from .sizes import likely
from .target import LINE, Target

AHEAD = 2048
"""Bytes ahead of what is read once."""
_NEAR = 1024
"""The same where several terms are read at a time: by itself the processor waits for less than it
could where a term takes more instructions than one, for its window is full of them."""
FARTHER, _LONG_ROW = 4096, 512
"""The same along rows of so many terms where the processor itself looks ahead, too."""
FENCE = "fence seq_cst"
"""Other threads see stores past the caches only after it."""
LEAST_PAST = 16
"""Bytes of a vector that goes past the caches, at least."""
_MANY_TERMS = 24
"""Terms of several rows that are computed as long as their lines take to memory and back: between
them what waits to go past the caches gives way to what is read. Four rows of 27 terms and more took
0.58 to 0.78 of the time as plain stores, of up to 12 terms 1.36 to 1.6."""


def streamed(kernel: Reduce, plan: Plan, frame: Frame) -> list[Use]:
    """What a kernel writes past the caches: all of it but what a thread keeps, or nothing; of
    targets that are written as one, the first."""
    target = frame.target
    if target is None or plan.vector is None or not isinstance(plan.vector.extent, int):
        return []
    runs = runs_of(kernel, plan.vector.index, frame)
    uses = [u for u in uses_of(kernel, frame) if u.target]
    inside = {n + k for n, count in runs.items() for k in range(1, count)}
    inside |= {n for n, u in enumerate(uses) if u.access.tensor in frame.local}
    targets = [u for n, u in enumerate(uses) if n not in inside]
    steps = [runs.get(n, 1) for n in range(len(uses)) if n not in inside]
    scans = is_stored_each_step(kernel)
    if not scans and (plan.over_reduced or plan.vector.extent % plan.lanes or frame.written):
        return []
    shifted = scans and plan.over_reduced
    if _are_computed_meanwhile(plan, target) or not all(
        is_wanted(u, frame, target) and _is_whole(u, n, plan, shifted)
        for u, n in zip(targets, steps, strict=True)
    ):
        return []
    return targets


def _are_computed_meanwhile(plan: Plan, target: Target) -> bool:
    """Whether lines come and go while rows are computed, where vectors are short; others were not
    measured."""
    if not target.short or plan.rows == 1:
        return False
    return math.prod(likely(loop.extent) for loop in plan.reduced) >= _MANY_TERMS


def is_wanted(use: Use, frame: Frame, target: Target) -> bool:
    """Whether what is written to is large, and not read again soon."""
    tensor = use.access.tensor
    return is_far(tensor, target) and tensor not in frame.local and tensor not in frame.reread


def _is_whole(use: Use, step: int, plan: Plan, shifted: bool) -> bool:
    """Whether vectors of a target, which steps over so many elements, are at multiples of their
    size, but for where it begins; those that are `shifted` are made so that they are, whatever
    the first lane is."""
    assert plan.vector is not None
    along, size = plan.vector.index, width(use.access.tensor.dtype)
    bytes = plan.lanes * size
    if not LEAST_PAST <= bytes <= LINE or use.form.others:
        return False
    steps = {i: n for i, n in use.form.indices.items() if i not in plan.fixed}
    rest = [n for i, n in steps.items() if i is not along]
    rest += [] if shifted else [use.form.constant]
    return steps.get(along) == step and all(
        isinstance(n, int) and n * size % bytes == 0 for n in rest
    )


def write_streamed(kernel: Reduce, plan: Plan, frame: Frame, body: Callable[[], None]) -> None:
    """The body, with large tensors read ahead, and written past the caches if they lie as they
    should when it runs."""
    targets = streamed(kernel, plan, frame)
    ahead = frame.ahead
    frame.ahead = {**_read_ahead(kernel, plan, frame), **ahead}
    frame.asked = asked_of(kernel, plan, frame)
    if targets:
        write_either_way([u.access.tensor for u in targets], frame, body)
    else:
        body()
    frame.ahead = ahead
    frame.asked = {}


def write_either_way(targets: Sequence[Tensor], frame: Frame, body: Callable[[], None]) -> None:
    """The body twice: with stores past the caches, if all targets begin at a line, and without."""
    b = frame.builder
    places = [frame.pointer(t) for t in targets]
    bits = [b.pure(f"ptrtoint ptr {p} to i64", p) for p in places]
    whole = bits[0]
    for other in bits[1:]:
        whole = b.pure(f"or i64 {whole}, {other}", whole, other)
    rest = b.pure(f"and i64 {whole}, {LINE - 1}", whole)
    arms = b.branches(b.pure(f"icmp eq i64 {rest}, 0", rest))
    b.declare("!0 = !{i32 1}")
    with arms.then():
        frame.streams = frozenset(targets)
        body()
        if frame.fences:
            b.line(FENCE)
        frame.streams = frozenset()
    with arms.other():
        body()


def _read_ahead(kernel: Reduce, plan: Plan, frame: Frame) -> dict[Tensor, int]:
    """The large tensors that are read along the vectors, once."""
    if plan.vector is None or (plan.terms > 1 and only_adds(kernel)):
        return {}
    only_reads = kernel.reduced and not is_stored_each_step(kernel)
    helps_itself = only_reads and frame.target is not None and frame.target.looks_ahead
    long = plan.terms > 1 or (plan.over_reduced and likely(plan.vector.extent) >= _LONG_ROW)
    if helps_itself and not long:
        return {}
    along, uses = plan.vector.index, uses_of(kernel, frame)
    read = [u for u in uses if not u.target and u.access.tensor not in frame.local]
    with_terms = {u.access.tensor for u in read if _moves(u, kernel)}
    accesses = {u.access for u in read if _moves(u, kernel) or u.access.tensor not in with_terms}
    tensors = [a.tensor for a in accesses]
    return {
        u.access.tensor: _distance(u, plan, frame, bool(helps_itself))
        for u in read
        if u.form.indices.get(along) == 1 and is_large(u.access.tensor)
        if tensors.count(u.access.tensor) == 1 and is_read_once(u)
        if plan.terms == 1 or _goes_on(u, plan)
    }


def _moves(use: Use, kernel: Reduce) -> bool:
    """Whether each term reads another element; the others' is among those, such as the first."""
    return bool(use.form.others) or any(i in use.form.indices for i in kernel.reduced)


def _goes_on(use: Use, plan: Plan) -> bool:
    """Whether what is asked for along a row of terms is of the row, or of the next one: behind a
    part of a row is what others read."""
    assert plan.vector is not None
    run = likely(plan.vector.extent)
    steps = (use.form.indices.get(x.index) for x in (*plan.outer, *plan.reduced))
    return run * width(use.access.tensor.dtype) > _NEAR or run in steps


def _distance(use: Use, plan: Plan, frame: Frame, helps_itself: bool) -> int:
    """How many bytes ahead: where terms are pages apart, what the next tile reads; caches have no
    room for more of so many pages. Of a block of columns the same of a row after the next: behind a
    part of a row is what others read."""
    if plan.terms > 1:
        return _NEAR
    if frame.reread and not _goes_on(use, plan):
        step = use.form.indices.get(plan.outer[-1].index) if plan.outer else None
        if isinstance(step, int) and step > 0:
            return 2 * step * width(use.access.tensor.dtype)
    if helps_itself:
        return FARTHER
    if is_torn(plan, use):
        return plan.vectors * plan.lanes * width(use.access.tensor.dtype)
    return AHEAD
