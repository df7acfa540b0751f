"""A composed graph as a module of SkriptND that composes to a graph of the same meaning.

Every operation becomes an operator with its formulas, those with the same formulas one; branches
and loops become such, with blocks. Inputs, outputs and variables keep their names. What the
library does without formulas is invoked. What of a graph no text can say is E0706:
names of variables that are no words, unsigned integers, sizes without bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ...ir import nodes
from ...ir.interpret_bind import hidden_ports
from ...records import replace
from ...source import Source
from . import syntax as s
from .lexer import KEYWORDS
from .modules import Program
from .printer import format_module
from .unparse_copied import copied_operators
from .unparse_expressions import Namer, constant, integer, type_name, unsayable, with_blocks
from .unparse_inputs import InputWriter
from .unparse_library import folded
from .unparse_loops import with_fixed_variables
from .unparse_scopes import ScopeWriter
from .unparse_steps import Shared
from .unparse_uses import Uses
from .unparse_variables import Declarations, constant_parameter, variable_scopes, with_states
from .values import dtype_of


def unparse_graph(graph: nodes.Graph, program: Program | None = None) -> str:
    """The text of a main module whose only graph means what `graph` does.

    Operators that `@quantize` names are those of `program`, if not of the library. Names of
    variables begin with `main.` in the text. An optional input that the graph has must be there in
    the text as well; one that is absent is a pack of no tensors. Raises E0706 for what the language
    has no words for.
    """
    return format_module(_GraphWriter(graph, program).module())


def unparse_graphs(graphs: Sequence[nodes.Graph]) -> str:
    """The text of one module with several graphs, which do not share operators."""
    modules: list[s.Module] = []
    taken = [graph.name.rpartition(".")[2] for graph in graphs]
    for graph in graphs:
        modules.append(_GraphWriter(graph, None, taken).module())
        taken += [operator.name for operator in modules[-1].operators]
    imports = tuple(dict.fromkeys(i for module in modules for i in module.imports))
    operators = [operator for module in modules for operator in module.operators]
    ordered = [op for op in operators if not op.graph] + [op for op in operators if op.graph]
    return format_module(s.Module("main", Source("", ""), imports, tuple(ordered)))


class _GraphWriter(ScopeWriter):
    def __init__(
        self, graph: nodes.Graph, program: Program | None, others: Sequence[str] = ()
    ) -> None:
        _check_names(graph)
        graph = with_fixed_variables(folded(graph))
        self.own_name = graph.name.rpartition(".")[2]
        root, graphs = variable_scopes(graph)
        self.quantizers, imports = copied_operators(graph, program)
        taken = [self.own_name, *others, *graphs, *(op.name for op in self.quantizers)]
        names = Namer(taken, words=False)
        shared = Shared(graph, Uses(graph), names, list(graph.checks))
        ports = [p.name for p in (*graph.inputs, *graph.outputs)]
        wanted = dict(_names_of_own(graph))
        namer = Namer((*ports, *root.own, *wanted.values()))
        super().__init__(shared, namer, root, dict(graph.updates), graphs)
        shared.modules.update(dict.fromkeys(imports))
        self.graph = graph
        hidden = hidden_ports(graph.outputs)
        self.outputs = [p for p in graph.outputs if p not in hidden]
        self.results.update(wanted.items())
        for port in reversed(self.outputs):
            if port.length is not None and port.tensors not in shared.uses.packs:
                continue  # its items are collected under this name
            self.results[port.tensors if port.packed else port.tensors[0]] = port.name
        self.lengths.update((p.name, len(p.tensors)) for p in graph.inputs if p.packed)
        for port in graph.inputs:
            if port.length is not None:
                self.packs[port.tensors] = next(x for x, t in graph.sizes if t is port.length)
                self.note_items(port.tensors)

    def module(self) -> s.Module:
        graph = self.graph
        declared = InputWriter(graph, self.namer, self.names)
        inputs = declared.parameters()
        for port in declared.ports:
            self.name(port.name, port.tensors, port.packed)
        using = declared.using()
        present = self._present(declared)
        asserts = (*present, *self.shared.asserts(self.names))
        constants = self._constants()
        declared_variables = Declarations(self.names, self.namer)
        variables = declared_variables.variables(self.root)
        self.read_variables()
        self.steps(graph.operations)
        outputs = tuple([self._output(port) for port in self.outputs])
        updates = tuple(self.updates())
        self.remaining_checks()
        operator = s.Operator(
            self.own_name,
            True,
            attributes=tuple(declared.attributes),
            inputs=inputs,
            outputs=outputs,
            constants=constants,
            using=(*using, *declared_variables.using),
            variables=variables,
            asserts=asserts,
            compose=tuple(self.components),
            update=updates,
            quantize=tuple(self._quantizations()),
        )
        operator = with_states(self.root, operator)
        imports = tuple([s.Import(tuple(n.split("."))) for n in self.shared.modules])
        definitions = [replace(op, name=n) for (_, op), n in self.shared.operators.items()]
        first = [op for op in definitions if not op.graph]
        others = [op for op in definitions if op.graph]
        source = Source("", "")
        return s.Module(
            "main", source, imports, (*self.quantizers, *first, with_blocks(operator), *others)
        )

    def _present(self, declared: InputWriter) -> list[s.Assertion]:
        """Asserts that optional inputs are there, which get names as something that is."""
        asserts = []
        for port, there, value in declared.present():
            name = self.namer(f"{port.name}_given")
            length = None if port.length is not None else integer(len(port.tensors))
            pack = s.Pack(length) if port.packed else None
            self.components.append(s.Component((s.Result(name, pack=pack),), value))
            self.name(name, port.tensors, port.packed)
            asserts.append(there)
        return asserts

    def _constants(self) -> tuple[s.Parameter, ...]:
        """The constants of the graph; single numbers are written where they are used."""
        found = []
        for tensor in self.graph.constants:
            if tensor.data is None:
                raise unsayable(f"the constant `{tensor.name}`, which has no value")
            if (
                not tensor.shape
                and not isinstance(tensor.data, tuple)
                and tensor not in self.shared.noted
            ):
                self.names[tensor] = constant(tensor.data, tensor.dtype)
                continue
            name = self.namer(self.local_name(tensor))
            self.name(name, [tensor], False)
            found.append(constant_parameter(name, tensor))
        return tuple(found)

    def _output(self, port: nodes.Port) -> s.Parameter:
        """The declaration of an output; what no step computes under its name is copied."""
        if not port.packed:
            return self.output(port.tensors[0], port.name)
        found = self.pack(port.tensors)
        type = self.output_type(port.tensors, True)
        if port.length is None:
            if found != s.Name(port.name):
                pack = s.Pack(integer(len(port.tensors)))
                self.components.append(s.Component((s.Result(port.name, pack=pack),), found))
            return s.Parameter(port.name, type)
        if port.tensors not in self.packs:
            self._collect(port)
        elif found != s.Name(port.name):
            self.components.append(s.Component((s.Result(port.name, pack=s.Pack()),), found))
        return s.Parameter(port.name, replace(type, pack=s.Pack(None, integer(len(port.tensors)))))

    def _collect(self, port: nodes.Port) -> None:
        """The first of several tensors as a pack, as many as a tensor says."""
        assert port.length is not None
        item = self.namer("item")
        scan = s.Scan(item, self.pack(port.tensors))
        count = s.Count(None, self.names[port.length])
        loop = s.Loop((), (scan,), None, False, False, count, s.Name(item))
        self.components.append(s.Component((s.Result(port.name, pack=s.Pack()),), loop))

    def _quantizations(self) -> Iterator[s.Quantization]:
        """What `@quantize` says; of all tensors of a pack at once."""
        found: dict[tuple[str, ...], dict[nodes.Tensor, list[s.Quantization]]] = {}
        for noted in self.graph.quantization:
            tensor, attributes = noted.tensor, noted.attributes
            path = self.shared.places.get(tensor)
            if path is None:
                raise unsayable(f"the quantization of `{tensor.name}`, which has no name")
            given = tuple([s.Argument(n, _json(text)) for n, text in attributes if text != "null"])
            entry = s.Quantization(path, tuple(noted.operator.split(".")), (), given)
            entries = found.setdefault(path, {}).setdefault(tensor, [])
            if entry not in entries:
                entries.append(entry)
        for path, tensors in found.items():
            (tensor, entries), *others = tensors.items()
            if any(other != entries for _, other in others):
                raise unsayable(f"two quantizations of `{tensor.name}`")
            yield entries[0] if len(entries) == 1 else self._combined(path, tensor, entries)

    def _combined(
        self, path: tuple[str, ...], tensor: nodes.Tensor, entries: Sequence[s.Quantization]
    ) -> s.Quantization:
        """Several quantizers of a tensor as one, which does what they do one after another."""
        type = s.Type(type_name(tensor.dtype), shape=(s.Extent(s.Name("s"), pack=s.Pack()),))
        names = ["x", *(f"t{k}" for k in range(1, len(entries))), "y"]
        steps = [
            s.Component(
                (s.Result(new),), s.Invocation(None, x.callee, (), x.attributes, (s.Name(old),))
            )
            for old, new, x in zip(names, names[1:], entries, strict=False)
        ]
        inputs, outputs = (s.Parameter("x", type),), (s.Parameter("y", type),)
        both = s.Operator("", inputs=inputs, outputs=outputs, compose=tuple(steps))
        name = self.shared.define("quantize", with_blocks(both))
        return s.Quantization(path, (name,), (), ())


def _check_names(graph: nodes.Graph) -> None:
    """What callers see keeps its name, so it must be one, and the only one of its kind."""
    seen: set[str] = set()
    for port in (*graph.inputs, *graph.outputs):
        if port.name in seen:
            raise unsayable(f"two inputs or outputs of one name, `{port.name}`")
        seen.add(port.name)
    for name in (graph.name.rpartition(".")[2], *seen):
        if name in KEYWORDS:
            raise unsayable(f"what is called `{name}`, a reserved word")


def _names_of_own(graph: nodes.Graph) -> Iterator[tuple[nodes.Tensor, str]]:
    """The tensors that are to be quantized under the name of another one, which they copy."""
    ports = {p.name for p in (*graph.inputs, *graph.outputs)}
    for entry in graph.quantization:
        module, _, name = entry.name.rpartition(".")
        if module == graph.name and entry.tensor.name != entry.name and name.isidentifier():
            yield from () if name in ports else ((entry.tensor, name),)


def _json(text: str) -> s.Expr:
    """The value of an attribute of a quantizer."""
    return _value(json.loads(text))


def _value(value: object) -> s.Expr:
    if isinstance(value, list):
        return s.List(tuple([_value(item) for item in value]))
    assert isinstance(value, bool | int | float | str)
    return constant(value, dtype_of(value))
