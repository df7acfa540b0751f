"""Prints the intermediate representation; `text_parse` reads it back.

Names that clash get suffixes (`x@2`) and names that are no plain words stand in back-ticks.
Spans and the stacks of operator calls are not printed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable

from ..dtypes import DType
from .nodes import (
    Access,
    Apply,
    Assignment,
    Binary,
    Branch,
    Cast,
    Check,
    Const,
    Expr,
    Graph,
    Index,
    Local,
    Loop,
    Operation,
    Port,
    Quantization,
    Region,
    Remap,
    Scalar,
    Select,
    Skip,
    Step,
    Subscript,
    Symbol,
    Tensor,
    Unary,
)
from .rewrite import walk

OPERATORS: dict[str, tuple[str, int]] = {
    "or": ("||", 1),
    "xor": ("^", 2),
    "and": ("&&", 3),
    "lt": ("<", 4), "le": ("<=", 4), "gt": (">", 4), "ge": (">=", 4), "eq": ("==", 4),
    "ne": ("!=", 4),
    "add": ("+", 5), "sub": ("-", 5),
    "mul": ("*", 6), "div": ("/", 6), "floordiv": ("/", 6), "ceildiv": ("\\", 6),
    "mod": ("%", 6),
    "pow": ("**", 8),
}  # fmt: skip
"""Symbol and precedence of the binary operators; `min` and `max` are written as calls."""

SELECT, COMPARE, SUM, PREFIX, POWER, ATOM = 0, 4, 5, 7, 8, 9

ASSIGN = {
    "set": "=", "add": "+=", "mul": "*=", "min": "min=", "max": "max=", "and": "&=",
    "or": "|=", "update": ":=",
}  # fmt: skip

RESERVED = frozenset({
    "graph", "symbol", "size", "input", "output", "variable", "constant", "check", "values",
    "update", "quantize", "if", "then", "else", "yield", "loop", "outputs", "collected", "with",
    "scan", "count", "tensor", "index", "pretest", "posttest", "body", "for", "optional", "true",
    "false", "inf", "nan", "min", "max",
    *(d.value for d in DType),
})  # fmt: skip

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*\Z")

Named = Tensor | Symbol | Index | Local


def quote_name(name: str) -> str:
    """A name as it stands in the text: plain, or in back-ticks with JSON's escapes."""
    if _WORD.match(name) and name not in RESERVED:
        return name
    return "`" + json.dumps(name)[1:-1].replace("`", "\\u0060") + "`"


class Names:
    """Gives every object a name of its own among those of the same scope and the scopes around."""

    def __init__(self, outer: Names | None = None) -> None:
        self._outer = outer
        self._of: dict[Named, str] = {}
        self._used: set[str] = set()

    def of(self, item: Named) -> str:
        """The name; one never seen before gets one."""
        scope: Names | None = self
        while scope is not None:
            found = scope._of.get(item)
            if found is not None:
                return found
            scope = scope._outer
        return self._new(item)

    def _new(self, item: Named) -> str:
        kind = "[]" if isinstance(item, Tensor) else ""
        name = plain = quote_name(item.name)
        count = 1
        while self._is_used(name + kind):
            count += 1
            name = f"{plain}@{count}"
        self._used.add(name + kind)
        self._of[item] = name
        return name

    def _is_used(self, name: str) -> bool:
        return name in self._used or (self._outer is not None and self._outer._is_used(name))


# ---------------------------------------------------------------- expressions


def format_expr(expr: Expr, names: Names | None = None) -> str:
    """An expression in the usual notation: `x[i, |j - 1|] * 2.0 + float32(n / 2)`.

    On integers `/` rounds down and `\\` up.
    """
    scope = Names() if names is None else names
    done: dict[int, tuple[str, int]] = {}
    for node in walk(expr):
        done[id(node)] = _format_node(node, done, scope)
    return done[id(expr)][0]


Done = dict[int, tuple[str, int]]


def _format_node(node: Expr, done: Done, names: Names) -> tuple[str, int]:
    """Text and precedence of a node whose parts are done."""
    match node:
        case Const():
            text = format_const(node)
            return text, PREFIX if text.startswith("-") else ATOM
        case Symbol() | Index() | Local():
            return names.of(node), ATOM
        case Binary(op="min" | "max"):
            return f"{node.op}({done[id(node.lhs)][0]}, {done[id(node.rhs)][0]})", ATOM
        case Binary():
            symbol, level = OPERATORS[node.op]
            left = level + 1 if level == COMPARE else level
            lhs, rhs = _inside(node.lhs, left, done), _inside(node.rhs, level + 1, done)
            return f"{lhs} {symbol} {rhs}", level
        case Unary():
            return _format_unary(node, done), PREFIX
        case Select():
            condition, then = (_inside(x, SELECT + 1, done) for x in (node.condition, node.then))
            return f"{condition} ? {then} : {_inside(node.otherwise, SELECT, done)}", SELECT
        case Cast():
            return f"{node.dtype}({done[id(node.operand)][0]})", ATOM
        case Apply():
            arguments = ", ".join(done[id(a)][0] for a in node.arguments)
            return f"{node.function}({arguments})", ATOM
        case Access():
            subscripts = ", ".join(_format_subscript(s, done) for s in node.subscripts)
            return f"{names.of(node.tensor)}[{subscripts}]", ATOM


