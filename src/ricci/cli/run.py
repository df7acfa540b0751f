"""`ricci run`: call a graph once, with arrays from files or drawn at random."""

from __future__ import annotations

import math
import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import error
from ..dtypes import DType, to_bfloat16, to_dtype
from ..frontends.skriptnd.folder import make_folder
from ..frontends.skriptnd.storage import write_tensor
from ..ir.interpret import MOST_ELEMENTS
from ..ir.interpret_bind import hidden_ports
from ..ir.nodes import Graph, Port, Symbol, Tensor
from ..ir.rewrite import walk
from ..ir.shapes import as_int, evaluate
from ..model import Model
from .arguments import (
    Commands,
    add_command,
    add_execution,
    add_json,
    add_model,
    add_tuned,
    positive,
)
from .arrays import read_array
from .eintup import drawn, evaluation, has_shapes_from_data, settled
from .model import compile_model, load_model
from .output import print_json, print_table

Array = NDArray[Any]
Value = Array | list[Array]


def register(commands: Commands[ArgumentParser]) -> None:
    parser = add_command(commands, "run", "call a graph with arrays", run)
    add_model(parser)
    add_execution(parser)
    add_tuned(parser)
    parser.add_argument(
        "--output",
        metavar="WHERE",
        action="append",
        default=[],
        help="a folder for all outputs as .npy files, or NAME=FILE (.npy or .dat) for one",
    )
    parser.add_argument(
        "--time", type=positive, metavar="N", help="call N times more, and print the median time"
    )
    add_json(parser)


def run(options: Namespace) -> int:
    call = _call(settled(options))
    outputs = call()
    for where in options.output:
        write_outputs(where, outputs)
    rows = [_summary(name, array) for name, array in _flat(outputs)]
    seconds = measure(call, options.time) if options.time else None
    _print(rows, seconds, options.json)
    return 0


def _call(options: Namespace) -> Callable[[], Mapping[str, Value]]:
    if has_shapes_from_data(options):
        return evaluation(options)
    model = load_model(options)
    executable = compile_model(model, options)
    inputs = read_inputs(model, options)
    return lambda: name_outputs(model.graph.outputs, executable(**inputs))


