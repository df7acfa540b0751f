"""Verification finds what is wrong, and says where at the smallest shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error, Report
from ricci.eintup.compare import Difference, Tolerance, compare
from ricci.eintup.report import report, summary
from ricci.eintup.shrink import Budget, Shrinker
from ricci.eintup.trial import Outcome
from ricci.eintup.verify import Case, Verification, verify
from ricci.frontends.eintup.check import check_file
from ricci.frontends.eintup.parser import parse_file
from ricci.frontends.eintup.program import Configuration, Program
from ricci.source import Source

MATMUL = """
A[b, i, k] = RANDOM(0, 10, FLOAT)
B[b, k, j] = RANDOM(0, 10, FLOAT)
C[b, i, j] = A[b, i, k] * B[b, k, j]

{call}

C

RANK(b) IN [0, 2]
DIMS(b) IN [0, 3]
"""
CONV = """
X[b, p, c] = RANDOM(0, 10, FLOAT)
W[f, c, k] = RANDOM(0, 1, FLOAT)
Y[b, q, k] = W[f, c, k] * X[b, f - {left} + DIMS(stride) * q, c]

tf.nn.convolution(input=X, filters=W, strides=DIMS(stride), padding='SAME')

Y

RANK(p) IN [1, 3]
DIMS(stride) IN [1, 3]
DIMS(f) IN [3, 5]
DIMS(p) IN [6, 8]
DIMS(b) IN [1, 2]
DIMS(c) IN [1, 2]
DIMS(k) IN [1, 2]
DIMS(q) = DIMS(p) //^ DIMS(stride)
"""
GRID = """
I[a] = RANDOM(0, 10, INT)
J[b] = RANDOM(0, 20, INT)
P[a, b] = I[a]
Q[a, b] = {value}

tf.meshgrid(I, J, indexing=L('ij'))

