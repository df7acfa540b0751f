"""Constants of narrow numbers, kept in float32 until something wants them narrow.

Requires: kernels in their final form, what calls read of constants where it will be. Ensures:
variables, and what is derived from variables alone, are float32 where nothing reads them but what
derives other constants, or a call reads so few of them that it takes no longer: what is derived of
several is rounded once, and terms, factors and normalisations not at all. Does not: touch factors
of sums of products, nor large constants of which each element is read once.

Example: a layer of bfloat16 with the normalisation of a batch in it has weights that are the
nearest to what float32 gives, and terms of float32.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..dtypes import NARROW, DType
from ..ir import shapes
from ..ir.loops import (
    Action,
    Choose,
    Fill,
    Group,
    Kernel,
    Point,
    Reduce,
    Repeat,
    Scatter,
    all_actions,
    expressions_of,
    tensors_touched,
)
from ..ir.nodes import Tensor
from ..ir.rewrite import accesses
from ..records import dataclass, replace
from .wide import hold, hold_in_float32, retyped

_FEW = 1 << 14
"""Elements that a call may read in any case."""
_AGAIN = 8
"""How often a call must read the elements of more."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The kernels that prepare constants, the actions of a call, and which tensors are others."""

    early: list[Kernel]
    late: list[Action]
    now: Mapping[Tensor, Tensor] = field(default_factory=dict)

    def all(self, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """What tensors are now."""
        return tuple(self.now.get(t, t) for t in tensors)


def keep_exact(
    early: Sequence[Kernel],
    late: Sequence[Action],
    constants: Iterable[Tensor],
    placed: Container[Tensor],
) -> Exact:
    """Kernels with what of `constants` can be exact; `placed` are those that cannot, as others have
    their bytes or as they are not row-major."""
    wanted = {t for t in constants if t.dtype in NARROW and t not in placed}
    if not wanted:
        return Exact(list(early), list(late))
    early = [k for k in hold_in_float32(early) if isinstance(k, Kernel)]
    wanted -= {t for a in early for t in _narrow_of(a, is_call=False)}
    wanted -= {t for a in all_actions(tuple(late)) for t in _narrow_of(a, is_call=True)}
    now = {t: replace(t, dtype=DType.FLOAT32) for t in wanted}
    return Exact(
        [_exact(k, now) for k in early],
        [_changed(a, now) for a in late],
        now,
    )


def _narrow_of(action: Action, is_call: bool) -> Iterator[Tensor]:
    """The tensors that an action wants as they are."""
    match action:
        case Reduce():
            if is_call:
                yield from _wanted(action)
        case Group(kernels=kernels):
            for kernel in kernels:
                yield from _narrow_of(kernel, is_call)
        case Scatter() | Fill():
            yield from tensors_touched(action)
        case Point():
            yield from (action.item, *action.pack)


def _wanted(kernel: Reduce) -> Iterator[Tensor]:
    """What is multiplied, or is much beside all that a kernel does."""
    if kernel.reduced:
        yield from (a.tensor for a in accesses(*kernel.values))
    points = [shapes.as_int(i.extent) for i in (*kernel.domain, *kernel.reduced)]
    work = math.prod(math.inf if n is None else n for n in points)
    for tensor in {a.tensor for a in accesses(*expressions_of(kernel))}:
        sizes = [shapes.as_int(e) for e in tensor.shape]
        elements = math.prod(math.inf if n is None else n for n in sizes)
        if elements > _FEW and not elements * _AGAIN <= work:
            yield tensor


def _changed(action: Action, now: Mapping[Tensor, Tensor]) -> Action:
    def changed(actions: Sequence[Action]) -> tuple[Action, ...]:
        return tuple(_changed(a, now) for a in actions)

    match action:
        case Repeat():
            return replace(action, before=changed(action.before), body=changed(action.body))
        case Choose():
            return replace(action, then=changed(action.then), otherwise=changed(action.otherwise))
        case Reduce() | Group():
            return _exact(action, now)
    return action


def _exact(kernel: Kernel, now: Mapping[Tensor, Tensor]) -> Kernel:
    """A kernel that reads and writes such constants, and rounds what else it stores."""
    if isinstance(kernel, Group):
        inner = [_exact(k, now) for k in kernel.kernels]
        same = all(a is b for a, b in zip(inner, kernel.kernels, strict=True))
        kernels = tuple(k for k in inner if isinstance(k, Reduce))
        return kernel if same else replace(kernel, kernels=kernels)
    if not isinstance(kernel, Reduce) or now.keys().isdisjoint(tensors_touched(kernel)):
        return kernel
    return hold(retyped(kernel, now))
