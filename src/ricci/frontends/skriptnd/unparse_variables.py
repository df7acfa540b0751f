"""Variables of a graph under their scoped names.

`main.G.near.kernel` is the variable `kernel` of an operator that `main.G` invokes with the label
`near`. So every label gets an operator that declares the variables of its scope and gives them
out; variables of a graph that is shared, `main.H.w`, belong to a graph `H`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from ...dtypes import DType
from ...ir import nodes, shapes
from ...records import dataclass, replace
from . import syntax as s
from .initial_values import draws_numbers, initial_state, is_state
from .lexer import KEYWORDS
from .unparse_expressions import Namer, Names, constant, integer, type_name, unparse, unsayable


@dataclass
class VariableScope:
    """The variables of one scope, and the scopes of the labels in it."""

    own: dict[str, list[nodes.Tensor]] = field(default_factory=dict)
    """A variable that is a pack has several tensors, `w:1` ..."""
    inner: dict[str, VariableScope] = field(default_factory=dict)

    def add(self, path: list[str], tensor: nodes.Tensor) -> None:
        label, *rest = path
        if rest:
            self.inner.setdefault(label, VariableScope()).add(rest, tensor)
        else:
            self.own.setdefault(label.partition(":")[0], []).append(tensor)

    def all(self) -> Iterator[list[nodes.Tensor]]:
        """The variables of this scope and of those in it."""
        yield from self.own.values()
        for scope in self.inner.values():
            yield from scope.all()

    @property
    def has_states(self) -> bool:
        """Whether variables of this scope begin with a value."""
        return any(tensors[0].data is not None for tensors in self.own.values())


def variable_scopes(graph: nodes.Graph) -> tuple[VariableScope, dict[str, VariableScope]]:
    """The scope of the graph itself, and those of other graphs by their names.

    Raises E0706 for a variable whose name no text can give it.
    """
    module, _, name = graph.name.rpartition(".")
    scopes = {name: VariableScope()}
    for tensor in graph.variables:
        path = tensor.name.removeprefix(f"{module}.").split(".")
        plain = [part.partition(":")[0] for part in path]
        words = all(p.isidentifier() and p.isascii() and p not in KEYWORDS for p in plain)
        if len(path) < 2 or not words or tensor.data not in (None, initial_state(tensor.name)):
            raise unsayable(f"the variable `{tensor.name}` of this name and value")
        scopes.setdefault(path[0], VariableScope()).add(path[1:], tensor)
    return scopes.pop(name), scopes


def is_pack(tensors: Sequence[nodes.Tensor]) -> bool:
    """Whether tensors are the items of a variable, `w:1` ..., and not one alone."""
    return ":" in tensors[0].name.rpartition(".")[2]


def plain_name(tensors: Sequence[nodes.Tensor]) -> str:
    """What a variable is called in its own scope."""
    return tensors[0].name.rpartition(".")[2].partition(":")[0]


class Declarations:
    """Types of variables, and the lines of `@using` that they need."""

    def __init__(self, names: Names, namer: Namer) -> None:
        self.names = names
        self.namer = namer
        self._extents: dict[s.Expr, str] = {}

    @property
    def using(self) -> tuple[s.Using, ...]:
        return tuple([s.Using((s.UsingName(n),), e, False) for e, n in self._extents.items()])

    def variables(self, scope: VariableScope) -> tuple[s.Parameter, ...]:
        """The lines of `@variable`."""
        return tuple([s.Parameter(n, self.type(n, ts)) for n, ts in scope.own.items()])

    def type(self, name: str, tensors: Sequence[nodes.Tensor]) -> s.Type:
        columns = zip(*(t.shape for t in tensors), strict=True)
        shape = tuple([self._extent(name, column) for column in columns])
        pack = s.Pack(integer(len(tensors))) if is_pack(tensors) else None
        return s.Type(type_name(tensors[0].dtype), shape=shape, pack=pack)

    def _extent(self, name: str, column: Sequence[nodes.Expr]) -> s.Extent:
        """The extent of all tensors, or a name for those of each."""
        sizes = [unparse(e, self.names) for e in column]
        if all(size == sizes[0] for size in sizes):
            return s.Extent(sizes[0])
        all_sizes = s.List(tuple(sizes))
        if all_sizes not in self._extents:
            self._extents[all_sizes] = self.namer(f"{name}_extents")
        return s.Extent(s.Name(self._extents[all_sizes]), distinct=True)


def with_states(scope: VariableScope, operator: s.Operator) -> s.Operator:
    """An operator whose variables begin with the values that they have: all states of random
    numbers do, which are single integers of an operator that invokes `rand.next`."""
    if scope.has_states and not draws_numbers(operator):
        operator = _drawing(scope, operator)
    if not draws_numbers(operator):
        return operator
    plain = {n for n, ts in scope.own.items() if ts[0].data is None}
    found = [p for p in operator.variables if p.name in plain and is_state(p)]
    return _without_values(operator, found)


def _drawing(scope: VariableScope, operator: s.Operator) -> s.Operator:
    """The operator with an invocation that is never made."""
    name = next(n for n, ts in scope.own.items() if ts[0].data is not None)
    updates = {c.results: c.action for c in operator.update}
    results = (s.Result(name),)
    value = updates.get(results, s.Name(name))
    assert isinstance(value, s.Expr)
    call = s.Invocation(None, ("rand", "next"), (), (), (s.Name(name),))
    updates[results] = s.Branch((constant(False, DType.BOOL),), (call, value))
    components = tuple([s.Component(r, action) for r, action in updates.items()])
    return replace(operator, update=components)


def _without_values(operator: s.Operator, found: Sequence[s.Parameter]) -> s.Operator:
    """Single integers that are no states are tensors with a pack of no extents."""
    if not found:
        return operator
    taken = [p.name for p in (*operator.inputs, *operator.outputs, *operator.variables)]
    none = Namer([*taken, *(p.name for p in (*operator.attributes, *operator.constants))])("none")
    shape = (s.Extent(s.Name(none), pack=s.Pack()),)
    types = {p.name: replace(p.type, shape=shape) for p in found}
    variables = [replace(p, type=types.get(p.name, p.type)) for p in operator.variables]
    using = (*operator.using, s.Using((s.UsingName(none),), s.List(()), False))
    return replace(operator, variables=tuple(variables), using=using)


def constant_parameter(name: str, tensor: nodes.Tensor) -> s.Parameter:
    """A line of `@constant`."""
    assert tensor.data is not None
    shape = tuple([s.Extent(integer(shapes.as_int(e) or 0)) for e in tensor.shape])
    if isinstance(tensor.data, tuple):
        items = [constant(item, tensor.dtype) for item in tensor.data]
        value: s.Expr = s.List(tuple(items))
    else:
        value = constant(tensor.data, tensor.dtype)
    return s.Parameter(name, s.Type(type_name(tensor.dtype), shape=shape), value)
