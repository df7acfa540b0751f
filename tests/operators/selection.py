"""Cases of the module algo; oracles are ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np

from .case import Array, Case, Family
from .draw import Rng, choice, coin, integer, reals, shape, signed, whole
from .onnx_oracle import run_onnx, run_onnx_all


def _top(rng: Rng, x: Array) -> tuple[int, int, bool, dict[str, object]]:
    """An axis, how many, whether the largest, and as attributes."""
    axis, largest = integer(rng, 0, x.ndim - 1), coin(rng, 0.6)
    k = integer(rng, 1, choice(rng, (1, 3, x.shape[axis] + 2)))
    given: dict[str, object] = {"k": k}
    if axis or coin(rng):
        given["axis"] = signed(rng, axis, x.ndim)
    if not largest or coin(rng):
        given["largest"] = largest
    if coin(rng):
        given["sorted"] = True
    return axis, k, largest, given


def top_k_onnx(rng: Rng) -> Case:
    """Where some elements are equal, too: the first one comes first."""
    draw = reals if coin(rng) else whole
    x = draw(rng, [max(1, n) for n in shape(rng, integer(rng, 1, 3), 9)])
    axis, k, largest, given = _top(rng, x)
    count = np.array([min(k, x.shape[axis])])
    values, indices = run_onnx_all("TopK", [x, count], 2, axis=axis, largest=int(largest))
    return Case("algo.top_k", given, (x,), (values, indices))


def top_k(rng: Rng) -> Case:
    """With infinities, NaN and no elements; without an order, ours is still the best first."""
    x = whole(rng, shape(rng, integer(rng, 1, 3), 9))
    for value in (np.inf, -np.inf, np.nan):
        x[rng.random(x.shape) < 0.1] = value
    axis, k, largest, given = _top(rng, x)
    if "sorted" in given:
        given["sorted"] = coin(rng)
    keys = np.where(np.isnan(x), np.inf, x)
    best = np.argsort(-keys if largest else keys, axis, kind="stable")
    indices = np.take(best, range(min(k, x.shape[axis])), axis)
    values = np.take_along_axis(x, indices, axis)
    return Case("algo.top_k", given, (x,), (values, indices))


def _boxes(rng: Rng, batch: int, count: int, centred: bool) -> Array:
    """Boxes on a grid, so that every executor finds the same areas; any corner may come first."""
    first, extent = whole(rng, [batch, count, 2], 0, 6), whole(rng, [batch, count, 2], 0, 6)
    if centred:
        return np.concatenate([first, extent], 2)
    second = first + extent * rng.choice([-1.0, 1.0], extent.shape)
    return np.concatenate([first, second], 2)


def nonmax_suppress(rng: Rng) -> Case:
    """Where some scores are equal, too: the first box comes first."""
    batch, classes, count = integer(rng, 1, 2), integer(rng, 1, 3), integer(rng, 1, 12)
    centred = coin(rng, 0.4)
    boxes = _boxes(rng, batch, count, centred)
    scores = whole(rng, [batch, classes, count], 0, 8) / 8
    given: dict[str, object] = {}
    if centred or coin(rng):
        given["box_format"] = "CENTER" if centred else "CORNERS"
    most, overlap = count, 0.0
    if coin(rng):
        given["max_outputs_per_class"] = most = integer(rng, 0, 5)
    if coin(rng, 0.7):
        given["iou_threshold"] = overlap = choice(rng, (0.0, 0.125, 0.25, 0.5, 1.0))
    threshold = choice(rng, (None, 0.25, 0.5))
    given["score_threshold"] = threshold
    limits = [np.array([most]), np.array([overlap])]
    limits += [] if threshold is None else [np.array([threshold])]
    rows = run_onnx("NonMaxSuppression", [boxes, scores, *limits], center_point_box=int(centred))
    bounds = {0: {0: batch * classes * most}}
    return Case("algo.nonmax_suppress", given, (boxes, scores), (rows,), bounds=bounds)


def nonmax_suppress_nan(rng: Rng) -> Case:
    """Boxes whose score is NaN are never chosen, and nothing overlaps with a box that has NaN."""
    count = integer(rng, 1, 9)
    boxes = np.tile(np.array([0.0, 0.0, 1.0, 1.0]), [1, count, 1])
    boxes[rng.random(boxes.shape) < 0.15] = np.nan
    scores = reals(rng, [1, 1, count], 0, 1)
    scores[rng.random(scores.shape) < 0.3] = np.nan
    best = [k for k in np.argsort(-scores[0, 0], kind="stable") if scores[0, 0, k] >= 0]
    broken = np.isnan(boxes[0]).any(1)
    kept = [k for k in best if broken[k] or k == next(j for j in best if not broken[j])]
    rows = np.array([[0, 0, k] for k in kept], np.int64).reshape(-1, 3)
    return Case("algo.nonmax_suppress", {}, (boxes, scores), (rows,), bounds={0: {0: count}})


FAMILIES = [
    Family("algo.top_k", top_k_onnx, "ONNX Runtime", 40),
    Family("algo.top_k", top_k, "NumPy", 40),
    Family("algo.nonmax_suppress", nonmax_suppress, "ONNX Runtime", 60),
    Family("algo.nonmax_suppress", nonmax_suppress_nan, "by hand"),
]
