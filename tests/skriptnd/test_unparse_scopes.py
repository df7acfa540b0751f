"""Variables in scopes, wherever they are updated: the printed program updates them alike.

What is expected follows from the program as it was written, which other tests compare with NumPy.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.ir import nodes, rewrite, shapes
from ricci.ir.text import format_graph

OPERATORS = """
import math, rand;
operator total {
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { sum: real[n]; }
    @compose { t = math.mul(sum, 0.5); y = math.add(x, t); }
    @update { sum = y; }
}
operator several {
    @input { x: real[2]; }
    @output { y: real[2]; z: real[2]; }
    @variable { held: real[2]..(2); kept: real[..ks]..(2); count: int[]; odd: bool[]; }
    @using { ks = [1, 3]; }
    @compose { a = deep: total(x); y = math.add(a, held[0]); z = math.sub(a, held[1]); }
    @update {
        held = [held[1], y]; k = math.mul(kept[1], 0.5); kept = [kept[0], k];
        count = math.add(count, 1); odd = math.not(odd);
    }
}
operator noisy {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { state: int[]; }
    @compose { u = rand.draw<real>{min=0.0, max=1.0, shape=[2]}(state); y = math.add(x, u); }
    @update { state = rand.next(state); }
}
operator less {
    @input { x: real[2]; }
    @output { y: bool[]; }
    @lower { y[] = x[0,] < 20.0; }
}
graph H {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { h: real[2]; }
    @compose { a = inner: total(x); y = math.add(a, h); }
    @update { h = math.mul(y, 0.25); }
}
graph K {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { k: real[2]; }
    @compose { y = math.add(x, k); }
    @update { k = math.mul(y, 0.5); }
}
"""

BODIES = {
    "one after the other": "y = with s = x do..(3) { a = l: total(s); t = m: total(a); yield t; };",
    "labels of results": "y = with s = x do..(n) { a = total(s); b = total(a); yield b; };",
    "nested": """y = with s = x do..(2) {
        a = l: total(s);
        b = with r = a do..(n) { d = m: total(r); e = l2: total(d); yield e; };
        f = o: total(b);
        yield f;
    };""",
    "while": """y = with s = x while less(s) do..(5) {
        a = l: total(s); b = math.add(a, 1.0); t = m: total(b); yield t; };""",
    "after": """y = with s = x do..(5) {
        a = l: total(s); b = math.add(a, 1.0); t = m: total(b); yield t; } while less(s);""",
    "scan": """y, ts = with s = x for i : [x, z, x] do k: {
        a = l: total(i); b = math.add(a, s); t = m: total(b); yield t, a; };
        far = o: total(ts[1]);""",
    "branches": """y = with s = x for i : [x, z, x] do {
        a = if less(s) then l: total(i) else { q = m: total(s); yield q; };
        b = if c then { r = o: total(a); yield r; } else p: total(s);
        yield b; };""",
    "unrolled": "y = with s = x unroll..(3) { a = l: total(s); t = m: total(a); yield t; };",
    "shared": """a = if c then H(x) else K(z); b = if c then K(a) else H(a);
        d = if less(b) then H(b) else x;
        y = with s = d do..(2) { e = if c then K(s) else H(s); yield e; };""",
    "packs": """y = with s = x do..(3) {
        a, b = l: several(s); e, f = m: several(b); t = math.add(e, a); yield t; };""",
    "random": """y = with s = x do..(3) {
        a = l: noisy(s); b = m: total(a); d = o: noisy(b); yield d; };""",
    "states and counters": "y = if c then l: noisy(x) else { u, v = k: several(x); yield v; };",
    "one label": "y = if c then l: noisy(x) else l: reset(z);",
    "constants": "t = l: reset(x); y = t: reset(t);",
    "own": "a = with s = g do..(2) { t = l: total(s); yield t; }; y = math.add(a, g);",
}

RESET = """operator reset {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @variable { a: real[]; b: bool[]; i: int[]; w: real[2]; }
    @compose { y = math.add(x, a); }
    @update { a = -1.5; b = true; i = 3; w = x; }
}
"""


def program(body: str) -> str:
    own = "@variable { g: real[2]; step: int[]; }" if "= g" in body else ""
    update = "@update { g = y; step = math.add(step, 1); }" if own else ""
    return f"""{OPERATORS}{RESET}graph G {{
    @input {{ x: real[2]; z: real[2]; c: bool[]; n: int[]; }}
    @output {{ y: real[2]; }}
    {own}
    @compose {{ {body} }}
    {update}
}}
"""


def calls(model: ricci.Model) -> list[Any]:
    """What three calls give, and the variables after each."""
    found = model.compile(target="interpreter", real="float64")
    rng = np.random.default_rng(0)
    for tensor in sorted(model.graph.variables, key=lambda t: t.name):
        if tensor.data is None:
            shape = [shapes.evaluate(e, {}) for e in tensor.shape]
            dtype = {"real": "float64", "int": "int64", "bool": "bool"}[tensor.dtype.value]
            found.variables[tensor.name] = rng.integers(0, 2, shape).astype(dtype)
    results = []
    for call in range(3):
        given = {"x": np.arange(2.0) + call, "z": np.array([0.5, -1.0]), "c": np.array(call != 1)}
        results.append(found(**given, n=np.array(call)))
        results += [np.array(found.variables[name]) for name in sorted(found.variables)]
    return results


def assert_same(text: str) -> None:
    """The printed program has the same variables, operations and results."""
    model = ricci.parse(text, graph="G")
    printed = model.show("sknd")
    again = ricci.parse(printed)
    ours, theirs = (
        {t.name: (t.dtype, t.data, t.rank) for t in m.graph.variables} for m in (again, model)
    )
    assert ours == theirs, printed
    counts = [len([*rewrite.all_steps(m.graph.operations)]) for m in (again, model)]
    loops = [s for s in rewrite.all_steps(model.graph.operations) if isinstance(s, nodes.Loop)]
    assert counts[0] <= counts[1] + len(loops), "nothing but counts of loops is computed twice"
    for a, b in zip(calls(again), calls(model), strict=True):
        np.testing.assert_array_equal(a, b, printed)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_variables_are_updated_as_before(body: str) -> None:
    assert_same(program(body))


def test_values_are_found_again(tmp_path: Path) -> None:
    """Files of variables that depend on each other from step to step keep their names."""
    model = ricci.parse(program(BODIES["one after the other"]), graph="G")
    for number, name in enumerate(sorted(model.variables)):
        model.variables[name] = np.full(2, number + 1.0)
    model.save(tmp_path, composed=True)
    assert {p.name for p in tmp_path.glob("*.dat")} == {"main.G.y.l.sum.dat", "main.G.y.m.sum.dat"}
    given = {"x": np.arange(2.0), "z": np.zeros(2), "c": np.array(True), "n": np.array(0)}
    ours, theirs = (m.compile(target="interpreter")(**given) for m in (ricci.load(tmp_path), model))
    np.testing.assert_array_equal(ours, theirs)


def test_shapes_of_variables() -> None:
    """Of the sizes of an input, or of another one for each item of a pack."""
    text = (
        OPERATORS
        + """graph G {
        @input { x: real[4]; z: real[2]; }
        @output { y: real[4]; }
        @variable { w: real[4]; ws: real[..ks]..(2); }
        @using { ks = [5, 2]; }
        @compose { t = l: total(x); u, v = m: several(z); y = math.add(t, w); }
        @update { w = t; }
    }
    """
    )
    model = ricci.parse(text, graph="G")
    again = ricci.parse(model.show("sknd"))
    lines = [format_graph(m.graph).splitlines() for m in (again, model)]
    ours, theirs = ([x for x in ls if x.startswith(("  variable", "  update"))] for ls in lines)
    assert {x.partition(" = ")[0] for x in ours} == {x.partition(" = ")[0] for x in theirs}
    assert "  variable main.G.l.sum: real[4];" in ours


# ---------------------------------------------------------------------- random programs


LOOPS = [
    ("do..(2)", ""),
    ("do..(n)", ""),
    ("unroll..(2)", ""),
    ("for i : PACK do", ""),
    ("while less(NAME) do..(3)", ""),
    ("do..(3)", " while less(NAME)"),
]


class Writer:
    """Random components; every value is `real[2]`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.left = 12

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def lines(self, known: list[str], depth: int) -> str:
        """Components; the names that they give values to are `known` then."""
        lines = []
        for _ in range(self.random.randint(1, 3)):
            name = self.new("t")
            lines.append(f"{name} = {self.action(known, depth)};")
            known.append(name)
        return " ".join(lines)

    def action(self, known: list[str], depth: int) -> str:
        self.left -= 1
        draw = self.random
        x, kind = draw.choice(known), draw.random()
        if depth == 0 or self.left < 0 or kind < 0.3:
            return self.call(known)
        if kind < 0.6:
            name = self.new("s")
            inside = [*known, name]
            before, after = draw.choice(LOOPS)
            before = before.replace("NAME", name).replace("PACK", f"[{x}, z]")
            after = after.replace("NAME", name)
            return f"with {name} = {x} {before} {self.part(inside, depth - 1)}{after}"
        test = draw.choice(["c", f"less({draw.choice(known)})"])
        sides = [self.part(known, depth - 1) for _ in range(2)]
        return f"if {test} then {sides[0]} else {sides[1]}"

    def part(self, known: list[str], depth: int) -> str:
        if self.random.random() < 0.15:
            return f"{self.random.choice('HK')}({self.random.choice(known)})"
        inside = [*known]
        return f"{{ {self.lines(inside, depth)} yield {inside[-1]}; }}"

    def call(self, known: list[str]) -> str:
        x, z = self.random.choice(known), self.random.choice(known)
        if self.random.random() < 0.3:
            return f"math.sub({x}, {z})"
        operator = self.random.choice(["total", "total", "noisy", "reset"])
        return f"{self.new('l')}: {operator}({x})"


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_are_printed_with_the_same_meaning(seed: int) -> None:
    writer = Writer(seed)
    known = ["x", "z"]
    body = " ".join(writer.lines(known, 3) for _ in range(2))
    assert_same(program(f"{body} y = math.add({known[-1]}, x);"))
