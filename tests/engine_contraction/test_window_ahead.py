"""What items of windows ask for ahead: all that the next item reads, and little else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction import follow, form_of
from ricci.backends.llvm.emit_access import extent_of, linear, shape_of
from ricci.backends.llvm.schedule import Window
from ricci.backends.llvm.target import LINE, Target, host
from ricci.backends.llvm.window_ahead import Ahead, asked_ahead
from ricci.backends.llvm.window_box import access_of
from ricci.backends.llvm.window_plan import WindowPlan, window_plan
from ricci.diagnostics import Error
from ricci.ir.nodes import Index

from .cases import Case, convolution
from .native import Native
from .test_columns_ahead import MOST, asked_in, with_log
from .test_window import check, of_weights, windows

HOST = host()
CASES = {
    "groups": replace(convolution(8, (8, 8), (9, 9), 3, groups=2), constant=frozenset()),
    "constant groups": convolution(8, (8, 32), (9, 9), 3, pad=1, groups=2),
    "weights": of_weights(8, 5, 7, 6, 9),
    "rows of images": convolution(2, (3, 16), (40, 16), 3, pad=1),
}


def plans(case: Case, target: Target) -> Iterator[tuple[Window, WindowPlan]]:
    """All ways to lay a tile, of items with all rows and with some."""
    form = form_of(case.kernel, {})
    assert form is not None
    for whole in windows(case):
        for schedule in (whole, replace(whole, row_block=4)):
            with suppress(Error):  # not all ways are ways for all
                yield schedule, window_plan(form, schedule, {}, target, case.constant)


def small(case: Case) -> Target:
    """A target whose caches hold a small part of the largest operand."""
    most = max(math.prod(shape_of(t.shape)) * 4 for t in case.inputs)
    return replace(HOST, l2=(most - 1) // 2)


def first_of(ahead: Ahead, places: dict[Index, int]) -> int:
    return ahead.start + sum(f * places.get(i, 0) for i, f in ahead.factors.items())


def read_by(w: WindowPlan, ahead: Ahead, places: dict[Index, int]) -> set[int]:
    """The elements of a tensor that an item reads."""
    operands = (w.plan.broadcast, w.plan.vector)
    access = next(a for a in map(access_of, operands) if a.tensor is ahead.tensor)
    cuts = {c.index: c for c in w.parts}
    forms = [linear(s.index) for s in access.subscripts]
    shape = shape_of(access.tensor.shape)
    used = {i for f in forms for i in f.steps}
    own = [i for i in used if i not in places]
    found = set()
    for values in itertools.product(*(range(w.length(i)) for i in own)):
        at = places | dict(zip(own, values, strict=True))
        for i in own:
            if i in cuts:
                at[i] += places.get(cuts[i].number, 0) * cuts[i].length
        index = [f.constant + sum(c * at[i] for i, c in f.steps.items()) for f in forms]
        if all(0 <= x < n for x, n in zip(index, shape, strict=True)):
            flat = 0
            for x, n in zip(index, shape, strict=True):
                flat = flat * n + x
            found.add(flat)
    return found


@pytest.mark.parametrize("name", CASES)
def test_all_that_an_item_reads_and_little_else(name: str) -> None:
    case, looked = CASES[name], 0
    target = small(case)
    for _, w in plans(case, target):
        for ahead in asked_ahead(w, {}, target):
            chosen = [i for i in (*w.plan.form.batch, *w.choices) if extent_of(i) > 1]
            asked, read = 0, 0
            for values in itertools.product(*(range(extent_of(i)) for i in chosen)):
                places = dict(zip(chosen, values, strict=True))
                first = first_of(ahead, places)
                stretches = {
                    first + k * ahead.step + x
                    for k in range(ahead.count)
                    for x in range(ahead.length)
                }
                wanted = read_by(w, ahead, places)
                assert wanted <= stretches
                asked, read = asked + len(stretches), read + len(wanted)
            assert asked <= 2 * read
            looked += 1
    assert looked


@pytest.mark.parametrize("name", CASES)
def test_results_are_as_before(name: str) -> None:
    case, asked = CASES[name], 0
    target = small(case)
    for schedule, w in plans(case, target):
        if asked_ahead(w, {}, target):
            code = follow(case.kernel, schedule, {}, target, case.constant)
            assert "call void @llvm.prefetch" in code.text
            check(case, schedule, target.l2)
            asked += 1
    assert asked


@pytest.mark.parametrize("name", CASES)
def test_workers_ask_for_the_item_in_front(name: str) -> None:
    """The caller takes the first items, and does the next one then; a worker the last ones."""
    case, looked = CASES[name], 0
    target = replace(small(case), cores=2)
    for schedule, w in plans(case, target):
        found = asked_ahead(w, {}, target)
        grain = w.plan.grain
        chunks = -(-w.items // grain)
        if not found or chunks < 3:
            continue
        chosen = [i for i in (*w.plan.form.batch, *w.choices) if extent_of(i) > 1]
        items = list(itertools.product(*(range(extent_of(i)) for i in chosen)))
        log = np.zeros(MOST, np.int64)
        code = with_log(follow(case.kernel, schedule, {}, target, case.constant), log, "23")
        native = Native(code, case.arrays(0), target)
        for done, next in ((0, grain), (chunks - 1, (chunks - 2) * grain)):
            log[0] = 0
            native.do(done, done + 1)
            asked = set(asked_in(log))
            for ahead in found:
                array = native.array(ahead.tensor)
                first = first_of(ahead, dict(zip(chosen, items[next], strict=True)))
                assert (array.ctypes.data + first * array.itemsize) // LINE in asked
        looked += 1
    assert looked


def test_nothing_is_asked_for_that_caches_hold() -> None:
    case = CASES["groups"]
    assert all(not asked_ahead(w, {}, HOST) for _, w in plans(case, HOST))
