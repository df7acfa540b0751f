"""Kernels by schedules that no cost model chose: the numbers stay, and what is impossible is an
error."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.kernels import KernelCode, choose, generate
from ricci.backends.llvm.nest_tiles import tiles_of
from ricci.backends.llvm.schedule import Contraction, Dots, Nest, Schedule, from_json, to_json
from ricci.backends.llvm.schedule_space import KernelSpace
from ricci.backends.llvm.target import host
from ricci.diagnostics import Error
from ricci.dtypes import DType, Types
from ricci.ir.loops import Reduce
from ricci.ir.text import parse_graph
from ricci.runtime.executable import compile_graph
from ricci.runtime.options import Options
from ricci.runtime.tuning_kernel import Part, Subject
from ricci.runtime.tuning_problem import Problem

from ..engine_contraction.cases import Case, RandomCase, convolution, matmul, random_product
from ..engine_contraction.native import Native
from ..engine_contraction.oracle import reduce
from ..ir.programs import Program, random_program
from .test_random_programs import compare

HOST = host()
_TOLERANCE = {DType.FLOAT32: 3e-5, DType.FLOAT64: 1e-12}


def code_of(case: Case, schedule: Schedule | None) -> KernelCode:
    return generate(case.kernel, {}, HOST, case.constant, schedule)


def check(case: Case, schedule: Schedule | None, seed: int) -> None:
    """Compare a kernel by a schedule with NumPy in float64."""
    arrays = case.arrays(seed)
    native = Native(code_of(case, schedule), arrays, HOST)
    native.run(3)
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    error = np.abs(found - expected).max(initial=0.0) / np.abs(expected).max(initial=1.0)
    assert error < _TOLERANCE[case.target.dtype], f"seed {seed}, {schedule}: {error}"


def space(case: Case) -> KernelSpace:
    return KernelSpace(case.kernel, {}, HOST, case.constant)


def draw(case: Case, r: random.Random) -> Schedule | None:
    """A schedule some steps away from one to begin with; None if it is not possible."""
    around = space(case)
    schedule = r.choice(around.first())
    for _ in range(r.randint(0, 6)):
        schedule = around.near(schedule, r)
    try:
        code_of(case, schedule)
    except Error as problem:
        assert [d.code for d in problem.diagnostics] == ["E0807"]
        return None
    return schedule


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_schedules_of_random_contractions(first: int) -> None:
    possible = 0
    for seed in range(first, first + 20):
        case = RandomCase(seed).draw() if seed % 3 else random_product(seed)
        schedule = draw(case, random.Random(seed))
        if schedule is not None:
            check(case, schedule, seed)
            possible += 1
    assert possible > 8


@pytest.mark.parametrize(
    "case",
    [matmul(33, 40, 37), matmul(3, 50, 300, right=True), convolution(2, (3, 5), (9, 17), 3, pad=1)],
    ids=["product", "few rows", "convolution"],
)
def test_every_kind_of_schedule(case: Case) -> None:
    r = random.Random(1)
    around, seen = space(case), set()
    for start in around.first():
        seen.add(type(start))
        schedule = around.near(around.near(start, r), r)
        for chosen in (start, schedule):
            try:
                check(case, chosen, 0)
            except Error as problem:
                assert [d.code for d in problem.diagnostics] == ["E0807"]
    assert {Contraction, Nest} <= seen


@pytest.mark.parametrize("rows", [2, 3, 8])
@pytest.mark.parametrize("count", [3, 16, 31, 49])
def test_blocks_of_rows_are_whole_tiles(count: int, rows: int) -> None:
    """Also with rows before and after those whose windows are complete."""
    product = matmul(count, 20, 37)
    window = convolution(1, (1, 1), (count, 37), 5, pad=2)
    for case in (product, window):
        plain = next(s for s in space(case).first() if isinstance(s, Nest))
        *others, row = (k for k in plain.outer if k != plain.vector)
        outer = (*others, row) if others else (row,)
        for chunks in (2, 3, 7):
            schedule = replace(plain, outer=outer, rows=rows, vectors=1, chunks=chunks)
            check(case, schedule, chunks)


@pytest.mark.parametrize(
    ("extent", "inside", "count", "left"),
    [(49, (0, 49), 6, 1), (56, (3, 53), 6, 2), (9, (4, 5), 1, 1), (20, (0, 0), 1, 0)],
)
def test_tiles_of_rows(extent: int, inside: tuple[int, int], count: int, left: int) -> None:
    tiles = tiles_of(extent, inside, 8)
    assert tiles is not None
    assert (tiles.count, tiles.left) == (count, left)
    assert tiles_of(extent, inside, 1) is None


@pytest.mark.parametrize("block", [3, 7])
@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_prepared_in_short_blocks(rows: int, block: int) -> None:
    """Less is contiguous along the sum than makes it worth to transpose it."""
    case = matmul(11, 5, 7, right=True)
    check(case, Contraction("left", "prepared", "packed", rows, 1, 4, 32, (0,), 0, block, 1), 0)


@pytest.mark.parametrize("seed", range(12))
def test_the_schedule_chosen_gives_the_same_code(seed: int) -> None:
    case = RandomCase(seed).draw()
    schedule = choose(case.kernel, {}, HOST, case.constant)
    assert schedule is not None
    assert code_of(case, schedule).text == code_of(case, None).text
    assert from_json(json.loads(json.dumps(to_json(schedule)))) == schedule


def chosen(case: Case, kind: type[Contraction]) -> Contraction:
    return next(s for s in space(case).first() if isinstance(s, kind))


PRODUCT = matmul(33, 40, 37)
TILES = chosen(PRODUCT, Contraction)
LOOPS = next(s for s in space(PRODUCT).first() if isinstance(s, Nest))


@pytest.mark.parametrize(
    "schedule",
    [
        replace(TILES, rows=0),
        replace(TILES, rows=30, vectors=16),
        replace(TILES, row_block=0),
        replace(TILES, order=(1,)),
        replace(TILES, split=1),
        replace(TILES, order=(0, 0)),
        replace(TILES, vector="right", broadcast_source="prepared"),
        replace(TILES, vector="left", vector_source="direct"),
        replace(LOOPS, lanes=12),
        replace(LOOPS, vector=7),
        replace(LOOPS, outer=()),
        replace(LOOPS, rows=99),
        replace(LOOPS, unroll=1 << 20),
        replace(LOOPS, chunks=0),
        Dots("left", 4, 64),
    ],
    ids=str,
)
def test_impossible_schedules(schedule: Schedule) -> None:
    with pytest.raises(Error) as raised:
        code_of(PRODUCT, schedule)
    assert [d.code for d in raised.value.diagnostics] == ["E0807"]


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"template": "other"},
        {"template": "dots", "small": "left"},
        {"template": "dots", "small": "up", "count": 4, "block": 8},
        {"template": "dots", "small": ["left"], "count": 4, "block": 8},
        {"template": "dots", "small": "left", "count": True, "block": 8},
        {"template": "dots", "small": "left", "count": -4, "block": 8},
        to_json(LOOPS) | {"outer": [0.5]},
        to_json(LOOPS) | {"outer": "01"},
        to_json(LOOPS) | {"chunks": 1 << 80},
        {"template": ["dots"]},
    ],
    ids=str,
)
def test_data_that_is_no_schedule(data: object) -> None:
    with pytest.raises(Error) as raised:
        from_json(data)
    assert [d.code for d in raised.value.diagnostics] == ["E0807"]


def random_schedules(program: Program, r: random.Random) -> tuple[Schedule | None, ...] | None:
    """A schedule for each kernel, some steps away from one to begin with; None for a program that
    is not computed on these inputs, or not for known sizes."""
    types = Types(DType.FLOAT32, DType.INT64)
    try:
        subject = Problem(program.graph, {}, (), program.inputs, types, False).subject(1)
    except Error:
        return None
    return tuple(_one(subject, part, r) for part in subject.parts)


def _one(subject: Subject, part: Part, r: random.Random) -> Schedule | None:
    given = (subject.program.strides, subject.target, subject.constant)
    if choose(part.kernel, *given) is None:
        return None
    assert isinstance(part.kernel, Reduce)
    around = KernelSpace(part.kernel, *given)
    schedule = r.choice(around.first())
    for _ in range(r.randint(0, 5)):
        schedule = around.near(schedule, r)
    try:
        generate(part.kernel, given[0], given[1], given[2], schedule)
    except Error:
        return None
    return schedule


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_schedules_of_random_programs(first: int) -> None:
    scheduled = 0
    for seed in range(first, first + 20):
        program = random_program(seed)
        schedules = random_schedules(program, random.Random(seed))
        if schedules is not None:
            options = Options(schedules)
            compare(program, compile_graph(program.graph, threads=1, options=options))
            scheduled += sum(s is not None for s in schedules)
    assert scheduled > 8


GUARDED = """
graph G {
  input a = a: real[40, 48];
  input b = b: real[48, 64];
  input c = c: real[50];
  y: real[40, 64] = op(a, b, c) {
    with t = c[|i + j|]: y[i, k] += a[i, j] * b[j, k]  for i < 40, k < 64, j < 48;
  }
  output y = y;
}
"""


def test_a_guard_that_no_value_has_leaves_out_terms() -> None:
    graph = parse_graph(GUARDED)
    a, b = np.ones((40, 48), np.float32), np.ones((48, 64), np.float32)
    counts = np.minimum(48, 50 - np.arange(40))
    found = compile_graph(graph)(a, b, np.zeros(50, np.float32))
    np.testing.assert_array_equal(found, np.repeat(counts[:, None], 64, 1))
