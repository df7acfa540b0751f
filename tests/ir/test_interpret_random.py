"""The interpreter equals plain loops in Python on random programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.ir import interpret_assignment, interpret_contract
from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph
from ricci.ir.verify import verify_graph

from .brute import OutOfRangeError, evaluate
from .contractions import random_contraction
from .programs import Program, random_program


def _check(program: Program) -> None:
    text = f"seed {program.seed}\n{format_graph(program.graph)}\n{program.inputs}"
    try:
        expected = evaluate(program.graph, program.inputs)
    except OutOfRangeError as fault:
        with pytest.raises(Error) as caught:
            interpret(program.graph, program.inputs)
        assert [d.code for d in caught.value.diagnostics] == ["E0802"], f"{text}\n{fault}"
        return
    found = interpret(program.graph, program.inputs)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, text
        np.testing.assert_allclose(found[name], array, 1e-5, 1e-6, err_msg=f"{name}, {text}")


@pytest.mark.parametrize("first", range(0, 300, 25))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 25):
        _check(random_program(seed))


def test_random_programs_with_symbols() -> None:
    for seed in range(1000, 1050):
        _check(random_program(seed, dynamic=True))


def test_random_programs_with_indices_out_of_range() -> None:
    for seed in range(2000, 2080):
        _check(random_program(seed, faults=True))


def test_random_programs_in_small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths for large arrays: many blocks, sums of products by matrix multiplication."""
    monkeypatch.setattr(interpret_assignment, "POINTS", 7)
    monkeypatch.setattr(interpret_contract, "ELEMENTS", 5)
    monkeypatch.setattr(interpret_contract, "SMALLEST", 1)
    for seed in range(3000, 3120):
        _check(random_program(seed))
    for seed in range(3200, 3240):
        _check(random_program(seed, faults=True))


def test_contractions_by_matrix_products_equal_plain_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    contract = interpret_contract.contract

    def counted(*arguments: Any) -> bool:
        done.append(contract(*arguments))
        return done[-1]

    monkeypatch.setattr(interpret_assignment, "contract", counted)
    for seed in range(150):
        program = random_contraction(seed)
        text = f"seed {seed}\n{format_graph(program.graph)}"
        verify_graph(program.graph)
        monkeypatch.setattr(interpret_contract, "SMALLEST", 1)
        monkeypatch.setattr(interpret_contract, "ELEMENTS", 2**22 if seed % 2 else 500)
        found = interpret(program.graph, program.inputs)
        monkeypatch.setattr(interpret_contract, "SMALLEST", 2**60)
        expected = interpret(program.graph, program.inputs)
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, 1e-9, 1e-9, err_msg=f"{name}, {text}")
    assert done.count(True) > 50
