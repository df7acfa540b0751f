"""A tree as text: with `format_source`, the way back from a tree."""

from __future__ import annotations

from collections.abc import Sequence

from ...source import Source
from . import syntax as s
from .format import format_source
from .parser_index import INDEX_LEVELS
from .parser_values import NOT_LEVEL, SIGN_LEVEL, VALUE_LEVELS

__all__ = ["format_source"]


def print_file(file: s.File) -> str:
    """The text of a tree, which gives an equal tree. Raises `Error` if no text can: for a name
    that is none, or what nests too deeply."""
    call = [] if file.call is None else [print_call(file.call)]
    outputs = ", ".join(i.name for i in file.outputs)
    sections = [
        [print_statement(statement) for statement in file.statements],
        call,
        [outputs] if outputs else [],
        [print_constraint(constraint) for constraint in file.constraints],
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return format_source(Source("<printed>", text))


def print_statement(node: s.Statement) -> str:
    return f"{print_value(node.target)} {node.operator} {print_value(node.value)}"


# --------------------------------------------------------------- index expressions


def print_index(node: s.IndexExpr, lowest: int = 0) -> str:
    """An index expression, in parentheses if it binds less tightly than `lowest`."""
    match node:
        case s.Eintup():
            return node.name
        case s.Whole():
            return str(node.value)
        case s.Dims():
            return f"DIMS({_indices(node.items)})"
        case s.Rank():
            return f"RANK({_indices(node.items)})"
        case s.Flat():
            return f"FLAT({_indices(node.items)})"
        case s.Slice():
            return f"{node.array.name}[{_indices(node.items)}]"
        case s.IndexBinary():
            level = INDEX_LEVELS[node.operator]
            lhs, rhs = print_index(node.lhs, level), print_index(node.rhs, level + 1)
            return _grouped(f"{lhs} {node.operator} {rhs}", level, lowest)


def _indices(items: Sequence[s.IndexExpr | None]) -> str:
    return ", ".join(":" if item is None else print_index(item) for item in items)


def _grouped(text: str, level: int, lowest: int) -> str:
    return text if level >= lowest else f"({text})"


# -------------------------------------------------------------------------- values


def print_value(node: s.Value, lowest: int = 0) -> str:
    """A value, in parentheses if it binds less tightly than `lowest`."""
    match node:
        case s.Number():
            return node.text
        case s.Access():
            return f"{node.array.name}[{_indices(node.items)}]"
        case s.DimsAt():
            return f"{print_index(node.dims)}[{node.at.name}]"
        case s.Rank():
            return print_index(node)
        case s.Range():
            return f"RANGE[{node.of.name}, {node.at.name}]"
        case s.Random():
            return f"RANDOM({print_value(node.low)}, {print_value(node.high)}, {node.kind})"
        case s.Apply():
            return f"{node.function.name}({', '.join(map(print_value, node.arguments))})"
        case s.Unary(operator="not"):
            text = f"not {print_value(node.operand, NOT_LEVEL)}"
            return _grouped(text, NOT_LEVEL, lowest)
        case s.Unary():
            return f"-{print_value(node.operand, SIGN_LEVEL)}"
        case s.Binary():
            return _print_binary(node, lowest)


def _print_binary(node: s.Binary, lowest: int) -> str:
    level = VALUE_LEVELS[node.operator]
    chains = level < NOT_LEVEL or level > NOT_LEVEL + 1  # comparisons do not
    lhs, rhs = print_value(node.lhs, level + (not chains)), print_value(node.rhs, level + 1)
    return _grouped(f"{lhs} {node.operator} {rhs}", level, lowest)


# --------------------------------------------------------------------- constraints


def print_constraint(node: s.Constraint) -> str:
    if isinstance(node, s.Membership):
        return f"{print_term(node.term)} IN [{print_term(node.low)}, {print_term(node.high)}]"
    if node.relations == ("==",):
        return " = ".join(map(print_term, node.terms))
    text = print_term(node.terms[0])
    for relation, term in zip(node.relations, node.terms[1:], strict=True):
        text += f" {relation} {print_term(term)}"
    return text


def print_term(node: s.Term, lowest: int = 0) -> str:
    """A term, in parentheses if it binds less tightly than `lowest`."""
    match node:
        case s.DimOf():
            return f"{print_index(node.dims)}[{node.at}]"
        case s.Smallest():
            return f"{node.function}({', '.join(map(print_term, node.arguments))})"
        case s.TermBinary():
            level = INDEX_LEVELS[node.operator]
            lhs, rhs = print_term(node.lhs, level), print_term(node.rhs, level + 1)
            return _grouped(f"{lhs} {node.operator} {rhs}", level, lowest)
        case _:
            return print_index(node)


# ---------------------------------------------------------------------------- call


def print_call(node: s.Call) -> str:
    arguments = [
        print_argument(value) if name is None else f"{name.name}={print_argument(value)}"
        for name, value in node.arguments
    ]
    return f"{'.'.join(node.function.parts)}({', '.join(arguments)})"


def print_argument(node: s.Argument) -> str:
    match node:
        case s.Identifier():
            return node.name
        case s.QualifiedName():
            return ".".join(node.parts)
        case s.Dims() | s.Rank():
            return print_index(node)
        case s.TensorOf():
            return f"TENSOR({print_argument(node.value)})"
        case s.Item():
            return f"{print_argument(node.value)}[{node.at}]"
        case s.Call():
            return print_call(node)
        case s.Constant():
            bare = node.value is None or isinstance(node.value, bool | list | tuple)
            text = _print_constant(node.value)
            return text if bare else f"L({text})"


def _print_constant(value: object) -> str:
    """As Python writes it, save for the quotes and escapes of strings."""
    if isinstance(value, list):
        return f"[{', '.join(map(_print_constant, value))}]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_print_constant, value))}{comma})"
    if isinstance(value, str):
        return "'" + "".join(_ESCAPED.get(char, char) for char in value) + "'"
    return repr(value)


_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
