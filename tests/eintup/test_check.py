"""Names, slots and constraints of whole files: what is accepted, and as what."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.frontends.eintup.dims import computed, draw_dims
from ricci.frontends.eintup.program import Program

from .constraints import checked


def codes(text: str) -> list[str]:
    """What a text is rejected with; nothing if it is accepted."""
    try:
        checked(text)
    except Error as found:
        return [d.code for d in found.diagnostics]
    return []


@pytest.mark.parametrize(
    ("target", "is_input"),
    [
        ("A[i, j]", True),
        ("A[0, i]", True),
        ("A[FLAT(i, j)]", True),
        ("A[i * DIMS(j) + j]", True),
        ("A[j + DIMS(j) * i, k]", True),
        ("A[(i * DIMS(j) + j) * DIMS(k) + k]", True),
        ("A[i, i]", False),
        ("A[1, i]", False),
        ("A[2 * i]", False),
        ("A[i + j]", False),
        ("A[i * DIMS(i) + i]", False),
        ("A[i * DIMS(k) + j]", False),
        ("A[FLAT(i, i)]", False),
    ],
)
def test_an_input_is_filled_as_a_whole(target: str, is_input: bool) -> None:
    program = checked(f"K[k] = 1\n{target} = RANDOM(0, 1, FLOAT)\nB[i, j] = 2")
    assert [a.name for a in program.inputs] == ["A"] * is_input


@pytest.mark.parametrize(
    "statements",
    [
        "A[i] = 2 * RANDOM(0, 1, FLOAT)",
        "A[i] += RANDOM(0, 1, FLOAT)",
        "A[i] = 0\nA[i] = RANDOM(0, 1, FLOAT)",
    ],
)
def test_other_arrays_are_computed(statements: str) -> None:
    assert checked(statements).inputs == ()


def test_names_are_in_order_of_appearance() -> None:
    program = checked(
        """A[p] = RANDOM(0, 1, FLOAT)
p[q] = A[q + DIMS(s) - RANK(t)]
t[t] = 1

np.roll(A, DIMS(u), RANK(v))

p

DIMS(w) IN [1, 3]
DIMS(u) = DIMS(w)
DIMS(v) = 2
"""
    )
    assert tuple(program.arrays) == ("A", "p", "t")
    assert program.eintups == ("p", "q", "s", "t", "u", "v", "w")
    assert [a.name for a in program.outputs] == ["p"]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("B[i] = A[i, j]", ["E0602"]),
        ("B[i] = A[x[i]]", ["E0602"]),
        ("B[i] = a[i]", ["E0201"]),
        ("B[i] = B[i - 1] + A[i]", ["E0206"]),
        ("B[i] += B[i]", ["E0206"]),
        ("B[i] = A[i]\nB[i] += B[i - 1]", []),
        ("B[i // j] = A[i]\nC[j] = 1", ["E0507"]),
        ("B[i // (DIMS(i) + 2 * RANK(i) - 3)] = A[i]", []),
        ("B[i // A[:]] = A[i]", ["E0507"]),
        ("B[i // 0] = A[i]", ["E0502"]),
        ("B[i] = A[i] // 0", []),
        ("B[i] = A[i] + tan(A[i])", []),
        ("B[i] = fma(A[i], 2)", ["E0412"]),
        ("B[i] = foo(A[i])", ["E0203"]),
        ("B[i] = RANDOM(4, 4, FLOAT)", []),
        ("B[i] = RANDOM(4, 4, INT)", ["E0419"]),
        ("B[i] = RANDOM(4, 3.5, FLOAT)", ["E0419"]),
        ("B[i] = A[FLAT(A[:])]", ["E0507"]),
        ("B[i] = A[RANK(A[:])]", []),
        ("B[i] = A[i] + DIMS(A[:])[c]", ["E0507"]),
        ("i[A] = A[A]", []),
    ],
)
def test_statements(statement: str, found: list[str]) -> None:
    assert codes(f"x[i, j] = 1\nA[i] = RANDOM(0, 1, INT)\n{statement}") == found


def test_what_follows_from_an_error_is_not_reported() -> None:
    text = (
        "A[i] = b[i]\nC[i] = A[i, j] + A[i] + C[i]\nD[i] = C[i] * A[j, k, l]\n\nf(A, D)\n\nC, D\n"
    )
    assert codes(text) == ["E0201", "E0206"]


def with_lines(*lines: str) -> str:
    start = (
        "A[e] = RANDOM(0, 1, FLOAT)\nB[d] = A[d + DIMS(left)]\n\nnp.roll(A, DIMS(call))\n\nB\n\n"
    )
    return start + "\n".join(["DIMS(call) = 1", *lines])


@pytest.mark.parametrize(
    ("lines", "unknown"),
    [
        (["DIMS(right) IN [1, 2]", "DIMS(d) = DIMS(right)"], []),
        (["DIMS(d) = DIMS(right)", "DIMS(right) = DIMS(other)", "DIMS(other) IN [1, 2]"], []),
        (["DIMS(d) = DIMS(right)"], ["right"]),
        (["DIMS(right) IN [1, 2]"], ["right"]),
        (["DIMS(right) IN [1, 2]", "RANK(right) = 1"], ["right"]),
        (["DIMS(right) = DIMS(other)", "DIMS(other) IN [1, 2]"], ["right", "other"]),
        (["DIMS(call) = DIMS(d)", "RANK(lef) = 1"], ["lef"]),
    ],
)
def test_an_eintup_of_constraints_alone_is_used_and_bounded(
    lines: list[str], unknown: list[str]
) -> None:
    try:
        checked(with_lines(*lines))
        found = []
    except Error as error:
        found = [d.span.text for d in error.diagnostics]
    assert found == unknown


def first_dims(program: Program) -> dict[str, tuple[int, ...]]:
    ranks = next(program.ranks.combinations())
    return dict(draw_dims(program, ranks, np.random.default_rng(0)).dims)


def test_dims_of_a_numbering_eintup_are_implied() -> None:
    text = """P[r, e] = RANDOM(0, 1, FLOAT)
