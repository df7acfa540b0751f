"""Sums of products as parts of a group: planned for blocks of the group's rows.

The last of the indices that the kernels of a group share counts the rows of the left operand, the
others choose a pair of matrices. All products of a group have tiles of equally many rows, so that a
block of rows is some tiles of each.
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
from .emit_access import extent_of
from .kernels import Strides
from .schedule import Chain, impossible
from .target import Target

LEAST_ROWS = 4
"""Of tiles: with fewer, the other operand is read too often."""
MOST_PANELS = 8 << 20
"""Bytes of panels that a thread keeps from block to block."""


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
    """Plans for blocks of about so many rows; None if no kernel is a product."""
    forms = _forms(group, strides)
    if not forms:
        return None
    extent = extent_of(group.shared[-1])
    plans = _plans(forms, strides, target, constant)
    least, best = math.inf, None
    for rows in sorted({r for r, _ in tiles(target) if LEAST_ROWS <= r <= extent} or {1}):
        block = _block(rows, extent, most)
        cost, found = 0.0, {}
        for n in forms:
            each, found[n] = _best(plans[n], rows, tiles_of(rows, target), block, strides, target)
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
    forms = _forms(group, strides)
    extent = extent_of(group.shared[-1])
    rows, asked = min(schedule.rows, extent), min(schedule.block, extent)
    if len(schedule.vectors) != len(forms):
        raise impossible(f"`vectors` are those of {len(forms)} products", group.name)
    widths = tiles_of(rows, target) if rows else ()
    if not all(v in widths for v in schedule.vectors):
        raise impossible("there are no registers for such tiles", group.name)
    if asked > max(most, rows):
        raise impossible(f"a block has at most {max(most, rows)} rows", group.name)
    block = _block(rows, extent, asked)
    plans = _plans(forms, strides, target, constant)
    found = {
        n: _best(plans[n], rows, [v], block, strides, target)[1]
        for n, v in zip(sorted(forms), schedule.vectors, strict=True)
    }
    return Products(found, block)


def _forms(group: Group, strides: Strides) -> dict[int, Form]:
    """The products of a group, by the numbers of their kernels."""
    return {
        n: form_of_rows(k, group.shared, strides)
        for n, k in enumerate(group.kernels)
        if is_product(k, group.shared)
    }


def _plans(
    forms: Mapping[int, Form], strides: Strides, target: Target, constant: frozenset[Tensor]
) -> dict[int, list[Plan]]:
    """The ways to read the operands of each product, whatever the tile and the blocks."""
    return {
        n: list(plans_of_sides(f, f.left, f.right, strides, target, constant))
        for n, f in forms.items()
    }


def tiles_of(rows: int, target: Target) -> Sequence[int]:
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
    """Cycles of a block, and how it is done, with tiles of one of the numbers of vectors."""
    blocks = -(-plans[0].form.left.extent // block)
    found = (
        _with_tile(plan, rows, vectors, block, blocks, strides, target)
        for plan in plans
        for vectors in widths
    )
    return min(found, key=lambda pair: pair[0])


def _with_tile(
    plan: Plan, rows: int, vectors: int, block: int, blocks: int, strides: Strides, target: Target
) -> tuple[float, Plan]:
    vectors = min(vectors, plan.padded // plan.lanes)
    panel = vectors * plan.lanes
    panels = -(-plan.vector.extent // panel)
    plan = replace(
        plan, rows=rows, vectors=vectors, row_block=block, lane_block=panels * panel, grain=1,
        across=is_across(plan.form, plan.vector, plan.lanes, strides), is_streamed=False,
        asks_ahead=False,
    )  # fmt: skip
    costs = Costs(plan, strides, target)
    packing = 0.0
    if plan.vector_source == "packed" and _bytes(plan) <= MOST_PANELS:
        packing = costs.column * plan.vector.extent / blocks
        plan = replace(plan, vector_source="prepared")
        costs = Costs(plan, strides, target)
    real = min(block, plan.broadcast.extent)
    wide = plan.vector.extent
    blocks_of_lanes = [-(-panels // n) * panel for n in (1, 2, 4, 8, 16, 32)]
    cycles = costs.chunks(real, [min(b, wide) for b in blocks_of_lanes])
    choices = ((c * -(-wide // b), b) for c, b in zip(cycles, blocks_of_lanes, strict=True))
    cost, lane_block = min(choices, key=lambda pair: pair[0])
    return cost + packing, replace(plan, lane_block=lane_block)


def _bytes(plan: Plan) -> int:
    """Of the panels of the vector operand, for one pair of matrices."""
    return plan.padded * plan.depth.extent * plan.form.dtype.numpy().itemsize


def keeps_panels(plan: Plan, constant: frozenset[Tensor]) -> bool:
    """Whether a thread packs the vector operand itself, for several blocks."""
    read = {a.tensor for a in accesses(plan.vector.value)}
    return plan.vector_source == "prepared" and not read <= constant
