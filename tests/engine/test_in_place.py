"""New values in the place of old ones: variables that calls change, and what loops carry."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import ricci
from ricci.dtypes import DType, Types
from ricci.ir.loops import Kernel, Program, Repeat, Stop, all_actions
from ricci.ir.nodes import Port, Tensor
from ricci.ir.shapes import as_int
from ricci.ir.text import format_graph
from ricci.passes import memory
from ricci.passes.memory import Stay
from ricci.passes.pipeline import lower
from ricci.passes.views import copied
from ricci.runtime.executable import compile_graph
from ricci.runtime.signature import with_state

from ..ahead import Failed
from ..ahead import Model as Built
from ..ir.control_programs import random_control
from ..ir.programs import Program as RandomProgram
from ..ir.programs import random_program
from .networks import weigh

HEAD = """
operator store {
    @input { cache: real[n, s]; row: real[s]; at: int[]; }
    @output { filled: real[n, s]; }
    @lower {
        filled[i, j] = cache[i, j], i < n, j < s;
        filled[at[], j] := row[j,], j < s;
    }
}
operator store_each {
    @input { cache: real[n, s]; rows: real[k, s]; at: int[k]; }
    @output { filled: real[n, s]; }
    @lower {
        filled[i, j] = cache[i, j], i < n, j < s;
        filled[at[i,], j] := rows[i, j], i < k, j < s;
    }
}
operator choose {
    @input { cache: real[n, s]; row: real[s]; at: int[]; }
    @output { filled: real[n, s]; }
    @lower { filled[i, j] = i == at[] ? row[j,] : cache[i, j], i < n, j < s; }
}
operator turned {
    @input { cache: real[n, s]; row: real[s]; at: int[]; }
    @output { filled: real[n, s]; }
    @lower { filled[i, j] = cache[n - 1 - i, j] + row[j,] * real(at[]), i < n, j < s; }
}
operator sums {
    @input { x: real[n, s]; }
    @output { y: real[s]; }
    @lower { y[j,] += x[i, j], i < n, j < s; }
}
operator pick {
    @input { x: real[n, s]; at: int[]; }
    @output { y: real[s]; }
    @lower { y[j,] = x[at[], j], j < s; }
}
"""

GRAPH = (
    HEAD
    + """
