"""Native code equals the interpreter on random programs, also where indices are out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph
from ricci.runtime.executable import compile_graph

from ..ir.programs import Program, random_program


def _outcome(run: Any) -> Any:
    """The results, or the code of the error."""
    try:
        return run()
    except Error as problem:
        return problem.diagnostics[0].code


def check(program: Program) -> None:
    """Compare the two executors on one program."""
    text = f"seed {program.seed}\n{format_graph(program.graph)}\n{program.inputs}"
    expected = _outcome(lambda: interpret(program.graph, program.inputs, real="float32"))
    executable = compile_graph(program.graph, threads=1)
    found = _outcome(lambda: executable(**program.inputs))
    if isinstance(expected, str) or isinstance(found, str):
        assert found == expected, text
        return
    arrays = found if len(program.graph.outputs) > 1 else (found,)
    for (name, want), got in zip(expected.items(), arrays, strict=True):
        assert got.dtype == want.dtype, text
        np.testing.assert_allclose(got, want, 1e-4, 1e-4, err_msg=f"{name}, {text}")


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + 20):
        check(random_program(seed))


def test_random_programs_with_symbols() -> None:
    for seed in range(1000, 1030):
        check(random_program(seed, dynamic=True))


def test_random_programs_with_faults() -> None:
    for seed in range(2000, 2040):
        check(random_program(seed, faults=True))
