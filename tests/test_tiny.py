"""The whole stack on tiny programs, in seconds and with no optional package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.cli import main

PRODUCT = """
operator product {
    @input { a: real[m, k]; b: real[k, n]; }
    @output { c: real[m, n]; }
    @lower { c[i, j] += a[i, l] * b[l, j], i < m, j < n, l < k; }
}

graph Main {
    @attrib { rows: int = 5; }
    @input { a: real[rows, 7]; b: real[7, 9]; }
    @output { c: real[rows, 9]; }
    @compose { c = product(a, b); }
}
"""

NETWORK = """
import layout;
import nn;

graph Net {
    @attrib { batch: int = 2; }
    @input { x: real[batch, 3, 9, 9]; }
    @output { y: real[batch, 10]; }
    @variable {
        kernel: real[8, 3, 3, 3];
        bias: real[8];
        weight: real[10, 128];
    }
    @compose {
        c = nn.conv{padding=1}(x, kernel, bias);
        r = nn.relu(c);
        p = nn.max_pool{size=3, stride=2, padding=0}(r);
        f = layout.flatten{axis=1}(p);
        l = nn.linear(f, weight);
        y = nn.softmax(l);
    }
}
"""

TARGETS = ["interpreter", "cpu"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_matrices(target: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 7), np.float32), rng.standard_normal((7, 9), np.float32)
    run = ricci.parse(PRODUCT, attribs={"rows": 6}).compile(target)
    c = run(a, b)
    assert c.dtype == np.float32 and c.shape == (6, 9)
    assert np.allclose(c, a @ b, atol=1e-5)


def network(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The network in plain NumPy, written from the definitions of its layers."""
    windows = np.lib.stride_tricks.sliding_window_view
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.einsum("bchwij,ncij->bnhw", windows(padded, (3, 3), (2, 3)), kernel)
    r = np.maximum(c + bias[:, None, None], 0)
    p = windows(r, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    e = np.exp(p.reshape(len(x), -1) @ weight.T)
    return np.asarray(e / e.sum(1, keepdims=True))


@pytest.mark.parametrize("target", TARGETS)
def test_a_network_with_weights(target: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    model = ricci.parse(NETWORK, attribs={"batch": 3})
    weights = [rng.standard_normal(s, np.float32) / 8 for s in [(8, 3, 3, 3), (8,), (10, 128)]]
    for name, value in zip(model.variables, weights, strict=True):
        model.variables[name] = value
    model.save(tmp_path / "net.nnef2")
    loaded = ricci.load(tmp_path / "net.nnef2")
    x = rng.standard_normal((3, 3, 9, 9), np.float32)
    y = loaded.compile(target)(x)
    assert np.allclose(y, network(x, *weights), atol=1e-5)


def test_a_mistake_is_shown_with_its_place() -> None:
    text = PRODUCT.replace("b: real[7, 9]", "b: real[8, 9]")
    with pytest.raises(ricci.Error) as caught:
        ricci.parse(text)
    assert "<main>:" in str(caught.value) and "^" in str(caught.value)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "product.sknd"
    path.write_text(PRODUCT)
    np.save(tmp_path / "a.npy", np.ones((5, 7), np.float32))
    np.save(tmp_path / "b.npy", np.full((7, 9), 2, np.float32))
    assert main(["check", str(path)]) == 0
    arguments = [f"--input=a={tmp_path}/a.npy", f"--input=b={tmp_path}/b.npy"]
    assert main(["run", str(path), *arguments, f"--output=c={tmp_path}/c.npy"]) == 0
    assert np.array_equal(np.load(tmp_path / "c.npy"), np.full((5, 9), 14))
    out = capsys.readouterr().out
    assert "ok  " in out and "float32" in out
