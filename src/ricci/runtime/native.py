"""Native code as an engine: compiled once for all sizes, or once per choice of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import field
from functools import partial
from threading import RLock
from typing import Any, cast

import numpy as np

from ..backends.llvm.schedule import NO_SCHEDULES, Schedules
from ..backends.llvm.steps import Image
from ..backends.llvm.target import Target
from ..diagnostics import Error, error
from ..dtypes import Types
from ..ir import interpret_bind
from ..ir.interpret_bind import checks_on_data, hidden_ports
from ..ir.interpret_block import Store
from ..ir.loops import Program
from ..ir.nodes import Graph, Symbol
from ..ir.rewrite import free_symbols
from ..ir.shapes import evaluate
from ..records import dataclass, replace
from . import cache, image_file, tuning_file
from .arguments import Array
from .at_once import AtOnce
from .blocks import give_back
from .compiler_process import image_of, on_this_machine
from .engine import Engine
from .instance import UNSET, Instance, Loaded, Weights
from .options import Options
from .pool import generation, this_machine
from .repeated import Repeated
from .results import Wanted, is_big, make_big_results, make_results
from .signature import (
    check_out,
    check_shapes,
    doubtful,
    has_bounds,
    largest,
    strides_of,
    with_state,
)
from .variables import VariableValues
from .whole import Whole
from .work import Work

Key = tuple[tuple[int, ...] | None, ...]
"""The shapes of arguments; followed by their strides, where these count."""
_LARGE = 32 << 20
"""Bytes of variables beside which memory that nobody uses is little, and worth giving back."""
_MOST_CALLS = 4096
"""How many choices of argument shapes are remembered."""


@dataclass(slots=True, eq=False)
class _Call:
    """What is known about calls with arguments of certain shapes."""

    loaded: Loaded
    sizes: Array | None
    """Of the symbols that stayed open; none if there are none."""
    known: dict[Symbol, int]
    outputs: list[Wanted]
    """Of the results, each at its largest."""
    whole: bool
    """Whether all tensors of the inputs have arrays."""
    make: Callable[[Sequence[Wanted]], list[Array]] = make_results
    """What makes arrays for the results."""
    weights: Weights | None = None
    """With what to run, where that is all there is to a call."""
    known_to: dict[tuple[bool, bool], AtOnce] = field(default_factory=dict)
    """Who knows such calls with arrays, or else with tensors; with some for results, or without."""

    def __post_init__(self) -> None:
        if any(is_big(*wanted) for wanted in self.outputs):
            self.make = make_big_results

    def states(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The variables, the last inputs, that are changed in place."""
        count = self.loaded.image.states
        return inputs[len(inputs) - count :] if count else ()


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A call that is ready to be run, again and again, with results that nobody else has."""

    weights: Weights
    threads: int
    inputs: list[Array]
    outputs: list[Array]
    sizes: Array | None
    program: Program
    """What its steps were made from."""


@dataclass(slots=True, eq=False)
class _Stale:
    """Weights of before variables were set, and which these are."""

    weights: Weights | None
    changed: set[str]


class Native(Engine):
    """Native code.

    If all symbols have upper bounds, or a batch is done item by item, it is made once, with the
    sizes of a call as arguments; else those that the shapes of inputs define are fixed, for each
    choice of them. If `strided`, it is made for each choice of strides too, and arguments need not
    be contiguous; the graph then has no control flow, and no symbol a bound. A `graph` without
    operations has them in `whole`.
    """

    def __init__(
        self,
        graph: Graph,
        types: Types,
        threads: int,
        strided: bool = False,
        options: Options | None = None,
        target: Target | None = None,
        whole: Whole | None = None,
    ) -> None:
        self.graph = graph
        self._whole = whole or Whole(lambda: graph)
        self.options = options or Options()
        self.types = types
        self.threads = threads
        self.strided = strided
        self._updated = [old for old, _ in graph.updates]
        self._program = with_state(graph)
        self._inputs = [t for p in graph.inputs for t in p.tensors]
        self._outputs = [t for p in self._program.outputs for t in p.tensors]
        self._constant = [v for v in graph.variables if v not in self._updated]
        self._lock = RLock()
        self._checks = checks_on_data(graph)
        self._doubtful = doubtful(graph)
        self._turns = RLock()
        self._is_plain = all(not p.packed and p.length is None for p in graph.outputs)
        self._is_simple = self._is_plain and not (self._updated or graph.sizes)
        self._loaded: dict[object, Loaded] = {}
        self._calls: dict[Key, _Call] = {}
        self._again: Repeated[_Call] = Repeated()
        self._weights: dict[Loaded, Weights] = {}
        self._stale: dict[Loaded, _Stale] = {}
        self._forget()
        self._threads: dict[Loaded, int] = {}
        """Where tuning has found that fewer are better."""
        self.is_open = bool(graph.symbols) and (has_bounds(graph) or self._is_by_items())
        there = self._whole.compiler
        found = nullcontext(there) if target else on_this_machine(graph, there)
        with found as self._compiler:
            self.target = self.options.of(target or replace(this_machine(), cores=threads))
            if self.is_open or not (graph.symbols or strided):
                self._load({})

    def _is_by_items(self) -> bool:
        """Whether a graph without bounds is that of one item, done for each of a batch."""
        if self.strided or self.options.tuned:
            return False
        from ..passes.items import open_batch

        return open_batch(self.graph, self.types) is not None

    def run(
        self,
        arrays: Sequence[Array | None],
        variables: VariableValues,
        out: Sequence[Array] | None = None,
    ) -> list[object]:
        key = self._key(arrays)
        call = self._calls.get(key)
        if call is None:
            call = self._bind(arrays, key)
        if out is not None:
            check_out(self.graph, call.outputs, out)
        given = arrays if call.whole else self._completed(arrays, call)
        return self._finish(call, variables, given, out)

    def run_again(
        self, args: tuple[Any, ...], variables: VariableValues, out: tuple[Any, ...] = ()
    ) -> list[object] | None:
        # All that a call of a small graph takes time for: written to take little.
        if args and type(args[0]) is np.ndarray:
            call = self._again.of_arrays(args, out)
            if call is None:
                return None
            words: Sequence[Any] = args
        else:
            found = self._again.of_tensors(args, out)
            if found is None:
                return None
            call, words = found
        weights = call.weights
        if weights is None:
            arrays, addresses = (args, ()) if words is args else ((), words)
            return self._finish(call, variables, arrays, out, addresses)
        outputs: list[Any] = list(out) if out else call.make(call.outputs)
        instance = weights.take(call.sizes)
        if out and words is not args:
            instance.run_simply(*words)
        else:
            instance.run_simply(*words, *outputs)
        weights.give(instance)
        self._know(call, weights, args, out)
        return outputs

    def _know(
        self, call: _Call, weights: Weights, args: tuple[Any, ...], out: tuple[Any, ...] = ()
    ) -> None:
        """Let native code make calls with arguments like these, unless it is known to do so. For
        each kind it has an instance, so there are not to be many large ones for open sizes."""
        if call.sizes is not None and not weights.is_small:
            return
        kind = type(args[0]) is np.ndarray, bool(out)
        known = call.known_to.get(kind)
        if known is self._at_once[out != ()] and self._generation == generation():
            return
        with self._lock:
            if self._generation != generation():
                self._forget()
            calls = self._at_once[out != ()]
            if call.weights is weights and call.known_to.get(kind) is not calls:
                call.known_to[kind] = calls
                take = partial(weights.take, call.sizes)
                calls.add(args + out, [] if out else call.outputs, take, len(out))
                self.at_once, self.into_at_once = (known.call for known in self._at_once)

    def _forget(self) -> None:
        """No calls are known to native code any more."""
        self._generation = generation()
        self._at_once = AtOnce(), AtOnce()
        """Without arrays for results, and with some."""
        self.at_once = self.into_at_once = None

    def run_unchecked(
        self, args: tuple[Any, ...], variables: VariableValues
    ) -> list[object] | None:
        try:
            call = self._calls.get(self._key(args))
        except AttributeError:
            return None
        return self._finish(call, variables, args, None) if call and call.whole else None

    def remember(
        self, args: tuple[Any, ...], arrays: Sequence[Array | None], out: Sequence[Any] = (),
        targets: Sequence[Array] = (),
    ) -> None:  # fmt: skip
        call = self._calls.get(self._key(arrays))
        if call is None or not call.whole:
            return
        known = self._again.remember(args, tuple(out), [*arrays, *targets], call)
        if known and call.weights and not out and type(args[0]) is not np.ndarray:
            self._know(call, call.weights, args)

    def _finish(
        self,
        call: _Call,
        variables: VariableValues,
        arrays: Sequence[Any],
        out: Sequence[Any] | None,
        addresses: Sequence[int] = (),
    ) -> list[object]:
        """The results of a call; `addresses` stand for the first arrays, of `out` too."""
        weights = self._weights.get(call.loaded)
        if weights is None:
            weights = self._prepare(call.loaded, variables)
        if self._is_simple and weights.is_simple:
            call.weights = weights
        if not self._updated:
            return self._by_port(self._execute(call, weights, arrays, out, addresses))
        with self._turns:
            if call.loaded.image.states:
                with variables.owned(self._updated) as states:
                    given = [*arrays, *states]
                    return self._by_port(self._execute(call, weights, given, None, addresses))
            given = [*arrays, *variables.of(self._updated)]
            results = self._execute(call, weights, given, None, addresses)
            known = len(results) - len(self._updated)
            variables.advance(self._updated, results[known:])
        return self._by_port(results[:known])

    def _key(self, arrays: Sequence[Array | None]) -> Key:
        key: Key = tuple([None if a is None else a.shape for a in arrays])
        if self.strided:
            key += tuple([None if a is None else a.strides for a in arrays])
        return key

    def _execute(
        self,
        call: _Call,
        weights: Weights,
        arrays: Sequence[Any],
        out: Sequence[Any] | None = None,
        addresses: Sequence[int] = (),
    ) -> list[Array]:
        """The results, and then the new values of variables that are not changed in place."""
        outputs = list(out or call.make(call.outputs))
        behind = [] if out and addresses else [*outputs, *call.states(arrays)]
        instance = weights.take()
        try:
            instance.run([*arrays, *behind], call.sizes, addresses)
            if self.graph.sizes:
                outputs = self._cut(outputs, self._defined(instance, call))
            if instance.can_fail:
                instance.raise_failures()
        finally:
            instance.forget_failures()
            weights.give(instance)
        return outputs

    def _defined(self, instance: Instance, call: _Call) -> dict[Symbol, int]:
        """All sizes after a call; raises the error of one that is out of its bounds."""
        store = Store()
        store.symbols.update(call.known)
        for (symbol, _), value in zip(self.graph.sizes, instance.wanted.tolist(), strict=True):
            if value != UNSET:
                interpret_bind.set_size(store, symbol, value, symbol.span)
        for check, failed in zip(self._checks, instance.failed.tolist(), strict=True):
            if failed:
                raise interpret_bind.failed_check(check, store)
        return store.symbols

    def _cut(self, arrays: list[Array], sizes: Mapping[Symbol, int]) -> list[Array]:
        """The results at their sizes; each is compact in an array of its largest size."""
        out = []
        for tensor, array in zip(self._outputs, arrays, strict=True):
            if all(s in sizes for s in free_symbols(*tensor.shape)):
                shape = tuple(evaluate(e, sizes) for e in tensor.shape)
                if shape != array.shape:
                    array = array.reshape(-1)[: math.prod(shape)].reshape(shape).copy()
            out.append(array)
        return out

    def _by_port(self, arrays: list[Array]) -> list[object]:
        """What callers see: packs as lists, as long as they are, and no hidden ports."""
        if self._is_plain:
            return cast("list[object]", arrays)
        graph = self.graph
        values = dict(zip(self._outputs, arrays, strict=False))
        hidden = hidden_ports(graph.outputs)
        out: list[object] = []
        for port in graph.outputs:
            if port in hidden:
                continue
            length = None if port.length is None else int(values[port.length])
            items = [values[t] for t in port.tensors[:length]]
            out.append(items if port.packed else items[0])
        return out

    def _completed(self, arrays: Sequence[Array | None], call: _Call) -> list[Array]:
        """The arguments, with zeros for items of packs that are not there."""
        out = []
        for tensor, array in zip(self._inputs, arrays, strict=True):
            if array is None:
                shape = tuple(evaluate(e, call.known) for e in tensor.shape)
                array = np.zeros(shape, self.types.of(tensor.dtype).numpy())
            out.append(array)
        return out

    def trial(self, arrays: Sequence[Array | None], variables: VariableValues) -> Trial:
        """What a call with these arguments runs, to be looked at."""
        key = self._key(arrays)
        call = self._calls.get(key) or self._bind(arrays, key)
        weights = self._prepare(call.loaded, variables)
        known = {} if self.is_open else call.known
        strides = strides_of(arrays) if self.strided else {}
        inputs = [*self._completed(arrays, call), *(a.copy() for a in variables.of(self._updated))]
        return Trial(
            weights,
            self._threads.get(call.loaded, self.threads),
            inputs,
            [*call.make(call.outputs), *call.states(inputs)],
            call.sizes,
            self._work(known, strides).program(),
        )

    def variables_changed(self, name: str) -> None:
        with self._lock:
            for loaded, weights in self._weights.items():
                self._stale.setdefault(loaded, _Stale(weights, set()))
            for stale in self._stale.values():
                stale.changed.add(name)
            self._weights.clear()
            self._forget()
            for call in self._calls.values():
                call.weights = None

    def start(self, variables: VariableValues) -> None:
        if sum(t.bytes for k in self._loaded.values() for t in k.image.variables) > _LARGE:
            give_back()  # there is most in memory when the weights are there
        with suppress(Error, MemoryError):  # a call says what is wrong
            for loaded in self._loaded.values():
                self._prepare(loaded, variables)

    def prepare(self, shapes: Sequence[tuple[int, ...]]) -> None:
        arrays = [
            np.empty(shape, self.types.of(t.dtype).numpy())
            for t, shape in zip(self._inputs, shapes, strict=True)
        ]
        self._bind(arrays, self._key(arrays))

    def _prepare(self, loaded: Loaded, variables: VariableValues) -> Weights:
        with self._lock:
            weights = self._weights.get(loaded)
            if weights is None:
                threads = self._threads.get(loaded, self.threads)
                values = variables.held(self._constant, loaded.image.variable_dtypes)
                stale = self._stale.get(loaded, _Stale(None, set()))
                changed = [k for k, t in enumerate(self._constant) if t.name in stale.changed]
                weights = Weights(loaded, values, threads, stale.weights, frozenset(changed))
                self._weights[loaded] = weights
                self._stale.pop(loaded, None)
            return weights

    # ------------------------------------------------------------------- sizes

    def _bind(self, arrays: Sequence[Array | None], key: Key) -> _Call:
        """Check the shapes of arguments, find the sizes, and load the code for them."""
        store = Store(self.types.real.value, self.types.int.value)
        for tensor, array in zip(self._inputs, arrays, strict=True):
            if array is not None:
                store.arrays[tensor] = array
        check_shapes(self.graph, store)
        known = {s: int(store.symbols[s]) for s in self.graph.symbols}
        self._check_extents(known)
        sizes = np.array([known[s] for s in self.graph.symbols], np.int64)
        with self._lock:
            strides = strides_of(arrays) if self.strided else {}
            loaded = self._load({} if self.is_open else known, strides)
            opened = self.is_open or bool(self.graph.sizes)
            outputs = self._outputs[: len(self._outputs) - loaded.image.states]
            call = _Call(
                loaded,
                (sizes if self.is_open else sizes[:0]) if opened else None,
                known,
                [(largest(t, known), self.types.of(t.dtype).numpy()) for t in outputs],
                None not in key,
            )
            if len(self._calls) >= _MOST_CALLS:
                self._calls.clear()
            self._calls[key] = call
            return call

    def _check_extents(self, known: Mapping[Symbol, int]) -> None:
        """Raise E0804 if sizes make the extent of a tensor negative."""
        for tensor in self._doubtful:
            shape = [evaluate(e, known) for e in tensor.shape]
            if min(shape) < 0:
                message = f"`{tensor.name}` has a negative extent: {shape}"
                raise error("E0804", message, tensor.span)

    def _load(
        self, sizes: dict[Symbol, int], strides: Mapping[int, tuple[int, ...]] | None = None
    ) -> Loaded:
        strides = strides or {}
        key = (tuple(sizes.values()), tuple(strides.items()))
        if key not in self._loaded:
            schedules, threads = self._chosen(sizes, strides)
            loaded = Loaded(self._image(sizes, strides, key, schedules), self.target)
            self._loaded[key], self._threads[loaded] = loaded, threads
        return self._loaded[key]

    def _chosen(
        self, sizes: Mapping[Symbol, int], strides: Mapping[int, tuple[int, ...]]
    ) -> tuple[Schedules, int]:
        """The schedules that the options ask for, and how many threads."""
        if self.is_open or not self.options.tuned:
            return self.options.schedules_for(self._program), self.threads
        key = tuning_file.key_of(
            self._program, self.types, self.threads, sizes, strides, self.target
        )
        entry, _ = tuning_file.find(key, self.options.file)
        if entry is None:
            return self.options.schedules_for(self._program), self.threads
        return Schedules(entry.schedules, lenient=True), min(entry.use_threads, self.threads)

    def _image(
        self,
        sizes: dict[Symbol, int],
        strides: Mapping[int, tuple[int, ...]],
        key: object,
        schedules: Schedules,
    ) -> Image:
        parts = (
            key, self.types, self.target, len(self._updated), *([schedules] if schedules else [])
        )  # fmt: skip
        name = cache.key("program", self._whole.digest, repr(parts))
        data = cache.read(name)
        image = None if data is None else image_file.unpack(data)
        if image is None:
            data = self._made_there(sizes, schedules)
            data = data or image_of(self._work(sizes, strides, schedules), self._compiler)
            cache.write(name, data)
            image = image_file.read(data)
        return image

    def _made_there(self, sizes: dict[Symbol, int], schedules: Schedules) -> bytes:
        """The image of the process that has composed the graph, so that it need not be here."""
        compiler = self._compiler
        if compiler is None or not (compiler.is_there and compiler.has_graph):
            return b""
        image = compiler.image(Work(None, sizes, self.types, {}, 0, self.target, schedules))
        if not image:
            compiler.close()
        return image

    def _work(
        self,
        sizes: Mapping[Symbol, int],
        strides: Mapping[int, tuple[int, ...]],
        schedules: Schedules = NO_SCHEDULES,
    ) -> Work:
        graph, states = with_state(self._whole.graph), len(self._updated)
        return Work(graph, sizes, self.types, strides, states, self.target, schedules)
