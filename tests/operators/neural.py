"""Cases of activations and normalisation; oracles are PyTorch and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from .case import Array, Case, Family
from .draw import Rng, axes, choice, coin, integer, positive, reals, shape, signed
from .onnx_oracle import run_onnx
from .windows import Window, taps

# ---------------------------------------------------------------- activations 4.4.3

_EDGES = np.array([-1e4, -200, -90, -20, -1e-8, 0, 1e-8, 20, 90, 200, 1e4], dtype=np.float32)


def _points(rng: Rng) -> Array:
    """Reals around zero, and some far off, where exponentials overflow."""
    x = reals(rng, shape(rng), -6, 6)
    if coin(rng, 0.6):
        far = rng.choice(_EDGES.astype(np.float64), x.shape)
        x = np.where(rng.random(x.shape) < 0.3, far, x)
    return x


def _tensor(x: Array) -> torch.Tensor:
    return torch.from_numpy(x.copy())


Activation = Callable[[torch.Tensor, Rng], tuple[torch.Tensor, dict[str, object]]]


def _relu(x: torch.Tensor, rng: Rng) -> tuple[torch.Tensor, dict[str, object]]:
    alpha = choice(rng, (None, None, 0.0, 0.125, 0.5, 1.0))
    limit = choice(rng, (None, None, 0.5, 6.0))
    y = F.leaky_relu(x, alpha or 0.0)
    if limit is not None:
        y = torch.where(x < 0, y, x.clamp(max=limit))
    return y, {"alpha": alpha, "max": limit}


def _thresholded(x: torch.Tensor, rng: Rng) -> tuple[torch.Tensor, dict[str, object]]:
    theta = choice(rng, (None, 0.0, 0.5, 1.25))
    return F.threshold(x, theta or 0.0, 0.0), {"theta": theta}


def _elu(x: torch.Tensor, rng: Rng) -> tuple[torch.Tensor, dict[str, object]]:
    alpha = choice(rng, (None, 0.5, 2.0))
    return F.elu(x, 1.0 if alpha is None else alpha), {"alpha": alpha}


def _selu(x: torch.Tensor, rng: Rng) -> tuple[torch.Tensor, dict[str, object]]:
    if coin(rng):
        return F.selu(x), {}
    return 1.5 * F.elu(x, 0.75), {"alpha": 0.75, "lambda": 1.5}


def _gelu(x: torch.Tensor, rng: Rng) -> tuple[torch.Tensor, dict[str, object]]:
    method = choice(rng, (None, "TANH", "SIGMOID"))
    if method == "SIGMOID":
        return x * torch.sigmoid(1.702 * x), {"approximate": method}
    return F.gelu(x, approximate="tanh" if method else "none"), {"approximate": method}


def _plain(function: Callable[[torch.Tensor], torch.Tensor]) -> Activation:
    return lambda x, rng: (function(x), {})


_ACTIVATIONS: dict[str, Activation] = {
    "relu": _relu,
    "thresholded_relu": _thresholded,
    "elu": _elu,
    "selu": _selu,
    "gelu": _gelu,
    "silu": _plain(F.silu),
    "sigmoid": _plain(torch.sigmoid),
    "softplus": _plain(F.softplus),
    "erf": _plain(torch.erf),
}


def _activation(name: str, rng: Rng) -> Case:
    x = _points(rng)
    y, given = _ACTIVATIONS[name](_tensor(x), rng)
    return Case(f"nn.{name}", given, (x,), (y.numpy(),))


def prelu(rng: Rng) -> Case:
    x = reals(rng, shape(rng, integer(rng, 2, 4)))
    axis = integer(rng, 0, x.ndim - 1)
    alpha = reals(rng, [x.shape[axis]])
    y = F.prelu(_tensor(np.moveaxis(x, axis, 1)), _tensor(alpha)) if x.size else _tensor(x)
    given = {} if axis == 1 and coin(rng) else {"axis": signed(rng, axis, x.ndim)}
    expected = np.moveaxis(y.numpy(), 1, axis) if x.size else x
    return Case("nn.prelu", given, (x, alpha), (expected,))


# -------------------------------------------------------------- normalisation 4.4.4


def _maybe(rng: Rng, extents: list[int]) -> Array | None:
    return reals(rng, extents) if coin(rng) else None


def batch_norm(rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 2, 4)))
    axis = integer(rng, 0, x.ndim - 1)
    count = [x.shape[axis]]
    mean, variance = reals(rng, count), reals(rng, count, 0.1, 2)
    bias, scale = _maybe(rng, count), _maybe(rng, count)
    epsilon = choice(rng, (1e-5, 1e-3, 0.25))
    given: dict[str, object] = {} if epsilon == 1e-5 and coin(rng) else {"epsilon": epsilon}
    if axis != 1 or coin(rng):
        given["channel_axis"] = signed(rng, axis, x.ndim)
    y = F.batch_norm(
        _tensor(np.moveaxis(x, axis, 1)),
        _tensor(mean),
        _tensor(variance),
        None if scale is None else _tensor(scale),
        None if bias is None else _tensor(bias),
        eps=epsilon,
    )
    expected = np.moveaxis(y.numpy(), 1, axis)
    return Case("nn.batch_norm", given, (x, mean, variance, bias, scale), (expected,))


def mean_variance_norm(rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 3, 4)))
    given: dict[str, object] = {}
    if coin(rng, 0.6):
        chosen = list(range(2, x.ndim))
    else:
        chosen = axes(rng, x.ndim, least=1)
        given = {"axes": [signed(rng, a, x.ndim) for a in chosen]}
    bias, scale = _maybe(rng, [x.shape[1]]), _maybe(rng, [x.shape[1]])
    epsilon = choice(rng, (1e-5, 1e-2))
    if epsilon != 1e-5:
        given["epsilon"] = epsilon
    variance, mean = torch.var_mean(_tensor(x), chosen, correction=0, keepdim=True)
    y = ((_tensor(x) - mean) / torch.sqrt(variance + epsilon)).numpy()
    column = [-1, *[1] * (x.ndim - 2)]
    y = y * (1 if scale is None else scale.reshape(column))
    y = y + (0 if bias is None else bias.reshape(column))
    return Case("nn.mean_variance_norm", given, (x, bias, scale), (y,), tolerance=1e-4)


def local_response_norm(rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 2, 4), 7))
    chosen = [1] if coin(rng) else axes(rng, x.ndim, least=1)
    given: dict[str, object] = {}
    if chosen != [1] or coin(rng):
        given["axes"] = [signed(rng, a, x.ndim) for a in chosen]
    windows = []
    for _ in chosen:
        size = integer(rng, 1, 4)
        windows.append(Window(size, 1, 1, (size - 1) // 2, size // 2))
    given["size"] = [w.size for w in windows]
    alpha, beta, bias = 1.0, 0.5, 1.0
    if coin(rng):
        alpha, beta, bias = choice(rng, (0.5, 2.0)), choice(rng, (0.25, 0.75)), 2.0
        given |= {"alpha": alpha, "beta": beta, "bias": bias}
    mean = taps(x * x, chosen, windows, False, 0.0).mean(tuple(range(-len(chosen), 0)))
    return Case("nn.local_response_norm", given, (x,), (x / (bias + alpha * mean) ** beta,))


def local_response_norm_onnx(rng: Rng) -> Case:
    x = reals(rng, [2, integer(rng, 1, 8), integer(rng, 1, 5), integer(rng, 1, 5)])
    size = choice(rng, (1, 3, 5))
    alpha, beta, bias = choice(rng, (0.5, 2.0)), choice(rng, (0.25, 0.75)), 1.5
    y = run_onnx("LRN", [x], size=size, alpha=alpha, beta=beta, bias=bias)
    given = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    return Case("nn.local_response_norm", given, (x,), (y,))


def _norm(p: int, rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 1, 4)))
    x = np.where(rng.random(x.shape) < 0.2, 0.0, x)
    chosen = axes(rng, x.ndim, least=1)
    given: dict[str, object] = {"axes": [signed(rng, a, x.ndim) for a in chosen]}
    bias, epsilon = choice(rng, (None, 0.5)), choice(rng, (1e-3, 2.0))
    given |= {"bias": bias, "epsilon": epsilon}
    norm = torch.linalg.vector_norm(_tensor(x), p, chosen, keepdim=True)
    y = _tensor(x) / (norm + (bias or 0.0)).clamp(min=epsilon)
    return Case(f"nn.l{p}_norm", given, (x,), (y.numpy(),))


def softmax(rng: Rng) -> Case:
    x = reals(rng, positive(rng, integer(rng, 2, 4), 9), -9, 9)
    if coin(rng, 0.3):
        x = x * 100.0
    chosen = [1] if coin(rng) else axes(rng, x.ndim, least=1)
    given = {}
    if chosen != [1] or coin(rng):
        given["axes"] = [signed(rng, a, x.ndim) for a in chosen]
    behind = np.moveaxis(x, chosen, range(-len(chosen), 0))
    split = x.ndim - len(chosen)
    y = torch.softmax(_tensor(behind.reshape([*behind.shape[:split], -1])), -1).numpy()
    expected = np.moveaxis(y.reshape(behind.shape), range(-len(chosen), 0), chosen)
    return Case("nn.softmax", given, (x,), (expected,))


FAMILIES = [
    *(Family(f"nn.{n}", partial(_activation, n), "PyTorch") for n in _ACTIVATIONS),
    Family("nn.prelu", prelu, "PyTorch"),
    Family("nn.batch_norm", batch_norm, "PyTorch"),
    Family("nn.mean_variance_norm", mean_variance_norm, "PyTorch"),
    Family("nn.local_response_norm", local_response_norm, "NumPy"),
    Family("nn.local_response_norm", local_response_norm_onnx, "ONNX Runtime"),
    Family("nn.l1_norm", partial(_norm, 1), "PyTorch"),
    Family("nn.l2_norm", partial(_norm, 2), "PyTorch"),
    Family("nn.softmax", softmax, "PyTorch"),
]
