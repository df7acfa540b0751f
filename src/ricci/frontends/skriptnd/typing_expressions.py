"""The types of expressions: one rule for each form of 2.4.

Optional operands make a result optional except under `??` and `?`; packs work item by
item and must have lengths that do not clash; nothing is promoted from one type to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ...diagnostics import Label
from ...records import replace
from . import syntax as s
from . import typing_functions as functions
from . import typing_packs as packs
from .scope import Scope
from .types import BOOL, CONCRETE, INT, REAL, STR, UNKNOWN, Type
from .typing_access import report_whole_operand, report_whole_tensor
from .typing_context import Context, Rule, either

_OPERANDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("-", "*", "/", "\\", "%", "**", "<<", ">>"), ("int", "real")),
    "+": ("int", "real", "str"),
    **dict.fromkeys(("&&", "||", "^", "=>"), ("bool",)),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), CONCRETE),
}
"""The types of operands that each binary operator takes."""

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


def new_context(scope: Scope, generics: Mapping[str, str]) -> Context:
    """A context of compile-time expressions."""
    return Context(scope, generics, RULES)


# ------------------------------------------------------------------ leaves


def _literal(ctx: Context, expr: s.Expr) -> Type:
    value = cast(s.Literal, expr).value
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT
    return REAL if isinstance(value, float) else STR


def _name(ctx: Context, expr: s.Expr) -> Type:
    name = cast(s.Name, expr).name
    found = ctx.scope.lookup(name, expr.span, ctx.hint)
    if found is None:
        return UNKNOWN
    if found.kind == "type":
        help = f"its default value is `{name}()`"
        ctx.report.error("E0301", f"`{name}` is a type, not a value", expr.span, help=help)
        return UNKNOWN
    if not found.assigned:
        ctx.report.error(
            "E0206",
            f"{found.kind} `{name}` is used before it is computed",
            expr.span,
            labels=[Label(found.span, "declared here")],
        )
        return found.type
    if found.is_tensor and not ctx.tensors:
        report_whole_tensor(ctx, expr, found)
        return UNKNOWN
    return found.type


def _member(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Member, expr)
    found = ctx.scope.lookup(node.name, expr.span)
    if found is None:
        return UNKNOWN if node.member == "shape" else INT
    type = found.type
    wrong = not type.tensor or type.packed != (node.member == "size")
    if wrong and not type.unknown:
        ctx.report.error(
            "E0305",
            f"`{node.name}` has no `.{node.member}`",
            expr.span,
            str(type),
            help=_member_help(type, node.name),
        )
    if node.member == "shape":
        return replace(INT, optional=type.optional, packed=True, length=type.rank)
    return INT.with_optional(type.optional)


def _member_help(type: Type, name: str) -> str:
    if not type.tensor:
        return f"name its length where it is declared, as in `{name}: {type.name}..(n)`"
    if type.packed:
        return "a pack of tensors has `.size`; shape and rank belong to single tensors"
    return "a single tensor has `.shape` and `.rank`"


def _format(ctx: Context, expr: s.Expr) -> Type:
    parts = [p for p in cast(s.Format, expr).parts if not isinstance(p, str)]
    inner = ctx.compile_time()
    types = [inner.type_of(p) for p in parts]
    return STR.with_optional(any(t.optional for t in types))


# --------------------------------------------------------------- operators


def _result(name: Type, types: list[Type]) -> Type:
    """An element type with the packing and optionality of its operands."""
    length = next((t.length for t in types if t.packed and t.length is not None), None)
    return Type(
        name.name,
        name.base,
        optional=any(t.optional for t in types),
        packed=any(t.packed for t in types),
        length=length,
    )


def _unary(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Unary, expr)
    type = ctx.type_of(node.operand)
    if report_whole_operand(ctx, node.operand, node.op, type):
        return UNKNOWN
    wanted = ("bool",) if node.op == "!" else ("int", "real")
    if not type.is_any(*wanted):
        kind = "a `bool`" if node.op == "!" else "a number"
        help = f"write `{node.operand.span.text} == 0`" if type.is_any("int") else ""
        return ctx.mismatch(node.operand.span, f"operator `{node.op}` needs {kind}", type, help)
    return type


def _binary(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Binary, expr)
    if node.op == "is":
        return _is(ctx, node)
    if node.op == "in":
        return _in(ctx, node)
    lhs, rhs = (node.lhs, ctx.type_of(node.lhs)), (node.rhs, ctx.type_of(node.rhs))
    if any(report_whole_operand(ctx, e, node.op, t) for e, t in (lhs, rhs)):
        return UNKNOWN
    common = _operands(ctx, node.op, lhs, rhs)
    ctx.expect_lengths((lhs, rhs), f"`{node.op}`")
    return _result(BOOL if node.op in _COMPARISONS else common, [lhs[1], rhs[1]])


def _operands(ctx: Context, op: str, lhs: tuple[s.Expr, Type], rhs: tuple[s.Expr, Type]) -> Type:
    """The common type of two operands, which must suit the operator."""
    for expr, type in (lhs, rhs):
        if not type.is_any(*_OPERANDS[op]):
            message = f"operator `{op}` needs operands of type {either(_OPERANDS[op])}"
            return ctx.mismatch(expr.span, message, type, _operand_help(op, type))
    return ctx.expect_same(lhs, rhs, f"operands of `{op}` have different types")


def _operand_help(op: str, type: Type) -> str:
    if type.base and op not in ("&&", "||", "^", "=>"):
        return f"`{type.name}` is declared as `{type.base}`; declare it as `num` in @dtype"
    if type.name == "bool" and op in ("+", "*"):
        return f"truth values are combined with `{'||' if op == '+' else '&&'}`"
    return ""


def _is(ctx: Context, node: s.Binary) -> Type:
    inner = ctx.allow_tensors()
    lhs, rhs = (node.lhs, inner.type_of(node.lhs)), (node.rhs, inner.type_of(node.rhs))
    ctx.expect_same(lhs, rhs, "operands of `is` have different types")
    ctx.expect_lengths((lhs, rhs), "`is`")
    return _result(BOOL, [lhs[1], rhs[1]])


def _in(ctx: Context, node: s.Binary) -> Type:
    item, pack = ctx.type_of(node.lhs), ctx.type_of(node.rhs)
    if not pack.packed and not pack.unknown:
        ctx.report.error("E0302", "the right side of `in` must be a pack", node.rhs.span, str(pack))
    ctx.expect_same((node.lhs, item), (node.rhs, pack), "operands of `in` have different types")
    optional = item.optional or pack.optional
    return replace(BOOL, packed=item.packed, length=item.length, optional=optional)


def tested_names(condition: s.Expr) -> Iterator[str]:
    """Names that are not null where a condition holds: `?x` among the terms of `&&`."""
    if isinstance(condition, s.NullTest):
        yield condition.name
    elif isinstance(condition, s.Binary) and condition.op == "&&":
        yield from tested_names(condition.lhs)
        yield from tested_names(condition.rhs)


def _select(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Select, expr)
    condition = ctx.expect_bool(node.condition, "the condition of `?:`", packed=True)
    inner = ctx.within(ctx.scope.narrow(tested_names(node.condition)))
    then = (node.then, inner.type_of(node.then))
    if node.otherwise is None:
        return _select_one(ctx, node, condition, then[1])
    other = (node.otherwise, ctx.type_of(node.otherwise))
    common = ctx.expect_same(then, other, "the two sides of `?:` have different types")
    parts = [(node.condition, condition), then, other]
    if condition.packed:
        ctx.expect_lengths(parts, "`?:`")
        result = _result(common, [t for _, t in parts])
    else:
        result = _result(common, [condition, then[1], other[1]])
        same = then[1].packed and other[1].packed and then[1].length == other[1].length
        result = replace(result, length=then[1].length if same else None)
    return replace(result, tensor=then[1].tensor or other[1].tensor)


def _select_one(ctx: Context, node: s.Select, condition: Type, then: Type) -> Type:
    if condition.packed:
        ctx.report.error(
            "E0302",
            "a pack of conditions needs a value for both outcomes",
            node.condition.span,
            str(condition),
            help="write `c ? x : y`; a pack is null as a whole, not item by item",
        )
    return then.with_optional(True)


def _coalesce(ctx: Context, expr: s.Expr) -> Type:
    node = cast(s.Coalesce, expr)
    value, fallback = ctx.type_of(node.value), ctx.type_of(node.fallback)
    if not value.optional and not value.unknown:
        ctx.report.error(
            "E0304",
            "the left side of `??` can never be null",
            node.value.span,
            str(value),
            labels=[Label(node.fallback.span, "never used")],
            help=f"write `{node.value.span.text}` alone, or declare it `optional`",
        )
    if fallback.optional:
        ctx.report.error(
            "E0304",
            "the right side of `??` may be null",
            node.fallback.span,
            str(fallback),
            help="let a value that is never null come last",
        )
    sides = (node.value, value), (node.fallback, fallback)
    common = ctx.expect_same(*sides, "the two sides of `??` have different types")
    if value.packed != fallback.packed and not (value.unknown or fallback.unknown):
        _report_packing(ctx, *sides)
    same = value.length == fallback.length
    tensor = value.tensor or fallback.tensor
    return Type(
        common.name,
        common.base,
        packed=fallback.packed,
        length=fallback.length if same else None,
        tensor=tensor,
        rank=value.rank if fallback.tensor == value.tensor else None,
    )


def _report_packing(ctx: Context, a: tuple[s.Expr, Type], b: tuple[s.Expr, Type]) -> None:
    help = ""
    if a[1].packed:
        help = f"repeat the value, as in `[{b[0].span.text} ..(n)]`"
    ctx.report.error(
        "E0302",
        "`??` has a pack on one side and a single value on the other",
        b[0].span,
        str(b[1]),
        labels=[Label(a[0].span, str(a[1]))],
        help=help,
    )


def _null_test(ctx: Context, expr: s.Expr) -> Type:
    name = cast(s.NullTest, expr).name
    found = ctx.scope.lookup(name, expr.span)
    if found is not None and not found.type.optional and not found.type.unknown:
        ctx.report.error(
            "E0304",
            f"{found.kind} `{name}` can never be null",
            expr.span,
            str(found.type),
            labels=[Label(found.span, "declared here")],
        )
    return BOOL


RULES: Mapping[type[s.Node], Rule] = {
    s.Literal: _literal,
    s.Format: _format,
    s.Name: _name,
    s.Member: _member,
    s.Unary: _unary,
    s.Binary: _binary,
    s.Select: _select,
    s.Coalesce: _coalesce,
    s.NullTest: _null_test,
    **functions.RULES,
    **packs.RULES,
}
