"""Native branches and loops equal the interpreter's on random programs."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.ir.interpret import interpret
from ricci.ir.text import format_graph, parse_graph
from ricci.ir.verify import verify_graph
from ricci.runtime.executable import compile_graph

from ..ir.control_programs import random_control
from ..ir.programs import Program


def check(program: Program) -> None:
    """Compare the two executors, the native one in two calls in a row."""
    verify_graph(program.graph, "composed")
    text = f"seed {program.seed}\n{format_graph(program.graph)}\n{program.inputs}"
    expected = interpret(program.graph, program.inputs, real="float32")
    executable = compile_graph(program.graph, threads=2)
    for _ in range(2):
        found = executable(**program.inputs)
        for (name, want), got in zip(expected.items(), found, strict=True):
            assert got.dtype == want.dtype, text
            np.testing.assert_allclose(got, want, 1e-4, 1e-4, err_msg=f"{name}, {text}")


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_random_control_flow(first: int) -> None:
    for seed in range(first, first + 20):
        check(random_control(seed))


def test_random_control_flow_with_symbols() -> None:
    for seed in range(1000, 1030):
        check(random_control(seed, dynamic=True))


def test_control_flow_is_printed_and_read_back() -> None:
    for seed in range(20):
        text = format_graph(random_control(seed).graph)
        assert format_graph(parse_graph(text)) == text
