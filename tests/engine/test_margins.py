"""Sums of products over windows that reach far beyond an end, in parts."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch.nn import functional

import ricci
from ricci.backends.llvm.machine import machine_of
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.ir.shapes import as_int
from ricci.passes import margins
from ricci.passes.gradient import gradient_graph
from ricci.passes.machine import UNKNOWN, Machine
from ricci.passes.partial import points_of
from ricci.passes.pipeline import lower

from .running import runnable_targets


@pytest.fixture
def anyhow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has fewer terms in parts is in parts."""
    monkeypatch.setattr(margins, "_START", 0)
    monkeypatch.setattr(margins, "_RUN", 1)
    monkeypatch.setattr(margins, "_ROWS", 1)
    monkeypatch.setattr(margins, "_WORTH", 1.0)


@dataclass
class Convolution:
    """Of an image of as many dimensions as `size` has, behind a map and before two others."""

    size: tuple[int, ...]
    filters: tuple[int, ...]
    """Their number, that of channels, and the extents of each."""
    padding: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    batch: int = 1

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        self.filter = rng.standard_normal(self.filters).astype(np.float32)
        self.bias = rng.standard_normal(self.filters[0]).astype(np.float32)
        self.x = rng.standard_normal((self.batch, self.filters[1], *self.size)).astype(np.float32)
        with torch.no_grad():
            self.expected = self.run(torch.sigmoid(torch.from_numpy(self.x).double())).numpy()

    def run(self, x: torch.Tensor) -> torch.Tensor:
        call = (functional.conv1d, functional.conv2d, functional.conv3d)[len(self.size) - 1]
        weights = torch.from_numpy(self.filter).double(), torch.from_numpy(self.bias).double()
        y = call(x, *weights, self.stride, self.padding, self.dilation)
        return torch.relu(y) + 0.5 * y

    def model(self) -> ricci.Model:
        shapes = [", ".join(map(str, a.shape)) for a in (self.x, self.expected, self.filter)]
        padding = [*self.padding, *self.padding]
        model = ricci.parse(f"""
            import math, nn;
            graph main {{
                @input {{ x: real[{shapes[0]}]; }}
                @output {{ y: real[{shapes[1]}]; }}
                @variable {{ f: real[{shapes[2]}]; b: real[{self.filters[0]}]; }}
                @compose {{
                    a = nn.sigmoid(x);
                    c = nn.conv{{
                        padding={padding}, stride={self.stride}, dilation={self.dilation}
                    }}(a, f, b);
                    s = math.mul(c, 0.5);
                    t = nn.relu(c);
                    y = math.add(s, t);
                }}
            }}""")
        model.variables["main.main.f"] = self.filter
        model.variables["main.main.b"] = self.bias
        return model

    def check(self, target: str = "cpu") -> None:
        found = self.model().compile(threads=2, target=target)(self.x)
        np.testing.assert_allclose(found, self.expected, 2e-4, 2e-4, err_msg=str(self.filters))


def terms_of(model: ricci.Model, machine: Machine = UNKNOWN) -> list[int]:
    """Terms of all results of each sum of products."""
    lowered = lower(model.graph, {}, Types(), machine=machine)
    sums = [k for k in lowered.kernels if isinstance(k, Reduce)]
    return [points_of((*k.domain, *k.reduced)) for k in sums if k.op == "add"]


@pytest.mark.parametrize("target", runnable_targets())
def test_windows_that_are_mostly_outside(target: str) -> None:
    """Of 18 apart, of 33, three results have one term along a dimension, and the others two."""
    case = Convolution((33, 33), (64, 160, 3, 3), (18, 18), dilation=18)
    assert sum(terms_of(case.model())) == 64 * 160 * 63**2 < 0.41 * 64 * 160 * 99**2
    assert len(terms_of(case.model())) == 9
    case.check(target)


def test_what_is_best_left_whole() -> None:
    """Matrices in registers do the terms that are inside of a map that a core has room for."""
    machine = machine_of(replace(named("x86-64-v4-amx"), cores=2))
    case = Convolution((33, 33), (64, 160, 3, 3), (18, 18), dilation=18)
    assert terms_of(case.model(), machine) == [64 * 160 * 99**2]
    large = Convolution((120, 120), (64, 160, 3, 3), (18, 18), dilation=18)
    assert len(terms_of(large.model(), machine)) == 9
    # one block of filters would leave a core without work
    few = Convolution((33, 33), (32, 64, 3, 3), (12, 12), dilation=12)
    assert len(terms_of(few.model(), machine)) == 9
    plain = machine_of(named("x86-64-v4"))
    assert len(terms_of(case.model(), plain)) == 9


def test_nothing_is_copied() -> None:
    """The parts of a result are made in it."""
    case = Convolution((33, 33), (64, 160, 3, 3), (18, 18), dilation=18)
    kernels = [k for k in lower(case.model().graph, {}, Types()).kernels if isinstance(k, Reduce)]
    assert [k.op for k in kernels if k.reduced] == ["add"] * 9
    assert sum(not k.reduced for k in kernels) <= 1  # the map before


