"""Large windows of maps with a border: when the maps are copied, and the numbers."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import ricci
from ricci.api import Model
from ricci.dtypes import Types
from ricci.ir.loops import Group
from ricci.ir.shapes import as_int
from ricci.passes import borders
from ricci.passes.pipeline import lower

from .running import runnable_targets


class Case(NamedTuple):
    """A filter for each channel of an array `[batch, channels, ...]`."""

    shape: tuple[int, ...]
    size: tuple[int, ...]
    stride: int
    dilation: int
    pad: int


def depthwise(case: Case) -> Model:
    """The convolution; what is around is zero."""
    shape, size, stride, dilation, pad = case
    channels = shape[1]
    pairs = zip(shape[2:], size, strict=True)
    out = (*shape[:2], *((n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in pairs))
    listed, window, results = (", ".join(map(str, x)) for x in (shape, size, out))
    options = f"groups={channels}, stride={stride}, dilation={dilation}, padding={pad}"
    return ricci.parse(
        f"""import nn; graph G {{
            @input {{ x: real[{listed}]; w: real[{channels}, 1, {window}]; b: real[{channels}]; }}
            @output {{ y: real[{results}]; }}
            @compose {{ y = nn.conv{{{options}}}(x, w, b); }}
        }}""",
        "skriptnd",
    )


def arrays_for(case: Case) -> list[np.ndarray]:
    channels, rng = case.shape[1], np.random.default_rng(0)
    shapes = (case.shape, (channels, 1, *case.size), (channels,))
    return [rng.standard_normal(s, np.float32) for s in shapes]


def expected(case: Case) -> np.ndarray:
    """The result for these arrays, in float64 until the end."""
    (x, w, b), (*_, stride, dilation, pad) = arrays_for(case), case
    axes, count = tuple(range(2, x.ndim)), x.ndim - 2
    padded = np.pad(x.astype(np.float64), [(0, 0)] * 2 + [(pad, pad)] * count)
    reach = tuple(dilation * (k - 1) + 1 for k in w.shape[2:])
    windows = sliding_window_view(padded, reach, axes)
    some = (slice(None),) * 2
    windows = windows[
        (*some, *[slice(None, None, stride)] * count, *[slice(None, None, dilation)] * count)
    ]
    filters = w[:, 0].reshape(1, -1, *[1] * count, *w.shape[2:])
    total = (windows * filters).sum(tuple(range(-count, 0)))
    return (total + b.reshape(1, -1, *[1] * count)).astype(np.float32)


def check_numbers(case: Case, target: str) -> None:
    arrays, want, model = arrays_for(case), expected(case), depthwise(case)
    for threads in (1, 2):
        got = model.compile(threads=threads, target=target)(*arrays)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


def copies(model: Model) -> int:
    return sum(isinstance(k, Group) for k in lower(model.graph, {}, Types()).kernels)


CASES = [
    Case((1, 40, 14, 14), (7, 7), 1, 1, 3),
    Case((2, 16, 9, 21), (5, 5), 1, 1, 2),
    Case((1, 33, 13, 17), (5, 5), 2, 1, 2),
    Case((1, 20, 19, 23), (5, 5), 1, 2, 4),
    Case((1, 17, 40, 40), (7, 7), 3, 1, 3),
    Case((1, 24, 5, 50), (4, 6), 1, 1, 3),
    Case((2, 16, 6, 7, 18), (3, 3, 3), 1, 1, 1),
    Case((3, 16, 100), (31,), 1, 1, 15),
]
"""Each has enough channels, terms, and results whose windows reach beyond an end."""


@pytest.mark.parametrize("target", runnable_targets())
@pytest.mark.parametrize("case", CASES)
def test_numbers(case: Case, target: str) -> None:
    assert copies(depthwise(case)) == 1
    check_numbers(case, target)


@pytest.mark.parametrize(
    ("shape", "size", "pad"),
    [
        ((1, 40, 14, 14), (3, 3), 1),  # few terms
        ((1, 8, 14, 14), (7, 7), 3),  # few maps
        ((1, 16, 400, 400), (7, 7), 3),  # large maps, of which most is inside
        ((1, 40, 14, 14), (7, 7), 0),  # no border
    ],
)
def test_what_is_not_copied(shape: tuple[int, ...], size: tuple[int, ...], pad: int) -> None:
    assert copies(depthwise(Case(shape, size, 1, 1, pad))) == 0


def test_infinite_elements_stay_where_windows_have_them() -> None:
    model = depthwise(Case((1, 16, 12, 12), (5, 5), 1, 1, 2))
    x = np.ones((1, 16, 12, 12), np.float32)
    x[0, 3, 6, 6] = np.inf
    w, b = np.ones((16, 1, 5, 5), np.float32), np.zeros(16, np.float32)
    got = model.compile(threads=1)(x, w, b)
    assert np.isinf(got).sum() == 25
    assert np.isinf(got[0, 3, 4:9, 4:9]).all()


SHARED = {
    "one filter for a batch of lines": "y[c,i] += x[c,|i + k - 15|] * w[k,]",
    "one filter for all maps": "y[c,i,j] += x[c,|i + k - 3|,|j + l - 3|] * w[k,l]",
    "a filter by the first of two": "y[c,n,i] += x[c,n,|i + k - 15|] * w[c,k]",
    "a factor of each line": "y[c,i,j] += x[c,|i + k - 3|,|j + l - 3|] * w[c,k,l] * s[i,]",
}


@pytest.mark.parametrize("formula", SHARED.values(), ids=SHARED)
def test_maps_that_share_filters(formula: str) -> None:
    """Rows of products, if they are not constant, have code of their own."""
    extents = {"c": 20, "n": 17, "i": 31, "j": 14, "k": 31 if "j" not in formula else 7, "l": 7}
    target, _, value = formula.partition(" += ")
    names = target[2:-1].split(",")
    shapes = {
        "x": [20, *([17] if "n" in names else []), 31, *([14] if "j" in names else [])],
        "w": [extents[n] for n in re.findall(r"w\[([a-z,]+)\]", value)[0].strip(",").split(",")],
        "s": [31],
    }
    used = [name for name in shapes if f"{name}[" in value]
    inputs = " ".join(f"{n}: real{shapes[n]};" for n in used)
    reduced = [n for n in ("k", "l") if re.search(rf"\b{n}\b", value)]
    inside = ", ".join(f"{n} < {extents[n]}" for n in names)
    bounds = ", ".join(f"{n} < {extents[n]}" for n in (*names, *reduced))
    output = f"y: real{[extents[n] for n in names]};"
    model = ricci.parse(
        f"""operator f {{
            @input {{ {inputs} }}
            @output {{ {output} }}
            @lower {{ {target} = 0.0, {inside}; {formula}, {bounds}; }}
        }}
        graph G {{
            @input {{ {inputs} }}
            @output {{ {output} }}
            @compose {{ y = f({", ".join(used)}); }}
        }}""",
        "skriptnd",
    )
    assert copies(model) == 0
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shapes[n], np.float32) for n in used]
    want = model.compile(target="interpreter")(*arrays)
    for threads in (1, 2):
        got = model.compile(threads=threads)(*arrays)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=2e-5)


def test_sums_without_what_is_outside() -> None:
    """Of 14 rows, the first five reach 17 of 25 rows of a window, and the others 18 at most."""
    (group,) = lower(
        depthwise(Case((1, 16, 14, 14), (25, 25), 1, 1, 12)).graph, {}, Types()
    ).kernels
    assert isinstance(group, Group)
    copy, *sums = group.kernels
    terms = [as_int(k.reduced[0].extent) for k in sums]
    assert sum(as_int(k.domain[-2].extent) or 0 for k in sums) == 14
    assert len(sums) > 1 and all(n is not None and n <= 18 for n in terms)
    assert [as_int(i.extent) for i in copy.domain[-2:]] == [22, 38]


@pytest.mark.parametrize(
    "case",
    [
        Case((1, 20, 9), (17,), 1, 3, 24),
        Case((1, 33, 2, 20), (7, 3), 1, 2, 6),
    ],
)
def test_no_part_reaches_outside(case: Case) -> None:
    check_numbers(case, "cpu")


def test_parts_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no term of some results is inside."""
    monkeypatch.setattr(borders, "_WORTH", 1.0)
    parts, r = 0, random.Random(0)
    for _ in range(40):
        rank = r.choice([1, 2, 2, 3])
        shape = (r.choice([1, 2]), 16, *(r.choice([3, 8, 15, 20]) for _ in range(rank)))
        size = tuple(r.choice([5, 9, 17, 21] if rank < 3 else [3, 4]) for _ in range(rank))
        stride, dilation = r.choice([1, 1, 2, 3]), r.choice([1, 1, 2])
        reach = max(dilation * (k - 1) + 1 - n for k, n in zip(size, shape[2:], strict=True))
        case = Case(shape, size, stride, dilation, max(-(-reach // 2), r.randint(1, max(size)), 0))
        check_numbers(case, "cpu")
        groups = [k for k in lower(depthwise(case).graph, {}, Types()).kernels
                  if isinstance(k, Group)]  # fmt: skip
        parts += any(len(g.kernels) > 2 for g in groups)
    assert parts > 6