def _inside(node: Expr, level: int, done: Done) -> str:
    text, own = done[id(node)]
    return text if own >= level else f"({text})"


def _format_unary(node: Unary, done: Done) -> str:
    """A minus before a literal would be read as part of it, hence `-(3)`."""
    operand = _inside(node.operand, PREFIX, done)
    if isinstance(node.operand, Const) and node.op == "neg":
        operand = f"({operand})"
    return ("-" if node.op == "neg" else "!") + operand


def _format_subscript(subscript: Subscript, done: Done) -> str:
    index = done[id(subscript.index)][0]
    match subscript.rule:
        case Skip():
            return f"|{index}|"
        case Remap(below, above):
            return f"|{index} <> {_inside(below, 1, done)} : {_inside(above, 1, done)}|"
        case None:
            return index


def format_const(const: Const) -> str:
    """A literal; its dtype follows (`3:int8`) unless the literal's form says it."""
    text = format_scalar(const.value, const.dtype)
    plain = {DType.INT: bool(re.match(r"-?\d+\Z", text)), DType.REAL: True, DType.BOOL: True}
    return text if plain.get(const.dtype, False) else f"{text}:{const.dtype}"


def format_scalar(value: Scalar, dtype: DType) -> str:
    """A value without its dtype: `3`, `3.0`, `inf`, `true`, `"text"`."""
    if isinstance(value, str):
        return json.dumps(value)
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype.is_real:
        return repr(float(value))
    return str(value) if isinstance(value, float) else str(int(value))


# ---------------------------------------------------------------- assignments


def format_assignment(assignment: Assignment, names: Names | None = None) -> str:
    """A statement: `y[i] += x[i, |k - 1|] * w[k]  for i < 8, k < 3  if k < i;`."""
    scope = Names(names)
    for index in assignment.domain:
        scope.of(index)
    for local in assignment.locals:
        scope.of(local)
    text = ", ".join(format_expr(t, scope) for t in assignment.targets)
    text += f" {ASSIGN[assignment.op]} "
    text += ", ".join(_above(SELECT, v, scope) for v in assignment.values)
    if assignment.domain:
        bounds = (f"{scope.of(i)} < {_above(SUM, i.extent, scope)}" for i in assignment.domain)
        text += f"  for {', '.join(bounds)}"
    if assignment.condition is not None:
        text += f"  if {format_expr(assignment.condition, scope)}"
    if assignment.locals:
        values = (f"{scope.of(x)} = {format_expr(x.value, scope)}" for x in assignment.locals)
        text = f"with {', '.join(values)}: {text}"
    return text + ";"


def _above(level: int, expr: Expr, names: Names) -> str:
    """An expression in parentheses unless it binds at least as tightly as `level`."""
    text = format_expr(expr, names)
    loose = isinstance(expr, Select) or (
        isinstance(expr, Binary) and OPERATORS.get(expr.op, ("", ATOM))[1] < level
    )
    return f"({text})" if loose and level > SELECT else text


# ---------------------------------------------------------------------- steps


