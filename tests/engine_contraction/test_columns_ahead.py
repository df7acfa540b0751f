"""Columns from beyond the caches are asked for before the block that packs or reads them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction import follow, form_of
from ricci.backends.llvm.contraction_ahead import asks_for_columns
from ricci.backends.llvm.contraction_form import size as extent
from ricci.backends.llvm.contraction_plan import Plan, _in_one_block, blocked, make_plan
from ricci.backends.llvm.contraction_schedule import scheduled_plan
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.schedule import Contraction
from ricci.backends.llvm.target import LINE, Target, host
from ricci.ir.rewrite import accesses

from .cases import Case, convolution, index, matmul
from .native import Native
from .oracle import reduce

MOST = 1 << 18
"""Questions that a log has room for; of more it has the number alone."""
ALONE = replace(host(), l2=1 << 12, cores=1)
"""A processor of one core, beyond whose caches everything is."""

AHEAD = replace(ALONE, cpu="znver3", l2=1 << 15)
"""A processor that looks ahead itself, with room for some columns of the prepared ones."""

# of blocks of as many columns each: of a wider one behind a narrow one not all are asked for
PRODUCT = replace(matmul(24, 192, 120), constant=frozenset())
IMAGES = convolution(3, (40, 24), (24, 24), 1)
SCHEDULES = {
    "all of k": (PRODUCT, "right", 64, 0, 120, 1),
    "blocks of k": (PRODUCT, "right", 64, 0, 40, 1),
    "blocks that are not equal": (PRODUCT, "right", 64, 0, 50, 1),
    "several blocks in a chunk": (PRODUCT, "right", 64, 0, 40, 2),
    "rows in blocks": (PRODUCT, "right", 64, 12, 120, 1),
    "images": (IMAGES, "left", 192, 0, 20, 1),
}


def planned(name: str) -> tuple[Case, Contraction, Plan]:
    case, side, lanes, rows, block, grain = SCHEDULES[name]
    schedule = Contraction(
        side, "packed", "packed", 4, 1, rows or 24, lanes, (0,), 0, block, grain
    )  # fmt: skip
    form = form_of(case.kernel, {})
    assert form is not None
    return case, schedule, scheduled_plan(form, schedule, {}, ALONE, case.constant)


PREPARED = {  # rows of tiles, columns of a block, k of a block, blocks of a chunk
    "all of k": (80, 32, 90, 1),
    "blocks of k": (80, 32, 45, 1),
    "several blocks in a chunk": (80, 32, 45, 3),
    "rows in blocks": (40, 96, 30, 1),
    "blocks that are not equal": (80, 32, 40, 1),
}


SHARED = replace(AHEAD, shared=1 << 12)
"""One beyond whose shared cache all columns are, so that blocks of the same ones follow one
another."""

MESH = replace(AHEAD, cpu="sapphirerapids", vector_bytes=64, units=2, l1=1 << 12)
"""One that waits for what it does not ask for."""


def prepared(name: str, target: Target = AHEAD) -> tuple[Case, Contraction, Plan]:
    rows, lanes, block, grain = PREPARED[name]
    case = matmul(80, 480, 90)
    line = LINE // target.vector_bytes  # vectors
    schedule = Contraction(
        "right", "packed", "prepared", 4, line, rows, lanes, (0,), 0, block, grain
    )  # fmt: skip
    form = form_of(case.kernel, {})
    assert form is not None
    return case, schedule, scheduled_plan(form, schedule, {}, target, case.constant)


def with_log(code: KernelCode, log: np.ndarray, near: str = "2") -> KernelCode:
    """The code with each question written down: how many there were, and where."""
    asked = rf"call void @llvm\.prefetch\.p0\(ptr (%[\w.]+), i32 0, i32 [{near}], i32 1\)"
    text, count = re.subn(asked, r"call void @kernel.asked(ptr \1)", code.text)
    assert count
    there = f"inttoptr (i64 {log.ctypes.data} to ptr)"
    return replace(
        code,
        declarations=code.declarations | {"declare i64 @llvm.umin.i64(i64, i64)"},
        text=text
        + f"""
