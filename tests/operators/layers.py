"""Cases of layers that own their weights, and of grids; the oracles are PyTorch and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from . import windows
from .case import Array, Case, Family
from .draw import Rng, choice, coin, integer, positive, reals


def _layer(case: Case, name: str, rng: Rng, **attributes: object) -> Case:
    """A case of an operator with inputs x, filter, bias as one whose weights are variables."""
    x, filter, bias = case.inputs
    assert isinstance(filter, np.ndarray)
    assert isinstance(case.expected[0], np.ndarray)
    given = {**attributes, **case.attributes}
    if bias is None:
        given["use_bias"] = False
        bias = reals(rng, [case.expected[0].shape[1]])
    assert isinstance(bias, np.ndarray)
    return replace(
        case,
        operator=f"layer.{name}",
        attributes=given,
        inputs=(x,),
        variables={"filter": filter, "bias": bias},
    )


def linear(rng: Rng) -> Case:
    case = windows.linear(rng)
    assert isinstance(case.inputs[1], np.ndarray)
    return _layer(case, "linear", rng, channels=len(case.inputs[1]))


def _suits(case: Case) -> bool:
    """Layers know the format NCX, count their groups, and always align padding in one way."""
    given = case.attributes
    formats = "data_format" not in given and "filter_format" not in given
    return formats and given.get("groups") != 0 and given.get("padding_align", "UPPER") == "UPPER"


def _window_case(make: Callable[[Rng], Case], rng: Rng) -> Case:
    while True:
        case = make(rng)
        if _suits(case):
            given = {n: v for n, v in case.attributes.items() if n != "padding_align"}
            return replace(case, attributes=given)


def conv(rng: Rng) -> Case:
    case = _window_case(windows.conv, rng)
    filter = case.inputs[1]
    assert isinstance(filter, np.ndarray)
    return _layer(case, "conv", rng, channels=len(filter), size=list(filter.shape[2:]))


def deconv(rng: Rng) -> Case:
    case = _window_case(windows.deconv, rng)
    filter = case.inputs[1]
    assert isinstance(filter, np.ndarray)
    return _layer(case, "deconv", rng, channels=filter.shape[1], size=list(filter.shape[2:]))


def batch_norm(rng: Rng) -> Case:
    """From running values, or from those of the batch, toward which the running ones move."""
    x = reals(rng, [integer(rng, 2, 4), *positive(rng, integer(rng, 1, 3))])
    names = ("running_mean", "running_variance", "bias", "scale")
    variables = {n: reals(rng, [x.shape[1]], 0.1, 2.0) for n in names}
    given: dict[str, object] = {n: False for n in ("use_bias", "use_scale") if coin(rng, 0.3)}
    momentum = choice(rng, (None, 0.0, 0.125, 0.5, 1.0))
    given |= {} if momentum is None else {"momentum": momentum}
    epsilon = choice(rng, (1e-5, 0.25))
    given |= {} if epsilon == 1e-5 else {"epsilon": epsilon}
    mean, variance = (torch.from_numpy(variables[n].copy()) for n in names[:2])
    y = F.batch_norm(
        torch.from_numpy(x),
        mean,
        variance,
        torch.from_numpy(variables["scale"]) if "use_scale" not in given else None,
        torch.from_numpy(variables["bias"]) if "use_bias" not in given else None,
        training=bool(momentum),
        momentum=momentum or 0.0,
        eps=epsilon,
    )
    moved = {names[0]: mean.numpy(), names[1]: variance.numpy()}
    if momentum:
        moved[names[1]] = _of_population(variance.numpy(), variables[names[1]], momentum, x)
    return Case(
        "layer.batch_norm", given, (x,), (y.numpy(),),
        tolerance=1e-4, variables=variables, updated=moved,
    )  # fmt: skip


def _of_population(moved: Array, old: Array, momentum: float, x: Array) -> Array:
    """The moved variance, of which PyTorch divides the new part by one item less."""
    kept = (1.0 - momentum) * old
    count = x.size // x.shape[1]
    return np.asarray(kept + (moved - kept) * (count - 1) / count)


def mesh_grid(rng: Rng) -> Case:
    inputs = [reals(rng, [integer(rng, 0 if coin(rng, 0.1) else 1, 6)]) for _ in range(3)]
    inputs = inputs[: integer(rng, 1, 3)]
    grids = np.meshgrid(*inputs, indexing="ij")
    return Case("misc.mesh_grid", {}, (inputs,), (list(grids),))


FAMILIES = [
    Family("layer.linear", linear, "PyTorch"),
    Family("layer.conv", conv, "PyTorch", 40),
    Family("layer.deconv", deconv, "PyTorch", 40),
    Family("layer.batch_norm", batch_norm, "PyTorch", 40),
    Family("misc.mesh_grid", mesh_grid, "NumPy"),
]
