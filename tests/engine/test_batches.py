"""Kernels over a batch, for some of its items at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.backends.llvm.machine import machine_of
from ricci.backends.llvm.target import host
from ricci.dtypes import DType, Types
from ricci.ir.loops import Kernel, Program, Repeat, tensors_touched, tensors_written
from ricci.ir.nodes import Tensor, integer
from ricci.ir.shapes import as_int
from ricci.ir.text import parse_graph
from ricci.passes.batch_gain import Stretch, Use, find_stretches
from ricci.passes.batches import _Batches
from ricci.passes.machine import Machine
from ricci.passes.pipeline import lower
from ricci.passes.places import Places
from ricci.runtime.executable import compile_graph

from ..ahead import Model
from .networks import Network

IMAGES = """
import nn;
graph main {
    @input { x: real[8, 4, 32, 32]; w: real[16, 4, 1, 1]; v: real[16, 1, 3, 3]; }
    @output { y: real[8, 16, 8, 8]; }
    @compose {
        a = nn.conv{padding=0}(x, w);
        b = nn.conv{groups=16, padding=1}(a, v);
        y = nn.max_pool{size=4, stride=4, padding=0}(b);
    }
}
"""
"""An image has 16 KB, and 64 each after the first two steps: 128 KB live at once."""

ACROSS = """
import layout, math, nn;
graph main {
    @input { x: real[8, 4, 32, 32]; w: real[16, 4, 1, 1]; v: real[16, 1, 3, 3]; }
    @output { y: real[8, 16, 8, 8]; z: real[16, 8, 32]; }
    @compose {
        a = nn.conv{padding=0}(x, w);
        b = nn.conv{groups=16, padding=1}(a, v);
        m = math.sum_reduce{axes=[0]}(b);
        c = math.add(b, m);
        d = nn.conv{groups=16, padding=1}(c, v);
        y = nn.max_pool{size=4, stride=4, padding=0}(d);
        t = layout.transpose{perm=[1, 0, 2, 3]}(d);
        z = math.max_reduce{axes=[3], squeeze=true}(t);
    }
}
"""


def lowered(text: str, cache: int, threads: int = 1) -> Program:
    machine = Machine(cache=cache, threads=threads)
    types = Types(DType.FLOAT32, DType.INT64)
    return lower(ricci.parse(text).graph, {}, types, machine=machine)


def loops(program: Program) -> list[list[Kernel]]:
    """The kernels of each loop, without those that count."""
    return [
        [a for a in action.body if isinstance(a, Kernel)][:-1]
        for action in program.actions
        if isinstance(action, Repeat)
    ]


def items(kernels: Sequence[Kernel]) -> list[int | None]:
    """Of how many items each of them makes its results."""
    return [as_int(t.shape[0]) for k in kernels for t in tensors_written(k)]


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another round costs nothing, so that there are loops over small tensors, too."""
    monkeypatch.setattr("ricci.passes.batch_gain._START", 0)


# -------------------------------------------------------------------- which ones


def test_images_whose_maps_find_no_room_are_done_one_by_one(free: None) -> None:
    whole, parts = lowered(IMAGES, 0), lowered(IMAGES, 150_000)
    assert loops(whole) == []
    (kernels,) = loops(parts)
    assert items(kernels) == [1, 1, 1]
    assert whole.arena > 2 * 8 * 65536
    assert parts.arena < 2 * 65536 + 1024


def test_as_many_images_as_find_room_are_done_at_a_time(free: None) -> None:
    for cache, count in [(150_000, 1), (300_000, 2), (600_000, 4)]:
        (kernels,) = loops(lowered(IMAGES, cache))
        assert items(kernels) == [count] * 3


@pytest.mark.parametrize("cache", [2_000_000, 60_000], ids=["all find room", "none does"])
def test_loops_that_save_nothing_are_not_made(free: None, cache: int) -> None:
    assert loops(lowered(IMAGES, cache)) == []


def test_the_more_threads_begin_together_the_more_a_round_costs() -> None:
    assert [len(loops(lowered(IMAGES, 150_000, threads=n))) for n in (1, 64)] == [1, 0]


def test_sums_over_the_batch_end_a_loop(free: None) -> None:
    first, second = loops(lowered(ACROSS, 150_000))
    assert (len(first), set(items(first))) == (2, {1})
    assert len(second) > 1 and set(items(second)) == {1}


CHAIN = """graph g {{
    input x = x: real[8, 4096];
    input w = w: real[8, 8];
    a: real[8, 4096] = f(x) {{ a[b, i] = exp(x[b, i])  for b < 8, i < 4096; }}
    c: real[8, 4096] = g(a, w) {{ {} }}
    m: real[8, 64] = t(c) {{ m[b, i] += c[b, 64 * i + k]  for b < 8, i < 64, k < 64; }}
    output a = a;
    output c = c;
    output m = m;
}}"""


