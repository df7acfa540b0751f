"""Sums of products that read copies of boxes: in every way in which tiles can lie, they give what
NumPy gives in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction import choose, follow, form_of
from ricci.backends.llvm.emit_access import extent_of
from ricci.backends.llvm.schedule import Contraction, Side, Window
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.backends.llvm.window_choice import choose_window
from ricci.backends.llvm.window_plan import window_plan
from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.nodes import Skip, Subscript

from .cases import ZEN3, Case, at, binary, convolution, index, summed, tensor
from .native import Native
from .oracle import reduce
from .test_cases import diagonal_window
from .test_random import narrow

HOST = host()


def of_weights(n: int, c: int, f: int, h: int, w: int, dtype: DType = DType.FLOAT32) -> Case:
    """`y[g, f, c, p, q] = sum of d[n, g, f, h, w] * x[n, g, c, h + p, w + q]`."""
    names = ("g", 2), ("f", f), ("c", c), ("p", 3), ("q", 2), ("n", n), ("h", h), ("w", w)
    g, o, i, p, q, k, y, x = (index(*name) for name in names)
    d = tensor("d", n, 2, f, h, w, dtype=dtype)
    image = tensor("x", n, 2, c, h + 2, w + 1, dtype=dtype)
    value = binary(
        "mul", at(d, k, g, o, y, x), at(image, k, g, i, binary("add", y, p), binary("add", x, q))
    )
    target = at(tensor("y", 2, f, c, 3, 2, dtype=dtype), g, o, i, p, q)
    return Case(summed(target, (g, o, i, p, q), (k, y, x), value), (d, image))


def of_images(n: int, c: int, f: int, h: int, w: int) -> Case:
    """`y[n, c, h, w] = sum of d[n, f, |h - p|, |w - q|] * v[f, c, p, q]`, larger than `d`."""
    names = ("n", n), ("c", c), ("h", h + 2), ("w", w + 1), ("f", f), ("p", 3), ("q", 2)
    k, i, y, x, o, p, q = (index(*name) for name in names)
    d, v = tensor("d", n, f, h, w), tensor("v", f, c, 3, 2)
    places = [Subscript(binary("sub", a, b), Skip()) for a, b in ((y, p), (x, q))]
    value = binary("mul", at(d, k, o, *places), at(v, o, i, p, q))
    target = at(tensor("y", n, c, h + 2, w + 1), k, i, y, x)
    return Case(summed(target, (k, i, y, x), (o, p, q), value), (d, v))


CASES = {
    "weights": of_weights(3, 5, 7, 6, 9),
    "whole vectors": of_weights(4, 8, 9, 5, 5),
    "long vectors": of_weights(2, 32, 12, 5, 5),
    "double": of_weights(3, 8, 5, 4, 7, DType.FLOAT64),
    "images": of_images(3, 9, 5, 6, 20),
    "small images": of_images(5, 20, 4, 2, 3),
    "padded": convolution(2, (3, 10), (11, 19), 3, pad=1, bias=True),
    "far padded": convolution(2, (4, 6), (7, 9), 3, pad=3),
    "stride": convolution(2, (6, 10), (13, 17), 3, stride=2, pad=1),
    "dilation": convolution(1, (5, 16), (12, 20), 3, dilation=2, pad=2),
    "groups": convolution(3, (8, 8), (9, 9), 3, groups=2),
    "diagonal": diagonal_window(),
}


def windows(case: Case) -> list[Window]:
    """All ways to lay a tile, of some sizes."""
    form = form_of(case.kernel, {})
    assert form is not None
    numbers = {i: n for n, i in enumerate((*case.kernel.domain, *case.kernel.reduced))}
    sides: list[Side] = ["left", "right"]
    found: list[Window] = []
    for side in sides:
        a, v = (form.right, form.left) if side == "left" else (form.left, form.right)
        for row in a.indices:
            for lane in v.indices:
                for beside in v.indices:
                    places = (numbers[row], numbers[lane], numbers[beside])
                    found.append(Window(side, *places, 2 + len(found) % 5, 1 + len(found) % 3))
    return found


def check(case: Case, schedule: Window, cache: int, target: Target = HOST) -> None:
    target = replace(target, l2=cache)
    arrays = case.arrays(0)
    native = Native(follow(case.kernel, schedule, {}, target, case.constant), arrays, target)
    native.run(2)
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error < (1e-12 if case.target.dtype is DType.FLOAT64 else 3e-6), schedule


@pytest.mark.parametrize("name", CASES)
def test_every_way_to_lay_a_tile(name: str) -> None:
    case, computed = CASES[name], 0
    for schedule in windows(case):
        try:
            check(case, schedule, HOST.l2)
            computed += 1
        except Error as problem:
            assert [d.code for d in problem.diagnostics] == ["E0807"]
    assert computed > 1


def test_sums_are_cut_so_that_copies_fit() -> None:
    case = CASES["whole vectors"]
    form = form_of(case.kernel, {})
    assert form is not None
    schedule = Window("right", 1, 2, 4, 4, 2)
    assert window_plan(form, schedule, {}, replace(HOST, l2=20 << 10)).blocks > 1
    check(case, schedule, 20 << 10)


def test_overlapping_operands_are_copied_without_being_repeated() -> None:
    case = of_weights(32, 32, 32, 5, 5)
    assert isinstance(choose(case.kernel, {}, HOST, frozenset()), Window)


def test_groups_are_as_many_pieces_as_there_are_boxes() -> None:
    """Each has a box of its own: there is nothing to save by doing several at a time."""
    case = convolution(1, (512, 512), (14, 14), 3, pad=1, groups=32)
    form = form_of(case.kernel, {})
    assert form is not None
    schedule = Window("right", 4, 2, 2, 14, 1, row_block=14, lane_block=16)
    w = window_plan(form, schedule, {}, replace(HOST, cores=2), case.constant)
    assert w.rows.packing is not None
    assert (w.items, w.plan.grain) == (32, 1)


@pytest.mark.parametrize("width", [17, 28, 35, 48])
@pytest.mark.parametrize("rows", [3, 7, 14])
@pytest.mark.parametrize("bias", [False, True])
def test_results_of_a_row_are_stored_together(width: int, rows: int, bias: bool) -> None:
    """Its tiles end within vectors of results; the last may be shorter, and so may be the row."""
    case = convolution(2, (3, 20), (9, 2 * width + 5), 7, stride=2, pad=1, bias=bias)
    form = form_of(case.kernel, {})
    assert form is not None
    for target in (HOST, narrow(HOST, 32), narrow(HOST, 16)):
        schedule = Window("right", 3, 1, 1, rows, 2)
        w = window_plan(form, schedule, {}, target, case.constant)
        assert w.gathers == (rows % w.plan.lanes > 0)
        check(case, schedule, target.l2, target)


SMALL = {
    "five by five": convolution(2, (8, 20), (5, 6), 5, pad=2, bias=True),
    "larger than the image": convolution(3, (16, 33), (4, 3), 7, pad=3),
    "far padded": convolution(1, (20, 16), (3, 5), 3, pad=3),
    "stride": convolution(2, (16, 20), (7, 8), 5, stride=2, pad=2),
    "groups": convolution(2, (32, 40), (4, 5), 5, pad=2, groups=2),
    "images": replace(i := of_images(3, 9, 5, 3, 6), constant=frozenset({i.inputs[1]})),
}
"""Windows of constant weights, of whose rows many are outside."""


@pytest.mark.parametrize("target", [HOST, narrow(HOST, 32), narrow(HOST, 16)])
@pytest.mark.parametrize("lines", [1, 2, 3])
@pytest.mark.parametrize("name", SMALL)
def test_rows_of_terms_that_are_outside_are_left_out(name: str, lines: int, target: Target) -> None:
    """Of tiles of several lines those that are outside for all of them."""
    case = SMALL[name]
    form = form_of(case.kernel, {})
    assert form is not None
    rows, columns = (form.left, form.right)
    side: Side = "right"
    if rows.access is not None and rows.access.tensor in case.constant:
        rows, columns, side = columns, rows, "left"
    numbers = {i: n for n, i in enumerate((*case.kernel.domain, *case.kernel.reduced))}
    lane = next(numbers[i] for i in columns.indices if extent_of(i) > 1)
    for block in (0, 1):
        schedule = Window(side, numbers[rows.indices[-1]], lane, lane, 3, 1, lines, block)
        w = window_plan(form, schedule, {}, target, case.constant)
        assert w.prepared and w.guarded is not None and w.lines == lines
        check(case, schedule, target.l2, target)


@pytest.mark.parametrize(("lines", "counted"), [(1, 19 / 25), (2, 12 / 15), (5, 1.0)])
def test_what_is_left_out_of_windows(lines: int, counted: float) -> None:
    """Of five rows, 3, 4, 5, 4 and 3 of as many rows of a window; of two at a time, 4, 5 and 3."""
    case = SMALL["five by five"]
    form = form_of(case.kernel, {})
    assert form is not None
    w = window_plan(form, Window("right", 3, 1, 1, 3, 1), {}, HOST, case.constant)
    assert w.guarded is not None
    assert w.guarded.share(lines) == pytest.approx(counted)


def test_little_that_is_outside_is_not_left_out() -> None:
    """The other loops are in a better order."""
    case = convolution(1, (16, 32), (14, 14), 3, pad=1)
    form = form_of(case.kernel, {})
    assert form is not None
    w = window_plan(form, Window("right", 3, 1, 1, 7, 2), {}, HOST, case.constant)
    assert w.prepared and w.guarded is None


HALVES = replace(named("x86-64-v4"), cpu="znver4", units=1, l1=32 << 10, l2=1 << 20, cores=2)
"""A processor that does vectors in halves."""


@pytest.mark.parametrize("dilation", [12, 18])
def test_lines_that_stay_near_come_beside_what_is_done_in_halves(dilation: int) -> None:
    case = convolution(1, (256, 64), (33, 33), 2, dilation=dilation)
    assert isinstance(choose(case.kernel, {}, HALVES, case.constant), Window)


def test_lines_of_a_small_image_stay_while_weights_pass_by() -> None:
    case = convolution(1, (128, 128), (7, 7), 7, pad=3)
    assert isinstance(choose(case.kernel, {}, HALVES, case.constant), Window)


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride"),
    [((3, 32), 224, 3, 2), ((3, 32), 112, 5, 2), ((4, 32), 112, 4, 2)],
)
def test_rows_that_are_broadcast_are_read_for_two_vectors_of_32_bytes(
    channels: tuple[int, int], size: int, kernel: int, stride: int
) -> None:
    """By 14 rows and one vector there are 15 loads for 14 multiply-adds."""
    pad = (kernel - 1) // 2
    case = convolution(1, channels, (size, size), kernel, stride, pad)
    form = form_of(case.kernel, {})
    assert form is not None
    best = choose_window(form, {}, ZEN3, case.constant)
    assert best is not None and (best.rows, best.vectors) == (6, 2)
    chosen = choose(case.kernel, {}, ZEN3, case.constant)
    assert isinstance(chosen, Window) == (kernel > 3)  # panels take as long, or less


@pytest.mark.parametrize(("batch", "channels", "size"), [(1, 256, 28), (8, 512, 14)])
def test_lines_that_do_not_stay_are_waited_for(batch: int, channels: int, size: int) -> None:
    """Of weights that the second cache has no room for."""
    case = convolution(batch, (channels, channels), (size, size), 3, stride=2, pad=1)
    target = replace(HALVES, winograd=False)
    assert isinstance(choose(case.kernel, {}, target, case.constant), Contraction)
