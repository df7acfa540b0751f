"""Windows that reach beyond the ends of what they are over: over a copy that has a border.

Requires: kernels in their final form, and the strides of tensors that are not row-major. Ensures: a
sum of products over large windows, each over one map of its own, of which many reach beyond an end,
is done together with a copy of that map, zero outside: map by map, so that the copy stays in the
cache. Does not: touch sums in which an element has a part for several indices besides (they have
code of their own), maps whose rows are not contiguous, those that are done side by side
(`side_by_side`), or sizes that are not known.

Example: 7 by 7 neighbours in each of 384 channels of 14 by 14 elements: of 14 rows in a channel
eight are complete.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from functools import reduce

from ..ir import shapes
from ..ir.loops import Action, Group, Reduce
from ..ir.nodes import ZERO, Access, Binary, Const, Expr, Index, Select, Subscript, Tensor, integer
from ..ir.rewrite import rebuild
from ..records import replace
from .map_windows import Line, Windows, map_to, windows_of
from .partial import points_of
from .rows import extent
from .side_by_side import may_be_side_by_side

_LEAST_MAPS = 16
"""Fewer are not worth two kernels that are called for each."""
_MOST_BYTES = 128 << 10
"""Of a map with its border: a core's own cache has room for it, and for results."""
_LEAST_TERMS = 16
"""Of windows: those of 3 by 3 take hardly longer than the copy."""
_LEAST_PART = 0.1
"""The part of the results whose windows reach beyond an end."""


def copy_borders(
    actions: Sequence[Action], strides: Container[Tensor], constant: Container[Tensor]
) -> list[Action]:
    """The actions, with kernels over such windows as groups with a copy. Tensors that have
    `strides` are not row-major; what kernels read of `constant` ones is not copied in each call."""
    out: list[Action] = []
    for action in actions:
        found = list(windows_of(action)) if isinstance(action, Reduce) else []
        best = next((x for x in found if _is_worthwhile(x)), None)
        if best is None or best.tensor in constant or any(t in strides for t in best.tensors()):
            out.append(action)
        else:
            out.append(_with_copy(best))
    return out


def _is_worthwhile(found: Windows) -> bool:
    terms = points_of(found.kernel.reduced)
    if found.kernel.op != "add":
        return False
    if points_of(found.maps) < _LEAST_MAPS or terms < _LEAST_TERMS or may_be_side_by_side(found):
        return False
    size = math.prod(x.length for x in found.lines) * found.tensor.dtype.numpy().itemsize
    inside = math.prod(x.inside / extent(x.own) for x in found.lines)
    return size <= _MOST_BYTES and inside <= 1.0 - _LEAST_PART


def _with_copy(found: Windows) -> Group:
    """The kernel that copies a map, and that of the sums, map by map."""
    kernel, tensor = found.kernel, found.tensor
    rows = tuple(Index(f"i_{n}", integer(x.length)) for n, x in enumerate(found.lines))
    places = [shapes.add(i, integer(x.first)) for i, x in zip(rows, found.lines, strict=True)]
    domain, own = (*found.maps, *rows), tuple(x.own for x in found.lines)
    copied = Tensor(f"{tensor.name}'", tensor.dtype, tuple(i.extent for i in domain))
    kept = found.access.subscripts[: -len(found.lines)]
    element: Expr = replace(found.access, subscripts=(*kept, *map(Subscript, places)))
    tests = [t for p, x in zip(places, found.lines, strict=True) for t in _tests(p, x)]
    inside = reduce(lambda a, b: Binary("and", a, b), tests)
    element = Select(inside, element, Const(0, tensor.dtype))
    moved = [shapes.sub(x.subscript.index, integer(x.first)) for x in found.lines]
    read = Access(copied, tuple(map(Subscript, (*found.maps, *moved))), found.access.span)
    values = tuple(rebuild(v, lambda x: read if x == found.access else x) for v in kernel.values)
    sums = replace(kernel, domain=(*found.maps, *own), values=values)
    copy = map_to(Access(copied, tuple(map(Subscript, domain))), domain, element, kernel)
    return Group(kernel.name, found.maps, (copy, sums), (copied,), span=kernel.span)


def _tests(place: Expr, line: Line) -> Iterator[Expr]:
    """What holds where a line is inside."""
    if line.first < 0:
        yield Binary("ge", place, ZERO)
    if line.last >= line.size:
        yield Binary("lt", place, integer(line.size))
