"""Updates of formulas over packs happen in the order of the loops, however these are lowered."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import numpy as np
import pytest

import ricci
from ricci.ir import nodes

from ..compare import TARGETS

EXTENTS = {"i": 3, "j": 3, "k": 2, "l": 2}
"""Of the dimensions; the packs have two items."""


def build(lower: str) -> ricci.Model:
    return ricci.parse(f"""
        operator f {{
            @input {{ xs: int[3, 3]..(2); }}
            @output {{ ys: int[3, 3]..(2); }}
            @lower {{ ys[a][b, c] = 0, a < 2, b < 3, c < 3; {lower} }}
        }}
        graph G {{
            @input {{ xs: int[3, 3]..(2); }}
            @output {{ ys: int[~, ~]..(2); }}
            @compose {{ ys..(2) = f(xs); }}
        }}""")


def items(rng: random.Random) -> str:
    return rng.choice(["k", "l", "0", "1 - k", "1 - l", "l"])


def places(rng: random.Random) -> str:
    return rng.choice(["i", "j", "k", "l", "2 - i", "1 - k", "1", "l + k"])


def access(rng: random.Random, pack: str) -> str:
    return f"{pack}[{items(rng)}][{places(rng)}, {places(rng)}]"


class Line:
    """A random update; all of its parts mean the same to Python."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.target = (items(rng), places(rng), places(rng))
        reads = [access(rng, "xs"), access(rng, rng.choice(["xs", "ys"]))]
        self.value = f"{' * 3 + '.join(reads)} + i * 100 + j * 1000 + k * 10000 + l * 7"
        self.condition = f"{access(rng, 'ys')} <= {access(rng, 'xs')}" if seed % 2 else "0 == 0"
        self.order = rng.sample(sorted(EXTENTS), 4)

    @property
    def text(self) -> str:
        item, *at = self.target
        bounds = ", ".join(f"{name} < {EXTENTS[name]}" for name in self.order)
        return f"ys[{item}][{', '.join(at)}] := {self.value}, {bounds} | {self.condition};"

    def expected(self, xs: np.ndarray) -> np.ndarray:
        ys = np.zeros_like(xs)
        for point in itertools.product(*(range(EXTENTS[name]) for name in self.order)):
            names: Mapping[str, object] = {**dict(zip(self.order, point, strict=True)), "xs": xs}
            names = {**names, "ys": ys}
            if evaluate(self.condition, names):
                ys[tuple(evaluate(part, names) for part in self.target)] = evaluate(
                    self.value, names
                )
        return ys


def evaluate(text: str, names: Mapping[str, object]) -> int:
    return int(eval(text.replace("][", ", "), {}, dict(names)))


@pytest.mark.parametrize("seed", range(24))
def test_updates_happen_in_order(seed: int) -> None:
    line = Line(seed)
    xs = np.random.default_rng(seed).integers(0, 30000, (2, 3, 3))
    model = build(line.text)
    for target in TARGETS:
        found = model.compile(target, 1)(xs=list(xs))
        np.testing.assert_array_equal(np.stack(found), line.expected(xs), line.text)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("ys[k][i, j] := xs[k][i, j], i < 3, j < 3, k < 2;", 2),
        ("ys[k][i, j] := ys[k][j, i] + xs[l][i, j], i < 3, j < 3, k < 2, l < 2;", 2),
        ("ys[0][j, j] := xs[k][i, j], i < 3, k < 2, j < 3;", 1),
        ("ys[0][i, 0] := xs[k][i, j], i < 3, k < 2, j < 3;", 2),
        ("ys[k][j, j] := ys[1 - k][j, i], i < 3, k < 2, j < 3;", 6),
    ],
    ids=["items", "items and choice", "choice", "own dimension", "all"],
)
def test_loops_are_written_out_only_if_need_be(line: str, lines: int) -> None:
    (operation,) = build(line).graph.operations
    assert isinstance(operation, nodes.Operation)
    assert sum(a.op == "update" for a in operation.body) == lines


def test_an_unrolled_line_of_many_steps_is_a_loop() -> None:
    line = "unroll..(n -> 1000) ys[0][n % 3, j] := xs[1][j, n % 2] * n, j < 3;"
    model = build(line)
    (operation,) = model.graph.operations
    assert isinstance(operation, nodes.Operation)
    assert sum(a.op == "update" for a in operation.body) == 1
    xs = np.arange(18).reshape(2, 3, 3)
    for target in TARGETS:
        found = model.compile(target, 1)(xs=list(xs))[0]
        rows = [xs[1, :, n % 2] * n for n in (999, 997, 998)]
        np.testing.assert_array_equal(found, rows)
