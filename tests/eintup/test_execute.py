"""The arrays of a program at a configuration, given or drawn."""

from __future__ import annotations

import numpy as np
import pytest

from ricci.diagnostics import Error, Report
from ricci.eintup.execute import evaluate
from ricci.frontends.eintup.check import check_file
from ricci.frontends.eintup.parser import parse_file
from ricci.frontends.eintup.program import Configuration, Program
from ricci.source import Source

SCATTER = """
I[s, coord] = RANDOM(0, 4, INT)
U[s, e] = RANDOM(0, 10, FLOAT)
O[I[s, :], e] = U[s, e]
"""
AT = Configuration({"s": (5,), "coord": (2,), "e": (3,)})
TARGETS = ["cpu", "interpreter"]


def program(text: str) -> Program:
    report = Report()
    made = check_file(parse_file(Source("<et>", text), report), report)
    report.raise_errors()
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_given_arrays(target: str) -> None:
    made = program("X[a] = RANDOM(0, 1, FLOAT)\nX[a] *= 3\nY[a, b] = X[a] - X[b]")
    x = np.array([1.0, 2.0, 4.0])
    at = Configuration({"a": (3,), "b": (2,)})
    found = evaluate(made, at, {"X": x}, ["Y", "X"], target=target)
    assert list(found) == ["Y", "X"] and x.tolist() == [1, 2, 4]
    np.testing.assert_array_equal(found["X"], 3 * x)
    np.testing.assert_array_equal(found["Y"], 3 * (x[:, None] - x[None, :2]))


def test_inputs_are_drawn_from_the_seed_on_every_target() -> None:
    made = program("X[a, b] = RANDOM(-5, 5, FLOAT)\nY[b] = X[a, b] * RANDOM(0, 1, FLOAT)")
    at = Configuration({"a": (20,), "b": (30,)})
    one, two = (evaluate(made, at, {}, ["X", "Y"], 7, target) for target in TARGETS)
    other = evaluate(made, at, {}, ["X", "Y"], 8)
    np.testing.assert_array_equal(one["X"], two["X"])
    np.testing.assert_allclose(one["Y"], two["Y"], 1e-12)
    assert -5 <= one["X"].min() < -4.9 and 4.9 < one["X"].max() < 5
    assert not np.array_equal(one["X"], other["X"])


def test_what_is_drawn_beside_given_arrays_stays_the_same() -> None:
    made = program("X[a] = RANDOM(0, 9, INT)\nZ[a] = RANDOM(0, 9, INT)\nY[a] = X[a] + Z[a]")
    at = Configuration({"a": (50,)})
    alone = evaluate(made, at, {}, ["X", "Y", "Z"], 3)
    beside = evaluate(made, at, {"X": alone["X"]}, ["Y", "Z"], 3)
    np.testing.assert_array_equal(alone["Z"], beside["Z"])
    np.testing.assert_array_equal(alone["X"] + alone["Z"], beside["Y"])


@pytest.mark.parametrize("target", TARGETS)
def test_shapes_that_data_gives(target: str) -> None:
    made = program(SCATTER)
    found = evaluate(made, AT, {}, ["I", "U", "O"], 1, target)
    index, update = found["I"], found["U"]
    expected = np.zeros((*(index.max(0) + 1), 3))
    np.add.at(expected, tuple(index.T), update)
    assert found["O"].shape == expected.shape
    np.testing.assert_allclose(found["O"], expected)


def test_types_that_the_caller_chooses() -> None:
    made = program("X[a] = RANDOM(0, 9, INT)\nY[a] = X[a] / 2")
    at = Configuration({"a": (4,)})
    found = evaluate(made, at, {}, ["X", "Y"], real="float32", int="int64")
    assert (found["X"].dtype, found["Y"].dtype) == (np.int64, np.float32)
    with pytest.raises(Error, match="there is no such type"):
        evaluate(made, at, {}, ["X"], real="float33")


def test_wrong_arrays() -> None:
    made = program("X[a] = RANDOM(0, 1, FLOAT)\nY[a] = X[a]")
    at = Configuration({"a": (4,)})
    for wrong in (np.zeros(4, complex), ["a"], np.zeros((4, 1)), np.zeros(5)):
        with pytest.raises(Error, match="input `X`"):
            evaluate(made, at, {"X": wrong}, ["Y"])
