"""What `docs/skriptnd.md` shows is what happens: its examples compile, its tables are true.

`pytest --update-golden` writes its chapter 4 anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.runtime.arguments import PortInfo

from .compare import TARGETS, compare
from .spec.operators import chapter
from .spec.sections import SECTIONS
from .spec.values import NAMES

PATH = Path(__file__).parents[1] / "docs" / "skriptnd.md"
PAGE = PATH.read_text("utf-8")
EXAMPLES = re.findall(
    r"^```sknd(?: (E\d{4}))?\n(.*?)^```\n(?:<!-- (.*?) -->)?", PAGE, re.DOTALL | re.MULTILINE
)
"""The code that an example must be answered with, its text, and a graph that is not shown."""

TABLES = re.findall(r"^\| expression \| value \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
ROWS = [
    tuple(cell.strip().strip("`").strip() for cell in row.strip("|").split(" | "))
    if "``" not in row
    else (row.split("``")[1].strip(), row.rsplit("`", 2)[1])
    for table in TABLES
    for row in table.splitlines()
]


def _first_line(text: str) -> str:
    return next(line for line in text.splitlines() if re.match("operator|graph", line))


@pytest.mark.parametrize(
    ("code", "text", "hidden"), EXAMPLES, ids=[_first_line(text) for _, text, _ in EXAMPLES]
)
def test_example_compiles(code: str, text: str, hidden: str) -> None:
    try:
        model = ricci.parse(text + hidden)
    except ricci.Error as found:
        assert found.diagnostics[0].code == code, found
        assert f"```\n{found}\n```" in PAGE
        return
    assert not code
    rng = np.random.default_rng(0)
    for tensor in model.graph.variables:
        model.variables[tensor.name] = rng.random([int(str(e.value)) for e in tensor.shape])
    run = {t: model.compile(target=t, real=real, threads=1) for t, real in TARGETS.items()}
    inputs = [_argument(port, rng) for port in run["cpu"].inputs]
    native, plain = run["cpu"](*inputs), run["interpreter"](*inputs)
    for ours, theirs in zip(_flat(native), _flat(plain), strict=True):
        compare(ours, theirs, "output", 1e-5)


def _argument(port: PortInfo, rng: np.random.Generator) -> object:
    arrays = [_array(port.dtype, shape, rng) for shape in port.shapes]
    return arrays[0] if port.count is None else arrays


def _array(dtype: str, shape: tuple[int | str, ...], rng: np.random.Generator) -> np.ndarray:
    sizes = [3 if isinstance(n, str) else n for n in shape]
    return rng.random(sizes) if dtype == "float32" else rng.integers(0, 2, sizes)


def _flat(outputs: object) -> list[np.ndarray]:
    if isinstance(outputs, (list, tuple)):
        return [array for value in outputs for array in _flat(value)]
    return [np.asarray(outputs)]


@pytest.mark.parametrize(("text", "value"), ROWS, ids=[text for text, _ in ROWS])
def test_expression_has_its_value(text: str, value: str) -> None:
    names = NAMES.replace("\n", "")
    packed = " && .." if value.startswith("[") else ""
    condition = "!?v" if value == "null" else f"v == {value}{packed}"
    graph = f"""graph G {{ @attrib {{ {names} }} @using {{ v = {text}; }}
        @assert {{ {condition}; }} @output {{ y: real; }} @compose {{ y = 1.0; }} }}"""
    ricci.parse(graph)


def test_sections_are_those_of_the_specification() -> None:
    shown = re.findall(r"^#+ (\d[\d.]*)\. (.+)$", PAGE, re.MULTILINE)
    assert [pair for pair in shown if pair[0] not in ("2", "4")] == [
        (section.number, section.title) for section in SECTIONS
    ]


def test_chapter_of_the_library_is_what_the_library_says(update_golden: bool) -> None:
    start = PAGE.index("### 4.1.1.")
    if update_golden:
        PATH.write_text(PAGE[:start] + chapter(), "utf-8")
    else:
        assert PAGE[start:] == chapter(), "run pytest --update-golden"
