"""The networks of `examples` with weights, each with its twin in PyTorch and that twin as ONNX.

    case("resnet50", batch=1)

Weights are random, but of a scale that keeps activations near 1, and the same for the same name.
"""

from __future__ import annotations

import io
import math
import warnings
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import ricci
from ricci.ir.nodes import Port, Tensor
from ricci.ir.shapes import as_int

from . import twins

EXAMPLES = Path(__file__).parents[1] / "examples"

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A network at one batch size: in Ricci, in PyTorch and as the bytes of an ONNX model."""

    name: str
    batch: int
    model: ricci.Model
    inputs: Arrays
    """What the model takes by name, and `module` in this order."""
    module: nn.Module
    """The same network with the same weights, in float32, for inference."""
    onnx: bytes
    onnx_inputs: Arrays
    """What the ONNX model takes by name: `inputs`, and state that Ricci keeps in variables."""
    flops: float
    """Twice the multiply-adds of its products and convolutions."""


@dataclass(frozen=True)
class _Network:
    """How a case is made: the attributes for tests, and factors of weights whose names end so."""

    twin: Callable[..., nn.Module]
    small: Mapping[str, Any]
    gains: Mapping[str, float] = field(default_factory=dict)


_NETWORKS = {
    "resnet50": _Network(
        twins.ResNet50,
        {"image": 64, "width": 8, "blocks": [2, 1, 2, 1], "classes": 10},
        {"expand.norm.scale": 0.2},
    ),
    "mobilenetv2": _Network(
        twins.MobileNetV2,
        {
            "image": 64,
            "stem_channels": 8,
            "channels": [4, 6, 8, 8, 12, 12, 16],
            "blocks": [1, 2, 1, 1, 2, 1, 1],
            "head_channels": 32,
            "classes": 10,
        },
        {"project.norm.scale": 0.5},
    ),
    "encoder": _Network(
        twins.Encoder,
        {"tokens": 5, "width": 24, "heads": 3, "hidden": 40, "layers": 2},
        {"filter": 0.7},
    ),
    "lstm": _Network(twins.LSTM, {"steps": 4, "features": 6, "hidden": 5}, {".W": 0.7, ".R": 0.5}),
    "gpt": _Network(
        twins.GPT,
        {"vocabulary": 50, "cache": 7, "width": 24, "heads": 3, "hidden": 40, "layers": 2},
        {"filter": 0.7, "_embedding": 0.7},
    ),
    "unet": _Network(
        twins.UNet,
        {"image": 16, "widths": [4, 6, 8], "classes": 3},
        {"enlarge.filter": math.sqrt(2.0)},
    ),
}

NAMES = tuple(_NETWORKS)

SMALL = {name: network.small for name, network in _NETWORKS.items()}
"""Attributes for tests."""


def case(name: str, batch: int, small: bool = False) -> Case:
    """The network `name`, at its real size or, for tests, at a `small` one."""
    network = _NETWORKS[name]
    attribs = {"batch": batch, **(network.small if small else {})}
    model = ricci.load(EXAMPLES / name / f"{name}.nnef2", attribs=attribs)
    set_weights(model, network.gains)
    module = network.twin(**attribs).eval()
    twins.take_weights(module, model.variables)
    inputs = draw_inputs(model)
    stateless, fed = without_state(module, inputs)
    onnx = export(stateless, fed)
    return Case(name, batch, model, inputs, module, onnx, fed, count_flops(module, inputs))


def set_weights(model: ricci.Model, gains: Mapping[str, float]) -> None:
    """Give every variable its random value, times the gain that its name asks for."""
    for tensor in model.graph.variables:
        gain = math.prod(g for end, g in gains.items() if tensor.name.endswith(end))
        values = draw(tensor.name, shape_of(tensor)) * gain
        model.variables[tensor.name] = values.astype(np.float32)


def draw(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values for a variable, by the last part of its name.

    Matrices and filters are normal, with the variance that keeps that of activations through
    rectifiers (K. He et al., "Delving Deep into Rectifiers", 2015).
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    last = name.rpartition(".")[2]
    if last in ("scale", "running_variance"):
        return rng.uniform(0.8, 1.2, shape)
    if last in ("bias", "B", "running_mean"):
        return rng.normal(0.0, 0.1, shape)
    if last in ("keys", "values"):
        return rng.normal(0.0, 1.0, shape)
    return rng.standard_normal(shape, np.float32) * math.sqrt(2.0 / math.prod(shape[1:]))


def draw_inputs(model: ricci.Model) -> Arrays:
    rng = np.random.default_rng(0)
    return {p.name: _draw_input(rng, p, model) for p in model.graph.inputs}


def _draw_input(rng: np.random.Generator, port: Port, model: ricci.Model) -> np.ndarray:
    """Random numbers or tokens. A step of a GPT is the last that its cache has room for."""
    shape = shape_of(port.tensors[0])
    if port.name == "position":
        return np.array(len(model.variables["main.GPT.position_embedding"]) - 1)
    if port.name == "token":
        return rng.integers(0, len(model.variables["main.GPT.token_embedding"]), shape)
    return rng.standard_normal(shape, np.float32)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(as_int(extent) or 0 for extent in tensor.shape)


def without_state(module: nn.Module, inputs: Arrays) -> tuple[nn.Module, Arrays]:
    """What is exported, and its inputs: ONNX has no variables that a call updates.

    So a step of a GPT takes the keys and values of the tokens before, and no more than these: it
    needs no mask, and gives the new rows alone, which a caller writes behind the others.
    """
    if not isinstance(module, twins.GPT):
        return module, inputs
    past = {
        f"{name}{number}": getattr(layer.attention, name)[:, :, : int(inputs["position"])]
        for number, layer in enumerate(module.layers)
        for name in ("keys", "values")
    }
    return twins.GPTStep(module), inputs | {n: t.contiguous().numpy() for n, t in past.items()}


def count_flops(module: nn.Module, inputs: Arrays) -> float:
    """Twice the multiply-adds of one call, as PyTorch counts them."""
    with warnings.catch_warnings(), ExitStack() as modes:
        warnings.simplefilter("ignore")  # of the next line, on a machine without a GPU
        modes.enter_context(torch.backends.mkldnn.flags(enabled=False))  # its LSTM counts nothing
        counter = modes.enter_context(FlopCounterMode(display=False))
        modes.enter_context(torch.no_grad())
        module(*as_tensors(inputs))
    return float(counter.get_total_flops())


def export(module: nn.Module, inputs: Arrays) -> bytes:
    """The module as an ONNX model. Normalisations stay operators, for the engines to fold."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is deprecated
        torch.onnx.export(
            module,
            as_tensors(inputs),
            file,
            dynamo=False,
            opset_version=17,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=list(inputs),
        )
    return file.getvalue()


def as_tensors(inputs: Arrays) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(array) for array in inputs.values())
