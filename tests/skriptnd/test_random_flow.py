"""Random programs of nested branches and loops, against the same program in Python.

Every piece of text is written together with a function that does the same. Values are vectors of
any length, integers, bools, and packs of vectors, so sizes and lengths are decided by the data.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ricci

from ..spec.flows import OPERATORS

Values = dict[str, Any]
Function = Callable[[Values], Any]
Names = dict[str, list[str]]
"""The names of each kind that can be used: `V`ectors, `I`ntegers, `B`ools, `P`acks."""

MORE = """
operator shift { @input { x: real[n]; f: real[]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] * 0.5 + f[], i < n; } }
operator first { @input { x: real[n]; } @output { y: real[1]; } @lower { y[i,] = x[i,], i < 1; } }
operator double { @input { x: real[n]; } @output { y: real[2 * n]; }
    @lower { y[i,] = x[i % n,], i < 2 * n; } }
operator summed { @input { xs: real[..n]..(k); } @output { y: real[1]; }
    @lower { y[i,] = 0.0, i < 1; y[0,] += xs[j][i,], j < k, i < n[j]; } }
operator wrap { @input { i: int[]; } @output { j: int[]; } @lower { j[] = (i[] + 1) % 4; } }
operator clip { @input { i: int[]; } @output { j: int[]; } @lower { j[] = i[] << 3; } }
"""


class Writer:
    """Writes programs of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def block(self, names: Names, depth: int, wanted: str) -> tuple[str, list[str], Function]:
        """Lines, the names of the results of the kinds wanted, and what computes them."""
        names = {kind: list(known) for kind, known in names.items()}
        lines, steps = [], []
        for _ in range(self.random.randint(1, 3)):
            kind = self.random.choice("VVVIBP")
            text, function = self.action(names, depth, kind)
            name = self.new()
            lines.append(f"{name} = {text};")
            steps.append((name, function))
            names[kind].append(name)
        results = [self.random.choice(names[kind]) for kind in wanted]

        def run(values: Values) -> list[Any]:
            values = dict(values)
            for name, function in steps:
                values[name] = function(values)
            return [values[r] for r in results]

        return "\n".join(lines), results, run

    def part(self, names: Names, depth: int, kind: str) -> tuple[str, Function]:
        lines, (result,), run = self.block(names, depth, kind)
        return f"{{ {lines} yield {result}; }}", lambda values: run(values)[0]

    def action(self, names: Names, depth: int, kind: str) -> tuple[str, Function]:
        if depth == 0 or self.random.random() < 0.4:
            return self.simple(names, kind)
        forms = [self.branch, self.scan if kind == "P" else self.fold]
        return self.random.choice(forms)(names, depth - 1, kind)

    # --------------------------------------------------------------- control flow

    def branch(self, names: Names, depth: int, kind: str) -> tuple[str, Function]:
        condition = self.random.choice(names["B"])
        a, then = self.part(names, depth, kind)
        b, other = self.part(names, depth, kind)
        text = f"if {condition} then {a} else {b}"
        return text, lambda values: then(values) if values[condition] else other(values)

    def scan(self, names: Names, depth: int, kind: str) -> tuple[str, Function]:
        """A pack from each item of another, as long as it lasts, or a condition holds."""
        pack, limit = self.random.choice(names["P"]), self.random.choice(names["I"])
        item, index = self.new(), self.new()
        inner = {**names, "V": [*names["V"], item], "I": [*names["I"], index]}
        text, body = self.part(inner, depth, "V")
        ends = self.random.random() < 0.5
        condition = f" while less({index}, {limit})" if ends else ""

        def run(values: Values) -> list[Any]:
            items = values[pack][: values[limit]] if ends else values[pack]
            return [body({**values, item: v, index: i}) for i, v in enumerate(items)]

        return f"for {item} : {pack}{condition} do..({index} ->) {text}", run

    def fold(self, names: Names, depth: int, kind: str) -> tuple[str, Function]:
        """A loop variable through the items of a pack, or so many times as an integer says."""
        start, variable, item = self.random.choice(names[kind]), self.new(), self.new()
        scans = self.random.random() < 0.5
        source = self.random.choice(names["P" if scans else "I"])
        own = "V" if scans else "I"
        inner = {**names, own: [*names[own], item]}
        inner[kind] = [*inner[kind], variable]
        text, body = self.step(inner, depth, kind, variable)
        head = f"for {item} : {source} do" if scans else f"do..({item} -> {source})"

        def run(values: Values) -> Any:
            state = values[start]
            for each in values[source] if scans else range(values[source]):
                state = body({**values, variable: state, item: each})
            return state

        return f"with {variable} = {start} {head} {text}", run

    def step(self, names: Names, depth: int, kind: str, variable: str) -> tuple[str, Function]:
        """The body of a fold; a vector must keep its length."""
        if kind != "V":
            return self.part(names, depth, kind)
        lines, (number,), run = self.block(names, depth, "I")
        a, b = self.new(), self.new()
        text = f"{lines} {a} = to_real({number}); {b} = shift({variable}, {a});"
        return f"{{ {text} yield {b}; }}", lambda v: v[variable] * 0.5 + run(v)[0]

    # --------------------------------------------------------------------- leaves

    def simple(self, names: Names, kind: str) -> tuple[str, Function]:
        return self.random.choice(list(self.leaves(names, kind)))

    def leaves(self, names: Names, kind: str) -> Iterator[tuple[str, Function]]:
        v, w, i, j, p = [self.random.choice(names[kind]) for kind in "VVIIP"]
        if kind == "V":
            yield f"double({v})", lambda values: np.tile(values[v], 2)
            yield f"first({v})", lambda values: values[v][:1]
            yield f"shift({v}, 1.5)", lambda values: values[v] * 0.5 + 1.5
            yield f"summed({p})", lambda values: np.array([sum(map(np.sum, values[p]), 0.0)])
        elif kind == "I":
            yield f"wrap({i})", lambda values: (values[i] + 1) % 4
            yield f"clip({i})", lambda values: min(values[i], 3)
            yield f"{p}.size", lambda values: len(values[p])
        elif kind == "B":
            yield f"less({i}, {j})", lambda values: values[i] < values[j]
            yield f"even({i})", lambda values: values[i] % 2 == 0
        else:
            yield f"[{v}, {w}]", lambda values: [values[v], values[w]]
            yield f"{p}[1:]", lambda values: values[p][1:]
            yield f"{p}[:2]", lambda values: values[p][:2]


