"""Sums of products as parts of a group: planned for blocks of the group's rows.

The last of the indices that the kernels of a group share counts the rows of the left operand, the
others choose a pair of matrices. All products of a group have tiles of equally many rows, so that a
block of rows is some tiles of each. Numbers of bfloat16 are multiplied two by two where the
processor does that, by matrices in registers if it has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...ir.loops import Group, Reduce
from ...ir.nodes import Const, Expr, Index, Tensor
from ...ir.rewrite import accesses, free_indices
from ...records import dataclass, replace
from .contraction_cost import Costs
from .contraction_form import (
    TYPES,
    Form,
    Operand,
    by_stride,
    factors,
    is_candidate,
    product_of,
)
from .contraction_plan import Plan, is_across, plans_of_sides
from .contraction_tiles import tiles
from .contraction_words import in_pairs, with_strides, with_views
from .emit_access import extent_of
from .kernels import Strides
from .matrix import LANES
from .matrix_choice import TILE, MatrixCosts, unblocked_plans
from .schedule import Chain, impossible
from .target import Target

LEAST_ROWS = 4
"""Of tiles: with fewer, the other operand is read too often."""
MOST_PANELS = 8 << 20
"""Bytes of panels that a thread keeps from block to block."""
_BLOCK, _BLOCK_OF_MATRICES = 8, 4
"""Rows of a block take so many times less than the second cache, if a tile does not have more."""


def form_of_rows(kernel: Reduce, shared: Sequence[Index], strides: Strides) -> Form:
    """A product of a group as one of matrices, the left of which has the rows."""
    found = list(factors(kernel.values[0]))
    scale = math.prod(float(f.value) for f in found if isinstance(f, Const))
    parts: tuple[list[Expr], list[Expr]] = ([], [])
    for factor in found:
        if not isinstance(factor, Const):
            parts[shared[-1] not in free_indices(factor)].append(factor)
    left, right = map(product_of, parts)
    columns = tuple(i for i in by_stride(kernel, strides) if i not in shared)
    return Form(
        kernel,
        kernel.values[0].dtype,
        Operand(left, tuple(shared[-1:])),
        Operand(right, columns),
        tuple(shared[:-1]),
        kernel.reduced,
        scale,
    )


def is_product(kernel: Reduce, shared: Sequence[Index]) -> bool:
    """Whether a kernel of a group is a sum of products of rows with something else, and what is of
    rows is not of columns."""
    if len(kernel.values) != 1 or kernel.condition is not None or not is_candidate(kernel, TYPES):
        return False
    if all(i in shared for i in kernel.domain):
        return False
    parts = [set(free_indices(f)) for f in factors(kernel.values[0]) if not isinstance(f, Const)]
    rows = [p for p in parts if shared[-1] in p]
    columns = {*kernel.domain} - {*shared}
    return 0 < len(rows) < len(parts) and all(p.isdisjoint(columns) for p in rows)


@dataclass(frozen=True, slots=True)
class Products:
    """The plans of the products of a group, by the numbers of their kernels."""

    plans: dict[int, Plan]
    block: int
    """Rows that are done at a time."""

    def schedule(self, chunks: int) -> Chain:
        """The schedule that these plans follow."""
        plans = [self.plans[n] for n in sorted(self.plans)]
        return Chain(plans[0].rows, tuple(p.vectors for p in plans), self.block, chunks)


def plan_products(
    group: Group,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    most: int,
) -> Products | None:
    """Plans for blocks of rows, of which `most` fill the second cache; None if no kernel is a
    product."""
    forms = _forms(group, strides, target)
    if not forms:
        return None
    heights = _heights(forms, group, most, target)
    most //= _BLOCK_OF_MATRICES if _are_matrices(forms) else _BLOCK
    extent = extent_of(group.shared[-1])
    room = _room(forms, target)
    plans = {n: _plans(f, strides, room, constant) for n, f in forms.items()}
    least, best = math.inf, None
    for rows in heights:
        block = _block(rows, extent, most)
        cost, found = 0.0, {}
        for n in forms:
            widths = _widths(forms, rows, extent, room)
            each, found[n] = _best(plans[n], rows, widths, block, strides, room)
            cost += each * -(-extent // block)
            if cost >= least:
                break
        else:
            least, best = cost, Products(found, block)
    assert best is not None
    return best


def follow_products(
    group: Group,
    schedule: Chain,
    strides: Strides,
    target: Target,
    constant: frozenset[Tensor],
    most: int,
) -> Products:
    """The plans of a schedule, with blocks of so many rows at most, or a tile's; `Error` E0807 if
    it is not possible."""
    forms = _forms(group, strides, target)
    extent = extent_of(group.shared[-1])
    room = _room(forms, target)
    rows, asked = min(schedule.rows, extent), min(schedule.block, extent)
    if len(schedule.vectors) != len(forms):
        raise impossible(f"`vectors` are those of {len(forms)} products", group.name)
    widths = _widths(forms, rows, extent, room) if rows else ()
    if not all(v in widths for v in schedule.vectors):
        raise impossible("there are no registers for such tiles", group.name)
    if asked > max(most, rows):
        raise impossible(f"a block has at most {max(most, rows)} rows", group.name)
    block = _block(rows, extent, asked)
    found = {
        n: _best(_plans(forms[n], strides, room, constant), rows, [v], block, strides, room)[1]
        for n, v in zip(sorted(forms), schedule.vectors, strict=True)
    }
    return Products(found, block)


def _forms(group: Group, strides: Strides, target: Target) -> dict[int, Form]:
    """The products of a group, by the numbers of their kernels: all of words that the processor
    multiplies, or none."""
    forms = {
        n: form_of_rows(k, group.shared, strides)
        for n, k in enumerate(group.kernels)
        if is_product(k, group.shared)
    }
    for matrices in (True, False):
        words = {n: in_pairs(f, strides, target, matrices) for n, f in forms.items()}
        known = {n: f for n, f in words.items() if f is not None}
        if len(known) == len(forms):
            return known
    return forms


def _room(forms: Mapping[int, Form], target: Target) -> Target:
    """The target with the registers that are left for sums and operands."""
    words = next((f.words for f in forms.values()), None)
    return target if words is None or words.is_matrix else words.room(target)


def _are_matrices(forms: Mapping[int, Form]) -> bool:
    return any(f.words is not None and f.words.is_matrix for f in forms.values())


def _heights(forms: Mapping[int, Form], group: Group, most: int, target: Target) -> Sequence[int]:
    """How many rows tiles may have, if `most` fill the second cache."""
    extent = extent_of(group.shared[-1])
    if _are_matrices(forms):
        # two matrices of rows, unless these leave the second cache: each takes 16 cycles for what
        # it gives 30 to read columns
        return [min(TILE if most >= TILE else LANES, extent)]
    room = _room(forms, target)
    return sorted({r for r, _ in tiles(room) if LEAST_ROWS <= r <= extent} or {1})


def _widths(forms: Mapping[int, Form], rows: int, extent: int, target: Target) -> Sequence[int]:
    """How many vectors, or matrices, side by side a tile of so many rows may have."""
    if not _are_matrices(forms):
        return _tiles_of(rows, target)
    # those of one tile follow the matrices of another
    is_whole = rows % LANES == 0 or rows == extent
    return range(1, TILE // LANES + 1) if is_whole and rows <= TILE else ()


def tile_shapes(group: Group, strides: Strides, target: Target) -> dict[int, Sequence[int]]:
    """For numbers of rows that tiles of the products may have the numbers of vectors."""
    forms = _forms(group, strides, target)
    room = _room(forms, target)
    extent = extent_of(group.shared[-1])
    heights = (LANES, TILE) if _are_matrices(forms) else sorted({r for r, _ in tiles(room)})
    return {rows: _widths(forms, rows, extent, room) for rows in heights}


def _plans(form: Form, strides: Strides, target: Target, constant: frozenset[Tensor]) -> list[Plan]:
    """The ways to read the operands of a product, whatever the tile and the blocks."""
    strides, constant = with_strides(form, strides), with_views(form, constant)
    if form.words is not None and form.words.is_matrix:
        return list(unblocked_plans(form, strides, target, constant))
    return list(plans_of_sides(form, form.left, form.right, strides, target, constant))


def _tiles_of(rows: int, target: Target) -> Sequence[int]:
    """How many vectors a register tile with so many rows may have."""
    return sorted({v for r, v in tiles(target) if r >= rows})


def _block(rows: int, extent: int, most: int) -> int:
    """Rows of a block: some tiles, in blocks of about the same size."""
    count = -(-extent // rows)
    blocks = -(-count // max(1, most // rows))
    return -(-count // blocks) * rows


def _best(
    plans: Sequence[Plan],
    rows: int,
    widths: Sequence[int],
    block: int,
    strides: Strides,
    target: Target,
) -> tuple[float, Plan]:
    """Cycles of a block, in halves unless tiles are matrices, and how it is done, with tiles of one
    of the numbers of vectors."""
    blocks = -(-plans[0].form.left.extent // block)
    found = (
        _with_tile(plan, rows, vectors, block, blocks, with_strides(plan.form, strides), target)
        for plan in plans
        for vectors in widths
    )
    return min(found, key=lambda pair: pair[0])


def _with_tile(
    plan: Plan, rows: int, vectors: int, block: int, blocks: int, strides: Strides, target: Target
) -> tuple[float, Plan]:
    """Cycles of a block, and the plan with a tile, for all columns of the block's rows."""
    vectors = min(vectors, plan.padded // plan.lanes)
    panel = vectors * plan.lanes
    panels = -(-plan.vector.extent // panel)
    plan = replace(
        plan, rows=rows, vectors=vectors, row_block=block, lane_block=panels * panel, grain=1,
        across=is_across(plan.form, plan.vector, plan.lanes, strides), is_streamed=False,
        asks_ahead=False,
    )  # fmt: skip
    kind = Costs if plan.matrices is None else MatrixCosts
    costs = kind(plan, strides, target)
    packing = 0.0
    if plan.vector_source == "packed" and _bytes(plan) <= MOST_PANELS:
        packing = costs.column * plan.vector.extent / blocks
        plan = replace(plan, vector_source="prepared")
        costs = kind(plan, strides, target)
    real = min(block, plan.broadcast.extent)
    wide = plan.vector.extent
    lane_blocks = [-(-panels // n) * panel for n in (1, 2, 4, 8, 16, 32)]
    if isinstance(costs, MatrixCosts):
        lane_blocks = [b for b in lane_blocks if costs.has_room(real, b)] or [panel]
    cycles = costs.chunks(real, [min(b, wide) for b in lane_blocks])
    choices = ((c * -(-wide // b), b) for c, b in zip(cycles, lane_blocks, strict=True))
    cost, lane_block = min(choices, key=lambda pair: pair[0])
    return cost + packing, replace(plan, lane_block=lane_block)


def _bytes(plan: Plan) -> int:
    """Of the panels of the vector operand, for one pair of matrices."""
    return plan.padded * plan.depth.extent * plan.form.dtype.numpy().itemsize


def keeps_panels(plan: Plan, constant: frozenset[Tensor]) -> bool:
    """Whether a thread packs the vector operand itself, for several blocks."""
    read = {a.tensor for a in accesses(plan.vector.value)}
    return plan.vector_source == "prepared" and not read <= constant
