"""A graph as files: an object file, a header of C, an example of their use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..backends.llvm.standalone import build_object
from ..backends.llvm.target import Target
from ..backends.llvm.targets import check_runs, named
from ..diagnostics import Error, error
from ..dtypes import DType, Types
from ..ir.limits import check_memory
from ..ir.nodes import Graph
from ..records import replace
from ..runtime.arguments import Array
from ..runtime.executable import check_types
from ..runtime.options import as_options
from ..runtime.pool import this_machine
from ..runtime.variables import VariableValues
from ..stored import Stored
from .example import write_example
from .files import write_files
from .header import Facts, write_header
from .names import check_prefix, prefix_for
from .plan import Wish, make_plan

WEIGHTS = ("auto", "embedded", "file")


def build_graph(
    graph: Graph,
    variables: Mapping[str, Array | Stored],
    directory: str | os.PathLike[str],
    name: str | None = None,
    target: str = "cpu",
    threads: int = 1,
    real: str = "float32",
    int: str = "int64",
    sizes: Mapping[str, object] | None = None,
    weights: str = "auto",
    force: bool = False,
    options: object = None,
) -> tuple[Path, ...]:
    """Write a graph as an object file, a header and an example; see `Model.build`."""
    check_types(real, int)
    _check_kinds(directory, target, sizes)
    _check_choices(weights, threads)
    title = graph.name.rpartition(".")[2]
    prefix = prefix_for(title) if name is None else check_prefix(name)
    types = Types(DType(real), DType(int))
    check_memory(graph)
    values = VariableValues(graph, types, lambda _: None)
    for variable in variables:
        values.adopt(variable, variables[variable])
    asked = as_options(options)
    chosen, runs_here = _processor(target, threads)
    chosen = asked.of(chosen)
    separate = None if weights == "auto" else weights == "file"
    wish = Wish(prefix, types, chosen, runs_here, threads, sizes or {}, asked, separate)
    plan = make_plan(graph, values, wish)
    built = build_object(plan.unit, chosen)
    weights_file = f"{prefix}.weights" if built.weights is not None else ""
    facts = Facts(
        prefix, title, plan.interface, _shown(target, chosen), threads, weights_file,
        built.needs,
    )  # fmt: skip
    files = {
        f"{prefix}.o": built.code,
        f"{prefix}.h": write_header(facts).encode("utf-8", "replace"),
        "example.c": write_example(facts).encode("utf-8", "replace"),
    }
    if built.weights is not None:
        files[weights_file] = built.weights
    return write_files(Path(directory), files, force)


def _check_kinds(directory: object, target: object, sizes: object) -> None:
    if not isinstance(directory, (str, os.PathLike)):
        raise error("E0801", f"`directory` must be a path, not {directory!r:.60}")
    if not isinstance(target, str):
        raise error("E0801", f"`target` must be a name, not {target!r:.60}")
    if sizes is not None and not isinstance(sizes, Mapping):
        raise error("E0801", f"`sizes` must be a dictionary, not {sizes!r:.60}")


def _check_choices(weights: object, threads: object) -> None:
    if weights not in WEIGHTS:
        notes = [f"choices: {', '.join(WEIGHTS)}"]
        raise error("E0801", f"`{weights}` is not a choice for `weights`", notes=notes)
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        message = f"`threads` must be an integer from 1 to {MOST_THREADS}, not {threads!r:.60}"
        raise error("E0801", message)


MOST_THREADS = 1024


def _processor(target: str, threads: int) -> tuple[Target, bool]:
    """The processor to make code for, and whether this machine runs it."""
    if target == "interpreter":
        raise error("E0805", "the interpreter makes no machine code to write")
    chosen, runs = (this_machine(), True) if target == "cpu" else (named(target), _runs(target))
    if threads > 1 and "linux" not in chosen.triple:
        raise error(
            "E0805",
            "an object file with threads is made for Linux only",
            help="one with `threads` 1 is made for every system",
        )
    return replace(chosen, cores=threads), runs


def _runs(target: str) -> bool:
    try:
        check_runs(target)
    except Error:
        return False
    return True


def _shown(target: str, chosen: Target) -> str:
    return f"{target} ({chosen.triple})" if target != "cpu" else f"{chosen.cpu} ({chosen.triple})"
