"""What an earlier process has found out about a program: enough to run it without composing it.

Composing a network takes longer than loading its code. So when a graph has been compiled, its ports
and variables are kept beside the code, under a hash of the text of the main module, the values of
attributes and the version of the compiler; with hashes of the other modules. Who asks for the
graph itself gets it composed then. Only graphs of fixed sizes that update no variables are
kept, and only of programs about which there is nothing to report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any

from .diagnostics import Error
from .dtypes import DType
from .frontends.reading import read_source
from .frontends.skriptnd.module_files import Main, local_path
from .frontends.skriptnd.standard_files import is_library_source, library_source
from .hashes import sha256
from .ir.nodes import Graph, Port, Tensor, integer
from .ir.rewrite import all_steps
from .ir.shapes import as_int
from .records import dataclass
from .runtime import cache
from .source import NOWHERE, Source, Span

_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Outline:
    """A graph without operations, the hash of the text of the whole, and the modules of the folder
    that it is composed of."""

    graph: Graph
    digest: str
    numbers: tuple[str, str]
    """The dtypes that stand for reals and integers unless a caller says otherwise."""
    modules: Mapping[str, Source]


def key_of(
    main: Main, graph: str | None, attributes: Mapping[str, object], types: Mapping[str, str]
) -> str | None:
    """The name of what is kept about a program; none if its attributes are not plain values."""
    values = [(k, v) for given in (attributes, types) for k, v in given.items()]
    if not all(type(k) is str and _is_plain(v) for k, v in values) or not _is_plain(graph):
        return None
    given = (sorted(attributes.items()), sorted(types.items()), graph, main[1])
    return cache.key("outline", cache.version_of("frontends"), main[0].text, repr(given))


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def find(key: str, main: Main) -> Outline | None:
    """What is kept about a program, if its modules are still the same."""
    data = cache.read(key)
    if data is None:
        return None
    try:
        kept = json.loads(data)
        modules = _unchanged(kept["modules"], main[2])
        return None if modules is None else _Reader(kept, main[0], modules).outline()
    except (Error, ValueError, KeyError, IndexError, TypeError, AttributeError, OSError):
        return None


def _unchanged(kept: Mapping[str, str | None], folder: Path) -> dict[str, Source] | None:
    """The modules of the folder; none if there are others now, or with another text."""
    found = {}
    for name, digest in kept.items():
        path = local_path(name.split("."), folder)
        source = None if path is None else read_source(path)
        if digest != (None if source is None else _hash(source.text)):
            return None
        if source is not None:
            found[name] = source
    return found


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def keep(
    key: str,
    graph: Graph,
    digest: str,
    numbers: tuple[str, str],
    main: Source,
    modules: Mapping[str, Source],
) -> None:
    """Keep what is worth knowing of a graph; `modules` are those of its program but the main one,
    by dotted name."""
    if not _is_fixed(graph):
        return
    writer = _Writer(main, modules)
    hashes = {n: None if is_library_source(x) else _hash(x.text) for n, x in modules.items()}
    try:
        known = writer.graph(graph)
    except KeyError:  # a place in no module
        return
    entry = {
        "modules": hashes, "digest": digest, "numbers": numbers, "graph": known,
        "tensors": writer.rows,
    }  # fmt: skip
    cache.write(key, json.dumps(entry, separators=(",", ":")).encode())


def _is_fixed(graph: Graph) -> bool:
    """Whether all sizes are known, calls are independent, and all variables come from files."""
    if graph.symbols or graph.sizes or graph.checks or graph.updates:
        return False
    ports = (*graph.inputs, *graph.outputs)
    tensors = [t for p in ports for t in p.tensors]
    tensors += [t for step in all_steps(graph.operations) for t in step.outputs]
    tensors += graph.variables
    return (
        all(p.length is None for p in ports)
        and all(t.data is None for t in graph.variables)
        and all((as_int(e) or 0) >= 0 and as_int(e) is not None for t in tensors for e in t.shape)
    )


class _Writer:
    """A graph as data: tensors are numbered, places are in numbered modules."""

    def __init__(self, main: Source, modules: Mapping[str, Source]) -> None:
        self._names = {id(main): ""} | {id(x): name for name, x in modules.items()}
        self._numbers: dict[Tensor, int] = {}
        self.rows: list[Any] = []

    def graph(self, graph: Graph) -> list[Any]:
        ports = [[self._port(p) for p in ports] for ports in (graph.inputs, graph.outputs)]
        variables = [self._tensor(t) for t in graph.variables]
        return [graph.name, *ports, variables, self._span(graph.span)]

    def _port(self, port: Port) -> list[Any]:
        return [port.name, [self._tensor(t) for t in port.tensors], port.packed, port.optional]

    def _tensor(self, tensor: Tensor) -> int:
        if tensor not in self._numbers:
            self._numbers[tensor] = len(self.rows)
            shape = [as_int(e) for e in tensor.shape]
            self.rows.append([tensor.name, tensor.dtype.value, shape, self._span(tensor.span)])
        return self._numbers[tensor]

    def _span(self, span: Span) -> list[Any] | None:
        if span is NOWHERE:
            return None
        return [self._names[id(span.source)], span.start, span.end]


class _Reader:
    """The opposite of the writer."""

    def __init__(self, kept: Mapping[str, Any], main: Source, modules: dict[str, Source]) -> None:
        self._kept = kept
        self._modules = modules
        self._sources = {"": main} | modules
        self._tensors = [self._tensor(*row) for row in kept["tensors"]]

    def outline(self) -> Outline:
        name, inputs, outputs, variables, span = self._kept["graph"]
        graph = Graph(
            _text(name),
            tuple(self._port(*p) for p in inputs),
            tuple(self._port(*p) for p in outputs),
            (),
            variables=tuple(self._tensors[k] for k in variables),
            span=self._span(span),
        )
        real, int = map(_text, self._kept["numbers"])
        return Outline(graph, _text(self._kept["digest"]), (real, int), self._modules)

    def _port(self, name: str, numbers: Sequence[int], packed: bool, optional: bool) -> Port:
        return Port(_text(name), tuple(self._tensors[k] for k in numbers), packed, optional)

    def _tensor(self, name: str, dtype: str, shape: Sequence[int], span: Any) -> Tensor:
        extents = tuple(integer(_number(n)) for n in shape)
        return Tensor(_text(name), DType(dtype), extents, span=self._span(span))

    def _span(self, span: Any) -> Span:
        if span is None:
            return NOWHERE
        name, start, end = span
        if name not in self._sources:
            self._sources[name] = library_source(name)
        return Span(self._sources[name], _number(start), _number(end))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return intern(value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value
