"""Sums of products over every n-th element of a map, over a copy of these."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping

import numpy as np
import pytest

import ricci
from ricci.backends.llvm import machine
from ricci.backends.llvm.targets import named
from ricci.dtypes import Types
from ricci.ir.loops import Reduce
from ricci.ir.nodes import Access, Tensor
from ricci.ir.rewrite import accesses
from ricci.ir.shapes import affine, as_int
from ricci.passes import strided
from ricci.passes.machine import Machine
from ricci.passes.pipeline import lower
from ricci.records import replace

from .running import runnable_targets
from .test_margins import Convolution

AMX = replace(named("x86-64-v4-amx"), cores=2)


def takes(
    kernel: Reduce, strides: Mapping[Tensor, tuple[int, ...]], constant: Collection[Tensor]
) -> float:
    """Everything else is much better than elements that lie apart."""
    read = [s.index for a in accesses(*kernel.values) for s in a.subscripts]
    return 1.0 + 1e12 * sum(f > 1 for e in read for f in (affine(e) or ({}, 0))[0].values())


@pytest.fixture
def anyhow(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Copies are made whenever they can be; the shapes of those that were."""
    with_copy, of, found = strided._with_copy, machine.machine_of, list[tuple[int, ...]]()

    def counted(
        kernel: Reduce, access: Access, strides: Mapping[Tensor, tuple[int, ...]]
    ) -> tuple[Reduce, Reduce]:
        copy, sums = with_copy(kernel, access, strides)
        found.append(shape_of(copy.targets[0].tensor))
        return copy, sums

    monkeypatch.setattr(machine, "machine_of", lambda target: replace(of(target), takes=takes))
    monkeypatch.setattr(strided, "_with_copy", counted)
    return found


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    return tuple(as_int(e) or 0 for e in tensor.shape)


def copies_of(model: ricci.Model, of: Machine | None = None) -> list[tuple[int, ...]]:
    """The shapes of copies that sums of products of a model are over."""
    kernels = lower(model.graph, {}, Types(), machine=of or Machine(takes=takes)).kernels
    sums = [k for k in kernels if isinstance(k, Reduce) and k.op == "add"]
    read = {a.tensor for k in sums for a in accesses(*k.values)}
    reduces = (k for k in kernels if isinstance(k, Reduce))
    made = (k for k in reduces if not k.reduced and isinstance(k.initial[0], Access))
    return [shape_of(t.tensor) for k in made for t in k.targets if t.tensor in read]