def test_dimensions_that_are_hardly_outside_are_whole() -> None:
    case = Convolution((200, 24), (16, 32, 3, 3), (8, 8), dilation=8)
    sizes = {as_int(i.extent) for k in lower(case.model().graph, {}, Types()).kernels
             if isinstance(k, Reduce) and k.op == "add" for i in k.domain}  # fmt: skip
    assert {200, 8} <= sizes and 24 not in sizes
    case.check()


@pytest.mark.parametrize(
    "case",
    [
        Convolution((40, 40), (32, 64, 3, 3), (1, 1)),  # all but the border has all terms
        Convolution((7, 7), (64, 256, 3, 3), (1, 1)),  # windows of neighbours
        Convolution((33, 33), (4, 8, 3, 3), (18, 18), dilation=18),  # little to do
        Convolution((33,), (64, 64, 33), (16,)),  # too many parts
    ],
    ids=["border", "neighbours", "small", "parts"],
)
def test_what_is_left_whole(case: Convolution) -> None:
    assert len(terms_of(case.model())) == 1
    case.check()


def test_borders_of_whole_planes_are_apart() -> None:
    case = Convolution((4, 14, 14), (128, 128, 3, 3, 3), (1, 1, 1))
    assert len(terms_of(case.model())) == 3
    case.check()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [7, 14, 28])
def test_borders_of_single_elements_are_not(size: int, last: bool) -> None:
    """Of the gradient of images whose filters are three by three, which is as wide as all of them
    reach: little more than half of the terms are there for 7 by 7 elements."""
    x, y = ("h,w,c", "h,w,f") if last else ("c,h,w", "f,h,w")
    moved = x.replace("h", "h + kh").replace("w", "w + kw")
    text = f"def f(float(N,{x.upper()}) X, float(F,C,KH,KW) K) -> (Y)"
    text += f"{{ Y(n,{y}) +=! X(n,{moved}) * K(f,c,kh,kw) }}"
    graph = gradient_graph(ricci.tc.define(text).f.graph, ["X"], ["Y"])
    sizes = {"N": 8, "C": 256, "F": 256, "H": size, "W": size, "KH": 3, "KW": 3}
    kernels = lower(graph, {s: sizes[s.name] for s in graph.symbols}, Types()).kernels
    assert sum(isinstance(k, Reduce) and k.op == "add" for k in kernels) == 1


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("size", "extent"), [((8, 64), 5), ((8, 64), 7), ((12, 64), 9), ((5, 8), 5)]
)
def test_one_column_over_one_channel(size: tuple[int, int], extent: int, batch: int) -> None:
    """The only loop over terms is one that leaves out those that are outside."""
    Convolution(size, (16, 1, extent, 1), (extent // 2, 0), batch=batch).check()


@pytest.mark.usefixtures("anyhow")
def test_random_convolutions() -> None:
    """Also where a window has no term at all."""
    parts, r = 0, random.Random(0)
    for _ in range(40):
        rank = r.choice([1, 2, 2, 2, 3])
        size = tuple(r.choice([1, 2, 5, 9, 12]) for _ in range(rank))
        extents = tuple(r.choice([1, 2, 3, 3, 4]) for _ in range(rank))
        dilation, stride = r.choice([1, 2, 3, 7]), r.choice([1, 1, 2, 3])
        padding = tuple(
            max(r.randint(0, dilation * n), (dilation * (n - 1) + 2 - s) // 2)
            for n, s in zip(extents, size, strict=True)
        )
        case = Convolution(
            size, (r.choice([1, 3, 16, 20]), r.choice([1, 2, 16, 33]), *extents), padding,
            stride, dilation, r.choice([1, 1, 2, 3]),
        )  # fmt: skip
        case.check()
        parts += len(terms_of(case.model())) > 1
    assert parts > 16


CORRELATION = """
operator correlate {
    @input { x: real[c, n]; w: real[o, c, k]; }
    @output { y: real[o, n]; }
    @lower { y[m, i] += w[m, q, j] * x[q, |i + j|], m < o, i < n, q < c, j < k; }
}
graph main {
    @input { x: real[4, 1000000]; w: real[4, 4, TERMS]; }
    @output { y: real[4, 1000000]; }
    @compose { y = correlate(x, w); }
}
"""
"""Windows that reach outside at one end alone."""


@pytest.mark.parametrize("terms", [3, 64, 4096])
def test_results_are_not_looked_at_one_by_one(terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    places = margins._places

    def counted(*given: int) -> range:
        looked.append(given)
        return places(*given)

    monkeypatch.setattr(margins, "_places", counted)
    model = ricci.parse(CORRELATION.replace("TERMS", str(terms)))
    assert len(lower(model.graph, {}, Types()).kernels) == 1
    assert len(looked) == (terms if terms < 100 else 0)
