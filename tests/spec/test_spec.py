"""Every case of the specification on both executors."""

from __future__ import annotations

from collections import Counter

import pytest

from ..compare import TARGETS
from ..goldens import SKRIPTND, marker
from . import all_cases
from .case import Case
from .execute import check
from .sections import SECTION_OF_CODE, SECTIONS

CASES_FOUND = all_cases()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES_FOUND, ids=str)
def test_case(case: Case, target: str) -> None:
    check(case, target)


def test_every_case_has_a_name_of_its_own() -> None:
    assert not [name for name, count in Counter(map(str, CASES_FOUND)).items() if count > 1]


def test_every_case_belongs_to_a_section() -> None:
    numbers = {section.number for section in SECTIONS}
    assert {case.section for case in CASES_FOUND} <= numbers
    assert set(SECTION_OF_CODE.values()) <= numbers
    assert {marker(path)[0] for path in SKRIPTND} <= set(SECTION_OF_CODE)
