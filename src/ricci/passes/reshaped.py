"""Maps over a tensor under one shape that read a map's result under another: `[8, 512, 64]` as
`[8, 4, 8192]`.

Requires: two map kernels, of which the second reads what the first writes, whose bytes it has under
a shape of its own. Ensures: the same maps over a tensor of the coarsest shape that is finer than
both, so that one can be computed where it is read. Does not: handle shapes of which there is none,
or whose extents are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..ir import shapes
from ..ir.loops import Reduce
from ..ir.nodes import Access, Expr, Index, Local, Subscript, Tensor, integer
from ..ir.rewrite import Replaceable, substitute
from ..records import replace
from .refine import refine


def with_common_shape(
    reader: Reduce, read: Tensor, maker: Reduce, made: Tensor
) -> tuple[Reduce, Reduce] | None:
    """Both kernels with a tensor of a finer shape for what one makes and the other reads."""
    old, new = _extents(made), _extents(read)
    fine = None if old is None or new is None else common_shape(old, new)
    if old is None or fine is None or len(maker.targets) != 1:
        return None
    tensor = replace(made, shape=tuple(map(integer, fine)))
    finer_maker = _finer(maker, tensor, old, fine)
    finer_reader = refine(reader, read, tensor)
    if finer_maker is None or finer_reader is None:
        return None
    return finer_reader, finer_maker


def _extents(tensor: Tensor) -> list[int] | None:
    found = [shapes.as_int(e) for e in tensor.shape]
    return None if any(n is None for n in found) else [n or 0 for n in found]


def common_shape(a: Sequence[int], b: Sequence[int]) -> list[int] | None:
    """The coarsest shape of which both are made by joining neighbours; None if there is none."""
    if 0 in a or 0 in b:
        return None
    steps = sorted({*_steps(a), *_steps(b)})
    if any(y % x for x, y in pairwise(steps)):
        return None
    return [y // x for x, y in pairwise(steps)][::-1]


def _steps(shape: Sequence[int]) -> list[int]:
    """The products of the last extents, of none, one, two, and so on."""
    out = [1]
    for n in reversed(shape):
        out.append(out[-1] * n)
    return out


def _finer(
    kernel: Reduce, tensor: Tensor, old: Sequence[int], fine: Sequence[int]
) -> Reduce | None:
    """A map that writes a tensor of a finer shape in full, in the order of its dimensions."""
    places = [s.index for s in kernel.targets[0].subscripts]
    indices = [Index(f"i{n}", integer(size)) for n, size in enumerate(fine)]
    rest, sizes = list(indices), list(fine)
    whole: dict[Replaceable, Expr | Tensor] = {}
    for place, extent in zip(places, old, strict=True):
        total: Expr = integer(0)
        count = 1
        while count < extent:
            total = shapes.add(shapes.mul(total, integer(sizes[0])), rest.pop(0))
            count *= sizes.pop(0)
        if (
            isinstance(place, Index)
            and place not in whole
            and shapes.as_int(place.extent) == extent
        ):
            whole[place] = total
        elif extent != 1:
            return None
    value = substitute(kernel.initial[0], whole)
    held = Local(kernel.accumulators[0].name, value)
    target = Access(tensor, tuple(map(Subscript, indices)))
    return replace(
        kernel, targets=(target,), domain=tuple(indices), initial=(value,), accumulators=(held,),
        results=(held,),
    )  # fmt: skip