class Printer:
    """Prints steps and graphs; declares each tensor where it is first met."""

    def __init__(self) -> None:
        self.names = Names()
        self._declared: set[Tensor] = set()

    def tensor(self, tensor: Tensor) -> str:
        """`name: dtype[shape]`, and once declared `name`."""
        name = self.names.of(tensor)
        if tensor in self._declared:
            return name
        self._declared.add(tensor)
        shape = ", ".join(format_expr(extent, self.names) for extent in tensor.shape)
        return f"{name}: {tensor.dtype}[{shape}]"

    def tensors(self, tensors: Iterable[Tensor]) -> str:
        return ", ".join(self.tensor(t) for t in tensors)

    def step(self, step: Step) -> list[str]:
        match step:
            case Operation():
                return self._operation(step)
            case Branch():
                return self._branch(step)
            case Loop():
                return self._loop(step)

    def _operation(self, operation: Operation) -> list[str]:
        inputs = self.tensors(operation.inputs)
        outputs = self.tensors(operation.outputs)
        attributes = ", ".join(
            f"{quote_name(k)} = {json.dumps(v)}" for k, v in operation.attributes
        )
        braces = f"{{{attributes}}}" if attributes else ""
        body = [format_assignment(a, self.names) for a in operation.body]
        head = f"{outputs} = {quote_name(operation.name)}{braces}({inputs}) {{"
        return [head, *_indent(body), "}"]

    def _branch(self, branch: Branch) -> list[str]:
        lines = [f"if outputs {self.tensors(branch.outputs)} {{"]
        for condition, result in zip(branch.conditions, branch.branches[:-1], strict=True):
            lines += _indent(self._region("if", condition) + self._region("then", result))
        return [*lines, *_indent(self._region("else", branch.branches[-1])), "}"]

    def _region(self, word: str, region: Region) -> list[str]:
        steps = [line for step in region.operations for line in self.step(step)]
        return [f"{word} {{", *_indent([*steps, f"yield {self.tensors(region.results)};"]), "}"]

    def _loop(self, loop: Loop) -> list[str]:
        lines = []
        for variable, start in zip(loop.variables, loop.initial, strict=True):
            first = self.tensor(start)
            lines.append(f"with {self.tensor(variable)} = {first};")
        for item, pack in loop.scans:
            items = self.tensors(pack)
            lines.append(f"scan {self.tensor(item)} = [{items}];")
        if isinstance(loop.count, Tensor):
            lines.append(f"count tensor {self.tensor(loop.count)};")
        elif loop.count is not None:
            lines.append(f"count {format_expr(loop.count, self.names)};")
        if loop.index is not None:
            lines.append(f"index {self.tensor(loop.index)};")
        if loop.condition is not None:
            lines += self._region("pretest" if loop.pretest else "posttest", loop.condition)
        lines += self._region("body", loop.body)
        lines += [f"outputs {self.tensors(loop.outputs)};"] if loop.outputs else []
        lines += [f"collected [{self.tensors(pack)}];" for pack in loop.collected]
        lines += [f"steps {self.tensor(loop.steps)};"] if loop.steps is not None else []
        return ["loop {", *_indent(lines), "}"]

    # ----------------------------------------------------------------- graphs

    def graph(self, graph: Graph) -> list[str]:
        for symbol in (*graph.symbols, *(s for s, _ in graph.sizes)):
            self.names.of(symbol)
        lines = [self._symbol("symbol", s) for s in graph.symbols]
        lines += [self._symbol("size", s) for s, _ in graph.sizes]
        lines += [self._port("input", p) for p in graph.inputs]
        lines += [line for t in graph.variables for line in self._data("variable", t)]
        lines += [line for t in graph.constants for line in self._data("constant", t)]
        lines += [self._check(c) for c in graph.checks]
        lines += [line for step in graph.operations for line in self.step(step)]
        lines += [self._port("output", p) for p in graph.outputs]
        lines += [f"size {self.names.of(s)} = {self.tensor(t)};" for s, t in graph.sizes]
        lines += [f"update {self.tensor(a)} = {self.tensor(b)};" for a, b in graph.updates]
        lines += map(self._quantization, graph.quantization)
        return [f"graph {quote_name(graph.name)} {{", *_indent(lines), "}"]

    def _symbol(self, word: str, symbol: Symbol) -> str:
        bound = "" if symbol.bound is None else f" <= {format_expr(symbol.bound, self.names)}"
        return f"{word} {self.names.of(symbol)}{bound};"

    def _port(self, word: str, port: Port) -> str:
        optional = "optional " if port.optional else ""
        tensors = self.tensors(port.tensors)
        tensors = f"[{tensors}]" if port.packed else tensors
        length = "" if port.length is None else f" length {self.tensor(port.length)}"
        return f"{word} {optional}{quote_name(port.name)} = {tensors}{length};"

    def _data(self, word: str, tensor: Tensor) -> list[str]:
        head = f"{word} {self.tensor(tensor)}"
        if not isinstance(tensor.data, tuple):
            value = "" if tensor.data is None else f" = {format_scalar(tensor.data, tensor.dtype)}"
            return [f"{head}{value};"]
        items = ", ".join(format_scalar(x, tensor.dtype) for x in tensor.data)
        if len(items) + len(head) < 90:
            return [f"{head} = {{{items}}};"]
        if tensor.dtype is DType.STR:
            return [f"{head} = {{", f"  {items}", "};"]
        return [f"{head} = {{", *_indent(textwrap.wrap(items, 94, break_on_hyphens=False)), "};"]

    def _check(self, check: Check) -> str:
        message = ", ".join(self._part(p) for p in check.message)
        values = ", ".join(f"{json.dumps(k)} = {self._part(v)}" for k, v in check.values)
        text = f"check {format_expr(check.condition, self.names)}"
        text += f" : {message}" if message else ""
        return text + (f" values {values};" if values else ";")

    def _part(self, part: str | Expr | tuple[Expr, ...]) -> str:
        if isinstance(part, str):
            return json.dumps(part)
        if isinstance(part, tuple):
            return f"[{', '.join(format_expr(e, self.names) for e in part)}]"
        return format_expr(part, self.names)

    def _quantization(self, entry: Quantization) -> str:
        items = ", ".join(f"{quote_name(k)} = {json.dumps(v)}" for k, v in entry.attributes)
        operator = quote_name(entry.operator) + (f"{{{items}}}" if items else "")
        return f"quantize {quote_name(entry.name)} = {operator}({self.tensor(entry.tensor)});"


def _indent(lines: Iterable[str]) -> list[str]:
    return ["  " + line for line in lines]


def format_step(step: Step) -> str:
    """An operation, branch or loop as text."""
    return "\n".join(Printer().step(step))


def format_graph(graph: Graph) -> str:
    """The whole graph as text that `parse_graph` reads; ends with a newline."""
    return "\n".join(Printer().graph(graph)) + "\n"