I[w, coord] = RANDOM(0, DIMS(r)[coord], INT)
R[w, e] = P[I[w, :], e] + RANGE[e, axis]

tf.gather_nd(P, I)

R

RANK(r) = 3
RANK(e) = 2
"""
    program = checked(text)
    assert set(computed(program)) == {"coord", "axis"}
    dims = first_dims(program)
    assert dims["coord"] == (3,) and dims["axis"] == (2,)
    said = checked(f"{text}DIMS(coord) = RANK(r)\n2 = DIMS(axis)[0]\nRANK(coord) = 1\n")
    assert first_dims(said) == dims
    assert computed(said)["coord"] is said.file.constraints[2]


@pytest.mark.parametrize(
    ("use", "coord"),
    [
        ("B[w] = P[I[w, :], 0]", 2),
        ("B[w] = P[2 * I[w, :] - RANK(J[:]) + 1, 0]", 2),
        ("B[w] = P[r, RANK(I[w, :])]", 1),
        ("B[I[w, :]] = 1\nC[r, r] = B[I[w, :]] + P[I[w, :], 0]", 2),
        ("B[w] = P[I[J[:] + w, :], 0]", 2),
    ],
)
def test_axis_under_a_colon_counts_what_the_slice_stands_for(use: str, coord: int) -> None:
    text = f"""P[r, e] = RANDOM(0, 1, FLOAT)
I[w, coord] = RANDOM(0, 2, INT)
J[one] = 0
{use}

f(P)

P

RANK(r) = 2
"""
    program = checked(text)
    dims = first_dims(program)
    assert dims["coord"] == (coord,) and computed(program).keys() >= {"coord"}
    if "J" in use:
        assert dims["one"] == (1,)


def test_ranks_without_dims_are_no_error_of_the_file() -> None:
    lines = ["RANK(e) IN [0, 3]", "DIMS(call) = RANK(e) - 1"]
    program = checked(with_lines(*lines).replace("DIMS(call) = 1\n", ""))
    first, second = islice(program.ranks.combinations(), 2)
    with pytest.raises(Error, match=r"at RANK\(e\) = 0"):
        draw_dims(program, first, np.random.default_rng(0))
    assert draw_dims(program, second, np.random.default_rng(0)).dims["call"] == (0,)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("RANK(e) IN [0, 1000000000000]", "E0901"),
        ("DIMS(e)[2147483648] = 1", "E0420"),
        ("RANK(e) = 9223372036854775807", "E0420"),
        ("RANK(e) > 100000", "E0420"),
        ("DIMS(e) = DIMS(d, d, d)\nDIMS(d)[0] = 2", "E0420"),
    ],
)
def test_ranks_beyond_reason_are_refused(line: str, code: str) -> None:
    assert codes(with_lines(line)) == [code]


def test_many_contradictions_are_named_in_bounded_time() -> None:
    names = [f"e{k}" for k in range(60)]
    statements = "\n".join(f"A{n}[{n}] = RANDOM(0, 1, FLOAT)" for n in names)
    ties = [f"RANK({a}) < RANK({b})" for a, b in zip(names, [*names[1:], names[0]], strict=True)]
    text = "\n".join([statements, "", "f(Ae0)", "", "Ae0", "", *ties])
    assert codes(text) == ["E0420"]
