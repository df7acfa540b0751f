"""Neighbouring maps over the same points, as one.

Requires: the kernels of a run, fused. Ensures: a map that reads, at each of its points, the element
that a map before it writes or reads there, is done together with that, if both write in the same
order: what they share is read once, and what the later one reads of the earlier is not read at all.
What then nothing reads is not written. Does not: join maps that may fail, or move a map to before
anything but a few other maps: results should not be there long before they are read.

Example: the new state of a recurrent layer, `c[i] = ...`, and what it shows of that,
`h[i] = o[i] * tanh(c[i])`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..ir.loops import Kernel, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import ONE, Access, Expr, Index, Local, Tensor
from ..ir.rewrite import accesses, rebuild
from ..records import replace
from .epilogues import dimensions_of, is_map, is_too_large, made_of_both
from .kernels import may_fail
from .siblings import is_one_to_one, renamed, same_place, unified
from .views import Views, root_of

MOST_TARGETS = 4
MOST_BETWEEN = 8
"""Maps between two that are joined."""


def join_maps(kernels: Sequence[Kernel], views: Views, results: Iterable[Tensor]) -> list[Kernel]:
    """The kernels, in order, with such maps as one. Nothing but the kernels reads tensors that are
    not among the `results`."""
    kept = {*results, *views, *views.values()}
    readers = Counter(t for k in kernels for t in _read(k))
    out: list[Kernel] = []
    for kernel in kernels:
        place = _place(out, kernel, views)
        if place is None:
            out.append(kernel)
            continue
        number, both = place
        readers.subtract([*_read(out[number]), *_read(kernel)])
        readers.update(_read(both))
        out[number] = _without(both, {t for t in tensors_written(both) if not readers[t]} - kept)
    return out


def _place(before: Sequence[Kernel], kernel: Kernel, views: Views) -> tuple[int, Reduce] | None:
    """The number of the last kernel that a map can be joined with, and both."""
    if not (isinstance(kernel, Reduce) and _is_plain(kernel)):
        return None
    last = len(before) - 1
    for number in range(last, max(last - MOST_BETWEEN, 0) - 1, -1):
        other = before[number]
        if not (isinstance(other, Reduce) and _is_plain(other)):
            return None
        both = _joined(other, kernel, views)
        if both is not None:
            return number, both
        if _touch(other, kernel, views) or _touch(kernel, other, views):
            return None
    return None


def _touch(first: Kernel, second: Kernel, views: Views) -> bool:
    """Whether a kernel touches what another writes."""
    written = {root_of(t, views) for t in tensors_written(second)}
    return any(root_of(t, views) in written for t in tensors_touched(first))


def _read(kernel: Kernel) -> set[Tensor]:
    return {a.tensor for a in accesses(*expressions_of(kernel))}


def _joined(first: Reduce, second: Reduce, views: Views) -> Reduce | None:
    """Two maps as one, if they can be, and should."""
    if not _are_apart(first, second, views):
        return None
    for mapping in _mappings(first, second):
        both = _with_second(first, renamed(second, mapping))
        if both is not None and not is_too_large(both) and len(both.targets) <= MOST_TARGETS:
            return made_of_both(both, first, second)
    return None


def _is_plain(kernel: Reduce) -> bool:
    """Whether a kernel is a map that cannot fail and writes all of each target."""
    if not is_map(kernel) or any(map(may_fail, kernel.initial)):
        return False
    return all(_order(t) is not None for t in kernel.targets)


def _order(target: Access) -> list[Index] | None:
    """The indices that a target is written by, but those of one value, the slowest first."""
    found = dimensions_of(target)
    return None if found is None else [i for i in found if i is not None and i.extent != ONE]


def _are_apart(first: Reduce, second: Reduce, views: Views) -> bool:
    """Whether a map writes nothing that another touches, and reads what that writes under the names
    by which it is written."""
    if _touch(first, second, views):
        return False
    made = {root_of(t, views) for t in tensors_written(first)}
    others = set(tensors_touched(second)).difference(tensors_written(first))
    return all(root_of(t, views) not in made for t in others)


def _mappings(first: Reduce, second: Reduce) -> Iterator[dict[Index, Index]]:
    """Indices of the first for those of the second with which they share an element at each
    point."""
    for a in (*first.targets, *accesses(*first.initial)):
        for b in (x for x in accesses(*second.initial) if x.tensor is a.tensor):
            mapping = unified(a, b)
            if mapping is not None and is_one_to_one(mapping, first, second):
                yield mapping


def _with_second(first: Reduce, second: Reduce) -> Reduce | None:
    """Both as one, if they write in the same order and width, and the second reads of the first's
    results only those at its own point."""
    targets = (*first.targets, *second.targets)
    orders = {(tuple(_order(t) or ()), t.dtype.numpy().itemsize) for t in targets}
    if len(orders) > 1:
        return None
    made = {t.tensor: (t, v) for t, v in zip(first.targets, first.initial, strict=True)}
    for a in accesses(*second.initial):
        if a.tensor in made and not same_place(a, made[a.tensor][0]):
            return None

    def node(expr: Expr) -> Expr:
        if isinstance(expr, Access) and expr.tensor in made:
            return made[expr.tensor][1]
        return expr

    initial = tuple(rebuild(e, node) for e in second.initial)
    return _of(first, targets, (*first.initial, *initial))


def _without(kernel: Reduce, unread: set[Tensor]) -> Reduce:
    """The map without targets that nothing reads."""
    left = [n for n, t in enumerate(kernel.targets) if t.tensor not in unread]
    if len(left) in (0, len(kernel.targets)):
        return kernel
    return _of(kernel, [kernel.targets[n] for n in left], [kernel.initial[n] for n in left])


def _of(kernel: Reduce, targets: Sequence[Access], values: Sequence[Expr]) -> Reduce:
    """The map with other targets and values."""
    accumulators = tuple(Local(f"acc{k}", e) for k, e in enumerate(values))
    return replace(
        kernel,
        targets=tuple(targets),
        initial=tuple(values),
        accumulators=accumulators,
        results=accumulators,
    )