graph Main {
    @input { row: real[3]; at: int[]; other: int[]; }
    @variable { a: real[4, 3]; b: real[4, 3]; }
    @output { y: real[3]; z: real[3]; }
    @compose { BODY }
    @update { a = new_a; b = new_b; }
}
"""
)

BODIES = {
    "one after the other": "new_a = store(a, row, at); new_b = store(b, row, at);"
    " y = sums(new_a); z = sums(new_b);",
    "tested before": "z = pick(b, other); new_a = store(a, row, other);"
    " new_b = store(b, row, other); y = sums(new_a);",
    "by a choice": "new_a = choose(a, row, at); new_b = choose(b, row, other);"
    " y = sums(new_a); z = sums(new_b);",
    "read, then replaced": "y = sums(a); new_a = store(a, row, at); new_b = store(b, row, at);"
    " z = pick(new_a, at);",
    "of two places": "new_a = store(a, row, at); new_b = store(b, row, other);"
    " y = sums(new_a); z = sums(new_b);",
    "tested after": "new_a = store(a, row, at); new_b = store(b, row, at); y = sums(new_a);"
    " z = pick(new_b, other);",
    "read after": "new_a = store(a, row, at); new_b = store(b, row, at); y = sums(new_a);"
    " z = sums(a);",
    "turned round": "new_a = turned(a, row, at); new_b = store(b, row, at);"
    " y = sums(new_a); z = sums(new_b);",
    "exchanged": "new_a = store(b, row, at); new_b = store(a, row, at);"
    " y = sums(new_a); z = sums(new_b);",
}

IN_PLACE = {"one after the other", "tested before", "by a choice", "read, then replaced"}


def graph_of(body: str) -> ricci.Graph:
    return ricci.parse(GRAPH.replace("BODY", BODIES[body]), "skriptnd").graph


def compiled(model: ricci.Model, **options: Any) -> ricci.Executable:
    run = model.compile(**options)
    for value, name in enumerate("ab", 1):
        run.variables[f"main.Main.{name}"] = np.full((4, 3), value, np.float32)
    return run


def lowered(graph: ricci.Graph) -> Program:
    return lower(with_state(graph), {}, Types(), states=len(graph.updates))


@pytest.mark.parametrize("body", BODIES)
def test_which_variables_are_changed_in_place(body: str) -> None:
    program = lowered(graph_of(body))
    assert program.states == (2 if body in IN_PLACE else 0)
    stops = [n for n, a in enumerate(program.actions) if isinstance(a, Stop)]
    assert len(stops) == (body in IN_PLACE and body != "by a choice")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("threads", [1, 2])
def test_calls_change_variables_or_fail(body: str, threads: int) -> None:
    model = ricci.parse(GRAPH.replace("BODY", BODIES[body]), "skriptnd")
    native, meant = compiled(model, threads=threads), compiled(model, target="interpreter")
    rng = np.random.default_rng(1)
    failed = 0
    for _ in range(40):
        row = rng.random(3, np.float32)
        places = rng.choice(5, 2, p=[0.22, 0.22, 0.22, 0.22, 0.12])
        args = row, np.array(places[0]), np.array(places[1])
        try:
            wanted = list(meant(*args))
        except ricci.Error as e:
            failed += 1
            with pytest.raises(ricci.Error, match="out of range") as found:
                native(*args)
            assert [d.code for d in found.value.diagnostics] == [d.code for d in e.diagnostics]
        else:
            for mine, yours in zip(native(*args), wanted, strict=True):
                np.testing.assert_allclose(mine, yours, 1e-5)
        if rng.random() < 0.5:
            for name, value in meant.variables.items():
                np.testing.assert_allclose(native.variables[name], value, 1e-5, err_msg=name)
    assert bool(failed) == (body != "by a choice")


def test_rows_that_are_stored_together() -> None:
    text = GRAPH.replace("BODY", BODIES["one after the other"])
    text = text.replace("row: real[3]; at: int[]; other: int[];", "rows: real[2, 3]; at: int[2];")
    text = text.replace("store(a, row, at)", "store_each(a, rows, at)")
    text = text.replace("store(b, row, at)", "store_each(b, rows, at)")
    model = ricci.parse(text, "skriptnd")
    assert lowered(model.graph).states == 0  # the first of two rows may be there when one fails
    run = compiled(model)
    with pytest.raises(ricci.Error, match="index 4 is out of range"):
        run(np.zeros((2, 3)), np.array([1, 4]))
    assert run.variables["main.Main.a"].tolist() == [[1.0] * 3] * 4


def test_values_that_were_read_or_given_stay() -> None:
    model = ricci.parse(GRAPH.replace("BODY", BODIES["one after the other"]), "skriptnd")
    run = compiled(model)
    given = np.full((4, 3), 5, np.float32)
    run.variables["main.Main.a"] = given
    row, place = np.zeros(3, np.float32), np.array(1)
    seen = [run.variables["main.Main.a"]]
    for _ in range(3):
        run(row, place, place)
        seen.append(run.variables["main.Main.a"])
        row, place = row + 1, (place + 1) % 4
    assert (given == 5).all()
    assert [float(a.sum()) for a in seen] == [60, 45, 33, 24]
    other = compiled(model)
    other(row, place, place)
    assert run.variables["main.Main.b"].sum() != other.variables["main.Main.b"].sum()
    assert [float(a.sum()) for a in seen] == [60, 45, 33, 24]


def test_a_variable_can_be_read_while_calls_change_it() -> None:
    run = compiled(ricci.parse(GRAPH.replace("BODY", BODIES["one after the other"]), "skriptnd"))

    def call(n: int) -> None:
        run(np.full(3, n, np.float32), np.array(n % 4), np.array(0))

    def look(_: int) -> bool:
        rows = run.variables["main.Main.a"]
        return bool((rows == rows[:, :1]).all())

    with ThreadPoolExecutor(4) as pool:
        calls, looks = pool.map(call, range(200)), pool.map(look, range(200))
        assert all(looks)
        assert len(list(calls)) == 200
    assert np.isin(run.variables["main.Main.a"], np.arange(200)).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_models_without_python_keep_their_variables_in_place(tmp_path: Path, threads: int) -> None:
    model = ricci.parse(GRAPH.replace("BODY", BODIES["tested before"]), "skriptnd")
    for value, name in enumerate("ab", 1):
        model.variables[f"main.Main.{name}"] = np.full((4, 3), value, np.float32)
    meant = model.compile(target="interpreter")
    built = Built(model.build(tmp_path, threads=threads), threads)
    for place, other in ((0, 3), (1, 4), (2, 1), (3, 4)):
        args = np.full(3, place, np.float32), np.array(place), np.array(other)
        if other == 4:
            with pytest.raises(Failed, match="802"):
                built.run(args)
            with pytest.raises(ricci.Error):
                meant(*args)
        else:
            for mine, yours in zip(built.run(args), meant(*args), strict=True):
                np.testing.assert_allclose(cast("Any", mine), yours, 1e-6)
        for name, value in meant.variables.items():
            assert built.get(name, "f4", (4, 3)).tolist() == value.tolist()
    built.destroy()


def test_times_are_taken_of_other_variables() -> None:
    run = compiled(ricci.parse(GRAPH.replace("BODY", BODIES["one after the other"]), "skriptnd"))
    args = np.zeros(3, np.float32), np.array(1), np.array(1)
    run(*args)
    run.profile(*[a + 1 for a in args])
    assert run.variables["main.Main.a"].sum() == 9


LOOP = (
    HEAD
    + """
