"""Modules of SkriptND as text: what `parse_module` reads back to an equal tree.

One declaration stands on one line; a formula's bounds, and the message of an assert with the
values that it prints, go to lines of their own. Longer expressions are broken at 100 columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from . import syntax as s
from .lexer import STRING
from .printer_expressions import ExpressionPrinter, quote
from .printer_lines import INDENT, LinePrinter, fill

_WIDTH = 100

_LINE_END = re.compile(rf"{STRING}|\n", re.DOTALL)

_LIKE_INVOCATION = re.compile(r"(?!(?:int|real|bool|str)\()[A-Za-z_]\w*\s*(?:<[\w\s,]*>\s*)?\(")
"""An expression that would be read as an invocation at the beginning of an action."""

_LATER_ASSIGNMENTS = {"<=": "<?=", ">=": ">?="}


def format_module(module: s.Module, dialect: str = "draft") -> str:
    """The text of a module in the `draft` or the `later` dialect (decision: the draft's)."""
    printer = _ModulePrinter(dialect)
    parts = [f"import {'.'.join(i.path)};\n" for i in module.imports]
    head = "".join(parts)
    body = "\n".join(printer.operator(o) for o in module.operators)
    return f"{head}\n{body}" if head and body else head + body


def format_expression(node: s.Expr, dialect: str = "draft") -> str:
    """The text of an expression."""
    return ExpressionPrinter(dialect)(node)


class _ModulePrinter:
    def __init__(self, dialect: str) -> None:
        self.expr = LinePrinter(dialect)
        self.room = _WIDTH - 2 * len(INDENT)
        self.later = dialect == "later"

    # ---------------------------------------------------------------- definitions

    def operator(self, op: s.Operator) -> str:
        kind = ("public " if op.public else "") + ("graph" if op.graph else "operator")
        lines = [f"{kind} {op.name} {{"]
        for block in op.blocks:
            statements = self._statements(op, block)
            lines.append(f"{INDENT}@{block} {{")
            lines += [_indent(statement, 2) for statement in statements]
            lines.append(f"{INDENT}}}")
        lines.append("}\n")
        return "\n".join(lines)

    def _statements(self, op: s.Operator, block: str) -> list[str]:
        match block:
            case "dtype":
                return [self._type_parameter(x) for x in op.dtypes]
            case "using":
                return [self._using(x) for x in op.using]
            case "assert":
                return [self._assertion(x) for x in op.asserts]
            case "lower":
                return [self._lowering(x) for x in op.lower]
            case "compose":
                return [self._component(x) for x in op.compose]
            case "update":
                return [self._component(x) for x in op.update]
            case "quantize":
                return [self._quantization(x) for x in op.quantize]
        fields = {"attrib": "attributes"}
        name = fields.get(block, f"{block}s")
        parameters: Sequence[s.Parameter] = getattr(op, name)
        return [self._parameter(x) for x in parameters]

    # --------------------------------------------------------------- declarations

    def _type_parameter(self, node: s.TypeParameter) -> str:
        default = f" = {node.default}" if node.default else ""
        return f"{node.name}: {node.base}{default};"

    def _parameter(self, node: s.Parameter) -> str:
        default = f" = {self.expr(node.default)}" if node.default is not None else ""
        bounds = "".join(f", {self._bound(b)}" for b in node.bounds)
        head = f"{node.name}: {self.type(node.type)}"
        text = f"{head}{default}{bounds};"
        if node.default is None or len(text) <= self.room:
            return text
        return f"{head} = {self._value(node.default, len(head) + 3, bounds + ';')}"

    def _value(self, node: s.Expr, before: int, after: str) -> str:
        """An expression behind `before` columns of its statement, with what ends its last line;
        what has many columns before it begins on a line of its own."""
        lead = ""
        if before > self.room // 2:
            lead, before = f"\n{INDENT}", len(INDENT)
        lines = self.expr.lines(node, self.room - before - min(len(after), self.room // 2))
        return lead + "\n".join(lines) + after

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
        return f"{left} = {self._value(node.value, len(left) + 3, ';')}"

    def _using_item(self, node: s.UsingName | s.UsingZip) -> str:
        if isinstance(node, s.UsingZip):
            return f"({', '.join(node.names)}).."
        return f"{node.name}{self._pack(node.pack)}"

    def _assertion(self, node: s.Assertion) -> str:
        if node.message is None:
            return self._value(node.condition, 0, ";")
        text = self.expr.before_colon(node.condition)
        if len(text) >= self.room and not text.endswith(")"):
            text = "\n".join(self.expr.lines(node.condition, self.room - 1))
        message = self.expr.lines(node.message, self.room - len(INDENT) - 1)
        items = [message[-1].strip(), *map(self._print, node.prints)]
        lines = [f"{INDENT}{line.strip()}" for line in message[:-1]]
        return "\n".join([f"{text}:", *lines, *fill(INDENT, items, ";", self.room)])

    def _print(self, node: s.Print) -> str:
        label = f"{quote(node.label)}: " if node.label else ""
        return label + self.expr(node.value)

    # -------------------------------------------------------------------- formulas

    def _lowering(self, node: s.Lowering) -> str:
        unroll = f"unroll{self._count(node.unroll)} " if node.unroll else ""
        op = _LATER_ASSIGNMENTS.get(node.op, node.op) if self.later else node.op
        target = f"{self.expr(node.target)} {op} "
        formula = target + self._value(node.value, len(target), "," if node.bounds else "")
        if self.later and node.locals:
            values = [f"{x.name} = {self.expr.before_colon(x.value)}" for x in node.locals]
            formula = "\n".join([*fill("with ", values, ":", self.room), formula])
        else:
            formula = "".join(self._local(x) for x in node.locals) + formula
        if node.bounds:
            bounds = [self._bound(b) for b in node.bounds]
            formula += "\n" + "\n".join(fill(INDENT, bounds, "", self.room - 1))
        if node.condition is not None:
            formula += self._condition(node.condition, len(formula.rpartition("\n")[2]))
        return f"{unroll}{formula};"

    def _condition(self, node: s.Expr, before: int) -> str:
        text = f" | {self.expr(node)}"
        if before + len(text) < self.room:
            return text
        lines = self.expr.lines(node, self.room - len(INDENT) - 3)
        return f"\n{INDENT}| " + f"\n{INDENT}".join(lines)

    def _local(self, node: s.LocalValue) -> str:
        return f"{node.name} = {self._value(node.value, len(node.name) + 3, ',')}\n"

    def _count(self, node: s.Count) -> str:
        index = f"{node.index} -> " if node.index else ""
        count = self.expr(node.count) if node.count is not None else ""
        return f"..({(index + count).rstrip()})"

    # ----------------------------------------------------------------- composition

    def _component(self, node: s.Component) -> str:
        results = ", ".join(self._result(r) for r in node.results)
        text = f"{results} = {self._action(node.action)};"
        if len(text) <= self.room or "\n" in text:
            return text
        if isinstance(node.action, s.Invocation):
            return "\n".join(self._long_invocation(f"{results} = ", node.action))
        return text

    def _long_invocation(self, head: str, node: s.Invocation) -> list[str]:
        """An invocation on several lines, broken between attributes or arguments."""
        arguments = [self.expr(a) for a in node.arguments]
        name = head + self._label(node.label) + ".".join(node.callee) + _types(node.types)
        if not node.attributes:
            return fill(f"{name}(", arguments, ");", self.room)
        lines = fill(f"{name}{{", self._given(node.attributes), "}", self.room)
        last = fill(f"{lines[-1]}(", arguments, ");", self.room)
        return [*lines[:-1], *last]

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
        given = ", ".join(self._given(attributes))
        return f"{'.'.join(callee)}{_types(types)}{f'{{{given}}}' if given else ''}"

    def _given(self, attributes: tuple[s.Argument, ...]) -> list[str]:
        return [f"{a.name}={self.expr(a.value)}" for a in attributes]

    def _block(self, node: s.Block) -> str:
        self.room -= len(INDENT)
        lines = [_indent(self._component(c)) for c in node.components]
        self.room += len(INDENT)
        lines.append(f"{INDENT}yield {self.expr.many(node.results)};")
        return "\n".join([f"{self._label(node.label)}{{", *lines, "}"])

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


def _indent(text: str, steps: int = 1) -> str:
    """Lines moved to the right; those that a string holds stay as they are."""
    step = INDENT * steps
    return step + _LINE_END.sub(lambda found: f"\n{step}" if found[0] == "\n" else found[0], text)


def _types(types: tuple[str, ...]) -> str:
    return f"<{', '.join(types)}>" if types else ""
