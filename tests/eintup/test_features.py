"""Every feature of the language, F1 to F27 of `features.py`, against NumPy or loops by hand."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci import eintup
from ricci.cli import main as command

from .features import FEATURES, defined_tests
from .programs import COMBINATIONS, FOLDER, ORIGINAL, load

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(0)


@pytest.fixture(params=["cpu", "interpreter"])
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def numbers(*shape: int) -> Array:
    """Small whole numbers, as reals: sums of them are exact."""
    return RNG.integers(-9, 10, shape).astype(np.float64)


def call(text: str, *arrays: object, target: str = "cpu", **dims: object) -> Any:
    """The outputs of a program for some inputs; `dims` are of eintups that these do not give."""
    program = eintup.parse(text, target=target)
    known = {name: n for name, n in dims.items() if name in program.program.eintups}
    return program.at(dims=known)(*arrays)


def same(found: Array, expected: object, rtol: float = 1e-12) -> None:
    wanted = np.asarray(expected)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=rtol)


# ------------------------------------------------------------------------- F1 to F5

PAIR = """
low[i] = RANDOM(0, 5, INT)
high[i] = low[i] + 5
both[i] = low[i] + high[i]

{0}

{1}

DIMS(i) IN [2, 3]
"""
CALL, OUTPUTS = "np.stack(\n    TENSOR(DIMS(i)),\n    axis=L(0))", "high, both"


@pytest.mark.parametrize("sections", [(CALL, OUTPUTS), (OUTPUTS, CALL)])
def test_f01_sections_in_either_order(sections: tuple[str, str]) -> None:
    program = eintup.parse(PAIR.format(*sections))
    assert [port.name for port in program.outputs] == ["high", "both"]
    high, both = program(np.array([1, 2]))
    same(high, [6, 7])
    same(both, [7, 9])


def test_f01_every_file_of_the_original_loads() -> None:
    programs = {name: load(name) for name in ORIGINAL}
    assert len(programs["meshgrid"].outputs) == 4
    assert all(p.outputs and p.program.file.call for p in programs.values())


MATMUL = """
a[b, i, k] = RANDOM(0, 1, FLOAT)
m[b, k, j] = RANDOM(0, 1, FLOAT)
c[b, i, j] = {0}

