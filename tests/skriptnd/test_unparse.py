"""Composed graphs as programs again: the text composes to what computes the same.

What a case of the tests of operators and of the specification expects, from other software or by
hand, must come out of the printed program, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from benchmarks.models import SMALL
from ricci.frontends.skriptnd.unparse import unparse_graph
from ricci.ir import nodes, shapes
from ricci.ir.text import parse_graph
from ricci.ir.verify import verify_graph
from ricci.runtime.executable import compile_graph
from ricci.runtime.initialise import draw_weights

from ..operators.execute import scaled_error
from ..operators.families import FAMILIES, Family
from ..spec import all_cases
from ..spec.case import Case
from ..spec.execute import check as check_case
from ..spec.execute import read

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = sorted((ROOT / "tests/programs").glob("*.sknd"))
FOLDERS = sorted(ROOT.glob("examples/*/*.nnef2"))
SECTIONS = sorted({case.section for case in all_cases()})


# ------------------------------------------------------------- programs, called twice


def arguments(graph: nodes.Graph) -> dict[str, Any]:
    """Arguments of a graph, whose open sizes are 2."""
    rng = np.random.default_rng(0)

    def draw(tensor: nodes.Tensor) -> Any:
        sizes = dict.fromkeys(graph.symbols, 2)
        drawn = rng.random([shapes.evaluate(e, sizes) for e in tensor.shape])
        if tensor.dtype.value == "bool":
            return drawn < 0.5
        return (drawn * 3).astype("int64") if tensor.dtype.is_int else drawn

    return {
        p.name: [draw(t) for t in p.tensors] if p.packed else draw(p.tensors[0])
        for p in graph.inputs
        if p.tensors
    }


def run(graph: nodes.Graph, variables: Mapping[str, Any]) -> list[Any]:
    """What two calls give, and the variables after them."""
    found = compile_graph(graph, variables, "interpreter", real="float64")
    given = arguments(graph)
    results = [found(**given), found(**given)]
    flat = [r for call in results for r in _several(call)]
    return [*flat, *(found.variables[n] for n in sorted(variables))]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
            np.testing.assert_allclose(x, y, rtol=1e-9)


@pytest.mark.parametrize("path", [*PROGRAMS, *FOLDERS], ids=lambda p: p.stem)
def test_programs_compute_the_same_again(path: Path) -> None:
    small = {"batch": 2, **SMALL.get(path.stem, {})} if path.suffix == ".nnef2" else {}
    model = ricci.load(path, small) if path.is_dir() else ricci.parse(path.read_text())
    text = unparse_graph(model.graph, model.origin.program)
    again = ricci.parse(text)
    verify_graph(again.graph)
    assert ricci.format(text) == text
    values = {t.name: draw_weights(t, 0) for t in model.graph.variables}
    assert sorted(again.variables) == sorted(values)
    if path.stem != "alexnet":  # which the interpreter takes minutes for
        assert_same(run(again.graph, values), run(model.graph, values))


# ---------------------------------------------------------- operators, specification


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f"{f.operator}-{f.oracle.split()[0]}")
def test_operators_agree_with_their_oracles(family: Family) -> None:
    for number in range(min(family.count, 2)):
        case = family.case(number)
        text = ricci.parse(case.text).show("sknd")
        found = ricci.parse(text).compile(target="interpreter", real="float64")
        for name, value in case.variables.items():
            found.variables[f"main.G.{name}"] = value
        got = found(*case.arrays)
        outputs = [got] if len(found.outputs) == 1 else list(got)
        updated = [found.variables[f"main.G.{name}"] for name in case.updated]
        try:
            scaled_error(case, [*outputs, *updated])
        except Exception as wrong:
            wrong.add_note(text)
            raise


@pytest.mark.parametrize("section", SECTIONS)
def test_cases_of_the_specification_hold(section: str) -> None:
    for case in all_cases():
        if case.section == section and not case.error:
            model = read(case)
            check_printed(case, model.show("sknd"))
            if case.quantize:
                check_printed(replace(case, quantize=False), model.quantized().show("sknd"))


def check_printed(case: Case, text: str) -> None:
    """Run a case with the printed program in place of its own."""
    calls = [replace(call, message="") for call in case.runs]
    modules = {n: m for n, m in case.modules.items() if f"import {n.replace('/', '.')};" in text}
    new = replace(
        case, program=text, calls=calls, modules=modules, attribs={}, types={}, graph=None,
        warnings=(),
    )  # fmt: skip
    try:
        check_case(new, "interpreter")
    except Exception as wrong:
        wrong.add_note(f"{case}\n{text}")
        raise


# ------------------------------------------------------------------- graphs from nowhere


GRAPH = """
graph main.G {
  symbol n <= 6;
  input x = x: real[n, 4];
  input i = i: int[n];
  variable main.G.w: real[4];
  constant c: real[2] = {1.5, -2.5};
  a: real[n + 2, 4], b: real[n] = several(x, c, main.G.w) {
    a[j, k] = x[j, k]  for j < n, k < 4;
    a[n + j, k] = c[j] * main.G.w[k]  for j < 2, k < 4;
    a[j, k] += 0.5  for j < n, k < 2;
    a[j, k] max= x[j, 3 - k]  for j < n, k < 4;
    b[j] = max(a[j, 0], a[j, 1])  for j < n;
  }
  d: real[4] = scattered(x, i) {
    with t = i[j] * 2: d[|t|] += x[j, k]  for j < n, k < 4;
  }
  output a = a;
  output b = b;
  output d = d;
}
"""


def test_operations_with_any_assignments() -> None:
    """More lines of an output than the language allows, and outputs that others are made of."""
    graph = parse_graph(GRAPH)
    text = unparse_graph(graph)
    assert text.count("operator several") == 3, "two for the lines of `a`, one for `b`"
    assert "unroll" in text
    again = ricci.parse(text)
    given = {"x": np.random.default_rng(0).random((3, 4)), "i": np.array([0, 1, 5])}
    values = {"main.G.w": np.arange(4.0)}
    ours, theirs = [
        compile_graph(g, values, "interpreter", real="float64")(**given)
        for g in (again.graph, graph)
    ]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_equal_operations_share_an_operator() -> None:
    text = unparse_graph(ricci.parse((ROOT / "tests/programs/control.sknd").read_text()).graph)
    assert text.count("operator add {") == 1
    assert text.count(" add(") > 5


CHECKED = """
import layout, math;
operator several {
    @input { x: int[m,n]; }
    @output { y: int[m,n]; }
    @assert { n > 1: "there are {n}"; }
    @compose { y = x; }
}
graph G {
    @input { x: real[4]; c: bool[]; }
    @output { y: int[1, ~|4]; }
    @compose { p = layout.nonzero(x); y = BODY; }
}
"""


@pytest.mark.parametrize(
    ("body", "always"), [("several(p)", True), ("if c then several(p) else p", False)]
)
def test_asserts_that_nothing_follows(body: str, always: bool) -> None:
    model = ricci.parse(CHECKED.replace("BODY", body))
    for found in [
        m.compile(target="interpreter") for m in (model, ricci.parse(model.show("sknd")))
    ]:
        with pytest.raises(ricci.Error, match="there are 1"):
            found(np.array([0, 3, 0, 0]), np.array(True))
        if not always:
            np.testing.assert_array_equal(found(np.array([0, 3, 0, 0]), np.array(False)), [[1]])


# ---------------------------------------------------------------------- random numbers

NOISY = """
operator noisy {
    @input { x: real[n]; }
    @output { y: real[n]; z: real[n]; }
    @compose { u = rand.uniform{shape=x.shape}(); y = math.add(x, u); z = math.sub(x, u); }
}
graph Drawn {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { u = l: rand.uniform{shape=[2]}(); y = math.add(x, u); }
}
"""

RANDOM = {
    "": "y = rand.normal{mean=1.0, shape=[2]}();",
    "labels": """
        a = near: rand.bernoulli{prob=0.25, shape=[2]}();
        b = rand.uniform<int>{min=-3, max=9, shape=[2]}();
        y = far: { d = rand.normal{shape=[2]}(); e = layout.cast<real>(b); f = math.select(a, d, e);
            yield f; };""",
    "nobody's": "a, b = noisy(x); u, v = noisy(a); y = math.add(b, v);",
    "shared": "a = if c then Drawn(x) else x; y = if c then x else Drawn(a);",
    "branches": "y = if c then l: rand.uniform{shape=[2]}() else m: rand.normal{shape=[2]}();",
    "loop": """
        y = with s = x do..(n) {
            a = l: rand.uniform{min=real(x.shape[0]), max=5.0, shape=[2]}();
            b = rand.normal{shape=[2]}();
            d = math.mul(a, b); t = math.add(s, d); yield t;
        };""",
    "packs": """
        y, ys = with s = x do..(4) {
            a = rand.uniform{shape=[2]}(); b = rand.uniform{shape=[2]}();
            t, u = noisy(s); v = math.sub(a, b); w = math.add(u, v); yield t, w;
        };""",
}
"""States that have labels, in all places, or none."""


@pytest.mark.parametrize("components", RANDOM.values(), ids=RANDOM.keys())
def test_random_numbers_are_drawn_from_the_same_states(components: str) -> None:
    outputs = "y: real[2];" + " ys: real[2]..(4);" * ("ys" in components)
    inputs = "x: real[2]; n: int[]; c: bool[];"
    graph = f"graph G {{ @input {{ {inputs} }} @output {{ {outputs} }}"
    text = f"import rand, math, layout;\n{NOISY}\n{graph} @compose {{ {components} }} }}"
    model = ricci.parse(text, graph="G")
    again = ricci.parse(model.show("sknd"), graph="G")
    models = [m.compile(target="interpreter") for m in (model, again)]
    for call in range(3):
        given = {"x": np.arange(2.0), "n": np.array(3), "c": np.array(call != 1)}
        assert_same(*([*_several(m(**given))] for m in models))
        ours, theirs = [{k: int(m.variables[k]) for k in sorted(m.variables)} for m in models]
        assert ours == theirs
        assert len(ours) > 0


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


# ------------------------------------------------------------------- optional inputs

OPTIONAL = """
graph G {
    @input { x: real[3]; o: optional real[n|4]; ps: optional real[..m|5]..(2);
        qs: optional real[h|6]..(k|3); b: optional bool[]; d: real[] = 2.5; }
    @output { y: real[3]; z: real[~|9]; us: real[~]..(~|9); c: bool[]; e: real[]; }
    @compose {
        y = x;
        z = if ?o then o else x;
        us = if ?qs then qs elif ?ps then ps else [x];
        c = b ?? true;
        e = d;
    }
}
"""
GIVEN = {
    "x": np.ones(3),
    "o": np.arange(2.0),
    "ps": [np.arange(5.0), np.arange(1.0)],
    "qs": [np.full(2, 7.0)] * 2,
    "b": np.array(False),
    "d": np.array(4.0),
}


@pytest.mark.parametrize("absent", ["", "o", "ps", "qs", "o qs", "b d", "o ps qs b d"])
def test_optional_inputs_are_there_or_not(absent: str) -> None:
    """Callers see the same ports, and what is there cannot be left out when the text is loaded."""
    left_out = dict.fromkeys(absent.split())
    model = ricci.parse(OPTIONAL, attribs=left_out)
    text = model.show("sknd")
    ours, theirs = [
        m.compile(target="interpreter") for m in (ricci.parse(text, attribs=left_out), model)
    ]
    assert ours.inputs == theirs.inputs
    assert [p.name for p in ours.inputs if p.optional] == ["o", "ps", "qs", "b", "d"]
    given = {name: None if name in left_out else value for name, value in GIVEN.items()}
    assert_same([*ours(**given)], [*theirs(**given)])
    for name in left_out:
        for found in (ours, theirs):
            with pytest.raises(ricci.Error, match=f"`{name}` is absent from this graph"):
                found(**{**given, name: GIVEN[name]})
    for name in GIVEN.keys() - left_out.keys() - {"x"}:
        with pytest.raises(ricci.Error, match=f"composed with input `{name}`"):
            ricci.parse(text, attribs={name: None})


# ---------------------------------------------------------------------- quantization

NAMED = """
operator steps { @attrib { n: real; } @input { x: real[s..]; } @output { y: real[s..]; }
    @lower { y[i..] = `round`(n * x[i..]) / n, i < s; } }
