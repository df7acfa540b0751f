"""What `docs/tensor-comprehensions.md` shows is what happens."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import ricci
from ricci.cli import main
from ricci.frontends.tc.builtins import ARGUMENTS

from .compare import compare

PAGE = (Path(__file__).parents[1] / "docs" / "tensor-comprehensions.md").read_text("utf-8")
EXAMPLES = re.findall(
    r"^```tc(?: (E\d{4}))?\n(.*?)^```\n(?:<!-- (.*?) -->)?", PAGE, re.DOTALL | re.MULTILINE
)
"""The code that an example must be answered with, its text, and sizes that are not shown."""


def _rows(header: str) -> list[tuple[str, ...]]:
    """The cells of all tables with a header, without quotes."""
    table = rf"^\| {re.escape(header)} \|\n\|[-|]*\n((?:\|.*\n)+)"
    lines = "".join(re.findall(table, PAGE, re.MULTILINE)).splitlines()
    return [tuple(c.strip().strip("`") for c in line.strip("|").split(" | ")) for line in lines]


VALUES = _rows("expression | value | type")
RANGES = _rows("parameters | statements | inferred")
REJECTED = _rows("program | code | what is wrong")
FUNCTIONS = _rows("arguments | functions")
HEAD = re.search(r"`(def f\(.*?\{) \.\.\. \}`", PAGE)


@pytest.mark.parametrize(
    ("code", "text", "sizes"), EXAMPLES, ids=[text.split("(")[0] for _, text, _ in EXAMPLES]
)
def test_example(code: str, text: str, sizes: str) -> None:
    try:
        runs = {t: ricci.tc.define(text, target=t, threads=1) for t in ("cpu", "interpreter")}
        names = list(runs["cpu"])
        for name in names:
            arguments = _draw(runs["cpu"][name], dict(re.findall(r"(\w+)=(\d+)", sizes)))
            native, plain = (_flat(run[name](*arguments)) for run in runs.values())
            for ours, theirs in zip(native, plain, strict=True):
                compare(ours, theirs, "output", 1e-5)
    except ricci.Error as found:
        assert found.diagnostics[0].code == code, found
        assert f"```\n{found}\n```" in PAGE
        return
    assert names and not code


def _draw(function: ricci.tc.Comprehension, sizes: dict[str, str]) -> list[np.ndarray]:
    """Arguments with size 4 where nothing else is said; integers are 0 and 1."""
    rng = np.random.default_rng(0)
    arguments = []
    for port in function.inputs:
        shape = [n if isinstance(n, int) else int(sizes.get(n, 4)) for n in port.shape]
        real = port.dtype.startswith("float")
        drawn = rng.standard_normal(shape) if real else rng.integers(0, 2, shape)
        arguments.append(np.asarray(drawn, port.dtype))
    return arguments


def _flat(results: object) -> list[np.ndarray]:
    return [np.asarray(r) for r in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_expressions_have_their_values(target: str) -> None:
    body = " ".join(f"O{k} = {text}" for k, (text, _, _) in enumerate(VALUES))
    names = ", ".join(f"O{k}" for k in range(len(VALUES)))
    results = ricci.tc.define(f"def f() -> ({names}) {{ {body} }}", target=target).f()
    found = [(str(r.item()), str(r.dtype)) for r in results]
    assert found == [(value, dtype) for _, value, dtype in VALUES]


@pytest.mark.parametrize(("parameters", "body", "ranges"), RANGES, ids=[r[1] for r in RANGES])
def test_ranges_are_inferred(parameters: str, body: str, ranges: str) -> None:
    found = ricci.tc.infer(f"def f({parameters}) -> (O) {{ {body} }}", "f")
    assert found == {"O": ast.literal_eval(ranges)}


@pytest.mark.parametrize(("program", "code", "what"), REJECTED, ids=[r[0] for r in REJECTED])
def test_programs_are_rejected(program: str, code: str, what: str) -> None:
    assert HEAD is not None and what
    text = program.replace("...", HEAD[1]) + " }" * program.startswith("...")
    try:
        found = [w.code for w in ricci.tc.define(text).warnings]
        ricci.tc.infer(text, "f")
    except ricci.Error as problem:
        found = [d.code for d in problem.diagnostics]
    assert found[0] == code


def test_functions_are_those_there_are() -> None:
    shown = {name.strip("`"): int(k) for k, names in FUNCTIONS for name in names.split()}
    assert shown == ARGUMENTS


def test_python_runs() -> None:
    names: dict[str, object] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        exec(compile(code, "tensor-comprehensions.md", "exec"), names)


def test_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.split('"""')[1]
    Path("conv.tc").write_text(ricci.tc.format(text), "utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in commands.splitlines():
        _, *arguments = shlex.split(line, comments=True)
        assert main(arguments) == 0, line
    assert ricci.graphs("conv.sknd") == ("conv",)
