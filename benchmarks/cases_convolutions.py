"""Convolutions one by one: every one that ResNet-50 has, and grouped ones. Arrays are NCHW."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from torch.nn import functional as nn

from .cases import Case, Row, draw, graph_case


@dataclass(frozen=True)
class Layer:
    """A convolution of square images of `size` by `size` pixels."""

    channels: int
    filters: int
    size: int
    window: int
    stride: int = 1
    groups: int = 1

    @property
    def title(self) -> str:
        step = f"/{self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        shape = f"{self.window}x{self.window}{step}"
        return f"{shape} {self.channels}-{self.filters} @{self.size}{groups}"

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def flops(self) -> float:
        """Of one image."""
        out = (self.size + 2 * self.padding - self.window) // self.stride + 1
        return 2.0 * self.filters * out**2 * self.window**2 * (self.channels // self.groups)


RESNET50 = [
    Layer(3, 64, 224, 7, 2),
    Layer(64, 64, 56, 1),
    Layer(64, 64, 56, 3),
    Layer(64, 256, 56, 1),
    Layer(256, 64, 56, 1),
    Layer(256, 128, 56, 1),
    Layer(128, 128, 56, 3, 2),
    Layer(128, 512, 28, 1),
    Layer(256, 512, 56, 1, 2),
    Layer(512, 128, 28, 1),
    Layer(128, 128, 28, 3),
    Layer(512, 256, 28, 1),
    Layer(256, 256, 28, 3, 2),
    Layer(256, 1024, 14, 1),
    Layer(512, 1024, 28, 1, 2),
    Layer(1024, 256, 14, 1),
    Layer(256, 256, 14, 3),
    Layer(1024, 512, 14, 1),
    Layer(512, 512, 14, 3, 2),
    Layer(512, 2048, 7, 1),
    Layer(1024, 2048, 14, 1, 2),
    Layer(2048, 512, 7, 1),
    Layer(512, 512, 7, 3),
]

GROUPED = [
    Layer(128, 128, 56, 3, 1, 32),
    Layer(512, 512, 14, 3, 1, 32),
    Layer(32, 32, 112, 3, 1, 32),
    Layer(144, 144, 56, 3, 1, 144),
    Layer(144, 144, 56, 3, 2, 144),
    Layer(960, 960, 7, 3, 1, 960),
]


def rows() -> Iterator[Row]:
    for batch in (1, 8):
        for x in RESNET50 + GROUPED:
            title = f"conv {x.title}" + (f", batch {batch}" if batch > 1 else "")
            family = partial(convolution, window=x.window, stride=x.stride, batch=batch)
            sizes = (x.channels, x.filters, x.size, x.groups)
            yield Row("convolutions", title, family, sizes, batch)


def convolution(
    channels: int, filters: int, size: int, groups: int, *, window: int, stride: int, batch: int
) -> Case:
    layer = Layer(channels, filters, size, window, stride, groups)
    pad = layer.padding
    return graph_case(
        f"y = nn.conv{{stride={stride}, padding={pad}, groups={groups}}}(x, w, b);",
        f"y = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}], "
        f"group = {groups}> (x, w, b)",
        lambda x, w, b: nn.conv2d(x, w, b, stride, pad, 1, groups),
        batch * layer.flops,
        {"x": draw(batch, channels, size, size)},
        {"w": draw(filters, channels // groups, window, window), "b": draw(filters)},
    )
