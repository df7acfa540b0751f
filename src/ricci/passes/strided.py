"""Sums of products over every n-th element of a map: over a copy of these elements.

Requires: kernels in their final form, and the strides of tensors that are not row-major. Ensures:
where neighbouring terms or results of a sum of products read elements of a map that lie apart, and
the code generator is done sooner, all in all, if they lie side by side, a kernel copies them first:
blocks of results would pick them out of the same lines of the cache again and again. Does not:
touch windows, constants, or sizes that are not known.

Example: a convolution of 1 by 1 at stride 2 over 28 by 28 elements is one over a copy of 14 by 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from ..ir import shapes
from ..ir.loops import Action, Reduce
from ..ir.nodes import Access, Index, Subscript, Tensor
from ..ir.rewrite import accesses, rebuild
from ..records import replace
from .map_windows import copy_of
from .margins import is_sum
from .partial import points_of
from .places import row_major
from .rows import extent

Strides = Mapping[Tensor, tuple[int, ...]]
Takes = Callable[[Reduce, Strides, Collection[Tensor]], float]
"""Cycles until all cores have done a kernel, as estimated; some tensors are constant."""

_START, _ELEMENT = 10000.0, 1.0
"""Cycles to begin and end a kernel, and to copy an element, by all cores together."""
_WORTH = 0.95
"""How much of what a kernel takes the copy and the kernel over it may take."""


def copy_strided(
    actions: Sequence[Action], strides: Strides, constant: Collection[Tensor], takes: Takes | None
) -> list[Action]:
    """The actions, with copies for such sums."""
    out: list[Action] = []
    for action in actions:
        found = None
        if takes is not None and isinstance(action, Reduce) and is_sum(action):
            found = _over_copy(action, strides, constant, takes)
        out += found or [action]
    return out


def _over_copy(
    kernel: Reduce, strides: Strides, constant: Collection[Tensor], takes: Takes
) -> list[Action] | None:
    """The copy, or one of each operand, and the sums over it, if that is done sooner."""
    read = [a for a in accesses(*kernel.values) if a.tensor not in constant]
    access = next((a for a in read if _is_strided(a, strides)), None)
    if access is None:
        return None
    most = takes(kernel, strides, constant)
    if most == math.inf:
        return None
    copy, sums = _with_copy(kernel, access, strides)
    done = _START + _ELEMENT * points_of(copy.domain) + takes(sums, strides, constant)
    if done >= _WORTH * most:
        return None
    return [copy, *(_over_copy(sums, strides, constant, takes) or [sums])]


def _is_strided(access: Access, strides: Strides) -> bool:
    """Whether what is read are the elements of a box of a map, some of which lie in the same lines
    of the cache, and none side by side."""
    sizes = [shapes.as_int(e) or 0 for e in access.tensor.shape]
    found: list[Index] = []
    apart = 0
    for subscript, size, step in zip(
        access.subscripts, sizes, _steps(access, strides), strict=True
    ):
        factors, first = shapes.affine(subscript.index) or ({}, -1)
        last = first + sum(f * (extent(i) - 1) for i, f in factors.items() if isinstance(i, Index))
        if len(factors) > 1 or not 0 <= first <= last < size:
            return False
        for index, factor in factors.items():
            if not isinstance(index, Index) or index in found or factor < 1:
                return False
            found.append(index)
            apart = factor if step == 1 and extent(index) > 1 else apart
    return apart > 1


def _steps(access: Access, strides: Strides) -> tuple[int, ...]:
    sizes = [shapes.as_int(e) or 0 for e in access.tensor.shape]
    return strides.get(access.tensor) or row_major(sizes)


def _with_copy(kernel: Reduce, access: Access, strides: Strides) -> tuple[Reduce, Reduce]:
    """The kernel that copies what is read, in the order in which it lies, and the sums over it."""
    steps = _steps(access, strides)
    order = sorted(range(len(steps)), key=lambda d: -steps[d])
    along = [i for d in order if (i := _index(access.subscripts[d])) is not None]
    copy, dense = copy_of(access, along, kernel)
    values = tuple(rebuild(v, lambda x: dense if x == access else x) for v in kernel.values)
    return copy, replace(kernel, values=values)


def _index(subscript: Subscript) -> Index | None:
    """The index that a subscript goes along, if any."""
    factors, _ = shapes.affine(subscript.index) or ({}, 0)
    return next((i for i in factors if isinstance(i, Index)), None)
