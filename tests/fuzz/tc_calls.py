"""Running a damaged text of Tensor Comprehensions: all functions, any arguments."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ricci import Error, tc
from ricci.diagnostics import Report
from ricci.dtypes import name_of
from ricci.frontends.reading import make_source
from ricci.frontends.tc.canonical import canonical
from ricci.frontends.tc.parser import parse_unit
from ricci.ir.nodes import Expr, Graph, Operation
from ricci.ir.shapes_evaluate import evaluate
from ricci.ir.text import format_graph
from ricci.ir.verify import verify_graph

from . import values
from .commands import run_command
from .work import OPEN, WORK, Skipped

Case = dict[str, Any]

LARGEST = 1e13
"""Elements that no machine has: they are refused, and so need not be left out."""

FUNCTIONS = 3
"""Functions of a text that are called."""


def comprehend(case: Case) -> None:
    """Whatever can be done with a text; each function and call may end in an `Error`."""
    text = case["text"]
    if "format" in case["steps"]:
        _format(text)
    if "command" in case["steps"]:
        _commands(text, case["commands"])
    functions = tc.define(text, target=case["target"], threads=1)
    calls = case.setdefault("calls", {})
    found: list[Error] = []
    for number, (name, function) in enumerate(list(functions.items())[:FUNCTIONS]):
        try:
            verify_graph(function.graph)
            function.infer()
            format_graph(function.graph)
            _check_work(function.graph)
            made = values.make_calls(function.graph, case["seed"] + number)
            for arguments in calls.setdefault(name, made):
                _call(function, arguments, case, found)
        except Error as error:
            found.append(error)
    if found:
        raise Error([d for error in found for d in error.diagnostics])


def _format(text: str) -> None:
    """The formatter is idempotent, and changes no meaning."""
    with contextlib.suppress(Error):
        once = tc.format(text)
        assert tc.format(once) == once, "not idempotent"
        assert _canonical(once) == _canonical(text), "another program"


def _canonical(text: str) -> list[str]:
    report = Report()
    unit = parse_unit(make_source(text, "tc"), report)
    report.raise_errors()
    return [canonical(f) for f in unit.functions]


def _commands(text: str, commands: Sequence[Sequence[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.tc")
        with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
        for arguments in commands:
            run_command([a if a != "PATH" else path for a in arguments])


def _call(
    function: tc.Comprehension, arguments: Mapping[str, str], case: Case, found: list[Error]
) -> None:
    arrays = {name: values.evaluate(text) for name, text in arguments.items()}
    try:
        with np.errstate(all="ignore"):
            results = function(**arrays)
            for port, array in zip(function.outputs, _listed(function, results), strict=True):
                assert name_of(array.dtype) == port.dtype, f"{port.name}: {array.dtype}"
                assert array.ndim == len(port.shape), port.name
            if "out" in case["steps"]:
                function(**arrays, out=_listed(function, results))
    except Error as error:
        found.append(error)


def _listed(function: tc.Comprehension, results: Any) -> list[Any]:
    return [results] if len(function.outputs) == 1 else list(results)


def _check_work(graph: Graph) -> None:
    """Raises `Skipped` if the largest arguments would be too much work, but not beyond reason."""
    sizes = dict.fromkeys(graph.symbols, int(OPEN) + 1)
    shapes = [t.shape for p in graph.inputs for t in p.tensors]
    for step in graph.operations:
        assert isinstance(step, Operation)
        shapes += [t.shape for t in step.outputs]
        shapes += [tuple(i.extent for i in a.domain) for a in step.body]
    inputs = sum(len(p.tensors) for p in graph.inputs)
    for number, shape in enumerate(shapes):
        count = math.prod(float(max(0, _value(e, sizes))) for e in shape)
        if count > WORK and (count < LARGEST or number < inputs):
            raise Skipped


def _value(expr: Expr, sizes: Mapping[Any, int]) -> float:
    try:
        return min(float(evaluate(expr, sizes)), 1e30)
    except (ZeroDivisionError, OverflowError):
        return 0.0
