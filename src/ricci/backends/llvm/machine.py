"""What passes know of a processor that code is made for."""

from __future__ import annotations

from collections.abc import Collection

from ...ir.loops import Reduce
from ...ir.nodes import Tensor
from ...passes.machine import Machine
from .contraction import cycles_of
from .kernels import Strides, choose
from .schedule import MatrixWindow
from .target import Target
from .words import choose_numbers, least_factor

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
        chosen = choose(kernel, {}, target, frozenset(constant))
        return isinstance(chosen, MatrixWindow) and chosen.inside > 0

    def takes(kernel: Reduce, strides: Strides, constant: Collection[Tensor]) -> float:
        return cycles_of(kernel, strides, target, frozenset(constant))

    keeps, estimate = (is_whole, takes) if by_matrices else (None, None)
    factor = least_factor(target)
    pairs = choose_numbers(target, matrices=False) is not None
    return Machine(
        factor, cache, target.cores, fewer, keeps, estimate, target.on_mesh, target.l2, pairs
    )