define internal void @kernel.asked(ptr %p) noinline {{
  %n = load i64, ptr {there}
  %more = add i64 %n, 1
  store i64 %more, ptr {there}
  %last = call i64 @llvm.umin.i64(i64 %more, i64 {log.size - 1})
  %at = getelementptr i64, ptr {there}, i64 %last
  store ptr %p, ptr %at
  ret void
}}
""",
    )


def asked_in(log: np.ndarray) -> list[int]:
    """The lines that a log has, which held all questions."""
    count = int(log[0])
    assert 0 < count < MOST - 1
    return (log[1 : count + 1] // LINE).tolist()


def questions(case: Case, schedule: Contraction, target: Target) -> tuple[Native, list[int]]:
    """The kernel of a case once it has run, and the lines that were asked for."""
    log = np.zeros(MOST, np.int64)
    code = with_log(follow(case.kernel, schedule, {}, target, case.constant), log)
    arrays = case.arrays(0)
    native = Native(code, arrays, target)
    native.run(1)
    expected = reduce(case.kernel, arrays)
    assert np.allclose(native.array(case.target), expected, rtol=1e-4, atol=1e-4)
    return native, asked_in(log)


@pytest.mark.parametrize("name", SCHEDULES)
def test_all_but_the_first_columns_are_asked_for(name: str) -> None:
    case, schedule, plan = planned(name)
    assert asks_for_columns(plan, {}, ALONE)
    native, asked = questions(case, schedule, ALONE)

    access = plan.vector.access
    assert access is not None
    array = native.array(access.tensor)
    numbers = np.arange(array.size).reshape(array.shape)
    lanes, k = plan.lane_block, plan.depth.most
    # [k, column], and [image, channel, place]
    images = numbers.reshape(3, 40, -1) if name == "images" else numbers[None]
    first = images[0, :k, :lanes].ravel()
    others = np.setdiff1d(numbers.ravel(), first)
    lines = (array.ctypes.data + others * array.itemsize) // LINE
    assert set(lines.tolist()) <= set(asked)


SHORT = {  # columns in runs of 196 and 64, and of 14 and 6 that are two apart; vectors; in a block
    "images": (convolution(4, (40, 24), (14, 14), 1), 1, 112),
    "images, blocks of k": (convolution(4, (40, 24), (14, 14), 1), 1, 112),
    "images, one row of tiles": (convolution(12, (40, 4), (8, 8), 1), 3, 48),
    "every second": (convolution(16, (40, 24), (28, 28), 1, stride=2), 1, 64),
    "every second of short rows": (convolution(8, (40, 24), (12, 12), 1, stride=2), 1, 32),
}


def in_short_runs(name: str) -> tuple[Case, Contraction, Plan]:
    case, vectors, lanes = SHORT[name]
    block = 20 if "blocks" in name else 40
    schedule = Contraction("left", "packed", "packed", 4, vectors, 24, lanes, (0,), 0, block, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    return case, schedule, scheduled_plan(form, schedule, {}, ALONE, case.constant)


@pytest.mark.parametrize("name", SHORT)
def test_columns_in_short_runs_are_asked_for(name: str) -> None:
    """The lines of those of the next blocks of k, and little else. Where columns lie side by side
    the last line of a run, of a block of seven or eight, may be left out: another begins on it."""
    case, schedule, plan = in_short_runs(name)
    assert asks_for_columns(plan, {}, ALONE)
    log = np.zeros(MOST, np.int64)
    code = with_log(follow(case.kernel, schedule, {}, ALONE, case.constant), log)
    arrays = case.arrays(0)
    native = Native(code, arrays, ALONE)

    access = plan.vector.access
    assert access is not None
    array = native.array(access.tensor)
    every = 2 if "every" in name else 1
    numbers = np.arange(array.size).reshape(array.shape)[..., ::every, ::every]
    columns = np.moveaxis(numbers, 1, 0).reshape(40, -1)
    lines = (array.ctypes.data + columns * array.itemsize) // LINE
    all_of_them = set(lines.ravel().tolist())
    for block in range(plan.blocks - 1):
        log[0] = 0
        native.do(block, block + 1)
        asked = set(asked_in(log))
        own, next = (plan.lane_block * b + np.arange(plan.lane_block) for b in (block, block + 1))
        wanted = set(lines[: plan.depth.most, next].ravel().tolist())
        wanted |= set(lines[plan.depth.most :, own].ravel().tolist())
        assert len(wanted - asked) <= (0 if every == 2 else 0.2) * len(wanted)
        assert len((asked & all_of_them) - wanted) <= 0.5 * len(wanted)
    native.do(plan.blocks - 1, plan.blocks)
    expected = reduce(case.kernel, arrays)
    assert np.allclose(native.array(case.target), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "stride"), [(36, 1), (13, 2), (20, 16), (3, 32)])
def test_columns_in_runs_of_few_are_not_asked_for(width: int, stride: int) -> None:
    """Of hardly more than a line, of a prime number, and of some on a line of their own each."""
    case = convolution(40, (40, 24), (1, width * stride), 1, stride=stride)
    schedule = Contraction("left", "packed", "packed", 4, 1, 24, 48, (0,), 0, 40, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, ALONE, case.constant)
    assert plan.vector.extent == 40 * width
    assert not asks_for_columns(plan, {}, ALONE)


WIDE = replace(matmul(24, 384, 120), constant=frozenset())
IN_PLACE = {  # rows and k of a block
    "all of k": (WIDE, 24, 120),
    "blocks of k": (WIDE, 24, 40),
    "blocks that are not equal": (WIDE, 24, 50),
    "more lines than rows of tiles": (WIDE, 4, 40),
    "sums in runs": (replace(matmul(24, 384, 600), constant=frozenset()), 24, 300),
}


def in_place(name: str, cores: int = 1) -> tuple[Case, Contraction, Plan, Target]:
    """A plan whose tiles read columns where they are, with room for those of the next block."""
    case, rows, block = IN_PLACE[name]
    target = replace(ALONE, cores=cores, l2=6 * 48 * 4 * block)
    schedule = Contraction("right", "packed", "direct", 4, 3, rows, 48, (0,), 0, block, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    return case, schedule, plan, target


@pytest.mark.parametrize("name", IN_PLACE)
def test_all_but_the_first_columns_in_place_are_asked_for(name: str) -> None:
    case, schedule, plan, target = in_place(name)
    assert asks_for_columns(plan, {}, target)
    assert (plan.runs > 1) == (name == "sums in runs")
    native, asked = questions(case, schedule, target)
    assert set(_lines_of(native, plan, slice(48, None))) <= set(asked)


def _lines_of(native: Native, plan: Plan, columns: slice) -> list[int]:
    """The lines that columns are on."""
    access = plan.vector.access
    assert access is not None
    array = native.array(access.tensor)
    numbers = np.arange(array.size).reshape(array.shape)[:, columns].ravel()
    return ((array.ctypes.data + numbers * array.itemsize) // LINE).tolist()


def test_columns_in_place_are_not_asked_for_without_room() -> None:
    _, _, plan, target = in_place("blocks of k")
    assert not asks_for_columns(plan, {}, replace(target, l2=target.l2 // 2))
    assert not asks_for_columns(plan, {}, replace(target, l2=1 << 20))  # nor what is near


@pytest.mark.parametrize(("done", "next"), [(0, 1), (3, 4), (4, 3), (7, 6)])
def test_workers_ask_for_what_is_in_front_of_what_they_take(done: int, next: int) -> None:
    """Of eight blocks of columns, the caller takes the first ones, and a worker the last ones."""
    case, schedule, plan, target = in_place("all of k", 2)
    assert plan.blocks == 8
    log = np.zeros(MOST, np.int64)
    code = with_log(follow(case.kernel, schedule, {}, target, case.constant), log)
    native = Native(code, case.arrays(0), target)
    native.do(done, done + 1)
    asked = set(asked_in(log))
    for number in set(range(8)) - {done}:
        inside = _lines_of(native, plan, slice(48 * number + 16, 48 * number + 32))
        assert (set(inside) <= asked) == (number == next)


@pytest.mark.parametrize("target", [AHEAD, SHARED, MESH], ids=["rows", "columns", "mesh"])
@pytest.mark.parametrize("name", PREPARED)
def test_all_but_the_first_panels_are_asked_for(name: str, target: Target) -> None:
    case, schedule, plan = prepared(name, target)
    assert plan.by_lanes == (target is SHARED)
    assert asks_for_columns(plan, {}, target)
    native, asked = questions(case, schedule, target)

    panels = native.array(native.code.prepare[0].output)
    first = plan.lane_block * plan.depth.most * panels.itemsize
    lines = range(
        (panels.ctypes.data + first) // LINE, (panels.ctypes.data + panels.nbytes) // LINE
    )
    assert set(lines) <= set(asked)
    blocks = plan.row_blocks * plan.lane_blocks * plan.depth.blocks
    # few of them twice; tiles without a share ask for what they have
    there = range(panels.ctypes.data // LINE, lines.stop + first // LINE)
    assert sum(line in there for line in asked) <= 1.5 * blocks * (first // LINE)


def test_prepared_panels_are_not_asked_for_in_vain() -> None:
    _, _, plan = prepared("all of k")
    for target in (replace(AHEAD, cpu="haswell", units=1), replace(AHEAD, l2=1 << 20)):
        assert not asks_for_columns(plan, {}, target)
    few, one = replace(plan, row_block=28), replace(plan, lane_block=plan.panel)
    large = replace(plan, lane_block=plan.lane_block * 2)
    for other in (few, one, large):
        assert not asks_for_columns(other, {}, AHEAD)


def test_few_rows_ask_where_a_core_waits_for_what_it_does_not_ask_for() -> None:
    _, _, plan = prepared("all of k", MESH)
    few, one = replace(plan, row_block=12), replace(plan, lane_block=plan.panel)
    for other in (plan, few, one):
        assert asks_for_columns(other, {}, MESH)
    for other in (replace(plan, row_block=8), replace(plan, lane_block=plan.lane_block * 2)):
        assert not asks_for_columns(other, {}, MESH)


@pytest.mark.parametrize("rows", [5, 7, 14])  # of tiles: of 49 elements some are left, or none
def test_rows_side_by_side_are_asked_for(rows: int) -> None:
    case = convolution(1, (200, 32), (7, 7), 1)
    schedule = Contraction("right", "direct", "prepared", rows, 1, 49, 32, (0,), 0, 200, 1)
    log = np.zeros(MOST, np.int64)
    code = with_log(follow(case.kernel, schedule, {}, MESH, case.constant), log, near="3")
    arrays = case.arrays(0)
    native = Native(code, arrays, MESH)
    native.run(1)
    expected = reduce(case.kernel, arrays)
    assert np.allclose(native.array(case.target), expected, rtol=1e-4, atol=1e-4)
    (images,) = [a.tensor for a in accesses(*case.kernel.values) if a.tensor not in case.constant]
    elements = native.array(images)
    later = np.arange(elements.size).reshape(200, 49)[32:]
    lines = (elements.ctypes.data + later.ravel() * elements.itemsize) // LINE
    assert set(lines.tolist()) <= set(asked_in(log))
    both = re.findall(r"%ask[01]\.p = getelementptr \w+, ptr %k\.a, i64 (\d+)", code.text)
    assert {int(n) - 32 * 49 for n in both} >= {0, rows - 1}  # a line or two for each tile


def test_rows_are_not_asked_for_that_stay_in_the_first_cache_or_drive_out_each_other() -> None:
    schedule = Contraction("right", "direct", "prepared", 7, 1, 49, 32, (0,), 0, 200, 1)
    counts = []
    for shape, target in [((7, 7), MESH), ((7, 7), replace(MESH, l1=1 << 16)), ((32, 16), MESH)]:
        case = convolution(1, (200, 32), shape, 1)
        code = follow(case.kernel, schedule, {}, target, case.constant)
        counts.append("%ask0.p" in code.text)
    assert counts == [True, False, False]


def test_nothing_is_asked_for_that_caches_hold() -> None:
    near = replace(ALONE, l2=1 << 20)
    for name in SCHEDULES:
        _, _, plan = planned(name)
        assert not asks_for_columns(plan, {}, near)


def test_short_sums_do_not_ask() -> None:
    """A tile with few terms is done as soon as its questions are."""
    case = replace(matmul(240, 200, 96), constant=frozenset())
    form = form_of(case.kernel, {})
    assert form is not None
    schedule = Contraction("right", "packed", "packed", 4, 1, 240, 72, (0,), 0, 96, 1)
    assert not asks_for_columns(scheduled_plan(form, schedule, {}, ALONE, frozenset()), {}, ALONE)


def test_blocks_leave_room_to_ask_for_prepared_columns() -> None:
    """Where vectors are done in halves, and the first row of tiles would wait for them."""
    target = replace(
        host(),
        cpu="znver1",
        vector_bytes=32,
        registers=16,
        units=1,
        l1=1 << 15,
        l2=1 << 19,
        cores=2,
    )
    case = convolution(1, (512, 512), (14, 14), 3, stride=2, pad=1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, target, case.constant)
    assert plan.vector_source == "prepared"
    assert asks_for_columns(plan, {}, target)
    ample = make_plan(form, {}, replace(target, l2=1 << 21), case.constant)
    assert plan.depth.most < ample.depth.most


@pytest.mark.parametrize(("limit", "block"), [(227, 224), (256, 256), (215, 208), (204, 196)])
def test_blocks_of_k_are_whole_lines(limit: int, block: int) -> None:
    """Unless they would be more than there is room for."""
    k = index("k", 4096)
    depth = blocked(_in_one_block((k,)), limit)
    assert (depth.block, depth.most) == (block, block)


def packing_rows(case: Case, target: Target, rows: int) -> KernelCode:
    """Rows and columns that are packed; not enough of either to ask for columns."""
    schedule = Contraction("right", "packed", "packed", rows, 1, 96, 48, (0,), 0, 4, 1)
    return follow(case.kernel, schedule, {}, target, frozenset())


@pytest.mark.parametrize("panel", [4, 6, 8])
def test_rows_on_pages_of_their_own_are_asked_for(panel: int) -> None:
    """While panels are packed, k by k: the lines of those that come next."""
    case, log = matmul(96, 48, 40, left=True), np.zeros(MOST, np.int64)
    arrays = case.arrays(0)
    native = Native(with_log(packing_rows(case, ALONE, panel), log, "3"), arrays, ALONE)
    native.run(1)
    assert np.allclose(native.array(case.target), reduce(case.kernel, arrays), rtol=1e-4, atol=1e-4)
    rows = native.array(next(iter(arrays)))
    starts = rows.ctypes.data + rows.itemsize * np.arange(rows.size).reshape(rows.shape)
    wanted = {*(starts[:, LINE // rows.itemsize :].ravel() // LINE)}
    asked = asked_in(log)
    assert wanted <= {*asked}
    assert len(asked) <= starts.size // 3  # one or two for each panel and k


@pytest.mark.parametrize(("left", "l2"), [(False, 1 << 12), (True, 1 << 20)])
def test_rows_that_are_contiguous_or_near_are_not_asked_for(left: bool, l2: int) -> None:
    code = packing_rows(matmul(96, 48, 40, left=left), replace(ALONE, l2=l2), 6)
    rows = re.findall(r"define internal void @kernel\.pack\.rows.*?\n}", code.text, re.S)
    assert rows and not any("i32 0, i32 3, i32 1)" in text for text in rows)


ALONG = {  # side and columns of a panel; rows and columns of an image, how far apart results are
    "one run": ("right", 16, (1, 240), 1, 0),
    "short runs": ("left", 24, (12, 9), 1, 0),
    "every second of short runs": ("left", 24, (19, 19), 2, 0),
    "short runs with a border": ("left", 24, (10, 10), 2, 1),
}


@pytest.mark.parametrize("name", ALONG)
def test_packing_asks_for_columns_that_tiles_do_not_ask_for(name: str) -> None:
    """For those of the next panel, or the same of the next run where a panel has several."""
    side, panel, size, stride, pad = ALONG[name]
    kernel = 3 if pad or name == "short runs" else 1
    case = convolution(2, (60, 24), size, kernel, stride=stride, pad=pad)
    if side == "right":
        case = replace(matmul(24, 240, 60), constant=frozenset())
    form = form_of(case.kernel, {})
    assert form is not None
    order = tuple(n for n, i in enumerate(form.reduced) if extent([i]) > 1)
    schedule = Contraction(
        side, "packed", "packed", 4, panel // 8, 24, panel, order, 0, 4, 1
    )  # fmt: skip
    target = replace(ALONE, vector_bytes=32, registers=16)
    log, arrays = np.zeros(MOST, np.int64), case.arrays(0)
    code = follow(case.kernel, schedule, {}, target, case.constant)
    native = Native(with_log(code, log, "3"), arrays, target)
    native.do(0, 1)
    count = int(log[0])
    asked = {*log[1 : count + 1].tolist()}

    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    access = plan.vector.access
    assert access is not None
    columns = native.array(access.tensor)
    if side == "right":
        places = [(k, 0) for k in range(60)]
        wanted = {columns.ctypes.data + 4 * (k * 240 + c) + LINE for k, c in places}
    else:
        height, width = columns.shape[2:]
        run = -(-(width + 2 * pad - kernel + 1) // stride)
        pieces = [(c // run, c % run) for c in range(panel) if c == 0 or c % run % 8 == 0]
        wanted = {
            columns.ctypes.data
            + 4 * ((k * height + y * stride + i - pad) * width + x * stride + j - pad)
            + 4 * stride * width
            for k in range(60)
            for y, x in pieces
            for i in range(kernel)
            for j in range(kernel)
        }
    assert asked == wanted
    native.run(1)
    assert np.allclose(native.array(case.target), reduce(case.kernel, arrays), rtol=1e-4, atol=1e-4)


SPREAD = {  # rows, vectors of a tile, columns and k of a block
    "each of them once": (64, 3, 48, 60),
    "k that no turn divides": (64, 3, 48, 41),
    "rows that no tile divides": (62, 2, 48, 60),
    "one k in a turn": (120, 1, 24, 60),
    "sums in runs": (64, 3, 48, 300),
}


@pytest.mark.parametrize("name", SPREAD)
def test_questions_are_spread_over_all_tiles(name: str) -> None:
    """With enough of them each asks but once in a turn, of four k if it is small."""
    rows, vectors, lanes, block = SPREAD[name]
    case = replace(matmul(rows, 192, block * 2), constant=frozenset())
    height, every = (12, 1) if name == "one k in a turn" else (4, 4)
    schedule = Contraction(
        "right", "packed", "packed", height, vectors, rows, lanes, (0,), 0, block, 1
    )  # fmt: skip
    target = replace(ALONE, vector_bytes=32, registers=16)
    native, asked = questions(case, schedule, target)
    assert re.search(rf"@kernel\.tile\.{height}x{vectors}\.beside1\.{every}\b", native.code.text)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    later = {*_lines_of(native, plan, slice(lanes, None))}
    assert later <= {*asked}


def test_few_tiles_ask_in_every_step() -> None:
    """And packing does not ask for what tiles ask for."""
    case = replace(matmul(12, 192, 120), constant=frozenset())
    schedule = Contraction("right", "packed", "packed", 4, 3, 12, 48, (0,), 0, 60, 1)
    target = replace(ALONE, vector_bytes=32, registers=16)
    text = follow(case.kernel, schedule, {}, target, case.constant).text
    assert re.search(r"@kernel\.tile\.4x3\.beside1\.1\b", text)
    columns = re.findall(r"define internal void @kernel\.pack\.columns.*?\n}", text, re.S)
    assert columns and not any("i32 0, i32 3, i32 1)" in part for part in columns)
