"""The networks of `examples` once more, in PyTorch.

A network takes all attributes of its model, and ignores those that decide the shapes of its inputs
alone. Layers have the names that they have in Ricci, so that weights travel by name
(`take_weights`): what Ricci composes by recursion, with the names `block`, `next.block`,
`next.next.block`, are the items 0, 1, 2 of a `Sequential` here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

_WORDS = {
    "filter": "weight",
    "scale": "weight",
    "running_variance": "running_var",
    "W": "weight_ih_l0",
    "R": "weight_hh_l0",
    "B": "bias_ih_l0",
}

_KEPT = ("num_batches_tracked", "bias_hh_l0")
"""What a twin has and Ricci has not."""


def torch_name(scoped: str) -> str:
    """The parameter of a twin that is the variable `scoped` of a model of Ricci."""
    path = scoped.split(".", 2)[2]
    path = re.sub(r"((?:\bnext\.)*)\bblock\b", lambda m: str(m[1].count("next")), path)
    scope, _, last = path.rpartition(".")
    return f"{scope}.{_WORDS.get(last, last)}".lstrip(".")


def take_weights(module: nn.Module, variables: Mapping[str, np.ndarray]) -> None:
    """Copy the weights of a model of Ricci; a bias that its layers do not use is left out."""
    named = {torch_name(name): array for name, array in variables.items()}
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if not name.endswith(_KEPT):
                tensor.copy_(torch.from_numpy(named[name]))


class ConvNorm(nn.Module):
    """A convolution, the normalisation behind it, and perhaps an activation."""

    def __init__(
        self,
        inputs: int,
        channels: int,
        size: int,
        stride: int = 1,
        groups: int = 1,
        active: nn.Module | None = None,
    ):
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, size, stride, size // 2, 1, groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.active = active or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.active(self.norm(self.conv(x)))


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.reduce = ConvNorm(inputs, width, 1)
        self.window = ConvNorm(width, width, 3, stride)
        self.expand = ConvNorm(width, 4 * width, 1)
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else ConvNorm(inputs, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.window(torch.relu(self.reduce(x))))
        return torch.relu(self.expand(inner) + self.shortcut(x))


def _bottlenecks(inputs: int, width: int, count: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *(Bottleneck(4 * width, width, 1) for _ in range(1, count)))


class ResNet50(nn.Module):
    def __init__(
        self,
        width: int = 64,
        blocks: Sequence[int] = (3, 4, 6, 3),
        classes: int = 1000,
        **frame: int,
    ):
        super().__init__()
        self.stem = ConvNorm(3, width, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stage1 = _bottlenecks(width, width, blocks[0], 1)
        self.stage2 = _bottlenecks(4 * width, 2 * width, blocks[1], 2)
        self.stage3 = _bottlenecks(8 * width, 4 * width, blocks[2], 2)
        self.stage4 = _bottlenecks(16 * width, 8 * width, blocks[3], 2)
        self.head = nn.Linear(32 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        t = self.pool(torch.relu(self.stem(images)))
        t = self.stage4(self.stage3(self.stage2(self.stage1(t))))
        return self.head(t.mean((2, 3)))


def _relu6(inputs: int, channels: int, size: int, stride: int = 1, groups: int = 1) -> ConvNorm:
    return ConvNorm(inputs, channels, size, stride, groups, nn.ReLU6())


class InvertedResidual(nn.Module):
    """A block of MobileNetV2."""

    def __init__(self, inputs: int, channels: int, factor: int, stride: int):
        super().__init__()
        wide = factor * inputs
        self.expand = _relu6(inputs, wide, 1) if factor > 1 else nn.Identity()
        self.depthwise = _relu6(wide, wide, 3, stride, wide)
        self.project = ConvNorm(wide, channels, 1)
        self.adds = stride == 1 and inputs == channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    def __init__(
        self,
        stem_channels: int = 32,
        channels: Sequence[int] = (16, 24, 32, 64, 96, 160, 320),
        blocks: Sequence[int] = (1, 2, 3, 4, 3, 3, 1),
        head_channels: int = 1280,
        classes: int = 1000,
        **frame: int,
    ):
        super().__init__()
        self.stem = _relu6(3, stem_channels, 3, 2)
        inputs = stem_channels
        for k, (outputs, count, stride) in enumerate(
            zip(channels, blocks, (1, 2, 2, 2, 1, 2, 1), strict=True), 1
        ):
            factor = 1 if k == 1 else 6
            first = InvertedResidual(inputs, outputs, factor, stride)
            rest = (InvertedResidual(outputs, outputs, factor, 1) for _ in range(1, count))
            self.add_module(f"stage{k}", nn.Sequential(first, *rest))
            inputs = outputs
        self.last = _relu6(inputs, head_channels, 1)
        self.head = nn.Linear(head_channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        t = self.stem(images)
        for k in range(1, 8):
            t = self.get_submodule(f"stage{k}")(t)
        return self.head(self.last(t).mean((2, 3)))


def _attend(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """Attention of [batch, tokens, width], by head."""
    batch, tokens, width = map(int, query.shape)  # numbers, lest the export compute them
    q, k, v = (x.view(batch, tokens, heads, -1).transpose(1, 2) for x in (query, key, value))
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, scale=(width // heads) ** -0.5)
    return mixed.transpose(1, 2).reshape(batch, tokens, width)


class Attention(nn.Module):
    """Attention without a mask."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        return self.output(_attend(self.query(x), self.key(x), self.value(x), self.heads))


