"""Windows, and cases of linear layers and convolution; oracles are PyTorch and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view

from .case import Array, Case, Family
from .draw import Rng, choice, coin, integer, reals
from .onnx_oracle import run_onnx

# ------------------------------------------------------------ the arithmetic of windows


@dataclass(frozen=True)
class Window:
    """How a window moves along one dimension."""

    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def reach(self) -> int:
        """The elements from the first tap to the last."""
        return (self.size - 1) * self.dilation + 1

    def count(self, extent: int, ceil: bool) -> int:
        """How many windows there are."""
        free = extent + self.before + self.after - self.reach
        return (-(-free // self.stride) if ceil else free // self.stride) + 1


def halves(total: int, align: str) -> tuple[int, int]:
    """Padding before and after, with the odd element behind (UPPER) or in front (LOWER)."""
    before = total // 2 if align == "UPPER" else -(-total // 2)
    return before, total - before


def automatic(w: Window, extent: int, align: str, ceil: bool) -> Window:
    """The window with padding for as many outputs as strides fit into the extent."""
    count = -(-extent // w.stride) if ceil else extent // w.stride
    before, after = halves((count - 1) * w.stride + w.reach - extent, align)
    return Window(w.size, w.stride, w.dilation, before, after)


def draw_windows(
    rng: Rng, extents: Sequence[int], most: int = 3, explicit: bool | None = None
) -> tuple[list[Window], bool, dict[str, object]]:
    """Windows for dimensions of these extents, whether ceil_mode is on, and the attributes."""
    while True:
        found = _try_windows(rng, extents, most, explicit)
        if found is not None:
            return found


def _try_windows(
    rng: Rng, extents: Sequence[int], most: int, explicit: bool | None
) -> tuple[list[Window], bool, dict[str, object]] | None:
    count, ceil = len(extents), coin(rng, 0.3)
    given: dict[str, object] = {}
    sizes = [integer(rng, 1, most) for _ in range(count)]
    strides = _per_dimension(rng, count, "stride", given)
    dilations = _per_dimension(rng, count, "dilation", given)
    windows = [Window(*w) for w in zip(sizes, strides, dilations, strict=True)]
    if coin(rng, 0.7) if explicit is None else explicit:
        before = [integer(rng, 0, 2) for _ in range(count)]
        after = [integer(rng, 0, 2) for _ in range(count)]
        if count and coin(rng, 0.3):
            before = after = [before[0]] * count
            given["padding"] = before[0]
        else:
            given["padding"] = [*before, *after]
        windows = [
            Window(w.size, w.stride, w.dilation, b, a)
            for w, b, a in zip(windows, before, after, strict=True)
        ]
    else:
        align = choice(rng, ("UPPER", "LOWER"))
        given["padding_align"] = align
        windows = [automatic(w, n, align, ceil) for w, n in zip(windows, extents, strict=True)]
    if ceil or coin(rng, 0.2):
        given["ceil_mode"] = ceil
    fits = all(
        n + w.before + w.after >= w.reach and w.count(n, ceil) > 0
        for w, n in zip(windows, extents, strict=True)
    )
    return (windows, ceil, given) if fits else None


def _per_dimension(rng: Rng, count: int, name: str, given: dict[str, object]) -> list[int]:
    """Strides or dilations: left out, one for all, or one each."""
    draw = rng.random()
    if draw < 0.4:
        return [1] * count
    if draw < 0.6:
        value = integer(rng, 1, 3)
        given[name] = value
        return [value] * count
    values = [integer(rng, 1, 3) for _ in range(count)]
    given[name] = values
    return values


# --------------------------------------------------------------------- linear 4.4.1


def linear(rng: Rng) -> Case:
    b, c, n = (max(1, int(k)) for k in rng.integers(0, choice(rng, (20, 20, 80)), 3))
    x, w = reals(rng, [b, c]), reals(rng, [n, c])
    bias = reals(rng, [n]) if coin(rng) else None
    tensors = (torch.from_numpy(x), torch.from_numpy(w))
    expected = F.linear(*tensors, None if bias is None else torch.from_numpy(bias))
    return Case("nn.linear", {}, (x, w, bias), (expected.numpy(),))


_FORMATS = {"NCX": "NCX", "NXC": "NXC", "XCN": "XCN", "CXN": "CXN"}


def formatted(x: Array, format: str) -> Array:
    """A tensor [N, C, X..] with its dimensions in the order of a format."""
    space = list(range(2, x.ndim))
    order = {"N": [0], "C": [1], "X": space}
    return np.ascontiguousarray(x.transpose([d for letter in format for d in order[letter]]))


def _formats(rng: Rng, given: dict[str, object]) -> tuple[str, str]:
    data = choice(rng, ("NCX", "NCX", "NXC", "XCN"))
    filter = choice(rng, ("NCX", "NCX", "NXC", "XCN", "CXN"))
    if data != "NCX":
        given["data_format"] = data
    if filter != "NCX":
        given["filter_format"] = filter
    return data, filter


def _groups(rng: Rng, given: dict[str, object]) -> tuple[int, int]:
    """The number of groups, and channels in each; groups = 0 is one per channel."""
    groups, each = (
        (1, integer(rng, 1, 5)) if coin(rng) else (integer(rng, 1, 3), integer(rng, 1, 3))
    )
    if coin(rng, 0.2):
        groups, each = integer(rng, 1, 6), 1
        given["groups"] = 0
    elif groups != 1 or coin(rng, 0.2):
        given["groups"] = groups
    return groups, each


_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_DECONV = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def conv(rng: Rng) -> Case:
    rank = choice(rng, (1, 2, 2, 2, 3))
    space = [integer(rng, 3, 9 if rank < 3 else 5) for _ in range(rank)]
    windows, ceil, given = draw_windows(rng, space)
    groups, each = _groups(rng, given)
    outputs = groups * integer(rng, 1, 3)
    if "groups" not in given and coin(rng, 0.3):  # beyond the tiles of a kernel
        each, outputs = integer(rng, 8, 40), integer(rng, 8, 40)
    data, filter = _formats(rng, given)
    x = reals(rng, [integer(rng, 1, 3), groups * each, *space])
    w = reals(rng, [outputs, each, *(v.size for v in windows)])
    bias = reals(rng, [outputs]) if coin(rng) else None
    # What ceil_mode adds is reached by padding behind.
    pads = []
    for v, n in zip(windows, space, strict=True):
        needed = (v.count(n, ceil) - 1) * v.stride + v.reach
        pads.append((v.before, needed - n - v.before))
    flat = [p for pair in reversed(pads) for p in pair]
    y = _CONV[rank](
        F.pad(torch.from_numpy(x), flat),
        torch.from_numpy(w),
        None if bias is None else torch.from_numpy(bias),
        stride=[v.stride for v in windows],
        dilation=[v.dilation for v in windows],
        groups=groups,
    ).numpy()
    return Case("nn.conv", given, (formatted(x, data), formatted(w, filter), bias),
                (formatted(y, data),))  # fmt: skip


def deconv(rng: Rng) -> Case:
    rank = choice(rng, (1, 2, 2, 2, 3))
    space = [integer(rng, 1, 6 if rank < 3 else 4) for _ in range(rank)]
    while True:
        windows, _, given = draw_windows(rng, [20] * rank, explicit=True)
        full = [(n - 1) * w.stride + w.reach for w, n in zip(windows, space, strict=True)]
        if coin(rng, 0.3):  # as many outputs as inputs, times the stride
            del given["padding"]
            align = choice(rng, ("UPPER", "LOWER"))
            given["padding_align"] = align
            windows = [
                Window(w.size, w.stride, w.dilation, *halves(w.reach - w.stride, align))
                for w in windows
            ]
        result = [f - w.before - w.after for f, w in zip(full, windows, strict=True)]
        if coin(rng, 0.3):
            result = [
                r + integer(rng, 0, w.stride - 1) for r, w in zip(result, windows, strict=True)
            ]
            given["output_size"] = result
        if min(result) > 0:
            break
    given.pop("ceil_mode", None)
    groups, each = _groups(rng, given)
    channels = groups * each
    data, filter = _formats(rng, given)
    x = reals(rng, [integer(rng, 1, 3), channels, *space])
    w_ = reals(rng, [channels, integer(rng, 1, 3), *(v.size for v in windows)])
    bias = reals(rng, [groups * w_.shape[1]]) if coin(rng) else None
    y = _DECONV[rank](
        torch.from_numpy(x),
        torch.from_numpy(w_),
        stride=[v.stride for v in windows],
        dilation=[v.dilation for v in windows],
        groups=groups,
    ).numpy()
    crop = [(-v.before, r + v.before - f) for v, r, f in zip(windows, result, full, strict=True)]
    y = F.pad(torch.from_numpy(y), [p for pair in reversed(crop) for p in pair]).numpy()
    if bias is not None:
        y = y + bias.reshape(-1, *[1] * rank)
    return Case("nn.deconv", given, (formatted(x, data), formatted(w_, filter), bias),
                (formatted(y, data),))  # fmt: skip


def deconv_onnx(rng: Rng) -> Case:
    """Output sizes by ONNX's output_padding."""
    rank = choice(rng, (1, 2))
    strides = [integer(rng, 2, 3) for _ in range(rank)]
    extra = [integer(rng, 0, s - 1) for s in strides]
    x = reals(rng, [integer(rng, 1, 2), 4, *(integer(rng, 2, 5) for _ in range(rank))])
    groups = choice(rng, (1, 2, 4))
    w = reals(rng, [4, integer(rng, 1, 3), *(integer(rng, 2, 3) for _ in range(rank))])
    bias = reals(rng, [groups * w.shape[1]])
    pads = [integer(rng, 0, 1) for _ in range(2 * rank)]
    y = run_onnx(
        "ConvTranspose", [x, w, bias], strides=strides, pads=pads, output_padding=extra,
        group=groups,
    )  # fmt: skip
    given = {
        "stride": strides,
        "padding": pads,
        "groups": groups,
        "output_size": list(y.shape[2:]),
    }
    return Case("nn.deconv", given, (x, w, bias), (y,))