operator next {
    @input { x: int[]; }
    @output { y: int[]; }
    @lower { y[] = x[] + 1; }
}
graph Main {
    @input { start: real[6, 3]; row: real[3]; first: int[]; n: int[]; }
    @output { filled: real[6, 3]; last: int[]; }
    @compose {
        filled, last = with rows = start, at = first do..(n) {
            changed = BODY;
            following = next(at);
            yield changed, following;
        };
    }
}
"""
)


def copies_of_rows(program: Program) -> int:
    """How many kernels of the loop do nothing but copy all rows."""
    (loop,) = [a for a in program.actions if isinstance(a, Repeat)]
    kernels = [a for a in all_actions(loop.body) if isinstance(a, Kernel)]
    found = [copied(k) for k in kernels]
    return sum(t is not None and len(t.shape) == 2 for t in found)


@pytest.mark.parametrize(("how", "copies"), [("store", 0), ("choose", 0), ("turned", 1)])
def test_loops_keep_what_they_carry_in_its_place(how: str, copies: int) -> None:
    model = ricci.parse(LOOP.replace("BODY", f"{how}(rows, row, at)"), "skriptnd")
    assert copies_of_rows(lowered(model.graph)) == copies
    start = np.random.default_rng(2).random((6, 3), np.float32)
    args = start, np.ones(3, np.float32), np.array(1), np.array(3)
    rows = start.copy()
    for k in range(3):
        if how == "turned":
            rows = rows[::-1] + np.float32(1 + k)
        else:
            rows[1 + k] = 1
    found = model.compile()(*args)
    np.testing.assert_allclose(found.filled, rows, 1e-6)
    assert found.last == 4


def with_variables(program: RandomProgram) -> tuple[ricci.Graph, dict[str, str]]:
    """A random graph, up to two of whose inputs are variables that each call gives a new value of
    the same shape; and the names of these inputs by that of the variable."""
    graph, rng = program.graph, random.Random(program.seed)
    made = [t for step in graph.operations for t in step.outputs]
    updates: list[tuple[Tensor, Tensor]] = []
    ports: list[Port] = []
    for port in graph.inputs:
        fits = [t for t in made if len(port.tensors) == 1 and is_alike(t, port.tensors[0])]
        fits = [t for t in fits if all(t is not new for _, new in updates)]
        if fits and not port.packed and len(updates) < 2:
            updates.append((port.tensors[0], rng.choice(fits)))
            ports.append(port)
    rest = tuple(p for p in graph.inputs if p not in ports)
    variables = (*graph.variables, *(old for old, _ in updates))
    changed = replace(graph, inputs=rest, variables=variables, updates=tuple(updates))
    return changed, {p.tensors[0].name: p.name for p in ports}


def is_alike(a: Tensor, b: Tensor) -> bool:
    extents = [as_int(e) for e in (*a.shape, *b.shape)]
    return a.dtype is b.dtype and None not in extents and extents[: a.rank] == extents[a.rank :]


def outcome(run: ricci.Executable, inputs: Mapping[str, Any]) -> list[Any] | str:
    """The results of a call, items of packs one by one, or the code of its error."""
    try:
        found = run(**inputs)
    except ricci.Error as e:
        return e.diagnostics[0].code
    results = found if isinstance(found, tuple) else [found]
    return [a for r in results for a in (r if isinstance(r, list) else [r])]


def check_calls(program: RandomProgram) -> int:
    """Compare what three calls give and leave behind; how many variables they change in place."""
    graph, names = with_variables(program)
    if not names:
        return 0
    meant = compile_graph(graph, target="interpreter", real="float32")
    native = compile_graph(graph, threads=2)
    inputs = {k: x for k, x in program.inputs.items() if k not in names.values()}
    text = f"seed {program.seed}\n{format_graph(graph)}"
    for run in (meant, native):
        run.variables.update({v: np.asarray(program.inputs[n]) for v, n in names.items()})
    for _ in range(3):
        wanted, found = outcome(meant, inputs), outcome(native, inputs)
        if isinstance(wanted, str) or isinstance(found, str):
            assert found == wanted, text
        else:
            for mine, yours in zip(found, wanted, strict=True):
                np.testing.assert_allclose(mine, yours, 1e-3, 1e-3, err_msg=text)
        for name in names:
            mine, yours = native.variables[name], meant.variables[name]
            np.testing.assert_allclose(mine, yours, 1e-3, 1e-3, err_msg=f"{name}, {text}")
    return lower(with_state(graph), {}, Types(), states=len(names)).states


def test_random_programs_with_variables() -> None:
    placed = [check_calls(random_program(seed, faults=seed % 2 == 0)) for seed in range(40)]
    placed += [check_calls(random_control(seed)) for seed in range(20)]
    assert sum(map(bool, placed)) > 10


BLOCKS = """
import layer, layout, math, nn;
graph main {
    @input { x: real[2, 20, 9, 11]; }
    @output { y: real[2, 20, 9, 11]; }
    @compose {
        o = layer.conv{channels=20, size=3, padding=1}(x); a = nn.relu(o);
        BLOCKS
        y = layer.conv{channels=20, size=1, padding=0}(LAST);
    }
}
"""
SQUARE, POINT = "{channels=20, size=3, padding=1}", "{channels=20, size=1, padding=0}"


def blocks(*lines: str, last: str) -> ricci.Model:
    model = ricci.parse(BLOCKS.replace("BLOCKS", " ".join(lines)).replace("LAST", last))
    weigh(model)
    return model


def images_at_once(model: ricci.Model) -> int:
    """For how many images there is memory between kernels; what is computed is compared."""
    x = np.random.default_rng(3).uniform(0, 1, (2, 20, 9, 11)).astype(np.float32)
    expected = model.compile(target="interpreter", real="float64")(x)
    for threads in (1, 2):
        run = model.compile(threads=threads)
        for _ in range(2):
            np.testing.assert_allclose(run(x), expected, rtol=2e-5)
    return lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64)).arena // (2 * 20 * 9 * 11 * 4)


def test_sums_take_the_place_of_what_is_added_to_them() -> None:
    lines = [
        line.format(n=n, m=n + 1, S=SQUARE, P=POINT)
        for n in range(3)
        for line in (
            "q{n} = layer.conv{S}(c{n}); b{n} = nn.relu(q{n});",
            "d{n} = layer.conv{P}(b{n}); s{n} = math.add(d{n}, c{n}); c{m} = nn.relu(s{n});",
        )
    ]
    assert images_at_once(blocks("c0 = nn.sigmoid(o);", *lines, last="c3")) == 2


def test_what_is_read_later_or_elsewhere_keeps_its_place() -> None:
    later = f"b = layer.conv{SQUARE}(a); c = math.add(b, a); d = layer.conv{SQUARE}(c);"
    assert images_at_once(blocks(later, "e = math.add(d, a);", last="e")) == 2
    neighbours = f"b = layer.conv{SQUARE}(a); c = math.add(b, a);"
    assert images_at_once(blocks(neighbours, last="c")) == 2


def test_places_in_the_arena() -> None:
    rng = random.Random(5)
    for _ in range(60):
        stays = []
        for number in range(rng.randint(0, 30)):
            first = rng.randint(0, 20)
            size = rng.choice([0, 1, 63, 64, 200, 5000])
            tensor = Tensor(f"t{number}", DType.FLOAT32, ())
            stays.append(Stay(tensor, size, first, first + rng.randint(0, 6)))
        offsets, total = memory.place(stays)
        for a, b in itertools.combinations(stays, 2):
            if a.first <= b.last and b.first <= a.last:
                low, high = sorted((a, b), key=lambda s: offsets[s.tensor])
                assert offsets[low.tensor] + low.size + 64 <= offsets[high.tensor]
        ends = [offsets[s.tensor] + s.size for s in stays]
        assert all(at % 64 == 0 for at in offsets.values()) and total >= max(ends, default=0)


def test_places_of_a_network_are_as_few_as_possible() -> None:
    """The small ones are made first, and leave no gap that is large enough for what comes next."""
    sizes = [(3, 0, 1), (1, 1, 4), (1, 2, 3), (1, 3, 4), (3, 4, 6), (1, 4, 5), (3, 6, 7)]
    stays = [
        Stay(Tensor(f"t{n}", DType.FLOAT32, ()), size * 1024 - 64, *span)
        for n, (size, *span) in enumerate(sizes)
    ]
    most = max(sum(s for s, a, b in sizes if a <= t <= b) for t in range(8))
    assert memory.place(stays)[1] == most * 1024
