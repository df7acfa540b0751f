"""Modules of SkriptND as text: what `parse_module` reads back to an equal tree.

The text that is made here has all words, in the draft's dialect; the formatter lays it out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...source import Source
from . import syntax as s
from .format import format_source
from .parser import FIELDS
from .printer_expressions import ExpressionPrinter, quote

_LIKE_INVOCATION = re.compile(r"(?!(?:int|real|bool|str)\()[A-Za-z_]\w*\s*(?:<[\w\s,]*>\s*)?\(")
"""An expression that would be read as an invocation at the beginning of an action."""


def format_module(module: s.Module, dialect: str = "draft") -> str:
    """The text of a module in the `draft` or the `later` dialect (decision: the draft's)."""
    printer = _ModulePrinter()
    imports = [f"import {'.'.join(i.path)};\n" for i in module.imports]
    text = "".join([*imports, *map(printer.operator, module.operators)])
    return format_source(Source(module.name, text), dialect)


def format_expression(node: s.Expr, dialect: str = "draft") -> str:
    """The text of an expression."""
    return ExpressionPrinter(dialect)(node)


class _ModulePrinter:
    def __init__(self) -> None:
        self.expr = ExpressionPrinter()

    # ---------------------------------------------------------------- definitions

    def operator(self, op: s.Operator) -> str:
        kind = ("public " if op.public else "") + ("graph" if op.graph else "operator")
        blocks = [self._block_of(op, block) for block in op.blocks]
        return f"{kind} {op.name} {{\n{''.join(blocks)}}}\n"

    def _block_of(self, op: s.Operator, block: str) -> str:
        """A block with a line for every statement."""
        writers: dict[str, Callable[..., str]] = {
            "dtype": self._type_parameter,
            "using": self._using,
            "assert": self._assertion,
            "lower": self._lowering,
            "compose": self._component,
            "update": self._component,
            "quantize": self._quantization,
        }
        statements: Sequence[s.Node] = getattr(op, FIELDS[f"@{block}"])
        lines = [f"{writers.get(block, self._parameter)(x)}\n" for x in statements]
        return f"@{block} {{\n{''.join(lines)}}}\n"

    # --------------------------------------------------------------- declarations

    def _type_parameter(self, node: s.TypeParameter) -> str:
        default = f" = {node.default}" if node.default else ""
        return f"{node.name}: {node.base}{default};"

    def _parameter(self, node: s.Parameter) -> str:
        default = f" = {self.expr(node.default)}" if node.default is not None else ""
        bounds = "".join(f", {self._bound(b)}" for b in node.bounds)
        return f"{node.name}: {self.type(node.type)}{default}{bounds};"

    def type(self, node: s.Type) -> str:
        words = ("optional " if node.optional else "") + ("dynamic " if node.dynamic else "")
        rank = f"^({node.rank})" if node.rank else ""
        shape = ""
        if node.shape is not None:
            shape = f"[{', '.join(self._extent(e) for e in node.shape)}]"
        return f"{words}{node.name}{rank}{shape}{self._pack(node.pack)}"

    def _extent(self, node: s.Extent) -> str:
        static = "static " if node.static else ""
        distinct = ".." if node.distinct else ""
        size = self.expr(node.size, 1)
        bound = f"|{self.expr(node.bound, 1)}" if node.bound is not None else ""
        gap = " " if node.pack is not None and (size + bound)[-1:].isdigit() else ""
        return f"{static}{distinct}{size}{bound}{gap}{self._pack(node.pack)}"

    def _pack(self, node: s.Pack | None) -> str:
        if node is None:
            return ""
        if node.length is None and node.bound is None:
            return ".."
        marker = f"{node.marker} " if node.marker else ""
        length = self.expr(node.length, 1) if node.length is not None else "~"
        bound = f"|{self.expr(node.bound, 1)}" if node.bound is not None else ""
        return f"..({marker}{length}{bound})"

    def _bound(self, node: s.Bound) -> str:
        return f"{node.name} < {self.expr(node.extent)}"

    def _using(self, node: s.Using) -> str:
        names = ", ".join(self._using_item(i) for i in node.items)
        left = f"[{names}]" if node.listed else names
        return f"{left} = {self.expr(node.value)};"

    def _using_item(self, node: s.UsingName | s.UsingZip) -> str:
        if isinstance(node, s.UsingZip):
            return f"({', '.join(node.names)}).."
        return f"{node.name}{self._pack(node.pack)}"

    def _assertion(self, node: s.Assertion) -> str:
        if node.message is None:
            return f"{self.expr(node.condition)};"
        items = [self.expr(node.message), *map(self._print, node.prints)]
        return f"{self.expr.before_colon(node.condition)}:\n{', '.join(items)};"

    def _print(self, node: s.Print) -> str:
        label = f"{quote(node.label)}: " if node.label else ""
        return label + self.expr(node.value)

    # -------------------------------------------------------------------- formulas

    def _lowering(self, node: s.Lowering) -> str:
        unroll = f"unroll{self._count(node.unroll)} " if node.unroll else ""
        locals = "".join(f"{x.name} = {self.expr(x.value)},\n" for x in node.locals)
        bounds = [self._bound(b) for b in node.bounds]
        condition = f" | {self.expr(node.condition)}" if node.condition is not None else ""
        formula = f"{self.expr(node.target)} {node.op} {self.expr(node.value)}"
        return f"{unroll}{locals}{formula}{',' * bool(bounds)}\n{', '.join(bounds)}{condition};"

    def _count(self, node: s.Count) -> str:
        index = f"{node.index} -> " if node.index else ""
        count = self.expr(node.count) if node.count is not None else ""
        return f"..({(index + count).rstrip()})"

    # ----------------------------------------------------------------- composition

    def _component(self, node: s.Component) -> str:
        results = ", ".join(self._result(r) for r in node.results)
        return f"{results} = {self._action(node.action)};"

    def _result(self, node: s.Result | s.ResultList | s.Omitted) -> str:
        if isinstance(node, s.Omitted):
            return "~"
        if isinstance(node, s.ResultList):
            return f"[{', '.join(self._result(i) for i in node.items)}]"
        type = f": {self.type(node.type)}" if node.type else ""
        return f"{node.name}{type}{self._pack(node.pack)}"

    def _action(self, node: s.Action) -> str:
        writers: dict[type, Callable[..., str]] = {
            s.Invocation: self._invocation,
            s.Block: self._block,
            s.Branch: self._branch,
            s.Loop: self._loop,
        }
        return writers.get(type(node), self._expression)(node)

    def _expression(self, node: s.Expr) -> str:
        text = self.expr(node)
        return f"({text})" if _LIKE_INVOCATION.match(text) else text

    def _label(self, label: str | None) -> str:
        return f"{label}: " if label else ""

    def _invocation(self, node: s.Invocation) -> str:
        operator = self._callee(node.callee, node.types, node.attributes)
        return f"{self._label(node.label)}{operator}({self.expr.many(node.arguments)})"

    def _callee(
        self, callee: tuple[str, ...], types: tuple[str, ...], attributes: tuple[s.Argument, ...]
    ) -> str:
        given = ", ".join(f"{a.name}={self.expr(a.value)}" for a in attributes)
        return f"{'.'.join(callee)}{_types(types)}{f'{{{given}}}' if given else ''}"

    def _block(self, node: s.Block) -> str:
        components = "".join(f"{self._component(c)}\n" for c in node.components)
        results = self.expr.many(node.results)
        return f"{self._label(node.label)}{{\n{components}yield {results};\n}}"

    def _branch(self, node: s.Branch) -> str:
        text = ""
        for condition, branch in zip(node.conditions, node.branches, strict=False):
            word = "elif" if text else "if"
            text += f"{word} {self._action(condition)} then {self._action(branch)} "
        return f"{text}else {self._action(node.branches[-1])}"

    def _loop(self, node: s.Loop) -> str:
        parts = []
        if node.carried:
            parts.append("with " + ", ".join(self._carried(c) for c in node.carried))
        if node.scans:
            parts.append("for " + ", ".join(f"{x.name} : {self.expr(x.pack)}" for x in node.scans))
        condition = f"while {self._action(node.condition)}" if node.condition is not None else ""
        if condition and node.pretest:
            parts.append(condition)
        count = self._count(node.count) if node.count else ""
        parts.append(f"{'unroll' if node.unroll else 'do'}{count} {self._action(node.body)}")
        if condition and not node.pretest:
            parts.append(condition)
        return " ".join(parts)

    def _carried(self, node: s.Carried) -> str:
        type = f": {self.type(node.type)}" if node.type else ""
        return f"{node.name}{type} = {self.expr(node.value)}"

    def _quantization(self, node: s.Quantization) -> str:
        operator = self._callee(node.callee, node.types, node.attributes)
        return f"{'.'.join(node.tensor)}: {operator};"


def _types(types: tuple[str, ...]) -> str:
    return f"<{', '.join(types)}>" if types else ""
