"""Sums of products over windows whose elements are apart, over images of their neighbours."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

import ricci
from ricci.backends.llvm.machine import machine_of
from ricci.backends.llvm.target import host
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.ir.shapes import as_int
from ricci.passes import residues
from ricci.passes.machine import Machine
from ricci.passes.pipeline import lower

from .running import runnable_targets
from .test_margins import Convolution


@pytest.fixture
def anyhow(monkeypatch: pytest.MonkeyPatch) -> None:
    """All such windows are over images."""
    for name in ("_TERM", "_ELEMENT", "_LEAST_CHANNELS", "_LEAST_FILTERS"):
        monkeypatch.setattr(residues, name, 0)


FEWER = Machine(fewer=True)


def sums_of(model: ricci.Model, machine: Machine = FEWER) -> list[tuple[int, ...]]:
    """The extents of each sum of products of a model: of results, and of terms."""
    kernels = lower(model.graph, {}, Types(), machine=machine).kernels
    return [
        tuple(as_int(i.extent) or 0 for i in (*k.domain, *k.reduced))
        for k in kernels
        if isinstance(k, Reduce) and k.op == "add"
    ]


SIX = Convolution((33, 33), (64, 256, 3, 3), (6, 6), dilation=6)


@pytest.mark.parametrize("target", runnable_targets())
def test_windows_of_elements_apart(target: str) -> None:
    """Of 33 by 33 results 36 images have six by six or five."""
    (extents,) = sums_of(SIX.model())
    assert sorted(extents) == sorted((6, 6, 6, 6, 64, 256, 3, 3))
    SIX.check(target)


def test_what_is_in_parts_or_whole() -> None:
    """Without fewer products; windows that are mostly outside; neighbours; and few channels."""
    assert len(sums_of(SIX.model(), Machine())) == 9
    far = Convolution((33, 33), (64, 256, 3, 3), (18, 18), dilation=18)
    assert len(sums_of(far.model())) == 9
    for case, results in [
        (Convolution((33, 33), (64, 256, 3, 3), (1, 1)), 33),
        (Convolution((64, 64), (64, 64, 3, 3), (2, 2), dilation=2), 64),
        (Convolution((64, 64), (64, 32, 3, 3), (4, 4), dilation=4), 64),
        (Convolution((65, 65), (64, 256, 3, 3), (6, 6), stride=2, dilation=6), 33),
    ]:
        (extents,) = sums_of(case.model())
        assert extents.count(results) >= 2


def test_filters_that_are_given_are_done_as_they_are() -> None:
    """What is to be added up of them is not known beforehand."""
    text = """
        import nn;
        graph main {
            @input { x: real[1, 256, 33, 33]; f: real[64, 256, 3, 3]; }
            @output { y: real[1, 64, 33, 33]; }
            @compose { y = nn.conv{padding=6, dilation=6}(x, f); }
        }"""
    assert len(sums_of(ricci.parse(text))) == 9


def test_fewer_products_may_be_forbidden() -> None:
    plain = replace(host(), in_parts=False)
    assert machine_of(plain).fewer
    assert not machine_of(replace(plain, winograd=False)).fewer
    server = machine_of(named("x86-64-v4-amx"))
    assert not server.fewer  # matrices do all of them sooner
    assert server.cache > machine_of(named("x86-64-v4")).cache


@pytest.mark.usefixtures("anyhow")
def test_random_windows() -> None:
    """Results that do not divide by what lies between elements; ends with and without a border."""
    r, several = random.Random(1), 0
    for _ in range(28):
        dilation = r.choice([3, 4, 5])
        size = tuple(r.choice([7, 9, 12, 16, 17]) for _ in range(2))
        extents = tuple(r.choice([2, 3, 3]) for _ in range(2))
        padding = tuple(r.choice([0, 1, dilation, 2 * dilation]) for _ in range(2))
        ends = zip(size, extents, padding, strict=True)
        if any(n + 2 * p <= dilation * (e - 1) for n, e, p in ends):
            continue
        filters = (r.choice([1, 5, 16]), r.choice([1, 3, 16, 20]), *extents)
        case = Convolution(size, filters, padding, 1, dilation, r.choice([1, 1, 3]))
        several += any(dilation in extents for extents in sums_of(case.model()))
        case.check()
    assert several > 14


@pytest.mark.usefixtures("anyhow")
@pytest.mark.parametrize("groups", [1, 4])
def test_windows_that_go_backwards(groups: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 16, 11, 14)).astype(np.float32)
    f = rng.standard_normal((16, 12 // groups, 3, 2)).astype(np.float32)
    given = torch.from_numpy(x).double(), torch.from_numpy(f).double()
    expected = functional.conv_transpose2d(*given, padding=2, groups=groups, dilation=(3, 4))
    shape = ", ".join(map(str, expected.shape))
    model = ricci.parse(f"""
        import nn;
        graph main {{
            @input {{ x: real[2, 16, 11, 14]; }}
            @variable {{ f: real[16, {12 // groups}, 3, 2]; }}
            @output {{ y: real[{shape}]; }}
            @compose {{ y = nn.deconv{{padding=2, groups={groups}, dilation=[3, 4]}}(x, f); }}
        }}""")
    model.variables["main.main.f"] = f
    assert any({3, 4} <= set(extents[:-2]) for extents in sums_of(model))
    np.testing.assert_allclose(model.compile(threads=2)(x), expected.numpy(), 2e-4, 2e-4)