def check(text: str, shapes: list[tuple[int, ...]], numpy: str, target: str = "cpu") -> None:
    """Numbers of a comprehension against those of NumPy in float64."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    found = ricci.parse(text, "tc").compile(threads=2, target=target)(*given)
    names = dict(zip("AB", (g.astype(np.float64) for g in given), strict=True))
    expected = eval(numpy, {"np": np, **names})
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("target", runnable_targets())
def test_convolutions_of_single_pixels(anyhow: list[tuple[int, ...]], target: str) -> None:
    """Of an image of 13 by 9, of which 7 by 5 are seen, in order; of three images."""
    wider = Convolution((13, 9), (24, 32, 1, 1), (1, 1), stride=2)
    wider.check(target)
    assert not anyhow  # whose first pixels are outside
    for batch in (1, 3):
        case = Convolution((13, 9), (24, 32, 1, 1), (0, 0), stride=2, batch=batch)
        case.check(target)
        assert anyhow == ([(32, 7, 5)] if batch == 1 else [(3, 32, 7, 5)])
        anyhow.clear()


@pytest.mark.parametrize(
    ("places", "sizes", "numpy", "shape"),
    [
        ("A(2*i,k)", (41, 33), "A[::2]", None),  # neighbours are side by side
        ("A(k,2*i)", (33, 41), "A[:,::2].T", (33, 21)),
        ("A(k,3*i)", (33, 61), "A[:,::3].T", (33, 21)),
        ("A(k,3*i+2)", (33, 64), "A[:,2::3][:,:21].T", (33, 21)),
        ("A(2*i,2*k)", (41, 65), "A[::2,::2]", (21, 33)),
        ("A(i,2*k+1)", (21, 66), "A[:,1::2]", (21, 33)),
        ("A(i,2*k,5)", (21, 65, 9), "A[:,::2,5]", None),  # a number: neighbours are rows
        ("A(5,i,2*k)", (9, 21, 65), "A[5,:,::2]", (21, 33)),
    ],
)
def test_where_elements_are(
    anyhow: list[tuple[int, ...]],
    places: str,
    sizes: tuple[int, ...],
    numpy: str,
    shape: tuple[int, ...] | None,
) -> None:
    """The copy has those that are read alone, in the order in which they lie."""
    axes = ",".join(f"N{n}" for n in range(len(sizes)))
    text = (
        f"def f(float({axes}) A, float(K,M) B) -> (C) "
        f"{{ C(i,j) +=! {places} * B(k,j) where i in 0:21, k in 0:33 }}"
    )
    check(text, [sizes, (33, 48)], f"{numpy} @ B")
    assert anyhow == ([] if shape is None else [shape])


@pytest.mark.parametrize(
    "places",
    ["A(2*i+k,j)", "A(k,2*k+i)", "A(i,2*k+i)", "A(i/2,k)", "A(k,20-i)", "A(k,i,2*k)"],
)
def test_what_is_no_box_of_a_map(anyhow: list[tuple[int, ...]], places: str) -> None:
    """Windows, diagonals, quotients, and what is read backwards."""
    ranks = places.count(",") + 1
    text = (
        f"def f(float({'N,M,O'[: 2 * ranks - 1]}) A, float(K,L) B) -> (C) "
        f"{{ C(i,j) +=! {places} * B(k,j) where i in 0:21, k in 0:33, j in 0:48 }}"
    )
    ricci.parse(text, "tc").compile(threads=2)(
        np.ones((90,) * ranks, np.float32), np.ones((33, 48), np.float32)
    )
    assert not anyhow


def test_constants_are_arranged_ahead() -> None:
    """Those that lie apart are no reason for a copy in each call."""
    model = ricci.parse("""
        import layout, linalg;
        graph main {
            @input { x: real[40, 64]; }
            @output { y: real[40, 48]; }
            @variable { w: real[48, 128]; }
            @compose { s = layout.slice{axes=[1], begin=[0], end=[128], stride=[2]}(w);
                       y = linalg.matmul{transB=true}(x, s); }
        }""")
    assert copies_of(model) == []


def test_what_is_estimated() -> None:
    """By matrices in registers, each block of filters would pick elements again; with few of them,
    or panels, a copy gains nothing. Nobody knows it of other machines."""
    stride = Convolution((28, 28), (1024, 512, 1, 1), (0, 0), stride=2)
    known = machine.machine_of(AMX)
    assert known.takes is not None
    assert copies_of(stride.model(), known) == [(512, 14, 14)]
    few = Convolution((28, 28), (32, 512, 1, 1), (0, 0), stride=2)
    assert copies_of(few.model(), known) == []
    for other in (replace(AMX, in_parts=False), named("x86-64-v4"), named("x86-64-v3")):
        assert machine.machine_of(other).takes is None
        assert copies_of(stride.model(), machine.machine_of(other)) == []

    def unknown(kernel: Reduce, *given: object) -> float:
        return math.inf if takes(kernel, {}, ()) > 1.0 else 1.0

    assert copies_of(stride.model(), Machine(takes=unknown)) == []


def test_both_operands(anyhow: list[tuple[int, ...]]) -> None:
    """Each has a copy."""
    text = """def f(float(N,M) A, float(K,L) B) -> (C) {
        C(i,j) +=! A(i,3*k) * B(k,2*j) where i in 0:21, k in 0:33, j in 0:40 }"""
    check(text, [(21, 97), (33, 79)], "A[:,::3] @ B[:,::2]")
    assert anyhow == [(21, 33), (33, 40)]


def test_random_products(anyhow: list[tuple[int, ...]]) -> None:
    """Of one, two and three dimensions that are picked from, as this machine multiplies."""
    rng = random.Random(0)
    for _ in range(12):
        rows, terms, columns = (rng.randint(2, 70) for _ in range(3))
        s, t, a, b = (rng.randint(1, 3) for _ in range(4))
        sizes = (s * rows + a, t * terms + b)
        text = (
            f"def f(float(N,M) A, float(K,L) B) -> (C) {{ C(i,j) +=! A({s}*i+{a},{t}*k+{b}) * "
            f"B(k,j) where i in 0:{rows}, k in 0:{terms} }}"
        )
        numpy = f"A[{a}::{s},{b}::{t}][:{rows},:{terms}] @ B"
        check(text, [(sizes[0] + 3, sizes[1] + 3), (terms, columns)], numpy)
    assert anyhow
