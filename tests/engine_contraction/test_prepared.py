"""Tiles that read a constant operand arranged ahead of time: in all layouts, blocks and tiles they
give what NumPy gives in float64."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from ricci.backends.llvm import targets
from ricci.backends.llvm.contraction import choose, follow, form_of
from ricci.backends.llvm.schedule import Contraction, Dots, Side, Window, Winograd
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.window_plan import WindowPlan, loops_inside, plan_of
from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.nodes import Const, Expr, Index, Skip, Subscript, Tensor

from .cases import Case, at, binary, convolution, index, shape_of, size_of, summed, tensor
from .native import Native
from .oracle import reduce
from .test_random import narrow

HOST = host()
Strides = dict[Tensor, tuple[int, ...]]
Schedule = Contraction | Dots | Window | Winograd


def runnable() -> Iterator[Target]:
    """This machine, and lesser ones."""
    yield HOST
    yield narrow(HOST, 32)
    for name in targets.NAMES:
        try:
            targets.check_runs(name)
        except Error:
            continue
        yield targets.named(name)


TARGETS = list(dict.fromkeys(runnable()))


class Drawn:
    """A random convolution with constant weights: in one to three dimensions, with its tensors in
    some layouts, and something to be done to the sums."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        self.dtype = r.choice([DType.FLOAT32, DType.FLOAT32, DType.FLOAT64])
        self.batch = [index("n", n) for n in r.choice([(), (1,), (2,), (3,)])]
        self.groups = [index("g", 2)] if r.random() < 0.15 else []
        self.lane = index("o", r.choice([3, 8, 13, 16, 32, 40, 64, 96]))
        self.channel = index("c", r.choice([1, 3, 8, 16, 40, 130, 300, 660]))
        self.inputs: list[Tensor] = []
        self.places = [self._place(name) for name in "zyx"[: r.choice([1, 2, 2, 2, 3])]]

    def _place(self, name: str) -> tuple[Index, Index, Subscript, int]:
        """An index of places, one of a window, the subscript of both, and the extent read."""
        r = self.r
        place = index(name, r.choice([1, 2, 3, 4, 6, 7, 9, 12]))
        kernel = index(f"k{name}", r.choice([1, 1, 2, 3, 5]))
        stride, dilation = r.choice([1, 1, 2, 3]), r.choice([1, 1, 2])
        pad = r.choice([0, 0, 1, 2])
        extent = stride * (size_of(place) - 1) + dilation * (size_of(kernel) - 1) + 1
        e = binary("add", binary("mul", place, stride), binary("mul", kernel, dilation))
        if not pad:
            return place, kernel, Subscript(e), extent + r.choice([0, 1])
        return place, kernel, Subscript(binary("sub", e, pad), Skip()), max(1, extent - 2 * pad)

    def tensor(self, name: str, *extents: int) -> Tensor:
        made = tensor(name, *extents, dtype=self.dtype)
        self.inputs.append(made)
        return made

    def plain(self, name: str, *indices: Index) -> Expr:
        return at(self.tensor(name, *map(size_of, indices)), *indices)

    def case(self) -> Case:
        r = self.r
        spots, kernels = [p[0] for p in self.places], [p[1] for p in self.places]
        outer = [*self.batch, *self.groups]
        extents = (*map(size_of, [*outer, self.channel]), *(p[3] for p in self.places))
        image = at(self.tensor("x", *extents), *outer, self.channel, *(p[2] for p in self.places))
        weight = self.plain("w", *self.groups, self.lane, self.channel, *kernels)
        domain = [*outer, self.lane, *spots]
        target = at(tensor("y", *map(size_of, domain), dtype=self.dtype), *domain)
        value: Expr = binary("mul", image, weight)
        if r.random() < 0.2:
            value = binary("mul", value, Const(-0.5, self.dtype))
        initial = r.choice([None, target, self.plain("s", self.lane)])
        epilogue = r.choice([None, [], [self.plain("r", *domain)], [self.plain("v", spots[0])]])
        reduced = (self.channel, *kernels)
        kernel = summed(target, tuple(domain), reduced, value, initial, epilogue)
        constant = {t for t in self.inputs if t.name in "wsv"}
        return Case(kernel, tuple(self.inputs), frozenset(constant))

    def strides(self, case: Case) -> Strides:
        """Layouts of all but the weights: some dimension contiguous, rows sometimes apart."""
        found = {}
        for made in (*case.inputs, case.target):
            if made.name in "xyr" and self.r.random() < 0.8:
                order = list(range(len(made.shape)))
                order.append(order.pop(self.r.choice(order)))
                found[made] = laid_out(shape_of(made), order, self.r.choice([0, 0, 16, 5]))
        return found


def laid_out(shape: tuple[int, ...], order: list[int], apart: int) -> tuple[int, ...]:
    """Strides in which dimensions follow one another in an order, rows a little apart."""
    steps, step = [0] * len(shape), 1
    for d in reversed(order):
        steps[d], step = step, step * shape[d] + (apart if d == order[-1] else 0)
    return tuple(steps)


def compute(case: Case, schedule: Schedule, strides: Strides, target: Target) -> np.ndarray:
    """The target, by the machine code of a schedule."""
    code = follow(case.kernel, schedule, strides, target, case.constant)
    arrays = case.arrays(0)
    native = Native(code, {t: _flat(a, strides.get(t)) for t, a in arrays.items()}, target)
    native.run(2)
    assert not native.errors.any()
    return _view(native.array(case.target), arrays[case.target], strides.get(case.target))


