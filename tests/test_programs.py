"""Whole programs on both executors, against NumPy.

Each program of `tests/programs` that can run has an oracle here, written from what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import ricci

FOLDER = Path(__file__).parent / "programs"

Arrays = dict[str, np.ndarray]


def matmul(a: np.ndarray, b: np.ndarray) -> Arrays:
    return {"c": 2 * (a @ b)}


def conv(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> Arrays:
    tx, tw, tb = (torch.from_numpy(t) for t in (x, w, b))
    return {
        "y": F.conv2d(tx, tw, tb, stride=2, padding=1).numpy(),
        "z": F.conv2d(tx, tw, padding="same").numpy(),
    }


def packs(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Arrays:
    return {"y": np.concatenate([a, b, c], 1), "p": (a + 1) * 2, "q": (c - 2.5) * 2}


def argmax(x: np.ndarray, z: np.ndarray) -> Arrays:
    row, column = np.unravel_index(np.argmax(z), z.shape)
    return {"i": np.argmax(x), "r": row, "c": column}


def boundaries(x: np.ndarray) -> Arrays:
    padded = np.pad(x, (2, 1))
    t = sum(padded[k : k + 9] for k in range(4)) / 4
    return {"y": t * t * (1 + np.sin(t)), "z": np.pad(x, 2, mode="edge")}


def generics(x: np.ndarray) -> Arrays:
    return {
        "a": x[:3],
        "b": x[2:],
        "c": x[3:].astype(np.int64),
        "d": np.arange(0.0, 2.5, 0.5),
    }


def expressions(x: np.ndarray) -> Arrays:
    return {"y": x}


def later(x: np.ndarray) -> Arrays:
    return {"y": np.minimum(np.exp(x) ** 2, 10.0).max(0)}


ORACLES: dict[str, Callable[..., Arrays]] = {
    f.__name__: f for f in (matmul, conv, packs, argmax, boundaries, generics, expressions, later)
}


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", ORACLES)
def test_program_agrees_with_numpy(name: str, target: str) -> None:
    model = ricci.load(FOLDER / f"{name}.sknd")
    exe = model.compile(target=target)
    rng = np.random.default_rng(7)
    arrays = [rng.standard_normal([int(str(n)) for n in port.shape]) * 3 for port in exe.inputs]
    variables = {}
    for scoped in exe.variables:
        shape = next(t.shape for t in model.graph.variables if t.name == scoped)
        variables[scoped] = rng.standard_normal([int(str(n.value)) for n in shape])
        exe.variables[scoped] = variables[scoped].astype(np.float32)
    got = exe(*[a.astype(np.float32) for a in arrays])
    expected = ORACLES[name](*arrays, *variables.values())
    results = [got] if len(exe.outputs) == 1 else list(got)
    for port, result in zip(exe.outputs, results, strict=True):
        np.testing.assert_allclose(result, expected[port.name], rtol=2e-5, atol=2e-5)
