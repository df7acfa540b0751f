"""A layer that no library has, written as a comprehension and trained in PyTorch.

    pip install -e ".[train]"
    python examples/comprehension.py

Its cells, marked `# %%`, can be run one by one in an editor that knows them. The data are the
handwritten digits that come with scikit-learn (see `digits/train.py`); nothing is downloaded.
"""

from __future__ import annotations

import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

import ricci
import ricci.torch

# %% [markdown]
# A *bilateral* convolution: each tap of the window counts the less, the more its pixel differs from
# the one in the middle. How fast that goes is learned for every output channel, as the kernel is.
# PyTorch has no kernel for it: of its own operators it takes an unfolded tensor, with every weight
# of every window of every output in memory.

# %%
TEXT = """
def bilateral(float(B,C,H,W) x, float(O,C,P,Q) kernel, float(O) sharpness, float(O) bias) -> (y) {
    y(b, o, h, w) +=! tap * kernel(o, c, p, q) * exp(-sharpness(o) * step * step)
        where h in 0:H - P + 1, w in 0:W - Q + 1, tap = x(b, c, h + p, w + q),
              step = tap - x(b, c, h + P / 2, w + Q / 2)
    y(b, o, h, w) = fmax(y(b, o, h, w) + bias(o), 0)
}
"""
comprehension = ricci.tc.define(TEXT).bilateral
print("ranges of y:", comprehension.infer()["y"])

# %% [markdown]
# The same formula gives the gradient: nothing about it is written by hand. `custom_op` registers
# both with PyTorch.

# %%
bilateral = ricci.torch.custom_op("examples::bilateral", comprehension)


class Bilateral(nn.Module):
    """A layer around the operator, with its parameters and a border of one pixel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(outputs, inputs, 3, 3) / (3 * inputs**0.5))
        self.sharpness = nn.Parameter(torch.full((outputs,), 0.5))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = bilateral(F.pad(x, (1, 1, 1, 1)), self.kernel, self.sharpness, self.bias)
        return result


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = Bilateral(1, 16)
        self.coarse = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32 * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.fine(x), 2)
        x = F.max_pool2d(F.relu(self.coarse(x)), 2)
        scores: Tensor = self.head(x.flatten(1))
        return scores


# %% [markdown]
# Before anything is trained, the operator is compared with a plain formula in PyTorch.


# %%
def reference(x: Tensor, kernel: Tensor, sharpness: Tensor, bias: Tensor) -> Tensor:
    """The same with `unfold`: all windows, with their taps in the last two dimensions."""
    taps = x.unfold(2, 3, 1).unfold(3, 3, 1)[:, None]
    distance = (taps - taps[..., 1:2, 1:2]) ** 2
    weight = kernel[:, :, None, None] * torch.exp(-sharpness.view(-1, 1, 1, 1, 1, 1) * distance)
    return F.relu((taps * weight).sum((2, 5, 6)) + bias.view(-1, 1, 1))


def compare() -> float:
    """The largest relative difference, of results and of all gradients."""
    torch.manual_seed(1)
    shapes = (2, 3, 6, 6), (4, 3, 3, 3), (4,), (4,)
    arguments = [torch.randn(shape, requires_grad=True) for shape in shapes]
    worst = 0.0
    found = []
    for function in (bilateral, reference):
        y = function(*arguments)
        found.append([y, *torch.autograd.grad(y.square().sum(), arguments)])
    for ours, theirs in zip(*found, strict=True):
        worst = max(worst, ((ours - theirs).abs().max() / theirs.abs().max()).item())
    return worst


print(f"against PyTorch: differs by {compare():.1e}")

# %% [markdown]
# Every fifth digit is held out.

# %%
data = load_digits()
images = torch.from_numpy(data.images.astype(np.float32) / 8 - 1)[:, None]
labels = torch.from_numpy(data.target.astype(np.int64))
held = torch.arange(len(images)) % 5 == 0


def accuracy(network: Network) -> float:
    """The share of held-out digits that are recognised."""
    with torch.no_grad():
        return float((network(images[held]).argmax(1) == labels[held]).float().mean())


def train(epochs: int, batch: int = 64) -> Network:
    torch.manual_seed(0)
    network = Network()
    optimiser = torch.optim.AdamW(network.parameters(), lr=5e-3, weight_decay=0.02)
    known, digits = images[~held], labels[~held]
    for epoch in range(epochs):
        start, total = time.perf_counter(), 0.0
        for chosen in torch.randperm(len(known)).split(batch):
            loss = F.cross_entropy(network(known[chosen]), digits[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(chosen)
        print(
            f"epoch {epoch + 1:2}: loss {total / len(known):.4f}, "
            f"held out {100 * accuracy(network):.1f} %, {time.perf_counter() - start:.2f} s",
            flush=True,
        )
    return network


# %%
if __name__ == "__main__":
    torch.set_num_threads(1)  # its own threads and those of Ricci would be in each other's way
    network = train(epochs=12)
    print("sharpness learned:", [round(v, 2) for v in network.fine.sharpness.tolist()])
