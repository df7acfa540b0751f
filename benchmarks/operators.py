"""Convolutions and matrix products at the sizes of ResNet-50, beside ONNX Runtime.

    python -m benchmarks.operators [--threads 2] [--rounds 15]

Weights are variables of the graph, as in a network, and constants of the ONNX model.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import ricci

from . import peers
from .measure import Peak, format_table, scaled_error, time_alternately


@dataclass(frozen=True)
class Layer:
    """A convolution of `batch` square images; `size` is the input's height and width."""

    title: str
    channels: int
    filters: int
    size: int
    window: int
    stride: int = 1
    groups: int = 1
    batch: int = 1

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def flops(self) -> float:
        out = (self.size + 2 * self.padding - self.window) // self.stride + 1
        window = self.window**2 * self.channels // self.groups
        return 2.0 * self.batch * self.filters * out * out * window

    def text(self) -> str:
        """The layer as a SkriptND graph."""
        return f"""
            import nn;
            graph Layer {{
                @input {{ x: real[{self.batch},{self.channels},{self.size},{self.size}]; }}
                @output {{ y: real[~,~,~,~]; }}
                @variable {{
                    w: real[{self.filters},{self.channels // self.groups},{self.window} ..(2)];
                    b: real[{self.filters}];
                }}
                @compose {{
                    y = nn.conv{{stride={self.stride}, padding={self.padding},
                                 groups={self.groups}}}(x, w, b);
                }}
            }}"""


LAYERS = [
    Layer("7x7/2 stem", 3, 64, 224, 7, 2),
    Layer("1x1", 64, 256, 56, 1),
    Layer("3x3", 64, 64, 56, 3),
    Layer("1x1", 256, 64, 56, 1),
    Layer("3x3/2", 128, 128, 56, 3, 2),
    Layer("3x3", 128, 128, 28, 3),
    Layer("3x3", 256, 256, 14, 3),
    Layer("1x1", 1024, 256, 14, 1),
    Layer("3x3", 512, 512, 7, 3),
    Layer("1x1", 2048, 512, 7, 1),
    Layer("1x1/2", 256, 512, 56, 1, 2),
    Layer("3x3 32 groups of 4", 128, 128, 56, 3, 1, 32),
    Layer("3x3 32 groups of 16", 512, 512, 14, 3, 1, 32),
    Layer("3x3 depthwise", 32, 32, 112, 3, 1, 32),
    Layer("3x3 depthwise", 144, 144, 56, 3, 1, 144),
    Layer("3x3/2 depthwise", 144, 144, 56, 3, 2, 144),
]

PRODUCTS = [
    (1024, 1024, 1024),
    (128, 1024, 1024),
    (1, 1000, 2048),
    (49, 512, 2048),
    (8, 1000, 2048),
]


def product_text(m: int, n: int, k: int) -> str:
    """A matrix product with a constant right factor as a SkriptND graph."""
    return f"""
        import linalg;
        graph Product {{
            @input {{ a: real[{m},{k}]; }}
            @output {{ y: real[{m},{n}]; }}
            @variable {{ b: real[{k},{n}]; }}
            @compose {{ y = linalg.matmul(a, b); }}
        }}"""


Pair = tuple[str, float, Callable[[], np.ndarray], Callable[[], np.ndarray]]


def layer_pair(layer: Layer, threads: int, rng: np.random.Generator) -> Pair:
    shape = (layer.batch, layer.channels, layer.size, layer.size)
    x = rng.standard_normal(shape, np.float32)
    per_group = layer.channels // layer.groups
    w = rng.standard_normal((layer.filters, per_group, layer.window, layer.window), np.float32)
    b = rng.standard_normal(layer.filters, np.float32)
    exe = ricci.parse(layer.text(), "skriptnd").compile(threads=threads)
    set_variables(exe, w=w, b=b)
    peer = peers.convolution(
        x,
        w,
        b,
        threads,
        pads=[layer.padding] * 4,
        strides=[layer.stride] * 2,
        group=layer.groups,
    )
    title = f"{layer.title} {layer.channels}-{layer.filters} @{layer.size}"
    return title, layer.flops, lambda: exe(x), peer


def product_pair(m: int, n: int, k: int, threads: int, rng: np.random.Generator) -> Pair:
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((k, n), np.float32)
    exe = ricci.parse(product_text(m, n, k), "skriptnd").compile(threads=threads)
    set_variables(exe, b=b)
    return f"product {m} x {n} x {k}", 2.0 * m * n * k, lambda: exe(a), peers.product(a, b, threads)


def set_variables(exe: ricci.Executable, **arrays: np.ndarray) -> None:
    """Assign variables by the last part of their scoped names."""
    for name in list(exe.variables):
        exe.variables[name] = arrays[name.rpartition(".")[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    pairs = [layer_pair(x, options.threads, rng) for x in LAYERS]
    pairs += [product_pair(*x, options.threads, rng) for x in PRODUCTS]
    peak = Peak(options.threads)
    rows = []
    for title, flops, ours, theirs in pairs:
        error = scaled_error(ours(), theirs())
        limit = peak.flops()
        timing = time_alternately({"ricci": ours, "ort": theirs}, options.rounds)
        mine, other = timing["ricci"].median, timing["ort"].median
        rows.append(
            [
                title,
                f"{mine * 1e3:.3f}",
                f"{other * 1e3:.3f}",
                f"{mine / other:.2f}",
                f"{flops / mine / 1e9:.0f}",
                f"{flops / mine / limit:.0%}",
                f"{error:.0e}",
            ]
        )
        print(rows[-1], flush=True)
    header = ["operator", "ricci ms", "ort ms", "ratio", "GFLOP/s", "of peak", "error"]
    print(format_table(header, rows))
    print(f"{options.threads} threads; peak {peak.flops() / 1e9:.0f} GFLOP/s,", end=" ")
    print(f"{peak.bandwidth() / 1e9:.0f} GB/s")


if __name__ == "__main__":
    main()