RANK(b) IN [0, 3]
"""


@pytest.mark.parametrize("rank", range(4))
def test_f02_one_program_at_every_rank(rank: int, target: str) -> None:
    batch = (2, 3, 2)[:rank]
    a, m = numbers(*batch, 4, 5), numbers(*batch, 5, 3)
    same(call(MATMUL.format("a[b, i, k] * m[b, k, j]"), a, m, target=target), a @ m)


def test_f03_overwrite_add_and_partial_update(target: str) -> None:
    text = "a[e] = RANDOM(0, 1, FLOAT)\nt[d] = 7.0\nt[e - 2] = a[e]\nt[e - 3] += a[e]"
    same(call(text, np.arange(4.0), target=target, d=4), [2 + 3, 3, 7, 7])
    text = "a[e] = RANDOM(0, 1, FLOAT)\nt[DIMS(s) * e] += a[e]"
    same(call(text, np.arange(1.0, 4), target=target, s=2), [1, 0, 2, 0, 3])
    same(eintup.parse("w[3] = 1", target=target)(), [0, 0, 0, 1])


@pytest.mark.parametrize(
    "value", ["a[b, i, k] * m[b, k, j]", "m[b, k, j] * a[b, i, k]", "1 * (m[b, k, j]) * a[b, i, k]"]
)
def test_f04_eintups_are_matched_by_name(value: str, target: str) -> None:
    a, m = numbers(2, 4, 5), numbers(2, 5, 3)
    same(call(MATMUL.format(value), a, m, target=target), a @ m)


def test_f04_sum_and_broadcast(target: str) -> None:
    x = numbers(3, 4)
    text = "x[i, j] = RANDOM(0, 1, FLOAT)\n"
    same(call(text + "o[j, i] = x[i, j]", x, target=target), x.T)
    same(call(text + "o[i] = x[i, j]", x, target=target), x.sum(1))
    same(call(text + "o[d] = x[i, j]", x, target=target, d=2), [x.sum(), x.sum()])
    grid = np.stack([x, x, x, x, x], 1)
    same(call(text + "o[i, d, j] = x[i, j]", x, target=target, d=5), grid)


def test_f05_sums_are_over_the_whole_right_side(target: str) -> None:
    a, b = numbers(3, 2), numbers(3)
    text = "a[i, k] = RANDOM(0, 1, FLOAT)\nb[i] = RANDOM(0, 1, FLOAT)\n"
    same(call(text + "c[i] = a[i, k] + b[i]", a, b, target=target), a.sum(1) + 2 * b)
    same(call(text + "c[i] = a[i, k] * (b[i] - 1)", a, b, target=target), a.sum(1) * (b - 1))


# ------------------------------------------------------------------------- F6 to F9

VALUES: dict[str, Callable[[Array, Array], Array]] = {
    "0.5 * x[i] - y[i] / 4": lambda x, y: 0.5 * x - y / 4,
    "-(x[i] + y[i]) * (2 - RANK(i))": lambda x, y: -(x + y),
    "RANK(i, i) + 3 * x[i]": lambda x, y: 2 + 3 * x,
    "x[i] // 3 + y[i] //^ 3": lambda x, y: np.floor(x / 3) + np.ceil(y / 3),
    "x[i] % 4 - -y[i] % 4": lambda x, y: np.mod(x, 4) - np.mod(-y, 4),
    "max(x[i], min(y[i], 2)) * (x[i] < y[i])": lambda x, y: (
        np.maximum(x, np.minimum(y, 2)) * (x < y)
    ),
    "where(x[i] != y[i] and not x[i] > 2, 1, x[i])": lambda x, y: np.where(
        (x != y) & ~(x > 2), 1, x
    ),
    "exp(x[i] / 10) + sqrt(abs(y[i]))": lambda x, y: np.exp(x / 10) + np.sqrt(np.abs(y)),
}


@pytest.mark.parametrize("value", VALUES)
def test_f06_value_operators(value: str, target: str) -> None:
    for kind in (np.float64, np.int32):
        x, y = numbers(40).astype(kind), numbers(40).astype(kind)
        text = "x[i] = RANDOM(0, 1, FLOAT)\ny[i] = RANDOM(0, 1, FLOAT)\no[i] = " + value
        same(call(text, x, y, target=target), VALUES[value](x, y))


Tree = str | tuple[str, "Tree", "Tree"]
"""An index expression: a leaf, or an operator and what it combines."""

STATIC: dict[str, int] = {"1": 1, "2": 2, "3": 3, "DIMS(s)": 2, "RANK(p)": 1, "DIMS(q)": 4}
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "//^": lambda a, b: -(-a // b),
    "%": lambda a, b: a % b,
}


def draw_index(rng: random.Random, depth: int) -> Tree:
    """A random index expression of `p`, `q` and what is static."""
    if depth == 0:
        return rng.choice(["p", "q", "p", *STATIC])
    operator = rng.choice(list(OPERATORS))
    is_static = operator not in "+-"
    right = rng.choice(list(STATIC)) if is_static else draw_index(rng, depth - 1)
    return operator, draw_index(rng, depth - 1), right


def spelled(tree: Tree) -> str:
    return tree if isinstance(tree, str) else f"({spelled(tree[1])} {tree[0]} {spelled(tree[2])})"


def value_of(tree: Tree, p: int, q: int) -> int:
    if isinstance(tree, str):
        return {"p": p, "q": q, **STATIC}[tree]
    return OPERATORS[tree[0]](value_of(tree[1], p, q), value_of(tree[2], p, q))


RANDOM = random.Random(0)
TREES: list[Tree] = [("+", "p", draw_index(RANDOM, 1 + k % 3)) for k in range(20)]
TREES += [(o, "p", draw_index(RANDOM, 1 + k % 3)) for k in range(5) for o in "+-"]
TREES += [(o, ("-", "p", "q"), s) for o in OPERATORS for s in ("2", "DIMS(s)")]


@pytest.mark.parametrize("tree", TREES, ids=spelled)
def test_f07_index_operators(tree: Tree, target: str) -> None:
    x, y = numbers(5, 4), numbers(9)
    read, written = np.zeros((5, 4)), np.zeros(9)
    for p, q in np.ndindex(5, 4):
        at = value_of(tree, p, q)
        if 0 <= at < 9:
            read[p, q] += y[at]
            written[at] += x[p, q]
    expr = spelled(tree)
    inputs = "x[p, q] = RANDOM(0, 1, FLOAT)\ny[r] = RANDOM(0, 1, FLOAT)\n"
    text = inputs + f"a[p, q] = y[{expr}]\nw[r] = 0.0\nw[{expr}] = x[p, q]\n\na, w"
    found = call(text, x, y, target=target, s=2)
    same(found[0], read)
    same(found[1], written)


# Spec: table 1.7, with the true bounds. D(p) = 5, D(q) = 4, D(s) = 2.
BOUNDS = {
    "p": 5, "3": 4, "p + DIMS(s)": 7, "DIMS(s) + p": 7, "p - DIMS(s)": 3, "p * DIMS(s)": 9,
    "DIMS(s) * p": 9, "p // DIMS(s)": 3, "p //^ DIMS(s)": 3, "p % DIMS(s)": 2, "p % 9": 5,
    "p + q": 8, "p - q": 5, "p * q": 13, "6 - p": 7, "DIMS(p) - 1 - p": 5, "DIMS(p) - DIMS(s)": 4,
    "DIMS(p) + DIMS(s)": 8, "DIMS(p) * DIMS(s)": 11, "DIMS(p) // DIMS(s)": 3, "DIMS(p)": 6,
    "RANK(p)": 2, "FLAT(p, q)": 20, "FLAT(p + 1, q % 2)": 12, "FLAT(FLAT(p, q), 1)": 40,
}  # fmt: skip


@pytest.mark.parametrize("expr", BOUNDS)
def test_f08_expressions_size_arrays(expr: str) -> None:
    text = f"x[p, q] = RANDOM(0, 1, FLOAT)\no[{expr}] = x[p, q]"
    assert call(text, numbers(5, 4), s=2).shape == (BOUNDS[expr],)


def test_f09_flat(target: str) -> None:
    x = numbers(2, 3, 4)
    text = "x[a, b] = RANDOM(0, 1, FLOAT)\no[FLAT(a, b)] = x[a, b]\n\nRANK(a, b) = 3\nRANK(a) = 1"
    same(call(text, x, target=target), x.ravel())
    # A component out of its range makes -1 of the whole, and skips: `b - 1` is -1 for b = 0.
    y = numbers(12)
    text = "y[k] = RANDOM(0, 1, FLOAT)\no[a, b] = y[FLAT(a, b - 1)]"
    expected = np.zeros((3, 4))
    expected[:, 1:] = y[:9].reshape(3, 3)
    same(call(text, y, target=target, a=3, b=4), expected)


# ------------------------------------------------------------------------ F10 to F15

GATHER = """
x[b, r] = RANDOM(0, 1, FLOAT)
at[{0}] = RANDOM(0, DIMS(r)[c], INT)
o[b, w] = x[b, at[{1}]]

