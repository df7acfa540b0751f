"""Convolutions by fewer products give what NumPy gives in float64: in all layouts, sizes, blocks
and tiles, whatever is done to the sums."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

import pytest

from ricci.backends.llvm.builder import Builder, Scope
from ricci.backends.llvm.contraction import choose, follow, form_of
from ricci.backends.llvm.contraction_tiles import even_pieces
from ricci.backends.llvm.schedule import Side, Winograd
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.backends.llvm.winograd_plan import WinogradPlan, plan_of
from ricci.backends.llvm.winograd_write import Writer
from ricci.diagnostics import Error
from ricci.ir.nodes import Access, Index, Skip, Subscript, integer
from ricci.runtime.options import Options, as_options

from .cases import Case, at, binary, convolution, index, size_of, summed, tensor
from .test_block_order import ZEN3
from .test_prepared import TARGETS, Drawn, Strides, compare
from .test_window import HALVES

HOST = replace(host(), in_parts=False)
TWO_UNITS = replace(
    HOST,
    cpu="sapphirerapids",
    vector_bytes=64,
    registers=32,
    l1=48 << 10,
    l2=2 << 20,
    cores=2,
    units=2,
)
"""What choices are asked for, whatever machine this is."""
ZEN_5 = replace(TWO_UNITS, cpu="znver5", l2=1 << 20)
PLACES = [2, 3, 5, 6, 8, 9, 14, 17]
"""Extents of results."""


class Small(Drawn):
    """A random convolution of two or three by two or three with constant weights, and layouts for
    it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.channel = index("c", self.r.choice([2, 8, 16, 21, 32, 130, 290]))
        order = self.r.choice(["yx", "xy"])
        self.places = [self._filter(name, self.r.choice([2, 3, 3])) for name in order]

    def _filter(
        self, name: str, taps: int, dilation: int = 1, places: Sequence[int] = PLACES
    ) -> tuple[Index, Index, Subscript, int]:
        """An index of places, one of the filter, the subscript of both, and the extent read."""
        place = index(name, self.r.choice(places))
        kernel = index(f"k{name}", taps)
        pad, stride = self.r.choice([0, 1, 1, 2]), self.r.choice([1, 1, 2])
        stride = stride if dilation == 1 and taps != 2 else 1
        first = binary("mul", place, 2) if stride == 2 else place
        tap, reach = (
            kernel if dilation == 1 else binary("mul", kernel, dilation),
            dilation * (taps - 1),
        )
        e = binary("sub", binary("add", first, tap), pad)
        if self.r.random() < 0.2:  # the other way round
            e = binary("add", binary("sub", first, tap), reach - pad)
        extent = max(1, stride * (size_of(place) - 1) + reach + 1 - 2 * pad)
        return place, kernel, Subscript(e, Skip() if pad else None), extent


class Apart(Small):
    """The same of filters whose values are some elements apart."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        apart = self.r.choice([(1, 2), (2, 1), (2, 2), (2, 3), (4, 4), (1, 5), (7, 3)])
        pairs = zip("yx", apart, strict=True)
        self.places = [self._filter(name, self.r.choice([2, 3, 3, 4, 5]), n) for name, n in pairs]


class Long(Small):
    """The same of longer filters, or in three dimensions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.places = [self._filter(name, self.r.choice([2, 3, 4, 5, 6, 7])) for name in "yx"]
        if self.r.random() < 0.5:
            self.places.insert(self.r.choice([0, 1, 2]), self._place("z"))


def ways(
    case: Case, strides: Strides, target: Target, r: random.Random
) -> Iterator[tuple[Winograd, WinogradPlan]]:
    """Tiles of any rows, blocks of any length."""
    form = form_of(case.kernel, strides)
    assert form is not None
    access = form.left.access
    side: Side = "left" if access is not None and access.tensor.name == "w" else "right"
    for _ in range(40):
        vectors = r.choice([1, 2, 3])
        schedule = Winograd(
            side, r.choice([1, 2, 3, 5, 7, 14]), vectors, r.choice([0, 1, 2, 3, 4]),
            r.choice([0, 0, 1, 2, 3]), r.choice([0, 1, 2]) * vectors * target.lanes(form.dtype),
        )  # fmt: skip
        plan = plan_of(form, schedule, strides, target, case.constant)
        if not isinstance(plan, str):
            yield schedule, plan


