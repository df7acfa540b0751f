"""Panels, copies of boxes and plain loop nests beside one another, with two units of 32 bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ricci.backends.llvm.contraction import form_of
from ricci.backends.llvm.contraction_beside import beside_others, plain, whole
from ricci.backends.llvm.contraction_cost import Costs
from ricci.backends.llvm.contraction_plan import Plan, make_plan, reduced_loops
from ricci.backends.llvm.contraction_schedule import scheduled_plan
from ricci.backends.llvm.kernels import choose
from ricci.backends.llvm.schedule import Contraction, Nest, Window
from ricci.backends.llvm.targets import named
from ricci.ir.nodes import integer

from .cases import ZEN3, Case, convolution, matmul

ZEN1 = replace(ZEN3, cpu="znver1", units=1)


def plan_of(case: Case, columns: str, row_block: int = 4) -> Plan:
    """Panels of given columns, four rows at a time at least."""
    form = form_of(case.kernel, {})
    assert form is not None
    order = tuple(form.reduced.index(i) for i in reduced_loops(form))
    schedule = Contraction("left", "prepared", columns, 4, 3, row_block, 24, order, 0, 64, 1)
    return scheduled_plan(form, schedule, {}, ZEN3, case.constant)


def test_each_end_of_a_run_takes_longer_to_pack() -> None:
    """The same elements in lines of 10 and of 40: only the ends of these differ."""
    found = []
    for size in ((40, 10), (10, 40)):
        case = convolution(1, (16, 8), size, 3, pad=1)
        found.append(beside_others(plan_of(case, "packed", 8), {}, ZEN3))
    elements = 400 * 16 * 9
    assert found[0] - found[1] == pytest.approx(elements * (32 / 10 - 32 / 40))
    case = convolution(1, (16, 8), (20, 20), 1)  # lines follow on one another
    assert beside_others(plan_of(case, "packed", 8), {}, ZEN3) == pytest.approx(400 * 16 * 0.36)


@pytest.mark.parametrize(("row_block", "times"), [(4, 4), (8, 2), (16, 1)])
def test_columns_in_place_come_for_each_block_of_rows(row_block: int, times: int) -> None:
    plan = plan_of(convolution(1, (16, 16), (16, 16), 1), "direct", row_block)
    assert beside_others(plan, {}, ZEN3) == pytest.approx(times * 16 * 256 / 8 * 6)


def test_it_is_counted_for_two_units_of_32_bytes_alone() -> None:
    plan = plan_of(convolution(1, (16, 8), (20, 20), 3, pad=1), "packed")
    for target in (ZEN1, *map(named, ("x86-64", "x86-64-v4", "aarch64-sve"))):
        assert beside_others(plan, {}, target) == 0
        assert whole(plan, {}, target) == Costs(plan, {}, target).whole()
    more = whole(plan, {}, ZEN3) - Costs(plan, {}, ZEN3).whole()
    assert more == pytest.approx(beside_others(plan, {}, ZEN3)) and more > 0


def test_nests_read_far_images_as_fast_as_near_ones() -> None:
    """Whole pages apart or not, as nothing is read twice soon; elsewhere that takes longer."""
    for target, alike in ((ZEN3, True), (ZEN1, False)):
        each = []
        for size in (32, 160):
            case = convolution(1, (32, 16), (size, size), 1)
            form = form_of(case.kernel, {})
            assert form is not None
            plan = make_plan(form, {}, target, case.constant)
            each.append(plain(plan, {}, target) / size**2)
        assert (each[0] == pytest.approx(each[1], rel=0.01)) == alike


def test_nests_over_narrow_windows_take_longer() -> None:
    """In whole vectors, the end of a row takes as long as one more."""
    each = []
    for width in (16, 40):
        case = convolution(1, (16, 16), (40, width), 3, pad=1)
        form = form_of(case.kernel, {})
        assert form is not None
        plan = make_plan(form, {}, ZEN3, case.constant)
        rows = tuple(i for i in plan.vector.indices if i.extent != integer(1))
        plan = replace(plan, vector=replace(plan.vector, indices=rows))
        each.append(plain(plan, {}, ZEN3) / width / (40 * 16 * 16 * 9))
    assert each[0] - each[1] == pytest.approx((15 / 16 - 15 / 40) / 8)


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride", "kind"),
    [
        ((256, 3), 112, 1, 2, Nest),  # 0.44 of panels
        ((128, 12), 112, 1, 1, Nest),  # 0.90
        ((128, 12), 20, 3, 2, Window),  # 0.51
        ((24, 24), 10, 3, 1, Window),  # 0.67
        ((64, 256), 56, 1, 1, Contraction),
    ],
)
def test_what_took_least_is_chosen(
    channels: tuple[int, int], size: int, kernel: int, stride: int, kind: type
) -> None:
    case = convolution(1, channels, (size, size), kernel, stride, kernel // 2)
    assert isinstance(choose(case.kernel, {}, ZEN3, case.constant), kind)


@pytest.mark.parametrize("given", [True, False])
def test_products_are_estimated_as_they_were(given: bool) -> None:
    """Where vectors are along the constant operand, or none is constant, nests wait for memory."""
    case = matmul(16, 1024, 1024)
    form = form_of(case.kernel, {})
    assert form is not None
    plan = make_plan(form, {}, ZEN3, case.constant if given else frozenset())
    chosen = choose(case.kernel, {}, ZEN3, case.constant if given else frozenset())
    assert isinstance(chosen, Contraction)
    assert plain(plan, {}, ZEN3) > 1.5 * whole(plan, {}, ZEN3)
    assert beside_others(plan, {}, ZEN3) == 0