operator add { @input { x: real[n]; z: real[n]; } @output { y: real[n]; }
    @lower { y[i,] = x[i,] + z[i,], i < n; } }
public operator inner { @input { x: real[n]; } @output { y: real[n]; } @variable { w: real[n]; }
    @compose { t = add(x, w); y = add(t, x); } @update { w = t; } @quantize { t: steps{n=3.0}; } }
graph G { @input { x: real[4]; xs: real[4]..(2); o: optional real[4]; }
    @output { y: real[4]; z: real[4]; }
    @compose { a = add(x, xs[1]); b = l: inner(a); y = add(a, b);
        z = with s = o ?? y do..(2) m: inner(s); }
    @quantize { x: steps{n=8.0}; xs: steps{n=4.0}; o: steps{n=5.0}; a: steps{n=6.0}; ENTRIES } }
"""
ENTRIES = "y: steps{n=2.0}; l.w: steps{n=9.0}; l.x: steps{n=11.0}; m.x: steps{n=7.0};"


@pytest.mark.parametrize("absent", ["", "o"])
def test_quantizers_are_those_of_the_graph(absent: str) -> None:
    """Tensors in public operators become tensors of the graph, or of blocks in loops."""
    given = dict.fromkeys(absent.split())
    model = ricci.parse(NAMED.replace("ENTRIES", ENTRIES), attribs=given)
    again = ricci.parse(model.show("sknd"))
    known = {"x", "xs:1", "xs:2", "o", "a", "y", "l.w"} - given.keys()
    inner = {"l.x": "l_x", "l.t": "l_t", "m.x": "block.m_x", "m.t": "block.m_t"}
    names = {f"main.G.{n}": f"main.G.{n}" for n in known}
    names |= {f"main.G.{a}": f"main.G.{b}" for a, b in inner.items()}
    assert {names[n]: q for n, q in model.quantization.items()} == again.quantization
    values = {t.name: draw_weights(t, 0) for t in model.graph.variables}
    ours, theirs = [run(m.quantized().graph, values) for m in (again, model)]
    assert_same(ours, theirs)
    assert not np.allclose(ours[0], run(model.graph, values)[0])
    assert again.quantized().graph.quantization == (), "so that no text quantizes twice"


# ------------------------------------------------------------------------ saving, showing

STATE = """
# Keeps a sum.
operator keep {
    @dtype { T: num = real; }
    @attrib { by: optional real; }
    @input { x: real[n]; }
    @output { y: real[n]; }
    @variable { sum: real[n]; }
    @compose { y = add(x, sum); }
    @update { sum = y; }
}
operator add {
    @input { x: real[n]; z: real[n]; }
    @output { y: real[n]; }
    @lower { y[i,] = x[i,] + z[i,], i < n; }
}
graph First {
    @input { x: real[2]; }
    @output { y: real[2]; }
    @compose { y = add(x, x); }
}
# The second one.
graph Second {
    @dtype { T: num = real; }
    @attrib { n: int = 2; extra: optional real; }
    @input { x: real[n]; t: T[n]; }
    @output { y: real[n]; u: T[n]; }
    @compose {
        a = near: keep(x);
        y = if ?extra then far: keep(a) else add(a, x);
        u = t;
    }
}
"""


@pytest.mark.parametrize("composed", [False, True])
def test_a_saved_model_goes_on_where_it_was(composed: bool, tmp_path: Path) -> None:
    """Values of attributes and types, the graph that was chosen, and updated variables."""
    extra = {"extra": 1.0} if composed else {}
    attribs, types = {"n": 3, **extra}, {"T": "int"}
    model = ricci.parse(STATE, attribs=attribs, graph="Second", types=types)
    for name in model.variables:
        model.variables[name] = np.zeros(3)
    given = {"x": np.arange(3.0), "t": np.arange(3)}
    found = model.compile(target="interpreter")
    found(**given)
    model.save(tmp_path, found.variables, composed=composed)
    loaded = ricci.load(tmp_path)
    assert [*loaded.variables] == [*model.variables]
    again = loaded.compile(target="interpreter")
    for a, b in zip(again(**given), found(**given), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    text = (tmp_path / "main.sknd").read_text()
    assert ("# The second one.\ngraph Second" in text) is not composed


def test_what_the_text_has_no_place_for_can_be_saved_composed(tmp_path: Path) -> None:
    model = ricci.parse(STATE, attribs={"extra": 1.0}, graph="Second")
    for name in model.variables:
        model.variables[name] = np.zeros(2)
    with pytest.raises(ricci.Error, match="composed=True"):
        model.save(tmp_path)
    model.save(tmp_path, composed=True)
    assert sorted(ricci.load(tmp_path).variables) == ["main.Second.far.sum", "main.Second.near.sum"]


def test_stages_of_text() -> None:
    model = ricci.parse(STATE)
    assert model.show("syntax") == ricci.format(STATE)
    assert ricci.parse(model.show("sknd")).show("sknd") == model.show("sknd")
