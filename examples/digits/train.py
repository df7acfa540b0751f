"""Train the network of `digits.nnef2/main.sknd`, and write its weights and the held-out images.

    pip install -e ".[train]"
    python examples/digits/train.py

The data are scikit-learn's copy of a part of the "Optical Recognition of Handwritten Digits"
set (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0): 1797 images of
8 x 8 pixels with 17 grey levels. Every fifth one is held out and never trained on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

from ricci.frontends.skriptnd.storage import write_tensor

HERE = Path(__file__).parent
MODEL = HERE / "digits.nnef2"
IMAGES = HERE / "images"
GREY = 15
"""Grey levels 0 to 16 of the data are written as pixels 0 to 240."""


class Swish(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.k[:, None, None] * x)


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.swish = Swish(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.swish(self.conv1(x)))


class Digits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.stem_swish = Swish(16)
        self.near = Residual(16)
        self.wide = nn.Conv2d(16, 32, 3, padding=1)
        self.wide_swish = Swish(32)
        self.far = Residual(32)
        self.places = nn.Parameter(torch.full((32, 4, 4), 0.25))
        self.head = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        levels = 2 * images / 240 - 1
        fine = self.near(self.stem_swish(self.stem(levels)))
        small = F.max_pool2d(self.wide_swish(self.wide(fine)), 2)
        return self.head((self.far(small) * self.places).sum((2, 3)))

    def variables(self) -> dict[str, Tensor]:
        """The parameters by their names in the SkriptND graph."""
        named = {
            "stem_kernel": self.stem.weight,
            "stem_bias": self.stem.bias,
            "stem_steepness": self.stem_swish.k,
            "wide_kernel": self.wide.weight,
            "wide_bias": self.wide.bias,
            "wide_steepness": self.wide_swish.k,
            "places": self.places,
            "head_kernel": self.head.weight,
            "head_bias": self.head.bias,
        }
        for label, block in [("near", self.near), ("far", self.far)]:
            named[f"{label}.kernel1"] = block.conv1.weight
            named[f"{label}.bias1"] = block.conv1.bias
            named[f"{label}.steepness"] = block.swish.k
            named[f"{label}.kernel2"] = block.conv2.weight
            named[f"{label}.bias2"] = block.conv2.bias
        return {f"main.Digits.{name}": value for name, value in named.items()}


def shift(images: Tensor, generator: torch.Generator) -> Tensor:
    """Every image moved by at most one pixel in each direction."""
    padded = F.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2), generator=generator).tolist()
    return torch.stack(
        [p[:, dy : dy + 8, dx : dx + 8] for p, (dy, dx) in zip(padded, moves, strict=True)]
    )


def train(images: Tensor, labels: Tensor, epochs: int = 40, batch: int = 64) -> Digits:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Digits()
    steps = epochs * -(-len(images) // batch)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.randperm(len(images), generator=generator).split(batch):
            scores = model(shift(images[chosen], generator))
            loss = F.cross_entropy(scores, labels[chosen], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}: loss {total / len(images):.4f}", flush=True)
    return model


def main() -> None:
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    data = load_digits()
    pixels = (data.images * GREY).astype(np.float32)[:, None]
    held = np.arange(len(pixels)) % 5 == 0
    labels = torch.from_numpy(data.target.astype(np.int64))
    images = torch.from_numpy(pixels)
    model = train(images[~held], labels[~held])
    with torch.no_grad():
        right = (model(images[held]).argmax(1) == labels[held]).sum().item()
    print(f"held out: {right} of {held.sum()} right, {100 * right / held.sum():.2f} %")
    for name, value in model.variables().items():
        write_tensor(MODEL / f"{name}.dat", value.detach().numpy())
    IMAGES.mkdir(exist_ok=True)
    for index in np.flatnonzero(held):
        picture = Image.fromarray(pixels[index, 0].astype(np.uint8))
        picture.save(IMAGES / f"{index:04}_{data.target[index]}.png", optimize=True)


if __name__ == "__main__":
    main()
