"""Cases of the operators that move blocks of the space; oracles are NumPy and ONNX Runtime."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .case import Array, Case, Family
from .draw import Rng, anything, coin, integer, reals
from .onnx_oracle import run_onnx


def gathered(x: Array, block: list[int], into: int, blocks_first: bool) -> Array:
    """The places in blocks of `x` [b, c, s..] moved into dimension `into` (0 or 1)."""
    rank = len(block)
    parts = [n for s, k in zip(x.shape[2:], block, strict=True) for n in (s // k, k)]
    y = x.reshape([*x.shape[:2], *parts])
    outer, inner = [2 + 2 * k for k in range(rank)], [3 + 2 * k for k in range(rank)]
    head = [*inner, into] if blocks_first else [into, *inner]
    order = [*head, 1, *outer] if into == 0 else [0, *head, *outer]
    extents = [s // k for s, k in zip(x.shape[2:], block, strict=True)]
    sizes = list(x.shape[:2])
    sizes[into] *= math.prod(block)
    return y.transpose(order).reshape([*sizes, *extents])


def _case(name: str, rng: Rng) -> Case:
    rank = integer(rng, 1, 3)
    block = [integer(rng, 1, 3) for _ in range(rank)]
    space = [k * integer(rng, 1, 3) for k in block]
    x = anything(rng, [integer(rng, 1, 3), integer(rng, 1, 3), *space])
    into, first = (0 if "batch" in name else 1), coin(rng)
    y = gathered(x, block, into, first)
    given: dict[str, object] = {"block_size": block}
    if not first or coin(rng):
        given["blocks_first"] = first
    if coin(rng, 0.4):
        given["data_format"] = "NXC"
        x, y = np.moveaxis(x, 1, -1), np.moveaxis(y, 1, -1)
    if name in ("batch_to_space", "depth_to_space"):
        x, y = y, x
    return Case(f"layout.{name}", given, (np.ascontiguousarray(x),), (y,))


def _depth_onnx(name: str, rng: Rng) -> Case:
    block, first = integer(rng, 1, 3), coin(rng)
    space = [integer(rng, 1, 4), integer(rng, 1, 4)]
    given: dict[str, object] = {"block_size": [block, block]}
    batch, channels = integer(rng, 1, 2), integer(rng, 1, 3)
    if name == "space_to_depth":
        x = reals(rng, [batch, channels, *(n * block for n in space)])
        y = run_onnx("SpaceToDepth", [x], blocksize=block)
    else:
        x = reals(rng, [batch, channels * block**2, *space])
        mode = "DCR" if first else "CRD"
        y = run_onnx("DepthToSpace", [x], blocksize=block, mode=mode)
        given["blocks_first"] = first
    return Case(f"layout.{name}", given, (x,), (y,))


_NAMES = ("space_to_batch", "batch_to_space", "space_to_depth", "depth_to_space")

FAMILIES = [
    *(Family(f"layout.{n}", partial(_case, n), "NumPy") for n in _NAMES),
    *(
        Family(f"layout.{n}", partial(_depth_onnx, n), "ONNX Runtime")
        for n in ("space_to_depth", "depth_to_space")
    ),
]