RANK(r) = 2
"""


@pytest.mark.parametrize("axis", range(3))
def test_f10_a_slice_at_any_position(axis: int, target: str) -> None:
    x, at = numbers(2, 3, 4), RNG.integers(0, (3, 4), (2, 5, 2))
    names, cut = ["b", "w"], ["b", "w"]
    names.insert(axis, "c")
    cut.insert(axis, ":")
    text = GATHER.format(", ".join(names), ", ".join(cut))
    expected = [[x[b][tuple(at[b, w])] for w in range(5)] for b in range(2)]
    same(call(text, x, np.moveaxis(at, 2, axis), target=target), expected)


def test_f10_scatter_with_collisions_and_batch(target: str) -> None:
    at, x = RNG.integers(0, 3, (2, 8, 1)), numbers(2, 8, 2)
    text = """
        at[b, s, c] = RANDOM(0, 1, INT)
        x[b, s, e] = RANDOM(0, 1, FLOAT)
        o[b, d, e] = 0.0
        o[b, at[b, s, :], e] = x[b, s, e]
    """
    expected = np.zeros((2, 3, 2))
    for b, s in np.ndindex(2, 8):
        expected[b, at[b, s, 0]] += x[b, s]
    same(call(text, at, x, target=target, d=3), expected)


def test_f10_what_a_slice_names_out_of_range_is_skipped(target: str) -> None:
    text = "at[w, c] = RANDOM(0, 1, INT)\nx[r] = RANDOM(0, 1, FLOAT)\no[w] = x[at[w, :]]"
    at = np.array([[0], [-1], [2], [3]])
    same(call(text, at, np.array([5.0, 6, 7]), target=target), [5, 0, 7, 0])


def test_f11_constants_and_several_expressions_in_one_access(target: str) -> None:
    x = numbers(4, 6, 3)
    text = "x[p, c] = RANDOM(0, 1, FLOAT)\no[0, p // DIMS(s), FLAT(p % DIMS(s), c)] = x[p, c]"
    text += "\n\nRANK(p) = 2"
    expected = x.reshape(2, 2, 3, 2, 3).transpose(0, 2, 1, 3, 4).reshape(1, 2, 3, 12)
    same(call(text, x, target=target, s=2), expected)
    rows, cols = RNG.integers(0, 4, (5, 1)), RNG.integers(0, 6, (5, 1))
    text = """
        x[p, q, c] = RANDOM(0, 1, FLOAT)
        row[w, k] = RANDOM(0, 1, INT)
        col[w, k] = RANDOM(0, 1, INT)
        o[w] = x[row[w, :], col[w, :], 2]
    """
    same(call(text, x, rows, cols, target=target), x[rows[:, 0], cols[:, 0], 2])


def test_f12_what_is_out_of_range_is_skipped(target: str) -> None:
    a, b = numbers(5), numbers(5)
    text = "a[i] = RANDOM(0, 1, FLOAT)\nb[i] = RANDOM(0, 1, FLOAT)\n"
    same(call(text + "y[i] = a[i - 1] + b[i]", a, b, target=target), [0, *(a[:-1] + b[1:])])
    same(call(text + "y[i] = a[i + 2] * b[i]", a, b, target=target), [*(a[2:] * b[:-2]), 0, 0])
    text += "y[i] = a[i]\ny[i + 3] = b[i]"
    same(call(text, a, b, target=target), [*a[:3], *b[:2]])


def test_f13_collisions_accumulate(target: str) -> None:
    text = "a[x] = RANDOM(0, 1, FLOAT)\nh[x // 2] = a[x]"
    a = numbers(5)
    same(call(text, a, target=target), [a[0] + a[1], a[2] + a[3], a[4]])


DRAWS = """
whole[i, j] = RANDOM(-2, 3, INT)
real[i, j] = RANDOM(-2, 3, FLOAT)
low[i] = RANDOM(0, 50, INT)
given[i, j] = RANDOM(low[i], low[i] + 1 + RANK(i), INT)
at[i, c] = RANDOM(0, DIMS(k)[c], INT)

