"""Cases of the module layout that create, view, join and split; the oracle is NumPy."""

from __future__ import annotations

import math

import numpy as np

from .case import Array, Case, Family
from .draw import (
    Rng,
    anything,
    axes,
    bools,
    choice,
    coin,
    extent,
    integer,
    ints,
    positive,
    reals,
    shape,
    signed,
)

# ---------------------------------------------------------------- creation 4.1.1


def _filled(operator: str, rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 0, 3), high=4)
    count = math.prod(extents)
    values = anything(rng, [count])
    if coin(rng, 0.3) and count:
        full = np.full(extents, values[0])
        return Case(operator, {"shape": extents, "value": values[0]}, (), (full,))
    if not count:
        values = reals(rng, [0])
    types = ("real",) if not count else ()
    given = {"shape": extents, "value": list(values)}
    if operator == "layout.tensor" and not extents and coin(rng):
        del given["shape"]
    return Case(operator, given, (), (values.reshape(extents),), types)


def constant(rng: Rng) -> Case:
    return _filled("layout.constant", rng)


def tensor(rng: Rng) -> Case:
    return _filled("layout.tensor", rng)


def uniform(rng: Rng) -> Case:
    extents, value = shape(rng), anything(rng, [])
    return Case("layout.uniform", {"shape": extents}, (value,), (np.full(extents, value),))


def arange(rng: Rng) -> Case:
    first: float
    last: float
    stride: float
    if coin(rng):
        first, last = integer(rng, -9, 9), integer(rng, -9, 9)
        stride = integer(rng, 1, 4)
    else:  # quarters: the quotient is exact
        first, last = integer(rng, -9, 9) / 4, integer(rng, -9, 9) / 4
        stride = integer(rng, 1, 4) / 4
    stride = stride if last > first else -stride
    if first == last:
        stride = abs(stride)
    given: dict[str, object] = {"first": first, "last": last, "stride": stride}
    if abs(stride) == 1 and stride > 0 and coin(rng):
        del given["stride"]
    return Case("layout.range", given, (), (np.arange(first, last, stride),))


def extents_of(rng: Rng) -> Case:
    x = anything(rng, shape(rng))
    return Case("layout.shape", {}, (x,), (np.array(x.shape, dtype=np.int64),))


# ------------------------------------------------------------------- views 4.1.2


def cast(rng: Rng) -> Case:
    x = anything(rng, shape(rng))
    if x.dtype.kind == "f":
        x = np.where(np.abs(x) < 0.2, 0.0, x * 2.5)
    name, dtype = choice(rng, (("real", "float64"), ("int", "int64"), ("bool", "bool")))
    return Case("layout.cast", {}, (x,), (x.astype(dtype),), (name,))


def _part(rng: Rng, extents: list[int]) -> tuple[int, int, dict[str, object]]:
    """Where some dimensions begin and how many they are, and as attributes."""
    axis = integer(rng, 0, len(extents) - 1)
    rank = integer(rng, 0, len(extents) - axis)
    given: dict[str, object] = {"axis": signed(rng, axis, len(extents)), "rank": rank}
    if axis == 0 and coin(rng):
        del given["axis"]
    if rank == len(extents) - axis and coin(rng):
        del given["rank"]
    return axis, rank, given


def flatten(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4), high=4)
    axis, rank, given = _part(rng, extents)
    x = anything(rng, extents)
    merged = math.prod(extents[axis : axis + rank])
    result = [*extents[:axis], merged, *extents[axis + rank :]]
    return Case("layout.flatten", given, (x,), (x.reshape(result),))


def unflatten(rng: Rng) -> Case:
    parts = shape(rng, integer(rng, 0, 3), high=4)
    before, after = shape(rng, integer(rng, 0, 2)), shape(rng, integer(rng, 0, 2))
    x = anything(rng, [*before, math.prod(parts), *after])
    given = {"axis": signed(rng, len(before), x.ndim), "shape": parts}
    return Case("layout.unflatten", given, (x,), (x.reshape([*before, *parts, *after]),))


def _factors(rng: Rng, number: int) -> list[int]:
    """Some factors of a number, in any order."""
    found = []
    while number > 1:
        factor = choice(rng, [k for k in range(2, number + 1) if number % k == 0])
        found.append(factor)
        number //= factor
    found += [1] * integer(rng, 0, 1)
    return [found[k] for k in rng.permutation(len(found))]