@pytest.mark.parametrize(
    "formula",
    [
        "c[b, i] += a[k, i] * w[b, k]  for b < 8, i < 4096, k < 8;",
        "c[b, i] = a[7 - b, i] * w[b, 0]  for b < 8, i < 4096;",
        "c[b, i] = a[b, i] * real(b)  for b < 8, i < 4096;",
        "c[b, i] = b < 3 ? a[b, i] : 0.0  for b < 8, i < 4096;",
        "c[b, i] = a[|b + 1|, i]  for b < 8, i < 4096;",
        "c[b, i] = a[b, i] * w[0, b]  for b < 8, i < 4096;",
        "c[b, i] = a[b, i] * w[b, b]  for b < 8, i < 4096;",
    ],
)
def test_kernels_that_need_other_items_are_not_among_them(
    formula: str, anywhere: list[Stretch]
) -> None:
    r = np.random.default_rng(0)
    x, w = (r.standard_normal(s).astype(np.float32) for s in ((8, 4096), (8, 8)))
    graph = parse_graph(CHAIN.format(formula))
    expected = compile_graph(graph, target="interpreter")(x, w)
    for _ in range(6):
        for found, meant in zip(compile_graph(graph, threads=1)(x, w), expected, strict=True):
            np.testing.assert_allclose(found, meant, 1e-4, 1e-4)


def test_items_of_views_are_those_of_their_tensors() -> None:
    def tensor(*shape: int) -> Tensor:
        return Tensor("t", DType.FLOAT32, tuple(map(integer, shape)))

    whole, line = tensor(8, 6), tensor(48)
    same, half, box, other = tensor(8, 2, 3), tensor(8, 3), tensor(8, 3), tensor(8, 6)
    views = {same: whole, half: whole, box: whole, other: line}
    places = Places(views, {box: 3}, {box})
    for strides, aligned in ({}, [whole, same, box]), ({whole: (1, 8)}, []):
        work = _Batches((), places, strides, (), Machine())
        found = [t for t in (whole, same, half, box, other) if work._is_aligned(t, 8)]
        assert found == aligned


def test_tensors_lie_as_they_did(anywhere: list[Stretch]) -> None:
    """With the same dimension contiguous, item by item or all together."""
    seen = 0
    for seed in range(40):
        network = Network(seed)
        network.batch = 4
        graph, types = network.model().graph, Types(DType.FLOAT32, DType.INT64)
        whole = lower(graph, {}, types).strides
        before = {(t.name, t.shape[1:]): s for t, s in whole.items()}
        after = lower(graph, {}, types, machine=Machine(cache=1))
        for tensor in {t for k in after.kernels for t in tensors_touched(k)}:
            known = before.get((tensor.name, tensor.shape[1:]))
            if known is not None and as_int(tensor.shape[0]) in (1, 2):
                assert after.strides[tensor] == known
                seen += 1
    assert seen and anywhere


def _use(read: Sequence[Tensor], written: Tensor, operations: int, weights: int = 0) -> Use:
    sizes = dict.fromkeys((*read, written), 1 << 20)
    others = {Tensor("w", DType.FLOAT32, (integer(weights),)): weights} if weights else {}
    return Use(operations, 16 << 20, sizes, frozenset(read), others)


def _chain(operations: Sequence[int], weights: Sequence[int]) -> list[Use]:
    tensors = [Tensor(f"t{n}", DType.FLOAT32, ()) for n in range(len(operations) + 1)]
    rows = enumerate(zip(operations, weights, strict=True))
    return [_use([tensors[n]], tensors[n + 1], o, w) for n, (o, w) in rows]


ROOM = 4 << 20
"""Room for two items of two tensors, of a megabyte each."""


def test_what_computes_much_and_what_reads_many_weights_is_left_out() -> None:
    machine = Machine(cache=ROOM)
    few, many = 16 << 20, 8 << 30
    light = _chain([few] * 4, [0] * 4)
    assert find_stretches(light, 8, machine) == [Stretch(0, 4, 2)]
    heavy = _chain([few, few, few, many, many, few, few], [0] * 7)
    found = find_stretches(heavy, 8, machine)
    assert [(s.start, s.stop) for s in found] == [(0, 3), (5, 7)]
    weighty = _chain([few] * 5, [0, 0, 0, 64 << 20, 64 << 20])
    assert find_stretches(weighty, 8, machine) == [Stretch(0, 3, 2)]
    assert find_stretches(_chain([many] * 4, [0] * 4), 8, machine) == []
    assert find_stretches(light, 7, machine) == [Stretch(0, 4, 1)]


def test_long_chains_and_large_batches_are_decided_in_time() -> None:
    """Not every number of items, nor every stretch, is tried: that would take for ever."""
    chain = _chain([16 << 20] * 400, [0] * 400)
    for count in (1 << 30, 2**31 - 1):
        assert find_stretches(chain, count, Machine(cache=ROOM)) == []
    mixed = _chain([16 << 20, 16 << 20, 8 << 30, 8 << 30] * 100, [0] * 400)
    assert find_stretches(mixed, 720, Machine(cache=ROOM))
    assert len(find_stretches(mixed, 8, Machine(cache=ROOM))) == 100
    found = find_stretches(chain, 8, Machine(cache=ROOM))
    assert [s.start for s in found[1:]] == [s.stop for s in found[:-1]]
    assert (found[0].start, found[-1].stop) == (0, 400)


