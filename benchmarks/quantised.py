"""Networks whose operands are quantised to 8 bits, for all sides alike: to 8 bits and back.

A network is written once, step by step; its text in SkriptND has the quantizers in `@quantize`, and
the module of PyTorch, which ONNX is exported from, as operators. Scales are those that the largest
values of a run in float32 ask for; of filters there is one for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn import functional as nn

from .cases import Arrays, graph_text

Values = dict[str, torch.Tensor]


@dataclass
class Network:
    """The steps so far; each names its result."""

    image: tuple[int, ...]
    lines: list[str] = field(default_factory=list)
    steps: list[Callable[[Values], None]] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    signed: dict[str, bool] = field(default_factory=dict)
    """The tensors that are quantised, and whether they have negative elements."""
    scales: dict[str, np.ndarray] = field(default_factory=dict)
    channels: dict[str, int] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self.channels["x"] = self.image[1]
        self.signed["x"] = True

    def conv(
        self,
        x: str,
        filters: int,
        window: int = 1,
        stride: int = 1,
        groups: int = 1,
        gain: float = 1,
    ) -> str:
        """A convolution that keeps the size, up to its stride, with a bias."""
        y, inner, pad = self._name("conv", filters), self.channels[x] // groups, window // 2
        w, b = f"{y}_w", f"{y}_b"
        size = (filters, inner, window, window)
        values = self.rng.standard_normal(size) * np.sqrt(2 / (inner * window**2)) * gain
        self._weights(w, values)
        self.weights[b] = self.rng.normal(0, 0.1, filters).astype(np.float32)
        stated = f"stride={stride}, padding={pad}, groups={groups}"

        def step(v: Values) -> None:
            v[y] = nn.conv2d(v[x], v[w], v[b], stride, pad, 1, groups)

        return self._add(f"{y} = nn.conv{{{stated}}}({x}, {w}, {b});", step, y)

    def relu(self, x: str, most: float | None = None) -> str:
        """A rectifier, whose results are quantised."""
        y = self._name("relu", self.channels[x])
        stated = "" if most is None else f"{{max={most}}}"
        self.signed[y] = False

        def step(v: Values) -> None:
            v[y] = torch.clamp(v[x], 0.0, most)

        return self._add(f"{y} = nn.relu{stated}({x});", step, y)

    def add(self, x: str, other: str) -> str:
        y = self._name("sum", self.channels[x])

        def step(v: Values) -> None:
            v[y] = v[x] + v[other]

        return self._add(f"{y} = math.add({x}, {other});", step, y)

    def pool(self, x: str) -> str:
        """The largest of 3 by 3, every other."""
        y = self._name("pool", self.channels[x])

        def step(v: Values) -> None:
            v[y] = nn.max_pool2d(v[x], 3, 2, 1)

        return self._add(f"{y} = nn.max_pool{{size=3, stride=2, padding=1}}({x});", step, y)

    def linear_head(self, x: str, classes: int) -> None:
        """The scores of classes, from the means of all pixels."""
        count = self.channels[x]
        self._weights("head", self.rng.standard_normal((classes, count)) / np.sqrt(count))
        self.signed["mean"] = False

        def mean(v: Values) -> None:
            v["mean"] = v[x].mean((2, 3))

        def linear(v: Values) -> None:
            v["y"] = nn.linear(v["mean"], v["head"])

        self._add(f"mean = math.mean_reduce{{axes=[2, 3], squeeze=true}}({x});", mean, "mean")
        self._add("y = nn.linear(mean, head);", linear, "y")

    def result(self, x: str) -> None:
        def step(v: Values) -> None:
            v["y"] = v[x]

        self._add(f"y = math.add({x}, 0.0);", step, "y")

    def quantise(self, x: str) -> str:
        """Quantise a tensor that may have negative elements."""
        self.signed[x] = True
        return x

    def _name(self, kind: str, channels: int) -> str:
        name = f"{kind}{len(self.lines)}"
        self.channels[name] = channels
        return name

    def _weights(self, name: str, values: np.ndarray) -> None:
        """Multiples of a step, as a quantised network has been trained to: of a weight half way
        between two, what is lost by one division would decide which it is."""
        largest = np.abs(values).reshape(len(values), -1).max(1)
        self.scales[name] = (largest / 127).astype(np.float32)
        steps = self.scales[name].reshape(-1, *[1] * (values.ndim - 1))
        self.weights[name] = (np.round(values / steps) * steps).astype(np.float32)

    def _add(self, line: str, step: Callable[[Values], None], name: str) -> str:
        self.lines.append(line)
        self.steps.append(step)
        return name

    # ------------------------------------------------------------------- sides

    def calibrate(self, inputs: Arrays) -> None:
        """Set the scales of all tensors by a run."""
        values = self._values(
            dict(inputs), {n: torch.from_numpy(w) for n, w in self.weights.items()}
        )
        with torch.no_grad():
            for name in ("x",):
                self._measure(name, values)
            for line, step in zip(self.lines, self.steps, strict=True):
                step(values)
                self._measure(line.partition(" ")[0], values)

    def _values(self, inputs: Arrays, weights: Values) -> Values:
        return {n: torch.from_numpy(a) for n, a in inputs.items()} | weights

    def _measure(self, name: str, values: Values) -> None:
        if name in self.signed:
            most = float(values[name].abs().max()) or 1.0
            self.scales[name] = np.array([most / (127 if self.signed[name] else 255)], np.float32)

    def text(self, inputs: Arrays, result: torch.Tensor) -> str:
        """The graph in SkriptND."""
        plain = graph_text(
            "\n".join(self.lines), inputs, self.weights, {"y": result}, "import quant;"
        )
        entries = "\n".join(map(self._entry, self.scales))
        at = plain.rindex("}")
        return f"{plain[:at]}@quantize {{ {entries} }}\n}}\n"

    def _entry(self, name: str) -> str:
        scale = [float(s) for s in self.scales[name]]
        signed = self.signed.get(name, True)
        axis = ", channel_axis=0" if name in self.weights else ""
        stated = f"scale={scale[0] if len(scale) == 1 else scale}, signed={str(signed).lower()}"
        return f"{name}: quant.zero_point_linear_quantize{{zero_point=0, bits=8, {stated}{axis}}};"

    def module(self) -> torch.nn.Module:
        """The network with quantisers in PyTorch."""
        return _Module(self)


class _Module(torch.nn.Module):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.weights = torch.nn.ParameterDict(
            {n: torch.nn.Parameter(torch.from_numpy(w), False) for n, w in network.weights.items()}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = self.network
        values = {"x": x} | {k: w.to(x.dtype) for k, w in self.weights.items()}
        for name in ("x", *self.weights):
            values[name] = self._quantised(name, values[name])
        for line, step in zip(n.lines, n.steps, strict=True):
            step(values)
            name = line.partition(" ")[0]
            values[name] = self._quantised(name, values[name])
        return values["y"]

    def _quantised(self, name: str, x: torch.Tensor) -> torch.Tensor:
        scales = self.network.scales.get(name)
        if scales is None:
            return x
        low, high = (-128, 127) if self.network.signed.get(name, True) else (0, 255)
        scale = torch.from_numpy(scales)
        if x.dtype == torch.float64:
            shape = (-1, *[1] * (x.ndim - 1))
            steps = scale.double().reshape(shape) if len(scales) > 1 else scale.double()
            return torch.clamp(torch.round(x / steps), low, high) * steps
        if len(scales) > 1:
            zeros = torch.zeros(len(scales), dtype=torch.int32)
            return torch.fake_quantize_per_channel_affine(x, scale, zeros, 0, low, high)
        return torch.fake_quantize_per_tensor_affine(x, float(scale), 0, low, high)


def resnet50(
    image: int = 224, width: int = 64, classes: int = 1000, blocks: tuple[int, ...] = (3, 4, 6, 3)
) -> Network:
    """ResNet-50 as it is for inference, its normalisations being in the filters."""
    net = Network((1, 3, image, image))
    x = net.pool(net.relu(net.conv("x", width, 7, 2)))
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = net.relu(net.conv(x, inner))
            y = net.relu(net.conv(y, inner, 3, stride))
            y = net.conv(y, 4 * inner, gain=0.3)
            short = x if block else net.conv(x, 4 * inner, 1, stride)
            x = net.relu(net.add(y, short))
    net.linear_head(x, classes)
    return net


def mobilenetv2(classes: int = 1000) -> Network:
    """MobileNetV2 as it is for inference."""
    net = Network((1, 3, 224, 224))
    x = net.relu(net.conv("x", 32, 3, 2), 6.0)
    settings = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    settings += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, filters, count, first in settings:
        for block in range(count):
            stride, before = 1 if block else first, x
            wide = factor * net.channels[x]
            y = x if factor == 1 else net.relu(net.conv(x, wide), 6.0)
            y = net.relu(net.conv(y, wide, 3, stride, wide), 6.0)
            y = net.quantise(net.conv(y, filters, gain=0.7))
            x = net.quantise(net.add(y, before)) if block else y
    x = net.relu(net.conv(x, 1280), 6.0)
    net.linear_head(x, classes)
    return net


def layer(channels: int, filters: int, size: int, window: int, stride: int = 1) -> Network:
    """A convolution between two others of one pixel each, all of them between quantisers."""
    net = Network((1, 16, size, size))
    x = net.relu(net.conv("x", channels))
    y = net.relu(net.conv(x, filters, window, stride))
    net.result(net.conv(y, 16))
    return net
