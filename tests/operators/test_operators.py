"""The operators of the standard library on both executors, beside software not written here.

A part of the cases that `python -m tests.spec` runs, so that the suite stays short: for
each family the first ones, fewer on the compiler, where every case is a program to compile.
A failure names the seed; `Family.case(number)` makes the same case again.
"""

from __future__ import annotations

import pytest

from ricci.frontends.skriptnd.standard_library import standard_module, standard_names

from .case import Family
from .execute import check
from .families import FAMILIES

CASES = {"interpreter": 20, "cpu": 6}


RUNS = [(family, target) for family in FAMILIES for target in CASES]


def _name(value: Family | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value.operator}-{value.oracle.split()[0]}"


@pytest.mark.parametrize(("family", "target"), RUNS, ids=_name)
def test_operator_agrees_with_oracle(family: Family, target: str) -> None:
    for number in range(min(family.count, CASES[target])):
        try:
            check(family, number, target)
        except Exception as wrong:
            text = family.case(number).text
            wrong.add_note(f"case {number}, seed {family.seed(number)}:\n{text}")
            raise


@pytest.mark.parametrize("name", standard_names())
def test_every_operator_has_cases(name: str) -> None:
    module = standard_module(name)
    assert module is not None
    ours = {f.operator for f in FAMILIES if f.count >= 20}
    public = {f"{name}.{o.name}" for o in module.operators if not o.name.startswith("_")}
    assert public <= ours
