"""Running a case of the specification on an executor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import ricci

from ..compare import TARGETS, Array, Mismatch, compare
from .case import Call, Case


def check(case: Case, target: str) -> float:
    """Run a case on a target, and give the largest scaled error.

    Raises `Mismatch` if it computes something else than the case says, or is not answered with
    the diagnostic that it names.
    """
    try:
        run = _compile(case, target)
    except ricci.Error as found:
        _check_error(found, case.error, case.message)
        return 0.0
    errors = [_check_call(run, call, case.tolerance) for call in case.runs]
    return max([*errors, _check_variables(run, case.updated, case.tolerance)])


def _compile(case: Case, target: str) -> ricci.Executable:
    model = read(case)
    warned = tuple(d.code for d in model.warnings)
    if warned != case.warnings:
        raise Mismatch(f"warnings {warned}, expected are {case.warnings}")
    for name, value in case.variables.items():
        model.variables[name] = value
    real = TARGETS[target]
    return model.compile(target=target, threads=2, real=real, quantize=case.quantize)


def read(case: Case) -> ricci.Model:
    if not case.modules:
        return ricci.parse(case.program, "skriptnd", case.attribs, case.graph, case.types)
    with TemporaryDirectory() as folder:
        for name, text in {"main": case.program, **case.modules}.items():
            path = Path(folder, f"{name}.sknd")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        return ricci.load(folder, case.attribs, case.graph, case.types)


def _check_call(run: ricci.Executable, call: Call, tolerance: float) -> float:
    try:
        got = _invoke(run, call.inputs)
    except ricci.Error as found:
        _check_error(found, call.error, call.message)
        return 0.0
    if call.error:
        raise Mismatch(f"no error, expected is {call.error}; result is {got}")
    expected = call.expected
    if callable(expected):
        with np.errstate(all="ignore"):
            expected = _invoke(expected, call.inputs)
    outputs = [got] if len(run.outputs) == 1 else list(got)
    theirs = list(expected) if isinstance(expected, tuple) else [expected]
    if len(outputs) != len(theirs):
        raise Mismatch(f"{len(outputs)} outputs, expected are {len(theirs)}")
    errors = [
        _compare(o, t, p.name, tolerance)
        for o, t, p in zip(outputs, theirs, run.outputs, strict=True)
    ]
    return max([*errors, _check_variables(run, call.updated, tolerance)])


def _invoke(function: Any, inputs: Any) -> Any:
    return function(**inputs) if isinstance(inputs, Mapping) else function(*inputs)


def _compare(ours: Any, theirs: Any, name: str, tolerance: float) -> float:
    if not isinstance(theirs, list):
        return compare(np.asarray(ours), np.asarray(theirs), name, tolerance)
    if not isinstance(ours, list) or len(ours) != len(theirs):
        raise Mismatch(f"{name}: {ours!r} is not a pack of {len(theirs)} tensors")
    errors = [
        compare(np.asarray(o), np.asarray(t), f"{name}[{k}]", tolerance)
        for k, (o, t) in enumerate(zip(ours, theirs, strict=True))
    ]
    return max(errors, default=0.0)


def _check_variables(
    run: ricci.Executable, expected: Mapping[str, Array], tolerance: float
) -> float:
    errors = [compare(run.variables[n], np.asarray(v), n, tolerance) for n, v in expected.items()]
    return max(errors, default=0.0)


def _check_error(found: ricci.Error, code: str, message: str) -> None:
    if not code:
        raise found
    text = str(found)
    if found.diagnostics[0].code != code:
        raise Mismatch(f"expected is {code}, and it is answered with\n{text}") from found
    if not re.search(message, text):
        raise Mismatch(f"`{message}` is not in\n{text}") from found