whole, real, low, given, at

RANK(k) = 2
"""


def test_f14_random_numbers(target: str) -> None:
    program = eintup.parse(DRAWS, target=target).at(dims={"i": 50, "j": 40, "k": [2, 7]})
    first, again, other = program(seed=1), program(seed=1), program(seed=2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.real, other.real)
    counts = np.bincount(first.whole.ravel() + 2, minlength=5)
    assert first.whole.dtype == np.int32 and len(counts) == 5
    assert np.all(abs(counts - 400) < 5 * math.sqrt(400))
    assert first.real.dtype == np.float64 and first.real.min() >= -2 and first.real.max() < 3
    assert abs(first.real.mean() - 0.5) < 5 * 5 / math.sqrt(12 * 2000)
    step = first.given - first.low[:, None]
    assert set(np.unique(step)) == {0, 1}
    assert set(np.unique(first.at[:, 0])) == {0, 1}
    assert set(np.unique(first.at[:, 1])) == set(range(7))


def test_f15_dims_as_values(target: str) -> None:
    text = "x[p, q] = RANDOM(0, 1, FLOAT)\no[c] = DIMS(p, q)[c]\n\nRANK(p) = 2\nRANK(q) = 1"
    same(call(text, numbers(3, 5, 2), target=target), [3, 5, 2])
    text = "x[p, q] = RANDOM(0, 1, FLOAT)\nm[p] = x[p, q] / DIMS(FLAT(q))[c]\n\nRANK(q) = 2"
    x = numbers(3, 5, 2)
    same(call(text, x, target=target), x.mean((1, 2)))


# ------------------------------------------------------------------------ F16 to F21

CALLS = {
    "np.sum(x, axis=RANK(p))": "o[p, r] = x[p, q, r]",
    "np.reshape(x, DIMS(p, FLAT(q, r)))": "o[p, FLAT(q, r)] = x[p, q, r]",
    "np.reshape(x, shape=TENSOR(DIMS(p, q, r)), order=L('C'))": "o[p, q, r] = x[p, q, r]",
    "np.add(np.transpose(x), DIMS(0, q)[1])": "o[r, q, p] = x[p, q, r] + DIMS(q)[c]",
    "np.full(DIMS(p), L(-1.5), dtype=np.float64)": "o[p] = -1.5",
    "np.full(fill_value=TENSOR(RANK(p, q, r)), shape=DIMS(q))": "o[q] = RANK(p, q, r)",
    "np.mean(x, axis=None, keepdims=True)": "o[0, 0, 0] = x[p, q, r] / DIMS(FLAT(p, q, r))[c]",
}


@pytest.mark.parametrize("text", CALLS)
def test_f16_arguments_of_the_call(text: str) -> None:
    statements = f"x[p, q, r] = RANDOM(0, 9, FLOAT)\n{CALLS[text]}"
    program = eintup.parse(f"{statements}\n\n{text}\n\no")
    verification = program.verify(3)
    assert verification.ok, str(verification)


RANKS = {
    ("RANK(a) IN [1, 3]",): [(1, 1), (2, 1), (3, 1)],
    ("RANK(a) = 2", "RANK(b) IN [0, 1]"): [(2, 0), (2, 1)],
    ("RANK(a) IN [0, 2]", "RANK(a) = RANK(b)"): [(0, 0), (1, 1), (2, 2)],
    (): [(1, 1)],
}


def ranks(constraints: Sequence[str], names: str = "ab") -> list[tuple[int, ...]]:
    items = ", ".join(names)
    text = f"x[{items}] = RANDOM(0, 1, FLOAT)\n\n" + "\n".join(constraints)
    program = eintup.parse(text)
    return [tuple(c.ranks[n] for n in names) for c in program.configurations()]


@pytest.mark.parametrize("constraints", RANKS)
def test_f17_ranks_are_enumerated(constraints: tuple[str, ...]) -> None:
    assert ranks(constraints) == RANKS[constraints]


def test_f18_arithmetic_and_comparisons_of_ranks() -> None:
    every = list(itertools.product(range(9), repeat=3))
    assert ranks(["RANK(a, b, c) < 8"], "abc") == [t for t in every if sum(t) < 8]
    found = ranks(["0 < RANK(a) <= RANK(b) < 4", "RANK(c) = RANK(a) + 2 * RANK(b) - 1"], "abc")
    assert found == [(a, b, a + 2 * b - 1) for a, b, c in every if 0 < a <= b < 4 and c == 0]


DIMS = """
x[a, b] = RANDOM(0, 1, FLOAT)

