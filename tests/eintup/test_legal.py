"""Generated arguments: the legal ones are, the illegal ones are not, and what is said of these."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.frontends.eintup.legal import illegal_arguments, legal_arguments
from ricci.frontends.eintup.solve import solve

from .constraints import checked
from .illegal import Tally, answer, programs, run
from .legal_oracle import Oracle
from .random_programs import make_case, parse

PROGRAMS = dict(programs())


@pytest.mark.parametrize("name", PROGRAMS)
def test_legal_arguments_give_their_configuration(name: str) -> None:
    program = PROGRAMS[name]
    oracle = Oracle(program)
    for case in legal_arguments(program, np.random.default_rng(0), 4):
        assert oracle.confirms(case.configuration.dims, case.shapes)
        assert solve(program, case.shapes, case.ranks, case.dims) == case.configuration


def test_all_ranks_are_visited_and_edge_sizes_are_met() -> None:
    program = PROGRAMS["matmul"]
    cases = list(legal_arguments(program, np.random.default_rng(1), 70))
    visited = [case.configuration.ranks["batch"] for case in cases]
    assert visited == [*range(7)] * 10
    sizes = {size for case in cases for shape in case.shapes.values() for size in shape}
    assert {0, 1} < sizes


def test_the_oracle_agrees_about_the_ranks() -> None:
    for program in PROGRAMS.values():
        found = [sorted(ranks.items()) for ranks in program.ranks.combinations()]
        assert sorted(found) == sorted(sorted(ranks.items()) for ranks in Oracle(program).rankings)


def test_a_sample_of_illegal_arguments_is_answered_as_expected() -> None:
    names = [
        "conv_valid_v2",
        "gather_nd",
        "grouped_conv",
        "separable_conv",
        "attention",
        "scatter_nd",
    ]
    tallies = run(names, 48, 3)
    assert sum(t.cases for t in tallies.values()) == 48
    assert [miss for t in tallies.values() for miss in t.misses] == []
    assert [fault for t in tallies.values() for fault in t.faults] == []


def test_arguments_of_random_programs() -> None:
    tally = Tally()
    for seed in range(30):
        program = parse(make_case(seed).text)
        oracle = Oracle(program)
        rng = np.random.default_rng(seed)
        for legal in legal_arguments(program, rng, 1):
            assert oracle.confirms(legal.configuration.dims, legal.shapes)
            found = solve(program, legal.shapes, legal.ranks, legal.dims)
            assert found == legal.configuration
        for case in illegal_arguments(program, rng, 2):
            tally.add(program, oracle, case)
    assert (tally.cases, tally.misses, tally.faults) == (60, [], [])


def test_the_same_seed_gives_the_same_cases() -> None:
    def draw(seed: int) -> list[object]:
        program = PROGRAMS["gather_nd"]
        return list(illegal_arguments(program, np.random.default_rng(seed), 8))

    assert draw(5) == draw(5) != draw(6)


def test_every_kind_of_edit_occurs() -> None:
    program = PROGRAMS["gather_nd"]
    cases = list(illegal_arguments(program, np.random.default_rng(0), 80))
    codes = {case.codes[0] for case in cases}
    assert {"E0410", "E0411", "E0301", "E0801"} <= codes
    edits = " ".join(case.edit for case in cases)
    for part in ("lacks", "surplus dimension", "is missing", "is no input", "holds reals", "not"):
        assert part in edits


def test_edits_that_leave_arguments_legal_are_left_out() -> None:
    program = checked("x[a] = RANDOM(0, 1, FLOAT)\ny[a] = x[a]\n\ny\n\nRANK(a) IN [0, 8]")
    for case in illegal_arguments(program, np.random.default_rng(0), 10):
        assert case.codes == ("E0801",) or len(case.shapes["x"]) == 9


def test_a_program_without_inputs_only_rejects_surplus_ones() -> None:
    program = checked("y[a] = 1.0\n\ny\n")
    assert [case.shapes for case in legal_arguments(program, np.random.default_rng(0), 2)] == [
        {},
        {},
    ]
    for case in illegal_arguments(program, np.random.default_rng(0), 3):
        found = answer(program, case)
        assert found is not None and case.is_expected(found)
