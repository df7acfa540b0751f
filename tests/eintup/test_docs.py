"""What `docs/einsum-tuple.md` shows is what happens."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ricci
from ricci.cli import main
from ricci.frontends.eintup.typing import FUNCTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "einsum-tuple.md").read_text("utf-8")


def _rows(header: str) -> list[tuple[str, ...]]:
    """The cells of all tables with a header, without quotes."""
    table = rf"^\| {re.escape(header)} \|\n\|[-|]*\n((?:\|.*\n)+)"
    lines = "".join(re.findall(table, PAGE, re.MULTILINE)).splitlines()
    return [tuple(c.strip().strip("`") for c in line.strip("|").split(" | ")) for line in lines]


RUNS = _rows("given | statements | result")
BOUNDS = [(example, dims) for *_, example, dims in _rows("index | dims | example | its dims")]
VALUES = _rows("value | result | type")
RANKS = _rows("constraints | combinations of ranks")
REJECTED = _rows("program | code | what is wrong")


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(("given", "statements", "result"), RUNS, ids=[r[1] for r in RUNS])
def test_statements_do_what_is_said(given: str, statements: str, result: str, target: str) -> None:
    """`a[i, k] = [[1, 2], [3, 4]]` is an input with its value, `DIMS(d) = 4` a constraint."""
    inputs, values, constraints = [], {}, []
    for part in given.split("`, `"):
        array = re.fullmatch(r"((\w+)\[.*?\]) = (\[.*\])", part)
        if array:
            inputs.append(f"{array[1]} = RANDOM(0, 9, INT)")
            values[array[2]] = np.array(ast.literal_eval(array[3]), np.int32)
        elif part:
            constraints.append(part)
    lines = [*inputs, *statements.split("; "), "", *constraints]
    program = ricci.eintup.parse("\n".join(lines), target=target)
    assert program(**values).tolist() == ast.literal_eval(result)


@pytest.mark.parametrize(("index", "dims"), BOUNDS, ids=[index for index, _ in BOUNDS])
def test_index_expressions_have_their_dims(index: str, dims: str) -> None:
    statements = f"all[e, f, s] = 0\nA[{index}] = 1"
    program = ricci.eintup.parse(f"{statements}\n\nDIMS(e) = 5\nDIMS(f) = 4\nDIMS(s) = 2")
    assert list(program().shape) == ast.literal_eval(dims)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_values_are_what_is_said(target: str) -> None:
    lines = [f"O{k}[z] = {text}" for k, (text, _, _) in enumerate(VALUES)]
    names = ", ".join(f"O{k}" for k in range(len(VALUES)))
    text = "\n".join([*lines, "", names, "", "RANK(z) = 0"])
    found = [(str(r.item()), str(r.dtype)) for r in ricci.eintup.parse(text, target=target)()]
    assert found == [(value, dtype) for _, value, dtype in VALUES]


@pytest.mark.parametrize(("constraints", "count"), RANKS, ids=[r[0] or "none" for r in RANKS])
def test_ranks_are_enumerated(constraints: str, count: str) -> None:
    lines = ["X[a, b, c] = 1", "", *constraints.split("; ")]
    assert len(list(ricci.eintup.parse("\n".join(lines)).configurations())) == int(count)


@pytest.mark.parametrize(("program", "code", "what"), REJECTED, ids=[r[0] for r in REJECTED])
def test_programs_are_rejected(program: str, code: str, what: str) -> None:
    with pytest.raises(ricci.Error) as caught:
        _ = ricci.eintup.parse(program.replace(";; ", "\n\n").replace("; ", "\n")).outputs
    assert caught.value.diagnostics[0].code == code, what


def test_functions_are_those_there_are() -> None:
    shown = {
        name.strip("`"): int(count)
        for count, names in _rows("arguments | functions")
        for name in names.split()
    }
    assert shown == FUNCTIONS


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(compile(code, "einsum-tuple.md", "exec"), names)
    for shown in ("answer", "explained"):
        assert f"```\n{names[shown].rstrip()}\n```" in PAGE


def test_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.split('"""')[1]
    Path("conv.et").write_text(ricci.eintup.format(text), "utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in commands.splitlines():
        _, *arguments = shlex.split(line, comments=True)
        assert main(arguments) == 0, line
