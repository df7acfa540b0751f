"""Networks of 8 bits: products of integers here, quantised operators of ONNX Runtime there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

import ricci

from . import models, quantised
from .cases import Call, Case, Row, set_variables

STEPS = 0.1
"""A number half way between two steps may go either way, and so does all that follows from it."""


def rows() -> Iterator[Row]:
    for name, make in (("resnet50", quantised.resnet50), ("mobilenetv2", quantised.mobilenetv2)):
        yield Row("quantised", f"{name} in 8 bits", partial(case, make), ())
    for sizes in ((64, 64, 56, 3), (64, 256, 56, 1), (256, 256, 14, 3), (512, 512, 7, 3)):
        yield Row("quantised", "conv {3}x{3} {0}-{1} @{2} in 8 bits", partial(case, _layer), sizes)


def _layer(channels: int, filters: int, size: int, window: int) -> quantised.Network:
    return quantised.layer(channels, filters, size, window)


def case(make: Callable[..., quantised.Network], *sizes: int) -> Case:
    """All sides quantise the same tensors by the same scales."""
    net = make(*sizes)
    inputs = {"x": np.random.default_rng(1).standard_normal(net.image, np.float32)}
    net.calibrate(inputs)
    module = net.module().eval()
    with torch.no_grad():
        result = module(*models.as_tensors(inputs))
    text = net.text(inputs, result)

    def build(threads: int) -> Call:
        run = ricci.parse(text, "skriptnd").compile(threads=threads, quantize=True)
        set_variables(run, net.weights)
        return partial(run, *inputs.values())

    flops = models.count_flops(module, inputs)
    onnx = models.export(module, inputs)
    return Case(inputs, build, module, onnx, flops, net.weights, different=STEPS)
