"""Large tensors that are computed again where they are read.

Requires: kernels in their final order, in groups where these are worthwhile. Ensures: a map is not
done, and its tensor not there, if no cache holds that, if it is cheaper to compute an element than
to store it and read it, and if the readers are as fast with what it is made of. Does not: touch
what a group makes or reads, unless a core's own caches do not hold that for one of its points, or
what sums of products read.

Example: `exp(x[i, j] - m[j])` of columns, whose sum divides it: the sum and the quotient are one
pass each over `x`, and nothing else is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..ir import shapes
from ..ir.loops import Group, Kernel, Reduce, tensors_touched, tensors_written
from ..ir.nodes import Apply, Tensor
from ..ir.rewrite import accesses, walk
from ..records import replace
from .epilogues import is_map, is_too_large, made_of_both
from .fuse import inline
from .rows import extent, is_known
from .views import Views, root_of

LARGE = 16 << 20
"""Bytes of a tensor that no cache of a core holds."""
LONG_ROW = 512 << 10
"""Bytes of what is kept of a tensor that share its caches with others."""
_CHEAP = frozenset({"abs", "ceil", "copysign", "exp", "floor", "fma", "sqrt", "trunc"})
"""Functions that take no longer than memory takes for an element."""
_FUNCTIONS, _NODES, _READERS = 1, 12, 2
"""The most functions and nodes of what is computed again, and the most kernels that do so."""


def compute_again(
    kernels: Sequence[Kernel], views: Views, results: Iterable[Tensor]
) -> list[Kernel]:
    """The kernels, without maps that their readers compute."""
    kept = {*results, *views, *views.values()}
    out = [with_less_kept(k, views) if isinstance(k, Group) else k for k in kernels]
    for producer in kernels:
        if isinstance(producer, Reduce) and _is_cheap(producer, kept):
            out = _without(out, producer, views)
    for number, kernel in enumerate(out):
        if isinstance(kernel, Group):
            out[number:] = _with_less_made(kernel, out[number + 1 :], views, kept)
    return out


def _with_less_made(
    group: Group, others: list[Kernel], views: Views, kept: set[Tensor]
) -> list[Kernel]:
    """A group and the kernels after it, without maps of the group that others read, too, and whose
    results for one point leave a core's own caches."""
    points = math.prod(extent(i) for i in group.shared)
    for producer in group.kernels:
        target = producer.targets[0].tensor
        if target in group.local or _bytes(target) < points * LONG_ROW:
            continue
        if _is_cheap(producer, kept):
            every: list[Kernel] = [*group.kernels, *others]
            left = _without(every, producer, views)
            if left is not every:
                count = len(group.kernels) - 1
                own = tuple(k for k in left[:count] if isinstance(k, Reduce))
                others = left[count:]
                read = {t for k in others for t in tensors_touched(k)}
                local = tuple(t for t in group.local if t not in read)
                group = replace(group, kernels=own, local=local)
    return [group, *others]


def with_less_kept(group: Group, views: Views) -> Group:
    """A group, without maps whose results for one point leave a core's own caches; its pieces are
    its first kernels, and no maps, so they keep their numbers."""
    points = math.prod(extent(i) for i in group.shared)
    kernels: list[Kernel] = list(group.kernels)
    for producer in group.kernels:
        target = producer.targets[0].tensor
        if target in group.local and _bytes(target) >= points * LONG_ROW:
            if _is_cheap(producer, set()):
                kernels = _without(kernels, producer, views)
    left = tuple(k for k in kernels if isinstance(k, Reduce))
    made = {t for k in left for t in tensors_written(k)}
    return replace(group, kernels=left, local=tuple(t for t in group.local if t in made))


def _is_cheap(kernel: Reduce, kept: set[Tensor]) -> bool:
    """Whether a kernel is a map that takes no longer than its elements take to memory."""
    if not is_map(kernel) or len(kernel.targets) != 1 or not is_known(kernel):
        return False
    target, nodes = kernel.targets[0].tensor, list(walk(*kernel.initial))
    functions = [x.function for x in nodes if isinstance(x, Apply)]
    if len(nodes) > _NODES or len(functions) > _FUNCTIONS or not _CHEAP.issuperset(functions):
        return False
    read = {a.tensor for a in accesses(*kernel.initial)}
    large = [t for t in read if _bytes(t) >= LARGE]
    small = _bytes(large[0]) <= _bytes(target) if large else True
    return target not in kept and _bytes(target) >= LARGE and len(large) <= 1 and small


def _bytes(tensor: Tensor) -> int:
    size = math.prod(shapes.as_int(n) or 0 for n in tensor.shape)
    return size * tensor.dtype.numpy().itemsize


def _without(kernels: list[Kernel], producer: Reduce, views: Views) -> list[Kernel]:
    """The kernels with a map in its readers; as they were if some reader cannot compute it."""
    target = producer.targets[0].tensor
    own = {root_of(a.tensor, views) for a in accesses(*producer.initial)}
    first = next((n for n, k in enumerate(kernels) if k is producer), None)
    if first is None:
        return kernels
    out = kernels[:first]
    readers = 0
    for kernel in kernels[first + 1 :]:
        written = tensors_written(kernel)
        if target in written or own.intersection(root_of(t, views) for t in written):
            return kernels
        if target in tensors_touched(kernel):
            new = inline(kernel, producer) if isinstance(kernel, Reduce) else None
            readers += 1
            if new is None or is_too_large(new) or readers > _READERS:
                return kernels
            kernel = made_of_both(new, producer, new)
        out.append(kernel)
    return out if readers else kernels