class EncoderLayer(nn.Module):
    """A layer of the encoder: normalisations are behind the sums."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.narrow(nn.functional.gelu(self.widen(x))))


class Encoder(nn.Module):
    def __init__(
        self, width: int = 768, heads: int = 12, hidden: int = 3072, layers: int = 2, **frame: int
    ):
        super().__init__()
        self.layers = nn.Sequential(*(EncoderLayer(width, heads, hidden) for _ in range(layers)))

    def forward(self, embedded: Tensor) -> Tensor:
        return self.layers(embedded)


class LSTM(nn.Module):
    """PyTorch has two biases, of which the second is zero here."""

    def __init__(self, features: int = 256, hidden: int = 256, **frame: int):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden)
        nn.init.zeros_(self.lstm.bias_hh_l0)

    def forward(self, sequence: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, (last, cell) = self.lstm(sequence)
        return states, last[0], cell[0]


Remember = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From the number of a layer, and the keys and values of new tokens, to all keys and values."""


class CachedAttention(nn.Module):
    """What attention in a GPT has: the products, and the keys and values of earlier tokens."""

    def __init__(self, batch: int, width: int, heads: int, cache: int):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(batch, heads, cache, width // heads))
        self.register_buffer("values", torch.zeros(batch, heads, cache, width // heads))


class DecoderLayer(nn.Module):
    """A layer of a GPT: normalisations are before attention and before the dense layers."""

    def __init__(self, batch: int, width: int, heads: int, hidden: int, cache: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CachedAttention(batch, width, heads, cache)
        self.norm2 = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)


class GPT(nn.Module):
    """A call is a step, as in Ricci: the layers remember keys and values."""

    def __init__(
        self,
        batch: int = 1,
        vocabulary: int = 50257,
        cache: int = 256,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        layers: int = 6,
    ):
        super().__init__()
        self.heads = heads
        self.token_embedding = nn.Parameter(torch.zeros(vocabulary, width))
        self.position_embedding = nn.Parameter(torch.zeros(cache, width))
        self.layers = nn.ModuleList(
            DecoderLayer(batch, width, heads, hidden, cache) for _ in range(layers)
        )
        self.last = nn.LayerNorm(width)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        place = int(position)

        def remember(number: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            attention = self.layers[number].attention
            attention.keys[:, :, place] = keys[:, :, 0]
            attention.values[:, :, place] = values[:, :, 0]
            return attention.keys[:, :, : place + 1], attention.values[:, :, : place + 1]

        return self.run(token[:, None], position[None], remember)[:, 0]

    def read(self, tokens: Tensor) -> Tensor:
        """The scores behind each of [batch, n] tokens, computed at once and without a cache."""
        places = torch.arange(tokens.shape[1])
        return self.run(tokens, places, lambda number, keys, values: (keys, values))

    def run(self, tokens: Tensor, places: Tensor, remember: Remember) -> Tensor:
        """The scores behind each of [batch, n] tokens, of which several attend to earlier ones."""
        x = self.token_embedding[tokens] + self.position_embedding[places]
        for number, layer in enumerate(self.layers):
            qkv = layer.attention.qkv(layer.norm1(x))
            batch, count, width = map(int, x.shape)
            rows = qkv.view(batch, count, 3 * self.heads, -1).transpose(1, 2)
            q, k, v = rows.split(self.heads, 1)
            mixed = nn.functional.scaled_dot_product_attention(
                q, *remember(number, k, v), is_causal=count > 1, scale=(width // self.heads) ** -0.5
            )
            x = x + layer.attention.output(mixed.transpose(1, 2).reshape(batch, count, width))
            active = nn.functional.gelu(layer.widen(layer.norm2(x)), approximate="tanh")
            x = x + layer.narrow(active)
        return nn.functional.linear(self.last(x), self.token_embedding)


class GPTStep(nn.Module):
    """A step of a GPT without state, for ONNX: the cache comes in, and its new rows go out.

    After the token and its position come the keys and the values of all earlier tokens, for each
    layer; after the scores, those of the new one. Nothing but these rows has to be copied by
    whoever keeps the cache.
    """

    def __init__(self, gpt: GPT):
        super().__init__()
        self.gpt = gpt

    def forward(self, token: Tensor, position: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        rows: list[Tensor] = []

        def remember(number: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            rows.extend((keys, values))
            old_keys, old_values = past[2 * number : 2 * number + 2]
            return torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)

        scores = self.gpt.run(token[:, None], position[None], remember)[:, 0]
        return scores, *rows


class DoubleConv(nn.Module):
    """Two convolutions of a U-Net."""

    def __init__(self, inputs: int, channels: int):
        super().__init__()
        self.first = ConvNorm(inputs, channels, 3, active=nn.ReLU())
        self.second = ConvNorm(channels, channels, 3, active=nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class Level(nn.Module):
    """A level of a U-Net with those below it."""

    def __init__(self, inputs: int, widths: Sequence[int]):
        super().__init__()
        self.down = DoubleConv(inputs, widths[0])
        self.below = Below(widths) if len(widths) > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.below(self.down(x))


class Below(nn.Module):
    """The levels below one, and what that one makes of them."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.deep = Level(widths[0], widths[1:])
        self.enlarge = nn.ConvTranspose2d(widths[1], widths[0], 2, 2)
        self.up = DoubleConv(2 * widths[0], widths[0])

    def forward(self, seen: Tensor) -> Tensor:
        deep = self.deep(nn.functional.max_pool2d(seen, 2))
        return self.up(torch.cat([seen, self.enlarge(deep)], 1))


class UNet(nn.Module):
    def __init__(
        self,
        channels: int = 3,
        widths: Sequence[int] = (32, 64, 128, 256, 512),
        classes: int = 2,
        **frame: int,
    ):
        super().__init__()
        self.levels = Level(channels, widths)
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.levels(images))
