"""Convolutions one by one: every one that ResNet-50 has, grouped ones, and those of other networks.

Arrays are NCHW.
"""

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
    dilation: int = 1

    @property
    def title(self) -> str:
        step = f"/{self.stride}" if self.stride > 1 else ""
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        apart = f", {self.dilation} apart" if self.dilation > 1 else ""
        shape = f"{self.window}x{self.window}{step}{apart}"
        return f"{shape} {self.channels}-{self.filters} @{self.size}{groups}"

    @property
    def padding(self) -> int:
        return (self.window - 1) // 2 * self.dilation

    @property
    def flops(self) -> float:
        """Of one image."""
        reach = (self.window - 1) * self.dilation
        out = (self.size + 2 * self.padding - reach - 1) // self.stride + 1
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

OTHERS = [
    Layer(64, 192, 27, 5),
    Layer(3, 64, 224, 3),
    Layer(32, 3, 512, 3),
    Layer(256, 256, 33, 3, dilation=2),
    Layer(256, 64, 33, 3, dilation=6),
    Layer(256, 64, 33, 3, dilation=12),
    Layer(256, 64, 33, 3, dilation=18),
    Layer(96, 96, 56, 7, 1, 96),
    Layer(384, 384, 14, 7, 1, 384),
    Layer(240, 240, 28, 5, 1, 240),
    Layer(672, 672, 14, 5, 2, 672),
    Layer(256, 256, 14, 27, 1, 256),
    Layer(64, 64, 56, 31, 1, 64),
    Layer(64, 128, 56, 4, 2),
]
"""Of AlexNet, VGG, an enlarged image, DeepLab, ConvNeXt, MobileNetV3, RepLKNet and pix2pix."""


def rows() -> Iterator[Row]:
    for batch in (1, 8):
        for x in RESNET50 + GROUPED + OTHERS:
            title = f"conv {x.title}" + (f", batch {batch}" if batch > 1 else "")
            given = {"window": x.window, "stride": x.stride, "dilation": x.dilation}
            family = partial(convolution, **given, batch=batch)
            sizes = (x.channels, x.filters, x.size, x.groups)
            yield Row("convolutions", title, family, sizes, batch)
    yield Row("convolutions", "conv 3x3x3 {}-{} @{}x{}x{}", in_space, (64, 64, 8, 56, 56))
    yield Row("convolutions", "conv 3x3x3 {}-{} @{}x{}x{}", in_space, (128, 128, 4, 14, 14))
    yield Row("convolutions", "conv 3x3x3 {}-{} @{}x{}x{}", in_space, (512, 512, 2, 7, 7))
    for window, sizes in [
        (4, (64, 3, 64)),
        (4, (128, 64, 32)),
        (3, (256, 128, 28)),
        (2, (64, 32, 64)),
    ]:
        family = partial(backward, window=window)
        yield Row("convolutions", f"deconv {window}x{window}/2 {{}}-{{}} @{{}}", family, (*sizes,))


def convolution(
    channels: int,
    filters: int,
    size: int,
    groups: int,
    *,
    window: int,
    stride: int,
    dilation: int,
    batch: int,
) -> Case:
    layer = Layer(channels, filters, size, window, stride, groups, dilation)
    pad = layer.padding
    return graph_case(
        f"y = nn.conv{{stride={stride}, padding={pad}, dilation={dilation}, groups={groups}}}"
        "(x, w, b);",
        f"y = Conv <pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}], "
        f"dilations = [{dilation}, {dilation}], group = {groups}> (x, w, b)",
        lambda x, w, b: nn.conv2d(x, w, b, stride, pad, dilation, groups),
        batch * layer.flops,
        {"x": draw(batch, channels, size, size)},
        {"w": draw(filters, channels // groups, window, window), "b": draw(filters)},
    )


def in_space(channels: int, filters: int, deep: int, tall: int, wide: int) -> Case:
    """Three by three by three neighbours of a volume."""
    return graph_case(
        "y = nn.conv{padding=1}(x, w, b);",
        "y = Conv <pads = [1, 1, 1, 1, 1, 1]> (x, w, b)",
        lambda x, w, b: nn.conv3d(x, w, b, 1, 1),
        2.0 * 27 * channels * filters * deep * tall * wide,
        {"x": draw(1, channels, deep, tall, wide)},
        {"w": draw(filters, channels, 3, 3, 3), "b": draw(filters)},
    )


def backward(channels: int, filters: int, size: int, *, window: int) -> Case:
    """Twice as large an image, each element of it from one or two by one or two."""
    pad = (window - 1) // 2
    return graph_case(
        f"y = nn.deconv{{stride=2, padding={pad}}}(x, w, b);",
        f"y = ConvTranspose <pads = [{pad}, {pad}, {pad}, {pad}], strides = [2, 2]> (x, w, b)",
        lambda x, w, b: nn.conv_transpose2d(x, w, b, 2, pad),
        2.0 * window**2 * channels * filters * size**2,
        {"x": draw(1, channels, size, size)},
        {"w": draw(channels, filters, window, window), "b": draw(filters)},
    )
