"""The last map of a group, done at a row while another one computes the next: what goes past the
caches is written while there is something to compute.

In softmax along rows of 64 KB each row is read from memory, then only powers are computed, and then
stores are all there is to wait for. A map of row `i` and the last one of row `i - 1` are one kernel
here, with one loop, so that the processor does both at a time. A thread keeps the rows of a block
for that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.loops import Group, Reduce
from ...ir.nodes import Access, Expr, Index, Tensor
from ...passes.fuse import map_expressions
from ...passes.siblings import renamed
from ...records import dataclass, replace
from .emit_access import extent_of


@dataclass(frozen=True, slots=True)
class Late:
    """The kernel with the number `first`, and the `last` one of the point before, as one."""

    first: int
    last: int
    kernel: Reduce
    before: Index
    """The last shared index at the point before."""
    again: Mapping[Tensor, Tensor]
    """What stands in the kernel for local tensors that it writes, where it reads earlier rows."""


def find_late(group: Group) -> Late | None:
    """The last kernel with one before it, if there is one that does nothing but write a local
    tensor at as many points."""
    *others, last = group.kernels
    count = len(group.shared)
    points = [extent_of(i) for i in last.domain[count:]]
    for number in reversed(range(len(others))):
        kernel = others[number]
        if not (_is_map(last) and _is_map(kernel)):
            continue
        if not all(t.tensor in group.local for t in kernel.targets):
            continue
        if [extent_of(i) for i in kernel.domain[count:]] == points:
            before = replace(group.shared[-1])
            again = {t.tensor: replace(t.tensor) for t in kernel.targets}
            both = _together(kernel, last, before, again, count)
            return Late(number, len(others), both, before, again)
    return None


def _is_map(kernel: Reduce) -> bool:
    return not kernel.values and not kernel.reduced and kernel.condition is None


def _together(
    first: Reduce, last: Reduce, before: Index, again: Mapping[Tensor, Tensor], count: int
) -> Reduce:
    """One kernel for both, the second at another value of the last of `count` shared indices."""
    indices = dict(zip(last.domain[count:], first.domain[count:], strict=True))

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor in again:
            return replace(expr, tensor=again[expr.tensor])
        return expr

    last = map_expressions(renamed(last, {last.domain[count - 1]: before, **indices}), node)
    return replace(
        first,
        targets=(*first.targets, *last.targets),
        initial=(*first.initial, *last.initial),
        accumulators=(*first.accumulators, *last.accumulators),
        results=(*first.results, *last.results),
        locals=(*first.locals, *last.locals),
    )
