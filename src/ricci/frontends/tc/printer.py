"""A tree as text: with `format_source`, the way back from a tree."""

from __future__ import annotations

from ...dtypes import DType
from ...source import Source
from . import syntax as s
from .format import format_source
from .parser_expressions import LEVELS

__all__ = ["Printer", "format_source", "format_unit"]

_CONDITIONAL = 0
_UNARY = 6

_TYPES = {DType.FLOAT32: "float", DType.FLOAT64: "double"}


def format_unit(unit: s.Unit) -> str:
    """The text of a tree, which gives an equal tree. Raises `Error` if no text can: for a name
    that is none, or what nests too deeply."""
    return format_source(Source("<printed>", Printer().unit(unit)))


class Printer:
    """Writes a tree, a statement on a line, with the parentheses that are needed."""

    def unit(self, unit: s.Unit) -> str:
        return "\n".join(self.function(function) for function in unit.functions)

    def function(self, node: s.Function) -> str:
        head = f"def {self.head(node)}({self._declarations(node.parameters)})"
        results = self._declarations(node.results)
        lines = [f"{head} -> ({results}) {{", *map(self.statement, node.statements), "}\n"]
        return "\n".join(lines)

    def head(self, node: s.Function) -> str:
        return node.name.name

    def name(self, name: str) -> str:
        """How a name is written; a printer may rename."""
        return name

    def number(self, node: s.Number) -> str:
        return node.text

    def _declarations(self, nodes: tuple[s.Declaration, ...]) -> str:
        return ", ".join(map(self._declaration, nodes))

    def _declaration(self, node: s.Declaration) -> str:
        dims = ""
        if node.dims is not None:
            sizes = [
                self.number(d) if isinstance(d, s.Number) else self.name(d.name) for d in node.dims
            ]
            dims = f"({', '.join(sizes)})"
        dtype = "" if node.dtype is None else f"{_type(node.dtype)}{dims} "
        return dtype + self.name(node.name.name)

    # ----------------------------------------------------------------- statements

    def statement(self, node: s.Statement) -> str:
        target = self.target(node)
        if node.indices:
            target += f"({', '.join(self.name(i.name) for i in node.indices)})"
        text = f"{target} {node.operator} {self.value(node.value)}"
        if node.equivalent is not None:
            text += self.equivalent(node.equivalent)
        if node.clauses:
            text += " where " + ", ".join(map(self._clause, node.clauses))
        return text

    def target(self, node: s.Statement) -> str:
        return self.name(node.target.name)

    def equivalent(self, node: s.Apply) -> str:
        return f" <=> {node.function.name}({self._values(node.arguments)})"

    def _clause(self, node: s.Clause) -> str:
        if isinstance(node, s.Exists):
            return f"exists {self.value(node.value)}"
        if isinstance(node, s.Let):
            return f"{self.name(node.name.name)} = {self.value(node.value)}"
        index = self.name(node.index.name)
        return f"{index} in {self.value(node.low)}:{self.value(node.high)}"

    # ---------------------------------------------------------------- expressions

    def _values(self, nodes: tuple[s.Expression, ...]) -> str:
        return ", ".join(self.value(node) for node in nodes)

    def value(self, node: s.Expression, lowest: int = _CONDITIONAL) -> str:
        """An expression, in parentheses if it binds less tightly than `lowest`."""
        match node:
            case s.Number():
                return self.number(node)
            case s.Name():
                return self.name(node.name)
            case s.Apply():
                return f"{self.name(node.function.name)}({self._values(node.arguments)})"
            case s.SizeOf():
                return f"{self.name(node.tensor.name)}.{node.dimension}"
            case s.Cast():
                return f"{_type(node.dtype)}({self.value(node.operand)})"
            case s.Unary():
                level = _UNARY
                text = node.operator + self.value(node.operand, level)
            case s.Binary():
                level = LEVELS[node.operator]
                lhs, rhs = self.value(node.lhs, level), self.value(node.rhs, level + 1)
                text = f"{lhs} {node.operator} {rhs}"
            case s.Conditional():
                level = _CONDITIONAL
                condition = self.value(node.condition, level + 1)
                text = f"{condition} ? {self.value(node.then)} : {self.value(node.otherwise)}"
        return text if level >= lowest else f"({text})"


def _type(dtype: DType) -> str:
    return _TYPES.get(dtype, dtype.value)
