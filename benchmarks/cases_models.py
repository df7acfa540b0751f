"""Whole networks with the weights of `models`, also on one core and beside another process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import nn

import ricci

from . import models
from .cases import Arrays, Call, Case, Row, draw, in_type

BATCHES = (1, 8)


def rows() -> Iterator[Row]:
    for name in models.NAMES:
        for batch in BATCHES:
            yield Row("models", f"{name}, batch {batch}", partial(case, name, batch), (), batch)
    for batch in BATCHES:
        yield Row("models", f"alexnet, batch {batch}", partial(alexnet, batch), (), batch)
    family = partial(case, "resnet50", 1)
    yield Row("cores", "resnet50, two threads", family, (), threads=2)
    yield Row("cores", "resnet50, one thread", family, (), threads=1)
    yield Row("cores", "resnet50, two threads beside a busy process", family, (), threads=2, busy=1)


def case(name: str, batch: int) -> Case:
    made = models.case(name, batch)
    return model_case(made.model, made.inputs, made.module, made.onnx, made.flops, made.onnx_inputs)


def model_case(
    model: ricci.Model,
    inputs: Arrays,
    module: nn.Module,
    onnx: bytes,
    flops: float,
    onnx_inputs: Arrays,
) -> Case:
    def build(threads: int, real: str = "float32") -> Call:
        given = in_type(inputs, real)
        return partial(model.compile(threads=threads, real=real), *given.values())

    return Case(
        inputs,
        build,
        module.to(memory_format=torch.channels_last),  # the faster one in PyTorch
        onnx,
        flops,
        dict(model.variables),
        onnx_inputs=onnx_inputs,
    )


def alexnet(batch: int) -> Case:
    """The example of the specification; its layers have numbers, so weights travel in order."""
    model = ricci.load(models.EXAMPLES / "alexnet" / "alexnet.nnef2", attribs={"batch": batch})
    module = alexnet_twin().eval()
    layers = [x for x in module if isinstance(x, nn.Conv2d | nn.Linear)]
    for number, layer in enumerate(layers, 1):
        weight = draw(*layer.weight.shape, seed=number) * np.sqrt(2 / layer.weight[0].numel())
        for name, array in [("kernel", weight.astype(np.float32)), ("bias", draw(len(weight)))]:
            model.variables[f"main.AlexNet.{name}{number}"] = array
            parameter = layer.weight if name == "kernel" else layer.bias
            parameter.data = torch.from_numpy(array)
    inputs = {"input": draw(batch, 3, 224, 224)}
    onnx, flops = models.export(module, inputs), models.count_flops(module, inputs)
    return model_case(model, inputs, module, onnx, flops, inputs)


def alexnet_twin() -> nn.Sequential:
    layers: list[nn.Module] = []
    for sizes, pooled in [
        ((3, 64, 11, 4, 0), True),
        ((64, 192, 5, 1, 2), True),
        ((192, 384, 3, 1, 1), False),
        ((384, 384, 3, 1, 1), False),
        ((384, 256, 3, 1, 1), True),
        ((256, 4096, 5, 1, 0), False),
    ]:
        layers += [nn.Conv2d(*sizes), nn.ReLU(), *([nn.MaxPool2d(3, 2)] if pooled else [])]
    layers += [nn.Flatten(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Softmax(1))
