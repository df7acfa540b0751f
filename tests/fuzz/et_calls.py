"""Running a damaged text of Einsum Tuple: looked at, called at some ranks and dims, verified."""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import ricci
from ricci import Error, eintup
from ricci.eintup import Configuration, EinsumTuple
from ricci.eintup.constants import components
from ricci.frontends.eintup.dims import draw_dims
from ricci.frontends.eintup.extents import shape_of
from ricci.frontends.eintup.lower import needs_data
from ricci.frontends.eintup.program import Array, Program
from ricci.frontends.eintup.uses import variables
from ricci.ir.shapes import as_int

from ..eintup import brute
from ..eintup.random_programs import is_same
from . import values
from .commands import run_command
from .work import WORK, Skipped

Case = dict[str, Any]
Arrays = Mapping[str, np.ndarray[Any, np.dtype[Any]]]

RANKS = 200
"""Combinations of ranks of which some are chosen."""

AXES = 64
"""Axes that an array of NumPy may have."""

LOOPS = 500_000
"""Points of a statement, times the length of the text, that are also computed in plain Python."""

LONGEST = 20
"""Items of a list that is given for an array."""

HUGE = 2.0**31
"""What integers cannot hold, and where reals are too coarse to be compared."""


def run_text(case: Case) -> None:
    """Whatever can be done with a text; each call may end in an `Error`."""
    text, steps = case["text"], case["steps"]
    if "format" in steps:
        _format(text)
    if "command" in steps:
        _commands(text, case["commands"])
    program = eintup.parse(text, target=case["target"], threads=1)
    if "explain" in steps:
        _explain(program)
    found: list[Error] = []
    if "verify" in steps and not re.search(r"\b(tf|torch|jnp|jax)\b", text):
        _verify(program, case["seed"], found)
    for number, configuration in enumerate(_configurations(program.program, case["seed"])):
        _call(program, configuration, case["seed"] + number, found)
    if found:
        raise Error([d for error in found for d in error.diagnostics])


def _format(text: str) -> None:
    """The formatter is idempotent; it compares the trees itself."""
    with suppress(Error):
        once = ricci.format(text, "eintup")
        assert ricci.format(once, "eintup") == once, "not idempotent"


def _commands(text: str, commands: Sequence[Sequence[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.et")
        with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
            file.write(text)
        for arguments in commands:
            run_command([a if a != "PATH" else path for a in arguments])


def _explain(program: EinsumTuple) -> None:
    assert repr(program) and len(program.inputs) == len(program.program.inputs)
    explanation = program.explain()
    assert str(explanation)
    json.dumps(explanation.to_json())


def _verify(program: EinsumTuple, seed: int, found: list[Error]) -> None:
    combinations = len(list(islice(program.program.ranks.combinations(), 30)))
    configurations = list(_configurations(program.program, seed))
    if combinations == 30 or len(configurations) < min(2, combinations):
        return  # too much work
    try:
        program.verify(1, seed, dims=(0, 3))
    except Error as error:
        found.append(error)


# ------------------------------------------------------------------- configurations


def _configurations(program: Program, seed: int) -> list[Configuration]:
    """Up to two that are little work."""
    rng = random.Random(seed)
    ranks = list(islice(program.ranks.combinations(), RANKS))
    found: list[Configuration] = []
    for combination in rng.sample(ranks, min(2, len(ranks))):
        with suppress(Error):
            drawn = draw_dims(program, combination, np.random.default_rng(seed), (0, 3))
            if _work(program, drawn) <= WORK:
                found.append(drawn)
    if ranks and not found:
        raise Skipped
    return found


def _work(program: Program, configuration: Configuration) -> float:
    """Points of statements, and elements of arrays, at most."""
    sizes = {n: math.prod(max(1.0, d) for d in dims) for n, dims in configuration.dims.items()}
    points = [math.prod(sizes[v] for v in variables(s)) for s in program.file.statements]
    shapes = [_shape(a, configuration) for a in _known(program)]
    return max([0.0, *points, *(math.prod(max(1.0, n) for n in shape) for shape in shapes)])


def _known(program: Program) -> list[Array]:
    """The arrays whose shapes need no data."""
    unknown = {a.name for a in needs_data(program)}
    return [a for a in program.arrays.values() if a.name not in unknown]


def _shape(array: Array, configuration: Configuration) -> tuple[int, ...]:
    extents = [as_int(e) for e in shape_of(array, components(configuration.dims))]
    return tuple(max(0, e) for e in extents if e is not None)


# ----------------------------------------------------------------------------- calls


def _call(
    program: EinsumTuple, configuration: Configuration, seed: int, found: list[Error]
) -> None:
    """With arrays that fit, at these ranks and dims and where they are found; then with others."""
    rng = random.Random(seed)
    given = _inputs(program, configuration, rng)
    fixed = program.at(configuration.ranks, configuration.dims)
    for function in (fixed, program):
        try:
            with np.errstate(all="ignore"):
                results = _listed(function, function(**given, seed=seed))
        except Error as error:
            found.append(error)
            continue
        if function is fixed:
            _compare(program.program, configuration, given, seed, results)
    if given:
        _call_wrongly(program, given, rng, found)


def _call_wrongly(
    program: EinsumTuple, given: Arrays, rng: random.Random, found: list[Error]
) -> None:
    name = rng.choice(list(given))
    shape, dtype = list(given[name].shape), given[name].dtype.name
    wrong = values.evaluate(values.make_wrong_array(shape, dtype, rng))
    if isinstance(wrong, list | str) and len(wrong) > LONGEST:
        return  # of any length, an axis may be right
    try:
        with np.errstate(all="ignore"):
            program(**{**given, name: wrong}, seed=0)
    except Error as error:
        found.append(error)


def _inputs(program: EinsumTuple, configuration: Configuration, rng: random.Random) -> Arrays:
    """Arrays for the inputs, most of them."""
    made = {}
    for array, port in zip(program.program.inputs, program.inputs, strict=True):
        shape = _shape(array, configuration)
        if rng.random() < 0.9 and len(shape) <= AXES:
            made[array.name] = values.draw(shape, port.dtype, rng.randrange(1000))
    return made


def _listed(program: EinsumTuple, results: Any) -> list[Any]:
    return [results] if len(program.outputs) == 1 else list(results)


def _compare(
    program: Program, configuration: Configuration, given: Arrays, seed: int, results: list[Any]
) -> None:
    """The results are those of loops in plain Python, if these can be computed."""
    if _work(program, configuration) * len(program.source.text) > LOOPS:
        return
    try:
        statements = program.file.statements
        expected = brute.evaluate(statements, configuration.dims, given, seed)
    except (ArithmeticError, ValueError, AttributeError):
        return  # of reals beyond all bounds, or a function that Python's `math` lacks
    for array, ours in zip(program.outputs, results, strict=True):
        theirs = expected[array.name]
        huge = theirs.dtype.kind != "b" and not np.all(np.abs(theirs) < HUGE)
        assert huge or is_same(ours, theirs, 1e-6), f"{array.name} is another"
