"""From shapes to ranks and dims: what is found, what is open, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

import pytest

from ricci.diagnostics import Error
from ricci.dtypes import DType
from ricci.frontends.eintup.program import Program
from ricci.frontends.eintup.solve import check_arguments, solve

from .constraints import checked
from .legal_oracle import Oracle

CONV = """
x[batch, pos, chan] = RANDOM(0, 10, FLOAT)
w[win, chan, out] = RANDOM(0, 1, FLOAT)
y[batch, new, out] = x[batch, win + DIMS(stride) * new, chan] * w[win, chan, out]

y

RANK(pos) IN [1, 3]
DIMS(stride) IN [1, 3]
DIMS(batch) IN [1, 2]
DIMS(new) = (DIMS(pos) - DIMS(win) + 1) //^ DIMS(stride)
"""

GATHER = """
p[b, r, e] = RANDOM(0, 10, FLOAT)
i[b, w, coord] = RANDOM(0, DIMS(r)[coord], INT)
y[b, w, e] = p[b, i[b, w, :], e]

y

RANK(b) IN [0, 1]
RANK(r) IN [1, 2]
RANK(w) IN [0, 1]
RANK(e) IN [0, 1]
"""

GROUPS = """
x[FLAT(g, c), n] = RANDOM(0, 1, FLOAT)
w[c * DIMS(m) + m, 0] = RANDOM(0, 1, FLOAT)
y[n] = x[FLAT(g, c), n] * w[c * DIMS(m) + m, 0]

y

DIMS(g) = DIMS(m) + 2
DIMS(n) <= DIMS(g)
"""

PAIR = """
a[i, j] = RANDOM(0, 1, FLOAT)
b[j, k] = RANDOM(0, 1, FLOAT)
y[i] = a[i, j] * b[j, k]

y

