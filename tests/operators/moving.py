"""Cases of the module layout that expand, shrink, reorder and index; the oracle is NumPy."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .case import Array, Case, Family
from .draw import (
    Rng,
    anything,
    axes,
    choice,
    coin,
    extent,
    integer,
    ints,
    numbers,
    positive,
    shape,
    signed,
)

# ----------------------------------------------------- expanding and shrinking 4.1.4


def _chosen(rng: Rng, rank: int) -> tuple[list[int], dict[str, object]]:
    """Some axes, and as attributes; all of them in order may be left out."""
    chosen = axes(rng, rank)
    given: dict[str, object] = {"axes": [signed(rng, a, rank) for a in chosen]}
    if coin(rng, 0.3):
        return list(range(rank)), {}
    return chosen, given


def tile(rng: Rng) -> Case:
    x = anything(rng, shape(rng, integer(rng, 0, 3), high=4))
    chosen, given = _chosen(rng, x.ndim)
    repeats = [integer(rng, 1, 3) for _ in chosen]
    full = [1] * x.ndim
    for axis, count in zip(chosen, repeats, strict=True):
        full[axis] = count
    return Case("layout.tile", {**given, "repeats": repeats}, (x,), (np.tile(x, full),))


def broadcast(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 0, 4))
    chosen, given = _chosen(rng, len(extents))
    result = list(extents)
    target = []
    for axis in chosen:
        if coin(rng) or extents[axis] == 0:
            extents[axis] = 1
            result[axis] = integer(rng, 1, 5)
        target.append(result[axis] if coin(rng, 0.8) or extents[axis] == 1 else 1)
    x = anything(rng, extents)
    full = np.broadcast_to(x, result).copy()
    return Case("layout.broadcast", {**given, "shape": target}, (x,), (full,))


def cut(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 0, 4), high=7)
    chosen, given = _chosen(rng, len(extents))
    window = [slice(None)] * len(extents)
    begins, ends, strides = [], [], []
    for axis in chosen:
        n, forward = extents[axis], coin(rng, 0.6) or extents[axis] == 0
        first = integer(rng, 0, n) if forward else integer(rng, 0, n - 1)
        last = integer(rng, first, n) if forward else integer(rng, -1, first)
        stride = integer(rng, 1, 3) * (1 if forward else -1)
        window[axis] = slice(first, last if last >= 0 else None, stride)
        # A negative position counts from the end; what is beyond the end, means the end.
        begins.append(first - n if first < n and coin(rng) else first)
        end = last - n if last < n and (last < 0 or coin(rng)) else last
        ends.append(end + integer(rng, 0, 2) if last == n else end)
        strides.append(stride)
    given |= {"begin": begins, "end": ends}
    if any(s != 1 for s in strides) or coin(rng):
        given["stride"] = strides
    x = anything(rng, extents)
    return Case("layout.slice", given, (x,), (x[tuple(window)].copy(),))


_MODES: dict[str, Literal["reflect", "symmetric", "edge"]] = {
    "REFLECT": "reflect",
    "SYMMETRIC": "symmetric",
    "REPLICATE": "edge",
}


def pad(rng: Rng) -> Case:
    method = choice(rng, ("CONSTANT", "CONSTANT", *_MODES))
    rank = integer(rng, 0, 3)
    extents = shape(rng, rank) if method == "CONSTANT" else positive(rng, rank)
    chosen, given = _chosen(rng, rank)
    widths = [(0, 0)] * rank
    for axis in chosen:
        limit = {"REFLECT": extents[axis] - 1, "SYMMETRIC": extents[axis]}.get(method, 4)
        widths[axis] = (integer(rng, 0, min(3, limit)), integer(rng, 0, min(3, limit)))
    padding = [widths[a][0] for a in chosen] + [widths[a][1] for a in chosen]
    given["padding"] = padding
    if method != "CONSTANT" or coin(rng):
        given["method"] = method
    x = anything(rng, extents)
    if not rank:
        return Case("layout.pad", given, (x, None), (x,))
    if method != "CONSTANT":
        return Case("layout.pad", given, (x,), (np.pad(x, widths, mode=_MODES[method]),))
    value = np.asarray(x.dtype.type(1)) if coin(rng) else None
    fill = 0 if value is None else value
    return Case("layout.pad", given, (x, value), (np.pad(x, widths, constant_values=fill),))


# ------------------------------------------------------------------ reordering 4.1.5


def transpose(rng: Rng) -> Case:
    x = anything(rng, shape(rng, integer(rng, 1, 4)))
    axis = integer(rng, 0, x.ndim - 1)
    given: dict[str, object] = {"axis": signed(rng, axis, x.ndim)}
    if axis == 0 and coin(rng):
        del given["axis"]
    perm = [axis + int(k) for k in rng.permutation(x.ndim - axis)]
    if coin(rng, 0.2):
        perm = list(range(x.ndim - 1, axis - 1, -1))
    else:
        given["perm"] = [signed(rng, p, x.ndim) for p in perm]
    return Case("layout.transpose", given, (x,), (x.transpose([*range(axis), *perm]),))


def shuffle(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4))
    axis, groups, size = integer(rng, 0, len(extents) - 1), integer(rng, 1, 4), extent(rng)
    extents[axis] = groups * size
    x = anything(rng, extents)
    parts = x.reshape([*extents[:axis], groups, size, *extents[axis + 1 :]])
    given = {"axis": signed(rng, axis, x.ndim), "groups": groups}
    return Case("layout.shuffle", given, (x,), (parts.swapaxes(axis, axis + 1).reshape(extents),))


# -------------------------------------------------------------------- indexing 4.1.6


def nonzero(rng: Rng) -> Case:
    x = anything(rng, shape(rng, integer(rng, 1, 3)))
    x = np.where(rng.random(x.shape) < 0.5, x, x.dtype.type(0))
    found = np.stack(np.nonzero(x)).astype(np.int64)
    return Case("layout.nonzero", {}, (x,), (found,), bounds={0: {1: x.size}})


def gather(rng: Rng) -> Case:
    x = anything(rng, shape(rng, integer(rng, 1, 3)))
    axis = integer(rng, 0, x.ndim - 1)
    size = x.shape[axis]
    wanted = shape(rng, integer(rng, 0, 3), high=4) if size else [0]
    index = ints(rng, wanted, 0, max(0, size - 1))
    given = {"axis": signed(rng, axis, x.ndim)}
    return Case("layout.gather", given, (x, index), (np.take(x, index, axis),))


def _positions(rng: Rng, batch: list[int], places: list[int], extents: list[int]) -> Array:
    items = [ints(rng, [*batch, *places], 0, n - 1) for n in extents]
    return np.stack(items, -1) if items else np.zeros([*batch, *places, 0], dtype=np.int64)


def gather_nd(rng: Rng) -> Case:
    batch, extents = shape(rng, integer(rng, 0, 2), 3), positive(rng, integer(rng, 0, 3), 4)
    rest, places = shape(rng, integer(rng, 0, 2)), shape(rng, integer(rng, 0, 2))
    data = anything(rng, [*batch, *extents, *rest])
    indices = _positions(rng, batch, places, extents)
    result = np.zeros([*batch, *places, *rest], dtype=data.dtype)
    for b in np.ndindex(*batch):
        for z in np.ndindex(*places):
            result[b + z] = data[b][tuple(indices[b + z])]
    given = {"batch_dims": len(batch)} if batch or coin(rng) else {}
    return Case("layout.gather_nd", given, (data, indices), (result,))


def scatter(rng: Rng) -> Case:
    data = numbers(rng, positive(rng, integer(rng, 1, 3)))
    axis = integer(rng, 0, data.ndim - 1)
    count = integer(rng, 0, data.shape[axis])
    distinct = np.argsort(rng.random(data.shape), axis)
    indices = np.take(distinct, range(count), axis).astype(np.int64)
    updates = numbers(rng, indices.shape).astype(data.dtype)
    result = data.copy()
    np.put_along_axis(result, indices, updates, axis)
    given = {"axis": signed(rng, axis, data.ndim)}
    return Case("layout.scatter", given, (data, indices, updates), (result,))


def scatter_nd(rng: Rng) -> Case:
    batch, extents = shape(rng, integer(rng, 0, 2), 3), positive(rng, integer(rng, 0, 3), 4)
    rest, places = shape(rng, integer(rng, 0, 2)), shape(rng, integer(rng, 0, 1), 3)
    data = anything(rng, [*batch, *extents, *rest])
    indices = _positions(rng, batch, places, extents)
    updates = anything(rng, [*batch, *places, *rest]).astype(data.dtype)
    result = data.copy()
    for b in np.ndindex(*batch):
        for z in np.ndindex(*places):  # in order: the last of several counts
            result[b + tuple(indices[b + z])] = updates[b + z]
    given = {"batch_dims": len(batch)} if batch or coin(rng) else {}
    return Case("layout.scatter_nd", given, (data, indices, updates), (result,))


FAMILIES = [
    Family("layout.tile", tile, "NumPy"),
    Family("layout.broadcast", broadcast, "NumPy"),
    Family("layout.slice", cut, "NumPy", 40),
    Family("layout.pad", pad, "NumPy", 40),
    Family("layout.transpose", transpose, "NumPy"),
    Family("layout.shuffle", shuffle, "NumPy"),
    Family("layout.nonzero", nonzero, "NumPy"),
    Family("layout.gather", gather, "NumPy"),
    Family("layout.gather_nd", gather_nd, "NumPy"),
    Family("layout.scatter", scatter, "NumPy"),
    Family("layout.scatter_nd", scatter_nd, "NumPy"),
]
