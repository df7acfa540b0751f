"""Operands whose places are read from tables, under guards: nothing is read that is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction_form import find_form
from ricci.backends.llvm.contraction_plan import plans_of_sides
from ricci.backends.llvm.contraction_write import write_contraction
from ricci.backends.llvm.target import Target, host
from ricci.dtypes import DType
from ricci.ir.nodes import Skip, Subscript

from .cases import Case, at, binary, index, summed, tensor
from .native import Native
from .oracle import reduce

HALVES = replace(host(), vector_bytes=32, registers=16, units=1)


def guarded_table(dtype: DType) -> Case:
    """A row of a table that begins one before its first."""
    k, q, i, j = index("k", 10), index("q", 7), index("i", 100), index("j", 45)
    table = tensor("t<12", 9, dtype=DType.INT64)
    x, w = tensor("x", 12, 7, 100, dtype=dtype), tensor("w", 10, 7, 45, dtype=dtype)
    row = at(table, Subscript(binary("sub", k, 1), Skip()))
    value = binary("mul", at(x, Subscript(row, Skip()), q, i), at(w, k, q, j))
    return Case(summed(at(tensor("y", 100, 45, dtype=dtype), i, j), (i, j), (k, q), value),
                (table, x, w))  # fmt: skip


def table_of_columns(dtype: DType) -> Case:
    """Columns by a table of wide integers, under a guard that all of them share."""
    k, i, c = index("k", 5), index("i", 16), index("c", 16)
    table = tensor("t<9", 16, dtype=DType.INT64)
    x, w = tensor("x", 12, 9, dtype=dtype), tensor("w", 5, 16, dtype=dtype)
    row = Subscript(binary("sub", binary("mul", k, 3), 1), Skip())
    value = binary("mul", at(x, row, at(table, c)), at(w, k, i))
    return Case(summed(at(tensor("y", 16, 16, dtype=dtype), i, c), (i, c), (k,), value),
                (table, x, w))  # fmt: skip


@pytest.mark.parametrize("make", [guarded_table, table_of_columns])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64])
@pytest.mark.parametrize("target", [host(), HALVES], ids=["host", "halves"])
def test_every_plan(make: Callable[[DType], Case], dtype: DType, target: Target) -> None:
    case = make(dtype)
    arrays = case.arrays(0)
    form = find_form(case.kernel, {})
    assert form is not None
    expected = reduce(case.kernel, arrays)
    for sides in ((form.left, form.right), (form.right, form.left)):
        for plan in plans_of_sides(form, *sides, {}, target, case.constant):
            code = write_contraction(plan, {}, target)
            for at_end in (False, True):
                native = Native(code, arrays, target, at_end)
                native.run(1)
                assert not native.errors.any()
                np.testing.assert_allclose(native.array(case.target), expected, 1e-4, 1e-4)
