"""What the arguments of a subcommand leave open of an Einsum Tuple program."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import Report, error
from ..dtypes import DType
from ..frontends.eintup.dims import draw_dims
from ..frontends.eintup.fixed import fix_attributes, ranks_for
from ..frontends.eintup.lower import needs_data
from ..frontends.eintup.origin import Origin, read
from ..frontends.eintup.program import Configuration, Program
from ..frontends.eintup.solve import solve
from ..frontends.reading import read_source
from ..model import Model
from .arrays import read_array

Array = NDArray[Any]


def is_program(path: str | Path) -> bool:
    """Whether this is the name of an Einsum Tuple program."""
    return Path(path).suffix == ".et"


def read_program(path: str | Path) -> Program:
    """The checked program of a file."""
    return read(read_source(Path(path)), Report())


def settled(options: Namespace) -> Namespace:
    """The options, for an Einsum Tuple program with all dims as attributes: those that the given
    arrays have, or drawn ones.

    Raises `Error`, among others where there is neither an array nor a seed.
    """
    if not is_program(options.path):
        return options
    program = read_program(options.path)
    _check_names(program, options)
    given = _files(program, options)
    if options.random is None:
        _all_given(program, given)
    dims = _configuration(program, options, given).dims
    attributes = [(f"DIMS({name})", str(list(numbers))) for name, numbers in dims.items()]
    return Namespace(**vars(options) | {"attrib": attributes})


def has_shapes_from_data(options: Namespace) -> bool:
    """Whether this is a program that no graph stands for: data decides about its shapes."""
    return is_program(options.path) and bool(needs_data(read_program(options.path)))


def evaluation(options: Namespace) -> Callable[[], dict[str, Array]]:
    """What computes the results of a program that no graph stands for; options are settled."""
    from ..eintup.execute import evaluate

    if options.gradient:
        raise error("E0507", "there are no gradients where data decides about shapes")
    program = read_program(options.path)
    fixed = fix_attributes(program, dict(options.attrib))
    configuration = Configuration(fixed.dims_at(fixed.wanted_ranks()))
    given, wanted = _files(program, options), [a.name for a in program.outputs]
    real, int = options.real or Origin.numbers[0], options.int or Origin.numbers[1]
    return lambda: evaluate(
        program, configuration, given, wanted, options.random or 0, options.target,
        options.threads, real, int,
    )  # fmt: skip


def _files(program: Program, options: Namespace) -> dict[str, Array]:
    files: dict[str, str] = dict(options.input)
    return {a.name: read_array(Path(files[a.name])) for a in program.inputs if a.name in files}


def _check_names(program: Program, options: Namespace) -> None:
    """Raise E0801 for files that are for no input; gradients are known only later."""
    inputs = [a.name for a in program.inputs]
    for name, _ in options.input:
        if name not in inputs and not (options.gradient and name.startswith("d_")):
            notes = [f"it has: {', '.join(inputs) or 'none'}"]
            raise error("E0801", f"the program has no input `{name}`", notes=notes)


def _configuration(
    program: Program, options: Namespace, given: Mapping[str, Array]
) -> Configuration:
    fixed = fix_attributes(program, dict(options.attrib))
    if given:
        shapes = {name: array.shape for name, array in given.items()}
        return solve(program, shapes, fixed.ranks, fixed.dims)
    ranks = ranks_for(program, fixed)
    rng = np.random.default_rng(options.random)
    return draw_dims(program, ranks, rng, known=fixed.dims_at(ranks))


def drawn(model: Model, given: Mapping[str, object], seed: int | None) -> dict[str, Array]:
    """The inputs of a model's program that are not given, drawn as it says."""
    from ..eintup.execute import evaluate

    origin = model.origin
    assert isinstance(origin, Origin)
    program = origin.checked
    if seed is None:
        _all_given(program, given)
    configuration = Configuration(origin.fixed.dims_at(origin.ranks))
    arrays = {a.name: given[a.name] for a in program.inputs if a.name in given}
    absent = [a.name for a in program.inputs if a.name not in given]
    made = evaluate(program, configuration, arrays, absent, seed or 0) if absent else {}
    for port in model.graph.inputs:  # what the program draws in each call begins with this
        if port.name not in program.arrays and port.tensors[0].dtype is DType.UINT64:
            made[port.name] = np.array(seed or 0, np.uint64)
    return made


def _all_given(program: Program, given: Mapping[str, object]) -> None:
    for array in program.inputs:
        if array.name not in given:
            raise error(
                "E0801",
                f"input `{array.name}` is not given",
                help=f"--input {array.name}=FILE, or --random SEED to draw it as the program says",
            )
