"""Cases of the module quant; oracles are PyTorch, and NumPy looking through all values."""

from __future__ import annotations

import numpy as np
import torch

from .case import Array, Case, Family
from .draw import Rng, coin, integer, ints, positive, reals, signed

Attributes = dict[str, object]


def _range(bits: int, is_signed: bool, symmetric: bool) -> tuple[int, int]:
    """The least and greatest integer."""
    high = 2 ** (bits - 1) - 1 if is_signed else 2**bits - 1
    return (-high if symmetric else -high - 1) if is_signed else 0, high


def _integers(rng: Rng, least: int = 1) -> tuple[int, bool, bool, Attributes]:
    """Bits, whether they are signed and symmetric, and as attributes."""
    bits, is_signed, symmetric = integer(rng, least, 8), coin(rng, 0.7), coin(rng, 0.3)
    given: Attributes = {"bits": bits}
    if not is_signed or coin(rng):
        given["signed"] = is_signed
    if symmetric or coin(rng):
        given["symmetric"] = symmetric
    return bits, is_signed, symmetric, given


def _input(rng: Rng) -> tuple[Array, int, Attributes]:
    """A tensor, and the axis of its channels; of rank 0, no axis."""
    x = reals(rng, positive(rng, integer(rng, 0, 4)), -9, 9)
    axis = integer(rng, 0, max(0, x.ndim - 1))
    default = axis == 1 and coin(rng)
    return x, axis, {} if default else {"channel_axis": signed(rng, axis, max(1, x.ndim))}


def _column(values: Array, axis: int, rank: int) -> Array:
    """Values for the channels in the shape of a tensor, one or all of them."""
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def _listed(values: Array) -> object:
    return values.tolist() if len(values) > 1 else values[0]


def zero_point_torch(rng: Rng) -> Case:
    bits, is_signed, symmetric, given = _integers(rng, 2)
    low, high = _range(bits, is_signed, symmetric)
    x, axis, more = _input(rng)
    count = x.shape[axis] if x.ndim and coin(rng) else 1
    scale = reals(rng, [count], 0.05, 2)
    zero = ints(rng, [count], low, high)
    arguments = torch.from_numpy(x).float(), torch.from_numpy(scale).float()
    if count > 1:
        zeros = torch.from_numpy(zero).int()
        y = torch.fake_quantize_per_channel_affine(*arguments, zeros, axis, low, high)
    else:
        zeros = torch.tensor(zero[0]).int()
        y = torch.fake_quantize_per_tensor_affine(arguments[0], arguments[1][0], zeros, low, high)
    given |= {**more, "zero_point": _listed(zero), "scale": _listed(scale)}
    return Case("quant.zero_point_linear_quantize", given, (x,), (y.double().numpy(),))


def _nearest(x: Array, values: Array, axis: int) -> Array:
    """For each element the nearest of the values of its channel: a row each."""
    table = values if len(values) > 1 else np.repeat(values, x.shape[axis] if x.ndim else 1, 0)
    channels = np.arange(len(table))
    row = np.broadcast_to(_column(channels, axis, x.ndim), x.shape) if x.ndim else channels[0]
    near = np.abs(table[row] - x[..., None]).argmin(-1)
    return np.asarray(table[row, near])


def zero_point(rng: Rng) -> Case:
    bits, is_signed, symmetric, given = _integers(rng)
    low, high = _range(bits, is_signed, symmetric)
    x, axis, more = _input(rng)
    count = x.shape[axis] if x.ndim and coin(rng) else 1
    scale, zero = reals(rng, [count], 0.05, 2), ints(rng, [count], -20, 20)
    values = (np.arange(low, high + 1) - zero[:, None]) * scale[:, None]
    given |= {**more, "zero_point": _listed(zero), "scale": _listed(scale)}
    y = _nearest(x, values, axis)
    return Case("quant.zero_point_linear_quantize", given, (x,), (y,))


def min_max(rng: Rng) -> Case:
    bits, is_signed, symmetric, given = _integers(rng, 2)
    steps = 2**bits - 1 - (is_signed and symmetric)
    x, axis, more = _input(rng)
    count = x.shape[axis] if x.ndim and coin(rng) else 1
    low = reals(rng, [count], -8, 2)
    high = low if coin(rng, 0.1) else (low + reals(rng, [count], 0.1, 6)).astype(np.float32)
    high = high.astype(np.float64)
    values = low[:, None] + np.arange(steps + 1) * (high - low)[:, None] / steps
    given |= {**more, "min": _listed(low), "max": _listed(high)}
    y = _nearest(x, values, axis)
    return Case("quant.min_max_linear_quantize", given, (x,), (y,))


FAMILIES = [
    Family("quant.zero_point_linear_quantize", zero_point_torch, "PyTorch", 40),
    Family("quant.zero_point_linear_quantize", zero_point, "NumPy"),
    Family("quant.min_max_linear_quantize", min_max, "NumPy", 40),
]
