"""The kernels that Tensor Comprehensions were once measured with, at the same sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as nn

import ricci

from .cases import (
    Arrays,
    Call,
    Case,
    Function,
    Row,
    draw,
    draw_integers,
    group_norm_nodes,
    onnx_model,
    result_of,
)

FOLDER = Path(__file__).parents[1] / "tests" / "tc" / "kernels"
"""Files of functions, with the sizes that they are called with."""


@dataclass(frozen=True)
class Kernel:
    """A function of arrays, what computes the same in PyTorch and ONNX, and the work that it is."""

    function: str
    arguments: Arrays
    torch: Callable[..., Any]
    nodes: str
    flops: float
    pick: int = 0
    """Which of our results is the first of PyTorch's."""
    outputs: str = "y"
    read: int | None = None

    def case(self) -> Case:
        result = result_of(self.torch, list(self.arguments.values()))
        return Case(
            self.arguments,
            self.build,
            Function(self.torch, {}),
            onnx_model(self.nodes, self.arguments, {}, result, self.outputs),
            self.flops,
            read=self.read,
            pick=self.pick,
        )

    def build(self, threads: int) -> Call:
        function = ricci.tc.define(texts()[self.function], threads=threads)[self.function]
        return partial(function, *self.arguments.values())


@cache
def texts() -> dict[str, str]:
    """The text that defines each function."""
    found = {}
    for file in sorted(FOLDER.glob("*.tc")):
        text = file.read_text()
        found.update(dict.fromkeys(ricci.tc.define(text), text))
    return found


Family = Callable[..., Kernel]


def kernels() -> Iterator[tuple[str, Family, tuple[int, ...]]]:
    """Names with {} for sizes, what makes a kernel, and sizes."""
    for sizes in [(128, 256, 32), (128, 1024, 1024), (128, 16384, 4096)]:
        yield "tmm {}x{}x{}", tmm, sizes
    yield "tbmm {}x{}x{}x{}", tbmm, (500, 26, 72, 26)
    for c, h in [(4, 56), (8, 28), (16, 14), (32, 7)]:
        yield "gconv {2} {3}x{3}", gconv, (32, 32, c, h)
    for widths in [(32, 32, 32), (64, 64, 64), (64, 128, 128)]:
        yield "Kronecker {2}x{3}x{4}", kronecker, (256, 16, *widths)
    yield "C3", c3, (128, 1000, 1024)
    yield "MLP1", mlp1, (128, 2000, 128)
    yield "MLP3", mlp3, (128, 128, 64, 32, 2)
    yield "tensordot", tensordot, (32, 512, 8, 2, 28)
    for pair in [(128, 2304), (1024, 36864)]:
        yield "moments {}x{}", moments, pair
    for n, h in [(4, 12), (32, 48)]:
        yield "group norm {0}x512x{3}x{3}", group_norm, (n, 32, 16, h)
    yield "1LUT", lut1, (10**6, 64, 128, 50)
    for dilation in (1, 32):
        yield "WaveNet {4}", wavenet, (32, 32, 256, 4000, dilation)


def rows() -> Iterator[Row]:
    for label, family, sizes in kernels():
        yield Row("comprehensions", label, partial(case, family=family), sizes)


def case(*sizes: int, family: Family) -> Case:
    return family(*sizes).case()


def tmm(m: int, n: int, k: int) -> Kernel:
    return Kernel(
        "tmm", {"a": draw(m, k), "b": draw(n, k)}, lambda a, b: a @ b.t(),
        "y = Gemm <transB = 1> (a, b)", 2.0 * m * n * k,
    )  # fmt: skip


def tbmm(b: int, m: int, k: int, n: int) -> Kernel:
    return Kernel(
        "tbmm", {"a": draw(b, m, k), "b": draw(b, k, n)}, torch.bmm, "y = MatMul(a, b)",
        2.0 * b * m * k * n,
    )  # fmt: skip


