"""Operators on extents that are known only when a graph runs, compiled once for all sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import ricci

from ..compare import TARGETS
from .case import Array
from .images import ROUNDINGS, places
from .onnx_oracle import run_onnx


def _check(
    text: str, target: str, expected: Callable[..., Sequence[Array]], calls: Sequence[list[Array]]
) -> None:
    real = TARGETS[target]
    run = ricci.parse(text).compile(target=target, real=real)
    for arguments in calls:
        got = run(*(a.astype(real) if a.dtype.kind == "f" else a for a in arguments))
        results = [got] if len(run.outputs) == 1 else got
        for ours, theirs in zip(results, expected(*arguments), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
            assert ours.shape == theirs.shape


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).integers(0, 9, shape).astype(np.float64)


_TOP = """
import algo;
import layout;
graph G {
    @input { x: real[n|10]; }
    @output { values: real[~]; indices: int[~]; }
    @compose {
        found = layout.nonzero(x);
        index = layout.squeeze{axes=[0]}(found);
        data = layout.gather{axis=0}(x, index);
        values, indices = algo.top_k{k=5}(data);
    }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_top_k_of_a_size_that_data_defines(target: str) -> None:
    def expected(x: Array) -> list[Array]:
        data = x[x != 0]
        best = np.argsort(-data, kind="stable")[:5]
        return [data[best], best]

    calls = [[_numbers(n)] for n in (0, 1, 2, 7, 10)]
    _check(_TOP, target, expected, calls)


_SUPPRESS = """
import algo;
import layout;
graph G {
    @input { boxes: real[1,n|10,4]; scores: real[1,2,n|10]; }
    @output { indices: int[~,3]; chosen: real[~]; }
    @compose {
        indices = algo.nonmax_suppress{iou_threshold=0.25}(boxes, scores);
        chosen = layout.gather_nd(scores, indices);
    }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_chosen_boxes_are_read_on(target: str) -> None:
    def expected(boxes: Array, scores: Array) -> list[Array]:
        limits = [np.array([scores.shape[2]]), np.array([0.25])]
        rows = run_onnx("NonMaxSuppression", [boxes, scores, *limits])
        return [rows, scores[tuple(rows.T)]]

    calls = [[_numbers(1, n, 4), _numbers(1, 2, n)] for n in (1, 2, 7, 10)]
    _check(_SUPPRESS, target, expected, calls)


_RESCALE = """
import image;
graph G {
    @input { x: real[2,n|20]; }
    @output { y: real[2,~]; }
    @compose { y = image.rescale{axes=[1], factor=0.7, rounding_method='FLOOR'}(x); }
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_rescaled_extent_does_not_depend_on_the_type_of_reals(target: str) -> None:
    def expected(x: Array) -> list[Array]:
        extent = x.shape[1]
        size = math.floor(extent * 0.7 + 0.5)
        at = [max(0, ROUNDINGS["FLOOR"](p)) for p in places("SYMMETRIC", extent, size)]
        return [x[:, at]]

    _check(_RESCALE, target, expected, [[_numbers(2, n)] for n in (1, 2, 5, 15, 20)])
