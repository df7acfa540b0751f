"""Cases of regions of interest and grid sampling; oracles are ONNX Runtime, PyTorch and NumPy."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from .case import Array, Case, Family, Make
from .draw import Rng, coin, integer, ints, positive, reals
from .onnx_oracle import run_onnx

# ------------------------------------------------------- regions of interest 4.5.3

Bins = list[tuple[int, int]]


def _bins(first: float, last: float, extent: int, count: int) -> Bins:
    """Where the bins of a box begin and end along a dimension."""
    start, stop = (math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1) for x in (first, last))
    size = max(1, stop - start + 1)
    ends = [(start + p * size // count, start - (-(p + 1) * size // count)) for p in range(count)]
    return [(min(max(a, 0), extent), min(max(b, 0), extent)) for a, b in ends]


def _pooled(name: str, item: Array, row: Array, sizes: list[int]) -> Array:
    """The bins of one box of one batch item [c, s..]."""
    rank = len(sizes)
    first, last = row[:rank][::-1], row[rank:][::-1]
    bins = [_bins(*b) for b in zip(first, last, item.shape[1:], sizes, strict=True)]
    y = np.zeros([len(item), *sizes])
    for place in product(*(range(n) for n in sizes)):
        window = tuple(slice(*bins[d][p]) for d, p in enumerate(place))
        part = item[(slice(None), *window)].reshape(len(item), -1)
        if part.size:
            y[(slice(None), *place)] = part.max(1) if name == "max_roi_pool" else part.mean(1)
    return y


def _boxes(rng: Rng, count: int, space: list[int]) -> Array:
    """Boxes, some of them partly or wholly outside; a few end before they begin."""
    corners = [reals(rng, [count, 2], -2, n + 1) for n in reversed(space)]
    corners = [c if coin(rng, 0.1) else np.sort(c, 1) for c in corners]
    return np.concatenate([*(c[:, :1] for c in corners), *(c[:, 1:] for c in corners)], 1)


def _roi_pool(name: str, rng: Rng) -> Case:
    space = positive(rng, integer(rng, 1, 3), 6)
    x = reals(rng, [integer(rng, 1, 3), integer(rng, 1, 3), *space])
    boxes = _boxes(rng, integer(rng, 1, 4), space)
    index = ints(rng, [len(boxes)], 0, len(x) - 1)
    sizes = [integer(rng, 1, 4) for _ in space]
    rows = [_pooled(name, x[k], row, sizes) for k, row in zip(index, boxes, strict=True)]
    given = {"output_size": sizes[0] if len(set(sizes)) == 1 and coin(rng) else sizes}
    return Case(f"image.{name}", given, (x, boxes, index), (np.stack(rows),))


def max_roi_pool_onnx(rng: Rng) -> Case:
    """Sizes are powers of two, so that single precision is exact."""
    space = [integer(rng, 4, 9), integer(rng, 4, 9)]
    x = reals(rng, [2, 3, *space])
    boxes = _boxes(rng, integer(rng, 1, 5), space)
    index = ints(rng, [len(boxes)], 0, 1)
    sizes = [2 ** integer(rng, 0, 2), 2 ** integer(rng, 0, 2)]
    rois = np.concatenate([index[:, None].astype(np.float64), boxes], 1)
    y = run_onnx("MaxRoiPool", [x, rois], pooled_shape=sizes)
    return Case("image.max_roi_pool", {"output_size": sizes}, (x, boxes, index), (y,))


# -------------------------------------------------------------- grid sampling (later)

_MODES = {"LINEAR": "bilinear", "NEAREST": "nearest", "CUBIC": "bicubic"}
_PADDINGS = {"ZEROS": "zeros", "REPLICATE": "border", "REFLECT": "reflection"}


def _attributes(mode: str, padding: str, aligned: bool, rng: Rng) -> dict[str, object]:
    given = {"mode": mode, "padding": padding, "aligned": aligned}
    defaults = {"mode": "LINEAR", "padding": "ZEROS", "aligned": False}
    return {k: v for k, v in given.items() if v != defaults[k] or coin(rng)}


def grid_sample_torch(mode: str, padding: str, aligned: bool, rng: Rng) -> Case:
    """Planes and volumes; PyTorch reflects as we do where the centres are aligned."""
    rank = integer(rng, 2, 2 if mode == "CUBIC" else 3)
    space = [integer(rng, 1, 6) for _ in range(rank)]
    x = reals(rng, [integer(rng, 1, 2), integer(rng, 1, 3), *space])
    grid = reals(rng, [len(x), *(integer(rng, 1, 4) for _ in space), rank], -2, 2)
    y = F.grid_sample(
        torch.from_numpy(x),
        torch.from_numpy(grid),
        _MODES[mode],
        _PADDINGS[padding],
        align_corners=aligned,
    )
    given = _attributes(mode, padding, aligned, rng)
    return Case("image.grid_sample", given, (x, grid), (y.numpy(),))


def grid_sample(mode: str, padding: str, aligned: bool, rng: Rng) -> Case:
    """One dimension and far places, by a loop over taps."""
    x = reals(rng, [2, 2, integer(rng, 1, 5)])
    grid = reals(rng, [2, integer(rng, 1, 5), 1], -9, 9)
    y = np.zeros([2, 2, grid.shape[1]])
    for n, z in np.ndindex(2, grid.shape[1]):
        u = (grid[n, z, 0] + 1) / 2
        at = u * (x.shape[2] - 1) if aligned else u * x.shape[2] - 0.5
        y[n, :, z] = sum(w * _element(x[n], i, padding) for i, w in _taps(mode, at))
    given = _attributes(mode, padding, aligned, rng)
    return Case("image.grid_sample", given, (x, grid), (y,))


def _taps(mode: str, at: float) -> list[tuple[int, float]]:
    base = math.floor(at)
    if mode == "NEAREST":
        return [(math.floor(at + 0.5), 1.0)]
    if mode == "LINEAR":
        return [(base, 1 - at + base), (base + 1, at - base)]
    return [(base + j, _keys(abs(at - base - j))) for j in (-1, 0, 1, 2)]


def _keys(t: float, a: float = -0.75) -> float:
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a


def _element(line: Array, at: int, padding: str) -> Array:
    """What is at a position [c, s]; outside, one step after the other back to the inside."""
    last = line.shape[1] - 1
    if padding == "ZEROS" and not 0 <= at <= last:
        return np.zeros(len(line))
    while padding == "REFLECT" and last and not 0 <= at <= last:
        at = -at if at < 0 else 2 * last - at
    return line[:, min(max(at, 0), last)]


_ALL = list(product(_MODES, _PADDINGS, (False, True)))
_TORCH: list[Make] = [partial(grid_sample_torch, *c) for c in _ALL if c[1] != "REFLECT" or c[2]]
_NUMPY: list[Make] = [partial(grid_sample, *c) for c in _ALL]

FAMILIES = [
    Family("image.max_roi_pool", max_roi_pool_onnx, "ONNX Runtime", 40),
    Family("image.max_roi_pool", partial(_roi_pool, "max_roi_pool"), "NumPy"),
    Family("image.avg_roi_pool", partial(_roi_pool, "avg_roi_pool"), "NumPy"),
    Family("image.grid_sample", _TORCH, "PyTorch", 45),
    Family("image.grid_sample", _NUMPY, "NumPy", 36),
]
