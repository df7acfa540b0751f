"""Maps that write the elements of a short last dimension in turns, as one.

Requires: kernels, fused. Ensures: neighbouring maps of which each writes one value of the last,
short dimension of a tensor, the same points of all others, are one map with a target for each: what
is next to one another in memory is written together. Does not: join maps of which one reads what
another writes, or whose sizes are not known.

Example: `y[i, 0] = a[i]` and `y[i, 1] = b[i]`, stacked along the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import shapes
from ..ir.loops import Kernel, Reduce, tensors_touched
from ..ir.nodes import Access, Index, Tensor
from ..records import replace
from .epilogues import is_map, is_too_large, made_of_both
from .rows import extent, is_known
from .siblings import renamed
from .views import Views, root_of

MOST = 4
"""Values of the last dimension."""


def join_turns(kernels: Sequence[Kernel], views: Views) -> list[Kernel]:
    """The kernels, in order, with such maps as one."""
    out: list[Kernel] = []
    for kernel in kernels:
        both = None
        if out and isinstance(kernel, Reduce):
            both = _joined(out[-1], kernel, views)
        if both is None:
            out.append(kernel)
        else:
            out[-1] = both
    return out


def _joined(first: Kernel, second: Reduce, views: Views) -> Reduce | None:
    """Two maps as one, if they write the same tensor in turns."""
    if not isinstance(first, Reduce) or not _is_turn(first) or not _is_turn(second):
        return None
    *others, last = first.targets
    target = second.targets[0]
    if len(second.targets) != 1 or target.tensor is not last.tensor:
        return None
    if {_turn(t) for t in (*others, last)} & {_turn(target)}:
        return None
    indices = [(s.index, t.index) for s, t in zip(target.subscripts, last.subscripts, strict=True)]
    mapping: dict[Index, Index] = {}
    for own, theirs in indices[:-1]:
        if isinstance(own, Index) and isinstance(theirs, Index) and extent(own) == extent(theirs):
            mapping[own] = theirs
        elif own != theirs:
            return None
    if set(mapping) != set(second.domain) or len(set(mapping.values())) != len(first.domain):
        return None
    root = root_of(target.tensor, views)
    if any(root_of(t, views) is root for k in (first, second) for t in _read(k)):
        return None
    second = renamed(second, mapping)
    both = replace(
        first,
        targets=(*first.targets, *second.targets),
        initial=(*first.initial, *second.initial),
        accumulators=(*first.accumulators, *second.accumulators),
        results=(*first.results, *second.results),
    )
    return None if is_too_large(both) else made_of_both(both, first, second)


def _read(kernel: Reduce) -> list[Tensor]:
    written = {t.tensor for t in kernel.targets}
    return [t for t in tensors_touched(kernel) if t not in written]


def _is_turn(kernel: Reduce) -> bool:
    """Whether a map writes values of the last dimension of a tensor, which has few."""
    if not is_map(kernel) or not kernel.domain or not is_known(kernel):
        return False
    target = kernel.targets[0]
    count = shapes.as_int(target.tensor.shape[-1]) if target.tensor.shape else None
    return count is not None and 1 < count <= MOST and _turn(target) is not None


def _turn(target: Access) -> int | None:
    """The last subscript of a target, if it is a number."""
    return shapes.as_int(target.subscripts[-1].index)
