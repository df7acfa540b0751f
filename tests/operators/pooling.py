"""Cases of pooling; oracles are NumPy, PyTorch and ONNX Runtime.

Each way to treat the border has its turn: padding given or found, whole windows only or also
parts of them (`ceil_mode`), an average of the taps inside the input or of all (`ignore_border`).
PyTorch and ONNX define the same numbers where every window begins inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F

from .case import Case, Family
from .draw import Rng, axes, choice, coin, integer, reals, signed
from .onnx_oracle import run_onnx
from .windows import Window, automatic, draw_windows, taps

# --------------------------------------------------------------------------- NumPy


def _pool(name: str, rng: Rng) -> Case:
    rank = integer(rng, 3, 5)
    if coin(rng, 0.5):
        chosen = list(range(2, rank))
        given: dict[str, object] = {}
    else:
        rank = integer(rng, 1, 4)
        chosen = axes(rng, rank, least=1)
        given = {"axes": [signed(rng, a, rank) for a in chosen]}
    extents = [integer(rng, 1, 3) for _ in range(rank)]
    for axis in chosen:
        extents[axis] = integer(rng, 2, 8 if len(chosen) < 3 else 5)
    windows, ceil, more = draw_windows(rng, [extents[a] for a in chosen])
    given |= {"size": [w.size for w in windows], **more}
    x = reals(rng, extents)
    last = tuple(range(-len(chosen), 0))
    if name == "max_pool":
        y = taps(x, chosen, windows, ceil, -np.inf).max(last)
    elif name == "sum_pool":
        y = taps(x, chosen, windows, ceil, 0.0).sum(last)
    elif name == "lp_pool":
        p = float(integer(rng, 1, 8)) / 2
        given["p"] = p
        y = (taps(np.abs(x), chosen, windows, ceil, 0.0) ** p).sum(last) ** (1 / p)
    else:
        ignore = coin(rng)
        if not ignore or coin(rng):
            given["ignore_border"] = ignore
        z = x * x if name == "rms_pool" else x
        sums = taps(z, chosen, windows, ceil, 0.0).sum(last)
        inside = taps(np.ones_like(x), chosen, windows, ceil, 0.0).sum(last)
        count = np.maximum(inside, 1.0) if ignore else math.prod(w.size for w in windows)
        y = np.sqrt(sums / count) if name == "rms_pool" else sums / count
    return Case(f"nn.{name}", given, (x,), (np.asarray(y),))


# ------------------------------------------------------------- PyTorch, ONNX Runtime


def _begins_inside(w: Window, extent: int, ceil: bool) -> bool:
    """Whether the last window begins before the end of the input."""
    return (w.count(extent, ceil) - 1) * w.stride < extent + w.before


def _is_whole(w: Window, extent: int, ceil: bool) -> bool:
    """Whether the last window ends before the end of the padded input."""
    return (w.count(extent, ceil) - 1) * w.stride + w.reach <= extent + w.before + w.after


def _suit(
    windows: Sequence[Window], space: Sequence[int], ceil: bool, whole: bool, inner: int
) -> bool:
    """Whether the oracles take such windows: padding less than `inner` parts of the size."""
    return all(
        max(w.before, w.after) * inner <= w.size - (inner == 1)
        and _begins_inside(w, n, ceil)
        and (not whole or _is_whole(w, n, ceil))
        for w, n in zip(windows, space, strict=True)
    )


def _torch(name: str, ceil: bool, ignore: bool, rng: Rng) -> Case:
    """Padding of at most half a window, the same on both sides; of averages, no dilation."""
    while True:
        space = [integer(rng, 3, 9) for _ in range(2)]
        windows = []
        for _ in space:
            size = integer(rng, 1, 4)
            pad = integer(rng, 0, size // 2)
            dilation = integer(rng, 1, 2) if name == "max_pool" else 1
            windows.append(Window(size, integer(rng, 1, 3), dilation, pad, pad))
        fits = all(n + 2 * w.before >= w.reach for w, n in zip(windows, space, strict=True))
        if fits and _suit(windows, space, ceil, not ignore and name != "max_pool", 2):
            break
    x = reals(rng, [2, 3, *space])
    given: dict[str, object] = {
        "size": [w.size for w in windows],
        "stride": [w.stride for w in windows],
        "padding": [w.before for w in windows] * 2,
        "ceil_mode": ceil,
    }
    sizes, strides, pads = ([getattr(w, n) for w in windows] for n in ("size", "stride", "before"))
    z = torch.from_numpy(x * x if name == "rms_pool" else x)
    if name == "max_pool":
        dilations = [w.dilation for w in windows]
        given["dilation"] = dilations
        y = F.max_pool2d(z, sizes, strides, pads, dilations, ceil)
    elif name == "sum_pool":
        y = F.avg_pool2d(z, sizes, strides, pads, ceil, divisor_override=1)
    else:
        given["ignore_border"] = ignore
        y = F.avg_pool2d(z, sizes, strides, pads, ceil, count_include_pad=not ignore)
    return Case(f"nn.{name}", given, (x,), ((y.sqrt() if name == "rms_pool" else y).numpy(),))


def _onnx(name: str, ceil: bool, ignore: bool, rng: Rng) -> Case:
    """Padding of any size on each side."""
    rank = choice(rng, (1, 2))
    while True:
        space = [integer(rng, 4, 9) for _ in range(rank)]
        windows, drawn, given = draw_windows(rng, space, explicit=True)
        if drawn is ceil and _suit(windows, space, ceil, not ignore, 1):
            break
    pads = [w.before for w in windows] + [w.after for w in windows]
    return _onnx_case(name, rng, space, windows, given, ignore, pads=pads, ceil_mode=int(ceil))


def _onnx_same(name: str, align: str, ignore: bool, rng: Rng) -> Case:
    """Padding that is found, for as many windows as strides fit into the input or begin in it."""
    rank = choice(rng, (1, 2))
    while True:
        space = [integer(rng, 4, 9) for _ in range(rank)]
        plain = [Window(integer(rng, 1, 4), integer(rng, 1, 3)) for _ in space]
        windows = [automatic(w, n, align, True) for w, n in zip(plain, space, strict=True)]
        if all(min(w.before, w.after) >= 0 for w in windows):
            break
    given: dict[str, object] = {
        "stride": [w.stride for w in windows], "padding_align": align, "ceil_mode": True,
    }  # fmt: skip
    return _onnx_case(name, rng, space, windows, given, ignore, auto_pad=f"SAME_{align}")


def _onnx_case(
    name: str,
    rng: Rng,
    space: Sequence[int],
    windows: Sequence[Window],
    given: dict[str, object],
    ignore: bool,
    **attributes: object,
) -> Case:
    x = reals(rng, [2, 3, *space])
    attributes |= {
        "kernel_shape": [w.size for w in windows],
        "strides": [w.stride for w in windows],
        "dilations": [w.dilation for w in windows],
    }
    given["size"] = [w.size for w in windows]
    if name == "lp_pool":
        p = integer(rng, 1, 3)
        given["p"], attributes["p"] = float(p), p
    if name == "avg_pool":
        given["ignore_border"], attributes["count_include_pad"] = ignore, int(not ignore)
    operator = {"max_pool": "MaxPool", "avg_pool": "AveragePool", "lp_pool": "LpPool"}[name]
    return Case(f"nn.{name}", given, (x,), (run_onnx(operator, [x], **attributes),))


_AVERAGES = ("avg_pool", "rms_pool")
_BOTH = (False, True)


def _rules(name: str) -> list[tuple[bool, bool]]:
    """The choices of `ceil_mode` and `ignore_border`."""
    return list(product(_BOTH, _BOTH if name in _AVERAGES else (True,)))


def _onnx_makes(name: str) -> tuple[partial[Case], ...]:
    ignored = _BOTH if name in _AVERAGES else (True,)
    given = [partial(_onnx, name, *rule) for rule in _rules(name)]
    found = [partial(_onnx_same, name, *rule) for rule in product(("UPPER", "LOWER"), ignored)]
    return (*given, *found)


FAMILIES = [
    *(
        Family(f"nn.{n}", partial(_pool, n), "NumPy", 40)
        for n in ("max_pool", "sum_pool", "avg_pool", "rms_pool", "lp_pool")
    ),
    *(
        Family(f"nn.{n}", [partial(_torch, n, *rule) for rule in _rules(n)], "PyTorch")
        for n in ("max_pool", "sum_pool", "avg_pool", "rms_pool")
    ),
    *(
        Family(f"nn.{n}", _onnx_makes(n), "ONNX Runtime", 32)
        for n in ("max_pool", "avg_pool", "lp_pool")
    ),
]
