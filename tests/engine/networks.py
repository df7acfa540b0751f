"""Random networks of convolutions and of what stands between them, with random weights."""

from __future__ import annotations

import random

import numpy as np

import ricci
from ricci.ir.shapes import as_int


def weigh(model: ricci.Model) -> None:
    """Gives a network its weights, all positive so that no sum cancels out."""
    rng = np.random.default_rng(0)
    for tensor in model.graph.variables:
        extents = [as_int(e) or 1 for e in tensor.shape]
        values = rng.uniform(0.2, 1.8, extents) / np.prod(extents[1:])
        model.variables[tensor.name] = values.astype(np.float32)


class Network:
    """Draws one: each line makes another image of those there are."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.batch: int | str = r.choice([1, 1, 2, 3])
        self.bound = ""
        """Of a batch that is a name: what is behind it in the input."""
        self.channels = r.choice([3, 8, 16])
        self.size = r.choice([6, 8, 9, 16])
        self.lines: list[str] = []
        self.images = [("x", self.channels, self.size)]
        """Names, channels and sides."""

    def model(self) -> ricci.Model:
        """The network with its weights."""
        self.convolution()
        layers = (
            self.convolution, self.convolution, self.convolution, self.depthwise, self.pooling,
            self.map, self.sum, self.concat, self.normal, self.softmax, self.turned, self.sliced,
        )  # fmt: skip
        for _ in range(self.random.randint(1, 6)):
            self.random.choice(layers)()
        end, shape = self.end()
        model = ricci.parse(f"""
            import layer, layout, math, nn;
            graph main {{
                @input {{
                    x: real[{self.batch}{self.bound}, {self.channels}, {self.size}, {self.size}];
                }}
                @output {{ y: real[{shape}]; }}
                @compose {{ {" ".join(self.lines)} y = {end}; }}
            }}""")
        weigh(model)
        return model

    def add(self, call: str, channels: int, size: int) -> None:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {call};")
        self.images.append((name, channels, size))

    def image(self) -> tuple[str, int, int]:
        """An image, most often the last."""
        return self.images[-1] if self.random.random() < 0.8 else self.random.choice(self.images)

    def convolution(self) -> None:
        r = self.random
        name, channels, size = self.image()
        kernel, stride, dilation = (
            r.choice([1, 1, 3, 3, 5]),
            r.choice([1, 1, 2]),
            r.choice([1, 1, 2]),
        )
        pad = (kernel - 1) * dilation // 2
        groups = 2 if channels % 2 == 0 and r.random() < 0.1 else 1
        made = r.choice([6, 8, 10, 16, 24, 32, 64])
        options = f"channels={made}, size={kernel}, stride={stride}, padding={pad}"
        options += f", dilation={dilation}, groups={groups}, use_bias={r.choice(['true', 'false'])}"
        self.add(f"layer.conv{{{options}}}({name})", made, (size - 1) // stride + 1)
        if r.random() < 0.3:
            self.map()

    def depthwise(self) -> None:
        name, channels, size = self.image()
        options = f"channels={channels}, size=3, padding=1, groups={channels}"
        self.add(f"layer.conv{{{options}}}({name})", channels, size)

    def pooling(self) -> None:
        name, channels, size = self.image()
        if size < 4:
            return
        kind = self.random.choice(["max_pool", "avg_pool", "sum_pool"])
        self.add(f"nn.{kind}{{size=2, stride=2, padding=0}}({name})", channels, size // 2)

    def map(self) -> None:
        name, channels, size = self.image()
        call = self.random.choice(["nn.relu", "nn.sigmoid", "math.tanh", "nn.gelu"])
        self.add(f"{call}({name})", channels, size)

    def sum(self) -> None:
        """An image and another of its shape, if there is one."""
        name, channels, size = self.images[-1]
        others = [n for n, *shape in self.images if shape == [channels, size]]
        call = self.random.choice(["add", "mul", "max"])
        self.add(f"math.{call}({name}, {self.random.choice(others)})", channels, size)

    def concat(self) -> None:
        name, channels, size = self.images[-1]
        other, more, _ = self.random.choice([i for i in self.images if i[2] == size])
        self.add(f"layout.concat{{axis=1}}([{name}, {other}])", channels + more, size)

    def normal(self) -> None:
        name, channels, size = self.image()
        call = self.random.choice(["layer.batch_norm", "nn.l2_norm{axes=[1]}"])
        self.add(f"{call}({name})", channels, size)

    def softmax(self) -> None:
        name, channels, size = self.image()
        self.add(f"nn.softmax{{axes=[1]}}({name})", channels, size)

    def turned(self) -> None:
        name, channels, size = self.image()
        self.add(f"layout.transpose{{perm=[0, 1, 3, 2]}}({name})", channels, size)

    def sliced(self) -> None:
        """A part of the channels."""
        name, channels, size = self.image()
        half = max(1, channels // 2)
        self.add(f"layout.slice{{axes=[1], begin=[0], end=[{half}]}}({name})", half, size)

    def end(self) -> tuple[str, str]:
        """What becomes of the last image, and its shape."""
        name, channels, size = self.images[-1]
        kind = self.random.randrange(4)
        if kind == 0:
            self.lines.append(f"mean = math.mean_reduce{{axes=[2, 3], squeeze=true}}({name});")
            return "layer.linear{channels=10}(mean)", f"{self.batch}, 10"
        if kind == 1:
            self.lines.append(f"flat = layout.flatten{{axis=1}}({name});")
            return "layer.linear{channels=9}(flat)", f"{self.batch}, 9"
        if kind == 2:
            turned = f"layout.transpose{{perm=[0, 2, 3, 1]}}({name})"
            return turned, f"{self.batch}, {size}, {size}, {channels}"
        return f"math.add({name}, 1.0)", f"{self.batch}, {channels}, {size}, {size}"