DIMS(a) IN [3, 6]
DIMS(b) = {0}
DIMS(s) IN [1, 3]
RANK(a) IN [1, 2]
"""
EQUATIONS: dict[str, Callable[[int, int, int], int]] = {
    "2 * DIMS(a) - DIMS(s) + RANK(a)": lambda a, s, r: 2 * a - s + r,
    "(DIMS(a) + 1) // DIMS(s)": lambda a, s, r: (a + 1) // s,
    "(DIMS(a) - 2) //^ DIMS(s)": lambda a, s, r: -((2 - a) // s),
    "DIMS(a) % (DIMS(s) + 1)": lambda a, s, r: a % (s + 1),
    "max(DIMS(a) - 4, DIMS(s)) + min(DIMS(s), 2)": lambda a, s, r: max(a - 4, s) + min(s, 2),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_f19_dims_that_are_computed(equation: str) -> None:
    for c in eintup.parse(DIMS.format(equation)).configurations(20):
        a, b, s = (c.dims[name] for name in "abs")
        assert all(3 <= n <= 6 for n in a) and all(1 <= n <= 3 for n in s)
        assert len(a) == len(b) == len(s)
        rule = EQUATIONS[equation]
        assert b == tuple(rule(x, y, len(a)) for x, y in zip(a, s, strict=True))


def test_f20_ranks_are_inferred() -> None:
    program = load("conv_valid_v1")
    for c in program.configurations():
        names = ("ipos", "opos", "fpos", "stride")
        assert len({c.ranks[n] for n in names}) == 1
        assert c.ranks["batch"] == c.ranks["ichan"] == 1  # what nothing speaks of has rank 1
    redundant = "\nRANK(opos) = RANK(ipos)\nRANK(stride) = RANK(fpos)\nRANK(batch) = 1\n"
    again = eintup.parse(program.source + redundant)
    assert list(again.configurations()) == list(program.configurations())


@pytest.mark.parametrize("name", ["scatter_nd", "gather_nd"])
def test_f20_a_rank_that_is_inferred_may_be_said(name: str) -> None:
    program = load(name)
    bare = "\n".join(t for t in program.source.splitlines() if "RANK(coord) = 1" not in t)
    said = eintup.parse(bare.rstrip() + "\nRANK(coord) = 1\n")
    assert list(said.configurations()) == list(eintup.parse(bare).configurations())


def test_f21_constraints_in_any_order() -> None:
    text = load("conv_same_v2").source
    head, _, constraints = text.rpartition("\n\n")
    lines = constraints.split("\n")
    random.Random(0).shuffle(lines)
    shuffled = eintup.parse(head + "\n\n" + "\n".join(lines))
    assert list(shuffled.configurations(3)) == list(eintup.parse(text).configurations(3))


def test_f21_cycles_are_named() -> None:
    text = "x[a, b] = 0\n\nDIMS(a) = DIMS(b) + 1\nDIMS(b) = 2 * DIMS(a)"
    with pytest.raises(ricci.Error) as caught:
        eintup.parse(text)
    assert "`DIMS(a)` -> `DIMS(b)` -> `DIMS(a)`" in str(caught.value)


# ------------------------------------------------------------------------ F22 to F27

WRONG = """
x[a] = RANDOM(0, 9, INT)
o[a] = x[a] {0}