def check_random(
    kind: type[Small], seed: int, each: int, targets: Sequence[Target] = TARGETS
) -> list[WinogradPlan]:
    """Compares a random convolution under some schedules; their plans."""
    drawn = kind(seed)
    case = drawn.case()
    strides = drawn.strides(case)
    points = math.prod(size_of(i) for i in (*case.kernel.domain, *case.kernel.reduced))
    if points > 5_000_000:
        return []
    target = drawn.r.choice(targets)
    if drawn.r.random() < 0.5:  # a cache in which no filter stays
        target = replace(target, l2=1 << 12)
    if seed % 2:  # and one that cores share
        target = replace(target, shared=1 << 12)
    chosen = list(islice(ways(case, strides, target, drawn.r), each))
    for schedule, _ in chosen:
        compare(case, schedule, strides, target)
    return [plan for _, plan in chosen]


def test_random_convolutions() -> None:
    plans = [plan for seed in range(180) for plan in check_random(Small, seed, 2 - seed % 2)]
    assert len(plans) > 60
    assert {(p.line.taps, p.row.taps) for p in plans} == {(2, 2), (2, 3), (3, 2), (3, 3)}
    for turned in (True, False):  # vectors along channels, and along rows
        strides = {(p.line.stride, p.row.stride) for p in plans if p.along_channels == turned}
        assert strides == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert {p.element_lanes < p.plan.lanes for p in plans if not p.along_channels} == {True, False}
    assert {plan.along_channels for plan in plans} == {True, False}
    for stride in (1, 2):
        along_rows = [p for p in plans if not p.along_channels and p.row.stride == stride]
        found = {p.line_loads for p in along_rows}
        assert found >= ({0, 1, 2} if any(target.long for target in TARGETS) else {0})
    assert {plan.plan.across for plan in plans} == {True, False}
    assert {plan.box.packing is None for plan in plans} == {True, False}
    assert {plan.line.flipped or plan.row.flipped for plan in plans} == {True, False}
    assert any(plan.lines.length % 4 and size_of(plan.line.own) % 2 for plan in plans)
    assert any(size_of(plan.rows.number) > 1 for plan in plans)
    assert any(size_of(plan.lanes.number) > 1 for plan in plans)
    assert any(plan.channels > 128 for plan in plans)
    assert {plan.late for plan in plans} == {True, False}
    assert any(plan.by_lanes and size_of(plan.lanes.number) > 1 for plan in plans)
    left_out = [plan for plan in plans if plan.products < plan.tiles * plan.points]
    for axis in ("line", "row"):
        for stride in (1, 2):
            some = [plan for plan in left_out if getattr(plan, axis).stride == stride]
            assert {plan.late for plan in some} == {True, False}
            assert {plan.along_channels for plan in some} == {True, False}


