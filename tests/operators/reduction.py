"""Cases of the reductions of the module math; oracles are NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from .case import Array, Case, Family
from .draw import (
    Rng,
    axes,
    bools,
    coin,
    integer,
    numbers,
    positive,
    reals,
    shape,
    signed,
    whole,
)


def chosen(rng: Rng, rank: int) -> tuple[tuple[int, ...], bool, dict[str, object]]:
    """Some axes, whether they vanish, and both as attributes."""
    picked = axes(rng, rank)
    given: dict[str, object] = {"axes": [signed(rng, a, rank) for a in picked]}
    if coin(rng, 0.3):
        picked, given = list(range(rank)), {}
    squeeze = coin(rng)
    if squeeze or coin(rng):
        given["squeeze"] = squeeze
    return tuple(picked), squeeze, given


def _mean(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    if not axis:
        return x
    return torch.from_numpy(x).mean(axis, keepdim=keepdims).numpy()


_REDUCTIONS: dict[str, tuple[Callable[..., Array], str]] = {
    "min_reduce": (partial(np.min, initial=np.inf), "num"),
    "max_reduce": (partial(np.max, initial=-np.inf), "num"),
    "sum_reduce": (np.sum, "num"),
    "prod_reduce": (np.prod, "factor"),
    "mean_reduce": (_mean, "real"),
    "any_reduce": (np.any, "bool"),
    "all_reduce": (np.all, "bool"),
}


def _reduce(name: str, rng: Rng) -> Case:
    function, kind = _REDUCTIONS[name]
    extents = positive(rng, integer(rng, 0, 4)) if kind == "real" else shape(rng)
    x: Array
    if kind == "bool":
        x = bools(rng, extents, 0.5 if coin(rng) else 0.9)
    elif kind == "num":
        x = numbers(rng, extents)
    elif kind == "factor":
        x = reals(rng, extents, 0.8, 1.2) if coin(rng, 0.7) else whole(rng, extents, -1, 1)
    else:
        x = reals(rng, extents)
    if name in ("min_reduce", "max_reduce") and x.dtype.kind == "i":
        extents = [max(1, n) for n in extents]
        x = rng.integers(-9, 10, extents, dtype=np.int64)
        function = np.min if name == "min_reduce" else np.max
    picked, squeeze, given = chosen(rng, x.ndim)
    expected = np.asarray(function(x, axis=picked, keepdims=not squeeze))
    return Case(f"math.{name}", given, (x,), (expected,))


def lp_reduce(rng: Rng) -> Case:
    x = reals(rng, shape(rng))
    picked, squeeze, given = chosen(rng, x.ndim)
    p = float(integer(rng, 1, 8)) / 2
    expected = np.asarray(np.sum(np.abs(x) ** p, axis=picked, keepdims=not squeeze) ** (1 / p))
    return Case("math.lp_reduce", {**given, "p": p}, (x,), (expected,))


def _arg(name: str, rng: Rng) -> Case:
    x = numbers(rng, positive(rng, integer(rng, 1, 4)), -4, 4)
    axis, squeeze = integer(rng, 0, x.ndim - 1), coin(rng)
    expected = getattr(np, name)(x, axis=axis, keepdims=not squeeze)
    given: dict[str, object] = {"axis": signed(rng, axis, x.ndim)}
    if squeeze or coin(rng):
        given["squeeze"] = squeeze
    return Case(f"math.{name}", given, (x,), (np.asarray(expected),))


def _arg_nd(name: str, rng: Rng) -> Case:
    x = numbers(rng, positive(rng, integer(rng, 1, 4), 4), -4, 4)
    picked, squeeze, given = chosen(rng, x.ndim)
    if not picked:
        picked, given["axes"] = (0,), [0]
    # The first in row-major order: the order of the dimensions, not of `axes`.
    ordered = sorted(picked)
    front = np.moveaxis(x, ordered, range(len(ordered)))
    flat = front.reshape(-1, *front.shape[len(ordered) :])
    found = np.unravel_index(getattr(np, name)(flat, axis=0), front.shape[: len(ordered)])
    parts = [np.asarray(found[ordered.index(a)], dtype=np.int64) for a in picked]
    if not squeeze:
        parts = [np.expand_dims(p, tuple(ordered)) for p in parts]
    if coin(rng, 0.4):
        joined = [np.stack(parts, -1)]
        return Case(f"math.{name}_nd", {**given, "stacked": True}, (x,), (joined,))
    return Case(f"math.{name}_nd", given, (x,), (parts,))


def moments(rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 0, 4)))
    if coin(rng, 0.3):
        x = x + 1000.0  # one pass over squares would cancel
    picked, squeeze, given = chosen(rng, x.ndim)
    mean = np.mean(x, axis=picked, keepdims=not squeeze)
    variance = np.var(x, axis=picked, keepdims=not squeeze)
    return Case("math.moments", given, (x,), (np.asarray(mean), np.asarray(variance)),
                tolerance=1e-4)  # fmt: skip


def cumsum(rng: Rng) -> Case:
    x = reals(rng, shape(rng, integer(rng, 1, 4)))
    axis, exclusive, reverse = integer(rng, 0, x.ndim - 1), coin(rng), coin(rng)
    y = np.flip(x, axis) if reverse else x
    total = np.cumsum(y, axis) - (y if exclusive else 0)
    given: dict[str, object] = {"axis": signed(rng, axis, x.ndim)}
    if exclusive or coin(rng):
        given["exclusive"] = exclusive
    if reverse or coin(rng):
        given["reverse"] = reverse
    return Case("math.cumsum", given, (x,), (np.flip(total, axis) if reverse else total,))


FAMILIES = [
    *(
        Family(f"math.{n}", partial(_reduce, n), "PyTorch" if n == "mean_reduce" else "NumPy")
        for n in _REDUCTIONS
    ),
    Family("math.lp_reduce", lp_reduce, "NumPy"),
    Family("math.argmin", partial(_arg, "argmin"), "NumPy"),
    Family("math.argmax", partial(_arg, "argmax"), "NumPy"),
    Family("math.argmin_nd", partial(_arg_nd, "argmin"), "NumPy"),
    Family("math.argmax_nd", partial(_arg_nd, "argmax"), "NumPy"),
    Family("math.moments", moments, "NumPy"),
    Family("math.cumsum", cumsum, "NumPy"),
]