np.negative(np.negative(x))

o

RANK(a) IN [1, 2]
DIMS(a) IN [2, 5]
"""


@pytest.mark.parametrize(("what", "status"), [("", 0), ("+ (x[a] == 8)", 1)])
def test_f22_report(
    what: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.et"
    path.write_text(WRONG.format(what))
    assert command(["verify", str(path), "--reps", "9"]) == status
    shown = capsys.readouterr().out
    header = shown.splitlines()[0].split()
    assert "a" in header and "Valid" in header
    assert shown.count("[True]") + shown.count("[False]") == 18
    assert "seed" in shown and ("False" in shown) == (status == 1)


@pytest.mark.parametrize(
    ("expected", "rtol", "atol", "ok"),
    [
        ("x", 0, 1e-6, True),
        ("np.add(x, L(0.0000009))", 0, 1e-6, True),
        ("np.add(x, L(0.0000011))", 0, 1e-6, False),
        ("np.add(x, L(0.0000011))", 0, 1e-5, True),
        ("np.multiply(x, L(1.001))", 0.01, 0, True),
        ("np.multiply(x, L(1.1))", 0.01, 0, False),
        ("np.expand_dims(x, axis=0)", 1, 1e9, False),
        ("np.add(n, L(0))", 0, 1e-6, True),
        ("np.add(n, L(1))", 0, 1e9, False),
    ],
)
def test_f23_comparison(expected: str, rtol: float, atol: float, ok: bool) -> None:
    text = "x[a] = RANDOM(1, 9, FLOAT)\nn[a] = RANDOM(1, 9, INT)\no[a] = {0}[a]\n\n{1}\n\no"
    call = expected if "(" in expected else f"np.positive({expected})"
    program = eintup.parse(text.format("n" if "(n" in expected else "x", call))
    assert program.verify(2, rtol=rtol, atol=atol).ok is ok


CHECKS = {
    "y[i] = x[i]": ("`x`",),
    "x[i, j] = 0\ny[i] = x[i]": ("`x`", "2", "1"),
    "x[i] = 0\ny[j] = x[i] + z[j]": ("`z`",),
    "x[i, j] = 0\ny[i] = x[i, FLAT(i, j)] + x[j, i]\n\nRANK(i) = 2\nRANK(j) = 2": ("`x`", "`j`"),
    "x[i] = 0\n\nRANK(i) = 2\nRANK(i) = 3": ("2", "3"),
    "x[i] = 0\n\nDIMS(k) = 2": ("`k`",),
}


@pytest.mark.parametrize("text", CHECKS)
def test_f24_checks_name_what_is_wrong(text: str) -> None:
    with pytest.raises(ricci.Error) as caught:
        eintup.parse(text)
    assert all(word in str(caught.value) for word in CHECKS[text])


def test_f25_indices_as_data(target: str) -> None:
    text = "o[p, c] = RANGE[p, c]\n\nRANK(p) = 2"
    found = call(text, target=target, p=[3, 4])
    same(found, np.moveaxis(np.indices((3, 4)), 0, -1))


ZEROS = [((0,), 2, 3, 4), ((2, 0), 2, 3, 4), ((2,), 0, 3, 4), ((2,), 2, 0, 4), ((2,), 2, 3, 0)]


@pytest.mark.parametrize("sizes", ZEROS)
def test_f26_sizes_of_zero(sizes: tuple[tuple[int, ...], int, int, int], target: str) -> None:
    batch, i, k, j = sizes
    a, m = numbers(*batch, i, k), numbers(*batch, k, j)
    same(call(MATMUL.format("a[b, i, k] * m[b, k, j]"), a, m, target=target), a @ m)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 2)])
def test_f26_flatten_and_gather_nothing(shape: tuple[int, ...], target: str) -> None:
    text = "x[b] = RANDOM(0, 1, FLOAT)\no[FLAT(b)] = x[b]\n\nRANK(b) IN [1, 3]"
    same(call(text, np.zeros(shape), target=target), np.zeros(0))
    text = "x[r] = RANDOM(0, 1, FLOAT)\nat[w, c] = RANDOM(0, 1, INT)\no[w] = x[at[w, :]]"
    text += "\n\nRANK(w) IN [1, 3]"
    same(call(text, np.ones(4), np.zeros((*shape, 1), int), target=target), np.zeros(shape))


def test_f27_the_library_has_all_programs_of_the_original() -> None:
    assert {path.stem for path in FOLDER.glob("*.et")} == set(COMBINATIONS)
    assert sum(ORIGINAL.values()) == 371


def test_every_feature_has_tests_that_exist() -> None:
    assert [f.number for f in FEATURES] == list(range(1, 28))
    for feature in FEATURES:
        assert feature.tests
        assert set(feature.tests) <= defined_tests(), feature.title
