"""What passes know of a processor that code is made for."""

from __future__ import annotations

import math
from collections.abc import Collection

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from ...passes.machine import Machine
from .contraction_form import find_form
from .matrix_choice import may_multiply
from .matrix_window import choose_matrix_window
from .target import Target
from .words import least_factor

_OF_SERVERS = 16 << 20
"""Bytes that are likely to stay in the third cache of processors with matrices in registers, which
has hundreds of megabytes for all cores."""


def machine_of(target: Target) -> Machine:
    """What passes know of a target."""
    by_matrices = target.matrices and target.in_parts
    cache = _OF_SERVERS if target.matrices else target.shared
    # matrices do all products of windows that are apart sooner than others do fewer of them
    fewer = target.winograd and not by_matrices

    def is_whole(kernel: Reduce, constant: Collection[Tensor]) -> bool:
        form = find_form(kernel, {})
        if form is None or not may_multiply(form, target):
            return False
        found = choose_matrix_window(form, {}, target, frozenset(constant), math.inf)
        return found is not None and found[1].inside > 0

    keeps = is_whole if by_matrices else None
    return Machine(least_factor(target), cache, target.cores, fewer, keeps)
