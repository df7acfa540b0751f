"""`docs/ir.md` and the node classes agree."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import get_args

from ricci.ir import loops, nodes, text, verify

PAGE = (Path(__file__).parent.parent.parent / "docs" / "ir.md").read_text(encoding="utf-8")


def _rows(first: str) -> list[list[list[str]]]:
    """The rows of the tables whose first column is called `first`; per cell its code words."""
    found = []
    inside = False
    for line in PAGE.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] == first:
            inside = True
        elif not cells:
            inside = False
        elif inside and not cells[0].startswith("---"):
            found.append([re.findall(r"`([^`]+)`", c) for c in cells])
    return found


def _classes(*modules: ModuleType) -> dict[str, list[str]]:
    return {
        name: [f.name for f in fields(item)]
        for module in modules
        for name, item in vars(module).items()
        if is_dataclass(item) and isinstance(item, type) and item.__module__ == module.__name__
    }


def test_every_class_has_a_row_with_its_fields() -> None:
    rows = {row[0][0]: row[1] for row in _rows("class")}
    assert rows == _classes(nodes, loops)


def test_every_operator_is_listed_once() -> None:
    listed = [op for row in _rows("group") for op in row[1]]
    operators = [nodes.UnaryOp, nodes.BinaryOp, nodes.Function]
    assert sorted(listed) == sorted(op for kind in operators for op in get_args(kind))


def test_every_reduction_and_stage_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert named >= set(get_args(nodes.Reduction))
    assert [row[0][0] for row in _rows("stage")] == list(verify.STAGES)


def test_the_example_is_as_printed() -> None:
    example = re.search(r"```\n(graph .*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert text.format_graph(text.parse_graph(example[1])) == example[1]
