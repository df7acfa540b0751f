"""The canonical form of a function: two functions that differ only in names have the same."""

from __future__ import annotations

from . import syntax as s
from .printer import Printer
from .scope import is_function


def canonical(function: s.Function) -> str:
    """The text of a function with all names replaced, in the order of their first occurrence.

    Numbers are written in one way, and `<=>`, which has no effect, is left out.
    """
    return _Renamer(function).function(function)


class _Renamer(Printer):
    """Names of the function become `x0`, `x1`, ..., those of each statement `i0`, `i1`, ..."""

    def __init__(self, function: s.Function) -> None:
        declared = [*function.parameters, *function.results]
        self.shared = {d.name.name for d in declared} | {
            dim.name for d in declared for dim in d.dims or () if isinstance(dim, s.Identifier)
        }
        self.shared |= {statement.target.name for statement in function.statements}
        self.names: dict[str, str] = {}
        self.local: dict[str, str] = {}
        self.shadowing: set[str] = set()

    def head(self, node: s.Function) -> str:
        return "f"

    def target(self, node: s.Statement) -> str:
        self.local, self.shadowing = {}, set()
        target = self.name(node.target.name)
        self.shadowing = {i.name for i in node.indices}
        return target

    def name(self, name: str) -> str:
        if is_function(name):
            return name
        if name in self.shared and name not in self.shadowing:
            return self.names.setdefault(name, f"x{len(self.names)}")
        return self.local.setdefault(name, f"i{len(self.local)}")

    def number(self, node: s.Number) -> str:
        return repr(node.value)

    def equivalent(self, node: s.Apply) -> str:
        return ""
