"""Running a case: it gives the codes of its diagnostics, and raises for whatever is a bug."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import ricci
from ricci.dtypes import DType, Types
from ricci.frontends.skriptnd.format import DIALECTS
from ricci.frontends.skriptnd.unparse import unparse_graph
from ricci.ir.text import format_graph
from ricci.ir.verify import verify_graph
from ricci.passes.pipeline import lower
from ricci.runtime import executable, stages

from . import et_check, tc_check, values
from .commands import codes, run_command
from .et_calls import run_text
from .files import Files, write_files
from .lower_check import check_seeds
from .tc_calls import comprehend
from .work import WORK, Skipped, size_of, work_of

Case = dict[str, Any]
"""Data that JSON can hold; `kind` is a key of `KINDS`."""


def run(case: Case) -> list[str]:
    """The codes of the errors that the case is answered with; empty if it succeeds."""
    try:
        KINDS[case["kind"]](case)
    except ricci.Error as error:
        return codes(error)
    return []


def run_program(text: str) -> list[str]:
    """The codes of the errors of a program; empty if it composes."""
    return run({"kind": "programs", "text": text})


def _parse(case: Case) -> ricci.Model:
    """The model of a case; attributes are a text that `values` evaluates."""
    attribs = values.evaluate(case.get("attribs", "{}"))
    types = values.evaluate(case.get("types", "{}"))
    return ricci.parse(case["text"], "skriptnd", attribs, case.get("graph"), types)


# --------------------------------------------------------------- programs, attributes


def _compose(case: Case) -> None:
    """Through all that comes before execution; `steps` names what is tried besides."""
    for step in case.get("steps", ()):
        if step in DIALECTS:
            _format(case["text"], step)
    model = _parse(case)
    verify_graph(model.graph)
    format_graph(model.graph)
    for step in case.get("steps", ()):
        if step in _STEPS:
            _STEPS[step](model)


def _format(text: str, dialect: str) -> None:
    """The formatter is idempotent; text that does not parse is refused."""
    with contextlib.suppress(ricci.Error):
        once = ricci.format(text, dialect=dialect)
        assert ricci.format(once, dialect=dialect) == once, f"not idempotent: {dialect}"


def _print_composed(model: ricci.Model) -> None:
    """The graph as SkriptND is a program again, with the same interface."""
    try:
        text = unparse_graph(model.graph)
    except ricci.Error as error:
        assert codes(error) == ["E0706"], error
        return
    again = ricci.parse(text)
    ours, theirs = ([p.name for p in g.outputs] for g in (model.graph, again.graph))
    assert ours == theirs, text


def _lower(model: ricci.Model) -> None:
    if size_of(model.graph) < WORK:
        lower(model.graph, {}, Types(DType.FLOAT32, DType.INT64))


def _save(model: ricci.Model) -> None:
    """What `save` writes reads back as the same operations."""
    for tensor in model.graph.variables:
        if size_of(model.graph) > WORK:
            return
        shape = values.shape_of(tensor, {})
        model.variables[tensor.name] = np.zeros(shape, values.dtype_of(tensor.dtype))
    with TemporaryDirectory() as folder:
        try:
            model.save(folder)
        except ricci.Error as error:
            assert set(codes(error)) <= {"E0706"}, error
            return
        absent = {p.name: None for p in model.origin.operator.inputs if p.name in model.attributes}
        again = ricci.load(folder, absent, model.graph_name, model.types)
        assert format_graph(again.graph) == format_graph(model.graph)


_STEPS: Mapping[str, Callable[[ricci.Model], None]] = {
    "sknd": _print_composed,
    "loops": _lower,
    "save": _save,
}


# -------------------------------------------------------------------------- arguments


def _call(case: Case) -> None:
    """Compile for `target`, and call with `calls`, made from `seed` where they are not given.

    Each call may end in an `Error`; the others are made all the same.
    """
    graph = (model := _parse(case)).graph
    if work_of(graph) > WORK or size_of(graph) > WORK:
        raise Skipped
    if "calls" not in case:
        case["calls"] = values.make_calls(graph, case["seed"])
        case["variables"] = values.make_variables(graph, case["seed"])
    found: list[ricci.Error] = []
    for name, text in case["variables"].items():
        try:
            model.variables[name] = values.evaluate(text)
        except ricci.Error as error:
            found.append(error)
    compiled = model.compile(case["target"], 1, case["real"], case["int"])
    for arguments in case["calls"]:
        try:
            _check_results(compiled, _invoke(compiled, arguments))
        except ricci.Error as error:
            found.append(error)
    if found:
        raise ricci.Error([d for error in found for d in error.diagnostics])


def _invoke(compiled: ricci.Executable, arguments: Mapping[str, str]) -> Any:
    with np.errstate(all="ignore"):
        return compiled(**{n: values.evaluate(text) for n, text in arguments.items()})


def _check_results(compiled: ricci.Executable, results: Any) -> None:
    """Every result is an array of the declared type and rank."""
    for port, given in zip(
        compiled.outputs, [results] if len(compiled.outputs) == 1 else results, strict=True
    ):
        for array in given if isinstance(given, list) else [given]:
            assert str(array.dtype) == port.dtype, f"{port.name}: {array.dtype}"
            assert array.ndim == len(port.shape) or isinstance(given, list), port.name


# ---------------------------------------------------------------------------- storage


def _open(case: Case) -> None:
    """A folder with damaged files, through the library and the command."""
    files: Files = case["files"]
    with TemporaryDirectory() as folder:
        write_files(folder, files)
        path = os.path.join(folder, case["path"])
        for arguments in case["commands"]:
            run_command([a if a != "PATH" else path for a in arguments])
        model = ricci.load(path)
        verify_graph(model.graph)
        for name in model.variables:
            assert name in model.variables
        model.variables.known()


LOADED = (executable, stages)
"""Modules that are imported late otherwise, in each worker anew."""

KINDS: Mapping[str, Callable[[Case], None]] = {
    "programs": _compose,
    "attributes": _compose,
    "arguments": _call,
    "storage": _open,
    "lower": lambda case: check_seeds(case["seeds"]),
    "tc": comprehend,
    "et": run_text,
    "tc_programs": lambda case: tc_check.check_seeds(case["seeds"]),
    "et_programs": lambda case: et_check.check_seeds(case["seeds"]),
}
