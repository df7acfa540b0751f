"""Expressions of the IR as syntax trees: the names of the text for what has identity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ...diagnostics import Error, error
from ...dtypes import DType
from ...ir import nodes
from ...records import replace
from . import syntax as s
from .lexer import KEYWORDS
from .parser import FIELDS
from .parser_primaries import BUILTINS
from .unparse_functions import formula

Named = nodes.Index | nodes.Local | nodes.Symbol | nodes.Tensor
Names = Mapping[Named, s.Expr]
"""What stands for an index, a local, a size, or a tensor."""

_BINARY: dict[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "/", "ceildiv": "\\", "mod": "%",
    "pow": "**", "min": "<<", "max": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&&", "or": "||", "xor": "^",
}  # fmt: skip


def unparse(expr: nodes.Expr, names: Names) -> s.Expr:
    """The tree of an expression. Raises E0706 for one that the language has no words for."""
    match expr:
        case nodes.Const():
            return constant(expr.value, expr.dtype)
        case nodes.Symbol() | nodes.Index() | nodes.Local():
            return _named(expr, names)
        case nodes.Unary():
            return s.Unary("-" if expr.op == "neg" else "!", unparse(expr.operand, names))
        case nodes.Binary():
            return s.Binary(_BINARY[expr.op], unparse(expr.lhs, names), unparse(expr.rhs, names))
        case nodes.Select():
            parts = (expr.condition, expr.then, expr.otherwise)
            return s.Select(*[unparse(part, names) for part in parts])
        case nodes.Cast():
            return s.Cast(type_name(expr.dtype), unparse(expr.operand, names))
        case nodes.Apply():
            return _applied(expr, names)
        case nodes.Access():
            subscripts = tuple([_subscript(x, names) for x in expr.subscripts])
            return s.Access(_named(expr.tensor, names), subscripts)


def _applied(node: nodes.Apply, names: Names) -> s.Expr:
    if node.function in BUILTINS:
        return s.Builtin(node.function, unparse(node.arguments[0], names))
    found = formula(node)
    if found is None:
        raise unsayable(f"the function `{node.function}`")
    return unparse(found, names)


def _named(node: Named, names: Names) -> s.Expr:
    found = names.get(node)
    if found is None and isinstance(node, nodes.Symbol):
        raise unsayable(f"the size `{node.name}`, which data defines")
    if found is None:
        raise unsayable(f"`{node.name}`, which has no name at this place")
    return found


def _subscript(subscript: nodes.Subscript, names: Names) -> s.Expr:
    index = unparse(subscript.index, names)
    match subscript.rule:
        case nodes.Skip():
            return s.Bounded(index, None, None)
        case nodes.Remap(below=below, above=above):
            return s.Bounded(index, unparse(below, names), unparse(above, names))
        case _:
            return index


def constant(value: nodes.Scalar, dtype: DType) -> s.Expr:
    """A value as an expression without names."""
    if isinstance(value, bool | str):
        return s.Literal(value, "" if isinstance(value, bool) else value)
    if math.isnan(value):  # there is no word for it
        return s.Binary("-", s.Literal(math.inf, "inf"), s.Literal(math.inf, "inf"))
    if math.isinf(value):
        infinity = _negative(value, s.Literal(math.inf, "inf"))
        return s.Cast("int", infinity) if dtype.is_int else infinity
    if dtype.is_int and int(value) == -(1 << 63):  # the number without its sign has no room
        return s.Binary("-", constant(int(value) + 1, dtype), integer(1))
    number = abs(int(value)) if dtype.is_int else abs(float(value))
    return _negative(value, s.Literal(number, repr(number)))


def _negative(value: float, literal: s.Literal) -> s.Expr:
    return s.Unary("-", literal) if math.copysign(1.0, value) < 0 and value != 0 else literal


def integer(value: int) -> s.Literal:
    return s.Literal(value, str(value))


def type_name(dtype: DType) -> str:
    """The type of the language. Raises E0706 for one that it has not."""
    if dtype in (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64):
        raise unsayable(f"numbers of type `{dtype}`")
    return "real" if dtype.is_real else "int" if dtype.is_int else dtype.value


def unsayable(what: str) -> Error:
    """The error for what a graph can hold and a text cannot."""
    return error("E0706", f"SkriptND has no words for {what}")


def with_blocks(operator: s.Operator) -> s.Operator:
    """The operator with all blocks that have statements, in the order of the specification."""
    present = [block for block, field in FIELDS.items() if getattr(operator, field)]
    return replace(operator, blocks=tuple(block.removeprefix("@") for block in present))


# -------------------------------------------------------------------------- names


class Namer:
    """Gives names that are words of the language, each to one thing."""

    def __init__(self, taken: Iterable[str] = (), words: bool = True) -> None:
        """Names that are `taken` are not given, nor, where they would be read as `words` of an
        expression, those of built-in functions."""
        self.taken = {*KEYWORDS, *taken, *(BUILTINS if words else ())}

    def __call__(self, wanted: str) -> str:
        """The name that is wanted, or the nearest one that is free."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in wanted)
        plain = plain.strip("_") or "t"
        if plain[0].isdigit():
            plain = f"t{plain}"
        name, count = plain, 1
        while name in self.taken:
            count += 1
            name = f"{plain}_{count}"
        self.taken.add(name)
        return name