X, Z = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 5.0])


def _equal(got: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(_equal, got, expected))
    return np.shape(got) == np.shape(expected) and bool(np.allclose(got, expected))


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("seed", range(12))
def test_random_flow(seed: int, target: str) -> None:
    names = {"V": ["x", "z"], "I": ["n", "m"], "B": ["c"], "P": ["ps"]}
    lines, results, run = Writer(seed).block(names, 3, "VIBP")
    outputs = "".join(f"y{k} = {name};" for k, name in enumerate(results))
    text = f"""{OPERATORS} {MORE}
    graph G {{ @input {{ x: real[3]; z: real[2]; n: int[]; m: int[]; c: bool[]; }}
        @output {{ y0: real; y1: int; y2: bool; y3: real[~]..; }}
        @compose {{ ps = [x, z, x]; {lines} {outputs} }} }}"""
    model = ricci.parse(text).compile(target=target, real="float64")
    for n, m, c in ((2, 3, True), (0, 1, False), (3, 0, True)):
        values = {"x": X, "z": Z, "n": n, "m": m, "c": c, "ps": [X, Z, X]}
        got, expected = model(X, Z, n, m, c), run(values)
        assert all(map(_equal, got, expected)), f"{n}, {m}, {c}: {got}, not {expected}\n{text}"