RANK(i) + RANK(k) = 2
RANK(j) <= 1
DIMS(k) <= max(DIMS(j)[0] - 1, 2)
"""


Shapes = dict[str, tuple[int, ...]]
Given = Mapping[str, int | tuple[int, ...]]


NOTHING: Mapping[str, int] = MappingProxyType({})


def dims(
    text: str, shapes: Shapes, ranks: Mapping[str, int] = NOTHING, dims: Given = NOTHING
) -> Shapes:
    return dict(solve(checked(text), shapes, ranks, dims).dims)


def code(
    text: str, shapes: Shapes, ranks: Mapping[str, int] = NOTHING, dims: Given = NOTHING
) -> str:
    with pytest.raises(Error) as raised:
        solve(checked(text), shapes, ranks, dims)
    return raised.value.diagnostics[0].code


# ---------------------------------------------------------------------- what is found


def test_a_convolution_of_any_rank() -> None:
    shapes = {"x": (2, 9, 7, 3), "w": (3, 2, 3, 4)}
    assert dims(CONV, shapes, dims={"stride": 2}) == {
        "batch": (2,), "pos": (9, 7), "chan": (3,), "win": (3, 2), "out": (4,),
        "new": (4, 3), "stride": (2, 2),
    }  # fmt: skip
    assert dims(CONV, {"x": (2, 9, 3), "w": (3, 3, 4)}, dims={"stride": (7,)})["new"] == (1,)


def test_bounds_by_numbers_are_not_enforced() -> None:
    large = {"x": (64, 224, 224, 3), "w": (7, 7, 3, 64)}
    assert dims(CONV, large, dims={"stride": 5})["new"] == (44, 44)


def test_an_equation_is_solved_for_its_only_unknown() -> None:
    assert dims(CONV, {"x": (2, 9, 3), "w": (3, 3, 4)}, dims={"new": (4,)})["stride"] == (2,)
    assert dims(GROUPS, {"x": (12, 3), "w": (6, 1)}) == {
        "g": (4,), "c": (3,), "n": (3,), "m": (2,),
    }  # fmt: skip


def test_the_extent_of_what_numbers_components_is_a_rank() -> None:
    found = dims(GATHER, {"p": (5, 6, 7), "i": (4, 2)}, {"b": 0})
    assert found == {"b": (), "r": (5, 6), "e": (7,), "w": (4,), "coord": (2,)}


def test_inputs_may_be_left_out() -> None:
    rest = {"win": 3, "out": 4, "stride": 1}
    assert dims(CONV, {"x": (2, 9, 3)}, dims=rest)["new"] == (7,)


def test_huge_sizes_are_solved_for_too() -> None:
    text = "x[a, b] = RANDOM(0, 1, FLOAT)\n\nx\n\nDIMS(a) = DIMS(c) * DIMS(c) + 1"
    text += "\nDIMS(b) = 3 * DIMS(d)\nDIMS(c, d) >= 0"
    found = dims(text, {"x": (10**18 + 1, 3 * 10**15)})
    assert (found["c"], found["d"]) == ((10**9,), (10**15,))


# ----------------------------------------------------------------------- what is open


def test_ambiguous_dims_are_settled_by_what_the_message_says() -> None:
    shapes = {"x": (2, 9, 7, 3), "w": (3, 2, 3, 4)}
    with pytest.raises(Error) as raised:
        dims(CONV, shapes)
    found = raised.value.diagnostics[0]
    assert (found.code, found.message) == ("E0403", "the shapes do not determine `stride`")
    assert found.notes[1:] == (
        "one reading: `new` = [7, 6] and `stride` = [1, 1]",
        "another: `new` = [4, 6] and `stride` = [2, 1]",
    )
    said = 'say which is meant, for example by `at(dims={"stride": [1, 1]})`, '
    assert found.help == said + 'or --attrib "DIMS(stride)=[1,1]"'
    assert dims(CONV, shapes, dims={"stride": (1, 1)})["new"] == (7, 6)


def test_ambiguous_ranks_are_settled_by_what_the_message_says() -> None:
    shapes = {"p": (2, 3, 4), "i": (2, 2)}
    with pytest.raises(Error) as raised:
        dims(GATHER, shapes)
    found = raised.value.diagnostics[0]
    assert found.code == "E0403"
    assert 'at(ranks={"b": 0})' in found.help
    assert dims(GATHER, shapes, {"b": 0})["r"] == (2, 3)
    assert dims(GATHER, shapes, {"b": 1})["r"] == (3, 4)


def test_many_possibilities_take_bounded_time() -> None:
    names = [f"e{k}" for k in range(12)]
    slots = ", ".join(names)
    ranks = "\n".join(f"RANK({name}) IN [0, 64]" for name in names)
    one = f"x[{slots}] = RANDOM(0, 1, FLOAT)\n\nx\n\n{ranks}"
    assert code(one, {"x": tuple(range(1, 41))}) == "E0403"
    two = f"x[{slots}] = RANDOM(0, 1, INT)\ny[{slots}] = RANDOM(0, 1, INT)\n\ny\n\n{ranks}"
    assert code(two, {"x": tuple(range(1, 41)), "y": tuple(range(2, 42))}) == "E0903"
    prime = "x[FLAT(a, b, c, d)] = RANDOM(0, 1, FLOAT)\n\nx\n"
    assert code(prime, {"x": (1000003,)}) == "E0403"


# ---------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("shapes", "ranks", "dims", "expected"),
    [
        ({"x": (2, 9, 7, 3), "w": (3, 2, 5, 4)}, {}, {}, "E0410"),
        ({"x": (2, 9, 7, 3), "w": (3, 3, 4)}, {}, {}, "E0411"),
        ({"x": (2, 9, 3)}, {}, {"chan": 4}, "E0410"),
        ({"x": (2, 9, 3), "w": (11, 3, 4)}, {}, {"stride": 1}, "E0416"),
        ({"x": (2, 9, 3), "w": (3, 3, 4)}, {}, {"stride": 1, "new": 8}, "E0501"),
        ({"x": (2, 9, 3), "w": (3, 3, 4)}, {}, {"stride": 0}, "E0501"),
        ({"x": (2, 9, 3)}, {"pos": 2}, {}, "E0411"),
        ({}, {"pos": 4}, {}, "E0801"),
        ({}, {"pos": 1}, {"pos": (3, 3)}, "E0801"),
        ({}, {}, {"pos": -1}, "E0801"),
        ({}, {}, {"position": 1}, "E0801"),
        ({"y": (1, 1, 1)}, {}, {}, "E0801"),
        ({"x": (-1, 2, 3)}, {}, {}, "E0801"),
    ],
)
def test_what_does_not_fit_has_a_code(
    shapes: Shapes, ranks: Mapping[str, int], dims: Given, expected: str
) -> None:
    assert code(CONV, shapes, ranks, dims) == expected


def test_a_call_needs_all_inputs_and_integers_for_indices() -> None:
    program = checked(GATHER)
    types = {"p": DType.FLOAT32, "i": DType.INT64}
    shapes = {"p": (5, 6), "i": (2,)}
    assert check_arguments(program, shapes, types, {"b": 0}).dims["r"] == (5, 6)
    with pytest.raises(Error, match=r"E0801.*`i` is missing"):
        check_arguments(program, {"p": (5, 6)}, types)
    with pytest.raises(Error, match=r"E0301.*`i`"):
        check_arguments(program, shapes, {**types, "i": DType.FLOAT64})


# -------------------------------------------------------------------- against the oracle


@pytest.mark.parametrize(
    "text", [CONV, GATHER, GROUPS, PAIR], ids=["conv", "gather", "groups", "pair"]
)
def test_shapes_are_legal_where_an_oracle_finds_dims(text: str) -> None:
    program = checked(text)
    oracle, random = Oracle(program), Random(0)
    verdicts = []
    for _ in range(100):
        shapes = {a.name: _shape(random, oracle, a.name) for a in program.inputs}
        verdicts.append(oracle.is_legal(shapes))
        assert _is_accepted(program, oracle, shapes) == verdicts[-1], shapes
    assert any(verdicts) and not all(verdicts)


def _shape(random: Random, oracle: Oracle, name: str) -> tuple[int, ...]:
    """Of a number of dimensions that some ranks give, mostly."""
    ranks = random.choice(oracle.rankings)
    count = oracle.count(ranks, name) + random.choice([0] * 9 + [1])
    return tuple(random.choice([0, 1, 2, 2, 2, 3, 4, 6]) for _ in range(count))


def _is_accepted(program: Program, oracle: Oracle, shapes: Shapes) -> bool:
    try:
        found = solve(program, shapes)
    except Error as error:
        assert error.diagnostics[0].code != "E0903"
        return error.diagnostics[0].code == "E0403"
    assert oracle.confirms(found.dims, shapes)
    return True
