"""Boxes of overlapping elements that matrices in registers multiply: see `test_matrices`."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from ricci.backends.llvm.contraction import follow, form_of
from ricci.backends.llvm.contraction_words import find_words, with_strides, with_views
from ricci.backends.llvm.emit_access import extent_of, linear
from ricci.backends.llvm.kernels import choose
from ricci.backends.llvm.matrix_regions import regions_of
from ricci.backends.llvm.matrix_window import choose_matrix_window, heights, plan_of
from ricci.backends.llvm.schedule import MatrixWindow, Winograd, from_json, to_json
from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.ir.nodes import Cast, Const, Index, Skip, Subscript
from ricci.ir.rewrite import accesses

from .cases import Case, at, binary, convolution, index, matmul, summed, tensor
from .oracle import reduce
from .test_matrices import TARGET, natives

SMALL = replace(TARGET, l2=1 << 20)
XEON = replace(TARGET, l1=48 << 10, l2=2 << 20, cores=2)


def chosen(case: Case) -> MatrixWindow:
    form = form_of(case.kernel, {})
    assert form is not None
    found = choose_matrix_window(form, {}, SMALL, case.constant, math.inf)
    assert found is not None
    return found[1]


def check(case: Case, schedule: MatrixWindow, arrays: dict | None = None) -> None:
    code = follow(case.kernel, schedule, {}, SMALL, case.constant)
    assert "tdpbf16ps" in code.text
    arrays = arrays or case.arrays(1)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = reduce(case.kernel, arrays).astype(np.float32)
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=1.0))
    for found in natives(code, case, arrays):
        np.testing.assert_allclose(found, expected, 1e-6, 1e-6 * scale)


CASES = [
    convolution(2, (40, 33), (9, 11), 3, pad=1, bias=True),
    convolution(1, (32, 48), (12, 40), 3, stride=2, pad=1),
    convolution(1, (33, 16), (7, 7), 3, pad=1),
    convolution(1, (64, 40), (15, 33), 3, pad=2, dilation=2),
    convolution(2, (24, 32), (10, 17), 5, bias=True),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_convolutions(number: int) -> None:
    """Lines of all lengths, with borders and without, at each place or each second one; in the
    blocks that are chosen and in others."""
    case, r = CASES[number], random.Random(number)
    schedule = chosen(case)
    assert from_json(to_json(schedule)) == schedule
    check(case, schedule)
    form = form_of(case.kernel, {})
    assert form is not None
    blocks = itertools.product((0, 1, 3, 5), (0, 32), (0, 8, 20), (0, 1))
    others = [
        replace(schedule, row_block=rows, lane_block=lanes, depth_block=deep, lanes_first=first)
        for rows, lanes, deep, first in blocks
    ]
    given = ({}, SMALL, case.constant)
    possible = [s for s in others if not isinstance(plan_of(form, s, *given), str)]
    assert len(possible) >= 2
    for s in r.sample(possible, 2):
        check(case, s)


def test_channels_that_are_side_by_side() -> None:
    """Images with the channels last, whose words are read along them."""
    n, y, x = index("n", 2), index("y", 9), index("x", 20)
    o, c, p, q = index("o", 40), index("c", 36), index("p", 3), index("q", 3)
    weight, result = tensor("w", 40, 36, 3, 3), at(tensor("y", 2, 9, 20, 40), n, y, x, o)
    for apart in (1, 5):
        image = tensor("x", 2, 11, 22, 36) if apart == 1 else tensor("x", 2, 9, 20, 36)
        places = [binary("add", i, binary("mul", k, apart)) for i, k in ((y, p), (x, q))]
        if apart > 1:
            places = [Subscript(binary("sub", place, apart), Skip()) for place in places]
        value = binary("mul", at(image, n, *places, c), at(weight, o, c, p, q))
        made = summed(result, (n, y, x, o), (c, p, q), value)
        case = Case(made, (image, weight), frozenset([weight]))
        schedule = chosen(case)
        check(case, schedule)
        check(case, replace(schedule, row_block=3, depth_block=12, inside=0))
        if apart > 1:
            check(case, replace(schedule, row_block=0, depth_block=12, inside=1))


APART = [
    convolution(2, (40, 33), (9, 20), 3, pad=6, dilation=6, bias=True),
    convolution(1, (24, 48), (21, 15), 3, stride=2, pad=5, dilation=5),
    convolution(1, (33, 16), (8, 44), 3, pad=7, dilation=7),
    convolution(1, (16, 40), (13, 13), 3, pad=4, dilation=4),
]


@pytest.mark.parametrize("number", range(len(APART)))
def test_terms_that_are_outside_are_left_out(number: int) -> None:
    """A map without a border, in regions of lines and rows of which other terms are inside; with an
    infinity, too, whose item is done by multiply-adds."""
    case, r = APART[number], random.Random(number)
    form = form_of(case.kernel, {})
    assert form is not None
    inside = replace(chosen(case), row_block=0, inside=1)
    assert from_json(to_json(inside)) == inside
    for lanes, deep in r.sample([(0, 0), (32, 8), (0, 12), (16, 0)], 2):
        s = replace(inside, lane_block=lanes, depth_block=deep)
        w = plan_of(form, s, {}, SMALL, case.constant)
        if isinstance(w, str):  # other blocks are no equal parts
            w = plan_of(form, s := inside, {}, SMALL, case.constant)
        assert not isinstance(w, str) and len(regions_of(w)) >= 6
        terms = sum(
            len(region.lines) * len(region.rows) * math.prod(map(len, region.terms.values()))
            for region in regions_of(w)
        )
        assert terms == sum(_inside(case))
        check(case, s)
    arrays = case.arrays(2)
    arrays[case.inputs[0]][0, 3, 4, 5] = np.inf
    check(case, s, arrays)


def _inside(case: Case) -> Iterator[bool]:
    """Whether terms of an image's results are inside of it, one after the other."""
    kernel = case.kernel
    _, _, y, x = kernel.domain
    read = next(a for a in accesses(*kernel.values) if a.tensor is case.inputs[0])
    places = [linear(s.index) for s in read.subscripts[2:]]
    size = [integer.value for integer in case.inputs[0].shape[2:] if isinstance(integer, Const)]
    _, p, q = kernel.reduced
    for values in np.ndindex(*(extent_of(i) for i in (y, x, p, q))):
        at_index = dict(zip((y, x, p, q), values, strict=True))
        found = [f.constant + sum(n * at_index[i] for i, n in f.steps.items()) for f in places]
        yield all(0 <= f < n for f, n in zip(found, size, strict=True))


