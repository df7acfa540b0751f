"""Code for sums of products: register-tiled, cache-blocked, whatever the subscripts are.

    for each chunk: a block of rows x a block of columns of the result, for one batch
        for each block of k
            pack what has to be packed
            for each panel of rows, for each panel of columns:  register tile, then its results

The operands' layout in memory matters to packing alone (`packing`), the shape of the problem to the
plan alone (`contraction_plan`).
"""

from __future__ import annotations

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from .contraction_cost import Costs
from .contraction_form import find_form
from .contraction_plan import Plan, make_plan
from .contraction_write import write_contraction
from .kernels import KernelCode, Strides
from .matvec import match_dots
from .target import Target


def match(
    kernel: Reduce, strides: Strides, target: Target, constant: frozenset[Tensor] = frozenset()
) -> KernelCode | None:
    """The code of a kernel that is a sum of products with enough reuse, else None."""
    form = find_form(kernel, strides)
    if form is None or max(form.left.extent, form.right.extent) < 2:
        return None
    dots = match_dots(form, strides, target)
    if dots is not None:
        return dots
    plan = make_plan(form, strides, target, constant)
    return write_contraction(plan, strides) if _is_worthwhile(plan, strides, target) else None


def _is_worthwhile(plan: Plan, strides: Strides, target: Target) -> bool:
    """Whether a plain loop nest is likely to take longer.

    With one row there is nothing to gain but from streaming a matrix that is not packed first.
    """
    if plan.broadcast.extent == 1:
        return plan.vector_source != "packed"
    return Costs(plan, strides, target).is_worthwhile()