def gconv(n: int, g: int, c: int, h: int) -> Kernel:
    out = h - 2

    def convolution(i: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        flat = nn.conv2d(i.flatten(1, 2), w.flatten(0, 1), b.flatten(), groups=g)
        return flat.view(n, g, c, out, out)

    return Kernel(
        "gconv",
        {"i": draw(n, g, c, h, h), "w": draw(g, c, c, 3, 3), "b": draw(g, c)},
        convolution,
        f"si = Constant <value_ints = [{n}, {g * c}, {h}, {h}]> () fi = Reshape(i, si)"
        f"sw = Constant <value_ints = [{g * c}, {c}, 3, 3]> () fw = Reshape(w, sw)"
        f"sb = Constant <value_ints = [{g * c}]> () fb = Reshape(b, sb)"
        f"z = Conv <group = {g}> (fi, fw, fb)"
        f"sy = Constant <value_ints = [{n}, {g}, {c}, {out}, {out}]> () y = Reshape(z, sy)",
        2.0 * n * g * c * c * 9 * out * out,
    )


def kronecker(m: int, d: int, n0: int, n1: int, n2: int) -> Kernel:
    def chain(
        w0: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, x: torch.Tensor
    ) -> torch.Tensor:
        return (w0 @ (w1 @ (x @ w2.t())).flatten(2)).view(m, d, d, d)

    return Kernel(
        "kronecker3",
        {"w0": draw(d, n0), "w1": draw(d, n1), "w2": draw(d, n2), "x": draw(m, n0, n1, n2)},
        chain,
        "t = Transpose <perm = [1, 0]> (w2) p = MatMul(x, t) q = MatMul(w1, p)"
        f"sf = Constant <value_ints = [{m}, {n0}, {d * d}]> () f = Reshape(q, sf)"
        f"r = MatMul(w0, f) sy = Constant <value_ints = [{m}, {d}, {d}, {d}]> ()"
        "y = Reshape(r, sy)",
        2.0 * m * (n0 * n1 * n2 * d + n0 * n1 * d * d + n0 * d**3),
    )


def c3(m: int, k: int, n: int) -> Kernel:
    return Kernel(
        "c3", {"i": draw(m, k), "w": draw(n, k)}, nn.linear, "y = Gemm <transB = 1> (i, w)",
        2.0 * m * k * n,
    )  # fmt: skip


def mlp1(m: int, k: int, n: int) -> Kernel:
    return Kernel(
        "mlp1", {"i": draw(m, k), "w": draw(k, n), "b": draw(n)},
        lambda i, w, b: torch.relu(torch.addmm(b, i, w)),
        "z = Gemm(i, w, b) y = Relu(z)", 2.0 * m * k * n,
    )  # fmt: skip


def mlp3(m: int, *widths: int) -> Kernel:
    arguments = {"x0": draw(m, widths[0])}
    pairs = list(pairwise(widths))
    for k, (narrow, wide) in enumerate(pairs):
        arguments |= {f"w{k}": draw(wide, narrow), f"b{k}": draw(wide)}

    def layers(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        for w, b in zip(parameters[::2], parameters[1::2], strict=True):
            x = torch.relu(nn.linear(x, w, b))
        return x

    nodes = " ".join(
        f"z{k} = Gemm <transB = 1> (x{k}, w{k}, b{k}) "
        f"{'y' if k == len(pairs) - 1 else f'x{k + 1}'} = Relu(z{k})"
        for k in range(len(pairs))
    )
    flops = 2.0 * m * sum(a * b for a, b in pairs)
    return Kernel("mlp3", arguments, layers, nodes, flops, len(pairs) - 1)


def sum_of_outer_products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Faster than `torch.einsum`, which moves the indices of the matrices to the end."""
    total = x[:, :, 0, None] * y[:, None, 0]
    for k in range(1, x.shape[2]):
        total.addcmul_(x[:, :, k, None], y[:, None, k])
    return total


def tensordot(n: int, a: int, b: int, c: int, h: int) -> Kernel:
    return Kernel(
        "tensordot", {"a": draw(n, a, b, h, h), "b": draw(n, b, c, h, h)},
        sum_of_outer_products,
        'y = Einsum <equation = "nabhw,nbchw->nachw"> (a, b)', 2.0 * n * a * b * c * h * h,
    )  # fmt: skip


def mean_and_variance(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Faster than `torch.var_mean`."""
    mean = x.mean(1)
    return mean, torch.linalg.vector_norm(x - mean[:, None], dim=1) ** 2 / x.shape[1]


def moments(n: int, k: int) -> Kernel:
    return Kernel(
        "moments2", {"x": draw(n, k)},
        mean_and_variance,
        "a = Constant <value_ints = [1]> () c = ReduceMean(x, a) d = Sub(x, c) q = Mul(d, d)"
        "v = ReduceMean <keepdims = 0> (q, a) y = Squeeze(c, a)",
        3.0 * n * k, outputs="y v",
    )  # fmt: skip


def group_norm(n: int, g: int, d: int, h: int) -> Kernel:
    def norm(i: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        flat = nn.group_norm(i.flatten(1, 2), g, gamma.flatten(), beta.flatten())
        return flat.view(i.shape)

    return Kernel(
        "group_norm_single",
        {"x": draw(n, g, d, h, h), "w": draw(g, d), "b": draw(g, d, seed=1)},
        norm,
        group_norm_nodes((n, g, d, h, h), g, (g, d, 1, 1)),
        5.0 * n * g * d * h * h,
    )


def lut1(m: int, n: int, b: int, k: int) -> Kernel:
    indices = draw_integers(m, b, k).astype("int32")
    return Kernel(
        "lut1", {"t": draw(m, n), "i": indices},
        lambda t, i: nn.embedding_bag(i, t, mode="sum"),
        "g = Gather <axis = 0> (t, i) a = Constant <value_ints = [1]> ()"
        "y = ReduceSum <keepdims = 0> (g, a)",
        1.0 * b * k * n, read=4 * b * k * (n + 1),
    )  # fmt: skip


def wavenet(rc: int, dc: int, sk: int, t: int, dilation: int) -> Kernel:
    shapes = {
        "x": (1, rc, t), "fw": (dc, rc, 2), "fb": (dc,), "gw": (dc, rc, 2), "gb": (dc,),
        "rw": (rc, dc), "rb": (rc,), "sw": (sk, dc), "sb": (sk,), "dilation": (dilation,),
    }  # fmt: skip

    def block(
        x: torch.Tensor, fw: torch.Tensor, fb: torch.Tensor, gw: torch.Tensor, gb: torch.Tensor,
        rw: torch.Tensor, rb: torch.Tensor, sw: torch.Tensor, sb: torch.Tensor, _: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        padded = nn.pad(x, (dilation, 0))
        f = nn.conv1d(padded, fw, fb, dilation=dilation)
        g = nn.conv1d(padded, gw, gb, dilation=dilation)
        z = torch.tanh(f) * torch.sigmoid(g)
        return nn.conv1d(z, sw[:, :, None], sb), x + nn.conv1d(z, rw[:, :, None], rb)

    return Kernel(
        "wavenet1",
        {name: draw(*shape, seed=k) for k, (name, shape) in enumerate(shapes.items())},
        block,
        f"ends = Constant <value_ints = [0, 0, {dilation}, 0, 0, 0]> () p = Pad(x, ends)"
        f"f = Conv <dilations = [{dilation}]> (p, fw, fb)"
        f"g = Conv <dilations = [{dilation}]> (p, gw, gb)"
        "h = Tanh(f) s = Sigmoid(g) z = Mul(h, s) a = Constant <value_ints = [2]> ()"
        "vs = Unsqueeze(sw, a) y = Conv(z, vs, sb)"
        "vr = Unsqueeze(rw, a) q = Conv(z, vr, rb) r = Add(x, q)",
        2.0 * t * (4 * rc * dc + rc * dc + sk * dc),
        4,
        "y r",
    )