# ---------------------------------------------------------------- windows of an array


def taps(x: Array, chosen: Sequence[int], windows: Sequence[Window], ceil: bool,
         outside: float) -> Array:  # fmt: skip
    """The windows of an array in additional dimensions at the end, `outside` beside it."""
    y = x
    for axis, w in zip(chosen, windows, strict=True):
        count = w.count(x.shape[axis], ceil)
        needed = max(w.before + x.shape[axis], (count - 1) * w.stride + w.reach)
        front = np.full([*y.shape[:axis], max(0, w.before), *y.shape[axis + 1 :]], outside)
        behind = np.full(
            [*y.shape[:axis], max(0, needed - w.before - y.shape[axis]), *y.shape[axis + 1 :]],
            outside,
        )
        y = np.concatenate([front, y, behind], axis)
        y = np.take(y, range(max(0, -w.before), y.shape[axis]), axis)
        y = sliding_window_view(y, w.reach, axis)[..., :: w.dilation]
        y = np.take(y, range(0, count * w.stride, w.stride), axis)
    return y


FAMILIES = [
    Family("nn.linear", linear, "PyTorch"),
    Family("nn.conv", conv, "PyTorch", 60),
    Family("nn.deconv", deconv, "PyTorch", 60),
    Family("nn.deconv", deconv_onnx, "ONNX Runtime"),
]
