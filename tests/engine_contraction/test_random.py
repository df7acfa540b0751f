"""Random contractions give what NumPy gives in float64, under every plan and on every target."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ricci.backends.llvm.contraction_form import find_form
from ricci.backends.llvm.contraction_plan import Plan, plans_of_sides
from ricci.backends.llvm.contraction_write import write_contraction
from ricci.backends.llvm.kernels import KernelCode
from ricci.backends.llvm.matvec import choose_dots, write_dots
from ricci.backends.llvm.target import Target, host
from ricci.dtypes import DType

from .cases import Case, RandomCase
from .native import Native
from .oracle import reduce

_TOLERANCE = {DType.FLOAT32: 3e-5, DType.FLOAT64: 1e-12}


def narrow(target: Target, vector_bytes: int) -> Target:
    """A lesser machine, whose code this one can run: narrower vectors, half the registers."""
    if vector_bytes >= target.vector_bytes:
        return target
    features = ",".join(f for f in target.features.split(",") if "avx512" not in f)
    return replace(target, vector_bytes=vector_bytes, registers=16, features=features)


def code_of(case: Case, target: Target, r: random.Random) -> KernelCode | None:
    """Code by some plan, the best or not."""
    form = find_form(case.kernel, {})
    if form is None:
        return None
    if r.random() < 0.5:
        dots = choose_dots(form, {}, target)
        if dots is not None:
            return write_dots(form, dots, {}, target)
    sides = [(form.left, form.right), (form.right, form.left)]
    broadcast, vector = r.choice(sides)
    plans = list(plans_of_sides(form, broadcast, vector, {}, target, case.constant))
    return write_contraction(_smaller(r.choice(plans), r), {}, target)


def _smaller(plan: Plan, r: random.Random) -> Plan:
    """The plan with smaller blocks, as a larger problem would have."""
    if r.random() < 0.5:
        return plan
    rows = r.randint(1, min(3, -(-plan.broadcast.extent // plan.rows)))
    panels = r.randint(1, min(3, -(-plan.vector.extent // plan.panel)))
    return replace(
        plan,
        row_block=rows * plan.rows,
        lane_block=panels * plan.panel,
        depth=replace(plan.depth, block=r.randint(1, plan.depth.cut)),
        grain=r.randint(1, 3),
        by_lanes=r.random() < 0.5,
    )


def check(case: Case, seed: int) -> bool:
    """Compares one case with NumPy; False if it is no contraction."""
    r = random.Random(seed)
    target = narrow(host(), r.choice([64, 64, 32, 16]))
    code = code_of(case, target, r)
    if code is None:
        return False
    arrays = case.arrays(seed)
    native = Native(code, arrays, target, at_end=r.random() < 0.7)
    native.run(r.choice([1, 3]))
    assert not native.errors.any()
    expected, found = reduce(case.kernel, arrays), native.array(case.target)
    scale = float(np.abs(expected).max(initial=1.0))
    error = float(np.abs(found - expected).max(initial=0.0)) / scale
    assert error < _TOLERANCE[case.target.dtype], f"seed {seed}: scaled error {error}"
    return True


@pytest.mark.parametrize("first", range(0, 160, 20))
def test_random_contractions(first: int) -> None:
    seeds = range(first, first + 20)
    assert sum(check(RandomCase(seed).draw(), seed) for seed in seeds) > 5
