"""Dims: computed, drawn and tested against plain enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ricci.diagnostics import Error
from ricci.frontends.eintup.dims import broken_dims, compute_dims, computed, draw_dims
from ricci.frontends.eintup.program import Configuration

from .constraints import Line, checked, interval, program_text, random_line, random_term

LIBRARY = sorted((Path(__file__).parents[2] / "examples" / "eintup").glob("*.et"))


@dataclass(frozen=True)
class System:
    """Random constraints on single extents, and what satisfies them: each component by itself."""

    program_text: str
    free: tuple[str, ...]
    legal: frozenset[tuple[int, ...]]
    names: tuple[str, ...]


def random_system(seed: int) -> System:
    """Some extents in intervals, others computed from them, and further relations."""
    rng = Random(seed)
    free = tuple("abc"[: rng.randint(1, 3)])
    bounds = {name: sorted(rng.choices(range(6), k=2)) for name in free}
    lines = [interval("DIMS", name, *bounds[name]) for name in free]
    given = {}
    for name in "pq"[: rng.randint(0, 2)]:
        term = random_term(rng, "DIMS", [*free, *given])
        given[name] = term
        lines.append(Line(f"DIMS({name}) = {term.text}", lambda values: True))
    names = (*free, *given)
    lines += [random_line(rng, "DIMS", names) for _ in range(rng.randint(0, 2))]
    legal = set()
    for each in itertools.product(*(range(low, high + 1) for low, high in bounds.values())):
        values = dict(zip(free, each, strict=True))
        try:
            for name, term in given.items():
                values[name] = term.value(values)
        except ZeroDivisionError:
            continue
        if min(values.values()) >= 0 and all(line.holds(values) for line in lines):
            legal.add(tuple(values.values()))
    rng.shuffle(lines)
    return System(program_text(names, lines), free, frozenset(legal), names)


def components(system: System, configuration: Configuration) -> set[tuple[int, ...]]:
    """The extents of all eintups, for each component."""
    return set(zip(*(configuration.dims[name] for name in system.names), strict=True))


SYSTEMS = [random_system(seed) for seed in range(120)]
LEGAL = [system for system in SYSTEMS if system.legal]


@pytest.mark.parametrize("system", LEGAL, ids=lambda x: str(SYSTEMS.index(x)))
def test_draws_are_legal_and_reach_all(system: System) -> None:
    program = checked(system.program_text)
    ranks = dict.fromkeys(system.names, 1)
    rng = np.random.default_rng(1)
    drawn = set()
    for _ in range(40 * min(len(system.legal), 5)):
        drawn |= components(system, draw_dims(program, ranks, rng))
    assert drawn <= system.legal, system.program_text
    assert len(drawn) >= min(len(system.legal), 4), system.program_text


@pytest.mark.parametrize("system", LEGAL, ids=lambda x: str(SYSTEMS.index(x)))
def test_other_components_are_drawn_for_themselves(system: System) -> None:
    lines = [f"RANK({name}) = 3" for name in system.names]
    program = checked("\n".join([system.program_text, *lines]))
    drawn = draw_dims(program, dict.fromkeys(system.names, 3), np.random.default_rng(2))
    assert components(system, drawn) <= system.legal, system.program_text
    assert broken_dims(program, drawn, intervals=True) is None


@pytest.mark.parametrize("system", LEGAL, ids=lambda x: str(SYSTEMS.index(x)))
def test_broken_dims_and_computed_dims_equal_enumeration(system: System) -> None:
    program = checked(system.program_text)
    ranks = dict.fromkeys(system.names, 1)
    rng = Random(3)
    every = list(itertools.product(range(6), repeat=len(system.names)))
    for each in [*system.legal, *rng.sample(every, min(len(every), 60))]:
        dims = {name: (extent,) for name, extent in zip(system.names, each, strict=True)}
        found = broken_dims(program, Configuration(dims), intervals=True)
        assert (found is None) == (each in system.legal), (system.program_text, each)
        if each in system.legal:
            known = {name: dims[name] for name in system.free}
            assert compute_dims(program, ranks, known) == dims


@pytest.mark.parametrize(
    "system", [x for x in SYSTEMS if not x.legal], ids=lambda x: str(SYSTEMS.index(x))
)
def test_impossible_dims_are_refused(system: System) -> None:
    with pytest.raises(Error) as caught:
        program = checked(system.program_text)
        draw_dims(program, dict.fromkeys(system.names, 1), np.random.default_rng(0))
    assert caught.value.diagnostics[0].code in ("E0405", "E0420"), system.program_text


@pytest.mark.parametrize("path", LIBRARY, ids=lambda p: p.stem)
def test_draws_of_the_library(path: Path) -> None:
    program = checked(path.read_text())
    names = program.eintups
    for ranks in itertools.islice(program.ranks.combinations(), 0, None, 7):
        drawn = draw_dims(program, ranks, np.random.default_rng(5))
        assert drawn.ranks == ranks and tuple(drawn.dims) == names
        assert broken_dims(program, drawn, intervals=True) is None
        assert drawn == draw_dims(program, ranks, np.random.default_rng(5))
        known = {name: drawn.dims[name] for name in names if name not in computed(program)}
        assert compute_dims(program, ranks, known) == drawn.dims


def drawn(lines: str, names: str = "a b", count: int = 200, **options: Any) -> list[Configuration]:
    """Many draws, at the first legal ranks."""
    program = checked(program_text(names.split(), lines.split("\n")))
    ranks = next(program.ranks.combinations())
    rng = np.random.default_rng(7)
    return [draw_dims(program, ranks, rng, **options) for _ in range(count)]


@pytest.mark.parametrize(
    ("lines", "extents"),
    [
        ("", range(1, 9)),
        ("DIMS(a) >= 3", range(3, 11)),
        ("DIMS(a) <= 3", range(1, 4)),
        ("DIMS(a) < 1", range(1)),
        ("DIMS(a) IN [0, 4]", range(5)),
        ("DIMS(a) IN [6, 20]", range(6, 21)),
        ("DIMS(a) = 2 * DIMS(b)\nDIMS(a) IN [40, 50]", range(40, 51, 2)),
        ("DIMS(a) < DIMS(b)\nDIMS(b) IN [2, 5]", range(1, 5)),
        ("DIMS(a) * DIMS(b) = 1001", (7, 11, 13, 77, 91, 143, 1, 1001)),
    ],
)
def test_extents_that_nothing_bounds_have_usual_bounds(lines: str, extents: Sequence[int]) -> None:
    found = {x.dims["a"][0] for x in drawn(lines)}
    assert found <= set(extents)
    assert len(found) >= min(len(extents), 2)


def test_default_bounds_can_be_chosen() -> None:
    found = {x.dims["a"][0] for x in drawn("", default=(4, 6))}
    assert found == {4, 5, 6}


def test_edges_are_likelier() -> None:
    found = [x.dims["a"][0] for x in drawn("DIMS(a) IN [5, 104]")]
    assert found.count(5) > 20 and found.count(104) > 20
    assert len(set(found)) > 50


def test_small_arrays_are_drawn_where_constraints_leave_a_choice() -> None:
    def largest(lines: str, **options: Any) -> int:
        sizes = [prod(x.dims["a"]) for x in drawn(f"RANK(a) = 6\n{lines}", count=20, **options)]
        return max(sizes)

    assert 10**4 < largest("DIMS(a) IN [1, 100]") <= 10**6
    assert largest("DIMS(a) IN [1, 1000000000000]") <= 10**6
    assert largest("DIMS(a) IN [1, 100]", largest=100) <= 100
    assert largest("DIMS(a) IN [20, 30]") == 20**6


def test_known_dims_stay() -> None:
    found = drawn("DIMS(a) = 2 * DIMS(b)\nDIMS(a) IN [1, 10]", known={"b": (5,)}, count=3)
    assert {x.dims["a"] for x in found} == {(10,)}
    with pytest.raises(Error, match=r"`DIMS\(b\)` is \[6\]"):
        drawn("DIMS(a) = 2 * DIMS(b)\nDIMS(a) IN [1, 10]", known={"b": (6,)}, count=1)


@pytest.mark.parametrize(
    ("lines", "known", "expected"),
    [
        ("DIMS(a) = 3 * DIMS(b)", {"a": (12,)}, {"a": (12,), "b": (4,)}),
        ("DIMS(a) = DIMS(b) - 3", {"a": (12,)}, {"a": (12,), "b": (15,)}),
        ("DIMS(a) = DIMS(b) // 2", {"a": (12,)}, {"a": (12,)}),
        ("DIMS(a) = RANK(b)\nRANK(b) = 2", {}, {"a": (2,)}),
        ("DIMS(a) = max(RANK(b), 4)\nDIMS(b) IN [2, 2]", {}, {"a": (4,)}),
        ("DIMS(a, b) = 3", {}, {"a": (3,), "b": (3,)}),
        ("DIMS(b)[1] = DIMS(a)[0]\nRANK(b) = 2", {"b": (4, 5)}, {"a": (5,), "b": (4, 5)}),
        ("DIMS(a) = DIMS(b)\nRANK(b) = 2", {"b": (4, 5)}, {"a": (4, 5), "b": (4, 5)}),
    ],
)
def test_dims_follow_from_known_ones(
    lines: str, known: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]
) -> None:
    program = checked(program_text(["a", "b"], lines.split("\n")))
    ranks = next(program.ranks.combinations())
    assert compute_dims(program, ranks, known) == expected


def test_equalities_that_contradict_known_dims_are_named() -> None:
    program = checked(program_text(["a", "b"], ["DIMS(a) = 3 * DIMS(b)", "DIMS(b) < 9"]))
    with pytest.raises(Error) as caught:
        compute_dims(program, {"a": 1, "b": 1}, {"a": (7,)})
    (found,) = caught.value.diagnostics
    assert found.code == "E0420" and found.span.text == "DIMS(a) = 3 * DIMS(b)"


def test_bounds_by_numbers_alone_can_be_left_out() -> None:
    lines = [
        "0 < DIMS(a) <= DIMS(b)",
        "DIMS(a) IN [1, 3]",
        "DIMS(b) IN [RANK(a), 9]",
        "DIMS(a) < 7",
    ]
    program = checked(program_text(["a", "b"], lines))

    def broken(a: int, b: int, intervals: bool) -> str:
        found = broken_dims(program, Configuration({"a": (a,), "b": (b,)}), intervals)
        return "" if found is None else found.span.text

    assert broken(3, 3, True) == broken(8, 20, False) == broken(0, 1, False) == ""
    known = {"b": (20,)}
    found = draw_dims(program, {"a": 1, "b": 1}, np.random.default_rng(0), known=known)
    assert found.dims["b"] == (20,) and 1 <= found.dims["a"][0] <= 3
    assert broken_dims(program, found, True, known) is None
    with pytest.raises(Error):
        draw_dims(program, {"a": 1, "b": 1}, np.random.default_rng(0), known={"a": (8,), "b": (7,)})
    assert broken(8, 20, True) == lines[1]
    assert broken(5, 4, False) == lines[0]
    assert broken(0, 0, False) == lines[2]


@pytest.mark.parametrize(
    "lines",
    [
        "DIMS(a) * DIMS(a) = 7000000000003",
        "DIMS(a) * DIMS(a) = 2 * DIMS(b) * DIMS(b)\nDIMS(a) IN [1, 1000000]",
        "DIMS(a) < DIMS(b)\nDIMS(b) < DIMS(a)",
        "DIMS(a) % 2 = 1\nDIMS(a) % 4 = 2\nDIMS(a) IN [0, 1000000000]",
        "RANK(a) = 6\nDIMS(a) * DIMS(a) % 4 = 3",
    ],
)
def test_a_hopeless_search_ends(lines: str) -> None:
    with pytest.raises(Error) as caught:
        drawn(lines, count=1)
    assert caught.value.diagnostics[0].code in ("E0420", "E0901")