def _flat(array: np.ndarray, steps: tuple[int, ...] | None) -> np.ndarray:
    """The memory of an array with some strides; gaps hold numbers that would be seen in a sum."""
    if steps is None:
        return array
    size = 1 + sum(step * (n - 1) for step, n in zip(steps, array.shape, strict=True))
    flat = np.full(size, 1e6, array.dtype)
    _view(flat, array, steps)[...] = array
    return flat


def _view(flat: np.ndarray, like: np.ndarray, steps: tuple[int, ...] | None) -> np.ndarray:
    if steps is None:
        return flat.reshape(like.shape)
    return as_strided(flat, like.shape, [step * like.itemsize for step in steps])


def compare(case: Case, schedule: Schedule, strides: Strides, target: Target) -> None:
    """Checks the results of a schedule."""
    expected, found = reduce(case.kernel, case.arrays(0)), compute(case, schedule, strides, target)
    error = np.abs(found - expected).max() / np.abs(expected).max(initial=1.0)
    assert error < (1e-12 if case.target.dtype is DType.FLOAT64 else 3e-6), (schedule, strides)


def prepared(
    case: Case, strides: Strides, target: Target, r: random.Random
) -> Iterator[tuple[Window, WindowPlan]]:
    """Ways to lay a prepared tile: of any rows, with blocks of any length."""
    form = form_of(case.kernel, strides)
    assert form is not None
    numbers = {i: n for n, i in enumerate((*case.kernel.domain, *case.kernel.reduced))}
    access = form.left.access
    side: Side = "left" if access is not None and access.tensor.name == "w" else "right"
    vector, other = (form.left, form.right) if side == "left" else (form.right, form.left)
    lane = next(i for i in vector.indices if size_of(i) > 1)
    for _ in range(60):
        vectors = r.choice([1, 2, 3])
        schedule = Window(
            side, numbers[r.choice(other.indices)], numbers[lane], numbers[lane],
            r.choice([1, 2, 3, 5, 7, 14]), vectors, r.choice([1, 2, 3]), r.choice([0, 1, 2, 3]),
            r.choice([0, 1, 2]) * vectors * target.lanes(form.dtype), r.choice([1, 1, 2, 3, 4]),
        )  # fmt: skip
        plan = plan_of(form, schedule, strides, target, case.constant)
        if not isinstance(plan, str) and plan.prepared:
            yield schedule, plan


def check_random(seed: int, each: int) -> list[WindowPlan]:
    """Compares a random convolution under some schedules; their plans."""
    drawn = Drawn(seed)
    case = drawn.case()
    strides = drawn.strides(case)
    points = math.prod(size_of(i) for i in (*case.kernel.domain, *case.kernel.reduced))
    if points > 3_000_000:
        return []
    target = drawn.r.choice(TARGETS)
    chosen = list(islice(prepared(case, strides, target, drawn.r), each))
    for schedule, _ in chosen:
        compare(case, schedule, strides, target)
    best = choose(case.kernel, strides, target, case.constant)
    if best is not None:
        compare(case, best, strides, target)
    return [plan for _, plan in chosen]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("extent", [5, 7, 9, 11, 13])
def test_long_windows_in_short_vectors(extent: int, stride: int) -> None:
    """Steps of the innermost loop are all done at once, or some of them, with others left over or
    not; neighbouring rows read the same elements."""
    case = convolution(2, (3, 24), (extent + 3, 40), extent, stride=stride, pad=extent // 2)
    target = narrow(HOST, 32)
    ways = [(s, p) for s, p in prepared(case, {}, target, random.Random(0)) if s.rows < 7]
    assert len(ways) > 3
    for schedule, _ in ways[:8]:
        compare(case, schedule, {}, target)


def test_random_convolutions() -> None:
    plans = [plan for seed in range(24) for plan in check_random(seed, 2)]
    assert len(plans) > 24
    assert any(plan.lines > 1 for plan in plans)
    assert {len(plan.parts) for plan in plans} >= {0, 1, 2}
    assert any(plan.around is not None for plan in plans)
    assert any(plan.turns > 1 for plan in plans)
    assert {plan.plan.across for plan in plans} == {True, False}
    assert {plan.rows.packing is None for plan in plans} == {True, False}
    assert any(plan.fixed for plan in plans)


def pointwise(k: int) -> Case:
    """A product over one long index, of rows and columns of an image: channels last."""
    n, y, x, o, c = (index(*p) for p in (("n", 2), ("y", 4), ("x", 5), ("o", 24), ("c", k)))
    image, w = tensor("x", 2, 4, 5, k), tensor("w", k, 24)
    value = binary("mul", at(image, n, y, x, c), at(w, c, o))
    target = at(tensor("y", 2, 4, 5, 24), n, y, x, o)
    return Case(summed(target, (n, y, x, o), (c,), value), (image, w), frozenset([w]))


@pytest.mark.parametrize("k", [512, 660, 607, 1200])
def test_long_sums_are_cut_in_stretches(k: int) -> None:
    case = pointwise(k)
    schedule, plan = next(prepared(case, {}, HOST, random.Random(0)))
    loops = loops_inside(plan, plan.plan.panel)
    assert math.prod(extent for extent, _, _ in loops) == k
    assert (len(loops) > 1) == (k != 607), "a prime has no equal pieces"
    compare(case, schedule, {}, HOST)


def test_constant_weights_are_prepared_by_choice() -> None:
    case = pointwise(1200)
    wide = replace(HOST, vector_bytes=64, registers=32, l1=32 << 10, l2=1 << 20, cores=2, units=1)
    chosen = choose(case.kernel, {}, wide, case.constant)
    assert isinstance(chosen, Window)
    compare(case, chosen, {}, HOST)