def measure(call: Callable[[], object], count: int) -> float:
    """The median time of a call in seconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# --------------------------------------------------------------------- inputs


def read_inputs(model: Model, options: Namespace) -> dict[str, Value]:
    """An array, or a list of them, for every input: from its file, or drawn if there is a seed."""
    graph = model.graph
    files: dict[str, str] = dict(options.input)
    known = {port.name for port in graph.inputs}
    for name in files:
        if name not in known:
            notes = [f"it has: {', '.join(sorted(known)) or 'none'}"]
            raise error("E0801", f"the graph has no input `{name}`", notes=notes)
    sizes = dict(read_sizes(graph, options.set))
    rng = None if options.random is None else np.random.default_rng(options.random)
    values: dict[str, Value] = {}
    lengths = {tensor: symbol for symbol, tensor in graph.sizes}
    for port in visible_ports(graph.inputs):
        if port.name in files:
            arrays = [read_array(Path(f)) for f in files[port.name].split(",")]
            if port.tensors and port.tensors[0].dtype is DType.BFLOAT16:
                arrays = [to_bfloat16(a) if a.dtype == np.float32 else a for a in arrays]
            values[port.name] = arrays if port.packed else arrays[0]
            _note_sizes(port, arrays, sizes)
    if model.language == "eintup":
        values |= drawn(model, values, options.random)
    for port in visible_ports(graph.inputs):
        if port.name not in values and (port.tensors or not port.optional):
            length = None if port.length is None else lengths[port.length]
            values[port.name] = _draw_port(port, rng, sizes, length)
    return values


def _note_sizes(port: Port, arrays: Sequence[Array], sizes: dict[Symbol, int]) -> None:
    """Let sizes be what a given array says: those that are an extent of it."""
    for tensor, array in zip(port.tensors, arrays, strict=False):
        for extent, size in zip(tensor.shape, array.shape, strict=False):
            if isinstance(extent, Symbol):
                sizes.setdefault(extent, size)


def visible_ports(ports: Sequence[Port]) -> list[Port]:
    """The ports that callers see: those of lengths of packs are not among them."""
    hidden = hidden_ports(ports)
    return [port for port in ports if port not in hidden]


def read_sizes(graph: Graph, pairs: Sequence[tuple[str, int]]) -> dict[Symbol, int]:
    """The sizes of `--set` by the symbols of the graph, and of the lengths of its packs."""
    known = {s.name: s for s in graph.symbols}
    lengths = {port.length for port in graph.inputs if port.length is not None}
    known |= {s.name: s for s, tensor in graph.sizes if tensor in lengths}
    for name, value in pairs:
        if name not in known:
            notes = [f"it has: {', '.join(known) or 'none'}"]
            raise error("E0801", f"the graph has no open size `{name}`", notes=notes)
        bound = known[name].bound
        limit = None if bound is None else as_int(bound)
        if limit is not None and value > limit:
            raise error("E0801", f"the size `{name}` is at most {limit}, and {value} was given")
    return {known[name]: value for name, value in pairs}


def _draw_port(
    port: Port,
    rng: np.random.Generator | None,
    sizes: Mapping[Symbol, int],
    length: Symbol | None = None,
) -> Value:
    if rng is None:
        help = f"--input {port.name}=FILE, or --random SEED to draw it"
        if port.optional:
            help += f", or --attrib {port.name}=null to leave it out"
        raise error("E0801", f"input `{port.name}` is not given", help=help)
    if length is not None and length not in sizes:
        raise error(
            "E0801",
            f"input `{port.name}` cannot be drawn: its length `{length.name}` is open",
            help=f"--set {length.name}=N gives it",
        )
    count = len(port.tensors) if length is None else sizes[length]
    arrays = [_draw(tensor, rng, sizes) for tensor in port.tensors[:count]]
    return arrays if port.packed else arrays[0]


def _draw(tensor: Tensor, rng: np.random.Generator, sizes: Mapping[Symbol, int]) -> Array:
    """Normal reals, integers 0 and 1 (they may index), fair bools."""
    symbols = [n for e in tensor.shape for n in walk(e) if isinstance(n, Symbol)]
    if absent := [s for s in symbols if s not in sizes]:
        raise error(
            "E0801",
            f"input `{tensor.name}` cannot be drawn: its size `{absent[0].name}` is open",
            tensor.span,
            help=f"--set {absent[0].name}=N gives it",
        )
    shape = tuple(evaluate(e, sizes) for e in tensor.shape)
    if math.prod(n or 1 for n in shape) > MOST_ELEMENTS:
        message = f"input `{tensor.name}` has too many elements: shape {list(shape)}"
        raise error("E0901", message, tensor.span)
    if tensor.dtype.is_real:
        values: Array = rng.standard_normal(shape, np.float32)
    else:
        values = rng.integers(0, 2, shape)
    return values if tensor.dtype.is_abstract else to_dtype(values, tensor.dtype.numpy())


# -------------------------------------------------------------------- outputs


def name_outputs(ports: tuple[Port, ...], result: object) -> dict[str, Value]:
    """The result of a call by the names of the outputs."""
    results = result if len(visible_ports(ports)) != 1 else (result,)
    assert isinstance(results, tuple)
    return dict(zip((port.name for port in visible_ports(ports)), results, strict=True))


def write_outputs(where: str, outputs: Mapping[str, Value]) -> None:
    """Write one output to a file (`NAME=FILE`), or all into a folder."""
    name, equals, file = where.partition("=")
    if not equals:
        folder = Path(where)
        make_folder(folder)
        for label, array in _flat(outputs):
            _write_array(folder / f"{label}.npy", array)
        return
    chosen = dict(_flat(outputs))
    if name not in chosen:
        notes = [f"it has: {', '.join(chosen)}"]
        raise error("E0801", f"the graph has no output `{name}`", notes=notes)
    _write_array(Path(file), chosen[name])


def _write_array(path: Path, array: Array) -> None:
    if array.dtype.name == "bfloat16":  # files hold its numbers in float32
        array = array.astype(np.float32)
    if path.suffix == ".dat":
        write_tensor(path, array)
        return
    try:
        with path.open("wb") as file:
            np.save(file, array)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise error("E0707", f"cannot write `{path}`: {reason}") from problem


def _flat(outputs: Mapping[str, Value]) -> list[tuple[str, Array]]:
    """Every array with its name; items of packs are numbered from 1."""
    return [
        (f"{name}:{k}" if isinstance(value, list) else name, array)
        for name, value in outputs.items()
        for k, array in enumerate(value if isinstance(value, list) else [value], 1)
    ]


def _summary(name: str, array: Array) -> dict[str, object]:
    row: dict[str, object] = {"output": name, "shape": list(array.shape), "dtype": str(array.dtype)}
    if array.size:
        values = array.astype(np.float64)
        for title, value in [("min", values.min()), ("mean", values.mean()), ("max", values.max())]:
            row[title] = float(value) if np.isfinite(value) else str(value)
    return row


def _print(rows: list[dict[str, object]], seconds: float | None, as_json: bool) -> None:
    if as_json:
        print_json({"outputs": rows} | ({"seconds": seconds} if seconds else {}))
        return
    header = ["output", "shape", "dtype", "min", "mean", "max"]
    cells = [[_cell(row.get(title, "")) for title in header] for row in rows]
    print_table(header, cells, right="min mean max")
    if seconds:
        print(f"\nmedian time of a call: {seconds * 1e3:.3f} ms")


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
