"""What is said about wrong shapes: golden texts, and the fixes that they propose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from ricci.diagnostics import Diagnostic, Error
from ricci.frontends.eintup.nearest import nearest
from ricci.frontends.eintup.readings import Reader
from ricci.frontends.eintup.solve import solve

from .constraints import checked
from .test_solve import CONV, GATHER, GROUPS, NOTHING, Given, Shapes

GOLDEN = Path(__file__).parent / "diagnose"

CASES: Mapping[str, tuple[str, Shapes, Given]] = MappingProxyType(
    {
        "two_sizes": (CONV, {"x": (8, 32, 32, 16), "w": (3, 3, 8, 32)}, NOTHING),
        "dimension_missing": (CONV, {"x": (8, 32, 32, 16), "w": (3, 3, 32)}, NOTHING),
        "dimensions_too_many": (CONV, {"x": (2, 9, 9, 9, 9, 9, 3), "w": (3, 3, 3, 4)}, NOTHING),
        "negative": (CONV, {"x": (2, 9, 9, 3), "w": (3, 14, 3, 4)}, {"stride": 1}),
        "fixed_rank": (CONV, {"x": (2, 9, 9, 3), "w": (3, 3, 3, 4)}, {"stride": (1, 1, 1)}),
        "rank_as_size": (GATHER, {"p": (2, 5, 6), "i": (2, 4, 3)}, NOTHING),
        "expression": (GROUPS, {"x": (12, 3), "w": (7, 2)}, NOTHING),
        "ambiguous": (CONV, {"x": (2, 9, 9, 3), "w": (3, 3, 3, 4)}, NOTHING),
    }
)


def diagnosis(text: str, shapes: Shapes, dims: Given = NOTHING) -> Diagnostic:
    with pytest.raises(Error) as raised:
        solve(checked(text), shapes, {}, dims)
    return raised.value.diagnostics[0]


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_golden_one(name: str, update_golden: bool) -> None:
    text = diagnosis(*CASES[name]).render() + "\n"
    golden = GOLDEN / f"{name}.txt"
    if update_golden:
        golden.write_text(text)
    assert golden.read_text() == text


def test_the_fix_says_which_dimension_and_why() -> None:
    found = diagnosis(*CASES["two_sizes"])
    assert (found.code, found.message) == ("E0410", "`chan` is 16 in `x`, but 8 in `w`")
    assert found.help == (
        "give `w` the shape [3, 3, 16, 32]: its third dimension is `chan`, which is 16 in `x`"
    )


@pytest.mark.parametrize("name", [name for name in CASES if name != "ambiguous"])
def test_carets_stand_under_what_a_row_says(name: str) -> None:
    """Each caret is below a size, and the first size of a group below its first character."""
    note = next(n for n in diagnosis(*CASES[name]).notes if n.startswith("received:"))
    rows = note.split("\n")[1:]
    carets = 0
    for place, row in enumerate(rows):
        above = rows[place - 1]
        if "[" in row:
            template = row
        elif "^" in row:
            marks = [k for k, c in enumerate(row) if c == "^"]
            assert all(above[k].isdigit() or above[k] == "?" for k in marks), note
            carets += len(marks)
        else:
            starts = [m.start() for m in re.finditer(r"(?<![^ ])(?<!, )[\d?]", row)]
            assert all(template[k].strip() and template[k - 1] in " [" for k in starts), note
    assert carets


@pytest.mark.parametrize("name", ["two_sizes", "dimension_missing", "rank_as_size", "expression"])
def test_one_edit_away_is_found(name: str) -> None:
    text, shapes, _ = CASES[name]
    proposals = nearest(Reader(checked(text)), shapes)
    edits = {"expression": 2}.get(name, 1)
    assert [item.edits for item in proposals] == [edits] * len(proposals) != []
    for item in proposals:
        assert _is_accepted(text, dict(item.shapes))


def test_the_fewest_edits_are_found_by_trying_all() -> None:
    """Of all changes of single sizes, those that are legal are the ones that are proposed."""
    text = CONV.replace("RANK(pos) IN [1, 3]", "RANK(pos) = 1\nDIMS(pos) = DIMS(out) + 2")
    shapes: Shapes = {"x": (2, 5, 3), "w": (2, 4, 3)}
    legal = [
        edited
        for name, shape in shapes.items()
        for place in range(3)
        for size in range(8)
        for edited in [{**shapes, name: (*shape[:place], size, *shape[place + 1 :])}]
        if _is_accepted(text, edited)
    ]
    proposals = nearest(Reader(checked(text)), shapes)
    assert [dict(item.shapes) for item in proposals] == sorted(
        legal, key=lambda s: s["w"] == shapes["w"]
    ) == [{"x": (2, 5, 3), "w": (2, 3, 3)}, {"x": (2, 5, 4), "w": (2, 4, 3)}]  # fmt: skip


def test_many_arrays_that_disagree_are_answered() -> None:
    names = [f"x{k}" for k in range(12)]
    lines = [f"{name}[a, b, e{k}] = RANDOM(0, 1, FLOAT)" for k, name in enumerate(names)]
    text = "\n".join([*lines, "", "x0", "", "RANK(a) IN [0, 4]", "RANK(b) IN [0, 4]"])
    found = diagnosis(text, {name: (k, k + 1, 4, 5) for k, name in enumerate(names)})
    assert found.code == "E0410"
    assert found.help.startswith("give ")


def _is_accepted(text: str, shapes: Shapes) -> bool:
    try:
        solve(checked(text), shapes)
    except Error as error:
        return error.diagnostics[0].code == "E0403"
    return True
