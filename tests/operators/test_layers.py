"""The variables of layers, by label and by file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import ricci
from ricci.ir.shapes import as_int

TEXT = """
import layer, nn, rand, math;

operator block {
    @attrib { channels: int; }
    @input { x: real[b,c,s..]; }
    @output { y: real[b,channels,s..]; }
    @compose {
        z = conv: layer.conv{channels=channels, size=[3]}(x);
        n = layer.batch_norm(z);
        y = nn.relu(n);
    }
}

graph G {
    @input { x: real[2,3,8]; }
    @output { y: real[2,4,8]; }
    @compose {
        a = first: block{channels=5}(x);
        b = block{channels=4}(a);
        u = noise: rand.uniform{shape=[2,4,8]}();
        y = math.add(b, u);
    }
}
"""
_OF_BLOCK = (
    "conv.filter", "conv.bias", "n.running_mean", "n.running_variance", "n.bias", "n.scale",
)  # fmt: skip


def _block(x: torch.Tensor, values: dict[str, torch.Tensor], label: str) -> torch.Tensor:
    filter, bias, mean, variance, shift, scale = (
        values[f"main.G.{label}.{name}"] for name in _OF_BLOCK
    )
    z = F.conv1d(x, filter, bias, padding=1)
    return F.relu(F.batch_norm(z, mean, variance, scale, shift))


def test_files_of_layers_are_named_by_labels(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "main.sknd").write_text(TEXT)
    model = ricci.load(folder)
    names = [f"main.G.{label}.{name}" for label in ("first", "b") for name in _OF_BLOCK]
    assert list(model.variables) == [*names, "main.G.noise.state"]
    rng = np.random.default_rng(0)
    for tensor in model.graph.variables[:-1]:
        shape = [as_int(e) or 0 for e in tensor.shape]
        model.variables[tensor.name] = rng.uniform(0.5, 1.0, shape)
    model.variables["main.G.noise.state"] = 7
    model.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "main.G.first.conv.filter.dat").exists()

    run = ricci.load(tmp_path / "saved").compile(target="interpreter", real="float64")
    assert run.variables["main.G.noise.state"] == 7
    x = rng.uniform(-1, 1, (2, 3, 8))
    values = {n: torch.from_numpy(np.array(v)) for n, v in run.variables.items()}
    expected = _block(_block(torch.from_numpy(x), values, "first"), values, "b").numpy()
    difference = run(x) - expected
    assert 0.0 <= difference.min() < 0.1
    assert 0.9 < difference.max() < 1.0


def test_a_state_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / "main.sknd").write_text(
        "import rand;graph G { @output { y: real[4]; } @compose { y = rand.normal{shape=[4]}(); } }"
    )
    model = ricci.load(tmp_path)
    once, again = model.compile(target="interpreter"), model.compile(target="interpreter")
    assert np.array_equal(once(), again())
    assert not np.array_equal(once(), model.compile(target="interpreter")())
