"""From a graph with the values of its variables to what an object file is made of."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence

from ..backends.llvm.image import arrange
from ..backends.llvm.jit import compile_text, module_text
from ..backends.llvm.kernels import KernelCode
from ..backends.llvm.machine import machine_of
from ..backends.llvm.schedule import Schedules
from ..backends.llvm.standalone_unit import (
    Argument,
    Array,
    Count,
    Length,
    Pack,
    Shape,
    Size,
    State,
    Unit,
)
from ..backends.llvm.steps import Image
from ..backends.llvm.target import Target
from ..diagnostics import Error, error
from ..dtypes import DType, Types
from ..ir.interpret_bind import set_size, unknown_checks
from ..ir.interpret_block import Store
from ..ir.limits import fits_memory
from ..ir.loops import Program
from ..ir.nodes import Expr, Graph, Symbol, Tensor, integer
from ..ir.rewrite import free_symbols
from ..ir.shapes import interval
from ..passes.pipeline import lower
from ..passes.specialise import specialise
from ..records import dataclass, replace
from ..runtime import tuning_file
from ..runtime.instance import Loaded, Weights, most_steps
from ..runtime.options import Options
from ..runtime.pool import this_machine
from ..runtime.preparation import needed_later
from ..runtime.signature import with_state
from ..runtime.variables import VariableValues
from .conditions import Cells, Conditions
from .interface import Interface, Parameter, describe


@dataclass(frozen=True, slots=True)
class Plan:
    unit: Unit
    interface: Interface


@dataclass(frozen=True, slots=True)
class Wish:
    """What a caller decides: names and sizes, the processor, the threads at most."""

    prefix: str
    types: Types
    target: Target
    runs_here: bool
    """Whether this machine can run the target's code."""
    threads: int
    sizes: Mapping[str, object]
    options: Options
    separate: bool | None
    """Whether the data gets a file of its own; none: if it is large."""


LARGE = 16 << 20
"""Bytes of data from which they stand in a file of their own."""
MOST_EMBEDDED = 128 << 20
"""Bytes of data that an object can have: writing it takes ten times as many."""


def make_plan(graph: Graph, values: VariableValues, wish: Wish) -> Plan:
    """What to write for a graph.

    Raises `Error` E0801 for a size that the graph does not have, E0805 for one that needs a value,
    and what compiling and preparing variables raise.
    """
    known = _fixed(graph, wish.sizes)
    stateful = with_state(graph)
    _check_bounds(graph, known)
    concrete = specialise(stateful, known, wish.types)
    _check_memory(concrete)
    machine = machine_of(wish.target)
    program = lower(stateful, known, wish.types, states=len(graph.updates), machine=machine)
    image, codes, _ = arrange(program, wish.target, _schedules(stateful, known, wish))
    interface = describe(*_without_state(concrete, len(graph.updates)))
    cells = Cells(program, wish.target, _meanings(graph, concrete, program, known))
    conditions = Conditions(graph, concrete, cells)
    shapes = [e for p in _open(interface.outputs) for e in _extents(concrete, p)]
    after, places = cells.stage(shapes)
    data = _data(graph, values, image, codes, wish)
    unit = Unit(
        wish.prefix, image, {**codes, **cells.codes}, _arguments(interface, image, places),
        _states(graph, values, image), conditions.before, conditions.tests, after,
        conditions.explain, data, cells.count, _zeros(interface), wish.threads, most_steps(),
        _is_separate(data, wish),
    )  # fmt: skip
    return Plan(unit, interface)


def _meanings(
    graph: Graph, concrete: Graph, program: Program, known: Mapping[Symbol, int]
) -> dict[Symbol, Expr]:
    """What the symbols of a graph, and of the specialised one, stand for in the program."""
    sizes: dict[Symbol, Expr] = {s: integer(n) for s, n in known.items()}
    for symbols in (
        [*(s for s in graph.symbols if s not in known), *(s for s, _ in graph.sizes)],
        [*concrete.symbols, *(s for s, _ in concrete.sizes)],
    ):
        sizes |= dict(zip(symbols, program.symbols, strict=True))
    return sizes


def _schedules(graph: Graph, known: Mapping[Symbol, int], wish: Wish) -> Schedules:
    """The schedules that the options ask for; what was tuned is for sizes that are all known."""
    options, is_open = wish.options, len(known) < len(graph.symbols)
    here = options.of(this_machine())
    if not options.tuned or is_open or wish.target != replace(here, cores=wish.threads):
        return options.schedules_for(graph)
    threads = wish.threads
    key = tuning_file.key_of(graph, wish.types, threads, known, {}, here)
    entry, _ = tuning_file.find(key, options.file)
    if entry is None:
        return options.schedules_for(graph)
    return Schedules(entry.schedules, lenient=True)


# ---------------------------------------------------------------------- sizes


def _fixed(graph: Graph, sizes: Mapping[str, object]) -> dict[Symbol, int]:
    """The values that a caller gives to open sizes, with which the graph's checks hold."""
    symbols = {s.name: s for s in graph.symbols}
    known: dict[Symbol, int] = {}
    for name, value in sizes.items():
        if name not in symbols:
            notes = [f"it has: {', '.join(symbols) or 'none'}"]
            raise error("E0801", f"the graph has no open size `{name}`", notes=notes)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise error("E0801", f"the size `{name}` cannot be {value!r:.60}")
        known[symbols[name]] = value
    store = Store()
    for symbol, value in known.items():
        if symbol.bound is not None and set(known).issuperset(free_symbols(symbol.bound)):
            set_size(store, symbol, value, symbol.span)
        store.symbols[symbol] = value
    unknown_checks(graph.checks, store)
    return known


