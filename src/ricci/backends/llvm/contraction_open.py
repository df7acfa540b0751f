"""Sums of products with open sizes: the code for known sizes, in a loop that moves the tensors.

Requires: a kernel whose symbols are extents of its domain alone, and each of these *outer* indices
subscripts dimensions alone. For a *block* of values of each, the kernel is one of known sizes,
with strides that may not be known; it is done for all blocks, with pointers that have moved on.
Blocks have several values for indices that one operand of the product has (the rows of a matrix
product). What is no whole block is done by smaller ones, or by one that begins early enough to end
with the last value: what two blocks have is computed twice, maybe by two threads at a time, so
that results are stored once they are complete.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...ir.loops import Reduce, expressions_of
from ...ir.nodes import Access, Const, Expr, Index, Tensor, integer
from ...ir.rewrite import (
    Replaceable,
    accesses,
    free_indices,
    free_symbols,
)
from ...passes.fuse import substitute_kernel
from ...records import dataclass, replace
from . import contraction, nest
from .contraction_form import find_form
from .contraction_open_write import Outer, Variant, write_open
from .contraction_tiles import best_tile
from .kernels import KernelCode, Strides
from .nest_uses import value_indices
from .schedule import Contraction, Schedule
from .sizes import Size, lower, row_major, size_of, sizes_of, times, upper
from .target import Target

_TILES = 4
"""Register tiles of rows in the largest block."""
_FEW = (4, 2, 1)
"""Rows of small blocks: each reads the whole other operand."""
_MANY = 48
"""So many rows need not be more."""
_BOTH = ((64, 16, 1), (64, 16, 1))
"""Rows, and columns, of blocks where both are open."""

Pattern = tuple[Index | None, ...]
"""For each dimension of a tensor the outer index that alone subscripts it."""


def match(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor]
) -> KernelCode | None:
    """The code of a kernel that is such a sum of products, else None."""
    if strides or free_symbols(*expressions_of(kernel)):
        return None
    patterns = _patterns(kernel)
    if patterns is None:
        return None
    peeled = _Peeled(kernel, patterns, target, constant)
    outer = peeled.in_blocks()
    variants = None if outer is None else peeled.variants(outer)
    if outer is None or variants is None:
        return None
    return write_open(outer, variants, peeled.repeatable)


def _patterns(kernel: Reduce) -> dict[Tensor, Pattern] | None:
    """How the outer indices subscript each tensor, if a kernel of known sizes is left inside."""
    outer = {i for i in kernel.domain if not isinstance(i.extent, Const)}
    if not outer or not all(isinstance(i.extent, Const) for i in kernel.reduced):
        return None
    if outer & value_indices([*expressions_of(kernel), *kernel.locals]):
        return None
    patterns: dict[Tensor, Pattern] = {}
    for access in (*kernel.targets, *accesses(*expressions_of(kernel))):
        pattern = _pattern(access, outer)
        if pattern is None or patterns.setdefault(access.tensor, pattern) != pattern:
            return None
    return patterns


def _pattern(access: Access, outer: set[Index]) -> Pattern | None:
    """The outer index at each dimension, if the others do not depend on one, or on a symbol."""
    pattern: list[Index | None] = []
    for s, extent in zip(access.subscripts, access.tensor.shape, strict=True):
        if isinstance(s.index, Index) and s.index in outer and s.rule is None:
            pattern.append(s.index)
        elif isinstance(extent, Const) and not outer & set(free_indices(s.index)):
            pattern.append(None)
        else:
            return None
    return tuple(pattern)


class _Peeled:
    """A kernel taken apart: the outer indices, and kernels of known sizes inside."""

    def __init__(
        self,
        kernel: Reduce,
        patterns: Mapping[Tensor, Pattern],
        target: Target,
        constant: frozenset[Tensor],
    ) -> None:
        self.kernel, self.patterns = kernel, patterns
        # a row's sums are the same whatever block it is in, which holds for numbers in parts only
        # if no other row of the block has an infinity
        self.target, self.constant = replace(target, in_parts=False), constant
        self.indices = [i for i in kernel.domain if not isinstance(i.extent, Const)]
        read = accesses(*kernel.initial, *kernel.values, *kernel.results)
        self.repeatable = not any(a.tensor is t.tensor for a in read for t in kernel.targets)
        """Whether values may be computed twice, by two threads at a time."""

    def _steps(self, index: Index) -> dict[Tensor, Size]:
        """The distances by which an outer index moves tensors."""
        steps: dict[Tensor, Size] = {}
        for tensor, pattern in self.patterns.items():
            for other, stride in zip(pattern, row_major(sizes_of(tensor.shape)), strict=True):
                if other is index:
                    steps[tensor] = stride
        return steps

    def _merged(self) -> list[tuple[Index, Outer]]:
        """The outer indices, neighbouring ones made one where they move all tensors alike."""
        out: list[tuple[Index, Outer]] = []
        for index in self.indices:
            new = Outer(size_of(index.extent), self._steps(index))
            last = out[-1][1] if out else None
            if last is not None and min(lower(new.extent), lower(last.extent)) >= 0:
                scaled = {t: times(new.extent, step) for t, step in new.steps.items()}
                if scaled == last.steps:
                    out[-1] = index, replace(new, extent=times(last.extent, new.extent))
                    continue
            out.append((index, new))
        return out

    # ------------------------------------------------------------------ blocks

    def in_blocks(self) -> list[tuple[Index, Outer]] | None:
        """The outer indices with the sizes of their blocks; none if this is no sum of products."""
        merged = self._merged()
        sides = [self._side(index) for index, _ in merged]
        if None in sides:
            return None
        last = {side: at for at, side in enumerate(sides) if side}
        if not last:
            return merged
        ladders = [self._rows()] if len(last) == 1 else list(_BOTH)
        for at, ladder in zip(sorted(last.values()), ladders, strict=True):
            index, outer = merged[at]
            sizes = tuple(n for n in ladder if n <= upper(outer.extent)) or (1,)
            merged[at] = index, replace(outer, blocks=sizes)
        return merged

    def _side(self, index: Index) -> int | None:
        """1 or 2 if one operand alone depends on an outer index and has few values for one of it,
        else 0; none if there are no operands."""
        inner = self._inner({index: 2})
        form = find_form(inner.kernel, inner.strides)
        if form is None:
            return None
        for side, operand in enumerate((form.left, form.right), 1):
            if inner.fresh[index] in operand.indices:
                return side if operand.extent < 2 * _MANY else 0
        return 0

    def _tile(self) -> int:
        """The rows of the register tile that is best for many."""
        lanes = self.target.lanes(self.kernel.values[0].dtype)
        rows, _ = best_tile(1 << 10, 1 << 10, lanes, self.target)
        return rows

    def _rows(self) -> tuple[int, ...]:
        rows = self._tile()
        return (*(n for n in (_TILES * rows, 2 * rows, rows) if n > _FEW[0]), *_FEW)

    # ------------------------------------------------------------------ kernels inside

    def variants(self, outer: Sequence[tuple[Index, Outer]]) -> list[Variant] | None:
        """The code for blocks of all sizes, the largest first; none if a plain loop nest is as
        good."""
        codes: list[Variant] = []
        like = self._like(outer)
        for sizes in itertools.product(*(o.blocks for _, o in outer)):
            inner = self._inner({i: size for (i, _), size in zip(outer, sizes, strict=True)})
            code, schedule = contraction.match_beside(*self._given(inner), like)
            if code is None and not codes:
                return None
            like = like or _preparing(schedule)
            code = code or nest.generate(inner.kernel, inner.strides, self.target)
            if code.sites or code.counted:
                return None
            codes.append(Variant(sizes, code, inner.tensors))
        return codes

    def _like(self, outer: Sequence[tuple[Index, Outer]]) -> Contraction | None:
        """The schedule that blocks of all sizes are to have columns prepared for, if it is not that
        of the largest: where register tiles of that one have fewer rows than those that sizes are
        multiples of, which would read each column twice, the schedule of one such tile."""
        sizes = [o.blocks for _, o in outer if len(o.blocks) > 1]
        tile = self._tile()
        if len(sizes) != 1 or tile not in sizes[0]:
            return None
        found = []
        for size in (sizes[0][0], tile):
            blocks = {i: size if len(o.blocks) > 1 else o.blocks[0] for i, o in outer}
            found.append(_preparing(contraction.choose(*self._given(self._inner(blocks)))))
        largest, single = found
        return None if largest is None or largest.rows >= tile else single

    def _given(self, inner: _Inner) -> tuple[Reduce, Strides, Target, frozenset[Tensor]]:
        constant = self.constant & set(inner.tensors)
        return inner.kernel, inner.strides, self.target, constant

    def _inner(self, blocks: Mapping[Index, int]) -> _Inner:
        """The kernel for a block of each outer index, of one value if it is not said."""
        fresh = {i: Index(i.name, integer(blocks.get(i, 1))) for i in self.indices}
        new: dict[Replaceable, Expr | Tensor] = dict(fresh.items())
        tensors: dict[Tensor, Tensor] = {}
        strides: dict[Tensor, tuple[Size, ...]] = {}
        for tensor, pattern in self.patterns.items():
            inside = tensor
            if any(pattern):
                shape = [
                    e if i is None else fresh[i].extent
                    for e, i in zip(tensor.shape, pattern, strict=True)
                ]
                inside = replace(tensor, shape=tuple(shape))
                strides[inside] = row_major(sizes_of(tensor.shape))
                new[tensor] = inside
            tensors[inside] = tensor
        domain = tuple(fresh.get(i, i) for i in self.kernel.domain)
        kernel = replace(substitute_kernel(self.kernel, new, domain), again=self.repeatable)
        return _Inner(kernel, fresh, strides, tensors)


def _preparing(schedule: Schedule | None) -> Contraction | None:
    """A schedule for which columns are prepared."""
    if isinstance(schedule, Contraction) and schedule.vector_source == "prepared":
        return schedule
    return None


@dataclass(frozen=True, slots=True)
class _Inner:
    """A kernel of known sizes, its outer indices by the open ones, the strides of its tensors, and
    the tensor of which each is part."""

    kernel: Reduce
    fresh: Mapping[Index, Index]
    strides: Strides
    tensors: Mapping[Tensor, Tensor]
