"""What compiling a model gives: something to call with arrays."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, cast

import numpy as np

from ..backends.llvm.image import Image, build
from ..diagnostics import error
from ..dtypes import DType
from ..ir import interpret_bind
from ..ir.interpret import interpret
from ..ir.interpret_block import Store
from ..ir.limits import check_memory
from ..ir.nodes import Graph, Operation, Port, Symbol, Tensor
from ..ir.rewrite import free_symbols
from ..ir.shapes import evaluate
from ..ir.text_print import format_expr, format_graph
from ..passes.pipeline import lower
from ..passes.specialise import Types
from . import cache, image_file
from .arguments import Array, Inputs, PortInfo, describe, fit, is_torch, to_torch
from .instance import Loaded, Weights
from .pool import this_machine, thread_count

_REALS = ("float16", "float32", "float64")
_INTS = ("int8", "int16", "int32", "int64")


def compile_graph(
    graph: Graph,
    variables: Mapping[str, Array] | None = None,
    target: str = "cpu",
    threads: int | None = None,
    real: str = "float32",
    int: str = "int64",
) -> Executable:
    """A graph as something to call; see `Executable`.

    `target` is "cpu" or "interpreter". A graph of fixed sizes is compiled at once, one with symbols
    for each choice of sizes when it first occurs. Raises `Error` E0801 for an argument that is
    not one of the choices, E0805 for what the target cannot execute, E0901 for a tensor larger
    than the memory.
    """
    if target not in ("cpu", "interpreter"):
        raise error("E0801", f"there is no target `{target}`", notes=["targets: cpu, interpreter"])
    _check_choice("real", real, _REALS)
    _check_choice("int", int, _INTS)
    types = Types(DType(real), DType(int))
    check_memory(graph)
    if target == "interpreter":
        return Executable(graph, variables or {}, types, _Interpreter(graph, types))
    check_static(graph)
    return Executable(graph, variables or {}, types, _Native(graph, types, thread_count(threads)))


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise error(
            "E0801", f"`{value}` cannot stand for {name}", notes=[f"choices: {', '.join(choices)}"]
        )


def check_static(graph: Graph) -> None:
    """Refuse what native code is not made for, and say where it is."""
    for step in graph.operations:
        if not isinstance(step, Operation):
            kind = type(step).__name__.lower()
            raise error(
                "E0805",
                f"the target `cpu` does not run a {kind} that depends on data",
                step.span,
                help='compile with target="interpreter"',
            )
    if graph.updates:
        raise error(
            "E0805",
            f"the target `cpu` does not update variables: `{graph.updates[0][0].name}`",
            graph.updates[0][0].span,
            help='compile with target="interpreter"',
        )
    _check_sizes(graph)


def _check_sizes(graph: Graph) -> None:
    """Refuse tensors of a size that data defines where they are more than results."""
    defined = {symbol for symbol, _ in graph.sizes}
    for step in graph.operations if defined else ():
        for tensor in cast(Operation, step).inputs:
            if defined & {x for e in tensor.shape for x in free_symbols(e)}:
                raise error(
                    "E0805",
                    f"the target `cpu` does not compute with `{tensor.name}`, whose size is known"
                    " only when its elements are",
                    step.span,
                    help='compile with target="interpreter"',
                )


class Executable:
    """A compiled graph.

    Call it with arrays, by position or by name: NumPy arrays, PyTorch tensors on the CPU, or
    whatever has `__dlpack__` or `__array__`; a pack is a list or tuple of them; an optional input
    may be `None`. It gives one array, or a named tuple of them (a pack is a list): PyTorch tensors
    if an argument was one, else NumPy arrays. Arguments are never modified; contiguous ones of the
    right dtype are not copied. May be called from several threads at once.

    Raises `Error`: E0801 wrong arguments or a variable without value, E0804 sizes that do not
    agree, E0501 an assertion about sizes, E0802 an index out of range, E0803 an integer
    divided by zero.
    """

    def __init__(
        self, graph: Graph, variables: Mapping[str, Array], types: Types, engine: _Engine
    ) -> None:
        self._graph = graph
        self._types = types
        self._engine = engine
        self._inputs = Inputs(graph.name, graph.inputs, _dtypes(graph.inputs, types))
        self.name = graph.name
        self.inputs: tuple[PortInfo, ...] = _describe(graph.inputs, types)
        self.outputs: tuple[PortInfo, ...] = _describe(graph.outputs, types)
        self.variables = VariableValues(graph, types, engine)
        for name in variables:
            self.variables[name] = variables[name]
        self._result = _result_type(graph)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if not kwargs and self._inputs.are_ready(args):
            return self._wrapped(self._engine.run(args, self.variables))
        arrays = self._inputs.collect(args, kwargs)
        results = self._engine.run(arrays, self.variables)
        if any(map(_has_torch, args)) or any(map(_has_torch, kwargs.values())):
            return self._wrapped([to_torch(r) for r in results])
        return self._wrapped(results)

    def _wrapped(self, results: Sequence[object]) -> Any:
        if self._result is None and not self._graph.outputs[0].packed:
            return results[0]
        items: list[object] = []
        at = 0
        for port in self._graph.outputs:
            group = list(results[at : at + len(port.tensors)])
            at += len(port.tensors)
            items.append(group if port.packed else group[0])
        return items[0] if self._result is None else self._result(*items)

    def __repr__(self) -> str:
        return f"<ricci.Executable {self.name}: {_ports(self.inputs)} -> {_ports(self.outputs)}>"


def _ports(ports: Sequence[PortInfo]) -> str:
    return ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in ports)


def _has_torch(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_torch, value))
    return is_torch(value)


def _dtypes(ports: Sequence[Port], types: Types) -> tuple[np.dtype[Any], ...]:
    return tuple(types.of(t.dtype).numpy() for p in ports for t in p.tensors)


def _describe(ports: Sequence[Port], types: Types) -> tuple[PortInfo, ...]:
    return tuple(describe(p, [types.of(t.dtype).value for t in p.tensors]) for p in ports)


def _result_type(graph: Graph) -> Any:
    """The named tuple of several outputs; none for a single one."""
    if len(graph.outputs) == 1:
        return None
    return namedtuple("Outputs", [p.name for p in graph.outputs], rename=True)


class VariableValues(MutableMapping[str, Array]):
    """The variables of an executable by scoped name.

    Setting one checks its shape and dtype, copies it if it has to be converted, and derives again
    what depends on it. Reading gives the array in use, not to be written to.
    """

    def __init__(self, graph: Graph, types: Types, engine: _Engine) -> None:
        self._tensors = {t.name: t for t in graph.variables}
        self._types = types
        self._engine = engine
        self._values: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array:
        self._check_name(name)
        if name not in self._values:
            raise _missing([name])
        return self._values[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._check_name(name)
        tensor = self._tensors[name]
        dtype = self._types.of(tensor.dtype).numpy()
        array = fit(value, dtype, tensor.dtype, tensor.rank, f"variable `{name}`")
        shape = tuple(evaluate(e, {}) for e in tensor.shape)
        if array.shape != shape:
            raise error(
                "E0801",
                f"variable `{name}` has another shape",
                tensor.span,
                notes=[f"expected {list(shape)}", f"got {list(array.shape)}"],
            )
        self._values[name] = array
        self._engine.variables_changed()

    def __delitem__(self, name: str) -> None:
        raise error("E0801", f"variable `{name}` is part of the program and cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def in_order(self) -> list[Array]:
        """All values; E0801 if some are not set."""
        missing = [name for name in self._tensors if name not in self._values]
        if missing:
            raise _missing(missing)
        return [self._values[name] for name in self._tensors]

    def _check_name(self, name: str) -> None:
        if name not in self._tensors:
            known = ", ".join(self._tensors) or "none"
            raise error("E0801", f"there is no variable `{name}`", notes=[f"variables: {known}"])


def _missing(names: Sequence[str]) -> Exception:
    shown = ", ".join(f"`{n}`" for n in names[:8]) + (" ..." if len(names) > 8 else "")
    return error(
        "E0801",
        f"variables without a value: {shown}",
        help=f"assign executable.variables[{names[0]!r}], or write random ones with `ricci init`",
    )


class _Engine:
    """How an executable computes."""

    def run(self, arrays: Sequence[Array], variables: VariableValues) -> list[Array]:
        raise AssertionError("an engine runs programs")

    def variables_changed(self) -> None:
        """Forget what was derived from variables."""


class _Interpreter(_Engine):
    def __init__(self, graph: Graph, types: Types) -> None:
        self.graph = graph
        self.types = types

    def run(self, arrays: Sequence[Array], variables: VariableValues) -> list[Array]:
        inputs: dict[str, Any] = {}
        rest = iter(arrays)
        for port in self.graph.inputs:
            items = [next(rest) for _ in port.tensors]
            inputs[port.name] = items if port.packed else (items[0] if items else None)
        values = dict(zip(variables, variables.in_order(), strict=True))
        updated: dict[str, Array] = {}
        results = interpret(
            self.graph, inputs, values, self.types.real.value, self.types.int.value, updated=updated
        )
        for name, value in updated.items():
            variables[name] = value
        out: list[Array] = []
        for port in self.graph.outputs:
            found = results[port.name]
            out += found if isinstance(found, list) else [found]
        return out


class _Native(_Engine):
    """Native code, one specialisation per choice of sizes."""

    def __init__(self, graph: Graph, types: Types, threads: int) -> None:
        self.graph = graph
        self.types = types
        self.threads = threads
        self._tensors = [t for p in graph.inputs for t in p.tensors]
        self._lock = RLock()
        self._loaded: dict[tuple[int, ...], Loaded] = {}
        self._by_shapes: dict[tuple[tuple[int, ...], ...], Loaded] = {}
        self._weights: dict[Loaded, Weights] = {}
        self._counted = _with_counts(graph)
        if not graph.symbols:
            self._load({})

    @functools.cached_property
    def _text(self) -> str:
        return format_graph(self.graph)

    def run(self, arrays: Sequence[Array], variables: VariableValues) -> list[Array]:
        shapes = tuple([a.shape for a in arrays])
        loaded = self._by_shapes.get(shapes)
        if loaded is None:
            loaded = self._bind(arrays, shapes)
        weights = self._weights.get(loaded)
        if weights is None:
            weights = self._prepare(loaded, variables)
        outputs = [np.empty(shape, dtype) for shape, dtype in loaded.outputs]
        instance = weights.take()
        try:
            instance.run([*arrays, *outputs])
            if instance.can_fail:
                instance.raise_failures()
        finally:
            weights.give(instance)
        return self._cut(outputs) if self.graph.sizes else outputs

    def _cut(self, arrays: list[Array]) -> list[Array]:
        """The results at the sizes that the last arrays hold; they were computed at the bounds."""
        known = len(arrays) - len(self.graph.sizes)
        sizes = {s: int(n) for (s, _), n in zip(self.graph.sizes, arrays[known:], strict=True)}
        tensors = [t for p in self.graph.outputs for t in p.tensors]
        out: list[Array] = []
        for tensor, array in zip(tensors, arrays, strict=False):
            ends = [sizes.get(e) if isinstance(e, Symbol) else None for e in tensor.shape]
            out.append(np.ascontiguousarray(array[tuple(slice(0, end) for end in ends)]))
        return out

    def variables_changed(self) -> None:
        self._weights.clear()

    def _prepare(self, loaded: Loaded, variables: VariableValues) -> Weights:
        with self._lock:
            weights = self._weights.get(loaded)
            if weights is None:
                weights = Weights(loaded, variables.in_order(), self.threads)
                self._weights[loaded] = weights
            return weights

    def _bind(self, arrays: Sequence[Array], shapes: tuple[tuple[int, ...], ...]) -> Loaded:
        """Check the shapes of arguments, find the sizes, and load the code for them."""
        store = Store(self.types.real.value, self.types.int.value)
        store.arrays.update(zip(self._tensors, arrays, strict=True))
        _check_shapes(self.graph, store)
        sizes = {s: int(store.symbols[s]) for s in self.graph.symbols}
        with self._lock:
            loaded = self._load(sizes)
            self._by_shapes[shapes] = loaded
            return loaded

    def _load(self, sizes: dict[Symbol, int]) -> Loaded:
        key = tuple(sizes[s] for s in self.graph.symbols)
        if key not in self._loaded:
            self._loaded[key] = Loaded(self._image(sizes, key))
        return self._loaded[key]

    def _image(self, sizes: dict[Symbol, int], key: tuple[int, ...]) -> Image:
        target = this_machine()
        name = cache.key("program", self._text, repr((key, self.types, target)))
        data = cache.read(name)
        image = None if data is None else image_file.unpack(data)
        if image is None:
            bounds = {s: evaluate(s.bound, sizes) for s, _ in self.graph.sizes if s.bound}
            image = build(lower(self._counted, {**sizes, **bounds}, self.types), target)
            cache.write(name, image_file.pack(image))
        return image


def _with_counts(graph: Graph) -> Graph:
    """The graph with the sizes that data defines as results, after the others."""
    counts = tuple(Port(symbol.name, (tensor,)) for symbol, tensor in graph.sizes)
    return replace(graph, outputs=(*graph.outputs, *counts)) if counts else graph


def _check_shapes(graph: Graph, store: Store) -> None:
    """Bind the symbols of a graph to the shapes of its arguments, and test all conditions."""
    tensors = [t for p in graph.inputs for t in p.tensors]
    for port in graph.inputs:
        for tensor in port.tensors:
            _check_fixed(port, tensor, store.arrays[tensor])
    interpret_bind.bind_shapes(tensors, store)
    interpret_bind.unknown_checks(graph.checks, store)


def _check_fixed(port: Port, tensor: Tensor, array: Array) -> None:
    """Compare a shape with what its declaration fixes."""
    declared = [format_expr(e) for e in tensor.shape]
    for text, size in zip(declared, array.shape, strict=True):
        if text.isdigit() and int(text) != size:
            raise error(
                "E0801",
                f"input `{port.name}` has another shape",
                tensor.span,
                notes=[f"expected [{', '.join(declared)}]", f"got {list(array.shape)}"],
            )