def _check_bounds(graph: Graph, known: Mapping[Symbol, int]) -> None:
    """Raise E0805 for a size that stays open without a bound, or with one that is not known yet."""
    for symbol in graph.symbols:
        bound = symbol.bound
        if symbol in known:
            continue
        if bound is None or not math.isfinite(interval(bound)[1]):
            raise _needs_value(symbol, "has no upper bound")
        if not known.keys().isdisjoint(free_symbols(bound)):
            raise _needs_value(symbol, "has a bound that follows from a size that is given")


def _check_memory(concrete: Graph) -> None:
    """Raise E0805 if the sizes that stay open allow more than the memory holds."""
    if concrete.symbols and not fits_memory(concrete):
        raise _needs_value(concrete.symbols[0], "allows more than the memory holds")


def _needs_value(symbol: Symbol, why: str) -> Error:
    return error(
        "E0805",
        f"an object file cannot have the open size `{symbol.name}`, which {why}",
        symbol.span,
        help=f"--set {symbol.name}=N, or `sizes`, gives it a value",
    )


# ------------------------------------------------------------------ arguments


def _without_state(concrete: Graph, count: int) -> tuple[Graph, list[Tensor]]:
    """The graph with the inputs and outputs that callers see; the variables that are the others."""
    inputs, outputs = concrete.inputs, concrete.outputs
    seen = len(inputs) - count
    shown = replace(concrete, inputs=inputs[:seen], outputs=outputs[: len(outputs) - count])
    return shown, [t for p in inputs[seen:] for t in p.tensors]


def _open(outputs: Sequence[Parameter]) -> list[Parameter]:
    return [p for p in outputs if p.shape]


def _extents(graph: Graph, parameter: Parameter) -> list[Expr]:
    tensors = [t for p in graph.outputs for t in p.tensors]
    mine = tensors[parameter.first : parameter.first + len(parameter.items)]
    return [e for t in mine for e in t.shape]


def _arguments(interface: Interface, image: Image, shapes: Sequence[int]) -> tuple[Argument, ...]:
    """The arguments of a call; `shapes` are the cells of the shapes of results, in order."""
    out: list[Argument] = [
        Size(s.name, k, s.most if s.bound.isdigit() else None)
        for k, s in enumerate(interface.sizes)
    ]
    for parameter in interface.inputs:
        out += _given(parameter, 0)
    rest = list(shapes)
    for parameter in interface.outputs:
        first = len(image.inputs)
        out += _given(replace(parameter, count=""), first)
        if parameter.count:
            bits = 8 * DType(image.outputs[parameter.length].dtype).numpy().itemsize
            out.append(Length(parameter.count, first + parameter.length, bits))
        if parameter.shape:
            count = sum(len(i.shape) for i in parameter.items)
            out.append(Shape(parameter.shape, tuple(rest[:count])))
            rest = rest[count:]
    return tuple(out)


def _given(parameter: Parameter, first: int) -> list[Argument]:
    """The arguments that say where the elements of an input or output are."""
    numbers = tuple(range(first + parameter.first, first + parameter.first + len(parameter.items)))
    if not parameter.packed:
        return [Array(parameter.name, numbers[0])]
    if not parameter.count:
        return [Pack(parameter.name, numbers)]
    count = Count(parameter.count, first + parameter.length, len(numbers))
    return [count, Pack(parameter.name, numbers, count)]


def _zeros(interface: Interface) -> int:
    sizes = [i.bytes for p in interface.inputs if p.count for i in p.items]
    return max(sizes, default=0)


# ----------------------------------------------------------------------- data


def _states(graph: Graph, values: VariableValues, image: Image) -> tuple[State, ...]:
    changed = [old for old, _ in graph.updates]
    count = len(changed)
    first_input = len(image.inputs) - count
    first_output = len(image.inputs) + len(image.outputs) - count
    return tuple(
        State(tensor.name, first_input + k, first_output + k, array.tobytes())
        for k, (tensor, array) in enumerate(zip(changed, values.of(changed), strict=True))
    )


def _data(
    graph: Graph,
    values: VariableValues,
    image: Image,
    codes: Mapping[str, KernelCode],
    wish: Wish,
) -> dict[tuple[str, int], bytes]:
    """Constants by kind and number, with what is prepared from them if this can be done here."""
    changed = {old for old, _ in graph.updates}
    constant = [v for v in graph.variables if v not in changed]
    arrays = values.of(constant, image.variable_dtypes)
    data = {("variable", k): array.tobytes() for k, array in enumerate(arrays)}
    data |= {("constant", k): bytes for k, (_, bytes) in enumerate(image.constants)}
    if not wish.runs_here:
        return data
    needed = {s.symbol for s in image.prepare}
    text = module_text([(s, c) for s, c in codes.items() if s in needed], wish.target)
    here = this_machine()
    code = compile_text(text, replace(wish.target, triple=here.triple))
    loaded = Loaded(replace(image, code=(code,), steps=()))
    weights = Weights(loaded, arrays, 1, late=needed_later(image))
    for number, (address, size) in enumerate(zip(weights.kept, image.kept, strict=True)):
        data["kept", number] = ctypes.string_at(address, size) if address else b""
    return data


def _is_separate(data: Mapping[tuple[str, int], bytes], wish: Wish) -> bool:
    """Whether constants get a file of their own; E0901 if they must not and are too large."""
    size = sum(map(len, data.values()))
    if wish.separate is False and size > MOST_EMBEDDED:
        raise error(
            "E0901",
            f"an object file with {size >> 20} MB of constants is too large",
            notes=[f"at most {MOST_EMBEDDED >> 20} MB are embedded"],
            help='--weights file, or `weights="file"`, writes them to a file of their own',
        )
    return size > LARGE if wish.separate is None else wish.separate