P, Q
"""


def program(text: str) -> Program:
    findings = Report()
    made = check_file(parse_file(Source("<et>", text), findings), findings)
    findings.raise_errors()
    return made


def matmul(call: str) -> Program:
    return program(MATMUL.format(call=call))


def smallest(case: Case) -> dict[str, list[int]]:
    assert case.smallest is not None
    return {name: list(dims) for name, dims in case.smallest[0].dims.items()}


# ------------------------------------------------------------------- what is right


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("call", ["tf.matmul(A, B)", "torch.matmul(A, B)", "np.matmul(A, B)"])
def test_a_right_program(call: str, target: str) -> None:
    steps: list[float] = []
    found = verify(matmul(call), reps=2, target=target, progress=steps.append)
    assert found.ok and not found.failures and steps == [1] * 6
    assert [c.id for c in found.cases] == ["1.1", "1.2", "2.1", "2.2", "3.1", "3.2"]
    assert [c.ranks["b"] for c in found.cases] == [0, 0, 1, 1, 2, 2]


def test_several_outputs() -> None:
    found = verify(program(GRID.format(value="J[b]")), reps=3)
    assert [c.outcome.verdicts for c in found.cases] == [(True, True)] * 3


def test_results_beyond_the_outputs_do_not_count() -> None:
    text = GRID.format(value="J[b]").replace("P, Q", "P")
    assert verify(program(text)).ok


def test_cases_come_from_the_seed() -> None:
    def shown(found: Verification) -> list[Any]:
        return [(c.id, c.configuration and c.configuration.dims) for c in found.cases]

    made = matmul("np.matmul(A, B)")
    first = verify(made, reps=3, seed=5)
    assert shown(verify(made, reps=3, seed=5)) == shown(first) != shown(verify(made, reps=3))
    again = verify(made, seed=5, cases=["3.2", "1.1"])
    assert shown(again) == [shown(first)[7], shown(first)[0]]


def test_dims_without_a_constraint_are_in_the_range() -> None:
    found = verify(program(GRID.format(value="J[b]")), reps=20, dims=(3, 4))
    dims = {d for c in found.cases if c.configuration for d in c.configuration.dims.values()}
    assert dims == {(3,), (4,)}


# ------------------------------------------------------------------- what is wrong


def test_a_wrong_formula_is_shown_at_the_smallest_shape() -> None:
    """Padding as TensorFlow does it is not symmetric if strides are larger than 1."""
    found = verify(program(CONV.format(left="(DIMS(f) - 1) // 2")), reps=2)
    assert not found.ok
    for case in found.failures:
        assert case.configuration is not None and max(case.configuration.dims["stride"]) > 1
        dims = smallest(case)
        assert [len(dims[name]) for name in "pfq"] == [1, 1, 1] and dims["stride"] != [1]
        assert [dims[name] for name in "bck"] == [[1], [1], [1]]
        outcome = case.smallest and case.smallest[1]
        assert outcome is not None and outcome.differences["Y"].kind == "values"
    text = "\n".join(report(found))
    assert "Y[b=[0], q=[0], k=[0]] is " in text and "and the call gives" in text


def test_shrinking_is_bounded() -> None:
    made = program(CONV.format(left=0))
    (start,) = verify(made, cases=["3.1"]).cases
    assert start.configuration is not None
    seen: list[Configuration] = []

    def run(configuration: Configuration) -> Outcome:
        seen.append(configuration)
        return start.outcome

    smallest, outcome = Shrinker(made, run, Budget(tries=3)).shrink(
        start.configuration, start.outcome
    )
    assert len(seen) == 3 and smallest in seen and outcome is start.outcome
    Shrinker(made, run, Budget(seconds=0)).shrink(start.configuration, start.outcome)
    assert len(seen) == 3


def test_one_wrong_output_of_two() -> None:
    found = verify(program(GRID.format(value="J[b] + I[a] // 9")), reps=30)
    assert {c.outcome.verdicts for c in found.cases} == {(True, True), (True, False)}
    assert all(set(c.outcome.differences) == {"Q"} for c in found.failures)


def test_a_wrong_shape() -> None:
    found = verify(matmul("tf.linalg.matrix_transpose(tf.linalg.matmul(A, B))"))
    (first, *_) = found.failures
    dims = smallest(first)
    assert dims["b"] == [] and sorted(dims["i"] + dims["j"]) == [1, 2]
    assert first.smallest is not None
    i, j = dims["i"][0], dims["j"][0]
    assert first.smallest[1].differences == {"C": Difference("shape", f"[{i}, {j}]", f"[{j}, {i}]")}


def test_a_wrong_type() -> None:
    found = verify(matmul("tf.cast(tf.linalg.matmul(A, B), tf.int64)"))
    difference = found.cases[-1].outcome.differences["C"]
    assert difference.kind == "type" and difference.theirs == "integers (int64)"
    assert "elements of `C`: reals (float64), and the call gives integers (int64)" in str(found)


def test_nan() -> None:
    def found(value: str) -> Verification:
        text = f"X[a] = RANDOM(-2, 0, FLOAT)\nY[a] = {value}\n\ntf.sqrt(X)\n\nY"
        return verify(program(text), reps=4)

    assert found("sqrt(X[a])").ok
    wrong = found("X[a]").failures
    assert len(wrong) == 4 and {c.outcome.differences["Y"].theirs for c in wrong} == {"nan"}


def test_a_framework_that_raises() -> None:
    found = verify(matmul("tf.linalg.matmul(B, A)"), dims=(2, 9), seed=1)
    (first, *_) = found.failures
    assert first.outcome.problem is not None and first.outcome.verdicts == (False,)
    assert first.outcome.problem.where == "call"
    assert first.outcome.problem.text.startswith("InvalidArgumentError: ")
    assert "case 1.1" in str(found) and "the call fails" in str(found)


def test_too_few_results() -> None:
    text = GRID.format(value="J[b]").replace("tf.meshgrid(I, J, indexing=L('ij'))", "np.add(I, 1)")
    (case,) = verify(program(text)).failures
    assert case.outcome.verdicts == (False, False) and case.outcome.problem is not None
    assert case.outcome.problem.text == "it gives 1 results, and 2 outputs are named"


def test_a_program_that_fails_as_it_runs() -> None:
    text = "X[a] = RANDOM(0, 3, INT)\nY[a] = 6 // (X[a] - X[a])\n\nnp.negative(X)\n\nY"
    (case,) = verify(program(text)).failures
    assert case.outcome.problem is not None and case.outcome.problem.where == "program"
    assert "divi" in case.outcome.problem.text


def test_no_legal_dims_at_some_ranks() -> None:
    text = (
        "X[a, b] = RANDOM(0, 3, INT)\nY[a, b] = X[a, b]\n\nnp.copy(X)\n\nY\n\n"
        "RANK(b) IN [1, 3]\nDIMS(a) = RANK(b) - 2"
    )
    found = verify(program(text))
    assert [c.ok for c in found.cases] == [False, True, True]
    problem = found.cases[0].outcome.problem
    assert problem is not None and problem.where == "dims"
    assert "no dims are legal at these ranks\n  RANK(a) = 1, RANK(b) = 1\n" in str(found)


def test_the_call_gets_final_values() -> None:
    text = "X[a] = RANDOM(0, 9, INT)\nX[a] += 1\nY[a] = X[a]\n\nnp.copy(X)\n\nY"
    assert verify(program(text), reps=3).ok


def test_a_missing_framework_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(Error, match="JAX, which the call needs, is not installed"):
        verify(matmul("jnp.matmul(A, B)"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"reps": 0}, "`reps` must be a number from 1 on, not 0"),
        ({"reps": 1.5}, "`reps` must be a number from 1 on, not 1.5"),
        ({"seed": -1}, "`seed` must be a number from 0 on"),
        ({"seed": "x"}, "`seed` must be a number from 0 on, not 'x'"),
        ({"atol": "x"}, "`atol` must be a number from 0 on, not 'x'"),
        ({"atol": float("nan")}, "`atol` must be a number from 0 on"),
        ({"rtol": -1.0}, "`rtol` must be a number from 0 on"),
        ({"dims": (3, 2)}, "`dims` must be a smallest and a largest extent"),
        ({"dims": "ab"}, "`dims` must be a smallest and a largest extent"),
        ({"dims": 3}, "`dims` must be a smallest and a largest extent"),
        ({"reps": 10**9}, "3 combinations of ranks, 1000000000 times each, are too many"),
        ({"cases": ["4.1"]}, "there is no case `4.1`"),
        ({"cases": ["1"]}, "there is no case `1`"),
        ({"cases": ["0.1"]}, "there is no case `0.1`"),
        ({"cases": [1]}, "there is no case `1`"),
        ({"target": "gpu"}, "there is no target `gpu`"),
        ({"threads": 0}, "`threads` must be a positive integer"),
        ({"real": "float31"}, "float31"),
    ],
)
def test_arguments_that_are_wrong(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(Error, match=words):
        verify(matmul("np.matmul(A, B)"), **arguments)


def test_a_program_without_a_call() -> None:
    with pytest.raises(Error, match="it has no call"):
        verify(program("X[a] = RANDOM(0, 1, FLOAT)\nY[a] = X[a]"))


def test_the_summary() -> None:
    found = verify(matmul("np.matmul(A, B)"), reps=2, seed=3)
    assert summary(found).startswith("6 cases: 6 valid, 0 not; ")
    assert summary(found).endswith(" seconds, seed 3")


# ------------------------------------------------------------------------ comparing


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("ours", "theirs", "equal"),
    [
        ([1.0], [1.0 + 9e-7], True),
        ([1.0], [1.0 + 2e-6], False),
        ([1e9], [1e9 + 1.0], False),
        ([NAN, 1.0], [NAN, 1.0], True),
        ([NAN], [1.0], False),
        ([1.0], [NAN], False),
        ([INF, -INF], [INF, -INF], True),
        ([INF], [-INF], False),
        ([INF], [1.0], False),
        ([1.0], [INF], False),
        ([], [], True),
    ],
)
def test_reals(ours: list[float], theirs: list[float], equal: bool) -> None:
    assert (compare(np.array(ours), np.array(theirs), Tolerance()) is None) is equal


def test_tolerances() -> None:
    ours, theirs = np.array([100.0, -0.5]), np.array([101.0, -0.49])
    assert compare(ours, theirs, Tolerance(0.0, 1e-6)) is not None
    assert compare(ours, theirs, Tolerance(0.03, 0.0)) is None
    assert compare(ours, theirs, Tolerance(0.01, 0.0)) == Difference(
        "values", "-0.5", "-0.49", (1,), 1, 2
    )
    assert compare(np.array([INF]), np.array([3.0]), Tolerance(1.0, 1.0)) is not None


def test_integers_are_compared_exactly() -> None:
    big = 2**62
    assert compare(np.array([big]), np.array([big + 1]), Tolerance(1.0, 1.0)) is not None
    assert compare(np.array([-1], np.int32), np.array([2**64 - 1], np.uint64), Tolerance())
    assert compare(np.array([7], np.int32), np.array([7], np.int64), Tolerance()) is None


def test_the_first_difference_in_row_major_order() -> None:
    ours = np.zeros((2, 2, 3), np.int32)
    theirs = ours.copy()
    theirs[1, 0, 2] = theirs[1, 1, 0] = 4
    assert compare(ours, theirs, Tolerance()) == Difference("values", "0", "4", (1, 0, 2), 2, 12)


def test_kinds_and_shapes() -> None:
    ints, reals, bools = np.array([1]), np.array([1.0], np.float32), np.array([True])
    for ours, theirs in [(ints, reals), (reals, ints), (bools, ints)]:
        found = compare(ours, theirs, Tolerance())
        assert found is not None and found.kind == "type"
    found = compare(ints, ints.reshape(1, 1), Tolerance())
    assert found == Difference("shape", "[1]", "[1, 1]")
