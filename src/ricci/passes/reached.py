"""Whether every result of a reduction has a term, whatever its guards leave out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir.loops import Reduce
from ..ir.nodes import Expr, Index, Skip, Subscript
from ..ir.rewrite import accesses, free_indices
from ..ir.shapes import affine, as_int

_MOST = 1 << 16
"""Pairs of places that are tried."""


def is_always_reached(kernel: Reduce) -> bool:
    """Whether at each point of the domain some point of the others passes all guards.

    Guards on different reduced indices do not disturb each other; each is tried at all places.
    """
    if any(not as_int(i.extent) for i in kernel.reduced):
        return False
    guards = [
        (s, n)
        for a in accesses(*kernel.values)
        for s, n in zip(a.subscripts, a.tensor.shape, strict=True)
        if isinstance(s.rule, Skip)
    ]
    groups: dict[frozenset[Index], list[tuple[Subscript, Expr]]] = {}
    for guard in guards:
        inner = frozenset(set(free_indices(guard[0].index)) & set(kernel.reduced))
        groups.setdefault(inner, []).append(guard)
    names = [i for inner in groups for i in inner]
    return len(names) == len(set(names)) and all(
        _passes(found, inner) for inner, found in groups.items()
    )


def _passes(guards: Sequence[tuple[Subscript, Expr]], inner: frozenset[Index]) -> bool:
    """Whether for all values of the other indices some of these pass all of some guards."""
    indices = list(dict.fromkeys(i for s, _ in guards for i in free_indices(s.index)))
    shape = [as_int(i.extent) or 0 for i in indices]
    if math.prod(shape) > _MOST:
        return False
    places = dict(zip(indices, np.indices(shape), strict=True)) if indices else {}
    good = np.ones(shape, bool)
    for subscript, extent in guards:
        form, size = affine(subscript.index), as_int(extent)
        if form is None or size is None or any(i not in places for i in form[0]):
            return False
        at = form[1] + sum(places[i] * n for i, n in form[0].items() if isinstance(i, Index))
        good &= (at >= 0) & (at < size)
    axes = tuple(d for d, i in enumerate(indices) if i in inner)
    return bool(good.any(axis=axes).all())
