"""Variables of a graph under their scoped names.

`main.G.near.kernel` is the variable `kernel` of an operator that `main.G` invokes with the label
`near`. So every label gets an operator that declares the variables of its scope and gives them
out; variables of a graph that is shared, `main.H.w`, belong to a graph `H`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...ir import nodes, shapes
from . import syntax as s
from .initial_values import draws_numbers, initial_state, is_state
from .lexer import KEYWORDS
from .unparse_expressions import constant, integer, type_name, unsayable


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

    def parameters(self) -> tuple[s.Parameter, ...]:
        return tuple([_parameter(name, tensors) for name, tensors in self.own.items()])


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


def check_values(scope: VariableScope, operator: s.Operator) -> None:
    """Raises E0706 where variables would not begin with the values that they have, if any, when
    this operator declares them."""
    draws = draws_numbers(operator)
    for parameter, tensors in zip(operator.variables, scope.own.values(), strict=True):
        if (tensors[0].data is not None) != (draws and is_state(parameter)):
            raise unsayable(f"the variable `{tensors[0].name}` with the value that it begins with")


def _parameter(name: str, tensors: list[nodes.Tensor]) -> s.Parameter:
    packed = tensors[0].name.rpartition(".")[2] != name
    extents = []
    for column in zip(*(t.shape for t in tensors), strict=True):
        sizes = [shapes.as_int(e) or 0 for e in column]
        if len(set(sizes)) > 1:
            raise unsayable(f"the variables `{name}`, whose shapes differ")
        extents.append(s.Extent(integer(sizes[0])))
    pack = s.Pack(integer(len(tensors))) if packed else None
    type = s.Type(type_name(tensors[0].dtype), shape=tuple(extents), pack=pack)
    return s.Parameter(name, type)


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
