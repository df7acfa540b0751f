"""The models in `examples`: right on images that were held out, and equal to PyTorch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import ricci
from ricci.ir.shapes import as_int

EXAMPLES = Path(__file__).parents[1] / "examples"
DIGITS = EXAMPLES / "digits"
ALEXNET = EXAMPLES / "alexnet" / "alexnet.nnef2"


def held_out() -> tuple[np.ndarray, np.ndarray]:
    image = pytest.importorskip("PIL.Image")
    files = sorted((DIGITS / "images").glob("*.png"))
    pixels = [np.asarray(image.open(file), np.float32) for file in files]
    return np.stack(pixels)[:, None], np.array([int(f.stem.partition("_")[2]) for f in files])


def load_training() -> ModuleType:
    """`train.py`, which defines the same network in PyTorch."""
    pytest.importorskip("PIL")
    return load_script(DIGITS / "train.py")


def load_script(path: Path) -> ModuleType:
    for name in ("torch", "sklearn"):
        pytest.importorskip(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_digits_that_were_held_out(target: str) -> None:
    images, labels = held_out()
    model = ricci.load(DIGITS / "digits.nnef2", attribs={"batch": len(images)})
    probabilities = model.compile(target)(images)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (probabilities.argmax(1) == labels).mean() >= 0.97


def test_digits_equal_the_network_that_was_trained() -> None:
    training = load_training()
    import torch

    images = held_out()[0]
    model = ricci.load(DIGITS / "digits.nnef2", attribs={"batch": len(images)})
    network = training.Digits()
    with torch.no_grad():
        for name, parameter in network.variables().items():
            parameter.copy_(torch.from_numpy(model.variables[name]))
        expected = torch.softmax(network(torch.from_numpy(images)), 1).numpy()
    for target in ("cpu", "interpreter"):
        probabilities = model.compile(target)(images)
        assert np.allclose(probabilities, expected, atol=1e-5)
        assert np.array_equal(probabilities.argmax(1), expected.argmax(1))


def test_alexnet_takes_batch_and_classes() -> None:
    model = ricci.load(ALEXNET, attribs={"batch": 4, "classes": 10})
    (output,) = model.graph.outputs[0].tensors
    assert [as_int(e) for e in output.shape] == [4, 10]
    assert len(model.variables) == 16


@pytest.fixture
def one_thread() -> Iterator[None]:
    """PyTorch with one thread: several wait for one another on a busy machine."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_network_is_trained_through_a_comprehension(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_script(EXAMPLES / "comprehension.py")
    assert example.compare() < 1e-5
    network = example.train(epochs=3)
    assert example.accuracy(network) > 0.9
    assert "epoch  3: loss 0." in capsys.readouterr().out