def test_filters_of_their_own_for_each_image() -> None:
    """What the images of a chunk need is not what the one before needed."""
    n, o, y, x = index("n", 3), index("o", 32), index("y", 6), index("x", 10)
    c, p, q = index("c", 20), index("p", 3), index("q", 3)
    image, weight = tensor("x", 3, 20, 8, 12), tensor("w", 3, 32, 20, 3, 3)
    read = at(image, n, c, binary("add", y, p), binary("add", x, q))
    value = binary("mul", read, at(weight, n, o, c, p, q))
    made = summed(at(tensor("y", 3, 32, 6, 10), n, o, y, x), (n, o, y, x), (c, p, q), value)
    case = Case(made, (image, weight), frozenset([weight]))
    for first in (0, 1):
        check(case, replace(chosen(case), lanes_first=first))


def of_integers(
    items: int, maps: tuple[int, int], channels: tuple[int, int], kind: str, border: int
) -> Case:
    """A convolution of 3 by 3 of small integers that gives such maps, channels side by side."""
    n, y, x = index("n", items), index("y", maps[0]), index("x", maps[1])
    o, c, p, q = index("o", channels[1]), index("c", channels[0]), index("p", 3), index("q", 3)
    size = (items, maps[0] + 2 - 2 * border, maps[1] + 2 - 2 * border, channels[0])
    image = tensor("x<100", *size, dtype=DType(kind))
    weight = tensor("w<100", channels[1], channels[0], 3, 3, dtype=DType.INT8)

    def along(own: Index, inside: Index) -> Subscript:
        place = binary("sub", binary("add", own, inside), border)
        return Subscript(place, Skip() if border else None)

    read = Cast(DType.INT32, at(image, n, along(y, p), along(x, q), c))
    value = binary("mul", read, Cast(DType.INT32, at(weight, o, c, p, q)))
    result = at(tensor("y", items, *maps, channels[1], dtype=DType.INT32), n, y, x, o)
    return Case(
        summed(result, (n, y, x, o), (c, p, q), value), (image, weight), frozenset([weight])
    )


