"""The boxes of operands that tiles read: where they are, or as copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir import shapes
from ...ir.nodes import ZERO, Access, Expr, Index, Tensor, integer
from ...ir.rewrite import Replaceable, free_indices, substitute
from ...records import dataclass, replace
from .builder import Builder
from .contraction_form import Form, Operand, size
from .contraction_space import Places, coefficients, flat_form, merge, plus, times
from .emit_access import extent_of
from .emit_types import width
from .kernels import Strides
from .packing import Depth, Packing, contiguous_depth, is_plain
from .sizes import likely


@dataclass(frozen=True, slots=True)
class Staged:
    """An operand as tiles read it: how far apart elements are along each index.

    If there is a `packing`, the box is copied first, with `pitch` elements in a row; else the
    operand is read where it is.
    """

    access: Access
    steps: dict[Index, int]
    start: int
    packing: Packing | None
    pitch: int
    elements: int

    def step(self, index: Index) -> int:
        return self.steps.get(index, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """An index in blocks of a length, `number` being that of the block."""

    index: Index
    number: Index
    length: int


def equal_blocks(index: Index, pieces: int) -> Cut:
    """An index in equal blocks."""
    number = Index(f"{index.name}.block", integer(pieces))
    return Cut(index, number, extent_of(index) // pieces)


def cuts(index: Index) -> Iterator[Cut]:
    """Ways to cut an index into equal blocks, the longest first."""
    extent = extent_of(index)
    for pieces in range(1, min(extent, 64) + 1):
        if extent % pieces == 0:
            yield equal_blocks(index, pieces)


def access_of(operand: Operand) -> Access:
    """The access that an operand is known to be."""
    assert operand.access is not None
    return operand.access


def flat_number(b: Builder, places: Places, indices: Sequence[Index]) -> str:
    """The number of a point in a space of indices."""
    number = "0"
    for index in indices:
        if extent_of(index) > 1:
            number = plus(b, times(b, number, extent_of(index)), places[index].base or "0")
    return number


def bytes_of(form: Form, *staged: Staged) -> int:
    """The size of copies."""
    return sum(s.elements for s in staged) * width(form.dtype)


def staged(
    form: Form,
    operand: Operand,
    lane: Index | None,
    lanes: int,
    fixed: Sequence[Index],
    blocks: Sequence[Cut],
    strides: Strides,
) -> Staged:
    """How an operand is read; what is along vectors, or has guards, is copied."""
    access = access_of(operand)
    outside = {*form.batch, *fixed}
    box = [_side(factors, outside, blocks) for factors in coefficients(access)]
    steps = flat_form(access, strides).steps
    if lane is None and is_plain(access) and _is_dense(steps, box, blocks):
        return Staged(access, steps, 0, None, 0, 0)
    order = _memory_order(access, box, strides)
    along = order[-1] if lane is None else _dimension(box, lane)
    pitch = box[along][1]
    if lane is not None and len(box[along][0]) == 1:
        pitch = -(-pitch // lanes) * lanes
    own = Index("x", integer(box[along][1]))
    others = {d: Index(f"x{d}", integer(box[d][1])) for d in order if box[d][0] and d != along}
    moved = _moved(access, box, {**others, along: own}, blocks)
    apart, far = {along: 1}, pitch
    for d in reversed(others):
        apart[d], far = far, far * box[d][1]
    steps = {}
    for d, (factors, _, _) in enumerate(box):
        for index, factor in factors.items():
            steps[index] = steps.get(index, 0) + factor * apart[d]
    start = -sum(apart[d] * box[d][2] for d in apart if box[d][0])
    run: tuple[Index, ...] = (own,)
    if lane is None:  # several dimensions that lie contiguous are copied as one
        groups = merge([*others.values(), own], [moved], strides).groups
        run = groups[-1] if groups else run
        pitch = size(run)
    rest = tuple(i for i in (*others.values(), own) if i not in run)
    packing = _packing(moved, run, rest, lane is not None, lanes, strides)
    return Staged(moved, steps, start, packing, pitch, far + 64)


_Side = tuple[dict[Index, int], int, int]
"""Of a dimension of a box: the factors of indices, how long it is, and where it begins."""


def _side(factors: dict[Index, int], outside: set[Index], blocks: Sequence[Cut]) -> _Side:
    factors = {i: f for i, f in factors.items() if i not in outside}
    ends = [f * (length_of(i, blocks) - 1) for i, f in factors.items()]
    low = sum(min(e, 0) for e in ends)
    return factors, sum(map(abs, ends)) + 1, low


def length_of(index: Index, blocks: Sequence[Cut]) -> int:
    """How many values of an index a block has, of a loop that may be cut."""
    return next((b.length for b in blocks if b.index is index), extent_of(index))


def _is_dense(steps: dict[Index, int], box: Sequence[_Side], blocks: Sequence[Cut]) -> bool:
    """Whether a box takes up not much more room in its tensor than it has elements."""
    extents = {i: length_of(i, blocks) for b in box for i in b[0]}
    spanned = 1 + sum(abs(steps.get(i, 0)) * (n - 1) for i, n in extents.items())
    return spanned <= 2 * math.prod(b[1] for b in box)


def _dimension(box: Sequence[_Side], lane: Index) -> int:
    """The dimension along which a copy is contiguous."""
    return next(d for d, side in enumerate(box) if lane in side[0])


def _memory_order(access: Access, box: Sequence[_Side], strides: Strides) -> list[int]:
    """The dimensions of a box as they lie in memory, the contiguous one last."""
    steps = strides.get(access.tensor)
    dimensions = [d for d in range(len(box)) if box[d][0]] or [len(box) - 1]
    if steps is None:
        return dimensions
    return sorted(dimensions, key=lambda d: (-likely(steps[d]), d))


def _moved(
    access: Access, box: Sequence[_Side], fresh: dict[int, Index], blocks: Sequence[Cut]
) -> Access:
    """The access over the places of the box of a block."""
    subscripts = []
    for d, s in enumerate(access.subscripts):
        if d in fresh:
            known: dict[Replaceable, Expr | Tensor] = dict.fromkeys(box[d][0], ZERO)
            for block in blocks:
                if block.index in known:
                    known[block.index] = shapes.mul(block.number, integer(block.length))
            base = shapes.add(substitute(s.index, known), integer(box[d][2]))
            s = replace(s, index=shapes.simplify(shapes.add(base, fresh[d])))
        subscripts.append(s)
    return replace(access, subscripts=tuple(subscripts))


def _packing(
    access: Access,
    own: tuple[Index, ...],
    others: tuple[Index, ...],
    is_vector: bool,
    lanes: int,
    strides: Strides,
) -> Packing:
    others = others or (Index("x0", integer(1)),)
    operand = Operand(access, own)
    depth = Depth(others, 0, extent_of(others[0]))
    outer = tuple(i for i in free_indices(access) if i not in own and i not in others)
    if contiguous_depth(operand, depth, lanes, strides) is None:
        lanes = min(lanes, 1 << (size(own) - 1).bit_length())
    name = f"kernel.pack.{'columns' if is_vector else 'rows'}"
    whole = size(own) % lanes == 0
    return Packing(name, operand, outer, depth, access.dtype, lanes, whole)
