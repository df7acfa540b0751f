"""The order of a product's blocks, which threads take from both ends, and blocks of columns that
tiles read in place from beyond the caches."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.builder import Builder
from ricci.backends.llvm.contraction import choose, follow, form_of
from ricci.backends.llvm.contraction_ahead import asks_for_columns
from ricci.backends.llvm.contraction_plan import Plan, make_plan
from ricci.backends.llvm.contraction_schedule import scheduled_plan
from ricci.backends.llvm.contraction_space import chunk_after
from ricci.backends.llvm.jit import Library, compile_text
from ricci.backends.llvm.schedule import Contraction
from ricci.backends.llvm.target import Target, host
from ricci.backends.llvm.targets import named

from .cases import ZEN3, Case, at, binary, index, matmul, shape_of, summed, tensor
from .native import Native

ALONE = replace(host(), cores=1)
FAR = replace(ALONE, shared=1)
"""One beyond whose shared cache all columns are, so that blocks of the same ones follow one
another."""

BLOCKS = {  # rows, columns, rows of a block, columns of a block, target; rows and columns at a time
    "three of rows": (23, 40, 10, 100, ALONE, [(10, 40), (3, 40), (10, 40)]),
    "four of rows, two of columns": (
        38, 40, 10, 32, ALONE,
        [(10, 32), (10, 8)] * 2 + [(8, 32), (8, 8)] + [(10, 32), (10, 8)],
    ),
    "two of rows": (13, 40, 10, 100, ALONE, [(10, 40), (3, 40)]),
    "whole ones": (30, 40, 10, 100, ALONE, [(10, 40)] * 3),
    "of columns alone": (5, 72, 5, 32, ALONE, [(5, 32), (5, 8), (5, 32)]),
    "columns first": (
        13, 72, 5, 32, FAR,
        [(5, 32), (5, 32), (3, 32), (5, 8), (5, 8), (3, 8), (5, 32), (5, 32), (3, 32)],
    ),
}  # fmt: skip


def in_order(case: Case, schedule: Contraction, target: Target) -> list[tuple[int, int]]:
    """The parts of the result that chunks of a schedule write, one by one: rows and columns."""
    rng = np.random.default_rng(5)
    arrays = {t: rng.random(shape_of(t)).astype(t.dtype.numpy()) for t in case.inputs}
    arrays[case.target] = np.full(shape_of(case.target), np.nan, case.target.dtype.numpy())
    native = Native(follow(case.kernel, schedule, {}, target, case.constant), arrays, target)
    x, w = (arrays[t].astype(float) for t in case.inputs)
    parts = []
    result = native.array(case.target)
    before = np.isnan(result)
    assert before.all()
    for chunk in range(native.code.chunks):
        native.do(chunk, chunk + 1)
        new = before & ~np.isnan(result)
        new = new.reshape(-1, new.shape[-1])
        rows, columns = int(new.any(1).sum()), int(new.any(0).sum())
        assert new.sum() == rows * columns
        parts.append((rows, columns))
        before = np.isnan(result)
    np.testing.assert_allclose(result, x @ w, 1e-5)
    return parts


@pytest.mark.parametrize("name", BLOCKS)
def test_the_block_that_is_shorter_is_done_in_the_middle(name: str) -> None:
    rows, columns, row_block, lane_block, target, wanted = BLOCKS[name]
    case = replace(matmul(rows, columns, 7), constant=frozenset())
    schedule = Contraction(
        "right", "direct", "packed", 5, 2, row_block, lane_block, (0,), 0, 7, 1
    )  # fmt: skip
    assert in_order(case, schedule, target) == wanted


def test_blocks_of_a_batch_are_in_order() -> None:
    b, i, j, k = index("b", 3), index("i", 23), index("j", 40), index("k", 7)
    x, w = tensor("x", 3, 23, 7), tensor("w", 3, 7, 40)
    value = binary("mul", at(x, b, i, k), at(w, b, k, j))
    case = Case(summed(at(tensor("y", 3, 23, 40), b, i, j), (b, i, j), (k,), value), (x, w))
    form = form_of(case.kernel, {})
    assert form is not None
    schedule = Contraction("right", "direct", "packed", 5, 2, 10, 64, (0,), 0, 7, 1)
    assert scheduled_plan(form, schedule, {}, ALONE, case.constant).outer == 3
    parts = in_order(case, schedule, ALONE)
    assert parts == [(10, 40), (10, 40), (3, 40)] * 3


ZEN4 = replace(named("x86-64-v4"), cpu="znver4", l1=32 << 10, l2=1 << 20, shared=6 << 20, cores=2)
ZEN5 = replace(ZEN4, cpu="znver5", l1=48 << 10)


def planned(columns: int, target: Target, rows: int = 128) -> Plan:
    case = matmul(rows, columns, 256)
    form = form_of(case.kernel, {})
    assert form is not None
    return make_plan(form, {}, target, frozenset())


def test_columns_in_place_are_read_in_blocks_where_vectors_are_done_in_halves() -> None:
    plan = planned(3136, ZEN4)
    assert plan.vector_source == "direct"
    assert not plan.is_streamed
    assert plan.depth.most > 100
    assert asks_for_columns(plan, {}, ZEN4)
    assert plan.rows * plan.vectors <= 14  # two k in a turn
    assert planned(3136, ZEN5).vector_source == "packed"


@pytest.mark.parametrize("columns", [4096, 2048])
def test_columns_on_the_same_lines_of_the_caches_are_packed(columns: int) -> None:
    assert planned(columns, ZEN4).vector_source == "packed"


def test_columns_for_few_rows_are_streamed() -> None:
    plan = planned(3136, ZEN4, 4)
    assert plan.vector_source == "direct"
    assert plan.is_streamed


@pytest.mark.parametrize(("total", "grain", "cores"), [(8, 1, 2), (9, 1, 3), (12, 3, 2), (7, 2, 1)])
def test_what_a_thread_does_next(total: int, grain: int, cores: int) -> None:
    """Within a chunk the next block; after it the next one in front, and at the back the one that
    other workers have left."""
    b = Builder("after", "i64 %begin", "i64")
    b.line(f"ret i64 {chunk_after(b, '%begin', total, grain, cores)}")
    library = Library([compile_text(b.text(), host())], host())
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("after"))
    chunks = -(-total // grain)
    for number in range(total):
        is_inside = (number + 1) % grain != 0
        if cores == 1 or is_inside or number // grain < chunks // cores:
            assert function(number) == number + 1
        else:
            assert function(number) == (number // grain - (cores - 1)) * grain


def test_columns_that_no_cache_keeps_are_broadcast_where_vectors_have_32_bytes() -> None:
    """16 MB of constant columns: nothing asks for these, but for rows. With few rows, or in a
    larger cache, they fill the vectors."""
    for rows, shared, side in (
        (64, 6 << 20, "left"),
        (64, 16 << 20, "right"),
        (8, 6 << 20, "right"),
    ):
        case = matmul(rows, 4096, 1024)
        chosen = choose(case.kernel, {}, replace(ZEN3, shared=shared), case.constant)
        assert isinstance(chosen, Contraction)
        assert chosen.vector == side
        assert "prepared" in (chosen.broadcast_source, chosen.vector_source)
