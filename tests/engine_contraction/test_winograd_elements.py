"""How elements are read for fewer products: in vectors along rows of any length, without masks
where they are sure to be there, and asked for where they come from beyond the caches."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ricci.backends.llvm.contraction import form_of
from ricci.backends.llvm.schedule import Winograd
from ricci.backends.llvm.target import Target
from ricci.backends.llvm.winograd_elements import write_input
from ricci.backends.llvm.winograd_plan import WinogradPlan, plan_of
from ricci.dtypes import DType

from .cases import ZEN3, Case, convolution, size_of
from .test_prepared import HOST, Strides
from .test_random import narrow
from .test_winograd import ZEN_5, Small, check_random


class Wide(Small):
    """A random convolution of two or three by two or three neighbours, of long rows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        long = [15, 32, 33, 49, 56, 66, 90]
        taps = self.r.choice([2, 3, 3])
        self.places = [self._filter("y", 3, places=[2, 3, 5]), self._filter("x", taps, places=long)]

    def strides(self, case: Case) -> Strides:
        return {}


SHORT = replace(narrow(HOST, 32), l2=1 << 19)
"""Vectors of 32 bytes, if this machine has them; the same draws on each that does."""


def test_random_convolutions_of_long_rows() -> None:
    for seed in range(8):
        check_random(Wide, seed, 1)
    plans = [plan for seed in range(40) for plan in check_random(Wide, seed, 1, [SHORT])]
    rows = [p for p in plans if not p.along_channels]
    if not SHORT.masks:
        assert not any(p.in_place for p in rows)
        return
    assert {(p.row.taps, p.row.stride) for p in rows} == {(2, 1), (3, 1), (3, 2)}
    for dtype in (DType.FLOAT32, DType.FLOAT64):
        some = [p for p in rows if p.in_place and p.plan.form.dtype is dtype]
        loops = {p.row.stride for p in some if p.wide > 3 * p.element_lanes}
        assert loops == {1, 2}  # over vectors between the first and the last
        assert {size_of(p.rows.number) > 1 for p in some} == {True, False}
        assert {p.row.flipped for p in some} == {True, False}
    assert {p.is_far for p in rows if p.in_place} == {True, False}


def plan(case: Case, target: Target, tall: int = 0, wide: int = 0) -> WinogradPlan:
    form = form_of(case.kernel, {})
    assert form is not None
    found = plan_of(form, Winograd("right", 6, 1, tall, wide, 0), {}, target, case.constant)
    assert not isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("image", "stride", "pad", "wide", "masks"),
    [
        ((8, 56), 1, 1, 0, 4 * 3),  # the first piece; of the last, one each for two pairs of values
        ((8, 66), 1, 0, 0, 0),
        ((8, 200), 1, 1, 0, 4 * 3),
        ((8, 56), 1, 1, 14, 4 * 3),  # half a row
        ((9, 56), 2, 1, 0, 5 * 2),  # the first, and one of which a single element is needed
        ((9, 64), 2, 1, 0, 5 * 1),  # that is read by itself here
        ((9, 66), 2, 0, 0, 0),
    ],
    ids=[
        "row",
        "within",
        "long row",
        "half a row",
        "stride 2",
        "stride 2 and more",
        "stride 2 within",
    ],
)
def test_only_what_may_be_missing_is_read_under_a_mask(
    image: tuple[int, int], stride: int, pad: int, wide: int, masks: int
) -> None:
    case = convolution(1, (16, 8), image, 3, stride=stride, pad=pad)
    text = write_input(plan(case, ZEN3, wide=wide))
    assert text.count("call <4 x float> @llvm.masked.load.v4f32") == masks
    assert "load <8 x float>" not in text  # pieces that one instruction puts into both halves
    assert text.count("load <4 x float>") > 2 * masks


def test_lines_that_are_missing_are_zeros() -> None:
    case = convolution(1, (16, 8), (8, 56), 3, pad=1)
    text = write_input(plan(case, ZEN3))
    zeros = re.findall(r"select i1 %\w+, ptr %\w+, ptr @kernel.winograd.zeros", text)
    assert len(zeros) == 4 * 3  # lines of a tile; first, middle and last vectors
    assert "@kernel.winograd.zeros = internal constant [26 x float]" in text


@pytest.mark.parametrize("target", [ZEN3, ZEN_5], ids=["short", "long"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("wide", [0, 5])
def test_elements_of_later_channels_are_asked_for(target: Target, stride: int, wide: int) -> None:
    """For each vector of tiles, all lines of the cache that hold its elements: of the last those
    that the row's end is on, wherever that begins."""
    case = convolution(1, (16, 8), (9, 57), 3, stride=stride, pad=1)
    near, far = (write_input(plan(case, replace(target, l2=l2), 1, wide)) for l2 in (1 << 20, 4096))
    assert "llvm.prefetch" not in near
    places = {v: int(n) for v, n in re.findall(r"(%\w+) = getelementptr i8, .* i64 (\d+)", far)}
    asked = [places[v] for v in re.findall(r"call void @llvm.prefetch.p0\(ptr (%\w+), i32 0", far)]
    w, ahead, expected = plan(case, target, 1, wide), 4 * 9 * 57 * 4, list[int]()
    vectors = [min(w.element_lanes, w.wide - n) for n in range(0, w.wide, w.element_lanes)]
    if len(vectors) == 4:  # two of them in a loop
        vectors.pop(1)
    for tiles in vectors:
        length = tiles * w.row.pitch * 4
        each = [ahead + place for place in range(0, length, 64)]
        each += [ahead + length] if length % 64 else []
        expected += each * {1: 4, 2: 5}[stride]
    assert asked == expected
