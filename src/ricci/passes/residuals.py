"""What products are added to and normalised, kept in float32 between kernels.

Requires: kernels, before what they make of narrow numbers is held in float32. Ensures: what one
hands to others that reduce it, or what reductions give, in numbers of 16 bits, is float32 where the
sums that make and read it are so much work that its bytes do not count; what products multiply is
narrow as before, and if others read it, too, it is made a second time, in float32, for them. Does
not: touch what loops and branches read or write, what products make and multiply again or begin
with, inputs and results.

Example: in a layer of a transformer the sum of what comes in and what attention gives, and its
normalisation, which the next sum begins with, are not rounded; products multiply what is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import field

from ..dtypes import NARROW, DType
from ..ir import shapes
from ..ir.loops import (
    Action,
    Group,
    Kernel,
    Point,
    Reduce,
    all_actions,
    tensors_touched,
    tensors_written,
)
from ..ir.nodes import Cast, Expr, Local, Tensor
from ..ir.rewrite import accesses
from ..records import dataclass, replace
from .epilogues import is_map
from .siblings import has_reuse
from .wide import retyped

_LEAST = 160
"""Products for a byte more that is written or read."""
_OTHERS = 4
"""Products that take as long as a term of another reduction, which is read from memory."""


@dataclass(slots=True)
class _Use:
    """What kernels do with a tensor."""

    makers: list[Reduce] = field(default_factory=list)
    factors: list[Reduce] = field(default_factory=list)
    """The products that it is multiplied in."""
    others: list[Reduce] = field(default_factory=list)
    readers: set[int] = field(default_factory=set)
    """The actions in which others are."""


def keep_residuals(actions: Sequence[Action], fixed: Container[Tensor]) -> list[Action]:
    """The actions, where nothing of `fixed` is changed."""
    uses, left_out = _uses(actions)
    wide: dict[Tensor, Tensor] = {}
    twins: dict[Tensor, Tensor] = {}
    for tensor, use in uses.items():
        if tensor in fixed or tensor in left_out or not _is_worthwhile(tensor, use):
            continue
        chosen = twins if use.factors else wide
        chosen[tensor] = replace(tensor, dtype=DType.FLOAT32)
    return [_changed(a, wide, twins) for a in actions] if wide or twins else [*actions]


def _uses(actions: Sequence[Action]) -> tuple[dict[Tensor, _Use], set[Tensor]]:
    """What is done with narrow tensors, and what is done with some that is none of it."""
    uses: dict[Tensor, _Use] = {}
    left_out: set[Tensor] = set()
    for place, action in enumerate(actions):
        if not isinstance(action, Reduce | Group):
            for part in all_actions((action,)):
                if isinstance(part, Kernel):
                    left_out.update(tensors_touched(part))
                elif isinstance(part, Point):
                    left_out.update((part.item, *part.pack))
            continue
        local = action.local if isinstance(action, Group) else ()
        for kernel in _kernels(action):
            made, factors = tensors_written(kernel), _multiplied(kernel)
            for tensor in tensors_touched(kernel):
                if tensor.dtype not in NARROW or tensor in local:
                    continue
                use = uses.setdefault(tensor, _Use())
                if tensor in made:
                    use.makers.append(kernel)
                elif tensor in factors:
                    use.factors.append(kernel)
                else:
                    use.others.append(kernel)
                    use.readers.add(place)
    return uses, left_out


def _kernels(action: Reduce | Group) -> tuple[Reduce, ...]:
    return action.kernels if isinstance(action, Group) else (action,)


def _is_product(kernel: Reduce) -> bool:
    return kernel.op == "add" and has_reuse(kernel)


def _multiplied(kernel: Reduce) -> set[Tensor]:
    """The tensors that a sum of products multiplies."""
    return {a.tensor for a in accesses(*kernel.values)} if _is_product(kernel) else set()


def _is_worthwhile(tensor: Tensor, use: _Use) -> bool:
    """Whether a tensor is one of these, and sums are most of the work all the same."""
    if len(use.makers) != 1 or not use.others:
        return False
    maker = use.makers[0]
    if maker.op == "update" or (use.factors and not is_map(maker)):
        return False
    sums = [k for k in use.others if k.reduced and not _is_product(k)]
    if not (use.factors or sums or (maker.reduced and not _is_product(maker))):
        return False  # a term of another sum, which is rounded with it
    work = sum(map(_work, (maker, *use.factors, *sums)))
    more = (4 if use.factors else 2) + 2 * len(use.readers)
    return work >= _LEAST * more * _count(tensor.shape)


def _work(kernel: Reduce) -> float:
    """How many products a kernel adds up, or what other reductions take the time of."""
    terms = _count([i.extent for i in (*kernel.domain, *kernel.reduced)])
    return terms if _is_product(kernel) else _OTHERS * terms if kernel.reduced else 0.0


def _count(extents: Collection[Expr]) -> float:
    """A product of extents, those left out that are not known."""
    return math.prod(float(shapes.as_int(e) or 1) for e in extents)


def _changed(
    action: Action, wide: Mapping[Tensor, Tensor], twins: Mapping[Tensor, Tensor]
) -> Action:
    match action:
        case Group(kernels=kernels):
            new = tuple(_kernel(k, wide, twins) for k in kernels)
            same = all(a is b for a, b in zip(new, kernels, strict=True))
            return action if same else replace(action, kernels=new)
        case Reduce():
            return _kernel(action, wide, twins)
    return action


def _kernel(
    kernel: Reduce, wide: Mapping[Tensor, Tensor], twins: Mapping[Tensor, Tensor]
) -> Reduce:
    """A kernel that reads and makes such tensors."""
    kept = {*_multiplied(kernel), *tensors_written(kernel)}
    read = {t: w for t, w in twins.items() if t not in kept}
    found = retyped(kernel, {**wide, **read})
    for target, value in zip(kernel.targets, found.initial, strict=True):
        if (twin := twins.get(target.tensor)) is not None:
            made = Local(f"acc{len(found.targets)}", value)
            found = replace(
                found,
                targets=(*found.targets, replace(target, tensor=twin)),
                initial=(*found.initial, value),
                accumulators=(*found.accumulators, made),
                results=(*found.results, Cast(DType.FLOAT32, made)),
            )
    return found
