"""Blocks with more terms of a sum than are added up one by one: tiles put what they have to the
sums after each run of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction import follow, form_of
from ricci.backends.llvm.contraction_cost import DEEP_APART, estimate
from ricci.backends.llvm.contraction_plan import make_plan
from ricci.backends.llvm.contraction_schedule import schedule_of, scheduled_plan
from ricci.backends.llvm.schedule import Contraction, Source
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named
from ricci.dtypes import DType
from ricci.ir.nodes import Const

from .cases import Case, at, binary, index, matmul, shape_of, summed, tensor
from .native import Native
from .test_random import narrow

HOST = host()
TARGETS = {"host": HOST, "32 bytes": narrow(HOST, 32), "16 bytes": narrow(HOST, 16)}
ZEN5 = replace(named("x86-64-v4"), cpu="znver5", l1=48 << 10, l2=1 << 20, cores=2)
XEON = replace(ZEN5, cpu="sapphirerapids", l2=2 << 20)


def product(rows: int, columns: int, depth: int, dtype: DType, kind: str) -> Case:
    """`x w`; or `max(x w, 0)`, which is done to sums; or with the columns of the result outside."""
    r, c, k = index("r", rows), index("c", columns), index("k", depth)
    x, w = tensor("x", rows, depth, dtype=dtype), tensor("w", depth, columns, dtype=dtype)
    y = tensor("y", *((columns, rows) if kind == "turned" else (rows, columns)), dtype=dtype)
    where = at(y, c, r) if kind == "turned" else at(y, r, c)
    kernel = summed(where, (r, c), (k,), binary("mul", at(x, r, k), at(w, k, c)))
    if kind == "relu":
        kernel = replace(kernel, results=(binary("max", kernel.results[0], Const(0.0, dtype)),))
    return Case(kernel, (x, w), frozenset({w}))


def error(case: Case, schedule: Contraction, target: Target) -> float:
    """How far the largest of sums of positive terms is off, by the code of a schedule."""
    rng = np.random.default_rng(5)
    arrays = {t: rng.random(shape_of(t)).astype(t.dtype.numpy()) for t in case.inputs}
    arrays[case.target] = np.full(shape_of(case.target), 7, case.target.dtype.numpy())
    native = Native(follow(case.kernel, schedule, {}, target, case.constant), arrays, target)
    native.run(2)
    exact = np.float64 if case.target.dtype is DType.FLOAT32 else np.longdouble
    x, w = (arrays[t].astype(exact) for t in case.inputs)
    wanted, found = x @ w, native.array(case.target)
    if found.shape != wanted.shape:
        found = found.T
    return float(np.max(np.abs(found - wanted) / wanted))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("kind", ["plain", "relu", "turned"])
@pytest.mark.parametrize("rows", [(5, 2), (3, 1)])
@pytest.mark.parametrize("sources", [("direct", "prepared"), ("packed", "packed")])
@pytest.mark.parametrize("block", [5000, 2100])
def test_deep_blocks_lose_few_bits(
    block: int,
    sources: tuple[Source, Source],
    rows: tuple[int, int],
    kind: str,
    target: Target,
) -> None:
    """With tiles that are not whole, and runs that are not, in one block or several."""
    case = product(23, 41, 5000, DType.FLOAT32, kind)
    schedule = Contraction("right", *sources, *rows, 15, 64, (0,), 0, block, 1)
    assert error(case, schedule, target) < 6e-7  # one by one: 1e-6 to 4e-6


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("kind", ["plain", "relu", "turned"])
@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.parametrize("depth", [4999, 200])
def test_many_blocks_of_few_rows_are_added_up_in_several_sums(
    depth: int, rows: int, kind: str, target: Target
) -> None:
    """With tiles that are not whole, and a last sum of fewer blocks."""
    case = product(rows, 203, depth, DType.FLOAT32, kind)
    schedule = Contraction("right", "direct", "packed", min(rows, 4), 2, 8, 64, (0,), 0, 6, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, target, case.constant)
    assert plan.sums == (8 if depth > 200 else 2)
    assert error(case, schedule, target) < 4e-7  # of 4999 terms one by one: 1.5e-6


@pytest.mark.parametrize("depth", [257, 448, 449, 1000])
def test_any_number_of_terms_is_cut_in_runs(depth: int) -> None:
    case = product(11, 37, depth, DType.FLOAT64, "plain")
    schedule = Contraction("right", "direct", "packed", 4, 2, 12, 48, (0,), 0, depth, 1)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = scheduled_plan(form, schedule, {}, HOST, case.constant)
    assert plan.runs == -(-depth // 224) and (plan.runs - 1) * plan.run < depth
    assert error(case, schedule, HOST) < 1e-15


@pytest.mark.parametrize("target", [ZEN5, XEON], ids=["near", "on a mesh"])
def test_rows_stay_in_the_first_cache_of_wide_cores(target: Target) -> None:
    case = matmul(1024, 1024, 1024)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, target, case.constant)
    assert plan.is_deep and plan.depth.blocks == 1
    assert plan.rows <= DEEP_APART  # for they lie whole pages apart
    assert scheduled_plan(form, schedule_of(plan), {}, target, case.constant) == plan
    other = replace(ZEN5, cpu="znver4", units=1)
    assert not make_plan(form, {}, other, case.constant).is_deep


def test_a_core_on_a_mesh_has_rows_enough_for_each_vector_of_the_second_cache() -> None:
    """Five rows by five vectors waste least of 128 by 1040, but read a vector too often."""
    case = matmul(130, 1040, 1024)
    form = form_of(case.kernel, {})
    assert form is not None
    costs = {}
    for target in (ZEN5, XEON):
        for rows, vectors in ((5, 5), (6, 4)):
            s = Contraction("right", "direct", "prepared", rows, vectors, 130, 80, (0,), 0, 1024, 1)
            plan = scheduled_plan(form, s, {}, target, case.constant)
            assert plan.is_deep
            costs[target.cpu, rows] = estimate(plan, {}, target)
    more = {cpu: costs[cpu, 5] / costs[cpu, 6] for cpu, _ in costs}
    assert more["sapphirerapids"] > more["znver5"] + 0.02


def test_rows_that_come_from_memory_again_are_not_worth_it() -> None:
    case = matmul(16384, 128, 4096)
    form = form_of(case.kernel, {})
    assert form is not None
    assert not make_plan(form, {}, ZEN5, case.constant).is_deep


@pytest.mark.parametrize(("cpu", "source"), [("znver5", "prepared"), ("sapphirerapids", "direct")])
def test_a_row_by_a_small_constant_has_it_prepared_where_it_would_wait(
    cpu: str, source: str
) -> None:
    case = matmul(1, 256, 512)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, replace(ZEN5, cpu=cpu), case.constant)
    assert plan.vector_source == source