def test_random_convolutions_of_more_terms() -> None:
    plans = [plan for seed in range(90) for plan in check_random(Long, seed, 1)]
    assert {(p.line.unit, p.row.unit) for p in plans} == {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert all(plan.along_channels for plan in plans if plan.row.unit > 1)
    assert any((plan.line.unit > 1 and plan.line.flipped) for plan in plans)
    assert {len(plan.more) for plan in plans} >= {0, 1, 2, 3}
    assert {plan.along_channels for plan in plans if plan.more} == {True, False}
    picked = any(plan.line_loads and not plan.in_place for plan in plans)
    assert picked == any(target.long for target in TARGETS)  # out of vectors of 64 bytes
    assert {plan.late for plan in plans if plan.more} == {True, False}
    assert {plan.line.stride for plan in plans if plan.more} == {1, 2}
    assert any((plan.line.flipped or plan.row.flipped) and plan.more for plan in plans)


def test_random_convolutions_of_elements_apart() -> None:
    plans = [plan for seed in range(70) for plan in check_random(Apart, seed, 1)]
    found = {(plan.line.dilation > 1, plan.row.dilation > 1) for plan in plans}
    assert found == {(False, True), (True, False), (True, True)}
    assert {plan.along_channels for plan in plans} == {True, False}
    assert all(plan.along_channels for plan in plans if plan.row.dilation > 1)
    assert {plan.late for plan in plans} == {True, False}
    assert any(size_of(plan.lines.number) > 1 and plan.line.dilation > 1 for plan in plans)
    assert any(size_of(plan.rows.number) > 1 and plan.row.dilation > 1 for plan in plans)
    assert {plan.box.packing is None for plan in plans} == {True, False}
    assert any(plan.row.flipped and plan.row.dilation > 1 for plan in plans)


@pytest.mark.parametrize("tall", [0, 2], ids=["once", "again for other lines"])
def test_filters_that_stay_in_no_cache_are_made_late(tall: int) -> None:
    case = convolution(1, (160, 40), (7, 6), 3, pad=1, bias=True)
    target = replace(HOST, l2=1 << 12)
    form = form_of(case.kernel, {})
    assert form is not None
    schedule = Winograd("right", 3, 2, tall, 0, 0)
    plan = plan_of(form, schedule, {}, target, case.constant)
    assert not isinstance(plan, str)
    assert plan.late and plan.channels > plan.stretch
    assert plan.items == (2 if tall else 1)
    compare(case, schedule, {}, target)


@pytest.mark.parametrize(
    ("cpu", "vector_bytes", "asks"),
    [("znver5", 64, True), ("znver4", 64, True), ("znver3", 32, False)],
)
@pytest.mark.parametrize("late", [True, False])
def test_filters_that_are_made_late_are_asked_for_during_products(
    cpu: str, vector_bytes: int, asks: bool, late: bool
) -> None:
    case = convolution(1, (160, 40), (7, 6), 3, pad=1)
    target = replace(ZEN_5, cpu=cpu, vector_bytes=vector_bytes, l2=1 << (12 if late else 24))
    schedule = Winograd("right", 3, 2, 0, 0, 0)
    text = follow(case.kernel, schedule, {}, target, case.constant).text
    heads = [line for line in text.splitlines() if line.startswith("define") and ".tile." in line]
    assert len(heads) > 1
    asked = late and asks
    assert {".beside" in head and "ptr %e" in head for head in heads} == {asked}
    assert ("getelementptr i8, ptr %k.e" in text) == asked


@pytest.mark.parametrize(
    ("stride", "image", "tall", "products"),
    [
        (1, (7, 7), 0, (3 * 4 + 3) ** 2),
        (2, (14, 14), 0, (3 * 4 + 2 * 3) ** 2),
        (1, (6, 7), 0, (4 * 3) * (3 * 4 + 3)),
        (2, (10, 16), 0, (3 * 3 + 2 * 2) * (5 * 4)),
        (1, (3, 3), 0, (3 * 2 + 1) ** 2),
        (1, (7, 7), 2, (4 * 2) * (3 * 4 + 3)),
    ],
    ids=["both", "stride 2", "rows", "lines", "few", "not in blocks"],
)
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("layout", ["along rows", "along channels"])
def test_products_that_only_a_missing_result_needs_are_left_out(
    stride: int, image: tuple[int, int], tall: int, products: int, late: bool, layout: str
) -> None:
    case = convolution(1, (96, 40), image, 3, pad=1, stride=stride)
    lines, rows = image
    channels_last = (lines * rows * 96, 1, rows * 96, 96)
    strides = {case.inputs[0]: channels_last} if layout == "along channels" else {}
    target = replace(HOST, l2=1 << (12 if late else 26))
    schedule = Winograd("right", 5, 2, tall, 0, 0)
    form = form_of(case.kernel, strides)
    assert form is not None
    plan = plan_of(form, schedule, strides, target, case.constant)
    assert isinstance(plan, WinogradPlan)
    assert plan.products == products
    assert (plan.late, plan.along_channels) == (late, layout == "along channels")
    compare(case, schedule, strides, target)
    text = follow(case.kernel, schedule, strides, target, case.constant).text
    results = text[text.index("define internal void @kernel.winograd.results") :]
    results = results[: results.index("ret void")]
    assert ("select i1" in results) == (plan.products < plan.tiles * plan.points)


@pytest.mark.parametrize(("extent", "tiles"), [(33, 16), (34, 16), (35, 17), (36, 18), (2, 1)])
def test_so_many_tiles_lack_a_result_where_values_are_apart(extent: int, tiles: int) -> None:
    """Two apart, tiles lie in one another: results 32 and 33 are the first of two tiles."""
    case = convolution(1, (16, 16), (extent, extent), 3, pad=2, dilation=2)
    data = {case.inputs[0]: (extent**2 * 16, 1, extent * 16, 16)}
    form = form_of(case.kernel, data)
    assert form is not None
    schedule = Winograd("right", 5, 1, 0, 0, 0)
    plan = plan_of(form, schedule, data, HOST, case.constant)
    assert isinstance(plan, WinogradPlan)
    assert [points.tiles for points in plan.down][-1] == tiles
    compare(case, schedule, data, HOST)


def test_channels_of_one_pixel_are_not_read_as_whole_vectors() -> None:
    """From row to row it is one element, as from channel to channel."""
    o, c, y, x = index("o", 16), index("c", 17), index("y", 3), index("x", 3)
    p, q = index("p", 3), index("q", 3)
    image, weight = tensor("x", 17, 1, 1), tensor("w", 16, 17, 3, 3)

    def near(place: Index, tap: Index) -> Subscript:
        return Subscript(binary("sub", binary("add", place, tap), 2), Skip())

    value = binary("mul", at(image, c, near(y, p), near(x, q)), at(weight, o, c, p, q))
    kernel = summed(at(tensor("y", 16, 3, 3), o, y, x), (o, y, x), (c, p, q), value)
    case = Case(kernel, (image, weight), frozenset({weight}))
    for rows in (1, 3):
        compare(case, Winograd("right", rows, 1, 0, 0, 0), {}, HOST)


@pytest.mark.parametrize(("stride", "sums"), [(1, 12), (2, 7)])
def test_only_sums_of_a_filter_are_made_late(stride: int, sums: int) -> None:
    """Tiles read the filter's own elements where these are, nine rows apart."""
    case = convolution(1, (96, 32), (12, 12), 3, pad=1, stride=stride)
    target = replace(ZEN_5, l2=1 << 12)
    text = follow(case.kernel, Winograd("right", 5, 2, 0, 0, 0), {}, target, case.constant).text
    made = text[text.index("define internal void @kernel.winograd.filters") :]
    made = made[: made.index("ret void")]
    assert made.count("store <16 x float>") == sums
    heads = [line for line in text.splitlines() if line.startswith("define") and ".tile." in line]
    assert {f".by{9 * 32}" in head for head in heads} == {True, False}


class Counting(Builder):
    """Divides numbers that are known, as all others are by themselves."""

    def pure(self, text: str, *operands: str, floor: Scope | None = None) -> str:
        known = re.fullmatch(r"udiv i64 (\d+), (\d+)", text)
        return str(int(known[1]) // int(known[2])) if known else super().pure(text, *operands)


@pytest.mark.parametrize("rows", [2, 5, 14])
@pytest.mark.parametrize(("size", "stride"), [(7, 1), (14, 2), (13, 1), (10, 2), (8, 1)])
def test_filters_are_asked_for_once(rows: int, size: int, stride: int) -> None:
    """Register tiles of a stretch are counted from zero on, each by a number of its own."""
    case = convolution(1, (96, 32), (size, size), 3, pad=1, stride=stride)
    target, schedule = replace(ZEN_5, l2=1 << 12), Winograd("right", rows, 2, 0, 0, 0)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = plan_of(form, schedule, {}, target, case.constant)
    assert isinstance(plan, WinogradPlan) and plan.late
    writer = Writer(plan, {}, target)
    writer.b = Counting("f", "", "void", "")
    found, before = [], 0
    for down, across in product(plan.down, plan.across):
        tiles = down.tiles * across.tiles
        for y, x in product(range(down.count), range(across.count)):
            at = writer.point(down, across, str(y), str(x))
            begin = 0
            for count, length in even_pieces(tiles, plan.height):
                for _ in range(count):
                    found.append(int(writer.done(at, str(begin), before)))
                    begin += length
        before += down.count * across.count * -(-tiles // plan.height)
    assert sorted(found) == list(range(before))


def test_an_item_may_fill_the_second_cache_where_a_core_is_fed() -> None:
    """All tiles of an image in an item: sums of filters are made twice, not four times."""
    case = convolution(1, (256, 256), (14, 14), 3, pad=1)
    for target, tall in ((ZEN_5, 7), (TWO_UNITS, 4)):
        chosen = choose(case.kernel, {}, replace(target, l2=1 << 20), case.constant)
        assert isinstance(chosen, Winograd)
        assert (chosen.tall, chosen.wide) == (tall, 7)


def test_few_cycles_saved_are_not_worth_much_memory() -> None:
    """One image of 512 channels: sums of filters take 7.3 MB more than these. Eight use them."""
    for batch in (1, 8):
        case = convolution(batch, (512, 512), (28, 28), 3, pad=1, stride=2)
        chosen = choose(case.kernel, {}, ZEN_5, case.constant)
        assert isinstance(chosen, Winograd) == (batch == 8)


def test_in_halves_there_is_time_to_bring_what_stays_nowhere() -> None:
    """16 MB of sums of filters for each of eight images: multiply-adds take twice as long there."""
    for batch, halves, late in ((1, True, True), (8, True, False), (8, False, False)):
        case = convolution(batch, (512, 512), (14, 14), 3, pad=1, stride=2)
        target = HALVES if halves else replace(HALVES, cpu="skylake-avx512")
        chosen = choose(case.kernel, {}, target, case.constant)
        assert isinstance(chosen, Winograd) == halves
        if isinstance(chosen, Winograd):
            assert (chosen.tall, chosen.wide) == (4, 4)
            form = form_of(case.kernel, {})
            assert form is not None
            plan = plan_of(form, chosen, {}, target, case.constant)
            assert isinstance(plan, WinogradPlan) and plan.late == late


def test_in_halves_an_item_may_fill_more_than_most_of_the_second_cache() -> None:
    """All tiles of an image in an item, as far as the cache goes: sums of filters are made twice,
    not four times."""
    case = convolution(1, (256, 256), (14, 14), 3, pad=1)
    for room, tall in ((1 << 20, 7), (1 << 19, 4)):
        chosen = choose(case.kernel, {}, replace(HALVES, l2=room), case.constant)
        assert isinstance(chosen, Winograd)
        assert (chosen.tall, chosen.wide) == (tall, 7)


def test_in_halves_memory_has_a_price_beside_sums_that_are_made_late() -> None:
    """1.8 MB more for a few percent of one image, and half of that for a tenth."""
    for channels, stride, late in ((256, 2, True), (128, 1, False)):
        case = convolution(1, (channels, 256), (28, 28), 3, pad=1, stride=stride)
        form = form_of(case.kernel, {})
        chosen = choose(case.kernel, {}, HALVES, case.constant)
        assert isinstance(chosen, Winograd) and form is not None
        plan = plan_of(form, chosen, {}, HALVES, case.constant)
        assert isinstance(plan, WinogradPlan) and plan.late == late


@pytest.mark.parametrize("target", [ZEN_5, TWO_UNITS], ids=["near", "on a mesh"])
def test_sums_are_kept_for_items_of_a_line_where_vectors_are_whole(target: Target) -> None:
    """Items of four lines would make them themselves."""
    case = convolution(1, (512, 512), (14, 14), 3, pad=1)
    chosen = choose(case.kernel, {}, target, case.constant)
    assert isinstance(chosen, Winograd)
    assert (chosen.tall, chosen.wide) == (1, 7)


def test_others_take_longer_than_estimated_with_two_units_of_32_bytes() -> None:
    """Every second place: of 14 by 14 it is worth it, of 7 by 7 it is not."""
    for channels, size, fewer in ((384, 14, True), (512, 7, False)):
        case = convolution(1, (channels, channels), (size, size), 3, pad=1, stride=2)
        chosen = choose(case.kernel, {}, ZEN3, case.constant)
        assert isinstance(chosen, Winograd) == fewer


def test_memory_has_a_price_beside_what_others_take_longer() -> None:
    """Sums of filters that are kept: 0.5 MB more are worth it. 2 MB more are not, where two halves
    of an image can make them late; nor are 7 MB more of a small image, which is done otherwise."""
    for channels, size, late in ((128, 56, False), (256, 28, True), (512, 20, None)):
        case = convolution(1, (channels, channels), (size, size), 3, pad=1, stride=2)
        chosen, form = choose(case.kernel, {}, ZEN3, case.constant), form_of(case.kernel, {})
        assert isinstance(chosen, Winograd) == (late is not None)
        if isinstance(chosen, Winograd) and form is not None:
            plan = plan_of(form, chosen, {}, ZEN3, case.constant)
            assert not isinstance(plan, str) and plan.late == late


def test_groups_of_few_channels_are_computed_so_where_sums_cost_little() -> None:
    case = convolution(1, (512, 512), (14, 14), 3, pad=1, groups=32)
    for target in (HALVES, replace(HALVES, cpu="skylake-avx512")):
        chosen = choose(case.kernel, {}, target, case.constant)
        assert isinstance(chosen, Winograd) == target.halves
    compare(case, choose(case.kernel, {}, HALVES, case.constant), {}, HOST)


def test_filters_that_stay_in_no_shared_cache_are_read_once() -> None:
    """All images' items of a block of filters follow one another, and blocks are so small that the
    filters of one stay."""
    case = convolution(8, (256, 256), (7, 7), 3, pad=1)
    for shared in (2 << 20, 1 << 30):
        target = replace(HOST, vector_bytes=32, registers=16, l2=1 << 19, cores=2, shared=shared)
        chosen = choose(case.kernel, {}, target, case.constant)
        form = form_of(case.kernel, {})
        assert isinstance(chosen, Winograd) and form is not None
        plan = plan_of(form, chosen, {}, target, case.constant)
        assert isinstance(plan, WinogradPlan)
        first = plan.choices.index(plan.lanes.number) == 0
        assert first == plan.by_lanes == (shared == 2 << 20)
        assert not plan.by_lanes or plan.again <= shared < plan.panels * 4


def test_sums_that_fill_half_of_the_shared_cache_cost_more_in_halves() -> None:
    """4 MB are read for each of seven items: from a cache of 6 MB that is not worth it."""
    case = convolution(1, (256, 256), (28, 28), 3, pad=1, stride=2)
    target = replace(
        ZEN_5, cpu="znver1", vector_bytes=32, registers=16, masks=False, accumulators=5,
        l2=1 << 19, units=1, cores=2,
    )  # fmt: skip
    assert target.narrow
    for shared in (6 << 20, 12 << 20):
        chosen = choose(case.kernel, {}, replace(target, shared=shared), case.constant)
        assert isinstance(chosen, Winograd) == (shared == 12 << 20)


def test_a_large_image_is_computed_so_by_choice() -> None:
    case = convolution(1, (64, 64), (28, 28), 3, pad=1, bias=True)
    chosen = choose(case.kernel, {}, HOST, case.constant)
    assert isinstance(chosen, Winograd)
    compare(case, chosen, {}, HOST)


@pytest.mark.parametrize("window", [4, 5, 6, 7, 8])
def test_longer_filters_are_done_in_parts(window: int) -> None:
    case = convolution(1, (64, 64), (28, 28), window, pad=2)
    chosen = choose(case.kernel, {}, ZEN_5, case.constant)
    assert isinstance(chosen, Winograd) or window in (4, 7), "where that is fewer by much"
    schedule = Winograd("right", 14, 2, 1, 14, 0)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = plan_of(form, schedule, {}, ZEN_5, case.constant)
    assert isinstance(plan, WinogradPlan)
    parts = -(-window // 3)
    assert [size_of(i) for i in plan.more] == [parts, parts]
    assert plan.channels == parts**2 * 64
    compare(case, schedule, {}, HOST)


LANE, CHANNEL, LINE, ROW = index("o", 32), index("c", 16), index("i", 12), index("j", 12)
DOWN, RIGHT = index("p", 5), index("q", 3)
NEXT = tensor("d", 16, 20, 16)
"""What neighbours are of: the channels are in its first dimension."""
NEAR = at(NEXT, CHANNEL, binary("add", LINE, DOWN), binary("add", ROW, RIGHT))
FILTER = tensor("w", 32, 16, 7, 3)


@pytest.mark.parametrize(
    ("weight", "image"),
    [
        (at(FILTER, LANE, CHANNEL, DOWN, RIGHT), NEAR),
        (at(FILTER, LANE, CHANNEL, binary("add", DOWN, 1), RIGHT), NEAR),
        (at(FILTER, LANE, CHANNEL, binary("sub", integer(6), DOWN), RIGHT), NEAR),
        (at(tensor("w", 32, 16, 3), LANE, CHANNEL, RIGHT), NEAR),
        (
            at(
                tensor("w", 32, 200, 3), LANE, binary("add", binary("mul", CHANNEL, 5), DOWN), RIGHT
            ),
            NEAR,
        ),
        (
            at(FILTER, LANE, CHANNEL, DOWN, RIGHT),
            at(
                NEXT,
                binary("sub", integer(15), CHANNEL),
                binary("add", LINE, DOWN),
                binary("add", ROW, binary("mul", RIGHT, 2)),
            ),
        ),
        (
            at(FILTER, LANE, CHANNEL, DOWN, RIGHT),
            at(
                NEXT,
                integer(3),
                binary("add", LINE, DOWN),
                binary("add", ROW, binary("mul", RIGHT, 2)),
            ),
        ),
    ],
    ids=[
        "seven values of which five are used",
        "from the second on",
        "backward",
        "the same in one direction",
        "followed by the next channel's",
        "channels backward, values apart",
        "no channels, values apart",
    ],
)
def test_constants_of_other_shapes_than_the_filter(weight: Access, image: Access) -> None:
    target = at(tensor("y", 32, 12, 12), LANE, LINE, ROW)
    kernel = summed(target, (LANE, LINE, ROW), (CHANNEL, DOWN, RIGHT), binary("mul", image, weight))
    case = Case(kernel, (image.tensor, weight.tensor), frozenset({weight.tensor}))
    form = form_of(case.kernel, {})
    assert form is not None
    sides: list[Side] = ["left", "right"]
    found = 0
    for schedule in [Winograd(side, 3, 1, tall, 0, 0) for side in sides for tall in (0, 2)]:
        if not isinstance(plan_of(form, schedule, {}, HOST, case.constant), str):
            compare(case, schedule, {}, HOST)
            found += 1
    assert found == (2 if image is NEAR else 0)


@pytest.mark.parametrize("filters", [64, 61])
def test_filters_are_prepared_without_ends_that_there_are_not(filters: int) -> None:
    case = convolution(1, (16, filters), (14, 14), 3, pad=1)
    schedule = Winograd("right", 3, 2, 0, 0, 0)
    (prepare,) = follow(case.kernel, schedule, {}, HOST, case.constant).prepare
    stored = set(re.findall(r"store (\S+ x \w+>|\w+) ", prepare.code.text))
    stored |= {"some" for _ in re.finditer(r"call void @llvm.masked.store", prepare.code.text)}
    assert (len(stored) == 1) == (filters == 64)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_are_done_each_by_itself(groups: int) -> None:
    case = convolution(1, (64, 64), (28, 28), 3, pad=1, groups=groups)
    chosen = choose(case.kernel, {}, ZEN_5, case.constant)
    assert isinstance(chosen, Winograd)
    compare(case, chosen, {}, HOST)


@pytest.mark.parametrize(
    "case",
    [
        convolution(1, (64, 64), (28, 28), 3, pad=1, stride=3),
        convolution(1, (64, 64), (28, 28), 3, pad=3, dilation=3, stride=2),
        convolution(1, (64, 64), (28, 28), 2, stride=2),
        replace(convolution(1, (64, 64), (28, 28), 3, pad=1), constant=frozenset()),
    ],
    ids=["stride of three", "dilation", "two by two", "not constant"],
)
def test_what_has_no_such_filter_is_not_computed_so(case: Case) -> None:
    assert not isinstance(choose(case.kernel, {}, HOST, case.constant), Winograd)
    with pytest.raises(Error) as caught:
        compare(case, Winograd("right", 14, 2, 1, 0, 0), {}, HOST)
    assert [d.code for d in caught.value.diagnostics] == ["E0807"]


@pytest.mark.parametrize(
    ("taps", "stride", "products"),
    [(2, 1, 9), (4, 1, 4 * 9), (4, 2, 4 * 9), (5, 2, 4 * 16), (5, 1, 4 * 16), (6, 2, 4 * 16)],
)
def test_how_many_products_filters_take(taps: int, stride: int, products: int) -> None:
    """Of each four results, a channel and a lane."""
    case = convolution(1, (16, 16), (24, 24), taps, pad=1, stride=stride)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = plan_of(form, Winograd("right", 3, 1, 0, 0, 0), {}, HOST, case.constant)
    assert not isinstance(plan, str)
    assert plan.points * math.prod(map(size_of, plan.more)) == products
    compare(case, Winograd("right", 3, 1, 0, 0, 0), {}, HOST)


def test_few_channels_are_not_worth_it() -> None:
    case = convolution(1, (4, 64), (28, 28), 3, pad=1)
    assert not isinstance(choose(case.kernel, {}, TWO_UNITS, case.constant), Winograd)


def test_an_item_takes_no_more_memory_than_others_for_a_large_cache() -> None:
    """All of an image would fit in 2 MB, but each thread would take 1.5 of them."""
    case = convolution(1, (256, 256), (28, 28), 3, pad=1, stride=2)
    chosen = choose(case.kernel, {}, TWO_UNITS, case.constant)
    form = form_of(case.kernel, {})
    assert isinstance(chosen, Winograd) and form is not None
    plan = plan_of(form, chosen, {}, TWO_UNITS, case.constant)
    assert not isinstance(plan, str)
    assert (plan.tall, plan.wide) < (7, 7)
    compare(case, chosen, {}, HOST)


def test_cold_weights_are_worth_it_where_arithmetic_takes_longer() -> None:
    case = convolution(1, (512, 512), (7, 7), 3, pad=1)
    one = replace(TWO_UNITS, units=1, l1=32 << 10, l2=1 << 20)
    assert isinstance(choose(case.kernel, {}, one, case.constant), Winograd)


@pytest.mark.parametrize("target", [ZEN_5, TWO_UNITS], ids=["near", "on a mesh"])
def test_cold_weights_are_worth_it_where_products_go_on_meanwhile(target: Target) -> None:
    for batch in (1, 8):
        case = convolution(batch, (512, 512), (7, 7), 3, pad=1)
        assert isinstance(choose(case.kernel, {}, target, case.constant), Winograd)


def test_late_filters_are_asked_for_where_caches_have_places_to_spare() -> None:
    case = convolution(1, (512, 512), (7, 7), 3, pad=1)
    asked = []
    for target in (ZEN_5, named("x86-64-v4"), named("x86-64-v4-amx")):
        code = follow(case.kernel, Winograd("right", 6, 4, 4, 4, 256), {}, target, case.constant)
        asked.append(".beside" in code.text)
    assert asked == [True, False, True]


def test_every_second_place_is_computed_so_by_choice() -> None:
    for batch, channels, size in ((1, 128, 56), (2, 128, 28)):
        case = convolution(batch, (channels, channels), (size, size), 3, pad=1, stride=2)
        chosen = choose(case.kernel, {}, ZEN_5, case.constant)
        assert isinstance(chosen, Winograd)
        compare(case, chosen, {}, HOST)


def test_large_filters_are_not_kept_in_a_longer_form() -> None:
    """Seven lines of seven tiles do not fit in the cache at once, and yet no two items share lanes
    of the filters, so that each makes their sums, and nine elements are kept for 16."""
    case = convolution(1, (256, 256), (14, 14), 3, pad=1)
    short = replace(TWO_UNITS, vector_bytes=32, registers=16, l1=32 << 10, l2=512 << 10)
    chosen = choose(case.kernel, {}, short, case.constant)
    form = form_of(case.kernel, {})
    assert isinstance(chosen, Winograd) and form is not None
    plan = plan_of(form, chosen, {}, short, case.constant)
    assert not isinstance(plan, str)
    assert plan.late and plan.arranged == 9
    compare(case, chosen, {}, HOST)


def test_it_can_be_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    case = convolution(1, (64, 64), (28, 28), 3, pad=1)
    asked = as_options({"winograd": False})
    assert as_options(asked.to_json()) == asked
    forbidden = asked.of(HOST)
    assert not isinstance(choose(case.kernel, {}, forbidden, case.constant), Winograd)
    monkeypatch.setenv("RICCI_WINOGRAD", "0")
    assert Options().of(HOST) == forbidden
    assert Options(winograd=True, matrices=False).of(forbidden) == HOST
    with pytest.raises(Error) as caught:
        as_options({"winograd": "no"})
    assert [d.code for d in caught.value.diagnostics] == ["E0801"]


@pytest.mark.parametrize(
    ("channels", "size", "fewer"),
    [((32, 3), 80, False), ((24, 4), 80, False), ((96, 6), 112, True), ((128, 64), 28, True)],
)
def test_few_filters_do_not_make_up_for_sums_of_elements(
    channels: tuple[int, int], size: int, fewer: bool
) -> None:
    case = convolution(1, channels, (size, size), 3, stride=2, pad=1)
    assert isinstance(choose(case.kernel, {}, ZEN3, case.constant), Winograd) == fewer
