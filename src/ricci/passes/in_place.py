"""New values in the bytes of old ones.

Requires: actions whose kernels are final, and a tensor that is not needed once another has been
made. Ensures: that other tensor has its bytes, where nothing reads the old value after the first
element of the new one is written; what copied the old value to begin the new one with is gone.
Does not: move kernels.

That is asked for new values of variables and of what loops carry, and tried for sums to which
a tensor is added that nobody reads later, since that takes less memory.

Example: a loop that replaces a row of its state, `next = state; next[i] := row`, writes the row
into the state, and nothing else.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from ..ir import shapes
from ..ir.loops import (
    Action,
    Choose,
    Kernel,
    Point,
    Reduce,
    Repeat,
    Stop,
    all_actions,
    expressions_of,
    tensors_written,
)
from ..ir.nodes import Access, Expr, Tensor
from ..ir.rewrite import accesses
from ..records import dataclass
from .fuse import map_expressions
from .views import Views, copied, count_of, offset_of, root_of


@dataclass(frozen=True, slots=True)
class Uses:
    """The tensors with bytes that an action reads, writes, and lets pointers point to."""

    read: frozenset[Tensor]
    written: frozenset[Tensor]
    pointed: frozenset[Tensor]


def uses_of(action: Action, views: Mapping[Tensor, Tensor]) -> Uses:
    """Of an action and all that is in it."""
    read: list[Tensor] = []
    written: list[Tensor] = []
    pointed: list[Tensor] = []
    for part in all_actions((action,)):
        match part:
            case Point():
                pointed += part.pack
                read.append(part.index)
            case Choose() | Repeat():
                read.append(part.test)
            case Stop():
                pass
            case _:
                read += tensors_read(part)
                written += tensors_written(part)
    return Uses(_roots(read, views), _roots(written, views), _roots(pointed, views))


def tensors_read(kernel: Kernel) -> list[Tensor]:
    """The tensors whose elements a kernel reads; those that it writes in order are among them."""
    return [a.tensor for a in accesses(*expressions_of(kernel))]


def _roots(tensors: Iterable[Tensor], views: Mapping[Tensor, Tensor]) -> frozenset[Tensor]:
    return frozenset(root_of(t, views) for t in tensors)


def keep_place(
    actions: Sequence[Action], old: Tensor, new: Tensor, views: Views
) -> list[Action] | None:
    """The actions with the bytes of `old` for `new`, and `views` says so; none if something needs
    both. Nothing but the actions reads `old`."""
    old, made = root_of(old, views), root_of(new, views)
    if old is made or old.dtype is not made.dtype:
        return None
    if not (_same_count(new, made) and _same_count(old, made)):
        return None
    left = list(actions)
    uses = [uses_of(a, views) for a in left]
    if any(old in u.written or not u.pointed.isdisjoint((old, made)) for u in uses):
        return None
    first = _first(made, uses)
    if first is None:
        return None
    if _copies(left[first], old, made, views):
        del left[first], uses[first]
        first = _first(made, uses)
    last = max((n for n, u in enumerate(uses) if old in u.read), default=-1)
    if first is not None and last >= first:
        kernel = _elementwise(left[first], old, made, views) if last == first else None
        if kernel is None:
            return None
        left[first] = kernel
    views[made] = old
    return left


def _first(tensor: Tensor, uses: Sequence[Uses]) -> int | None:
    """The first action that writes a tensor."""
    return next((n for n, u in enumerate(uses) if tensor in u.written), None)


def _same_count(a: Tensor, b: Tensor) -> bool:
    return shapes.equal(count_of(a), count_of(b))


def _copies(action: Action, old: Tensor, new: Tensor, views: Views) -> bool:
    """Whether an action does nothing but copy all of one tensor to another."""
    source = copied(action)
    if source is None or root_of(source, views) is not old or not _same_count(source, old):
        return False
    (target,) = uses_of(action, views).written
    return target is new


def _elementwise(action: Action, old: Tensor, new: Tensor, views: Views) -> Reduce | None:
    """A map that reads of `old` only the element that it writes of `new`: in the end it reads that
    of `new`."""
    if not isinstance(action, Reduce) or action.reduced or action.values:
        return None
    return _at_its_place(action, old, new, views)


def _at_its_place(kernel: Reduce, old: Tensor, new: Tensor, views: Views) -> Reduce | None:
    """The kernel with `new` for `old`, if it reads of that only the element that it writes."""
    targets = [t for t in kernel.targets if root_of(t.tensor, views) is new]
    if len(targets) != 1 or not _same_count(targets[0].tensor, new):
        return None
    target, place = targets[0], offset_of(targets[0])
    for access in accesses(*expressions_of(kernel)):
        if root_of(access.tensor, views) is not old:
            continue
        plain = all(s.rule is None for s in access.subscripts)
        if not plain or not _same_count(access.tensor, old):
            return None
        if not shapes.equal(offset_of(access), place):
            return None

    def node(expr: Expr) -> Expr:
        is_old = isinstance(expr, Access) and root_of(expr.tensor, views) is old
        return target if is_old else expr

    return map_expressions(kernel, node)


def sums_in_place(
    actions: Sequence[Action], fixed: Container[Tensor], views: Views
) -> list[Action]:
    """The actions with sums in the bytes of what is added to them, where nothing reads that later,
    and `views` says so. Tensors in `fixed` keep their own bytes.

    Maps are left alone: where they write what they read, vectors need masks at the ends of rows.
    """
    uses = [uses_of(a, views) for a in actions]
    touched = [u.read | u.written | u.pointed for u in uses]
    last = {t: n for n, tensors in enumerate(touched) for t in tensors}
    first = {t: n for n, tensors in reversed(list(enumerate(touched))) for t in tensors}
    pointed = {t for u in uses for t in u.pointed}
    out: list[Action] = []
    for number, action in enumerate(actions):
        if isinstance(action, Reduce) and action.reduced:
            made = root_of(action.targets[0].tensor, views)
            free = made not in fixed and made not in pointed and first[made] == number
            for old in _added(action, views) if free else ():
                if old in fixed or old in pointed or last[old] > number:
                    continue
                kernel = _joined(action, old, made, views)
                if kernel is not None:
                    action, views[made], last[old] = kernel, old, last[made]
                    break
        out.append(action)
    return out


def _added(kernel: Reduce, views: Views) -> list[Tensor]:
    """The tensors that a kernel reads once the terms are added up, or before, but not for them."""
    terms = {root_of(a.tensor, views) for a in accesses(*kernel.values, *kernel.locals)}
    read = [root_of(a.tensor, views) for a in accesses(*kernel.initial, *kernel.results)]
    return [t for t in dict.fromkeys(read) if t not in terms]


def _joined(kernel: Reduce, old: Tensor, new: Tensor, views: Views) -> Reduce | None:
    """The kernel with the bytes of `old` for `new`, if these are of one shape."""
    if old.dtype is not new.dtype or len(old.shape) != len(new.shape):
        return None
    if not all(map(shapes.equal, old.shape, new.shape)):
        return None
    return _at_its_place(kernel, old, new, views)
