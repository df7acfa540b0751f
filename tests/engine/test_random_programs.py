"""Native code equals the interpreter on random programs, also where indices are out of range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph
from ricci.runtime.executable import Executable, compile_graph

from ..ir.programs import Program, arguments, random_program


def _outcome(run: Any) -> Any:
    """The results, or the code of the error."""
    try:
        return run()
    except Error as problem:
        return problem.diagnostics[0].code


def check(program: Program) -> None:
    """Compare the two executors on one program."""
    compare(program, compile_graph(program.graph, threads=1))


def compare(program: Program, executable: Executable) -> None:
    """Compare its results with the interpreter's."""
    text = f"seed {program.seed}\n{format_graph(program.graph)}\n{program.inputs}"
    expected = _outcome(lambda: interpret(program.graph, program.inputs, real="float32"))
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


@pytest.mark.parametrize("bound", [6, 40])
def test_one_code_serves_all_sizes(bound: int) -> None:
    for seed in range(1000, 1010):
        program = random_program(seed, dynamic=True, bound=bound, faults=seed % 5 == 0)
        executable = compile_graph(program.graph, threads=1)
        for size in (0, 1, 3, bound - 1, bound):
            inputs = arguments(program.graph, size, seed)
            compare(replace(program, inputs=inputs), executable)


def test_random_programs_with_faults() -> None:
    for seed in range(2000, 2040):
        check(random_program(seed, faults=True))