def reshape(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4), high=4)
    axis, rank, given = _part(rng, extents)
    count = math.prod(extents[axis : axis + rank])
    parts = _factors(rng, count) if count else [0, *positive(rng, integer(rng, 0, 2))]
    if rank == 0 and coin(rng):
        parts = []
    x = anything(rng, extents)
    result = [*extents[:axis], *parts, *extents[axis + rank :]]
    if count and parts and coin(rng):
        parts[integer(rng, 0, len(parts) - 1)] = -1
    return Case("layout.reshape", {**given, "shape": parts}, (x,), (x.reshape(result),))


def squeeze(rng: Rng) -> Case:
    extents = shape(rng)
    gone = axes(rng, len(extents))
    for axis in gone:
        extents[axis] = 1
    x = anything(rng, extents)
    given = [signed(rng, a, x.ndim) for a in gone]
    return Case("layout.squeeze", {"axes": given}, (x,), (np.squeeze(x, tuple(gone)),))


def unsqueeze(rng: Rng) -> Case:
    x = anything(rng, shape(rng, integer(rng, 0, 3)))
    rank = x.ndim + integer(rng, 0, 2)
    new = sorted(int(a) for a in rng.permutation(rank)[: rank - x.ndim])
    given = [signed(rng, new[k], rank) for k in rng.permutation(len(new))]
    return Case("layout.unsqueeze", {"axes": given}, (x,), (np.expand_dims(x, tuple(new)),))


# ------------------------------------------------------- joining and splitting 4.1.3


def _several(rng: Rng, shapes: list[list[int]]) -> list[Array]:
    if coin(rng, 0.3):
        return [ints(rng, s) for s in shapes]
    draw = reals if coin(rng, 0.7) else bools
    return [draw(rng, s) for s in shapes]


def concat(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4))
    axis = integer(rng, 0, len(extents) - 1)
    shapes = [
        [*extents[:axis], extent(rng), *extents[axis + 1 :]] for _ in range(integer(rng, 1, 4))
    ]
    xs = _several(rng, shapes)
    given = {"axis": signed(rng, axis, len(extents))}
    return Case("layout.concat", given, (xs,), (np.concatenate(xs, axis),))


def split(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4))
    axis = integer(rng, 0, len(extents) - 1)
    given: dict[str, object] = {"axis": signed(rng, axis, len(extents))}
    count = integer(rng, 1, 4)
    if coin(rng):
        sizes = [extent(rng, 3)] * count
        given["count"] = count
    else:
        sizes = [extent(rng) for _ in range(count)]
    if "count" not in given or coin(rng, 0.3):
        given["sizes"] = sizes
    extents[axis] = sum(sizes)
    x = anything(rng, extents)
    parts = np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)
    return Case("layout.split", given, (x,), (list(parts),))


def stack(rng: Rng) -> Case:
    rank, squeezed = integer(rng, 0, 3), coin(rng, 0.3)
    axis = integer(rng, 0, rank)
    extents = shape(rng, rank)
    full = [*extents[:axis], 1, *extents[axis:]] if squeezed else extents
    xs = _several(rng, [full] * integer(rng, 1, 4))
    given: dict[str, object] = {"axis": signed(rng, axis, rank + 1)}
    if squeezed or coin(rng):
        given["squeeze"] = squeezed
    result = np.concatenate(xs, axis) if squeezed else np.stack(xs, axis)
    return Case("layout.stack", given, (xs,), (result,))


def unstack(rng: Rng) -> Case:
    extents = shape(rng, integer(rng, 1, 4))
    axis = integer(rng, 0, len(extents) - 1)
    extents[axis] = integer(rng, 1, 4)
    x, squeezed = anything(rng, extents), coin(rng, 0.7)
    given: dict[str, object] = {"axis": signed(rng, axis, x.ndim)}
    if not squeezed or coin(rng):
        given["squeeze"] = squeezed
    parts = np.split(x, extents[axis], axis)
    return Case(
        "layout.unstack", given, (x,), ([p.squeeze(axis) if squeezed else p for p in parts],)
    )


FAMILIES = [
    Family("layout.constant", constant, "NumPy"),
    Family("layout.tensor", tensor, "NumPy"),
    Family("layout.uniform", uniform, "NumPy"),
    Family("layout.range", arange, "NumPy"),
    Family("layout.shape", extents_of, "NumPy"),
    Family("layout.cast", cast, "NumPy"),
    Family("layout.reshape", reshape, "NumPy", 40),
    Family("layout.flatten", flatten, "NumPy"),
    Family("layout.unflatten", unflatten, "NumPy"),
    Family("layout.squeeze", squeeze, "NumPy"),
    Family("layout.unsqueeze", unsqueeze, "NumPy"),
    Family("layout.concat", concat, "NumPy"),
    Family("layout.split", split, "NumPy"),
    Family("layout.stack", stack, "NumPy"),
    Family("layout.unstack", unstack, "NumPy"),
]
