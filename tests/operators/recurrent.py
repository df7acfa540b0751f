"""Cases of recurrent layers; the oracle is PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .case import Array, Case, Family
from .draw import Rng, choice, coin, integer, ints, reals


@dataclass(frozen=True)
class Cell:
    """The weights of an LSTM, and the state from which it starts."""

    W: Array
    R: Array
    B: Array
    h: Array
    c: Array

    @staticmethod
    def draw(rng: Rng, batch: int, channels: int) -> Cell:
        n = choice(rng, (1, 2, 3, 4, 5, 8, 17))
        return Cell(
            reals(rng, [4 * n, channels], -1, 1),
            reals(rng, [4 * n, n], -1, 1),
            reals(rng, [4 * n], -1, 1),
            reals(rng, [batch, n], -1, 1),
            reals(rng, [batch, n], -1, 1),
        )

    @property
    def state(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.h)[None], torch.from_numpy(self.c)[None]

    def module(self) -> torch.nn.LSTM:
        """The layer of PyTorch, which has the same order of gates, and a second bias."""
        layer = torch.nn.LSTM(self.W.shape[1], self.h.shape[1]).double()
        layer.load_state_dict(
            {
                "weight_ih_l0": torch.from_numpy(self.W),
                "weight_hh_l0": torch.from_numpy(self.R),
                "bias_ih_l0": torch.from_numpy(self.B),
                "bias_hh_l0": torch.zeros(len(self.B), dtype=torch.float64),
            }
        )
        return layer

    def run(self, x: Array) -> tuple[Array, Array, Array]:
        """All states h, and the last h and c, after the steps of x."""
        with torch.no_grad():
            y, (h, c) = self.module()(torch.from_numpy(x), self.state)
        return y.numpy(), h[0].numpy(), c[0].numpy()

    def run_packed(self, x: Array, steps: Array) -> tuple[Array, Array, Array]:
        """The same with a positive number of steps for each item of the batch."""
        packed = pack_padded_sequence(
            torch.from_numpy(x), torch.from_numpy(steps), enforce_sorted=False
        )
        with torch.no_grad():
            y, (h, c) = self.module()(packed, self.state)
        return pad_packed_sequence(y)[0].numpy(), h[0].numpy(), c[0].numpy()


def _sizes(rng: Rng) -> tuple[int, int, int]:
    """Steps, items of the batch, channels."""
    return integer(rng, 1, 6), integer(rng, 1, 5), choice(rng, (1, 2, 3, 5, 9))


def lstm_step(rng: Rng) -> Case:
    _, batch, channels = _sizes(rng)
    cell, x = Cell.draw(rng, batch, channels), reals(rng, [batch, channels])
    _, h, c = cell.run(x[None])
    return Case("nn.lstm_step", {}, (cell.h, cell.c, x, cell.W, cell.R, cell.B), (h, c))


def lstm_loop(rng: Rng) -> Case:
    """All steps, or as many as a tensor says."""
    steps, batch, channels = _sizes(rng)
    cell, x = Cell.draw(rng, batch, channels), reals(rng, [steps, batch, channels])
    inputs = (x, cell.W, cell.R, cell.B, cell.h, cell.c)
    if coin(rng):
        return Case("nn.lstm_loop", {}, (*inputs, None), cell.run(x))
    count = integer(rng, 1, steps)
    expected = cell.run(x[:count])
    return Case("nn.lstm_loop", {}, (*inputs, np.array(count)), expected, bounds={0: {0: steps}})


def lstm(rng: Rng) -> Case:
    """With and without a state to start from."""
    steps, batch, channels = _sizes(rng)
    cell, x = Cell.draw(rng, batch, channels), reals(rng, [steps, batch, channels])
    h, c = (coin(rng) for _ in range(2))
    start = Cell(cell.W, cell.R, cell.B, cell.h * h, cell.c * c)
    inputs = (x, cell.W, cell.R, cell.B, cell.h if h else None, cell.c if c else None)
    return Case("nn.lstm", {}, inputs, start.run(x))


def lstm_by_item(rng: Rng) -> Case:
    """A number of steps for each item; items without any are not for PyTorch."""
    steps, batch, channels = _sizes(rng)
    cell, x = Cell.draw(rng, batch, channels), reals(rng, [steps, batch, channels])
    counts = ints(rng, [batch], 0 if coin(rng, 0.3) else 1, steps)
    counts[0] = max(1, counts[0])
    y, h, c = cell.run_packed(x, np.maximum(counts, 1))
    none = counts == 0
    y[:, none], h[none], c[none] = 0.0, cell.h[none], cell.c[none]
    inputs = (x, cell.W, cell.R, cell.B, cell.h, cell.c, counts)
    return Case("nn.lstm", {}, inputs, (y, h, c), bounds={0: {0: steps}})


FAMILIES = [
    Family("nn.lstm_step", lstm_step, "PyTorch"),
    Family("nn.lstm_loop", lstm_loop, "PyTorch"),
    Family("nn.lstm", (lstm, lstm_by_item), "PyTorch", 40),
]
