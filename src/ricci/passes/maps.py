"""Neighbouring maps over the same points, as one.

Requires: the kernels of a run, fused. Ensures: a map that reads, at each of its points, the element
that the map before it writes or reads there, is done together with that, if both write in the same
order: what they share is read once, and what the later one reads of the earlier is not read at all.
What then nothing reads is not written. Does not: join maps that may fail, what depends on constant
tensors alone with what does not, or a map with one that reads what its result may replace.

Example: the new state of a recurrent layer, `c[i] = ...`, and what it shows of that,
`h[i] = o[i] * tanh(c[i])`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence

from ..ir.loops import Kernel, Reduce, expressions_of, tensors_touched, tensors_written
from ..ir.nodes import ONE, Access, Expr, Index, Local, Tensor
from ..ir.rewrite import accesses, rebuild
from ..records import replace
from .epilogues import dimensions_of, is_map, is_too_large, made_of_both
from .groups import constant_kernels
from .kernels import may_fail
from .siblings import is_one_to_one, renamed, same_place, unified
from .views import Views, count_of, root_of

MOST_TARGETS = 4


def join_maps(
    kernels: Sequence[Kernel], views: Views, constant: Container[Tensor], results: Iterable[Tensor]
) -> list[Kernel]:
    """The kernels, in order, with such maps as one. Nothing but the kernels reads tensors that are
    not among the `results`."""
    kept = {*results, *views, *views.values()}
    readers = Counter(t for k in kernels for t in _read(k))
    fixed = constant_kernels(kernels, views, constant)
    out: list[Kernel] = []
    last: Kernel | None = None
    for kernel in kernels:
        before = out[-1] if out else None
        both = None
        if last is not None and (id(last) in fixed) == (id(kernel) in fixed):
            both = _joined(before, kernel, views)
        last = kernel
        if before is None or both is None:
            out.append(kernel)
            continue
        readers.subtract([*_read(before), *_read(kernel)])
        readers.update(_read(both))
        out[-1] = _without(both, {t for t in tensors_written(both) if not readers[t]} - kept)
    return out


def _read(kernel: Kernel) -> set[Tensor]:
    return {a.tensor for a in accesses(*expressions_of(kernel))}


def _joined(first: Kernel | None, second: Kernel, views: Views) -> Reduce | None:
    """Two maps as one, if they can be, and should."""
    if not (isinstance(first, Reduce) and isinstance(second, Reduce)):
        return None
    if not (_is_plain(first) and _is_plain(second) and _are_apart(first, second, views)):
        return None
    if _reads_elsewhere(first, second.targets):
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
    touched = {root_of(t, views) for t in tensors_touched(first)}
    if any(root_of(t, views) in touched for t in tensors_written(second)):
        return False
    made = {root_of(t, views) for t in tensors_written(first)}
    others = set(tensors_touched(second)).difference(tensors_written(first))
    return all(root_of(t, views) not in made for t in others)


def _reads_elsewhere(kernel: Reduce, targets: Iterable[Access]) -> bool:
    """Whether a map reads, in other places than its own, a tensor that one of these targets could
    replace, as new states do: with the same bytes, it has to be done before."""
    sizes = {(count_of(t.tensor), t.dtype) for t in targets}
    own = [s.index for s in kernel.targets[0].subscripts]
    return any(
        (count_of(a.tensor), a.dtype) in sizes and [s.index for s in a.subscripts] != own
        for a in accesses(*kernel.initial)
    )


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
