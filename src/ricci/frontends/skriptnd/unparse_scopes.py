"""Variables in the scopes of labels: what they hold before a call, and after it.

A variable `main.G.near.sum` can be declared, and get a new value, only in an operator that is
invoked with the label `near`. So there is an operator for each label, which declares the variables
of its scope, gives them out, and may be given new values. `@compose` of the graph invokes it first
of all; if variables are updated, `@update` does so once more, under the same label, which is
possible in an unrolled loop: what is in it shares variables. All that is computed is between the
two, whatever scopes it leads from and to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...ir import nodes, rewrite
from ...records import dataclass, replace
from . import syntax as s
from .unparse_expressions import Named, Namer, constant, integer, type_name, unparse, with_blocks
from .unparse_steps import Shared, StepWriter
from .unparse_variables import Declarations, VariableScope, is_pack, plain_name, with_states

Updates = Mapping[nodes.Tensor, nodes.Tensor]


@dataclass(frozen=True)
class _Store:
    """The operator of a scope, and how it is invoked."""

    label: str
    scope: VariableScope
    operator: str
    symbols: tuple[tuple[str, nodes.Symbol], ...]
    is_graph: bool
    """Whether it is a graph, which all who invoke it share, and which has no label."""


class ScopeWriter(StepWriter):
    """Writes a graph with variables, its own and those of the scopes within."""

    def __init__(
        self,
        shared: Shared,
        namer: Namer,
        root: VariableScope,
        new: Updates,
        graphs: Mapping[str, VariableScope],
    ) -> None:
        super().__init__(shared, namer)
        self.root = root
        self.new = new
        self.stores = [self._store(label, scope, False) for label, scope in root.inner.items()]
        self.stores += [self._store(name, scope, True) for name, scope in graphs.items()]
        for name, tensors in root.own.items():
            self.name(name, tensors, is_pack(tensors))

    # ------------------------------------------------------------------ before, after

    def read_variables(self) -> None:
        """Components that name what the variables of inner scopes hold."""
        for store in self.stores:
            results = []
            for tensors in store.scope.all():
                name = self.namer(self._wanted(tensors))
                results.append(self.result(name, tensors, is_pack(tensors)))
            self.components.append(s.Component(tuple(results), self._invoked(store, [])))

    def updates(self) -> Iterator[s.Component]:
        """New values of variables; items of a pack that have none keep theirs."""
        for name, tensors in self.root.own.items():
            if self._is_updated(tensors):
                result = s.Result(name, pack=_pack_of(tensors))
                yield s.Component((result,), self._new_value(tensors))
        for store in self.stores:
            groups = [*store.scope.all()]
            if any(self._is_updated(tensors) for tensors in groups):
                yield s.Component((s.Omitted(),) * len(groups), self._update(store, groups))

    def _update(self, store: _Store, groups: Sequence[Sequence[nodes.Tensor]]) -> s.Action:
        values = [self._new_value(tensors) for tensors in groups]
        carried = []
        if not store.is_graph:  # a loop has a variable, and no packs among what it collects
            last = max((k for k, tensors in enumerate(groups) if is_pack(tensors)), default=0)
            for number, tensors in enumerate(groups[: last + 1]):
                name = self.namer(self._wanted(tensors))
                carried.append(s.Carried(name, None, values[number]))
                values[number] = s.Name(name)
        given = [v for v, ts in zip(values, groups, strict=True) if self._is_updated(ts)]
        if store.is_graph:
            return self._invoked(store, given)
        body = self._invocation_of(store, given)
        return s.Loop(tuple(carried), (), None, False, True, s.Count(None, integer(1)), body)

    def _invoked(self, store: _Store, arguments: Sequence[s.Expr]) -> s.Action:
        call = self._invocation_of(store, arguments)
        if not store.is_graph:
            return call
        return s.Branch((constant(True, nodes.TRUE.dtype),), (call, call))

    def _invocation_of(self, store: _Store, arguments: Sequence[s.Expr]) -> s.Invocation:
        label = None if store.is_graph else store.label
        given = tuple([s.Argument(n, self.size(x)) for n, x in store.symbols])
        return s.Invocation(label, (store.operator,), (), given, tuple(arguments))

    def _is_updated(self, tensors: Sequence[nodes.Tensor]) -> bool:
        return any(self.new.get(t, t) is not t for t in tensors)

    def _new_value(self, tensors: Sequence[nodes.Tensor]) -> s.Expr:
        values = [self.new.get(t, t) for t in tensors]
        return self.pack(values) if is_pack(tensors) else self.value(values[0])

    def _wanted(self, tensors: Sequence[nodes.Tensor]) -> str:
        return self.local_name(tensors[0]).partition(":")[0]

    # ----------------------------------------------------------------------- operators

    def _store(self, label: str, scope: VariableScope, is_graph: bool) -> _Store:
        path = ("main", label) if is_graph else (label,)
        operator, symbols = self._operator(scope, path, is_graph)
        if is_graph:
            self.shared.operators[label, operator] = label
            return _Store(label, scope, label, symbols, True)
        name = self.shared.define(f"{label}_variables", operator)
        return _Store(label, scope, name, symbols, False)

    def _operator(
        self, scope: VariableScope, path: tuple[str, ...], is_graph: bool = False
    ) -> tuple[s.Operator, tuple[tuple[str, nodes.Symbol], ...]]:
        """An operator that declares the variables of a scope, and its attributes: sizes."""
        namer = Namer((*scope.own, *scope.inner))
        symbols = [*dict.fromkeys(x for ts in scope.all() for t in ts for x in _sizes(t))]
        attributes = {namer(x.name.rpartition(".")[2]): x for x in symbols}
        names: dict[Named, s.Expr] = {x: s.Name(n) for n, x in attributes.items()}
        writer = _StoreWriter(namer, Declarations(names, namer))
        for name, tensors in scope.own.items():
            writer.add_own(name, tensors, self._is_updated(tensors))
            for tensor in tensors:
                if tensor in self.shared.noted:
                    self.shared.places[tensor] = (*path, name)
        for label, inner in scope.inner.items():
            operator, sizes = self._operator(inner, (*path, label))
            callee = self.shared.define(f"{label}_variables", operator)
            given = tuple([s.Argument(n, names[x]) for n, x in sizes])
            call = s.Invocation(label, (callee,), (), given, ())
            groups = [(ts, self._is_updated(ts)) for ts in inner.all()]
            writer.add_inner(call, groups)
        if scope.has_states:
            self.shared.modules["rand"] = None
        found = s.Operator(
            "",
            graph=is_graph,
            attributes=tuple([s.Parameter(n, s.Type("int")) for n in attributes]),
            inputs=tuple(writer.inputs),
            outputs=tuple(writer.outputs),
            using=writer.declared.using,
            variables=tuple(writer.variables),
            compose=tuple(writer.components),
            update=tuple(writer.updates),
        )
        return with_blocks(with_states(scope, found)), tuple(attributes.items())

    # ------------------------------------------------------------------------- outputs

    def output(self, tensor: nodes.Tensor, name: str) -> s.Parameter:
        """An output of the graph; what has another name is copied."""
        if self.names[tensor] != s.Name(name):
            self.components.append(s.Component((s.Result(name),), self.names[tensor]))
        return s.Parameter(name, self.output_type([tensor], False))

    def output_type(self, tensors: Sequence[nodes.Tensor], packed: bool) -> s.Type:
        """The declared type; without a shape if the tensors of a pack differ in rank."""
        pack = s.Pack(integer(len(tensors))) if packed else None
        if not tensors:
            return s.Type("real", pack=pack)
        shape: tuple[s.Extent, ...] | None = None
        if len({t.rank for t in tensors}) == 1:
            columns = zip(*(t.shape for t in tensors), strict=True)
            shape = tuple([self._declared(column) for column in columns])
        return s.Type(type_name(tensors[0].dtype), shape=shape, pack=pack)

    def _declared(self, column: Sequence[nodes.Expr]) -> s.Extent:
        """An extent of an output; open where data defines it, or where tensors differ."""
        plain = all(isinstance(self.names.get(x), s.Name) for x in rewrite.free_symbols(*column))
        sizes = [unparse(e, self.names) for e in column] if plain else []
        same = bool(sizes) and all(size == sizes[0] for size in sizes)
        return s.Extent(sizes[0] if same else s.Omitted())


class _StoreWriter:
    """Collects what the operator of a scope consists of."""

    def __init__(self, namer: Namer, declared: Declarations) -> None:
        self.namer = namer
        self.declared = declared
        self.inputs: list[s.Parameter] = []
        self.outputs: list[s.Parameter] = []
        self.variables: list[s.Parameter] = []
        self.components: list[s.Component] = []
        self.updates: list[s.Component] = []

    def add_own(self, name: str, tensors: Sequence[nodes.Tensor], updated: bool) -> None:
        """A variable of this scope, which gets a new value if it is given one."""
        type = self.declared.type(name, tensors)
        self.variables.append(s.Parameter(name, type))
        self.components.append(s.Component((self._output(name, type),), s.Name(name)))
        if updated:
            value = s.Coalesce(self._input(name, type), s.Name(name))
            self.updates.append(s.Component((s.Result(name, pack=type.pack),), value))

    def add_inner(
        self, call: s.Invocation, groups: Sequence[tuple[Sequence[nodes.Tensor], bool]]
    ) -> None:
        """The operator of a scope within, whose inputs and outputs are also those of this one."""
        arguments, results = [], []
        for tensors, updated in groups:
            name = f"{call.label}_{plain_name(tensors)}"
            type = self.declared.type(name, tensors)
            results.append(self._output(name, type))
            if updated:
                arguments.append(self._input(name, type))
        call = replace(call, arguments=tuple(arguments))
        self.components.append(s.Component(tuple(results), call))

    def _input(self, name: str, type: s.Type) -> s.Name:
        """An input that may be absent; extents of each item define a name of their own."""
        found = self.namer(f"new_{name}")
        extents = type.shape or ()
        own = [s.Name(self.namer(f"{name}_extents")) if e.distinct else e.size for e in extents]
        shape = tuple([replace(e, size=x) for e, x in zip(extents, own, strict=True)])
        self.inputs.append(s.Parameter(found, replace(type, optional=True, shape=shape)))
        return s.Name(found)

    def _output(self, name: str, type: s.Type) -> s.Result:
        found = self.namer(f"{name}_value")
        self.outputs.append(s.Parameter(found, type))
        return s.Result(found, pack=type.pack)


def _pack_of(tensors: Sequence[nodes.Tensor]) -> s.Pack | None:
    return s.Pack(integer(len(tensors))) if is_pack(tensors) else None


def _sizes(tensor: nodes.Tensor) -> tuple[nodes.Symbol, ...]:
    return rewrite.free_symbols(*tensor.shape)
