"""The networks of `examples`: equal to PyTorch and ONNX Runtime, and as large as published.

At small sizes; their names, weights and inputs are those of `benchmarks/models.py`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

import ricci
from benchmarks.measure import scaled_error
from benchmarks.models import EXAMPLES, NAMES, Case, as_tensors, case
from ricci.ir.shapes import as_int

BOUND = 1e-5


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """PyTorch with one thread: several wait for one another on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def expected(found: Case) -> list[np.ndarray]:
    """The results of the twin in float64."""
    twin = copy.deepcopy(found.module).double()
    arguments = [t.double() if t.is_floating_point() else t for t in as_tensors(found.inputs)]
    with torch.no_grad():
        results = twin(*arguments)
    return [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]


def assert_close(ours: Any, theirs: list[np.ndarray]) -> None:
    given = list(ours) if isinstance(ours, (tuple, list)) else [ours]
    for a, b in zip(given, theirs, strict=True):
        assert a.shape == b.shape
        assert scaled_error(a, b) < BOUND


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_networks_equal_their_twins(name: str, batch: int) -> None:
    found = case(name, batch, small=True)
    theirs = expected(found)
    assert all(r.std() > 0.1 for r in theirs)
    for target in ("cpu", "interpreter"):
        assert_close(found.model.compile(target)(**found.inputs), theirs)
    session = ort.InferenceSession(found.onnx, providers=["CPUExecutionProvider"])
    outputs = session.run(None, found.onnx_inputs)
    assert_close(outputs[: len(theirs)], theirs)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_gpt_that_remembers_equals_one_that_reads_all_at_once(target: str) -> None:
    found = case("gpt", 2, small=True)
    room = int(found.inputs["position"]) + 1
    tokens = np.random.default_rng(1).integers(0, 50, (2, room))
    with torch.no_grad():
        whole = copy.deepcopy(found.module).double().read(torch.from_numpy(tokens)).numpy()
    step = found.model.compile(target)
    for place in range(room):
        scores = step(token=tokens[:, place], position=np.array(place))
        assert scaled_error(scores, whole[:, place]) < BOUND
    with pytest.raises(ricci.Error) as caught:
        step(token=tokens[:, 0], position=np.array(room))
    assert caught.value.diagnostics[0].code == "E0802"


def test_new_rows_of_the_onnx_step_are_those_that_ricci_keeps() -> None:
    found = case("gpt", 1, small=True)
    step = found.model.compile()
    step(**found.inputs)
    session = ort.InferenceSession(found.onnx, providers=["CPUExecutionProvider"])
    rows = session.run(None, found.onnx_inputs)[1:]
    kept = [n for n in found.model.variables if n.endswith(("keys", "values"))]
    assert len(rows) == len(kept) == 4
    place = int(found.inputs["position"])
    for name, row in zip(kept, rows, strict=True):
        assert scaled_error(step.variables[name][:, :, place], row[:, :, 0]) < BOUND


PUBLISHED = [
    ("resnet50", {}, 25_557_032),
    ("resnet50", {"blocks": [3, 4, 23, 3]}, 44_549_160),  # ResNet-101
    ("mobilenetv2", {}, 3_504_872),
    ("encoder", {"layers": 12}, 85_054_464),  # BERT without its embeddings and its head
    ("gpt", {"cache": 1024}, 81_912_576),  # DistilGPT2
    ("gpt", {"cache": 1024, "layers": 12}, 124_439_808),  # GPT-2
]


@pytest.mark.parametrize(("name", "attribs", "count"), PUBLISHED)
def test_networks_have_as_many_parameters_as_published(
    name: str, attribs: dict[str, Any], count: int
) -> None:
    model = ricci.load(EXAMPLES / name / f"{name}.nnef2", attribs=attribs)
    unused = (".conv.bias", ".running_mean", ".running_variance", ".keys", ".values")
    counted = [t for t in model.graph.variables if not t.name.endswith(unused)]
    assert sum(math.prod(as_int(e) or 0 for e in t.shape) for t in counted) == count


def test_operations_are_counted() -> None:
    """By hand for the LSTM: four products with the input and the state, at each of four steps."""
    assert case("lstm", 2, small=True).flops == 2 * 2 * 4 * (4 * 5) * (6 + 5)
