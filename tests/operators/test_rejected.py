"""Every assert of the standard library speaks when it is violated."""

from __future__ import annotations

import pytest

from ricci.frontends.skriptnd import syntax as s
from ricci.frontends.skriptnd.standard_library import standard_module, standard_names

from .execute import check_rejected
from .rejected import REJECTED, Rejected


def _name(case: Rejected) -> str:
    return f"{case.operator}-{case.message}"


@pytest.mark.parametrize("case", REJECTED, ids=_name)
def test_assert_rejects(case: Rejected) -> None:
    check_rejected(case)


def _static_text(assertion: s.Assertion) -> str:
    """The parts of a message that do not depend on values."""
    match assertion.message:
        case s.Literal(value=str(text)):
            return text
        case s.Format(parts=parts):
            return "".join(p if isinstance(p, str) else "" for p in parts)
    raise AssertionError(f"assert without a message at {assertion.span}")


@pytest.mark.parametrize("name", standard_names())
def test_every_assert_is_violated(name: str) -> None:
    module = standard_module(name)
    assert module is not None
    missing = [
        f"{name}.{operator.name}: {_static_text(assertion)}"
        for operator in module.operators
        for assertion in operator.asserts
        if not any(
            c.operator == f"{name}.{operator.name}" and c.message in _static_text(assertion)
            for c in REJECTED
        )
    ]
    assert not missing
