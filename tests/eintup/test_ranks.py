"""Ranks: which combinations are legal, and what is said of others."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from ricci.diagnostics import Error
from ricci.frontends.eintup import ranks as module
from ricci.frontends.eintup import syntax as s
from ricci.frontends.eintup.program import Program

from .constraints import Line, checked, interval, program_text, random_line

LIBRARY = Path(__file__).parents[2] / "examples" / "eintup"


def ranks(names: str, *lines: str) -> list[tuple[int, ...]]:
    """All legal ranks of some eintups that no statement ties."""
    found = checked(program_text(names.split(), lines)).ranks.combinations()
    return [tuple(each[name] for name in names.split()) for each in found]


def brute(names: Iterable[str], lines: Iterable[Line], largest: int) -> list[dict[str, int]]:
    names, lines = list(names), list(lines)
    values = itertools.product(range(largest + 1), repeat=len(names))
    every = (dict(zip(names, each, strict=True)) for each in values)
    return [each for each in every if all(line.holds(each) for line in lines)]


@pytest.mark.parametrize("seed", range(60))
def test_combinations_equal_enumeration(seed: int) -> None:
    rng = Random(seed)
    names = list("abcd"[: rng.randint(1, 4)])
    lines = [interval("RANK", name, 0, 3) for name in names]
    lines += [random_line(rng, "RANK", names) for _ in range(rng.randint(1, 3))]
    rng.shuffle(lines)
    text = program_text(names, lines)
    expected = brute(names, lines, 3)
    if not expected:
        with pytest.raises(Error) as caught:
            checked(text)
        assert {d.code for d in caught.value.diagnostics} == {"E0420"}, text
        return
    found = checked(text).ranks
    assert list(found.combinations()) == expected, text
    for name in names:
        values = [each[name] for each in expected]
        assert found.interval(name) == (min(values), max(values)), text
    for each in brute(names, (), 4):
        assert (found.broken(each) is None) == (each in expected), (text, each)


COUNTS = {
    "conv_valid_v1": 3, "conv_valid_v2": 3, "conv_same_v1": 1, "conv_same_v2": 3,
    "tconv_valid_v1": 3, "tconv_valid_v2": 3, "separable_conv": 1, "matmul": 7, "meshgrid": 1,
    "flatten": 81, "tile": 5, "slice_v1": 3, "space_to_depth": 1, "gather_nd": 240,
    "scatter_nd": 15,
}  # fmt: skip
"""How many combinations the programs of the original have."""


def library(name: str) -> str:
    return (LIBRARY / f"{name}.et").read_text()


@pytest.mark.parametrize("name", COUNTS)
def test_programs_of_the_original_have_their_combinations(name: str) -> None:
    found = [tuple(r.items()) for r in checked(library(name)).ranks.combinations()]
    assert len(found) == len(set(found)) == COUNTS[name]


@pytest.mark.parametrize("name", sorted(COUNTS.keys() - {"meshgrid"}))  # which has no constraints
def test_order_of_lines_and_repeated_lines_change_nothing(name: str) -> None:
    program, _, constraints = library(name).rstrip().rpartition("\n\n")
    lines = constraints.split("\n") * 2
    Random(1).shuffle(lines)
    before, after = checked(library(name)).ranks, checked("\n".join([program, "", *lines])).ranks
    assert list(before.combinations()) == list(after.combinations())


GATHER = """
P[b, r, e] = RANDOM(0, 10, FLOAT)
I[b, w, coord] = RANDOM(0, DIMS(r)[coord], INT)
R[b, w, e] = P[b, I[b, w, :], e]

tf.gather_nd(P, I, batch_dims=RANK(b))

R