@pytest.mark.parametrize(("kind", "border"), [("int8", 0), ("uint8", 1)])
def test_words_of_integers_are_exact(kind: str, border: int) -> None:
    case = of_integers(2, (9, 20), (36, 40), kind, border)
    image, weight = case.inputs
    form = find_words(case.kernel, {}, SMALL, matrices=True)
    assert form is not None
    strides, constant = with_strides(form, {}), with_views(form, case.constant)
    found = choose_matrix_window(form, strides, SMALL, constant, math.inf)
    assert found is not None
    arrays = {t: a.astype(t.dtype.numpy()) for t, a in case.arrays(4).items()}
    padded = np.pad(arrays[image].astype(np.int64), [(0, 0), *[(border,) * 2] * 2, (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    expected = np.einsum("nyxcpq,ocpq->nyxo", windows, arrays[weight].astype(np.int64))
    for schedule in (found[1], replace(found[1], row_block=3, depth_block=3)):
        code = follow(case.kernel, schedule, {}, SMALL, case.constant)
        assert "@llvm.x86.tdpb" in code.text
        for result_of in natives(code, case, arrays):
            np.testing.assert_array_equal(result_of, expected)


@pytest.mark.parametrize("value", [np.inf, np.nan, -3.4e38])
def test_numbers_that_are_no_sums_of_parts(value: float) -> None:
    """They reach the results that they are factors of, and no others; those of an item before are
    forgotten."""
    case = CASES[0]
    image, weight, _ = case.inputs
    schedule = replace(chosen(case), row_block=3)
    for tensor_of, place in ((image, (0, 3, 4, 5)), (weight, (7, 3, 1, 1))):
        arrays = case.arrays(2)
        arrays[tensor_of][place] = value
        arrays[image][1] = 1.0
        check(case, schedule, arrays)


def test_long_sums_are_added_up_in_parts() -> None:
    """Of 2304 terms of one sign: a third of the error of a sum of one term after another."""
    case = convolution(1, (256, 32), (6, 6), 3)
    arrays = {t: np.abs(a) for t, a in case.arrays(3).items()}
    image, weight, _ = case.inputs
    schedule = replace(chosen(case), depth_block=0)
    expected, plain = reduce(case.kernel, arrays), np.zeros((32, 4, 4), np.float32)
    for c, p, q in np.ndindex(256, 3, 3):
        plain += arrays[weight][:, c, p, q, None, None] * arrays[image][0, c, p : p + 4, q : q + 4]
    limit = np.sqrt(np.mean((plain - expected[0]) ** 2)) / 3
    code = follow(case.kernel, schedule, {}, SMALL, case.constant)
    for found in natives(code, case, arrays):
        assert np.sqrt(np.mean((found - expected) ** 2)) < limit


def test_the_rows_of_a_tile() -> None:
    """Two parts of a line that are as long as each other, or two short lines."""
    assert heights(1, 28) == (14, 14) and heights(1, 33 - 16) == (9, 8)
    assert heights(1, 16) == (16,) and heights(2, 7) == (7, 7)


def test_what_cannot_be_done_so_is_refused() -> None:
    case = CASES[0]
    schedule = chosen(case)
    doubles = matmul(64, 64, 64, dtype=DType.FLOAT64)
    beyond = convolution(1, (32, 32), (12, 12), 2, pad=3)
    wrong = [
        (case, replace(schedule, row=99)),
        (case, replace(schedule, depth=schedule.depth + 1)),
        (case, replace(schedule, row_block=2)),
        (case, replace(schedule, vector="left" if schedule.vector == "right" else "right")),
        (doubles, schedule),
        (CASES[4], replace(chosen(CASES[4]), row_block=0, inside=1)),  # nothing is outside
        (APART[0], replace(chosen(APART[0]), row_block=3, inside=1)),
        (beyond, replace(chosen(beyond), row_block=0, inside=1)),  # all terms of some are
        (matmul(64, 64, 64), schedule),
    ]
    for of, s in wrong:
        with pytest.raises(Error, match="E0807"):
            follow(of.kernel, s, {}, SMALL, of.constant)


def test_it_is_chosen_where_fewer_products_take_longer() -> None:
    for case, kind in (
        (convolution(1, (64, 192), (27, 27), 5, pad=2), MatrixWindow),
        (convolution(1, (64, 64), (56, 56), 3, pad=1), Winograd),
    ):
        assert isinstance(choose(case.kernel, {}, TARGET, case.constant), kind)


@pytest.mark.parametrize(
    ("case", "part"),
    [
        (of_integers(1, (7, 7), (512, 512), "int8", 0), 0.85),
        (convolution(1, (64, 192), (27, 27), 5, pad=2), 1.0),
    ],
)
def test_windows_of_integers_must_be_sooner_than_panels(
    case: Case, part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For those of few rows take less than they are estimated to."""
    limits: list[float] = []

    def none_before(*given: object) -> None:
        limits.append(float(cast(float, given[-1])))

    monkeypatch.setattr("ricci.backends.llvm.contraction.choose_matrix_window", none_before)
    monkeypatch.setattr("ricci.backends.llvm.contraction.until_done", lambda *_: 100.0)
    choose(case.kernel, {}, XEON, case.constant)
    assert limits == [100.0 * part]
