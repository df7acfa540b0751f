"""Parts of networks: several operators that belong together, of which some are products, and others
read or write what these do. Arrays are NCHW."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as nn

from . import models
from .cases import Array, Arrays, Case, Row, draw, graph_case


def rows() -> Iterator[Row]:
    yield Row("parts", "channel by channel, then all {} @{}", separable, (128, 56))
    yield Row("parts", "pools one after the other {} @{}", pools, (256, 20))
    yield Row("parts", "branches of 1x1, 1x7, 7x1 and a pool {} @{}", branches, (768, 17))
    yield Row("parts", "two by two down and up again {} @{}", autoencoder, (32, 64))
    yield Row("parts", "normalised by groups, then 3x3, twice {} @{}", residual, (128, 32))
    yield Row("parts", "windows of four reaches beside one another {} @{}", reaches, (256, 33))
    yield Row("parts", "attention of {} heads, {} tokens", attention, (12, 1024))


def part_case(
    body: str,
    function: Callable[..., Any],
    flops: float,
    inputs: Arrays,
    weights: Arrays,
    operators: str = "",
) -> Case:
    """A case that the others have as it is exported from PyTorch."""
    case = graph_case(body, None, function, flops, inputs, weights, operators=operators)
    onnx = models.export(case.module.eval(), inputs)
    return replace(case, onnx=onnx, onnx_inputs=inputs)


def filters(many: int, channels: int, tall: int = 1, wide: int = 1) -> Array:
    """Weights by which values stay as large as they are."""
    return draw(many, channels, tall, wide) / (channels * tall * wide) ** 0.5


def separable(channels: int, size: int) -> Case:
    """A filter for each channel, then sums of these (MobileNet)."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor) -> Any:
        return torch.relu(nn.conv2d(torch.relu(nn.conv2d(x, w, b, 1, 1, 1, channels)), v, b))

    return part_case(
        f"a = nn.conv{{padding=1, groups={channels}}}(x, w, b); c = nn.relu(a);"
        " d = nn.conv{padding=0}(c, v, b); y = nn.relu(d);",
        function,
        2.0 * channels * (channels + 9) * size**2,
        {"x": draw(1, channels, size, size)},
        {
            "w": filters(channels, 1, 3, 3),
            "b": draw(channels),
            "v": filters(channels, channels),
        },
    )