@pytest.mark.parametrize("batch", [1, 8])
def test_calls_do_large_images_one_by_one(batch: int) -> None:
    """Maps of 2.5 MB each, of which caches keep two, or those of two images."""
    text = IMAGES.replace("8, 4, 32, 32", f"{batch}, 4, 200, 200")
    text = text.replace("y: real[8, 16, 8, 8]", f"y: real[{batch}, 16, 50, 50]")
    run = ricci.parse(text).compile(threads=2)
    r = np.random.default_rng(0)
    shapes = (batch, 4, 200, 200), (16, 4, 1, 1), (16, 1, 3, 3)
    profile = run.profile(*(r.standard_normal(s).astype(np.float32) for s in shapes), rounds=1)
    kernels = [k for k in profile.kernels if "nn." in k.name]
    assert len(kernels) == 3
    rounds = max(1, batch // (2 if machine_of(host()).cache > 10 << 20 else 1))
    assert (kernels[1].runs, kernels[2].runs) == (rounds, rounds)


# ----------------------------------------------------------------------- results


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> list[Stretch]:
    """Loops over any stretches, for any number of items; those that there were."""
    monkeypatch.setenv("RICCI_NO_CACHE", "1")
    monkeypatch.setenv("RICCI_COMPILER_PROCESS", "0")
    made: list[Stretch] = []
    r = random.Random(0)

    def find(uses: Sequence[Use], count: int, _: Machine) -> list[Stretch]:
        found, at = [], 0
        parts = [n for n in range(1, count) if count % n == 0]
        while at < len(uses):
            start = r.randint(at, len(uses) - 1)
            at = r.randint(start + 1, len(uses))
            found.append(Stretch(start, at, r.choice(parts)))
        made.extend(found)
        return found

    monkeypatch.setattr("ricci.passes.batches.find_stretches", find)
    return made


def test_networks_give_the_same_numbers(anywhere: list[Stretch]) -> None:
    """Also of an array that is not row-major, with strides of its own or copied."""
    for seed in range(15):
        network = Network(seed)
        network.batch = 2 + seed % 5
        model = network.model()
        shape = network.batch, network.size, network.size, network.channels
        image = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        turned = image.transpose(0, 3, 1, 2)
        expected = model.compile(target="interpreter")(turned)
        runs = [model.compile(threads=2)] * 2
        if seed % 4 == 0:
            runs.append(compile_graph(model.graph, model.variables, strided=True))
        for run in runs:
            np.testing.assert_allclose(run(turned), expected, 2e-4, 2e-5, err_msg=f"{seed}")
    assert len(anywhere) > 15 and {s.items for s in anywhere} >= {1, 2, 3}


def _all(results: Any) -> Sequence[np.ndarray]:
    return [results] if isinstance(results, np.ndarray) else list(results)


@pytest.mark.parametrize("text", [IMAGES, ACROSS], ids=["one by one", "across"])
def test_what_others_read_is_complete(anywhere: list[Stretch], text: str, tmp_path: Path) -> None:
    """Results on the way, and sums over all items; compiled ahead of time, too."""
    r = np.random.default_rng(0)
    shapes = (8, 4, 32, 32), (16, 4, 1, 1), (16, 1, 3, 3)
    given = [r.standard_normal(s).astype(np.float32) for s in shapes]
    model = ricci.parse(text)
    expected = model.compile(target="interpreter")(*given)
    for number in range(8):
        found = model.compile(threads=1 + number % 2)(*given)
        for a, b in zip(_all(found), _all(expected), strict=True):
            np.testing.assert_allclose(a, b, 1e-4, 1e-4)
    assert len(anywhere) > 8
    built = Model(model.build(tmp_path))
    for a, b in zip(built.run(given), _all(expected), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4)
    built.destroy()


WEIGHTED = """graph g {
    input x = x: real[8, 24, 16];
    variable w: real[8, 16, 24];
    a: real[8, 16] = sum(x, w) {
        a[b, i] = 0.0  for b < 8, i < 16;
        a[b, i] += x[b, k, i] * w[b, i, k]  for b < 8, i < 16, k < 24;
    }
    y: real[8, 16] = tanh(a) { y[b, i] = tanh(a[b, i])  for b < 8, i < 16; }
    output y = y;
}"""
"""Products with weights of each item, which are copied as they are read."""


def test_copies_of_weights_are_read_where_they_are(anywhere: list[Stretch]) -> None:
    r = np.random.default_rng(0)
    x = r.standard_normal((8, 24, 16)).astype(np.float32)
    w = r.standard_normal((8, 16, 24)).astype(np.float32)
    for _ in range(4):
        run = compile_graph(parse_graph(WEIGHTED), threads=1)
        run.variables["w"] = w
        np.testing.assert_allclose(run(x), np.tanh(np.einsum("bki,bik->bi", x, w)), 1e-4, 1e-5)
    assert anywhere