"""


def of(text: str, names: str) -> list[tuple[int, ...]]:
    found = checked(text).ranks.combinations()
    return [tuple(each[name] for name in names.split()) for each in found]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("RANK(r) IN [1, 4]", [1, 2, 3, 4]),
        ("RANK(r) IN [1, 4]\nDIMS(coord) = RANK(r)\nRANK(coord) = 1", [1, 2, 3, 4]),
        ("DIMS(coord) = 3", [3]),
        ("DIMS(coord)[0] == 3", [3]),
        ("3 = DIMS(coord)", [3]),
        ("DIMS(coord) = RANK(w) + 1\nRANK(w) = 2", [3]),
        ("RANK(r) IN [0, 9]\n2 <= DIMS(coord) < 5", [2, 3, 4]),
        ("RANK(r) IN [0, 9]\nDIMS(coord) IN [2, 4]\nDIMS(coord) != 3", [2, 4]),
        ("", [1]),
    ],
)
def test_rank_under_a_slice_is_the_extent_of_its_axis(lines: str, expected: list[int]) -> None:
    program = checked(GATHER + lines)
    found = list(program.ranks.combinations())
    assert [each["r"] for each in found] == expected
    slice_ = program.file.statements[2].value
    assert isinstance(slice_, s.Access)
    for each in found:
        assert each["coord"] == 1
        assert program.ranks.rank_of(slice_.items[1], each) == each["r"]


@pytest.mark.parametrize(("line", "width"), [("", 1), ("DIMS(c) = 2", 2), ("DIMS(c) > 2", 3)])
def test_rank_of_a_slot_that_a_slice_defines(line: str, width: int) -> None:
    text = "I[s, c] = RANDOM(0, 3, INT)\nO[I[s, :], s] = 1\n\nf(I)\n\nO\n\n"
    program = checked(text + line)
    (ranks,) = program.ranks.combinations()
    assert program.ranks.rank_of(program.arrays["O"].signature[0], ranks) == width


@pytest.mark.parametrize(
    ("statements", "line", "expected"),
    [
        (
            "y[q] = x[p] * w[p - DIMS(s) * q]\n",
            "RANK(p) IN [0, 2]",
            [(0, 0, 0), (1,) * 3, (2,) * 3],
        ),
        ("y[p] = x[q]\nz[s] = x[q]\n", "RANK(p) = 2", [(2, 2, 1)]),
        ("y[p] = x[q]\nz[s] = w[s]\n", "RANK(q) = 2", [(2, 2, 1)]),
        ("y[q] = x[FLAT(q, s)]\n", "RANK(q) IN [2, 3]", [(1, 2, 1), (1, 3, 1)]),
        ("y[q] = x[DIMS(q, s) - 1 - p]\n", "RANK(q) IN [1, 2]", [(2, 1, 1), (3, 2, 1)]),
        ("y[DIMS(q, s) - 1 - p] = x[p]\n", "RANK(p) = 3", [(3, 2, 1)]),
        ("y[q] = x[2 * p + RANK(q, s)]\n", "RANK(p) = 2", [(2, 1, 1)]),
        ("y[q] = DIMS(p, s)[q]\n", "RANK(p) = 2", [(2, 1, 1)]),
        ("y[q, s] = RANGE[p, q]\n", "RANK(p) = 2", [(2, 1, 1)]),
    ],
)
def test_ranks_are_inferred(statements: str, line: str, expected: list[tuple[int, ...]]) -> None:
    inputs = "x[p] = RANDOM(0, 1, FLOAT)\nw[f] = RANDOM(0, 1, FLOAT)\nk[s] = RANDOM(0, 1, FLOAT)\n"
    found = of(f"{inputs}{statements}\nnp.copy(y)\n\ny\n\n{line}", "p q s")
    assert found == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], [(1, 1, 1)]),
        (["RANK(a) = RANK(b)"], [(1, 1, 1)]),
        (["RANK(a) = RANK(b) == RANK(c)", "RANK(c) = 2"], [(2, 2, 2)]),
        (["RANK(a) == RANK(b) == 1"], [(1, 1, 1)]),
        (["0 < RANK(a) <= 3"], [(1, 1, 1), (2, 1, 1), (3, 1, 1)]),
        (["RANK(a) >= 7"], [(7, 1, 1), (8, 1, 1)]),
        (["RANK(a) > 9"], [(10, 1, 1)]),
        (["RANK(a, b) = 2"], [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
        (["DIMS(a) = DIMS(b, c)", "RANK(b) = 2"], [(3, 2, 1)]),
        (["DIMS(a) < DIMS(b)", "RANK(b) IN [0, 1]"], [(0, 0, 1), (1, 1, 1)]),
        (["DIMS(a)[1] = 3", "RANK(a) IN [0, 3]"], [(2, 1, 1), (3, 1, 1)]),
        (["RANK(a) = max(RANK(b), RANK(c)) - 1", "RANK(b) = 3", "RANK(c) = 1"], [(2, 3, 1)]),
    ],
)
def test_rank_lines(lines: list[str], expected: list[tuple[int, ...]]) -> None:
    assert ranks("a b c", *lines) == expected


def test_sum_of_ranks_bounds_each() -> None:
    found = ranks("a b c", "RANK(a, b, c) < 8")
    assert found == [t for t in itertools.product(range(8), repeat=3) if sum(t) < 8]


@pytest.mark.parametrize(
    ("names", "lines"),
    [
        ("a b c d e f", [f"RANK({n}) IN [0, 9]" for n in "abcdef"]),
        (
            "a b c d",
            ["RANK(a) * RANK(b) >= 0"] + [f"RANK({n}) <= 60" for n in "abcd"],
        ),
    ],
)
def test_too_many_combinations_are_refused(
    names: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 3000)
    with pytest.raises(Error) as caught:
        ranks(names, *lines)
    assert caught.value.diagnostics[0].code == "E0901"


def test_many_eintups_are_no_obstacle() -> None:
    names = [f"e{k}" for k in range(300)]
    ties = [f"RANK({a}) = RANK({b})" for a, b in itertools.pairwise(names)]
    found = ranks(" ".join(names), *ties, "RANK(e299) IN [2, 3]")
    assert found == [(2,) * 300, (3,) * 300]


def broken(program: Program, **found: int) -> str:
    diagnostic = program.ranks.broken(found)
    return "" if diagnostic is None else diagnostic.render()


def test_illegal_ranks_are_named_with_what_they_break() -> None:
    program = checked(GATHER + "RANK(r) IN [1, 4]\nRANK(b) <= 2")
    legal = {"b": 2, "r": 3, "e": 1, "w": 1, "coord": 1}
    assert broken(program, **legal) == ""
    assert "`RANK(b) <= 2` does not hold: RANK(b) is 3" in broken(program, **legal | {"b": 3})
    assert "`coord` numbers the components" in broken(program, **legal | {"coord": 2})
    assert "no constraint says that `RANK(e)`" in broken(program, **legal | {"e": 2})