def pools(channels: int, size: int) -> Case:
    """The largest of wider and wider windows, beside one another (SPPF of YOLO)."""
    half = channels // 2

    def function(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> Any:
        found = [nn.silu(nn.conv2d(x, w))]
        for _ in range(3):
            found.append(nn.max_pool2d(found[-1], 5, 1, 2))
        return nn.silu(nn.conv2d(torch.cat(found, 1), v))

    pool = "nn.max_pool{size=5, padding=2}"
    return part_case(
        f"a = nn.conv{{padding=0}}(x, w); p = nn.silu(a); q = {pool}(p); r = {pool}(q);"
        f" s = {pool}(r); j = layout.concat{{axis=1}}([p, q, r, s]);"
        " b = nn.conv{padding=0}(j, v); y = nn.silu(b);",
        function,
        2.0 * (channels * half + 4 * half * channels) * size**2,
        {"x": draw(1, channels, size, size)},
        {"w": filters(half, channels), "v": filters(channels, 4 * half)},
    )


def branches(channels: int, size: int) -> Case:
    """Sums along each axis, and of neighbours, beside one another (Inception)."""
    some, few = max(channels // 4, 1), max(channels // 6, 1)

    def function(x: torch.Tensor, *w: torch.Tensor) -> Any:
        along = torch.relu(nn.conv2d(x, w[1]))
        along = torch.relu(nn.conv2d(along, w[2], None, 1, (0, 3)))
        along = torch.relu(nn.conv2d(along, w[3], None, 1, (3, 0)))
        near = torch.relu(nn.conv2d(nn.avg_pool2d(x, 3, 1, 1), w[4]))
        return torch.cat([torch.relu(nn.conv2d(x, w[0])), along, near], 1)

    return part_case(
        "a = nn.conv{padding=0}(x, w0); a1 = nn.relu(a);"
        " b = nn.conv{padding=0}(x, w1); b1 = nn.relu(b);"
        " c = nn.conv{padding=[0, 3, 0, 3]}(b1, w2); c1 = nn.relu(c);"
        " d = nn.conv{padding=[3, 0, 3, 0]}(c1, w3); d1 = nn.relu(d);"
        " p = nn.avg_pool{size=3, padding=1, ignore_border=false}(x);"
        " e = nn.conv{padding=0}(p, w4); e1 = nn.relu(e);"
        " y = layout.concat{axis=1}([a1, d1, e1]);",
        function,
        2.0 * size**2 * (channels * (2 * some + few) + 7 * few * (few + some)),
        {"x": draw(1, channels, size, size)},
        {
            "w0": filters(some, channels),
            "w1": filters(few, channels),
            "w2": filters(few, few, 1, 7),
            "w3": filters(some, few, 7, 1),
            "w4": filters(some, channels),
        },
    )


def reaches(channels: int, size: int) -> Case:
    """Neighbours that are near, farther and farthest, and the mean of all (ASPP of DeepLab)."""
    few, apart = max(channels // 4, 1), (6, 12, 18)

    def function(x: torch.Tensor, *w: torch.Tensor) -> Any:
        found = [torch.relu(nn.conv2d(x, w[0]))]
        found += [torch.relu(nn.conv2d(x, w[k], None, 1, d, d)) for k, d in enumerate(apart, 1)]
        mean = torch.relu(nn.conv2d(x.mean((2, 3), keepdim=True), w[4]))
        found.append(mean.expand(1, few, size, size))
        return torch.relu(nn.conv2d(torch.cat(found, 1), w[5]))

    far = " ".join(
        f"c{k} = nn.conv{{padding={d}, dilation={d}}}(x, w{k}); r{k} = nn.relu(c{k});"
        for k, d in enumerate(apart, 1)
    )
    return part_case(
        f"c0 = nn.conv{{padding=0}}(x, w0); r0 = nn.relu(c0); {far}"
        " m = math.mean_reduce{axes=[2, 3]}(x); c4 = nn.conv{padding=0}(m, w4);"
        " r4 = nn.relu(c4);"
        f" e = layout.broadcast{{axes=[2, 3], shape=[{size}, {size}]}}(r4);"
        " j = layout.concat{axis=1}([r0, r1, r2, r3, e]);"
        " d = nn.conv{padding=0}(j, w5); y = nn.relu(d);",
        function,
        2.0 * few * (channels * (28 * size**2 + 1) + 5 * few * size**2),
        {"x": draw(1, channels, size, size)},
        {
            "w0": filters(few, channels),
            **{f"w{k}": filters(few, channels, 3, 3) * k for k in (1, 2, 3)},
            "w4": filters(few, channels) / 2,
            "w5": filters(few, 5 * few),
        },
    )


def autoencoder(channels: int, size: int) -> Case:
    """An image of twice the size made smaller, and larger again."""

    def function(x: torch.Tensor, *w: torch.Tensor) -> Any:
        small = torch.relu(nn.conv2d(torch.relu(nn.conv2d(x, w[0], None, 2, 1)), w[1], None, 2, 1))
        large = torch.relu(nn.conv_transpose2d(small, w[2], None, 2, 1))
        return torch.sigmoid(nn.conv_transpose2d(large, w[3], None, 2, 1))

    step = "{padding=1, stride=2}"
    return part_case(
        f"a = nn.conv{step}(x, w0); a1 = nn.relu(a); b = nn.conv{step}(a1, w1); b1 = nn.relu(b);"
        f" c = nn.deconv{step}(b1, w2); c1 = nn.relu(c); d = nn.deconv{step}(c1, w3);"
        " y = nn.sigmoid(d);",
        function,
        2.0 * 16 * 2 * (3 * channels * size**2 + 2 * channels**2 * (size // 2) ** 2),
        {"x": draw(1, 3, 2 * size, 2 * size)},
        {
            "w0": filters(channels, 3, 4, 4),
            "w1": filters(2 * channels, channels, 4, 4),
            "w2": filters(2 * channels, channels, 4, 4),
            "w3": filters(channels, 3, 4, 4),
        },
    )


GROUPS = """
operator by_groups {
    @attrib { groups: int; }
    @input { x: real[b, c, h, w]; scale: real[c]; shift: real[c]; }
    @output { y: real[b, c, h, w]; }
    @compose {
        r = layout.reshape{shape=[b, groups, c * h * w / groups]}(x);
        mean, variance = math.moments{axes=[2]}(r);
        d = math.sub(r, mean); v = math.add(variance, 1e-5); s = math.sqrt(v);
        n = math.div(d, s); m = layout.reshape{shape=[b, c, h, w]}(n);
        k = math.mul{rhs_align=1}(m, scale); y = math.add{rhs_align=1}(k, shift);
    }
}
"""


def residual(channels: int, size: int) -> Case:
    """A block of a diffusion model."""
    groups = max(channels // 4, 1)

    def function(
        x: torch.Tensor, s: torch.Tensor, o: torch.Tensor, w: torch.Tensor, v: torch.Tensor
    ) -> Any:
        hidden = nn.conv2d(nn.silu(nn.group_norm(x, groups, s, o)), w, None, 1, 1)
        return x + nn.conv2d(nn.silu(nn.group_norm(hidden, groups, s, o)), v, None, 1, 1)

    norm = f"by_groups{{groups={groups}}}"
    return part_case(
        f"a = {norm}(x, s, o); a1 = nn.silu(a); b = nn.conv{{padding=1}}(a1, w);"
        f" c = {norm}(b, s, o); c1 = nn.silu(c); d = nn.conv{{padding=1}}(c1, v);"
        " y = math.add(x, d);",
        function,
        2.0 * 2 * 9 * channels**2 * size**2,
        {"x": draw(1, channels, size, size)},
        {
            "s": draw(channels),
            "o": draw(channels),
            "w": filters(channels, channels, 3, 3),
            "v": filters(channels, channels, 3, 3) * 0.5,
        },
        GROUPS,
    )


def attention(heads: int, tokens: int) -> Case:
    """What each token takes from all, 64 wide, by how near its query is to their keys."""
    width = 64

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return nn.scaled_dot_product_attention(q, k, v)

    return part_case(
        f"s = linalg.matmul{{transB=true}}(q, k); t = math.mul(s, {width**-0.5});"
        " p = nn.softmax{axes=[3]}(t); y = linalg.matmul(p, v);",
        function,
        4.0 * heads * tokens**2 * width,
        {name: draw(1, heads, tokens, width) for name in "qkv"},
        {},
    )
